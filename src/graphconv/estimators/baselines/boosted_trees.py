"""Boosted trees on propagated features: scikit-learn's HistGradientBoostingClassifier.

What a tree sees of a node: its own columns, their mean over its neighbours, and the mean of that
mean, two hops away; without features, columns of place and role. Made for tables of measured
columns, whose scales and bends trees don't mind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier

from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    in_all_classes,
    neighbour_matrix,
)
from graphconv.graph import Graph
from graphconv.graph.position import N_ROLES, position_features

# Trees look at every column: of wider features, such as words, as many leading directions serve.
MOST_COLUMNS = 32


class BoostedTreesClassifier(TransductiveClassifier):
    """Gradient-boosted trees on own, neighbour-mean and two-hop columns.

    Parameters
    ----------
    n_hops : int
        How far the means go; 0 leaves the graph out.
    max_iterations : int
        Trees of each class.
    learning_rate : float
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; an edge is followed in both directions.
    random_state : int or None
        Seed of the directions that stand for wide features.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("boosted-trees", max_iterations=20, random_state=0).fit(cora)
    >>> is_right = clf.predict_proba().argmax(axis=1) == cora.labels
    >>> bool(is_right[cora.test_index].mean() > 0.6)
    True
    """

    def __init__(
        self,
        *,
        n_hops: int = 2,
        max_iterations: int = 60,
        learning_rate: float = 0.1,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_hops = n_hops
        self.max_iterations = max_iterations
        self.learning_rate = learning_rate
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        if isinstance(self.n_hops, bool) or not isinstance(self.n_hops, int) or self.n_hops < 0:
            raise ValueError(f"n_hops must be a whole number of at least 0, got {self.n_hops!r}")
        wide, _ = _wide_and_roles(graph)
        self.directions_ = None
        if wide.shape[1] > MOST_COLUMNS:
            n_directions = min(MOST_COLUMNS, graph.n_nodes)
            self.directions_ = TruncatedSVD(n_directions, random_state=seed).fit(wide)
        train = graph.train_index
        columns = self._columns(graph)
        n_of_rarest = int(np.bincount(graph.labels[train])[np.unique(graph.labels[train])].min())
        classifier = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.max_iterations,
            # Leaves of 20, the default, would be larger than a class that has 20 labels.
            min_samples_leaf=int(np.clip(n_of_rarest // 4, 1, 20)),
            early_stopping=False,
            random_state=seed,
        )
        self.classifier_ = classifier.fit(columns[train], graph.labels[train])
        return self._probabilities(columns)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        return self._probabilities(self._columns(graph))

    def _probabilities(self, columns: npt.NDArray[np.float32]) -> FloatMatrix:
        probabilities = self.classifier_.predict_proba(columns)
        return in_all_classes(probabilities, self.classifier_.classes_, self.graph_.n_classes)

    def _columns(self, graph: Graph) -> npt.NDArray[np.float32]:
        """Own columns and their means over neighbours, side by side."""
        wide, roles = _wide_and_roles(graph)
        if self.directions_ is not None:
            wide = self.directions_.transform(wide)
        own = wide.toarray() if sp.issparse(wide) else np.asarray(wide)
        if roles is not None:
            own = np.hstack([own, roles])
        neighbours = neighbour_matrix(graph)
        degree = np.asarray(neighbours.sum(axis=1)).ravel()
        mean = sp.diags_array(1 / np.maximum(degree, 1e-12)) @ neighbours
        parts = [own]
        for _ in range(self.n_hops):
            parts.append(mean @ parts[-1])
        return np.hstack([*parts, degree[:, None]]).astype(np.float32)


def _wide_and_roles(graph: Graph) -> tuple[Any, FloatMatrix | None]:
    """The features; without any, columns of place, and those of role, which stay as they are."""
    if graph.features is not None:
        return graph.features, None
    columns = position_features(graph)
    return columns[:, :-N_ROLES], columns[:, -N_ROLES:]
