"""Edges with features become nodes that carry them: tables, networkx graphs, the command line."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from graphconv import GCNClassifier
from graphconv.io.readers import from_frames, from_networkx, read_tables
from graphconv.storage.stored_graph import open_graph

NODES = pd.DataFrame(
    {"id": ["ann", "bob", "cy"], "label": ["x", "y", None], "age": [30.0, 50.0, 40.0]}
)
EDGES = pd.DataFrame(
    {"source": ["ann", "bob", "ann"], "target": ["bob", "cy", "bob"], "amount": [2.0, 4.0, 9.0]}
)


def test_a_graph_by_hand():
    loaded = from_frames(EDGES, NODES, edge_features=["amount"])
    graph = loaded.graph
    # Three people, then the three payments: the second of ann to bob is a node of its own.
    assert graph.node_ids.tolist() == [
        "ann", "bob", "cy", "edge:ann to bob", "edge:bob to cy", "edge:ann to bob#2",
    ]  # fmt: skip
    expected = np.zeros((6, 6))
    for person, payment in ((0, 3), (1, 3), (1, 4), (2, 4), (0, 5), (1, 5)):
        expected[person, payment] = expected[payment, person] = 1
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    # A payment has no age and a person no amount: the mean of the column, 40 and 5, says least.
    assert graph.feature_names == ("node.age", "edge.amount", "type=node", "type=edge")
    np.testing.assert_allclose(
        graph.features.toarray(),
        [
            [30, 5, 1, 0], [50, 5, 1, 0], [40, 5, 1, 0],
            [40, 2, 0, 1], [40, 4, 0, 1], [40, 9, 0, 1],
        ],
    )  # fmt: skip
    assert (graph.n_entities, graph.n_edges, graph.directed) == (3, 6, False)
    assert graph.labels.tolist() == [0, 1, -1, -1, -1, -1]
    assert "3 edges made nodes that carry 'amount'" in loaded.notes
    assert not any("undirected" in note for note in loaded.notes)


def test_a_layer_by_hand():
    """A-hat X of the bipartite graph: a payment's amount reaches those who paid and were paid."""
    graph = from_frames(EDGES, NODES, edge_features="amount").graph
    with_loops = graph.adjacency.toarray() + np.eye(6)
    scale = with_loops.sum(axis=1) ** -0.5
    amounts = graph.features.toarray()[:, 1]
    found = (scale[:, None] * with_loops * scale) @ amounts
    # ann has two payments, 2 and 9, of degree 3 (with the loop) each; her own degree is 3.
    assert found[0] == pytest.approx(5 / 3 + (2 + 9) / 3)
    # cy has one, 4, between degrees 2 and 3.
    assert found[2] == pytest.approx(5 / 2 + 4 / 6**0.5)


def test_categories_and_columns_in_another_case():
    edges = EDGES.assign(kind=["cash", "card", "cash"]).rename(columns={"amount": "Amount"})
    loaded = from_frames(edges, NODES, edge_features=["amount", "kind"])
    assert loaded.graph.feature_names[1:4] == ("edge.Amount", "edge.kind=card", "edge.kind=cash")
    np.testing.assert_array_equal(
        loaded.graph.features.toarray()[3:, 2:4], [[0, 1], [1, 0], [0, 1]]
    )


def test_self_loops_weights_and_no_node_table():
    edges = EDGES.assign(target=["bob", "bob", "bob"], weight=[1.0, 2.0, 3.0])
    kept = from_frames(edges, edge_features=["amount"]).graph
    assert kept.node_ids.tolist()[2:] == ["edge:ann to bob", "edge:bob to bob", "edge:ann to bob#2"]
    np.testing.assert_array_equal(kept.adjacency.toarray()[:2, 2:], [[1, 0, 3], [1, 4, 3]])
    dropped = from_frames(edges, edge_features=["amount"], self_loops="drop").graph
    np.testing.assert_array_equal(dropped.adjacency.toarray()[:2, 2:], [[1, 3], [1, 3]])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"edge_features": ["amont"]}, "did you mean 'amount'"),
        ({"edge_features": ["source"]}, "column 'source' must have one use, got 2"),
        ({"edge_features": ["amount"], "directed": True}, "undirected graph, which has no direct"),
        ({"edge_features": ["amount"], "source_type": "user"}, "nodes of one type"),
        ({"edge_features": ["note"]}, "column 'note' must tell edges apart"),
        ({"edge_features": ["gap"]}, "column 'gap' must be a finite number"),
    ],
)
def test_what_cannot_be_meant_is_refused(more, message):
    edges = EDGES.assign(note="same", gap=[1.0, None, 2.0])
    with pytest.raises(ValueError, match=message):
        from_frames(edges, NODES, **more)


def test_networkx_edges_carry_attributes():
    club = nx.Graph()
    club.add_node("ann", label="x")
    club.add_node("bob", label="y")
    club.add_edge("ann", "bob", amount=7.0, other=1)
    loaded = from_networkx(club, edge_features=["amount"])
    assert loaded.graph.node_ids.tolist() == ["ann", "bob", "edge:ann to bob"]
    assert loaded.graph.features.toarray()[2, 0] == 7
    assert any("'other'" in note for note in loaded.notes)
    with pytest.raises(ValueError, match="no edge with the attribute 'sum'"):
        from_networkx(club, edge_features=["sum"])


def write_payments(folder, n_people=60):
    """People of two kinds that differ in nothing but the size of what they pay."""
    rng = np.random.default_rng(0)
    payer = np.repeat(np.arange(n_people), 3)
    paid = (payer + rng.integers(1, n_people, len(payer))) % n_people
    kind = np.arange(n_people) % 2
    amount = np.where(kind[payer] == kind[paid], 20 * kind[payer], 10) + rng.random(len(payer))
    names = np.array([f"p{number}" for number in range(n_people)])
    pd.DataFrame({"source": names[payer], "target": names[paid], "amount": amount.round(2)}).to_csv(
        folder / "edges.csv", index=False
    )
    nodes = pd.DataFrame({"id": names, "label": np.where(kind == 1, "big", "small")})
    nodes.loc[40:, "label"] = ""
    nodes.to_csv(folder / "nodes.csv", index=False)
    return names, kind


def test_the_commands_take_edge_features(run, tmp_path):
    names, _ = write_payments(tmp_path)
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv"]
    done = run("inspect", *tables, "--edge-features", "amount")
    assert "amount   feature of the edge" in done.out
    done = run("inspect", *tables, "--edge-features", "amout")
    assert "did you mean 'amount'" in done.out
    run(
        "train", *tables, "--edge-features", "amount", "--hidden", "8",
        "--output", "m",
    )  # fmt: skip
    rows = pd.read_csv(tmp_path / "m" / "predictions.csv")
    assert rows["id"].tolist() == names.tolist()  # people alone are reported
    # The same tables, read again for the model, give the same answers.
    run("predict", "m", *tables, "--output", "again.csv")
    again = pd.read_csv(tmp_path / "again.csv")
    assert again["label"].tolist() == rows["label"].tolist()
    # Somebody new, known by what he pays alone.
    (tmp_path / "new.csv").write_text("source,target,amount\nnew,p1,20.5\nnew,p3,20.4\n")
    done = run("predict", "m", "--edges", "new.csv", "--output", "new.out.csv")
    new = pd.read_csv(tmp_path / "new.out.csv").set_index("id")
    assert "new" in new.index
    assert not any(str(node).startswith("edge:") for node in new.index)
    (tmp_path / "bad.csv").write_text("source,target\nnew,p1\n")
    done = run("predict", "m", "--edges", "bad.csv", "--output", "o.csv", expect=2)
    assert "has no column 'amount'" in done.err[-1]


def test_edges_tell_what_nodes_do_not(tmp_path):
    _, kind = write_payments(tmp_path)
    rows = {}
    for columns in ((), ("amount",)):
        loaded = read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", edge_features=columns)
        clf = GCNClassifier(hidden=8, max_epochs=200, random_state=0).fit(loaded.graph)
        rows[columns] = np.mean(clf.predict()[40:60] == np.where(kind[40:] == 1, "big", "small"))
    # 20 people: chance is 10, and with amounts at least 17 would be luck in one of 700 cases.
    assert rows["amount",] >= 17 / 20 > rows[()]


def test_ingest_takes_them_too(run, tmp_path):
    write_payments(tmp_path)
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--edge-features", "amount"]
    run("ingest", *tables, "--output", "g")
    stored = open_graph(tmp_path / "g")
    read = read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", edge_features=["amount"])
    assert stored.n_entities == read.graph.n_entities == 60
    np.testing.assert_array_equal(
        stored.features.toarray() if hasattr(stored.features, "toarray") else stored.features,
        read.graph.features.toarray(),
    )
