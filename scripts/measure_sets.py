"""How often prediction sets hold the true class, and how large they are.

python -m scripts.measure_sets [SPLITS]    100 by default

Three citation sets with the paper's recipe and generated graphs with the robust settings; 20
training nodes of each class, 200 validation nodes of any, drawn anew for each split. Beside the
sets of graphconv (every label judged by a model that has not seen it, smoothed over neighbours)
stand those of plain split conformal prediction: a fifth of the labels set aside for the threshold,
no smoothing. Splits come one after the other over all graphs; it can be interrupted, and goes on
from measured/sets.jsonl. `scripts/build_evidence.py` makes the table.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

import numpy as np
from scripts.measured_lines import add_missing
from tests.generated_graphs import KINDS, generate, split

from graphconv import load_dataset, random_split
from graphconv.graph import Graph
from graphconv.results.prediction_sets import SetRule, find_set_rule
from graphconv.training.fit import fit_gcn
from graphconv.training.out_of_fold import fit_folds, make_folds, same_training

COVERAGE = 0.9


def split_of(name: str, seed: int) -> Graph:
    if name in KINDS:
        return split(generate(name, seed, n_nodes=1000), seed, n_validation=200)
    return random_split(load_dataset(name), n_validation=200, random_state=seed)


def preset_of(name: str) -> str:
    return "robust" if name in KINDS else "paper"


def cross_conformal(graph: Graph, name: str, seed: int) -> np.ndarray:
    fitted = fit_gcn(graph, preset=preset_of(name), seeds=[seed])
    rule = find_set_rule(fit_folds(graph, same_training(fitted), seed), COVERAGE)
    return rule.apply(graph, fitted.ensemble_probabilities())


def split_conformal(graph: Graph, name: str, seed: int) -> np.ndarray:
    """A fifth of the labels is held out; the threshold is what 90 % of them pass."""
    part = make_folds(graph, seed)[0]
    shares = fit_gcn(part, preset=preset_of(name), seeds=[seed]).ensemble_probabilities()
    held_out = part.test_index
    of_label = np.sort(shares[held_out, graph.labels[held_out]].astype(np.float64))
    n_below = len(of_label) - math.ceil(COVERAGE * (len(of_label) + 1) - 1e-9)
    rule = SetRule(COVERAGE, float(of_label[n_below]), 0.0, len(of_label))
    return rule.apply(graph, shares)


def figures(graph: Graph, sets: np.ndarray) -> list[float]:
    """Coverage in percent, mean size, singletons in percent; of test nodes."""
    test = graph.test_index
    size = sets[test].sum(axis=1)
    covered = sets[test, graph.labels[test]].mean()
    found = (100 * covered, size.mean(), 100 * (size == 1).mean())
    return [round(float(number), 4) for number in found]


def measure(name: str, seed: int) -> dict[str, Any]:
    graph = split_of(name, seed)
    return {
        "smoothed": figures(graph, cross_conformal(graph, name, seed)),
        "plain": figures(graph, split_conformal(graph, name, seed)),
        "n_labels": len(graph.train_index) + len(graph.validation_index),
        "n_test": len(graph.test_index),
    }


def main() -> None:
    n_splits = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for seed in range(n_splits):
        for name in ("cora", "citeseer", "pubmed", *KINDS):
            add_missing("sets", {"graph": name, "split": seed}, partial(measure, name, seed))
        print(f"{seed + 1} of {n_splits} splits", flush=True)


if __name__ == "__main__":
    main()
