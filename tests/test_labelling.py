"""Tests of graphconv.results.labelling: learning while somebody labels."""

import numpy as np
import pytest
from tests.generated_graphs import generate, split

from graphconv.results.labelling import MORE_EPOCHS, RANDOM_EVERY, Learner

NOBODY = np.empty(0, dtype=np.int64)


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
            doubts = learner.doubts(labels, NOBODY, graph.n_classes)
            assert node in [doubt[0] for doubt in doubts]
            assert [doubt[2] for doubt in doubts] == sorted(doubt[2] for doubt in doubts)
    np.testing.assert_array_equal(*found)


def test_the_exam_judges_the_model_as_it_is(graph):
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    exam = np.flatnonzero(labels < 0)[:40]
    truth = graph.labels
    assert learner.examine(NOBODY, truth) == (0, 0)
    found = learner.picture.probabilities[exam].argmax(axis=1)
    assert learner.examine(exam, truth) == ((found == truth[exam]).sum(), 40)
    assert not learner.calibration.changes_nothing
    learner.examine(exam[:9], truth)
    assert learner.calibration.changes_nothing
    assert learner.possible is None


def test_sets_hold_the_true_class_as_often_as_they_say(graph):
    """By the exam they hold nine of ten by construction; by the others about as many."""
    learner = Learner(graph)
    labels = label_some(learner, graph, 24)
    unlabelled = np.random.default_rng(0).permutation(np.flatnonzero(labels < 0))
    exam, others = unlabelled[:60], unlabelled[60:]
    learner.examine(exam, graph.labels)
    held = learner.possible[np.arange(graph.n_nodes), graph.labels]
    assert held[exam].mean() >= 0.9
    assert held[others].mean() > 0.95
    assert learner.possible.sum(axis=1).min() >= 1
    assert learner.possible.mean() < 0.9  # something is excluded


def test_a_label_of_the_exam_is_doubted_by_the_model_itself(graph):
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    unlabelled = np.flatnonzero(labels < 0)
    best = learner.picture.probabilities[unlabelled].max(axis=1).argmax()
    node = int(unlabelled[best])
    labels[node] = (learner.picture.probabilities[node].argmax() + 1) % graph.n_classes
    doubts = learner.doubts(labels, np.array([node]), graph.n_classes)
    assert [doubt[0] for doubt in doubts] == [node]


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
    assert right.mean() > 0.69
