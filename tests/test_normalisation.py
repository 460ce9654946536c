"""Tests of batch normalisation: by hand, against torch, and what prediction takes."""

import numpy as np
import pytest
import torch
from tests.generated_graphs import generate, split

from graphconv import Settings, load_dataset
from graphconv.commands.data_source import DataRequest
from graphconv.commands.torchrun import ParallelRequest
from graphconv.commands.training_job import ModelRequest
from graphconv.engine._steps import BatchNorm, Given
from graphconv.engine.batches import make_batch
from graphconv.engine.objective import Objective
from graphconv.storage.stored_graph import store_graph
from graphconv.training.fit import build_model, fit_gcn, full_batches


def weights(gain, shift, mean=0.0, variance=1.0):
    return tuple(np.array([[own]], dtype=np.float64) for own in (gain, shift, mean, variance))


def test_two_rows_by_hand(kernel):
    own = weights(gain=3.0, shift=1.0)
    out = BatchNorm(kernel, trains=True).forward(Given((np.array([[2.0], [6.0]]),), own, None))
    # Mean 4 and variance 4: -1 and 1, which are multiplied by 3, plus 1.
    np.testing.assert_allclose(out, [[-2.0], [4.0]], atol=1e-5)
    # A tenth of the way from 0 to 4, and from 1 to 4.
    np.testing.assert_allclose([own[2].item(), own[3].item()], [0.4, 1.3])


def test_prediction_takes_what_training_left_and_changes_nothing(kernel):
    own = weights(gain=3.0, shift=1.0, mean=2.0, variance=16.0)
    before = [each.copy() for each in own]
    step = BatchNorm(kernel, trains=False)
    alone = step.forward(Given((np.array([[6.0]]),), own, None))
    np.testing.assert_allclose(alone, [[4.0]], atol=1e-5)  # (6 - 2) / 4 * 3 + 1
    together = step.forward(Given((np.array([[6.0], [-50.0]]),), own, None))
    assert together[0] == alone[0]
    for each, other in zip(own, before, strict=True):
        np.testing.assert_array_equal(each, other)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("trains", [True, False])
def test_gradients_are_those_of_torch(kernel, trains, relu):
    generator = torch.Generator().manual_seed(0)
    x, slope = (torch.randn(7, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    gain, shift, mean = (torch.randn(6, generator=generator, dtype=torch.float64) for _ in range(3))
    variance = torch.rand(6, generator=generator, dtype=torch.float64) + 0.5
    wanted = [own.requires_grad_() for own in (x, gain, shift)]
    out = torch.nn.functional.batch_norm(
        torch.relu(x) if relu else x,
        mean.clone(),
        variance.clone(),
        gain,
        shift,
        training=trains,
        eps=BatchNorm.epsilon,
    )
    expected = torch.autograd.grad(out, wanted, slope)
    # Two replicas of three columns.
    own = tuple(each.detach().reshape(2, 3).numpy() for each in (gain, shift, mean, variance))
    given = Given((x.detach().numpy(),), own, None)
    step = BatchNorm(kernel, trains, relu)
    (for_x,), (for_gain, for_shift, *nothing) = step.backward(slope.numpy(), given)
    np.testing.assert_allclose(step.forward(given), out.detach().numpy())
    for found, right in zip((for_x, for_gain, for_shift), expected, strict=True):
        np.testing.assert_allclose(found.ravel(), right.numpy().ravel(), atol=1e-12)
    assert not np.any(nothing)


def test_every_copy_moves_the_running_values():
    graph = split(generate("dense embeddings", n_nodes=60), n_validation=10)
    settings = Settings(hidden=(4,), normalisation="batch", dropout=0.0, copies=3)
    network = build_model(graph, settings, [0, 1])
    Objective(network, settings).gradients(full_batches(graph, settings, network)[0], epoch=0)
    once = build_model(graph, settings, [0, 1])
    batch = full_batches(graph, settings, once)[0].batch
    once(batch, epoch=0)
    mean = "layers.0.norm.mean"
    moved = once.parameters[mean]
    assert np.abs(moved).max() > 0.01
    # Nothing is dropped out, so all copies have the same mean: 0.1, then 0.19, then 0.271 of it.
    np.testing.assert_allclose(network.parameters[mean], 2.71 * moved, rtol=1.3e-6, atol=1e-5)


def test_the_bias_is_left_out_where_normalisation_takes_it_away():
    settings = {"normalisation": "batch", "hidden": (4, 4), "max_epochs": 1}
    fitted = fit_gcn(load_dataset("karate"), overrides=settings)
    biases = [name for name in fitted.network.parameters if name.endswith("bias")]
    assert biases == ["layers.2.bias"]


def test_no_rows_leave_everything_as_it_is(kernel):
    own = weights(gain=3.0, shift=1.0, mean=2.0)
    given = Given((np.empty((0, 1)),), own, None)
    assert BatchNorm(kernel, trains=True).forward(given).shape == (0, 1)
    assert own[2].item() == 2


def test_training_follows_the_columns_of_its_rows():
    graph = split(generate("dense embeddings", n_nodes=150), n_validation=30)
    settings = Settings(hidden=(8,), normalisation="batch", dropout=0.0, max_epochs=60)
    fitted = fit_gcn(graph, overrides=settings.to_json(), seeds=[0])
    scaled = fitted.scaler.transform(graph.features)
    network = build_model(graph, settings, [0])
    network.load_replica(0, fitted.network.replica_weights(0))
    assert "layers.0.bias" not in network.parameters
    names = ("layers.0.weight", "layers.0.norm.mean", "layers.0.norm.variance")
    weight, mean, variance = (network.parameters[n] for n in names)
    batch = make_batch(graph, graph.train_index, n_hops=2)
    rows = batch.rows[: batch.n_within[1]]
    looped = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    root = looped.sum(axis=1) ** -0.5
    hidden = (root[:, None] * looped * root) @ scaled @ weight[:, 0, 0]
    # Without dropout, weights change slowly: the running values are near the present ones.
    np.testing.assert_allclose(mean[0], hidden[rows].mean(axis=0), atol=0.3)
    np.testing.assert_allclose(variance[0], hidden[rows].var(axis=0), rtol=0.3)


def test_several_processes_refuse_it(tmp_path):
    folder = tmp_path / "graph"
    store_graph(split(generate("no features", n_nodes=60), n_validation=10), folder)

    def request(normalisation):
        wanted = ModelRequest(settings={"normalisation": normalisation})
        return ParallelRequest(DataRequest(str(folder)), wanted, None, False, 60.0, 60.0)

    assert request("layer").check() == folder
    with pytest.raises(ValueError, match="--normalisation batch needs all nodes of a step in one"):
        request("batch").check()
