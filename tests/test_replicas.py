"""Tests of graphconv.training.loop: seeds trained at once end as if each were alone."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_cases import KERNELS, needs_native
from tests.training_runs import SHORT, assert_same_bits, labelled, run, small_graph, weights

from graphconv import kernels
from graphconv.engine import replicas
from graphconv.io.datasets import load_dataset
from graphconv.training import loop
from graphconv.training.fit import build_model, history_of
from graphconv.training.loop import train

# Where a replica's last bits could come to depend on those beside it: gradients summed over nodes
# (a learned lambda, a bias), vectorised loops with a remainder and the edges of matrix products
# (odd widths).
VARIANTS = {
    "renormalised": {},
    "single-parameter": {"propagation": "single-parameter"},
    "first-order": {"propagation": "first-order"},
    "first-order-only": {"propagation": "first-order-only"},
    "chebyshev": {"propagation": "chebyshev"},
    "none": {"propagation": "none"},
    "learned": {"self_loop_weight": "learn"},
    "bias": {"bias": True},
    "residual": {"hidden": (8, 8), "residual": True},
    "tanh, no dropout": {"activation": "tanh", "dropout": 0.0},
    "linear": {"hidden": ()},
    "wide": {"hidden": (64,)},
    "odd": {"hidden": (5,)},
    "odd, no dropout": {"hidden": (5,), "dropout": 0.0},
    "copies": {"copies": 2},
    "appnp": {"model": "appnp", "steps": 3},
    "grand": {"model": "grand", "steps": 3, "copies": 3},
    "grand, normalised": {"model": "grand", "steps": 3, "normalisation": "batch"},
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_replicas_end_bit_for_bit_as_alone(variant, features, kernel):
    graph = small_graph(features)
    settings = replace(SHORT, **VARIANTS[variant])
    seeds = (4, 11, 2)
    together, state = run(graph, settings, seeds, kernel)
    for replica, seed in enumerate(seeds):
        alone, own = run(graph, settings, (seed,), kernel)
        assert_same_bits(together.replica_weights(replica), alone.replica_weights(0))
        # The figures shown are sums in double precision, whose order may differ.
        np.testing.assert_allclose(
            np.array(state.epochs)[:, :, replica], np.array(own.epochs)[:, :, 0], rtol=1e-12
        )


@pytest.mark.parametrize("early_stopping", ["settled", "best", "window"])
@pytest.mark.parametrize("variant", ["renormalised", "learned", "bias", "residual"])
def test_replicas_stop_as_alone(variant, early_stopping):
    graph = small_graph()
    settings = replace(
        SHORT,
        **VARIANTS[variant],
        early_stopping=early_stopping,
        patience=8,
        max_epochs=120,
        learning_rate=0.05,
    )
    seeds = (4, 11, 2)
    together, state = run(graph, settings, seeds)
    assert len(set(state.stopped_at.tolist())) > 1
    for replica, seed in enumerate(seeds):
        alone, own = run(graph, settings, (seed,))
        assert state.stopped_at[replica] == own.stopped_at[0]
        assert_same_bits(together.replica_weights(replica), alone.replica_weights(0))


def test_weights_of_a_replica_can_be_moved():
    graph = small_graph()
    settings = replace(SHORT, self_loop_weight="learn", bias=True)
    trained, _ = run(graph, settings, (1, 2))
    other = build_model(graph, settings, [1, 2, 3])
    other.load_replica(2, trained.replica_weights(1))
    assert_same_bits(other.replica_weights(2), trained.replica_weights(1))


SEEDS = (4, 11, 2, 9, 6)


@pytest.fixture
def teams_of_two(monkeypatch):
    monkeypatch.setattr(replicas, "TEAM_SIZE", 2)
    monkeypatch.setattr(kernels.select(), "get_threads", lambda: 1)
    assert replicas.team_size(build_model(small_graph(), SHORT, SEEDS)) == 2


STOPPING = {"patience": 8, "max_epochs": 120, "learning_rate": 0.05}


@pytest.mark.parametrize("early_stopping", ["none", "settled", "best", "window"])
@pytest.mark.parametrize("variant", ["renormalised", "learned", "bias", "chebyshev"])
@pytest.mark.usefixtures("teams_of_two")
def test_teams_train_one_after_the_other(variant, early_stopping):
    graph = small_graph()
    settings = replace(SHORT, **VARIANTS[variant])
    if early_stopping != "none":
        settings = replace(settings, early_stopping=early_stopping, **STOPPING)
    told = []
    together, state = run(graph, settings, SEEDS, on_epoch=told.append)
    for replica, seed in enumerate(SEEDS):
        alone, own = run(graph, settings, (seed,))
        n_epochs = own.stopped_at[0]
        assert state.stopped_at[replica] == state.n_run[replica] == n_epochs
        assert_same_bits(together.replica_weights(replica), alone.replica_weights(0))
        figures = np.array(state.epochs)[:, :, replica]
        np.testing.assert_allclose(figures[:n_epochs], np.array(own.epochs)[:, :, 0], rtol=1e-12)
        assert np.isnan(figures[n_epochs:]).all()  # it costs nothing once it has stopped
    # Two, two and one; who has stopped leaves the others to go on.
    assert {len(progress.scores.train_loss) for progress in told} <= {1, 2}
    assert sum(len(progress.scores.train_loss) for progress in told) == state.n_run.sum()
    done = [progress.n_epochs_done for progress in told]
    assert done == sorted(done)
    assert [progress.n_waiting for progress in (told[0], told[-1])] == [3, 0]
    means = history_of(state)["train_loss"]
    expected = np.nanmean([epoch.train_loss for epoch in state.epochs], axis=1)
    np.testing.assert_allclose(means, expected)


@pytest.mark.parametrize("early_stopping", ["none", "settled", "best", "window"])
@pytest.mark.usefixtures("teams_of_two")
def test_teams_resume_at_any_epoch(early_stopping, monkeypatch):
    graph = small_graph()
    settings = replace(SHORT, max_epochs=5)
    if early_stopping != "none":
        settings = replace(SHORT, early_stopping=early_stopping, **STOPPING)
    saved = []
    whole, state = run(graph, settings, SEEDS, on_checkpoint=lambda make: saved.append(make()))
    last_of_first_team = int(state.stopped_at[:2].max()) - 1
    chosen = {0, 3, last_of_first_team, last_of_first_team + 1, len(saved) // 2, len(saved) - 1}
    for number in chosen:
        for size in (2, 3):  # how many train at a time may change in between
            monkeypatch.setattr(replicas, "TEAM_SIZE", size)
            again, resumed = run(graph, settings, SEEDS, resume_from=saved[number])
            assert_same_bits(weights(whole), weights(again))
            np.testing.assert_array_equal(np.array(state.epochs), np.array(resumed.epochs))
            assert state.stopped_at.tolist() == resumed.stopped_at.tolist()


def test_size_of_a_team_follows_the_weights(monkeypatch):
    graph = small_graph("none")  # 60 features

    def size(width, n_threads=1):
        monkeypatch.setattr(kernels.select(), "get_threads", lambda: n_threads)
        return replicas.team_size(build_model(graph, replace(SHORT, hidden=(width,)), SEEDS))

    assert size(8) == 4
    assert size(8, n_threads=3) == 12
    assert size(1000) == 2  # 64,000 weights each, 256 kB
    assert size(10_000) == 1
    copied = build_model(graph, replace(SHORT, hidden=(8,), copies=2), SEEDS)
    monkeypatch.setattr(kernels.select(), "get_threads", lambda: 3)
    assert replicas.team_size(copied) == 6  # two replicas of two copies for each thread


def test_some_replicas_are_copies():
    model = build_model(small_graph(), replace(SHORT, self_loop_weight="learn", bias=True), SEEDS)
    some = model.some_replicas([3, 1])
    assert some.seeds == (9, 11)
    assert_same_bits(some.replica_weights(1), model.replica_weights(1))
    before = model.replica_weights(3)
    for parameter in some.parameters.values():
        parameter.fill(7)
    assert_same_bits(model.replica_weights(3), before)
    assert len(some.self_loop_weight) == 2


@needs_native
def test_many_replicas_on_pubmed_end_bit_for_bit_as_alone():
    """There the product with the features is made replica by replica, and summed in parts."""
    graph = load_dataset("pubmed")
    settings = replace(SHORT, hidden=(16,), max_epochs=3)
    seeds = (4, 11, 2, 9, 6)
    together, _ = run(graph, settings, seeds, "native", watched=False)
    for replica, seed in enumerate(seeds):
        alone, _ = run(graph, settings, (seed,), "native", watched=False)
        assert_same_bits(together.replica_weights(replica), alone.replica_weights(0))


@pytest.mark.parametrize(("is_made_anew", "sizes"), [(False, [1, 1]), (True, [2])])
def test_batches_that_are_made_anew_are_made_once_for_all(is_made_anew, sizes, monkeypatch):
    monkeypatch.setattr(loop, "team_size", lambda network: 1)
    graph, settings = small_graph(), replace(SHORT, max_epochs=1)
    model = build_model(graph, settings, (4, 11))
    batch, told = labelled(graph, graph.train_index, model), []
    batches = (lambda epoch: [batch]) if is_made_anew else [batch]
    train(model, batches, None, settings, on_epoch=told.append)
    assert [len(progress.replicas) for progress in told] == sizes

    # Processes that train together, too.
    class Alone:
        def add_up(self, values, what=""):
            pass

    del told[:]
    train(model, [batch], None, settings, on_epoch=told.append, group=Alone())
    assert [len(progress.replicas) for progress in told] == [2]
