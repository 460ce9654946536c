"""Tests of batches: which rows a batch has, and that they are all the loss needs."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.generated_graphs import random_matrix
from tests.networks import make_network

from graphconv.engine.batches import make_batch, nodes_within
from graphconv.engine.recorded import Recorded
from graphconv.graph import Graph
from graphconv.models.settings import RULES

# 0 - 1 - 2 - 3 - 4, and 5 on its own
PATH = Graph(np.diag([1, 1, 1, 1, 0], 1) + np.diag([1, 1, 1, 1, 0], -1))
# 0 -> 1 -> 2 -> 0, 3 -> 0
CYCLE = Graph([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]], directed=True)


@pytest.mark.parametrize(
    ("graph", "targets", "n_hops", "rows", "n_within"),
    [
        (PATH, [4], 0, [4], (1,)),
        (PATH, [4], 2, [4, 3, 2], (1, 2, 3)),
        # The targets keep their order; a ring is sorted.
        (PATH, [3, 0], 1, [3, 0, 1, 2, 4], (2, 5)),
        (PATH, [2], 4, [2, 1, 3, 0, 4], (1, 3, 5, 5, 5)),
        (PATH, [5], 3, [5], (1, 1, 1, 1)),
        (PATH, [], 2, [], (0, 0, 0)),
        # A row reads the nodes its edges point to: nobody reads 3.
        (CYCLE, [0], 3, [0, 1, 2], (1, 2, 3, 3)),
        (CYCLE, [3], 2, [3, 0, 1], (1, 2, 3)),
    ],
)
def test_rows_by_hand(graph, targets, n_hops, rows, n_within):
    batch = make_batch(graph, targets, n_hops=n_hops)
    assert batch.rows.tolist() == rows
    assert batch.n_within == n_within
    assert not batch.is_whole
    found, counts = nodes_within(graph.adjacency, np.array(targets, dtype=np.int64), n_hops)
    assert (found.tolist(), counts) == (rows, n_within)


def test_without_targets_all_nodes_in_their_own_order():
    batch = make_batch(PATH, n_hops=2)
    assert batch.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.n_within == (6, 6, 6)
    assert batch.is_whole
    assert batch.degree.tolist() == [1, 2, 2, 2, 1, 0]


def test_degrees_are_those_of_the_whole_graph():
    # Node 3 has two neighbours, of which the batch holds one.
    batch = make_batch(PATH, [4], n_hops=1)
    assert batch.rows.tolist() == [4, 3]
    assert batch.degree.tolist() == [1, 2]


def _random_graph(directed=False, weighted=True, seed=0, n_nodes=12):
    rng = np.random.default_rng(seed)
    adjacency = (rng.random((n_nodes, n_nodes)) < 0.12).astype(float)
    if weighted:
        adjacency *= rng.gamma(2, 1, adjacency.shape)
    return Graph(
        adjacency if directed else np.triu(adjacency) + np.triu(adjacency).T, directed=directed
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_blocks_are_leading_blocks_of_the_matrix_in_local_order(
    directed, weighted, transposed, dtype
):
    graph = _random_graph(directed, weighted)
    batch = make_batch(graph, [7, 2], n_hops=3, dtype=dtype)
    local = graph.adjacency.toarray()[np.ix_(batch.rows, batch.rows)]
    if transposed:
        local = local.T
    for n_rows in batch.n_within:
        for n_columns in batch.n_within:
            block = batch.block(n_rows, n_columns, transposed)
            dense = np.zeros((n_rows, n_columns), dtype=dtype)
            for row in range(n_rows):
                span = slice(block.begin[row], block.end[row])
                columns = block.indices[span]
                assert (np.diff(columns) > 0).all()
                dense[row, columns] = 1 if block.values is None else block.values[span]
            np.testing.assert_array_equal(dense, local[:n_rows, :n_columns].astype(dtype))
    assert (block.values is not None) == graph.is_weighted


@pytest.mark.parametrize("make", [sp.csr_array, np.asarray])
def test_feature_rows_follow_the_batch(make):
    features = np.arange(12.0).reshape(6, 2)
    graph = Graph(PATH.adjacency, make(features))
    batch = make_batch(graph, [4], n_hops=2, dtype=np.float64)
    assert batch.n_features == 2
    if isinstance(batch.features, np.ndarray):
        np.testing.assert_array_equal(batch.features, features[[4, 3, 2]])
    else:
        rows = [
            batch.features.values[begin:end].tolist()
            for begin, end in zip(batch.features.begin, batch.features.end, strict=True)
        ]
        assert rows == [[8, 9], [6, 7], [4, 5]]


def test_features_given_stand_in_for_the_graphs():
    graph = Graph(PATH.adjacency, np.ones((6, 2)))
    batch = make_batch(graph, [1], n_hops=0, features=np.full((6, 3), 5.0))
    assert batch.n_features == 3
    assert batch.features.tolist() == [[5, 5, 5]]


def test_featureless_rows_are_the_identity():
    batch = make_batch(PATH, [4], n_hops=1)
    assert batch.features is None
    assert batch.n_features == 6
    identity = batch.identity_features
    assert identity.indices[identity.begin[0] : identity.end[0]].tolist() == [4]
    assert identity.indices[identity.begin[1] : identity.end[1]].tolist() == [3]
    assert identity.values is None


FEATURES = {
    "sparse": lambda rng: random_matrix((40, 9), 0.4, rng),
    "dense": lambda rng: rng.standard_normal((40, 9)),
    "none": lambda rng: None,
}


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rule", [*RULES, "learned"])
def test_only_what_the_loss_needs_gives_the_same_gradients(
    rule, depth, residual, directed, features
):
    """Logits and gradients of a batch equal those of computing every row, dropout on."""
    rng = np.random.default_rng(depth)
    graph = _random_graph(directed, seed=depth, n_nodes=40)
    graph = Graph(graph.adjacency, FEATURES[features](rng), directed=directed)
    learned = {"self_loop_weight": "learn"} if rule == "learned" else {}
    model = make_network(
        graph,
        "renormalised" if learned else rule,
        chebyshev_order=2,
        lambda_max=1.7,
        hidden=(5,) * (depth - 1),
        seeds=(1, 2),
        dropout=0.4,
        residual=residual,
        bias=True,
        **learned,
    )
    targets = np.array([31, 4, 17])
    labels = torch.tensor([0, 2, 1])
    recorded = Recorded(model)
    results = []
    for batch, own in (
        (make_batch(graph, targets, n_hops=model.n_hops, dtype=np.float64), slice(None)),
        (make_batch(graph, n_hops=model.n_hops, dtype=np.float64), targets),
    ):
        logits = recorded(batch, epoch=6)[own]  # (n_targets, n_replicas, n_classes)
        wanted = labels[:, None].expand(3, 2)
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted)
        gradients = torch.autograd.grad(loss, list(recorded.parameters.values()))
        results.append((logits.detach(), *gradients))
    assert len(results[0]) == 1 + len(model.parameters)
    assert results[0][0].abs().max() > 1e-3
    for part, whole in zip(*results, strict=True):
        scale = float(whole.abs().max())
        torch.testing.assert_close(part, whole, rtol=1e-9, atol=1e-12 * max(scale, 1e-3))
