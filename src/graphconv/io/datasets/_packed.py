"""One file for one graph: how named data sets are embedded in the package and kept in the cache.

A `Graph` enters and a plain npz file leaves, and the other way round. Indices take the smallest
integer type that holds them, features that are all 1 carry no values, and nothing is compressed:
the same graph gives the same bytes everywhere, and reading is quick. The file carries a SHA-256
of its own contents, so a half-written or damaged one is told from a good one.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph
from graphconv.io.array_files import write_arrays
from graphconv.io.wording import one_line

FORMAT = 1
Arrays = dict[str, npt.NDArray[Any]]


def write_packed(path: Path, graph: Graph) -> None:
    """Write a graph with one label per node to `path`, all of it or nothing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphconv.io.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_packed(Path(folder) / "karate.npz", load_dataset("karate"))
    ...     read_packed(Path(folder) / "karate.npz")
    Graph('karate': 34 nodes, 78 edges, no features, 4 classes, 34 labelled)
    """
    assert not graph.directed
    assert not graph.is_weighted
    assert not graph.is_multilabel
    arrays = _to_arrays(graph)
    arrays["sha256"] = np.frombuffer(_digest(arrays), dtype=np.uint8)
    write_arrays(path, arrays, compressed=False)


def read_packed(path: Path) -> Graph:
    """Read what `write_packed` wrote; ValueError if the file is damaged or of another format."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = dict(archive.items())
        stored = arrays.pop("sha256").tobytes()
        about = json.loads(arrays["about"].tobytes())
        if stored != _digest(arrays):
            raise ValueError("its SHA-256 does not match")
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']} and not {FORMAT}")
        return _to_graph(arrays, about)
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # a damaged archive may raise anything
        reason = one_line(error)
        raise ValueError(f"{path}: must be a packed graph, but is damaged: {reason}") from None


def _to_arrays(graph: Graph) -> Arrays:
    assert graph.class_names is not None
    assert graph.node_ids is not None
    about = {
        "format": FORMAT,
        "name": graph.name,
        "class_names": list(graph.class_names),
        "n_features": graph.n_features,
    }
    arrays: Arrays = {
        "about": np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8),
        "adjacency_indptr": graph.adjacency.indptr,
        "adjacency_indices": graph.adjacency.indices,
    }
    features: Any = graph.features
    assert features is None or sp.issparse(features)
    if features is not None:
        arrays["features_indptr"] = features.indptr
        arrays["features_indices"] = features.indices
        if (features.data != 1).any():
            arrays["features_data"] = features.data.astype("<f4")
    if not np.array_equal(graph.node_ids, np.arange(graph.n_nodes)):
        arrays["node_ids"] = np.array([str(i).encode() for i in graph.node_ids.tolist()])
    for field in ("labels", "train_index", "validation_index", "test_index"):
        arrays[field] = getattr(graph, field)
    return {
        name: array.astype(_smallest_type(array)) if array.dtype.kind == "i" else array
        for name, array in arrays.items()
    }


def _smallest_type(array: npt.NDArray[Any]) -> npt.DTypeLike:
    if array.min(initial=0) < 0:
        return "<i2" if array.max(initial=0) < 2**15 else "<i8"
    largest = int(array.max(initial=0))
    return "<u2" if largest < 2**16 else "<u4" if largest < 2**32 else "<u8"


def _digest(arrays: Arrays) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.digest()


def _to_graph(arrays: Arrays, about: dict[str, Any]) -> Graph:
    n_nodes = len(arrays["labels"])
    features = None
    if "features_indptr" in arrays:
        features = _csr(arrays, "features", (n_nodes, about["n_features"]))
    ids = arrays.get("node_ids")
    return Graph(
        _csr(arrays, "adjacency", (n_nodes, n_nodes)),
        features,
        arrays["labels"],
        class_names=tuple(about["class_names"]),
        node_ids=None if ids is None else np.char.decode(ids, "utf-8"),
        train_index=arrays["train_index"],
        validation_index=arrays["validation_index"],
        test_index=arrays["test_index"],
        name=about["name"],
    )


def _csr(arrays: Arrays, name: str, shape: tuple[int, int]) -> sp.csr_array:
    indices = arrays[f"{name}_indices"]
    index_type = np.int32 if len(indices) < 2**31 and max(shape) < 2**31 else np.int64
    values = arrays.get(f"{name}_data")
    if values is None:
        values = np.ones(len(indices), dtype=np.float32)
    indptr = arrays[f"{name}_indptr"].astype(index_type)
    return sp.csr_array((values, indices.astype(index_type), indptr), shape=shape)
