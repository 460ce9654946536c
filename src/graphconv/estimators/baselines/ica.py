"""Iterative classification (Lu and Getoor 2003; Sen et al. 2008), as in section 5.2 of the paper.

A local logistic regression on features labels all nodes; a relational one on features and the
aggregated labels of neighbours relabels the unlabelled ones, one after the other in random order.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from graphconv.estimators.baselines._logistic import fit_logistic
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    feature_matrix,
    in_all_classes,
    neighbour_matrix,
)
from graphconv.graph import Graph, IntArray
from graphconv.graph.checks import check_count
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler


class ICAClassifier(TransductiveClassifier):
    """Iterative classification with two logistic regressions.

    Parameters
    ----------
    aggregation : {"count", "proportion"}
        How the labels of neighbours become features: how many there are of each class, or their
        share of all neighbours.
    C : float
        Inverse strength of the L2 penalty of the relational classifier.
    local_C : float, optional
        That of the local classifier. Default: the same, as in the paper.
    n_iterations : int
        How often every unlabelled node is relabelled.
    scaling : {"auto", "row", "l2", "standard", "none"}
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; a neighbour is one in either direction.
    random_state : int or None
        Seed of the orders in which nodes are relabelled.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("ica", random_state=0).fit(cora)
    >>> is_right = clf.predict_proba().argmax(axis=1) == cora.labels
    >>> bool(is_right[cora.test_index].mean() > 0.7)
    True
    """

    def __init__(
        self,
        *,
        aggregation: Literal["count", "proportion"] = "proportion",
        C: float = 1.0,
        local_C: float | None = None,
        n_iterations: int = 10,
        scaling: Scaling = "auto",
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.aggregation = aggregation
        self.C = C
        self.local_C = local_C
        self.n_iterations = n_iterations
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        if self.aggregation not in ("count", "proportion"):
            raise ValueError(
                f"aggregation must be 'count' or 'proportion', got {self.aggregation!r}"
            )
        check_count("n_iterations", self.n_iterations, 1)
        self.seed_ = seed
        self.scaler_ = fit_scaler(graph.features, self.scaling)
        features = feature_matrix(graph, self.scaler_)
        train = graph.train_index
        known = graph.labels[train]
        local_C = self.C if self.local_C is None else self.local_C
        self.local_ = fit_logistic(features[train], known, graph.n_classes, local_C)
        labels = self.local_.logits(features).argmax(axis=1)
        labels[train] = known
        neighbours = self._neighbours(graph)
        both = _beside(features[train], _aggregate(neighbours[train], labels, graph.n_classes))
        self.relational_ = fit_logistic(both, known, graph.n_classes, self.C)
        return self._relabel(features, neighbours, labels, train)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        features = feature_matrix(graph, self.scaler_)
        labels = self.local_.logits(features).argmax(axis=1)
        return self._relabel(features, self._neighbours(graph), labels, np.empty(0, dtype=np.int64))

    def _neighbours(self, graph: Graph) -> sp.csr_array:
        neighbours = neighbour_matrix(graph)
        if self.aggregation == "count":
            return neighbours
        degree = np.asarray(neighbours.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array(1 / np.maximum(degree, 1e-30)) @ neighbours)

    def _relabel(
        self, features: Any, neighbours: sp.csr_array, labels: IntArray, fixed: IntArray
    ) -> FloatMatrix:
        n_features, n_classes = features.shape[1], len(self.relational_.intercept)
        # Classes without a training node are never chosen; NELL has as many of them as of others.
        classes = self.relational_.known_classes
        weight = self.relational_.weight[:, classes]
        own = np.asarray(features @ weight[:n_features]) + self.relational_.intercept[classes]
        votes = weight[n_features:]  # (n_classes, n_known)
        free = np.setdiff1d(np.arange(len(labels)), fixed)
        rng = np.random.default_rng(self.seed_)
        logits = np.zeros_like(own)  # of each node as it was last relabelled
        for _ in range(self.n_iterations):
            for nodes in independent_runs(neighbours, rng.permutation(free)):
                logits[nodes] = (
                    own[nodes] + _aggregate(neighbours[nodes], labels, n_classes) @ votes
                )
                labels[nodes] = classes[logits[nodes].argmax(axis=1)]
        probabilities = in_all_classes(softmax(logits, axis=1), classes, n_classes)
        probabilities[fixed] = np.eye(n_classes)[labels[fixed]]
        return probabilities


def independent_runs(neighbours: sp.csr_array, order: IntArray) -> list[IntArray]:
    """Split nodes that are visited one after the other into runs of non-neighbours.

    A node comes in the run after the last of its neighbours that are visited before it. So each
    run can be computed at once, and the result is that of visiting the nodes one by one.

    Parameters
    ----------
    neighbours : sparse matrix of shape (n_nodes, n_nodes), symmetric in its pattern
    order : array of node numbers
        The nodes that are visited, as they come.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from graphconv.estimators.baselines.ica import independent_runs
    >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> independent_runs(path, np.array([0, 1, 2]))
    [array([0]), array([1]), array([2])]
    >>> independent_runs(path, np.array([0, 2, 1]))
    [array([0, 2]), array([1])]
    """
    n_nodes, _ = neighbours.shape
    rank = np.zeros(n_nodes, dtype=np.int64)  # that of nodes that are not visited
    rank[order] = np.arange(1, len(order) + 1)
    row = np.repeat(np.arange(n_nodes), np.diff(neighbours.indptr))
    later = (rank[row] > 0) & (rank[neighbours.indices] > rank[row])
    ends = np.concatenate(([0], np.cumsum(later)))[neighbours.indptr]
    followers = sp.csr_array(
        (later[later], neighbours.indices[later], ends), shape=neighbours.shape
    )
    n_waiting_for = np.bincount(followers.indices, minlength=n_nodes)
    run = np.flatnonzero((rank > 0) & (n_waiting_for == 0))
    runs = []
    while len(run):
        runs.append(run)
        touched = followers[run].indices
        np.subtract.at(n_waiting_for, touched, 1)
        touched = np.unique(touched)
        run = touched[n_waiting_for[touched] == 0]
    return runs


def _aggregate(rows: sp.csr_array, labels: IntArray, n_classes: int) -> sp.csr_array:
    """Labels of the neighbours in each row, added up by class, (n_rows, n_classes)."""
    shape = (rows.shape[0], n_classes)
    return sp.csr_array((rows.data, labels[rows.indices], rows.indptr), shape=shape)


def _beside(features: Any, aggregates: sp.csr_array) -> Any:
    if sp.issparse(features):
        return sp.hstack([features, aggregates], format="csr")
    return np.hstack([features, aggregates.toarray()])
