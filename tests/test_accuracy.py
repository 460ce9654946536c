"""Accuracy on Cora with the public split: a quick guard of what `graphconv train` reports.

The means over 20 seeds are measured by a command of their own.
"""

import numpy as np
import pytest

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


def test_paper_preset_reaches_the_paper():
    # The paper's table 2: 81.5.
    fitted, accuracies = cora_accuracies("paper", {})
    assert accuracies.mean() >= 80.5
    assert accuracies.min() >= 79
    assert 100 <= fitted.n_epochs <= 200
    history = fitted.history
    assert history["train_loss"][-1] < history["train_loss"][0]
    assert history["validation_accuracy"][-1] > 0.76
    assert history["train_accuracy"][-1] > 0.9


def test_robust_preset_is_good_on_cora_too():
    fitted, accuracies = cora_accuracies("robust", {"max_epochs": 300}, seeds=[0])
    assert accuracies.mean() > 79
    assert fitted.scaler.kind == "l2"


def test_without_the_graph_it_is_a_perceptron():
    # The paper's table 3: 55.1.
    _, accuracies = cora_accuracies("paper", {"propagation": "none"})
    assert 53 <= accuracies.mean() <= 60


@pytest.mark.parametrize(
    ("overrides", "at_least"),
    [
        # The paper's table 3: 80.0, 80.5, 81.2 (K = 2), 79.5 (K = 3), 80.5.
        ({"propagation": "single-parameter"}, 77.5),
        ({"propagation": "first-order"}, 77.5),
        ({"propagation": "first-order-only"}, 77.5),
        ({"propagation": "chebyshev", "chebyshev_order": 2}, 78),
    ],
)
def test_every_rule_learns(overrides, at_least):
    _, accuracies = cora_accuracies("paper", overrides, seeds=[0])
    assert accuracies.mean() >= at_least
