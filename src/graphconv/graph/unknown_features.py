"""Unknown features: which nodes no table describes, and what a node would look like undescribed.

`Graph.unknown_features` says what the leading columns hold of a node that nothing is known of. The
model was never trained on such a node, so its confidence in one needs a calibration of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph.graph import Features, Graph, IntArray
from graphconv.graph.scaling import StoredFeatures


def is_undescribed(graph: Graph, nodes: IntArray | None = None) -> npt.NDArray[np.bool_]:
    """Whether nothing is known of a node's features.

    Parameters
    ----------
    graph : Graph
    nodes : array of node positions, optional
        Default: all.

    Returns
    -------
    array of shape (n_nodes,)

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.graph.unknown_features import is_undescribed
    >>> pair = Graph([[0, 1], [1, 0]], features=[[7, 1], [5, 0]], unknown_features=[5, 0])
    >>> is_undescribed(pair)
    array([False,  True])
    """
    if graph.unknown_features is None or graph.features is None:
        return np.zeros(graph.n_nodes if nodes is None else len(nodes), dtype=bool)
    source = StoredFeatures(graph.features)
    blocks = source.blocks() if nodes is None else [source.take(nodes)]
    # Numbers may be stored with fewer digits than they were read with.
    unknown = graph.unknown_features.astype(graph.features.dtype).astype(np.float32)
    found = [_equal_rows(block, unknown) for block in blocks]
    return np.concatenate([np.empty(0, dtype=bool), *found])


def _equal_rows(features: Features, unknown: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    n_columns = len(unknown)
    if not sp.issparse(features):
        return np.asarray((features[:, :n_columns] == unknown).all(axis=1))
    is_counted = (features.indices < n_columns) & (features.data != 0)
    is_alike = is_counted.copy()
    is_alike[is_counted] = features.data[is_counted] == unknown[features.indices[is_counted]]
    row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    n_counted, n_alike = (
        np.bincount(row[these], minlength=features.shape[0]) for these in (is_counted, is_alike)
    )
    return np.asarray((n_counted == n_alike) & (n_alike == np.count_nonzero(unknown)))


def without_features(rows: Features, n_rows: int, unknown: npt.NDArray[np.float32]) -> Any:
    """Feature rows whose first ones are those of nodes that nothing is known of.

    Parameters
    ----------
    rows : array or csr_array of shape (n_all, n_features)
        As they were read, before scaling.
    n_rows : int
        How many of them lose what is known.
    unknown : array
        `Graph.unknown_features`.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph.unknown_features import without_features
    >>> without_features(np.array([[1.0, 2, 3], [4, 5, 6]]), 1, np.array([8.0, 0]))
    array([[8., 0., 3.],
           [4., 5., 6.]])
    """
    if not sp.issparse(rows):
        changed = np.array(rows)
        changed[:n_rows, : len(unknown)] = unknown
        return changed
    first = sp.csr_array(np.ones((n_rows, 1), dtype=np.float32)) @ sp.csr_array(unknown[None])
    kept = rows[:n_rows, len(unknown) :]
    return sp.csr_array(sp.vstack((sp.hstack((first, kept)), rows[n_rows:])))
