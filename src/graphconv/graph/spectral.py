"""Filters on the spectrum of a graph: equation 3 of the paper exactly, and equation 5 beside it.

A graph, a filter g and a signal enter; U g(Lambda) U^T x leaves, with U and Lambda the eigenvectors
and eigenvalues of the normalised Laplacian L = I - D^-1/2 A D^-1/2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph.checks import check_count
from graphconv.graph.graph import Graph

FloatArray = npt.NDArray[np.float64]
Filter = Callable[[FloatArray], npt.ArrayLike]
# A dense matrix of so many rows takes 0.8 GB, and its eigenvectors minutes.
MOST_NODES = 10_000


def spectral_filter(graph: Graph, g: Filter, x: npt.ArrayLike) -> FloatArray:
    """Filter a signal on the nodes exactly: U g(Lambda) U^T x, equation 3.

    All eigenvectors are worked out, in time that grows with the cube of the number of nodes: this
    is what the paper's layers approximate, for looking at on small graphs.

    Parameters
    ----------
    graph : Graph
        Undirected, of at most 10,000 nodes.
    g : callable
        Gets the eigenvalues of the normalised Laplacian, shape (n_nodes,), each from 0 to 2, and
        returns what becomes of each of them.
    x : array of shape (n_nodes,) or (n_nodes, n_signals)

    Returns
    -------
    array of the shape of x

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph, spectral_filter
    >>> pair = Graph([[0, 1], [1, 0]])  # its eigenvalues are 0 and 2
    >>> spectral_filter(pair, lambda eigenvalues: eigenvalues == 0, [1.0, 3.0]).round(6)
    array([2., 2.])
    """
    signal = _signal(graph, x)
    if graph.n_nodes > MOST_NODES:
        raise ValueError(
            f"spectral_filter needs a graph of at most {MOST_NODES:,} nodes, got {graph.n_nodes:,}"
        )
    eigenvalues, u = np.linalg.eigh(normalised_laplacian(graph).toarray())
    kept = _filtered(g, eigenvalues)
    return np.asarray(u @ (kept[:, None] * (u.T @ signal.reshape(len(signal), -1)))).reshape(
        signal.shape
    )


def chebyshev_filter(graph: Graph, g: Filter, x: npt.ArrayLike, order: int) -> FloatArray:
    """Filter a signal by the Chebyshev polynomial of an order that meets g best: equation 5.

    sum_k theta_k T_k(L~) x with L~ = 2 L / lambda_max - I and lambda_max = 2, which bounds the
    eigenvalues of every graph. A node's value depends on nodes at most `order` steps away.

    Parameters
    ----------
    graph, g, x
        As for `spectral_filter`; any number of nodes.
    order : int
        K. 0 leaves only a multiple of x.

    Returns
    -------
    array of the shape of x

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.graph.spectral import chebyshev_filter
    >>> pair = Graph([[0, 1], [1, 0]])
    >>> chebyshev_filter(pair, lambda eigenvalues: 1 - eigenvalues, [1.0, 3.0], order=1).round(6)
    array([3., 1.])
    """
    check_count("order", order, 0)
    signal = _signal(graph, x)
    # The polynomial that meets g in the zeros of T_(K+1): eigenvalues 0 to 2 are -1 to 1 there.
    zeros = np.polynomial.chebyshev.chebpts1(order + 1)
    theta = np.polynomial.chebyshev.chebfit(zeros, _filtered(g, zeros + 1), order)
    rescaled = normalised_laplacian(graph) - sp.eye_array(graph.n_nodes)
    before, current = signal, np.asarray(rescaled @ signal)  # T_0 x and T_1 x
    total = theta[0] * signal
    for coefficient in theta[1:]:
        total = total + coefficient * current
        before, current = current, 2 * np.asarray(rescaled @ current) - before
    return np.asarray(total)


def normalised_laplacian(graph: Graph) -> sp.csr_array:
    """I - D^-1/2 A D^-1/2 in double precision; row i of a node without edges is the identity's."""
    adjacency = graph.adjacency.astype(np.float64)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    scaling = sp.diags_array(scale)
    return sp.csr_array(sp.eye_array(graph.n_nodes) - scaling @ adjacency @ scaling)


def _signal(graph: Graph, x: npt.ArrayLike) -> FloatArray:
    if graph.directed:
        raise ValueError("a spectral filter needs an undirected graph, got a directed one")
    signal = np.asarray(x, dtype=np.float64)
    if signal.ndim not in (1, 2) or len(signal) != graph.n_nodes:
        raise ValueError(
            f"x must have one entry or row for each of {graph.n_nodes} nodes, got shape "
            f"{signal.shape}"
        )
    return signal


def _filtered(g: Filter, eigenvalues: FloatArray) -> FloatArray:
    kept = np.asarray(g(eigenvalues), dtype=np.float64)
    if kept.shape != eigenvalues.shape:
        raise ValueError(
            f"g must return a number for each eigenvalue, shape {eigenvalues.shape}, got "
            f"{kept.shape}"
        )
    return kept
