"""New rows that join the graph a model knows."""

import csv
import re

import numpy as np
import pandas as pd
import pytest
from tests.command_line import make_runner
from tests.small_tables import dense, read, write

from graphconv.graph import Graph
from graphconv.io._graph_merge import merge_graphs
from graphconv.io.readers import read_tables

EDGES = "source,target\nann,bob\nbob,cy\n"
NODES = "id,label,age\nann,red,31\nbob,,47\ncy,blue,25\n"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return make_runner(monkeypatch, capsys)


def merged(folder, edges, nodes, **options):
    first = read(folder, EDGES, NODES, **options)
    edge_path = None if edges is None else write(folder, edges, "new_edges.csv")
    node_path = None if nodes is None else write(folder, nodes, "new_nodes.csv")
    return read_tables(
        edge_path,
        node_path,
        encoding=first.encoding,
        merge_into=first.graph,
        require_label=False,
        **options,
    )


def test_new_rows_join_old_ones(tmp_path):
    loaded = merged(tmp_path, "source,target\ndan,ann\ndan,eve\n", "id,age,label\ndan,60,red\n")
    graph = loaded.graph
    assert graph.node_ids.tolist() == ["ann", "bob", "cy", "dan", "eve"]
    # Ann keeps her age; nothing is known of Eve.
    assert graph.features.ravel().tolist() == [31, 47, 25, 60, pytest.approx(103 / 3)]
    assert graph.labels.tolist() == [1, -1, 0, 1, -1]
    assert graph.train_index.tolist() == [0, 2]
    assert dense(graph) == [
        [0, 1, 0, 1, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 1],
        [0, 0, 0, 1, 0],
    ]
    assert loaded.notes[-1] == (
        "merged into the 3 nodes of the training: 2 new, 0 with a new row, 3 as they were"
    )
    assert loaded.notes[0].startswith("1 node only in new_edges.csv: no label, features unknown")


def test_a_new_row_replaces_what_was_known(tmp_path):
    loaded = merged(tmp_path, None, "id,age,label\ncy,26,\nbob,48,blue\n")
    assert loaded.graph.features.ravel().tolist() == [31, 48, 26]
    assert loaded.graph.labels.tolist() == [1, 0, 0]  # cy's empty cell takes no label away
    assert dense(loaded.graph) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert loaded.notes[-1].endswith("0 new, 2 with a new row, 1 as they were")


def test_edges_alone(tmp_path):
    loaded = merged(tmp_path, "source,target\nann,cy\n", None)
    assert loaded.graph.features.ravel().tolist() == [31, 47, 25]
    assert dense(loaded.graph)[0] == [0, 1, 1]


def test_an_edge_of_both_has_its_new_weight():
    pair = Graph([[0, 2], [2, 0]], features=[[1.0], [1.0]])
    heavier = Graph([[0, 5], [5, 0]], features=[[1.0], [1.0]])
    assert dense(merge_graphs(pair, heavier, [False, False]).graph) == [[0, 5], [5, 0]]


def test_new_classes_come_after_the_known_ones(tmp_path):
    graph = merged(tmp_path, None, "id,age,label\ndan,60,green\n").graph
    assert graph.class_names == ("blue", "red", "green")
    assert graph.labels.tolist() == [1, -1, 0, 2]


def test_several_labels(tmp_path):
    first = read(tmp_path, EDGES, "id,label,age\nann,red;blue,31\nbob,,47\n", label_separator=";")
    more = write(tmp_path, "id,label,age\ncy,green,5\n", "more.csv")
    graph = read_tables(
        None, more, encoding=first.encoding, merge_into=first.graph, label_separator=";"
    ).graph
    assert graph.class_names == ("blue", "red", "green")
    assert graph.labels.tolist() == [[1, 1, 0], [-1, -1, -1], [0, 0, 1]]


def test_relations_stay_last(tmp_path):
    triples = "source,relation,target\nann,knows,bob\n"
    first = read(tmp_path, triples, NODES)
    more = write(tmp_path, "source,relation,target\ndan,knows,ann\ndan,hates,cy\n", "more.csv")
    graph = read_tables(more, encoding=first.encoding, merge_into=first.graph).graph
    assert graph.node_ids.tolist()[:4] == ["ann", "bob", "cy", "dan"]
    assert graph.n_entities == 4
    assert graph.node_ids.tolist()[4:] == ["knows:head", "knows:tail", "hates:head", "hates:tail"]
    # ann - knows:head and dan - knows:head
    assert np.flatnonzero(graph.adjacency.toarray()[4]).tolist() == [0, 3]


def test_ids_written_otherwise_than_in_the_training(tmp_path):
    first = read(tmp_path, "source,target\n1,2\n2,3\n", "id,label,age\n1,a,3\n2,b,4\n3,,5\n")
    more = write(tmp_path, "source,target\n1.0,2.0\n", "more.csv")
    with pytest.raises(
        ValueError, match=r"probably in the graph, written otherwise: '1.0' for '1'"
    ):
        read_tables(more, encoding=first.encoding, merge_into=first.graph)


def test_a_model_without_features_knows_no_new_node(tmp_path):
    first = read(tmp_path, EDGES, "id,label\nann,red\nbob,\ncy,blue\n")
    more = write(tmp_path, "source,target\nann,dan\n", "more.csv")
    with pytest.raises(ValueError, match="only the nodes it was trained on, but 'dan' is new"):
        read_tables(more, encoding=first.encoding, merge_into=first.graph)


def test_what_merging_needs(tmp_path):
    first = read(tmp_path, EDGES, NODES)
    with pytest.raises(ValueError, match="merge_into needs the encoding"):
        read_tables(tmp_path / "edges.csv", merge_into=first.graph)
    with pytest.raises(ValueError, match="edges must be a file"):
        read_tables(None, tmp_path / "nodes.csv")


def write_customers(folder, n_nodes, n_old):
    """Tables of all customers, of the old ones, and of the rows that the others bring."""
    rng = np.random.default_rng(5)
    kinds = rng.integers(2, size=n_nodes)
    frame = pd.DataFrame(
        {
            "id": [f"c{number}" for number in range(n_nodes)],
            "age": rng.normal(40 + 12 * kinds, 8).round(1),
            "town": np.where(rng.random(n_nodes) < 0.5, "Oslo", "Rome"),
            "label": np.where(rng.random(n_nodes) < 0.5, np.array(["ok", "fraud"])[kinds], ""),
        }
    )
    ends = rng.integers(n_nodes, size=(4 * n_nodes, 2))
    ends = ends[kinds[ends[:, 0]] == kinds[ends[:, 1]]]
    edges = pd.DataFrame(ends, columns=["source", "target"]).map(lambda number: f"c{number}")
    is_old = (ends < n_old).all(axis=1)
    for name, nodes, links in [
        ("all", frame, edges),
        ("old", frame[:n_old], edges[is_old]),
        ("new", frame[n_old:], edges[~is_old]),
    ]:
        (folder / name).mkdir()
        nodes.to_csv(folder / name / "nodes.csv", index=False)
        links.to_csv(folder / name / "edges.csv", index=False)


def tables(name):
    return "--edges", f"{name}/edges.csv", "--nodes", f"{name}/nodes.csv"


def rows(path):
    with open(path, newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_predictions_of_new_rows_are_those_of_the_whole_graph(run, tmp_path):
    write_customers(tmp_path, 150, 120)
    run("train", *tables("old"), "--categorical", "town", "--max-epochs", 40, "-o", "m")
    done = run("predict", "m", *tables("new"), "-o", "new.csv")
    assert any(
        "merged into the 120 nodes of the training: 30 new, 0 with a new row, 120 as they were"
        in line
        for line in done.err
    )
    run("predict", "m", *tables("all"), "--alone", "-o", "all.csv")
    found, expected = rows("new.csv"), rows("all.csv")
    assert found.keys() == expected.keys()
    for node, row in expected.items():
        assert float(found[node]["p_fraud"]) == pytest.approx(float(row["p_fraud"]), abs=1e-5)
    # Alone, old nodes have neither their features nor most of their links.
    run("predict", "m", *tables("new"), "--alone", "-o", "alone.csv")
    alone = rows("alone.csv")
    assert len(alone) < 150
    assert any(abs(float(alone[n]["p_fraud"]) - float(found[n]["p_fraud"])) > 0.05 for n in alone)


def test_other_commands_merge_too(run, tmp_path):
    write_customers(tmp_path, 150, 120)
    run("train", *tables("old"), "--categorical", "town", "--max-epochs", 5, "-o", "m")
    assert run("embed", "m", *tables("new"), "-o", "e.csv", "--json").json["n_nodes"] == 150
    why = run("explain", "m", "c140", *tables("new"), "--json").json
    assert why["n_features"] > 0
    assert run("suggest", "m", *tables("new"), "-n", 3, "--json").json["suggestions"]
    only = run("predict", "m", "--nodes", "new/nodes.csv", "-o", "n.csv", "--json").json
    assert only["n_nodes"] == 150
    done = run("predict", "m", "--nodes", "new/nodes.csv", "--alone", "-o", "n.csv", expect=2)
    assert "--nodes alone is no graph" in done.err[-1]


@pytest.mark.parametrize("prefix", ["c", ""])
def test_new_rows_join_a_graph_on_disk(run, tmp_path, prefix, monkeypatch):
    pytest.importorskip("duckdb")
    write_customers(tmp_path, 150, 120)
    for path in tmp_path.glob("*/*.csv"):  # whole numbers are stored as such
        path.write_text(re.sub(r"\bc(?=\d)", prefix, path.read_text()))
    run("ingest", *tables("old"), "-o", "graph")
    run("train", "graph", "--max-epochs", 20, "-o", "stored")
    run("train", *tables("old"), "--max-epochs", 20, "-o", "m")
    done = run("predict", "stored", *tables("new"), "-o", "stored.csv")
    assert any("merged into the 120 nodes of the training: 30 new" in line for line in done.err)
    run("predict", "m", *tables("new"), "-o", "m.csv")
    stored, in_memory = (
        pd.read_csv(tmp_path / name, index_col=0) for name in ("stored.csv", "m.csv")
    )
    # Features are read from disk as they are stored, and in memory as products read them faster.
    pd.testing.assert_frame_equal(stored, in_memory, rtol=0, atol=2e-6)
    monkeypatch.setattr("graphconv.storage.stored_graph.available_memory", lambda: 1 << 10)
    done = run("predict", "stored", *tables("new"), "-o", "none.csv", expect=2)
    assert "must fit into memory" in done.err[-1]
    assert "ingest the old tables with the new ones" in done.err[-1]
    run("predict", "stored", *tables("new"), "--alone", "-o", "alone.csv")
