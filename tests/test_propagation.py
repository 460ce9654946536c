"""Tests of graphconv.models.propagation: every rule by hand, by dense formulas and by spectra."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from tests.kernel_cases import KERNELS
from tests.networks import apply_rule, rule_network
from tests.spectral import chebyshev_coefficients, dense_laplacian, spectral_filter

from graphconv.engine.batches import make_batch
from graphconv.engine.recorded import Recorded
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset
from graphconv.models.propagation import (
    Propagation,
    largest_eigenvalue,
    normalised_laplacian,
    renormalised_adjacency,
)
from graphconv.models.settings import RULES
from graphconv.training.fit import fit_gcn

# 0 - 1 - 2
PATH = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
# 0 -2- 1 -3- 2, a loop of weight 1 at 2, and 3 on its own. Degrees 2, 5, 4, 0.
WEIGHTED = Graph([[0, 2, 0, 0], [2, 0, 3, 0], [0, 3, 1, 0], [0, 0, 0, 0]])
# 0 -> 1, 0 -> 2, 2 -> 1 with weight 3; nothing leaves 1. Degrees 2, 0, 3.
DIRECTED = Graph([[0, 1, 1], [0, 0, 0], [0, 3, 0]], directed=True)
EDGELESS = Graph(np.zeros((4, 4)))
SINGLE = Graph([[0]])
RING = Graph(np.roll(np.eye(6), 1, axis=1) + np.roll(np.eye(6), -1, axis=1))
GRAPHS = {
    "path": PATH,
    "weighted": WEIGHTED,
    "directed": DIRECTED,
    "edgeless": EDGELESS,
    "single": SINGLE,
    "ring": RING,
}


def make(rule, graph=PATH, **options):
    return Propagation(rule, directed=graph.directed, **options)


def column(*values):
    return np.array(values, dtype=float)[:, None]


def dense_terms(rule, graph, self_loop_weight=1.0, order=3, lambda_max=2.0):
    """The matrices S_k of a rule, from the formulas and with nothing but numpy."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    identity = np.eye(graph.n_nodes)

    def normalised(matrix):
        degree = matrix.sum(axis=1)
        inverse = np.array([1 / d if d > 0 else 0 for d in degree])
        if graph.directed:
            return np.diag(inverse) @ matrix
        return np.diag(np.sqrt(inverse)) @ matrix @ np.diag(np.sqrt(inverse))

    s = normalised(adjacency)
    if rule == "renormalised":
        return [normalised(adjacency + self_loop_weight * identity)]
    if rule == "chebyshev":
        rescaled = 2 / lambda_max * (identity - s) - identity
        polynomials = [identity, rescaled]
        while len(polynomials) <= order:
            polynomials.append(2 * rescaled @ polynomials[-1] - polynomials[-2])
        return polynomials[: order + 1]
    return {
        "single-parameter": [identity + s],
        "first-order": [identity, s],
        "first-order-only": [s],
        "none": [identity],
    }[rule]


ROOT_2, ROOT_6 = math.sqrt(2), math.sqrt(6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rule", "options", "projected", "expected"),
    [
        # Degrees 1, 2, 1 and x = 1, 2, 4. Plus one: 2, 3, 2, so that an edge weighs 1 / sqrt(6).
        (
            "renormalised",
            {},
            column(1, 2, 4),
            [1 / 2 + 2 / ROOT_6, 5 / ROOT_6 + 2 / 3, 2 / ROOT_6 + 4 / 2],
        ),
        # An edge weighs 1 / sqrt(1 * 2).
        ("first-order-only", {}, column(1, 2, 4), [ROOT_2, 5 / ROOT_2, ROOT_2]),
        ("single-parameter", {}, column(1, 2, 4), [1 + ROOT_2, 2 + 5 / ROOT_2, 4 + ROOT_2]),
        # Own rows from the first column, neighbours' from the second.
        (
            "first-order",
            {},
            [[10, 1], [20, 2], [30, 4]],
            [10 + ROOT_2, 20 + 5 / ROOT_2, 30 + ROOT_2],
        ),
        ("none", {}, column(1, 2, 4), [1, 2, 4]),
        # L~ = -S; S x = (sqrt 2, 5 / sqrt 2, sqrt 2), S S x = (5 / 2, 2, 5 / 2).
        # x T_0 + x T_1 + x T_2 = x - S x + (2 S S x - x) = 2 S S x - S x.
        (
            "chebyshev",
            {"chebyshev_order": 2},
            [[1, 1, 1], [2, 2, 2], [4, 4, 4]],
            [5 - ROOT_2, 4 - 5 / ROOT_2, 5 - ROOT_2],
        ),
        # lambda_max = 1: L~ = 2 (I - S) - I = I - 2 S.
        (
            "chebyshev",
            {"chebyshev_order": 1, "lambda_max": 1.0},
            [[0, 1], [0, 2], [0, 4]],
            [1 - 2 * ROOT_2, 2 - 10 / ROOT_2, 4 - 2 * ROOT_2],
        ),
        ("chebyshev", {"chebyshev_order": 0}, column(1, 2, 4), [1, 2, 4]),
    ],
)
def test_path_by_hand(rule, options, projected, expected, kernel):
    result = apply_rule(make(rule, **options), PATH, projected, kernel)
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rule", "options", "expected"),
    [
        # x = 1 everywhere. Degrees 2, 5, 4, 0: edges weigh 2 / sqrt(10), 3 / sqrt(20), loop 1 / 4.
        (
            "first-order-only",
            {},
            [2 / 10**0.5, 2 / 10**0.5 + 3 / 20**0.5, 3 / 20**0.5 + 1 / 4, 0],
        ),
        (
            "single-parameter",
            {},
            [1 + 2 / 10**0.5, 1 + 2 / 10**0.5 + 3 / 20**0.5, 1 + 3 / 20**0.5 + 1 / 4, 1],
        ),
        # lambda = 2: degrees 4, 7, 6, 2; the loop at 2 becomes 1 + 2, those of the others 2.
        (
            "renormalised",
            {"self_loop_weight": 2.0},
            [
                2 / 4 + 2 / 28**0.5,
                2 / 28**0.5 + 2 / 7 + 3 / 42**0.5,
                3 / 42**0.5 + 3 / 6,
                2 / 2,
            ],
        ),
        # lambda = 0 is the first-order term alone; the isolated node gets nothing.
        (
            "renormalised",
            {"self_loop_weight": 0.0},
            [2 / 10**0.5, 2 / 10**0.5 + 3 / 20**0.5, 3 / 20**0.5 + 1 / 4, 0],
        ),
    ],
)
def test_weights_self_loops_and_isolated_node_by_hand(rule, options, expected, kernel):
    result = apply_rule(make(rule, WEIGHTED, **options), WEIGHTED, np.ones((4, 1)), kernel)
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # The mean over the nodes that edges point to; x = 1, 2, 4.
        ("first-order-only", [(2 + 4) / 2, 0, 3 * 2 / 3]),
        # The same with the node itself among them.
        ("renormalised", [(1 + 2 + 4) / 3, 2, (3 * 2 + 4) / 4]),
        ("single-parameter", [1 + 3, 2, 4 + 2]),
    ],
)
def test_directed_by_hand(rule, expected, kernel):
    result = apply_rule(make(rule, DIRECTED), DIRECTED, column(1, 2, 4), kernel)
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        *((rule, {}) for rule in RULES),
        ("renormalised", {"self_loop_weight": 0.25}),
        ("chebyshev", {"order": 6, "lambda_max": 1.3}),
    ],
)
def test_equals_dense_formula(rule, options, graph, kernel):
    terms = dense_terms(rule, graph, **options)
    given = {("chebyshev_order" if k == "order" else k): v for k, v in options.items()}
    propagation = make(rule, graph, **given)
    assert propagation.n_terms == len(terms)
    blocks = np.random.default_rng(0).standard_normal((len(terms), graph.n_nodes, 3))
    expected = sum(term @ block for term, block in zip(terms, blocks, strict=True))
    result = apply_rule(propagation, graph, np.hstack(blocks), kernel)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rule", [*RULES, "learned"])
def test_finite_with_extreme_weights_and_isolated_nodes(rule, directed, kernel):
    # Weights from 1e-30 to 1e30, two isolated nodes, one of them with a loop.
    weights = np.zeros((6, 6))
    weights[0, 1] = weights[1, 0] = 1e-30
    weights[1, 2] = weights[2, 1] = 1e30
    weights[2, 3] = weights[3, 2] = 0.5
    weights[4, 4] = 1e-30
    graph = Graph(weights, directed=directed)
    learned = {"self_loop_weight": "learn"} if rule == "learned" else {}
    propagation = make("renormalised" if learned else rule, graph, **learned)
    n_columns = 2 * propagation.n_terms
    network = rule_network(propagation, n_columns, kernel=kernel)
    features = np.ones((6, n_columns), dtype=np.float32)
    for dtype in (np.float32, np.float64):
        network.parameters = {name: own.astype(dtype) for name, own in network.parameters.items()}
        batch = make_batch(graph, n_hops=network.n_hops, features=features, dtype=dtype)
        recorded = Recorded(network)
        result = recorded(batch)
        assert torch.isfinite(result).all()
        for slope in torch.autograd.grad(result.sum(), recorded.parameters.values()):
            assert torch.isfinite(slope).all()


@pytest.mark.parametrize("graph", [PATH, WEIGHTED, RING], ids=["path", "weighted", "ring"])
def test_chebyshev_approaches_exact_spectral_filtering(graph):
    def heat(eigenvalues):
        return np.exp(-2 * eigenvalues)

    x = np.random.default_rng(1).standard_normal((graph.n_nodes, 2))
    exact = spectral_filter(graph, heat, x)
    lambda_max = largest_eigenvalue(graph)
    errors = []
    for order in (1, 3, 6, 20):
        theta = chebyshev_coefficients(heat, order, lambda_max)
        propagation = make("chebyshev", graph, chebyshev_order=order, lambda_max=lambda_max)
        result = apply_rule(propagation, graph, np.hstack([t * x for t in theta]))
        errors.append(np.abs(result - exact).max())
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[2] < 1e-2
    assert errors[3] < 1e-12


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_chebyshev_of_order_1_is_the_first_order_rule(graph):
    # With lambda_max = 2, L~ = -S: the paper's equation 6 has the sign in Theta_1.
    own, neighbours = np.random.default_rng(2).standard_normal((2, graph.n_nodes, 3))
    chebyshev = make("chebyshev", graph, chebyshev_order=1, lambda_max=2.0)
    first_order = make("first-order", graph)
    np.testing.assert_array_equal(
        apply_rule(chebyshev, graph, np.hstack([own, -neighbours])),
        apply_rule(first_order, graph, np.hstack([own, neighbours])),
    )


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        # A bipartite graph reaches 2, a complete one of n nodes n / (n - 1), an odd ring of n
        # 1 + cos(pi / n); without edges the Laplacian is the identity.
        (PATH, 2.0),
        (RING, 2.0),
        (Graph(np.ones((5, 5)) - np.eye(5)), 5 / 4),
        (
            Graph(np.roll(np.eye(7), 1, axis=1) + np.roll(np.eye(7), -1, axis=1)),
            1 + math.cos(math.pi / 7),
        ),
        (EDGELESS, 1.0),
        (SINGLE, 1.0),
        # The same past the size where Lanczos takes over.
        (Graph(np.ones((80, 80)) - np.eye(80)), 80 / 79),
        (
            Graph(np.roll(np.eye(81), 1, axis=1) + np.roll(np.eye(81), -1, axis=1)),
            1 + math.cos(math.pi / 81),
        ),
        (Graph(np.zeros((100, 100))), 1.0),
    ],
)
def test_largest_eigenvalue_by_hand(graph, expected):
    assert largest_eigenvalue(graph) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_nodes", [20, 63, 64, 150])
def test_largest_eigenvalue_equals_dense_one(n_nodes):
    rng = np.random.default_rng(n_nodes)
    weights = np.triu(rng.gamma(1, 1, (n_nodes, n_nodes)) * (rng.random((n_nodes,) * 2) < 0.05))
    graph = Graph(weights + weights.T)
    exact = np.linalg.eigvalsh(dense_laplacian(graph))[-1]
    assert largest_eigenvalue(graph) == pytest.approx(exact, abs=1e-9)
    assert largest_eigenvalue(graph) == largest_eigenvalue(graph)
    np.testing.assert_allclose(
        normalised_laplacian(graph).toarray(), dense_laplacian(graph), atol=1e-14
    )


@pytest.mark.parametrize("graph", [PATH, WEIGHTED, DIRECTED], ids=["path", "weighted", "directed"])
def test_learned_self_loop_weight_starts_at_1_and_follows_the_dense_formula(graph):
    x = np.random.default_rng(5).standard_normal((graph.n_nodes, 4))
    propagation = make("renormalised", graph, self_loop_weight="learn")
    assert rule_network(propagation, 4, 2).self_loop_weight == pytest.approx([1.0, 1.0])
    wanted = [0.3, 2.5]
    expected = [
        dense_terms("renormalised", graph, self_loop_weight=weight)[0] @ x[:, 2 * k : 2 * k + 2]
        for k, weight in enumerate(wanted)
    ]
    found = apply_rule(propagation, graph, x, learned=wanted)
    np.testing.assert_allclose(found, np.hstack(expected), rtol=1e-12)


def test_training_changes_the_learned_self_loop_weight_and_reports_it():
    fitted = fit_gcn(
        load_dataset("karate"),
        overrides={"self_loop_weight": "learn", "max_epochs": 30, "early_stopping": "none"},
        seeds=[0, 1],
    )
    raw = fitted.network.parameters["propagation.raw_self_loop_weight"]
    assert fitted.self_loop_weight == pytest.approx(np.log1p(np.exp(raw)).mean())
    assert (np.abs(np.log1p(np.exp(raw)) - 1) > 0.01).all()
    assert raw[0] != raw[1]


def test_fixed_self_loop_weight_is_reported():
    propagation = make("renormalised", self_loop_weight=0.5)
    assert rule_network(propagation, 4, 2).self_loop_weight == [0.5, 0.5]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_and_pickles_give_the_same(duplicate):
    network = rule_network(make("renormalised", WEIGHTED), 2)
    x = np.random.default_rng(6).standard_normal((4, 2))
    batch = make_batch(WEIGHTED, n_hops=1, features=x, dtype=np.float64)
    assert np.array_equal(duplicate(network)(batch), network(batch))


@pytest.mark.parametrize("directed", [False, True])
def test_renormalised_adjacency_by_hand(directed):
    # 0 -> 1 -> 2: with loops the degrees are 2, 3 and 2, whichever way the edges go.
    path = np.diag(np.ones(2), 1)
    found = renormalised_adjacency(Graph(path if directed else path + path.T, directed=directed))
    across = 6**-0.5
    expected = [[1 / 2, across, 0], [across, 1 / 3, across], [0, across, 1 / 2]]
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
