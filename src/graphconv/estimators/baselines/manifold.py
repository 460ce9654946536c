"""Manifold regularisation (Belkin, Niyogi and Sindhwani 2006): equation 1 of the paper.

A linear classifier f(X) = X W is fitted to the labelled nodes and made smooth along the edges,
L = L_0 + lambda sum_ij A_ij |f(x_i) - f(x_j)|^2, here with the logistic loss for L_0.
"""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning

from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    feature_matrix,
    neighbour_matrix,
)
from graphconv.graph import Graph
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler


class ManifoldClassifier(TransductiveClassifier):
    """Laplacian-regularised logistic regression.

    Minimises the mean cross-entropy of the training nodes, plus half of `smoothness` times the
    mean over nodes of f^T L f, plus half of `weight_decay` times the sum of squared weights.

    Parameters
    ----------
    smoothness : float
        lambda of equation 1: how strongly the classifier must agree along edges.
    weight_decay : float
        Above 0, so that there is one best classifier.
    scaling : {"auto", "row", "l2", "standard", "none"}
    tol : float
        Stop when no partial derivative of the objective is larger.
    max_iterations : int
        Of L-BFGS; stops there at the latest, with a ConvergenceWarning.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; an edge pulls at both of its ends.
    random_state : int or None
        Unused: nothing is random.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("manifold", dataset="cora").fit(cora)
    >>> is_right = clf.predict_proba().argmax(axis=1) == cora.labels
    >>> bool(is_right[cora.test_index].mean() > 0.6)
    True
    """

    def __init__(
        self,
        *,
        smoothness: float = 1.0,
        weight_decay: float = 1e-3,
        scaling: Scaling = "auto",
        tol: float = 1e-5,
        max_iterations: int = 2000,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.smoothness = smoothness
        self.weight_decay = weight_decay
        self.scaling = scaling
        self.tol = tol
        self.max_iterations = max_iterations
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        for name in ("smoothness", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)!r}")
        self.scaler_ = fit_scaler(graph.features, self.scaling)
        features = feature_matrix(graph, self.scaler_)
        train = graph.train_index
        neighbours = neighbour_matrix(graph).astype(np.float64)
        # Classes without a training node would only take part in the softmax.
        present, targets = np.unique(graph.labels[train], return_inverse=True)
        self.present_ = present
        self.weight_ = self._minimise(
            features, train, np.eye(len(present))[targets], sp.csgraph.laplacian(neighbours)
        )
        return self._probabilities(features)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        return self._probabilities(feature_matrix(graph, self.scaler_))

    def _probabilities(self, features: Any) -> FloatMatrix:
        probabilities = np.zeros((features.shape[0], len(self.classes_)))
        probabilities[:, self.present_] = softmax(features @ self.weight_, axis=1)
        return probabilities

    def _minimise(
        self, features: Any, train: Any, targets: FloatMatrix, laplacian: sp.csr_array
    ) -> FloatMatrix:
        shape = (features.shape[1], targets.shape[1])
        # Paper: manifold regularisation of a kernel machine (Belkin et al.); here: of a linear
        # classifier with the logistic loss, because the kernel of the quoted figures is not known.
        features = features.astype(np.float64)
        labelled, transposed = features[train], features.T
        pull = self.smoothness / features.shape[0]

        def objective(flat: FloatMatrix) -> tuple[float, FloatMatrix]:
            weight = flat.reshape(shape)
            outputs = features @ weight  # (n_nodes, n_classes)
            bent = laplacian @ outputs
            logits = outputs[train]
            loss = -(targets * log_softmax(logits, axis=1)).sum() / len(targets)
            gradient = labelled.T @ ((softmax(logits, axis=1) - targets) / len(targets))
            gradient = gradient + pull * (transposed @ bent) + self.weight_decay * weight
            penalty = pull * np.vdot(outputs, bent) + self.weight_decay * np.vdot(weight, weight)
            return float(loss + penalty / 2), gradient.ravel()

        found = minimize(
            objective,
            np.zeros(shape).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iterations, "gtol": self.tol, "ftol": 0},
        )
        if found.nit >= self.max_iterations:
            warnings.warn(
                f"manifold did not converge in {self.max_iterations} iterations",
                ConvergenceWarning,
                stacklevel=4,
            )
        return cast(FloatMatrix, found.x.reshape(shape))
