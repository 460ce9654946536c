"""Label propagation of Zhu, Ghahramani and Lafferty (2003): labels spread until they are harmonic.

Training nodes keep their labels; every other node takes the weighted mean of its neighbours. The
result is the harmonic function f with L_uu f_u = W_ul y_l. Features are not looked at.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from graphconv.estimators.baselines._conjugate_gradients import solve_columns
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    in_all_classes,
    neighbour_matrix,
)
from graphconv.graph import Graph


class LabelPropagationClassifier(TransductiveClassifier):
    """Label propagation with clamped training labels (the harmonic function).

    Parameters
    ----------
    n_steps : int, optional
        Stop after so many rounds in which every node takes its neighbours' mean. None goes all
        the way to the harmonic function, by conjugate gradients.
    class_mass : bool
        Class-mass normalisation: scale each class so that its share of all nodes is its share of
        the training nodes.
    tol : float
        Conjugate gradients stop when the residual of every class is below this part of its
        right-hand side.
    max_iterations : int
        Conjugate gradients stop here at the latest, with a ConvergenceWarning.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; labels spread along an edge in both directions.
    random_state : int or None
        Unused: nothing is random.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> karate = load_dataset("karate")
    >>> clf = make_estimator("label-propagation").fit(karate)
    >>> clf.predict_proba().shape
    (34, 4)
    """

    def __init__(
        self,
        *,
        n_steps: int | None = None,
        class_mass: bool = True,
        tol: float = 1e-4,
        max_iterations: int = 2000,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_steps = n_steps
        self.class_mass = class_mass
        self.tol = tol
        self.max_iterations = max_iterations
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        neighbours = neighbour_matrix(graph).astype(np.float64)
        # Classes without a training node stay at zero: leave them out of the work.
        present, numbers = np.unique(graph.labels[graph.train_index], return_inverse=True)
        given = np.zeros((graph.n_nodes, len(present)))
        given[graph.train_index] = np.eye(len(present))[numbers]
        if self.n_steps is None:
            spread = self._harmonic(neighbours, given, graph)
        else:
            spread = _spread(neighbours, given, graph, self.n_steps)
        prior = given.sum(axis=0) / given.sum()
        # Paper: label propagation as Zhu et al. define it; here: scaled to the classes' shares of
        # the training nodes unless class_mass is False, because without it, and without an end to
        # n_steps, large classes take all (21.9 % of Pubmed's test nodes right, 7.7 of NELL's).
        if self.class_mass:
            spread *= prior / spread.sum(axis=0)
        # Rows that no label reaches: all that is known is how common the classes are.
        shares = np.tile(prior, (graph.n_nodes, 1))
        total = spread.sum(axis=1, keepdims=True)
        np.divide(spread, total, out=shares, where=total > 1e-12)
        return in_all_classes(shares, present, graph.n_classes)

    def _harmonic(self, neighbours: sp.csr_array, given: FloatMatrix, graph: Graph) -> FloatMatrix:
        _, part = sp.csgraph.connected_components(neighbours)
        reached = np.isin(part, part[graph.train_index])
        reached[graph.train_index] = False
        free = np.flatnonzero(reached)
        degree = np.asarray(neighbours.sum(axis=1)).ravel()[free]
        known = neighbours[free] @ given
        within = neighbours[free][:, free]
        # L_uu = D_uu - W_uu, made well-conditioned by D_uu^-1/2 on both sides.
        scale = 1 / np.sqrt(degree)
        within = sp.diags_array(scale) @ within @ sp.diags_array(scale)
        solution, converged = solve_columns(
            lambda columns: columns - within @ columns,
            scale[:, None] * known,
            self.tol,
            self.max_iterations,
        )
        if not converged:
            warnings.warn(
                f"label propagation did not converge in {self.max_iterations} iterations",
                ConvergenceWarning,
                stacklevel=4,
            )
        spread = given.copy()
        spread[free] = np.maximum(scale[:, None] * solution, 0)
        return spread


def _spread(
    neighbours: sp.csr_array, given: FloatMatrix, graph: Graph, n_steps: int
) -> FloatMatrix:
    degree = np.asarray(neighbours.sum(axis=1)).ravel()
    walk = sp.diags_array(1 / np.maximum(degree, 1e-300)) @ neighbours
    spread = given
    for _ in range(n_steps):
        spread = walk @ spread
        spread[graph.train_index] = given[graph.train_index]
    return spread
