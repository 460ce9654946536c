"""Joined tables: several files with rows of one kind become one table."""

from __future__ import annotations

import glob
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from graphconv.io.table_files import Table, existing_file
from graphconv.io.wording import count


def matching_files(pattern: str | Path) -> list[Path]:
    """The files that a name or a pattern such as "edges-*.csv" stands for, sorted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.io.joined_tables import matching_files
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for day in ("2", "1"):
    ...     _ = (folder / f"day-{day}.csv").write_text("")
    >>> [path.name for path in matching_files(folder / "day-*.csv")]
    ['day-1.csv', 'day-2.csv']
    """
    name = str(pattern)
    if name.startswith(("http:", "https:", "ftp:", "s3:")):
        # A path would have lost one of its slashes.
        place = re.sub(":/+", "://", name, count=1)
        raise ValueError(f"{place} must be a file on this machine: download it first")
    if not glob.has_magic(name) or Path(name).is_file():
        return [existing_file(name)]
    found = sorted(glob.glob(name, recursive=True))
    if not found:
        raise FileNotFoundError(f"{name}: no file has such a name")
    return [existing_file(path) for path in found]


def join_tables(tables: Sequence[Table]) -> Table:
    """The rows of several tables as those of one; all must have the same columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.joined_tables import join_tables
    >>> from graphconv.io.table_files import table_of_frame
    >>> days = [table_of_frame(pd.DataFrame({"id": [day]}), f"day {day}") for day in (1, 2)]
    >>> joined = join_tables(days)
    >>> joined.name, joined.frame["id"].tolist(), joined.at(1)
    ('day 1 and 1 more', [1, 2], 'day 2.iloc[0]')
    """
    import pandas as pd

    first, *others = tables
    if not others:
        return first
    columns = [str(column) for column in first.frame.columns]
    for table in others:
        different = sorted(set(columns) ^ {str(column) for column in table.frame.columns})
        if different:
            has, lacks = (first, table) if different[0] in first.frame.columns else (table, first)
            raise ValueError(
                "files of one table must have the same columns, but "
                f"{has.name} has {different[0]!r} and {lacks.name} has not"
            )
    ends = list(accumulate(len(table.frame) for table in tables))

    def at(row: int) -> str:
        place = bisect_right(ends, row)
        return tables[place].at(row - (ends[place - 1] if place else 0))

    listed = ", ".join(f"{table.name} ({count(len(table.frame), 'row')})" for table in tables[:8])
    more = f" and {len(tables) - 8} more" if len(tables) > 8 else ""
    return Table(
        pd.concat([table.frame for table in tables], ignore_index=True),
        f"{first.name} and {len(others)} more",
        at,
        is_file=first.is_file,
        notes=(*(note for table in tables for note in table.notes), f"read {listed}{more}"),
    )
