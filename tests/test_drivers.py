"""Tests of graphconv.results.drivers: what labels rest on, by taking it away."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import Graph
from graphconv.report._drives import drives
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
    assert found.whole == ()
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
