"""Table files: a CSV, TSV or Parquet file becomes a pandas frame that knows where its rows are.

A path enters, a `Table` leaves: the frame, the file's name, and a way to say in which line of the
file a row stands. Lines are worked out only when an error has to name one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.io._json_files import JSON_SUFFIXES, read_json
from graphconv.io._spreadsheets import SHEET_SUFFIXES, read_sheet
from graphconv.io.compression import OPENERS, plain_suffix
from graphconv.io.delimited import (
    WIDE,
    check_distinct,
    line_of_row,
    read_delimited,
    read_header,
    rows_of_a_piece,
    short_rows,
    squeezed_frame,
    unreadable_as_value_error,
)
from graphconv.io.sniffing import (
    DELIMITERS,
    TextFormat,
    TextFormatOptions,
    sniff_text_format,
    usual_delimiter,
)
from graphconv.io.wording import count, did_you_mean, is_missing

if TYPE_CHECKING:
    import pandas as pd

PARQUET_SUFFIXES = (".parquet", ".pq")
# Columns in which pandas keeps an index without a name.
_INDEX = "__index_level_"
TABLE_SUFFIXES = (*DELIMITERS, *PARQUET_SUFFIXES, *JSON_SUFFIXES, *SHEET_SUFFIXES)
# Files that are databases, by how they are mostly called.
_DATABASES = dict.fromkeys((".db", ".sqlite", ".sqlite3", ".db3"), "sqlite") | {".duckdb": "duckdb"}
_PACKED = ", ".join(suffix for suffix in OPENERS if suffix != ".gz")


@dataclass(frozen=True, eq=False)
class Table:
    """A frame with a name for error messages and a way to name the place of a row.

    Parameters
    ----------
    frame : DataFrame
        Its columns are distinct strings, its index is 0 .. n_rows - 1.
    name : str
        What errors call the table: "nodes.csv".
    at : callable
        Turns a row position into a place: ``at(15)`` is "nodes.csv, line 17".
    is_file : bool
        Ids of files are text, ids of data frames keep their type.
    notes : tuple of str
        What the user should know about how the file was read.
    """

    frame: pd.DataFrame
    name: str
    at: Callable[[int], str]
    is_file: bool = False
    notes: tuple[str, ...] = ()


def read_table(
    path: str | Path,
    text_columns: Collection[str] = (),
    format_options: TextFormatOptions | None = None,
) -> Table:
    r"""Read a table file, also compressed (.csv.gz, .tsv.bz2, .csv.xz, .csv.zst, .csv.zip).

    Parameters
    ----------
    path : path
        How a CSV or TSV file is written is found out by looking at it: see `sniffing`.
    text_columns : collection of str
        Columns to take as text whatever they look like, so that "007" stays "007". The others
        are numbers if all their cells are.
    format_options : TextFormatOptions, optional
        What need not be found out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.io.table_files import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "nodes.csv")
    >>> _ = path.write_text("id,age\n007,31\n")
    >>> table = read_table(path, text_columns=["id"])
    >>> table.frame.to_dict("list"), table.at(0)
    ({'id': ['007'], 'age': [31]}, 'nodes.csv, line 2')
    """
    path = existing_file(path)
    suffix = plain_suffix(path)
    if suffix in PARQUET_SUFFIXES and path.suffix.lower() == suffix:
        return _read_parquet(path)
    format_options = format_options or TextFormatOptions()
    if suffix in DELIMITERS:
        return _read_text(path, text_columns, format_options)
    if suffix in JSON_SUFFIXES:
        return _read_json(path, suffix)
    if suffix in SHEET_SUFFIXES and path.suffix.lower() == suffix:
        return _read_sheet(path, text_columns, format_options)
    if suffix in _DATABASES:
        scheme = _DATABASES[suffix]
        raise ValueError(
            f"{path.name} must be named as a database, with its table: {scheme}:///{path}?table=NAME"
        )
    known = ", ".join(TABLE_SUFFIXES)
    raise ValueError(f"{path.name} must end in one of {known} (or .csv.gz, {_PACKED})")


def _read_text(
    path: Path, text_columns: Collection[str], format_options: TextFormatOptions
) -> Table:
    with unreadable_as_value_error(path.name):
        text = sniff_text_format(path, format_options)
        columns = read_header(path, text)
        frame = read_delimited(path, text, columns, text_columns)
        about_short = _about_short_rows(path, text, columns, frame)
    filled = _filled_rows(frame)
    said = text.surprises(usual_delimiter(path))
    if filled is not None:
        said.append(f"{count(len(frame) - len(filled), 'empty row')} passed over")
        frame = frame.iloc[filled].reset_index(drop=True)
    notes = [f"{path.name}: {', '.join(said)}"] if said else []
    if not all(columns):
        notes.append(f"{path.name}: the column without a name is left out")
    notes += about_short

    def at(row: int) -> str:
        row = row if filled is None else int(filled[row])
        return f"{path.name}, line {line_of_row(path, text, row)}"

    return Table(frame, path.name, at, is_file=True, notes=tuple(notes))


def _about_short_rows(
    path: Path, text: TextFormat, columns: Sequence[str], frame: pd.DataFrame
) -> list[str]:
    """A remark on rows that end before the last column, as spreadsheets write them."""
    last = frame.iloc[:, -1] if frame.shape[1] else None
    # Such a row has nothing in the last column; a look at every line takes its time.
    if last is None or not (last.isna() | (last.astype("str") == "")).any():
        return []
    n_fields = max(place for place, name in enumerate(columns) if name) + 1
    n_short, line = short_rows(path, text, n_fields)
    if not n_short:
        return []
    said = f"{count(n_short, 'row')} with fewer than {n_fields} fields, the first in line {line}"
    return [f"{path.name}: {said}; what is missing is taken as empty"]


def _filled_rows(frame: pd.DataFrame) -> npt.NDArray[np.int64] | None:
    """The rows that have a cell, where others are but separators; None where all have one."""
    is_blank = np.ones(len(frame), dtype=bool)
    for place in range(frame.shape[1]):
        if frame.dtypes.iloc[place].kind in "biuf" or not is_blank.any():
            return None  # numbers are never blank
        is_blank &= (frame.iloc[:, place].astype("str").str.strip() == "").to_numpy()
    return np.flatnonzero(~is_blank) if is_blank.any() else None


def _read_json(path: Path, suffix: str) -> Table:
    with unreadable_as_value_error(path.name):
        frame, has_lines = read_json(path, suffix)
    row_is = "line" if has_lines else "row"
    table = table_of_frame(frame, path.name)
    return Table(table.frame, path.name, lambda row: f"{path.name}, {row_is} {row + 1}", True)


def _read_sheet(
    path: Path, text_columns: Collection[str], format_options: TextFormatOptions
) -> Table:
    has_header = format_options.header is not False
    frame, rows, notes = read_sheet(path, text_columns, has_header=has_header)

    def at(row: int) -> str:
        return f"{path.name}, row {rows[row] + 1}"

    return Table(frame, path.name, at, is_file=True, notes=tuple(notes))


def existing_file(path: str | Path) -> Path:
    """The path, if a file is there; else an error that names the closest file of that folder."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file, but it is a folder")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such file{did_you_mean(path.name, beside)}")
    if not path.is_file():  # who reads a pipe waits until somebody writes to it
        raise ValueError(f"{path} must be a file, but is a pipe or a device")
    return path


def as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """A column as text without surrounding blanks; missing cells are empty.

    Whole numbers lose their ".0", so that the ids of a Parquet file match those of a CSV file.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.table_files import as_text
    >>> as_text(pd.Series([7.0, None, 0.5])).tolist()
    ['7', '', '0.5']
    >>> as_text(pd.Series([" a", None], dtype="string")).tolist()
    ['a', '']
    """
    import pandas as pd

    if isinstance(column.dtype, pd.StringDtype):
        # In this order: older versions of pandas turn what is missing into the text "<NA>".
        return column.fillna("").astype("str").str.strip()
    cells = [_cell_text(cell) for cell in column.tolist()]
    return pd.Series(cells, index=column.index, dtype="str")


def _cell_text(cell: object) -> str:
    if is_missing(cell):
        return ""
    if isinstance(cell, bytes):
        # Unlike "replace", this keeps bytes that are no UTF-8 apart from each other.
        return cell.decode("utf-8", errors="backslashreplace").strip()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def table_of_frame(frame: pd.DataFrame, name: str, *, id_column: str | None = None) -> Table:
    """A data frame as a `Table`; an index that carries the ids becomes a column."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{name} must be a pandas DataFrame, got {type(frame).__name__}")
    if id_column is not None and frame.index.name == id_column and id_column not in frame:
        frame = frame.reset_index()
    frame = frame.reset_index(drop=True)
    frame.columns = pd.Index([str(column) for column in frame.columns])
    check_distinct(name, frame.columns)
    return Table(frame, name, lambda row: f"{name}.iloc[{row}]")


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("rb") as handle:
        try:
            file = pq.ParquetFile(handle)
            names = [name for name in file.schema_arrow.names if not name.startswith(_INDEX)]
            if len(names) > WIDE:
                batches = file.iter_batches(rows_of_a_piece(len(names)), columns=names)
                frame = squeezed_frame((batch.to_pandas() for batch in batches), names)
            else:
                frame = frame_of_arrow(file.read())
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:120]
            raise ValueError(f"{path.name} must be a Parquet file: {reason}") from None
    table = table_of_frame(frame, path.name)
    return Table(table.frame, path.name, lambda row: f"{path.name}, row {row + 1}", is_file=True)


def frame_of_arrow(table: Any) -> pd.DataFrame:
    """An Arrow table as a pandas frame; an index with a name is a column like any other."""
    # Without pandas' metadata no column becomes an index.
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame[[c for c in frame.columns if not str(c).startswith(_INDEX)]]
