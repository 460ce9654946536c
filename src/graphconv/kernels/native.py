"""The kernels in C++: those of `reference`, with the same signatures, only faster.

They run on several threads where that pays, and give the same bits for any number of them and on
every processor; wide products, on every one that multiplies and adds in one step. Dropped elements
are skipped, where the reference multiplies by zero: a weight that is infinite or NaN shows only
through entries that are kept.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv import _native
from graphconv.kernels import (
    Csr,
    Dropout,
    PackedRows,
    RowSample,
    n_summed,
    row_bounds,
    row_scale,
)

Array = npt.NDArray[Any]
_KEPT_BYTES = 1 << 27


def propagate(
    rows: Csr,
    dense: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
    entry_scale: Array | None = None,
    bias: Array | None = None,
    own: Array | None = None,
) -> Array:
    """Weighted sum over neighbours, plus the node itself; see `reference.propagate`."""
    out: Array = _native.propagate(
        rows, dense, row_scale, column_scale, self_weight, entry_scale, bias, own
    )
    return out


def propagate_beside(
    rows: Csr,
    dense: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    entry_scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """A term, plus the sum over neighbours of another; see `reference.propagate_beside`."""
    out: Array = _native.propagate_beside(rows, dense, row_scale, column_scale, entry_scale, bias)
    return out


def propagate_beside_backward(
    rows: Csr,
    gradient: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    entry_scale: Array | None = None,
) -> Array:
    """Gradient of `propagate_beside`; see `reference.propagate_beside_backward`."""
    out: Array = _native.propagate_beside_backward(
        rows, gradient, row_scale, column_scale, entry_scale
    )
    return out


def propagate_dropped(
    rows: Csr,
    dense: Array,
    dropout: Dropout,
    row_ids: Array | None = None,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
) -> Array:
    """Weighted sum over neighbours of dropout(dense); see `reference.propagate_dropped`."""
    out: Array = _native.propagate_dropped(
        rows, dense, dropout, row_ids, row_scale, column_scale, self_weight
    )
    return out


def propagate_sparse(
    rows: Csr,
    features: Csr,
    n_columns: int,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
) -> Csr:
    """Weighted sum over neighbours of sparse rows; see `reference.propagate_sparse`."""
    assert features.values is not None
    most = np.minimum(n_summed(rows, features, self_weight), n_columns).sum()
    indptr = np.empty(len(rows.begin) + 1, dtype=rows.begin.dtype)
    columns = np.empty(most, dtype=rows.begin.dtype)
    entries = np.empty(most, dtype=features.values.dtype)
    _native.propagate_sparse(
        rows, features, n_columns, row_scale, column_scale, self_weight, indptr, columns, entries
    )
    # What was not written takes no memory, but for its last page.
    return Csr(indptr[:-1], indptr[1:], columns[: indptr[-1]], entries[: indptr[-1]])


def feature_product(
    rows: Csr, weight: Array, dropout: Dropout | None = None, row_ids: Array | None = None
) -> Array:
    """dropout(X) @ weight; see `reference.feature_product`."""
    out: Array = _native.feature_product(rows, weight, dropout, row_ids)
    return out


def feature_product_transposed(
    rows: Csr,
    dense: Array,
    n_columns: int,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
) -> Array:
    """dropout(X).T @ dense, shape (n_columns, F); see `reference.feature_product_transposed`."""
    out: Array = _native.feature_product_transposed(rows, dense, n_columns, dropout, row_ids)
    return out


def pack_rows(rows: Csr, n_columns: int, n_ranges: int) -> PackedRows:
    """Rows in the order in which wide products read them; see `reference.pack_rows`."""
    assert rows.values is not None
    kind = rows.begin.dtype
    n_entries = int((rows.end - rows.begin).sum())
    begin, end = np.empty((2, len(rows.begin) * n_ranges), dtype=kind)
    pieces = Csr(begin, end, np.empty(n_entries, kind), np.empty(n_entries, rows.values.dtype))
    _native.pack_rows(rows, n_columns, n_ranges, *pieces)
    return PackedRows(pieces, n_ranges)


def packed_product(packed: PackedRows, weight: Array) -> Array:
    """X @ weight; see `reference.packed_product`."""
    out: Array = _native.packed_product(packed.pieces, packed.n_ranges, weight)
    return out


def dropout_dense(
    dense: Array, dropout: Dropout | None, row_ids: Array | None, relu: bool = False
) -> Array:
    """Drop elements of a dense matrix, after a ReLU if asked; see `reference.dropout_dense`."""
    out: Array = _native.dropout_dense(None, dense, dropout, row_ids, relu)
    return out


def dropout_dense_backward(
    gradient: Array,
    dense: Array,
    dropout: Dropout | None,
    row_ids: Array | None,
    relu: bool = False,
) -> Array:
    """Gradient of `dropout_dense`; see `reference.dropout_dense_backward`."""
    out: Array = _native.dropout_dense(gradient, dense, dropout, row_ids, relu)
    return out


def hidden_product(
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
) -> Array:
    """dropout(relu(dense)) @ weight; see `reference.hidden_product`."""
    out: Array = _native.hidden_product(dense, weight, dropout, row_ids, relu)
    return out


def hidden_product_backward(
    gradient: Array,
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
) -> tuple[Array, Array]:
    """Gradients of `hidden_product`; see `reference.hidden_product_backward`."""
    out: tuple[Array, Array] = _native.hidden_product_backward(
        gradient, dense, weight, dropout, row_ids, relu
    )
    return out


def wide_product(
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
    bias: Array | None = None,
) -> Array:
    """dropout(relu(dense)) @ weight + bias for wide weights; see `reference.wide_product`."""
    out: Array = _native.wide_product(dense, weight, dropout, row_ids, relu, bias)
    return out


def wide_product_backward(
    gradient: Array,
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
    for_dense: bool = True,
) -> tuple[Array | None, Array]:
    """Gradients of `wide_product`; see `reference.wide_product_backward`."""
    out: tuple[Array | None, Array] = _native.wide_product_backward(
        gradient, dense, weight, dropout, row_ids, relu, for_dense
    )
    return out


def normalise_rows(
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    added: Array | None = None,
) -> Array:
    """Layer normalisation, and what follows it; see `reference.normalise_rows`."""
    out: Array = _native.normalise_rows(dense, gain, shift, epsilon, relu, added)
    return out


def normalise_rows_backward(
    gradient: Array, dense: Array, gain: Array, shift: Array, epsilon: float, relu: bool = False
) -> tuple[Array, Array, Array]:
    """Gradients of `normalise_rows`; see `reference.normalise_rows_backward`."""
    out: tuple[Array, Array, Array] = _native.normalise_rows_backward(
        gradient, dense, gain, shift, epsilon, relu
    )
    return out


def normalise_columns(
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    mean: Array | None = None,
    variance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Batch normalisation; see `reference.normalise_columns`."""
    out: tuple[Array, Array, Array] = _native.normalise_columns(
        dense, gain, shift, epsilon, relu, mean, variance
    )
    return out


def normalise_columns_backward(
    gradient: Array,
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    mean: Array | None = None,
    variance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Gradients of `normalise_columns`; see `reference.normalise_columns_backward`."""
    out: tuple[Array, Array, Array] = _native.normalise_columns_backward(
        gradient, dense, gain, shift, epsilon, relu, mean, variance
    )
    return out


def column_sums(rows: Array) -> Array:
    """Sums of the columns, shape (1, F); see `reference.column_sums`."""
    out: Array = _native.column_sums(rows)
    return out


def walks(rows: Csr, totals: Array | None, starts: Array, n_steps: int, key: int) -> Array:
    """Random walks, shape (n_walks, n_steps + 1); see `reference.walks`."""
    out: Array = _native.walks(rows, totals, starts, n_steps, key)
    return out


def loss(
    logits: Array, labels: Array, weight: Array, with_gradient: bool = False
) -> tuple[Array | None, Array]:
    """Cross-entropy, its gradient, and what is right; see `reference.loss`."""
    out: tuple[Array | None, Array] = _native.loss(logits, labels, weight, with_gradient)
    return out


def agreement(logits: Array, temperature: float, is_multilabel: bool = False) -> Array:
    """The gradient of what copies disagree by; see `reference.agreement`."""
    out: Array = _native.agreement(logits, temperature, is_multilabel)
    return out


def adam(
    parameter: Array,
    gradient: Array,
    mean: Array,
    square: Array,
    step: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """One step of Adam, in place; see `reference.adam`."""
    _native.adam(parameter, gradient, mean, square, step, learning_rate, weight_decay)


def sample_rows(
    indptr: Array,
    indices: Array,
    values: Array | None,
    rows: Array,
    fanout: int | None = None,
    key: int = 0,
    row_ids: Array | None = None,
) -> RowSample:
    """Some rows of a sparse matrix, or samples of their entries; see `reference.sample_rows`."""
    begin, end, offsets = row_bounds(indptr, rows, fanout)
    columns = np.empty(offsets[-1], dtype=indices.dtype)
    chosen = None if values is None else np.empty(offsets[-1], dtype=values.dtype)
    ids = rows if row_ids is None else row_ids
    _native.sample_rows(
        begin, end, offsets[:-1], ids, indices, values, fanout or 0, key, columns, chosen
    )
    return RowSample(offsets, columns, chosen, row_scale(begin, end, fanout))


def trim_memory() -> None:
    """Let go of the memory of earlier results, but for what small graphs use again and again."""
    _native.trim_memory(_KEPT_BYTES)


def set_threads(n: int) -> None:
    """Let the kernels use n threads, the calling one included."""
    _native.set_threads(n)


def get_threads() -> int:
    """How many threads the kernels may use."""
    n: int = _native.get_threads()
    return n


def variant() -> str:
    """Which instructions the kernels use: "baseline", "avx2" or "avx512".

    The environment variable GRAPHCONV_SIMD, read once, forces one of them.
    """
    name: str = _native.variant()
    return name


def _default_threads() -> int:
    setting = os.environ.get("GRAPHCONV_THREADS")
    if setting:
        if not setting.isdecimal() or not 1 <= int(setting) <= 1024:
            raise ValueError(f"GRAPHCONV_THREADS must be in 1 .. 1024, got {setting!r}")
        return int(setting)
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_cpus()
    if quota is not None:
        n = min(n, math.ceil(quota))
    return max(1, min(n, 1024))


def _cgroup_cpus() -> float | None:
    """CPUs' worth of time that a container grants; None if it sets no limit."""
    root = Path("/sys/fs/cgroup")
    try:
        if (root / "cpu.max").exists():
            quota, period = (root / "cpu.max").read_text().split()
        else:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None  # no such file, or "max"


set_threads(_default_threads())
