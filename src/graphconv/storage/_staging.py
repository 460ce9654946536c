"""Staging: tables that DuckDB can't scan as they are become Parquet files it can.

CSV in UTF-8 that begins with a line of names and Parquet are scanned in place. Rows of databases
are copied batch by batch. All else (JSON, spreadsheets, other encodings, decimal commas, comments
before the table, rows with too few fields) is read whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path

from graphconv.io.compression import plain_suffix
from graphconv.io.databases import DatabaseTable, is_database, without_password
from graphconv.io.files import replacing_file
from graphconv.io.joined_tables import matching_files
from graphconv.io.sniffing import DELIMITERS, TextFormatOptions, sniff_text_format
from graphconv.io.table_columns import TableOptions
from graphconv.io.table_files import PARQUET_SUFFIXES, read_table
from graphconv.storage._duckdb_tables import has_short_rows

# What DuckDB unpacks by itself.
_UNPACKED = ("", ".gz", ".zst")


def staged_files(
    sources: Sequence[str],
    text_columns: Collection[str],
    options: TableOptions,
    folder: Path,
    notes: list[str],
) -> list[Path]:
    """The files to scan for the rows of some sources."""
    paths = []
    for source in sources:
        if is_database(source):
            paths.append(_copy_of_database(source, folder))
            continue
        for path in matching_files(source):
            if _is_scanned(path, options.text_format):
                paths.append(path)
            else:
                paths.append(_copy_of_file(path, text_columns, options, folder, notes))
    return paths


def source_state(source: str) -> list[list[object]]:
    """What tells whether a source has changed since an earlier attempt; no password."""
    if is_database(source):
        return [[without_password(source)]]
    return [
        [str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in matching_files(source)
    ]


def _is_scanned(path: Path, said: TextFormatOptions) -> bool:
    suffix = plain_suffix(path)
    packed = path.suffix.lower() if path.suffix.lower() != suffix else ""
    if suffix in PARQUET_SUFFIXES:
        return not packed
    if suffix not in DELIMITERS or packed not in _UNPACKED:
        return False
    text = sniff_text_format(path, said)
    has_plain_numbers = text.decimal == "." and not text.thousands
    begins_with_names = text.has_header and not text.n_comments
    is_utf8 = text.encoding.startswith("utf-8")
    if not (has_plain_numbers and begins_with_names and is_utf8):
        return False
    return not has_short_rows(path, text.delimiter)


def _target(source: str, name: str, folder: Path) -> Path:
    """Where the copy of a source lies; a folder each, so that its name can be told."""
    place = folder / hashlib.sha256(source.encode()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    return place / f"{name.replace('/', '-')}.parquet"


def _copy_of_database(source: str, folder: Path) -> Path:
    import pyarrow.parquet as pq

    table = DatabaseTable.parse(source)
    target = _target(without_password(source), table.name, folder)
    if target.exists():  # of an earlier attempt, whose ids it must have
        return target
    writer = None
    with replacing_file(target) as new:
        for batch in table.batches():
            writer = writer or pq.ParquetWriter(new, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            raise ValueError(f"{table.name} has no rows")
        writer.close()
    return target


def _copy_of_file(
    path: Path, text_columns: Collection[str], options: TableOptions, folder: Path, notes: list[str]
) -> Path:
    table = read_table(path, text_columns, options.text_format)
    if not len(table.frame.columns):
        raise ValueError(f"{path.name} has no columns")
    notes += [note for note in table.notes if note not in notes]
    target = _target(str(path.resolve()), path.name, folder)
    if not target.exists():
        with replacing_file(target) as new:
            table.frame.to_parquet(new, index=False)
    return target
