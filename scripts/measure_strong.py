"""Preset "strong" beside a GCN on the citation networks: public splits, random ones, no validation.

python -m scripts.measure_strong                 what is not in measured/strong.json yet
python -m scripts.measure_strong --seeds 10      fewer seeds of each

The settings are chosen on the validation nodes of a split with its first seed, without a look at
test nodes, and then trained with every seed. It can be interrupted and goes on where it was;
docs/strong.md is made of the result by `scripts/build_strong.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from graphconv import Graph, Settings, load_dataset
from graphconv.graph.splits import random_split
from graphconv.io.files import replacing_file
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "measured" / "strong.json"
DATASETS = ("cora", "citeseer", "pubmed")
PRESETS = ("strong", "robust")
AT_ONCE = 4  # seeds that train together


def public(name: str, seed: int) -> Graph:
    return load_dataset(name)


def drawn(name: str, seed: int) -> Graph:
    """20 labels of each class, 500 validation and 1,000 test nodes, by chance."""
    sizes = {"n_per_class": 20, "n_validation": 500, "n_test": 1000}
    return random_split(load_dataset(name), **sizes, random_state=seed)


def labels_only(name: str, seed: int) -> Graph:
    """The public split without its validation nodes: what is needed is held out of the training."""
    graph = load_dataset(name)
    return graph.with_split(graph.train_index, [], graph.test_index)


SPLITS = {"public": public, "random": drawn, "no validation nodes": labels_only}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--splits", nargs="*", default=list(SPLITS))
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    wanted = parser.parse_args()
    for split in wanted.splits:
        for name in wanted.datasets:
            for preset in PRESETS:
                fill(split, name, preset, wanted.seeds)


def fill(split: str, name: str, preset: str, n_seeds: int) -> None:
    """Measure the seeds that are missing, some at a time, and write each down at once."""
    while True:
        found = read()
        row = found.setdefault(f"{split}/{name}/{preset}", {"test": [], "seconds": 0.0})
        first = len(row["test"])
        if first >= n_seeds:
            print(f"{split:20s} {name:9s} {preset:7s} {summary(row)}", flush=True)
            return
        started = time.process_time()
        same_graph = split != "random"
        seeds = list(range(first, min(first + (AT_ONCE if same_graph else 1), n_seeds)))
        graph = SPLITS[split](name, seeds[0])
        if not same_graph or "settings" not in row:
            chosen = fit_gcn(graph, preset=preset, seeds=seeds[:1], calibrate=False)
            row["settings"], row["choice"] = chosen.settings.to_json(), chosen.choice
            row["choosing"] = row.get("choosing", 0.0) + time.process_time() - started
        started = time.process_time()
        overrides = Settings.from_json(row["settings"]).to_json()
        fitted = fit_gcn(graph, overrides=overrides, seeds=seeds, calibrate=False)
        each = fitted.probabilities(nodes=graph.test_index)
        labels = graph.labels[graph.test_index]
        row["test"] += [round(100 * accuracy(labels, each[:, k]), 2) for k in range(len(seeds))]
        row["seconds"] = round(row["seconds"] + time.process_time() - started, 2)
        with replacing_file(MEASURED) as temporary:
            temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read() -> dict[str, Any]:
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}


def summary(row: dict[str, Any]) -> str:
    runs = np.array(row["test"])
    each = row["seconds"] / len(runs)
    return f"{runs.mean():.2f} +- {runs.std():.2f} %  {len(runs)} seeds, {each:.2f} s each"


if __name__ == "__main__":
    main()
