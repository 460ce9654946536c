"""How much accuracy sampled mini-batches cost: full batch against samples, ten seeds each.

Prints a line for each data set: mean test accuracy of both, and the difference in points.
"""

from __future__ import annotations

import sys

import numpy as np

from graphconv import load_dataset
from graphconv.fitting import fit_gcn
from graphconv.predictions import accuracy

N_SEEDS = 10
SAMPLED = {"batch_size": 32, "fanout": 10}


def main() -> None:
    for name in sys.argv[1:] or ["cora", "pubmed"]:
        graph = load_dataset(name)
        test = graph.test_index
        means = []
        for overrides in ({}, SAMPLED):
            scores = []
            for seed in range(N_SEEDS):
                fitted = fit_gcn(graph, preset="paper", overrides=overrides, seeds=[seed])
                scores.append(accuracy(graph.labels[test], fitted.probabilities()[test, 0]))
            means.append((100 * np.mean(scores), 100 * np.std(scores)))
        (full, full_std), (sampled, sampled_std) = means
        print(
            f"{name}: full batch {full:.2f} ± {full_std:.2f} %, batches of "
            f"{SAMPLED['batch_size']} with {SAMPLED['fanout']} neighbours a hop {sampled:.2f} ± "
            f"{sampled_std:.2f} %, difference {sampled - full:+.2f} points",
            flush=True,
        )


if __name__ == "__main__":
    main()
