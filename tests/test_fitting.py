"""Tests of graphconv.training.fit: from a Graph to a fitted model, and the checks at that door."""

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.generated_graphs import KINDS, generate, split

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset
from graphconv.models.propagation import largest_eigenvalue
from graphconv.models.settings import PAPER, ROBUST, RULES, Settings
from graphconv.storage.stored_graph import open_graph, store_graph
from graphconv.training import fit as fit_module
from graphconv.training import fitted as fitted_gcn
from graphconv.training.calibration import Calibration, fit_calibration
from graphconv.training.fit import (
    Watch,
    build_model,
    calibrated,
    check_trainable,
    class_weights,
    fit_gcn,
    full_batches,
    history_of,
    hold_out,
)
from graphconv.training.loop import Epoch, Progress, TrainingState, _check_loss

QUICK = {"max_epochs": 4, "hidden": (4,)}
PATH = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


def make_graph(kind="homophilous, bag of words", n_nodes=80, n_per_class=6, n_validation=20):
    graph = generate(kind, n_nodes=n_nodes)
    return split(graph, n_per_class=n_per_class, n_validation=n_validation)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_graph_gives_probabilities(kind):
    graph = make_graph(kind)
    fitted = fit_gcn(graph, overrides=QUICK, seeds=[0, 1])
    shares = fitted.probabilities()
    assert shares.shape == (80, 2, 4)
    assert shares.dtype == np.float32
    np.testing.assert_allclose(shares.sum(axis=2), 1, rtol=1e-5)
    assert (shares >= 0).all()
    assert fitted.embedding().shape == (80, 2 * 4)
    assert np.isfinite(fitted.embedding()).all()
    assert fitted.n_epochs == 4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("directed", [False, True])
def test_every_rule_fits_weighted_graphs_with_isolated_nodes(rule, directed):
    graph = make_graph("weighted")
    adjacency = graph.adjacency.toarray()
    adjacency[:5] = adjacency[:, :5] = 0
    lonely = Graph(
        adjacency,
        graph.features,
        graph.labels,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
        directed=directed,
    )
    fitted = fit_gcn(lonely, overrides={**QUICK, "propagation": rule})
    assert np.isfinite(fitted.probabilities()).all()
    assert all(np.isfinite(values).all() for values in fitted.history.values())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "renormalised"])
def test_only_the_renormalised_rule_has_a_self_loop_weight_to_learn(rule):
    overrides = {**QUICK, "propagation": rule, "self_loop_weight": "learn"}
    with pytest.raises(ValueError, match="self_loop_weight must be 1 unless propagation is"):
        fit_gcn(make_graph(), overrides=overrides)


def test_same_seed_same_bits_and_other_seed_others():
    graph = make_graph()
    first, second, other = (
        fit_gcn(graph, overrides=QUICK, seeds=[seed]).probabilities() for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_history_is_a_mean_over_replicas():
    graph = make_graph()
    both = fit_gcn(graph, overrides=QUICK, seeds=[1, 2]).history
    single = [fit_gcn(graph, overrides=QUICK, seeds=[seed]).history for seed in (1, 2)]
    assert set(both) == {"train_loss", "train_accuracy", "validation_loss", "validation_accuracy"}
    for name, values in both.items():
        expected = np.mean([own[name] for own in single], axis=0)
        np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.parametrize(("preset", "expected"), [("robust", ROBUST), ("paper", PAPER)])
def test_presets_are_used(preset, expected):
    fitted = fit_gcn(make_graph(), preset=preset, overrides={"max_epochs": 2})
    assert fitted.settings.hidden == expected.hidden
    assert fitted.settings.early_stopping == expected.early_stopping
    assert fitted.choice == ""


def test_validation_is_held_out_of_training():
    graph = make_graph(n_nodes=200, n_per_class=25, n_validation=0)
    fitted = fit_gcn(graph, overrides=QUICK, validation_fraction=0.3)
    held, kept = fitted.graph.validation_index, fitted.graph.train_index
    assert len(held) == 30
    assert np.sort(np.concatenate([held, kept])).tolist() == np.sort(graph.train_index).tolist()
    assert fitted.graph.test_index.tolist() == graph.test_index.tolist()
    again = fit_gcn(graph, overrides=QUICK, validation_fraction=0.3)
    assert again.graph.validation_index.tolist() == held.tolist()


def test_too_few_labels_to_hold_any_out():
    # A fifth of 24 would be 5, which says too little to stop by.
    graph = make_graph(n_validation=0)
    fitted = fit_gcn(graph, overrides=QUICK)
    assert len(fitted.graph.validation_index) == 0
    assert fitted.graph.train_index.tolist() == graph.train_index.tolist()


def test_validation_nodes_of_the_graph_are_kept():
    graph = make_graph(n_validation=20)
    assert fit_gcn(graph, overrides=QUICK).graph is graph


def test_no_validation_at_all():
    fitted = fit_gcn(make_graph(n_validation=0), overrides=QUICK, validation_fraction=0)
    assert len(fitted.graph.validation_index) == 0
    assert np.isnan(fitted.history["validation_loss"]).all()


@pytest.mark.parametrize("fraction", [-0.1, 1, 1.5, True, float("nan")])
def test_bad_validation_fraction(fraction):
    with pytest.raises(ValueError, match="validation_fraction must be at least 0 and below 1"):
        fit_gcn(make_graph(n_validation=0), validation_fraction=fraction)


def test_no_labelled_node():
    with pytest.raises(ValueError, match=r"at least one node must be labelled.*got none of 4"):
        fit_gcn(Graph(PATH, labels=[-1, -1, -1, -1]))


@pytest.mark.parametrize("class_names", [["only"], ["only", "never seen"]])
def test_one_class_only(class_names):
    graph = Graph(PATH, labels=[0, 0, -1, -1], class_names=class_names)
    with pytest.raises(ValueError, match="at least two classes, got one class only: 'only'"):
        fit_gcn(graph)


def test_class_that_training_lacks_is_warned_of():
    graph = Graph(
        PATH, labels=[0, 1, 2, 2], class_names=["a", "b", "c"], train_index=[0, 1], test_index=[2]
    )
    with pytest.warns(UserWarning, match="no training node has class 'c', which validation or"):
        check_trainable(graph)


def test_unknown_preset_and_setting():
    with pytest.raises(ValueError, match="preset must be one of"):
        fit_gcn(make_graph(), preset="fast")
    with pytest.raises(TypeError, match="colour"):
        fit_gcn(make_graph(), overrides={"colour": "red"})


def test_bad_kernels():
    with pytest.raises(ValueError, match="kernels must be 'auto', 'native' or 'reference'"):
        fit_gcn(make_graph(), kernels="gpu")


def test_several_labels_a_node():
    rng = np.random.default_rng(0)
    graph = make_graph(n_nodes=120)
    labels = np.stack([graph.labels % 2, graph.labels // 2], axis=1)
    labels[rng.permutation(120)[:20]] = -1
    several = Graph(graph.adjacency, graph.features, labels)
    fitted = fit_gcn(several, overrides={"max_epochs": 60, "hidden": (16,)})
    shares = fitted.probabilities()[:, 0]
    assert ((shares >= 0) & (shares <= 1)).all()
    # Each label is a decision of its own: they need not add up to 1.
    assert (np.abs(shares.sum(axis=1) - 1) > 0.1).any()
    assert fitted.history["train_accuracy"][-1] > 0.8


def test_predicting_another_graph():
    graph, other = make_graph(), generate("homophilous, bag of words", seed=5, n_nodes=50)
    fitted = fit_gcn(graph, overrides=QUICK)
    assert fitted.probabilities(other).shape == (50, 1, 4)
    # The nodes of the training graph, and with them their neighbourhoods, twice over.
    twice = Graph(
        np.kron(np.eye(2), graph.adjacency.toarray()), np.vstack([graph.features.toarray()] * 2)
    )
    np.testing.assert_allclose(
        fitted.probabilities(twice), np.vstack([fitted.probabilities()] * 2), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("trained", "given", "message"),
    [
        ((4, 3), (4, 2), "trained with 3 features, the graph to predict has 2"),
        ((4, 3), None, "trained with 3 features, the graph to predict has none"),
        (None, (4, 2), "trained with no features, the graph to predict has 2"),
    ],
)
def test_features_must_match_at_prediction(trained, given, message):
    def graph(shape):
        features = None if shape is None else np.ones(shape)
        return Graph(PATH, features, labels=[0, 1, 0, 1])

    fitted = fit_gcn(graph(trained), overrides=QUICK, validation_fraction=0)
    with pytest.raises(ValueError, match=message):
        fitted.probabilities(graph(given))


def test_featureless_model_needs_the_same_nodes():
    fitted = fit_gcn(Graph(PATH, labels=[0, 1, 0, 1]), overrides=QUICK, validation_fraction=0)
    with pytest.raises(ValueError, match=r"trained with 4 nodes and no features.*has 2"):
        fitted.probabilities(Graph([[0, 1], [1, 0]]))


def test_watch_sees_every_epoch_and_can_continue():
    graph = make_graph()
    seen, states = [], []
    watch = Watch(on_epoch=seen.append, on_checkpoint=lambda make: states.append(make()))
    fitted = fit_gcn(graph, overrides=QUICK, watch=watch)
    assert [progress.epoch for progress in seen] == [1, 2, 3, 4]
    again = fit_gcn(graph, overrides=QUICK, watch=Watch(resume_from=states[1]))
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())
    assert again.history == fitted.history


def test_chebyshev_takes_the_true_eigenvalue_unless_told():
    graph = make_graph()
    true = build_model(graph, Settings(propagation="chebyshev"), [0])
    assert true.model.graph.lambda_max == pytest.approx(largest_eigenvalue(graph))
    told = build_model(graph, Settings(propagation="chebyshev", lambda_max=1.5), [0])
    assert told.model.graph.lambda_max == 1.5
    # In a directed graph D^-1 A has eigenvalues of another kind: their bound stands for them.
    directed = replace(graph, directed=True)
    bound = build_model(directed, Settings(propagation="chebyshev"), [0])
    assert bound.model.graph.lambda_max == 2.0


def test_untrained_model_gives_probabilities_too():
    """Random weights, as in the paper's figure of the karate club."""
    graph = make_graph()
    model = build_model(graph, Settings(hidden=(4, 4)), [0])
    logits = model(make_batch(graph, n_hops=model.n_hops))
    assert logits.shape == (80, 1, 4)
    assert np.isfinite(logits).all()


@pytest.mark.skipif(kernels.native_missing() is not None, reason=str(kernels.native_missing()))
def test_kernels_are_chosen_by_name():
    graph = make_graph()
    results = {}
    for name in ("native", "reference"):
        fitted = fit_gcn(graph, overrides=QUICK, kernels=name)
        assert fitted.network.kernels.__name__ == f"graphconv.kernels.{name}"
        results[name] = fitted.probabilities()
    np.testing.assert_allclose(results["native"], results["reference"], rtol=1e-3, atol=1e-5)


def test_edgeless_graph_works_as_a_perceptron():
    graph = make_graph()
    edgeless = Graph(np.zeros((80, 80)), graph.features, graph.labels)
    with_rule = fit_gcn(edgeless, overrides=QUICK).probabilities()
    perceptron = fit_gcn(edgeless, overrides={**QUICK, "propagation": "none"}).probabilities()
    np.testing.assert_allclose(with_rule, perceptron, rtol=1e-4, atol=1e-6)


def test_a_batch_is_made_once_for_a_graph_and_not_copied():
    graph = load_dataset("karate")
    fitted = fit_gcn(graph, overrides={"max_epochs": 2})
    first = fitted.probabilities()
    assert fitted._batch(graph) is fitted._batch(graph)
    np.testing.assert_array_equal(fitted.probabilities(), first)
    again = pickle.loads(pickle.dumps(fitted))
    assert len(again._batches) == 0
    np.testing.assert_array_equal(again.probabilities(), first)


def test_training_goes_on_from_the_weights_of_another_model():
    graph = make_graph()
    first = fit_gcn(graph, overrides={**QUICK, "max_epochs": 60})
    again = fit_gcn(graph, overrides={**QUICK, "max_epochs": 1}, start_from=first)
    anew = fit_gcn(graph, overrides={**QUICK, "max_epochs": 1})
    assert again.history["train_loss"][0] < 0.9 * anew.history["train_loss"][0]
    before = first.network.parameters
    for name, values in again.network.parameters.items():
        # One step of Adam moves no weight by more than its rate.
        assert np.abs(values - before[name]).max() <= 0.0101


def test_a_model_of_another_shape_is_no_start():
    graph = make_graph()
    other = fit_gcn(graph, overrides={**QUICK, "hidden": (5,)})
    wanted = r"start_from must have the shape of the model to train, got .* for layers\.0\."
    with pytest.raises(ValueError, match=wanted):
        fit_gcn(graph, overrides=QUICK, start_from=other)


@pytest.mark.parametrize(("n_labelled", "n_held_out"), [(95, 0), (100, 20), (110, 22)])
def test_twenty_nodes_are_the_fewest_that_are_held_out(n_labelled, n_held_out):
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    graph = Graph(
        sp.csr_array((120, 120)), rng.random((120, 3)), labels, train_index=range(n_labelled)
    )
    found = hold_out(graph, 0.2, seed=0)
    assert len(found.validation_index) == n_held_out
    assert len(found.train_index) == n_labelled - n_held_out


def test_a_graph_whose_layers_fill_half_the_memory_is_taken_in_blocks(monkeypatch):
    # 5 nodes, the widest layer 8 numbers: 4 bytes for each of three times that, and the features.
    monkeypatch.setattr(fitted_gcn, "MIN_BLOCKED_BYTES", 100)
    features = np.eye(5, 6)
    graph = Graph(np.zeros((5, 5)), features, [0, 1, 0, 1, 0], train_index=range(5))
    network = build_model(graph, Settings(hidden=(8,)), [0])
    for given, n_bytes in (
        (graph, 4 * 5 * (6 + 3 * 8)),
        (replace(graph, features=sp.csr_array(features)), 4 * 5 * 3 * 8),
    ):
        for free, blocks in ((2 * n_bytes - 2, True), (2 * n_bytes, False)):
            monkeypatch.setattr(fitted_gcn, "available_memory", lambda free=free: free)
            assert fitted_gcn.works_in_blocks(given, network) is blocks
    monkeypatch.setattr(fitted_gcn, "available_memory", lambda: 0)
    monkeypatch.setattr(fitted_gcn, "MIN_BLOCKED_BYTES", 600)
    assert not fitted_gcn.works_in_blocks(graph, network)  # so small a graph never is


def test_a_fifth_of_the_labels_is_held_out_unless_told():
    labels = np.arange(150) % 2
    graph = Graph(sp.csr_array((150, 150)), np.eye(150), labels)
    assert len(fit_gcn(graph, overrides=QUICK).graph.validation_index) == 30


def test_history_counts_replicas_while_they_run():
    state = TrainingState.start(2, Settings())
    for scores in ([[1, 3], [0, 1], [2, 4], [1, 0]], [[5, 9], [1, 1], [6, 9], [1, 1]]):
        state.epochs.append(Epoch(*np.array(scores, dtype=float)))
    state.stopping.stopped_at[:] = 2, 1  # the second replica has run one epoch
    assert history_of(state) == {
        "train_loss": [2, 5], "train_accuracy": [0.5, 1], "validation_loss": [3, 6],
        "validation_accuracy": [0.5, 1],
    }  # fmt: skip


@pytest.mark.parametrize(("n_validation", "is_stored"), [(30, False), (13, False), (30, True)])
def test_calibration_goes_by_some_validation_nodes(n_validation, is_stored, monkeypatch, tmp_path):
    monkeypatch.setattr(fit_module, "MOST_CALIBRATED", 20)
    monkeypatch.setattr(fit_module, "MOST_CALIBRATED_STORED", 10)
    graph = make_graph(n_validation=n_validation)
    if is_stored:
        store_graph(graph, tmp_path / "graph")
        graph = open_graph(tmp_path / "graph")
    fitted = fit_gcn(graph, overrides=QUICK, seeds=[0, 1], calibrate=False)
    n_used = 10 if is_stored else min(20, n_validation)
    every = graph.validation_index
    used = every[np.linspace(0, n_validation - 1, n_used).astype(int)]
    assert (used[0], used[-1]) == (every[0], every[-1])
    shares = fitted.probabilities(nodes=used).mean(axis=1)
    expected = fit_calibration(shares, graph.labels[used])
    assert calibrated(fitted).calibration == expected
    known = fitted.probabilities()
    again = calibrated(fitted, known).calibration
    assert (again.temperature, again.doubt) == pytest.approx(
        (expected.temperature, expected.doubt), abs=1e-3
    )


def test_features_are_hidden_from_few_nodes_at_a_time(monkeypatch):
    """What a node would be called if nothing were known of it: by hand, node by node."""
    graph = make_graph("dense embeddings")
    unknown = np.median(graph.features, axis=0)
    graph = replace(graph, unknown_features=unknown)
    fitted = fit_gcn(graph, overrides=QUICK, seeds=[0, 1], calibrate=False)
    nodes = graph.validation_index[:7]
    with monkeypatch.context() as patch:
        patch.setattr(fit_module, "MOST_HIDDEN", 0.02)  # of 80 nodes, one at a time
        found = fit_module._probabilities_undescribed(fitted, nodes)
    for row, node in enumerate(nodes):
        features = graph.features.copy()
        features[node] = unknown
        hidden = fitted.probabilities(replace(graph, features=features))[node]
        np.testing.assert_allclose(found[row], hidden, atol=1e-5)
    sizes = []
    batch = fit_module.make_batch
    monkeypatch.setattr(
        fit_module,
        "make_batch",
        lambda g, some, **more: sizes.append(len(some)) or batch(g, some, **more),
    )
    fit_module._probabilities_undescribed(fitted, nodes)
    assert sorted(sizes) == [3, 4]  # of 80 nodes a twentieth
    del sizes[:]
    with monkeypatch.context() as patch:
        patch.setattr(fit_module, "MOST_HIDDEN", 0.0)
        fit_module._probabilities_undescribed(fitted, nodes)
    assert sizes == [1] * 7  # one at least
    whole = calibrated(fitted)
    assert whole.undescribed_calibration != whole.calibration
    assert calibrated(fitted, fitted.probabilities()).undescribed_calibration is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 0.0, "b": 1.0}, None),
        ({"c": 0.0}, None),  # no training node has it, so it can't leave nobody
        ({"a": 0.0, "b": 0.0}, "must leave some training nodes to count, got only zeros"),
        ({"a": 0.0, "b": 0.0, "c": 1.0}, "must leave some training nodes to count"),
        ({"x": 1.0}, r"must name classes \('a', 'b', 'c'\), got 'x'"),
    ],
)
def test_class_weights_must_leave_somebody(given, message):
    labels = np.array([0, 1, 0, 1, 2])
    graph = Graph(np.zeros((5, 5)), labels=labels, class_names=list("abc"), train_index=range(4))
    settings = Settings(class_weight=given)
    if message is None:
        wanted = np.array([given.get(name, 1.0) for name in "abc"])
        assert np.array_equal(class_weights(graph, settings), wanted)
    else:
        with pytest.raises(ValueError, match=message):
            class_weights(graph, settings)
    several = replace(graph, labels=np.eye(3, dtype=int)[labels])
    assert class_weights(several, Settings(class_weight={"a": 0.0})).tolist() == [0, 1, 1]


def test_agreement_takes_all_nodes_into_training():
    graph = make_graph()
    for settings, n_rows in (
        (Settings(model="grand", copies=2), 80), (Settings(model="grand", copies=1), 24),
        (Settings(model="grand", copies=2, agreement=0), 24), (Settings(), 24),
    ):  # fmt: skip
        network = build_model(graph, settings, [0])
        training, validation = full_batches(graph, settings, network)
        assert training.batch.n_within[0] == n_rows
        assert len(training.labels) == 24  # labels are of the training nodes alone
        assert validation.batch.n_within[0] == 20


def test_what_training_settles_for(monkeypatch):
    """Mini-batches where the memory wants them, with a word; else what was asked for."""
    graph = make_graph()
    smaller = replace(ROBUST, batch_size=5, **QUICK)
    asked = []
    for settled, words in ((smaller, ["too large"]), (replace(ROBUST, **QUICK), [])):
        monkeypatch.setattr(
            fit_module,
            "settle_batches",
            lambda *_, s=settled, **how: (asked.append(how), (s, "too large"))[1],
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert fit_gcn(graph, overrides=QUICK).settings == settled
        assert [str(one.message) for one in caught] == words
    fit_gcn(graph, overrides=QUICK, auto=False)
    assert asked == [{"auto": True}, {"auto": True}, {"auto": False}]


def test_probabilities_of_logits(monkeypatch):
    graph = make_graph()
    fitted = fit_gcn(graph, overrides=QUICK, seeds=[0, 1])
    logits = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    given = logits.numpy().copy()
    np.testing.assert_allclose(fitted.from_logits(given), logits.softmax(dim=2), atol=1e-6)
    several = replace(fitted, graph=replace(graph, labels=np.eye(4, dtype=int)[graph.labels]))
    np.testing.assert_allclose(several.from_logits(given), logits.sigmoid(), atol=1e-6)
    np.testing.assert_array_equal(given, logits)  # they are not written to
    for wrong in (np.inf, -np.inf, np.nan):
        given[3, 1, 2] = wrong
        for own in (fitted, several):
            with pytest.raises(ValueError, match="model must give numbers, got nan or infinity"):
                own.from_logits(given)


def test_probabilities_of_great_logits():
    """Where the exponential of a logit is more than a number can be."""
    graph = make_graph()
    fitted = fit_gcn(graph, overrides=QUICK)
    logits = np.zeros((2, 1, 4), dtype=np.float32)
    logits[:, 0, 1] = [1000, -1000]
    third = 1 / 3
    np.testing.assert_allclose(
        fitted.from_logits(logits)[:, 0], [[0, 1, 0, 0], [third, 0, third, third]], rtol=1e-6
    )
    several = replace(fitted, graph=replace(graph, labels=np.eye(4, dtype=int)[graph.labels]))
    np.testing.assert_array_equal(
        several.from_logits(logits)[:, 0], [[0.5, 1, 0.5, 0.5], [0.5, 0, 0.5, 0.5]]
    )


def test_a_probability_does_not_depend_on_those_beside_it():
    """So that replicas and blocks give the bits that they would give alone."""
    graph = make_graph()
    fitted = fit_gcn(graph, overrides=QUICK)
    several = replace(fitted, graph=replace(graph, labels=np.eye(4, dtype=int)[graph.labels]))
    logits = np.random.default_rng(0).standard_normal((60, 3, 4), dtype=np.float32)
    for own in (fitted, several):
        whole = own.from_logits(logits)
        assert whole.dtype == np.float32
        for first in range(len(logits)):
            found = own.from_logits(logits[first:].copy())
            np.testing.assert_array_equal(found, whole[first:])
        for replica in range(3):
            found = own.from_logits(logits[:, replica : replica + 1].copy())
            np.testing.assert_array_equal(found, whole[:, replica : replica + 1])


def test_an_array_on_disk_is_calibrated_in_place(tmp_path, monkeypatch):
    monkeypatch.setattr(fitted_gcn, "BLOCK_ROWS", 7)
    graph = make_graph("dense embeddings")
    graph = replace(graph, unknown_features=graph.features[3])
    fitted = fit_gcn(graph, overrides=QUICK)
    fitted = replace(fitted, undescribed_calibration=Calibration(3.0, 0.2))
    shares = fitted.probabilities()[:, 0]
    expected = fitted.calibrate(shares)
    np.testing.assert_allclose(expected[3], Calibration(3.0, 0.2).apply(shares[3:4])[0], atol=1e-6)
    np.testing.assert_allclose(expected[4], fitted.calibration.apply(shares[4:5])[0], atol=1e-6)
    mapped = np.memmap(tmp_path / "shares", dtype=np.float32, mode="w+", shape=shares.shape)
    mapped[:] = shares
    assert fitted.calibrate(mapped) is mapped
    np.testing.assert_array_equal(mapped, expected)
    some = np.array([3, 4])
    np.testing.assert_array_equal(fitted.calibrate(shares[some], graph, some), expected[some])


def test_batches_of_large_graphs_are_not_kept(monkeypatch):
    graph = make_graph()
    for most, is_kept in ((10**9, True), (fitted_gcn.n_numbers_of(graph), False)):
        monkeypatch.setattr(fitted_gcn, "MOST_KEPT", most)
        fitted = fit_gcn(graph, overrides=QUICK, calibrate=False)
        first = fitted._batch(fitted.graph)
        assert (fitted._batch(fitted.graph) is first) == is_kept
        assert fitted._batch(fitted.graph, np.array([1])) is not first


def test_progress_of_several_replicas():
    """Replicas that have stopped, or were trained before, count as if they had run all epochs."""
    scores = Epoch(*np.zeros((4, 2)))
    told = Progress(
        3, 10, n_running=2, n_waiting=1, n_replicas=5, scores=scores, network=None,
        replicas=np.array([2, 3]),
    )  # fmt: skip
    assert told.n_epochs_done == 2 * 10 + 2 * 3


def test_a_loss_that_is_no_number_is_told_with_its_epoch():
    _check_loss(np.array([1.0, 2.0]), 4)
    for loss in (np.nan, np.inf):
        with pytest.raises(
            ValueError, match=rf"must be a number, got {loss} in epoch 5; a smaller"
        ):
            _check_loss(np.array([1.0, loss]), 4)


@pytest.mark.parametrize(("folder", "n_used"), [(None, 5000), ("somewhere", 1000)])
def test_how_many_nodes_calibration_goes_by(folder, n_used, monkeypatch):
    labels = np.arange(5010) % 2
    graph = Graph(
        sp.csr_array((5010, 5010)), labels=labels, train_index=[], validation_index=range(5010)
    )
    graph.__dict__["_folder"] = folder
    seen = []
    monkeypatch.setattr(
        fit_module, "fit_calibration", lambda _, labels: seen.append(len(labels)) or Calibration()
    )
    fitted = fitted_gcn.FittedGCN(graph, ROBUST, None, None, 0)
    calibrated(fitted, np.full((5010, 1, 2), 0.5, dtype=np.float32))
    assert seen == [n_used]


def test_features_are_laid_out_for_what_dropout_keeps(monkeypatch):
    graph = make_graph()
    network = build_model(graph, Settings(dropout=0.4), [0])
    kept = []
    faster = fit_module.faster_features
    monkeypatch.setattr(
        fit_module, "faster_features", lambda own, share: kept.append(share) or faster(own, share)
    )
    full_batches(graph, Settings(dropout=0.4), network)
    assert kept == pytest.approx([0.6, 1])  # validation drops none


def test_balanced_classes_count_by_their_number():
    graph = Graph(np.zeros((5, 5)), labels=[0, 0, 0, 1, -1], class_names=list("abc"))
    found = class_weights(graph, Settings(class_weight="balanced"))
    assert found.tolist() == [1 / 3, 1, 1]


def test_of_many_classes_ten_are_named():
    names = [f"c{number}" for number in range(11)]
    graph = Graph(np.zeros((11, 11)), labels=np.arange(11), class_names=names)
    with pytest.raises(ValueError, match=r"\('c0', .* 'c9'\), got 'x'"):
        class_weights(graph, Settings(class_weight={"x": 1.0}))


def test_arrays_are_taken_in_pieces_of_so_many_rows():
    array = np.zeros((65_537, 1), dtype=np.float32)
    assert [len(piece) for piece in fitted_gcn._pieces(array)] == [65_536, 1]


def test_from_which_size_on_memory_is_asked_about(monkeypatch):
    """16 bytes a node: one dense feature, and three times a width of one; 16 MiB in all."""
    monkeypatch.setattr(fitted_gcn, "available_memory", lambda: 0)
    product = SimpleNamespace(n_terms=1, width=1)
    network = SimpleNamespace(seeds=[0], program=SimpleNamespace(products=[product]))
    for n_nodes, blocks in ((2**20, False), (2**20 + 1, True)):
        graph = SimpleNamespace(folder=None, n_nodes=n_nodes, features=np.zeros(1), n_features=1)
        assert fitted_gcn.works_in_blocks(graph, network) is blocks


@pytest.mark.parametrize(("n_numbers", "is_kept"), [(9_999_999, True), (10_000_000, False)])
def test_how_large_a_batch_is_kept(n_numbers, is_kept, monkeypatch):
    fitted = fit_gcn(make_graph(), overrides=QUICK, calibrate=False)
    monkeypatch.setattr(fitted_gcn, "n_numbers_of", lambda graph: n_numbers)
    fitted._batch(fitted.graph)
    assert (fitted.graph in fitted._batches) == is_kept


def test_on_a_device_the_network_is_put_there_once(monkeypatch):
    fitted = fit_gcn(make_graph(), overrides=QUICK)
    expected, hidden = fitted.probabilities(), fitted.embedding()
    monkeypatch.setattr(fitted_gcn, "choose_device", lambda *_: torch.device("cpu"))
    there = fitted._network_for(fitted.graph)
    assert there is not fitted.network
    assert there is fitted._network_for(fitted.graph)
    assert there.device == torch.device("cpu")
    np.testing.assert_allclose(fitted.probabilities(), expected, atol=1e-5)
    np.testing.assert_allclose(fitted.embedding(), hidden, atol=1e-5)
    assert pickle.loads(pickle.dumps(fitted))._on_devices == {}
    # What is kept belongs to the network: a changed model begins without.
    for kept in ("_on_devices", "_batches"):
        assert len(getattr(fitted, kept)) == 1
        assert len(getattr(replace(fitted), kept)) == 0
