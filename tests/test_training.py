"""Tests of graphconv.training.loop: the loop against a plain one, threads, resuming."""

from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
import torch
from tests.generated_graphs import generate, random_matrix, split
from tests.kernel_cases import needs_native
from tests.training_runs import SHORT, assert_same_bits, labelled, run, small_graph, weights

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.engine.devices import single_torch_thread
from graphconv.engine.objective import LabelledBatch, Objective
from graphconv.graph import Graph
from graphconv.models.settings import ROBUST, Settings
from graphconv.training.fit import build_model, class_weights, fit_gcn
from graphconv.training.loop import train


def dense_a_hat(graph):
    with_loops = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    root = 1 / np.sqrt(with_loops.sum(axis=1))
    return torch.from_numpy(root[:, None] * with_loops * root).float()


@pytest.mark.parametrize("layers", ["first", "all"])
@pytest.mark.parametrize("kind", ["classes", "balanced", "multilabel"])
def test_five_epochs_equal_a_plain_torch_loop(layers, kind):
    """Adam on dense matrices, without dropout, written out with torch.optim."""
    graph = small_graph(multilabel=kind == "multilabel")
    settings = replace(
        SHORT,
        dropout=0.0,
        max_epochs=5,
        weight_decay=0.05,
        weight_decay_layers=layers,
        learning_rate=0.02,
        bias=True,
        class_weight="balanced" if kind == "balanced" else None,
    )
    model = build_model(graph, settings, [3])
    first, second = (
        torch.tensor(own[:, 0, 0]) for name, own in model.parameters.items() if "weight" in name
    )
    biases = [torch.zeros(8), torch.zeros(graph.n_classes)]
    parameters = [first, second, *biases]
    for parameter in parameters:
        parameter.requires_grad_()
    decays = [0.05, 0.05 if layers == "all" else 0.0, 0.0, 0.0]
    optimiser = torch.optim.Adam(
        [{"params": [p], "weight_decay": d} for p, d in zip(parameters, decays, strict=True)],
        lr=0.02,
    )
    a_hat, x = dense_a_hat(graph), torch.from_numpy(graph.features.toarray())
    index = torch.tensor(graph.train_index)
    wanted = torch.tensor(graph.labels)[index]
    losses = []
    for _ in range(5):
        hidden = torch.relu(a_hat @ x @ first + biases[0])
        logits = (a_hat @ hidden @ second + biases[1])[index]
        if kind == "multilabel":
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted.float())
        else:
            shares = 1 / torch.bincount(wanted).float() if kind == "balanced" else None
            loss = torch.nn.functional.cross_entropy(logits, wanted, weight=shares)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    batch = labelled(graph, graph.train_index, model, settings)
    state = train(model, [batch], None, settings)
    for k, (weight, bias) in enumerate(zip((first, second), biases, strict=True)):
        own_weight, own_bias = (model.parameters[f"layers.{k}.{n}"] for n in ("weight", "bias"))
        # Adam divides by the gradient's size: rounding of a tiny one shows in its step of 0.01.
        weight, bias = weight.detach().numpy(), bias.detach().numpy()
        np.testing.assert_allclose(own_weight[:, 0, 0], weight, rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(own_bias[0], bias, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose([e.train_loss[0] for e in state.epochs], losses, rtol=1e-5)


def test_evaluate_weighs_every_target_alike():
    graph = small_graph()
    model = build_model(graph, SHORT, [0, 1])
    validation = labelled(graph, graph.validation_index, model)
    (loss, accuracy), _ = Objective(model, SHORT).evaluate(validation)
    logits = torch.from_numpy(model(validation.batch))
    wanted = torch.tensor(graph.labels[graph.validation_index])
    for replica in range(2):
        own = logits[:, replica]
        assert loss[replica] == pytest.approx(
            torch.nn.functional.cross_entropy(own, wanted).item(), rel=1e-5
        )
        right = (own.argmax(dim=1) == wanted).double().mean().item()
        assert accuracy[replica] == pytest.approx(right, rel=1e-6)


def test_multilabel_accuracy_counts_pairs():
    graph = small_graph(multilabel=True)
    model = build_model(graph, SHORT, [0])
    validation = labelled(graph, graph.validation_index, model)
    logits = model(validation.batch)[:, 0]
    right = (logits > 0) == (graph.labels[graph.validation_index] == 1)
    assert Objective(model, SHORT).evaluate(validation)[0][1, 0] == pytest.approx(right.mean())


@pytest.mark.parametrize(
    ("class_weight", "expected"),
    [
        # Classes 0, 0, 0, 1: every class has half of the say.
        ("balanced", [1 / 6, 1 / 6, 1 / 6, 1 / 2]),
        (None, [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        # 3 * 1 and 1 * 5 make 8 together; a class that is not named counts 1.
        ({"rare": 5}, [1 / 8, 1 / 8, 1 / 8, 5 / 8]),
    ],
)
def test_class_weights_by_hand(class_weight, expected):
    graph = Graph(np.zeros((5, 5)), labels=[0, 0, 0, 1, -1], class_names=["common", "rare"])
    weights_by_class = class_weights(graph, Settings(class_weight=class_weight))
    batch = make_batch(graph, graph.train_index, n_hops=0)
    weighted = LabelledBatch.make(batch, graph.labels, weights_by_class)
    np.testing.assert_allclose(weighted.weight, expected, rtol=1e-6)


def test_class_weights_of_unknown_classes_are_refused():
    graph = Graph(np.zeros((2, 2)), labels=[0, 1], class_names=["a", "b"])
    with pytest.raises(ValueError, match=r"class_weight must name classes \('a', 'b'\), got 'c'"):
        class_weights(graph, Settings(class_weight={"c": 2.0}))


def test_several_labels_a_node_cannot_be_balanced():
    graph = small_graph(multilabel=True)
    with pytest.raises(ValueError, match="class_weight must be None where nodes have several"):
        class_weights(graph, Settings(class_weight="balanced"))


def test_several_batches_take_several_steps_and_average_by_size():
    graph = small_graph()
    model = build_model(graph, replace(SHORT, dropout=0.0), [0])
    parts = [graph.train_index[:5], graph.train_index[5:]]
    batches = [labelled(graph, part, model) for part in parts]
    (before, _), _ = Objective(model, SHORT).evaluate(batches[0])
    state = train(model, batches, None, replace(SHORT, dropout=0.0, max_epochs=1))
    # The first batch's loss is that of the untrained model; the second comes after one step.
    again = build_model(graph, replace(SHORT, dropout=0.0), [0])
    train(again, batches[:1], None, replace(SHORT, dropout=0.0, max_epochs=1))
    (after, _), _ = Objective(again, SHORT).evaluate(batches[1])
    expected = (5 * before + (len(graph.train_index) - 5) * after) / len(graph.train_index)
    np.testing.assert_allclose(state.epochs[0].train_loss, expected, rtol=1e-5)


def test_progress_is_told_after_each_epoch():
    told = []
    _, state = run(small_graph(), SHORT, seeds=(0, 1), on_epoch=told.append)
    assert [progress.epoch for progress in told] == list(range(1, 13))
    assert {progress.max_epochs for progress in told} == {12}
    assert {progress.n_running for progress in told} == {2}
    np.testing.assert_array_equal(told[3].scores, state.epochs[3])


def test_training_loss_falls():
    _, state = run(small_graph(), replace(SHORT, max_epochs=60, dropout=0.2))
    assert state.epochs[-1].train_loss[0] < 0.5 * state.epochs[0].train_loss[0]


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    module = kernels.select("auto")
    native_before = module.get_threads() if hasattr(module, "get_threads") else None
    yield
    torch.set_num_threads(before)
    if native_before is not None:
        module.set_threads(native_before)


def big_graph():
    """Large enough for the kernels to use threads: 4,000 nodes of about 15 words each."""
    rng = np.random.default_rng(0)
    n = 4000
    ends = rng.integers(n, size=(2, 4 * n))
    adjacency = sp.coo_array((np.ones(4 * n), ends), shape=(n, n)).tocsr()
    features = sp.csr_array(rng.random((n, 500)) * (rng.random((n, 500)) < 0.03))
    labels = rng.integers(5, size=n)
    index = np.arange(n)
    return Graph(
        adjacency.maximum(adjacency.T) > 0,
        features,
        labels,
        train_index=index[:2000],
        validation_index=index[2000:3000],
    )


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("rule", ["renormalised", "chebyshev"])
def test_same_bits_for_any_number_of_threads(rule):
    graph = big_graph()
    settings = Settings(
        hidden=(32,), propagation=rule, scaling="none", max_epochs=3, early_stopping="none"
    )
    results = []
    native = kernels.select("native") if kernels.native_missing() is None else None
    for n_threads in (1, 2, 4, 1):
        torch.set_num_threads(min(n_threads, 2))
        if native is not None:
            native.set_threads(n_threads)
            assert native.get_threads() == n_threads
        model, _ = run(graph, settings, (0, 1))
        results.append(weights(model))
    for other in results[1:]:
        assert_same_bits(results[0], other)


@pytest.mark.usefixtures("restore_threads")
@needs_native
def test_centred_sparse_features_give_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    features = random_matrix((2000, 1500), 0.05, rng).astype(np.float32).tolil()
    filled = (rng.random((2000, 15)) + 1) * (rng.random((2000, 15)) < 0.8)
    features[:, rng.permutation(1500)[:15]] = filled  # these columns are centred
    ring = sp.csr_array((np.ones(2000), (np.arange(2000), (np.arange(2000) + 1) % 2000)))
    graph = Graph(
        ring + ring.T,
        sp.csr_array(features),
        np.arange(2000) % 3,
        train_index=np.arange(0, 2000, 2),
        validation_index=np.arange(1, 2000, 2),
    )
    settings = {"hidden": (64,), "scaling": "standard", "max_epochs": 3, "early_stopping": "none"}
    results = []
    for n_threads in (1, 2, 4):
        kernels.select("native").set_threads(n_threads)
        results.append(fit_gcn(graph, overrides=settings, calibrate=False).probabilities())
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize(("device", "n_inside"), [(torch.device("cpu"), 1), (None, 2)])
def test_torch_threads_are_put_back(device, n_inside):
    """Torch has one where it computes; where the kernels do, it is not touched."""
    torch.set_num_threads(2)
    inside = []
    run(
        small_graph(),
        SHORT,
        device=device,
        on_epoch=lambda _: inside.append(torch.get_num_threads()),
    )
    assert set(inside) == {n_inside}
    assert torch.get_num_threads() == 2
    with single_torch_thread(device):
        assert torch.get_num_threads() == n_inside
    with pytest.raises(KeyError), single_torch_thread(device):
        raise KeyError
    assert torch.get_num_threads() == 2


@needs_native
@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("rule", ["renormalised", "first-order", "chebyshev"])
def test_native_and_reference_kernels_train_to_the_same_weights(rule, features):
    graph = small_graph(features)
    settings = replace(SHORT, propagation=rule)
    native, _ = run(graph, settings, (0, 1), "native")
    reference, _ = run(graph, settings, (0, 1), "reference")
    for name, value in weights(native).items():
        np.testing.assert_allclose(value, weights(reference)[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("early_stopping", ["settled", "best", "window", "none"])
def test_resuming_at_any_epoch_gives_the_same_bits(early_stopping):
    graph = small_graph()
    settings = replace(
        SHORT,
        early_stopping=early_stopping,
        patience=6,
        max_epochs=40 if early_stopping != "none" else 12,
        self_loop_weight="learn",
        bias=True,
        learning_rate=0.05,
    )
    saved = []
    model, state = run(
        graph,
        settings,
        (4, 11),
        # As it lies on the disk.
        on_checkpoint=lambda make: saved.append(safetensors.numpy.save(make())),
    )
    assert len(saved) == len(state.epochs) > 8
    for number in {0, 1, 5, len(saved) // 2, len(saved) - 2, len(saved) - 1}:
        arrays = safetensors.numpy.load(saved[number])
        assert len(arrays["epochs"]) == number + 1
        later = []
        again, resumed = run(
            graph,
            settings,
            (4, 11),
            resume_from=arrays,
            on_checkpoint=lambda make, later=later: later.append(safetensors.numpy.save(make())),
        )
        assert_same_bits(weights(model), weights(again))
        np.testing.assert_array_equal(np.array(state.epochs), np.array(resumed.epochs))
        assert state.stopped_at.tolist() == resumed.stopped_at.tolist()
        # What would be saved from here on is the same too.
        assert later == saved[number + 1 :]


def test_checkpoint_is_a_copy():
    """Training on does not change a checkpoint that was taken earlier."""
    taken = []
    run(small_graph(), SHORT, on_checkpoint=lambda make: taken.append(make()))
    first = taken[0]["model.layers.0.weight"]
    assert not np.array_equal(first, taken[-1]["model.layers.0.weight"])
    assert taken[0]["adam.n_steps"] == 1
    assert taken[-1]["adam.n_steps"] == 12


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_interrupting_from_a_callback_leaves_torch_threads_alone(device):
    torch.set_num_threads(2)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(small_graph(), SHORT, device=device, on_checkpoint=stop)
    assert torch.get_num_threads() == 2


def test_generated_graph_is_learned_well():
    graph = split(generate("homophilous, bag of words", n_nodes=300), n_validation=60)
    settings = replace(ROBUST, hidden=(16,), scaling="none", max_epochs=60)
    model, _ = run(graph, settings)
    (_, accuracy), _ = Objective(model, SHORT).evaluate(labelled(graph, graph.test_index, model))
    assert accuracy[0] > 0.8
