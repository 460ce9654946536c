"""Tests of graphconv.objective and graphconv.tape: gradients by the short way and by autograd."""

from dataclasses import replace

import pytest
import torch
from tests.training_runs import SHORT, labelled, small_graph

from graphconv.fitting import build_model
from graphconv.objective import Objective
from graphconv.tape import Tape, apply_function

BY_TAPE = {
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
    settings = replace(SHORT, **{**BY_TAPE, **BY_AUTOGRAD}[case])
    model = build_model(graph, settings, seeds)
    objective = Objective(model, dict(model.named_parameters()))
    return objective, labelled(graph, graph.train_index, model)


def gradients_by_autograd(objective, batch):
    logits = objective.model.forward(batch.batch, 5)
    slope, _ = objective.model.propagation.kernels.loss(
        logits.detach().numpy(), batch.labels, batch.weight, with_gradient=True
    )
    return torch.autograd.grad(logits, objective.parameters, torch.from_numpy(slope))


def uses_tape(objective, batch):
    with Tape() as tape:
        logits = objective.model.forward(batch.batch, 5)
    return tape.gradients(logits, torch.ones_like(logits), objective.parameters) is not None


@pytest.mark.parametrize("seeds", [(3,), (3, 4, 5)])
@pytest.mark.parametrize("features", ["sparse", "none"])
@pytest.mark.parametrize("case", BY_TAPE)
def test_tape_gives_the_bits_of_autograd(case, features, seeds):
    if case == "no dropout" and features == "none":
        pytest.skip("the weight itself is what is propagated: autograd sees to it")
    objective, batch = make_objective(case, features, seeds)
    assert uses_tape(objective, batch)
    found, _, _ = objective.gradients(batch, 5)
    for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
        assert torch.equal(slope, wanted)


@pytest.mark.parametrize("case", BY_AUTOGRAD)
def test_what_torch_computes_is_left_to_autograd(case):
    objective, batch = make_objective(case)
    assert not uses_tape(objective, batch)
    for _ in range(2):  # the first call finds out, the second knows
        found, figures, total = objective.gradients(batch, 5)
        assert figures.shape == (2, 1)
        assert total == len(batch.labels)
        for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
            assert torch.equal(slope, wanted)


@pytest.mark.parametrize("case", ["paper", "wide"])
def test_dense_features_are_left_to_autograd(case):
    objective, batch = make_objective(case, "dense")
    assert not uses_tape(objective, batch)
    found, _, _ = objective.gradients(batch, 5)
    for slope, wanted in zip(found, gradients_by_autograd(objective, batch), strict=True):
        assert torch.equal(slope, wanted)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x


def test_tape_knows_a_value_that_is_used_twice():
    x, y = torch.tensor([2.0]), torch.tensor([5.0])
    with Tape() as tape:
        out = apply_function(Product, x, y)
    assert tape.gradients(out, torch.ones(1), [x, y]) == [5.0, 2.0]
    with Tape() as tape:
        out = apply_function(Product, apply_function(Product, x, y), x)
    assert tape.gradients(out, torch.ones(1), [x, y]) is None


def test_tape_ends_with_an_error():
    def fail():
        with Tape():
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    x = torch.tensor([2.0], requires_grad=True)
    assert apply_function(Product, x, x.detach()).requires_grad
