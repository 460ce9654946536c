"""Tests of training by torch on a device: the same masks, losses and models as by the kernels.

Torch's own "cpu" stands in for a device; "meta", which has shapes and no numbers, shows that an
epoch never leaves the device. Where there is a real one it is used as well.
"""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Settings, kernels, load_model, save_model
from graphconv.engine import device_plan, devices
from graphconv.engine.batches import make_batch
from graphconv.engine.devices import choose_device, single_torch_thread
from graphconv.engine.mini_batches import MiniBatches
from graphconv.engine.objective import LabelledBatch
from graphconv.engine.replicas import Replicas
from graphconv.io.readers import from_frames
from graphconv.kernels import Csr, Dropout, reference, torch_device
from graphconv.kernels.hashing import hash_key
from graphconv.models.catalogue import MODELS
from graphconv.models.settings import RULES
from graphconv.training.fit import Watch, build_model, fit_gcn, full_batches
from graphconv.training.loop import train

CPU = torch.device("cpu")
KINDS = {
    "sparse": "binary features",
    "dense": "dense embeddings",
    "none": "no features",
    "edges": "of edges",
}
CASES = {
    **{f"gcn {rule}": {"propagation": rule} for rule in RULES},
    **{model: {"model": model} for model in MODELS if model != "gcn"},
    "learned": {"self_loop_weight": "learn"},
    "deep": {"hidden": (8, 8, 8), "residual": True, "normalisation": "layer", "activation": "elu"},
    "deep first-order": {
        "propagation": "first-order",
        "normalisation": "layer",
        "residual": True,
        "hidden": (8, 8, 8),
        "dropout": 0.2,
    },
    "rates": {"hidden": (8, 8), "dropout": (0.3, 0.0, 0.6)},
    "batch": {"hidden": (8, 8), "normalisation": "batch", "jumping_knowledge": True},
    "grand normalised": {"model": "grand", "normalisation": "batch"},
    "wide": {"hidden": (40,), "activation": "tanh"},
    "no dropout": {"dropout": 0.0},
    "last layer alone": {"hidden": ()},
}


def settings_of(case):
    return Settings(**{"hidden": (8,), "lambda_max": 1.7, "max_epochs": 50, **CASES[case]})


def small(features="sparse"):
    if features == "edges":
        return with_edge_features()
    return split(generate(KINDS[features], n_nodes=120), n_validation=30)


def with_edge_features():
    """A graph whose edges are nodes that carry an amount."""
    rng = np.random.default_rng(2)
    people, classes = np.arange(60), np.array(["x", "y", "z"])
    nodes = pd.DataFrame(
        {"id": people, "label": classes[people % 3], "age": rng.normal(people % 3, 1)}
    )
    ends = rng.integers(60, size=(90, 2))
    edges = pd.DataFrame(
        {"source": ends[:, 0], "target": ends[:, 1], "amount": rng.random(90) + (ends[:, 0] % 3)}
    )
    graph = from_frames(edges, nodes, edge_features=["amount"]).graph
    return graph.with_split(np.arange(30), np.arange(30, 60), np.empty(0, dtype=np.int64))


def losses(graph, settings, device, batches=None):
    network = build_model(graph, settings, [3, 4], device=device)
    training, watched = full_batches(graph, settings, network)
    state = train(network, [training] if batches is None else batches, watched, settings)
    figures = np.array(state.epochs)  # (n_epochs, 4, n_replicas)
    return figures[:, [0, 2]], network


@pytest.mark.parametrize("threshold", [1, 20000, 65535])
def test_masks_are_those_of_the_kernels_bit_for_bit(threshold):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.integers(2**31, size=200), [0, 1, 2**31 - 1]])
    elements = np.arange(70)
    for seed in range(20):
        key = hash_key(seed, 7)
        wanted = reference.kept(key, threshold, rows[:, None], elements)
        found = torch_device.kept(
            key, threshold, torch.from_numpy(rows)[:, None], torch.from_numpy(elements)
        )
        np.testing.assert_array_equal(found.numpy(), wanted)
    dropout = Dropout((hash_key(1), hash_key(2)), threshold)
    ones = np.ones((len(rows), 140), dtype=np.float32)
    mask = torch_device.dense_mask(ones.shape, dropout, torch.from_numpy(rows))
    np.testing.assert_array_equal(
        mask.float().numpy() > 0, kernels.select().dropout_dense(ones, dropout, rows) > 0
    )


def test_sparse_product_and_its_gradient():
    rng = np.random.default_rng(1)
    dense = (rng.random((6, 5)) < 0.5) * rng.standard_normal((6, 5))
    row, column = np.nonzero(dense)
    ends = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=6))))
    rows = Csr(ends[:-1], ends[1:], column, dense[row, column])
    matrix = torch_device.sparse_rows(rows, 5, torch.float64, CPU)
    x = torch.from_numpy(rng.standard_normal((5, 3))).requires_grad_()
    torch.testing.assert_close(torch_device.product(matrix, x), torch.from_numpy(dense) @ x)
    assert torch.autograd.gradcheck(lambda x: torch_device.product(matrix, x), x)


def in_double(graph, network):
    """Batches of training and validation nodes, and the network, in double precision."""
    network.parameters = {
        name: own.double() if network.device is not None else own.astype(np.float64)
        for name, own in network.parameters.items()
    }
    for index in (graph.train_index, graph.validation_index):
        others = np.empty(0, dtype=np.int64)
        if network.model.agrees and index is graph.train_index:
            others = np.setdiff1d(np.arange(graph.n_nodes), index)
        targets = np.concatenate([index, others])
        batch = make_batch(graph, targets, n_hops=network.n_hops, dtype=np.float64)
        yield LabelledBatch.make(batch, graph.labels, None, len(index))


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_losses_of_fifty_epochs_are_those_of_the_kernels(case, features):
    """In double precision: in single, rounding can decide on which side of its kink a ReLU is."""
    graph, settings = small(features), settings_of(case)
    found = []
    for device in (None, CPU):
        network = build_model(graph, settings, [3, 4], device=device)
        training, watched = in_double(graph, network)
        state = train(network, [training], watched, settings)
        found.append(np.array(state.epochs)[:, [0, 2]])
    by_kernels, by_torch = found
    assert by_kernels.shape == (50, 2, 2)
    np.testing.assert_allclose(by_torch, by_kernels, rtol=1e-7)


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_losses_in_single_precision_are_those_of_the_kernels(case, features):
    graph, settings = small(features), settings_of(case)
    by_kernels, _ = losses(graph, settings, None)
    by_torch, _ = losses(graph, settings, CPU)
    differ = ~np.isclose(by_torch[:20], by_kernels[:20], rtol=1e-4, atol=0)
    assert differ.mean() <= 0.02  # a ReLU at its kink
    np.testing.assert_allclose(by_torch, by_kernels, rtol=1e-3)


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batches", ["full", "mini", "sampled"])
def test_an_epoch_stays_on_the_device(case, features, batches):
    """Nothing can be read from the meta device: whatever left it would fail."""
    graph, settings = small(features), settings_of(case)
    if batches == "sampled" and settings.propagation == "chebyshev":
        pytest.skip("the Chebyshev rule takes all neighbours")
    network = build_model(graph, settings, [3, 4], device=torch.device("meta"))
    training, watched = full_batches(graph, settings, network)
    if batches != "full":
        changes = {"batch_size": 20, "fanout": "all" if batches == "mini" else 3}
        made = MiniBatches(
            graph,
            Settings(**{**settings.to_json(), **changes}),
            n_hops=network.n_hops,
            features=graph.features,
        )
        training = next(iter(made.training(0)))
    with single_torch_thread(network.device):
        team = Replicas(network, settings).take(np.arange(2), 0)
        slopes, figures, _ = team.objective.gradients(training, 1)
        team.optimiser.step(slopes)
        team.objective.evaluate(watched)
    assert figures.shape == (2, 2)
    for slope, own in zip(slopes, network.parameters.values(), strict=True):
        assert slope.is_meta
        assert slope.shape == own.shape


@pytest.fixture
def a_device(monkeypatch):
    """Torch's own processor as if it were a device called cuda."""

    def choose(name, n_numbers):
        return CPU if name == "cuda" else choose_device(name, n_numbers)

    monkeypatch.setattr("graphconv.training.fit.choose_device", choose)
    monkeypatch.setattr("graphconv.training.fitted.choose_device", choose)


SHORT = {"max_epochs": 6, "hidden": (8,), "early_stopping": "none"}


@pytest.mark.parametrize("first", ["cpu", "cuda"])
@pytest.mark.parametrize("second", ["cpu", "cuda"])
def test_resumes_on_any_device(a_device, first, second):
    graph, saved = small("dense"), []
    watch = Watch(on_checkpoint=lambda make: saved.append(make()))
    whole = fit_gcn(graph, overrides=SHORT, seeds=[0, 1], watch=watch, device=first)
    watch = Watch(resume_from=saved[2])
    resumed = fit_gcn(graph, overrides=SHORT, seeds=[0, 1], watch=watch, device=second)
    assert resumed.network.device is None
    for name, own in whole.network.parameters.items():
        found = resumed.network.parameters[name]
        np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["gcn renormalised", "learned", "appnp", "deep first-order"])
def test_what_was_trained_on_one_device_predicts_on_another(a_device, case):
    graph = small()
    overrides = {**SHORT, **CASES[case]}
    fitted = fit_gcn(graph, overrides=overrides, seeds=[0, 1], device="cuda")
    assert fitted.device == "cuda"
    on_processor = replace(fitted, device="cpu")
    some, other = np.array([7, 3]), generate(KINDS["sparse"], seed=5, n_nodes=90)
    for found, wanted in (
        (fitted.probabilities(), on_processor.probabilities()),
        (fitted.probabilities(nodes=some), on_processor.probabilities(nodes=some)),
        (fitted.probabilities(other), on_processor.probabilities(other)),
        (fitted.embedding(other), on_processor.embedding(other)),
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert [own.device for own in fitted._on_devices.values()] == [CPU]  # they were not computed
    assert on_processor._on_devices == {}  # in the same way
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())


def test_estimator_predicts_where_it_is_told_to(a_device, tmp_path):
    graph = small("dense")
    model = GCNClassifier(device="cuda", max_epochs=6, hidden=(8,)).fit(graph)
    on_device = model.predict_proba(graph)
    assert model.fitted_._on_devices
    on_processor = model.set_params(device="cpu").predict_proba(graph)
    assert not model.fitted_._on_devices
    np.testing.assert_allclose(on_device, on_processor, atol=1e-5)
    save_model(model.set_params(device="cuda"), tmp_path / "model")
    loaded = load_model(tmp_path / "model")  # on a machine that may have no such device
    assert loaded.device == loaded.fitted_.device == "cpu"
    np.testing.assert_array_equal(loaded.predict_proba(graph), on_processor)


def test_commands_predict_on_a_device(a_device, run):
    run("train", "karate", "--model", "gcn", "--max-epochs", 5, "-o", "model", "--quiet")
    tables = []
    for device in ("cpu", "cuda"):
        run("predict", "model", "-o", "found.csv", "--device", device, "--quiet")
        tables.append(pd.read_csv("found.csv"))
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-5)
    done = run("predict", "model", "--device", "tpu", expect=2)
    assert done.err == ["graphconv: --device must be one of cpu, cuda, mps, auto, got 'tpu'"]


def test_commands_refuse_a_device_that_cannot_serve(a_device, run):
    drawn = ("--nodes", 300, "--edges", 900, "--features", 4, "--labelled", 0.5, "--quiet")
    run("generate", "planted-partition", *drawn, "-o", "tables")
    tables = ("--edges", "tables/edges.parquet", "--nodes", "tables/nodes.parquet")
    run("ingest", *tables, "-o", "stored", "--quiet")
    run("train", "stored", "--max-epochs", 2, "-o", "model", "--quiet")
    done = run("predict", "model", "--device", "cuda", expect=2)
    assert done.err == [
        "graphconv: a graph on disk is predicted on the cpu, in blocks, got --device"
    ]
    run("train", "karate", "--model", "label-propagation", "-o", "other", "--quiet")
    done = run("predict", "other", "--device", "cuda", expect=2)
    assert done.err[-1].startswith("graphconv: --device is for gcn, appnp, grand and mlp, got")


def test_auto_takes_a_device_for_work_that_is_worth_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto", 1000) is None
    assert choose_device("auto", devices.LEAST_NUMBERS) == torch.device("cuda")
    assert choose_device("cuda", 1000) == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [choose_device("cuda", 1000, process) for process in range(4)]
    assert found == [torch.device(name) for name in ("cuda", "cuda:1", "cuda:0", "cuda:1")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto", devices.LEAST_NUMBERS) == torch.device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto", devices.LEAST_NUMBERS) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="must be there to be used, but torch finds no cuda"):
        GCNClassifier(device="cuda").fit(small())
    with pytest.raises(ValueError, match="device must be one of cpu, cuda, mps, auto, got 'tpu'"):
        GCNClassifier(device="tpu").fit(small())
    assert choose_device("auto", 10**12) is None or torch.backends.mps.is_available()


def test_a_device_without_memory_says_so(a_device, monkeypatch):
    graph = small()
    fitted = fit_gcn(graph, overrides=SHORT, device="cuda")

    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(device_plan.DevicePlan, "forward", fail)
    with pytest.raises(ValueError, match=r"^device must have memory .* mini-batches, by batch"):
        fit_gcn(graph, overrides=SHORT, device="cuda")
    for predict in (fitted.probabilities, fitted.embedding):
        with pytest.raises(ValueError, match=r"^device must have memory for all .* on the cpu"):
            predict()


@pytest.mark.skipif(
    not (torch.cuda.is_available() or torch.backends.mps.is_available()),
    reason="there is no GPU here",
)
@pytest.mark.parametrize("case", CASES)
def test_on_a_real_device(case):
    name = "cuda" if torch.cuda.is_available() else "mps"
    graph, settings = small(), settings_of(case)
    by_kernels, _ = losses(graph, settings, None)
    by_device, network = losses(graph, settings, torch.device(name))
    np.testing.assert_allclose(by_device[:20], by_kernels[:20], rtol=1e-3)
    assert next(iter(network.parameters.values())).device.type == name
