"""Data source: what a command was given to work on becomes a `Graph` with a split.

A data set's name, a graph file or tables enter, a `LoadedGraph` leaves. Torch is not imported, so
that a slip in a file's name or in a table shows at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphconv.commands.console import Screen
from graphconv.graph import Graph
from graphconv.io.databases import is_database
from graphconv.io.datasets import load_dataset
from graphconv.io.graph_files import read_graph_file
from graphconv.io.label_file import read_label_lines
from graphconv.io.readers import LoadedGraph, read_tables
from graphconv.io.split_values import KINDS
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import TABLE_SUFFIXES, Table, as_text, read_table
from graphconv.io.table_graph import TableOptions, build_graph
from graphconv.io.table_sources import STANDARD_INPUT, files_of, name_of_source
from graphconv.io.wording import shown
from graphconv.results.answers import with_label_lines
from graphconv.results.provenance import describe_file
from graphconv.storage.stored_graph import (
    MANIFEST,
    complete,
    is_stored_graph,
    open_graph,
    open_outline,
    read_manifest,
)

_COLUMN_SUFFIXES = (".graphml", ".gexf")
_MATRIX_SUFFIXES = (".npz", ".mtx")
_TYPED_FILE = re.compile(r"([^=/\\:?]+)=(.+)")
# What bears on a graph file that has no columns.
_MATRIX_OPTIONS = ("directed", "self_loops")


@dataclass(frozen=True)
class DataRequest:
    """Where the data comes from: a data set's name, a graph file, or tables."""

    name: str | None = None
    edges: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    table_options: dict[str, Any] = field(default_factory=dict)
    split: str | None = None
    data_dir: Path | None = None
    labels: Path | None = None  # labels given one after the other, see `io.label_file`
    merge: bool = True
    features: str | None = None

    @property
    def suffix(self) -> str:
        """The suffix that says what kind of file the name is, if it is one."""
        suffixes = [suffix.lower() for suffix in Path(self.name or "").suffixes]
        known = (*_COLUMN_SUFFIXES, *_MATRIX_SUFFIXES, *TABLE_SUFFIXES)
        return next((suffix for suffix in reversed(suffixes) if suffix in known), "")


def load_data(request: DataRequest, screen: Screen, **more: Any) -> LoadedGraph:
    """The graph that was asked for, whatever kind of source it has."""
    if request.labels is None:
        return _load_data(request, screen, more)
    lines = read_label_lines(request.labels)
    loaded = _load_data(request, screen, {"require_label": False, **more})
    if loaded.graph.folder is not None:
        raise ValueError(f"--labels {request.labels} needs a graph in memory, got a folder")
    labelled = with_label_lines(loaded.graph, lines, request.labels.name)
    return replace(loaded, graph=labelled)


def _load_data(request: DataRequest, screen: Screen, more: dict[str, Any]) -> LoadedGraph:
    options = {**request.table_options, **more}
    if (request.split or "").partition(":")[0] in KINDS:
        options["split_by"] = request.split
    if request.edges is not None or "merge_into" in more:
        if request.name is not None:
            several = " (several files: repeat --edges, or quote the pattern)"
            raise ValueError(
                f"give a data set or --edges, not both: got {request.name!r} as well"
                f"{several if request.suffix else ''}"
            )
        name = "new rows" if request.edges is None else _name_of(request.edges[0])
        if request.features is not None:
            options["features"] = request.features
        return read_tables(request.edges, by_type(request.nodes), name=name, **options)
    if request.name is None:
        beside = " (--nodes alone is no graph)" if request.nodes is not None else ""
        raise ValueError(f"name a data set or a graph file, or give --edges and --nodes{beside}")
    path = Path(request.name)
    if is_stored_graph(path):
        return _open_stored(path, request)
    if request.suffix in (*_COLUMN_SUFFIXES, *_MATRIX_SUFFIXES):
        if request.nodes is not None:
            if len(request.nodes) > 1:
                raise ValueError(f"{path} takes one file of --nodes, got {len(request.nodes)}")
            return _read_matrix_and_nodes(path, Path(request.nodes[0]), options)
        return read_graph_file(path, **options)
    if request.suffix:
        raise ValueError(f"{path} is a table: give it as --edges {path}, or as --nodes")
    if request.nodes is not None:
        raise ValueError(f"data set {request.name!r} has its own nodes, so --nodes can't be given")
    with screen.showing() as progress:
        return LoadedGraph(load_dataset(request.name, data_dir=request.data_dir, progress=progress))


def data_files(request: DataRequest) -> list[dict[str, Any]]:
    """What there is to say of each file that the data came from; a named data set has none."""
    found: list[tuple[Path, str]] = []
    nodes = by_type(request.nodes) or ()
    typed = nodes if isinstance(nodes, dict) else {"": nodes}
    for edges in request.edges or ():
        found += [(path, "edges") for path in files_of(edges)]
    for kind, patterns in typed.items():
        role = f"nodes of type {kind}" if kind else "nodes"
        found += [(path, role) for pattern in patterns for path in files_of(pattern)]
    if request.features is not None:
        found += [(path, "features") for path in files_of(request.features)]
    if request.name is not None:
        path = Path(request.name)
        if is_stored_graph(path):
            found.append((path / MANIFEST, "graph folder"))
        elif path.is_file():
            found.append((path, "graph"))
    if request.labels is not None and request.labels.is_file():
        found.append((request.labels, "labels"))
    return [describe_file(path, role) for path, role in found]


def load_outline(folder: Path, request: DataRequest) -> LoadedGraph:
    """What a graph folder says of its nodes, without edges and features; see `open_outline`."""
    return _open_stored(folder, request, open_outline)


def _open_stored(
    path: Path, request: DataRequest, opened: Callable[[Path], Graph] = open_graph
) -> LoadedGraph:
    """A graph folder, which says by itself how it was read."""
    if request.nodes is not None:
        raise ValueError(f"{path} holds its nodes already, so --nodes can't be given")
    manifest = read_manifest(path)
    with complete(path):
        encoding = TableEncoding.from_json(manifest["encoding"])
        notes = tuple(map(str, manifest["notes"]))
    return LoadedGraph(opened(path), encoding, notes)


def ingested_options(folder: Path) -> dict[str, Any]:
    """How the tables of a graph folder were read, for more rows of the same kind."""
    given = read_manifest(folder).get("options") or {}
    known = {one.name for one in fields(TableOptions)}
    own = ("encoding", "merge_into", "name", "require_label", "split_by")
    return {name: value for name, value in given.items() if name in known and name not in own}


def check_options_are_used(request: DataRequest) -> None:
    """Refuse options about columns where the data has none: to pass over them would mislead."""
    if request.edges is not None or request.nodes is not None:
        return
    defaults = TableOptions()
    given = [
        name
        for name, value in request.table_options.items()
        if value != getattr(defaults, name) and not (value == () and not getattr(defaults, name))
    ]
    allowed: tuple[str, ...] = ()
    if request.suffix in _COLUMN_SUFFIXES:
        allowed = tuple(given)
    elif request.suffix:
        allowed = _MATRIX_OPTIONS
    for name in given:
        if name not in allowed:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} is for tables (--edges, --nodes), got {request.name!r} instead"
            )


def align_to(graph: Graph, known: Graph) -> Graph:
    """The graph with its nodes in the order of a featureless one, whose order is all it knows."""
    if known.features is not None or graph.features is not None:
        return graph
    ids, wanted = graph.node_ids.tolist(), known.node_ids.tolist()
    if ids == wanted:
        return graph
    position = {node: place for place, node in enumerate(ids)}
    strangers = set(ids) ^ set(wanted)
    if strangers:
        one = min(strangers, key=str)
        raise ValueError(
            "a model without features labels only the nodes it was trained on, but "
            f"{one!r} is {'new' if one in position else 'missing'}"
        )
    order = np.array([position[node] for node in wanted])
    nobody = np.empty(0, dtype=np.int64)
    return replace(
        graph,
        adjacency=graph.adjacency[order][:, order],
        labels=graph.labels[order],
        node_ids=graph.node_ids[order],
        train_index=nobody,
        validation_index=nobody,
        test_index=nobody,
    )


def by_type(files: tuple[str, ...] | None) -> tuple[str, ...] | dict[str, list[str]] | None:
    """Files of nodes, by their type where they are given as TYPE=FILE."""
    matches = [
        _TYPED_FILE.fullmatch(file)
        for file in files or ()
        if not is_database(file) and not Path(file).exists()
    ]
    pairs = [(found[1], found[2]) for found in matches if found]
    if not pairs:
        return files
    if len(pairs) < len(files or ()):
        raise ValueError("--nodes must be TYPE=FILE for all files of nodes or for none, got both")
    found: dict[str, list[str]] = {}
    for name, file in pairs:
        found.setdefault(name, []).append(file)
    return found


def _name_of(edges: str) -> str:
    """A file called edges.csv says nothing; the folder it is in does."""
    if is_database(edges) or edges == STANDARD_INPUT:
        return name_of_source(edges)
    path = Path(edges)
    stem = path.name.split(".")[0].rstrip("*-_") or "edges"
    return (path.resolve().parent.name or stem) if stem.lower() == "edges" else stem


def _read_matrix_and_nodes(path: Path, nodes: Path, options: dict[str, Any]) -> LoadedGraph:
    """An adjacency matrix, with a table of nodes whose ids are the numbers of its rows from 0."""
    import pandas as pd

    settings = TableOptions(**{"name": path.name.split(".")[0], **options})
    matrix = {name: options[name] for name in _MATRIX_OPTIONS if name in options}
    loaded = read_graph_file(path, **matrix)
    graph = loaded.graph
    if graph.features is not None or graph.is_labelled.any() or settings.relation:
        raise ValueError(f"{path.name} says all about its nodes itself, so --nodes can't be given")
    table = read_table(nodes, settings.node_text_columns, settings.text_format)
    if settings.id in table.frame.columns:
        _check_row_numbers(table, settings.id, path.name, graph.n_nodes)
    entries = graph.adjacency.tocoo()
    frame = pd.DataFrame(
        {"source": graph.node_ids[entries.row], "target": graph.node_ids[entries.col]}
    )
    if graph.is_weighted:
        frame["weight"] = entries.data
    edges = Table(frame, path.name, lambda row: f"{path.name}, entry {row + 1}", is_file=True)
    plain = replace(settings, source="source", target="target", weight=None, relation=None)
    built = build_graph(edges, table, plain, is_undirected=not graph.directed)
    return replace(built, notes=(*loaded.notes, *built.notes))


def _check_row_numbers(table: Table, column: str, matrix: str, n_rows: int) -> None:
    allowed = {str(number) for number in range(n_rows)}
    for row, node_id in enumerate(as_text(table.frame[column]).tolist()):
        if node_id not in allowed:
            raise ValueError(
                f"{table.at(row)}: an id must be the number of a row of {matrix}, "
                f"0 to {n_rows - 1}, got {shown(node_id)}"
            )
