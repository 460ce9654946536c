"""Preset "strong" beside a GCN on the citation networks: public splits, random ones, no validation.

python -m scripts.measure_strong                 what is not in measured/strong.json yet
python -m scripts.measure_strong --seeds 10      fewer seeds of each

The settings are chosen on the validation nodes of a split with its first seed, without a look at
test nodes. A result is that of one command: the averaged probabilities of as many trainings as the
preset makes, with seeds one after the other. On a split that stays the same the next result shares
all but one of them, as it does for a user who adds 1 to the seed. It can be interrupted and goes on
where it was; docs/strong.md is made of the result by `scripts/build_strong.py`.
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
from graphconv.models.settings import resolve_runs
from graphconv.training.fit import VALIDATION_FRACTION, FloatMatrix, fit_gcn, hold_out
from graphconv.training.scores import accuracy

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "measured" / "strong.json"
DATASETS = ("cora", "citeseer", "pubmed")
PRESETS = ("strong", "robust")
AT_ONCE = 4  # seeds that train together, where there are many


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
    parser.add_argument("--seeds", type=int, default=100, help="results of each, 100 by default")
    parser.add_argument("--splits", nargs="*", default=list(SPLITS))
    parser.add_argument("--datasets", nargs="*", default=list(DATASETS))
    wanted = parser.parse_args()
    for split in wanted.splits:
        for name in wanted.datasets:
            for preset in PRESETS:
                fill(split, name, preset, wanted.seeds)


def fill(split: str, name: str, preset: str, n_results: int) -> None:
    """Measure the results that are missing and write each down at once."""
    n_runs = resolve_runs(preset, None)
    members: dict[int, FloatMatrix] = {}  # probabilities of the test nodes, by seed
    trained_by: dict[str, Any] = {}  # the settings that gave them
    while True:
        found = read()
        empty = {"test": [], "each": {}, "trained": 0, "seconds": 0.0, "choosing": 0.0}
        row = found.setdefault(f"{split}/{name}/{preset}", empty)
        first = len(row["test"])
        if first >= n_results:
            print(f"{split:20s} {name:9s} {preset:7s} {summary(row)}", flush=True)
            return
        graph = SPLITS[split](name, first)
        if "settings" not in row or split != "public":
            choose(row, graph, preset, first)
        if row["settings"] != trained_by or differs_by_result(graph, split, first):
            members, trained_by = {}, row["settings"]
        started = time.process_time()
        for seeds in missing(members, range(first, first + n_runs), split):
            overrides = Settings.from_json(row["settings"]).to_json()
            fitted = fit_gcn(graph, overrides=overrides, seeds=seeds, calibrate=False)
            each = fitted.probabilities(nodes=graph.test_index)
            members.update({seed: each[:, k] for k, seed in enumerate(seeds)})
            drawn_with = "" if split == "public" else f"{first}/"
            for k, seed in enumerate(seeds):
                row["each"][f"{drawn_with}{seed}"] = percent(graph, each[:, k])
            row["trained"] += len(seeds)
        row["seconds"] = round(row["seconds"] + time.process_time() - started, 2)
        together = np.mean([members[first + k] for k in range(n_runs)], axis=0)
        row["test"].append(percent(graph, together))
        members.pop(first)
        with replacing_file(MEASURED) as temporary:
            temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def choose(row: dict[str, Any], graph: Graph, preset: str, seed: int) -> None:
    """Let the preset settle, as the command would with this seed."""
    started = time.process_time()
    chosen = fit_gcn(graph, preset=preset, seeds=[seed], calibrate=False)
    row["settings"], row["choice"] = chosen.settings.to_json(), chosen.choice
    row["choosing"] = round(row["choosing"] + time.process_time() - started, 2)


def differs_by_result(graph: Graph, split: str, seed: int) -> bool:
    """Whether the nodes trained on depend on the first seed of a result."""
    if split == "public":
        return False
    return split == "random" or len(hold_out(graph, VALIDATION_FRACTION, seed).validation_index) > 0


def missing(members: dict[int, FloatMatrix], wanted: range, split: str) -> list[list[int]]:
    """Seeds to train, those that train together side by side; on the public split some ahead."""
    seeds = [seed for seed in wanted if seed not in members]
    if split == "public" and seeds:
        seeds = list(range(seeds[0], max(seeds[0] + AT_ONCE, seeds[-1] + 1)))
        return [seeds[k : k + AT_ONCE] for k in range(0, len(seeds), AT_ONCE)]
    return [seeds] if seeds else []


def percent(graph: Graph, probabilities: FloatMatrix) -> float:
    return round(100 * accuracy(graph.labels[graph.test_index], probabilities), 2)


def read() -> dict[str, Any]:
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}


def summary(row: dict[str, Any]) -> str:
    results, each = np.array(row["test"]), np.array([*row["each"].values()])
    seconds = row["seconds"] / row["trained"]
    return (
        f"{results.mean():.2f} +- {results.std():.2f} % in {len(results)} results; each of "
        f"{len(each)} trainings {each.mean():.2f} +- {each.std():.2f} %, {seconds:.2f} s"
    )


if __name__ == "__main__":
    main()
