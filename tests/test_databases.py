"""Tables from a real SQLite file, a real DuckDB file and a real PostgreSQL server."""

import sqlite3

import numpy as np
import pytest
from tests.postgresql import PASSWORD, running_server

from graphconv.io.databases import DatabaseTable, with_query, without_password
from graphconv.io.readers import read_tables

EDGES = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 0.5), ("d", "a", 1.0)]
NODES = [
    ("a", "x", 31, "2024-02-01", "red"),
    ("b", "y", 47, "2023-12-24", "blue"),
    ("c", "x", None, "2024-03-03", "red"),
    ("d", None, 25, "2024-03-04", "blue"),
]
CREATE = (
    "CREATE TABLE links (source TEXT, target TEXT, weight DOUBLE PRECISION)",
    "CREATE TABLE people (id TEXT, label TEXT, age INTEGER, since DATE, colour TEXT)",
)


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sqlite") / "shop.db"
    with sqlite3.connect(path) as connection:
        for statement in CREATE:
            connection.execute(statement)
        connection.executemany("INSERT INTO links VALUES (?, ?, ?)", EDGES)
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", NODES)
        connection.execute("CREATE TABLE mixed (a, b)")
        rows = [(n, n) for n in range(2000)] + [("word", 0.5)]
        connection.executemany("INSERT INTO mixed VALUES (?, ?)", rows)
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def duckdb_file(tmp_path_factory):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path_factory.mktemp("duckdb") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in CREATE:
            connection.execute(statement)
        connection.executemany("INSERT INTO links VALUES (?, ?, ?)", EDGES)
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", NODES)
    return f"duckdb:///{path}"


@pytest.fixture(scope="module")
def server():
    postgresql = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with running_server() as place:
        connection = postgresql.connect(place)
        with connection.cursor() as cursor:
            for statement in CREATE:
                cursor.execute(statement)
            cursor.executemany("INSERT INTO links VALUES ($1, $2, $3)", EDGES)
            for row in NODES:
                cells = ", ".join("NULL" if cell is None else f"'{cell}'" for cell in row)
                cursor.execute(f"INSERT INTO people VALUES ({cells})")
            cursor.execute("CREATE SCHEMA old")
            cursor.execute("CREATE TABLE old.links AS SELECT * FROM links")
            cursor.execute("CREATE TABLE vectors (id TEXT, v FLOAT8[], price NUMERIC, ok BOOLEAN)")
            cursor.execute("INSERT INTO vectors VALUES ('a', '{1,2}', 1.50, true)")
        connection.commit()
        connection.close()
        yield place


@pytest.fixture(params=["sqlite_file", "duckdb_file", "server"])
def database(request):
    return request.getfixturevalue(request.param)


def test_tables_of_a_database(database):
    loaded = read_tables(
        f"{database}?table=links", f"{database}?table=people", missing_value="mean"
    )
    graph = loaded.graph
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert graph.adjacency[2, 3] == graph.adjacency[3, 2] == 0.5
    assert graph.labels.tolist() == [0, 1, 0, -1]
    assert graph.feature_names[:2] == ("age", "since.year")
    assert graph.feature_names[-2:] == ("colour=blue", "colour=red")
    ages = graph.features.toarray()[:, 0]
    np.testing.assert_allclose(ages, [31, 47, np.mean([31, 47, 25]), 25], rtol=1e-6)
    assert any(line.startswith("column 'since' taken as a date") for line in loaded.columns)


def test_queries(database):
    edges = with_query(database, "SELECT source, target FROM links WHERE weight >= 1")
    assert read_tables(edges).graph.n_edges == 3


def test_what_is_wrong_is_one_line(database):
    with pytest.raises(
        ValueError, match=r"has no table 'lnks'; its tables are .*links.* \(did you"
    ):
        read_tables(f"{database}?table=lnks")
    with pytest.raises(ValueError, match=r"must have \?table=NAME or a query; its tables are"):
        read_tables(database)
    with pytest.raises(ValueError, match=r"^[\w.]+:query: [^\n]*nowhere"):
        read_tables(with_query(database, "SELECT * FROM nowhere"))
    with pytest.raises(ValueError, match=r"^\S+:links has no rows|:query has no rows$"):
        read_tables(with_query(database, "SELECT * FROM links WHERE weight > 99"))
    with pytest.raises(
        ValueError, match=r"^\S+:links, row 1: column 'weight' must be|has no column"
    ):
        read_tables(f"{database}?table=links", weight="colour")


def test_nothing_can_be_changed(database):
    with pytest.raises(ValueError, match=r"(?i)read.?only|syntax error|only select"):
        read_tables(with_query(database, "DELETE FROM links"))
    assert read_tables(f"{database}?table=links").graph.n_edges == 4


def test_cells_of_several_types_in_a_column_of_sqlite(sqlite_file):
    frame = DatabaseTable.parse(f"{sqlite_file}?table=mixed").read().frame
    assert frame["a"].tolist()[-2:] == ["1999", "word"]
    assert frame["b"].tolist()[-2:] == [1999, 0.5]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_tables(f"sqlite:///{tmp_path}/none.db?table=links")
    assert not list(tmp_path.iterdir())


def test_types_and_schemas_of_postgresql(server):
    assert read_tables(f"{server}?table=old.links").graph.n_edges == 4
    frame = DatabaseTable.parse(f"{server}?table=vectors").read().frame
    assert frame["v"].iloc[0].tolist() == [1, 2]
    assert float(frame["price"].iloc[0]) == 1.5
    assert bool(frame["ok"].iloc[0]) is True


@pytest.mark.parametrize(
    "words", [("inspect",), ("train", "--max-epochs", 2, "--missing-value", "mean")]
)
def test_passwords_are_shown_nowhere(server, run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    tables = ("--edges", f"{server}?table=links", "--nodes", f"{server}?table=people")
    done = run(*words, *tables)
    wrong = server.replace("p%40ss%2Fword", "s3cret")
    refused = run("train", "--edges", f"{wrong}?table=links", expect=2)
    assert "authentication failed" in refused.err[-1]
    said = "\n".join([done.out, *done.err, *refused.err])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files or words[0] == "inspect"
    for secret in (PASSWORD, "p%40ss%2Fword", "s3cret"):
        assert secret not in said
        assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert words[0] == "train" or "postgresql://ann@127.0.0.1" in done.out


def test_connection_strings_without_their_password():
    shown = without_password("postgresql://ann:secret@db/shop?password=other&table=edges")
    assert shown == "postgresql://ann@db/shop?table=edges"
    assert without_password("sqlite:///shop.db?table=a") == "sqlite:///shop.db?table=a"


def test_a_query_on_the_command_line(sqlite_file, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query = "SELECT source, target FROM links"
    done = run("inspect", "--edges", sqlite_file, "--edges-query", query)
    assert "edges: shop.db:query, 4 rows" in done.out
    refused = run("train", "--edges", "edges.csv", "--edges-query", query, expect=2)
    assert refused.err == ["graphconv: a query needs a database, got 'edges.csv'"]
