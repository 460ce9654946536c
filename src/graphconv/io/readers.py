"""Readers: table files, data frames, networkx graphs and PyG data become a `Graph`.

Files or objects enter, a `LoadedGraph` leaves; `graph_files` reads files that hold a whole graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Duplicates, Graph, SelfLoops
from graphconv.io._edge_nodes import EDGE, NODE, edge_feature_columns, with_edge_nodes
from graphconv.io._feature_files import FeatureSource, with_features
from graphconv.io._node_types import build_typed_graph
from graphconv.io.number_columns import MissingValue
from graphconv.io.pyg import from_pyg
from graphconv.io.table_columns import unused
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_graph import LoadedGraph, TableOptions, build_graph
from graphconv.io.table_sources import Sources, name_of_source, read_source
from graphconv.io.wording import shown

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["LoadedGraph", "from_frames", "from_networkx", "from_pyg", "read_tables"]


def read_tables(
    edges: Sources | None,
    nodes: Sources | Mapping[str, Sources] | None = None,
    *,
    features: FeatureSource | None = None,
    source: str = "source",
    target: str = "target",
    source_type: str | None = None,
    target_type: str | None = None,
    weight: str | None = None,
    relation: str | None = None,
    edge_features: Sequence[str] = (),
    id: str = "id",
    label: str = "label",
    split_column: str | None = None,
    split_by: str | None = None,
    categorical: Sequence[str] = (),
    text: Sequence[str] = (),
    ignore: Sequence[str] = (),
    date: Sequence[str] = (),
    roles: Mapping[str, str] | Sequence[str] = (),
    label_separator: str | None = None,
    unlabelled_value: object = None,
    bins: int | None = None,
    directed: bool = False,
    duplicates: Duplicates | None = None,
    self_loops: SelfLoops = "keep",
    closed_ids: bool = False,
    missing_value: MissingValue = "refuse",
    require_label: bool = True,
    encoding: TableEncoding | None = None,
    merge_into: Graph | None = None,
    name: str | None = None,
    delimiter: str | None = None,
    file_encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    header: bool | None = None,
) -> LoadedGraph:
    r"""Read a graph from a table of edges and, perhaps, a table of nodes.

    Files are CSV, TSV, Parquet, JSON or spreadsheets, by their suffix. Ids of files are text
    without surrounding blanks: "007" stays "007", the number 7 of a Parquet file is "7". Ids of
    data frames keep their type, unless the other table is a file.

    Parameters
    ----------
    edges, nodes : paths or data frames, or sequences of these
        Frames are those of pandas, polars (1.3 or newer) or pyarrow. A path may be "-" for
        standard input, a pattern such as "edges-*.csv", or a table of a database:
        "sqlite:///shop.db?table=edges", "duckdb:///shop.duckdb?table=edges" or
        "postgresql://user@host/shop?query=SELECT ...". Files of one table must have the same
        columns. Nodes that only the edges name come after those of the table, without a label:
        their numbers are unknown, see `missing_value`. `edges` may be None with `merge_into`.
        Nodes of several types are given as ``{"user": "users.csv", "item": "items.csv"}``: ids of
        different types are different nodes, each type has columns of its own, and labels belong
        to one of them; see `node_types`.
    features : path, data frame or sparse matrix, optional
        More features of the nodes, mostly 0: an .mtx or .npz file or a matrix with a row for each
        row of `nodes`, or a table of three columns: id, name of a feature, value.
    source, target : str
        The columns of the edge file with the two ends of an edge.
    source_type, target_type : str, optional
        Of which type the ends of edges are. By default that whose table has the id.
    weight, relation : str, optional
        Its columns of weights (finite, not negative) and of relations. None: the column called
        "weight" or "relation", if there is one; "": none. Relations make the file a list of
        triples (head, relation, tail), and the graph the paper's bipartite one.
    edge_features : sequence of str
        Its columns that say something of an edge, such as an amount: numbers, or what `categorical`
        and the like declare. Each edge then becomes a node that carries them, between the two it
        joins, as the paper suggests; see `edge_nodes`.
    id, label : str
        The columns of the node file with the ids and the classes. A class that is missing is one
        to predict: an empty cell, or NA, NaN, null and the like.
    split_column : str, optional
        Its column that says train, validation or test, or nothing. None: the column called
        "split", if there is one; "": none.
    split_by : str, optional
        "time:COLUMN" or "group:COLUMN": keep that column's values as `LoadedGraph.split_values`, to
        split by, and make no feature of it. A column of the edge file gives nodes the time of
        their first edge.
    categorical, text, ignore : sequences of str
        Columns that become one-hot and TF-IDF features, and those to leave out. All others are
        taken for what they look like, which the notes say. No column left means a featureless
        graph.
    date : sequence of str
        Columns of dates, which become a year and waves of the season, the weekday and, if there
        is a time, the hour. "joined=%d/%m/%Y" says how the dates are written.
    roles : mapping of str to str
        Any other role of a column: "number", "category", "text", "yes-no", "amount" (numbers with
        a unit, such as "12 %" or "$1,200"), "date", "embedding" (lists of numbers), "sparse"
        (names with weights, such as "a:1 b:3") or "ignore". Also as a sequence of "column=role".
    label_separator : str, optional
        Separates the classes of a node that has several. The labels are then an indicator matrix.
    unlabelled_value : str or number, optional
        What else stands for a class that is missing, such as -1.
    bins : int, optional
        The labels are numbers: cut them into so many classes of about equal size.
    directed, duplicates, self_loops
        As in `adjacency_from_edges`.
    closed_ids : bool
        Refuse an edge to a node that is not in the node file.
    missing_value : {"refuse", "mean", "zero"}
        What stands for an empty cell among numbers: nothing may, the mean of the column, or 0.
        Nodes that only the edges name get the mean, too, unless this is "zero"; it is what scaling
        makes 0 of, so nothing sets them apart. (Under "refuse" they get 0 in a column that is
        mostly 0, which keeps wide tables sparse.) Nodes that are read later with the same
        `encoding` get the same numbers.
    require_label : bool
        Refuse a node file without a column of labels.
    encoding : TableEncoding, optional
        Make the features as they were made before; `categorical` and `text` are not used then.
    merge_into : Graph, optional
        The tables hold rows to add to this graph, which was read with the same `encoding`. Its
        nodes keep their features unless the tables give new ones; see `graph_merge.merge_graphs`.
    name : str, optional
        Default: the name of the edge file.
    delimiter, file_encoding, decimal, thousands : str, optional
        What separates columns, how letters are written as bytes ("cp1252"), the decimal mark and
        what groups digits in files of text. By default all is found out by looking at the file.
    header : bool, optional
        Whether the first line of such a file names the columns; else they are "column_1", ...

    Returns
    -------
    LoadedGraph

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.io.readers import read_tables
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("source,target\nann,bob\nbob,cy\n")
    >>> _ = (folder / "nodes.csv").write_text("id,label,age\nann,red,31\nbob,,47\ncy,blue,25\n")
    >>> loaded = read_tables(folder / "edges.csv", folder / "nodes.csv")
    >>> loaded.graph
    Graph('edges': 3 nodes, 2 edges, 1 feature, 2 classes, 2 labelled)
    >>> loaded.notes
    ('2 directed edges were made undirected (directed=True keeps directions)',)
    """
    options = TableOptions(
        source=source,
        target=target,
        source_type=source_type,
        target_type=target_type,
        weight=weight,
        relation=relation,
        edge_features=edge_features,
        id=id,
        label=label,
        split_column=split_column,
        split_by=split_by,
        categorical=categorical,
        text=text,
        ignore=ignore,
        date=date,
        roles=roles,
        label_separator=label_separator,
        unlabelled_value=unlabelled_value,
        bins=bins,
        directed=directed,
        duplicates=duplicates,
        self_loops=self_loops,
        closed_ids=closed_ids,
        missing_value=missing_value,
        require_label=require_label,
        encoding=encoding,
        merge_into=merge_into,
        name=name if name is not None else name_of_source(edges),
        delimiter=delimiter,
        file_encoding=file_encoding,
        decimal=decimal,
        thousands=thousands,
        header=header,
    )
    edge_table = (
        _no_edges(options)
        if edges is None
        else read_source(edges, "edges", options.edge_text_columns, options)
    )
    if features is not None and (nodes is None or isinstance(nodes, Mapping)):
        raise ValueError("features need a table of nodes of one type, whose rows they describe")
    if nodes is None:
        return _build(edge_table, None, options)
    sources = nodes if isinstance(nodes, Mapping) else {"nodes": nodes}
    tables = {
        name: read_source(source, name, options.node_text_columns, options)
        for name, source in sources.items()
    }
    if features is not None:
        tables["nodes"] = with_features(tables["nodes"], features, options)
    # A frame beside a file: ids of all must be text to match.
    is_file = any(table.is_file for table in (edge_table, *tables.values()))
    edge_table = replace(edge_table, is_file=is_file)
    tables = {name: replace(table, is_file=is_file) for name, table in tables.items()}
    return _build(edge_table, tables if isinstance(nodes, Mapping) else tables["nodes"], options)


def _build(
    edges: Table, nodes: Table | Mapping[str, Table] | None, options: TableOptions
) -> LoadedGraph:
    """A graph of nodes of one type, or of several."""
    has_types = options.source_type is not None or options.target_type is not None
    columns = edge_feature_columns(options)
    if columns:
        if isinstance(nodes, Mapping) or has_types:
            raise ValueError("edges must join nodes of one type to have features, got several")
        return _build_with_edge_nodes(edges, nodes, options)
    if isinstance(nodes, Mapping):
        return build_typed_graph(edges, nodes, options)
    if not has_types and not (options.encoding and options.encoding.types):
        return build_graph(edges, nodes, options)
    if nodes is not None:
        raise ValueError(
            f"{nodes.name} must be given with its type, as in user={nodes.name}, where nodes have "
            "types"
        )
    return build_typed_graph(edges, {}, options)


def _build_with_edge_nodes(edges: Table, nodes: Table | None, options: TableOptions) -> LoadedGraph:
    """A graph in which every edge is a node that carries its columns."""
    columns = edge_feature_columns(options)
    if options.merge_into is not None and not len(edges.frame):
        tables = {} if nodes is None else {NODE: nodes}
        options = replace(options, source_type=NODE, target_type=EDGE)
    else:
        edges, tables, options = with_edge_nodes(edges, nodes, options)
    loaded = build_typed_graph(edges, tables, options, is_undirected=True)
    encoding = loaded.encoding or TableEncoding()
    return replace(loaded, encoding=replace(encoding, edge_columns=columns))


def _no_edges(options: TableOptions) -> Table:
    import pandas as pd

    if options.merge_into is None:
        raise ValueError("edges must be a file, unless rows are merged into a graph, got None")
    frame = pd.DataFrame({options.source: [], options.target: []}, dtype="str")
    return Table(frame, "no edges", str, is_file=True)


def from_frames(edges: Any, nodes: Any = None, **options: Any) -> LoadedGraph:
    """Make a graph of data frames.

    Parameters
    ----------
    edges, nodes : DataFrame of pandas, polars (1.3 or newer) or pyarrow
        As the files of `read_tables`, but ids and labels keep their types. The index of `nodes`
        may carry the ids.
    **options
        Those of `read_tables`.

    Returns
    -------
    LoadedGraph

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.readers import from_frames
    >>> edges = pd.DataFrame({"source": [1, 2], "target": [2, 3]})
    >>> nodes = pd.DataFrame({"id": [1, 2, 3], "label": ["a", None, "b"]})
    >>> from_frames(edges, nodes).graph
    Graph('graph': 3 nodes, 2 edges, no features, 2 classes, 2 labelled)
    """
    return read_tables(edges, nodes, **options)


def from_networkx(
    graph: nx.Graph[Any],
    *,
    label: str = "label",
    features: str | Sequence[str] | None = None,
    weight: str | None = "weight",
    **options: Any,
) -> LoadedGraph:
    """Make a graph of a networkx one.

    Parameters
    ----------
    graph : networkx.Graph
        Also directed and with several edges between two nodes, which are duplicates.
    label : str
        The node attribute with the class. Nodes without it are those to predict.
    features : str or sequence of str, optional
        The node attributes that are numbers, or sequences of numbers, to take as features.
        None: only those that `categorical` and `text` name.
    weight : str, optional
        The edge attribute with the weight; an edge without it weighs 1.
    **options
        Those of `read_tables` that are not about columns of edges: `split_column`, `categorical`,
        `text`, `label_separator`, `directed`, `duplicates`, `self_loops`, `encoding`, `name`; and
        `edge_features`, the edge attributes that edges carry as nodes.

    Returns
    -------
    LoadedGraph

    Examples
    --------
    >>> import networkx as nx
    >>> from graphconv.io.readers import from_networkx
    >>> from_networkx(nx.karate_club_graph(), label="club").graph
    Graph('graph': 34 nodes, 78 edges, no features, 2 classes, 34 labelled)
    """
    settings = TableOptions(label=label, **{"require_label": label != "label", **options})
    names = [features] if isinstance(features, str) else list(features or ())
    split = settings.split_column if settings.split_column is not None else "split"
    wanted = {label, split, *names, *settings.categorical, *settings.text}
    if settings.encoding is not None:
        wanted.update(settings.encoding.columns)
    attributes = {key for _, data in graph.nodes(data=True) for key in data}
    left_out = sorted(attributes - wanted, key=str)
    settings = replace(settings, ignore=left_out)
    loaded = build_networkx(graph, settings, weight=weight, name="graph", vectors=names)
    notes = unused("graph", "node attributes", left_out)
    return replace(loaded, notes=(*notes, *loaded.notes))


def build_networkx(
    graph: nx.Graph[Any],
    options: TableOptions,
    *,
    weight: str | None,
    name: str,
    vectors: Sequence[str] = (),
) -> LoadedGraph:
    """Make a graph of a networkx one; node attributes are columns, as in `build_graph`."""
    import pandas as pd

    is_undirected = not graph.is_directed()
    if is_undirected and options.directed:
        # Both directions of every edge, as a directed graph lists them.
        graph = graph.to_directed(as_view=True)
    ids = list(graph.nodes)
    columns: dict[str, Any] = {_ID: _objects(ids)}
    attributes = dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data)
    for key in attributes:
        cells = [data.get(key) for _, data in graph.nodes(data=True)]
        if key in vectors and any(_is_vector(cell) for cell in cells):
            columns |= _vector_columns(str(key), cells, ids, name)
        else:
            columns[str(key)] = pd.Series(cells) if cells else []
    edges = list(graph.edges(data=True))
    ends: dict[str, Any] = {
        "source": _objects([source for source, _, _ in edges]),
        "target": _objects([target for _, target, _ in edges]),
    }
    if weight is not None and any(weight in data for _, _, data in edges):
        ends["weight"] = [data.get(weight, 1) for _, _, data in edges]
    elif edges and weight not in (None, "weight"):
        raise ValueError(f"{name} has no edge with the attribute {weight!r}")

    for key in edge_feature_columns(options):
        if edges and not any(key in data for _, _, data in edges):
            raise ValueError(f"{name} has no edge with the attribute {key!r}")
        ends[key] = [data.get(key) for _, _, data in edges]
    used = {weight, "id", *edge_feature_columns(options)}  # readers of files number edges
    others = dict.fromkeys(key for _, _, data in edges for key in data if key not in used)
    notes = tuple(unused(name, "edge attributes", others))

    def edge_at(row: int) -> str:
        return f"{name}, edge {shown(edges[row][0])} to {shown(edges[row][1])}"

    edge_table = Table(pd.DataFrame(ends), name, edge_at, notes=notes)
    nodes = Table(pd.DataFrame(columns), name, lambda row: f"{name}, node {shown(ids[row])}")
    plain = replace(options, id=_ID, source="source", target="target", weight=None, relation="")
    if edge_feature_columns(options):
        return _build_with_edge_nodes(edge_table, nodes, plain)
    return build_graph(edge_table, nodes, plain, is_undirected=is_undirected)


# No attribute of a node is called so.
_ID = "\0id"


def _objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    """An array of the values as they are, tuples too, or of numbers or text if all are such."""
    if values and all(type(value) is int for value in values):
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _is_vector(cell: object) -> bool:
    return isinstance(cell, list | tuple | np.ndarray)


def _vector_columns(
    key: str, cells: Sequence[Any], ids: Sequence[Any], name: str
) -> dict[str, Any]:
    """A node attribute that holds sequences of numbers as one column a number."""
    width = next(len(cell) for cell in cells if _is_vector(cell))
    for node_id, cell in zip(ids, cells, strict=True):
        if not _is_vector(cell) or np.shape(cell) != (width,):
            raise ValueError(
                f"{name}, node {shown(node_id)}: attribute {key!r} must hold {width} numbers, "
                f"as other nodes do, got {shown(cell)}"
            )
    return {f"{key}_{place}": [cell[place] for cell in cells] for place in range(width)}
