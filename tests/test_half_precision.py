"""Features kept as float16: the same graph in half the memory, computed with in float32."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Graph, load_model, save_model
from graphconv.estimators.baselines import BASELINES, make_estimator
from graphconv.graph.half_precision import RoundingLoss, in_half_precision
from graphconv.graph.scaling import fit_scaler, fit_stored_scaler
from graphconv.storage.stored_graph import open_graph, store_graph
from graphconv.training.fit import fit_gcn

SHORT = {"max_epochs": 10, "hidden": (8,)}


def both(seed=0):
    """A graph whose features fit float16 exactly, kept in float32 and in float16."""
    graph = split(generate("dense embeddings", seed, n_nodes=200), seed, n_validation=40)
    halved = np.asarray(graph.features).astype(np.float16)
    return replace(graph, features=halved.astype(np.float32)), replace(graph, features=halved)


def test_graph_keeps_half_precision():
    whole, half = both()
    assert (whole.features.dtype, half.features.dtype) == (np.float32, np.float16)
    assert half.features.nbytes * 2 == whole.features.nbytes
    assert (whole.reads_rows, half.reads_rows) == (False, True)


def test_numbers_that_do_not_fit_are_refused():
    with np.errstate(over="ignore"):
        features = np.array([[1.0], [70_000.0]]).astype(np.float16)
    with pytest.raises(ValueError, match="finite float16 numbers, got inf at node 1, column 0"):
        Graph(np.zeros((2, 2)), features, [0, 1])
    with pytest.raises(ValueError, match="column 'b' must lie within 65,504 to fit float16"):
        in_half_precision(np.array([[1.0, 70_000.0]]), ["a", "b"])


@pytest.mark.parametrize("overrides", [{}, {"batch_size": 16}, {"propagation": "none"}])
def test_training_differs_by_the_order_of_sums_alone(overrides):
    """Means are added up in blocks instead of columns; nothing else differs."""
    whole, half = (fit_gcn(own, overrides={**SHORT, **overrides}, seeds=[1, 2]) for own in both())
    np.testing.assert_allclose(half.probabilities(), whole.probabilities(), atol=1e-5)
    np.testing.assert_allclose(half.embedding(), whole.embedding(), atol=1e-5)
    some = np.array([5, 2])
    np.testing.assert_allclose(
        half.probabilities(nodes=some), half.probabilities()[some], atol=1e-6
    )


@pytest.mark.parametrize("kind", ["auto", "row", "l2", "standard", "none"])
def test_scaling_computes_in_single_precision(kind):
    whole, half = (own.features for own in both())
    wanted = fit_scaler(whole, kind).transform(whole)
    for scaler in (fit_scaler(half, kind), fit_stored_scaler(half, kind)):
        found = scaler.transform(half)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_estimator_takes_and_saves_half_precision(tmp_path):
    _, graph = both()
    labels = np.where(np.isin(np.arange(200), graph.train_index), graph.labels, -1)
    model = GCNClassifier(**SHORT).fit(graph.features, labels, adjacency=graph.adjacency)
    assert model.fitted_.graph.features.dtype == np.float16
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.fitted_.graph.features.dtype == np.float16
    found = model.predict_proba(graph.features, adjacency=graph.adjacency)
    np.testing.assert_array_equal(
        again.predict_proba(graph.features, adjacency=graph.adjacency), found
    )
    assert "feature" in str(again.explain(3))


def test_a_device_computes_in_single_precision(monkeypatch):
    cpu = torch.device("cpu")
    for place in ("fit", "fitted"):
        monkeypatch.setattr(
            f"graphconv.training.{place}.choose_device",
            lambda name, n: cpu if name == "cuda" else None,
        )
    _, graph = both()
    by_kernels = fit_gcn(graph, overrides=SHORT)
    by_torch = fit_gcn(graph, overrides=SHORT, device="cuda")
    np.testing.assert_allclose(by_torch.probabilities(), by_kernels.probabilities(), atol=1e-4)


@pytest.mark.parametrize("method", [name for name in BASELINES if name != "deepwalk"])
def test_other_methods_compute_in_single_precision(method):
    whole, half = both()
    found, wanted = (
        make_estimator(method).set_params(random_state=0).fit(own).predict_proba()
        for own in (half, whole)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_graph_on_disk_keeps_half_precision(tmp_path):
    whole, half = both()
    store_graph(half, tmp_path / "graph")
    stored = open_graph(tmp_path / "graph")
    assert stored.features.dtype == np.float16
    found = fit_gcn(stored, overrides=SHORT).probabilities()
    np.testing.assert_allclose(found, fit_gcn(whole, overrides=SHORT).probabilities(), atol=1e-5)


def test_rounding_is_told_of_where_it_is_coarse():
    # In float16, steps are 1/2048 of a number at most: near 2000 they are 1.
    rows = np.array(
        [[0.1, 2000.3, 2000.0, 7.0], [0.2, 2000.9, 2010.0, 7.0], [0.4, 2001.4, 2020, 7]]
    )
    told = (
        "half precision is too coarse for 1 column ('b'): what it rounds away is more than 1% of "
        "their spread; float32 keeps them"
    )
    for blocks in ([rows], [rows[:1], rows[1:]], [rows[:0], rows]):
        loss = RoundingLoss(4)
        for block in blocks:
            loss.add(block)
        assert loss.told("abcd") == told
    assert in_half_precision(rows[:, [0, 2]], "ac")[1] == ""


@pytest.mark.parametrize("more", [(), ("--label-separator", ";")])
def test_ingest_tells_of_coarse_columns(run, more):
    """Whether tables are read block by block or whole."""
    pd.DataFrame({"source": [0, 1], "target": [1, 2]}).to_csv("e.csv", index=False)
    nodes = {"id": range(3), "label": ["x", "y", "x"], "height": [2000.3, 2000.9, 2001.4]}
    pd.DataFrame({**nodes, "size": [0.1, 0.3, 0.2]}).to_csv("n.csv", index=False)
    tables = ("--edges", "e.csv", "--nodes", "n.csv", *more)
    done = run("ingest", *tables, "-o", "g", "--feature-type", "float16")
    assert open_graph("g").features.dtype == np.float16
    assert any("half precision is too coarse for 1 column ('height')" in line for line in done.err)
