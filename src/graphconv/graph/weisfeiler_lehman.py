"""Weisfeiler-Lehman colour refinement (appendix A of the paper): an adjacency matrix -> colours.

Nodes of one colour cannot be told apart by looking at neighbours, their neighbours and so on. A
GCN is a smooth version of it: the colour becomes a vector, the hash a layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import IntArray


def wl_colours(
    adjacency: Any, colours: npt.ArrayLike | None = None, max_iterations: int | None = None
) -> IntArray:
    """Colour of each node after refinement by the colours of its neighbours.

    In every round nodes stay alike only if they had the same colour and as many neighbours of each
    colour. It ends when a round tells no more nodes apart.

    Parameters
    ----------
    adjacency : array or sparse matrix of shape (n_nodes, n_nodes)
        Entry (i, j) other than 0 makes j a neighbour of i. How large it is does not matter.
    colours : integer array of shape (n_nodes,), optional
        Colours to start from. Default: one colour for all.
    max_iterations : int, optional
        Rounds at most. Default: until the colouring is stable.

    Returns
    -------
    array of shape (n_nodes,)
        Colours 0, 1, ... numbered by what they stand for and not by the order of the nodes: in
        two graphs that differ only in this order, nodes that correspond have the same colour.

    Examples
    --------
    >>> from graphconv.graph.weisfeiler_lehman import wl_colours
    >>> wl_colours([[0, 1, 0], [1, 0, 1], [0, 1, 0]])  # a path: its ends look the same
    array([0, 1, 0])
    """
    matrix = sp.csr_array(adjacency)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"adjacency must be square, got shape {matrix.shape}")
    matrix = sp.csr_array(matrix != 0)
    n_nodes = matrix.shape[0]
    given = np.zeros(n_nodes) if colours is None else np.asarray(colours)
    if given.shape != (n_nodes,):
        raise ValueError(f"colours must have one entry per node ({n_nodes}), got {given.shape}")
    current: IntArray = np.unique(given, return_inverse=True)[1].astype(np.int64)
    # Every round but the last makes more colours, so there are no more rounds than nodes.
    n_rounds = n_nodes if max_iterations is None else max_iterations
    # Paper: a node's new colour is a hash of its neighbours' colours alone; here: its own colour
    # counts as well, because without it two rounds may merge what one round told apart.
    for _ in range(n_rounds):
        refined = _refine(matrix, current)
        # Old colours come first in the order, so a round without news leaves the numbers alone.
        if np.array_equal(refined, current):
            break
        current = refined
    return current


def _refine(matrix: sp.csr_array, colours: IntArray) -> IntArray:
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    seen = colours[matrix.indices]
    seen = seen[np.lexsort((seen, row))].tolist()
    ends = matrix.indptr.tolist()
    signatures = [
        (colour, tuple(seen[ends[node] : ends[node + 1]]))
        for node, colour in enumerate(colours.tolist())
    ]
    number = {signature: place for place, signature in enumerate(sorted(set(signatures)))}
    return np.array([number[signature] for signature in signatures], dtype=np.int64)
