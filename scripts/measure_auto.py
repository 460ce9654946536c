"""How near preset "auto" comes to the best single setting on generated graphs of every kind.

python -m scripts.measure_auto [GRAPHS]    graphs of each kind, 4 by default; about 1 minute each

The best single setting of a kind is the one of a grid of 36 with the highest mean test accuracy
over its graphs: nobody can know it beforehand, and it owes something to luck. Finished graphs are
kept in runs/auto.jsonl and not measured again.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.generated_graphs import KINDS, generate, split

from graphconv.graph import Graph
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy

LOG = Path("runs/auto.jsonl")
FIRST_SEED = 20  # lower ones were used to design the search
REGULARISATION = ((0.8, 5e-3), (0.5, 5e-4), (0.2, 5e-5))


def test_accuracy(graph: Graph, seed: int, **options: Any) -> float:
    shares = fit_gcn(graph, seeds=[seed], calibrate=False, **options).probabilities()[:, 0]
    index = graph.test_index
    return 100 * accuracy(graph.labels[index], shares[index])


def grid(graph: Graph) -> list[dict[str, Any]]:
    has_features = graph.features is not None
    rules = (
        ("renormalised", "first-order", "none") if has_features else ("renormalised", "first-order")
    )
    scalings = ("l2", "standard") if has_features else ("auto",)
    return [
        {
            "propagation": rule,
            "scaling": scaling,
            "dropout": dropout,
            "weight_decay": decay,
            "hidden": (64,) * depth,
        }
        for rule, scaling, (dropout, decay), depth in itertools.product(
            rules, scalings, REGULARISATION, (1, 2)
        )
    ]


def measure(kind: str, seed: int) -> dict[str, Any]:
    graph = split(generate(kind, seed), seed, n_validation=100)
    begin = time.process_time()
    fit_gcn(graph, preset="auto", seeds=[seed])
    seconds = time.process_time() - begin
    return {
        "kind": kind,
        "seed": seed,
        "seconds": seconds,
        "auto": test_accuracy(graph, seed, preset="auto"),
        "robust": test_accuracy(graph, seed),
        "single": [test_accuracy(graph, seed, overrides=overrides) for overrides in grid(graph)],
    }


def main() -> None:
    n_graphs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    LOG.parent.mkdir(exist_ok=True)
    lines = LOG.read_text().splitlines() if LOG.exists() else []
    found = {(row["kind"], row["seed"]): row for row in map(json.loads, lines)}
    print("kind                        graphs  robust    auto  best single  behind  CPU seconds")
    for kind in KINDS:
        rows = []
        for seed in range(FIRST_SEED, FIRST_SEED + n_graphs):
            if (kind, seed) not in found:
                found[kind, seed] = measure(kind, seed)
                with LOG.open("a") as log:
                    log.write(json.dumps(found[kind, seed]) + "\n")
            rows.append(found[kind, seed])
        auto, robust, seconds = (
            np.mean([row[key] for row in rows]) for key in ("auto", "robust", "seconds")
        )
        best = np.mean([row["single"] for row in rows], axis=0).max()
        print(
            f"{kind:28}{n_graphs:6}{robust:8.1f}{auto:8.1f}{best:13.1f}{best - auto:8.1f}"
            f"{seconds:13.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
