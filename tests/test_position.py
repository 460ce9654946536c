"""Tests of graphconv.graph.position, and of boosted trees, which use it without features."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import generate, split

from graphconv import Graph
from graphconv.estimators.baselines import make_estimator
from graphconv.graph.position import (
    has_position_features,
    position_features,
    with_position_features,
    without_position_features,
)
from graphconv.training.scores import accuracy

STAR = Graph(
    np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]), node_ids=list("abcd")
)


def test_roles_say_how_connected_a_node_is():
    degree, rank = position_features(STAR)[:, -2:].T
    assert degree[0] > degree[1] == degree[2] == degree[3]
    assert rank[0] > rank[1] == pytest.approx(rank[3])


def test_leaves_of_one_star_lie_together():
    places = position_features(STAR)[:, :-2]
    np.testing.assert_allclose(places[1], places[2], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1, rtol=1e-5)


def test_a_node_has_the_same_direction_in_another_order():
    order = [2, 0, 3, 1]
    other = Graph(STAR.adjacency[order][:, order], node_ids=[STAR.node_ids[n] for n in order])
    np.testing.assert_allclose(position_features(other), position_features(STAR)[order], atol=1e-6)


def test_isolated_nodes_and_directed_graphs_have_finite_columns():
    lonely = Graph(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), directed=True)
    columns = position_features(lonely)
    assert np.isfinite(columns).all()
    assert (columns[2, :-2] == 0).all()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, None])
def test_columns_are_added_and_taken_away(make):
    features = None if make is None else make(np.arange(8.0).reshape(4, 2).astype(np.float32))
    graph = Graph(STAR.adjacency, features, node_ids=list("abcd"))
    placed = with_position_features(graph)
    assert has_position_features(placed)
    assert not has_position_features(graph)
    assert placed.n_features == (0 if make is None else 2) + 258
    before = without_position_features(placed)
    if make is None:
        assert before.features is None
    else:
        dense = before.features.toarray() if sp.issparse(before.features) else before.features
        np.testing.assert_array_equal(dense, np.arange(8).reshape(4, 2))


def test_places_tell_groups_of_a_graph_without_features():
    graph = split(generate("no features"))
    clf = make_estimator("boosted-trees", max_iterations=15, random_state=0).fit(graph)
    test = graph.test_index
    assert accuracy(graph.labels[test], clf.predict_proba()[test]) > 0.89


def test_trees_take_measured_columns_as_they_are():
    graph = split(generate("unscaled measured columns"))
    clf = make_estimator("boosted-trees", max_iterations=15, random_state=0).fit(graph)
    test = graph.test_index
    assert accuracy(graph.labels[test], clf.predict_proba()[test]) > 0.74
    with pytest.raises(ValueError, match="n_hops must be a whole number"):
        make_estimator("boosted-trees", n_hops=-1).fit(graph)


def test_the_command_line_places_new_nodes_too(run, papers):
    tables = ("--edges", "papers/edges.csv", "--nodes", "papers/nodes.csv", "--text", "title")
    run("train", *tables, "--position-features", "--max-epochs", 10, "-o", "m", "-q")
    nodes = papers / "nodes.csv"
    lines = nodes.read_text().splitlines()
    new = lines[1].replace(lines[1].split(",")[0], "new", 1)
    nodes.write_text("\n".join([*lines, new]) + "\n")
    assert run("predict", "m", *tables[:4], "--json").json["n_nodes"] == 151
