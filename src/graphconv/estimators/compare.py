"""compare(): a graph enters, what GCNs and other methods make of it on the same splits leaves.

Runs are written to a JSON-lines file as they finish, so that an interrupted comparison goes on
from there. Methods run one after the other, which makes their times comparable.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from graphconv.estimators.baselines import BASELINES, make_estimator
from graphconv.estimators.verdict import Comparison, rank_methods
from graphconv.graph import Graph
from graphconv.io.named_splits import split_by_name
from graphconv.io.progress import Progress, silent
from graphconv.io.split_values import KINDS, SplitValues
from graphconv.io.wording import did_you_mean, naming
from graphconv.models.settings import SEARCHES

if TYPE_CHECKING:
    from graphconv.estimators.runs import Record, RunLog, Series


# Of the nodes, in each division by time.
LEFT_OUT = 0.2


@dataclass(frozen=True)
class Method:
    """How a method is run.

    Parameters
    ----------
    preset : str
        Of a GCN; empty for a baseline, which runs with its own defaults.
    rule : str
        Propagation rule of a GCN, where it is not the preset's.
    model : str
        The network, where it is not a GCN.
    cost : float
        A guess at how long it takes, a GCN being 1: for the time left.
    """

    preset: str = ""
    rule: str = ""
    model: str = ""
    cost: float = 1.0

    @property
    def is_fast(self) -> bool:
        """Whether it is tried unless the user says otherwise."""
        return self.cost <= 20


# From the simplest to the most involved: of equals, the one that stands first is recommended.
METHODS: dict[str, Method] = {
    "label-propagation": Method(cost=0.1),
    "sgc": Method(cost=0.2),
    "mlp": Method(),
    "manifold": Method(),
    "boosted-trees": Method(cost=2),
    "ica": Method(),
    "gcn": Method("robust"),
    "appnp": Method("robust", model="appnp"),
    "gcn-single-parameter": Method("robust", "single-parameter"),
    "gcn-first-order-only": Method("robust", "first-order-only"),
    "gcn-first-order": Method("robust", "first-order"),
    "gcn-chebyshev": Method("robust", "chebyshev", cost=2),
    "committee": Method(cost=3),
    "auto": Method("auto", cost=20),
    "deepwalk": Method(cost=30),
    "semi-embedding": Method(cost=30),
    "planetoid-i": Method(cost=50),
    "planetoid-t": Method(cost=50),
}
assert set(BASELINES) < set(METHODS)


def choose_methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """Names of methods, the simplest first: those given, "all", or by default the fast ones."""
    if not names:
        return tuple(name for name, method in METHODS.items() if method.is_fast)
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    if "all" in wanted:
        return tuple(METHODS)
    for name in wanted:
        if name not in METHODS:
            hint = did_you_mean(name, METHODS)
            known = ", ".join(METHODS)
            message = "{methods} must be among {}, or all; got {!r}{}"
            raise ValueError(naming(message, known, name, hint))
    return tuple(name for name in METHODS if name in wanted)


def compare(
    graph: Graph,
    methods: Sequence[str] | None = None,
    *,
    n_splits: int = 10,
    split: str = "fraction",
    split_values: SplitValues | None = None,
    random_state: int = 0,
    log_path: Path | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare methods on repeated random splits of a graph's labelled nodes.

    Parameters
    ----------
    graph : Graph
        Its own split, if it has one, is not used.
    methods : sequence of str, optional
        Names from METHODS, or "all". Default: those that are fast.
    n_splits : int
        The same splits for every method.
    split : str
        "fraction" (60 % training, 20 % validation, 20 % test), "fraction:TRAIN,VALIDATION,TEST" or
        "random" (20 per class, 500 validation, 1000 test). With `split_values`, "group:COLUMN" (no
        group is in two parts) or "time:COLUMN" (the past trains; so that divisions differ, each
        leaves a random fifth of the nodes out).
    split_values : SplitValues, optional
        Of that column, as `LoadedGraph.split_values` has them.
    random_state : int
        Split k is drawn, and models on it started, with the seed random_state + k.
    log_path : Path, optional
        JSON-lines file of finished runs; what it holds already is not run again.
    progress : callable, optional
        Told how far it is, see `graphconv.io.progress`.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.compare import compare
    >>> found = compare(load_dataset("karate"), ["gcn", "label-propagation"], n_splits=3)
    >>> sorted(result.method for result in found.results)
    ['gcn', 'label-propagation']
    """
    chosen = choose_methods(methods)
    if n_splits < 1:
        raise ValueError(naming("{n_splits} must be at least 1, got {}", n_splits))
    if not 0 <= random_state < 2**32:
        message = "{random_state} must be from 0 to 2^32 - 1, got {}"
        raise ValueError(naming(message, random_state))
    if split.partition(":")[0] not in ("fraction", "random", *KINDS):
        message = (
            "{split} must be fraction, fraction:TRAIN,..., random, time:COLUMN or group:COLUMN, "
            "got {!r}"
        )
        raise ValueError(naming(message, split))
    first = _check_split(_divided(graph, split, random_state, split_values))
    from graphconv.estimators.runs import RunLog

    seeds = tuple(range(random_state, random_state + n_splits))
    wanted = [_series(graph, name, split, seeds, split_values) for name in chosen]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl" if log_path is None else log_path
        with RunLog(path) as log:
            failed = _run(wanted, graph, split_values, log, progress)
            return _conclude(graph, first, wanted, log, failed)


def _check_split(graph: Graph) -> Graph:
    if len(graph.test_index) == 0:
        raise ValueError(
            f"labelled nodes must be enough to set some aside for tests, got "
            f"{int(graph.is_labelled.sum())}"
        )
    return graph


def _divided(graph: Graph, split: str, seed: int, values: SplitValues | None) -> Graph:
    """The division of a seed; those by time would all be the same."""
    if values is not None and values.kind == "time":
        values = values.without_some(LEFT_OUT, seed)
    return split_by_name(graph, split, seed, values)[0]


def _series(
    graph: Graph, name: str, split: str, seeds: tuple[int, ...], values: SplitValues | None
) -> Series:
    from graphconv.estimators.runs import Series

    method = METHODS[name]
    settings = {
        "data": graph.fingerprint(),
        "split": split,
        "method": name,
        "preset": method.preset,
        "rule": method.rule,
    }
    if values is not None:
        settings["split_values"] = values.digest()
    return Series("compare", graph.name, name, run_on_splits, settings, seeds, cost=method.cost)


def run_on_splits(series: Series, graph: Graph, values: SplitValues | None = None) -> list[Record]:
    """Train a method on the split of each seed."""
    from graphconv.estimators.scoring import run_record
    from graphconv.training.fit import fit_gcn

    method = METHODS[series.method]
    overrides = {"propagation": method.rule} if method.rule else {}
    overrides |= {"model": method.model} if method.model else {}
    records = []
    for seed in series.seeds:
        part = _divided(graph, series.settings["split"], seed, values)
        started = perf_counter()
        epochs: int | None
        if method.preset in SEARCHES:
            from graphconv.estimators.choice import Search

            search = Search(part, method.preset, seed=seed)
            search.run()
            chosen = search.conclude().fit([seed])
            probabilities, epochs = chosen.probabilities().mean(axis=1), None
        elif method.preset:
            fitted = fit_gcn(part, preset=method.preset, overrides=overrides, seeds=[seed])
            probabilities, epochs = fitted.probabilities().mean(axis=1), fitted.n_epochs
        else:
            estimator = make_estimator(series.method, random_state=seed).fit(part)
            probabilities, epochs = estimator.predict_proba(), getattr(estimator, "n_iter_", None)
        records.append(run_record(part, probabilities, seed, epochs, perf_counter() - started))
    return records


def _run(
    wanted: list[Series],
    graph: Graph,
    values: SplitValues | None,
    log: RunLog,
    progress: Progress,
) -> dict[str, str]:
    """Do all runs that are not in the log; for each method that failed, why."""
    from graphconv.estimators.runs import count_by_cost, record_of

    # Split by split: whenever it is interrupted, methods have the same splits, or nearly so.
    pieces = [piece for series in wanted for piece in series.chunks(log.missing(series))]
    pieces.sort(key=lambda piece: piece.seeds)
    n_known = sum(len(series.seeds) for series in wanted) - len(pieces)
    if n_known:
        progress(f"{n_known} runs are in {log.path} already", None, None)
    failed: dict[str, str] = {}
    if pieces:
        _load_libraries([piece.method for piece in pieces])
    advance = count_by_cost(progress, pieces)
    for piece in pieces:
        if piece.method not in failed:
            try:
                with warnings.catch_warnings():
                    # Such as classes that no training node has: the same for all methods.
                    warnings.simplefilter("ignore")
                    records = run_on_splits(piece, graph, values)
                log.append(record_of(piece, record) for record in records)
            except Exception as error:
                # Whatever is wrong with a method on this data must not cost the others' runs.
                failed[piece.method] = f"{error or type(error).__name__}"
                progress(f"{piece.method} can't be used here: {failed[piece.method]}", None, None)
        advance(piece)
    return failed


def _load_libraries(methods: Sequence[str]) -> None:
    """Have all imports done before any time is taken: they would be charged to the first runs."""
    from graphconv.io.datasets import load_dataset
    from graphconv.training.fit import fit_gcn

    fit_gcn(load_dataset("karate"), overrides={"max_epochs": 2})
    for name in dict.fromkeys(methods):
        if name in BASELINES:
            make_estimator(name)


def _numbers(runs: list[Record], name: str, log: RunLog) -> list[float]:
    for run in runs:
        if not isinstance(run.get(name), int | float):
            raise ValueError(
                f"{log.path} must say {name} of each run, but does not of method "
                f"{run.get('method')!r}, seed {run['seed']}; remove the line to have it repeated"
            )
    return [float(run[name]) for run in runs]


def _conclude(
    graph: Graph, first: Graph, wanted: list[Series], log: RunLog, failed: dict[str, str]
) -> Comparison:
    runs = {
        series.method: [run for run in log.records(series) if run["seed"] in series.seeds]
        for series in wanted
        if series.method not in failed
    }
    if not runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise ValueError(f"at least one method must work on this data, but none does: {reasons}")
    n_train, n_validation, n_test = (
        len(index) for index in (first.train_index, first.validation_index, first.test_index)
    )
    results = rank_methods(
        {name: np.array(_numbers(own, "test_accuracy", log)) for name, own in runs.items()},
        {name: float(np.mean(_numbers(own, "seconds", log))) for name, own in runs.items()},
        # Validation nodes decide when to stop, so they are learned from as well.
        n_test / (n_train + n_validation),
    )
    return Comparison(
        dataset=graph.name,
        n_splits=len(wanted[0].seeds),
        n_train=n_train,
        n_validation=n_validation,
        n_test=n_test,
        results=results,
        simplest=tuple(series.method for series in wanted),
        failed=failed,
    )
