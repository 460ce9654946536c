"""Sparse products on plain numpy arrays, in two implementations with one signature.

`native` is C++ and fast, `reference` is scipy and obvious; the tests hold them equal. `select`
names the one to use, so that which code ran is never a guess.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

KernelName = Literal["auto", "native", "reference"]
# Scales past this size are not in the nearest caches when a product asks for one of them.
NEAR_BYTES = 1 << 18
PACKED_BLOCK = 64  # kPackedBlock in native/packed_product.h
# A range of columns meets about so many bytes of weights, of which a product takes so many of each
# column at a time.
_RANGE_BYTES = 24 << 10
_SLICE_BYTES = 256
_LINE_BYTES = 64
_LEAST_PIECE = 24  # entries; of shorter ones, the wrong guess where they end costs too much


class Csr(NamedTuple):
    """Rows of a sparse matrix; row i holds the entries begin[i] .. end[i] of the two long arrays.

    Rows need not be adjacent, so choosing some rows, or a leading part of each row, copies nothing.
    Entries of a row are sorted by column, and no column comes twice.
    """

    begin: npt.NDArray[Any]  # (n_rows,) int32 or int64
    end: npt.NDArray[Any]  # (n_rows,) as begin
    indices: npt.NDArray[Any]  # (n_entries,) as begin: column of each entry
    values: npt.NDArray[Any] | None  # (n_entries,) float32 or float64; None: all ones


def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers, which nobody can write to from now on; they must be the caller's own.

    Not even by setting the flag, as with an array that was only declared read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.kernels import sealed
    >>> numbers = np.arange(3)
    >>> shown = sealed(numbers)
    >>> np.shares_memory(numbers, shown)
    True
    >>> shown.flags.writeable = True
    Traceback (most recent call last):
    ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):  # the array itself, then what it is a view of
        owner.flags.writeable = False
        owner = owner.base
    # Where the memory is none of numpy's, as that of a file, numpy can't make it writable.
    return array if owner is not None else np.asarray(array.data.toreadonly())


def fixed(rows: Csr) -> Csr:
    """The same rows, which nobody can write to from now on; they must be the caller's own.

    The native kernels look for indices out of range once in such rows, and in others at every call.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.kernels import Csr, fixed
    >>> ends = np.array([0, 2, 3])
    >>> rows = fixed(Csr(ends[:-1], ends[1:], np.array([0, 1, 1]), None))
    >>> rows.indices.flags.writeable, ends.flags.writeable
    (False, False)
    """
    begin, end, indices = (sealed(array) for array in rows[:3])
    return Csr(begin, end, indices, rows.values)


def zeros(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """An array of zeros that begins at a cache line, as numpy's own do not.

    A row of 16 floats is then in one line, not in two.

    Examples
    --------
    >>> from graphconv.kernels import zeros
    >>> own = zeros((3, 16))
    >>> own.shape, own.ctypes.data % 64
    ((3, 16), 0)
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + _LINE_BYTES, dtype=np.uint8)
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + n_bytes].view(dtype).reshape(shape)


class PackedRows(NamedTuple):
    """Sparse rows cut into pieces, in the order in which a product with wide weights reads them.

    Of each row there is a piece for every range of columns. Those of PACKED_BLOCK rows come first,
    range by range and row by row, then those of the next ones.
    """

    pieces: Csr  # n_rows * n_ranges of them, with values
    n_ranges: int  # range r has the columns below n_columns * (r + 1) // n_ranges


class Dropout(NamedTuple):
    """Which elements are dropped: a hash of (key, row id, element number) decides.

    Element e of row r is kept if 16 bits of the hash are below `threshold`, and is then multiplied
    by 65536 / threshold. Nothing is stored: the backward pass works the same bits out again.

    With several keys the F columns of a dense operand are as many blocks of equal width, each
    dropped out under its own key: replicas of a model that train side by side.
    """

    keys: tuple[int, ...]  # 64 bits each, made from (seed, epoch, layer)
    threshold: int  # 1 .. 65536: round(65536 * probability of keeping)


class RowSample(NamedTuple):
    """Some rows of a sparse matrix copied out, each perhaps with a sample of its entries only."""

    indptr: npt.NDArray[np.int64]  # (n_rows + 1,)
    columns: npt.NDArray[Any]  # (n_entries,)
    values: npt.NDArray[Any] | None  # (n_entries,), or None: all ones
    scale: npt.NDArray[np.float64]  # (n_rows,) entries of the row for each one that was taken


def row_bounds(
    indptr: npt.NDArray[Any], rows: npt.NDArray[np.int64], fanout: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the rows begin and end, and where they begin once at most `fanout` of each are kept."""
    if fanout is not None and fanout < 1:
        raise ValueError(f"fanout must be at least 1, got {fanout}")
    begin = indptr[rows].astype(np.int64, copy=False)
    end = indptr[rows + 1].astype(np.int64, copy=False)
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    lengths = end - begin
    np.cumsum(lengths if fanout is None else np.minimum(lengths, fanout), out=offsets[1:])
    return begin, end, offsets


def row_scale(
    begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64], fanout: int | None
) -> npt.NDArray[np.float64]:
    """By what a row's sampled sum is to be multiplied, so that its mean is the whole sum."""
    lengths = end - begin
    return np.ones(len(lengths)) if fanout is None else np.maximum(lengths / fanout, 1.0)


def n_summed(rows: Csr, features: Csr, self_weight: float) -> npt.NDArray[np.int64]:
    """How many entries of sparse features a sum over neighbours goes over, for each of its rows."""
    lengths = (features.end - features.begin).astype(np.int64)
    before = np.concatenate(([0], np.cumsum(lengths[rows.indices])))
    counts: npt.NDArray[np.int64] = before[rows.end] - before[rows.begin]
    if self_weight:
        n = min(len(counts), len(lengths))
        counts[:n] += lengths[:n]
    return counts


def n_ranges(rows: Csr, n_columns: int) -> int:
    """Into how many pieces rows are worth cutting for products with wide weights; 1: not at all."""
    n = round(n_columns * _SLICE_BYTES / _RANGE_BYTES)
    n_entries = int((rows.end - rows.begin).sum())
    return n if n > 1 and n_entries >= _LEAST_PIECE * n * len(rows.begin) > 0 else 1


def native_missing() -> str | None:
    """Why the native kernels can't be used, in words; None if they can.

    Examples
    --------
    >>> from graphconv import kernels
    >>> reason = kernels.native_missing()
    >>> reason is None or isinstance(reason, str)
    True
    """
    try:
        importlib.import_module("graphconv._native")
    except ImportError as error:
        if "GRAPHCONV_SIMD must" in str(error):  # they are there, but not those that were asked for
            raise ValueError(str(error)) from None
        return f"graphconv was installed without its C++ kernels ({error})"
    return None


def select(name: KernelName = "auto") -> ModuleType:
    """The module of kernels of that name; "auto" is native where it was built, else reference."""
    if name not in ("auto", "native", "reference"):
        raise ValueError(f"kernels must be 'auto', 'native' or 'reference', got {name!r}")
    reason = None if name == "reference" else native_missing()
    if name == "native" and reason is not None:
        raise ValueError(f"kernels='native' must be built, but {reason}")
    use_reference = name == "reference" or reason is not None
    return importlib.import_module(
        "graphconv.kernels." + ("reference" if use_reference else "native")
    )
