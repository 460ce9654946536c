"""Tests of graphconv.io.readers: data frames, networkx graphs and PyG data."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from tests.small_tables import dense

from graphconv.io.readers import from_frames, from_networkx, from_pyg


def test_frames_keep_the_types_of_ids_and_are_left_alone():
    edges = pd.DataFrame({"source": [10, 20], "target": [20, 30]}, index=[5, 5])
    nodes = pd.DataFrame({"label": ["a", None], 3: [0.5, 1.5]}, index=pd.Index([20, 10], name="id"))
    before = edges.copy(), nodes.copy()
    graph = from_frames(edges, nodes).graph
    assert graph.node_ids.tolist() == [20, 10, 30]
    assert graph.node_ids.dtype == np.int64
    assert graph.features.tolist() == [[0.5], [1.5], [1]]
    assert graph.feature_names == ("3",)
    pd.testing.assert_frame_equal(edges, before[0])
    pd.testing.assert_frame_equal(nodes, before[1])


def test_frames_with_ids_of_any_kind():
    ends = pd.DataFrame({"source": [(0, 1), "a"], "target": ["a", 2.5]})
    assert from_frames(ends).graph.node_ids.tolist() == [(0, 1), "a", 2.5]
    ends = pd.DataFrame({"source": pd.Categorical(["x"]), "target": pd.Categorical(["y"])})
    assert from_frames(ends).graph.node_ids.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match=r"^edges: ids must be hashable"):
        from_frames(pd.DataFrame({"source": [[1]], "target": [[2]]}))


def test_errors_in_frames_name_their_row():
    edges = pd.DataFrame({"source": ["a", None], "target": ["b", "c"]})
    with pytest.raises(ValueError, match=r"^edges\.iloc\[1\]: column 'source' must name a node"):
        from_frames(edges)
    with pytest.raises(TypeError, match=r"edges must be a path or a data frame .* got list"):
        from_frames([[0, 1]])
    with pytest.raises(TypeError, match=r"edges must be a path or a data frame .* got Series"):
        from_frames(edges["source"])
    with pytest.raises(TypeError, match="'colour'"):
        from_frames(edges, colour="blue")


def test_networkx_by_hand():
    graph = nx.Graph()
    graph.add_node("a", club="x", age=3, unused="text")
    graph.add_node("b", age=4)
    graph.add_node(("c", 1), club="y", age=5)
    graph.add_edge("a", "b", weight=2.5)
    graph.add_edge("b", ("c", 1))
    loaded = from_networkx(graph, label="club", features="age")
    assert loaded.graph.node_ids.tolist() == ["a", "b", ("c", 1)]
    assert dense(loaded.graph) == [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]]
    assert loaded.graph.features.tolist() == [[3], [4], [5]]
    assert loaded.graph.class_names == ("x", "y")
    assert loaded.graph.labels.tolist() == [0, -1, 1]
    assert loaded.notes == ("graph: node attributes not used: 'unused'",)
    directed = from_networkx(graph, label="club", directed=True, weight=None).graph
    assert dense(directed) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert directed.features is None


def test_directed_networkx_and_parallel_edges():
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)])
    loaded = from_networkx(graph, directed=True, duplicates="sum")
    assert dense(loaded.graph) == [[0, 2, 0], [0, 0, 1], [0, 0, 0]]
    assert loaded.graph.node_ids.dtype == np.int64
    assert "2 directed edges were made undirected (directed=True keeps directions)" in (
        from_networkx(graph).notes
    )


def test_networkx_vectors_and_kinds():
    graph = nx.path_graph(2)
    for node, vector in ((0, [1.0, 2.0]), (1, np.array([3.0, 4.0]))):
        graph.nodes[node].update(x=vector, kind="k", label=node, split="train")
    loaded = from_networkx(graph, features=["x"], categorical=["kind"]).graph
    assert loaded.features.toarray().tolist() == [[1, 2, 1], [3, 4, 1]]
    assert loaded.feature_names == ("x_0", "x_1", "kind=k")
    graph.nodes[1]["x"] = [1.0]
    with pytest.raises(ValueError, match=r"^graph, node 1: attribute 'x' must hold 2 numbers"):
        from_networkx(graph, features="x")


def test_bad_networkx_attributes():
    graph = nx.path_graph(3)
    graph.nodes[1]["age"] = 4
    with pytest.raises(ValueError, match=r"^graph, node 0: column 'age' must be a finite number"):
        from_networkx(graph, features="age")
    with pytest.raises(ValueError, match="graph has no column 'club'"):
        from_networkx(graph, label="club")
    with pytest.raises(ValueError, match="graph has no edge with the attribute 'w'"):
        from_networkx(graph, weight="w")
    graph.edges[1, 2]["weight"] = -1
    with pytest.raises(ValueError, match=r"^graph, edge 1 to 2: column 'weight' must not be neg"):
        from_networkx(graph)


def pyg(**fields):
    return SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), **fields)


def test_pyg_by_hand():
    data = pyg(
        x=torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True),
        y=torch.tensor([[1], [0], [1]]),
        edge_attr=torch.tensor([[0.5], [2.0]]),
        train_mask=torch.tensor([True, False, False]),
        val_mask=torch.tensor([False, True, False]),
        test_mask=torch.tensor([False, False, True]),
        num_nodes=3,
    )
    graph = from_pyg(data, name="mine").graph
    assert dense(graph) == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    assert graph.features.tolist() == [[1], [2], [3]]
    assert graph.labels.tolist() == [1, 0, 1]
    splits = (graph.train_index, graph.validation_index, graph.test_index)
    assert [index.tolist() for index in splits] == [[0], [1], [2]]


def test_pyg_without_nodes_fields_and_with_several_edge_attributes():
    graph = from_pyg(pyg(edge_attr=torch.ones(2, 4)), directed=True).graph
    assert dense(graph) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert from_pyg(pyg(num_nodes=5)).graph.n_nodes == 5


def test_pyg_sparse_features_indicator_labels_and_several_splits():
    wanted = torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    csr = sp.csr_array(wanted.numpy())
    for x in (wanted.to_sparse(), csr):
        labels = torch.tensor([[1.0, 0.0], [float("nan")] * 2, [1.0, 1.0]])
        masks = torch.tensor([[True, False], [False, False], [False, True]])
        data = pyg(x=x, y=labels, train_mask=masks)
        graph = from_pyg(data, split=1).graph
        assert graph.features.toarray().tolist() == wanted.tolist()
        assert graph.labels.tolist() == [[1, 0], [-1, -1], [1, 1]]
        assert graph.train_index.tolist() == [2]
    with pytest.raises(ValueError, match=r"^split must be 0\.\.1, got 2$"):
        from_pyg(data, split=2)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_pyg_compressed_sparse_features():
    wanted = torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    loaded = from_pyg(pyg(x=wanted.to_sparse_csr()))
    assert loaded.graph.features.toarray().tolist() == wanted.tolist()


def test_bad_pyg_data():
    with pytest.raises(ValueError, match="data must have an edge_index, got none"):
        from_pyg(SimpleNamespace(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match=r"of shape \(2, n_edges\), got int64 \(3, 2\)"):
        from_pyg(SimpleNamespace(edge_index=torch.zeros(3, 2, dtype=torch.int64)))
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="edge weights must be finite and not negative"):
            from_pyg(pyg(edge_weight=torch.tensor([1.0, weight])))
    with pytest.raises(ValueError, match="labels must be class numbers"):
        from_pyg(pyg(y=torch.tensor([0.5, 1.0, 2.0])))
