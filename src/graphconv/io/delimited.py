"""Delimited text: a CSV or TSV file becomes a frame, and rows of the frame find their lines.

A path and its `TextFormat` enter, a pandas frame leaves. A wide table is read in pieces, and its
columns that are mostly zero are kept sparse, so that it never lies in memory as it is in the file.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.io.compression import open_binary
from graphconv.io.sniffing import COMMENT, TextFormat, number_pattern
from graphconv.io.wording import MISSING_MARKS, shown

if TYPE_CHECKING:
    import pandas as pd

# Tables with more columns are read in pieces of so many cells.
WIDE = 256
_PIECE_CELLS = 1 << 23
# A column with a smaller share of other numbers is kept sparse.
SPARSE_BELOW = 0.25


@contextmanager
def unreadable_as_value_error(name: str) -> Iterator[None]:
    """Turn what decoding or unpacking a file raises into one ValueError with the file's name."""
    try:
        yield
    except UnicodeError as error:
        found = ""
        if isinstance(error, UnicodeDecodeError):
            found = f", got the byte 0x{error.object[error.start]:02x}"
        codec = str(getattr(error, "encoding", "that encoding")).upper()
        # What is not UTF-8 was tried as cp1252.
        kind = "UTF-8 or cp1252" if codec == "CHARMAP" else codec
        raise ValueError(f"{name} must be {kind} text{found}") from None
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{name} cannot be unpacked: {error}") from None
    except OSError as error:
        # The operating system's own errors carry a number; a broken archive does not.
        if error.errno is not None:
            raise
        raise ValueError(f"{name} cannot be unpacked: {error}") from None


@contextmanager
def open_text(path: Path, encoding: str = "utf-8-sig") -> Iterator[TextIO]:
    """Open a file of text, unpacking it if need be, with its line ends as they are."""
    # newline="" leaves line ends inside quotes to the CSV parser; -sig drops a byte order mark.
    with (
        open_binary(path) as raw,
        io.TextIOWrapper(raw, encoding=encoding, newline="") as handle,
    ):
        yield handle


@contextmanager
def _open_table(path: Path, text: TextFormat) -> Iterator[TextIO]:
    """Open a file of text where its table begins."""
    with open_text(path, text.encoding) as handle:
        for _ in range(text.n_comments):
            handle.readline()
        yield handle


@contextmanager
def _open_for_pandas(path: Path, text: TextFormat) -> Iterator[TextIO | io.TextIOBase]:
    """Open a table as `_open_table` does, in a way that every version of pandas can read."""
    import pandas as pd

    major, minor = map(int, pd.__version__.split(".")[:2])
    with _open_table(path, text) as handle:
        yield handle if (major, minor) >= (3, 1) else _WithoutLoneReturns(handle)


class _WithoutLoneReturns(io.TextIOBase):
    r"""Text in which "\r", where a blank follows, is "\n".

    Before version 3.1, pandas comes back from a blank after a line's end to the last "\n". It reads
    what follows that twice, or over and over again until memory is full (its issue 51141). The
    price is that such a "\r" changes in quoted cells, too.
    """

    def __init__(self, handle: TextIO) -> None:
        self._handle = handle

    def read(self, size: int | None = -1, /) -> str:
        piece = self._handle.read(-1 if size is None else size)
        while piece.endswith("\r") and (following := self._handle.read(1)):
            piece += following
        return re.sub("\r(?=[ \t])", "\n", piece)


def read_header(path: Path, text: TextFormat) -> list[str]:
    """The names of the columns; those without a name are empty."""
    first = _first_record(path, text)
    if not text.has_header:
        return [f"column_{place + 1}" for place in range(len(first))]
    columns = [cell.strip() for cell in first]
    # A line of names may be marked as a comment: "# source,target".
    columns[0] = columns[0].removeprefix(COMMENT).lstrip() or columns[0]
    check_distinct(path.name, [column for column in columns if column])
    return columns


def _first_record(path: Path, text: TextFormat) -> list[str]:
    """The cells of the first row as pandas reads them."""
    import pandas as pd

    try:
        # Of 100,000 names pandas would make as many columns, which takes it a second.
        return next(_records(path, text, strict=True))[1]
    except (csv.Error, StopIteration):  # pandas has the last word on what is odd
        pass
    with _open_for_pandas(path, text) as handle:
        try:
            first = pd.read_csv(
                handle, sep=text.delimiter, header=None, nrows=1, dtype="str", na_filter=False
            )
        except pd.errors.EmptyDataError:
            raise ValueError(
                f"{path.name} is empty: its first line must name the columns"
            ) from None
        except pd.errors.ParserError:
            raise _malformed(path, text, None) from None
    return [str(cell) for cell in first.iloc[0]]


def check_distinct(name: str, columns: Iterable[str]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise ValueError(f"{name} must not have two columns named {shown(column)}")
        seen.add(column)


def read_delimited(
    path: Path, text: TextFormat, columns: Sequence[str], text_columns: Collection[str]
) -> pd.DataFrame:
    """All rows of a file whose header is known; columns without a name are left out.

    Columns named in `text_columns`, in any case, are text whatever they look like, and so are
    codes such as "007".
    """
    wanted = {column.lower() for column in text_columns}
    # pandas needs distinct names; those without one are left out below.
    keys = [column or f"\0{place}" for place, column in enumerate(columns)]
    as_text = {key for key in keys if key.lower() in wanted}
    as_text.update(keys[place] for place in text.code_columns if place < len(keys))
    with warnings.catch_warnings():
        # pandas only warns of a first row that is too long, and cuts it off.
        import pandas as pd

        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            if len(keys) > WIDE:
                frame = _read_wide(path, text, keys, as_text)
            else:
                frame = next(_pieces(path, text, keys, as_text, None))
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            if "out of memory" in str(error):
                raise MemoryError from None
            raise _malformed(path, text, len(columns)) from None
    if text.thousands or text.decimal != ".":
        frame = _with_numbers(frame, text, as_text)
    return frame.drop(columns=[key for key in keys if key.startswith("\0")])


def _pieces(
    path: Path,
    text: TextFormat,
    keys: Sequence[str],
    as_text: Collection[str],
    n_rows: int | None,
    only: Sequence[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """The rows of a file, `n_rows` at a time."""
    import pandas as pd

    options: dict[str, Any] = {
        "sep": text.delimiter,
        "decimal": text.decimal,
        "header": 0 if text.has_header else None,
        "names": keys,
        "usecols": only,
        "index_col": False,
        "dtype": {key: "str" for key in keys if key in as_text},
        "na_filter": False,
        "low_memory": False,
    }
    with _open_for_pandas(path, text) as handle:
        if n_rows is None:
            yield pd.read_csv(handle, **options)
        else:
            yield from pd.read_csv(handle, chunksize=n_rows, **options)


def _read_wide(
    path: Path, text: TextFormat, keys: Sequence[str], as_text: set[str]
) -> pd.DataFrame:
    """A table of many columns, those that are mostly zero sparse, others as usual."""
    read = _pieces(path, text, keys, as_text, rows_of_a_piece(len(keys)))
    pieces, n_rows = _squeezed_columns(read, len(keys))
    # Numbers in one piece and words in another: the numbers are no more what the file says.
    mixed = [
        key
        for key, parts in zip(keys, pieces, strict=True)
        if key not in as_text and len({_is_number(part.values) for part in parts}) > 1
    ]
    dense: dict[str, Any] = {}
    if mixed:
        again = next(_pieces(path, text, keys, mixed, None, only=mixed))
        dense = {key: again[key] for key in mixed}
    return _joined(keys, pieces, n_rows, dense)


def squeezed_frame(pieces: Iterator[pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Pieces of a table as one frame, in which columns that are mostly zero are sparse."""
    columns, n_rows = _squeezed_columns(pieces, len(keys))
    return _joined(keys, columns, n_rows, {})


def rows_of_a_piece(n_columns: int) -> int:
    """How many rows of a wide table to hold at a time."""
    return max(64, _PIECE_CELLS // n_columns)


def _squeezed_columns(
    pieces: Iterator[pd.DataFrame], n_columns: int
) -> tuple[list[list[_Piece]], int]:
    columns: list[list[_Piece]] = [[] for _ in range(n_columns)]
    n_rows = 0
    for piece in pieces:
        # A column taken out of a frame costs more than the look at it: numbers go together.
        kinds, cells = piece.dtypes.to_numpy(), cast(Any, piece.iloc)
        for kind in dict.fromkeys(kinds):
            places = np.flatnonzero(kinds == kind)
            if kind.kind in "iuf":
                block = np.asfortranarray(cells[:, places].to_numpy())
                for column, place in enumerate(places):
                    columns[place].append(_squeezed(block[:, column], n_rows))
            else:
                for place in places:
                    columns[place].append(_whole(cells[:, place].to_numpy(copy=True), n_rows))
        n_rows += len(piece)
    return columns, n_rows


def _joined(
    keys: Sequence[str], pieces: Sequence[list[_Piece]], n_rows: int, dense: dict[str, Any]
) -> pd.DataFrame:
    sparse: dict[str, list[_Piece]] = {}
    for key, parts in zip(keys, pieces, strict=True):
        if key in dense:
            continue
        if parts and all(part.rows is not None for part in parts):
            sparse[key] = parts
        else:
            dense[key] = np.concatenate([part.spread() for part in parts]) if parts else []
    return _half_sparse_frame(dense, sparse, keys, n_rows)


@dataclass(frozen=True)
class _Piece:
    """Some cells of a column; where they are mostly zero, the others with their rows."""

    values: Any
    rows: npt.NDArray[np.int64] | None
    first_row: int
    n_rows: int

    def spread(self) -> Any:
        if self.rows is None:
            return self.values
        cells = np.zeros(self.n_rows, dtype=self.values.dtype)
        cells[self.rows - self.first_row] = self.values
        return cells


def _is_number(values: Any) -> bool:
    return bool(values.dtype.kind in "biuf")


def _squeezed(numbers: npt.NDArray[Any], first_row: int) -> _Piece:
    rows = np.flatnonzero(numbers)
    if len(rows) < SPARSE_BELOW * len(numbers):
        return _Piece(numbers[rows], rows + first_row, first_row, len(numbers))
    return _whole(numbers.copy(), first_row)  # a view would keep the whole piece of the table


def _whole(cells: Any, first_row: int) -> _Piece:
    return _Piece(cells, None, first_row, len(cells))


def _half_sparse_frame(
    dense: dict[str, Any], sparse: dict[str, list[_Piece]], keys: Sequence[str], n_rows: int
) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(dense, index=pd.RangeIndex(n_rows))
    if not sparse:
        return frame[list(keys)]
    parts = [part for column in sparse.values() for part in column]
    ends = np.cumsum([0, *(sum(len(p.values) for p in column) for column in sparse.values())])
    matrix = sp.csc_array(
        (
            np.concatenate([part.values for part in parts]).astype(np.float64),
            np.concatenate([part.rows for part in parts if part.rows is not None]),
            ends,
        ),
        shape=(n_rows, len(sparse)),
    )
    accessor: Any = pd.DataFrame.sparse  # its stubs know no from_spmatrix
    squeezed: pd.DataFrame = accessor.from_spmatrix(matrix, columns=pd.Index(list(sparse)))
    return pd.concat([frame, squeezed], axis=1)[list(keys)]


def _with_numbers(frame: pd.DataFrame, text: TextFormat, as_text: Collection[str]) -> pd.DataFrame:
    """Columns of numbers that pandas left as text: with empty cells, or with digits in groups.

    Were pandas told of the groups, it would read dates as numbers, too.
    """
    import pandas as pd

    number = number_pattern(text.decimal, text.thousands)
    made = {}
    for key in frame.columns:
        column = frame[key]
        if key in as_text or column.dtype.kind != "O":  # what text is, of any version of pandas
            continue
        cells = column.str.strip()
        is_filled = ~cells.isin(MISSING_MARKS)
        if is_filled.any() and cells[is_filled].str.fullmatch(number).all():
            plain = cells.str.replace(text.thousands, "", regex=False)
            made[key] = pd.to_numeric(
                plain.str.replace(text.decimal, ".", regex=False), errors="coerce"
            )
    return frame.assign(**made)


def _records(
    path: Path, text: TextFormat, *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The records of a file, each with the line it starts on, blank lines left out."""
    with _open_table(path, text) as handle:
        reader = csv.reader(handle, delimiter=text.delimiter, strict=strict)
        line = text.n_comments + 1
        for record in reader:
            # pandas passes over empty lines and those of blanks alone, but not over a quoted "".
            is_blank = not record or (len(record) == 1 and record[0] and record[0].isspace())
            if not is_blank:
                yield line, record
            line = text.n_comments + reader.line_num + 1


def line_of_row(path: Path, text: TextFormat, row: int) -> int:
    """The line of the file that a row of the table starts on."""
    place = row + 1 if text.has_header else row
    try:
        return next(islice(_records(path, text), place, None))[0]
    except (csv.Error, StopIteration):
        # A field beyond the csv module's limit: right unless quotes hold line ends.
        return text.n_comments + place + 1


def short_rows(path: Path, text: TextFormat, n_fields: int) -> tuple[int, int]:
    """How many rows have fewer fields, and the line of the first; rows of blanks don't count."""
    n_short = first = 0
    try:
        for line, record in islice(_records(path, text), int(text.has_header), None):
            if len(record) < n_fields and any(map(str.strip, record)):
                n_short, first = n_short + 1, first or line
    except csv.Error:  # a field beyond the csv module's limit: those before it are told
        pass
    return n_short, first


def _malformed(path: Path, text: TextFormat, width: int | None) -> ValueError:
    line = 1
    try:
        for line, record in _records(path, text):
            width = len(record) if width is None else width
            if len(record) > width:
                whose = "header" if text.has_header else "first row"
                return ValueError(
                    f"{path.name}, line {line}: a row must have at most {width} fields, "
                    f"as the {whose} has, got {len(record)}"
                )
    except csv.Error as error:
        return ValueError(f"{path.name}, line {line}: {error}")
    # An open quote swallows the rest of the file, so it starts with the last record.
    return ValueError(f"{path.name}, line {line}: a quote must be closed, but the file ends")
