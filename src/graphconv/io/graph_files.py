"""Graph files: one file that holds a whole graph becomes a `Graph`, and a `Graph` such a file.

GraphML and GEXF (networkx), .npz (our own, or an adjacency matrix saved by scipy) and Matrix
Market .mtx enter; a `LoadedGraph` leaves. `write_npz` is the way back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, symmetrise
from graphconv.graph.checks import check_sparse
from graphconv.io._matrix_market import read_matrix_market
from graphconv.io.array_files import read_arrays, write_arrays
from graphconv.io.compression import open_binary, plain_suffix
from graphconv.io.delimited import open_text
from graphconv.io.readers import build_networkx
from graphconv.io.table_columns import unused
from graphconv.io.table_files import existing_file
from graphconv.io.table_graph import LoadedGraph, TableOptions
from graphconv.io.wording import count, made_undirected, naming

if TYPE_CHECKING:
    import networkx as nx

_FORMAT = 1
# What Gephi exports of a drawing as attributes of nodes.
_DRAWN = frozenset(("x", "y", "z", "r", "g", "b", "alpha", "size"))
_INDEX_FIELDS = ("train_index", "validation_index", "test_index")


def read_graph_file(path: str | Path, **options: Any) -> LoadedGraph:
    """Read a graph from one file: GraphML, GEXF, .npz or .mtx, by its suffix.

    Parameters
    ----------
    path : path
        GraphML and GEXF: node attributes are columns, as in `readers.read_tables`; the edge
        attribute `weight` is the weight. .npz: what `write_npz` wrote, or an adjacency matrix
        saved by `scipy.sparse.save_npz`. .mtx: an adjacency matrix. All but .npz may be
        compressed (.graphml.gz).
    **options
        Those of `readers.read_tables`. A matrix has no columns, so only `directed`, `self_loops`
        and `name` bear on it; a file of `write_npz` is read as it was written.

    Returns
    -------
    LoadedGraph

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import networkx as nx
    >>> from graphconv.io.graph_files import read_graph_file
    >>> path = pathlib.Path(tempfile.mkdtemp(), "path.graphml")
    >>> nx.write_graphml(nx.path_graph(3), path)
    >>> read_graph_file(path).graph
    Graph('path': 3 nodes, 2 edges, no features, 0 classes, 0 labelled)
    """
    path = existing_file(path)
    settings = TableOptions(
        **{
            "name": path.name.split(".")[0],
            # A graph need not have labels, unless they were asked for by another name.
            "require_label": options.get("label", "label") != "label",
            **options,
        }
    )
    suffix = plain_suffix(path)
    if suffix not in _READERS:
        raise ValueError(f"{path.name} must end in one of {', '.join(_READERS)}")
    return _READERS[suffix](path, settings)


def write_npz(graph: Graph, path: str | Path) -> None:
    """Write a graph to an .npz file, all of it or nothing.

    Ids and class names must be all text or all numbers: anything else would need pickle.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.graph import Graph
    >>> from graphconv.io.graph_files import read_graph_file, write_npz
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pair.npz")
    >>> write_npz(Graph([[0, 1], [1, 0]], node_ids=["ann", "bob"], name="pair"), path)
    >>> read_graph_file(path).graph
    Graph('pair': 2 nodes, 1 edge, no features, 0 classes, 0 labelled)
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "graphconv_format": np.array(_FORMAT),
        "name": _plain_array([graph.name], "name"),
        "directed": np.array(graph.directed),
        "n_entities": np.array(graph.n_entities),
        "labels": np.asarray(graph.labels),
        "class_names": _plain_array(graph.class_names or (), "class_names"),
        "node_ids": _plain_array(graph.node_ids, "node_ids"),
        **_matrix_arrays("adjacency", graph.adjacency),
    }
    for field in _INDEX_FIELDS:
        arrays[field] = np.asarray(getattr(graph, field))
    if graph.feature_names is not None:
        arrays["feature_names"] = _plain_array(graph.feature_names, "feature_names")
    if graph.unknown_features is not None:
        arrays["unknown_features"] = graph.unknown_features
    if isinstance(graph.features, np.ndarray):
        arrays["features"] = graph.features
    elif graph.features is not None:
        arrays |= _matrix_arrays("features", graph.features)
    write_arrays(Path(path), arrays)


def read_npz(path: str | Path) -> Graph:
    """Read the graph that `write_npz` wrote, as it was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.graph import Graph
    >>> from graphconv.io.graph_files import read_npz, write_npz
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pair.npz")
    >>> write_npz(Graph([[0, 1], [1, 0]], labels=[0, -1], class_names=["red"]), path)
    >>> read_npz(path)
    Graph('graph': 2 nodes, 1 edge, no features, 1 class, 1 labelled)
    """
    path = existing_file(path)
    with path.open("rb") as handle, _one_error(path, "a graph written by graphconv"):
        return _graph_of_arrays(read_arrays(handle))


def _matrix_arrays(field: str, matrix: sp.csr_array) -> dict[str, npt.NDArray[Any]]:
    arrays = {
        f"{field}_indices": matrix.indices,
        f"{field}_indptr": matrix.indptr,
        f"{field}_shape": np.array(matrix.shape),
    }
    if (matrix.data != 1).any():
        arrays[f"{field}_data"] = matrix.data
    return arrays


def _plain_array(values: Any, field: str) -> npt.NDArray[Any]:
    """Values as an array that needs no pickle and gives back the same values."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufmM":
        return values
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = {type(value) for value in listed}
    if kinds <= {str} or kinds in ({int}, {float}, {bool}):
        array = np.array(listed) if listed else np.array([], dtype="U1")
        # Numpy takes the NUL characters off the end of a text, and objects for numbers too large.
        if array.dtype.kind != "O" and array.tolist() == listed:
            return array
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(f"{field} must be all text or all numbers to be written to .npz, got {names}")


def _read_npz(path: Path, options: TableOptions) -> LoadedGraph:
    with path.open("rb") as handle, _one_error(path, "an .npz file of a graph"):
        arrays = read_arrays(handle)
        if "graphconv_format" in arrays:
            return LoadedGraph(_graph_of_arrays(arrays))
        if "format" not in arrays:
            raise ValueError("it holds neither a graph nor a sparse matrix")
        handle.seek(0)
        adjacency = sp.load_npz(handle)
        check_sparse(adjacency, "its matrix")
        adjacency = sp.csr_array(adjacency)
    return _adjacency_graph(path, adjacency, options)


def _graph_of_arrays(arrays: dict[str, npt.NDArray[Any]]) -> Graph:
    version = arrays.get("graphconv_format")
    if version is None or version != _FORMAT:
        raise ValueError(f"its graphconv_format must be {_FORMAT}, got {version}")
    features: Any = arrays.get("features")
    if "features_indptr" in arrays:
        features = _matrix_of_arrays("features", arrays)
    return Graph(
        _matrix_of_arrays("adjacency", arrays),
        features=features,
        labels=arrays["labels"],
        class_names=tuple(arrays["class_names"].tolist()),
        n_entities=int(arrays["n_entities"]) if "n_entities" in arrays else None,
        node_ids=_ids_of_array(arrays["node_ids"]),
        feature_names=(
            tuple(arrays["feature_names"].tolist()) if "feature_names" in arrays else None
        ),
        directed=bool(arrays["directed"]),
        name=str(arrays["name"][0]),
        unknown_features=arrays.get("unknown_features"),
        **{field: arrays[field] for field in _INDEX_FIELDS},
    )


def _ids_of_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # As Python's own text, which is what a graph from tables has.
    return array.astype(object) if array.dtype.kind == "U" else array


def _matrix_of_arrays(field: str, arrays: dict[str, npt.NDArray[Any]]) -> sp.csr_array:
    indices, indptr = arrays[f"{field}_indices"], arrays[f"{field}_indptr"]
    data = arrays.get(f"{field}_data", np.ones(len(indices), dtype=np.float32))
    shape = tuple(int(width) for width in arrays[f"{field}_shape"])
    return sp.csr_array((data, indices, indptr), shape=shape)


def _read_mtx(path: Path, options: TableOptions) -> LoadedGraph:
    with _one_error(path, "a Matrix Market file"), open_text(path) as handle:
        adjacency = read_matrix_market(handle)
    return _adjacency_graph(path, adjacency, options)


def _adjacency_graph(path: Path, adjacency: sp.csr_array, options: TableOptions) -> LoadedGraph:
    """A graph of nothing but a matrix, its nodes numbered."""
    notes = []
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"{path.name}: adjacency must be square, got shape {adjacency.shape}")
    if options.self_loops == "drop":
        entries = adjacency.tocoo()
        keep = entries.row != entries.col
        if not keep.all():
            notes.append(f"{count(int((~keep).sum()), 'self-loop')} dropped")
        ends = (entries.row[keep], entries.col[keep])
        adjacency = sp.coo_array((entries.data[keep], ends), shape=entries.shape).tocsr()
    try:
        # The weights are checked before an infinity or a negative one is lost in symmetrising.
        graph = Graph(adjacency, directed=True, name=options.name or path.name)
        if not options.directed:
            both = symmetrise(graph.adjacency)
            n_changed = int((both != graph.adjacency).nnz)
            if n_changed:
                said = made_undirected(n_changed)
                notes.append(naming("{} ({directed:True} keeps directions)", said))
            graph = Graph(both, name=graph.name)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return LoadedGraph(graph, None, tuple(notes))


def _read_graphml(path: Path, options: TableOptions) -> LoadedGraph:
    import networkx as nx

    with open_binary(path) as handle, _one_error(path, "a GraphML file"):
        _refuse_doctype(handle)
        graph = nx.read_graphml(handle)
    return _graph_of_attributes(path, graph, options)


def _read_gexf(path: Path, options: TableOptions) -> LoadedGraph:
    import networkx as nx

    with open_binary(path) as handle, _one_error(path, "a GEXF file"):
        _refuse_doctype(handle)
        graph = nx.read_gexf(handle)
    for _, data in graph.nodes(data=True):
        # Where and how to draw the node.
        data.pop("viz", None)
    return _graph_of_attributes(path, graph, options)


def _graph_of_attributes(path: Path, graph: nx.Graph[Any], options: TableOptions) -> LoadedGraph:
    """A graph without the attributes that tell how to draw or to call a node."""
    declared = {name for name, _ in options.declarations}
    attributes = dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data)
    drawn = [key for key in attributes if key in _DRAWN and key not in declared]
    notes = []
    if not {"x", "y", "r", "g", "b"}.issubset(drawn):
        drawn = []  # a column that happens to be called so
    notes += unused(path.name, "places, sizes and colours", drawn)
    has_names = "label" not in declared and _labels_are_names(graph)
    if has_names and options.label == "label":
        notes.append(f"{path.name}: every node has another label: taken as names, not as classes")
    for _, data in graph.nodes(data=True):
        for key in (*drawn, *(["label"] if has_names else [])):
            data.pop(key, None)
    loaded = build_networkx(graph, options, weight=_weight_attribute(options), name=path.name)
    return replace(loaded, notes=(*notes, *loaded.notes))


def _weight_attribute(options: TableOptions) -> str | None:
    return "weight" if options.weight is None else options.weight or None


def _labels_are_names(graph: nx.Graph[Any]) -> bool:
    """Whether the label is what programs that draw graphs mean by it, the name of a node."""
    labels = [data.get("label") for _, data in graph.nodes(data=True)]
    return len(labels) > 1 and None not in labels and len(set(labels)) == len(labels)


def _refuse_doctype(handle: IO[bytes]) -> None:
    """Refuse entities, which can make a small file fill the memory, and rewind the file."""
    elements: list[str] = []

    def refuse(*_: object) -> None:
        raise ValueError("it must not have a DOCTYPE declaration")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, _: elements.append(name)
    # A declaration can only stand before the first element.
    while not elements and (chunk := handle.read(1 << 16)):
        parser.Parse(chunk)
    handle.seek(0)


@contextlib.contextmanager
def _one_error(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a reader of foreign files raises into one line that names the file."""
    try:
        yield
    except MemoryError:
        raise ValueError(f"{path.name} needs more memory than there is") from None
    except Exception as error:
        # Readers raise what they like on a broken file: KeyError, BadZipFile, ParseError, ...
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        reason = " ".join(reason.split()) or type(error).__name__
        raise ValueError(f"{path.name} must be {kind}: {reason[:150]}") from None


_READERS: dict[str, Callable[[Path, TableOptions], LoadedGraph]] = {
    ".graphml": _read_graphml,
    ".gexf": _read_gexf,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
}
