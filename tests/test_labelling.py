"""Tests of graphconv.results.labelling: learning while somebody labels."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.generated_graphs import generate, split

from graphconv.results import labelling, suggest
from graphconv.results.labelling import MORE_EPOCHS, RANDOM_EVERY, Learner
from graphconv.results.prediction_sets import find_set_rule
from graphconv.training.calibration import fit_calibration
from graphconv.training.fit import fit_gcn
from graphconv.training.out_of_fold import neighbour_means

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


def test_lessons_of_a_group_are_hidden_from_its_model_alone(graph, monkeypatch):
    seen = []

    def fit(graph, **how):
        seen.append((graph, how))
        return fit_gcn(graph, **how)

    monkeypatch.setattr(labelling, "fit_gcn", fit)
    learner = Learner(graph, overrides={"hidden": (4,)}, seed=2**32 - 2)
    assert learner.group.min() == 0
    assert learner.group.max() == 9
    assert np.bincount(learner.group).min() > 5  # of 200 nodes about 20 each
    drawn = np.random.default_rng([2**32 - 2, 1]).integers(0, 10, 200)
    assert np.array_equal(learner.group, drawn)  # the same when a session goes on
    labels = np.full(graph.n_nodes, -1)
    labels[:60] = graph.labels[:60]
    learner.fit(labels, names(graph), 1)
    for _ in range(2):
        learner.fit_group(3, labels, names(graph))
    whole, *of_group = [shown.train_index.tolist() for shown, _ in seen]
    assert whole == list(range(60))
    assert of_group == 2 * [[node for node in range(60) if learner.group[node] != 3]]
    assert [how["seeds"] for _, how in seen] == [[2**32 - 1], [0], [1]]  # never twice the same
    settings = [how["overrides"] for _, how in seen]
    assert [own["max_epochs"] for own in settings] == [200, 200, 60]
    assert all(own["early_stopping"] == "none" for own in settings)
    assert all((how["validation_fraction"], how["calibrate"]) == (0, False) for _, how in seen)
    assert [how["start_from"] is None for _, how in seen] == [True, True, False]


def test_who_is_judged_by_which_group(graph):
    learner = Learner(graph, overrides={"hidden": (4,)})
    labels = np.full(graph.n_nodes, -1)
    labels[:60] = graph.labels[:60]
    learner.fit_group(3, labels, names(graph))
    nodes, shares = learner.held_out(np.arange(60), graph.n_classes + 1)
    assert nodes.tolist() == [node for node in range(60) if learner.group[node] == 3]
    own = learner._group_models[3].probabilities()[:, 0]
    assert np.array_equal(shares[:, :-1], own[nodes])
    assert not shares[:, -1].any()  # a class that the model has not met yet
    labels[:60] = 0  # too little to learn from: what was known of the group is forgotten
    learner.fit_group(3, labels, names(graph))
    assert len(learner.held_out(np.arange(60), graph.n_classes)[0]) == 0
    labels[:60] = graph.labels[:60]
    learner.fit_group(3, labels, names(graph))
    assert learner._group_models[3].n_epochs == 200  # from the beginning again


def test_labels_of_the_first_class_are_doubted_too(graph):
    learner = Learner(graph, overrides={"hidden": (4,)})
    labels = np.full(graph.n_nodes, -1)
    labels[:60] = graph.labels[:60]
    learner.fit_group(3, labels, names(graph))
    nodes, shares = learner.held_out(np.arange(60), graph.n_classes)
    wrong = nodes[shares[:, 0].argmin()]  # what judges it has never seen its label
    labels[wrong] = 0
    assert wrong in [node for node, _, _ in learner.doubts(labels, NOBODY, graph.n_classes)]


@pytest.mark.parametrize(("n_exam", "is_calibrated"), [(9, False), (10, True)])
def test_ten_answers_tell_what_confidence_means(graph, n_exam, is_calibrated, monkeypatch):
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    exam = np.flatnonzero(labels < 0)[:n_exam]
    given = []

    def rule(folds, coverage):
        given.append((folds, coverage))
        return find_set_rule(folds, coverage)

    monkeypatch.setattr(labelling, "find_set_rule", rule)
    learner.examine(exam, graph.labels)
    assert (learner.possible is not None) == is_calibrated
    shares = learner.picture.probabilities
    if is_calibrated:
        ((folds, coverage),) = given
        assert coverage == 0.9
        assert np.array_equal(folds.probabilities, shares[exam])
        assert np.array_equal(folds.of_neighbours, neighbour_means(graph, shares)[exam])
        assert learner.calibration == fit_calibration(shares[exam], graph.labels[exam])
    assert learner.undescribed_calibration is None  # every node has features here


def test_nodes_without_features_are_calibrated_apart():
    whole = split(generate("homophilous, bag of words", n_nodes=200), n_per_class=3)
    matrix = whole.features.toarray()
    matrix[100:] = 0
    graph = replace(whole, features=matrix, unknown_features=np.zeros(matrix.shape[1]))
    learner = Learner(graph)
    labels = label_some(learner, graph, 20)
    unlabelled = np.flatnonzero(labels < 0)
    bare, described = unlabelled[unlabelled >= 100], unlabelled[unlabelled < 100]
    learner.examine(np.concatenate([described[:20], bare[:9]]), graph.labels)
    assert learner.undescribed_calibration is None
    learner.examine(np.concatenate([described[:20], bare[:10]]), graph.labels)
    shares = learner.picture.probabilities
    assert learner.undescribed_calibration == fit_calibration(
        shares[bare[:10]], graph.labels[bare[:10]]
    )
    both = np.array([described[0], bare[0]])
    found = learner.calibrated(shares[both], both)
    for row, own in enumerate((learner.calibration, learner.undescribed_calibration)):
        np.testing.assert_allclose(found[row], own.apply(shares[both[[row]]])[0], atol=1e-6)


def test_more_questions_than_the_sample_has_are_drawn_from_the_rest(graph, monkeypatch):
    monkeypatch.setattr(suggest, "MOST_NODES", 20)
    monkeypatch.setattr(suggest.Coverage.__init__, "__defaults__", (20,))
    learner = Learner(graph)
    labels = np.full(graph.n_nodes, -1)
    labels[:100] = 0
    asked = learner.questions(labels, 50, {150})
    assert len(set(asked)) == len(asked) == 50
    assert min(asked) >= 100
    assert 150 not in asked
    assert asked == learner.questions(labels, 50, {150})
    labels[0] = -1
    other = learner.questions(labels, 50, {0, 150})
    assert set(other) != set(asked)  # one answer fewer is another draw


def test_a_model_asks_where_it_is_unsure(graph, monkeypatch):
    learner = Learner(graph)
    labels = label_some(learner, graph, 12)
    asked = learner.questions(labels, 5)
    weights = []
    shares = learner.picture.probabilities
    entropy = -(shares * np.log(shares)).sum(axis=1) / np.log(graph.n_classes)
    known, free = np.flatnonzero(labels >= 0), labels < 0
    chosen = learner._cover.choose(known, entropy[learner._cover.crowd], 5, free)
    assert asked == [node for node, _ in chosen]
    even = learner._cover.choose(known, np.ones(len(learner._cover.crowd)), 5, free)
    assert asked != [node for node, _ in even]
    monkeypatch.setattr(
        learner._cover, "choose", lambda _, weight, *__: weights.append(weight) or []
    )
    learner.questions(labels, 5)
    np.testing.assert_allclose(weights[0], entropy, atol=1e-5)


def test_how_far_questions_look(graph, monkeypatch):
    hops = []

    class Watched(suggest.Coverage):
        def __init__(self, *given, n_hops, **more):
            hops.append(n_hops)
            super().__init__(*given, n_hops=n_hops, **more)

    monkeypatch.setattr(labelling, "Coverage", Watched)
    for overrides in ({}, {"hidden": (8, 8)}, {"propagation": "none"}):
        Learner(graph, overrides=overrides)
    assert hops == [2, 3, 0]


def test_random_questions_depend_on_seed_and_number_alone(graph):
    labels = np.full(graph.n_nodes, -1)
    drawn = [
        [Learner(graph, seed=seed).random_question(labels, number) for number in range(40)]
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) > 30
    expected = [np.random.default_rng([0, 2, number]).choice(200) for number in range(40)]
    assert drawn[0] == expected  # so that a session goes on with the same questions
    assert Learner(graph).random_question(labels, 0) == expected[0]  # seed 0 unless told
    assert RANDOM_EVERY == 5  # and so is every fifth of them


def test_nodes_of_relations_are_never_asked_about(graph):
    bare = replace(graph, labels=np.full(200, -1), train_index=NOBODY, validation_index=NOBODY,
                   test_index=NOBODY, n_entities=150)  # fmt: skip
    learner = Learner(bare)
    labels = np.full(200, -1)
    labels[:100] = 0
    assert sorted(learner.questions(labels, 200)) == list(range(100, 150))
    drawn = {learner.random_question(labels, number) for number in range(500)}
    assert drawn == set(range(100, 150))


def test_without_a_model_no_answer_of_the_exam_is_judged(graph):
    labels = np.zeros(200, dtype=np.int64)
    assert Learner(graph).doubts(labels, np.array([3]), graph.n_classes) == []
    assert Learner(graph).examine(np.array([3]), labels) == (0, 0)


def test_a_picture_tells_how_long_it_took(graph, monkeypatch):
    moments = iter([100.0, 103.5])
    monkeypatch.setattr(labelling, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    learner = Learner(graph, overrides={"hidden": (4,)})
    picture = learner.fit(graph.labels.copy(), names(graph), 7)
    assert (picture.seconds, picture.finished, picture.version) == (3.5, 103.5, 7)
