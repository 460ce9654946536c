"""Tests of graphconv.results.drivers: what labels rest on, by taking it away."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import Graph
from graphconv.report._drives import drives
from graphconv.results import drivers
from graphconv.results.drivers import find_drivers


@pytest.fixture
def people():
    """Two classes of 50; one feature tells them apart, two others say nothing."""
    labels = np.repeat([0, 1], 50)
    rng = np.random.default_rng(0)
    features = np.column_stack([labels, rng.random(100), rng.random(100)]).astype(np.float32)
    ring = sp.csr_array(np.roll(np.eye(100), 1, axis=1))
    return Graph(ring + ring.T, features, labels, feature_names=["age", "a:x", "a:y"])


def by_first_feature(graph):
    first = np.asarray(graph.features[:, [0]].todense() if sp.issparse(graph.features)
                       else graph.features[:, [0]]).ravel()  # fmt: skip
    return np.column_stack([1 - first, first])


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_only_what_the_model_looks_at_matters(people, as_matrix):
    graph = replace(people, features=as_matrix(people.features))
    found = find_drivers(by_first_feature, graph, np.arange(100), {"a": np.array([1, 2])})
    links, features = found.whole
    assert (links.changed, links.accuracy) == (0, 1)
    assert 0.3 < features.changed < 0.7
    assert features.accuracy == pytest.approx(1 - features.changed)
    assert [(one.name, one.changed) for one in found.columns] == [("a", 0)]
    assert found.features[0].name == "age"
    assert found.features[0].changed == features.changed
    assert all(one.changed == 0 for one in found.features[1:])
    assert (found.accuracy, found.n_features) == (1, 3)
    assert find_drivers(by_first_feature, graph, np.arange(100)).whole == found.whole


def test_a_model_of_links_alone_rests_on_them(people):
    def by_links(graph):
        linked = (np.diff(graph.adjacency.indptr) > 0).astype(float)
        return np.column_stack([1 - linked, linked])

    links, features = find_drivers(by_links, people, np.empty(0, dtype=np.int64)).whole
    assert (links.changed, links.accuracy) == (1, None)
    assert features.changed == 0
    bare = replace(people, features=None, feature_names=None)
    found = find_drivers(by_links, bare, np.empty(0, dtype=np.int64))
    assert found == drivers.Drivers((), (), (), None, 0)
    assert "There are no features" in drives(found, "")


def test_in_words(people):
    found = find_drivers(by_first_feature, people, np.arange(100), {"a": np.array([1, 2])})
    text = drives(found, "test")
    assert "Without its links, 0&nbsp;% of all nodes would be labelled otherwise" in text
    assert "of the test nodes would be right instead of 100.0&nbsp;%" in text
    assert "Columns of several features" in text
    nasty = replace(people, feature_names=["<b>", "a:x", "a:y"])
    assert "&lt;b&gt;" in drives(find_drivers(by_first_feature, nasty, np.arange(100)), "test")
    assert "labels no other graph" in drives(None, "test")


def mean_gaps(features, found):
    """How far the means of classes lie apart, by columns, in another way than the code's."""
    rows = [features[found == number].mean(axis=0) for number in found]
    return np.var(rows, axis=0) / np.var(features, axis=0)


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_the_most_telling_features_are_tried(as_matrix):
    rng = np.random.default_rng(3)
    found = np.repeat([0, 1, 2], [10, 30, 60])
    features = rng.normal(size=(100, 6)) + np.outer(found, [0, 1, 0.5, -0.2, -2, 0])
    features += [0, 0, 9, 0, 50, 0]  # it is the same from wherever one counts
    features[:, 0] *= 1e6  # and in whichever unit
    features[:, 2] *= 1e-6
    features[:, 5] = 0.1  # says nothing
    graph = Graph(np.zeros((100, 100)), as_matrix(features), found)
    gaps = mean_gaps(features[:, :5], found)
    told = drivers._most_telling(graph, found, 3)
    assert told == np.argsort(-gaps)[:3].tolist()
    assert told == [4, 1, 2]
    assert 5 not in drivers._most_telling(graph, found, 6)
    both = np.eye(3)[found]  # of several labels a node the first counts
    assert drivers._most_telling(graph, both, 3) == told


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_columns_are_dealt_out_together_and_others_stay(as_matrix):
    features = np.arange(40.0).reshape(10, 4) + 1
    graph = Graph(np.zeros((10, 10)), as_matrix(features))

    def dealt(columns):
        made = drivers._dealt_out(graph, columns).features
        return made.toarray() if sp.issparse(made) else made

    whole, some = dealt(None), dealt(np.array([1, 3]))
    order = ((whole[:, 0] - 1) / 4).astype(int)
    assert sorted(order) == list(range(10))
    assert not np.array_equal(order, np.arange(10))
    assert np.array_equal(whole, features[order])
    assert np.array_equal(some[:, [1, 3]], features[order][:, [1, 3]])
    assert np.array_equal(some[:, [0, 2]], features[:, [0, 2]])
    kept = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    assert np.array_equal(kept, features)


@pytest.mark.parametrize(("seconds", "n_tried"), [(0, 4), (9, 9), (1000, 24)])
def test_large_graphs_try_fewer_features(seconds, n_tried, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = labels[:, None] + rng.random((60, 30))
    ring = np.roll(np.eye(60), 1, axis=1)
    for own in (features, sp.csr_array(features)):
        graph = Graph(ring + ring.T, own, labels)
        # 64 numbers for each feature, edge end and node.
        monkeypatch.setattr(drivers, "WORK", seconds * 64 * (60 * 30 + 120 + 60))
        columns = {"alone": np.array([29])} | {f"c{k}": np.array([k, k + 1]) for k in range(29)}
        found = find_drivers(lambda graph: np.eye(2)[labels], graph, labels, columns)
        assert (len(found.features), len(found.columns)) == (n_tried, n_tried)
        assert "alone" not in [one.name for one in found.columns]


def test_nodes_of_several_labels_change_with_any_of_them():
    features = np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0)
    graph = Graph(np.zeros((40, 40)), features, (features > 0.5).astype(int))
    assert graph.is_multilabel
    found = find_drivers(lambda graph: graph.features, graph, np.arange(40))
    alone, whole = found.features[0].changed, found.whole[1].changed
    assert found.accuracy == 1
    assert alone == whole > 0.3  # rows stay together, so both labels change at once
    assert found.features[0].name == "feature 0"
    # Half of the labels of such a node are still right where one column was dealt out.
    assert found.features[0].accuracy == pytest.approx(1 - alone / 2)
    assert found.whole[1].accuracy == pytest.approx(1 - whole)
    assert [one.changed for one in found.features] == [alone, alone]


def test_some_seconds_are_spent_on_trying(monkeypatch):
    """Twenty passes over a hundred million numbers, of thirty features that could be tried."""
    labels = np.arange(60) % 2
    rng = np.random.default_rng(0)
    graph = Graph(np.zeros((60, 60)), labels[:, None] + rng.random((60, 30)), labels)
    monkeypatch.setattr(drivers, "_cost", lambda graph: 10**8)
    found = find_drivers(lambda graph: np.eye(2)[labels], graph, labels)
    assert len(found.features) == 20


def test_a_label_at_one_half_is_not_given():
    graph = Graph(np.zeros((2, 2)), np.eye(2), np.zeros((2, 2), dtype=int))
    found = find_drivers(lambda graph: np.full((2, 2), 0.5), graph, np.arange(2))
    assert found.accuracy == 1
