"""Node types: users and items, each with ids, a table and columns of their own, become one graph.

Edges and a table for each type enter, a `LoadedGraph` leaves. Each type's columns are features of
their own, unknown for all other types, beside one feature for each type. Labels belong to one
type: its nodes come first and are the graph's entities; the others only help to label them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features, IntArray
from graphconv.io.column_names import settled_names
from graphconv.io.split_values import read_split_values
from graphconv.io.table_columns import TableOptions, column_of, unused_edge_columns
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_graph import (
    LoadedGraph,
    edge_adjacency,
    edge_weights,
    finished_graph,
    known_of_nodes,
    node_features,
    readable_table,
)
from graphconv.io.table_ids import check_table_ids, ids_of
from graphconv.io.wording import naming, shown

# Options that name columns, which need not be columns of every type.
_LISTS = ("categorical", "text", "ignore", "date", "roles")


@dataclass(frozen=True)
class _TypeOfNode:
    """The nodes of one type: their ids, those of the table first, and their encoded columns."""

    name: str
    table: Table | None
    ids: list[Any]
    encoding: TableEncoding
    features: Features | None

    @property
    def n_rows(self) -> int:
        return 0 if self.table is None else len(self.table.frame)


def build_typed_graph(
    edges: Table,
    tables: Mapping[str, Table],
    options: TableOptions,
    *,
    is_undirected: bool = False,
) -> LoadedGraph:
    """Make a graph of edges and the tables of several types of nodes.

    Parameters
    ----------
    edges : Table
    tables : mapping of str to Table
        The type's name and its table. At most one has a column of labels.
    options : TableOptions
        `source_type` and `target_type` say what the ends of edges are. Where they don't, an end is
        of the type whose table has its id.
    is_undirected : bool
        The edges have no direction to begin with, so there is nothing to say about losing it.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io._node_types import build_typed_graph
    >>> from graphconv.io.table_columns import TableOptions
    >>> from graphconv.io.table_files import table_of_frame
    >>> edges = table_of_frame(pd.DataFrame({"source": [5], "target": [5]}), "edges")
    >>> users = table_of_frame(pd.DataFrame({"id": [5, 6], "label": ["a", "b"]}), "users")
    >>> options = TableOptions(source_type="user", target_type="item")
    >>> build_typed_graph(edges, {"user": users}, options).graph.node_ids.tolist()
    [5, 6, 'item:5']
    """
    if options.relation:
        raise ValueError("nodes of several types can't have relations, got a column of them")
    notes = [*edges.notes, *(note for table in tables.values() for note in table.notes)]
    options = settled_names(edges, None, options, notes)
    notes += unused_edge_columns(edges, options)
    own = {
        name: settled_names(edges, table, own_options(table, options), notes)
        for name, table in tables.items()
    }
    labelled = _labelled_type(tables, own, options)
    ends = _ends(edges, tables, own, options)
    names = list(dict.fromkeys([labelled, *tables, *(name for name, _ in ends)]))
    if options.encoding is not None:
        names = [name for name, _ in options.encoding.types]
        strangers = sorted({name for name, _ in ends} - set(names))
        if strangers:
            raise ValueError(
                f"nodes must be of a type that the model was trained with ({', '.join(names)}), "
                f"got {strangers[0]!r}"
            )
    columns: list[str] = []
    kinds = [_type_of_node(name, tables, own, ends, options, notes, columns) for name in names]
    loaded = _assembled(
        edges, kinds, ends, options, own.get(labelled, options), notes, is_undirected
    )
    return replace(loaded, columns=tuple(columns))


def own_options(table: Table, options: TableOptions) -> TableOptions:
    """The options with only those columns that the table has; another type has the others."""
    columns = {str(column).lower() for column in table.frame.columns}
    lists: dict[str, Any] = {
        field: tuple(
            entry for entry in getattr(options, field) if _column_in(entry, field) in columns
        )
        for field in _LISTS
    }
    return replace(options, **lists, require_label=False, encoding=None, merge_into=None)


def _column_in(entry: str, field: str) -> str:
    """The column that an entry such as "tags=sparse" or "joined=%d/%m/%Y" is about."""
    if field == "roles":
        return entry.rpartition("=")[0].lower()
    return entry.partition("=%")[0].lower() if field == "date" else entry.lower()


def _labelled_type(
    tables: Mapping[str, Table], own: Mapping[str, TableOptions], options: TableOptions
) -> str:
    """The type whose table has labels; where none has, that of the training, or the first."""
    for field in _LISTS:
        for entry in getattr(options, field) if options.encoding is None else ():
            if tables and not any(entry in getattr(one, field) for one in own.values()):
                column_of(next(iter(tables.values())), _column_in(entry, field), field)
    having = [name for name in tables if own[name].label in tables[name].frame.columns]
    if len(having) > 1:
        first, second = (tables[name].name for name in having[:2])
        raise ValueError(
            f"labels must belong to one type of nodes, but {first} and {second} both have a column "
            f"{own[having[0]].label!r}"
        )
    before = None if options.encoding is None else options.encoding.types[0][0]
    if having and before not in (None, having[0]):
        raise ValueError(f"the model labels nodes of type {before!r}, got labels of {having[0]!r}")
    if having:
        return having[0]
    if options.require_label and tables:
        column_of(next(iter(tables.values())), options.label, "label")
    return before or next(iter(tables), options.source_type or "node")


def _ends(
    edges: Table,
    tables: Mapping[str, Table],
    own: Mapping[str, TableOptions],
    options: TableOptions,
) -> list[tuple[str, Any]]:
    """Type and id of every end: source and target of the first edge, of the second, ..."""
    sides = []
    for side in ("source", "target"):
        ids = ids_of(edges, getattr(options, side), side).tolist()
        kind = getattr(options, f"{side}_type")
        if kind is not None:
            sides.append([(kind, node_id) for node_id in ids])
            continue
        types = _types_of_ids(tables, own)
        for row, node_id in enumerate(ids):
            found = types.get(node_id, ())
            if len(found) != 1:
                where = " and ".join(tables[name].name for name in found) or "no table"
                message = (
                    "{}: {} {} must be in the table of one type, got {}: say of which type it is "
                    f"with {{{side}_type}}"
                )
                raise ValueError(naming(message, edges.at(row), side, shown(node_id), where))
        sides.append([(types[node_id][0], node_id) for node_id in ids])
    return [end for edge in zip(*sides, strict=True) for end in edge]


def _types_of_ids(
    tables: Mapping[str, Table], own: Mapping[str, TableOptions]
) -> dict[Any, tuple[str, ...]]:
    types: dict[Any, tuple[str, ...]] = {}
    for name, table in tables.items():
        for node_id in ids_of(table, own[name].id, "id").tolist():
            types[node_id] = (*types.get(node_id, ()), name)
    return types


def _type_of_node(
    name: str,
    tables: Mapping[str, Table],
    own: Mapping[str, TableOptions],
    ends: Sequence[tuple[str, Any]],
    options: TableOptions,
    notes: list[str],
    columns: list[str],
) -> _TypeOfNode:
    table = tables.get(name)
    encodings = {} if options.encoding is None else dict(options.encoding.types)
    how = replace(
        own.get(name, options),
        encoding=encodings.get(name),
        merge_into=options.merge_into if name in encodings else None,
    )
    in_edges = [node_id for kind, node_id in ends if kind == name]
    listed: list[Any] = []
    if table is not None:
        listed = ids_of(table, how.id, "id").tolist()
        check_table_ids(table, how.id, listed)
    ids = list(dict.fromkeys([*listed, *in_edges]))
    encoding, features = node_features(table, how, notes, columns)
    if features is not None:
        unknown = encoding.unknown_rows(len(ids) - len(listed))
        features = sp.csr_array(sp.vstack((sp.csr_array(features), unknown)))
    return _TypeOfNode(name, table, ids, encoding, features)


def _assembled(
    edges: Table,
    kinds: list[_TypeOfNode],
    ends: Sequence[tuple[str, Any]],
    options: TableOptions,
    label_options: TableOptions,
    notes: list[str],
    is_undirected: bool,
) -> LoadedGraph:
    labelled = kinds[0]
    place: dict[tuple[str, Any], int] = {}
    for kind in kinds:
        for node_id in kind.ids:
            place[kind.name, node_id] = len(place)
    positions: IntArray = np.array([place[end] for end in ends], dtype=np.int64).reshape(-1, 2)
    source, target = positions[:, 0], positions[:, 1]
    notes.append(
        "nodes of several types: "
        + ", ".join(f"{len(kind.ids):,} {kind.name}" for kind in kinds)
        + f"; {labelled.name} is what is labelled"
    )
    adjacency = edge_adjacency(
        source, target, edge_weights(edges, options), len(place), options, notes, is_undirected
    )
    features, feature_names = _typed_features(kinds)
    label_options = replace(label_options, require_label=False, encoding=options.encoding)
    encoding, known = known_of_nodes(
        labelled.table, label_options, labelled.encoding, len(place), notes
    )
    first = replace(labelled, encoding=encoding)
    fields = {
        **known,
        "features": features,
        "feature_names": feature_names,
        "node_ids": _node_ids(kinds),
        "n_entities": len(labelled.ids),
        "unknown_features": labelled.encoding.unknown_features,
    }
    has_row = np.concatenate([np.arange(len(kind.ids)) < kind.n_rows for kind in kinds])
    graph = finished_graph(edges, adjacency, fields, options, has_row, notes)
    types = tuple((kind.name, kind.encoding) for kind in (first, *kinds[1:]))
    split_values = read_split_values(edges, labelled.table, options, (source, target), len(place))
    table = readable_table(labelled.table, replace(label_options, merge_into=options.merge_into))
    return LoadedGraph(
        graph,
        TableEncoding(types=types),
        tuple(notes),
        split_values=split_values,
        node_table=table,
    )


def _node_ids(kinds: list[_TypeOfNode]) -> npt.NDArray[Any]:
    """Ids of the labelled type as they are, since they are what is told; others with their type."""
    labelled, *others = kinds
    listed = [*labelled.ids, *(f"{kind.name}:{node_id}" for kind in others for node_id in kind.ids)]
    taken = set(labelled.ids).intersection(listed[len(labelled.ids) :])
    if taken:
        raise ValueError(
            f"ids of type {labelled.name!r} must differ from those of other types, which are "
            f"written TYPE:ID, got {shown(min(taken, key=str))}"
        )
    ids = np.empty(len(listed), dtype=object)
    ids[:] = listed
    return ids


def _typed_features(kinds: list[_TypeOfNode]) -> tuple[Features | None, tuple[str, ...] | None]:
    """A block of columns for each type, then one column a type; None where no type has columns."""
    if all(kind.features is None for kind in kinds):
        return None, None
    n_nodes = sum(len(kind.ids) for kind in kinds)
    blocks, names, first = [], [], 0
    for kind in kinds:
        end = first + len(kind.ids)
        if kind.features is not None:
            above, below = (kind.encoding.unknown_rows(n) for n in (first, n_nodes - end))
            blocks.append(sp.vstack((above, kind.features, below)))
            names += [f"{kind.name}.{name}" for name in kind.encoding.feature_names]
        first = end
    sizes = [len(kind.ids) for kind in kinds]
    of_type = np.repeat(np.arange(len(kinds)), sizes)
    ones = np.ones(n_nodes, dtype=np.float32)
    shape = (n_nodes, len(kinds))
    blocks.append(sp.coo_array((ones, (np.arange(n_nodes), of_type)), shape=shape))
    names += [f"type={kind.name}" for kind in kinds]
    return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32)), tuple(names)
