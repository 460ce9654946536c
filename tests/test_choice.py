"""Tests of graphconv.estimators.choice: how a method is chosen, and how well on every kind."""

import re
import zlib
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.generated_graphs import generate, split

from graphconv import AutoClassifier, GCNClassifier, load_model
from graphconv.estimators import candidates as candidate_list
from graphconv.estimators import choice as choosing
from graphconv.estimators.baselines import make_estimator
from graphconv.estimators.baselines.committee import shares_that_suit
from graphconv.estimators.candidates import (
    Candidate,
    candidates_for,
    committee_of,
    seconds_of,
    seconds_to_train,
    suited_to,
)
from graphconv.estimators.choice import Search
from graphconv.estimators.fitted_method import FittedMethod
from graphconv.graph import Graph
from graphconv.training.scores import accuracy


def make_graph(kind="homophilous, bag of words", n_validation=60, n_nodes=200):
    return split(generate(kind, n_nodes=n_nodes), n_per_class=15, n_validation=n_validation)


def says(fold, share):
    """Probabilities of a fold's test nodes that are right in such a share of them."""
    labels = fold.labels[fold.test_index]
    # Spread over the nodes, so that leaving some out changes little.
    is_right = (np.arange(len(labels)) * 7919 % 101) / 101 < share
    guess = np.where(is_right, labels, (labels + 1) % fold.n_classes)
    given = np.full((len(labels), fold.n_classes), 0.1 / (fold.n_classes - 1))
    given[np.arange(len(labels)), guess] = 0.9
    return given.astype(np.float32)


@pytest.fixture
def judged(monkeypatch):
    """Makes trials say what an accuracy of the candidate makes them say; lists what was tried."""
    asked = []

    def by(accuracy_of):
        def try_on(self, fold, seeds, is_narrow=False):
            asked.append((self, fold))
            return says(fold, accuracy_of(self))

        monkeypatch.setattr(Candidate, "try_on", try_on)
        return asked

    return by


def choose(graph, preset="quick", **options):
    search = Search(graph, preset, **options)
    search.run()
    return search.conclude()


@pytest.mark.parametrize("kind", [kind for kind in candidate_list.KINDS if kind.cost <= 2])
def test_the_kind_that_does_best_on_unseen_labels_is_chosen(judged, kind):
    graph = make_graph("no features" if kind.position_features else "weighted")
    if kind not in candidates_for(graph):
        assert kind.name == "no graph (multi-layer perceptron)" or graph.features is not None
        graph = make_graph()
    judged(lambda one: 0.9 if one.name == kind.name else 0.5)
    found = choose(graph)
    assert found.candidate.name == kind.name
    assert found.reason.startswith(kind.name)
    assert "\n" not in found.reason


def test_of_equals_the_simplest_is_taken(judged):
    judged(lambda _: 0.7)
    assert choose(make_graph()).candidate.model == "label-propagation"


def made_up_accuracy(seed, one):
    return np.random.default_rng([seed, zlib.crc32(repr(one).encode())]).uniform(0.6, 0.8)


@pytest.mark.parametrize("preset", ["quick", "auto"])
def test_what_is_said_agrees_with_the_choice(judged, preset):
    """The answer is never below the default, and both figures are of one measure."""
    for seed in range(8):
        judged(partial(made_up_accuracy, seed))
        found = choose(make_graph(), preset, seed=seed)
        scores = [float(number) for number in re.findall(r"(\d+\.\d) %", found.reason)]
        assert len(scores) == (1 if found.candidate == candidate_list.DEFAULT else 2)
        assert scores[0] == max(scores)
        assert "probability of the right class" in found.reason


def test_settings_of_the_best_kinds_are_tried_with_more_time(judged):
    asked = judged(lambda one: 0.6 + 0.3 * (one.settings == (("C", 100.0),)) - (one.model != "sgc"))
    assert dict(choose(make_graph(), "quick").candidate.settings) == {}
    found = choose(make_graph(), "auto")
    assert dict(found.candidate.settings) == {"C": 100.0}
    assert "C 100.0" in found.reason
    assert len({one for one, _ in asked}) < 30  # a handful, not all combinations


def test_who_lags_on_half_of_the_folds_is_not_tried_on_all(judged):
    asked = judged(lambda one: 0.7 if one.model == "boosted-trees" else 0.8)
    choose(make_graph())
    counts = Counter(one.model for one, _ in asked)
    assert (counts["sgc"], counts["boosted-trees"]) == (5, 3)


def test_who_is_clearly_beaten_is_not_tried_again(judged):
    asked = judged(lambda one: 0.2 if one.model == "boosted-trees" else 0.8)
    choose(make_graph())
    counts = Counter(one.model for one, _ in asked)
    assert (counts["sgc"], counts["boosted-trees"]) == (5, 1)


def test_every_label_is_judged_once_and_no_test_label_is_looked_at(judged):
    graph = make_graph()
    asked = judged(lambda _: 0.5)
    found = choose(graph)
    own = [fold for one, fold in asked if one == candidate_list.DEFAULT]
    seen = np.concatenate([fold.test_index for fold in own])
    labelled = np.concatenate([graph.train_index, graph.validation_index])
    assert np.sort(seen).tolist() == np.sort(labelled).tolist() == np.sort(found.nodes).tolist()
    assert (own[0].labels[graph.test_index] == -1).all()


def test_nested_choice_is_not_flattered_by_choosing(judged, monkeypatch):
    """Of methods that guess, the best looks good; nested choice sees through it."""
    graph = make_graph("dense embeddings", n_nodes=300, n_validation=100)
    rng = np.random.default_rng(0)

    def try_on(self, fold, seeds, is_narrow=False):
        return rng.dirichlet(np.ones(fold.n_classes), len(fold.test_index)).astype(np.float32)

    kinds = [Candidate(f"guess {number}", "sgc") for number in range(40)]
    monkeypatch.setattr(choosing, "candidates_for", lambda *_, **__: kinds)
    monkeypatch.setattr(choosing, "seconds_of", lambda *_: 0.001)
    monkeypatch.setattr(Candidate, "try_on", try_on)
    search = Search(graph)
    search.default = kinds[0]
    search._try_all(kinds, 5, "trying")
    found = search.conclude()
    labels = graph.labels[found.nodes]
    chosen = search._shown(found.candidate, range(5), range(5))
    assert accuracy(labels, chosen) > accuracy(labels, found.nested)
    assert abs(accuracy(labels, found.nested) - 0.25) < 0.1


def test_what_the_user_chose_is_left_alone(judged):
    asked = judged(lambda one: 0.9)
    choose(make_graph(), "auto", fixed={"dropout": 0.3})
    assert all(dict(one.settings)["dropout"] == 0.3 for one, _ in asked)
    assert all(one.is_network for one, _ in asked)
    asked.clear()
    found = choose(make_graph(), "auto", fixed={"propagation": "chebyshev"})
    assert dict(found.candidate.settings) == {"propagation": "chebyshev"}
    assert asked == []
    assert "leave no other method" in found.reason


def test_sparse_and_dense_features_get_the_same_candidates():
    graph = make_graph()
    dense = replace(graph, features=graph.features.toarray())
    assert candidates_for(graph) == candidates_for(dense)
    for one in candidates_for(graph):
        assert seconds_of(one, graph) == pytest.approx(seconds_of(one, dense))


def test_graphs_without_features_are_described_by_position():
    found = candidates_for(make_graph("no features"))
    assert any(one.position_features for one in found)
    assert not any(dict(one.settings).get("propagation") == "none" for one in found)
    assert any(one.model == "grand" for one in found)
    # Beside features, which may be poor, one kind knows of place as well.
    assert sum(one.position_features for one in candidates_for(make_graph())) == 1


def test_too_few_labels_to_compare_by():
    found = choose(Graph(np.zeros((9, 9)), labels=[0, 1, 0, 1, -1, -1, -1, -1, -1]))
    assert found.candidate == candidate_list.DEFAULT
    assert found.reason == "graph convolution: 4 labels are too few to compare methods by"


def test_an_interrupted_search_has_a_best_so_far(judged):
    graph = make_graph()
    search = Search(graph)
    assert search.conclude().reason == "graph convolution: nothing else was tried"

    def accuracy_of(one):
        if one.model == "appnp":
            raise KeyboardInterrupt
        return 0.9 if one.model == "sgc" else 0.4

    judged(accuracy_of)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    found = search.conclude()
    assert found.candidate.model == "sgc"
    assert found.fit([0]).choice == found.reason


def test_a_method_that_can_not_serve_the_graph_is_passed_over(judged):
    def accuracy_of(one):
        if one.model == "sgc":
            raise ValueError("sgc must not be asked")
        return 0.6

    judged(accuracy_of)
    assert choose(make_graph()).candidate.model == "label-propagation"


def test_large_graphs_are_tried_for_as_long_as_small_ones(monkeypatch, judged):
    """What takes too long is tried on fewer folds, narrower, or not at all."""
    graph = make_graph()
    asked = judged(lambda _: 0.5)
    choose(graph)
    n_small = len(asked)
    asked.clear()

    def slow(one, fold, is_narrow=False):
        return one.cost * (0.7 if is_narrow else 2.0)

    monkeypatch.setattr(choosing, "seconds_of", slow)
    choose(graph)
    assert 0 < sum(slow(one, fold, True) for one, fold in asked) <= choosing.BUDGETS["quick"].trials
    assert len(asked) < n_small


def test_the_best_narrow_ones_are_tried_again_in_full(monkeypatch, judged):
    """A narrow network may lag behind a baseline that it beats in full."""
    monkeypatch.setattr(choosing, "_ENOUGH_IN_FULL", 1)
    monkeypatch.setattr(
        choosing, "seconds_of", lambda one, fold, is_narrow=False: 0.1 if is_narrow else 0.4
    )
    asked = []

    def try_on(self, fold, seeds, is_narrow=False):
        asked.append((self.model, is_narrow))
        in_full = {"boosted-trees": 0.7, "appnp": 0.8}
        narrow = {"boosted-trees": 0.7, "appnp": 0.65}
        return says(fold, (narrow if is_narrow else in_full).get(self.model, 0.4))

    monkeypatch.setattr(Candidate, "try_on", try_on)
    found = choose(make_graph())
    assert found.candidate.model == "appnp"
    assert asked[0][1] is True
    assert {model for model, is_narrow in asked if not is_narrow} >= {"appnp", "gcn"}
    assert f"{len(candidates_for(make_graph()))} tried" in found.reason


def test_what_could_not_be_trained_in_time_is_not_tried(monkeypatch, judged):
    asked = judged(lambda _: 0.6)
    monkeypatch.setattr(
        choosing, "seconds_to_train", lambda one, _: 100.0 if one.model == "grand" else 0.1
    )
    choose(make_graph())
    assert asked
    assert not any(one.model == "grand" for one, _ in asked)


def test_time_goes_into_runs_and_then_into_epochs():
    graph = make_graph()
    deep = next(one for one in candidate_list.KINDS if one.cost_per_node)
    simple = candidate_list.KINDS[0]
    assert suited_to(deep, graph, 1e6, most_runs=4) == replace(deep, runs=4)
    hurried = suited_to(deep, graph, 1e-6, most_runs=4)
    assert hurried == replace(deep.changed(max_epochs=100), runs=1)
    of_run = 4 * seconds_to_train(deep, graph)  # that is 100 epochs, and a run is worth 400
    thrice = suited_to(deep, graph, 3.5 * of_run, most_runs=4)
    assert (thrice.runs, thrice.params["max_epochs"]) == (3, 466)
    assert suited_to(simple, graph, 1e6, most_runs=4) == simple
    both = suited_to(committee_of([deep, simple]), graph, 1e-6, most_runs=4)
    assert both.members == (hurried, simple)


@pytest.mark.parametrize(("preset", "trained", "tried"), [("quick", 4, 1), ("auto", 8, 4)])
def test_what_is_chosen_is_the_mean_of_several_trainings(
    judged, monkeypatch, preset, trained, tried
):
    judged(lambda one: 0.9 if one.model == "appnp" else 0.5)
    asked = set()
    usual = Candidate.try_on

    def count(self, fold, seeds, is_narrow=False):
        asked.add(len(seeds))
        return usual(self, fold, seeds, is_narrow)

    monkeypatch.setattr(Candidate, "try_on", count)
    found = choose(make_graph(), preset)
    assert asked == {tried}
    assert found.candidate.runs == trained
    short = replace(found, candidate=found.candidate.changed(max_epochs=5))
    fitted = short.fit([7])
    assert list(fitted.network.seeds) == list(range(7, 7 + trained))
    np.testing.assert_array_equal(
        fitted.probabilities()[:, 0], short.fit([7, 8]).probabilities()[:, 0]
    )


def test_a_number_of_models_that_was_asked_for_is_kept(judged):
    judged(lambda one: 0.9 if one.model == "appnp" else 0.5)
    graph = make_graph()
    brief = {"preset": "quick", "random_state": 3}
    assert len(GCNClassifier(**brief).fit(graph).fitted_.network.seeds) == 4
    assert list(GCNClassifier(**brief, ensemble=2).fit(graph).fitted_.network.seeds) == [3, 4]


def test_several_labels_per_node():
    graph = make_graph()
    labels = np.stack([graph.labels % 2, graph.labels // 2], axis=1)
    several = Graph(graph.adjacency, graph.features, labels)
    found = choose(several, fixed={"max_epochs": 5})
    assert found.candidate.is_network
    assert "micro F1" in found.reason


def test_same_seed_same_choice():
    graph = make_graph(n_nodes=120)
    first, second = (GCNClassifier("quick", max_epochs=3, random_state=3).fit(graph) for _ in "ab")
    assert first.settings_ == second.settings_
    assert first.choice_ == second.choice_ != ""
    np.testing.assert_array_equal(first.predict_proba(), second.predict_proba())


def test_metric_decides_what_is_chosen(monkeypatch):
    """Right on the rare class, or right on the common one: it depends on what counts."""
    graph = make_graph(n_nodes=400, n_validation=200)
    rare = np.where((graph.labels == 0) & (np.arange(400) % 2 == 0), 1, 0)
    uneven = Graph(
        graph.adjacency,
        graph.features,
        rare,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
    )

    def try_on(self, fold, seeds, is_narrow=False):
        labels = fold.labels[fold.test_index]
        of_second = np.full(len(labels), 0.05) if self.model == "sgc" else 0.6 * labels + 0.3
        of_second = of_second + 0.02 * (np.arange(len(labels)) % 5)
        return np.stack([1 - of_second, of_second], axis=1).astype(np.float32)

    monkeypatch.setattr(Candidate, "try_on", try_on)
    kinds = [one for one in candidate_list.KINDS if one.model in ("sgc", "appnp")][:2]
    monkeypatch.setattr(choosing, "candidates_for", lambda *_, **__: kinds)
    for metric in ("roc-auc", "balanced-accuracy", "average-precision", "macro-f1"):
        assert choose(uneven, metric=metric).candidate.model == "appnp"
    assert "by ROC AUC, as one of two classes has" in choose(uneven).reason


def mean_accuracy(fitted, graph):
    return 100 * accuracy(
        graph.labels[graph.test_index], fitted.ensemble_probabilities()[graph.test_index]
    )


def test_the_choice_comes_close_to_the_best_kind():
    behind = {}
    for kind in ("heterophilous", "no features", "unscaled measured columns"):
        graph = split(generate(kind, n_nodes=600), n_per_class=20, n_validation=100)
        found = choose(graph)
        trained = [one.fit(graph, [0]) for one in candidates_for(graph) if one.cost_per_node == 0]
        best = max(mean_accuracy(one, graph) for one in trained)
        behind[kind] = best - mean_accuracy(found.fit([0]), graph)
    # The best of many owes something to luck: 420 test nodes tell a difference to 2 points.
    assert {kind: points for kind, points in behind.items() if points > 4} == {}
    assert np.mean(list(behind.values())) < 1.5


def complementary(self, fold, seeds, is_narrow=False):
    """Each of two kinds knows three quarters of the nodes, and says so; together they know all."""
    labels = fold.labels[fold.test_index]
    known = {"sgc": (0, 1, 2), "appnp": () if self.position_features else (1, 2, 3)}
    knows = np.isin(fold.test_index % 4, known.get(self.model, ()))
    given = np.full((len(labels), fold.n_classes), 1 / fold.n_classes)
    given[knows] = 0.1 / (fold.n_classes - 1)
    given[knows, labels[knows]] = 0.9
    return given.astype(np.float32)


def test_two_that_know_different_nodes_answer_together(monkeypatch):
    monkeypatch.setattr(Candidate, "try_on", complementary)
    graph = make_graph(n_nodes=300)
    found = choose(graph)
    assert {one.model for one in found.candidate.members} == {"sgc", "appnp"}
    assert found.candidate.name.startswith("mean of ")
    assert found.reason.startswith(found.candidate.name)
    assert accuracy(graph.labels[found.nodes], found.nested) == 1
    # Neither where the user named a network nor where a network must come out.
    for options in ({"model": "gcn"}, {"fixed": {"dropout": 0.3}}, {"networks_only": True}):
        assert not choose(graph, **options).candidate.members


def test_a_committee_of_equals_is_none(judged):
    judged(lambda one: 0.8)
    assert not choose(make_graph(n_nodes=300)).candidate.members


def test_a_committee_lives_as_every_method_does(monkeypatch, tmp_path):
    monkeypatch.setattr(Candidate, "try_on", complementary)
    graph = make_graph(n_nodes=150)
    graph = replace(graph, test_index=graph.test_index[:5])  # the others are there to be suggested
    chosen = AutoClassifier(random_state=0).fit(graph)
    fitted = chosen.fitted_
    assert isinstance(fitted, FittedMethod)
    members = [one.fit(graph, [0]).ensemble_probabilities() for one in chosen.candidate_.members]
    judges = graph.validation_index
    of_right = [member[judges, graph.labels[judges]] for member in members]
    shares = shares_that_suit(np.stack(of_right, axis=1))
    wanted = shares[0] * members[0] + shares[1] * members[1]
    np.testing.assert_allclose(fitted.each[:, 0], wanted, atol=1e-6)
    chosen.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(), chosen.predict_proba())
    fewer = replace(graph, adjacency=graph.adjacency.tocsr().multiply(0.5).tocsr())
    np.testing.assert_allclose(again.predict_proba(fewer), chosen.predict_proba(fewer), atol=1e-6)
    assert fitted.labels_other_graphs
    assert again.explain(3).reasons() == chosen.explain(3).reasons()
    assert len(again.suggest(2)) == 2


@pytest.mark.parametrize("n_nodes", [0, 1, 30, 3000])
def test_shares_are_those_that_make_the_right_classes_likeliest(n_nodes):
    first = np.linspace(0.9, 0, n_nodes)
    second = first[::-1] ** 3
    share = np.linspace(0, 1, 10001)[1:-1, None]
    likelihood = np.log(share * first + (1 - share) * second).sum(axis=1)
    seen = 20 * np.log(share * (1 - share))[:, 0]  # twenty nodes of each have been seen already
    best = share[(likelihood + seen).argmax(), 0]
    found = shares_that_suit(np.stack([first, second], axis=1))
    np.testing.assert_allclose(found, [best, 1 - best], atol=1e-4)
    assert (best > 0.55) == (n_nodes >= 30)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "at least one member, got none"),
        (["magic"], "a member must be one of gcn.*, got 'magic'"),
        (["committee"], "a member must be one of gcn.*, got 'committee'"),
        ([{"name": "gcn"}], "a name or a dict with model, position_features, runs, settings, got"),
        ([{"model": "gcn", "runs": 0}], "runs must be a whole number, at least 1, got 0"),
        ([{"model": "sgc", "settings": 3}], "settings must be a dict, got 3"),
        ([{"model": "sgc", "settings": {"hops": 3}}], "got hops"),
    ],
)
def test_what_is_no_committee_is_refused(members, message):
    with pytest.raises(ValueError, match=message):
        make_estimator("committee", members=members).fit(make_graph(n_nodes=80))


def test_a_committee_labels_new_nodes_if_all_its_members_do():
    for members, labels_others in ((["sgc", "gcn"], True), (["sgc", "label-propagation"], False)):
        committee = make_estimator("committee", members=members)
        assert committee.labels_other_graphs is labels_others


def test_a_chosen_baseline_is_a_fitted_method(judged):
    judged(lambda one: 0.9 if one.model == "boosted-trees" else 0.5)
    fitted = choose(make_graph()).fit([0, 1])
    assert isinstance(fitted, FittedMethod)
    assert fitted.probabilities().shape == (200, 2, 4)


@pytest.mark.parametrize("kind", ["label propagation", "graph convolution on position features"])
def test_what_was_chosen_comes_back_from_its_folder(judged, tmp_path, kind):
    judged(lambda one: 0.9 if one.name == kind else 0.5)
    graph = make_graph("no features")
    chosen = AutoClassifier(random_state=0).fit(graph)
    chosen.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, GCNClassifier) == ("position" in kind)
    assert kind in chosen.choice_
    np.testing.assert_array_equal(again.predict_proba(), chosen.predict_proba())
    if "position" in kind:  # the graph as it came has no such columns
        np.testing.assert_array_equal(again.predict_proba(graph), chosen.predict_proba(graph))


@pytest.mark.parametrize(("preset", "asked_of_pairs"), [("quick", 0.0), ("auto", 0.0)])
def test_pairs_of_single_trainings_may_have_to_lead_by_more(monkeypatch, preset, asked_of_pairs):
    """A mean of two is ahead of a single training; of the mean of several it need not be."""
    monkeypatch.setattr(Candidate, "try_on", complementary)
    asked = []
    usual = choosing._Judged.leads

    def leads(self, other, n_errors):
        asked.append(n_errors)
        return usual(self, other, n_errors)

    search = Search(make_graph(n_nodes=300), preset)
    search.run()
    monkeypatch.setattr(choosing._Judged, "leads", leads)
    folds = range(len(search.folds))
    judged = {one: search._judged(one, folds) for one in search.said if len(search.said[one]) == 5}
    best = search._with_another(max(judged, key=lambda one: judged[one].score), judged, folds)
    assert {one.model for one in best.members} == {"sgc", "appnp"}
    assert asked == [asked_of_pairs]
    asked.clear()
    search.n_trial_runs, search.budget = 1, replace(search.budget, luck=0.3)
    search._with_another(max(judged, key=lambda one: judged[one].score), judged, folds)
    assert asked == [0.3]
    lucks = {name: budget.luck for name, budget in choosing.BUDGETS.items()}
    assert lucks == {"quick": 0.0, "auto": 0.5, "strong": 1.0}


def test_any_two_of_the_best_four_may_answer(monkeypatch):
    """The first knows what the second knows, the third knows the rest."""
    known = dict.fromkeys(("gcn", "mlp", "ica", "deepwalk", "grand"), (1, 2))
    known = {"sgc": (0, 1, 2), "label-propagation": (0, 1, 2), "appnp": (1, 2, 3), **known}

    def try_on(self, fold, seeds, is_narrow=False):
        labels = fold.labels[fold.test_index]
        knows = np.isin(fold.test_index % 4, known[self.model])
        given = np.full((len(labels), fold.n_classes), 1 / fold.n_classes)
        given[knows] = 0.1 / (fold.n_classes - 1)
        given[knows, labels[knows]] = 0.9
        return given.astype(np.float32)

    kinds = [Candidate(f"{model} by hand", model) for model in known]
    monkeypatch.setattr(choosing, "candidates_for", lambda *_, **__: kinds)
    monkeypatch.setattr(Candidate, "try_on", try_on)
    found = choose(make_graph(n_nodes=300))
    assert "appnp" in {one.model for one in found.candidate.members}, found.reason
