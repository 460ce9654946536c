"""Tests of graphconv.engine.objective: its gradients are those of torch, for every model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training_runs import SHORT, labelled, small_graph

from graphconv.engine.objective import Objective
from graphconv.engine.recorded import Recorded
from graphconv.training.fit import build_model

CASES = {
    "paper": {},
    "bias": {"bias": True},
    "three layers": {"hidden": (8, 8)},
    "single layer": {"hidden": ()},
    "no dropout": {"dropout": 0.0},
    "normalised sum": {"propagation": "first-order-only"},
    "wide": {"hidden": (8, 40)},
    "residual": {"hidden": (8, 8), "residual": True},
    "tanh": {"activation": "tanh"},
    "sum of two": {"propagation": "single-parameter"},
    "two terms": {"propagation": "first-order"},
    "chebyshev": {"propagation": "chebyshev"},
    "no graph": {"propagation": "none"},
    "learned self-loops": {"self_loop_weight": "learn"},
}


def make_objective(case, features="sparse", seeds=(3,)):
    graph = small_graph(features)
    settings = replace(SHORT, **CASES[case])
    network = build_model(graph, settings, seeds)
    return Objective(network, settings), labelled(graph, graph.train_index, network)


def gradients_by_autograd(objective, batch):
    """Torch's own loss, weighted as the batch says."""
    recorded = Recorded(objective.network)
    logits = recorded(batch.batch, 5)
    n_targets, n_replicas, n_classes = logits.shape
    wanted = torch.from_numpy(batch.labels)[:, None].expand(n_targets, n_replicas).reshape(-1)
    each = torch.nn.functional.cross_entropy(
        logits.reshape(-1, n_classes), wanted, reduction="none"
    )
    weight = torch.from_numpy(batch.weight).float()[:, None]
    loss = (each.view(n_targets, n_replicas) * weight).sum()
    return torch.autograd.grad(loss, list(recorded.parameters.values()))


@pytest.mark.parametrize("seeds", [(3,), (3, 4, 5)])
@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_torchs_loss(case, features, seeds):
    objective, batch = make_objective(case, features, seeds)
    for _ in range(2):  # the first call makes the plan, the second has it
        found, figures, total = objective.gradients(batch, 5)
        assert figures.shape == (2, len(seeds))
        assert total == len(batch.labels)
        for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
            scale = max(1e-3, float(wanted.abs().max()))
            np.testing.assert_allclose(slope, wanted.numpy(), rtol=1e-4, atol=1e-5 * scale)


def test_a_term_of_the_loss_can_be_added():
    class Halves:
        def gradients(self, network, epoch):
            return [0.5 * own for own in network.parameters.values()]

    objective, batch = make_objective("paper")
    more = Objective(objective.network, SHORT, extra=Halves())
    plain, with_term = (own.gradients(batch, 5)[0] for own in (objective, more))
    for first, second, own in zip(
        plain, with_term, objective.network.parameters.values(), strict=True
    ):
        np.testing.assert_allclose(second - first, 0.5 * own, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"copies": 2}, {"copies": 2, "agreement": 0.0}])
def test_a_batch_without_rows_has_gradients_of_zero(changes):
    # As a process has that no target of a mini-batch belongs to.
    graph = small_graph("sparse")
    settings = replace(SHORT, **changes)
    network = build_model(graph, settings, (3, 4))
    slopes, _, total = Objective(network, settings).gradients(labelled(graph, [], network), 5)
    assert total == 0
    for slope, parameter in zip(slopes, network.parameters.values(), strict=True):
        assert slope.shape == tuple(parameter.shape)
        assert not slope.any()
