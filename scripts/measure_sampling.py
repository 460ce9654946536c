"""How much accuracy sampled mini-batches cost: full batch against samples, ten seeds each.

python scripts/measure_sampling.py [--json] [DATASET ...]
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from graphconv import load_dataset
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy

N_SEEDS = 10
SAMPLED = {"batch_size": 32, "fanout": 10}


def measure(name: str) -> dict[str, Any]:
    """Mean and deviation of the test accuracy of both, in percent."""
    graph = load_dataset(name)
    test = graph.test_index
    found: dict[str, Any] = {"dataset": name, "n_seeds": N_SEEDS, **SAMPLED}
    for what, overrides in (("full", {}), ("sampled", SAMPLED)):
        scores = []
        for seed in range(N_SEEDS):
            fitted = fit_gcn(graph, preset="paper", overrides=overrides, seeds=[seed])
            scores.append(100 * accuracy(graph.labels[test], fitted.probabilities()[test, 0]))
        found[what] = float(np.mean(scores))
        found[f"{what}_std"] = float(np.std(scores))
    return found


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--json"] or ["cora", "pubmed"]
    results = []
    for name in names:
        found = measure(name)
        results.append(found)
        print(
            f"{name}: full batch {found['full']:.2f} ± {found['full_std']:.2f} %, batches of "
            f"{found['batch_size']} with {found['fanout']} neighbours a hop "
            f"{found['sampled']:.2f} ± {found['sampled_std']:.2f} %",
            file=sys.stderr if "--json" in sys.argv else sys.stdout,
            flush=True,
        )
    if "--json" in sys.argv:
        print(json.dumps({"sampling": results}))


if __name__ == "__main__":
    main()
