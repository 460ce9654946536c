"""DuckDB as a reader of table files that are larger than memory.

Patterns of file names enter, `TableFiles` leaves: the columns, the SQL that scans the files in
order, and a way to say where a row stands. `Database` runs statements under a memory limit, shows
how far they are, and turns DuckDB's errors into one line with file and line number.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphconv.io.compression import plain_suffix
from graphconv.io.delimited import line_of_row, read_header, unreadable_as_value_error
from graphconv.io.progress import Progress
from graphconv.io.sniffing import TextFormat, TextFormatOptions, sniff_text_format
from graphconv.io.table_columns import no_such_column
from graphconv.io.table_files import PARQUET_SUFFIXES, TABLE_SUFFIXES
from graphconv.io.wording import naming

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_NUMBER_TYPES = (*_WHOLE_TYPES, "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE", "BOOLEAN", "DECIMAL")
# What the table reader takes for blanks: of text all that Python does, of numbers ASCII's.
BLANKS = " || ".join(f"chr({code})" for code in range(0x3001) if chr(code).isspace())
_NUMBER_BLANKS = "chr(32) || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
# Bytes of a row of text. DuckDB drops a longer one at a file's end, unless it is told of a limit.
_LONGEST_ROW = 1 << 26
# Seconds between two looks at how far a statement is.
_LOOK_EVERY = 0.5


@dataclass(frozen=True)
class TableFiles:
    """Files that together are one table, in the order of their names.

    Parameters
    ----------
    paths : tuple of Path
    columns : dict
        DuckDB's type of each column; in CSV files all are VARCHAR.
    delimiter : str or None
        None for Parquet.
    """

    paths: tuple[Path, ...]
    columns: dict[str, str]
    delimiter: str | None

    @property
    def name(self) -> str:
        """What errors call the table."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{_given_name(self.paths[0])}{more}"

    def scan(self, paths: Sequence[Path] | None = None) -> str:
        """SQL that reads all rows, in the order of the files, or those of some files."""
        listed = ", ".join(file_name(path) for path in paths or self.paths)
        if self.delimiter is None:
            return f"read_parquet([{listed}], hive_partitioning = false)"
        types = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in self.columns)
        return (
            f"read_csv([{listed}], header = true, auto_detect = false, columns = {{{types}}}, "
            f"delim = {quoted(self.delimiter)}, quote = '\"', escape = '\"', "
            f"hive_partitioning = false, max_line_size = {_LONGEST_ROW})"
        )

    def is_whole(self, column: str) -> bool:
        """Whether a column holds 64-bit integers by its type."""
        return self.columns[column] in _WHOLE_TYPES

    def text(self, column: str) -> str:
        """SQL of a column as text without surrounding blanks, empty where missing: see as_text."""
        name = identifier(column)
        if self.columns[column] in ("FLOAT", "DOUBLE"):
            whole = f"{name} = trunc({name}) AND abs({name}) < 9e18"
            short = f"CAST(CAST({name} AS BIGINT) AS VARCHAR)"
            name = f"CASE WHEN {whole} THEN {short} ELSE CAST({name} AS VARCHAR) END"
        return f"coalesce(trim(CAST({name} AS VARCHAR), {BLANKS}), '')"

    def number(self, column: str) -> str:
        """SQL of a column as a DOUBLE, NULL where a cell is no number."""
        name = identifier(column)
        if self.columns[column] == "VARCHAR":
            # A bare cast would be moved into the reader of the file, where it fails on text.
            # DuckDB takes 1_000 for a number, where nobody else does.
            bare = f"trim({name}, {_NUMBER_BLANKS})"
            name = f"CASE WHEN contains({name}, '_') THEN '' ELSE {bare} END"
        return f"TRY_CAST({name} AS DOUBLE)"

    def require(self, column: str, parameter: str) -> str:
        """The column, or an error that says what there is."""
        if column not in self.columns:
            raise ValueError(no_such_column(self.name, column, list(self.columns), parameter))
        return column

    def at(self, database: Database, row: int) -> str:
        """The file and line of a row, counted from 0 over all files. Reads them again."""
        for path in self.paths:
            n_rows = int(database.value(f"SELECT count(*) FROM {self.scan([path])}"))
            if row < n_rows:
                if self.delimiter is None:
                    return f"{_given_name(path)}, row {row + 1}"
                return f"{path.name}, line {_line(path, self.delimiter, row)}"
            row -= n_rows
        raise AssertionError("the row is in no file")


def _given_name(path: Path) -> str:
    """A file's name; of the copy "nodes.csv.parquet", which staging made, that of its source."""
    is_copy = path.with_suffix("").suffix.lower() in TABLE_SUFFIXES
    return path.stem if is_copy else path.name


def _line(path: Path, delimiter: str, row: int) -> int:
    return line_of_row(path, TextFormat(delimiter), row)


def find_tables(
    paths: Sequence[Path], database: Database, said: TextFormatOptions | None = None
) -> TableFiles:
    """Files as one table; they must have the same columns."""
    kinds = {_delimiter(path, said) for path in paths}
    if len(kinds) > 1:
        names = ", ".join(path.name for path in paths[:5])
        raise ValueError(f"files of one table must be of one kind, got {names}")
    delimiter = kinds.pop()
    columns = _columns(paths[0], delimiter, database)
    for path in paths[1:]:
        other = _columns(path, delimiter, database)
        if list(other) != list(columns):
            raise ValueError(
                f"files of one table must have the same columns, but {path.name} has "
                f"{', '.join(list(other)[:5])}, {paths[0].name} has {', '.join(list(columns)[:5])}"
            )
    return TableFiles(tuple(paths), columns, delimiter)


def has_short_rows(path: Path, delimiter: str) -> bool:
    """Whether a row of a CSV file has fewer fields than its header, at DuckDB's pace."""
    duckdb = import_duckdb()
    with unreadable_as_value_error(path.name):
        names = read_header(path, TextFormat(delimiter))
    if not all(names):
        return False  # it is refused for that
    scan = TableFiles((path,), dict.fromkeys(names, "VARCHAR"), delimiter).scan()
    with duckdb.connect() as connection:
        try:
            told = "store_rejects = true, rejects_limit = 1000"
            query = f"SELECT count(*) FROM {scan[:-1]}, {told})"
            connection.execute(query).fetchall()  # rows are looked at as they are fetched
            kinds = connection.execute("SELECT DISTINCT error_type FROM reject_errors").fetchall()
        except duckdb.Error:  # whatever it is, reading the rows will tell
            return False
    return ("MISSING COLUMNS",) in kinds


def _delimiter(path: Path, said: TextFormatOptions | None) -> str | None:
    if plain_suffix(path) in PARQUET_SUFFIXES:
        return None
    return sniff_text_format(path, said).delimiter


def _columns(path: Path, delimiter: str | None, database: Database) -> dict[str, str]:
    if delimiter is None:
        query = f"DESCRIBE SELECT * FROM {TableFiles((path,), {}, None).scan()}"
        return {row[0]: row[1].split("(")[0] for row in database.rows(query)}
    with unreadable_as_value_error(path.name):
        names = read_header(path, TextFormat(delimiter))
    if not all(names):
        raise ValueError(f"{path.name}: every column must have a name")
    return dict.fromkeys(names, "VARCHAR")


class Database:
    """A DuckDB database in a file, within a memory limit; what does not fit spills beside it."""

    def __init__(self, path: Path, memory: int, spill: Path, progress: Progress) -> None:
        self.progress = progress
        duckdb = import_duckdb()
        self._errors = duckdb.Error
        limit = f"{max(memory, 1 << 26) // (1 << 20)}MiB"
        with self.plain_errors():
            self._connection = duckdb.connect(
                str(path), config={"memory_limit": limit, "temp_directory": str(spill)}
            )
            self._connection.execute("SET enable_progress_bar = true")
            self._connection.execute("SET enable_progress_bar_print = false")

    def close(self) -> None:
        self._connection.close()

    def run(self, statement: str, title: str = "") -> None:
        """Run a statement to its end, showing how far it is."""
        with self.plain_errors(), ThreadPoolExecutor(1) as executor:
            if not title:
                self._connection.execute(statement)
                return
            job = executor.submit(self._connection.execute, statement)
            try:
                percent = 0
                while not _is_done(job):
                    percent = max(percent, int(self._connection.query_progress()))
                    self.progress(title, percent, 100)
            except BaseException:
                self._connection.interrupt()
                raise
            job.result()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.plain_errors():
            found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
            return found

    def value(self, query: str) -> Any:
        """The single value of a query; None where there is none."""
        found = self.rows(query)
        return found[0][0] if found else None

    def batches(self, query: str, n_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time."""
        # A reader that is open has its connection for itself.
        with self.plain_errors(), self._connection.cursor() as connection:
            yield from connection.sql(query).to_arrow_reader(n_rows)

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Turn what DuckDB raises into a ValueError or MemoryError of one line."""
        try:
            yield
        except self._errors as error:
            text = str(error)
            if "Out of Memory" in text:
                raise ValueError(
                    naming(
                        "ingest needs more memory than {memory} allows, or more free disk: {}",
                        text.splitlines()[0].removeprefix("Out of Memory Error: "),
                    )
                ) from error
            raise ValueError(_one_line(text)) from error


def _is_done(job: Any) -> bool:
    from concurrent.futures import wait

    return bool(wait([job], timeout=_LOOK_EVERY).done)


def _one_line(text: str) -> str:
    """File, line and reason of an error in a CSV file; the first line of any other."""
    line = re.search(r"CSV Error on Line: (\d+)", text)
    file = re.search(r"^\s*file = (.*)$", text, re.MULTILINE)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    first = text.splitlines()[0]
    if line is None or file is None:
        return re.sub(r"^[A-Z][\w/ ]*Error: ", "", first)
    place = f"{Path(file[1]).name}, line {line[1]}"
    if counts is not None:
        return f"{place}: a row must have {counts[1]} fields, as the header has, got {counts[2]}"
    reasons = [part.strip() for part in text.splitlines()[1:] if part.strip()]
    reason = next((part for part in reasons if not part.startswith("Original Line")), first)
    return f"{place}: {reason}"


def import_duckdb() -> Any:
    """DuckDB, or a line that says how to get it."""
    try:
        import duckdb
    except ImportError:
        raise ValueError("ingest needs DuckDB: pip install duckdb") from None
    return duckdb


def quoted(text: str) -> str:
    """Text as an SQL literal.

    Examples
    --------
    >>> from graphconv.storage._duckdb_tables import quoted
    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def file_name(path: Path) -> str:
    """A file in SQL; DuckDB takes names for patterns, so brackets and stars are put in brackets."""
    return quoted(glob.escape(str(path)))


def identifier(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'
