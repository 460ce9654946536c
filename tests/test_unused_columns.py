"""What files and graphs hold and nothing is made of is named."""

import networkx as nx
import pytest
from tests.small_tables import NODES, read, write

from graphconv.io.graph_files import read_graph_file
from graphconv.io.readers import from_networkx
from graphconv.io.table_columns import unused


def test_columns_of_edges(tmp_path):
    edges = "source,target,weight,date,amount\nann,bob,1,2024-01-02,5\nbob,cy,2,2024-01-03,6\n"
    assert read(tmp_path, edges, NODES).notes[0] == "edges.csv: columns not used: 'date', 'amount'"


def test_all_columns_of_edges_are_used(tmp_path):
    edges = "from,to,w\nann,bob,1\nbob,cy,2\n"
    loaded = read(tmp_path, edges, NODES, source="from", target="to", weight="w")
    assert not any("not used" in note for note in loaded.notes)


def test_many_names_are_cut():
    assert unused("g", "columns", range(10)) == [
        "g: columns not used: '0', '1', '2', '3', '4', '5', '6', '7' and 2 more"
    ]


def test_attributes_of_a_networkx_graph():
    graph = nx.Graph()
    graph.add_node("a", label="x", age=3, mood="good")
    graph.add_node("b", label="y", age=4, mood="bad")
    graph.add_edge("a", "b", weight=2, since=1999)
    loaded = from_networkx(graph, features="age")
    assert loaded.notes[:2] == (
        "graph: node attributes not used: 'mood'",
        "graph: edge attributes not used: 'since'",
    )
    assert loaded.graph.feature_names == ("age",)


def gephi(n_nodes=12):
    """A graph as Gephi exports it: a name, a place, a size and a colour for each node."""
    graph = nx.path_graph(n_nodes)
    for node, data in graph.nodes(data=True):
        data |= {"label": f"Node {node}", "x": 1.5 * node, "y": 2.0, "size": 10.0}
        data |= {"r": 200, "g": 0, "b": 17, "topic": "tea" if node % 2 else "coffee", "age": node}
    return graph


def test_drawings_and_names_of_graphml(tmp_path):
    nx.write_graphml(gephi(), tmp_path / "g.graphml")
    loaded = read_graph_file(tmp_path / "g.graphml", label="topic")
    assert loaded.graph.feature_names == ("age",)
    assert loaded.graph.class_names == ("coffee", "tea")
    assert loaded.notes[0] == (
        "g.graphml: places, sizes and colours not used: 'x', 'y', 'size', 'r', 'g', 'b'"
    )


def test_a_label_for_every_node_is_no_class(tmp_path):
    nx.write_graphml(gephi(), tmp_path / "g.graphml")
    loaded = read_graph_file(tmp_path / "g.graphml", ignore=["topic"])
    assert loaded.graph.n_classes == 0
    assert loaded.notes[1] == (
        "g.graphml: every node has another label: taken as names, not as classes"
    )


@pytest.mark.parametrize("options", [{"roles": {"size": "number"}}])
def test_what_is_declared_is_used(tmp_path, options):
    nx.write_graphml(gephi(), tmp_path / "g.graphml")
    loaded = read_graph_file(tmp_path / "g.graphml", label="topic", **options)
    assert "size" in loaded.graph.feature_names


def test_a_column_called_x_is_a_feature(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 1.0, 1: 2.0, 2: 4.0}, "x")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    assert read_graph_file(tmp_path / "g.graphml").graph.feature_names == ("x",)


def test_gexf(tmp_path):
    nx.write_gexf(gephi(), tmp_path / "g.gexf")
    graph = read_graph_file(write(tmp_path, (tmp_path / "g.gexf").read_bytes(), "h.gexf")).graph
    assert graph.n_classes == 0
