"""Table files: a CSV, TSV or Parquet file becomes a pandas frame that knows where its rows are.

A path enters, a `Table` leaves: the frame, the file's name, and a way to say in which line of the
file a row stands. Lines are worked out only when an error has to name one.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from graphconv.io.wording import did_you_mean, is_missing, shown

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET_SUFFIXES = (".parquet", ".pq")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


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


def read_table(path: str | Path, text_columns: Collection[str] = ()) -> Table:
    r"""Read a CSV, TSV or Parquet file, also compressed (.csv.gz, .tsv.bz2, .csv.xz).

    Parameters
    ----------
    path : path
        The first line of a CSV or TSV file names its columns.
    text_columns : collection of str
        Columns to take as text whatever they look like, so that "007" stays "007". The others
        are numbers if all their cells are.

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
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PARQUET_SUFFIXES:
        return _read_parquet(path)
    if suffixes and suffixes[-1] in OPENERS:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in DELIMITERS:
        known = ", ".join([*DELIMITERS, *PARQUET_SUFFIXES])
        raise ValueError(f"{path.name} must end in one of {known} (or .csv.gz, .bz2, .xz)")
    return _read_delimited(path, DELIMITERS[suffixes[-1]], text_columns)


def existing_file(path: str | Path) -> Path:
    """The path, if a file is there; else an error that names the closest file of that folder."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file, but it is a folder")
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such file{did_you_mean(path.name, beside)}")
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
    """
    import pandas as pd

    if isinstance(column.dtype, pd.StringDtype):
        return column.astype("str").fillna("").str.strip()
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


@contextmanager
def unreadable_as_value_error(name: str) -> Iterator[None]:
    """Turn what decoding or unpacking a file raises into one ValueError with the file's name."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ValueError(f"{name} must be UTF-8 text, got the byte 0x{byte:02x}") from None
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{name} cannot be unpacked: {error}") from None
    except OSError as error:
        # The operating system's own errors carry a number; a broken gzip or bz2 file does not.
        if error.errno is not None:
            raise
        raise ValueError(f"{name} cannot be unpacked: {error}") from None


def open_binary(path: Path) -> BinaryIO:
    """Open a file, unpacking it if its suffix says that it is compressed."""
    opener = OPENERS.get(path.suffix.lower())
    return cast(BinaryIO, opener(path, "rb") if opener else path.open("rb"))


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a file of UTF-8 text, unpacking it if need be, with its line ends as they are."""
    # newline="" leaves line ends inside quotes to the CSV parser; -sig drops a byte order mark.
    with (
        open_binary(path) as raw,
        io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as handle,
    ):
        yield handle


def _read_delimited(path: Path, delimiter: str, text_columns: Collection[str]) -> Table:
    import pandas as pd

    with unreadable_as_value_error(path.name):
        columns = read_header(path, delimiter)
        # pandas needs distinct names; those without one are left out below.
        keys = [column or f"\0{position}" for position, column in enumerate(columns)]
        with open_text(path) as handle, warnings.catch_warnings():
            # pandas only warns of a first row that is too long, and cuts it off.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            try:
                frame = pd.read_csv(
                    handle,
                    sep=delimiter,
                    header=0,
                    names=keys,
                    index_col=False,
                    dtype={key: "str" for key in keys if key in text_columns},
                    na_filter=False,
                    low_memory=False,
                )
            except (pd.errors.ParserError, pd.errors.ParserWarning):
                raise _malformed(path, delimiter, len(columns)) from None
    unnamed = [key for key in keys if key.startswith("\0")]
    notes = (f"{path.name}: the column without a name is left out",) if unnamed else ()
    return Table(
        frame.drop(columns=unnamed),
        path.name,
        lambda row: f"{path.name}, line {line_of_row(path, delimiter, row)}",
        is_file=True,
        notes=notes,
    )


def read_header(path: Path, delimiter: str) -> list[str]:
    import pandas as pd

    with open_text(path) as handle:
        try:
            first = pd.read_csv(
                handle, sep=delimiter, header=None, nrows=1, dtype="str", na_filter=False
            )
        except pd.errors.EmptyDataError:
            raise ValueError(
                f"{path.name} is empty: its first line must name the columns"
            ) from None
        except pd.errors.ParserError:
            raise _malformed(path, delimiter, None) from None
    columns = [str(cell).strip() for cell in first.iloc[0]]
    _check_distinct(path.name, [column for column in columns if column])
    return columns


def _check_distinct(name: str, columns: Iterable[str]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise ValueError(f"{name} must not have two columns named {shown(column)}")
        seen.add(column)


def table_of_frame(frame: pd.DataFrame, name: str, *, id_column: str | None = None) -> Table:
    """A data frame as a `Table`; an index that carries the ids becomes a column."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{name} must be a pandas DataFrame, got {type(frame).__name__}")
    if id_column is not None and frame.index.name == id_column and id_column not in frame:
        frame = frame.reset_index()
    frame = frame.reset_index(drop=True)
    frame.columns = pd.Index([str(column) for column in frame.columns])
    _check_distinct(name, frame.columns)
    return Table(frame, name, lambda row: f"{name}.iloc[{row}]")


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a file, each with the line it starts on, blank lines left out."""
    with open_text(path) as handle:
        reader = csv.reader(handle, delimiter=delimiter)
        line = 1
        for record in reader:
            # pandas passes over empty lines and those of blanks alone, but not over a quoted "".
            is_blank = not record or (len(record) == 1 and record[0] and record[0].isspace())
            if not is_blank:
                yield line, record
            line = reader.line_num + 1


def line_of_row(path: Path, delimiter: str, row: int) -> int:
    try:
        return next(islice(_records(path, delimiter), row + 1, None))[0]
    except (csv.Error, StopIteration):
        # A field beyond the csv module's limit: right unless quotes hold line ends.
        return row + 2


def _malformed(path: Path, delimiter: str, width: int | None) -> ValueError:
    line = 1
    try:
        for line, record in _records(path, delimiter):
            width = len(record) if width is None else width
            if len(record) > width:
                return ValueError(
                    f"{path.name}, line {line}: a row must have at most {width} fields, "
                    f"as the header has, got {len(record)}"
                )
    except csv.Error as error:
        return ValueError(f"{path.name}, line {line}: {error}")
    # An open quote swallows the rest of the file, so it starts with the last record.
    return ValueError(f"{path.name}, line {line}: a quote must be closed, but the file ends")


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("rb") as handle:
        try:
            # Without pandas' metadata an index with a name is a column like any other.
            frame = pq.ParquetFile(handle).read().to_pandas(ignore_metadata=True)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:120]
            raise ValueError(f"{path.name} must be a Parquet file: {reason}") from None
    table = table_of_frame(frame, path.name)
    frame = table.frame[[c for c in table.frame.columns if not str(c).startswith("__index_level_")]]
    return Table(frame, path.name, lambda row: f"{path.name}, row {row + 1}", is_file=True)
