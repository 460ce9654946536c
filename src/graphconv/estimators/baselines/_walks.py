"""Random walks on a graph, and the pairs of nodes that meet on them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv import kernels
from graphconv.graph import IntArray
from graphconv.kernels import Csr


def random_walks(
    neighbours: sp.csr_array, starts: npt.ArrayLike, n_steps: int, rng: np.random.Generator
) -> IntArray:
    """Random walks, one from every start; edges are taken in proportion to their weight.

    Parameters
    ----------
    neighbours : sparse matrix of shape (n_nodes, n_nodes)
        Entry (i, j) is the weight of the step from i to j.
    starts : array of shape (n_walks,)
    n_steps : int
    rng : numpy.random.Generator

    Returns
    -------
    array of shape (n_walks, n_steps + 1)
        Node numbers. A walk that comes to a node without neighbours stays there.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from graphconv.estimators.baselines._walks import random_walks
    >>> pair = sp.csr_array([[0, 1], [1, 0]])
    >>> random_walks(pair, [0, 1], 3, np.random.default_rng(0))
    array([[0, 1, 0, 1],
           [1, 0, 1, 0]])
    """
    rows = Csr(neighbours.indptr[:-1], neighbours.indptr[1:], neighbours.indices, None)
    # Where weights differ, a step is looked up in their running sum; else it is a plain draw.
    weighted = bool((neighbours.data != neighbours.data[:1]).any())
    totals = (
        np.concatenate(([0.0], np.cumsum(neighbours.data, dtype=np.float64))) if weighted else None
    )
    key = int(rng.integers(2**64, dtype=np.uint64))
    nodes = np.asarray(starts, dtype=np.int64)
    walks: IntArray = kernels.select().walks(rows, totals, nodes, n_steps, key)
    return walks


def context_pairs(walks: IntArray, window: int) -> tuple[IntArray, IntArray]:
    """All pairs (node, context) at most `window` steps apart on a walk, both ways.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.estimators.baselines._walks import context_pairs
    >>> context_pairs(np.array([[0, 1, 2]]), window=1)
    (array([0, 1, 1, 2]), array([1, 2, 0, 1]))
    """
    nodes, contexts = [], []
    for distance in range(1, window + 1):
        nodes.append(walks[:, :-distance].ravel())
        contexts.append(walks[:, distance:].ravel())
    if not nodes:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(nodes + contexts), np.concatenate(contexts + nodes)
