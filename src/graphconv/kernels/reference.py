"""The kernels written plainly with numpy and scipy: what the native ones must equal.

All arrays are C-contiguous; floats are float32 or float64 and of one kind within a call. Rows of
`dense` and `weight` have width F. Costs are stated in multiply-adds.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.kernels import Csr, Dropout, RowSample, row_bounds, row_scale

Array = npt.NDArray[Any]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def propagate(
    rows: Csr,
    dense: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
) -> Array:
    """Weighted sum over neighbours, plus the node itself: n_entries * F.

    out[i] = row_scale[i] * (sum_e values[e] * column_scale[j_e] * dense[j_e]
                             + self_weight * column_scale[i] * dense[i])

    `dense` has shape (n_columns, F), out (n_rows, F). The self term is left out for rows past the
    end of `dense`, which is what the transposed product of a leading block needs.
    """
    if column_scale is not None:
        dense = dense * column_scale[:, None]
    out: Array = _matrix(rows, dense.shape[0], dense.dtype) @ dense
    if self_weight:
        n = min(out.shape[0], dense.shape[0])
        out[:n] += dense.dtype.type(self_weight) * dense[:n]
    if row_scale is not None:
        out *= row_scale[:, None]
    return out


def feature_product(
    rows: Csr, weight: Array, dropout: Dropout | None = None, row_ids: Array | None = None
) -> Array:
    """Product of sparse features, dropped out on the fly, with a weight matrix: n_entries * F.

    out = dropout(X) @ weight, with `weight` of shape (n_columns, F), out (n_rows, F). The element
    number of an entry, for the dropout hash, is its position within its row; `row_ids` (n_rows,)
    int64 are the rows' names in the hash, by default 0, 1, ...
    """
    matrix = _matrix(rows, weight.shape[0], weight.dtype)
    if dropout is None:
        return cast(Array, matrix @ weight)
    blocks = np.split(weight, len(dropout.keys), axis=1)
    return np.hstack(
        [
            _dropped(matrix, key, dropout.threshold, row_ids) @ block
            for key, block in zip(dropout.keys, blocks, strict=True)
        ]
    )


def feature_product_transposed(
    rows: Csr,
    dense: Array,
    n_columns: int,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
) -> Array:
    """Gradient of `feature_product` for the weight: dropout(X).T @ dense, shape (n_columns, F)."""
    matrix = _matrix(rows, n_columns, dense.dtype)
    if dropout is None:
        return cast(Array, matrix.T @ dense)
    blocks = np.split(dense, len(dropout.keys), axis=1)
    return np.hstack(
        [
            _dropped(matrix, key, dropout.threshold, row_ids).T @ block
            for key, block in zip(dropout.keys, blocks, strict=True)
        ]
    )


def dropout_dense(
    dense: Array, dropout: Dropout | None, row_ids: Array | None, relu: bool = False
) -> Array:
    """Drop elements of a dense matrix, after a ReLU if asked; element number is the column."""
    out = np.maximum(dense, 0) if relu else dense.copy()
    if dropout is not None:
        out *= _dense_mask(dense, dropout, row_ids)
    return out


def dropout_dense_backward(
    gradient: Array,
    dense: Array,
    dropout: Dropout | None,
    row_ids: Array | None,
    relu: bool = False,
) -> Array:
    """Gradient of `dropout_dense` for its input `dense`."""
    out = np.where(dense > 0, gradient, 0) if relu else gradient.copy()
    if dropout is not None:
        out *= _dense_mask(gradient, dropout, row_ids)
    return out


def sample_rows(
    indptr: Array,
    indices: Array,
    values: Array | None,
    rows: Array,
    fanout: int | None = None,
    key: int = 0,
) -> RowSample:
    """Some rows of a sparse matrix; of longer rows than `fanout` a sample of so many entries.

    Every set of `fanout` entries is as likely as any other. Which it is follows from the key and
    the row's number alone, by Floyd's algorithm: step k = 0, 1, ... draws a position of
    0 .. n - fanout + k, from the upper half of hash(key + (row * 2**32 + k) * golden), and takes
    the last of them where that one is taken already. Entries stay in their order. Costs the entries
    that leave.
    """
    begin, end, offsets = row_bounds(indptr, rows, fanout)
    lengths = end - begin
    taken = np.diff(offsets)
    # All entries of all rows, then other positions for the rows that are cut.
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], taken)
    if fanout is not None:
        cut = np.flatnonzero(lengths > fanout)
        places = offsets[cut][:, None] + np.arange(fanout)
        within[places] = _floyd(key, rows[cut], lengths[cut], fanout)
    entries = np.repeat(begin, taken) + within
    return RowSample(
        offsets,
        indices[entries],
        None if values is None else values[entries],
        row_scale(begin, end, fanout),
    )


def _floyd(key: int, rows: Array, lengths: Array, fanout: int) -> Array:
    """Sorted positions of a sample of `fanout` of each row's entries, shape (n_rows, fanout)."""
    chosen = np.empty((len(rows), fanout), dtype=np.int64)
    for step in range(fanout):
        with np.errstate(over="ignore"):
            counter = (rows.astype(np.uint64) << np.uint64(32)) + np.uint64(step)
            drawn = _hash(np.uint64(key) + counter * _GOLDEN) >> np.uint64(32)
        last = (lengths - fanout + step).astype(np.uint64)
        position = ((drawn * (last + np.uint64(1))) >> np.uint64(32)).astype(np.int64)
        is_taken = (chosen[:, :step] == position[:, None]).any(axis=1)
        chosen[:, step] = np.where(is_taken, last.astype(np.int64), position)
    chosen.sort(axis=1)
    return chosen


def kept(key: int, threshold: int, row_ids: Array, elements: Array) -> Array:
    """Which (row id, element number) pairs survive; the two arrays broadcast.

    One 64-bit hash (SplitMix64's finaliser over a Weyl sequence) serves four elements with 16 bits
    each: counter = row_id * 2**32 + element // 4, lane = element % 4.
    """
    elements = elements.astype(np.uint64)
    with np.errstate(over="ignore"):
        counter = (row_ids.astype(np.uint64) << np.uint64(32)) + (elements >> np.uint64(2))
        z = _hash(np.uint64(key) + counter * _GOLDEN)
    lane = (elements & np.uint64(3)) * np.uint64(16)
    survives: Array = ((z >> lane) & np.uint64(0xFFFF)) < np.uint64(threshold)
    return survives


def _hash(z: Array) -> Array:
    """SplitMix64's finaliser."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return cast(Array, z ^ (z >> np.uint64(31)))


def _dense_mask(dense: Array, dropout: Dropout, row_ids: Array | None) -> Array:
    ids = np.arange(dense.shape[0]) if row_ids is None else row_ids
    columns = np.arange(dense.shape[1] // len(dropout.keys))
    masks = [kept(key, dropout.threshold, ids[:, None], columns) for key in dropout.keys]
    return cast(Array, np.hstack(masks) * dense.dtype.type(65536 / dropout.threshold))


def _matrix(rows: Csr, n_columns: int, dtype: npt.DTypeLike) -> sp.csr_array:
    indptr, entries = _entries(rows)
    indices = rows.indices[entries]
    values = np.ones(len(indices), dtype) if rows.values is None else rows.values[entries]
    return sp.csr_array((values, indices, indptr), shape=(len(rows.begin), n_columns))


def _dropped(matrix: sp.csr_array, key: int, threshold: int, row_ids: Array | None) -> sp.csr_array:
    ids = np.arange(matrix.shape[0]) if row_ids is None else row_ids
    lengths = np.diff(matrix.indptr)
    element = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    mask = kept(key, threshold, np.repeat(ids, lengths), element)
    values = matrix.data * (mask * matrix.dtype.type(65536 / threshold))
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _entries(rows: Csr) -> tuple[Array, slice | Array]:
    """Row pointers of the chosen rows laid end to end, and where their entries are."""
    lengths = rows.end - rows.begin
    indptr = np.zeros(len(lengths) + 1, dtype=rows.indices.dtype)
    np.cumsum(lengths, out=indptr[1:])
    if len(lengths) == 0 or (rows.begin[1:] == rows.end[:-1]).all():
        first = int(rows.begin[0]) if len(lengths) else 0
        return indptr, slice(first, first + int(indptr[-1]))
    starts = np.repeat(rows.begin - indptr[:-1], lengths)
    return indptr, starts + np.arange(indptr[-1])
