"""Table graph: a table of edges and, perhaps, one of nodes become a `Graph`.

Two `Table`s enter, a `LoadedGraph` leaves: the graph, how its features were made of the columns,
and what the user should be told. Every reader ends here, so a CSV file, a data frame and a GraphML
file with the same content give the same graph. `triples` converts knowledge graphs on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features, Graph, IntArray, adjacency_from_edges, symmetrise
from graphconv.graph.notebook import html_paragraph
from graphconv.io._graph_merge import merge_graphs
from graphconv.io._label_bins import bin_codes, bin_edges, bin_names
from graphconv.io._triples import (
    bipartite_edges,
    number_relations,
    with_relation_features,
    with_relation_ids,
)
from graphconv.io.column_names import settled_names
from graphconv.io.number_columns import finite_numbers, n_empty_cells
from graphconv.io.roles import ColumnRole, lines_about, settle_roles
from graphconv.io.split_values import SplitValues, read_split_values
from graphconv.io.table_columns import (
    PARAMETER_OF,
    TableOptions,
    column_of,
    optional_column,
    unused_edge_columns,
)
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_ids import node_positions
from graphconv.io.table_labels import (
    notes_on_copies,
    read_label_numbers,
    read_labels,
    read_split,
)
from graphconv.io.wording import count, made_undirected, naming, shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedGraph", "TableOptions", "build_graph"]

# What the last row of a spreadsheet is called if it sums up the others.
_TOTALS = frozenset(
    [
        "total",
        "totals",
        "sum",
        "summe",
        "gesamt",
        "insgesamt",
        "somme",
        "totale",
        "suma",
        "soma",
        "totaal",
        "итого",
        "всего",
        "合計",
        "总计",
    ]
)


@dataclass(frozen=True, eq=False)
class LoadedGraph:
    """A graph as it was read.

    Parameters
    ----------
    graph : Graph
    encoding : TableEncoding or None
        How the features were made of columns, for reading more nodes in the same way. None where
        they did not come as columns.
    notes : tuple of str
        Plain sentences to tell the user: what was symmetrised, dropped or filled in.
    columns : tuple of str
        What each column was taken for that nobody has declared, in plain words.
    split_values : SplitValues or None
        What to split the nodes by, where a column for it was named.
    node_table : DataFrame or None
        The columns of the nodes as they came, but for ids, labels and splits, for people to read:
        row i is node i; nodes that only edges name have none.
    """

    graph: Graph
    encoding: TableEncoding | None = None
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    split_values: SplitValues | None = None
    node_table: pd.DataFrame | None = None

    def _repr_html_(self) -> str:
        notes = [html_paragraph(f"note: {note}") for note in (*self.notes, *self.columns)]
        return f"{self.graph._repr_html_()}{''.join(notes)}"


def build_graph(
    edges: Table, nodes: Table | None, options: TableOptions, *, is_undirected: bool = False
) -> LoadedGraph:
    """Make a graph of tables.

    Parameters
    ----------
    edges : Table
    nodes : Table, optional
    options : TableOptions
    is_undirected : bool
        The edges have no direction to begin with, so there is nothing to say about losing it.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.table_files import table_of_frame
    >>> from graphconv.io.table_graph import TableOptions, build_graph
    >>> edges = table_of_frame(pd.DataFrame({"source": ["a"], "target": ["b"]}), "edges")
    >>> build_graph(edges, None, TableOptions()).graph
    Graph('graph': 2 nodes, 1 edge, no features, 0 classes, 0 labelled)
    """
    notes = [*edges.notes, *(nodes.notes if nodes else ())]
    options = settled_names(edges, nodes, options, notes)
    notes += unused_edge_columns(edges, options)
    ids, source, target = node_positions(edges, nodes, options, notes)
    if nodes is not None and options.merge_into is None:
        notes += about_totals(nodes, ids, source, target)
    weight = edge_weights(edges, options)
    columns: list[str] = []
    encoding, features = node_features(nodes, options, notes, columns)
    n_table = 0 if nodes is None else len(nodes.frame)
    features = _with_unknown_rows(features, encoding, len(ids) - n_table)
    n_unknown = _n_unknown(ids[n_table:], options)
    if n_unknown and (nodes is not None or options.merge_into is not None):
        lack = "no label" if features is None else "no label, features unknown"
        filled = f" (numbers taken as {_fill_in_words(encoding)})" if encoding.numeric else ""
        notes.append(f"{count(n_unknown, 'node')} only in {edges.name}: {lack}{filled}")
    split_values = read_split_values(edges, nodes, options, (source, target), len(ids))
    relation = optional_column(edges, options.relation, "relation")
    relations: tuple[str, ...] = ()
    n_entities: int | None = None
    if relation is not None:
        if options.directed or options.duplicates == "sum":
            wrong = "directed" if options.directed else "duplicates='sum'"
            raise ValueError(
                f"{edges.name} holds triples, whose graph is undirected and binary, got {wrong}"
            )
        relations, codes = number_relations(edges, relation)
        if weight is not None:
            notes.append(f"{edges.name}: triples have no weights, those given are not used")
        notes.append(
            f"{count(len(codes), 'triple')} made a graph with two nodes for each of "
            f"{count(len(relations), 'relation')}"
        )
        source, target = bipartite_edges(source, target, codes, n_entities=len(ids))
        weight, is_undirected = None, True
        n_entities = len(ids)
        ids = with_relation_ids(ids, relations)
        if options.encoding is None:
            encoding = replace(encoding, relations=relations)
    adjacency = edge_adjacency(source, target, weight, len(ids), options, notes, is_undirected)
    features, feature_names = with_relation_features(features, encoding, relations)
    encoding, known = known_of_nodes(nodes, options, encoding, len(ids), notes)
    known |= {"features": features, "feature_names": feature_names, "n_entities": n_entities}
    known["unknown_features"] = encoding.unknown_features
    has_row = np.arange(len(ids)) < n_table
    graph = finished_graph(edges, adjacency, {"node_ids": ids, **known}, options, has_row, notes)
    table = readable_table(nodes, options)
    return LoadedGraph(graph, encoding, tuple(notes), tuple(columns), split_values, table)


def about_totals(
    nodes: Table, ids: npt.NDArray[Any], source: IntArray, target: IntArray
) -> list[str]:
    """A remark on a last row that holds the sums of the others, as spreadsheets have it."""
    last = len(nodes.frame) - 1
    if last < 2 or str(ids[last]).lower().rstrip(":.") not in _TOTALS:
        return []
    numbers = nodes.frame.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
    is_sum = np.isclose(numbers[last], np.nansum(numbers[:last], axis=0), rtol=1e-6)
    if not is_sum.any() or (source == last).any() or (target == last).any():
        return []
    said = "holds the sums of the rows above, but is taken as a node"
    return [f"{nodes.at(last)}: {shown(str(ids[last]))} {said}"]


def readable_table(nodes: Table | None, options: TableOptions) -> pd.DataFrame | None:
    """The columns that describe the nodes; None where rows are merged into other nodes."""
    if nodes is None or options.merge_into is not None:
        return None
    used = {
        options.id,
        options.label,
        "split" if options.split_column is None else options.split_column,
    }
    return nodes.frame.drop(columns=[name for name in nodes.frame.columns if name in used])


def finished_graph(
    edges: Table,
    adjacency: sp.csr_array,
    fields: dict[str, Any],
    options: TableOptions,
    has_row: npt.NDArray[np.bool_],
    notes: list[str],
) -> Graph:
    """The graph of what was read, merged into another one if that is wanted."""
    name = "graph" if options.name is None else options.name
    try:
        graph = Graph(adjacency, directed=options.directed, name=name, **fields)
    except ValueError as error:
        raise ValueError(f"{edges.name}: {error}") from None
    if options.merge_into is not None:
        merged = merge_graphs(options.merge_into, graph, has_row)
        graph = merged.graph
        notes.append(merged.note)
    if not graph.adjacency.nnz:
        notes.append("no edges: the graph is empty, the model works as a multi-layer perceptron")
    return graph


def known_of_nodes(
    nodes: Table | None,
    options: TableOptions,
    encoding: TableEncoding,
    n_nodes: int,
    notes: list[str],
) -> tuple[TableEncoding, dict[str, Any]]:
    """What `Graph` takes of the columns of labels and splits, and where bins of labels end."""
    if nodes is None or (options.label not in nodes.frame.columns and not options.require_label):
        return encoding, {}
    column = column_of(nodes, options.label, "label")
    if options.bins is None:
        labels, class_names = read_labels(nodes, column, options, n_nodes=n_nodes, notes=notes)
    else:
        numbers = read_label_numbers(nodes, column, options, notes)
        if options.encoding is None:
            edges = _label_edges(nodes, options, numbers, notes)
            encoding = replace(encoding, label_edges=edges)
        labels = np.full(n_nodes, -1, dtype=np.int64)
        labels[: len(numbers)] = bin_codes(numbers, encoding.label_edges)
        class_names = bin_names(encoding.label_edges)
    if options.encoding is None:
        notes += notes_on_copies(nodes, labels, options)
    known: dict[str, Any] = {"labels": labels, "class_names": class_names}
    split = optional_column(nodes, options.split_column, "split", "split_column")
    if split is not None:
        is_labelled = (labels if labels.ndim == 1 else labels.max(axis=1)) >= 0
        known |= read_split(nodes, split, is_labelled, strict=options.require_label, notes=notes)
    return encoding, known


def _label_edges(
    nodes: Table, options: TableOptions, numbers: npt.NDArray[np.float64], notes: list[str]
) -> tuple[float, ...]:
    known = numbers[np.isfinite(numbers)]
    n_bins = options.bins or 0
    edges = bin_edges(known, n_bins) if len(known) else ()
    if not edges:
        raise ValueError(
            f"{nodes.name}: column {options.label!r} must hold different numbers to be cut into "
            f"bins, got {'one number only' if len(known) else 'none'}"
        )
    sizes = np.bincount(bin_codes(known, edges), minlength=len(edges) + 1)
    listed = ", ".join(
        f"{name} ({size:,})" for name, size in zip(bin_names(edges), sizes, strict=True)
    )
    fewer = "" if len(edges) + 1 == n_bins else f" (not {n_bins}: values repeat)"
    notes.append(f"column {options.label!r} cut into {len(edges) + 1} classes{fewer}: {listed}")
    return edges


def edge_weights(edges: Table, options: TableOptions) -> npt.NDArray[np.float64] | None:
    column = optional_column(edges, options.weight, "weight")
    if column is None:
        return None
    weight = finite_numbers(column, edges.at, advice=naming(": {weight:''} leaves it out"))
    if (weight < 0).any():
        row = int(np.flatnonzero(weight < 0)[0])
        raise ValueError(
            f"{edges.at(row)}: column {str(column.name)!r} must not be negative, "
            f"got {shown(column.iloc[row])}"
        )
    return weight


def edge_adjacency(
    source: IntArray,
    target: IntArray,
    weight: npt.NDArray[np.float64] | None,
    n_nodes: int,
    options: TableOptions,
    notes: list[str],
    is_undirected: bool,
) -> sp.csr_array:
    n_listed = len(source)
    if options.self_loops == "drop":
        n_loops = int(np.count_nonzero(source == target))
        n_listed -= n_loops
        if n_loops:
            notes.append(f"{count(n_loops, 'self-loop')} dropped")
    # A sum of duplicates may pass float32's range: `Graph` refuses the infinity with its place.
    with np.errstate(over="ignore"):
        listed = adjacency_from_edges(
            source,
            target,
            weight,
            n_nodes=n_nodes,
            directed=True,
            duplicates=options.duplicates,
            self_loops=options.self_loops,
        )
    if n_listed > listed.nnz:
        is_sum = options.duplicates == "sum" or (options.duplicates is None and weight is not None)
        what = "added up" if is_sum else "counted once"
        notes.append(f"{count(n_listed - listed.nnz, 'repeated edge')} {what}")
    n_zero = int(np.count_nonzero(listed.data == 0))
    if n_zero:
        notes.append(f"{count(n_zero, 'edge')} of weight 0 left out")
        listed.eliminate_zeros()
    if options.directed:
        return listed
    adjacency = symmetrise(listed)
    n_changed = int((adjacency != listed).nnz)
    if n_changed and not is_undirected:
        said = made_undirected(n_changed)
        notes.append(naming("{} ({directed:True} keeps directions)", said))
    return adjacency


def node_features(
    nodes: Table | None, options: TableOptions, notes: list[str], columns: list[str]
) -> tuple[TableEncoding, Features | None]:
    """Features of the table's nodes, and how they were made."""
    encoding = options.encoding
    if nodes is None and encoding is not None and encoding.columns and options.merge_into:
        return encoding, encoding.unknown_rows(0)  # all that is new are nodes that edges name
    if nodes is None:
        if encoding is not None and encoding.columns:
            raise ValueError(
                naming(
                    "the model was trained with the column {!r}: give a node table with {nodes}",
                    encoding.columns[0],
                )
            )
        return encoding or TableEncoding(), None
    left = feature_columns(nodes, options)
    if encoding is None:
        roles = settle_roles(nodes, left, options)
        columns += lines_about(roles)
        encoding = TableEncoding.fit(
            nodes.frame,
            numeric=_named("number", roles, ()),
            categorical=_named("category", roles, options.categorical),
            text=_named("text", roles, options.text),
            derived=[role.derived for role in roles if role.derived is not None],
            missing_value=options.missing_value,
            where=nodes.name,
            at=nodes.at,
        )
    else:
        unknown = [column for column in left if column not in encoding.columns]
        if unknown:
            notes.append(
                f"{nodes.name}: the model was not trained with "
                f"{', '.join(shown(column) for column in unknown[:8])}, left out"
            )
    features = encoding.transform(nodes.frame, nodes.name, at=nodes.at)[0]
    is_filled = encoding.missing_value != "refuse"
    for name, number in zip(encoding.numeric, encoding.fill, strict=False) if is_filled else ():
        n_empty = n_empty_cells(nodes.frame[name]) if name in nodes.frame.columns else 0
        if n_empty:
            notes.append(f"{count(n_empty, 'empty cell')} of column {name!r} taken as {number:.6g}")
    return encoding, features


def _named(role: str, roles: Sequence[ColumnRole], first: Sequence[str]) -> list[str]:
    """The columns of a role, those that were named first, in their order."""
    return [*first, *(r.name for r in roles if r.role == role and r.name not in first)]


def feature_columns(nodes: Table, options: TableOptions) -> list[str]:
    """The columns that describe the nodes: neither ids, labels nor splits."""
    uses = [options.id]
    if options.require_label or options.label in nodes.frame.columns:
        uses.append(str(column_of(nodes, options.label, "label").name))
    split = optional_column(nodes, options.split_column, "split", "split_column")
    if split is not None:
        uses.append(str(split.name))
    by = (options.split_by or "").partition(":")[2]
    if by in nodes.frame.columns:
        uses.append(by)
    n_others = len(uses)
    if options.encoding is None:
        for name, role in options.declarations:
            column_of(nodes, name, PARAMETER_OF.get(role, "roles"))
            uses.append(name)
    else:
        uses += options.ignore
    name, times = Counter(uses).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{nodes.name}: column {name!r} must have one use, got {times}")
    others = {*uses[:n_others], *(options.ignore if options.encoding is not None else ())}
    return [str(column) for column in nodes.frame.columns if column not in others]


def _n_unknown(ids: npt.NDArray[Any], options: TableOptions) -> int:
    """How many of the nodes without a row are described nowhere."""
    before = set() if options.merge_into is None else set(options.merge_into.node_ids.tolist())
    return sum(node_id not in before for node_id in ids.tolist())


def _fill_in_words(encoding: TableEncoding) -> str:
    is_zero = encoding.missing_value == "zero" or not any(encoding.fill)
    return "0" if is_zero else "the mean of their column"


def _with_unknown_rows(
    features: Features | None, encoding: TableEncoding, n_more: int
) -> Features | None:
    if features is None or not n_more:
        return features
    more = encoding.unknown_rows(n_more)
    if isinstance(features, np.ndarray):
        return np.vstack((features, more.toarray()))
    return sp.csr_array(sp.vstack((features, more)))
