"""Labelling: a model that learns while a person labels, and the question to ask next.

Labels enter after every answer; probabilities of all nodes leave, with an honest estimate of how
often they are right. Answers are of two kinds. Lessons, to questions that the model or the person
chose, are learned from. The exam, answers to questions drawn at random, is not: it tells how often
the model is right, how far its confidence can be believed and which classes can be excluded.

Beside the model there is one for each of ten groups of nodes that has never seen a lesson of its
group. What these say of answered nodes tells which labels are doubtful.
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
from graphconv.results.prediction_sets import find_set_rule
from graphconv.results.suggest import Coverage, uncertainty
from graphconv.training.calibration import Calibration, calibrate_apart, fit_calibration
from graphconv.training.fit import fit_gcn
from graphconv.training.fitted import FittedGCN
from graphconv.training.out_of_fold import OutOfFold, neighbour_means

FloatMatrix = npt.NDArray[np.float32]
N_GROUPS = 10
# Of training from random weights, and of going on from the last ones.
FIRST_EPOCHS, MORE_EPOCHS = 200, 60
# Fewer answers than this in the exam say too little about confidence.
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
    """How many answers of the exam the model gets right."""

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
    possible: npt.NDArray[np.bool_] | None = None  # classes that each node may have

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
        """Learn from lessons; None while these have fewer than two classes."""
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
        """Learn from all lessons but those of one group of nodes."""
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

    def examine(self, exam: IntArray, labels: IntArray) -> Estimate:
        """How good the model is, and what its confidence means, by answers it never learns from.

        Nodes that were chosen, by the model or by the person, are not typical; and whoever holds
        a lesson out to judge by it leaves a hole that the questions would have filled.

        Parameters
        ----------
        exam : array of shape (n_exam,)
            Positions of the nodes whose questions were drawn at random.
        labels : array of shape (n_nodes,)
        """
        self.calibration, self.undescribed_calibration, self.possible = Calibration(), None, None
        if self.picture is None or not len(exam):
            return Estimate(0, 0)
        everywhere = self.picture.probabilities
        here, truth = everywhere[exam], labels[exam]
        if len(exam) >= FEWEST_TO_CALIBRATE:
            self.calibration = fit_calibration(here, truth)
            apart = self._is_undescribed[exam]
            if apart.sum() >= FEWEST_TO_CALIBRATE:
                self.undescribed_calibration = fit_calibration(here[apart], truth[apart])
            around = neighbour_means(self.graph, everywhere)[exam]
            # Of probabilities as they are: calibrated ones have seen the exam.
            rule = find_set_rule(OutOfFold(exam, truth, here, around), COVERAGE)
            self.possible = rule.apply(self.graph, everywhere)
        return Estimate(int((here.argmax(axis=1) == truth).sum()), len(exam))

    def calibrated(self, probabilities: FloatMatrix, nodes: IntArray | slice) -> FloatMatrix:
        """Believable probabilities of some nodes."""
        apart = self._is_undescribed[nodes]
        return calibrate_apart(probabilities, self.calibration, self.undescribed_calibration, apart)

    def doubts(
        self, labels: IntArray, exam: IntArray, n_classes: int
    ) -> list[tuple[int, int, float]]:
        """Labelled nodes that a model which does not know their label calls otherwise.

        Node, class it would have and the probability of the label given; the least likely first.
        """
        lessons = np.setdiff1d(np.flatnonzero(labels >= 0), exam)
        nodes, probabilities = self.held_out(lessons, n_classes)
        if self.picture is not None:
            known = self.picture.probabilities[exam]
            widened = np.zeros((len(exam), n_classes), dtype=np.float32)
            widened[:, : known.shape[1]] = known[:, :n_classes]
            nodes = np.concatenate([nodes, exam])
            probabilities = np.concatenate([probabilities, widened])
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
        n_missing = n - len(chosen)
        if n_missing:  # a sample of a large graph may be used up
            rest = np.setdiff1d(np.flatnonzero(is_allowed), chosen)
            rng = np.random.default_rng([self.seed, len(known)])
            chosen += rng.permutation(rest)[:n_missing].tolist()
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
