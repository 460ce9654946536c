"""How many wrong labels are found: 5 % of the labels of each citation set are flipped.

python -m scripts.measure_doubt [SEEDS]    5 by default

All nodes are labelled: 60 % for training, 20 % for validation, 20 % for tests, and labels of all
three are flipped to another class at random. The most doubtful labels are looked at, as many as
were flipped: precision is the share of them that was flipped, recall the share of the flipped ones
that is among them. It can be interrupted, and goes on from measured/doubt.jsonl;
`scripts/build_evidence.py` makes the table.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scripts.measured_lines import add_missing

from graphconv import GCNClassifier, fraction_split, load_dataset
from graphconv.graph import Graph

SHARE = 0.05


def flip(graph: Graph, seed: int) -> tuple[Graph, set[int]]:
    """The graph with some labels changed to another class, and whose they are."""
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(graph.is_labelled)
    flipped = rng.choice(known, round(SHARE * len(known)), replace=False)
    labels = graph.labels.copy()
    step = rng.integers(1, graph.n_classes, len(flipped))
    labels[flipped] = (labels[flipped] + step) % graph.n_classes
    numbered = replace(graph, labels=labels, node_ids=np.arange(graph.n_nodes))
    return numbered, set(flipped.tolist())


def measure(name: str, seed: int) -> dict[str, Any]:
    """Shares of the flipped labels among so many of the most doubtful, and among twice as many."""
    graph, flipped = flip(load_dataset(name), seed)
    split = fraction_split(graph, random_state=seed)
    found = GCNClassifier("paper", random_state=seed).fit(split).doubtful_labels()
    first = found[: len(flipped)]
    n_first = sum(one.node in flipped for one in first)
    n_twice = sum(one.node in flipped for one in found[: 2 * len(flipped)])
    return {
        "n_flipped": len(flipped),
        "precision": round(n_first / len(first), 4),
        "recall": round(n_first / len(flipped), 4),
        "recall_twice": round(n_twice / len(flipped), 4),
    }


def main() -> None:
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for seed in range(n_seeds):
        for name in ("cora", "citeseer", "pubmed"):
            add_missing("doubt", {"graph": name, "split": seed}, partial(measure, name, seed))
        print(f"{seed + 1} of {n_seeds} seeds", flush=True)


if __name__ == "__main__":
    main()
