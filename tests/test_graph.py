"""Tests of graphconv.graph."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphconv.graph import Graph, adjacency_from_edges, encode_labels, symmetrise
from graphconv.storage.stored_graph import open_graph, store_graph

PATH = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_defaults_by_hand():
    graph = Graph(PATH, labels=[0, -1, 1])
    assert graph.n_nodes == 3
    assert graph.n_edges == 2
    assert graph.n_features == 3
    assert graph.n_classes == 2
    assert graph.class_names == (0, 1)
    assert graph.node_ids.tolist() == [0, 1, 2]
    assert graph.is_labelled.tolist() == [True, False, True]
    assert graph.train_index.tolist() == [0, 2]
    assert graph.validation_index.tolist() == graph.test_index.tolist() == []
    assert not graph.is_weighted
    assert not graph.is_multilabel
    assert repr(graph) == "Graph('graph': 3 nodes, 2 edges, no features, 2 classes, 2 labelled)"


def test_counts_of_loops_isolated_nodes_and_directions():
    graph = Graph([[2, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    assert graph.n_edges == 3
    assert graph.n_self_loops == 2
    assert graph.n_isolated == 2
    assert graph.is_weighted
    directed = Graph([[0, 1, 0], [0, 0, 0], [0, 0, 0]], directed=True)
    assert directed.n_edges == 1
    assert directed.n_isolated == 1


def test_adjacency_is_canonical_float32():
    entries = ([1, 1, 1, 0], ([0, 1, 0, 1], [1, 0, 1, 0]))
    matrix = sp.coo_array(([1, 1, 1, 1, 0], ([0, 0, 1, 1, 2], [1, 1, 0, 0, 2])), shape=(3, 3))
    graph = Graph(matrix)
    assert graph.adjacency.has_canonical_format
    assert graph.adjacency.dtype == np.float32
    assert graph.adjacency.nnz == 2
    assert graph.adjacency[0, 1] == 2
    assert Graph(sp.coo_matrix(entries, shape=(2, 2)), directed=True).n_nodes == 2


def test_indices_are_as_narrow_as_they_can_be():
    """Whatever they came as: kernels read half as much, and equal graphs have one fingerprint."""
    made = []
    for kind in (np.int32, np.int64):
        matrix = sp.csr_array(np.eye(3))
        matrix.indices, matrix.indptr = matrix.indices.astype(kind), matrix.indptr.astype(kind)
        made.append(Graph(matrix, features=matrix))
    for graph in made:
        for own in (graph.adjacency, graph.features):
            assert own.indices.dtype == own.indptr.dtype == np.int32
    assert made[0].fingerprint() == made[1].fingerprint()


def test_arrays_are_frozen_and_inputs_left_alone():
    labels = np.array([0, -1, 1])
    graph = Graph(PATH, labels=labels)
    with pytest.raises(ValueError, match="read-only"):
        graph.labels[0] = 1
    with pytest.raises(AttributeError):
        graph.name = "other"
    labels[1] = 0
    assert graph.labels.tolist() == [0, -1, 1]


def test_indicator_labels():
    graph = Graph(PATH, labels=[[1, 0], [-1, -1], [1, 1]], class_names=["a", "b"])
    assert graph.is_multilabel
    assert graph.is_labelled.tolist() == [True, False, True]


def test_with_split():
    graph = Graph(PATH, labels=[0, 1, 1]).with_split([0], [1], [2])
    assert graph.train_index.tolist() == [0]
    assert graph.validation_index.tolist() == [1]
    assert graph.test_index.tolist() == [2]
    assert Graph(PATH, labels=[0, 1, 1], test_index=[0]).train_index.tolist() == [1, 2]


def test_ids_of_any_kind():
    assert Graph(PATH, node_ids=[("a", 1), 2, "c"]).node_ids.tolist() == [("a", 1), 2, "c"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"adjacency": [[0, 1]]}, r"^adjacency must be square, got shape \(1, 2\)$"),
        ({"adjacency": [[0, 1], [0, 0]]}, r"^adjacency of an undirected graph must be symmetric"),
        ({"adjacency": [[0, -1], [-1, 0]]}, r"^edge weights must not be negative, got -1 from"),
        ({"adjacency": [[np.nan]]}, r"^edge weights must be finite, got nan from node 0 to node 0"),
        ({"adjacency": [[1e300]]}, r"^edge weights must fit float32"),
        ({"adjacency": [[1j]]}, r"^adjacency weights must be real numbers"),
        (
            {"features": [[1], [2]]},
            r"^features must have one row per node \(3\), got shape \(2, 1\)$",
        ),
        ({"features": [[1], [2], [np.inf]]}, r"^features must be finite .* got inf at node 2, col"),
        ({"features": sp.csr_array([[1], [0], [np.nan]])}, r"got nan at node 2, column 0$"),
        ({"features": [["a"], ["b"], ["c"]]}, r"^features must be numbers, got dtype <U1$"),
        ({"labels": [0, 1]}, r"^labels must have one entry per node \(3\), got shape \(2,\)$"),
        ({"labels": ["a", "b", "c"]}, r"^labels must be class numbers, -1 where unknown"),
        ({"labels": [0, -2, 1]}, r"^labels must be -1 \(unknown\) or a class number, got -2$"),
        ({"labels": [[2], [0], [1]]}, r"^indicator labels must be 0 or 1"),
        ({"labels": [[-1, 0], [0, 1], [1, 1]]}, r"^indicator labels must be 0 or 1"),
        (
            {"labels": [0, 1, 2], "class_names": "ab"},
            r"^class_names must name all 3 classes, got",
        ),
        ({"labels": [0, 1, 0], "class_names": "aa"}, r"^class_names must be distinct$"),
        ({"node_ids": [1, 2]}, r"^node_ids must have one entry per node \(3\), got 2$"),
        (
            {"node_ids": ["a", "b", "a"]},
            r"^node_ids must be unique, but 'a' occurs more th",
        ),
        ({"labels": [0, 1, -1], "train_index": [2]}, r"^train_index must hold labelled nodes only"),
        (
            {"labels": [0, 1, 1], "train_index": [3]},
            r"^train_index must hold node positions 0\.\.2",
        ),
        ({"labels": [0, 1, 1], "test_index": [1, 1]}, r"^test_index must not name a node twice$"),
        ({"labels": [0, 1, 1], "test_index": [0.5]}, r"^test_index must be a list of node pos"),
        (
            {"labels": [0, 1, 1], "train_index": [0], "test_index": [0]},
            r"^train, validation and test nodes must be disjoint, but node 0 of train_index",
        ),
        ({"features": [[1], [2], [3]], "feature_names": ["a", "b"]}, r"^feature_names must hold"),
    ],
)
def test_what_must_not_be(fields, message):
    with pytest.raises(ValueError, match=message):
        Graph(**{"adjacency": PATH, **fields})


def test_adjacency_from_edges_by_hand():
    source, target, weight = [0, 0, 1, 2], [1, 1, 0, 2], [1, 2, 5, 3]
    build = {"n_nodes": 3}
    plain = adjacency_from_edges(source, target, **build)
    assert plain.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    # 0 to 1 weighs 1 + 2, the way back 5: undirected, the larger counts.
    weighted = adjacency_from_edges(source, target, weight, **build)
    assert weighted.toarray().tolist() == [[0, 5, 0], [5, 0, 0], [0, 0, 3]]
    directed = adjacency_from_edges(source, target, weight, directed=True, **build)
    assert directed.toarray().tolist() == [[0, 3, 0], [5, 0, 0], [0, 0, 3]]
    collapsed = adjacency_from_edges(
        source, target, weight, directed=True, duplicates="collapse", self_loops="drop", **build
    )
    assert collapsed.toarray().tolist() == [[0, 2, 0], [5, 0, 0], [0, 0, 0]]
    assert adjacency_from_edges([], [], n_nodes=2).toarray().tolist() == [[0, 0], [0, 0]]


def test_bad_edges():
    with pytest.raises(ValueError, match=r"^target must be a node position 0\.\.1, got 2$"):
        adjacency_from_edges([0], [2], n_nodes=2)
    with pytest.raises(ValueError, match=r"one entry per edge, got lengths 1, 2 and 1$"):
        adjacency_from_edges([0], [0, 1], n_nodes=2)


def test_symmetrise_by_hand():
    result = symmetrise(sp.csr_array([[0.0, 3.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    assert result.toarray().tolist() == [[0, 3, 1], [3, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        (["b", None, "a", "", " "], [1, -1, 0, -1, -1], ("a", "b")),
        ([10, 9, -1, float("nan")], [1, 0, -1, -1], (9, 10)),
        (["a", 2, 10], [2, 0, 1], (2, 10, "a")),
        (pd.Series(["x", pd.NA, "y"]), [0, -1, 1], ("x", "y")),
        (np.array([True, False]), [1, 0], (False, True)),
        ([], [], ()),
    ],
)
def test_encode_labels_by_hand(values, codes, names):
    found, found_names = encode_labels(values)
    assert found.tolist() == codes
    assert found_names == names


edges = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1e6, width=32)))


@settings(max_examples=60)
@given(edges=edges, directed=st.booleans(), loops=st.sampled_from(["keep", "drop"]))
def test_any_edges_make_a_graph(edges, directed, loops):
    source, target, weight = ([edge[part] for edge in edges] for part in range(3))
    adjacency = adjacency_from_edges(
        source, target, weight, n_nodes=6, directed=directed, self_loops=loops
    )
    graph = Graph(adjacency, directed=directed)
    expected = np.zeros((6, 6))
    for row, column, value in edges:
        if loops == "keep" or row != column:
            expected[row, column] += value
    if not directed:
        expected = np.maximum(expected, expected.T)
    np.testing.assert_allclose(graph.adjacency.toarray(), expected, rtol=1e-5)
    assert (graph.adjacency.data > 0).all()


numbers = st.sampled_from([0.0, 1.0, 2.5, -1.0, np.nan, np.inf, 1e300, -0.0])
small = st.integers(0, 4)


@st.composite
def graph_fields(draw):
    n_nodes = draw(small)
    square = hnp.arrays(float, (n_nodes, n_nodes), elements=numbers, fill=st.just(0.0))
    adjacency = draw(square)
    if draw(st.booleans()):
        adjacency = np.fmax(adjacency, adjacency.T)
    if draw(st.booleans()):
        adjacency = np.where(np.isfinite(adjacency) & (adjacency < 1e9), np.abs(adjacency), 1.0)
    n_rows = draw(st.one_of(st.just(n_nodes), small))
    labels = hnp.arrays(int, n_rows, elements=st.integers(-2, 3))
    indicators = hnp.arrays(int, (n_rows, 2), elements=st.integers(-1, 2))
    index = st.lists(st.integers(-1, 5), max_size=3)
    fields = {
        "features": hnp.arrays(float, (n_rows, 2), elements=numbers, fill=st.just(0.0)),
        "labels": st.one_of(labels, labels.map(np.abs), indicators),
        "class_names": st.lists(st.sampled_from("abcd"), max_size=4),
        "node_ids": st.lists(st.one_of(st.text(max_size=1), st.integers(0, 9)), max_size=4),
        "train_index": index,
        "test_index": index,
        "directed": st.booleans(),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(fields)), max_size=4))
    return {"adjacency": adjacency, **{field: draw(fields[field]) for field in sorted(chosen)}}


def built(fields):
    try:
        return Graph(**fields)
    except ValueError as error:
        return str(error)


@settings(max_examples=200)
@given(fields=graph_fields(), sparse=st.booleans())
def test_any_arrays_are_refused_or_make_a_sound_graph(fields, sparse):
    if sparse and "features" in fields:
        fields["features"] = sp.coo_array(fields["features"])
    graph = built(fields)
    if isinstance(graph, str):
        assert graph
        assert "\n" not in graph
        return
    n_nodes = graph.n_nodes
    assert graph.adjacency.has_canonical_format
    assert np.isfinite(graph.adjacency.data).all()
    assert (graph.adjacency.data > 0).all()
    if not graph.directed:
        assert (graph.adjacency != graph.adjacency.T).nnz == 0
    if graph.features is not None:
        values = graph.features.data if sp.issparse(graph.features) else graph.features
        assert graph.features.shape[0] == n_nodes
        assert graph.features.dtype == np.float32
        assert np.isfinite(values).all()
    assert len(graph.labels) == len(set(graph.node_ids.tolist())) == n_nodes
    assert graph.labels.max(initial=-1) < max(graph.n_classes, 2 if graph.is_multilabel else 0)
    parts = [graph.train_index, graph.validation_index, graph.test_index]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert graph.is_labelled[together].all()
    assert 0 <= graph.n_isolated <= n_nodes
    assert repr(graph)


def test_relation_nodes_come_last_and_have_no_label():
    graph = Graph(PATH, labels=[0, -1, -1], n_entities=2)
    assert graph.with_split([0]).n_entities == 2
    assert Graph(PATH).n_entities == 3
    for wrong in (-1, 4, 0):
        with pytest.raises(ValueError, match=r"^n_entities must be from 0 to 3.*got -?\d$"):
            Graph(PATH, labels=[0, -1, -1], n_entities=wrong)


def test_relation_nodes_are_in_the_fingerprint(tmp_path):
    graphs = [Graph(PATH, labels=[0, -1, -1], n_entities=n) for n in (1, 2, 3)]
    assert len({graph.fingerprint() for graph in graphs}) == 3
    assert graphs[2].fingerprint() == Graph(PATH, labels=[0, -1, -1]).fingerprint()
    for graph in graphs:
        store_graph(graph, tmp_path / "stored")
        assert open_graph(tmp_path / "stored").n_entities == graph.n_entities


def test_labels_are_exchanged_and_checked():
    before = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, 1, -1], node_ids=["a", "b", "c"])
    digest = before.fingerprint()
    after = before.with_labels([-1, 0, 1], ["x", "y"], train=[2], test=[1])
    assert after.class_names == ("x", "y")
    assert (after.train_index.tolist(), after.test_index.tolist()) == ([2], [1])
    assert after.fingerprint() != digest == before.fingerprint()
    with pytest.raises(ValueError, match="train_index must hold labelled nodes only"):
        before.with_labels([-1, 0, 1], train=[0])
    with pytest.raises(ValueError, match="labels must"):
        before.with_labels([-2, 0, 1])
