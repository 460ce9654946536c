"""How a file of text is written is found out, said, and can be overridden."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

from graphconv.io.readers import read_tables
from graphconv.io.sniffing import TextFormatOptions, sniff_text_format
from graphconv.io.table_files import read_table

GERMAN = "Kürzel;Umsatz;Kunden;Datum\nmü;1.234,50;12;01.02.2024\nkö;7,5;1.200;24.12.2023\n"


def write(folder, content, name="nodes.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
def test_a_national_export_is_read_in_any_encoding(tmp_path, encoding):
    table = read_table(write(tmp_path, GERMAN, encoding=encoding), ["Kürzel"])
    assert table.frame["Kürzel"].tolist() == ["mü", "kö"]
    assert table.frame["Umsatz"].tolist() == [1234.5, 7.5]
    assert table.frame["Kunden"].tolist() == [12, 1200]
    assert table.frame["Datum"].tolist() == ["01.02.2024", "24.12.2023"]
    said = table.notes[0]
    assert said.startswith("nodes.csv: columns separated by semicolons")
    assert "numbers with a decimal comma, digits grouped by '.'" in said
    assert ("text in" in said) == (not encoding.startswith("utf-8"))


@pytest.mark.parametrize(
    ("content", "delimiter", "decimal", "thousands"),
    [
        ("a,b\n1,2\n", ",", ".", ""),
        ("a\tb\n1\t2\n", "\t", ".", ""),
        ("a|b\n1|2\n", "|", ".", ""),
        ("a;b\n1,5;x\n", ";", ",", ""),
        ("a;b\nHello, world;1.5\n", ";", ".", ""),
        ('a,b\n"1,234",2\n"17",3\n', ",", ".", ","),
        ('a,b\n"1,5",2\n', ",", ",", ""),
        ("a;b\n1 234,5;2\n", ";", ",", " "),
        ("a;b\n1'234.5;2\n", ";", ".", "'"),
        ("a;b\n52.52;1,5\n", ";", ".", ""),  # both marks: a comma can't be meant everywhere
        ("a;b\n0,500;1\n", ";", ",", ""),
        ("a\n1\n", ",", ".", ""),
    ],
)
def test_separators_and_numbers(tmp_path, content, delimiter, decimal, thousands):
    found = sniff_text_format(write(tmp_path, content))
    assert (found.delimiter, found.decimal, found.thousands) == (delimiter, decimal, thousands)


def test_what_is_said_is_not_guessed(tmp_path):
    path = write(tmp_path, 'a,b\n"1,234",2\n')
    options = TextFormatOptions(decimal=",", thousands="")
    assert read_table(path, (), options).frame["a"].tolist() == [1.234]
    assert read_table(path).frame["a"].tolist() == [1234]
    table = read_table(write(tmp_path, b"a\n\xe9\n"), (), TextFormatOptions(file_encoding="cp850"))
    assert table.frame["a"].tolist() == ["Ú"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ";;"}, "delimiter must be one character, got ';;'"),
        ({"decimal": "x"}, "decimal must be '.' or ',', got 'x'"),
        ({"decimal": ",", "thousands": ","}, "thousands must be one character that is not the"),
        ({"file_encoding": "klingon"}, "file_encoding must be one that Python knows"),
    ],
)
def test_what_no_file_can_be_like_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        TextFormatOptions(**options)


def test_codes_with_leading_zeros_are_text(tmp_path):
    frame = read_table(write(tmp_path, "zip,n\n01067,1\n80331,2\n")).frame
    assert frame["zip"].tolist() == ["01067", "80331"]


def test_a_first_line_of_numbers_names_no_columns(tmp_path):
    edges = write(tmp_path, "1 2\n2 3\n", "edges.txt")
    loaded = read_tables(edges)
    assert loaded.graph.node_ids.tolist() == ["1", "2", "3"]
    assert "columns separated by blanks, no line with the columns' names" in loaded.notes[0]
    named = read_table(edges, (), TextFormatOptions(header=True))
    assert list(named.frame.columns) == ["1", "2"]
    assert named.at(0) == "edges.txt, line 2"
    plain = read_table(write(tmp_path, "a,b\nc,d\n"), (), TextFormatOptions(header=False))
    assert list(plain.frame.columns) == ["column_1", "column_2"]
    assert plain.at(1) == "nodes.csv, line 2"


SNAP = '# Directed graph: web.txt\n# "Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n7\t8\n8\t9\n'


def test_an_edge_list_as_it_is_published_is_read(tmp_path):
    path = write(tmp_path, SNAP, "web.txt")
    loaded = read_tables(path)
    assert loaded.graph.node_ids.tolist() == ["7", "8", "9"]
    assert loaded.graph.n_edges == 2
    assert loaded.notes[0] == (
        "web.txt: 2 lines of comments passed over, columns separated by tabs"
    )
    assert "web.txt: column 'FromNodeId' taken as the source" in loaded.notes
    assert read_table(path).at(1) == "web.txt, line 5"
    bare = read_table(path, (), TextFormatOptions(header=False))
    assert bare.frame.to_numpy().tolist() == [[7, 8], [8, 9]]
    assert bare.at(1) == "web.txt, line 5"


@pytest.mark.parametrize(
    ("content", "n_comments", "columns"),
    [
        ("% sym unweighted\n% 2 3 3\n1 2\n2 3\n", 2, ["column_1", "column_2"]),
        ("# two words\n1 2\n2 3\n", 1, ["column_1", "column_2"]),
        ("# exported today\n\n# by me\nid,label\na,x\n", 3, ["id", "label"]),
        ("#id,label\na,x\n", 0, ["id", "label"]),  # else the first row would name the columns
        ("#source target\na b\n", 0, ["source", "target"]),
        ("# id,label\n1,2\n", 0, ["id", "label"]),
        ("#,first name\n1,Ann\n", 0, ["#", "first name"]),
        ("id,label\n#a,x\n", 0, ["id", "label"]),
        ("#a,#b\n#c,#d\n", 0, ["a", "#b"]),  # nothing but comments is none
        ("sep=;\nid;label\na;x\n", 1, ["id", "label"]),  # as spreadsheets tell each other
        ('"sep=\t"\nid\tlabel\na\tx\n', 1, ["id", "label"]),
        ("id,sep=;\na,x\n", 0, ["id", "sep=;"]),
    ],
)
def test_lines_before_the_table_are_passed_over(tmp_path, content, n_comments, columns):
    path = write(tmp_path, content)
    assert sniff_text_format(path).n_comments == n_comments
    table = read_table(path)
    assert list(table.frame.columns) == columns
    n_rows = content.count("\n") - n_comments - ("column_1" not in columns)
    assert len(table.frame) == n_rows


def test_a_wrong_row_after_comments_is_told_by_its_line(tmp_path):
    path = write(tmp_path, "# a\n# b\nid,label\na,x,y,z\n")
    with pytest.raises(ValueError, match=r"line 4: a row must have at most 2 fields"):
        read_table(path)


def test_names_in_any_case_and_usual_names_are_found(tmp_path):
    edges = write(tmp_path, "From,TO\na,b\n", "edges.csv")
    nodes = write(tmp_path, "Id,Label,Age\na,x,1\nb,y,2\n")
    loaded = read_tables(edges, nodes)
    assert loaded.graph.class_names == ("x", "y")
    assert loaded.graph.feature_names == ("Age",)
    assert "edges.csv: column 'From' taken as the source" in loaded.notes
    assert not any("'Id'" in note for note in loaded.notes)


def test_zip_and_zstd_files_are_unpacked(tmp_path):
    import pyarrow as pa

    content = b"id,x\na,1\n"
    with zipfile.ZipFile(tmp_path / "nodes.csv.zip", "w") as archive:
        archive.writestr("whatever.csv", content)
    with pa.output_stream(str(tmp_path / "nodes.csv.zst"), compression="zstd") as packed:
        packed.write(content)
    (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(content))
    for suffix in ("zip", "zst", "gz"):
        table = read_table(tmp_path / f"nodes.csv.{suffix}")
        assert table.frame.to_dict("list") == {"id": ["a"], "x": [1]}
        assert table.at(0) == f"nodes.csv.{suffix}, line 2"


def is_sparse(column):
    kind = column.dtype
    return isinstance(kind, pd.SparseDtype) and (kind.subtype, kind.fill_value) == (np.float64, 0)


def test_a_wide_table_keeps_zeros_out_of_memory(tmp_path):
    names = [f"w{place}" for place in range(300)]
    rows = [["0"] * 300 for _ in range(200)]
    rows[3][7] = "5"
    rows[150][7] = "2.5"
    for place, row in enumerate(rows):
        row[9] = str(place)  # full
        row[11] = "x" if place == 199 else "007"  # a code, and then a word
    lines = [",".join([f"n{place}", *row]) for place, row in enumerate(rows)]
    path = write(tmp_path, "\n".join([",".join(["id", *names]), *lines]) + "\n")
    frame = read_table(path, ["id"]).frame
    assert list(frame.columns) == ["id", *names]
    assert is_sparse(frame["w7"])
    assert frame["w7"].array.sp_values.tolist() == [5, 2.5]
    assert frame["w7"].array.sp_index.indices.tolist() == [3, 150]
    assert frame["w9"].tolist() == list(range(200))
    assert frame["w11"].tolist() == ["007"] * 199 + ["x"]


def test_a_wide_column_of_numbers_and_words_is_read_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr("graphconv.io.delimited._PIECE_CELLS", 64 * 300)
    names = ",".join(f"w{place}" for place in range(300))
    lines = [",".join(["7.50" if row < 100 else "x"] + ["1"] * 299) for row in range(130)]
    frame = read_table(write(tmp_path, "\n".join([names, *lines]) + "\n")).frame
    assert frame["w0"].tolist() == ["7.50"] * 100 + ["x"] * 30
    assert frame["w1"].tolist() == [1] * 130


def test_a_wide_parquet_file_keeps_zeros_out_of_memory(tmp_path):
    counts = np.zeros((50, 300), dtype=np.int64)
    counts[3, 7] = 5
    wide = pd.DataFrame(counts, columns=[f"w{place}" for place in range(300)])
    frame = pd.concat([pd.DataFrame({"id": [f"n{row}" for row in range(50)]}), wide], axis=1)
    frame["vector"] = [[0.5, 1.0]] * 50
    frame.to_parquet(tmp_path / "nodes.parquet")
    read = read_table(tmp_path / "nodes.parquet").frame
    assert list(read.columns) == list(frame.columns)
    assert is_sparse(read["w7"])
    assert read["w7"].array.sp_values.tolist() == [5]
    assert read["id"].tolist() == frame["id"].tolist()
    assert read["vector"].iloc[0].tolist() == [0.5, 1.0]


def test_a_decimal_comma_is_one_beside_empty_cells(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id;age\na;20,5\nb;\nc;31\n")
    ages = read_table(path, text_columns=["id"]).frame["age"]
    assert ages.dropna().tolist() == [20.5, 31.0]
    assert ages.isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "text", ["p7 p12\np12 p3\n", "anna ben\ncarl anna\nben carl\n", "a,1\nb,2\na,2\n"]
)
def test_a_first_line_of_ids_is_no_header(tmp_path, text):
    table = read_table(write(tmp_path, text))
    assert len(table.frame) == text.count("\n")
    assert list(table.frame.columns) == ["column_1", "column_2"]
    assert "no line with the columns' names" in table.notes[0]


@pytest.mark.parametrize("text", ["x1,x2\np7,p12\np12,p3\n", "anna,ben\ncarl,anna\n"])
def test_a_first_line_that_is_unlike_the_others_is_a_header(tmp_path, text):
    assert list(read_table(write(tmp_path, text)).frame.columns) == text.split("\n")[0].split(",")


@pytest.mark.parametrize("n_before", [0, 1 << 18])  # pandas reads so many characters at a time
@pytest.mark.parametrize("blanks", [" ", "\t", " \r\r\t"])
def test_a_line_after_a_lone_carriage_return_is_read_once(tmp_path, blanks, n_before):
    """Older versions of pandas read such lines twice, or until memory is full."""
    start = "id;x\n" + "a;1\n" * max(0, n_before // 4 - 3) + "a;1\r"
    for shift in ("", "a"):
        path = write(tmp_path, f"{start[:-4]}{shift}{start[-4:]}{blanks}b;2\rc;3\n")
        frame = read_table(path, ["id"]).frame
        assert frame["x"].tolist() == [1] * (len(frame) - 2) + [2, 3]
        assert frame["id"].str.strip().tolist()[-3:] == [f"{shift}a", "b", "c"]
        assert len(frame) == max(3, n_before // 4)
