"""Inference in blocks equals the whole graph's forward pass, for every kind of model."""

import numpy as np
import pytest
from tests.generated_graphs import random_matrix

from graphconv.engine import blocks as inference
from graphconv.engine.batches import make_batch
from graphconv.engine.blocks import run_in_blocks
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.graph.scaling import fit_scaler
from graphconv.models.settings import RULES, Settings
from graphconv.training.fit import build_model


def make_graph(rng, *, directed=False, weighted=False, features="dense", n_nodes=90):
    ends = rng.integers(n_nodes - 3, size=(2, 300))  # three nodes have no edge
    weight = rng.random(300) + 0.1 if weighted else None
    adjacency = adjacency_from_edges(*ends, weight, n_nodes=n_nodes, directed=directed)
    values = None
    if features == "dense":
        values = rng.standard_normal((n_nodes, 7))
    elif features == "sparse":
        values = random_matrix((n_nodes, 12), 0.2, rng)
    return Graph(adjacency, values, labels=rng.integers(3, size=n_nodes), directed=directed)


def both(graph, settings, seeds=(0, 1), embed=False, monkeypatch=None, **more):
    """The outputs of a model with weights at random: whole, and in small blocks."""
    model = build_model(graph, settings, seeds)
    rng = np.random.default_rng(7)
    for parameter in model.parameters.values():
        parameter += 0.3 * rng.standard_normal(parameter.shape, dtype=np.float32)
    scaler = fit_scaler(graph.features)
    batch = make_batch(graph, n_hops=model.n_hops, features=scaler.transform(graph.features))
    whole = (model.embed if embed else model)(batch)
    # At least 256 rows make a block, else: these graphs would be a single one.
    monkeypatch.setattr(
        inference._Run,
        "_blocks",
        lambda self, width: (slice(i, min(i + 13, 90)) for i in range(0, 90, 13)),
    )
    return whole, run_in_blocks(model, graph, scaler, embed=embed, **more)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("features", ["dense", "sparse", None])
@pytest.mark.parametrize("memory", [1 << 30, 0])
def test_equals_the_whole_graph(rule, directed, features, memory, monkeypatch, tmp_path):
    graph = make_graph(np.random.default_rng(0), directed=directed, features=features)
    settings = Settings(propagation=rule, hidden=(6,), lambda_max=1.7)
    whole, blocks = both(graph, settings, monkeypatch=monkeypatch, memory=memory, scratch=tmp_path)
    assert whole.shape == blocks.shape == (90, 2, 3)
    np.testing.assert_allclose(blocks, whole, rtol=1e-5, atol=1e-5)
    assert list(tmp_path.iterdir()) == []  # its files have no name


@pytest.mark.parametrize("order", [0, 1, 2, 3, 5])
def test_chebyshev_of_any_order(order, monkeypatch):
    graph = make_graph(np.random.default_rng(1), weighted=True)
    settings = Settings(propagation="chebyshev", chebyshev_order=order, hidden=(5, 5))
    whole, blocks = both(graph, settings, monkeypatch=monkeypatch)
    np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(hidden=()),
        Settings(hidden=(6, 6, 6), residual=True),
        Settings(hidden=(6, 4, 4), residual=True, activation="tanh"),
        Settings(self_loop_weight="learn", hidden=(4,)),
        Settings(self_loop_weight=0.0, activation="elu", bias=False),
        Settings(activation="none", residual=True, hidden=(5, 5)),
    ],
)
@pytest.mark.parametrize("directed", [False, True])
def test_equals_the_whole_graph_with_other_settings(settings, directed, monkeypatch):
    graph = make_graph(np.random.default_rng(2), directed=directed, weighted=True)
    whole, blocks = both(graph, settings, seeds=(3, 4, 5), monkeypatch=monkeypatch)
    np.testing.assert_allclose(blocks, whole, rtol=1e-5, atol=1e-5)
    if settings.hidden:
        whole, blocks = both(graph, settings, embed=True, monkeypatch=monkeypatch)
        np.testing.assert_allclose(blocks, whole, rtol=1e-5, atol=1e-5)


def test_progress_counts_every_row_of_every_stage(monkeypatch):
    graph = make_graph(np.random.default_rng(3))
    told = []
    both(graph, Settings(hidden=(4,)), monkeypatch=monkeypatch, advance=told.append)
    assert sum(told) == 3 * 90  # before the first sum over neighbours, after it, after the second
