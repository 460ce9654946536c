"""Stored graphs: a folder of arrays that are memory-mapped, so that a graph need not fit memory.

`graphconv ingest` writes such a folder; `open_graph` makes a `Graph` of it without keeping the
arrays. It looks at them once, in a pass over the files, so that a damaged folder is refused before
anything follows its indices. manifest.json says what there is: sizes, types, options, versions, and
a checksum of every file, which `verify_graph` compares. All arrays are plain little-endian numbers,
row after row, so a process that needs only some rows of the graph can map only those.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.files import file_checksum, json_text, read_json, replacing_folder
from graphconv.io.progress import Progress, counter, silent
from graphconv.storage._stored_checks import KINDS, Checked, check_graph_arrays, check_sizes
from graphconv.storage._stored_ids import StoredIds
from graphconv.storage.memory import available_memory, in_units

FORMAT = 1
MANIFEST = "manifest.json"
Array = npt.NDArray[Any]
_KNOWN_SIZES = ("n_edges", "n_self_loops", "n_isolated", "is_weighted")


@dataclass(frozen=True)
class StoredArray:
    """What the manifest says of one array."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    blake2b: str

    def to_json(self) -> dict[str, Any]:
        shape = list(self.shape)
        return {"file": self.file, "dtype": self.dtype, "shape": shape, "blake2b": self.blake2b}

    @classmethod
    def from_json(cls, name: str, values: dict[str, Any]) -> StoredArray:
        """What a manifest says, if it can be said of the array of that name."""
        array = cls(
            plain_name(values["file"]), values["dtype"], tuple(values["shape"]), values["blake2b"]
        )
        if array.dtype not in KINDS.get(name, ()):
            raise ValueError(f"array {name} must not be of type {array.dtype!r}")
        if not all(type(width) is int and width >= 0 for width in array.shape):
            raise ValueError(f"array {name} must have a shape of whole numbers, got {array.shape}")
        return array

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def open(self, folder: Path) -> Array:
        """The array, memory-mapped, read-only."""
        path = folder / self.file
        size = path.stat().st_size
        if size != self.n_bytes:
            raise ValueError(f"{path} must have {self.n_bytes:,} bytes, got {size:,}")
        if size == 0:
            return np.empty(self.shape, dtype=self.dtype)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=self.dtype).reshape(self.shape)


class ArrayWriter:
    """Writes an array a block of rows at a time and works out its checksum on the way."""

    def __init__(self, path: Path, dtype: str, width: tuple[int, ...] = ()) -> None:
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.width = width
        self.n_rows = 0
        self._digest = hashlib.blake2b()
        path.write_bytes(b"")

    def append(self, rows: Array) -> None:
        block = np.ascontiguousarray(rows, dtype=self.dtype)
        assert block.shape[1:] == self.width
        self.n_rows += len(block)
        self._digest.update(block.data)
        # Opened for each block, which are large: whatever fails, no file stays open.
        with self.path.open("ab") as file:
            file.write(block.data)

    def close(self) -> StoredArray:
        shape = (self.n_rows, *self.width)
        return StoredArray(self.path.name, self.dtype.str, shape, self._digest.hexdigest())


def write_array(path: Path, array: Array) -> StoredArray:
    """Write an array that is at hand whole."""
    writer = ArrayWriter(path, array.dtype.str, array.shape[1:])
    writer.append(array)
    return writer.close()


def write_matrix(
    folder: Path, name: str, matrix: Any, *, is_unweighted: bool = False
) -> dict[str, StoredArray]:
    """Write a dense or sparse matrix that is at hand whole; its arrays by the names of `_open`."""
    if not sp.issparse(matrix):
        return {name: write_array(folder / f"{name}.bin", matrix)}
    parts = {"indptr": matrix.indptr.astype("<i8"), "indices": matrix.indices.astype("<i4")}
    if not is_unweighted:
        parts["data"] = matrix.data.astype("<f4")
    return {
        f"{name}.{part}": write_array(folder / f"{name}.{part}.bin", array)
        for part, array in parts.items()
    }


def is_stored_graph(path: str | Path) -> bool:
    """Whether a path is a folder that `graphconv ingest` wrote."""
    return (Path(path) / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder says of the graph in it."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "has no manifest.json" if folder.is_dir() else "is not there"
        raise FileNotFoundError(f"{folder} must be a folder of graphconv ingest, but {what}")
    manifest = read_json(path)
    found = manifest.get("format")
    if type(found) is not int or found != FORMAT:
        raise ValueError(f"{path} must have graph format {FORMAT}, got {found!r}")
    return manifest


def plain_name(name: Any) -> str:
    """The name of a file in the folder itself, or an error: a manifest may not lead elsewhere."""
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"files must be named without a folder, got {name!r}")
    return name


def open_graph(folder: str | Path) -> Graph:
    """The graph in a folder that `graphconv ingest` wrote, its arrays memory-mapped.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Graph
        Its `folder` says where it lies. Labels and splits are in memory, all else is on disk.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.storage.generation import GraphRecipe, write_generated
    >>> from graphconv.storage.ingest import IngestRequest, ingest
    >>> from graphconv.storage.stored_graph import open_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> edges, nodes = write_generated(
    ...     GraphRecipe("planted-partition", 50, 100, n_features=3), folder / "tables"
    ... )
    >>> _ = ingest(IngestRequest((str(edges),), (str(nodes),), folder / "graph"))
    >>> open_graph(folder / "graph").n_nodes
    50
    """
    return _open(Path(folder).resolve())


def open_outline(folder: str | Path) -> Graph:
    """Ids, labels and splits of a stored graph, where its edges and features may be elsewhere.

    Numbers of edges and features are those of the graph, but both matrices are empty.
    """
    return _open(Path(folder).resolve(), with_matrices=False)


def store_graph(
    graph: Graph, folder: str | Path, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a graph that is in memory as a folder that `open_graph` opens, whole or not at all.

    Parameters
    ----------
    graph : Graph
        Its ids must be all whole numbers or all text.
    folder : path
        Replaced, if it is there.
    more : mapping, optional
        What else the manifest is to say.

    Returns
    -------
    dict
        The manifest that was written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import load_dataset
    >>> from graphconv.storage.stored_graph import open_graph, store_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "karate")
    >>> store_graph(load_dataset("karate"), folder)["n_nodes"]
    34
    >>> open_graph(folder)
    Graph('karate': 34 nodes, 78 edges, no features, 4 classes, 34 labelled)
    """
    from graphconv.io.table_encoding import TableEncoding

    with replacing_folder(Path(folder)) as new:
        arrays = write_matrix(
            new, "adjacency", graph.adjacency, is_unweighted=not graph.is_weighted
        )
        arrays["degree"] = write_array(new / "degree.bin", graph.degree)
        arrays["labels"] = write_array(new / "labels.bin", graph.labels.astype(np.int32))
        if graph.features is not None:
            arrays |= write_matrix(new, "features", graph.features)
        for name in SPLIT_NAMES:
            file = f"{name}_index"
            arrays[file] = write_array(new / f"{file}.bin", getattr(graph, file))
        ids_file = None
        if graph.node_ids.dtype.kind in "iu":
            arrays["ids"] = write_array(new / "ids.bin", graph.node_ids.astype(np.int64))
        else:
            ids_file = _write_ids(new / "ids.arrow", graph.node_ids)
        specs = {name: array.to_json() for name, array in arrays.items()}
        names = graph.feature_names or [f"f{place}" for place in range(graph.n_features)]
        manifest = {
            "format": FORMAT,
            "name": graph.name,
            "directed": graph.directed,
            "n_nodes": graph.n_nodes,
            "n_entities": graph.n_entities,
            "n_edges": graph.n_edges,
            "n_entries": int(graph.adjacency.nnz),
            "n_self_loops": graph.n_self_loops,
            "n_isolated": graph.n_isolated,
            "is_weighted": graph.is_weighted,
            "n_labelled": int(graph.is_labelled.sum()),
            "has_split": True,
            "class_names": list(graph.class_names),
            "feature_names": None if graph.features is None else list(names),
            "unknown_features": (
                None if graph.unknown_features is None else graph.unknown_features.tolist()
            ),
            "encoding": TableEncoding().to_json(),
            "arrays": specs,
            "ids_file": ids_file,
            "digest": graph.fingerprint(),
            "notes": [],
            **(more or {}),
        }
        (new / MANIFEST).write_text(json_text(manifest, indent=1), encoding="utf-8")
    return manifest


def graph_in_memory(graph: Graph) -> Graph:
    """A stored graph as one in memory, its ids text as those of tables are; or a refusal.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import load_dataset
    >>> from graphconv.storage.stored_graph import graph_in_memory, open_graph, store_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "karate")
    >>> _ = store_graph(load_dataset("karate"), folder)
    >>> graph_in_memory(open_graph(folder)).node_ids[:3].tolist()
    ['0', '1', '2']
    """
    n_numbers = graph.adjacency.nnz
    if graph.features is not None:
        n_numbers += getattr(graph.features, "nnz", graph.features.size)
    # Values, columns, and what merging and scaling make of them.
    n_bytes, n_free = 48 * n_numbers, available_memory()
    if n_bytes > n_free:
        raise ValueError(
            f"{graph.folder} must fit into memory (about {in_units(n_bytes)}, {in_units(n_free)} "
            "are free) to have new rows merged into it: ingest the old tables with the new ones "
            "and predict on that folder, or take the new rows alone"
        )
    ids = np.array([str(node) for node in graph.node_ids.tolist()], dtype=object)
    features = graph.features
    if isinstance(features, np.ndarray):
        features = np.array(features, dtype=np.float32)
    return replace(graph, node_ids=ids, features=features)


def _write_ids(path: Path, ids: Any) -> dict[str, str]:
    import pyarrow as pa

    schema = pa.schema([("id", pa.large_string())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
        texts = pa.array([str(node) for node in ids.tolist()], type=pa.large_string())
        file.write_batch(pa.record_batch([texts], schema=schema))
    return {"file": path.name, "blake2b": file_checksum(path)}


def _open(folder: Path, *, with_matrices: bool = True, again: bool = False) -> Graph:
    manifest = read_manifest(folder)
    with complete(folder):
        return _graph_of(folder, manifest, with_matrices, again)


@contextmanager
def complete(folder: Path) -> Iterator[None]:
    """Turn whatever is wrong with a stored graph into one line that names its folder."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / MANIFEST} must be complete, but lacks {error}") from error
    except ValueError as error:
        raise ValueError(f"{folder} must hold a graph as it was written, but: {error}") from error


def _graph_of(folder: Path, manifest: dict[str, Any], with_matrices: bool, again: bool) -> Graph:
    """The graph of a manifest; its arrays are looked at, unless they were, or `again` is asked."""
    if sys.byteorder != "little":
        raise ValueError("stored graphs are little-endian, this machine is not")
    specs = {k: StoredArray.from_json(k, v) for k, v in manifest["arrays"].items()}
    arrays = {
        name: spec.open(folder)
        for name, spec in specs.items()
        if with_matrices or name.partition(".")[0] not in ("adjacency", "features", "degree")
    }
    n_nodes, names, classes = manifest["n_nodes"], manifest["feature_names"], _class_names(manifest)
    sizes = {name: manifest[name] for name in ("n_nodes", *_KNOWN_SIZES)}
    sizes["n_entities"] = manifest.get("n_entities", n_nodes)  # ingest writes no relations
    check_sizes(sizes)
    if not 0 <= sizes["n_entities"] <= n_nodes:
        raise ValueError(f"n_entities must be at most {n_nodes}, got {sizes['n_entities']}")
    files = [folder / specs[name].file for name in arrays]
    ids: Any = arrays.get("ids")
    if ids is None:
        ids_path = folder / plain_name(manifest["ids_file"]["file"])
        files.append(ids_path)
    checked = Checked(folder, folder / MANIFEST, files)
    is_known = checked.is_known() and not again
    if ids is None:
        expected = None if is_known else manifest["ids_file"]["blake2b"]
        ids = StoredIds(ids_path, n_nodes, expected)
    if not is_known:
        check_graph_arrays(
            arrays,
            n_nodes=n_nodes,
            n_features=None if names is None else len(names),
            n_classes=len(classes),
        )
        checked.remember()
    known = {"_folder": folder, "_content_digest": manifest["digest"]}
    features: Any = arrays.get("features")
    if with_matrices:
        adjacency = csr_of_arrays("adjacency", arrays, (n_nodes, n_nodes))
        if "features.indptr" in arrays:
            features = csr_of_arrays("features", arrays, (n_nodes, len(names)))
        known["degree"] = arrays["degree"]
    else:
        adjacency = sp.csr_array((n_nodes, n_nodes), dtype=np.float32)
        if names is not None:
            features = sp.csr_array((n_nodes, len(names)), dtype=np.float32)
    fields = {
        "name": str(manifest["name"]),
        "directed": bool(manifest["directed"]),
        "n_entities": sizes["n_entities"],
        "adjacency": adjacency,
        "features": features,
        "labels": arrays["labels"].astype(np.int64),
        "class_names": classes,
        "node_ids": ids,
        "feature_names": tuple(map(str, names)) if features is not None else None,
        "unknown_features": _unknown_features(manifest) if with_matrices else None,
        **{
            f"{name}_index": np.asarray(arrays[f"{name}_index"]) if manifest["has_split"] else None
            for name in SPLIT_NAMES
        },
    }
    known |= {name: sizes[name] for name in _KNOWN_SIZES}
    return Graph.trusted(fields, known)


def _unknown_features(manifest: dict[str, Any]) -> npt.NDArray[np.float32] | None:
    given = manifest.get("unknown_features")  # earlier versions wrote none
    if not given:
        return None
    row = np.array(given, dtype=np.float32)
    if row.shape != (len(given),) or len(given) > len(manifest["feature_names"] or ()):
        raise ValueError("unknown_features must be at most one number per feature")
    if not np.isfinite(row).all():
        raise ValueError("unknown_features must be finite numbers")
    return row


def _class_names(manifest: dict[str, Any]) -> tuple[Any, ...]:
    names = tuple(manifest["class_names"])
    if len(set(names)) != len(names):
        raise ValueError("class names must be distinct")
    return names


def csr_of_arrays(name: str, arrays: dict[str, Array], shape: tuple[int, int]) -> sp.csr_array:
    """A matrix of mapped arrays, put together by hand: scipy's constructor would copy them."""
    matrix = sp.csr_array(shape, dtype=np.float32)
    matrix.indptr = arrays[f"{name}.indptr"]
    matrix.indices = arrays[f"{name}.indices"]
    values = arrays.get(f"{name}.data")
    if values is None:
        values = np.broadcast_to(np.float32(1), matrix.indices.shape)
    matrix.data = values
    matrix.has_canonical_format = True
    return matrix


def verify_graph(folder: str | Path, progress: Progress = silent) -> int:
    """Compare a stored graph with all that its manifest says; raise ValueError if it differs.

    Parameters
    ----------
    folder : path
    progress : callable, optional
        Told how far it is, see `graphconv.io.progress`.

    Returns
    -------
    int
        How many bytes were compared.
    """
    folder = Path(folder).resolve()
    n_bytes = verify_files(folder, progress)
    graph = _open(folder, again=True)
    manifest = read_manifest(folder)
    with complete(folder):
        sizes = {name: manifest[name] for name in (*_KNOWN_SIZES, "n_labelled")}
    for name in _KNOWN_SIZES:  # to be worked out from the arrays
        del graph.__dict__[name]
    found = {**{name: getattr(graph, name) for name in _KNOWN_SIZES}}
    found["n_labelled"] = int(graph.is_labelled.sum())
    for name, value in sizes.items():
        if value != found[name]:
            raise ValueError(f"{folder / MANIFEST} must say {name} {found[name]}, got {value!r}")
    return n_bytes


def verify_files(folder: Path, progress: Progress = silent) -> int:
    """Compare every file with its checksum; returns how many bytes they have."""
    manifest = read_manifest(folder)
    with complete(folder):
        files = {plain_name(spec["file"]): spec["blake2b"] for spec in manifest["arrays"].values()}
        if manifest.get("ids_file"):
            name = plain_name(manifest["ids_file"]["file"])
            files[name] = manifest["ids_file"]["blake2b"]
    n_bytes: int = sum((folder / name).stat().st_size for name in files)
    advance = counter(progress, "verifying", n_bytes)
    for name, expected in files.items():
        if file_checksum(folder / name, advance) != expected:
            raise ValueError(
                f"{folder / name} must have the checksum of its manifest, but its bytes changed"
            )
    return n_bytes
