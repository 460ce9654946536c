"""What features in half precision save and cost: peak memory, and test accuracy beside float32.

python -m scripts.measure_half_precision memory [N_FEATURES]
python -m scripts.measure_half_precision accuracy [FOLDER]

Memory: a graph of 169,343 nodes and 1.17 million edges, hidden layers of 256, two epochs of the
full batch or of mini-batches, each in a process of its own. Accuracy: 10 trainings of each graph,
of the npz files of FOLDER with features fuller than a quarter and of generated ones with dense
features; both precisions have the same seeds and splits.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scripts.measure_choice import generated, split_of

from graphconv import Graph
from graphconv.graph import adjacency_from_edges
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy

N_NODES, N_EDGES, N_CLASSES, N_TRAIN = 169_343, 1_170_000, 40, 90_941
KIND = "dense embeddings"
N_RUNS = 10


def large_graph(n_features: int, precision: str) -> Graph:
    rng = np.random.default_rng(0)
    ends = rng.integers(N_NODES, size=(2, N_EDGES))
    features = np.empty((N_NODES, n_features), dtype=precision)
    for first in range(0, N_NODES, 10_000):
        part = features[first : first + 10_000]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    labels = rng.integers(N_CLASSES, size=N_NODES)
    adjacency = adjacency_from_edges(*ends, n_nodes=N_NODES, self_loops="drop")
    train, validation = np.arange(N_TRAIN), np.arange(N_TRAIN, N_TRAIN + 29_799)
    return Graph(adjacency, features, labels, train_index=train, validation_index=validation)


def peak(n_features: int, precision: str, batch_size: int | None) -> tuple[float, float]:
    """Megabytes of the process once the graph is there, and at most."""
    graph = large_graph(n_features, precision)
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    overrides = {"hidden": (256, 256), "max_epochs": 2}
    if batch_size is not None:
        overrides |= {"batch_size": batch_size, "fanout": (5, 5, 5)}
    fit_gcn(graph, overrides=overrides, calibrate=False, auto=False)
    return before / 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def measure_memory(n_features: int) -> None:
    context = multiprocessing.get_context("spawn")
    for batch_size in (None, 4096):
        for precision in ("float32", "float16"):
            with context.Pool(1) as pool:
                held, most = pool.apply(peak, (n_features, precision, batch_size))
            how = "full batch" if batch_size is None else f"batches of {batch_size:,}"
            print(f"{n_features} features, {how}, {precision}: {held:,.0f} MB held before "
                  f"training, {most:,.0f} MB at most", flush=True)  # fmt: skip


def measure_accuracy(folder: Path | None) -> None:
    makers = {KIND: lambda number: generated(KIND, number)}
    for path in [] if folder is None else sorted(folder.glob("*.npz")):
        features = split_of(path, 0).features
        if sp.issparse(features) and features.nnz > 0.25 * np.prod(features.shape):
            makers[path.stem] = lambda number, path=path: split_of(path, number)
    for name, make in makers.items():
        scores = []
        for number in range(N_RUNS):
            graph = make(number)
            dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
            wanted = graph.labels[graph.test_index]
            row = []
            for kind in (np.float32, np.float16):
                fitted = fit_gcn(replace(graph, features=dense.astype(kind)), seeds=[number])
                found = fitted.ensemble_probabilities()[graph.test_index]
                row.append(100 * accuracy(wanted, found))
            scores.append(row)
        single, half = np.mean(scores, axis=0)
        spread = np.std(np.diff(scores, axis=1), ddof=1) / np.sqrt(N_RUNS)
        print(f"{name}: float32 {single:.2f}, float16 {half:.2f}, difference {half - single:+.2f} "
              f"+- {spread:.2f}, {N_RUNS} runs", flush=True)  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, *more = sys.argv[1:]
    if what == "memory":
        measure_memory(int(more[0]) if more else 128)
    else:
        measure_accuracy(Path(more[0]) if more else None)
