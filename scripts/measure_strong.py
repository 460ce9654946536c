"""Preset "strong" beside a GCN on the citation networks: public splits, random ones, no validation.

python -m scripts.measure_strong                 what is not in measured/strong.json yet
python -m scripts.measure_strong --seeds 10      fewer seeds of each

The method is chosen on the validation nodes of a split with its first seed, without a look at test
nodes. A result is that of one command: the averaged probabilities of as many trainings as the
preset makes, with seeds one after the other, of each member where a committee was chosen. On a
split that stays the same the next result shares all but one of them, as it does for a user who adds
1 to the seed. It can be interrupted and goes on where it was; docs/strong.md is made of the result
by `scripts/build_strong.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from graphconv import Graph, load_dataset
from graphconv.estimators.baselines.committee import shares_that_suit
from graphconv.estimators.candidates import DEFAULT, Candidate
from graphconv.estimators.choice import Choice, Search
from graphconv.estimators.fitted_method import fit_method
from graphconv.graph.splits import random_split
from graphconv.io.files import replacing_file
from graphconv.training.calibration import fit_calibration
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
    chosen: Choice | None = None
    trained = Trainings()
    while True:
        found = read()
        empty = {"test": [], "each": {}, "trained": 0, "seconds": 0.0, "choosing": 0.0}
        row = found.setdefault(f"{split}/{name}/{preset}", empty)
        seed = len(row["test"])
        if seed >= n_results:
            print(f"{split:20s} {name:9s} {preset:7s} {summary(row)}", flush=True)
            return
        graph = SPLITS[split](name, seed)
        if chosen is None or differs_by_result(graph, split, seed):
            started = time.process_time()
            # What was chosen for the first result of a split serves all.
            first = seed if differs_by_result(graph, split, seed) else 0
            chosen, trained = choose(graph, preset, first), Trainings()
            row["choice"] = chosen.reason
            row["choosing"] = round(row["choosing"] + time.process_time() - started, 2)
        started = time.process_time()
        ahead = AT_ONCE if split == "public" else 1
        together = answer(chosen, seed, trained, ahead)
        row["seconds"] = round(row["seconds"] + time.process_time() - started, 2)
        drawn_with = "" if split == "public" else f"{seed}/"
        for number, own in enumerate(trained.of_members):
            for own_seed, said in own.items():
                key = f"{drawn_with}{own_seed}" + (f", member {number + 1}" if number else "")
                row["trained"] += key not in row["each"]
                row["each"][key] = percent(chosen.graph, said[len(chosen.graph.validation_index) :])
        row["test"].append(percent(chosen.graph, together))
        with replacing_file(MEASURED) as temporary:
            temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def choose(graph: Graph, preset: str, seed: int) -> Choice:
    """Let the preset settle, as the command would with this seed."""
    if preset == "strong":
        search = Search(graph, preset, seed=seed)
        search.run()
        return search.conclude()
    graph = hold_out(graph, VALIDATION_FRACTION, seed)
    nobody, nothing = np.empty(0, dtype=np.int64), np.empty((0, graph.n_classes))
    return Choice(DEFAULT, graph, "", Search(graph, seed=seed).measure, nobody, nothing)


class Trainings:
    """What has been trained of each member: probabilities of validation and test nodes, by seed."""

    def __init__(self) -> None:
        self.of_members: list[dict[int, FloatMatrix]] = []

    def of(self, number: int) -> dict[int, FloatMatrix]:
        while len(self.of_members) <= number:
            self.of_members.append({})
        return self.of_members[number]


def answer(chosen: Choice, seed: int, trained: Trainings, ahead: int) -> FloatMatrix:
    """Probabilities of the test nodes, as `chosen.fit([seed])` gives them.

    Seeds that are trained already are not trained again; of those that are not, `ahead` at a time.
    """
    graph = chosen.graph
    n_judges, labels = len(graph.validation_index), graph.labels[graph.validation_index]
    said = []
    for number, member in enumerate(chosen.candidate.members or (chosen.candidate,)):
        own = trained.of(number)
        wanted = range(seed, seed + member.runs)
        missing = [one for one in wanted if one not in own]
        last = max(len(missing), ahead) if missing else 0
        seeds = list(range(missing[0], missing[0] + last)) if missing else []
        for some in (seeds[k : k + AT_ONCE] for k in range(0, len(seeds), AT_ONCE)):
            own.update(zip(some, each_of(member, graph, some), strict=True))
        mean = np.mean([own[one] for one in wanted], axis=0)
        calibration = fit_calibration(mean[:n_judges], labels) if n_judges else None
        said.append(mean if calibration is None else calibration.apply(mean, False))
    shares = shares_that_suit(np.stack([own[np.arange(n_judges), labels] for own in said], axis=1))
    mixed: FloatMatrix = np.average(said, axis=0, weights=shares)
    return mixed[n_judges:]


def each_of(member: Candidate, graph: Graph, seeds: list[int]) -> list[FloatMatrix]:
    """What a training with each seed says of validation and test nodes."""
    nodes = np.concatenate([graph.validation_index, graph.test_index])
    graph = member.view(graph)
    if not member.is_network:
        fitted = fit_method(graph, member.model, member.params, tuple(seeds), calibrate=False)
        return list(fitted.each[nodes].swapaxes(0, 1))
    overrides = {**member.params, "model": member.model}
    trained = fit_gcn(
        graph, overrides=overrides, seeds=seeds, calibrate=False, validation_fraction=0
    )
    return list(trained.probabilities(nodes=nodes).swapaxes(0, 1))


def differs_by_result(graph: Graph, split: str, seed: int) -> bool:
    """Whether the nodes trained on depend on the first seed of a result."""
    if split == "public":
        return False
    return split == "random" or len(hold_out(graph, VALIDATION_FRACTION, seed).validation_index) > 0


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
