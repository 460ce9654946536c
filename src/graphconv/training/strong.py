"""preset "strong": demanding models that differ in kind, compared on validation labels.

A graph enters, the settings that its validation nodes speak for leave, with a sentence that says
why. Every candidate is trained in full, twice: half of the validation nodes tell when to stop, the
other half judges, and then the other way round. So no node both stops a training and judges it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.graph.scaling import fit_scaler
from graphconv.kernels.hashing import hash_key
from graphconv.models.settings import ROBUST, STRONG, Settings
from graphconv.training.calibration import fit_calibration

Predict = Callable[[Graph, Settings, list[int]], npt.NDArray[Any]]
# Fewer validation nodes judge nothing.
MIN_JUDGES = 20
HALVES = 5  # what the seed decides here, beside what `mini_batches` and `agreement` number

ALL_SEEN: dict[str, Any] = {"copies": 2, "sharpening": 0.3, "dropout": (0.0, 0.2)}
# What GRAND's authors publish for Citeseer; "normalised" is what they do for Pubmed.
AS_PUBLISHED: dict[str, Any] = {
    **ALL_SEEN,
    "steps": 2,
    "agreement": 0.7,
    "learning_rate": 0.01,
    "patience": 200,
}
# What each is called, what it starts from and what it changes there; of equals the first is taken.
CANDIDATES: tuple[tuple[str, Settings, dict[str, Any]], ...] = (
    ("random propagation (GRAND)", STRONG, {}),
    ("random propagation (GRAND), all features seen", STRONG, AS_PUBLISHED),
    (
        "random propagation (GRAND), all features seen, scaled as usual",
        STRONG,
        {**ALL_SEEN, "scaling": "auto", "weight_decay": 1e-3},
    ),
    (
        "random propagation (GRAND), normalised",
        STRONG,
        {
            "steps": 5,
            "sharpening": 0.2,
            "dropout": (0.6, 0.8),
            "normalisation": "batch",
            "agreement_warmup": 0,
            "learning_rate": 0.2,
            "patience": 100,
        },
    ),
    ("graph convolution", ROBUST, {}),
    ("no graph (multi-layer perceptron)", ROBUST, {"propagation": "none"}),
    (
        "deep first-order rule with layer normalisation",
        ROBUST,
        {
            "propagation": "first-order",
            "normalisation": "layer",
            "residual": True,
            "hidden": (64, 64, 64, 64),
            "dropout": 0.2,
        },
    ),
)


def choose_strong(
    graph: Graph, overrides: dict[str, Any], seed: int, predict: Predict
) -> tuple[Settings, str]:
    """The candidate whose trainings give the right class most on validation nodes.

    Parameters
    ----------
    graph : Graph
        With its validation nodes.
    overrides : dict
        Settings that the user chose: candidates that would change them are left out.
    seed : int
    predict : callable
        (graph, settings, seeds) to probabilities of the graph's test nodes, after training.

    Returns
    -------
    settings : Settings
    choice : str
        One line: what was chosen, and by how much.
    """
    if "propagation" in overrides:  # only the layers of a GCN have rules to choose from
        overrides = {"model": "gcn", **overrides}
    # Counts of words, where rows of length 1 would serve a graph convolution: rows that add up to 1
    # are small, and so is what is learned from them.
    is_words = graph.features is not None and fit_scaler(graph.features, "auto").kind == "l2"
    scaling: dict[str, Any] = {"scaling": "row"} if is_words else {}
    start = replace(STRONG, **{**scaling, **overrides})
    named = {
        name: replace(base, **{**(scaling if base is STRONG else {}), **changes, **overrides})
        for name, base, changes in CANDIDATES
        if not _clashes(changes, overrides)
    }
    n_judges = len(graph.validation_index)
    if len(named) < 2 or n_judges < MIN_JUDGES:
        return start, ""
    halves = _halves(graph, seed)
    scores = {name: _score(own, halves, seed, predict) for name, own in named.items()}
    best = max(scores, key=lambda name: scores[name])
    others = ", ".join(f"{n} {100 * score:.1f} %" for n, score in scores.items() if n != best)
    return named[best], (
        f"{best}: the right class gets {100 * scores[best]:.1f} % on {n_judges} validation nodes, "
        f"each judging a training that it did not stop ({others})"
    )


def _clashes(changes: dict[str, Any], overrides: dict[str, Any]) -> bool:
    if set(changes) & set(overrides):
        return True
    # A candidate of its own kind stays out where the user chose the kind, or how deep it is.
    return bool(changes) and bool({"model", "propagation", "hidden"} & set(overrides))


def _halves(graph: Graph, seed: int) -> list[Graph]:
    """The graph twice: one half of its validation nodes stays, the other is there for the test."""
    order = np.random.default_rng(hash_key(seed, HALVES)).permutation(graph.validation_index)
    first, second = (np.sort(own) for own in np.array_split(order, 2))
    return [
        graph.with_split(graph.train_index, stops, judges)
        for stops, judges in ((first, second), (second, first))
    ]


def _score(settings: Settings, halves: list[Graph], seed: int, predict: Predict) -> float:
    """The mean calibrated probability of what is right."""
    raw = np.concatenate([predict(own, settings, [seed]) for own in halves])
    labels = np.concatenate([own.labels[own.test_index] for own in halves])
    shares = fit_calibration(raw, labels).apply(raw, labels.ndim == 2)
    if labels.ndim == 2:
        return float(np.where(labels > 0, shares, 1 - shares).mean())
    return float(shares[np.arange(len(labels)), labels].mean())
