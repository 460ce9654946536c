"""Tests of graphconv.training.search: how it searches, and how well on graphs of every kind."""

import re
import zlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.generated_graphs import KINDS, generate, split

from graphconv.graph import Graph
from graphconv.models.settings import ROBUST
from graphconv.training import search as preset_search
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy
from graphconv.training.search import choose_settings


class Judge:
    """Predictions whose accuracy is made up from the settings; remembers what it was asked."""

    def __init__(self, accuracy_of):
        self.accuracy_of = accuracy_of
        self.asked = []

    def __call__(self, graph, settings, seeds):
        self.asked.append((graph, settings, list(seeds)))
        labels = graph.labels[graph.validation_index]
        n_right = round(float(self.accuracy_of(settings)) * len(labels))
        is_right = np.arange(len(labels)) < n_right
        if labels.ndim == 2:
            return np.where((labels > 0) == is_right[:, None], 0.8, 0.2).astype(np.float32)
        shares = np.full((len(labels), graph.n_classes), 0.1 / (graph.n_classes - 1))
        guess = np.where(is_right, labels, (labels + 1) % graph.n_classes)
        shares[np.arange(len(labels)), guess] = 0.9
        return shares.astype(np.float32)


def make_graph(kind="homophilous, bag of words", n_validation=20, n_nodes=100):
    return split(generate(kind, n_nodes=n_nodes), n_per_class=6, n_validation=n_validation)


def tried(judge, name):
    return {getattr(settings, name) for _, settings, _ in judge.asked}


@pytest.mark.parametrize("rule", ["renormalised", "none", "first-order"])
def test_the_rule_with_the_best_validation_is_chosen(rule):
    judge = Judge(lambda settings: 0.9 if settings.propagation == rule else 0.5)
    chosen, why = choose_settings(make_graph(), ROBUST, set(), 0, judge)
    assert chosen.propagation == rule
    assert "the right class gets 80.8 %" in why
    assert "\n" not in why


def test_every_question_is_asked_after_the_best_answer_so_far():
    judge = Judge(
        lambda settings: (
            0.5
            + 0.1 * (settings.propagation == "first-order")
            + 0.1 * (settings.scaling == "standard")
            + 0.1 * (settings.dropout == 0.8)
        )
    )
    chosen, why = choose_settings(make_graph(), ROBUST, set(), 0, judge)
    assert (chosen.propagation, chosen.scaling, chosen.dropout) == ("first-order", "standard", 0.8)
    assert "the right class gets" in why
    # A handful of settings, not all combinations.
    assert len({settings for _, settings, _ in judge.asked}) <= 16


def test_without_a_gain_the_robust_settings_stay():
    chosen, why = choose_settings(make_graph(), ROBUST, set(), 0, Judge(lambda _: 0.7))
    # The features are words, for which scaling "auto" is "l2".
    assert chosen == replace(ROBUST, scaling="l2")
    assert "no other of 9 tried is notably better" in why


@pytest.mark.parametrize(
    ("name", "value"),
    [("propagation", "single-parameter"), ("scaling", "row"), ("dropout", 0.3), ("hidden", (7,))],
)
def test_what_the_user_chose_is_left_alone(name, value):
    base = replace(ROBUST, **{name: value})
    judge = Judge(lambda settings: 0.9 if getattr(settings, name) != value else 0.1)
    chosen, _ = choose_settings(make_graph(), base, {name}, 0, judge)
    assert getattr(chosen, name) == value
    assert tried(judge, name) == {value}


def test_featureless_graphs_are_not_asked_about_features():
    judge = Judge(lambda _: 0.5)
    chosen, _ = choose_settings(make_graph("no features"), ROBUST, set(), 0, judge)
    assert "none" not in tried(judge, "propagation")
    assert len(tried(judge, "scaling")) == 1
    assert chosen.propagation == "renormalised"


def test_large_graphs_are_asked_about_the_rule_only(monkeypatch):
    monkeypatch.setattr(preset_search, "LARGE", 10)
    judge = Judge(lambda _: 0.5)
    choose_settings(make_graph(), ROBUST, set(), 0, judge)
    assert len(tried(judge, "propagation")) > 1
    assert len(tried(judge, "hidden")) == 1
    assert len(tried(judge, "scaling")) == len(tried(judge, "dropout")) == 1


def made_up_accuracy(seed, settings):
    return np.random.default_rng([seed, zlib.crc32(repr(settings).encode())]).uniform(0.4, 0.9)


def test_what_is_said_of_the_choice_agrees_with_it():
    """The figure of what was chosen is never below that of the robust settings."""
    for seed in range(5):
        judge = Judge(partial(made_up_accuracy, seed))
        chosen, why = choose_settings(make_graph(), ROBUST, set(), seed, judge)
        found = [float(number) for number in re.findall(r"(\d+\.\d) %", why)]
        assert len(found) == (1 if chosen == replace(ROBUST, scaling="l2") else 2)
        assert found[0] == max(found)


def test_kinds_that_lag_on_two_splits_are_not_tried_on_all():
    judge = Judge(lambda settings: 0.3 if settings.propagation == "first-order" else 0.8)
    choose_settings(make_graph(), ROBUST, set(), 0, judge)
    lagging = [s for _, s, _ in judge.asked if s.propagation == "first-order" and not s.residual]
    assert len(lagging) == 2
    assert sum(s.model == "appnp" for _, s, _ in judge.asked) == preset_search.N_SPLITS


def test_sparse_and_dense_features_get_the_same_candidates():
    graph = make_graph()
    asked = []
    for features in (graph.features, graph.features.toarray()):
        judge = Judge(lambda _: 0.5)
        base = replace(ROBUST, scaling="l2")
        choose_settings(replace(graph, features=features), base, set(), 0, judge)
        asked.append({settings for _, settings, _ in judge.asked})
    assert asked[0] == asked[1]


def test_of_unequal_classes_each_has_the_same_say():
    """Right on the rare class only is worth as much as right on the common one only."""
    graph = make_graph(n_nodes=300, n_validation=100, kind="heterophilous")
    labels = np.where((graph.labels == 0) & (np.arange(300) % 2 == 0), 0, 1)
    labels[graph.train_index[:3]] = 0
    uneven = Graph(
        graph.adjacency,
        graph.features,
        labels,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
        test_index=graph.test_index,
    )

    def predict(fold, settings, seeds):
        wanted = fold.labels[fold.validation_index]
        is_sure = (wanted == 0) if settings.propagation == "none" else (wanted == 1)
        right = np.where(is_sure, 0.9, 0.45)
        shares = np.empty((len(wanted), 2), dtype=np.float32)
        shares[np.arange(len(wanted)), wanted] = right
        shares[np.arange(len(wanted)), 1 - wanted] = 1 - right
        return shares

    _, why = choose_settings(uneven, ROBUST, set(), 0, predict)
    assert "all classes having the same say" in why
    _, why = choose_settings(graph, ROBUST, set(), 0, Judge(lambda _: 0.5))
    assert "same say" not in why


def test_too_few_labels_to_compare_by():
    graph = Graph(np.zeros((9, 9)), labels=[0, 1, 0, 1, -1, -1, -1, -1, -1])
    judge = Judge(lambda _: 0.5)
    chosen, why = choose_settings(graph, ROBUST, set(), 0, judge)
    assert chosen == ROBUST
    assert "too few labels" in why
    assert judge.asked == []


def test_enough_validation_nodes_decide_by_themselves():
    graph = make_graph(n_validation=400, n_nodes=500)
    judge = Judge(lambda _: 0.5)
    choose_settings(graph, ROBUST, set(), 0, judge)
    for fold, _, _ in judge.asked:
        assert fold.train_index.tolist() == graph.train_index.tolist()
        assert fold.validation_index.tolist() == graph.validation_index.tolist()


@pytest.mark.parametrize("n_validation", [0, 20])
def test_few_validation_nodes_are_pooled_over_splits(n_validation):
    graph = make_graph(n_validation=n_validation)
    judge = Judge(lambda _: 0.5)
    choose_settings(graph, ROBUST, set(), 0, judge)
    first = judge.asked[0][1]
    splits = [one for one, settings, _ in judge.asked if settings == first]
    assert len(splits) == preset_search.N_SPLITS
    labelled = np.sort(np.concatenate([graph.train_index, graph.validation_index])).tolist()
    for one in splits:
        both = np.concatenate([one.train_index, one.validation_index])
        assert np.sort(both).tolist() == labelled
    if n_validation == 0:  # folds: every labelled node is judged once
        judged = np.concatenate([one.validation_index for one in splits])
        assert np.sort(judged).tolist() == labelled
    else:  # as many training nodes as the graph has, nearly
        sizes = [len(one.train_index) for one in splits]
        assert max(sizes) - min(sizes) <= graph.n_classes


@pytest.mark.parametrize("n_validation", [0, 20, 400])
def test_test_labels_are_never_looked_at(n_validation):
    graph = make_graph(n_validation=n_validation, n_nodes=500)
    judge = Judge(lambda _: 0.5)
    choose_settings(graph, ROBUST, set(), 0, judge)
    for fold, _, _ in judge.asked:
        used = np.concatenate([fold.train_index, fold.validation_index])
        assert not np.isin(used, graph.test_index).any()


def test_several_labels_a_node():
    graph = make_graph()
    labels = np.stack([graph.labels % 2, graph.labels // 2], axis=1)
    several = Graph(graph.adjacency, graph.features, labels)
    judge = Judge(lambda settings: settings.propagation == "none")
    assert choose_settings(several, ROBUST, set(), 0, judge)[0].propagation == "none"


def test_same_seed_same_choice():
    graph = make_graph(n_nodes=60)
    overrides = {"max_epochs": 3}
    first, second = (fit_gcn(graph, preset="auto", overrides=overrides, seeds=[3]) for _ in "ab")
    assert first.settings == second.settings
    assert first.choice == second.choice != ""
    np.testing.assert_array_equal(first.probabilities(), second.probabilities())


def test_learned_self_loop_weight_goes_with_auto():
    """Rules without a lambda are out of the question then."""
    fitted = fit_gcn(
        make_graph(n_nodes=60),
        preset="auto",
        overrides={"max_epochs": 3, "self_loop_weight": "learn"},
    )
    assert fitted.settings.propagation == "renormalised"
    assert fitted.settings.self_loop_weight == "learn"


# What did best on one kind or another in a search over four rules, three scalings and three
# strengths of regularisation, on two graphs of each kind.
STRONG, WEAK = {"dropout": 0.8, "weight_decay": 5e-3}, {"dropout": 0.2, "weight_decay": 5e-5}
CONTENDERS = [
    {},
    STRONG,
    {"propagation": "none", **STRONG},
    {"propagation": "first-order", **STRONG},
    {"propagation": "first-order", **WEAK},
]


def mean_accuracy(graph, **options):
    fitted = fit_gcn(graph, **options)
    shares = fitted.probabilities()[graph.test_index]
    wanted = graph.labels[graph.test_index]
    return 100 * np.mean([accuracy(wanted, shares[:, k]) for k in range(shares.shape[1])])


def shortfall(kind):
    """By how many points auto's test accuracy stays behind the best contender's."""
    # 200 validation nodes decide; 80 epochs are enough to tell settings apart.
    graph = split(generate(kind, n_nodes=1500), n_per_class=20, n_validation=200)
    brief = {"max_epochs": 80}
    contenders = CONTENDERS
    if graph.features is None:
        contenders = [c for c in CONTENDERS if c.get("propagation") != "none"]
    best = max(
        mean_accuracy(graph, overrides={**brief, **contender}, seeds=[0])
        for contender in contenders
    )
    return best - mean_accuracy(graph, preset="auto", overrides=brief, seeds=[0])


def test_auto_comes_close_to_the_best_single_setting_on_every_kind_of_graph():
    shortfalls = {kind: shortfall(kind) for kind in KINDS}
    # Within 2 points on average over graphs of a kind. One graph with its 1,220 test nodes tells
    # a difference to 0.9 points, and the best of several contenders owes something to luck.
    assert {kind: points for kind, points in shortfalls.items() if points > 3.5} == {}
    assert np.mean(list(shortfalls.values())) < 1.5
