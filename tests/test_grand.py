"""Tests of graphconv.models.grand and of the agreement of copies: by hand, and on data."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphconv import GCNClassifier, Graph, Settings, load_dataset
from graphconv.engine.batches import make_batch
from graphconv.engine.mini_batches import drawn_nodes
from graphconv.engine.network import Network
from graphconv.engine.objective import LabelledBatch, Objective
from graphconv.engine.recorded import Recorded, RunPlan
from graphconv.kernels import Dropout, torch_device
from graphconv.training.fit import build_model, fit_gcn, full_batches

PATH = Graph(
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
    np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]], dtype=np.float32),
    labels=[0, 1, 0],
    train_index=[0, 1],
)


def a_hat():
    looped = PATH.adjacency.toarray() + np.eye(3)
    root = looped.sum(axis=1) ** -0.5
    return root[:, None] * looped * root


def dense_logits(network: Network, steps: int, mask: np.ndarray) -> np.ndarray:
    """The equation with matrices of numpy, replica 0."""
    first, second = (network.parameters[f"layers.{k}.weight"][:, 0, 0] for k in (0, 1))
    powers = [np.linalg.matrix_power(a_hat(), k) for k in range(steps + 1)]
    mixed = np.mean(powers, axis=0) @ (mask[:, None] * PATH.features)
    return np.maximum(mixed @ first, 0) @ second


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_equals_its_equation(steps):
    settings = Settings(model="grand", hidden=(5,), bias=False, steps=steps)
    network = build_model(PATH, settings, [3])
    logits = network(make_batch(PATH, n_hops=network.n_hops))[:, 0]
    assert network.n_hops == steps
    # Half of each row, as much as training keeps of all rows together.
    np.testing.assert_allclose(logits, dense_logits(network, steps, np.full(3, 0.5)), rtol=1e-5)


def test_training_leaves_out_whole_nodes():
    settings = Settings(model="grand", hidden=(5,), bias=False, steps=2, dropout=0)
    network = build_model(PATH, settings, [3, 4])
    batch = make_batch(PATH, n_hops=2)
    masks = [np.array(bits) for bits in np.ndindex(2, 2, 2)]
    expected = [dense_logits(network, 2, mask) for mask in masks]
    seen = set()
    for epoch in range(40):
        found = network(batch, epoch)[:, 0]
        fits = [k for k, own in enumerate(expected) if np.allclose(found, own, atol=1e-5)]
        assert fits, "each node counts or does not"
        seen.update(fits)
    assert len(seen) > 4


@pytest.mark.parametrize("targets", [None, [2]])
def test_narrow_features_are_propagated_before_their_product(targets):
    # Sparse ones are multiplied first: the same numbers, gradients too.
    settings = Settings(model="grand", hidden=(5,), steps=3, dropout=0, row_dropout=0.4)
    network = build_model(PATH, settings, [3, 4])
    recorded = Recorded(network)
    sparse = Graph(PATH.adjacency, sp.csr_array(PATH.features))
    found = []
    for graph in (PATH, sparse):
        batch = make_batch(graph, targets, n_hops=3)
        value = recorded(batch, 7)
        slopes = torch.autograd.grad(value.square().sum(), list(recorded.parameters.values()))
        found.append([value.detach(), *slopes])
        steps = [
            type(call[0].__self__).__name__ for call in network.plan(batch, True)._forward_calls
        ]
        is_first = steps.index("PowerSum") < steps.index(
            "WideProduct" if graph is PATH else "FeatureProduct"
        )
        assert is_first == (graph is PATH)
    torch.testing.assert_close(*found)
    assert found[0][1].abs().max() > 0.01


@pytest.mark.parametrize("to_features", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_normalised_it_leaves_out_whole_columns(to_features):
    graph = Graph(PATH.adjacency, to_features(PATH.features), labels=[0, 1, 0])
    settings = Settings(
        model="grand",
        hidden=(5,),
        bias=False,
        steps=2,
        dropout=(0.5, 0),
        row_dropout=0,
        normalisation="batch",
    )
    network = Recorded(build_model(graph, settings, [3, 4]))
    first, second = (network.parameters[f"layers.{k}.weight"] for k in (0, 1))
    gain = network.parameters["gain"]
    assert (gain == 1).all()  # before anything is learned
    with torch.no_grad():
        gain[:, 0, 0, 0] = torch.tensor([0.5, 3.0])
    powers = [np.linalg.matrix_power(a_hat(), k) for k in range(3)]
    mixed = torch.tensor(np.mean(powers, axis=0) @ PATH.features, dtype=torch.float32)
    masks = list(np.ndindex(2, 2))
    seen = set()
    for epoch in range(30):
        logits = network(make_batch(graph, n_hops=2), epoch)[:, 0]
        slopes = torch.autograd.grad(logits[0, 0], [first, gain])
        for number, kept in enumerate(masks):  # the same with torch, for each way to drop columns
            factor = 2 * torch.tensor(kept) * gain[:, 0, 0, 0]
            hidden = torch.relu(256 * mixed @ (factor[:, None] * first[:, 0, 0]))
            spread = (hidden.var(dim=0, correction=0) + 1e-5).sqrt()
            expected = (hidden - hidden.mean(dim=0)) / spread @ second[:, 0, 0]
            if torch.allclose(logits, expected, rtol=1e-3, atol=1e-4):
                seen.add(number)
                wanted = torch.autograd.grad(expected[0, 0], [first, gain])
                torch.testing.assert_close(slopes, wanted, rtol=1e-2, atol=1e-4)
                break
        else:
            pytest.fail("each column counts or does not, for all nodes alike")
    assert seen == {0, 1, 2, 3}


def test_agreement_is_the_slope_of_its_loss(kernel):
    generator = torch.Generator().manual_seed(0)
    # Three rows, three copies of two replicas, four classes.
    logits = torch.randn(3, 3, 2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    shares = logits.softmax(dim=3)
    sharp = shares.mean(dim=1, keepdim=True).detach() ** 2
    wanted = sharp / sharp.sum(dim=3, keepdim=True)
    (by_torch,) = torch.autograd.grad(((shares - wanted) ** 2).sum() / 3, logits)
    for module, ours in (
        (kernel, logits.detach().numpy()),
        (torch_device, logits.detach()),
    ):
        found = torch.as_tensor(module.agreement(ours, temperature=0.5))
        torch.testing.assert_close(found, by_torch)


def test_agreement_of_several_labels_is_the_slope_of_its_loss(kernel):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 1, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    shares = logits.sigmoid()
    mean = shares.mean(dim=1, keepdim=True).detach()
    wanted = mean**4 / (mean**4 + (1 - mean) ** 4)
    (by_torch,) = torch.autograd.grad((2 * (shares - wanted) ** 2).sum() / 2 / 4, logits)
    for module, ours in (
        (kernel, logits.detach().numpy()),
        (torch_device, logits.detach()),
    ):
        found = torch.as_tensor(module.agreement(ours, 0.25, is_multilabel=True))
        torch.testing.assert_close(found, by_torch)


@pytest.mark.parametrize(("warmup", "weight"), [(0, 0.7), (1, 0.7), (2, 0.35), (10, 0.07)])
def test_gradient_of_labels_and_agreement_together(warmup, weight):
    settings = Settings(
        model="grand",
        hidden=(4,),
        steps=2,
        copies=2,
        agreement=0.7,
        agreement_warmup=warmup,
        sharpening=0.5,
    )
    network = build_model(PATH, settings, [3])
    training, _ = full_batches(PATH, settings, network)
    assert training.batch.n_within[0] == 3, "the node without a label takes part"
    assert len(training.labels) == 2
    slopes, _, _ = Objective(network, settings).gradients(training, epoch=1)

    parameters = list(Recorded(network).parameters.values())
    shares, loss = [], torch.zeros(())
    labels = torch.tensor([0, 1])
    for copy in range(2):
        plan = network.plan(training.batch, drops=True)
        dropouts = [
            Dropout(own.keys[copy : copy + 1], own.threshold)
            for own in network.copied(2).dropouts(1)
        ]
        logits = RunPlan.apply(plan, dropouts, *parameters)
        loss = loss + torch.nn.functional.cross_entropy(logits[:2], labels) / 2
        shares.append(logits.softmax(dim=1))
    sharp = torch.stack(shares).mean(dim=0).detach() ** 2
    wanted = sharp / sharp.sum(dim=1, keepdim=True)
    loss = loss + weight * sum(((own - wanted) ** 2).sum(dim=1).mean() for own in shares) / 2
    expected = torch.autograd.grad(loss, parameters)
    for own, other in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(own, other.numpy(), rtol=1e-4, atol=1e-6)


def test_copies_agree_with_any_model():
    graph = load_dataset("karate")
    plain = Settings(copies=2, agreement=0.0)
    agreeing = Settings(copies=2, agreement=1.0)
    reached = []
    for settings in (plain, agreeing):
        network = build_model(graph, settings, [0])
        training, _ = full_batches(graph, settings, network)
        reached.append(training.batch.n_within[0])
        Objective(network, settings).gradients(training, 0)
    assert reached == [4, 34]


def test_a_single_copy_is_what_training_was():
    graph = load_dataset("karate")
    network = build_model(graph, Settings(), [0])
    batch = make_batch(graph, graph.train_index, n_hops=2)
    labelled = LabelledBatch.make(batch, graph.labels)
    once = Objective(network, Settings()).gradients(labelled, 3)
    again = Objective(network, Settings(copies=1)).gradients(labelled, 3)
    for own, other in zip(once[0], again[0], strict=True):
        np.testing.assert_array_equal(own, other)


def test_drawn_nodes_are_the_same_for_the_same_seed():
    drawn = drawn_nodes(100, 20, 3, 5, 0)
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < 100
    np.testing.assert_array_equal(drawn, drawn_nodes(100, 20, 3, 5, 0))
    assert drawn.tolist() != drawn_nodes(100, 20, 3, 5, 1).tolist()


def test_other_rules_are_refused():
    with pytest.raises(ValueError, match="propagation must be 'renormalised' with grand"):
        fit_gcn(PATH, overrides={"model": "grand", "propagation": "chebyshev"})


def test_labels_cora_better_than_a_graph_convolution():
    cora = load_dataset("cora")
    shared = {"random_state": 0, "max_epochs": 150, "scaling": "row"}
    grand = GCNClassifier(model="grand", steps=8, hidden=32, **shared).fit(cora)
    wanted = np.array(cora.class_names)[cora.labels[cora.test_index]]
    right = grand.transduction_[cora.test_index] == wanted
    assert right.mean() > 0.83
