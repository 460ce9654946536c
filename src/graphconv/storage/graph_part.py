"""GraphPart: what one process of a training knows of a graph that `partition_graph` has cut.

A part's folder enters, its arrays leave memory-mapped, as a `Graph` in the part's own numbering:
the part's nodes first, then the halo, whose nodes have no edges, features or labels here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.names import SPLIT_NAMES
from graphconv.storage._stored_checks import (
    check_bounds,
    check_matrix,
    check_numbers,
    check_range,
    check_shape,
    check_sizes,
)
from graphconv.storage.partition import PartSummary, parts_folder
from graphconv.storage.stored_graph import (
    MANIFEST,
    StoredArray,
    complete,
    csr_of_arrays,
    read_manifest,
    verify_files,
)

IntBounds = npt.NDArray[np.int64]
# Of the whole graph, beside those of the part.
_OTHER_SIZES = ("n_nodes_whole", "n_features", "n_parts")


@dataclass(frozen=True, eq=False)
class GraphPart:
    """A part of a stored graph.

    Attributes
    ----------
    graph : Graph
        Nodes 0 .. n_own - 1 are the part's; those of the halo follow, in the order of their parts.
        Features are of the part's nodes alone. `node_ids` are positions in the whole graph.
    n_own : int
    n_nodes : int
        Nodes of the whole graph.
    n_features : int
        Of the whole graph: its number of nodes where it has no features.
    halo_bounds : array of shape (n_parts + 1,)
        Halo nodes from halo_bounds[q] to halo_bounds[q + 1] are nodes of part q.
    lent : array
        The part's nodes that are in other parts' halos, in their order there, part after part.
    lent_bounds : array of shape (n_parts + 1,)
    summary : PartSummary
    """

    graph: Graph
    n_own: int
    n_nodes: int
    n_features: int
    halo_bounds: IntBounds
    lent: npt.NDArray[np.int32]
    lent_bounds: IntBounds
    summary: PartSummary

    @property
    def nodes(self) -> IntArray:
        """Positions of the part's nodes and of the halo's in the whole graph."""
        return self.graph.node_ids


def open_part(folder: Path, part: int, n_parts: int) -> GraphPart:
    """One of the parts of a stored graph; its files are compared with their checksums first.

    Parameters
    ----------
    folder : Path
        Of the stored graph.
    part, n_parts : int

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import load_dataset
    >>> from graphconv.storage.graph_part import open_part
    >>> from graphconv.storage.partition import partition_graph
    >>> from graphconv.storage.stored_graph import store_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "karate")
    >>> _ = store_graph(load_dataset("karate"), folder)
    >>> _ = partition_graph(folder, 2, method="contiguous")
    >>> part = open_part(folder, 1, 2)
    >>> part.n_own, part.nodes[:3]
    (17, array([17, 18, 19]))
    """
    place = parts_folder(folder, n_parts)
    if not (place / MANIFEST).is_file():
        cut = sorted(int(other.name[6:]) for other in folder.glob("parts-*"))
        has = f"is cut into {', '.join(map(str, cut))} parts" if cut else "is not cut"
        raise ValueError(
            f"{folder} must be cut into as many parts as there are processes ({n_parts}), but "
            f"{has}: partition it first"
        )
    own = place / f"part-{part}"
    digest = read_manifest(folder).get("digest")
    if digest is None or read_manifest(place).get("graph_digest") != digest:
        raise ValueError(f"{place} must be of the graph in {folder}, but that has changed")
    manifest = read_manifest(own)
    verify_files(own)
    with complete(own):
        return _open(own, manifest)


def _open(folder: Path, manifest: dict[str, Any]) -> GraphPart:
    specs = {k: StoredArray.from_json(k, v) for k, v in manifest["arrays"].items()}
    arrays = {name: spec.open(folder) for name, spec in specs.items()}
    sizes = {field.name: manifest[field.name] for field in fields(PartSummary)}
    check_sizes({**sizes, **{name: manifest[name] for name in _OTHER_SIZES}})
    summary = PartSummary(**sizes)
    n_own, n_local = summary.n_nodes, summary.n_nodes + summary.n_halo
    _check(arrays, manifest, n_own, n_local)
    features: Any = arrays.get("features")
    if "features.indptr" in arrays:
        features = csr_of_arrays("features", arrays, (n_own, manifest["n_features"]))
    known = arrays["labels"]
    labels = np.full((n_local, *known.shape[1:]), -1, dtype=np.int64)
    labels[:n_own] = known
    values = {
        "name": manifest["name"],
        "directed": manifest["directed"],
        "n_entities": n_local,
        "adjacency": csr_of_arrays("adjacency", arrays, (n_local, n_local)),
        "features": features,
        "labels": labels,
        "class_names": tuple(manifest["class_names"]),
        "node_ids": np.asarray(arrays["nodes"]),
        "feature_names": None,
        **{f"{name}_index": np.asarray(arrays[f"{name}_index"]) for name in SPLIT_NAMES},
    }
    graph = Graph.trusted(
        values,
        {"_folder": folder, "degree": arrays["degree"], "is_weighted": manifest["is_weighted"]},
    )
    return GraphPart(
        graph,
        n_own,
        manifest["n_nodes_whole"],
        manifest["n_features"],
        halo_bounds=arrays["halo_bounds"],
        lent=arrays["lent"],
        lent_bounds=arrays["lent_bounds"],
        summary=summary,
    )


def _check(arrays: dict[str, Any], manifest: dict[str, Any], n_own: int, n_local: int) -> None:
    """Refuse arrays that are not those of a part of this size."""
    check_matrix("adjacency", arrays, (n_local, n_local), in_order=False)
    n_features, n_parts = manifest["n_features"], manifest["n_parts"]
    if "features.indptr" in arrays:
        check_matrix("features", arrays, (n_own, n_features))
    elif "features" in arrays:
        check_shape("features", arrays["features"], (n_own, n_features))
        check_numbers("features", arrays["features"])
    check_shape("degree", arrays["degree"], (n_local,))
    check_numbers("degree", arrays["degree"])
    check_shape("labels", arrays["labels"], (n_own, *arrays["labels"].shape[1:]))
    check_range("labels", arrays["labels"], -1, max(2, len(manifest["class_names"])))
    check_shape("nodes", arrays["nodes"], (n_local,))
    check_range("nodes", arrays["nodes"], 0, manifest["n_nodes_whole"])
    check_range("lent", arrays["lent"], 0, n_own)
    check_bounds("halo_bounds", arrays["halo_bounds"], n_parts, n_local - n_own)
    check_bounds("lent_bounds", arrays["lent_bounds"], n_parts, len(arrays["lent"]))
