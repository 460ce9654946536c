"""Mini-batches: exact ones add up to the full batch, sampled ones do so on average."""

import numpy as np
import pytest
import torch
from tests.command_line import make_runner

from graphconv import GCNClassifier, load_dataset
from graphconv.engine.batches import make_batch, sample_batch
from graphconv.engine.mini_batches import MiniBatches
from graphconv.engine.objective import LabelledBatch
from graphconv.engine.recorded import Recorded
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.models.settings import Settings
from graphconv.training.fit import Watch, build_model, fit_gcn
from graphconv.training.loop import train

BRIEF = Settings(hidden=(8,), max_epochs=6, early_stopping="none")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return make_runner(monkeypatch, capsys)


def random_graph(*, weighted=False, directed=False, n_nodes=60, n_edges=400):
    rng = np.random.default_rng(0)
    ends = rng.integers(n_nodes - 2, size=(2, n_edges))  # two nodes have no edge
    weight = rng.random(n_edges) + 0.5 if weighted else None
    return Graph(
        adjacency_from_edges(*ends, weight, n_nodes=n_nodes, directed=directed),
        rng.standard_normal((n_nodes, 5)).astype(np.float32),
        labels=np.arange(n_nodes) % 3,
        train_index=np.arange(0, n_nodes, 2),
        validation_index=np.arange(1, n_nodes, 2),
        directed=directed,
    )


def weights(model):
    return [parameter.copy() for parameter in model.parameters.values()]


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def fit(graph, seeds=(0,), **overrides):
    return fit_gcn(graph, overrides={**BRIEF.to_json(), **overrides}, seeds=seeds)


def test_one_batch_of_all_nodes_is_full_batch_training():
    cora = load_dataset("cora")
    full = fit(cora, hidden=(16,), max_epochs=10)
    whole = fit(cora, hidden=(16,), max_epochs=10, batch_size=140)
    assert equal(weights(full.network), weights(whole.network))
    assert full.history == whole.history


@pytest.mark.parametrize("rule", ["renormalised", "chebyshev", "first-order", "none"])
@pytest.mark.parametrize("directed", [False, True])
def test_batches_made_anew_give_the_same_bits(rule, directed):
    """Loss, gradient and weights, dropout included, through the machinery of mini-batches."""
    graph = random_graph(weighted=True, directed=directed)
    settings = Settings(hidden=(8,), max_epochs=5, early_stopping="none", propagation=rule)
    results = []
    for is_anew in (False, True):
        model = build_model(graph, settings, [3, 4])
        parts = MiniBatches(graph, settings, n_hops=model.n_hops, features=graph.features, seed=3)
        batch, watched = (
            LabelledBatch.make(make_batch(graph, index, n_hops=model.n_hops), graph.labels)
            for index in (graph.train_index, graph.validation_index)
        )
        state = (
            train(model, parts.training, parts.validation, settings)
            if is_anew
            else train(model, [batch], watched, settings)
        )
        results.append((weights(model), np.array(state.epochs)))
    assert equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


def test_every_node_is_in_one_batch_of_an_epoch():
    graph = random_graph()
    settings = Settings(batch_size=7, hidden=(8,))
    parts = MiniBatches(graph, settings, n_hops=2, features=graph.features, seed=1)

    def targets(epoch):
        return [part.batch.rows[: part.batch.n_within[0]] for part in parts.training(epoch)]

    first = targets(0)
    assert [len(part) for part in first] == [7, 7, 7, 7, 2]
    assert np.array_equal(np.sort(np.concatenate(first)), graph.train_index)
    assert all(np.array_equal(a, b) for a, b in zip(first, targets(0), strict=True))
    assert not np.array_equal(first[0], targets(1)[0])
    other = MiniBatches(graph, settings, n_hops=2, features=graph.features, seed=2)
    assert not np.array_equal(first[0], next(other.training(0)).batch.rows[:7])
    watched = np.concatenate(
        [part.batch.rows[: part.batch.n_within[0]] for part in parts.validation(5)]
    )
    assert np.array_equal(watched, graph.validation_index)


def test_exact_batches_add_up_to_the_loss_of_all():
    graph = random_graph(weighted=True)
    model = build_model(graph, Settings(hidden=(8,)), [0])
    parts = MiniBatches(
        graph, Settings(batch_size=4, hidden=(8,)), n_hops=2, features=graph.features
    )
    whole = make_batch(graph, graph.train_index, n_hops=2)
    expected = model(whole, epoch=3)[:, 0]
    place = {node: row for row, node in enumerate(graph.train_index.tolist())}
    for part in parts.training(0):
        rows = [place[node] for node in part.batch.rows[: part.batch.n_within[0]].tolist()]
        found = model(part.batch, epoch=3)[:, 0]
        np.testing.assert_allclose(found, expected[rows], rtol=1.3e-6, atol=1e-5)


@pytest.mark.parametrize("rule", ["renormalised", "single-parameter", "first-order"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_sample_of_all_neighbours_is_exact(rule, directed):
    graph = random_graph(weighted=True, directed=directed)
    model = Recorded(build_model(graph, Settings(hidden=(8, 8), propagation=rule), [0, 1]))
    targets = graph.train_index[:5]
    exact = make_batch(graph, targets, n_hops=3)
    sampled = sample_batch(graph, targets, fanouts=[99, 99, 99], keys=[1, 2, 3])
    results = []
    for batch in (exact, sampled):
        logits = model(batch, epoch=0)
        slopes = torch.autograd.grad((logits**2).sum(), list(model.parameters.values()))
        results.append((logits.detach(), slopes))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_sums_are_right_on_average(weighted):
    graph = random_graph(weighted=weighted, n_nodes=20, n_edges=120)
    x = graph.features
    expected = graph.adjacency @ x
    sums = np.zeros((2000, *x.shape))
    for key in range(len(sums)):
        batch = sample_batch(graph, np.arange(20), fanouts=[3], keys=[key])
        matrix = batch.hops[0][0]
        assert (np.diff(matrix.indptr) <= 3).all()
        sums[key] = matrix @ x[batch.rows]
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(axis=0) - expected) <= 5 * error + 1e-5).all()
    assert np.array_equal(batch.degree[:20], graph.degree.astype(np.float32))


def test_a_nodes_sample_does_not_depend_on_its_batch():
    graph = random_graph()
    alone = sample_batch(graph, [4], fanouts=[3], keys=[11])
    among = sample_batch(graph, [9, 4, 30], fanouts=[3], keys=[11])
    row = among.hops[0][0][[1]]
    assert set(alone.rows[alone.hops[0][0].indices]) == set(among.rows[row.indices])


def test_hops_are_told_apart_where_nothing_new_is_found():
    # A triangle: after one hop all nodes are there, and both hops have a sample of their own.
    triangle = Graph([[0, 1, 1], [1, 0, 1], [1, 1, 0]], np.eye(3), labels=[0, 1, 0])
    batch = sample_batch(triangle, [0, 1, 2], fanouts=[1, 1], keys=[5, 6])
    assert batch.n_within == (3, 4, 5)
    first, second = (batch.hops[hop][0] for hop in (0, 1))
    assert first.shape == (3, 4)
    assert second.shape == (4, 5)
    assert np.array_equal(batch.block(3, 4).indices, first.indices)
    assert np.array_equal(batch.block(5, 4, transposed=True).begin, batch.hops[1][1].indptr[:-1])


@pytest.mark.parametrize("fanout", ["all", (3, 3)])
def test_resumes_bit_for_bit(fanout):
    graph = random_graph()
    settings = {"batch_size": 8, "fanout": fanout, "max_epochs": 8}
    whole = fit(graph, **settings)
    saved = []
    watch = Watch(on_checkpoint=lambda make: saved.append(make()))
    overrides = {**BRIEF.to_json(), **settings}
    fit_gcn(graph, overrides=overrides, watch=watch)
    resumed = fit_gcn(graph, overrides=overrides, watch=Watch(resume_from=saved[3]))
    assert equal(weights(whole.network), weights(resumed.network))
    assert whole.history == resumed.history


def test_kernels_and_threads_change_nothing():
    graph = random_graph(weighted=True)
    overrides = {**BRIEF.to_json(), "batch_size": 8, "fanout": (4, 4)}
    reference, native = (
        fit_gcn(graph, overrides=overrides, kernels=name) for name in ("reference", "auto")
    )
    np.testing.assert_allclose(reference.probabilities(), native.probabilities(), atol=1e-4)


def test_class_weights_count_in_every_batch():
    graph = random_graph()
    heavy = fit(graph, batch_size=8, class_weight={0: 50.0, 1: 1.0, 2: 1.0}, max_epochs=30)
    plain = fit(graph, batch_size=8, max_epochs=30)
    share = [
        (model.probabilities().mean(axis=1).argmax(axis=1) == 0).mean() for model in (heavy, plain)
    ]
    assert share[0] > share[1]


def test_estimator_takes_them():
    cora = load_dataset("cora")
    classifier = GCNClassifier(
        preset="paper", batch_size=40, fanout=5, max_epochs=30, random_state=0
    ).fit(cora)
    assert classifier.settings_.fanout == (5,)
    right = (
        classifier.predict()[cora.test_index] == classifier.classes_[cora.labels[cora.test_index]]
    )
    assert right.mean() > 0.78


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number above 0, got 0"),
        ({"fanout": "some"}, "fanout must be 'all' or whole numbers above 0, got 'some'"),
        ({"fanout": (5, 0)}, "fanout must be 'all' or whole numbers above 0"),
        ({"fanout": 5, "propagation": "chebyshev"}, "fanout must be 'all' with the chebyshev rule"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


def test_fanout_fits_how_far_the_model_sees():
    graph = random_graph()
    with pytest.raises(ValueError, match="fanout must be one number, or one for each of 2 hops"):
        fit_gcn(graph, overrides={"fanout": (5, 5, 5), "batch_size": 9})


def test_command_line(run):
    done = run(
        "train", "cora", "--batch-size", "50", "--fanout", "5,5", "--max-epochs", "20",
        "-o", "m", "--json", "-q",
    )  # fmt: skip
    assert done.json["settings"]["batch_size"] == 50
    assert done.json["settings"]["fanout"] == [5, 5]
    assert done.json["test_accuracy"] > 0.71
    done = run("train", "cora", "--fanout", "few", expect=2)
    assert done.err == ["graphconv: --fanout must be 'all' or whole numbers above 0, got 'few'"]
    done = run("train", "cora", "--batch-size", "0", expect=2)
    assert done.err == ["graphconv: --batch-size must be a whole number above 0, got 0"]
