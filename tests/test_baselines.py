import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tests import generated_graphs
from tests.generated_graphs import random_matrix
from tests.scripts import ROOT, load_script
from threadpoolctl import threadpool_limits

from graphconv import Graph, load_dataset, load_model
from graphconv.estimators.baselines import (
    BASELINES,
    _logistic,
    _walks,
    boosted_trees,
    deepwalk,
    make_estimator,
)
from graphconv.estimators.baselines._conjugate_gradients import solve_columns
from graphconv.estimators.baselines._logistic import _quick_to_multiply, _row_space, fit_logistic
from graphconv.estimators.baselines._planetoid_network import PlanetoidNetwork
from graphconv.estimators.baselines._walks import context_pairs, random_walks
from graphconv.estimators.baselines.deepwalk import _Sentences
from graphconv.estimators.baselines.ica import independent_runs
from graphconv.estimators.baselines.semi_embedding import PairDraw
from graphconv.estimators.baselines.settings import CHOSEN, VARIANTS, chosen_settings
from graphconv.estimators.baselines.transductive import (
    neighbour_matrix,
    numeric_libraries,
    with_known_classes,
)
from graphconv.graph.position import N_ROLES, position_features

PATH = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)  # 0 - 1 - 2 - 3


def random_graph(n_nodes=30, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < 0.15, 1)
    labels = np.arange(n_nodes) % n_classes
    features = np.eye(n_classes)[labels] + rng.random((n_nodes, n_classes))
    return Graph(upper + upper.T, features=features, labels=labels, train_index=range(12))


def test_names_and_parameters():
    for name in BASELINES:
        assert make_estimator(name, random_state=3).random_state == 3
    with pytest.raises(ValueError, match="did you mean 'deepwalk'"):
        make_estimator("deep-walk")
    with pytest.raises(ValueError, match="got depth"):
        make_estimator("sgc", depth=3)


def test_chosen_settings_are_those_of_known_methods_and_data_sets():
    assert set(CHOSEN) <= set(BASELINES)
    assert {method for method, _ in VARIANTS.values()} <= set(BASELINES)
    for name, by_dataset in [*CHOSEN.items(), *VARIANTS.values()]:
        assert set(by_dataset) <= {"citeseer", "cora", "pubmed", "nell"}
        for settings in by_dataset.values():
            parameters = make_estimator(name, **settings).get_params()
            assert {key: parameters[key] for key in settings} == settings
    assert chosen_settings("sgc", "a data set of one's own") == {}


def test_chosen_settings_follow_from_the_committed_trials(monkeypatch):
    script = load_script("tune_baselines")
    make = script.make_estimator

    def refuse_to_fit(method, **params):
        assert "random_state" not in params, f"measured/tuning.jsonl has no trial of {method}"
        return make(method, **params)

    monkeypatch.setattr(script, "make_estimator", refuse_to_fit)
    trials = script.Trials(ROOT / "measured" / "tuning.jsonl")
    rows = [*CHOSEN, *VARIANTS]
    assert set(rows) == set(script.QUESTIONS) == set(script.NELL_QUESTIONS)
    karate = load_dataset("karate")
    for row in rows:
        for dataset in ("citeseer", "cora", "pubmed", "nell"):
            if (row, dataset) in script.NOT_SEARCHED:
                continue
            chosen = script.choose(row, dataset, replace(karate, name=dataset), trials)
            assert chosen == script.changed(script.method_of(row), chosen_settings(row, dataset))
    assert {("deepwalk-noise", "pubmed")} == script.NOT_SEARCHED
    assert chosen_settings("deepwalk-noise", "pubmed") == {"window": 10, "C": 0.1}


# Neighbours, direction and seed are the same everywhere.
SHARED = {"n_neighbors": 10, "directed": False, "random_state": None}
PLANETOID = {
    "dimension": 50, "walk_length": 10, "window": 10, "n_starts": 200, "n_negatives": 5,
    "n_graph_steps": 200, "n_label_pairs": 20, "max_epochs": 300, "graph_share": 0.2,
    "learning_rate": 0.01, "embedding_rate": 0.1, "joined": True, "dropout": 0.5,
    "weight_decay": 5e-4, "patience": 100, "scaling": "auto",
}  # fmt: skip
DEFAULTS = {
    "label-propagation": {
        "n_steps": None, "class_mass": True, "tol": 1e-4, "max_iterations": 2000,
    },
    "manifold": {
        "smoothness": 1.0, "weight_decay": 1e-3, "scaling": "auto", "tol": 1e-5,
        "max_iterations": 2000,
    },
    "semi-embedding": {
        "hidden": 64, "layer": "output", "smoothness": 1.0, "margin": 1.0, "n_pairs": 1000,
        "dropout": 0.5, "weight_decay": 5e-4, "scaling": "auto", "learning_rate": 0.01,
        "max_epochs": 300, "patience": 100,
    },
    "deepwalk": {
        "n_walks": 10, "walk_length": 40, "window": 5, "dimension": 64, "n_negatives": 5,
        "n_passes": 1, "learning_rate": 0.025, "C": 0.1,
    },
    "ica": {
        "aggregation": "proportion", "C": 1.0, "local_C": None, "n_iterations": 10,
        "scaling": "auto",
    },
    "planetoid-t": PLANETOID,
    "planetoid-i": PLANETOID,
    "sgc": {"n_hops": 2, "C": 10.0, "scaling": "auto"},
    "boosted-trees": {"n_hops": 2, "max_iterations": 60, "learning_rate": 0.1},
    "committee": {"members": ("appnp", "sgc")},
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_what_people_rely_on(name):
    assert make_estimator(name).get_params() == {**DEFAULTS[name], **SHARED}


def test_parameters_take_precedence_over_chosen_settings():
    assert make_estimator("sgc", dataset="cora", C=0.5).C == 0.5
    assert make_estimator("sgc", dataset="cora").C == 30
    assert make_estimator("sgc").C != 30


class TestLabelPropagation:
    def fit(self, adjacency=PATH, labels=(0, -1, -1, 1), **params):
        graph = Graph(adjacency, labels=np.array(labels))
        return make_estimator("label-propagation", **params).fit(graph).predict_proba()

    def test_harmonic_on_a_path(self):
        expected = [[1, 0], [2 / 3, 1 / 3], [1 / 3, 2 / 3], [0, 1]]
        np.testing.assert_allclose(self.fit(class_mass=False), expected, atol=1e-6)

    def test_steps_on_a_path(self):
        expected = [[1, 0], [1, 0], [0, 1], [0, 1]]
        np.testing.assert_allclose(self.fit(class_mass=False, n_steps=1), expected)
        many = self.fit(class_mass=False, n_steps=200)
        np.testing.assert_allclose(many, self.fit(class_mass=False), atol=1e-6)

    def test_self_loops_do_not_matter(self):
        looped = self.fit(PATH + np.diag([0.0, 5.0, 0.0, 1.0]), n_steps=3)
        np.testing.assert_allclose(looped, self.fit(n_steps=3))

    def test_class_mass(self):
        # Harmonic values of 0 - 1 - 2 with labels at 0 and 2 are 1/2; class 0 has two of three
        # training nodes, the other one apart, so that its mass is 2.5 and that of class 1 is 1.5.
        adjacency = np.zeros((4, 4))
        adjacency[:3, :3] = PATH[:3, :3]
        found = self.fit(adjacency, (0, -1, 1, 0))
        shares = np.array([2 / 3 / 2.5, 1 / 3 / 1.5]) / 2
        np.testing.assert_allclose(found[1], shares / shares.sum(), atol=1e-6)

    def test_nodes_that_no_label_reaches_get_the_shares_of_classes(self):
        adjacency = np.kron(np.eye(2), PATH)
        labels = (0, 0, -1, 1, -1, -1, -1, -1)
        for n_steps in (None, 10):
            found = self.fit(adjacency, labels, n_steps=n_steps)
            np.testing.assert_allclose(found[4:], [[2 / 3, 1 / 3]] * 4)

    @pytest.mark.parametrize(("weight", "expected"), [(1, [0.5, 0.5]), (2, [1, 0])])
    def test_a_share_of_one_in_a_million_millions_counts_as_none(self, weight, expected):
        # Node 2 hangs on node 0, of class 0, by such a share of its edges' weight; the rest leads
        # to nodes that no label has reached.
        adjacency = np.zeros((5, 5))
        adjacency[2, [0, 3, 4]] = weight, 15258789 * 2**16, 4096 - weight
        assert adjacency[2].sum() == 1e12
        adjacency = adjacency + adjacency.T
        found = self.fit(adjacency, (0, 1, -1, -1, -1), n_steps=1, class_mass=False)
        assert found[2].tolist() == expected

    def test_stopping_too_early_warns(self):
        with pytest.warns(ConvergenceWarning, match="1 iterations"):
            self.fit(max_iterations=1)


def test_conjugate_gradients_solve_every_column():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    matrix, right = root @ root.T + np.eye(6), rng.standard_normal((6, 4))
    right[:, 2] = 0
    solution, converged = solve_columns(lambda columns: matrix @ columns, right, 1e-10, 100)
    assert converged
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), atol=1e-8)


def test_conjugate_gradients_stop_at_the_wanted_residual():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((40, 40))
    matrix, right = root @ root.T + np.eye(40), rng.standard_normal((40, 3))
    right[:, 1] = 0  # solved before the first step
    size = np.maximum(np.linalg.norm(right, axis=0), 1)

    def relative_residuals(tol, most):
        solution, converged = solve_columns(lambda columns: matrix @ columns, right, tol, most)
        return np.linalg.norm(matrix @ solution - right, axis=0) / size, converged

    # As many steps as it takes, and no more.
    each = [relative_residuals(1e-12, most)[0].max() for most in range(60)]
    for tol in (0.3, 0.01):
        residuals, converged = relative_residuals(tol, 100)
        n_needed = next(number for number, largest in enumerate(each) if largest <= tol)
        assert converged
        assert (residuals <= tol).all()
        assert not relative_residuals(tol, n_needed - 1)[1]
        assert relative_residuals(tol, n_needed)[1]


def test_which_baselines_label_other_graphs():
    only_known = {"deepwalk", "label-propagation", "planetoid-t"}
    graph = random_graph()
    quick = {"max_epochs": 2, "n_graph_steps": 1}
    for name in sorted(set(BASELINES) - {"deepwalk", "mlp"}):  # one needs gensim, one is a GCN
        estimator = make_estimator(name, random_state=0)
        known = {key: value for key, value in quick.items() if key in estimator.get_params()}
        estimator.set_params(**known).fit(graph)
        assert estimator.labels_other_graphs == (name not in only_known)
        if name in only_known:
            with pytest.raises(ValueError, match="labels only the nodes it was trained with"):
                estimator.predict_proba(random_graph(seed=1))
        else:
            assert estimator.predict_proba(random_graph(seed=1)).shape == (30, 3)
    assert not make_estimator("deepwalk").labels_other_graphs


class TestLogistic:
    @pytest.fixture
    def asked(self, monkeypatch):
        """Columns and settings of every regression that is fitted."""
        kept = []

        class Watched(LogisticRegression):
            def fit(self, columns, labels):
                kept.append((columns, self.get_params()))
                return super().fit(columns, labels)

        monkeypatch.setattr(_logistic, "LogisticRegression", Watched)
        return kept

    def test_two_classes_as_scikit_learn_has_them(self):
        rng = np.random.default_rng(0)
        columns, labels = rng.standard_normal((20, 3)), np.arange(20) % 2
        expected = LogisticRegression(C=2.0, tol=1e-5).fit(columns, labels).predict_proba(columns)
        found = fit_logistic(columns, labels, 2, 2.0).probabilities(columns)
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_class_without_rows_has_no_probability(self):
        found = fit_logistic(np.eye(4), np.array([0, 1, 3, 3]), 5, 1.0).probabilities(np.eye(4))
        assert (found[:, [2, 4]] == 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1)

    def test_more_columns_than_rows(self):
        rng = np.random.default_rng(0)
        columns, labels = random_matrix((9, 40), 0.3, rng), np.arange(9) % 3
        model = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(columns, labels)
        found = fit_logistic(columns, labels, 3, 2.0).probabilities(columns)
        np.testing.assert_allclose(found, model.predict_proba(columns), atol=1e-4)

    def test_rows_that_repeat_one_another_count_as_one_direction(self):
        """Rounding errors beside a single direction are no further ones."""
        rows = np.linspace(-1, 1, 10)[:, None] @ np.full((1, 13), 1 / 3)
        (basis,) = _row_space(rows).T
        np.testing.assert_allclose(np.abs(basis), 13**-0.5)

    def test_rows_of_zeros_say_nothing(self):
        found = fit_logistic(np.zeros((2, 5)), np.array([0, 1]), 2, 1.0)
        np.testing.assert_allclose(found.probabilities(np.ones((1, 5))), [[0.5, 0.5]])

    def test_what_scikit_learn_is_asked_for(self, asked):
        fit_logistic(np.eye(4), np.arange(4) % 2, 2, 0.3)
        ((_, params),) = asked
        wanted = {"C": 0.3, "max_iter": 5000, "tol": 1e-5}
        assert {name: params[name] for name in wanted} == wanted

    @pytest.mark.parametrize(
        ("n_rows", "n_columns", "n_directions"),
        [(2, 3, 1), (3, 3, 3), (4, 3, 3), (499, 501, 1), (500, 501, 501)],
    )
    def test_few_rows_are_fitted_in_the_space_they_span(
        self, asked, n_rows, n_columns, n_directions
    ):
        rows = np.arange(n_rows)[:, None] @ np.full((1, n_columns), 1e-3)
        fit_logistic(rows, np.arange(n_rows) % 2, 2, 1.0)
        ((columns, _),) = asked
        assert columns.shape == (n_rows, n_directions)

    @pytest.mark.parametrize(
        ("n_columns", "n_filled", "is_dense"),
        [
            *((100, 10, False), (100, 11, True)),
            *((30_000_000, 3_000_001, True), (30_000_001, 3_000_001, False)),
        ],
    )
    def test_columns_more_than_a_tenth_full_become_dense_where_they_fit(
        self, n_columns, n_filled, is_dense
    ):
        places = np.arange(n_filled, dtype=np.int32)
        filled = np.ones(n_filled, dtype=np.int8), places, [0, n_filled]
        found = _quick_to_multiply(sp.csr_array(filled, shape=(1, n_columns)))
        assert sp.issparse(found) != is_dense
        assert found.shape == (1, n_columns)

    def test_strength_must_be_positive(self):
        with pytest.raises(ValueError, match="C must be above 0"):
            fit_logistic(np.eye(2), np.array([0, 1]), 2, 0.0)


class TestSGC:
    def test_no_hops_is_logistic_regression(self):
        graph = random_graph()
        found = make_estimator("sgc", n_hops=0, scaling="none").fit(graph).predict_proba()
        train = graph.train_index
        model = fit_logistic(graph.features[train], graph.labels[train], 3, 10.0)
        np.testing.assert_allclose(found, model.probabilities(graph.features), atol=1e-6)

    def test_two_hops_by_hand(self):
        graph = random_graph()
        looped = graph.adjacency.toarray() + np.eye(30)
        scale = np.diag(looped.sum(axis=1) ** -0.5)
        expected = np.linalg.matrix_power(scale @ looped @ scale, 2) @ graph.features
        train = graph.train_index
        model = fit_logistic(expected[train], graph.labels[train], 3, 10.0)
        found = make_estimator("sgc", scaling="none").fit(graph).predict_proba()
        np.testing.assert_allclose(found, model.probabilities(expected), atol=1e-3)

    def test_hops_must_be_a_number(self):
        with pytest.raises(ValueError, match="n_hops"):
            make_estimator("sgc", n_hops=-1).fit(random_graph())


class TestBoostedTrees:
    """What the trees see, by hand."""

    @pytest.fixture
    def seen(self, monkeypatch):
        """Columns, labels and settings of every classifier that is fitted."""
        kept = []

        class Watched(boosted_trees.HistGradientBoostingClassifier):
            def fit(self, columns, labels):
                kept.append((columns.copy(), labels, self.get_params()))
                return super().fit(columns, labels)

        monkeypatch.setattr(boosted_trees, "HistGradientBoostingClassifier", Watched)
        return kept

    @pytest.mark.parametrize("n_hops", [0, 1, 2])
    def test_columns_by_hand(self, seen, n_hops):
        own = [[1, 0], [2, 0], [4, 6], [8, 0]]
        once = [[2, 0], [2.5, 3], [5, 0], [4, 6]]  # means over the neighbours on the path
        twice = [[2.5, 3], [3.5, 0], [3.25, 4.5], [5, 0]]
        graph = Graph(PATH, own, [0, 1, 0, 1])
        make_estimator("boosted-trees", n_hops=n_hops).fit(graph)
        ((columns, labels, _),) = seen
        parts = [own, once, twice][: n_hops + 1]
        assert np.array_equal(columns, np.hstack([*parts, [[1], [2], [2], [1]]]))
        assert labels.tolist() == [0, 1, 0, 1]

    def test_wide_features_become_directions(self, seen):
        graph = random_graph()
        wide = replace(graph, features=np.hstack([graph.features, np.zeros((30, 30))]))
        for own in (graph, wide):
            make_estimator("boosted-trees", n_hops=0, random_state=0).fit(own)
        assert [columns.shape for columns, _, _ in seen] == [(12, 4), (12, 31)]
        # All 30 nodes span the directions; three of them say everything about three columns.
        directions = seen[1][0][:, :-1]
        products = graph.features[:12] @ graph.features[:12].T
        np.testing.assert_allclose(directions @ directions.T, products, rtol=1e-4)

    def test_as_many_columns_as_trees_can_look_at_stay_as_they_are(self, seen):
        graph = random_graph()
        features = np.random.default_rng(0).random((30, 33))
        for n_columns in (32, 33):
            own = replace(graph, features=features[:, :n_columns])
            make_estimator("boosted-trees", n_hops=0, random_state=0).fit(own)
        assert np.array_equal(seen[0][0][:, :-1], features[:12, :32].astype(np.float32))
        assert seen[1][0].shape == (12, 31)

    def test_without_features_roles_stay_as_they_are(self, seen, monkeypatch):
        graph = replace(random_graph(), features=None)
        places = position_features(graph)[:12]
        make_estimator("boosted-trees", n_hops=0, random_state=0).fit(graph)
        monkeypatch.setattr(boosted_trees, "MOST_COLUMNS", 5)
        make_estimator("boosted-trees", n_hops=0, random_state=0).fit(graph)
        (_, few) = (columns[:, :-1] for columns, _, _ in seen)
        assert few.shape == (12, 5 + N_ROLES)
        assert np.array_equal(few[:, 5:], places[:, -N_ROLES:].astype(np.float32))

    @pytest.mark.parametrize(("n_rare", "leaf"), [(1, 1), (7, 1), (8, 2), (80, 20), (100, 20)])
    def test_leaves_are_smaller_than_the_rarest_class(self, seen, n_rare, leaf):
        labels = np.repeat([0, 2, 1], [n_rare, 110, n_rare + 5])
        ring = np.roll(np.eye(len(labels)), 1, axis=1)
        graph = Graph(ring + ring.T, np.arange(len(labels))[:, None], labels)
        settings = {"learning_rate": 0.3, "max_iterations": 2, "random_state": 4}
        make_estimator("boosted-trees", **settings).fit(graph)
        ((_, _, params),) = seen
        wanted = {"min_samples_leaf": leaf, "learning_rate": 0.3, "max_iter": 2}
        assert {name: params[name] for name in wanted} == wanted
        assert params["early_stopping"] is False

    def test_another_graph_is_labelled_by_the_same_trees(self):
        graph = random_graph()
        clf = make_estimator("boosted-trees", random_state=0).fit(graph)
        order = np.random.default_rng(0).permutation(30)
        other = Graph(graph.adjacency[order][:, order], graph.features[order], graph.labels[order])
        assert np.array_equal(clf.predict_proba(other), clf.predict_proba()[order])

    @pytest.mark.parametrize("n_hops", [-1, True, 1.0, "2"])
    def test_hops_must_be_a_number(self, n_hops):
        with pytest.raises(ValueError, match="n_hops must be a whole number of at least 0, got"):
            make_estimator("boosted-trees", n_hops=n_hops).fit(random_graph())


class TestManifold:
    def test_without_smoothness_it_is_logistic_regression(self):
        graph = random_graph()
        train = graph.train_index
        found = make_estimator(
            "manifold", smoothness=0.0, weight_decay=0.1, scaling="none", tol=1e-8
        ).fit(graph)
        model = LogisticRegression(C=1 / (0.1 * 12), fit_intercept=False, tol=1e-8, max_iter=1000)
        model.fit(graph.features[train], graph.labels[train])
        expected = model.predict_proba(graph.features)
        np.testing.assert_allclose(found.predict_proba(), expected, atol=1e-4)

    def test_smoothness_brings_neighbours_together(self):
        graph = random_graph()
        left, right = graph.adjacency.nonzero()
        gaps = []
        for smoothness in (0.0, 1.0, 100.0):
            found = make_estimator("manifold", smoothness=smoothness).fit(graph).predict_proba()
            gaps.append(np.abs(found[left] - found[right]).mean())
        assert gaps[0] > gaps[1] > gaps[2]

    def test_stopping_too_early_warns(self):
        with pytest.warns(ConvergenceWarning, match="2 iterations"):
            make_estimator("manifold", max_iterations=2).fit(random_graph())

    def test_negative_smoothness_is_refused(self):
        with pytest.raises(ValueError, match="smoothness must be at least 0"):
            make_estimator("manifold", smoothness=-1.0).fit(random_graph())


class TestICA:
    def test_runs_are_independent_and_in_order(self):
        graph = random_graph()
        order = 5 + np.random.default_rng(0).permutation(25)
        rank = np.empty(30)
        rank[order] = np.arange(25)
        runs = independent_runs(graph.adjacency, order)
        assert sorted(np.concatenate(runs)) == list(range(5, 30))
        place = np.full(30, -1)
        for number, run in enumerate(runs):
            place[run] = number
            assert graph.adjacency[run][:, run].nnz == 0
        left, right = graph.adjacency[5:, 5:].nonzero()
        assert (
            np.sign(place[5:][left] - place[5:][right]) == np.sign(rank[5:][left] - rank[5:][right])
        ).all()

    def test_a_loop_keeps_no_node_waiting(self):
        looped = sp.csr_array(PATH + np.eye(4))
        runs = independent_runs(looped, np.array([0, 3, 1]))
        assert [run.tolist() for run in runs] == [[0, 3], [1]]

    def test_unknown_aggregation_is_refused(self):
        with pytest.raises(ValueError, match="aggregation must be"):
            make_estimator("ica", aggregation="mode").fit(random_graph())


class TestWalks:
    def test_every_step_is_an_edge(self):
        neighbours = random_graph().adjacency
        starts = np.flatnonzero(np.diff(neighbours.indptr))
        walks = random_walks(neighbours, starts, 8, np.random.default_rng(0))
        assert walks.shape == (len(starts), 9)
        assert np.array_equal(walks[:, 0], starts)
        assert (neighbours.toarray()[walks[:, :-1], walks[:, 1:]] > 0).all()

    def test_weights_are_chances(self):
        star = sp.csr_array(np.array([[0, 1, 3, 0], [1, 0, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]]))
        walks = random_walks(star, np.zeros(4000, dtype=int), 1, np.random.default_rng(0))
        shares = np.bincount(walks[:, 1], minlength=4) / 4000
        np.testing.assert_allclose(shares, [0, 0.25, 0.75, 0], atol=0.03)

    @pytest.mark.parametrize(
        ("weights", "totals"), [([2, 2, 2, 2], None), ([1, 3, 1, 3], [0, 1, 4, 5, 8]), ([], None)]
    )
    def test_weights_are_looked_up_only_where_they_differ(self, weights, totals, monkeypatch):
        rows = [0, 0, 1, 2][: len(weights)]
        columns = [1, 2, 0, 0][: len(weights)]
        neighbours = sp.csr_array((np.array(weights, float), (rows, columns)), shape=(3, 3))
        asked = []
        kernel = SimpleNamespace(walks=lambda *given: asked.append(given))
        monkeypatch.setattr(_walks.kernels, "select", lambda: kernel)
        random_walks(neighbours, [2, 0], 5, np.random.default_rng(0))
        ((_, sums, starts, n_steps, key),) = asked
        assert (None if sums is None else sums.tolist()) == totals
        assert (starts.tolist(), n_steps) == ([2, 0], 5)
        # Any of 2 to the 64 keys: the same as ever for the same generator.
        assert key == int(np.random.default_rng(0).integers(2**64, dtype=np.uint64))

    def test_a_node_without_neighbours_keeps_its_walk(self):
        empty = sp.csr_array((2, 2))
        assert random_walks(empty, [0, 1], 2, np.random.default_rng(0)).tolist() == [
            [0] * 3,
            [1] * 3,
        ]

    def test_pairs_of_a_window_wider_than_the_walk(self):
        nodes, contexts = context_pairs(np.array([[4, 5]]), window=9)
        assert list(zip(nodes.tolist(), contexts.tolist(), strict=True)) == [(4, 5), (5, 4)]
        assert len(context_pairs(np.array([[4]]), window=9)[0]) == 0

    def test_a_window_of_nothing_has_no_pairs(self):
        assert [found.tolist() for found in context_pairs(np.array([[4, 5]]), window=0)] == [[], []]


class TestDeepWalk:
    def test_every_walk_is_read_once_as_often_as_asked(self):
        for n_walks in (0, 1, 1024, 2500):
            walks = np.arange(2 * n_walks).reshape(n_walks, 2)
            sentences = _Sentences(walks)
            for _ in range(2):
                assert list(sentences) == walks.tolist()

    def test_embedding_rows_belong_to_nodes(self):
        pytest.importorskip("gensim")
        karate = load_dataset("karate")
        estimator = make_estimator("deepwalk", dimension=8, n_passes=5, C=10.0, random_state=0)
        estimator.fit(karate)
        assert estimator.embedding_.shape == (34, 8)
        unit = estimator.embedding_ / np.linalg.norm(estimator.embedding_, axis=1, keepdims=True)
        likeness = unit @ unit.T
        joined = karate.adjacency.toarray() > 0
        assert likeness[joined].mean() > likeness[~joined & ~np.eye(34, dtype=bool)].mean()

    @pytest.mark.parametrize(("n_negatives", "hierarchical"), [(5, 0), (1, 0), (0, 1)])
    def test_what_skip_gram_is_asked_for(self, n_negatives, hierarchical, monkeypatch):
        asked = []

        def skip_gram(sentences, **options):
            asked.append((list(sentences), options))
            order = np.random.default_rng(0).permutation(30)  # as gensim sorts its words
            index = {int(node): place for place, node in enumerate(order)}
            vectors = np.stack([order, order % 3], axis=1).astype(float)
            return SimpleNamespace(wv=SimpleNamespace(key_to_index=index, vectors=vectors))

        monkeypatch.setattr(deepwalk, "_import_skip_gram", lambda: skip_gram)
        given = {"n_walks": 3, "walk_length": 7, "window": 4, "dimension": 2, "n_passes": 6,
                 "n_negatives": n_negatives, "learning_rate": 0.04}  # fmt: skip
        seed = 2**32 + 1000
        clf = make_estimator("deepwalk", **given)
        embedding = clf._embed(random_graph(), seed)
        ((sentences, options),) = asked
        assert [len(walk) for walk in sentences] == [7] * 90
        starts = np.array(sentences)[:, 0].reshape(3, 30)
        assert (np.sort(starts, axis=1) == np.arange(30)).all()  # each node once in each round
        assert not np.array_equal(starts[0], starts[1])
        assert options == {
            "vector_size": 2, "window": 4, "sg": 1, "hs": hierarchical, "negative": n_negatives,
            "min_count": 0, "sample": 0, "alpha": 0.04, "epochs": 6, "seed": 1000, "workers": 1,
        }  # fmt: skip
        assert np.array_equal(embedding, np.stack([np.arange(30), np.arange(30) % 3], axis=1))

    def test_missing_gensim_is_one_line_that_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "gensim.models", None)
        with pytest.raises(ValueError, match="pip install gensim"):
            make_estimator("deepwalk").fit(load_dataset("karate"))


def test_mlp_does_not_look_at_edges():
    graph = random_graph()
    alone = Graph(
        sp.csr_array((30, 30)), graph.features, graph.labels, train_index=graph.train_index
    )
    first, second = (
        make_estimator("mlp", max_epochs=20, random_state=0).fit(given).predict_proba()
        for given in (graph, alone)
    )
    assert np.array_equal(first, second)
    with pytest.raises(ValueError, match="propagation of an MLP"):
        make_estimator("mlp", propagation="chebyshev").fit(graph)


class TestSemiEmbedding:
    def test_pairs(self):
        neighbours = random_graph().adjacency
        left, right, others = PairDraw(neighbours).draw(200, np.random.default_rng(0))
        dense = neighbours.toarray()
        assert (dense[left, right] > 0).all()
        assert (dense[left, others] == 0).all()
        assert (left != others).all()

    def test_pairs_of_a_path(self):
        """All edges, both ways, and all nodes that are apart, sooner or later; no others."""
        path = np.diag(np.ones(7), 1) + np.diag(np.ones(7), -1)
        pairs, rng = PairDraw(sp.csr_array(path)), np.random.default_rng(0)
        joined, drawn_apart = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
        for _ in range(600):  # one at a time
            left, right, other = pairs.draw(1, rng)
            joined[left, right] = drawn_apart[left, other] = True
        assert np.array_equal(joined, path == 1)
        assert np.array_equal(drawn_apart, path + np.eye(8) == 0)

    def test_pairs_where_all_are_neighbours(self):
        full = sp.csr_array(np.ones((3, 3)) - np.eye(3))
        rng, sizes = np.random.default_rng(0), []

        class Counting:
            def integers(self, high, size):
                sizes.append(size)
                return rng.integers(high, size=size)

        left, right, others = PairDraw(full).draw(7, Counting())
        assert len(left) == len(right) == len(others) == 7
        assert sizes == [7] * 12  # edges, others, and ten times again before it is content

    @pytest.mark.parametrize("layer", ["hidden", "output"])
    def test_neighbours_come_together(self, layer):
        graph = random_graph()
        left, right = graph.adjacency.nonzero()
        gaps = []
        for smoothness in (0.0, 3.0):
            estimator = make_estimator(
                "semi-embedding", layer=layer, smoothness=smoothness, max_epochs=40, random_state=0
            )
            found = estimator.fit(graph).predict_proba()
            gaps.append(np.abs(found[left] - found[right]).mean())
        assert gaps[1] < gaps[0]

    def test_unknown_layer_is_refused(self):
        with pytest.raises(ValueError, match="layer must be"):
            make_estimator("semi-embedding", layer="first").fit(random_graph())


class TestPlanetoid:
    def test_first_places_are_near_each_other(self):
        """Rows of about a twentieth in length, whatever the width; those of contexts are zero."""
        for dimension in (4, 400):
            graph = replace(load_dataset("cora"), features=None)
            network = PlanetoidNetwork(graph, dimension, False, 0.5, True, seed=0)
            (own,) = network.embedding_parameters().values()
            assert own.shape == (2708, dimension)
            squares = own.detach().square().sum(dim=1)
            assert squares.mean().sqrt().item() == pytest.approx(0.05, rel=0.02)
            assert not network.context.any()

    def test_a_new_network_is_in_training(self):
        network = PlanetoidNetwork(random_graph(), 8, False, 0.5, True, seed=0)
        values = torch.ones(50, 8)
        assert set(network._drop(values).unique().tolist()) == {0.0, 2.0}
        network.is_training = False
        assert torch.equal(network._drop(values), values)

    def test_numbers_at_the_rate_or_above_are_kept(self):
        network = PlanetoidNetwork(random_graph(), 8, False, 0.5, True, seed=0)
        drawn = torch.rand(9, generator=torch.Generator().manual_seed(5))
        network.dropout = drawn.median().item()
        network.generator.manual_seed(5)
        kept = network._drop(torch.ones(9)) > 0
        assert kept.sum() == 5
        assert torch.equal(kept, drawn >= drawn.median())

    def test_random_numbers_are_those_of_the_published_runs(self):
        network = PlanetoidNetwork(random_graph(), 8, False, 0.5, True, seed=3)
        assert network.generator.initial_seed() == 1046394712501569526
        # Where the embedding is computed from features, its weights have a seed of their own.
        network = PlanetoidNetwork(random_graph(), 3, True, 0.5, True, seed=3)
        seeds = [part.network.seeds for part in (network._from_features, network._embedding)]
        assert [list(each) for each in seeds] == [[3], [6796496416428451910]]

    @pytest.mark.parametrize("dimension", [4, 200])
    def test_first_weights_are_glorots(self, dimension):
        network = PlanetoidNetwork(random_graph(), dimension, False, 0.0, True, seed=0)
        for weight, n_in in ((network.class_weight, dimension), (network.joined_weight, 6)):
            limit = np.sqrt(6 / (n_in + 3))
            values = weight.detach().numpy()
            assert values.shape == (n_in, 3)
            assert 0.8 * limit < np.abs(values).max() <= limit
            assert values.min() < 0 < values.max()

    def test_context_loss_by_hand(self):
        graph = random_graph()
        network = PlanetoidNetwork(graph, 4, False, 0.0, False, seed=0)
        rng = np.random.default_rng(0)
        with torch.no_grad():
            network.context.copy_(torch.from_numpy(rng.standard_normal((30, 4))))
        nodes, contexts, noise = np.array([3, 3, 7]), np.array([5, 5, 1]), np.array([0, 9])
        found = network.context_loss(graph, nodes, contexts, noise, n_negatives=4).item()
        own = network.embedding_parameters()["embedding"].detach().numpy()
        context = network.context.detach().numpy()

        def cost(score):
            return np.log1p(np.exp(-score))

        costs = [
            cost(own[i] @ context[j]) + 4 * np.mean([cost(-own[i] @ context[k]) for k in noise])
            for i, j in zip(nodes, contexts, strict=True)
        ]
        assert found == pytest.approx(np.mean(costs), rel=1e-5)

    def test_label_pairs_share_a_class(self):
        graph = random_graph()
        estimator = make_estimator("planetoid-t", n_label_pairs=50)
        nodes, contexts = estimator._label_pairs(graph, np.random.default_rng(0))
        assert np.array_equal(graph.labels[nodes], graph.labels[contexts])
        assert set(nodes) | set(contexts) <= set(graph.train_index)
        assert (nodes != contexts).all()

    def test_a_single_label_of_a_class_is_no_context(self):
        labels = np.arange(4)
        graph = Graph(np.ones((4, 4)) - np.eye(4), labels=labels, train_index=labels)
        estimator = make_estimator("planetoid-t", n_label_pairs=50)
        nodes, contexts = estimator._label_pairs(graph, np.random.default_rng(0))
        assert len(nodes) == len(contexts) == 0


@pytest.mark.parametrize("name", ["ica", "semi-embedding", "planetoid-t", "planetoid-i"])
def test_classes_without_training_node_are_never_chosen(name):
    graph = random_graph(n_classes=5)
    train = np.flatnonzero(np.isin(graph.labels, [1, 4]))[:8]
    rest = np.setdiff1d(np.arange(30), train)
    graph = replace(graph, train_index=train, validation_index=rest[:9], test_index=rest[9:])
    with pytest.warns(UserWarning, match="no training node has class"):
        fitted = make_estimator(name, random_state=0).fit(graph)
    found = fitted.predict_proba()
    assert found.shape == (30, 5)
    assert (fitted.uncalibrated_[:, [0, 2, 3]] == 0).all()
    assert np.isin(found.argmax(axis=1), [1, 4]).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    is_right = found.argmax(axis=1) == graph.labels
    assert is_right[train].mean() > 0.5


WITH_FEATURES = ["boosted-trees", "ica", "manifold", "planetoid-i", "semi-embedding", "sgc"]


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_another_graph_must_have_as_many_features_or_none(name):
    graph = random_graph()
    wide = replace(graph, features=np.random.default_rng(0).random((30, 30)))
    featureless = replace(graph, features=None)
    quick = {"max_epochs": 1, "n_graph_steps": 1, "max_iterations": 9}
    known = make_estimator(name).get_params()
    params = {key: value for key, value in quick.items() if key in known and name != "manifold"}
    for own, other, words in [
        (graph, wide, "3 features, the graph to predict has 30 features"),
        (wide, featureless, "30 features, the graph to predict has no features"),
        (featureless, wide, "no features, the graph to predict has 30 features"),
    ]:
        fitted = make_estimator(name, random_state=0, **params).fit(own)
        with pytest.raises(ValueError, match=f"the model was trained with {words}$"):
            fitted.predict_proba(other)


def test_a_loaded_method_that_is_fitted_again_forgets_what_it_was(tmp_path):
    graph, other = random_graph(), random_graph(seed=1)
    make_estimator("sgc").fit(graph).save(tmp_path / "model")
    again, new = load_model(tmp_path / "model").fit(other), make_estimator("sgc").fit(other)
    assert np.array_equal(again.predict_proba(graph), new.predict_proba(graph))
    again.save(tmp_path / "again")
    assert np.array_equal(load_model(tmp_path / "again").predict_proba(), new.predict_proba())


def test_nodes_of_unknown_classes_leave_the_splits():
    graph = random_graph()
    train = np.flatnonzero(graph.labels != 1)[:6]
    rest = np.setdiff1d(np.arange(30), train)
    graph = replace(graph, train_index=train, validation_index=rest[:10], test_index=rest[10:])
    known, classes = with_known_classes(graph)
    assert classes.tolist() == [0, 2]
    assert known.class_names == (graph.class_names[0], graph.class_names[2])
    assert np.array_equal(known.labels, np.array([0, -1, 1])[graph.labels])
    assert (graph.labels[known.validation_index] != 1).all()
    assert len(known.validation_index) == (graph.labels[rest[:10]] != 1).sum()
    assert len(known.test_index) == (graph.labels[rest[10:]] != 1).sum()


def test_neighbours_in_a_directed_graph_go_both_ways_without_loops():
    directed = Graph([[1, 2, 0], [0, 0, 0], [0, 1, 0]], directed=True)
    neighbours = neighbour_matrix(directed)
    assert neighbours.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert neighbours.nnz == 4  # a loop is gone, not a neighbour of weight 0


def test_methods_run_on_one_thread_of_each_library(monkeypatch):
    clf = make_estimator("sgc")
    label, seen = type(clf)._label_graph, []

    def watched(own, graph):
        seen.append([library["num_threads"] for library in numeric_libraries().info()])
        return label(own, graph)

    monkeypatch.setattr(type(clf), "_label_graph", watched)
    with threadpool_limits(2):
        clf.fit(random_graph()).predict_proba(random_graph(seed=1))
    while_fitting, while_labelling = seen
    assert set(while_fitting) == set(while_labelling) == {1}


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_scikit_learn_is_told_that_features_may_be_sparse(name):
    assert make_estimator(name).__sklearn_tags__().input_tags.sparse is True


def test_threads_of_libraries_change_no_bit():
    # Of this graph scikit-learn's decomposition has other last bits with two threads.
    graph = generated_graphs.split(generated_graphs.generate("no features"))
    other = generated_graphs.generate("no features", 1)

    def with_threads(number):
        with threadpool_limits(number):
            clf = make_estimator("boosted-trees", max_iterations=20, random_state=0)
            return clf.fit(graph).uncalibrated_, clf.uncalibrated(other)

    for one, two in zip(with_threads(1), with_threads(2), strict=True):
        np.testing.assert_array_equal(one, two)
