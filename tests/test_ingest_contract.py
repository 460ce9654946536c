"""One contract for numbers and blanks: ingest takes what the table reader takes, as the same."""

import numpy as np
import pytest

pytest.importorskip("duckdb")

from graphconv import read_tables
from graphconv.io.table_columns import TableOptions
from graphconv.storage.ingest import IngestRequest, ingest
from graphconv.storage.stored_graph import open_graph

CELLS = [
    "1", "-1.5", "1e5", "1_000", "1__0", "_1", "\u00a01", "1\u00a0", "\u20031\u2003", "\u0661",
    "+1", ".5", "5.", "1e", "0x10", "inf", "nan", "1e400", "true", "1d",
]  # fmt: skip


def outcome(call):
    """What a reader made of a table: ids and numbers, or that it refused."""
    try:
        graph = call()
    except ValueError:
        return "refused"
    features = None if graph.features is None else np.asarray(graph.features).tolist()
    return list(map(str, graph.node_ids.tolist())), features


@pytest.mark.parametrize("cell", CELLS, ids=ascii)
def test_a_number_is_the_same_number_for_both(tmp_path, cell):
    (tmp_path / "e.csv").write_text("source,target\na,b\n", encoding="utf-8")
    (tmp_path / "n.csv").write_text(f"id,label,x\na,p,{cell}\nb,q,2\n", encoding="utf-8")
    edges, nodes = str(tmp_path / "e.csv"), str(tmp_path / "n.csv")

    def ingested():
        ingest(IngestRequest((edges,), (nodes,), tmp_path / "g"))
        return open_graph(tmp_path / "g")

    read = outcome(lambda: read_tables(edges, nodes).graph)
    assert outcome(ingested) == read


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u3000", "\x1f", "\x85"], ids=ascii)
def test_blanks_around_ids_are_the_same_blanks_for_both(tmp_path, blank):
    text = f"source,target\n{blank}a,b{blank}\nb,c\n"
    (tmp_path / "e.csv").write_text(text, encoding="utf-8")
    ingest(IngestRequest((str(tmp_path / "e.csv"),), (), tmp_path / "g"))
    ids = open_graph(tmp_path / "g").node_ids.tolist()
    assert ids == read_tables(tmp_path / "e.csv").graph.node_ids.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text", ["# a graph\n# FromNodeId\tToNodeId\n1\t2\n2\t3\n", "#source,target\n1,2\n2,3\n"]
)
def test_comments_are_passed_over_by_both(tmp_path, text):
    path = tmp_path / "e.txt"
    path.write_text(text, encoding="utf-8")
    ingest(IngestRequest((str(path),), (), tmp_path / "g"))
    stored, read = open_graph(tmp_path / "g"), read_tables(path).graph
    assert [str(node) for node in stored.node_ids.tolist()] == read.node_ids.tolist()
    assert read.node_ids.tolist() == ["1", "2", "3"]
    assert stored.n_edges == read.n_edges == 2


def test_a_row_too_long_is_refused_and_not_dropped(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("source,target\na,b\nc," + "x" * (65 << 20) + "\n")
    with pytest.raises(ValueError, match=r"e\.csv, line 3: ") as caught:
        ingest(IngestRequest((str(path),), (), tmp_path / "g"))
    assert len(str(caught.value)) < 300


def test_a_text_of_four_bytes_a_letter_is_refused_in_words(tmp_path):
    (tmp_path / "e.csv").write_bytes("source,target\na,b\n".encode("utf-32"))
    with pytest.raises(ValueError, match=r"^e.csv has no columns$"):
        ingest(IngestRequest((str(tmp_path / "e.csv"),), (), tmp_path / "g"))


def test_rows_with_too_few_fields_are_filled_up_and_told_by_both(tmp_path):
    edges, nodes = str(tmp_path / "e.csv"), str(tmp_path / "n.csv")
    (tmp_path / "e.csv").write_text("source,target,since\na,b,1990\nb,c\nc,a,\n")
    (tmp_path / "n.csv").write_text('id,text,label\na,"x\ny",p\nb,y,q\n\nc,z\nd\n')
    options = {"roles": ["text=category"]}
    manifest = ingest(IngestRequest((edges,), (nodes,), tmp_path / "g", TableOptions(**options)))
    loaded = read_tables(edges, nodes, **options)
    stored = open_graph(tmp_path / "g")
    assert stored.node_ids.tolist() == loaded.graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert stored.labels.tolist() == loaded.graph.labels.tolist() == [0, 1, -1, -1]
    np.testing.assert_array_equal(stored.features.toarray(), loaded.graph.features.toarray())
    for said in (
        "e.csv: 1 row with fewer than 3 fields, the first in line 3",
        "n.csv: 2 rows with fewer than 3 fields, the first in line 6",
    ):
        note = f"{said}; what is missing is taken as empty"
        assert note in manifest["notes"]
        assert note in loaded.notes


def test_a_row_that_ends_before_its_id_is_refused_by_both(tmp_path):
    edges, nodes = str(tmp_path / "e.csv"), str(tmp_path / "n.csv")
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "n.csv").write_text("x,id,label\n1,a,p\n2,b,q\n3\n")
    with pytest.raises(ValueError, match=r"n\.csv, line 4: column 'id' must name a node, got an"):
        read_tables(edges, nodes)
    with pytest.raises(ValueError, match=r"n\.csv, row 3: column 'id' must name a node, got an"):
        ingest(IngestRequest((edges,), (nodes,), tmp_path / "g"))
