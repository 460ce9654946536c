"""Numbered edges become a stored adjacency matrix: sorted by DuckDB, written in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray
from graphconv.io.progress import counter
from graphconv.io.wording import count, made_undirected
from graphconv.storage._edge_merge import NODE_BITS, EdgeMerge, Entries
from graphconv.storage.stored_graph import ArrayWriter, write_array

if TYPE_CHECKING:
    from graphconv.storage.ingest import Work

_BATCH_ROWS = 1 << 20


def write_adjacency(work: Work) -> None:
    """Write indptr, indices, weights and degrees; count self-loops and isolated nodes."""
    work.database.run("DROP TABLE IF EXISTS listed")
    found, options = work.found, work.options
    has_weight = found["has_weight"]
    is_sum = options.duplicates == "sum" or (options.duplicates is None and has_weight)
    merge = EdgeMerge(has_weight, is_sum)
    sink = _AdjacencyWriter(work, found["n_nodes"])
    advance = counter(work.progress, "sorting and writing edges", None)
    for entries in merge.entries(_sorted_edges(work, has_weight, is_sum)):
        sink.append(entries)
        advance(len(entries.rows))
    sink.close()
    _tell(work, merge, is_sum)


def _sorted_edges(
    work: Work, has_weight: bool, is_sum: bool
) -> Iterator[tuple[IntArray, npt.NDArray[Any] | None]]:
    """Keys and weights of all edges and, in undirected graphs, of their reverses."""
    weight = ", weight" if has_weight else ""
    shift = NODE_BITS + 1
    where = "WHERE s <> t" if work.options.self_loops == "drop" else ""
    query = f"SELECT (s << {shift}) | (t << 1) AS key{weight} FROM numbered {where}"
    if not work.options.directed:
        query += (
            f" UNION ALL SELECT (t << {shift}) | (s << 1) | 1 AS key{weight} FROM numbered "
            "WHERE s <> t"
        )
    # Weights too: a sum must not depend on the order in which threads meet the edges.
    query += " ORDER BY key" + weight
    for batch in work.database.batches(query, _BATCH_ROWS):
        key = batch.column(0).to_numpy()
        yield key, batch.column(1).to_numpy() if has_weight else None


class _AdjacencyWriter:
    """Appends entries to the arrays on disk; only arrays of one number per node are in memory."""

    def __init__(self, work: Work, n_nodes: int) -> None:
        self.work = work
        self.n_nodes = n_nodes
        self.indices = ArrayWriter(work.folder / "adjacency.indices.bin", "<i4")
        self.values = ArrayWriter(work.folder / "adjacency.data.bin", "<f4")
        self.n_entries = np.zeros(n_nodes, dtype=np.int64)
        self.degree = np.zeros(n_nodes)
        self.has_loop = np.zeros(n_nodes, dtype=bool)
        self.has_incoming = np.zeros(n_nodes if work.options.directed else 0, dtype=bool)
        self.is_weighted = False

    def append(self, entries: Entries) -> None:
        rows, columns, values = entries
        if not len(rows):
            return
        self.indices.append(columns.astype(np.int32))
        first, n_rows = int(rows[0]), int(rows[-1] - rows[0]) + 1
        span = slice(first, first + n_rows)
        self.n_entries[span] += np.bincount(rows - first, minlength=n_rows)
        if values is not None:
            self.values.append(values)
            self.is_weighted |= bool((values != 1).any())
            # Entry after entry, as a whole matrix would be added up.
            np.add.at(self.degree, rows, values.astype(np.float64))
        is_loop = rows == columns
        self.has_loop[rows[is_loop]] = True
        if self.work.options.directed:
            self.has_incoming[columns[~is_loop]] = True

    def close(self) -> None:
        folder, found = self.work.folder, self.work.found
        indptr = np.zeros(self.n_nodes + 1, dtype=np.int64)
        np.cumsum(self.n_entries, out=indptr[1:])
        if not self.values.n_rows:
            self.degree = self.n_entries.astype(np.float64)
        values = self.values.close()
        arrays = {
            "adjacency.indptr": write_array(folder / "adjacency.indptr.bin", indptr),
            "adjacency.indices": self.indices.close(),
            "adjacency.data": values,
            "degree": write_array(folder / "degree.bin", self.degree),
        }
        if not self.is_weighted:
            # All are 1, which nobody needs to store.
            (folder / values.file).unlink()
            del arrays["adjacency.data"]
        n_entries, n_loops = int(indptr[-1]), int(self.has_loop.sum())
        n_others = self.n_entries - self.has_loop
        is_isolated = n_others == 0
        if self.work.options.directed:
            is_isolated &= ~self.has_incoming
        is_directed = self.work.options.directed
        found["arrays"] = {name: spec.to_json() for name, spec in arrays.items()}
        found["n_entries"] = n_entries
        found["n_edges"] = n_entries if is_directed else (n_entries - n_loops) // 2 + n_loops
        found["n_self_loops"] = n_loops
        found["n_isolated"] = int(is_isolated.sum())
        found["is_weighted"] = self.is_weighted


def _tell(work: Work, merge: EdgeMerge, is_sum: bool) -> None:
    """The remarks that reading the tables whole would make."""
    n_dropped = 0
    if work.options.self_loops == "drop":
        n_dropped = int(work.database.value("SELECT count(*) FROM numbered WHERE s = t"))
    if n_dropped:
        work.note(f"{count(n_dropped, 'self-loop')} dropped")
    if merge.n_repeated:
        what = "added up" if is_sum else "counted once"
        work.note(f"{count(merge.n_repeated, 'repeated edge')} {what}")
    if merge.n_zero:
        work.note(f"{count(merge.n_zero, 'edge')} of weight 0 left out")
    if merge.n_changed and not work.options.directed:
        work.note(made_undirected(merge.n_changed))
    if not work.found["n_entries"]:
        work.note("no edges: the graph is empty, the model works as a multi-layer perceptron")
