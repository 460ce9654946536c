"""How time grows with the size of the work, and shrinks with the number of cores; and memory.

python benchmarks/growth.py    prints the peak of a training on the large shape, for `memory`
"""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphconv.graph import Graph, adjacency_from_edges
from shapes import SHAPES, Ours, Shape, epoch_seconds
from training import threads

# Half of the nodes are labelled: every row is computed.
BASE = Shape(20_000, 100_000, 128, (64,), 10, 10_000)
GROWTH: dict[str, dict[int, Shape]] = {
    "nodes": {
        n: replace(BASE, n_nodes=n, n_edges=5 * n, n_train=n // 2)
        for n in (2_000, 6_000, 20_000, 60_000, 200_000)
    },
    "edges": {n: replace(BASE, n_edges=n) for n in (20_000, 60_000, 200_000, 600_000, 2_000_000)},
    "features": {n: replace(BASE, n_features=n) for n in (16, 50, 160, 500, 1_600)},
    "hidden": {n: replace(BASE, hidden=(n,)) for n in (8, 25, 80, 250, 800)},
    "layers": {n: replace(BASE, hidden=(16,) * (n - 1)) for n in (2, 6, 20, 60, 200)},
}
MOST_SHARES = 32  # kMostShares in native/pool.cpp
CHUNKS = Path(__file__).resolve().parent.parent / "native" / "chunks.h"


def growth(quick: bool) -> dict[str, Any]:
    """The slope of an epoch's time in log-log, and the time farthest above a fitted line."""
    results = {}
    for what, rows in GROWTH.items():
        sizes = list(rows)[:3] if quick else list(rows)
        seconds = [epoch_seconds(Ours(rows[n].graph(), rows[n].hidden), 5) for n in sizes]
        slope, begin = np.polyfit(np.log(sizes), np.log(seconds), 1)
        # Something that every epoch takes, and something for each of what there is more of.
        each, always = np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))
        line = always + each * np.array(sizes)
        power_law = np.exp(begin) * np.array(sizes, dtype=float) ** slope
        results[what] = {
            "sizes": sizes,
            "seconds": seconds,
            "slope": float(slope),
            "largest_step": float((seconds / line).max()),
            "largest_step_log": float((seconds / power_law).max()),
        }
    return results


def cores(quick: bool) -> dict[str, Any]:
    """An epoch on one thread and on two; and what two processes, each on one, take together."""
    results = {}
    for name, shape in SHAPES.items():
        if quick and name == "large":
            continue
        ours = Ours(shape.graph(), shape.hidden)
        by_threads: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(3):
            for n, own in by_threads.items():
                with threads(n):
                    own.append(epoch_seconds(ours, 2))
        one, two = (float(np.median(own)) for own in by_threads.values())
        both = two_processes(name)
        results[name] = {
            "one_thread": one,
            "two_threads": two,
            "gain": one / two,
            "machine_gain": 2 * one / both,
        }
    return results


def two_processes(name: str) -> float:
    """Seconds of an epoch on one thread while another process does the same."""
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(2), context.Queue()
    own = [context.Process(target=_one_of_two, args=(name, barrier, found)) for _ in range(2)]
    for process in own:
        process.start()
    seconds = [found.get() for _ in own]
    for process in own:
        process.join()
    return float(np.mean(seconds))


def _one_of_two(name: str, barrier: Any, found: Any) -> None:
    shape = SHAPES[name]
    ours = Ours(shape.graph(), shape.hidden)
    with threads(1):
        ours(0)
        barrier.wait()
        found.put(epoch_seconds(ours, 3))


def schedule(quick: bool) -> dict[str, Any]:
    """How evenly a sum over neighbours is cut: the largest share of a thread, over the mean.

    Chunks are cut as native/chunks.h cuts them. Each thread begins with some of its own, and takes
    those of others when it is done.
    """
    constants = {
        name: int(value)
        for name, value in re.findall(r"constexpr \S+ (k\w+) = (\d+);", CHUNKS.read_text())
    }
    graphs = {name: shape.graph() for name, shape in SHAPES.items() if not quick or name != "large"}
    graphs["power law"] = power_law(2_000 if quick else 100_000)
    results: dict[str, Any] = {}
    for name, graph in graphs.items():
        lengths = np.diff(graph.adjacency.indptr) + 1
        shares = {n: chunk_shares(lengths, n, constants) for n in (8, 32, 64)}
        results[name] = {
            "largest_row": float(lengths.max() / lengths.sum()),
            "n_chunks": {str(n): len(own) for n, own in shares.items()},
            "imbalance": {str(n): imbalance(own, n) for n, own in shares.items()},
        }
    return results


def chunk_shares(lengths: Any, n_threads: int, constants: dict[str, int]) -> Any:
    """The work of each chunk of a sum of 64 columns, for so many threads."""
    done = np.cumsum(lengths)
    n = int(done[-1]) * (64 + 4) // constants["kChunkWork"]
    least = constants["kChunksPerThread"] * min(n_threads, max(1, n))
    n_chunks = least if n < least else min(n, constants["kMaxChunks"])
    bounds = np.searchsorted(done * n_chunks, np.arange(1, n_chunks) * done[-1]) + 1
    return np.diff(np.concatenate(([0], done[np.unique(bounds) - 1], done[-1:])))


def power_law(n_nodes: int) -> Graph:
    """Each node is joined to five that are drawn in proportion to their degree (Barabasi)."""
    rng = np.random.default_rng(0)
    ends = np.empty(10 * n_nodes, dtype=np.int64)
    for node in range(n_nodes):
        first = 10 * node
        ends[first : first + 10 : 2] = node
        chosen = rng.integers(max(1, first), size=5)
        ends[first + 1 : first + 10 : 2] = ends[chosen] if node else 0
    return Graph(adjacency_from_edges(ends[::2], ends[1::2], n_nodes=n_nodes))


def imbalance(work: Any, n_threads: int) -> float:
    """The time of all over that of an even cut; chunks are taken as native/pool.cpp has it."""
    n_shares = min(n_threads, MOST_SHARES)
    bounds = np.arange(n_shares + 1) * len(work) // n_shares
    shares = [work[first:last].tolist()[::-1] for first, last in itertools.pairwise(bounds)]
    threads = [(0, thread) for thread in range(n_threads)]  # busy until then
    for _ in range(len(work)):
        busy, thread = heapq.heappop(threads)
        order = ((thread + k) % n_shares for k in range(n_shares))
        chunk = next(shares[own].pop() for own in order if shares[own])
        heapq.heappush(threads, (busy + chunk, thread))
    return float(max(busy for busy, _ in threads) * n_threads / work.sum())


def memory(quick: bool) -> dict[str, float]:
    """Peak of a process that trains on the large shape, over what it must hold."""
    name = "embeddings" if quick else "large"
    shape = SHAPES[name]
    run = subprocess.run(
        [sys.executable, __file__, name], check=True, capture_output=True, text=True
    )
    alone, peak, graph_bytes = (int(word) for word in run.stdout.split())
    widths = [*shape.hidden, shape.n_classes]
    pairs = zip([shape.n_features, *shape.hidden], widths, strict=True)
    least = graph_bytes + 4 * (
        shape.n_nodes * (shape.n_features + sum(widths)) + sum(a * b + b for a, b in pairs)
    )
    return {
        "process_bytes": alone,
        "peak_bytes": peak,
        "least_bytes": least,
        "ratio": (peak - alone) / least,
    }


def _print_peak(name: str) -> None:
    alone = peak_bytes()
    shape = SHAPES[name]
    graph = shape.graph()
    ours = Ours(graph, shape.hidden)
    for epoch in range(3):
        ours(epoch)
    adjacency = graph.adjacency
    print(alone, peak_bytes(), adjacency.indptr.nbytes + 2 * adjacency.indices.nbytes)


def peak_bytes() -> int:
    # What getrusage says begins with the parent's.
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(line)


if __name__ == "__main__":
    _print_peak(sys.argv[1])
