"""Tests of graphconv.models.gcn: the layers by hand, their gradients, dropout and replicas."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.kernel_cases import KERNELS
from tests.networks import make_network, with_parameters

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.engine.network import Network
from graphconv.engine.recorded import Recorded
from graphconv.graph import Graph
from graphconv.kernels import Dropout
from graphconv.kernels.hashing import hash_key
from graphconv.models.catalogue import make_model
from graphconv.models.operations import glorot_limit
from graphconv.models.settings import RULES, Settings

# 0 - 1 - 2 - 3 and 3 - 0: a ring with a weight, and 4 on its own.
ADJACENCY = np.array(
    [
        [0, 1, 0, 2, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [2, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
)
FEATURES = np.array(
    [[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1], [1, 1, 1, 1], [0, 0, 5, 0]], dtype=float
)


def whole(graph, model):
    return make_batch(graph, n_hops=model.n_hops, dtype=np.float64)


def renormalised():
    """A-hat of ADJACENCY, densely."""
    with_loops = ADJACENCY + np.eye(5)
    root = 1 / np.sqrt(with_loops.sum(axis=1))
    return root[:, None] * with_loops * root


def matrices(model, replica=0):
    return [own[:, 0, replica] for name, own in model.parameters.items() if name.endswith("weight")]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("make", [sp.csr_array, np.asarray], ids=["sparse", "dense"])
def test_two_layers_are_equation_9(make, kernel):
    graph = Graph(ADJACENCY, make(FEATURES))
    model = make_network(graph, kernel=kernel, hidden=(6,))
    first, second = matrices(model)
    a_hat = renormalised()
    hidden = np.maximum(a_hat @ FEATURES @ first, 0)
    batch = whole(graph, model)
    np.testing.assert_allclose(model(batch)[:, 0], a_hat @ hidden @ second, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.embed(batch)[:, 0], hidden, rtol=1e-12)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
        ("none", lambda x: x),
    ],
)
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
def test_depth_activation_residual_and_bias_by_dense_algebra(activation, function, residual):
    graph = Graph(ADJACENCY, FEATURES)
    model = make_network(
        graph, hidden=(4, 4, 5), activation=activation, residual=residual, bias=True
    )
    rng = np.random.default_rng(0)
    for k in range(4):
        bias = model.parameters[f"layers.{k}.bias"]
        bias[...] = rng.standard_normal(bias.shape)
    a_hat, hidden = renormalised(), FEATURES
    for depth, weight in enumerate(matrices(model)):
        value = a_hat @ hidden @ weight + model.parameters[f"layers.{depth}.bias"]
        if depth < 3:
            value = function(value)
        # Of the hidden layers 4 -> 4, 4 -> 4 and 4 -> 5 only the second adds its input: the
        # first one's is the features, the third one's has another width.
        hidden = value + hidden if residual and depth == 1 else value
    np.testing.assert_allclose(model(whole(graph, model))[:, 0], hidden, rtol=1e-11, atol=1e-13)


def test_single_layer_is_linear_and_has_nothing_to_embed():
    graph = Graph(ADJACENCY, FEATURES)
    model = make_network(graph, hidden=())
    expected = renormalised() @ FEATURES @ matrices(model)[0]
    batch = whole(graph, model)
    np.testing.assert_allclose(model(batch)[:, 0], expected, rtol=1e-12)
    with pytest.raises(ValueError, match="single layer has no hidden activations"):
        model.embed(batch)


@pytest.mark.parametrize("epoch", [None, 3])
@pytest.mark.parametrize("targets", [None, [2, 0]])
@pytest.mark.parametrize("rule", ["renormalised", "chebyshev"])
def test_featureless_equals_identity_features(rule, targets, epoch):
    bare = Graph(ADJACENCY)
    model = Recorded(make_network(bare, rule, hidden=(6,)))
    results = []
    for graph in (bare, Graph(ADJACENCY, sp.eye_array(5, format="csr"))):
        batch = make_batch(graph, targets, n_hops=model.network.n_hops, dtype=np.float64)
        logits = model(batch, epoch)
        results.append(
            (logits, *torch.autograd.grad(logits.square().sum(), model.parameters.values()))
        )
    for given, expected in zip(*results, strict=True):
        torch.testing.assert_close(given, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("rule", "n_terms", "n_hops"),
    [
        ("renormalised", 1, 1),
        ("single-parameter", 1, 1),
        ("first-order", 2, 1),
        ("first-order-only", 1, 1),
        ("chebyshev", 3, 2),
        ("none", 1, 0),
    ],
)
def test_weights_are_glorot_and_of_the_right_shape(rule, n_terms, n_hops):
    graph = Graph(np.zeros((300, 300)))
    model = make_network(graph, rule, chebyshev_order=2, hidden=(50,), seeds=(7, 8))
    assert model.n_hops == 2 * n_hops
    weight = model.parameters["layers.0.weight"]
    assert weight.shape == (300, n_terms, 2, 50)
    limit = math.sqrt(6 / (300 + 50))
    assert np.abs(weight).max() <= limit
    # Uniform in (-limit, limit): mean 0 and variance limit^2 / 3, each matrix by itself.
    assert np.abs(weight.mean(axis=(0, 3))).max() < 0.01
    np.testing.assert_allclose(weight.var(axis=(0, 3)), limit**2 / 3, rtol=0.03)
    drawn = weight.transpose(1, 2, 0, 3).reshape(2 * n_terms, -1)
    assert len(np.unique(drawn[:, 0])) == 2 * n_terms
    assert list(model.parameters) == ["layers.0.weight", "layers.1.weight"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("make", [sp.csr_array, np.asarray, lambda _: None])
def test_replicas_compute_what_each_computes_alone(rule, make):
    graph = Graph(ADJACENCY, make(FEATURES))
    options = {"hidden": (6, 6), "residual": True, "bias": True, "dropout": 0.3}
    together = make_network(graph, rule, seeds=(5, 0, 9), **options)
    batch = whole(graph, together)
    for epoch in (None, 4):
        logits = together(batch, epoch)
        for replica, seed in enumerate((5, 0, 9)):
            alone = make_network(graph, rule, seeds=(seed,), **options)
            for name, own in alone.replica_weights(0).items():
                assert np.array_equal(together.replica_weights(replica)[name], own)
            np.testing.assert_allclose(
                logits[:, replica], alone(batch, epoch)[:, 0], rtol=1e-12, atol=1e-14
            )


def test_dropout_depends_on_seed_epoch_and_layer_only():
    graph = Graph(ADJACENCY, FEATURES)
    batch = whole(graph, make_network(graph))

    def logits(epoch, seed=0, **options):
        return make_network(graph, seeds=(seed,), hidden=(16,), **options)(batch, epoch)

    assert np.array_equal(logits(1), logits(1))
    assert not np.array_equal(logits(1), logits(2))
    assert not np.array_equal(logits(1), logits(None))
    # One rate a layer: without any dropout nothing happens, with either something does.
    assert np.array_equal(logits(1, dropout=(0.0, 0.0)), logits(None))
    assert not np.array_equal(logits(1, dropout=(0.5, 0.0)), logits(None))
    assert not np.array_equal(logits(1, dropout=(0.0, 0.5)), logits(None))
    model = make_network(graph, seeds=(1, 2), hidden=(16,))
    keys = [dropout.keys for epoch in (0, 1) for dropout in model.dropouts(epoch)]
    assert len({key for pair in keys for key in pair}) == 8


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_keeps_the_right_share_and_the_mean(rate, kernel):
    dropout = Dropout((hash_key(1),), round(65536 * (1 - rate)))
    ones = np.ones((1000, 40))
    dropped = kernels.select(kernel).dropout_dense(ones, dropout, np.arange(1000))
    share = (dropped != 0).mean()
    # 40,000 elements: the standard deviation of the share is at most 0.0025.
    assert abs(share - (1 - rate)) < 0.01
    assert np.unique(dropped[dropped != 0]) == pytest.approx(1 / (1 - rate), rel=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("make", [sp.csr_array, np.asarray, lambda _: None])
@pytest.mark.parametrize("rule", ["renormalised", "first-order", "chebyshev"])
def test_gradient_of_the_whole_model(rule, make, kernel):
    graph = Graph(ADJACENCY, make(FEATURES))
    model = make_network(
        graph, rule, kernel=kernel, seeds=(3, 4), hidden=(3,), bias=True, activation="tanh"
    )
    batch = make_batch(graph, [1, 4], n_hops=model.n_hops, dtype=np.float64)

    def logits(*parameters):
        return with_parameters(model, parameters)(batch, 2)

    parameters = tuple(Recorded(model).parameters.values())
    assert torch.autograd.gradcheck(logits, parameters, fast_mode=True)


def test_hash_key_is_splitmix64():
    # The first output of SplitMix64 from state 0, as published with it.
    assert hash_key(0) == 0xE220A8397B1DCDAF
    assert hash_key() == 0
    assert len({hash_key(a, b) for a in range(30) for b in range(30)}) == 900
    assert hash_key(-1) == hash_key(2**64 - 1)
    assert hash_key(1, 2) != hash_key(2, 1)


@pytest.mark.parametrize("rule", RULES)
def test_values_are_the_same_when_torch_follows_them(rule: str) -> None:
    path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], features=np.eye(3, dtype=np.float32))
    model = make_network(path, rule, n_classes=2, hidden=(4,))
    batch = make_batch(path, [0], n_hops=model.n_hops, dtype=np.float64)
    recorded = Recorded(model)(batch, epoch=3)
    with torch.no_grad():
        unfollowed = Recorded(model)(batch, epoch=3)
    assert recorded.requires_grad
    assert not unfollowed.requires_grad
    plain = model(batch, epoch=3)
    np.testing.assert_array_equal(plain, recorded.detach().numpy())
    np.testing.assert_array_equal(plain, unfollowed.numpy())
    hidden = Recorded(model).embed(batch)
    assert hidden.requires_grad
    np.testing.assert_array_equal(model.embed(batch), hidden.detach().numpy())


def test_recorded_parameters_are_the_memory_of_the_network() -> None:
    path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], features=np.eye(3, dtype=np.float32))
    model = make_network(path, n_classes=2, hidden=(4,), bias=True)
    recorded = Recorded(model)
    assert list(recorded.parameters) == list(model.parameters)
    batch = make_batch(path, n_hops=model.n_hops, dtype=np.float64)
    before = recorded(batch).detach().numpy().copy()
    model.parameters["layers.1.bias"][...] += 1
    np.testing.assert_allclose(recorded(batch).detach().numpy(), before + 1)
    with torch.no_grad():
        recorded.parameters["layers.1.bias"] -= 1
    np.testing.assert_allclose(model(batch), before)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 + 11])
def test_first_weights_are_the_numbers_of_torchs_generator(seed: int) -> None:
    """So that a seed means what it meant when torch drew them."""
    settings = Settings(hidden=(5, 7), propagation="chebyshev", chebyshev_order=2, bias=True)
    model = make_model(settings, 300, 3)
    network = Network(model, [3, seed], kernels.select())
    generator = torch.Generator().manual_seed(hash_key(seed) >> 1)
    n_drawn = 0
    for own in model.program.parameters:
        found = network.replica_weights(1)[own.name]
        assert found.dtype == np.float32
        if own.start is not None:
            assert (found == own.start).all()
            continue
        n_in, n_terms, n_out = own.shape
        limit = glorot_limit(own)
        for term in range(n_terms):
            draw = torch.rand(n_in, n_out, generator=generator)
            np.testing.assert_array_equal(found[:, term], (draw * (2 * limit) - limit).numpy())
        n_drawn += found.size
    assert n_drawn == 3 * (300 * 5 + 5 * 7 + 7 * 3)


def test_a_model_is_undirected_and_its_eigenvalues_end_at_2_unless_told() -> None:
    usual = make_model(Settings(), 4, 2).graph
    assert (usual.directed, usual.lambda_max) == (False, 2.0)
    told = make_model(Settings(), 4, 2, directed=True, lambda_max=1.5).graph
    assert (told.directed, told.lambda_max) == (True, 1.5)


@pytest.mark.parametrize(("dropout", "kept"), [(0.25, 0.75), (0.0, 1.0), ((0.4, 0.9), 0.6)])
def test_the_share_of_features_that_dropout_keeps(dropout: object, kept: float) -> None:
    model = make_model(Settings(dropout=dropout), 4, 2)
    assert model.program.features_kept == pytest.approx(kept)
