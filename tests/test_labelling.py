"""Tests of graphconv.results.labelling: learning while somebody labels."""

import numpy as np
import pytest
from tests.generated_graphs import generate, split

from graphconv.results.labelling import MORE_EPOCHS, N_GROUPS, RANDOM_EVERY, Learner


@pytest.fixture(scope="module")
def graph():
    return split(generate("homophilous, bag of words", n_nodes=200), n_per_class=3)


def names(graph):
    return [f"class {number}" for number in range(graph.n_classes)]


def label_some(learner, graph, n):
    """Labels of the first n questions, and the model that knows them."""
    labels = np.full(graph.n_nodes, -1)
    for number in range(n):
        if number % RANDOM_EVERY == RANDOM_EVERY - 1:
            node = learner.random_question(labels, number)
        else:
            node = learner.questions(labels, 1)[0]
        assert labels[node] < 0
        labels[node] = graph.labels[node]
    learner.fit(labels, names(graph), n)
    return labels


def test_without_two_classes_there_is_no_model(graph):
    learner = Learner(graph)
    labels = np.full(graph.n_nodes, -1)
    assert learner.fit(labels, [], 0) is None
    labels[3] = 0
    assert learner.fit(labels, ["one"], 1) is None
    labels[4] = 1
    assert learner.fit(labels, ["one", "two"], 2).probabilities.shape == (200, 2)
    labels[4] = -1  # taken back
    assert learner.fit(labels, ["one", "two"], 3) is None


def test_first_questions_are_spread_over_the_classes(graph):
    learner = Learner(graph)
    first = learner.questions(np.full(graph.n_nodes, -1), 12)
    assert len(set(first)) == 12
    assert len(set(graph.labels[first])) == graph.n_classes


def test_a_refit_goes_on_and_a_new_class_begins_anew(graph):
    learner = Learner(graph)
    labels = np.full(graph.n_nodes, -1)
    labels[graph.train_index] = graph.labels[graph.train_index]
    labels[labels == 3] = -1
    three = names(graph)[:3]
    assert learner.fit(labels, three, 1).fitted.n_epochs == 200
    assert learner.fit(labels, three, 2).fitted.n_epochs == MORE_EPOCHS
    labels[graph.train_index] = graph.labels[graph.train_index]
    assert learner.fit(labels, names(graph), 3).fitted.n_epochs == 200


def test_nodes_are_judged_by_models_that_never_saw_their_labels(graph):
    """A label that is wrong on purpose changes nothing in what judges it."""
    found = []
    for lie in (False, True):
        learner = Learner(graph, overrides={"hidden": (8,)})
        labels = np.full(graph.n_nodes, -1)
        labels[:60] = graph.labels[:60]
        node = 7
        if lie:
            labels[node] = (found[0].argmax() + 1) % graph.n_classes
        group = int(learner.group[node])
        for _ in range(2):  # going on from weights keeps the secret, too
            learner.fit_group(group, labels, names(graph))
        found.append(learner.held_out(np.array([node]), graph.n_classes)[1])
        if lie:
            doubts = learner.doubts(labels, graph.n_classes)
            assert node in [doubt[0] for doubt in doubts]
            assert [doubt[2] for doubt in doubts] == sorted(doubt[2] for doubt in doubts)
    np.testing.assert_array_equal(*found)


def test_estimate_and_calibration_need_random_answers(graph):
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    random = np.flatnonzero(labels >= 0)[:12]
    assert learner.estimate(labels, random, 4).n_all == 0  # nothing is held out yet
    for group in range(N_GROUPS):
        learner.fit_group(group, labels, names(graph))
    estimate = learner.estimate(labels, random, 4)
    assert estimate.n_all == 12
    nodes, shares = learner.held_out(random, 4)
    assert estimate.n_right == (shares.argmax(axis=1) == graph.labels[nodes]).sum()
    learner.calibrate(labels, random[:5], 4)
    assert learner.calibration.changes_nothing
    learner.calibrate(labels, random, 4)
    assert not learner.calibration.changes_nothing


def test_questions_leave_out_what_was_answered_or_skipped(graph):
    learner = Learner(graph)
    labels = np.full(graph.n_nodes, -1)
    labels[10:] = 0
    skipped = {0, 1, 2}
    assert set(learner.questions(labels, 20, skipped)) == set(range(3, 10))
    drawn = {learner.random_question(labels, number, skipped) for number in range(200)}
    assert drawn == set(range(3, 10))
    labels[:] = 0
    assert learner.questions(labels, 5) == []
    assert learner.random_question(labels, 0) is None


def test_learning_beats_chance_with_twenty_answers(graph):
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    unknown = labels < 0
    right = learner.picture.probabilities.argmax(axis=1)[unknown] == graph.labels[unknown]
    assert right.mean() > 0.6
