"""Accuracy on Cora with the public split: a quick guard of what `graphconv train` reports.

The means over 20 seeds are measured by a command of their own.
"""

import gzip
import json

import numpy as np
import pytest
from tests.scripts import ROOT

from graphconv.io.datasets import load_dataset
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy


def cora_accuracies(preset, overrides, seeds=(0, 1, 2)):
    graph = load_dataset("cora")
    fitted = fit_gcn(graph, preset=preset, overrides=overrides, seeds=seeds)
    shares = fitted.probabilities()
    test = graph.test_index
    return fitted, np.array(
        [100 * accuracy(graph.labels[test], shares[test, replica]) for replica in range(len(seeds))]
    )


SEEDS = range(5)


def published(row):
    """Test accuracies of the first runs on Cora, as the committed log has them."""
    # Table 3 takes the paper's own rule from table 2.
    where = ("table2", "cora", "gcn") if row == "renormalised" else ("table3", "cora", row)
    with gzip.open(ROOT / "measured" / "runs.jsonl.gz", "rt", encoding="utf-8") as log:
        records = [json.loads(line) for line in log]
    found = {
        record["seed"]: record["test_accuracy"]
        for record in records
        if (record["experiment"], record["dataset"], record["method"]) == where
    }
    return [found[seed] for seed in SEEDS]


def test_paper_preset_reaches_the_paper():
    fitted, accuracies = cora_accuracies("paper", {}, SEEDS)
    assert accuracies.mean() == pytest.approx(81.5, abs=0.5)  # the paper's table 2
    assert accuracies.min() >= 80
    assert 150 <= fitted.n_epochs <= 200
    history = fitted.history
    assert history["train_loss"][-1] < history["train_loss"][0]
    assert history["validation_accuracy"][-1] > 0.78
    assert history["train_accuracy"][-1] > 0.95


def test_robust_preset_is_good_on_cora_too():
    fitted, accuracies = cora_accuracies("robust", {"max_epochs": 300}, seeds=[0])
    assert accuracies.mean() == pytest.approx(82.3, abs=1)  # 20 seeds: 82.26
    assert fitted.scaler.kind == "l2"


@pytest.mark.parametrize(
    ("row", "overrides"),
    [
        ("none", {"propagation": "none"}),
        ("single-parameter", {"propagation": "single-parameter"}),
        ("first-order", {"propagation": "first-order"}),
        ("first-order-only", {"propagation": "first-order-only"}),
        ("renormalised", {"propagation": "renormalised"}),
        ("chebyshev-2", {"propagation": "chebyshev", "chebyshev_order": 2}),
    ],
)
def test_every_rule_gives_what_was_published(row, overrides):
    _, accuracies = cora_accuracies("paper", overrides, SEEDS)
    assert accuracies == pytest.approx(published(row), abs=0.25)  # at most two nodes of 1,000
