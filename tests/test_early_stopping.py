"""Tests of graphconv.training.loop: when it stops, and which weights it keeps."""

from dataclasses import replace

import numpy as np
import pytest
from tests.training_runs import SHORT, labelled, run, small_graph, weights

from graphconv.engine.objective import Objective
from graphconv.models.settings import ROBUST, Settings
from graphconv.training.early_stopping import EarlyStopping
from graphconv.training.fit import build_model
from graphconv.training.loop import MAX_EPOCHS_UNWATCHED


def drive(sequences, settings, model):
    """Feed epochs of (loss, accuracy) of each replica to the stopping rule; what it came to.

    Before each epoch all weights are set to its number, so that kept weights tell their epoch.
    """
    rule, patience = settings.early_stopping, settings.patience
    stopping = EarlyStopping(rule, patience, len(model.seeds))
    for number, figures in enumerate(sequences, start=1):
        for parameter in model.parameters.values():
            parameter.fill(number)
        loss, accuracy = np.array(figures, dtype=float).T
        running = stopping.running(np.arange(len(loss)))
        stopping.check(running, loss[running], accuracy[running], model.replica_weights)
        if number == 2:  # nothing is lost on the way through a file
            saved, stopping = stopping.arrays(), EarlyStopping(rule, patience, len(model.seeds))
            stopping.restore(saved)
        if (stopping.stopped_at > 0).all():
            break
    return stopping


def kept_epochs(state):
    return [None if own is None else int(own["layers.0.weight"].max()) for own in state.kept]


def model_of(n_replicas):
    return build_model(small_graph(), SHORT, list(range(n_replicas)))


@pytest.mark.parametrize(
    ("losses", "stopped"),
    [
        # Window 3: from the fifth epoch on, stop when the loss exceeds the mean of the three
        # epochs before it.
        ([5, 4, 3, 2, 1, 0.5], 0),
        ([1, 1, 1, 1, 1.1], 5),  # mean 1
        ([1, 1, 1, 9, 3], 0),  # mean of 1, 1, 9 is 11/3
        ([1, 1, 1, 9, 4], 5),
        ([1, 2, 3, 4, 3], 0),  # mean exactly 3: not above it
        ([1, 2, 3, 4], 0),  # too early, though rising
        # Sixth: 2 against (3 + 2 + 1) / 3 = 2, not yet; seventh: 1.7 against (2 + 1 + 2) / 3.
        ([5, 4, 3, 2, 1, 2, 1.7], 7),
    ],
)
def test_window_rule_by_hand(losses, stopped):
    settings = replace(SHORT, early_stopping="window", patience=3)
    model = model_of(1)
    state = drive([[(loss, 0.5)] for loss in losses], settings, model)
    assert state.stopped_at.tolist() == [stopped]
    # The authors keep the weights of the epoch at which they stop.
    assert kept_epochs(state) == [stopped or None]


@pytest.mark.parametrize(
    ("losses", "stopped"),
    [
        # Patience 3: three epochs in a row without a new lowest loss.
        ([5, 4, 3, 2, 1, 0.5], 0),
        ([1, 2, 2, 2], 4),
        ([1, 2, 2], 0),
        ([3, 2, 2.5, 2.2, 2.1], 5),  # falling, but never below 2
        ([3, 2, 2.5, 2.2, 1.9, 2, 2, 2], 8),
        ([3, 2, 2, 2, 2], 5),  # the same again is no decrease
    ],
)
def test_rule_of_the_papers_text_by_hand(losses, stopped):
    settings = replace(SHORT, early_stopping="consecutive", patience=3)
    state = drive([[(loss, 0.5)] for loss in losses], settings, model_of(1))
    assert state.stopped_at.tolist() == [stopped]
    assert kept_epochs(state) == [stopped or None]  # the last weights, not the best


def test_rule_of_the_papers_text_stops_each_replica_by_itself():
    settings = replace(SHORT, early_stopping="consecutive", patience=2)
    losses = [(1, 3), (2, 2), (2, 1), (0, 2), (0, 2)]
    state = drive([[(a, 0.5), (b, 0.5)] for a, b in losses], settings, model_of(2))
    assert state.stopped_at.tolist() == [3, 5]
    assert kept_epochs(state) == [3, 5]


@pytest.mark.parametrize(
    ("figures", "stopped", "kept"),
    [
        # Patience 3. Best accuracy first, then loss.
        ([(1.0, 0.5), (0.9, 0.6), (0.8, 0.6), (0.9, 0.6), (0.9, 0.6), (0.9, 0.6)], 6, 3),
        # Of equals, a later one counts only with the lowest loss of all: 0.8 is not below 0.7.
        ([(0.7, 0.5), (0.9, 0.6), (0.8, 0.6), (0.7, 0.6), (0.8, 0.6)], 5, 2),
        ([(0.7, 0.5), (0.9, 0.6), (0.8, 0.6), (0.6, 0.6), (0.8, 0.6)], 0, 4),
        # The loss goes on improving, so training goes on, but the best accuracy was the first.
        ([(1.0, 0.9), (0.9, 0.8), (0.8, 0.8), (0.7, 0.8), (0.6, 0.8)], 0, 1),
        # The accuracy goes on improving while the loss rises.
        ([(1.0, 0.5), (1.1, 0.6), (1.2, 0.7), (1.3, 0.8), (1.4, 0.9)], 0, 5),
        # Equal accuracy and equal loss are no gain; of equals the first is kept.
        ([(1.0, 0.5), (1.0, 0.5), (1.0, 0.5), (1.0, 0.5), (1.0, 0.5)], 4, 1),
        # A gain in the last moment.
        ([(1.0, 0.5), (1.0, 0.5), (1.0, 0.5), (0.9, 0.5), (1.0, 0.5)], 0, 4),
    ],
)
def test_patience_rule_by_hand(figures, stopped, kept):
    settings = replace(SHORT, early_stopping="best", patience=3)
    state = drive([[pair] for pair in figures], settings, model_of(1))
    assert state.stopped_at.tolist() == [stopped]
    assert kept_epochs(state) == [kept]


@pytest.mark.parametrize(
    ("figures", "stopped", "kept"),
    [
        # Patience 3. Falls of less than a hundredth do not count, though the lowest loss is kept,
        # if it is the lowest of all: 0.8 is not below 0.7.
        ([(0.7, 0.5), (0.9, 0.6), (0.8, 0.6), (0.8, 0.6), (0.8, 0.6)], 5, 2),
        ([(1.0, 0.5), (0.995, 0.5), (0.994, 0.5), (0.993, 0.5), (0.992, 0.5)], 4, 4),
        # They add up: 0.989 is more than a hundredth below the 1 of the last gain.
        ([(1.0, 0.5), (0.995, 0.5), (0.989, 0.5), (0.98, 0.5), (0.981, 0.5), (0.98, 0.5)], 6, 4),
        # From 0.989 on the next gain is below 0.97911.
        ([(1.0, 0.5), (0.989, 0.5), (0.98, 0.5), (0.9792, 0.5), (0.979, 0.5), (1.0, 0.5)], 0, 5),
        # Any gain in accuracy counts, and leaves what the loss must fall from as it was.
        ([(1.0, 0.5), (0.995, 0.51), (0.991, 0.51), (0.9895, 0.51), (1, 0.51)], 0, 4),
        # A loss of 0 can't fall.
        ([(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], 4, 1),
    ],
)
def test_settled_rule_by_hand(figures, stopped, kept):
    settings = replace(SHORT, early_stopping="settled", patience=3)
    state = drive([[pair] for pair in figures], settings, model_of(1))
    assert state.stopped_at.tolist() == [stopped]
    assert kept_epochs(state) == [kept]


def test_replicas_stop_each_by_itself():
    settings = replace(SHORT, early_stopping="best", patience=2)
    state = drive(
        [
            [(1.0, 0.5), (1.0, 0.5)],
            [(1.1, 0.5), (0.9, 0.5)],
            [(1.1, 0.5), (0.8, 0.5)],  # the first one stops
            [(0.1, 0.9), (0.9, 0.5)],  # too late for the first one to count
            [(0.1, 0.9), (0.9, 0.5)],
        ],
        settings,
        model_of(2),
    )
    assert state.stopped_at.tolist() == [3, 5]
    assert kept_epochs(state) == [1, 3]


def test_best_weights_are_restored():
    graph = small_graph()
    seen = []
    settings = replace(ROBUST, hidden=(8,), scaling="none", patience=15, max_epochs=200)
    model, state = run(graph, settings, on_checkpoint=lambda make: seen.append(make()))
    assert len(seen) == state.stopped_at[0] == len(state.epochs) < 200
    ranks = [(e.validation_accuracy[0], -e.validation_loss[0]) for e in state.epochs]
    best = ranks.index(max(ranks))
    assert best < len(seen) - 1
    for name, value in weights(model).items():
        assert np.array_equal(value, seen[best][f"model.{name}"])
    objective = Objective(model, SHORT)
    (loss, accuracy), _ = objective.evaluate(labelled(graph, graph.validation_index, model))
    assert (accuracy[0], -loss[0]) == ranks[best]


def test_window_rule_counts_the_penalty_in_its_loss():
    graph = small_graph()
    settings = replace(SHORT, early_stopping="window", patience=50, max_epochs=1, weight_decay=0.3)
    model, state = run(graph, settings)
    (loss, _), _ = Objective(model, SHORT).evaluate(labelled(graph, graph.validation_index, model))
    squares = np.square(model.parameters["layers.0.weight"], dtype=np.float64).sum()
    assert state.epochs[0].validation_loss[0] == pytest.approx(loss[0] + 0.15 * squares, rel=1e-5)


@pytest.mark.parametrize(("max_epochs", "expected"), [(1000, MAX_EPOCHS_UNWATCHED), (30, 30)])
def test_without_validation_at_most_200_epochs(max_epochs, expected):
    settings = Settings(hidden=(2,), scaling="none", max_epochs=max_epochs, patience=1)
    _, state = run(small_graph(), settings, watched=False)
    assert len(state.epochs) == state.stopped_at[0] == expected
    assert np.isnan(state.epochs[-1].validation_loss).all()
    assert np.isnan(state.epochs[-1].validation_accuracy).all()


@pytest.mark.parametrize(("rule", "watched"), [("best", True), ("none", False), ("none", True)])
def test_others_may_run_longer(rule, watched):
    settings = replace(
        SHORT, early_stopping=rule, max_epochs=MAX_EPOCHS_UNWATCHED + 5, patience=999
    )
    _, state = run(small_graph(), settings, watched=watched)
    assert len(state.epochs) == MAX_EPOCHS_UNWATCHED + 5


def test_early_stopping_none_runs_to_the_end():
    _, state = run(small_graph(), replace(SHORT, patience=1))
    assert len(state.epochs) == SHORT.max_epochs
    assert state.stopping.kept == [None]


def test_lowest_stops_as_best_does_and_keeps_the_lowest_loss():
    epochs = [[(0.9, 0.5)], [(0.6, 0.6)], [(0.5, 0.6)], [(0.7, 0.8)], [(0.8, 0.7)], [(0.8, 0.7)]]
    ends = {}
    for rule in ("best", "lowest"):
        settings = replace(SHORT, early_stopping=rule, patience=2)
        stopping = drive(epochs, settings, model_of(1))
        ends[rule] = (stopping.stopped_at.tolist(), kept_epochs(stopping))
    assert ends == {"best": ([6], [4]), "lowest": ([6], [3])}
    # Of equal losses the first is kept.
    settings = replace(SHORT, early_stopping="lowest", patience=9)
    equal = drive([[(0.5, 0.5)], [(0.5, 0.6)], [(0.5, 0.7)]], settings, model_of(1))
    assert kept_epochs(equal) == [1]


def test_losses_are_remembered_by_the_rule_that_looks_back():
    for rule, n_rows in (("window", 8), ("settled", 0), ("consecutive", 0), ("none", 0)):
        assert EarlyStopping(rule, 7, 2).recent.shape == (n_rows, 2)
