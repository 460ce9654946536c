"""Findings: what a report says in numbers, before it is drawn or put into words.

A graph and what a model says of its nodes enter, plain numbers and rows leave. No torch, no plotly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.results.doubt import judged_labels, rank_by_doubt
from graphconv.results.predictions import Predictions, confusion_table
from graphconv.training.calibration import Calibration, Reliability, decisions, reliability
from graphconv.training.out_of_fold import OutOfFold
from graphconv.training.scores import Interval, accuracy_interval, wilson_interval

Array = npt.NDArray[Any]
# What a user might demand of a label before relying on it.
THRESHOLDS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
# Fewer edges between labelled nodes than this say nothing about how alike neighbours are.
_MIN_KNOWN_EDGES = 20


class Homophily(NamedTuple):
    """How often an edge joins nodes of the same class.

    `by_chance` is what it would be if classes were dealt out at random; None for several labels a
    node, where a shared label counts.
    """

    share: float
    n_edges: int
    by_chance: float | None


class ClassRow(NamedTuple):
    """A class: how many nodes have it, and how well it is told from the others."""

    name: str
    n_train: int
    n_labelled: int
    n_predicted: int
    n_held_out: int
    precision: float | None
    recall: float | None
    f1: float | None


class ThresholdRow(NamedTuple):
    """If only labels at least this sure were used: how many there are, and how many are right."""

    threshold: float
    n_nodes: int
    right: Interval | None
    n_held_out: int


class ContradictedLabel(NamedTuple):
    """A given label beside the class that a model which has not seen it finds likelier."""

    node: int
    given: str
    likelier: str
    given_probability: float
    likelier_probability: float


class MixUp(NamedTuple):
    """A mistake by its kind."""

    true_class: str
    predicted_class: str
    n_nodes: int
    n_true: int


@dataclass(frozen=True, eq=False)
class Findings:
    """All that can be said of a model's labels for a graph.

    Parameters
    ----------
    predictions : Predictions
        With calibrated probabilities.
    uncalibrated : array of shape (n_nodes, n_classes)
    calibration : Calibration
    out_of_fold : OutOfFold, optional
        What models say of labels they have not seen: tells how often labels are right where there
        are no test nodes, and which given labels look wrong.
    coverage : float, optional
        What the predictions' sets were made for, where they have any.
    """

    predictions: Predictions
    uncalibrated: Array
    calibration: Calibration
    out_of_fold: OutOfFold | None = None
    coverage: float | None = None

    @property
    def graph(self) -> Graph:
        return self.predictions.graph

    @property
    def probabilities(self) -> Array:
        return self.predictions.probabilities

    @property
    def class_names(self) -> list[str]:
        return [str(name) for name in self.predictions.class_names]

    @property
    def first_choice(self) -> Array:
        """The likeliest class of each node."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def judged_by(self) -> str:
        """Which nodes tell how good the labels are: "test", "validation" or, if none can, ""."""
        present = (name for name in ("test", "validation") if len(self._index(name)))
        return next(present, "")

    @property
    def held_out(self) -> Array:
        """The nodes that tell how good the labels are."""
        name = self.judged_by
        return self._index(name) if name else np.empty(0, dtype=np.int64)

    def _index(self, name: str) -> Array:
        return np.asarray(getattr(self.graph, f"{name}_index"))

    @property
    def accuracy(self) -> Interval | None:
        """Of the held-out nodes; of several labels per node, of (node, class) pairs."""
        if self.is_cross_validated:
            assert self.out_of_fold is not None
            return accuracy_interval(self.out_of_fold.labels, self.out_of_fold.probabilities)
        if not len(self.held_out):
            return None
        _, right = self._decisions(self.held_out)
        return wilson_interval(int(right.sum()), len(right))

    @property
    def is_cross_validated(self) -> bool:
        """Whether models of folds tell how often labels are right: where no test node does."""
        folds = self.out_of_fold
        return folds is not None and self.judged_by != "test" and not self.graph.is_multilabel

    @property
    def set_sizes(self) -> Array | None:
        """How many classes each node may have, where there are prediction sets."""
        sets = self.predictions.sets
        return None if sets is None else np.asarray(sets[: self.graph.n_entities].sum(axis=1))

    @property
    def commonest(self) -> tuple[str, float] | None:
        """The class that guessing would bet on, and how often that would be right."""
        if not len(self.held_out) or self.graph.is_multilabel:
            return None
        trained = self.graph.labels[self.graph.train_index]
        guess = int(np.bincount(trained, minlength=self.graph.n_classes).argmax())
        held_out = self.graph.labels[self.held_out]
        counts = np.bincount(held_out, minlength=self.graph.n_classes)
        if len(np.unique(np.bincount(trained))) == 1:  # equal numbers tell nothing: be generous
            guess = int(counts.argmax())
        return self.class_names[guess], float(counts[guess] / len(held_out))

    @property
    def reliability(self) -> Reliability | None:
        """How far confidence can be believed, on held-out nodes."""
        index = self.held_out
        if not len(index):
            return None
        return reliability(self.probabilities[index], self.graph.labels[index])

    @property
    def error_before(self) -> float | None:
        """Calibration error without the calibration."""
        index = self.held_out
        if not len(index):
            return None
        return reliability(self.uncalibrated[index], self.graph.labels[index]).error

    @property
    def confusion(self) -> Array | None:
        """Counts on held-out nodes; None where nodes have several labels, or none is held out."""
        if self.graph.is_multilabel or not len(self.held_out):
            return None
        labels = self.graph.labels[self.held_out]
        found = self.first_choice[self.held_out]
        return confusion_table(labels, found, self.graph.n_classes)

    def mix_ups(self, most: int = 5) -> list[MixUp]:
        """The commonest mistakes."""
        table = self.confusion
        if table is None:
            return []
        wrong = table * ~np.eye(len(table), dtype=bool)
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(table)) for place in order]
        names, sizes = self.class_names, table.sum(axis=1)
        return [
            MixUp(names[i], names[j], int(wrong[i, j]), int(sizes[i]))
            for i, j in pairs
            if wrong[i, j] > 0
        ]

    def class_rows(self) -> list[ClassRow]:
        """A row for each class."""
        graph, index = self.graph, self.held_out
        n = graph.n_classes
        has = graph.labels if graph.is_multilabel else np.eye(n, dtype=int)[graph.labels]
        has = has * graph.is_labelled[:, None]
        found = self.probabilities > 0.5 if graph.is_multilabel else np.eye(n)[self.first_choice]
        hits = (has[index] * found[index]).sum(axis=0)
        n_true, n_found = has[index].sum(axis=0), found[index].sum(axis=0)
        rows = []
        for number, name in enumerate(self.class_names):
            precision = _ratio(hits[number], n_found[number])
            recall = _ratio(hits[number], n_true[number])
            f1 = _ratio(2 * hits[number], n_true[number] + n_found[number])
            rows.append(
                ClassRow(
                    name,
                    int(has[graph.train_index, number].sum()),
                    int(has[:, number].sum()),
                    int(found[: graph.n_entities, number].sum()),
                    int(n_true[number]),
                    precision,
                    recall,
                    f1,
                )
            )
        return rows

    def threshold_rows(self) -> list[ThresholdRow]:
        """What is left, and how good it is, if one uses only labels above some confidence."""
        confidence, index = self.predictions.confidence[: self.graph.n_entities], self.held_out
        right = self._right_nodes(index)
        rows = []
        for threshold in THRESHOLDS:
            sure = confidence[index] >= threshold
            n_sure = int(sure.sum())
            interval = wilson_interval(int(right[sure].sum()), n_sure) if n_sure else None
            rows.append(
                ThresholdRow(threshold, int((confidence >= threshold).sum()), interval, n_sure)
            )
        return rows

    def least_certain(self, most: int = 20) -> Array:
        """Nodes with the least confidence among those without a label, or else outside training."""
        graph = self.graph
        chosen = np.flatnonzero(~graph.is_labelled[: graph.n_entities])
        if not len(chosen):
            chosen = np.setdiff1d(np.arange(graph.n_entities), graph.train_index)
        order = np.argsort(self.predictions.confidence[chosen], kind="stable")
        return np.asarray(chosen[order[:most]])

    def surest(self, number: int, most: int) -> Array:
        """Nodes of a class that it is surest of; without a label, unless all have one."""
        entities = slice(self.graph.n_entities)
        members = np.flatnonzero(self.first_choice[entities] == number)
        # What was labelled before is no finding, unless there is nothing else.
        is_new = ~self.graph.is_labelled[members]
        members = members[is_new] if is_new.any() else members
        order = np.argsort(-self.predictions.confidence[members], kind="stable")
        return np.asarray(members[order[:most]])

    def spoken_of(self) -> Array:
        """Nodes that the report names: least certain ones, doubtful labels, the surest."""
        doubted = [one.node for one in self.contradicted_labels()]
        surest = [] if self.graph.is_multilabel else [
            node for k in range(self.graph.n_classes) for node in self.surest(k, 1).tolist()
        ]  # fmt: skip
        nodes = [
            *self.least_certain().tolist(),
            *doubted,
            *self.doubtful_labels().tolist(),
            *surest,
        ]
        return np.array(list(dict.fromkeys(nodes)), dtype=np.int64)

    def doubtful_labels(self, most: int = 10) -> Array:
        """Nodes whose given label the model contradicts, the surest contradictions first."""
        graph = self.graph
        if graph.is_multilabel:
            return np.empty(0, dtype=np.int64)
        known = np.flatnonzero(graph.is_labelled)
        differ = known[self.first_choice[known] != graph.labels[known]]
        sure = differ[self.predictions.confidence[differ] >= 0.8]
        order = np.argsort(-self.predictions.confidence[sure], kind="stable")
        return np.asarray(sure[order[:most]])

    def contradicted_labels(self, most: int = 10) -> list[ContradictedLabel]:
        """Given labels that models which have not seen them contradict, the surest first."""
        graph = self.graph
        if self.out_of_fold is None or graph.is_multilabel:
            return []
        nodes, probabilities = judged_labels(graph, self.out_of_fold, self.probabilities)
        given = graph.labels[nodes]
        order, likelier = rank_by_doubt(given, probabilities)
        wrong = order[likelier[order] != given[order]][:most]
        names = self.class_names
        return [
            ContradictedLabel(
                int(nodes[row]),
                names[given[row]],
                names[likelier[row]],
                float(probabilities[row, given[row]]),
                float(probabilities[row, likelier[row]]),
            )
            for row in wrong
        ]

    def homophily(self) -> Homophily | None:
        """How alike neighbours are; None where too few edges join labelled nodes."""
        graph = self.graph
        ends = graph.adjacency.tocoo()
        known = graph.is_labelled
        use = (ends.row != ends.col) & known[ends.row] & known[ends.col]
        if not graph.directed:
            use &= ends.row < ends.col
        heads, tails = ends.row[use], ends.col[use]
        if len(heads) < _MIN_KNOWN_EDGES:
            return None
        if graph.is_multilabel:
            same = ((graph.labels[heads] > 0) & (graph.labels[tails] > 0)).any(axis=1)
            return Homophily(float(same.mean()), len(heads), None)
        shares = np.bincount(graph.labels[known], minlength=graph.n_classes) / known.sum()
        same = graph.labels[heads] == graph.labels[tails]
        return Homophily(float(same.mean()), len(heads), float((shares**2).sum()))

    def _decisions(self, index: Array) -> tuple[Array, Array]:
        return decisions(self.probabilities[index], self.graph.labels[index])

    def _right_nodes(self, index: Array) -> Array:
        """Whether all is right about a node; of several labels, every one of them."""
        _, right = self._decisions(index)
        return np.asarray(right.reshape(len(index), -1).all(axis=1)) if len(index) else right


def n_neighbours(graph: Graph) -> npt.NDArray[np.int64]:
    """How many other nodes each node is linked with, in either direction."""
    counts = np.diff(graph.adjacency.indptr) - (graph.adjacency.diagonal() != 0)
    if graph.directed:
        both = graph.adjacency + graph.adjacency.T
        counts = np.diff(both.tocsr().indptr) - (both.diagonal() != 0)
    return np.asarray(counts, dtype=np.int64)


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
