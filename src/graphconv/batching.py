"""Batches: target nodes together with the rows that every layer needs to compute them.

A Graph and target nodes enter, a `Batch` leaves. The rows of a batch are ordered by their distance
from the targets, so "all rows within h hops" is always a leading block: the layer that is computed
on the rows within h hops reads its input on the rows within h + 1, and no layer looks anything up.
Full-batch training is the batch of all labelled nodes; prediction is the batch of all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.kernels import Csr

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Batch:
    """The part of a graph that decides the outputs of some target nodes, in local numbering.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        Node numbers in the whole graph, the targets first, then by distance from them.
    n_within : tuple of int
        n_within[h] is how many of the rows lie within h hops of the targets.
    degree : array of shape (n_rows,)
        Row sums of the whole graph's adjacency.
    features : Csr, array of shape (n_rows, n_features), or None
        None is the featureless case: row i of the identity matrix is node rows[i]'s.
    is_whole : bool
        Whether the rows are all nodes of the graph in their own order.
    """

    rows: IntArray
    n_within: tuple[int, ...]
    degree: Array
    features: Csr | Array | None
    n_features: int
    adjacency: sp.csr_array  # (n_rows, n_rows), local numbering
    adjacency_transposed: sp.csr_array  # the same object where the graph is undirected
    is_weighted: bool
    is_whole: bool
    _blocks: dict[tuple[int, int, bool], Csr] = field(default_factory=dict)

    @cached_property
    def identity_features(self) -> Csr:
        """The rows of the identity matrix, for featureless input: one entry each."""
        ends = np.arange(len(self.rows) + 1)
        return Csr(ends[:-1], ends[1:], self.rows, None)

    def block(self, n_rows: int, n_columns: int, transposed: bool = False) -> Csr:
        """The leading (n_rows, n_columns) block of the adjacency matrix or of its transpose."""
        key = (n_rows, n_columns, transposed)
        if key not in self._blocks:
            matrix = self.adjacency_transposed if transposed else self.adjacency
            self._blocks[key] = _leading_block(matrix, n_rows, n_columns, self.is_weighted)
        return self._blocks[key]


def make_batch(
    graph: Graph,
    targets: npt.ArrayLike | None = None,
    *,
    n_hops: int,
    features: Any = None,
    dtype: npt.DTypeLike = np.float32,
) -> Batch:
    """Batch of the given targets, reaching `n_hops` far; all nodes if there are no targets.

    Parameters
    ----------
    graph : Graph
    targets : array of node numbers, optional
    n_hops : int
        How far the model sees: the hops of all its layers together.
    features : sparse or dense matrix, optional
        Stands in for graph.features, for features that were scaled.
    dtype : numpy float type of all values

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.batching import make_batch
    >>> path = Graph([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> batch = make_batch(path, [3], n_hops=2)
    >>> batch.rows, batch.n_within
    (array([3, 2, 1]), (1, 2, 3))
    """
    adjacency = graph.adjacency
    features = graph.features if features is None else features
    if targets is None:
        rows: IntArray = np.arange(graph.n_nodes)
        n_within = (graph.n_nodes,) * (n_hops + 1)
        local = adjacency
    else:
        rows, n_within = nodes_within(adjacency, np.asarray(targets, dtype=np.int64), n_hops)
        local = _submatrix(adjacency, rows)
    if local.dtype != dtype:
        local = local.astype(dtype)
    if graph.directed:
        transposed = sp.csr_array(local.T.tocsr())
        transposed.sort_indices()
    else:
        transposed = local
    return Batch(
        rows=rows,
        n_within=n_within,
        degree=graph.degree[rows].astype(dtype),
        features=_feature_rows(features, None if targets is None else rows, dtype),
        n_features=graph.n_nodes if features is None else int(features.shape[1]),
        adjacency=local,
        adjacency_transposed=transposed,
        is_weighted=graph.is_weighted,
        is_whole=targets is None,
    )


def nodes_within(
    adjacency: sp.csr_array, targets: IntArray, n_hops: int
) -> tuple[IntArray, tuple[int, ...]]:
    """Nodes within 0, 1, ... n_hops steps of the targets, nearest first, and how many they are."""
    seen = np.zeros(adjacency.shape[0], dtype=bool)
    seen[targets] = True
    rings, counts = [targets], [len(targets)]
    for _ in range(n_hops):
        reached = adjacency[rings[-1]].indices
        ring = np.unique(reached[~seen[reached]]).astype(np.int64)
        seen[ring] = True
        rings.append(ring)
        counts.append(counts[-1] + len(ring))
    return np.concatenate(rings), tuple(counts)


def _submatrix(adjacency: sp.csr_array, rows: IntArray) -> sp.csr_array:
    local_number = np.full(adjacency.shape[0], -1, dtype=np.int32)
    local_number[rows] = np.arange(len(rows), dtype=np.int32)
    chosen = adjacency[rows]
    columns = local_number[chosen.indices]
    inside = columns >= 0
    counts = np.concatenate(([0], np.cumsum(inside)))[chosen.indptr]
    local = sp.csr_array(
        (chosen.data[inside], columns[inside], counts.astype(np.int32)),
        shape=(len(rows), len(rows)),
    )
    local.sort_indices()
    return local


def _leading_block(matrix: sp.csr_array, n_rows: int, n_columns: int, weighted: bool) -> Csr:
    # Columns are sorted within a row, so the block is the leading part of each row.
    begin, end = matrix.indptr[:n_rows], matrix.indptr[1 : n_rows + 1]
    if n_columns < matrix.shape[1]:
        inside = np.concatenate(
            ([0], np.cumsum(matrix.indices[: matrix.indptr[n_rows]] < n_columns))
        )
        end = (begin + inside[end] - inside[begin]).astype(matrix.indptr.dtype)
    values = matrix.data if weighted else None
    return Csr(begin, np.ascontiguousarray(end), matrix.indices, values)


def _feature_rows(features: Any, rows: IntArray | None, dtype: npt.DTypeLike) -> Csr | Array | None:
    if features is None:
        return None
    if not sp.issparse(features):
        dense: Array = np.asarray(features, dtype=dtype)
        return np.ascontiguousarray(dense if rows is None else dense[rows])
    indptr = features.indptr
    begin, end = (indptr[:-1], indptr[1:]) if rows is None else (indptr[rows], indptr[rows + 1])
    return Csr(begin, end, features.indices, features.data.astype(dtype, copy=False))
