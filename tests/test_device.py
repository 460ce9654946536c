"""Tests of training by torch on a device: the same masks, losses and models as by the kernels.

Torch's own "cpu" stands in for a device; "meta", which has shapes and no numbers, shows that an
epoch never leaves the device. Where there is a real one it is used as well.
"""

import numpy as np
import pytest
import torch
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Settings, kernels
from graphconv.engine import device_plan
from graphconv.engine.device_plan import choose_device
from graphconv.engine.mini_batches import MiniBatches
from graphconv.engine.replicas import Replicas
from graphconv.kernels import Csr, Dropout, reference, torch_device
from graphconv.kernels.hashing import hash_key
from graphconv.models.catalogue import MODELS
from graphconv.models.settings import RULES
from graphconv.training.fit import build_model, fit_gcn, full_batches
from graphconv.training.loop import single_torch_thread, train

CPU = torch.device("cpu")
KINDS = {"sparse": "binary features", "dense": "dense embeddings", "none": "no features"}
CASES = {
    **{f"gcn {rule}": {"propagation": rule} for rule in RULES},
    **{model: {"model": model} for model in MODELS},
    "learned": {"self_loop_weight": "learn"},
    "deep": {"hidden": (8, 8, 8), "residual": True, "normalisation": "layer", "activation": "elu"},
    "wide": {"hidden": (40,), "activation": "tanh"},
    "no dropout": {"dropout": 0.0},
    "last layer alone": {"hidden": ()},
}


def settings_of(case):
    return Settings(**{"hidden": (8,), "lambda_max": 1.7, "max_epochs": 50, **CASES[case]})


def small(features="sparse"):
    return split(generate(KINDS[features], n_nodes=120), n_validation=30)


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


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_losses_of_fifty_epochs_are_those_of_the_kernels(case, features):
    graph, settings = small(features), settings_of(case)
    by_kernels, _ = losses(graph, settings, None)
    by_torch, _ = losses(graph, settings, CPU)
    n_epochs = min(len(by_kernels), len(by_torch))
    assert n_epochs >= 20
    np.testing.assert_allclose(by_torch[:20], by_kernels[:20], rtol=1e-4)
    np.testing.assert_allclose(by_torch[:n_epochs], by_kernels[:n_epochs], rtol=1e-3)


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
    with single_torch_thread():
        team = Replicas(network, settings).take(np.arange(2), 0)
        slopes, figures, _ = team.objective.gradients(training, 1)
        team.optimiser.step(slopes)
        team.objective.evaluate(watched)
    assert figures.shape == (2, 2)
    for slope, own in zip(slopes, network.parameters.values(), strict=True):
        assert slope.is_meta
        assert slope.shape == own.shape


def test_resumes_and_comes_back_to_the_processor(monkeypatch):
    monkeypatch.setattr(device_plan, "choose_device", lambda name, n: CPU)
    monkeypatch.setattr("graphconv.training.fit.choose_device", lambda name, n: CPU)
    graph = small("dense")
    from graphconv.training.fit import Watch

    saved = []
    overrides = {"max_epochs": 6, "hidden": (8,), "early_stopping": "none"}
    watch = Watch(on_checkpoint=lambda make: saved.append(make()))
    whole = fit_gcn(graph, overrides=overrides, seeds=[0, 1], watch=watch, device="cuda")
    resumed = fit_gcn(
        graph, overrides=overrides, seeds=[0, 1], watch=Watch(resume_from=saved[2]), device="cuda"
    )
    assert whole.network.device is None
    for name, own in whole.network.parameters.items():
        torch.testing.assert_close(resumed.network.parameters[name], own)
    by_kernels = fit_gcn(graph, overrides=overrides, seeds=[0, 1])
    np.testing.assert_allclose(whole.probabilities(), by_kernels.probabilities(), atol=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="must be there to be used, but torch finds no cuda"):
        GCNClassifier(device="cuda").fit(small())
    with pytest.raises(ValueError, match="device must be one of cpu, cuda, mps, auto, got 'tpu'"):
        GCNClassifier(device="tpu").fit(small())
    assert choose_device("auto", 10**12) is None or torch.backends.mps.is_available()


def test_a_device_without_memory_says_so(monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr("graphconv.training.fit.train", fail)
    with pytest.raises(ValueError, match=r"device must have memory for a batch.* use batch_size"):
        fit_gcn(small())


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
