"""Batches: target nodes together with the rows that every layer needs to compute them.

A Graph and target nodes enter, a `Batch` leaves. The rows of a batch are ordered by their distance
from the targets, so "all rows within h hops" is always a leading block: the layer that is computed
on the rows within h hops reads its input on the rows within h + 1, and no layer looks anything up.
Full-batch training is the batch of all labelled nodes; prediction is the batch of all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv import kernels
from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import StoredFeatures
from graphconv.kernels import Csr, PackedRows, RowSample, fixed, n_ranges

Array = npt.NDArray[Any]


class Scales:
    """What the rows and the columns of a batch's adjacency matrix are multiplied by."""

    def __init__(self, rows: Array | None = None, columns: Array | None = None) -> None:
        self.rows = rows
        self.columns = columns
        self._n_uses: dict[int, int] = {}
        self._of_entries: dict[int, Array] = {}

    def of_entries(self, block: Csr, scale: Array | None) -> Array | None:
        """The scale of each entry's column, where looking it up in every product takes longer.

        Two products are a mini-batch, forward and back: for these it does not pay.
        """
        if scale is None or scale.nbytes <= kernels.NEAR_BYTES:
            return None
        key = id(block.indices)  # blocks of a batch share their entries, which live as long as it
        self._n_uses[key] = self._n_uses.get(key, 0) + 1
        if self._n_uses[key] <= 2:
            return None
        if key not in self._of_entries:
            self._of_entries[key] = scale[block.indices]
        return self._of_entries[key]


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
    is_summed : bool
        Whether the features are sums over neighbours already, which the first layer then need not
        make; see `sum_beforehand`.
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
    is_summed: bool = False
    has_halo = False  # whether sums read rows of other processes too
    _blocks: dict[tuple[int, int, bool], Csr] = field(default_factory=dict, init=False)
    _packed: list[PackedRows | None] = field(default_factory=list, init=False)
    _scales: dict[tuple[float, bool], Scales] = field(default_factory=dict, init=False)

    @cached_property
    def identity_features(self) -> Csr:
        """The rows of the identity matrix, for featureless input: one entry each."""
        kind = np.int32 if self.n_features <= np.iinfo(np.int32).max else np.int64
        ends = np.arange(len(self.rows) + 1, dtype=kind)
        return fixed(Csr(ends[:-1], ends[1:], self.rows.astype(kind), None))

    def packed_features(self, kernels: ModuleType) -> PackedRows | None:
        """Sparse features as products with wide weights read them; None where that is no faster."""
        if not self._packed:
            assert isinstance(self.features, Csr)
            n = n_ranges(self.features, self.n_features)
            packed = kernels.pack_rows(self.features, self.n_features, n) if n > 1 else None
            if packed is not None:
                packed = packed._replace(pieces=fixed(packed.pieces))
            self._packed.append(packed)
        return self._packed[0]

    def scales(self, self_weight: float, directed: bool) -> Scales:
        """What normalises sums over neighbours, with self-loops of some weight."""
        key = (self_weight, directed)
        if key not in self._scales:
            self._scales[key] = Scales(*normalising_scales(self.degree, self_weight, directed))
        return self._scales[key]

    def with_halo(self, x: Array, hop: int) -> Array:
        """The rows that the sums of a hop read: x, and those of other processes."""
        raise AssertionError("only a batch of a part has a halo")

    def halo_gradient(self, gradient: Array, hop: int) -> Array:
        """The gradient of x, given that of `with_halo`."""
        raise AssertionError("only a batch of a part has a halo")

    def block(self, n_rows: int, n_columns: int, transposed: bool = False) -> Csr:
        """The leading (n_rows, n_columns) block of the adjacency matrix or of its transpose."""
        key = (n_rows, n_columns, transposed)
        if key not in self._blocks:
            matrix = self.adjacency_transposed if transposed else self.adjacency
            self._blocks[key] = fixed(_leading_block(matrix, n_rows, n_columns, self.is_weighted))
        return self._blocks[key]


def normalising_scales(
    degree: Array, self_weight: float, directed: bool
) -> tuple[Array, Array | None]:
    """What rows and columns of A + lambda I are multiplied by; None: columns are not."""
    # Degrees below the smallest normal number have an inverse that overflows: no neighbours.
    scale: Array = degree + degree.dtype.type(self_weight)
    is_alone = scale <= np.finfo(degree.dtype).tiny
    np.divide(1, scale, out=scale, where=~is_alone)
    scale[is_alone] = 0
    if directed:
        return scale, None
    np.sqrt(scale, out=scale)
    return scale, scale


@dataclass(frozen=True, eq=False)
class SampledBatch(Batch):
    """A batch in which every hop has a sample of the edges for itself.

    `adjacency` has no entries: what is summed over is `hops[h]`, of shape
    (n_within[h], n_within[h + 1]), with its transpose. n_within grows with every hop, so that the
    shape of a block tells which hop it is.
    """

    hops: tuple[tuple[sp.csr_array, sp.csr_array], ...] = ()

    def block(self, n_rows: int, n_columns: int, transposed: bool = False) -> Csr:
        """The edges of the hop between so many rows and so many columns."""
        hop = self.n_within.index(min(n_rows, n_columns))
        matrix = self.hops[hop][transposed]
        assert matrix.shape == (n_rows, n_columns)
        return fixed(_leading_block(matrix, n_rows, n_columns, weighted=True))


class Numbering:
    """A number for each node, kept from batch to batch: filling it anew costs the whole graph."""

    def __init__(self, n_nodes: int) -> None:
        self.of_node = np.full(n_nodes, -1, dtype=np.int32)

    def forget(self, nodes: IntArray) -> None:
        self.of_node[nodes] = -1


def make_batch(
    graph: Graph,
    targets: npt.ArrayLike | None = None,
    *,
    n_hops: int,
    features: Any = None,
    dtype: npt.DTypeLike = np.float32,
    numbering: Numbering | None = None,
) -> Batch:
    """Batch of the given targets, reaching `n_hops` far; all nodes if there are no targets.

    Parameters
    ----------
    graph : Graph
    targets : array of node numbers, optional
    n_hops : int
        How far the model sees: the hops of all its layers together.
    features : sparse or dense matrix or StoredFeatures, optional
        Stands in for graph.features, for features that were scaled.
    dtype : numpy float type of all values
    numbering : Numbering, optional
        Whoever makes many batches of one graph keeps one.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.engine.batches import make_batch
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
        numbering = numbering or Numbering(graph.n_nodes)
        wanted = np.asarray(targets, dtype=np.int64)
        rows, n_within = nodes_within(adjacency, wanted, n_hops, numbering)
        local = _submatrix(adjacency, rows, graph.is_weighted, numbering)
        numbering.forget(rows)
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
        features=feature_rows(features, None if targets is None else rows, dtype),
        n_features=graph.n_nodes if features is None else int(features.shape[1]),
        adjacency=local,
        adjacency_transposed=transposed,
        is_weighted=graph.is_weighted,
        is_whole=targets is None,
    )


def sample_batch(
    graph: Graph,
    targets: npt.ArrayLike,
    *,
    fanouts: Sequence[int],
    keys: Sequence[int],
    features: Any = None,
    dtype: npt.DTypeLike = np.float32,
    numbering: Numbering | None = None,
) -> SampledBatch:
    """Batch of the given targets in which every node sums over a sample of its neighbours.

    A sampled sum is multiplied by how many neighbours there are for each one in the sample: its
    mean over all samples is the whole sum. Degrees stay those of the graph.

    Parameters
    ----------
    graph : Graph
    targets : array of node numbers
    fanouts : sequence of int
        How many neighbours to sample at each hop, that of the last layer first.
    keys : sequence of int
        For each hop 64 bits that decide its sample, together with the node: not the other targets.
    features, dtype, numbering
        As for `make_batch`.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.engine.batches import sample_batch
    >>> star = Graph([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    >>> batch = sample_batch(star, [0], fanouts=[2], keys=[7])
    >>> batch.n_within, batch.hops[0][0].toarray()  # two of three neighbours, each for 1.5
    ((1, 3), array([[0. , 1.5, 1.5]], dtype=float32))
    """
    features = graph.features if features is None else features
    numbering = numbering or Numbering(graph.n_nodes)
    rows: IntArray = np.asarray(targets, dtype=np.int64)
    numbering.of_node[rows] = np.arange(len(rows), dtype=np.int32)
    n_within, samples = [len(rows)], []
    for fanout, key in zip(fanouts, keys, strict=True):
        sample = copied_rows(graph.adjacency, rows, graph.is_weighted, fanout, key)
        samples.append(sample)
        found = sample.columns
        new = np.unique(found[numbering.of_node[found] < 0]).astype(np.int64)
        numbering.of_node[new] = np.arange(len(rows), len(rows) + len(new), dtype=np.int32)
        # A row that nothing refers to, where the hop finds no new one: n_within must grow.
        rows = np.concatenate([rows, new if len(new) else rows[:1]])
        n_within.append(len(rows))
    hops = []
    for hop, sample in enumerate(samples):
        columns = numbering.of_node[sample.columns]
        lengths = np.diff(sample.indptr)
        scale = np.repeat(sample.scale, lengths).astype(dtype)
        values = scale if sample.values is None else sample.values.astype(dtype) * scale
        shape = (n_within[hop], n_within[hop + 1])
        matrix = sp.csr_array((values, columns, sample.indptr.astype(np.int32)), shape=shape)
        matrix.sort_indices()
        transposed = sp.csr_array(matrix.T.tocsr())
        transposed.sort_indices()
        hops.append((matrix, transposed))
    numbering.forget(rows)
    empty = sp.csr_array((len(rows), len(rows)), dtype=dtype)
    return SampledBatch(
        rows=rows,
        n_within=tuple(n_within),
        degree=graph.degree[rows].astype(dtype),
        features=feature_rows(features, rows, dtype),
        n_features=graph.n_nodes if features is None else int(features.shape[1]),
        adjacency=empty,
        adjacency_transposed=empty,
        is_weighted=True,
        is_whole=False,
        hops=tuple(hops),
    )


def nodes_within(
    adjacency: sp.csr_array,
    targets: IntArray,
    n_hops: int,
    numbering: Numbering | None = None,
) -> tuple[IntArray, tuple[int, ...]]:
    """Nodes within 0, 1, ... n_hops steps of the targets, nearest first, and how many they are.

    The numbering, if one is given, is left with the nodes' places in that order.
    """
    of_node = (numbering or Numbering(adjacency.shape[0])).of_node
    of_node[targets] = np.arange(len(targets), dtype=np.int32)
    rings, counts = [targets], [len(targets)]
    for _ in range(n_hops):
        reached = copied_rows(adjacency, rings[-1], False).columns
        ring = np.unique(reached[of_node[reached] < 0]).astype(np.int64)
        of_node[ring] = np.arange(counts[-1], counts[-1] + len(ring), dtype=np.int32)
        rings.append(ring)
        counts.append(counts[-1] + len(ring))
    return np.concatenate(rings), tuple(counts)


def copied_rows(
    adjacency: sp.csr_array,
    rows: IntArray,
    is_weighted: bool,
    fanout: int | None = None,
    key: int = 0,
    row_ids: IntArray | None = None,
) -> RowSample:
    """Some rows of the adjacency matrix, or samples of them; see `kernels.reference.sample_rows`.

    `row_ids` are the rows' names in the hash that samples go by, where they have others.
    """
    # Both implementations give the same bits, so there is nothing to choose. scipy would convert
    # all indices of a stored graph, whose arrays are of two types.
    values = adjacency.data if is_weighted else None
    sample: RowSample = kernels.select().sample_rows(
        adjacency.indptr, adjacency.indices, values, rows, fanout, key, row_ids
    )
    return sample


def _submatrix(
    adjacency: sp.csr_array, rows: IntArray, is_weighted: bool, numbering: Numbering
) -> sp.csr_array:
    """The rows and columns of some nodes, which the numbering has numbered."""
    chosen = copied_rows(adjacency, rows, is_weighted)
    columns = numbering.of_node[chosen.columns]
    inside = columns >= 0
    indptr = np.concatenate(([0], np.cumsum(inside)))[chosen.indptr].astype(np.int32)
    values = (
        np.ones(indptr[-1], dtype=adjacency.dtype)
        if chosen.values is None
        else chosen.values[inside]
    )
    local = sp.csr_array((values, columns[inside], indptr), shape=(len(rows), len(rows)))
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


def feature_rows(features: Any, rows: IntArray | None, dtype: npt.DTypeLike) -> Csr | Array | None:
    if features is None:
        return None
    if isinstance(features, StoredFeatures):
        features, rows = features.take(slice(None) if rows is None else rows), None
    if not sp.issparse(features):
        dense: Array = np.asarray(features, dtype=dtype)
        return np.ascontiguousarray(dense if rows is None else dense[rows])
    if not features.has_sorted_indices:  # kernels find a range of columns by where it begins
        features = features.sorted_indices()
    values = features.data.astype(dtype, copy=False)
    if rows is None:
        return fixed(Csr(features.indptr[:-1], features.indptr[1:], features.indices, values))
    # Copied out in the batch's order: short rows that lie here and there are slow to read, and
    # every epoch reads them again. Pubmed's products take 22 to 36 % less time, Cora's up to 3 %.
    copied: RowSample = kernels.select().sample_rows(
        features.indptr, features.indices, values, rows
    )
    bounds = copied.indptr.astype(features.indices.dtype)
    return fixed(Csr(bounds[:-1], bounds[1:], copied.columns, copied.values))


def add_rows(out: Array, rows: Array, added: Array) -> None:
    """Add to some rows of an array, in the order given where a row comes more than once.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.engine.batches import add_rows
    >>> out = np.zeros((3, 1))
    >>> add_rows(out, np.array([2, 0, 2]), np.array([[1.0], [2.0], [4.0]]))
    >>> out.ravel().tolist()
    [2.0, 0.0, 5.0]
    """
    order = np.argsort(rows, kind="stable")
    wanted = rows[order]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = wanted[1:] != wanted[:-1]
    if is_first.all():
        out[rows] += added
    else:  # numpy's `add.at` takes ten times as long
        out[wanted[is_first]] += np.add.reduceat(added[order], np.flatnonzero(is_first), axis=0)
