"""Exact spectral filtering on small graphs, equation 3 of the paper: what Chebyshev approaches.

A graph, a filter g and a signal enter; U g(Lambda) U^T x leaves, with U and Lambda the
eigenvectors and eigenvalues of the normalised Laplacian I - D^-1/2 A D^-1/2. Everything is dense
and in double precision.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph

Matrix = npt.NDArray[np.float64]
Filter = Callable[[Matrix], Matrix]


def dense_laplacian(graph: Graph) -> Matrix:
    """I - D^-1/2 A D^-1/2, in which a node without edges has the identity's row."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    degree = adjacency.sum(axis=1)
    laplacian = np.eye(graph.n_nodes)
    for i, j in zip(*np.nonzero(adjacency), strict=True):
        laplacian[i, j] -= adjacency[i, j] / np.sqrt(degree[i] * degree[j])
    return laplacian


def spectral_filter(graph: Graph, g: Filter, x: Matrix) -> Matrix:
    """U g(Lambda) U^T x."""
    eigenvalues, u = np.linalg.eigh(dense_laplacian(graph))
    filtered: Matrix = u @ (g(eigenvalues)[:, None] * (u.T @ x))
    return filtered


def chebyshev_coefficients(g: Filter, order: int, lambda_max: float) -> Matrix:
    """Theta_0 .. Theta_order for which sum_k Theta_k T_k meets g, rescaled to [-1, 1], best."""
    coefficients: Matrix = np.polynomial.chebyshev.chebinterpolate(
        lambda x: g((x + 1) * lambda_max / 2), order
    )
    return coefficients
