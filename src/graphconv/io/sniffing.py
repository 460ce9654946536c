"""Sniffing: how a file of delimited text is written, found out by looking at it.

A path enters, a `TextFormat` leaves: the encoding, what separates the columns, how numbers are
written, and whether the first line names the columns. Whatever the user has said is not guessed.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from graphconv.io.compression import open_binary
from graphconv.io.wording import MISSING_MARKS, count

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", ".dat": ","}
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
_SAMPLE_BYTES = 1 << 18
_SAMPLE_ROWS = 500

# How programs and publishers of graphs mark lines that are about the table.
COMMENT = "#"
_COMMENTS = (COMMENT, "%")
# By this first line some spreadsheets tell each other the delimiter.
_TELLS_DELIMITER = re.compile(r'"?sep=.?"?', re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
LEADING_ZERO = re.compile(r"0\d+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TextFormatOptions:
    """What the user says of how text files are written; None is found out by looking.

    Parameters
    ----------
    delimiter : str, optional
        What separates the columns.
    file_encoding : str, optional
        A codec of Python, such as "cp1252".
    decimal : {".", ","}, optional
    thousands : str, optional
        What groups the digits of a number; "" for nothing.
    header : bool, optional
        Whether the first line names the columns.
    """

    delimiter: str | None = None
    file_encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, got {self.delimiter!r}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {self.decimal!r}")
        if self.thousands is not None and (
            len(self.thousands) > 1 or self.thousands == self.decimal
        ):
            raise ValueError(
                "thousands must be one character that is not the decimal one, "
                f"got {self.thousands!r}"
            )
        if self.file_encoding is not None:
            try:
                codecs.lookup(self.file_encoding)
            except LookupError:
                raise ValueError(
                    "file_encoding must be one that Python knows, such as 'cp1252', "
                    f"got {self.file_encoding!r}"
                ) from None


@dataclass(frozen=True)
class TextFormat:
    """How a file of delimited text is written.

    Parameters
    ----------
    delimiter, encoding, decimal : str
    thousands : str
        What groups the digits of its numbers; "" for nothing.
    has_header : bool
    code_columns : tuple of int
        Positions of columns with codes such as "007", which are no numbers.
    n_comments : int
        Lines of comments before the table.
    """

    delimiter: str = ","
    encoding: str = "utf-8-sig"
    decimal: str = "."
    thousands: str = ""
    has_header: bool = True
    code_columns: tuple[int, ...] = ()
    n_comments: int = 0

    def surprises(self, usual_delimiter: str = ",") -> list[str]:
        """What is not as in most files, in words."""
        said = []
        if self.n_comments:
            said.append(f"{count(self.n_comments, 'line')} of comments passed over")
        if self.delimiter != usual_delimiter:
            name = _DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
            said.append(f"columns separated by {name}")
        if self.encoding != "utf-8-sig":
            said.append(f"text in {self.encoding}")
        if self.decimal == ",":
            said.append("numbers with a decimal comma")
        if self.thousands:
            said.append(f"digits grouped by {self.thousands!r}")
        if not self.has_header:
            said.append("no line with the columns' names, so they are column_1, column_2, ...")
        return said


def sniff_text_format(path: Path, options: TextFormatOptions | None = None) -> TextFormat:
    r"""Find out how a file of delimited text is written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.io.sniffing import sniff_text_format
    >>> path = pathlib.Path(tempfile.mkdtemp(), "export.csv")
    >>> _ = path.write_bytes("name;price\nKöln;1.234,50\nGent;7,5\n".encode("cp1252"))
    >>> for surprise in sniff_text_format(path).surprises():
    ...     print(surprise)
    columns separated by semicolons
    text in cp1252
    numbers with a decimal comma
    digits grouped by '.'
    """
    options = options or TextFormatOptions()
    encoding = options.file_encoding or _sniff_encoding(path)
    usual = usual_delimiter(path)
    with open_binary(path) as raw:
        sample = _sample(raw, encoding)
    comments, sample = _split_comments(sample)
    delimiter = options.delimiter or _sniff_delimiter(sample, usual)
    rows = _rows(sample, delimiter)
    has_header = _has_header(rows) if options.header is None else options.header
    if comments and options.header is not False and _names_columns(comments[-1], rows, delimiter):
        comments, has_header = comments[:-1], True
        rows = [[], *rows]
    body = rows[1:] if has_header else rows
    columns = list(zip(*(row for row in body if len(row) == len(body[0])), strict=True))
    decimal, thousands = _sniff_numbers(columns, options)
    codes = [
        position
        for position, cells in enumerate(columns)
        if any(LEADING_ZERO.fullmatch(cell) for cell in cells)
    ]
    return TextFormat(
        delimiter, encoding, decimal, thousands, has_header, tuple(codes), len(comments)
    )


def usual_delimiter(path: Path) -> str:
    """The delimiter that a file's suffix promises."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((DELIMITERS[suffix] for suffix in suffixes[::-1] if suffix in DELIMITERS), ",")


def _sniff_encoding(path: Path) -> str:
    """UTF-16 by its mark or its zero bytes, UTF-8 if all of the file is that, else cp1252."""
    with open_binary(path) as raw:
        chunk = raw.read(_SAMPLE_BYTES)
        if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        n_zero = [chunk[start::2].count(0) for start in (0, 1)]
        if max(n_zero) > 0.2 * len(chunk) and min(n_zero) < 0.1 * max(n_zero):
            return "utf-16-le" if n_zero[1] > n_zero[0] else "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = raw.read(1 << 20)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


def _sample(raw: BinaryIO, encoding: str) -> str:
    """The first lines of a file; the last of them only if the file ends with it."""
    content = raw.read(_SAMPLE_BYTES)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(content)
    if len(content) == _SAMPLE_BYTES and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text


def _split_comments(sample: str) -> tuple[list[str], str]:
    """The lines up to the last comment before the table, and the rest."""
    lines, end = list(io.StringIO(sample, newline="")), 0
    for number, line in enumerate(lines):
        if line.startswith(_COMMENTS) or (number == 0 and _TELLS_DELIMITER.fullmatch(line.strip())):
            end = number + 1
        elif line.strip():
            return lines[:end], "".join(lines[end:])
    return [], sample


def _names_columns(comment: str, rows: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Whether a comment is a line of names: it has as many cells as the row after it."""
    # Blanks separate words as well: names are taken only where else there would be none.
    if not comment.startswith(COMMENT) or not rows or (delimiter == " " and not _has_header(rows)):
        return False
    names = _rows(comment.removeprefix(COMMENT), delimiter)
    return bool(names) and len(names[0]) == len(rows[0]) > 1


def _rows(sample: str, delimiter: str) -> list[list[str]]:
    try:
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        rows = [[cell.strip() for cell in row] for row in islice(reader, _SAMPLE_ROWS)]
    except csv.Error:  # a field beyond its limit: the reader of the file will say so
        return []
    return [row for row in rows if any(row)]


def _sniff_delimiter(sample: str, usual: str) -> str:
    """The delimiter that cuts most lines into as many columns as the first."""
    best, best_score = usual, (0.0, 0)
    for delimiter in dict.fromkeys((usual, ",", ";", "\t", "|", " ")):
        rows = _rows(sample, delimiter)
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        # Blanks separate words as well, so they must cut all lines alike, without an empty cell.
        if delimiter == " " and not all(len(row) == width and all(row) for row in rows):
            continue
        score = sum(len(row) == width for row in rows) / len(rows), width
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """A first line names no columns if it is like those below: all numbers, or ids as they have."""
    if not rows:
        return True
    first, below = rows[0], rows[1:]
    cells = {cell for row in below for cell in row}
    return not all(
        _PLAIN_NUMBER.fullmatch(cell) or cell in cells or _is_id_like(cell, place, below)
        for place, cell in enumerate(first)
    )


def _is_id_like(cell: str, place: int, below: Sequence[Sequence[str]]) -> bool:
    """Whether a cell is letters and digits in the same order as all cells below it: p12, p7."""
    shapes = {_DIGITS.sub("0", row[place]) for row in below if len(row) > place}
    return bool(_DIGITS.search(cell)) and shapes == {_DIGITS.sub("0", cell)}


def _sniff_numbers(columns: Sequence[Sequence[str]], options: TextFormatOptions) -> tuple[str, str]:
    """The decimal mark and what groups digits, as the columns of numbers show them."""
    found = {mark: [_shapes(cells, mark) for cells in columns] for mark in (".", ",")}
    if options.decimal is not None:
        decimal = options.decimal
    else:
        # Only what can't be read with a point speaks for the comma: "1,5", but not "1,500".
        has_comma = any(shape.has_decimals for shape in found[","])
        has_point = any(shape.has_decimals for shape in found["."])
        decimal = "," if has_comma and not has_point else "."
    if options.thousands is not None:
        return decimal, options.thousands
    groups = [shape.grouped_by for shape in found[decimal] if shape.grouped_by]
    return decimal, groups[0] if groups else ""


@dataclass(frozen=True)
class _NumberShapes:
    """What the cells of a column show if its decimal mark is the given one."""

    has_decimals: bool = False
    grouped_by: str = ""


def _shapes(cells: Sequence[str], decimal: str) -> _NumberShapes:
    filled = [cell for cell in cells if cell not in MISSING_MARKS]
    other = "," if decimal == "." else "."
    number = number_pattern(decimal, f"{other} '\u00a0\u202f")
    matches = [number.fullmatch(cell) for cell in filled]
    if not filled or not all(matches):
        return _NumberShapes()
    groups = {match["group"] for match in matches if match and match["group"]}
    # "1,500" alone may be a number with three decimals: some cell must show what it is.
    has_decimals = any(
        match
        and match["fraction"]
        and (len(match["fraction"]) != 3 or match["whole"] in ("0", "-0", "+0"))
        for match in matches
    )
    return _NumberShapes(has_decimals, groups.pop() if len(groups) == 1 else "")


def number_pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers with a decimal mark whose digits may be grouped by one of some characters.

    Examples
    --------
    >>> from graphconv.io.sniffing import number_pattern
    >>> pattern = number_pattern(",", ".")
    >>> [bool(pattern.fullmatch(cell)) for cell in ("1.234,5", "17", "01.02.2024", "3.14")]
    [True, True, False, False]
    """
    mark = re.escape(decimal)
    digits = r"\d+"
    if thousands:
        digits = (
            rf"(?:\d{{1,3}}(?P<group>[{re.escape(thousands)}])\d{{3}}(?:(?P=group)\d{{3}})*|\d+)"
        )
    else:
        digits = r"(?P<group>(?!))?\d+"
    return re.compile(
        rf"(?P<whole>[+-]?{digits})(?:{mark}(?P<fraction>\d+))?(?:[eE][+-]?\d+)?", re.ASCII
    )
