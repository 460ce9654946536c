"""Tests of objective and steps: gradients by chains and by autograd."""

from dataclasses import replace

import pytest
import torch
from tests.training_runs import SHORT, labelled, small_graph

from graphconv.engine.objective import Objective
from graphconv.training.fit import build_model

BY_CHAIN = {
    "paper": {},
    "bias": {"bias": True},
    "three layers": {"hidden": (8, 8)},
    "single layer": {"hidden": ()},
    "no dropout": {"dropout": 0.0},
    "normalised sum": {"propagation": "first-order-only"},
}
BY_AUTOGRAD = {
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
    settings = replace(SHORT, **{**BY_CHAIN, **BY_AUTOGRAD}[case])
    model = build_model(graph, settings, seeds)
    objective = Objective(model, settings)
    return objective, labelled(graph, graph.train_index, model)


def gradients_by_autograd(objective, batch):
    logits = objective.model.forward(batch.batch, 5)
    slope, _ = objective.model.propagation.kernels.loss(
        logits.detach().numpy(), batch.labels, batch.weight, with_gradient=True
    )
    return torch.autograd.grad(logits, list(objective.model.parameters()), torch.from_numpy(slope))


def has_chain(objective, batch):
    return objective.model.chain(batch.batch, drops=True) is not None


@pytest.mark.parametrize("seeds", [(3,), (3, 4, 5)])
@pytest.mark.parametrize("features", ["sparse", "none"])
@pytest.mark.parametrize("case", BY_CHAIN)
def test_chain_gives_the_bits_of_autograd(case, features, seeds):
    objective, batch = make_objective(case, features, seeds)
    assert has_chain(objective, batch)
    found, _, _ = objective.gradients(batch, 5)
    for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
        assert torch.equal(torch.as_tensor(slope), wanted)


@pytest.mark.parametrize("case", BY_AUTOGRAD)
def test_what_torch_computes_is_left_to_autograd(case):
    objective, batch = make_objective(case)
    assert not has_chain(objective, batch)
    for _ in range(2):  # the first call finds out, the second knows
        found, figures, total = objective.gradients(batch, 5)
        assert figures.shape == (2, 1)
        assert total == len(batch.labels)
        for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
            assert torch.equal(torch.as_tensor(slope), wanted)


@pytest.mark.parametrize("case", ["paper", "wide"])
def test_dense_features_are_left_to_autograd(case):
    objective, batch = make_objective(case, "dense")
    assert not has_chain(objective, batch)
    found, _, _ = objective.gradients(batch, 5)
    for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
        assert torch.equal(torch.as_tensor(slope), wanted)
