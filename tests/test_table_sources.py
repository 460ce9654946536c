"""Tables from JSON, spreadsheets, standard input and data frames of several libraries."""

import io
import json
import sys
from datetime import date

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from graphconv.io.readers import read_tables
from graphconv.io.table_files import read_table

EDGES = {"source": [1, 2], "target": [2, 3]}
NODES = [
    {"id": 1, "label": "x", "age": 31, "vector": [0.5, 1.0], "since": "2024-02-01"},
    {"id": 2, "label": "y", "age": 47, "vector": [0.25, 2.0], "since": "2023-12-24"},
    {"id": 3, "label": None, "age": 25, "vector": [0.0, 3.0], "since": "2024-03-03"},
]


def features_of(edges, nodes):
    graph = read_tables(edges, nodes).graph
    return graph.features.tolist(), graph.labels.tolist()


@pytest.fixture
def expected():
    return features_of(pd.DataFrame(EDGES), pd.DataFrame(NODES))


def test_json_and_json_lines(tmp_path, expected):
    (tmp_path / "edges.json").write_text(json.dumps(EDGES))
    (tmp_path / "nodes.json").write_text(json.dumps(NODES))
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, NODES)) + "\n\n")
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, NODES)))
    for name in ("nodes.json", "nodes.jsonl", "lines.json"):
        assert features_of(tmp_path / "edges.json", tmp_path / name) == expected
    assert read_table(tmp_path / "nodes.jsonl").at(1) == "nodes.jsonl, line 2"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "[1, 2]", r"^a\.json must hold a list of objects, or an object of lists, got"),
        ("a.json", '{"a": [1], "b": []}', r"^a\.json: all columns must be equally long"),
        ("a.json", "[{]", r"^a\.json, line 1: "),
        ("a.jsonl", '{"a": 1}\n[1]\n', r"^a\.jsonl, line 2: a row must be an object, got '\[1\]"),
        ("a.jsonl", '{"a": 1}\n{"a"\n', r"^a\.jsonl, line 2: Expecting"),
        ("a.xlsx", "no sheet", r"^a\.xlsx must be a spreadsheet"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_spreadsheets(tmp_path, expected):
    rows = [{**row, "since": date.fromisoformat(row["since"])} for row in NODES]
    frame = pd.DataFrame(rows).assign(vector=[str(row["vector"]) for row in NODES])
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="people", index=False)
        pd.DataFrame({"a": [1]}).to_excel(book, sheet_name="other", index=False)
    assert features_of(pd.DataFrame(EDGES), path) == expected
    table = read_table(path)
    assert table.notes == ("book.xlsx: of 2 sheets 'people' is read",)
    assert table.frame["id"].tolist() == [1, 2, 3]
    assert table.at(0) == "book.xlsx, row 2"


def test_of_several_sheets_the_one_with_the_columns_is_read(tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        pd.DataFrame({"note": ["by hand"]}).to_excel(book, sheet_name="About", index=False)
        pd.DataFrame(NODES)[["id", "label"]].to_excel(book, sheet_name="People", index=False)
        pd.DataFrame({"Source": [1], "Target": [2]}).to_excel(
            book, sheet_name="Links", index=False, startrow=2
        )
    loaded = read_tables(path, path)
    assert loaded.graph.n_edges == 1
    assert "book.xlsx: of 3 sheets 'Links' is read" in loaded.notes
    assert "book.xlsx: of 3 sheets 'People' is read" in loaded.notes
    assert read_table(path, ["source", "target"]).at(0) == "book.xlsx, row 4"


def test_a_title_above_a_sheet_is_passed_over(tmp_path):
    path = tmp_path / "book.xlsx"
    rows = [["Survey of 2024", None], [None, None], ["all of it", None], ["id", "label"], [7, "x"]]
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    table = read_table(path)
    assert table.frame.to_dict("list") == {"id": [7], "label": ["x"]}
    assert table.notes == ("book.xlsx: 2 rows of a title passed over",)
    assert table.at(0) == "book.xlsx, row 5"
    pd.DataFrame({"id": [7, 8]}).to_excel(path, index=False)
    assert read_table(path).frame.to_dict("list") == {"id": [7, 8]}


def test_rows_of_separators_alone_are_passed_over(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,label,age\n1,a,3\n,,\n2,b,4\n , ,\n3,,x\n")
    table = read_table(path, ["id"])
    assert table.frame["id"].tolist() == ["1", "2", "3"]
    assert table.notes == ("nodes.csv: 2 empty rows passed over",)
    assert table.at(2) == "nodes.csv, line 6"


@pytest.mark.parametrize(
    "text",
    [
        "id,label\na,p\nb,\n",  # an empty cell is no missing one
        "id,label,\na,p\nb,\n",  # nobody misses a column without a name
        "id,label\na,p\n,\n\n \nb,\n",  # nor the rest of a row without a cell
    ],
)
def test_only_rows_that_lack_a_field_are_told(tmp_path, text):
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    table = read_table(path)
    assert table.frame["label"].tolist() == ["p", ""]
    assert not any("fewer" in note for note in table.notes)
    path.write_text(text + "c\n")
    assert any("1 row with fewer than 2 fields" in note for note in read_table(path).notes)


def test_a_database_given_as_a_file_is_told_how_to_name_it(tmp_path):
    (tmp_path / "shop.db").write_bytes(b"SQLite format 3")
    with pytest.raises(ValueError, match=r"shop\.db must be named as a database.*\?table=NAME$"):
        read_table(tmp_path / "shop.db")


def test_frames_of_any_library_and_files_in_any_mix(tmp_path, expected):
    pd.DataFrame(NODES).to_parquet(tmp_path / "nodes.parquet")
    nodes = [pl.DataFrame(NODES), pa.Table.from_pylist(NODES), tmp_path / "nodes.parquet"]
    for edges in (pd.DataFrame(EDGES), pl.DataFrame(EDGES), pa.table(EDGES)):
        for table in nodes:
            assert features_of(edges, table) == expected
    loaded = read_tables(pl.DataFrame(EDGES), pl.DataFrame(NODES))
    assert loaded.graph.node_ids.tolist() == [1, 2, 3]
    assert read_tables(pl.DataFrame(EDGES), nodes[2]).graph.node_ids.tolist() == ["1", "2", "3"]
    with pytest.raises(TypeError, match=r"^edges must be a path or a data frame of pandas, polars"):
        read_tables({"source": [1]})


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_standard_input(monkeypatch, kind):
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", ""]})
    content = {
        "csv": lambda: frame.to_csv(index=False).encode(),
        "json": lambda: frame.to_json(orient="records").encode(),
        "jsonl": lambda: frame.to_json(orient="records", lines=True).encode(),
        "parquet": frame.to_parquet,
    }[kind]()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(ValueError, match=r"^standard input\.\w+, (line|row) [23]: column 'ta"):
        read_tables("-")
