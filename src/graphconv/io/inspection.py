"""Inspection: one look at tables before training, with everything that is wrong at once.

Tables enter, an `Inspection` leaves: each column with what it is taken for, examples and the share
that is missing, all problems, and the options with which the tables can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.io._node_types import build_typed_graph, own_options
from graphconv.io.column_names import settled_names
from graphconv.io.derived_columns import is_filled, with_derived
from graphconv.io.number_columns import empty_cells, finite_numbers, is_sparse_and_finite
from graphconv.io.roles import ColumnRole, propose_role, settle_roles
from graphconv.io.table_columns import PARAMETER_OF, TableOptions, column_of
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_graph import edge_weights, feature_columns, known_of_nodes
from graphconv.io.table_ids import node_positions
from graphconv.io.table_sources import Sources, read_source
from graphconv.io.wording import count, naming, shown

if TYPE_CHECKING:
    import pandas as pd

_N_EXAMPLES = 3
# A label has as many classes as people tell apart.
_MAX_CLASSES = 30


@dataclass(frozen=True)
class ColumnReport:
    """A column: what it is taken for, some of its values, and the share of empty cells."""

    name: str
    role: str
    examples: tuple[str, ...]
    missing: float


@dataclass(frozen=True)
class TableReport:
    """A table: how it was read, and its columns."""

    what: str
    name: str
    n_rows: int
    how: tuple[str, ...]
    columns: tuple[ColumnReport, ...]


@dataclass(frozen=True)
class Inspection:
    """What a look at tables has found.

    Parameters
    ----------
    tables : tuple of TableReport
    problems : tuple of str
        What must be mended, or told by an option, before the tables can be trained on.
    notes : tuple of str
        What is worth knowing.
    options : dict
        Options of `read_tables` with which the tables are read as shown.
    is_answered : bool
        Whether these options answer all problems, so that nothing has to be mended.
    """

    tables: tuple[TableReport, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    is_answered: bool = True

    def to_json(self) -> dict[str, Any]:
        """The same as dicts, lists, strings and numbers."""
        return {**asdict(self), "problems": [str(problem) for problem in self.problems]}

    def __repr__(self) -> str:
        lines = []
        for table in self.tables:
            lines.append(f"{table.what}: {table.name}, {count(table.n_rows, 'row')}")
            lines += [
                f"  {column.name}: {column.role}, {column.missing:.0%} missing, "
                f"such as {', '.join(column.examples) or 'nothing'}"
                for column in table.columns
            ]
        lines += [f"problem: {problem}" for problem in self.problems]
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return "\n".join([*lines, f"options: {given or 'none needed'}"])


def inspect(
    edges: Sources, nodes: Sources | Mapping[str, Sources] | None = None, **options: Any
) -> Inspection:
    r"""Look at tables before training on them.

    Parameters
    ----------
    edges, nodes, **options
        As for `read_tables`. What the options say is not guessed.

    Returns
    -------
    Inspection

    Examples
    --------
    >>> import pandas as pd
    >>> import graphconv
    >>> edges = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"]})
    >>> nodes = pd.DataFrame(
    ...     {"id": ["a", "b", "c"], "label": ["x", "y", None], "age": [31, None, 25]}
    ... )
    >>> graphconv.inspect(edges, nodes)
    edges: edges, 2 rows
      from: source, 0% missing, such as 'a', 'b'
      to: target, 0% missing, such as 'b', 'c'
    nodes: nodes, 3 rows
      id: id, 0% missing, such as 'a', 'b', 'c'
      label: label, 33% missing, such as 'x', 'y'
      age: a number, 33% missing, such as 31.0, 25.0
    problem: nodes: column 'age' has 1 empty cell: missing_value='mean' fills it
    options: missing_value='mean', source='from', target='to'
    """
    return _Look(TableOptions(**options)).at(edges, nodes)


class _Look:
    """One look: what is found on the way is collected, and nothing stops it."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self.given = options
        self.problems: list[str] = []
        self.n_answered = 0  # problems that the options to be proposed answer
        self.notes: list[str] = []
        self.roles: dict[str, ColumnRole] = {}

    def at(self, edges: Sources, nodes: Sources | Mapping[str, Sources] | None) -> Inspection:
        edge_table = self.read(edges, "edges", self.options.edge_text_columns)
        reports: list[TableReport] = []
        if isinstance(nodes, Mapping) or self.has_types:
            reports += self.at_types(edge_table, nodes)
        else:
            node_table = None
            if nodes is not None:
                node_table = self.read(nodes, "nodes", self.options.node_text_columns)
            if edge_table is not None:
                self.options = settled_names(edge_table, node_table, self.options, self.notes)
                for name in ("source", "target"):
                    self.need(edge_table, name)
                for column in self.options.edge_features:
                    self.attempt(partial(column_of, edge_table, column, "edge_features"))
            if node_table is not None:
                self.look_at_nodes(node_table)
            if edge_table is not None:
                self.look_at_edges(edge_table, node_table)
            if node_table is not None:
                reports.append(self.report(node_table, "nodes"))
        if edge_table is not None:
            uses = {getattr(self.options, use): use for use in ("source", "target")}
            uses |= {getattr(self.options, use): use for use in ("weight", "relation")}
            uses |= dict.fromkeys(self.options.edge_features, "feature of the edge")
            used = {name: use for name, use in uses.items() if name}
            reports.insert(0, _report(edge_table, "edges", used))
        notes = tuple(dict.fromkeys(note for note in self.notes if note))
        is_answered = self.n_answered == len(self.problems)
        problems, proposed = tuple(self.problems), self.settled_options()
        return Inspection(tuple(reports), problems, notes, proposed, is_answered)

    @property
    def has_types(self) -> bool:
        return self.options.source_type is not None or self.options.target_type is not None

    def at_types(self, edges: Table | None, nodes: Any) -> list[TableReport]:
        """Look at the tables of several types of nodes, each by itself and then together."""
        if nodes is not None and not isinstance(nodes, Mapping):
            self.problems.append("tables of nodes must be given with their type, as in user=FILE")
            return []
        sources = dict(nodes or {})
        read = {
            kind: self.read(source, kind, self.options.node_text_columns)
            for kind, source in sources.items()
        }
        tables = {kind: table for kind, table in read.items() if table is not None}
        if edges is None:
            return []
        common = self.options = settled_names(edges, None, self.options, self.notes)
        labels = {kind: self.own(edges, table).label for kind, table in tables.items()}
        having = [kind for kind in tables if labels[kind] in tables[kind].frame.columns]
        reports = []
        for kind, table in tables.items():
            self.options = self.own(edges, table)
            own_roles, self.roles = self.roles, {}
            is_labelled = kind in having or (not having and kind == next(iter(tables)))
            self.look_at_nodes(table, is_labelled)
            reports.append(self.report(table, f"nodes of type {kind}"))
            common = replace(common, label=self.options.label) if is_labelled else common
            self.roles = {**own_roles, **self.roles}
        self.options = common
        if len(self.problems) == self.n_answered:
            answered = replace(self.given, label=common.label)
            self.attempt(lambda: build_typed_graph(edges, tables, answered))
        return reports

    def own(self, edges: Table, table: Table) -> TableOptions:
        return settled_names(edges, table, own_options(table, self.options), self.notes)

    def report(self, nodes: Table, what: str) -> TableReport:
        uses: dict[str | None, str] = {name: role.words for name, role in self.roles.items()}
        uses |= {getattr(self.options, use): use for use in ("id", "label")}
        uses |= {self.options.split_column: "split"}
        return _report(nodes, what, {name: use for name, use in uses.items() if name})

    def read(self, source: Any, what: str, text_columns: Collection[str]) -> Any:
        return self.attempt(lambda: read_source(source, what, text_columns, self.options))

    def attempt(self, work: Callable[[], Any]) -> Any:
        """What the work returns; None, and a problem more, if it fails."""
        try:
            return work()
        except (ValueError, OSError) as error:
            problem = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
            self.problems.append(problem)
            return None

    def need(self, table: Table, use: str) -> None:
        self.attempt(lambda: column_of(table, getattr(self.options, use), use))

    def look_at_edges(self, edges: Table, nodes: Table | None) -> None:
        """Find what is wrong with ids and weights, where their columns are known."""
        options = self.options
        ends = {options.source, options.target} <= set(edges.frame.columns)
        if ends and (nodes is None or options.id in nodes.frame.columns):
            is_file = edges.is_file or bool(nodes and nodes.is_file)
            edges = replace(edges, is_file=is_file)
            nodes = nodes and replace(nodes, is_file=is_file)
            self.attempt(lambda: node_positions(edges, nodes, options, self.notes))
        self.attempt(lambda: edge_weights(edges, options))

    def look_at_nodes(self, nodes: Table, is_labelled: bool = True) -> None:
        self.need(nodes, "id")
        if is_labelled:
            self.look_at_labels(nodes)
        lenient = replace(self.options, require_label=False)
        columns = self.attempt(lambda: feature_columns(nodes, lenient)) or []
        for name in columns:
            self.look_at_column(nodes, name)

    def look_at_labels(self, nodes: Table) -> None:
        if self.options.label in nodes.frame.columns:
            n_rows, plain = len(nodes.frame), TableEncoding()
            self.attempt(lambda: known_of_nodes(nodes, self.options, plain, n_rows, self.notes))
        else:
            self.need(nodes, "label")
            self.propose_labels(nodes)

    def look_at_column(self, nodes: Table, name: str) -> None:
        """Take a column for something, and find what would stop reading it so."""
        settled = self.attempt(lambda: settle_roles(nodes, [name], self.options))
        role = settled[0] if settled else ColumnRole(name, "ignore", "not known")
        self.roles[name] = role
        if role.role not in ("number", "amount", "date", "embedding", "yes-no"):
            return
        column = nodes.frame[role.name]
        n_empty = int(empty_cells(column).sum()) if role.role == "number" else 0
        if role.derived is not None:
            n_empty = sum(not is_filled(cell) for cell in column.tolist())
            derived = role.derived
            self.attempt(lambda: with_derived(nodes.frame[[role.name]], [derived], nodes.at))
        else:
            filled = column[~empty_cells(column)] if n_empty else column
            places = filled.index.to_numpy()
            self.attempt(lambda: finite_numbers(filled, lambda row: nodes.at(int(places[row]))))
        if n_empty and self.options.missing_value == "refuse":
            them = "it" if n_empty == 1 else "them"
            self.problems.append(
                naming(
                    "{}: column {!r} has {}: {missing_value:'mean'} fills " + them,
                    nodes.name,
                    role.name,
                    count(n_empty, "empty cell"),
                )
            )
            self.given = replace(self.given, missing_value="mean")
            self.n_answered += 1

    def propose_labels(self, nodes: Table) -> None:
        """Say which columns could be the label; take the one with the most empty cells for it."""
        found: list[tuple[int, str]] = []
        for name in map(str, nodes.frame.columns):
            cells = [str(cell) for cell in nodes.frame[name].tolist() if is_filled(cell)]
            is_class = 2 <= len(set(cells)) <= min(_MAX_CLASSES, len(cells) / 2)
            if is_class and name != self.options.id:
                found.append((len(nodes.frame) - len(cells), name))
        if not found:
            return
        # What is to be predicted is empty somewhere; descriptions are mostly complete.
        n_empty, likeliest = max(found, key=lambda pair: pair[0])
        names = ", ".join(repr(name) for _, name in found[:8])
        self.notes.append(f"{nodes.name}: columns that could be the label: {names}")
        if n_empty:
            self.options = replace(self.options, label=likeliest)
            self.n_answered += 1
            self.notes.append(f"{nodes.name}: {likeliest!r} is proposed, as it has empty cells")

    def settled_options(self) -> dict[str, Any]:
        """What differs from the defaults, with the roles that were guessed spelled out."""
        plain = TableOptions()
        settled = {
            name: getattr(self.given, name)
            for name in vars(plain)
            if getattr(self.given, name) != getattr(plain, name) and name != "encoding"
        }
        named = ("source", "target", "id", "label")
        settled |= {
            use: getattr(self.options, use)
            for use in named
            if getattr(self.options, use) != getattr(plain, use)
        }
        for role in self.roles.values():
            if not role.is_guess or role.role == "number":
                continue
            key = PARAMETER_OF.get(role.role, "roles")
            entry = role.name if key != "roles" else f"{role.name}={role.role}"
            settled[key] = [*settled.get(key, ()), entry]
        return settled


def _report(table: Table, what: str, uses: dict[str, str]) -> TableReport:
    columns = []
    for name in map(str, table.frame.columns):
        column = table.frame[name]
        if name.startswith("\0"):
            continue
        examples = _examples(column.head(1000))
        role = uses.get(name)
        if role is None:
            role = "not used" if what == "edges" else propose_role(column).words
        missing = float(empty_cells(column).mean()) if len(column) else 0.0
        columns.append(ColumnReport(name, role, examples, missing))
    how = tuple(note.partition(": ")[2] or note for note in table.notes)
    return TableReport(what, table.name, len(table.frame), how, tuple(columns))


def _examples(column: pd.Series[Any]) -> tuple[str, ...]:
    """Some different cells, as they are shown."""
    # Cell by cell a sparse column takes a hundred times as long as its numbers.
    is_sparse = is_sparse_and_finite(column)
    cells = dict.fromkeys(np.asarray(column).tolist()) if is_sparse else column.tolist()
    found: dict[str, None] = {}
    for cell in filter(is_filled, cells):
        found[shown(cell, 24)] = None
        if len(found) == _N_EXAMPLES:
            break
    return tuple(found)
