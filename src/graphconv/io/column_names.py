"""Column names: which column of a table is meant by a name that the table does not have.

`TableOptions` enter, with the names that users give or that are usual, and leave with those of the
tables: "Source" for "source", "from" where no name is given. What is guessed is said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from graphconv.io.table_columns import OTHER_NAMES, TableOptions
from graphconv.io.table_files import Table, as_text

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
        settled[field] = _by_name(edges, field, getattr(options, field))
    if nodes is not None:
        for field in ("id", "label"):
            settled[field] = _by_name(nodes, field, getattr(options, field))
        settled["split_column"] = _by_name(nodes, "split", options.split_column)
    found = {
        **_by_usual_names(edges, nodes, settled, declared),
        **_by_values(edges, nodes, settled, declared),
    }
    for field, column in found.items():
        table = edges if field in ("source", "target") or nodes is None else nodes
        notes.append(f"{table.name}: column {column!r} taken as the {field}")
    return replace(options, **{**settled, **found})


def _by_name(table: Table, field: str, name: str | None) -> str | None:
    columns = [str(column) for column in table.frame.columns]
    found = _in_any_case(field if name is None else name, columns)
    if name is None:  # a column that need not be there
        return found if found in columns else None
    return found


def _unsettled(table: Table, settled: dict[str, Any], fields: Sequence[str]) -> list[str]:
    """The uses that are left at their usual names, which the table does not have."""
    columns = set(map(str, table.frame.columns))
    return [field for field in fields if settled[field] == field and field not in columns]


def _by_usual_names(
    edges: Table, nodes: Table | None, settled: dict[str, Any], declared: Collection[str]
) -> dict[str, str]:
    found = {}
    fields_of = [(edges, ("source", "target"))] + ([(nodes, ("id", "label"))] if nodes else [])
    for table, fields in fields_of:
        for field in _unsettled(table, settled, fields):
            columns = [str(column) for column in table.frame.columns if column not in declared]
            others = [column for column in columns if column.lower() in OTHER_NAMES[field]]
            if not others and table.is_file and field in _PLACES and columns[:1] == ["column_1"]:
                others = columns[_PLACES[field] :][:1]
            if len(others) == 1:
                found[field] = others[0]
    return found


def _by_values(
    edges: Table, nodes: Table | None, settled: dict[str, Any], declared: Collection[str]
) -> dict[str, str]:
    """Columns that hold the same ids, where names do not tell; two columns alone are the ends."""
    ends = _unsettled(edges, settled, ("source", "target"))
    columns = [str(column) for column in edges.frame.columns]
    found: dict[str, str] = {}
    if len(ends) == 2 and len(columns) == 2 and not any(_is_usual(name) for name in columns):
        found = dict(zip(ends, columns, strict=True))
    if nodes is None:
        return found
    wants_id = bool(_unsettled(nodes, settled, ("id",)))
    sides = columns if len(ends) == 2 else [settled["source"], settled["target"]]
    named = [str(name) for name in nodes.frame.columns if name not in declared]
    candidates = named if wants_id else [settled["id"]]
    is_settled = not wants_id and not ends
    if is_settled or not set(sides) <= set(columns) or not set(candidates) <= set(named):
        return found
    values = {side: set(as_text(edges.frame[side]).tolist()) - {""} for side in sides}
    for name in candidates:
        ids = as_text(nodes.frame[name]).tolist()
        if len(set(ids)) < len(ids):
            continue
        # Most of an end's ids must be known; then it can hardly be anything else.
        alike = [s for s in sides if len(values[s].intersection(ids)) > 0.5 * len(values[s])]
        if len(alike) == 2:
            matched = dict(zip(("source", "target"), alike, strict=True)) if len(ends) == 2 else {}
            return matched | ({"id": name} if wants_id else {})
    return found


def _is_usual(name: str) -> bool:
    return any(name.lower() in others for others in OTHER_NAMES.values())


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
