"""Matrix Market: a .mtx file in coordinate format becomes a sparse matrix.

Not scipy's reader: as of scipy 1.17 a damaged file can end the whole process in it
(`3 2 1k2` for an entry, or bytes that are no UTF-8 in a stream).
"""

from __future__ import annotations

import warnings
from typing import IO

import numpy as np
import scipy.sparse as sp

_FIELDS = ("real", "double", "integer", "pattern")
# Rows and columns that a file may claim, or so many for each of its entries.
_MOST_CLAIMED, _MOST_PER_ENTRY = 50_000_000, 100
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_matrix_market(handle: IO[str]) -> sp.csr_array:
    r"""Read a sparse matrix from an open text file; entries listed twice are added up.

    Examples
    --------
    >>> import io
    >>> from graphconv.io._matrix_market import read_matrix_market
    >>> text = "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"
    >>> read_matrix_market(io.StringIO(text)).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    import pandas as pd

    field, symmetry = _banner(handle.readline())
    n_rows, n_columns, n_entries = _sizes(handle)
    if symmetry != "general" and n_rows != n_columns:
        raise ValueError(f"it must be square, got {n_rows} x {n_columns}")
    names = ["row", "column"] if field == "pattern" else ["row", "column", "value"]
    kinds = {"row": np.int64, "column": np.int64, "value": np.float64}
    try:
        with warnings.catch_warnings():
            # pandas only warns of a first row that is too long, and cuts it off.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            entries = pd.read_csv(
                handle,
                sep=r"\s+",
                header=None,
                names=names,
                index_col=False,
                comment="%",
                dtype={name: kinds[name] for name in names},
            )
    except pd.errors.ParserWarning:
        raise ValueError(f"its entries must be {len(names)} numbers each, got more") from None
    except pd.errors.EmptyDataError:
        entries = pd.DataFrame({name: np.empty(0, dtype=kinds[name]) for name in names})
    if len(entries) != n_entries:
        raise ValueError(f"it must have {n_entries} entries, got {len(entries)}")
    row, column = entries["row"].to_numpy() - 1, entries["column"].to_numpy() - 1
    value = np.ones(n_entries) if field == "pattern" else entries["value"].to_numpy()
    outside = (row < 0) | (row >= n_rows) | (column < 0) | (column >= n_columns)
    if outside.any():
        entry = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"entries must be within {n_rows} x {n_columns}, "
            f"got {row[entry] + 1} {column[entry] + 1}"
        )
    if symmetry != "general":
        # Only one triangle is listed.
        off = row != column
        mirrored = value[off] if symmetry == "symmetric" else -value[off]
        row, column = np.append(row, column[off]), np.append(column, row[off])
        value = np.append(value, mirrored)
    return sp.coo_array((value, (row, column)), shape=(n_rows, n_columns)).tocsr()


def _banner(line: str) -> tuple[str, str]:
    words = line.lower().split()
    if words[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(words) != 5:
        raise ValueError("its first line must begin with '%%MatrixMarket matrix coordinate'")
    field, symmetry = words[3:]
    if field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise ValueError(
            f"it must be one of {', '.join(_FIELDS)} and one of {', '.join(_SYMMETRIES)}, "
            f"got {field} {symmetry}"
        )
    return field, symmetry


def _sizes(handle: IO[str]) -> tuple[int, int, int]:
    line = "%"
    while line and (line.startswith("%") or not line.strip()):
        line = handle.readline()
    words = line.split()
    if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"it must say its rows, columns and entries, got {line.strip()[:40]!r}")
    n_rows, n_columns, n_entries = (int(word[:19]) for word in words)
    most = max(_MOST_CLAIMED, _MOST_PER_ENTRY * n_entries)
    if max(n_rows, n_columns) > most:
        raise ValueError(
            f"it must have at most {most:,} rows and columns with {n_entries:,} entries, got "
            f"{n_rows:,} x {n_columns:,}"
        )
    return n_rows, n_columns, n_entries
