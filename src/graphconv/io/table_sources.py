"""Table sources: whatever holds rows becomes a `Table`.

Files and patterns of their names, tables of databases, what comes in on standard input, and data
frames of pandas, polars or pyarrow enter, also several of them for one table.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from graphconv.io.databases import DatabaseTable, is_database
from graphconv.io.joined_tables import join_tables, matching_files
from graphconv.io.table_columns import TableOptions
from graphconv.io.table_files import Table, frame_of_arrow, read_table, table_of_frame

if TYPE_CHECKING:
    import pandas as pd

# A file, a pattern such as "edges-*.csv", a database's connection string, "-" for standard input,
# or a data frame.
Source: TypeAlias = "str | Path | pd.DataFrame | Any"
Sources: TypeAlias = "Source | Sequence[Source]"
STANDARD_INPUT = "-"


def read_source(
    sources: Sources, what: str, text_columns: Collection[str], options: TableOptions
) -> Table:
    """The table that some sources hold together.

    Parameters
    ----------
    sources : path, frame, or sequence of these
    what : str
        What errors call a data frame: "edges", or another name for a table of nodes.
    text_columns : collection of str
        Columns of files that are text whatever they look like.
    options : TableOptions
    """
    listed = list(sources) if isinstance(sources, list | tuple) else [sources]
    tables = [table for source in listed for table in _tables(source, what, text_columns, options)]
    if not tables:
        raise ValueError("at least one file must be given, got none")
    return join_tables(tables)


def _tables(
    source: Source, what: str, text_columns: Collection[str], options: TableOptions
) -> list[Table]:
    if not isinstance(source, str | Path):
        id_column = options.id if what != "edges" else None
        return [table_of_frame(as_pandas(source, what), what, id_column=id_column)]
    if is_database(source):
        return [DatabaseTable.parse(str(source)).read()]
    if str(source) == STANDARD_INPUT:
        return [_read_standard_input(text_columns, options)]
    return [read_table(path, text_columns, options.text_format) for path in matching_files(source)]


def files_of(source: str) -> list[Path]:
    """The files that the rows of a source lie in; a server and standard input have none."""
    if is_database(source):
        table = DatabaseTable.parse(source)
        return [] if table.kind == "postgresql" else [Path(table.place)]
    return [] if source == STANDARD_INPUT else matching_files(source)


def name_of_source(sources: Sources | None) -> str:
    """A name for the graph whose edges come from some sources."""
    first: Any = sources[0] if isinstance(sources, list | tuple) and sources else sources
    if is_database(first):
        return Path(urlsplit(first).path).stem or "graph"
    is_path = isinstance(first, str | Path) and str(first) != STANDARD_INPUT
    return Path(first).name.split(".")[0] if is_path else "graph"


def as_pandas(frame: Any, name: str) -> pd.DataFrame:
    """A data frame of pandas, polars (1.3 or newer) or pyarrow as one of pandas."""
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        return frame
    import pyarrow as pa

    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return frame_of_arrow(pa.table(frame))
        except pa.ArrowInvalid:  # a single column
            pass
    raise TypeError(
        f"{name} must be a path or a data frame of pandas, polars or pyarrow, "
        f"got {type(frame).__name__}"
    )


def _read_standard_input(text_columns: Collection[str], options: TableOptions) -> Table:
    """The table that comes in on standard input; what kind it is shows by its first bytes."""
    content = sys.stdin.buffer.read()
    start = content[:64].lstrip()
    suffix = ".csv"
    if start.startswith(b"PAR1"):
        suffix = ".parquet"
    elif start.startswith((b"{", b"[")):
        suffix = ".jsonl" if start.startswith(b"{") else ".json"
    # Lines of rows are looked up when an error has to name one, so the file stays until the end.
    folder = tempfile.mkdtemp(prefix="graphconv-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"standard input{suffix}")
    path.write_bytes(content)
    return read_table(path, text_columns, options.text_format)
