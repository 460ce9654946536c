"""Tests of graphconv.engine.steps: the gradient of each step, and what is kept for it."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.kernel_cases import KERNELS

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.engine.steps import (
    AddBias,
    Chain,
    DenseDropout,
    FeatureProduct,
    HiddenProduct,
    Link,
    NeighbourSum,
    Scales,
    WeightRows,
    run_step,
)
from graphconv.graph import Graph
from graphconv.kernels import Csr, Dropout
from graphconv.kernels.hashing import hash_key

IDS = np.array([8, 3, 5, 1, 0])
WEIGHTED = Graph([[0, 2, 0, 1], [2, 0, 0.5, 0], [0, 0.5, 0, 0], [1, 0, 0, 0]])
DIRECTED = Graph([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]], directed=True)


def keys(n):
    return Dropout(tuple(hash_key(k) for k in range(n)), 40000) if n else None


def numbers(shape, seed=0):
    """Away from 0, where a ReLU has no derivative."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(values + 0.1 * np.sign(values)).requires_grad_()


def features():
    matrix = sp.random_array((5, 4), density=0.6, format="csr", rng=np.random.default_rng(1))
    return Csr(matrix.indptr[:-1], matrix.indptr[1:], matrix.indices, matrix.data)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n_keys", "n_terms"), [(0, 1), (1, 1), (2, 1), (2, 3)])
def test_feature_product_gradient(kernel, n_keys, n_terms):
    step = FeatureProduct(kernels.select(kernel), features(), IDS)
    weight = numbers((4, n_terms, max(n_keys, 1), 3))
    assert torch.autograd.gradcheck(lambda w: run_step(step, None, w, keys(n_keys)), weight)
    assert run_step(step, None, weight, keys(n_keys)).abs().max() > 0.1


@pytest.mark.parametrize("rows", [None, [3, 1], [3, 1, 3]])
def test_weight_rows_gradient(rows):
    step = WeightRows(None if rows is None else np.array(rows))
    weight = numbers((4, 1, 2, 3))
    assert torch.autograd.gradcheck(lambda w: run_step(step, None, w), weight)
    out = run_step(step, None, weight)
    chosen = weight.detach().reshape(4, -1)
    assert torch.equal(out, chosen if rows is None else chosen[rows])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_keys", [1, 2])
def test_dense_dropout_gradient(kernel, relu, n_keys):
    step = DenseDropout(kernels.select(kernel), IDS, relu)
    value = numbers((5, 6), seed=1)
    assert torch.autograd.gradcheck(lambda v: run_step(step, v, None, keys(n_keys)), value)
    result = run_step(step, value, None, keys(n_keys))
    assert 0 < (result == 0).double().mean() < 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_replicas", [1, 2])
def test_hidden_product_gradient(kernel, relu, n_replicas):
    step = HiddenProduct(kernels.select(kernel), IDS, relu)
    value, weight = numbers((5, 4 * n_replicas), seed=2), numbers((4, 2, n_replicas, 3), seed=3)
    assert torch.autograd.gradcheck(
        lambda v, w: run_step(step, v, w, keys(n_replicas)), (value, weight)
    )
    assert run_step(step, value, weight, keys(n_replicas)).abs().max() > 0.1


@pytest.mark.parametrize("n_replicas", [1, 2])
def test_bias_gradient(n_replicas):
    value, bias = numbers((5, 3 * n_replicas)), numbers((n_replicas, 3), seed=1)
    assert torch.autograd.gradcheck(lambda v, b: run_step(AddBias(), v, b), (value, bias))
    assert torch.equal(run_step(AddBias(), value, bias), value + bias.reshape(-1))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", [WEIGHTED, DIRECTED], ids=["weighted", "directed"])
@pytest.mark.parametrize("transposes", ["whole", "leading block"])
def test_neighbour_sum_gradient(graph, kernel, transposes):
    targets = None if transposes == "whole" else [1]
    batch = make_batch(graph, targets, n_hops=1, dtype=np.float64)
    n_out, n_in = batch.n_within
    rng = np.random.default_rng(3)
    rows, columns = rng.random(n_in) + 0.5, rng.random(n_in) + 0.5
    x = numbers((n_in, 3))
    module = kernels.select(kernel)
    for scales in (Scales(rows, columns), Scales(rows), Scales()):
        step = NeighbourSum(module, batch, (n_out, n_in), scales, 0.7)
        assert torch.autograd.gradcheck(lambda x, step=step: run_step(step, x), x)


@pytest.mark.parametrize("kernel", KERNELS)
def test_scales_looked_up_beforehand_change_nothing(kernel, monkeypatch):
    monkeypatch.setattr(kernels, "NEAR_BYTES", 0)
    batch = make_batch(WEIGHTED, n_hops=1)
    scale = np.array([0.3, 0.7, 1.1, 0.9], dtype=np.float32)
    scales = Scales(scale, scale)
    step = NeighbourSum(kernels.select(kernel), batch, (4, 4), scales, 1.0)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    results = [step.forward(x, None, None) for _ in range(4)]
    assert scales.of_entries(step.block, scale).tolist() == scale[step.block.indices].tolist()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    # Columns and rows of an undirected graph share their entries, so also what was looked up.
    np.testing.assert_array_equal(step.backward(x, None, None, None)[0], results[0])


def test_hidden_values_are_let_go_once_their_gradient_is_made():
    hidden = torch.ones((3, 4), requires_grad=True)
    weight = torch.ones((4, 1, 1, 2), requires_grad=True)
    step = HiddenProduct(kernels.select(), np.arange(3), relu=True)
    out = run_step(step, hidden, weight)
    slopes = torch.autograd.grad(out.sum(), [hidden, weight])
    np.testing.assert_array_equal(slopes[0].numpy(), 2)
    np.testing.assert_array_equal(slopes[1].numpy(), 3)
    # Torch says so of what it no longer has.
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(out.sum(), [hidden, weight])


def test_chain_sees_weights_that_change_in_place():
    weight, bias = torch.ones((4, 1, 1, 2)), torch.zeros((1, 2))
    chain = Chain([Link(WeightRows(None), weight, 0), Link(AddBias(), bias)])
    assert chain.forward([None]).tolist() == [[1, 1]] * 4
    weight[2] = 5
    bias[0, 1] = 1
    out = chain.forward([None], for_gradients=True)
    assert out.tolist() == [[1, 2], [1, 2], [5, 6], [1, 2]]
    for_weight, for_bias = chain.gradients(np.full((4, 2), 3, dtype=np.float32), [None])
    assert for_weight.shape == weight.shape
    assert for_bias.tolist() == [[12, 12]]
