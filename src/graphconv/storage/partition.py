"""partition_graph(): a stored graph is cut into parts, one for each process of a training.

A folder of `graphconv ingest` enters; in it a folder `parts-P` leaves, with a folder for each part:
its nodes, their rows of the adjacency matrix, features, labels and splits, and the halo: nodes of
other parts that its rows refer to. METIS makes parts of equal weight with few edges between them,
which needs the adjacency matrix in memory; contiguous ranges of nodes need next to none. Parts are
written a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray, symmetrise
from graphconv.graph.mapping import release
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.files import json_text, replacing_folder
from graphconv.io.progress import Progress, counter, silent
from graphconv.kernels import reference, select
from graphconv.storage.memory import available_memory, in_units
from graphconv.storage.stored_graph import (
    FORMAT,
    MANIFEST,
    ArrayWriter,
    StoredArray,
    open_graph,
    write_array,
)

METHODS = ("auto", "metis", "contiguous")
# Numbers of a block of rows that are held at a time.
BLOCK_NUMBERS = 1 << 22
# What METIS takes for an entry of the matrix and for a node, measured on random graphs.
_METIS_ENTRY_BYTES, _METIS_NODE_BYTES = 110, 100
Assignment = npt.NDArray[np.int32]


@dataclass(frozen=True)
class PartSummary:
    """Sizes of one part."""

    n_nodes: int
    n_edges: int  # that have an end in it; in a directed graph, that start in it
    n_entries: int  # of its rows of the adjacency matrix
    n_halo: int  # nodes of other parts that its rows refer to
    n_cut: int  # edges to them


def parts_folder(folder: Path, n_parts: int) -> Path:
    """Where a stored graph has its so many parts."""
    return folder / f"parts-{n_parts}"


def partition_graph(
    folder: str | Path,
    n_parts: int,
    *,
    method: str = "auto",
    progress: Progress = silent,
) -> list[PartSummary]:
    """Cut a stored graph into parts, whole or not at all.

    Parameters
    ----------
    folder : path
        A folder of `graphconv ingest` or `store_graph`.
    n_parts : int
        As many as there will be processes.
    method : {"auto", "metis", "contiguous"}
        "auto" is METIS where pymetis is installed and its memory suffices, else contiguous ranges.
    progress : callable, optional
        Told which method it is, and why, and how far it is; see `graphconv.io.progress`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import load_dataset
    >>> from graphconv.storage.partition import partition_graph
    >>> from graphconv.storage.stored_graph import store_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "karate")
    >>> _ = store_graph(load_dataset("karate"), folder)
    >>> parts = partition_graph(folder, 2, method="contiguous")
    >>> [part.n_nodes for part in parts], [part.n_halo for part in parts]
    ([17, 17], [9, 8])
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    graph = open_graph(folder)
    assert graph.folder is not None
    if not 1 <= n_parts <= graph.n_nodes:
        raise ValueError(f"parts must be from 1 to {graph.n_nodes:,} (nodes), got {n_parts}")
    weight = _node_weights(graph)
    missing = "" if method == "contiguous" else _why_not_metis(graph)
    if method == "metis" and missing:
        raise ValueError(f"method metis can't be used: {missing}")
    is_metis = method != "contiguous" and not missing
    words = "METIS" if is_metis else "contiguous ranges of nodes"
    progress(f"cut by {words}" + (f": {missing}" if missing else ""), None, None)
    assignment = (_metis if is_metis else _contiguous)(graph, n_parts, weight)
    with replacing_folder(parts_folder(graph.folder, n_parts)) as new:
        advance = counter(progress, "writing parts", graph.n_nodes)
        writer = _PartsWriter(graph, assignment, n_parts, new, advance)
        return writer.write("metis" if is_metis else "contiguous")


def _node_weights(graph: Graph) -> IntArray:
    """A node's work: its entries of the matrix and, for its features, as much as the mean node."""
    lengths: IntArray = np.diff(graph.adjacency.indptr).astype(np.int64)
    return lengths + max(1, round(float(lengths.mean())))


def _why_not_metis(graph: Graph) -> str:
    try:
        import pymetis  # noqa: F401  # asked only whether it is there
    except ImportError:
        return "pymetis is not installed (pip install pymetis)"
    n_entries = int(graph.adjacency.indptr[-1]) * (2 if graph.directed else 1)
    needed = _METIS_ENTRY_BYTES * n_entries + _METIS_NODE_BYTES * graph.n_nodes
    free = available_memory()
    if needed > free:
        return f"METIS would need about {in_units(needed)} of memory, {in_units(free)} available"
    return ""


def _contiguous(graph: Graph, n_parts: int, weight: IntArray) -> Assignment:
    ends = np.cumsum(weight)
    # A node belongs to the range that its middle lies in; no range stays empty.
    aims = ends[-1] * np.arange(1, n_parts) / n_parts
    bounds = np.searchsorted(ends - weight / 2, aims)
    bounds = np.maximum(bounds, np.arange(1, n_parts))
    bounds = np.minimum(bounds, graph.n_nodes - n_parts + np.arange(1, n_parts))
    sizes = np.diff(np.concatenate([[0], bounds, [graph.n_nodes]]))
    return np.repeat(np.arange(n_parts, dtype=np.int32), sizes)


def _metis(graph: Graph, n_parts: int, weight: IntArray) -> Assignment:
    import pymetis

    if n_parts == 1:
        return np.zeros(graph.n_nodes, dtype=np.int32)
    adjacency = graph.adjacency
    if graph.directed or graph.n_self_loops:
        # METIS wants every edge in both directions and none from a node to itself.
        rows = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), np.diff(adjacency.indptr))
        others = rows != adjacency.indices
        ends = (rows[others], adjacency.indices[others])
        pattern = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), adjacency.shape).tocsr()
        adjacency = symmetrise(pattern) if graph.directed else pattern
    kind = pymetis.zero_copy_dtype()
    edges = pymetis.CSRAdjacency(
        adjacency.indptr.astype(kind, copy=False), adjacency.indices.astype(kind, copy=False)
    )
    _, found = pymetis.part_graph(
        n_parts,
        edges,
        vweights=weight.astype(kind, copy=False),
        options=pymetis.Options(seed=0),
    )
    return np.asarray(found, dtype=np.int32)


class _PartsWriter:
    """Writes the folders of all parts."""

    def __init__(
        self,
        graph: Graph,
        assignment: Assignment,
        n_parts: int,
        folder: Path,
        advance: Callable[[int], None],
    ) -> None:
        self.graph = graph
        self.assignment = assignment
        self.n_parts = n_parts
        self.folder = folder
        self.advance = advance
        self.place = np.empty(graph.n_nodes, dtype=np.int32)  # a node's number within a part

    def write(self, method: str) -> list[PartSummary]:
        nodes = [np.flatnonzero(self.assignment == part) for part in range(self.n_parts)]
        halos = [self._halo(own, part) for part, own in enumerate(nodes)]
        summaries = []
        for part, own in enumerate(nodes):
            folder = self.folder / f"part-{part}"
            folder.mkdir()
            arrays = {
                **self._write_rows(folder, own, halos[part]),
                **self._write_features(folder, own),
                **self._write_exchanges(folder, part, nodes, halos),
                **self._write_nodes(folder, own, halos[part]),
            }
            n_entries, n_halo = arrays["adjacency.indices"].shape[0], len(halos[part])
            n_inside = n_entries - self._n_cut
            if not self.graph.directed:  # both ends of an edge are here, but for loops
                n_inside = (n_inside + self._n_loops) // 2
            summary = PartSummary(len(own), n_inside + self._n_cut, n_entries, n_halo, self._n_cut)
            self._write_manifest(folder, part, arrays, summary)
            summaries.append(summary)
        stored = write_array(self.folder / "assignment.bin", self.assignment)
        manifest = {
            "format": FORMAT,
            "n_parts": self.n_parts,
            "method": method,
            "graph_digest": self.graph._content_digest,
            "arrays": {"assignment": stored.to_json()},
            "parts": [asdict(summary) for summary in summaries],
        }
        (self.folder / MANIFEST).write_text(json_text(manifest, indent=1), encoding="utf-8")
        return summaries

    def _blocks(self, own: IntArray, width: float) -> Iterator[IntArray]:
        n_rows = max(256, int(BLOCK_NUMBERS / max(1.0, width)))
        for first in range(0, len(own), n_rows):
            yield own[first : first + n_rows]
            matrices: list[Any] = [self.graph.adjacency, self.graph.features]
            for matrix in matrices:
                if sp.issparse(matrix):
                    release(matrix.indices, matrix.data)
                elif matrix is not None:
                    release(matrix)

    @property
    def _mean_length(self) -> float:
        return float(self.graph.adjacency.indptr[-1]) / self.graph.n_nodes

    def _rows(self, rows: IntArray) -> Any:
        adjacency = self.graph.adjacency
        values = adjacency.data if self.graph.is_weighted else None
        return select().sample_rows(adjacency.indptr, adjacency.indices, values, rows)

    def _halo(self, own: IntArray, part: int) -> IntArray:
        """Nodes of other parts that the rows refer to, by the part they are in."""
        is_wanted = np.zeros(self.graph.n_nodes, dtype=bool)
        for rows in self._blocks(own, self._mean_length):
            is_wanted[self._rows(rows).columns] = True
        is_wanted[own] = False
        found = np.flatnonzero(is_wanted)
        return found[np.argsort(self.assignment[found], kind="stable")]

    def _write_rows(self, folder: Path, own: IntArray, halo: IntArray) -> dict[str, StoredArray]:
        """The rows of the part's nodes; columns are numbered within the part, the halo last.

        Entries of a row stay in the order of the whole graph, so that a sample of them is the same.
        """
        self.place[own] = np.arange(len(own), dtype=np.int32)
        self.place[halo] = np.arange(len(own), len(own) + len(halo), dtype=np.int32)
        kinds = {"indptr": "<i8", "indices": "<i4"}
        if self.graph.is_weighted:
            kinds["data"] = "<f4"
        writers = {
            part: ArrayWriter(folder / f"adjacency.{part}.bin", kind)
            for part, kind in kinds.items()
        }
        n_entries, self._n_cut, self._n_loops = 0, 0, 0
        writers["indptr"].append(np.zeros(1, dtype=np.int64))
        for rows in self._blocks(own, self._mean_length):
            found = self._rows(rows)
            columns = self.place[found.columns]
            self._n_cut += int(np.count_nonzero(columns >= len(own)))
            themselves = np.repeat(self.place[rows], np.diff(found.indptr))
            self._n_loops += int(np.count_nonzero(columns == themselves))
            writers["indptr"].append(found.indptr[1:] + n_entries)
            writers["indices"].append(columns)
            if self.graph.is_weighted:
                writers["data"].append(found.values)
            n_entries += len(columns)
            self.advance(len(rows))
        # Nodes of the halo have no rows here, which makes the matrix square.
        writers["indptr"].append(np.full(len(halo), n_entries, dtype=np.int64))
        return {f"adjacency.{part}": writer.close() for part, writer in writers.items()}

    def _write_features(self, folder: Path, own: IntArray) -> dict[str, StoredArray]:
        features = self.graph.features
        if features is None:
            return {}
        if not sp.issparse(features):
            dense = ArrayWriter(folder / "features.bin", features.dtype.str, features.shape[1:])
            for rows in self._blocks(own, features.shape[1]):
                dense.append(features[rows])
            return {"features": dense.close()}
        parts = {"indptr": "<i8", "indices": "<i4", "data": "<f4"}
        writers = {
            part: ArrayWriter(folder / f"features.{part}.bin", kind) for part, kind in parts.items()
        }
        n_entries = 0
        writers["indptr"].append(np.zeros(1, dtype=np.int64))
        for rows in self._blocks(own, float(features.indptr[-1]) / features.shape[0]):
            found = reference.sample_rows(features.indptr, features.indices, features.data, rows)
            writers["indptr"].append(found.indptr[1:] + n_entries)
            writers["indices"].append(found.columns)
            assert found.values is not None
            writers["data"].append(found.values)
            n_entries += len(found.columns)
        return {f"features.{part}": writer.close() for part, writer in writers.items()}

    def _write_exchanges(
        self, folder: Path, part: int, nodes: list[IntArray], halos: list[IntArray]
    ) -> dict[str, StoredArray]:
        """Whose nodes the halo's are, and which of the part's own nodes are in others' halos."""
        bounds = np.searchsorted(self.assignment[halos[part]], np.arange(self.n_parts + 1))
        lent = [np.searchsorted(nodes[part], halo[self.assignment[halo] == part]) for halo in halos]
        ends = np.cumsum([0, *(len(rows) for rows in lent)])
        arrays: dict[str, npt.NDArray[Any]] = {
            "halo_bounds": bounds.astype(np.int64),
            "lent": np.concatenate(lent).astype(np.int32),
            "lent_bounds": ends.astype(np.int64),
        }
        return {name: write_array(folder / f"{name}.bin", a) for name, a in arrays.items()}

    def _write_nodes(self, folder: Path, own: IntArray, halo: IntArray) -> dict[str, StoredArray]:
        graph = self.graph
        numbers = np.concatenate([own, halo]).astype(np.int64)
        arrays: dict[str, npt.NDArray[Any]] = {
            "nodes": numbers,
            "degree": np.asarray(graph.degree)[numbers],
            "labels": graph.labels[own].astype(np.int32),
        }
        for name in SPLIT_NAMES:
            index = getattr(graph, f"{name}_index")
            is_own = np.isin(index, own, assume_unique=True)
            arrays[f"{name}_index"] = np.searchsorted(own, index[is_own])
        return {name: write_array(folder / f"{name}.bin", array) for name, array in arrays.items()}

    def _write_manifest(
        self, folder: Path, part: int, arrays: dict[str, StoredArray], summary: PartSummary
    ) -> None:
        graph = self.graph
        manifest = {
            "format": FORMAT,
            "part": part,
            "n_parts": self.n_parts,
            "graph_digest": graph._content_digest,
            "name": graph.name,
            "directed": graph.directed,
            "is_weighted": graph.is_weighted,
            "n_nodes_whole": graph.n_nodes,
            "class_names": list(graph.class_names),
            "n_features": graph.n_features,
            **asdict(summary),
            "arrays": {name: array.to_json() for name, array in arrays.items()},
        }
        (folder / MANIFEST).write_text(json_text(manifest, indent=1), encoding="utf-8")
