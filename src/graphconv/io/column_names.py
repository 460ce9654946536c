"""Column names: which column of a table is meant by a name that the table does not have.

`TableOptions` enter, with the names that users give or that are usual, and leave with those of the
tables: "Source" for "source", "from" where no name is given. What is guessed is said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from graphconv.io.table_columns import OTHER_NAMES, TableOptions
from graphconv.io.table_files import Table

_LISTS = ("categorical", "text", "ignore", "date", "roles")
# Where the ends of an edge and the id of a node stand in a file that does not name its columns.
_PLACES = {"source": 0, "target": 1, "id": 0}


def settled_names(
    edges: Table, nodes: Table | None, options: TableOptions, notes: list[str]
) -> TableOptions:
    """The options with the names that the columns have in the tables.

    A name that matches no column stays as it is, for whoever needs the column to complain of.
    """
    settled: dict[str, Any] = {}
    if nodes is not None:
        columns = [str(column) for column in nodes.frame.columns]
        for field in _LISTS:
            settled[field] = tuple(_entry(entry, columns) for entry in getattr(options, field))
    declared = {name for name, _ in replace(options, **settled).declarations}
    if options.encoding is not None:
        declared.update(options.encoding.columns)
    for field in ("source", "target", "weight", "relation"):
        settled[field] = _settled(edges, field, getattr(options, field), (), notes)
    if nodes is not None:
        for field in ("id", "label"):
            settled[field] = _settled(nodes, field, getattr(options, field), declared, notes)
        settled["split_column"] = _settled(nodes, "split", options.split_column, declared, notes)
    return replace(options, **settled)


def _settled(
    table: Table, field: str, name: str | None, declared: Collection[str], notes: list[str]
) -> str | None:
    columns = [str(column) for column in table.frame.columns]
    found = _in_any_case(field if name is None else name, columns)
    if name is None:  # a column that need not be there
        return found if found in columns else None
    if found in columns or name != field:
        return found
    others = [
        column
        for column in columns
        if column.lower() in OTHER_NAMES.get(field, ()) and column not in declared
    ]
    if not others and table.is_file and field in _PLACES and columns[:1] == ["column_1"]:
        others = columns[_PLACES[field] :][:1]
    if len(others) != 1:
        return name
    notes.append(f"{table.name}: column {others[0]!r} taken as the {field}")
    return others[0]


def _entry(entry: str, columns: Sequence[str]) -> str:
    """A name in a list of an option, or COLUMN=ROLE, with the column's own name."""
    name, mark, said = entry.partition("=") if entry not in columns else (entry, "", "")
    return f"{_in_any_case(name, columns)}{mark}{said}"


def _in_any_case(name: str, columns: Sequence[str]) -> str:
    """The column of that name; the one that differs in case alone, if there is just one."""
    if name in columns:
        return name
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name
