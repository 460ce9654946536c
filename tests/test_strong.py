"""Tests of preset "strong": who is compared, by whom, and what is trained in the end."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import generate, split

from graphconv import AutoClassifier, GCNClassifier, Graph
from graphconv.estimators import choice as choosing
from graphconv.estimators.candidates import KINDS, Candidate, candidates_for, committee_of
from graphconv.estimators.choice import BUDGETS, Choice, Search
from graphconv.estimators.fitted_method import fit_method
from graphconv.models.settings import ROBUST, Settings, resolve_settings
from graphconv.training.fit import Watch, fit_gcn
from graphconv.training.measures import measure_for
from graphconv.training.out_of_fold import make_folds, make_halves
from graphconv.training.scores import mean_over_runs
from scripts import measure_strong

GRAND = "random propagation (GRAND)"


@pytest.fixture(scope="module")
def graph():
    return split(generate("binary features", n_nodes=400), n_validation=120)


def settings_of(candidate):
    return replace(ROBUST, model=candidate.model, **candidate.params)


def words(n_nodes=60):
    rng = np.random.default_rng(0)
    counts = sp.csr_array((rng.random((n_nodes, 80)) < 0.1).astype(float))
    return Graph(np.zeros((n_nodes, n_nodes)), counts, np.arange(n_nodes) % 2)


def test_demanding_candidates_train_as_grands_authors_publish():
    """Theirs for Citeseer and Pubmed, with steps, rates and patience; ours takes larger steps."""
    found = {one.name: settings_of(one) for one in candidates_for(words(), demanding=True)
             if one.model == "grand"}  # fmt: skip
    ours = Settings(
        model="grand", hidden=(32,), steps=8, weight_decay_layers="all", learning_rate=0.03,
        max_epochs=5000, early_stopping="lowest", patience=60, scaling="row",
    )  # fmt: skip
    seen = {"copies": 2, "sharpening": 0.3, "dropout": (0.0, 0.2)}
    of_citeseer = {"steps": 2, "agreement": 0.7, "learning_rate": 0.01, "patience": 200}
    of_pubmed = {
        "steps": 5, "sharpening": 0.2, "dropout": (0.6, 0.8), "normalisation": "batch",
        "agreement_warmup": 0, "learning_rate": 0.2, "patience": 100,
    }  # fmt: skip
    assert found == {
        GRAND: ours,
        f"{GRAND}, all features seen": replace(ours, **seen, **of_citeseer),
        f"{GRAND}, all features seen, scaled as usual": replace(
            ours, **seen, scaling="auto", weight_decay=1e-3
        ),
        f"{GRAND}, normalised": replace(ours, **of_pubmed),
    }


def test_every_kind_is_among_the_candidates_of_strong():
    graph = words()
    usual, demanding = candidates_for(graph), candidates_for(graph, demanding=True)
    assert [one.name for one in usual] == [one.name for one in demanding if one.name in {
        kind.name for kind in KINDS}]  # fmt: skip
    assert len(demanding) == len(usual) + 3


@pytest.mark.parametrize(
    ("features", "scaling"), [("words", "row"), ("measured", "auto"), (None, "auto")]
)
def test_rows_of_counts_add_up_to_one(features, scaling):
    """Counts of words, which a graph convolution would take with length 1."""
    measured = np.random.default_rng(0).normal(5, 3, (60, 4))
    own = {"words": words().features, "measured": measured, None: None}[features]
    graph = Graph(np.zeros((60, 60)), own, np.arange(60) % 2)
    first = next(one for one in candidates_for(graph, demanding=True) if one.model == "grand")
    assert settings_of(first).scaling == scaling
    assert first.words() == (f"{GRAND}, scaling row" if features == "words" else GRAND)


def test_halves_stop_what_the_others_judge(graph):
    drawn = []
    for seed in (0, 0, 1):
        first, second = make_halves(graph, seed)
        assert np.array_equal(first.validation_index, second.test_index)
        assert np.array_equal(first.test_index, second.validation_index)
        assert len(first.test_index) == len(second.test_index) == 60
        both = np.union1d(first.test_index, second.test_index)
        assert np.array_equal(both, np.sort(graph.validation_index))
        for half in (first, second):
            assert np.array_equal(half.train_index, graph.train_index)
            assert (half.labels[graph.test_index] == -1).all()
        drawn.append(first.test_index.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.fixture
def judged(monkeypatch):
    """Makes whole trainings say what a candidate's accuracy makes them say; lists them."""
    asked = []

    def by(accuracy_of):
        def try_in_full(self, fold, seeds):
            asked.append((self, fold, list(seeds)))
            labels = fold.labels[fold.test_index]
            is_right = (np.arange(len(labels)) * 7919 % 101) / 101 < accuracy_of(self)
            guess = np.where(is_right, labels, (labels + 1) % fold.n_classes)
            return 0.1 / fold.n_classes + 0.9 * np.eye(fold.n_classes)[guess]

        monkeypatch.setattr(Candidate, "try_in_full", try_in_full)
        return asked

    return by


def choose(graph, **options):
    search = Search(graph, "strong", **options)
    search.run()
    return search.conclude()


@pytest.mark.parametrize("wanted", [f"{GRAND}, normalised", "label propagation", KINDS[-1].name])
def test_takes_what_judges_best(graph, judged, wanted):
    asked = judged(lambda one: 0.9 if one.name == wanted else 0.5)
    found = choose(graph, seed=3)
    assert found.candidate.name == wanted
    assert f"on {len(graph.validation_index)} labels that each trial had not seen" in found.reason
    halves = make_halves(graph, 3)
    for _, fold, seeds in asked:
        assert seeds == [3]
        assert any(np.array_equal(fold.test_index, half.test_index) for half in halves)
    # Everybody is asked about one half, and who is among the better about both.
    n_asked = Counter(one for one, *_ in asked)
    assert {n_asked[kind] for kind in candidates_for(graph, demanding=True)} == {1, 2}


def test_what_is_told_was_chosen_by_the_other_half(graph, judged):
    judged(lambda one: 0.8 if one.model == "sgc" else 0.5)
    found = choose(graph)
    assert np.sort(found.nodes).tolist() == np.sort(graph.validation_index).tolist()
    right = found.nested.argmax(axis=1) == graph.labels[found.nodes]
    assert 0.7 < right.mean() < 0.9


@pytest.mark.parametrize(("n_validation", "by_halves"), [(99, False), (100, True)])
def test_with_few_judges_the_labels_take_turns(graph, judged, n_validation, by_halves):
    some = graph.with_split(graph.train_index, graph.validation_index[:n_validation])
    asked = judged(lambda one: 0.5)
    found = choose(some)
    n_tested = {len(fold.test_index) for _, fold, _ in asked}
    if by_halves:
        assert n_tested == {50}
        assert len(found.nodes) == n_validation
    else:
        assert n_tested == {len(fold.test_index) for fold in make_folds(some, 0)}
        assert len(found.nodes) == len(some.train_index) + n_validation


def test_a_trial_is_a_whole_training(graph):
    half = make_halves(graph, 0)[0]
    one = next(kind for kind in KINDS if kind.model == "appnp")
    settings = {**one.params, "model": "appnp"}
    whole = fit_gcn(half, overrides=settings, seeds=[4], calibrate=False, validation_fraction=0)
    expected = mean_over_runs(whole.probabilities(nodes=half.test_index))
    np.testing.assert_array_equal(one.try_in_full(half, [4]), expected)
    assert whole.n_epochs > 100  # where a brief trial ends
    simple = KINDS[0]
    np.testing.assert_array_equal(simple.try_in_full(half, [4]), simple.try_on(half, [4]))


def test_what_the_user_chose_is_left_alone(graph, judged):
    asked = judged(lambda one: 0.9 if one.model == "grand" else 0.5)
    found = choose(graph, fixed={"copies": 3, "dropout": 0.1, "max_epochs": 7})
    kept = {"copies": 3, "dropout": 0.1, "max_epochs": 7}
    assert all(kept.items() <= one.params.items() and one.is_network for one, *_ in asked)
    assert found.candidate.model == "grand"
    assert choose(graph, model="appnp").candidate.model == "appnp"
    found = choose(graph, fixed={"propagation": "chebyshev"})
    assert dict(found.candidate.settings) == {"propagation": "chebyshev"}


def test_averages_eight_trainings_unless_told_otherwise(graph):
    brief = {"preset": "strong", "max_epochs": 3, "random_state": 4, "model": "grand"}
    together = GCNClassifier(**brief).fit(graph)
    assert list(together.fitted_.network.seeds) == list(range(4, 12))
    alone = GCNClassifier(**brief, ensemble=1).fit(graph)
    each = together.fitted_.probabilities()
    np.testing.assert_array_equal(alone.fitted_.probabilities()[:, 0], each[:, 0])
    assert len(GCNClassifier(max_epochs=3).fit(graph).fitted_.network.seeds) == 1


def test_the_estimator_of_all_kinds_knows_it_too(graph, judged):
    judged(lambda one: 0.9 if one.model == "sgc" else 0.5)
    clf = AutoClassifier("strong", random_state=0).fit(graph)
    assert clf.candidate_.model == "sgc"
    assert clf.choice_.startswith("linear model of features two hops around (SGC): ")


def test_it_is_no_settings():
    for search in BUDGETS:
        with pytest.raises(ValueError, match="chooses a method: it is no settings"):
            resolve_settings(search, {})


def test_who_looks_on_sees_the_members_of_a_committee_train(graph):
    epochs = []
    members = [{"model": "gcn", "settings": {"max_epochs": 4}}, "label-propagation"]
    watch = Watch(on_epoch=lambda progress: epochs.append(progress.epoch))
    watched = fit_method(graph, "committee", {"members": members}, watch=watch)
    assert epochs == [1, 2, 3, 4]
    alone = fit_method(graph, "committee", {"members": members})
    np.testing.assert_array_equal(watched.each, alone.each)


@pytest.mark.parametrize("are_two", [True, False])
def test_what_is_published_is_what_the_command_answers(graph, are_two):
    """Trainings that results share, among them those of both members of a committee."""
    brief = [{"max_epochs": 4, "hidden": (4,)}, {"max_epochs": 3, "hidden": (5,)}]
    members = [Candidate(f"{n}", "gcn", tuple(own.items()), runs=3) for n, own in enumerate(brief)]
    members.append(Candidate("sgc", "sgc"))
    chosen = committee_of(members[1:]) if are_two else members[0]
    nobody = np.empty(0, dtype=np.int64)
    choice = Choice(chosen, graph, "", measure_for(graph)[0], nobody, np.empty((0, 4)))
    trained = measure_strong.Trainings()
    for seed in (2, 3):
        shared = measure_strong.answer(choice, seed, trained, ahead=2)
        alone = choice.fit([seed]).ensemble_probabilities()[graph.test_index]
        np.testing.assert_array_equal(shared.argmax(axis=1), alone.argmax(axis=1))
        if not are_two:  # a committee is calibrated once more
            np.testing.assert_allclose(shared, alone, atol=1e-5)
    assert sorted(trained.of(0)) == [2, 3, 4, 5, 6]


def test_what_would_take_hours_is_not_tried(graph, judged, monkeypatch):
    asked = judged(lambda one: 0.5)

    def slow(candidate, fold):
        return 400.0 if candidate.model == "grand" else 1.0

    monkeypatch.setattr(choosing, "seconds_in_full", slow)
    choose(graph)
    tried = {one.model for one, *_ in asked}
    assert "grand" not in tried
    assert {"label-propagation", "gcn", "appnp"} <= tried
    assert sum(slow(one, fold) for one, fold, _ in asked) < BUDGETS["strong"].trials
