"""ingest takes what train takes: roles, lists, dates, empty cells, other files and databases."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from graphconv.io.readers import read_tables
from graphconv.io.table_graph import TableOptions
from graphconv.storage.ingest import IngestRequest, ingest
from graphconv.storage.stored_graph import open_graph

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


def test_text_is_left_out_with_a_word(tmp_path):
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edge_frame().to_csv(edges, index=False)
    titles = [f"a long title number {n}" for n in range(N_NODES)]
    node_frame()[["id", "label"]].assign(title=titles).to_csv(nodes, index=False)
    manifest = ingest(IngestRequest((str(edges),), (str(nodes),), tmp_path / "graph"))
    told = "column 'title' ignored: it looks like text, which ingest does not take"
    assert told in manifest["notes"]
    assert open_graph(tmp_path / "graph").features is None
