"""Trains on a random graph, and prints the memory that was estimated and the peak that was used.

python scripts/measure_estimate.py N_NODES

A process has one peak, so each size needs a process of its own.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from graphconv.engine.memory_estimate import estimate_memory
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.models.settings import Settings
from graphconv.storage.memory import peak_memory
from graphconv.training.fit import fit_gcn


def measure(n_nodes: int) -> dict[str, int]:
    """Train as the command line would: half of the nodes, a quarter for validation."""
    rng = np.random.default_rng(0)
    graph = Graph(
        adjacency_from_edges(*rng.integers(n_nodes, size=(2, 10 * n_nodes)), n_nodes=n_nodes),
        rng.standard_normal((n_nodes, 64), dtype=np.float32),
        labels=np.arange(n_nodes) % 5,
        train_index=np.arange(0, n_nodes, 2),
        validation_index=np.arange(1, n_nodes, 4),
    )
    estimate = estimate_memory(graph, Settings(max_epochs=3))
    fit_gcn(graph, overrides={"max_epochs": 3}).probabilities()
    return {"estimated": estimate.total, "measured": peak_memory()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
