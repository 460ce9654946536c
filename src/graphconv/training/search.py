"""preset "auto": models that differ in kind are tried on held-out labels, the best one is kept.

A Graph and base settings enter, chosen settings and a sentence that says why leave. First the kinds
are compared: all of them on two splits of the labels, the better half of them on all. Then the
winner's scaling, regularisation and depth are asked for, one after the other.

What is compared is the probability that the right class gets on labels that training did not see,
calibrated first, so that bold and cautious models are judged alike; its mean says what accuracy
says, but more steadily. Where one class has many more labels than another, every class has the same
say. Settings are left for others only if these are better than chance explains, so the answer is
never below the base by this measure, and of equals the simpler one stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler
from graphconv.graph.splits import hold_out_validation, kfold_splits
from graphconv.models.settings import Settings
from graphconv.training.calibration import fit_calibration

Predict = Callable[[Graph, Settings, list[int]], npt.NDArray[Any]]

# Enough validation nodes to compare settings by; fewer are pooled over several splits.
ENOUGH_VALIDATION = 400
N_SPLITS = 5
# Past this many entries of features and adjacency only kinds of one hidden layer are tried.
LARGE = 5_000_000

# How much better others must be, in standard errors of the difference.
_NOTABLE = 0.5
# Labels of the largest class for one of the smallest, from which on classes have the same say.
_IMBALANCE = 3.0

# From the simplest to the most involved, what each is called and what it changes in the base; a
# new kind of model is a line here.
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("no graph (multi-layer perceptron)", {"model": "gcn", "propagation": "none"}),
    ("graph convolution", {"model": "gcn", "propagation": "renormalised"}),
    ("personalised PageRank of predictions (APPNP)", {"model": "appnp"}),
    (
        "first-order rule (own and neighbours' features apart)",
        {"model": "gcn", "propagation": "first-order"},
    ),
    (
        "deep first-order rule with layer normalisation",
        {
            "model": "gcn",
            "propagation": "first-order",
            "normalisation": "layer",
            "residual": True,
            "hidden": (64, 64, 64),
            "dropout": 0.2,
        },
    ),
)
_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "scaling": [{"scaling": "l2"}, {"scaling": "standard"}],
    "regularisation": [
        {"dropout": 0.8, "weight_decay": 5e-3},
        {"dropout": 0.5, "weight_decay": 5e-4},
        {"dropout": 0.2, "weight_decay": 5e-5},
    ],
    "depth": [{"hidden": (64,)}, {"hidden": (64, 64)}],
}


def choose_settings(
    graph: Graph, base: Settings, fixed: set[str], seed: int, predict: Predict
) -> tuple[Settings, str]:
    """The best of a handful of settings on nodes that training did not see.

    Parameters
    ----------
    graph : Graph
        With validation nodes, or labelled nodes enough to set some aside.
    base : Settings
        Where the search starts.
    fixed : set of str
        Names of settings the user chose, which the search leaves alone.
    seed : int
    predict : callable
        (graph, settings, seeds) to probabilities of the graph's validation nodes, after training.

    Returns
    -------
    settings : Settings
    choice : str
        One line: what was chosen, and how much better it did.
    """
    splits = _splits(graph, seed)
    if not splits:
        return base, "too few labels to compare settings: the robust ones were kept"
    trials = _Trials(splits, seed, predict)
    scaler = fit_scaler(graph.features, base.scaling)
    start = best = replace(base, scaling=cast(Scaling, scaler.kind))
    kinds = [replace(start, **changes) for changes in _kinds(graph, fixed)]
    if len(kinds) > 2 and len(splits) > 2:
        few = {one: trials.judge(one, 2).score for one in dict.fromkeys([start, *kinds])}
        middle = sorted(few.values())[len(few) // 2]
        kinds = [one for one in kinds if few[one] >= middle]
    best = trials.best_of(best, kinds)
    for name, answers in _questions(graph, fixed).items():
        if name == "depth" and len(best.hidden) > 2:
            continue  # it was chosen for its depth
        best = trials.best_of(best, [replace(best, **answer) for answer in answers])
    return best, trials.explain(start, best)


class _Verdict(NamedTuple):
    """What some settings came to on some splits."""

    right: npt.NDArray[np.float64]  # probability of the right class, for each node
    weight: npt.NDArray[np.float64]  # how much each node counts; they add up to 1

    @property
    def score(self) -> float:
        return float(self.right @ self.weight)

    def is_notably_better(self, other: _Verdict) -> bool:
        """Whether it is better by more than a part of the difference's standard error."""
        difference = self.right - other.right
        mean = float(difference @ self.weight)
        error = float(np.sqrt((self.weight**2) @ (difference - mean) ** 2))
        return mean > _NOTABLE * error


class _Trials:
    """Settings that were tried, each on as many splits as were asked for."""

    def __init__(self, splits: list[Graph], seed: int, predict: Predict) -> None:
        self.splits, self.predict = splits, predict
        self.seeds = [seed] if len(splits) > 1 else [seed, seed + 1]
        self.raw: dict[Settings, list[npt.NDArray[Any]]] = {}
        counts = _class_counts(splits[0])
        self.are_classes_alike = bool(
            len(counts) and counts.max() >= _IMBALANCE * max(counts[counts > 0].min(), 1)
        )

    def judge(self, settings: Settings, n_splits: int | None = None) -> _Verdict:
        used = self.splits[:n_splits]
        brief = replace(settings, max_epochs=min(settings.max_epochs, 100), patience=20)
        done = self.raw.setdefault(settings, [])
        done += [self.predict(one, brief, self.seeds) for one in used[len(done) :]]
        raw = np.concatenate(done[: len(used)])
        labels = np.concatenate([one.labels[one.validation_index] for one in used])
        probabilities = fit_calibration(raw, labels).apply(raw, labels.ndim == 2).astype(np.float64)
        if labels.ndim == 2:
            right = np.where(labels > 0, probabilities, 1 - probabilities).mean(axis=1)
        else:
            right = probabilities[np.arange(len(labels)), labels]
        weight = np.ones(len(right))
        if self.are_classes_alike:
            weight = 1 / np.bincount(labels)[labels]
        return _Verdict(right, weight / weight.sum())

    def best_of(self, best: Settings, others: list[Settings]) -> Settings:
        """The one that is notably better than the best so far, and the most so; else that."""
        found = {one: self.judge(one) for one in dict.fromkeys([best, *others])}
        better = [one for one in found if found[one].is_notably_better(found[best])]
        return max(better, key=lambda one: found[one].score) if better else best

    def explain(self, start: Settings, best: Settings) -> str:
        words = [_kind_of(best)]
        for name in ("scaling", "dropout", "weight_decay", "hidden"):
            value = getattr(best, name)
            shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"{name.replace('_', ' ')} {shown}")
        n_splits = len(self.splits)
        where = "in validation" if n_splits == 1 else f"in validation ({n_splits} splits)"
        alike = ", all classes having the same say" if self.are_classes_alike else ""
        after, before = (100 * self.judge(one).score for one in (best, start))
        reason = (
            f"no other of {len(self.raw)} tried is notably better"
            if best == start
            else f"the robust settings {before:.1f} %; {len(self.raw)} were tried"
        )
        return f"{', '.join(words)}: the right class gets {after:.1f} % {where}{alike}, {reason}"


def _class_counts(graph: Graph) -> npt.NDArray[np.int64]:
    """Labels of each class; none where nodes have several labels."""
    if graph.is_multilabel:
        return np.empty(0, dtype=np.int64)
    labelled = np.concatenate([graph.train_index, graph.validation_index])
    return np.bincount(graph.labels[labelled], minlength=graph.n_classes)


def _kind_of(settings: Settings) -> str:
    """What settings are called: the most involved kind whose marks they bear."""
    marks = ("model", "propagation", "normalisation")
    for name, changes in KINDS[::-1]:
        known = {key: value for key, value in changes.items() if key in marks}
        if all(getattr(settings, key) == value for key, value in known.items()):
            return name
    return f"{settings.model}, {settings.propagation} rule"


def _splits(graph: Graph, seed: int) -> list[Graph]:
    """Graphs to judge settings on: the graph's own split if it is large, else several."""
    n_validation = len(graph.validation_index)
    if n_validation >= ENOUGH_VALIDATION:
        return [graph]
    labelled = np.sort(np.concatenate([graph.train_index, graph.validation_index]))
    if len(labelled) < 2 * N_SPLITS:
        return []
    nobody = np.empty(0, dtype=np.int64)
    if n_validation == 0:
        visible = np.full_like(graph.labels, -1)
        visible[labelled] = graph.labels[labelled]
        pool = replace(graph, labels=visible, validation_index=nobody, test_index=nobody)
        folds = kfold_splits(pool, N_SPLITS, random_state=seed)
        splits = [fold.with_split(fold.train_index, fold.test_index) for fold in folds]
    else:
        # As many training nodes as there will be: which rule is best depends on it.
        rng = np.random.default_rng(seed)
        share = n_validation / len(labelled)
        drawn = [
            hold_out_validation(graph.labels, labelled, share, rng) for _ in range(N_SPLITS - 1)
        ]
        splits = [graph, *(graph.with_split(*both) for both in drawn)]
    if graph.is_multilabel:
        return splits
    return [one for one in splits if len(np.unique(one.labels[one.train_index])) > 1]


def _kinds(graph: Graph, fixed: set[str]) -> list[dict[str, Any]]:
    """What the kinds change that may be tried; none where the user chose a kind."""
    if {"model", "propagation", "self_loop_weight"} & fixed:  # the last only one rule has
        return []
    chosen = [changes for _, changes in KINDS if not set(changes) & fixed]
    if graph.features is None:
        # A node's own identity says nothing of another node.
        chosen = [changes for changes in chosen if changes.get("propagation") != "none"]
    if _size(graph) > LARGE:
        chosen = [changes for changes in chosen if "hidden" not in changes]
    return chosen


def _questions(graph: Graph, fixed: set[str]) -> dict[str, list[dict[str, Any]]]:
    if _size(graph) > LARGE:
        return {}
    return {
        name: answers
        for name, answers in _QUESTIONS.items()
        if not any(set(answer) & fixed for answer in answers)
        and not (name == "scaling" and graph.features is None)
    }


def _size(graph: Graph) -> int:
    """Entries of features and adjacency; the same whether features came sparse or dense."""
    features: Any = graph.features
    n_values = 0
    if features is not None:
        n_values = int(features.nnz if sp.issparse(features) else np.count_nonzero(features))
    return int(graph.adjacency.nnz) + n_values
