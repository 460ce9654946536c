"""Simple graph convolution (Wu et al. 2019): the GCN without its non-linearity.

S^K X, with S the renormalised propagation of the paper, enters a logistic regression.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from graphconv.estimators.baselines._logistic import fit_logistic
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    feature_matrix,
)
from graphconv.graph import Graph
from graphconv.graph.checks import check_count
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler
from graphconv.models.propagation import renormalised_adjacency


class SGCClassifier(TransductiveClassifier):
    """Logistic regression on features that were propagated n_hops times.

    Parameters
    ----------
    n_hops : int
        K: how often features are propagated.
    C : float
        Inverse strength of the L2 penalty.
    scaling : {"auto", "row", "l2", "standard", "none"}
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; features travel along an edge in both directions.
    random_state : int or None
        Unused: nothing is random.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("sgc", dataset="cora").fit(cora)
    >>> is_right = clf.predict_proba().argmax(axis=1) == cora.labels
    >>> bool(is_right[cora.test_index].mean() > 0.79)
    True
    """

    def __init__(
        self,
        *,
        n_hops: int = 2,
        C: float = 10.0,
        scaling: Scaling = "auto",
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_hops = n_hops
        self.C = C
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        check_count("n_hops", self.n_hops, 0)
        self.scaler_ = fit_scaler(graph.features, self.scaling)
        train = graph.train_index
        step = renormalised_adjacency(graph)
        # (S^K X) of the training rows alone, from the left: all rows would fill up with entries.
        rows = sp.eye_array(graph.n_nodes, dtype=np.float32, format="csr")[train]
        for _ in range(self.n_hops):
            rows = rows @ step
        columns = rows @ feature_matrix(graph, self.scaler_)
        self.classifier_ = fit_logistic(columns, graph.labels[train], graph.n_classes, self.C)
        return self._label_graph(graph)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        step = renormalised_adjacency(graph)
        # Project, then propagate: S^K (X W) has one column per class, not one per feature.
        outputs = np.asarray(feature_matrix(graph, self.scaler_) @ self.classifier_.weight)
        for _ in range(self.n_hops):
            outputs = step @ outputs
        return cast(FloatMatrix, softmax(outputs + self.classifier_.intercept, axis=1))
