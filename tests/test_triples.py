"""Tests of triples: knowledge graphs that become bipartite graphs."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.small_tables import EDGES, NODES, dense, read

TRIPLES = "source,relation,target\nann,knows,bob\nbob,knows,cy\nann,likes,ann\n"


def test_triples_by_hand(tmp_path):
    loaded = read(tmp_path, TRIPLES, NODES)
    graph = loaded.graph
    ids = ["ann", "bob", "cy", "knows:head", "knows:tail", "likes:head", "likes:tail"]
    assert graph.node_ids.tolist() == ids
    # ann and bob are heads of knows, bob and cy its tails; ann is both of likes.
    block = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]])
    assert (
        dense(graph) == np.block([[np.zeros((3, 3)), block], [block.T, np.zeros((4, 4))]]).tolist()
    )
    expected = np.zeros((7, 5))
    expected[:3, 0] = [31, 47, 25]
    expected[3:, 0] = np.float32(103 / 3)  # a relation's age is unknown: the mean
    expected[3:, 1:] = np.eye(4)
    assert isinstance(graph.features, sp.csr_array)
    assert graph.features.toarray().tolist() == expected.tolist()
    assert graph.feature_names == ("age", *ids[3:])
    assert graph.labels.tolist() == [1, -1, 0, -1, -1, -1, -1]
    assert graph.n_entities == 3
    assert loaded.encoding.relations == ("knows", "likes")
    assert loaded.notes == ("3 triples made a graph with two nodes for each of 2 relations",)


def test_triples_without_features_are_featureless(tmp_path):
    loaded = read(tmp_path, TRIPLES + "ann,knows,knows:head\n")
    assert loaded.graph.features is None
    assert loaded.graph.node_ids.tolist()[4:] == [
        "knows:head#2",
        "knows:tail",
        "likes:head",
        "likes:tail",
    ]


def test_new_triples_have_the_columns_of_the_first_ones(tmp_path):
    first = read(tmp_path, TRIPLES, NODES)
    edges = "source,relation,target\nann,likes,bob\nann,hates,cy\n"
    features = read(tmp_path, edges, NODES, encoding=first.encoding).graph.features.toarray()
    # Nodes: ann, bob, cy, hates (unknown), likes; columns: age, knows, likes.
    assert features.shape == (7, 5)
    assert (features[3:, 0] == np.float32(103 / 3)).all()
    assert features[3:, 1:].tolist() == [[0] * 4, [0] * 4, [0, 0, 1, 0], [0, 0, 0, 1]]
    plain = read(tmp_path, EDGES, NODES, encoding=first.encoding).graph
    assert plain.features.shape == (3, 5)


def test_triples_are_undirected_and_binary(tmp_path):
    message = r"^edges\.csv holds triples, whose graph is undirected and binary, got "
    with pytest.raises(ValueError, match=message + "directed$"):
        read(tmp_path, TRIPLES, directed=True)
    with pytest.raises(ValueError, match=message + "duplicates='sum'$"):
        read(tmp_path, TRIPLES, duplicates="sum")
    with pytest.raises(ValueError, match=r"^edges\.csv, line 2: column 'relation' must name a rel"):
        read(tmp_path, "source,relation,target\na,,b\n")
    assert read(tmp_path, TRIPLES, relation="").graph.n_nodes == 3
