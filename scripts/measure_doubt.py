"""How many wrong labels are found: 5 % of the labels of each citation set are flipped.

python -m scripts.measure_doubt [SEEDS]    5 by default

All nodes are labelled: 60 % for training, 20 % for validation, 20 % for tests, and labels of all
three are flipped to another class at random. The most doubtful labels are looked at, as many as
were flipped: precision is the share of them that was flipped, recall the share of the flipped ones
that is among them. The last column is the recall of looking at twice as many.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

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


def main() -> None:
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{100 * SHARE:g} % of labels flipped, mean of {n_seeds} seeds")
    print(f"{'':10}{'flipped':>9}{'precision':>11}{'recall':>9}{'recall, twice as many':>24}")
    for name in ("cora", "citeseer", "pubmed"):
        rows = []
        for seed in range(n_seeds):
            graph, flipped = flip(load_dataset(name), seed)
            split = fraction_split(graph, random_state=seed)
            found = GCNClassifier("paper", random_state=seed).fit(split).doubtful_labels()
            first = [one.node in flipped for one in found[: len(flipped)]]
            twice = [one.node in flipped for one in found[: 2 * len(flipped)]]
            n_flipped = len(flipped)
            rows.append((n_flipped, np.mean(first), sum(first) / n_flipped, sum(twice) / n_flipped))
        n_flipped, precision, recall, wider = np.mean(rows, axis=0)
        print(
            f"{name:10}{n_flipped:9.0f}{100 * precision:9.1f} %{100 * recall:7.1f} %"
            f"{100 * wider:22.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
