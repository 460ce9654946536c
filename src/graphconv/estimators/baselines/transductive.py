"""What the baselines share: arrays or a Graph enter `fit`, class probabilities of all nodes leave.

A method says in `_fit_graph` how it labels the nodes of the training graph, and in `_label_graph`,
where it can, how it labels another one. All else that the estimator contract asks for is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from threadpoolctl import ThreadpoolController

from graphconv.estimators._inputs import (
    array_of_names,
    graph_to_fit,
    seeds_of,
)
from graphconv.estimators.node_classifier import NodeClassifierMixin
from graphconv.graph import Graph, IntArray, symmetrise
from graphconv.graph.scaling import FeatureScaler
from graphconv.graph.splits import check_trainable
from graphconv.training.calibration import Calibration, fit_calibration
from graphconv.training.out_of_fold import FitPredict

if TYPE_CHECKING:
    from graphconv.estimators.fitted_method import FittedMethod
    from graphconv.training.fit import Watch
    from graphconv.training.fitted import FittedGCN

FloatMatrix = npt.NDArray[np.floating[Any]]
Self = TypeVar("Self", bound="TransductiveClassifier")


class TransductiveClassifier(NodeClassifierMixin, ClassifierMixin, BaseEstimator, ABC):
    """A node classifier that labels the graph it is trained on, and perhaps others.

    A subclass has the parameters n_neighbors, directed and random_state among its own.

    Attributes
    ----------
    classes_ : array of class names
    label_distributions_ : array of shape (n_nodes, n_classes)
        Calibrated on the validation nodes, where there are any.
    calibration_ : Calibration
    transduction_ : array of shape (n_nodes,)
        Label of every node of the training graph.
    graph_ : Graph
        What it was trained on.
    seed_ : int
        The seed it was trained with.
    """

    n_neighbors: int
    directed: bool
    random_state: Any
    watch: Watch | None = None  # who looks on while networks train, for a method that has some

    @property
    def labels_other_graphs(self) -> bool:
        """Whether it can label a graph that it was not trained on."""
        return type(self)._label_graph is not TransductiveClassifier._label_graph

    def fit(self: Self, X: Any, y: Any = None, *, adjacency: Any = None) -> Self:
        """Learn from the labelled nodes of a graph.

        Parameters
        ----------
        X : Graph, array or sparse matrix of shape (n_nodes, n_features), or None
            A Graph brings its own adjacency, labels and splits. None means featureless.
        y : array of shape (n_nodes,), optional
            Labels of any type; -1, None, NaN and empty strings mark unlabelled nodes.
        adjacency : array or sparse matrix of shape (n_nodes, n_nodes), optional
            Without one the graph joins every row of X to its nearest neighbours.
        """
        self.learn(graph_to_fit(self, X, y, adjacency))
        self.calibration_ = self._fit_calibration(self.graph_)
        self._label_all()
        return self

    def learn(self: Self, graph: Graph) -> Self:
        """Do what `fit` does but for the calibration: `uncalibrated_` is what it comes to.

        Parameters
        ----------
        graph : Graph
        """
        (self.seed_,) = seeds_of(self.random_state, 1)
        if graph.is_multilabel:
            raise ValueError(
                f"{type(self).__name__} needs one label per node, got a matrix of several labels"
            )
        check_trainable(graph)
        self.n_features_in_ = graph.n_features
        self.graph_ = graph
        self.classes_ = array_of_names(graph.class_names)
        for name in ("out_of_fold_", "restored_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        with numeric_libraries().limit(limits=1):
            self.uncalibrated_ = self._fit_graph(graph, self.seed_)
        return self

    def _label_all(self) -> None:
        self.label_distributions_ = self._calibrate(self.uncalibrated_)
        self.transduction_ = self._labels_of(self.label_distributions_)

    def restore(self: Self, fitted: FittedMethod, joins_neighbours: bool) -> Self:
        """Become as after the `fit` that a saved method came from; `load_model` does it.

        Parameters
        ----------
        fitted : FittedMethod
            Of this method, with these parameters.
        joins_neighbours : bool
            Whether `fit` was given rows without an adjacency.
        """
        self.restored_ = fitted
        self.seed_ = fitted.seeds[0]
        self.joins_neighbours_ = joins_neighbours
        self.graph_ = fitted.graph
        self.n_features_in_ = fitted.graph.n_features
        self.classes_ = array_of_names(fitted.graph.class_names)
        self.uncalibrated_ = fitted.each.mean(axis=1)
        self.calibration_ = fitted.calibration
        self._label_all()
        return self

    def _probabilities_of(self, graph: Graph) -> FloatMatrix:
        return self._calibrate(self.uncalibrated(graph))

    def uncalibrated(self, graph: Graph) -> FloatMatrix:
        """Probabilities of all nodes of a graph as the method gives them."""
        if graph is self.graph_ or graph.fingerprint() == self.graph_.fingerprint():
            return self.uncalibrated_.copy()
        if hasattr(self, "restored_"):
            averaged: FloatMatrix = self.restored_.probabilities(graph).mean(axis=1)
            return averaged
        with numeric_libraries().limit(limits=1):
            return self._label_graph(graph)

    def _fitted(self) -> FittedMethod | FittedGCN:
        """What it came to, apart from the estimator."""
        from graphconv.estimators.fitted_method import fitted_method_of

        return self.restored_ if hasattr(self, "restored_") else fitted_method_of(self)

    def _fit_calibration(self, graph: Graph) -> Calibration:
        """As for a GCN: what suits the validation nodes, where there are any."""
        index = graph.validation_index
        if not len(index):
            return Calibration()
        return fit_calibration(self.uncalibrated_[index], graph.labels[index])

    def _calibrate(self, probabilities: FloatMatrix) -> FloatMatrix:
        return self.calibration_.apply(probabilities)

    def _training_graph(self) -> Graph:
        return self.graph_

    def _given_graph(self) -> Graph:
        return self.graph_

    def _fit_predict(self) -> FitPredict:
        def fit_predict(graph: Graph, seed: int) -> FloatMatrix:
            again = clone(self).set_params(random_state=seed).fit(graph)
            return cast(FloatMatrix, again.label_distributions_)

        return fit_predict

    @abstractmethod
    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        """Learn, and return the class probabilities of all nodes, (n_nodes, n_classes)."""

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        """Class probabilities of all nodes of another graph."""
        raise ValueError(
            f"{type(self).__name__} labels only the nodes it was trained with, got another graph"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@cache
def numeric_libraries() -> ThreadpoolController:
    """The libraries of numpy, scipy and scikit-learn that have threads of their own.

    Methods run on one of them. How many there are changes the last bits of sums; and they wait by
    spinning: the search on a table of 300 nodes took 0.6 seconds longer with two, beside a busy
    neighbour far more.
    """
    return ThreadpoolController()


# Paper: the graph as published; here: without self-loops for all methods but the GCN and SGC,
# because a node that is its own neighbour would pass its own guess on to itself.
def neighbour_matrix(graph: Graph) -> sp.csr_array:
    """The adjacency matrix made symmetric, without self-loops."""
    neighbours = symmetrise(graph.adjacency) if graph.directed else graph.adjacency.copy()
    neighbours.setdiag(0)
    neighbours.eliminate_zeros()
    return sp.csr_array(neighbours)


def feature_matrix(graph: Graph, scaler: FeatureScaler) -> Any:
    """Scaled features as a sparse or dense matrix; the identity where there are none."""
    if graph.features is None:
        return sp.eye_array(graph.n_nodes, dtype=np.float32, format="csr")
    return scaler.transform(graph.features)


def with_known_classes(graph: Graph) -> tuple[Graph, IntArray]:
    """The graph with the classes that have a training node, and which of its classes those are.

    A network that has no output for the others can't choose them, and is smaller: on NELL by half.
    Other nodes of the classes that are left out lose their label, and their place in a split.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.estimators.baselines.transductive import with_known_classes
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[2, 0, 1], train_index=[0, 2])
    >>> known, classes = with_known_classes(path)
    >>> known.labels, classes
    (array([ 1, -1,  0]), array([1, 2]))
    """
    classes: IntArray = np.unique(graph.labels[graph.train_index])
    if len(classes) == graph.n_classes:
        return graph, classes
    is_known = np.isin(graph.labels, classes)
    labels = np.where(is_known, np.searchsorted(classes, graph.labels), -1)
    known = replace(
        graph,
        labels=labels,
        class_names=tuple(graph.class_names[old] for old in classes),
        validation_index=graph.validation_index[labels[graph.validation_index] >= 0],
        test_index=graph.test_index[labels[graph.test_index] >= 0],
    )
    return known, classes


def in_all_classes(probabilities: FloatMatrix, classes: IntArray, n_classes: int) -> FloatMatrix:
    """Probabilities of some classes, (n_nodes, n_some), with zeros for the others."""
    if len(classes) == n_classes:
        return probabilities
    of_all = np.zeros((len(probabilities), n_classes), dtype=probabilities.dtype)
    of_all[:, classes] = probabilities
    return of_all


def check_same_width(known: Graph, given: Graph) -> None:
    """Refuse a graph whose features cannot be those the model was trained with."""
    if (known.features is None) != (given.features is None) or (
        known.n_features != given.n_features
    ):
        had, has = (
            "no features" if graph.features is None else f"{graph.n_features} features"
            for graph in (known, given)
        )
        raise ValueError(f"the model was trained with {had}, the graph to predict has {has}")
