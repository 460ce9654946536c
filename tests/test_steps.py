"""Tests of graphconv.engine._steps: the gradient of each step, and what is kept for it."""

import numpy as np
import pytest
import torch
from tests.generated_graphs import random_matrix
from tests.kernel_cases import KERNELS
from tests.networks import run_step

from graphconv import kernels
from graphconv.engine._steps import (
    NOTHING,
    Activate,
    AddBias,
    AddMultiple,
    DenseDropout,
    DenseFeatureProduct,
    FeatureProduct,
    Given,
    HiddenProduct,
    LayerNorm,
    LearnedSum,
    Multiply,
    NeighbourSum,
    PowerSum,
    SumBesideOwn,
    WeightRows,
    WideProduct,
    add_rows,
)
from graphconv.engine.batches import Scales, make_batch
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
    matrix = random_matrix((5, 4), 0.6, np.random.default_rng(1))
    return Csr(matrix.indptr[:-1], matrix.indptr[1:], matrix.indices, matrix.data)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n_keys", "n_terms"), [(0, 1), (1, 1), (2, 1), (2, 3)])
def test_feature_product_gradient(kernel, n_keys, n_terms):
    step = FeatureProduct(kernels.select(kernel), features(), IDS)
    weight = numbers((4, n_terms, max(n_keys, 1), 3))
    assert torch.autograd.gradcheck(lambda w: run_step(step, (), (w,), keys(n_keys)), weight)
    assert run_step(step, (), (weight,), keys(n_keys)).abs().max() > 0.1


@pytest.mark.parametrize("rows", [None, [3, 1], [3, 1, 3]])
def test_weight_rows_gradient(rows):
    step = WeightRows(None if rows is None else np.array(rows))
    weight = numbers((4, 1, 2, 3))
    assert torch.autograd.gradcheck(lambda w: run_step(step, (), (w,)), weight)
    out = run_step(step, (), (weight,))
    chosen = weight.detach().reshape(4, -1)
    assert torch.equal(out, chosen if rows is None else chosen[rows])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_keys", [1, 2])
def test_dense_dropout_gradient(kernel, relu, n_keys):
    step = DenseDropout(kernels.select(kernel), IDS, relu)
    value = numbers((5, 6), seed=1)
    assert torch.autograd.gradcheck(lambda v: run_step(step, (v,), (), keys(n_keys)), value)
    result = run_step(step, (value,), (), keys(n_keys))
    assert 0 < (result == 0).double().mean() < 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_replicas", [1, 2])
def test_hidden_product_gradient(kernel, relu, n_replicas):
    step = HiddenProduct(kernels.select(kernel), IDS, relu)
    value, weight = numbers((5, 4 * n_replicas), seed=2), numbers((4, 2, n_replicas, 3), seed=3)
    assert torch.autograd.gradcheck(
        lambda v, w: run_step(step, (v,), (w,), keys(n_replicas)), (value, weight)
    )
    assert run_step(step, (value,), (weight,), keys(n_replicas)).abs().max() > 0.1


@pytest.mark.parametrize("n_replicas", [1, 2])
def test_bias_gradient(n_replicas, kernel):
    step = AddBias(kernel)
    value, bias = numbers((5, 3 * n_replicas)), numbers((n_replicas, 3), seed=1)
    assert torch.autograd.gradcheck(lambda v, b: run_step(step, (v,), (b,)), (value, bias))
    assert torch.equal(run_step(step, (value,), (bias,)), value + bias.reshape(-1))


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
        assert torch.autograd.gradcheck(lambda x, step=step: run_step(step, (x,)), x)
    bias = numbers((1, 3), seed=4)
    assert torch.autograd.gradcheck(lambda x, b: run_step(step, (x,), (b,)), (x, bias))
    torch.testing.assert_close(run_step(step, (x,), (bias,)), run_step(step, (x,)) + bias)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", [WEIGHTED, DIRECTED], ids=["weighted", "directed"])
@pytest.mark.parametrize("targets", [None, [1]], ids=["whole", "leading blocks"])
@pytest.mark.parametrize(("factor", "share"), [(1, 1), (0.9, 0.1), (0, 1)])
def test_powers_of_a_sum(graph, kernel, targets, factor, share):
    batch = make_batch(graph, targets, n_hops=3, dtype=np.float64)
    rng = np.random.default_rng(3)
    n_rows = batch.n_within[-1]
    both = Scales(rng.random(n_rows) + 0.5, rng.random(n_rows) + 0.5)
    x = numbers((n_rows, 3))
    for scales in (both, Scales(both.rows), Scales()):
        given = [
            (kernels.select(kernel), batch, (batch.n_within[k], batch.n_within[k + 1]), scales, 0.7)
            for k in (2, 1, 0)
        ]
        step = PowerSum(tuple(NeighbourSum(*own, factor) for own in given), share)
        assert torch.autograd.gradcheck(lambda x, step=step: run_step(step, (x,)), x)
        wanted = x
        for own in given:
            summed = run_step(NeighbourSum(*own), (wanted,))
            wanted = factor * summed + share * x[: len(summed)]
        torch.testing.assert_close(run_step(step, (x,)), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
def test_scales_looked_up_beforehand_change_nothing(kernel, monkeypatch):
    monkeypatch.setattr(kernels, "NEAR_BYTES", 0)
    batch = make_batch(WEIGHTED, n_hops=1)
    scale = np.array([0.3, 0.7, 1.1, 0.9], dtype=np.float32)
    scales = Scales(scale, scale)
    step = NeighbourSum(kernels.select(kernel), batch, (4, 4), scales, 1.0)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    results = [step.forward(Given((x,), (), None)) for _ in range(4)]
    assert scales.of_entries(step.block, scale).tolist() == scale[step.block.indices].tolist()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    # Columns and rows of an undirected graph share their entries, so also what was looked up.
    np.testing.assert_array_equal(step.backward(x, NOTHING)[0][0], results[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n_keys", "n_terms"), [(0, 1), (1, 1), (2, 2)])
def test_dense_feature_product_gradient(kernel, n_keys, n_terms):
    values = np.random.default_rng(2).standard_normal((5, 4))
    step = DenseFeatureProduct(kernels.select(kernel), values, IDS)
    weight = numbers((4, n_terms, max(n_keys, 1), 3))
    bias = numbers((max(n_keys, 1), 3 * n_terms), seed=2)
    for own in ((weight,), (weight, bias)):
        assert torch.autograd.gradcheck(lambda *given: run_step(step, (), given, keys(n_keys)), own)
    if not n_keys:
        plain = torch.from_numpy(values) @ weight.detach().reshape(4, -1)
        torch.testing.assert_close(run_step(step, (), (weight,)).detach(), plain)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_keys", [0, 1, 3])
@pytest.mark.parametrize("n_terms", [1, 2])
def test_wide_product_gradient(kernel, relu, n_keys, n_terms):
    n_replicas = max(1, n_keys)
    value, weight = numbers((5, 4 * n_replicas)), numbers((4, n_terms, n_replicas, 3), seed=1)
    module = kernels.select(kernel)
    step, dropout = WideProduct(module, IDS, relu), keys(n_keys)
    assert torch.autograd.gradcheck(
        lambda v, w: run_step(step, (v,), (w,), dropout), (value, weight)
    )
    bias = numbers((n_replicas, 3 * n_terms), seed=2)
    assert torch.autograd.gradcheck(
        lambda v, w, b: run_step(step, (v,), (w, b), dropout), (value, weight, bias)
    )
    narrow = HiddenProduct(module, IDS, relu)
    torch.testing.assert_close(
        run_step(step, (value,), (weight,), dropout), run_step(narrow, (value,), (weight,), dropout)
    )


@pytest.mark.parametrize("function", ["relu", "tanh", "elu"])
def test_activation_gradient(function):
    value = numbers((4, 5))
    assert torch.autograd.gradcheck(lambda v: run_step(Activate(function), (v,)), value)
    wanted = {"relu": torch.relu, "tanh": torch.tanh, "elu": torch.nn.functional.elu}[function]
    torch.testing.assert_close(run_step(Activate(function), (value,)), wanted(value))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("n_replicas", "width"), [(1, 4), (2, 4), (1, 16), (2, 19)])
def test_layer_norm_is_torchs(kernel, relu, n_replicas, width):
    value, added = numbers((5, width * n_replicas)), numbers((5, width * n_replicas), seed=3)
    gain, shift = numbers((n_replicas, width), seed=1), numbers((n_replicas, width), seed=2)
    step = LayerNorm(kernels.select(kernel), relu)
    assert torch.autograd.gradcheck(
        lambda v, a, g, s: run_step(step, (v, a), (g, s)), (value, added, gain, shift)
    )
    by_replica = value.unflatten(1, (n_replicas, width))
    standard = torch.nn.functional.layer_norm(by_replica, (width,), eps=1e-5)
    wanted = (standard * gain + shift).flatten(1)
    wanted = torch.relu(wanted) if relu else wanted
    torch.testing.assert_close(run_step(step, (value,), (gain, shift)), wanted)
    torch.testing.assert_close(run_step(step, (value, added), (gain, shift)), wanted + added)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", [WEIGHTED, DIRECTED], ids=["weighted", "directed"])
@pytest.mark.parametrize("targets", [None, [1]], ids=["whole", "leading block"])
def test_a_sum_beside_the_own_term(graph, kernel, targets):
    batch = make_batch(graph, targets, n_hops=1, dtype=np.float64)
    n_out, n_in = batch.n_within
    rng = np.random.default_rng(3)
    scales = Scales(rng.random(n_in) + 0.5, rng.random(n_in) + 0.5)
    given = (kernels.select(kernel), batch, (n_out, n_in), scales, 0.0)
    step, alone = SumBesideOwn(*given), NeighbourSum(*given)
    both, bias = numbers((n_in, 6)), numbers((1, 3), seed=4)
    assert torch.autograd.gradcheck(lambda x, b: run_step(step, (x,), (b,)), (both, bias))
    wanted = both[:n_out, :3] + run_step(alone, (both[:, 3:].contiguous(),))
    torch.testing.assert_close(run_step(step, (both,)), wanted)
    torch.testing.assert_close(run_step(step, (both,), (bias,)), wanted + bias)


def test_sums_and_multiples():
    x, y = numbers((3, 4)), numbers((3, 4), seed=1)
    for factor in (1, -1, 0.3):
        step = AddMultiple(factor)
        assert torch.autograd.gradcheck(lambda x, y, step=step: run_step(step, (x, y)), (x, y))
        torch.testing.assert_close(run_step(step, (x, y)), x + factor * y)
    assert torch.autograd.gradcheck(lambda x: run_step(Multiply(-2.5), (x,)), x)
    torch.testing.assert_close(run_step(Multiply(-2.5), (x,)), -2.5 * x)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", [WEIGHTED, DIRECTED], ids=["weighted", "directed"])
@pytest.mark.parametrize("targets", [None, [0, 1]])
def test_learned_self_loop_weight_gradient(graph, kernel, targets):
    batch = make_batch(graph, targets, n_hops=1, dtype=np.float64)
    plain = NeighbourSum(kernels.select(kernel), batch, batch.n_within, Scales(), 0.0)
    step = LearnedSum(plain, batch.degree, graph.directed)
    x, raw = numbers((batch.n_within[1], 6)), numbers((2,), seed=4)
    assert torch.autograd.gradcheck(lambda x, raw: run_step(step, (x,), (raw,)), (x, raw))


@pytest.mark.parametrize("function", ["relu", "tanh", "elu"])
def test_an_element_does_not_depend_on_those_beside_it(function):
    """So that replicas and batches give the bits that they would give alone."""
    x = np.random.default_rng(0).standard_normal((60, 1), dtype=np.float32)
    step = Activate(function)
    whole = step.forward(Given((x,), (), None))
    for first in range(len(x)):
        part = step.forward(Given((x[first:].copy(),), (), None))
        np.testing.assert_array_equal(part, whole[first:])


def test_rows_are_added_to_some_rows():
    # Each row once, in any order: by hand.
    out = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    add_rows(out, np.array([2, 0]), np.array([[10.0, 20.0], [30.0, 40.0]]))
    assert out.tolist() == [[31, 41], [2, 2], [13, 23]]
    # A row three times.
    add_rows(out, np.array([1, 2, 1, 1]), np.array([[1.0, 2.0], [5.0, 5.0], [3.0, 4.0], [7.0, 8]]))
    assert out.tolist() == [[31, 41], [13, 16], [18, 28]]
    # No rows at all.
    add_rows(out, np.array([], dtype=np.int64), np.empty((0, 2)))
    assert out.tolist() == [[31, 41], [13, 16], [18, 28]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_added", [1, 7, 500])
def test_added_rows_are_those_of_numpy(n_added, dtype):
    rng = np.random.default_rng(n_added)
    out, added = rng.random((40, 3)).astype(dtype), rng.random((n_added, 3)).astype(dtype)
    rows = rng.integers(40, size=n_added)
    wanted = out.astype(np.float64)
    np.add.at(wanted, rows, added)
    given = rows.copy(), added.copy()
    add_rows(out, rows, added)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, wanted, rtol=1e-6 if dtype == np.float32 else 1e-14)
    np.testing.assert_array_equal(rows, given[0])
    np.testing.assert_array_equal(added, given[1])


def test_a_column_of_added_rows_does_not_depend_on_those_beside_it():
    """So that a replica gives the bits that it would give alone."""
    rng = np.random.default_rng(0)
    rows = rng.integers(5, size=300)
    out, added = (rng.standard_normal((n, 7)).astype(np.float32) for n in (5, 300))
    together = out.copy()
    add_rows(together, rows, added)
    for columns in (slice(0, 1), slice(2, 5), slice(6, 7)):
        alone = out[:, columns].copy()
        add_rows(alone, rows, added[:, columns].copy())
        np.testing.assert_array_equal(alone, together[:, columns])
