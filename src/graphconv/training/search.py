"""preset "auto": a handful of settings tried on held-out labels, the best one kept.

A Graph and base settings enter, chosen settings and a sentence that says why leave. The search
goes one question after the other, each with two or three answers, and takes the answer that gives
the right class the highest probability on labels that training did not see. Probabilities are
calibrated first, so that bold and cautious models are judged alike; their mean then says what
accuracy says, but more steadily.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler
from graphconv.graph.splits import hold_out_validation, kfold_splits
from graphconv.models.settings import Settings
from graphconv.training.calibration import fit_calibration
from graphconv.training.scores import accuracy

Predict = Callable[[Graph, Settings, list[int]], npt.NDArray[Any]]

# Enough validation nodes to compare settings by; fewer are pooled over several splits.
ENOUGH_VALIDATION = 400
N_SPLITS = 5
# Past this many entries of features and adjacency only the propagation rule is tried.
LARGE = 5_000_000

_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "propagation": [
        {"propagation": "renormalised"},
        {"propagation": "none"},
        {"propagation": "first-order"},
    ],
    "scaling": [{"scaling": "l2"}, {"scaling": "standard"}],
    "regularisation": [
        {"dropout": 0.8, "weight_decay": 5e-3},
        {"dropout": 0.5, "weight_decay": 5e-4},
        {"dropout": 0.2, "weight_decay": 5e-5},
    ],
    "depth": [{"hidden": (64,)}, {"hidden": (64, 64)}],
}
_IN_WORDS = {
    "renormalised": "graph convolution",
    "none": "no graph (multi-layer perceptron)",
    "first-order": "first-order rule (own and neighbours' features apart)",
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
    labels = np.concatenate([one.labels[one.validation_index] for one in splits])
    tried: dict[Settings, tuple[float, float]] = {}

    def judge(settings: Settings) -> float:
        """The mean probability of what is right."""
        if settings not in tried:
            brief = replace(settings, max_epochs=min(settings.max_epochs, 100), patience=20)
            seeds = [seed] if len(splits) > 1 else [seed, seed + 1]
            raw = np.concatenate([predict(one, brief, seeds) for one in splits])
            shares = fit_calibration(raw, labels).apply(raw, graph.is_multilabel)
            tried[settings] = _mean_share(shares, labels), accuracy(labels, raw)
        return tried[settings][0]

    scaler = fit_scaler(graph.features, base.scaling)
    start = best = replace(base, scaling=cast(Scaling, scaler.kind))
    for answers in _questions(graph, fixed).values():
        # The best so far comes first: of equals it stays.
        best = max([best, *(replace(best, **answer) for answer in answers)], key=judge)
    return best, _explain(start, best, tried, len(splits))


def _mean_share(shares: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> float:
    if labels.ndim == 2:
        return float(np.where(labels > 0, shares, 1 - shares).mean())
    return float(shares[np.arange(len(labels)), labels].mean())


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


def _questions(graph: Graph, fixed: set[str]) -> dict[str, list[dict[str, Any]]]:
    size = graph.adjacency.nnz
    if graph.features is not None:
        size += int(getattr(graph.features, "nnz", graph.features.size))
    chosen = {}
    for name, answers in _QUESTIONS.items():
        if any(set(answer) & fixed for answer in answers):
            continue
        if name == "propagation" and "self_loop_weight" in fixed:
            continue  # which only the renormalised rule has
        if name == "scaling" and graph.features is None:
            continue
        if name != "propagation" and size > LARGE:
            continue
        if name == "propagation" and graph.features is None:
            # A node's own identity says nothing of another node.
            answers = [answer for answer in answers if answer["propagation"] != "none"]
        chosen[name] = answers
    return chosen


def _explain(
    start: Settings, best: Settings, tried: dict[Settings, tuple[float, float]], n_splits: int
) -> str:
    names = ("scaling", "dropout", "weight_decay", "hidden")
    words = [_IN_WORDS.get(best.propagation, best.propagation)]
    for name in names:
        value = getattr(best, name)
        shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
        words.append(f"{name.replace('_', ' ')} {shown}")
    where = "validation" if n_splits == 1 else f"validation ({n_splits} splits)"
    after, before = 100 * tried[best][1], 100 * tried[start][1]
    reason = (
        f"the robust settings did best of {len(tried)}"
        if best == start
        else f"the best of {len(tried)} tried, robust settings reach {before:.1f} %"
    )
    return f"{', '.join(words)}: {after:.1f} % accuracy in {where}, {reason}"
