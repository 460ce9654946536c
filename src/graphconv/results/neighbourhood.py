"""A node's neighbourhood, and what the model would say of the node if parts of it were missing.

A fitted model, a graph and a node enter; probabilities of the node on edited graphs leave. Edits
only take away, so all that decides the node stays within its K-hop neighbourhood. Many edits are
computed at once: copies of the neighbourhood, an edit each, stand side by side in one batch. Row r
of copy c is row r * n_copies + c, which keeps the rows ordered by distance as a batch wants them.

Degrees are those that the edited graph would have, so an answer is, up to rounding, what the model
says on the whole graph after the edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.engine.batches import Batch, make_batch
from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import FeatureScaler
from graphconv.kernels import Csr
from graphconv.training.fitted import FittedGCN

Array = npt.NDArray[Any]
# Numbers that all copies of one batch may hold together: some 100 MB with what the layers add.
NUMBERS_AT_ONCE = 4e6


@dataclass(frozen=True)
class Edit:
    """What one copy of the neighbourhood lacks.

    Parameters
    ----------
    entries : tuple of int
        Entries of the neighbourhood's adjacency matrix.
    node : int, optional
        Row of a node all of whose edges are gone, those that leave the neighbourhood too.
    feature : int, optional
        Column of the features that says nothing: zero before rows are scaled; where columns are
        scaled instead, zero afterwards, which is the mean of a column that is centred.
    """

    entries: tuple[int, ...] = ()
    node: int | None = None
    feature: int | None = None


class Neighbourhood:
    """All of a graph that a model's answer for one node depends on.

    Parameters
    ----------
    fitted : FittedGCN
    graph : Graph
    node : int
        Position in the graph.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        Positions in the graph: the node itself, then the others by distance.
    distance : array of shape (n_rows,)
        In hops from the node.
    degree : array of shape (n_rows,)
        Row sums of the whole graph's adjacency.
    adjacency : csr_array of shape (n_rows, n_rows)
    entry_row, entry_column : arrays of shape (n_entries,)
        The two ends of each entry of the adjacency.
    features : array or csr_array of shape (n_rows, n_features), or None
        As the model reads them, scaled.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.training.fit import fit_gcn
    >>> from graphconv.results.neighbourhood import Edit, Neighbourhood
    >>> karate = load_dataset("karate")
    >>> around = Neighbourhood(fit_gcn(karate), karate, 11)
    >>> around.rows[around.distance == 1]  # member 11 knows only the instructor
    array([0])
    >>> around.probabilities([Edit(), Edit(node=1)]).shape  # edits, models, classes
    (2, 1, 4)
    """

    def __init__(self, fitted: FittedGCN, graph: Graph, node: int) -> None:
        fitted.check_fits(graph)
        self.fitted = fitted
        self.graph = graph
        self.n_hops = fitted.network.n_hops
        self._batch = make_batch(graph, [node], n_hops=self.n_hops)
        self.rows = self._batch.rows
        self.n_within = self._batch.n_within
        ring_sizes = np.diff(self.n_within, prepend=0)
        self.distance: IntArray = np.repeat(np.arange(self.n_hops + 1), ring_sizes)
        self.degree = self._batch.degree
        self.adjacency = self._batch.adjacency
        self.entry_row: IntArray = np.repeat(
            np.arange(len(self.rows)), np.diff(self.adjacency.indptr)
        )
        self.entry_column: IntArray = self.adjacency.indices.astype(np.int64)
        self._raw = None if graph.features is None else graph.features[self.rows]
        self.features = fitted.scaler.transform(self._raw)
        self._degrees: dict[tuple[int, tuple[int, ...]], float] = {}

    @cached_property
    def own_values(self) -> Array:
        """The node's features as they came, before any scaling; shape (n_features,)."""
        raw: Any = self._raw
        row = raw[[0]]
        return np.asarray(row.toarray() if sp.issparse(row) else row).ravel()

    @cached_property
    def size(self) -> int:
        """How many numbers one copy takes."""
        network = self.fitted.network
        widest = max(own.n_terms * own.width for own in network.program.products)
        features = 0 if self.features is None else int(self.features.size)
        return int(self.adjacency.nnz) + len(self.rows) * widest * len(network.seeds) + features

    @property
    def work(self) -> int:
        """How many numbers are computed for an edit, where a graph convolution counts them once."""
        return self.size * max(2, self.n_hops) // 2

    def probabilities(self, edits: Sequence[Edit]) -> Array:
        """The node's probabilities after each edit, shape (n_edits, n_replicas, n_classes)."""
        at_once = max(1, int(NUMBERS_AT_ONCE // self.size))
        starts = range(0, len(edits), at_once)
        parts = [self._of_chunk(edits[start : start + at_once]) for start in starts]
        shape = (0, len(self.fitted.network.seeds), self.fitted.graph.n_classes)
        return np.concatenate([np.empty(shape, dtype=np.float32), *parts])

    def calibrated(self, edits: Sequence[Edit]) -> Array:
        """What predictions would show: the replicas' mean, calibrated, (n_edits, n_classes)."""
        averaged = self.probabilities(edits).mean(axis=1)
        return self.fitted.calibrate(averaged, self.graph, np.repeat(self.rows[:1], len(edits)))

    def _of_chunk(self, edits: Sequence[Edit]) -> Array:
        n_copies = len(edits)
        weights = np.repeat(self.adjacency.data[:, None], n_copies, axis=1)
        degree = np.repeat(self._batch.degree[:, None], n_copies, axis=1)
        for copy, edit in enumerate(edits):
            gone = self._gone(edit)
            weights[gone, copy] = 0
            for row, columns in _by_row(self.entry_row[gone], self.entry_column[gone]):
                degree[row, copy] = 0 if row == edit.node else self._degree_without(row, columns)
        return self.fitted.batch_probabilities(
            self._side_by_side(weights, degree, self._edited_features(edits))
        )

    def _gone(self, edit: Edit) -> IntArray:
        """Entries of the adjacency that a copy lacks."""
        if edit.node is None:
            return np.array(edit.entries, dtype=np.int64)
        of_node = (self.entry_row == edit.node) | (self.entry_column == edit.node)
        return np.union1d(np.flatnonzero(of_node), np.array(edit.entries, dtype=np.int64))

    def _degree_without(self, row: int, columns: tuple[int, ...]) -> float:
        """The degree that a row has in the whole graph without its entries in some columns.

        Summed anew: taking weights from the degree could leave a trace of them, or of nothing.
        """
        key = (row, columns)
        if key not in self._degrees:
            whole, node = self.graph.adjacency, self.rows[row]
            own = slice(whole.indptr[node], whole.indptr[node + 1])
            is_kept = ~np.isin(whole.indices[own], self.rows[list(columns)])
            self._degrees[key] = float(whole.data[own][is_kept].sum(dtype=np.float64))
        return self._degrees[key]

    def _side_by_side(self, weights: Array, degree: Array, features: Any) -> Batch:
        """One batch of copies that share the rows and the places of entries, not their values."""
        n_copies = weights.shape[1]
        indptr, indices = self.adjacency.indptr.astype(np.int64), self.adjacency.indices
        counts = np.repeat(np.diff(indptr), n_copies)  # (n_rows * n_copies,)
        ends = np.concatenate(([0], np.cumsum(counts)))
        # Of each entry of the new matrix: which one it was, and which copy it is in.
        entry = np.arange(ends[-1]) + np.repeat(
            np.repeat(indptr[:-1], n_copies) - ends[:-1], counts
        )
        copy = np.repeat(np.tile(np.arange(n_copies), len(self.rows)), counts)
        n_rows = len(self.rows) * n_copies
        adjacency = sp.csr_array(
            (weights[entry, copy], indices[entry].astype(np.int64) * n_copies + copy, ends),
            shape=(n_rows, n_rows),
        )
        return replace(
            self._batch,
            rows=np.repeat(self.rows, n_copies),
            n_within=tuple(n_copies * count for count in self.n_within),
            degree=degree.ravel(),
            features=features,
            adjacency=adjacency,
            adjacency_transposed=adjacency,  # for gradients only, which nobody asks for here
            is_weighted=True,
        )

    def _edited_features(self, edits: Sequence[Edit]) -> Csr | Array | None:
        if self._raw is None:
            return None
        _, nobodys = self._raw.shape  # the number of no column
        columns: IntArray = np.array([nobodys if e.feature is None else e.feature for e in edits])
        if (columns == nobodys).all():
            return _repeated(self.features, len(edits))
        return _without_columns(self._raw, self.features, self.fitted.scaler, columns)


def scaled_batch(fitted: FittedGCN, graph: Graph, targets: IntArray) -> Batch:
    """A batch of some nodes for a fitted model; of the features, only its rows are scaled."""
    batch = make_batch(graph, targets, n_hops=fitted.network.n_hops)
    if graph.features is None:
        return batch
    scaled = fitted.scaler.transform(graph.features[batch.rows])
    return replace(batch, features=_repeated(scaled, 1))


def _by_row(rows: IntArray, columns: IntArray) -> list[tuple[int, tuple[int, ...]]]:
    grouped: dict[int, list[int]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        grouped.setdefault(row, []).append(column)
    return [(row, tuple(ends)) for row, ends in grouped.items()]


def _repeated(features: Any, n_copies: int) -> Csr | Array:
    """Every row n_copies times; of a sparse matrix nothing but the pointers is copied."""
    if not sp.issparse(features):
        dense: Array = np.repeat(features, n_copies, axis=0)
        return dense
    begin, end = (np.repeat(ends, n_copies) for ends in (features.indptr[:-1], features.indptr[1:]))
    return Csr(begin, end, features.indices, features.data)


def _without_columns(
    raw: Any, scaled: Any, scaler: FeatureScaler, columns: IntArray
) -> Csr | Array:
    """Scaled rows, once for each of some columns and without it; one that is not there is none."""
    # What rows are divided by depends on all their columns; columns don't depend on one another.
    is_scaled_later = scaler.kind in ("row", "l2")
    start = raw if is_scaled_later else scaled
    (n_rows, n_features), n_copies = start.shape, len(columns)
    if not sp.issparse(start):
        copies = np.repeat(start[:, None], n_copies, axis=1)  # (n_rows, n_copies, n_features)
        gone = np.flatnonzero(columns < n_features)
        copies[:, gone, columns[gone]] = 0
        flat: Array = copies.reshape(n_rows * n_copies, n_features)
        return cast(Array, scaler.transform(flat)) if is_scaled_later else flat
    matrix = start[np.repeat(np.arange(n_rows), n_copies)]
    of_copy = np.repeat(np.tile(columns, n_rows), np.diff(matrix.indptr))
    matrix.data[matrix.indices == of_copy] = 0
    if is_scaled_later:
        matrix = scaler.transform(matrix)
    return Csr(matrix.indptr[:-1], matrix.indptr[1:], matrix.indices, matrix.data)
