"""A node's columns on a card, whatever the data was read from."""

import sqlite3
from io import StringIO

import pandas as pd
import pytest

from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, load_data
from graphconv.io.readers import LoadedGraph, from_frames
from graphconv.report._node_details import columns_of_nodes, neighbours_of_all
from graphconv.report.cards import Cards

NODES = "id,label,title,year\nu1,a,Of graphs,2019\nu2,,Of trees,2020\n"
EDGES = "source,target\nu1,u2\nu2,u3\n"
EXPECTED = [("title", "Of graphs"), ("year", "2019")]


def cards_of(*, nodes=None, edges=("edges.csv",), name=None, **options):
    request = DataRequest(name, edges, nodes, options)
    return Cards.of_loaded(load_data(request, Screen(quiet=True), require_label=False))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    (tmp_path / "nodes.csv").write_text(NODES)
    return tmp_path


def test_one_file_and_several(folder):
    assert cards_of(nodes=("nodes.csv",)).columns(0) == EXPECTED
    assert cards_of(nodes=("nodes.csv",)).columns(2) == []  # only the edges name it
    head, first, second = NODES.splitlines()
    (folder / "n1.csv").write_text(f"{head}\n{first}\n")
    (folder / "n2.csv").write_text(f"{head}\n{second}\n")
    assert cards_of(nodes=("n1.csv", "n2.csv")).columns(1) == [
        ("title", "Of trees"),
        ("year", "2020"),
    ]


def test_nodes_of_several_types(folder):
    (folder / "items.csv").write_text("id,price\ni1,7\n")
    (folder / "edges.csv").write_text("source,target\nu1,i1\nu2,i1\n")
    cards = cards_of(nodes=("user=nodes.csv", "item=items.csv"))
    assert cards.columns(0) == EXPECTED


def test_a_database(folder):
    with sqlite3.connect(folder / "shop.db") as shop:
        pd.read_csv("nodes.csv").to_sql("nodes", shop, index=False)
    shop.close()
    cards = cards_of(nodes=("sqlite:///shop.db?table=nodes",))
    assert cards.columns(0)[0] == EXPECTED[0]
    assert [name for name, _ in cards.columns(0)] == ["title", "year"]


def test_a_graph_file(folder):
    (folder / "g.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="t" for="node" attr.name="title" attr.type="string"/>'
        '<graph edgedefault="undirected"><node id="u1"><data key="t">Of graphs</data></node>'
        '<node id="u2"><data key="t">Of trees</data></node>'
        '<edge source="u1" target="u2"/></graph></graphml>'
    )
    assert cards_of(edges=None, name="g.graphml").columns(0) == EXPECTED[:1]


def test_a_model_folder_has_its_features_only():
    """Of a folder that is loaded again there is no table: columns are read back from features."""
    frame = pd.read_csv(StringIO(NODES + "u3,b,Of bushes,2021\n"))
    loaded = from_frames(pd.read_csv(StringIO(EDGES)), frame, text=["title"])
    cards = Cards.of_loaded(LoadedGraph(loaded.graph, loaded.encoding))
    assert dict(cards.columns(0)) == {"year": "2019", "title": "graphs, of"}
    assert cards.summary(0) == "graphs, of"


def test_details_stay_within_bounds(folder, monkeypatch):
    cards = cards_of(nodes=("nodes.csv",))
    counts, named = neighbours_of_all(cards, cards.graph.labels)
    assert counts.tolist() == [1, 2, 1]
    assert named.tolist() == [1, 0, 2, 1]  # who has a label comes first
    found = columns_of_nodes(cards, [1])
    assert found["names"] == ["title", "year"]
    assert found["cells"] == {"1": [0, "Of trees", 1, "2020"], "0": [0, "Of graphs", 1, "2019"]}
    monkeypatch.setattr("graphconv.report._node_details.MOST_LETTERS", 25)
    assert list(columns_of_nodes(cards, [1])["cells"]) == ["1"]
    monkeypatch.setattr("graphconv.report._node_details.MOST_NEIGHBOURS", 3)
    assert neighbours_of_all(cards, cards.graph.labels) is None
