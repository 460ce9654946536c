"""Labelling: a model that learns while a person labels, and the question to ask next.

Labels enter after every answer; probabilities of all nodes leave, with an honest estimate of how
often they are right. Two kinds of models are kept. The one that labels knows every answer. Beside
it there is one for each of ten groups of nodes, and it has never seen an answer of its group: what
these say about answered nodes judges accuracy, calibrates confidence and finds doubtful labels.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import fit_scaler
from graphconv.graph.unknown_features import is_undescribed
from graphconv.models.settings import resolve_settings
from graphconv.results.suggest import Coverage, uncertainty
from graphconv.training.calibration import Calibration, calibrate_apart, fit_calibration
from graphconv.training.fit import fit_gcn
from graphconv.training.fitted import FittedGCN

FloatMatrix = npt.NDArray[np.float32]
N_GROUPS = 10
# Of training from random weights, and of going on from the last ones.
FIRST_EPOCHS, MORE_EPOCHS = 200, 60
# Fewer answers to random questions than this say too little about confidence.
FEWEST_TO_CALIBRATE = 10
# Share of nodes whose set of possible classes is to hold the true one.
COVERAGE = 0.9
# One question in so many is drawn at random.
RANDOM_EVERY = 5


class Picture(NamedTuple):
    """What the model thinks of all nodes after some answers.

    Parameters
    ----------
    version : int
        Of the answers it knows.
    fitted : FittedGCN
    probabilities : array of shape (n_nodes, n_classes)
        Probabilities, uncalibrated.
    labels : array of shape (n_nodes,)
        The labels it was trained with.
    seconds : float
        How long the fit took.
    finished : float
        When it was ready, on the monotonic clock.
    """

    version: int
    fitted: FittedGCN
    probabilities: FloatMatrix
    labels: IntArray
    seconds: float
    finished: float


class Estimate(NamedTuple):
    """How many answers to random questions a model that had not seen them gets right."""

    n_right: int
    n_all: int


@dataclass
class Learner:
    """A model that is fitted again after every answer.

    Parameters
    ----------
    graph : Graph
        Its labels are not looked at.
    preset : str
    overrides : dict
        Settings that differ from the preset's.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import load_dataset
    >>> from graphconv.results.labelling import Learner
    >>> karate = load_dataset("karate")
    >>> learner = Learner(karate)
    >>> labels = np.full(34, -1)
    >>> first = learner.questions(labels, 2)  # of no label at all: nodes that stand for many
    >>> labels[[0, 33]] = 0, 1
    >>> learner.fit(labels, ["instructor", "president"], version=2).probabilities.shape
    (34, 2)
    """

    graph: Graph
    preset: str = "robust"
    overrides: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    picture: Picture | None = None
    calibration: Calibration = field(default_factory=Calibration)
    undescribed_calibration: Calibration | None = None
    set_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.graph.folder is not None:
            raise ValueError("labelling needs a graph in memory, got a folder")
        settings = resolve_settings(self.preset, self.overrides)
        scaler = fit_scaler(self.graph.features, settings.scaling)
        is_graph_used = settings.propagation != "none"
        entities: IntArray = np.arange(self.graph.n_entities)
        self._cover = Coverage(
            self.graph,
            scaler.transform(self.graph.features),
            n_hops=len(settings.hidden) + 1 if is_graph_used else 0,
            candidates=entities,
        )
        rng = np.random.default_rng([self.seed, 1])
        self._is_undescribed = is_undescribed(self.graph)
        self.group: IntArray = rng.integers(0, N_GROUPS, self.graph.n_nodes)
        self._group_models: dict[int, FittedGCN] = {}
        self._group_probabilities: dict[int, FloatMatrix] = {}
        self._n_fits = 0

    def fit(self, labels: IntArray, class_names: list[str], version: int) -> Picture | None:
        """Learn from all labels; None while there are fewer than two classes."""
        started = time.monotonic()
        before = None if self.picture is None else self.picture.fitted
        fitted = self._fit(labels, class_names, labels >= 0, before)
        if fitted is None:
            self.picture = None
            return None
        probabilities = fitted.probabilities()[:, 0]
        now = time.monotonic()
        self.picture = Picture(version, fitted, probabilities, labels.copy(), now - started, now)
        return self.picture

    def fit_group(self, group: int, labels: IntArray, class_names: list[str]) -> None:
        """Learn from all labels but those of one group of nodes."""
        is_used = (labels >= 0) & (self.group != group)
        fitted = self._fit(labels, class_names, is_used, self._group_models.get(group))
        if fitted is None:
            self._group_models.pop(group, None)
            self._group_probabilities.pop(group, None)
            return
        self._group_models[group] = fitted
        self._group_probabilities[group] = fitted.probabilities()[:, 0]

    def _fit(
        self,
        labels: IntArray,
        class_names: list[str],
        is_used: npt.NDArray[np.bool_],
        before: FittedGCN | None,
    ) -> FittedGCN | None:
        train: IntArray = np.flatnonzero(is_used)
        if len(np.unique(labels[train])) < 2:
            return None
        graph = self.graph.with_labels(labels, class_names, train=train)
        # A class that was met for the first time changes the model's shape: it begins anew.
        goes_on = before is not None and before.graph.n_classes == graph.n_classes
        n_epochs = MORE_EPOCHS if goes_on else FIRST_EPOCHS
        self._n_fits += 1
        return fit_gcn(
            graph,
            preset=self.preset,
            overrides={**self.overrides, "max_epochs": n_epochs, "early_stopping": "none"},
            # The same dropout again and again would teach less.
            seeds=[(self.seed + self._n_fits) % 2**32],
            validation_fraction=0,
            calibrate=False,
            start_from=before if goes_on else None,
        )

    def held_out(self, nodes: IntArray, n_classes: int) -> tuple[IntArray, FloatMatrix]:
        """Those of some nodes that can be judged, and what models that don't know them think."""
        known = [
            node for node in nodes.tolist() if int(self.group[node]) in self._group_probabilities
        ]
        probabilities = np.zeros((len(known), n_classes), dtype=np.float32)
        for row, node in enumerate(known):
            own = self._group_probabilities[int(self.group[node])][node]
            probabilities[row, : len(own)] = own[:n_classes]
        return np.array(known, dtype=np.int64), probabilities

    def estimate(self, labels: IntArray, random: IntArray, n_classes: int) -> Estimate:
        """How good the model is, by the answers to random questions alone.

        Nodes that were chosen, by the model or by the person, are not typical.
        """
        nodes, probabilities = self.held_out(random, n_classes)
        if not len(nodes):
            return Estimate(0, 0)
        return Estimate(int((probabilities.argmax(axis=1) == labels[nodes]).sum()), len(nodes))

    def calibrate(self, labels: IntArray, random: IntArray, n_classes: int) -> None:
        """Fit the confidence to the answers to random questions."""
        nodes, probabilities = self.held_out(random, n_classes)
        self.calibration, self.set_threshold = Calibration(), None
        self.undescribed_calibration = None
        if len(nodes) < FEWEST_TO_CALIBRATE:
            return
        self.calibration = fit_calibration(probabilities, labels[nodes])
        apart = self._is_undescribed[nodes]
        if apart.sum() >= FEWEST_TO_CALIBRATE:
            self.undescribed_calibration = fit_calibration(
                probabilities[apart], labels[nodes[apart]]
            )
        given = self.calibrated(probabilities, nodes)[np.arange(len(nodes)), labels[nodes]]
        # Nine of ten true classes are at least this likely (split conformal prediction).
        place = int(np.floor((1 - COVERAGE) * (len(nodes) + 1)))
        self.set_threshold = float(np.sort(given)[place - 1]) if place else 0.0

    def calibrated(self, probabilities: FloatMatrix, nodes: IntArray | slice) -> FloatMatrix:
        """Believable probabilities of some nodes."""
        apart = self._is_undescribed[nodes]
        return calibrate_apart(probabilities, self.calibration, self.undescribed_calibration, apart)

    def doubts(self, labels: IntArray, n_classes: int) -> list[tuple[int, int, float]]:
        """Labelled nodes that a model which does not know their label calls otherwise.

        Node, class it would have and the probability of the label given; the least likely first.
        """
        nodes, probabilities = self.held_out(np.flatnonzero(labels >= 0), n_classes)
        if not len(nodes):
            return []
        probabilities = self.calibrated(probabilities, nodes)
        own = probabilities[np.arange(len(nodes)), labels[nodes]]
        found = probabilities.argmax(axis=1)
        order = np.argsort(own, kind="stable")
        return [
            (int(nodes[row]), int(found[row]), float(own[row]))
            for row in order
            if found[row] != labels[nodes[row]]
        ]

    def questions(
        self, labels: IntArray, n: int, not_these: set[int] | frozenset[int] = frozenset()
    ) -> list[int]:
        """The nodes whose labels would teach most, the best first.

        Without a model every node counts alike: what is asked about then are nodes that stand for
        many others, spread over the graph.
        """
        is_allowed = labels < 0
        is_allowed[self.graph.n_entities :] = False
        is_allowed[list(not_these)] = False
        crowd = self._cover.crowd
        weight = np.ones(len(crowd), dtype=np.float32)
        if self.picture is not None:
            weight = uncertainty(self.picture.probabilities[crowd], is_multilabel=False)
        known: IntArray = np.flatnonzero(labels >= 0)
        chosen = [node for node, _ in self._cover.choose(known, weight, n, is_allowed)]
        if len(chosen) < n:  # a sample of a large graph may be used up
            rest = np.setdiff1d(np.flatnonzero(is_allowed), chosen)
            rng = np.random.default_rng([self.seed, len(known)])
            chosen += rng.permutation(rest)[: n - len(chosen)].tolist()
        return chosen

    def random_question(
        self, labels: IntArray, number: int, not_these: set[int] | frozenset[int] = frozenset()
    ) -> int | None:
        """A node without a label, each as likely as any other; the same for the same number."""
        free = labels < 0
        free[self.graph.n_entities :] = False
        free[list(not_these)] = False
        nodes = np.flatnonzero(free)
        if not len(nodes):
            return None
        rng = np.random.default_rng([self.seed, 2, number])
        return int(rng.choice(nodes))
