"""How often prediction sets hold the true class, and how large they are.

python -m scripts.measure_sets [SPLITS]    100 by default

20 training nodes of each class, 200 validation nodes of any.

Three citation sets with the paper's recipe and generated graphs with the default settings, each
over random splits. Beside the sets of graphconv (every label judged by a model that has not seen
it, smoothed over neighbours) stand those of plain split conformal prediction: a fifth of the labels
set aside for the threshold, no smoothing. The band is where 95 % of the mean coverages of so many
splits would lie if every label were drawn by itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np
from tests.generated_graphs import KINDS, generate, split

from graphconv import load_dataset, random_split
from graphconv.graph import Graph
from graphconv.results.prediction_sets import SetRule, find_set_rule
from graphconv.training.fit import fit_gcn
from graphconv.training.out_of_fold import fit_folds, make_folds, same_training

COVERAGE = 0.9


def splits_of(name: str, n_splits: int) -> Iterator[Graph]:
    if name in KINDS:
        for seed in range(n_splits):
            yield split(generate(name, seed, n_nodes=1000), seed, n_validation=200)
        return
    graph = load_dataset(name)
    for seed in range(n_splits):
        yield random_split(graph, n_validation=200, random_state=seed)


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


def figures(graph: Graph, sets: np.ndarray) -> tuple[float, float, float]:
    test = graph.test_index
    size = sets[test].sum(axis=1)
    covered = sets[test, graph.labels[test]].mean()
    return 100 * covered, size.mean(), 100 * (size == 1).mean()


def main() -> None:
    n_splits = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"prediction sets for a coverage of {100 * COVERAGE:g} %, {n_splits} splits")
    print(f"{'':28}{'cross-conformal, smoothed':^36}{'plain split conformal':^28}")
    heads = ["coverage", "band", "size", "single"], ["coverage", "size", "single"]
    widths = (10, 14, 6, 8)
    print(
        " " * 28
        + "".join(f"{head:>{width}}" for head, width in zip(heads[0], widths, strict=True))
        + "".join(f"{head:>{width}}" for head, width in zip(heads[1], (12, 6, 8), strict=True))
    )
    for name in ("cora", "citeseer", "pubmed", *KINDS):
        ours, plain, n_labels, n_test = [], [], 0, 0
        for seed, graph in enumerate(splits_of(name, n_splits)):
            ours.append(figures(graph, cross_conformal(graph, name, seed)))
            plain.append(figures(graph, split_conformal(graph, name, seed)))
            n_labels = len(graph.train_index) + len(graph.validation_index)
            n_test = len(graph.test_index)
        noise = math.sqrt(COVERAGE * (1 - COVERAGE) * (1 / n_labels + 1 / n_test) / n_splits)
        low, high = (100 * (COVERAGE + sign * 1.96 * noise) for sign in (-1, 1))
        coverage, size, single = np.mean(ours, axis=0)
        plain_coverage, plain_size, plain_single = np.mean(plain, axis=0)
        print(
            f"{name:28}{coverage:10.1f}{f'{low:.1f} to {high:.1f}':>14}{size:6.2f}{single:7.0f} %"
            f"{plain_coverage:12.1f}{plain_size:6.2f}{plain_single:7.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
