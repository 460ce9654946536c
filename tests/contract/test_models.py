"""What every model of the catalogue can do, whatever it computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.generated_graphs import generate, split
from tests.networks import double, with_parameters
from tests.training_runs import assert_same_bits

from graphconv import Settings
from graphconv.engine.batches import make_batch, sample_batch
from graphconv.engine.blocks import run_in_blocks
from graphconv.engine.memory_estimate import estimate_memory
from graphconv.graph.scaling import FeatureScaler
from graphconv.models.catalogue import MODELS
from graphconv.storage.stored_graph import open_graph, store_graph
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import Watch, build_model, fit_gcn

KINDS = {"sparse": "binary features", "dense": "dense embeddings", "none": "no features"}
FEATURES = pytest.mark.parametrize("features", KINDS)
# Each model as it is, and with everything that its layers can have.
VARIANTS = {
    f"{model}{more}": Settings(**{"model": model, "hidden": (8,), "max_epochs": 15, **changes})
    for model in MODELS
    for more, changes in {
        "": {},
        " deep": {"hidden": (8, 8, 8), "residual": True, "normalisation": "layer"},
        " learned": {"self_loop_weight": "learn", "activation": "elu"},
        " batch": {"hidden": (8, 8), "normalisation": "batch"},
        " jumping": {"hidden": (8, 8, 8), "jumping_knowledge": True, "residual": True},
    }.items()
}
VARIANT = pytest.mark.parametrize("variant", VARIANTS)


def small(features):
    return split(generate(KINDS[features], n_nodes=150), n_validation=30)


def weights_of(network):
    return dict(network.parameters)


@VARIANT
@FEATURES
def test_gradients_are_right(variant, features):
    graph = small(features)
    network = double(build_model(graph, VARIANTS[variant], [3, 4]))
    batch = make_batch(graph, [1, 7], n_hops=network.n_hops, dtype=np.float64)
    generator = torch.Generator().manual_seed(1)
    # Biases of 0 would leave rows that are dropped out where a ReLU has no slope.
    parameters = tuple(
        (torch.tensor(own) + 0.3 * torch.randn(own.shape, generator=generator)).requires_grad_()
        for own in network.parameters.values()
    )
    assert torch.autograd.gradcheck(
        lambda *given: with_parameters(network, given)(batch, 2), parameters, fast_mode=True
    )


@VARIANT
@FEATURES
def test_targets_get_the_logits_that_all_rows_give(variant, features):
    graph = small(features)
    network = build_model(graph, VARIANTS[variant], [0, 1])
    targets = np.array([100, 3, 50])
    # In training, batch normalisation makes rows depend on those beside them.
    epoch = None if VARIANTS[variant].normalisation == "batch" else 5
    whole = network(make_batch(graph, n_hops=network.n_hops), epoch)[targets]
    own = network(make_batch(graph, targets, n_hops=network.n_hops), epoch)
    n_hops, every = network.n_hops, 10**6
    sampled = network(
        sample_batch(graph, targets, fanouts=[every] * n_hops, keys=range(n_hops)), epoch
    )
    np.testing.assert_allclose(own, whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sampled, whole, rtol=1e-4, atol=1e-5)


@VARIANT
@FEATURES
def test_blocks_give_the_whole(variant, features, monkeypatch):
    monkeypatch.setattr("graphconv.engine.blocks.BLOCK_NUMBERS", 1)
    graph = small(features)
    network = build_model(graph, VARIANTS[variant], [0, 1])
    whole = network(make_batch(graph, n_hops=network.n_hops))
    blocks = run_in_blocks(network, graph, FeatureScaler("none"), memory=0)
    np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=1e-5)


@VARIANT
@FEATURES
def test_each_seed_trains_as_it_would_alone(variant, features):
    graph, settings = small(features), VARIANTS[variant]
    overrides = {name: getattr(settings, name) for name in settings.to_json()}
    together = fit_gcn(graph, overrides=overrides, seeds=[5, 6, 7])
    alone = fit_gcn(graph, overrides=overrides, seeds=[6])
    assert_same_bits(together.network.replica_weights(1), alone.network.replica_weights(0))
    assert alone.history["train_loss"][-1] < alone.history["train_loss"][0]


@VARIANT
@pytest.mark.parametrize("batches", [{}, {"batch_size": 20}, {"batch_size": 20, "fanout": 3}])
def test_resumes_bit_for_bit(variant, batches):
    graph = small("sparse")
    overrides = {**VARIANTS[variant].to_json(), **batches, "max_epochs": 6}
    saved = []
    watch = Watch(on_checkpoint=lambda make: saved.append(make()))
    whole = fit_gcn(graph, overrides=overrides, seeds=[1, 2], watch=watch)
    assert len(saved) >= 6
    resumed = fit_gcn(graph, overrides=overrides, seeds=[1, 2], watch=Watch(resume_from=saved[2]))
    assert_same_bits(weights_of(whole.network), weights_of(resumed.network))


@VARIANT
def test_is_saved_and_loaded(variant, tmp_path):
    overrides = {**VARIANTS[variant].to_json(), "max_epochs": 3}
    fitted = fit_gcn(small("dense"), overrides=overrides, seeds=[0, 1])
    save_model(SavedModel(fitted), tmp_path / "model")
    again = load_model(tmp_path / "model").fitted
    assert again.settings == fitted.settings
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())
    np.testing.assert_array_equal(again.embedding(), fitted.embedding())


@VARIANT
def test_trains_on_disk_as_in_memory(variant, tmp_path):
    graph = small("sparse")
    store_graph(graph, tmp_path / "graph")
    overrides = {**VARIANTS[variant].to_json(), "max_epochs": 3, "scaling": "none"}
    stored, whole = (
        fit_gcn(own, overrides=overrides, seeds=[0])
        for own in (open_graph(tmp_path / "graph"), graph)
    )
    assert_same_bits(weights_of(stored.network), weights_of(whole.network))
    np.testing.assert_allclose(stored.probabilities(), whole.probabilities(), atol=1e-5)


@VARIANT
def test_memory_is_estimated_from_what_is_computed(variant):
    graph, settings = small("sparse"), VARIANTS[variant]
    estimate = estimate_memory(graph, settings)
    wider = estimate_memory(graph, replace(settings, hidden=tuple(9 * w for w in settings.hidden)))
    assert 0 < estimate.training < wider.training
    assert estimate.prediction > 0
