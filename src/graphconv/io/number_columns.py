"""Number columns: the cells of a table as finite numbers, and many columns as one matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features
from graphconv.io.delimited import SPARSE_BELOW, WIDE
from graphconv.io.wording import MISSING_MARKS, is_missing, naming, shown

if TYPE_CHECKING:
    import pandas as pd

At = Callable[[int], str]
MissingValue = Literal["refuse", "mean", "zero"]

EMPTY = naming(": train with {missing_value:'mean'}, or 'zero', to fill empty cells")
UNDECLARED = naming(": declare it with {text} or {categorical}, or drop it with {ignore}")


def finite_numbers(
    column: pd.Series[Any], at: At, *, advice: str = "", advice_if_empty: str = ""
) -> npt.NDArray[np.float64]:
    """The cells of a column as finite numbers, or a ValueError that names the first that is not.

    `advice` ends the message where not one cell is a number, `advice_if_empty` where the cell is
    empty.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.number_columns import finite_numbers
    >>> finite_numbers(pd.Series([1, 2], name="age"), "row {}".format)
    array([1., 2.])
    """
    numbers = as_numbers(column)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(numbers.astype(np.float32))
    if not wrong.any():
        return numbers
    row = int(np.flatnonzero(wrong)[0])
    words = [position for position, cell in enumerate(column.tolist()) if _is_word(cell)]
    if np.isnan(numbers).all() and words:
        # No number at all: the column is not dirty, it is of another kind.
        row = words[0]
    else:
        advice = "" if _is_word(column.iloc[row]) else advice_if_empty
    must = "fit float32" if np.isfinite(numbers[row]) else "be a finite number"
    raise ValueError(
        naming(
            "{}: column {!r} must {}, got {}{}",
            *(at(row), str(column.name), must, shown(column.iloc[row]), advice),
        )
    )


def fit_fill(column: pd.Series[Any], missing_value: MissingValue, at: At, where: str) -> float:
    """What stands for an unknown number of a column."""
    sparse = _sparse_cells(column)
    if sparse is not None:
        _, values = sparse
        n_rows = max(1, len(column))
        share_of_zeros = 1 - np.count_nonzero(values) / n_rows
        return neutral_number(float(values.sum()) / n_rows, share_of_zeros, missing_value)
    numbers = as_numbers(column)
    known = numbers[np.isfinite(numbers)]
    if not len(known) and n_empty_cells(column) < len(column):
        finite_numbers(column, at, advice=UNDECLARED)  # words only: it is refused here
    if not len(known) and missing_value == "mean":
        raise ValueError(
            f"{where}: column {str(column.name)!r} must hold a number to take the mean of, got none"
        )
    if not len(known):
        return 0.0
    return neutral_number(float(known.mean()), float((known == 0).mean()), missing_value)


def neutral_number(mean: float, share_of_zeros: float, missing_value: MissingValue) -> float:
    """The number that says least about a node, given what a column holds.

    That is the mean, which scaling brings to 0; but 0 where most nodes have it, so that the
    features of a wide table stay sparse. Who asks for the mean, or for 0, gets that.
    """
    is_zero = missing_value == "zero" or (missing_value == "refuse" and share_of_zeros > 0.5)
    return 0.0 if is_zero else mean


def n_empty_cells(column: pd.Series[Any]) -> int:
    """How many cells of a column hold nothing."""
    return int(np.count_nonzero(empty_cells(column)))


def empty_cells(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Which cells of a column hold nothing."""
    if is_sparse_and_finite(column):
        return np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "biuf":  # no word can be among them
        return column.isna().to_numpy(dtype=bool)
    return np.array([not _is_word(cell) for cell in column.tolist()], dtype=bool)


def filled(column: pd.Series[Any], number: float) -> pd.Series[Any]:
    """The column with a number in place of empty cells."""
    is_empty = empty_cells(column)
    return column.astype(object).mask(is_empty, number) if is_empty.any() else column


def as_numbers(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """The cells of a column as numbers, NaN where a cell is none."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if isinstance(column.dtype, pd.SparseDtype):
        return np.asarray(column, dtype=np.float64)
    # pandas would turn dates into nanoseconds.
    if column.dtype.kind in "mM":
        return np.full(len(column), np.nan)
    try:
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.dtype.kind in "biuf":
            return numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    # Lists, complex numbers and the like among the cells.
    return np.array([_as_number(cell) for cell in column.tolist()], dtype=np.float64)


def is_sparse_and_finite(column: pd.Series[Any]) -> bool:
    """Whether a column is kept sparse and holds finite numbers only."""
    return _sparse_cells(column) is not None


def _sparse_cells(
    column: pd.Series[Any],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]] | None:
    """The rows of a sparse column that are not 0, and its numbers there; None for other columns."""
    import pandas as pd

    if not isinstance(column.dtype, pd.SparseDtype) or column.dtype.fill_value != 0:
        return None
    cells: Any = column.array
    values = np.asarray(cells.sp_values, dtype=np.float64)
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(values.astype(np.float32)).all()
    return (cells.sp_index.indices, values) if is_finite else None


def _as_number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else np.nan


def _is_word(cell: object) -> bool:
    return not is_missing(cell) and str(cell).strip() not in MISSING_MARKS


def number_matrix(
    frame: pd.DataFrame, names: Sequence[str], fill: Sequence[float], at: At
) -> Features:
    """Columns of a frame as one matrix, sparse where there are many and most numbers are 0.

    `fill` has a number for the empty cells of each column, or none at all, which refuses them.
    """
    matrix = np.empty((0, 0), dtype=np.float32)
    is_wide = len(names) > WIDE
    if not is_wide:
        matrix = np.empty((len(frame), len(names)), dtype=np.float32)
    rows, values = [], []
    for place, name in enumerate(names):
        column = frame[name]
        sparse = _sparse_cells(column) if is_wide else None
        if sparse is not None:
            rows.append(sparse[0])
            values.append(sparse[1].astype(np.float32))
            continue
        column = filled(column, fill[place]) if fill else column
        numbers = finite_numbers(column, at, advice_if_empty=EMPTY)
        if is_wide:
            rows.append(np.flatnonzero(numbers).astype(np.int32))
            values.append(numbers[rows[-1]].astype(np.float32))
        else:
            matrix[:, place] = numbers
    if not is_wide:
        return matrix
    ends = np.cumsum([0, *(len(part) for part in rows)])
    shape = (len(frame), len(names))
    sparse = sp.csc_array((np.concatenate(values), np.concatenate(rows), ends), shape=shape)
    if sparse.nnz < SPARSE_BELOW * shape[0] * shape[1]:
        return sp.csr_array(sparse)
    dense: npt.NDArray[np.float32] = sparse.toarray(order="C")
    return dense
