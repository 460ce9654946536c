"""Measures: by which number methods are compared, and which of them suits some labels.

Labels and probabilities enter, a number leaves of which more is better. A measure has two values:
`score` is what people report; `steady` is what methods are chosen by. For measures that count right
labels a node counts in half by whether it is right and in half by the probability of the right
class: the latter has less noise and is partial to bold methods. Where ranks are compared, both are
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.io.wording import did_you_mean, naming
from graphconv.training.scores import (
    accuracy,
    average_precision,
    balanced_accuracy,
    macro_f1,
    micro_f1,
    roc_auc,
)

IntArray = npt.NDArray[np.int64]
FloatMatrix = npt.NDArray[np.floating[Any]]
Score = Callable[[IntArray, FloatMatrix], float]
# Labels of the larger of two classes for one of the smaller, from which on ranks are compared.
_UNEVEN_PAIR = 3.0
# The same of the largest and the smallest of more classes, from which on each has the same say.
_UNEVEN_CLASSES = 10.0


@dataclass(frozen=True)
class Measure:
    """A number that tells how good probabilities are.

    Parameters
    ----------
    name : str
        As users write it.
    words : str
        As people read it.
    score : callable
        (labels, probabilities) to a number, as it is reported.
    steady : callable
        The same, to choose by.
    steady_words : str
        What `steady` is, in words.
    """

    name: str
    words: str
    score: Score
    steady: Score
    steady_words: str

    @property
    def of_two_classes(self) -> bool:
        return self.name in ("roc-auc", "average-precision")


def _right(labels: IntArray, probabilities: FloatMatrix) -> npt.NDArray[np.float64]:
    """Of each node the mean of 1 or 0, right or wrong, and the probability of the right class.

    Of several labels, the mean of that over all of them.
    """
    given = np.asarray(probabilities, dtype=np.float64)
    if labels.ndim == 2:
        of_right = np.where(labels > 0, given, 1 - given)
        return np.asarray(((of_right + (of_right > 0.5)) / 2).mean(axis=1))
    of_right = given[np.arange(len(labels)), labels]
    is_right = given.argmax(axis=1) == labels
    return np.asarray((of_right + is_right) / 2)


def _mean_right(labels: IntArray, probabilities: FloatMatrix) -> float:
    return float(_right(labels, probabilities).mean())


def _mean_right_by_class(labels: IntArray, probabilities: FloatMatrix) -> float:
    right = _right(labels, probabilities)
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


_RIGHT = "mean of accuracy and probability of the right class"
MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("accuracy", "accuracy", accuracy, _mean_right, _RIGHT),
        Measure(
            "balanced-accuracy",
            "balanced accuracy",
            balanced_accuracy,
            _mean_right_by_class,
            f"{_RIGHT}, each class having the same say",
        ),
        Measure("macro-f1", "macro F1", macro_f1, macro_f1, "macro F1"),
        Measure("micro-f1", "micro F1", micro_f1, micro_f1, "micro F1"),
        Measure("roc-auc", "ROC AUC", roc_auc, roc_auc, "ROC AUC"),
        Measure(
            "average-precision",
            "average precision",
            average_precision,
            average_precision,
            "average precision",
        ),
    )
}


def check_measure(name: str | None) -> None:
    """Refuse a measure that is none; None stands for the one that suits the labels."""
    if name is not None and name not in MEASURES:
        known = ", ".join(repr(one) for one in MEASURES)
        hint = did_you_mean(name, MEASURES)
        raise ValueError(naming("{metric} must be one of {}, got {!r}{}", known, name, hint))


def measure_for(graph: Graph, name: str | None = None) -> tuple[Measure, str]:
    """The measure of that name or, without one, that suits a graph's labels; and why, in words.

    Parameters
    ----------
    graph : Graph
        Of its labels those are counted that training may look at.
    name : str, optional

    Returns
    -------
    measure : Measure
    reason : str
        Empty where the measure was named.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.training.measures import measure_for
    >>> graph = Graph([[0] * 8] * 8, labels=[0, 0, 0, 0, 0, 0, 1, 1])
    >>> measure, reason = measure_for(graph)
    >>> measure.name, reason
    ('roc-auc', 'one of two classes has 3.0 times the labels of the other')
    """
    check_measure(name)
    if name is not None:
        measure = MEASURES[name]
        if measure.of_two_classes and (graph.is_multilabel or graph.n_classes != 2):
            what = "several labels per node" if graph.is_multilabel else f"{graph.n_classes}"
            raise ValueError(naming("{metric} {!r} is for two classes, got {}", name, what))
        if name == "balanced-accuracy" and graph.is_multilabel:
            raise ValueError(
                naming("{metric} {!r} is for one label per node, got several labels", name)
            )
        return measure, ""
    if graph.is_multilabel:
        return MEASURES["micro-f1"], "nodes have several labels"
    labelled = np.concatenate([graph.train_index, graph.validation_index])
    counts = np.bincount(graph.labels[labelled], minlength=graph.n_classes)
    counts = counts[counts > 0]
    if len(counts) < 2:
        return MEASURES["accuracy"], "classes have similar numbers of labels"
    ratio = float(counts.max() / counts.min())
    if len(counts) == 2 and graph.n_classes == 2:
        if ratio >= _UNEVEN_PAIR:
            reason = f"one of two classes has {ratio:.1f} times the labels of the other"
            return MEASURES["roc-auc"], reason
    elif ratio >= _UNEVEN_CLASSES:
        reason = f"the largest class has {ratio:.0f} times the labels of the smallest"
        return MEASURES["balanced-accuracy"], reason
    return MEASURES["accuracy"], "classes have similar numbers of labels"
