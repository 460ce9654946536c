"""Tests of suggest: which nodes are suggested, in which order, and what is refused."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.estimators.baselines import make_estimator
from graphconv.models.propagation import renormalised_adjacency
from graphconv.results import suggest as suggest_module
from graphconv.results.prediction_sets import SetRule
from graphconv.results.suggest import _choose, suggest, uncertainty
from graphconv.training.fit import fit_gcn

BRIEF = {"max_epochs": 10, "hidden": (8,)}


def test_the_choice_by_hand():
    # Columns: candidates 7, 8 and 9. 7 and 8 are alike and stand for three nodes, 9 for one.
    likeness = np.array([[1, 0.9, 0], [0.9, 1, 0], [0.8, 0.7, 0], [0, 0, 1]])
    among = np.array([7, 8, 9])
    even = list(_choose(among, likeness, np.zeros(4), np.ones(4), 3))
    # 7 adds 2.7 of 4. Then 9 adds 1, and 8 only 0.1: what 7 stands for is covered.
    assert [node for node, _ in even] == [7, 9, 8]
    assert [gain for _, gain in even] == pytest.approx([2.7 / 4, 1 / 4, 0.1 / 4])
    # A node nobody is unsure of is worth nothing; one that is covered already neither.
    sure = list(_choose(among, likeness, np.zeros(4), np.array([0.1, 0.1, 0.1, 1]), 1))
    assert sure[0][0] == 9
    known = list(_choose(among, likeness, np.array([1, 1, 1, 0]), np.ones(4), 1))
    assert known[0][0] == 9


def test_uncertainty_is_from_0_to_1():
    shares = np.array([[0.5, 0.5], [1, 0], [0.9, 0.1]], dtype=np.float32)
    half = uncertainty(shares, is_multilabel=False)
    expected = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)) / np.log(2)
    np.testing.assert_allclose(half, [1, 0, expected], rtol=1e-5)
    np.testing.assert_allclose(uncertainty(shares, is_multilabel=True), half, rtol=1e-5)


def test_directions_are_the_propagated_features(monkeypatch):
    graph = split(generate("homophilous, bag of words", n_nodes=60), n_per_class=3)
    fitted = fit_gcn(graph, overrides=BRIEF)
    nodes = np.array([5, 0, 17])
    step, features = renormalised_adjacency(graph), fitted.scaler.transform(graph.features)
    spread = (step @ step @ features).toarray()
    expected = spread / np.linalg.norm(spread, axis=1, keepdims=True)
    dense = suggest_module._directions(step, nodes, features, n_hops=2)
    np.testing.assert_allclose(dense, expected[nodes], atol=1e-5)
    monkeypatch.setattr(suggest_module, "DENSE_FROM", 1.0)
    sparse = suggest_module._directions(step, nodes, features, n_hops=2)
    np.testing.assert_allclose(sparse.toarray(), expected[nodes], atol=1e-5)


@pytest.mark.parametrize("kind", ["homophilous, bag of words", "dense embeddings", "no features"])
@pytest.mark.parametrize("rule", ["renormalised", "none"])
def test_suggestions_are_new_distinct_and_repeatable(kind, rule):
    whole = split(generate(kind, n_nodes=120), n_per_class=3)
    graph = whole.with_split(whole.train_index, whole.test_index[:20], whole.test_index[20:50])
    fitted = fit_gcn(graph, overrides={**BRIEF, "propagation": rule})
    chosen = suggest(fitted, 10)
    nodes = [one.node for one in chosen]
    assert len(set(nodes)) == 10
    used = {*graph.train_index, *graph.validation_index, *graph.test_index}
    assert not used & set(nodes)
    assert suggest(fitted, 10) == chosen
    assert suggest(fitted, 4) == chosen[:4]
    assert len(suggest(fitted)) == 20  # unless told
    gains = [one.gain for one in chosen]
    assert gains == sorted(gains, reverse=True)
    assert 0 <= gains[-1] <= gains[0] <= 1
    shares = fitted.ensemble_probabilities()
    for one in chosen:
        assert one.confidence == pytest.approx(shares[one.node].max())
        assert one.label == graph.class_names[shares[one.node].argmax()]


def test_a_large_graph_is_sampled(monkeypatch):
    graph = split(generate("binary features", n_nodes=200), n_per_class=3)
    graph = graph.with_split(graph.train_index)
    fitted = fit_gcn(graph, overrides=BRIEF)
    monkeypatch.setattr(suggest_module, "MOST_NODES", 20)
    assert len({one.node for one in suggest(fitted, 30)}) == 30
    assert suggest(fitted, 5) == suggest(fitted, 5)


def test_new_data_with_labels_of_its_own():
    graph = generate("binary features", n_nodes=80)
    labels = np.where(np.arange(80) < 30, graph.labels, -1)
    fitted = fit_gcn(replace(graph, labels=labels, train_index=np.arange(30)), overrides=BRIEF)
    newer = replace(
        graph, labels=np.where(np.arange(80) < 50, graph.labels, -1), train_index=np.arange(50)
    )
    chosen = [one.node for one in suggest(fitted, 30, newer)]
    assert sorted(chosen) == list(range(50, 80))


def test_several_labels_a_node():
    graph = generate("binary features", n_nodes=80)
    indicator = np.eye(graph.n_classes, dtype=np.int64)[graph.labels]
    indicator[40:] = -1
    several = Graph(graph.adjacency, graph.features, indicator)
    chosen = suggest(fit_gcn(several, overrides=BRIEF), 5)
    assert all(one.node >= 40 for one in chosen)


def test_bad_requests():
    karate = load_dataset("karate")
    fitted = fit_gcn(karate, overrides=BRIEF)
    with pytest.raises(ValueError, match=r"n must be from 1 to 2, .* got 3"):
        suggest(fitted, 3, candidates=[5, 6])
    with pytest.raises(ValueError, match=r"some nodes must be without a label .* all 34 have one"):
        suggest(fitted, 1)
    with pytest.raises(ValueError, match=r"n must be from 1 to 2, .* got 0"):
        suggest(fitted, 0, candidates=[5, 6])
    with pytest.raises(ValueError, match="candidates must be ids of the graph's nodes, got 'x'"):
        suggest(fitted, 1, candidates=["x"])


def test_the_estimator_suggests():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (20, 3)), rng.normal(4, 1, (20, 3))])
    y = np.array([0] * 5 + [-1] * 15 + [1] * 5 + [-1] * 15)
    chosen = GCNClassifier(random_state=0, max_epochs=20).fit(X, y).suggest(3)
    assert all(y[one.node] == -1 for one in chosen)


def test_it_beats_chance_on_cora():
    from scripts.simulate_suggest import _rounds

    cora = load_dataset("cora")
    settings = {"first": 2, "last": 4}
    gains = [
        _rounds(cora, "suggest", seed, settings)["accuracy"][-1]
        - _rounds(cora, "random", seed, settings)["accuracy"][-1]
        for seed in range(3)
    ]
    assert np.mean(gains) > 0


@pytest.mark.parametrize(
    ("settings", "n_hops"),
    [({}, 2), ({"hidden": (8, 8)}, 3), ({"hidden": ()}, 1), ({"propagation": "none"}, 0)],
)
def test_as_many_hops_as_the_model_has_layers(settings, n_hops):
    graph = split(generate("binary features", n_nodes=40), n_per_class=3)
    fitted = fit_gcn(graph, overrides={**BRIEF, "max_epochs": 1, **settings})
    hops, scaler = suggest_module._reach(fitted)
    assert hops == n_hops
    assert scaler is fitted.scaler
    other = make_estimator("sgc").fit(graph)._fitted()
    assert suggest_module._reach(other)[0] == 2  # where a method does not say


def test_large_graphs_are_stood_for_by_a_sample(monkeypatch):
    graph = generate("binary features", n_nodes=60)
    free = np.arange(10, 60)
    monkeypatch.setattr(suggest_module, "MOST_NODES", 60)
    whole = suggest_module.Coverage(graph, graph.features, 1, free, most_candidates=50)
    assert np.array_equal(whole.crowd, np.arange(60))
    assert np.array_equal(whole.among, free)
    monkeypatch.setattr(suggest_module, "MOST_NODES", 59)
    part = suggest_module.Coverage(graph, graph.features, 1, free, most_candidates=49)
    for nodes, among, n in ((part.crowd, np.arange(60), 59), (part.among, free, 49)):
        assert len(set(nodes.tolist())) == n
        assert np.isin(nodes, among).all()
        assert np.array_equal(nodes, np.sort(nodes))


def test_what_is_labelled_covers_its_like():
    """Three pairs of twins: a label of one twin leaves nothing to learn from the other."""
    features = np.repeat(np.eye(3), 2, axis=0)
    graph = Graph(np.zeros((6, 6)), features)
    cover = suggest_module.Coverage(graph, features, 0, np.arange(6))
    first = list(cover.choose(np.array([0]), np.ones(6), 2))
    assert first == [(2, pytest.approx(2 / 6)), (4, pytest.approx(2 / 6))]
    later = list(cover.choose(np.array([0, 3]), np.ones(6), 2))
    assert later == [(4, pytest.approx(2 / 6)), (0, 0)]  # nothing is left to gain
    allowed = np.array([True, True, False, False, False, True])
    assert [node for node, _ in cover.choose(np.array([0]), np.ones(6), 9, allowed)] == [5, 0, 1]
    unsure = np.array([1, 1, 0, 0, 0.5, 0.5])
    assert list(cover.choose(np.array([], int), unsure, 1)) == [(0, pytest.approx(2 / 3))]
    assert list(cover.choose(np.array([], int), np.zeros(6), 1)) == [(0, 0)]


def test_nodes_with_larger_sets_count_more():
    graph = Graph(np.zeros((6, 6)), np.repeat(np.eye(3), 2, axis=0), [0, 1, 2, -1, -1, -1])
    fitted = fit_gcn(graph, overrides={**BRIEF, "max_epochs": 1, "scaling": "none"})
    shares = fitted.ensemble_probabilities()
    sizes = (shares >= np.median(shares)).sum(axis=1)
    rule = SetRule(0.9, float(np.median(shares)), 0.0, 9)
    assert (rule.apply(graph, shares).sum(axis=1) == np.maximum(sizes, 1)).all()
    found = suggest(fitted, 3, rule=rule)
    assert [one.set_size for one in found] == [max(1, sizes[one.node]) for one in found]
    assert all(one.set_size is None for one in suggest(fitted, 3))
    # A set of one class says that there is nothing to ask. Twins of what is known are covered.
    weight = uncertainty(shares, False) * (np.maximum(sizes, 1) - 1)
    assert found[0].node in (4, 5)
    assert found[0].gain == pytest.approx(weight[4:].sum() / weight.sum())


@pytest.mark.parametrize("n", [True, 2.0, "2", 0, 3])
def test_how_many_must_be_a_number_of_nodes_that_are_there(n):
    fitted = fit_gcn(load_dataset("karate"), overrides=BRIEF)
    with pytest.raises(ValueError, match=r"n must be from 1 to 2, the number of nodes"):
        suggest(fitted, n, candidates=[5, 6])
    assert len(suggest(fitted, 2, candidates=[6, 5, 6])) == 2
    assert len(suggest(fitted, 1, candidates=[5])) == 1


def test_uncertainty_of_more_classes_by_hand():
    even = np.full((1, 4), 0.25)
    assert uncertainty(even, is_multilabel=False) == pytest.approx([1])
    assert uncertainty(np.array([[0.5, 0.5, 0, 0]]), is_multilabel=False) == pytest.approx([0.5])
    assert uncertainty(np.array([[1.0]]), is_multilabel=False) == pytest.approx([0])
    # Of several labels a node, each by itself: one that is open and one that is sure.
    assert uncertainty(np.array([[0.5, 1.0]]), is_multilabel=True) == pytest.approx([0.5])


def test_a_node_without_features_is_like_no_other():
    rows = np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)
    step = sp.eye_array(2, dtype=np.float32, format="csr")
    for features in (rows, sp.csr_array(rows)):
        found = suggest_module._directions(step, np.arange(2), features, n_hops=1)
        found = found.toarray() if sp.issparse(found) else found
        np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], atol=1e-6)


@pytest.mark.parametrize(("n_filled", "is_sparse"), [(1, True), (2, False)])
def test_rows_more_than_a_twentieth_full_become_dense(n_filled, is_sparse):
    features = np.zeros((4, 5), dtype=np.float32)
    features[:n_filled, 0] = 1
    step = sp.eye_array(4, dtype=np.float32, format="csr")
    found = suggest_module._directions(step, np.arange(4), sp.csr_array(features), n_hops=1)
    assert sp.issparse(found) == is_sparse


def test_three_thousand_nodes_stand_for_all_unless_told():
    graph = Graph(sp.csr_array((3001, 3001)))
    features = np.ones((3001, 1), dtype=np.float32)
    cover = suggest_module.Coverage(graph, features, 0, np.arange(3001))
    assert (len(cover.crowd), len(cover.among)) == (3000, 3000)
    # Where all may be chosen nothing is drawn, so those that stand for all are the first draw.
    few = suggest_module.Coverage(graph, features, 0, np.arange(5), most_candidates=5)
    drawn = np.random.default_rng(0).choice(np.arange(3001), 3000, replace=False)
    assert np.array_equal(few.crowd, np.sort(drawn))


def test_nodes_of_relations_are_not_suggested():
    graph = Graph(np.zeros((20, 20)), n_entities=15)
    fitted = SimpleNamespace(graph=graph)
    found = suggest_module._candidates(fitted, graph, np.full(20, ""), None)
    assert found.tolist() == list(range(15))
