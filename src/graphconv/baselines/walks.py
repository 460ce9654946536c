"""Random walks on a graph: all of them take their next step at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import IntArray


def random_walks(
    links: sp.csr_array, starts: npt.ArrayLike, n_steps: int, rng: np.random.Generator
) -> IntArray:
    """Random walks, one from every start; edges are taken in proportion to their weight.

    Parameters
    ----------
    links : sparse matrix of shape (n_nodes, n_nodes)
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
    >>> from graphconv.baselines.walks import random_walks
    >>> pair = sp.csr_array([[0, 1], [1, 0]])
    >>> random_walks(pair, [0, 1], 3, np.random.default_rng(0))
    array([[0, 1, 0, 1],
           [1, 0, 1, 0]])
    """
    begin, count = links.indptr[:-1].astype(np.int64), np.diff(links.indptr).astype(np.int64)
    # Where weights differ, a step is looked up in their running sum; else it is a plain draw.
    weighted = links.nnz > 0 and bool((links.data != links.data[0]).any())
    reach = np.concatenate(([0.0], np.cumsum(links.data, dtype=np.float64))) if weighted else None
    nodes = np.asarray(starts, dtype=np.int64)
    walks = np.empty((len(nodes), n_steps + 1), dtype=np.int64)
    walks[:, 0] = nodes
    for step in range(1, n_steps + 1):
        chance = rng.random(len(nodes))
        moving = count[nodes] > 0
        first, n_choices = begin[nodes[moving]], count[nodes[moving]]
        if reach is None:
            chosen = first + (chance[moving] * n_choices).astype(np.int64)
        else:
            low, high = reach[first], reach[first + n_choices]
            chosen = np.searchsorted(reach, low + chance[moving] * (high - low), side="right") - 1
        chosen = np.clip(chosen, first, first + n_choices - 1)  # rounding may overshoot
        nodes = nodes.copy()
        nodes[moving] = links.indices[chosen]
        walks[:, step] = nodes
    return walks


def context_pairs(walks: IntArray, window: int) -> tuple[IntArray, IntArray]:
    """All pairs (node, context) at most `window` steps apart on a walk, both ways.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.baselines.walks import context_pairs
    >>> context_pairs(np.array([[0, 1, 2]]), window=1)
    (array([0, 1, 1, 2]), array([1, 2, 0, 1]))
    """
    nodes, contexts = [], []
    for distance in range(1, min(window, walks.shape[1] - 1) + 1):
        nodes.append(walks[:, :-distance].ravel())
        contexts.append(walks[:, distance:].ravel())
    if not nodes:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(nodes + contexts), np.concatenate(contexts + nodes)
