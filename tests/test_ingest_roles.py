"""ingest takes what train takes: roles, lists, dates, empty cells, other files and databases."""

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from graphconv.io.readers import read_tables
from graphconv.io.table_graph import TableOptions
from graphconv.storage.ingest import IngestRequest, ingest
from graphconv.storage.stored_graph import open_graph, read_manifest

N_NODES = 30


def node_frame():
    rng = np.random.default_rng(0)
    places = np.arange(N_NODES)
    return pd.DataFrame(
        {
            "id": [f"n{place}" for place in places],
            "label": np.where(places % 3, "x", "y"),
            "age": np.where(places % 7, places, np.nan),
            "active": places % 2 == 0,
            "word": np.where(places % 2, "ja", "nein"),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(places * 11, unit="D"),
            "town": np.where(places % 4, "Oslo", "Rome"),
            "vector": list(rng.normal(size=(N_NODES, 3)).round(3)),
            "name": [f"Anna{place}" for place in places],
        }
    )


def edge_frame():
    places = np.arange(N_NODES)
    ends = [f"n{place}" for place in (places * 7 + 1) % N_NODES]
    return pd.DataFrame({"Source": [f"n{place}" for place in places], "Target": ends})


def same(request, loaded):
    """The stored graph has what the readers read."""
    manifest = ingest(request)
    graph, expected = open_graph(request.output), loaded.graph
    assert graph.feature_names == expected.feature_names
    assert graph.node_ids.tolist() == expected.node_ids.tolist()
    np.testing.assert_array_equal(graph.labels, expected.labels)
    assert (graph.adjacency != expected.adjacency).nnz == 0
    np.testing.assert_allclose(graph.unknown_features, expected.unknown_features, rtol=1e-6)
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    wanted = expected.features
    wanted = wanted.toarray() if sp.issparse(wanted) else wanted
    np.testing.assert_allclose(features, wanted, rtol=1e-5)
    assert set(loaded.columns) <= set(manifest["notes"])


@pytest.mark.parametrize("missing_value", ["mean", "zero"])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_every_role(tmp_path, suffix, missing_value):
    edges, nodes = tmp_path / "edges.csv", tmp_path / f"nodes.{suffix}"
    edge_frame().to_csv(edges, index=False)
    frame = node_frame()
    if suffix == "parquet":
        frame.to_parquet(nodes)
    else:
        plain = frame.assign(vector=[cell.tolist() for cell in frame["vector"]])
        plain["joined"] = plain["joined"].dt.strftime("%Y-%m-%d")
        if suffix == "csv":
            plain.to_csv(nodes, index=False)
        else:
            plain.to_json(nodes, orient="records", lines=True)
    options = TableOptions(missing_value=missing_value)
    request = IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph", options)
    same(request, read_tables(edges, nodes, missing_value=missing_value))


def test_a_national_export(tmp_path):
    edges, nodes = tmp_path / "kanten.csv", tmp_path / "kunden.csv"
    edge_frame().to_csv(edges, index=False, sep=";")
    rows = "".join(f"n{n};{'ab'[n % 2]};1.{n:03d},5\n" for n in range(N_NODES))
    nodes.write_bytes(("id;label;Größe\n" + rows).encode("cp1252"))
    request = IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph")
    same(request, read_tables(edges, nodes))


def test_a_database(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        edge_frame().to_sql("edges", connection, index=False)
        columns = ["id", "label", "age", "word"]
        node_frame()[columns].to_sql("nodes", connection, index=False)
    connection.close()
    edges, nodes = (f"sqlite:///{path}?table={name}" for name in ("edges", "nodes"))
    options = TableOptions(missing_value="mean")
    request = IngestRequest((edges,), (nodes,), tmp_path / "graph", options)
    same(request, read_tables(edges, nodes, missing_value="mean"))


def test_bad_cells_are_named_with_their_line(tmp_path):
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edge_frame().to_csv(edges, index=False)
    frame = node_frame()[["id", "label"]].assign(since="2024-01-01")
    frame.loc[20_000 % N_NODES, "since"] = "soon"
    frame.to_csv(nodes, index=False)
    options = TableOptions(date=["since=%Y-%m-%d"])
    with pytest.raises(ValueError, match=r"^nodes\.csv, line 22: column 'since' must be a date"):
        ingest(IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph", options))


def test_text_and_names_with_weights(tmp_path):
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edge_frame().to_csv(edges, index=False)
    words = ["graph", "node", "edge", "label", "class", "paper", "ground"]
    frame = node_frame()[["id", "label"]].assign(
        title=[f"the {words[n % 7]} of {words[n % 5]} and number {n}" for n in range(N_NODES)],
        tags=[f"a:{n % 4} {words[n % 3]}:2.5" if n % 9 else "" for n in range(N_NODES)],
    )
    frame.to_csv(nodes, index=False)
    request = IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph")
    loaded = read_tables(edges, nodes)
    assert [role.split(" taken as ")[1] for role in loaded.columns] == [
        "text",
        "sparse numbers, 4 different",
    ]
    same(request, loaded)
    declared = replace(request, options=TableOptions(text=["title"], roles={"tags": "sparse"}))
    same(declared, read_tables(edges, nodes, text=["title"], roles={"tags": "sparse"}))


def test_rare_names_beyond_the_sample_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("graphconv.storage._ingest_features._SAMPLE_ROWS", 10)
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edge_frame().to_csv(edges, index=False)
    tags = [f"a:1 {'z' if n == 29 else 'b'}:2" for n in range(N_NODES)]
    node_frame()[["id", "label"]].assign(tags=tags).to_csv(nodes, index=False)
    same(IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph"), read_tables(edges, nodes))
    assert "tags:z" in open_graph(tmp_path / "graph").feature_names


def test_what_can_not_be_cut_is_read_whole(tmp_path):
    people, items = tmp_path / "people.csv", tmp_path / "items.csv"
    people.write_text("id,label,age\n1,x,31\n2,y,40\n3,,20\n4,x,35\n")
    items.write_text("id,price\n1,5.5\n2,7\n")
    bought = tmp_path / "bought.csv"
    bought.write_text("source,target\n1,1\n2,1\n2,2\n3,2\n9,2\n")
    triples = tmp_path / "triples.csv"
    triples.write_text("source,relation,target\n1,knows,2\n2,likes,3\n3,knows,4\n")
    plain = tmp_path / "plain.csv"
    plain.write_text("source,target\n1,2\n2,3\n3,4\n")
    matrix = tmp_path / "extra.csv"
    matrix.write_text("id,feature,value\n1,a,2\n3,b,4\n")
    by_type = {"person": [str(people)], "item": [str(items)]}
    cases = [
        (bought, by_type, {"source_type": "person", "target_type": "item"}, None),
        (triples, (str(people),), {}, None),
        (plain, (str(people),), {"label_separator": ";"}, None),
        (plain, (str(people),), {"label": "age", "bins": 2}, None),
        (plain, (str(people),), {}, str(matrix)),
    ]
    for number, (edges, nodes, options, features) in enumerate(cases):
        request = IngestRequest(
            (str(edges),),
            nodes,
            tmp_path / f"graph{number}",
            TableOptions(**options),
            features=features,
        )
        loaded = read_tables(edges, nodes, features=features, **options)
        same(request, loaded)
        stored = open_graph(request.output)
        assert stored.n_entities == loaded.graph.n_entities
        assert stored.unknown_features.tolist() == loaded.graph.unknown_features.tolist()
        manifest = read_manifest(request.output)
        assert manifest["encoding"] == loaded.encoding.to_json()
        assert any("read whole into memory" in note for note in manifest["notes"])


@pytest.mark.parametrize(("n_strange", "is_refused"), [(20, True), (5, False)])
def test_ids_that_are_written_otherwise(tmp_path, n_strange, is_refused):
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    ends = [f"{n}.0" if n < n_strange else str(n) for n in range(30)]
    lines = [f"{end},29" for end in ends]
    edges.write_text("source,target\n" + "\n".join(lines) + "\n")
    nodes.write_text("id,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(30)))
    request = IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph")
    if is_refused:
        with pytest.raises(ValueError, match="written otherwise") as read:
            read_tables(edges, nodes)
        with pytest.raises(ValueError, match="written otherwise") as ingested:
            ingest(request)
        assert str(ingested.value) == str(read.value)
        return
    loaded = read_tables(edges, nodes)
    (note,) = (note for note in loaded.notes if "written otherwise" in note)
    assert note in ingest(request)["notes"]
