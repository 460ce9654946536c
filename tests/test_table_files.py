"""Tests of graphconv.io.table_files."""

import gzip
import os

import pandas as pd
import pytest

from graphconv.io.delimited import read_header
from graphconv.io.sniffing import TextFormat
from graphconv.io.table_files import read_table


def write(folder, content, name="nodes.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_csv_tsv_parquet_and_packed_files_are_the_same(tmp_path):
    frame = pd.DataFrame({"id": ["007", "8"], "age": [31, 47]})
    frame.to_parquet(tmp_path / "nodes.parquet")
    paths = [
        write(tmp_path, "id,age\n007,31\n8,47\n"),
        write(tmp_path, "id\tage\r\n007\t31\r\n8\t47\r\n", "nodes.TSV"),
        write(tmp_path, gzip.compress(b"id,age\n007,31\n8,47\n"), "nodes.csv.gz"),
        tmp_path / "nodes.parquet",
    ]
    for path in paths:
        pd.testing.assert_frame_equal(read_table(path, ["id"]).frame, frame)


def test_byte_order_mark_and_blanks_around_names_are_dropped(tmp_path):
    table = read_table(write(tmp_path, "\ufeffid, age\n1,2\n"))
    assert table.frame.columns.tolist() == ["id", "age"]


def test_an_index_with_a_name_is_a_column_of_a_parquet_file(tmp_path):
    path = tmp_path / "nodes.parquet"
    pd.DataFrame({"x": [1]}, index=pd.Index(["a"], name="id")).to_parquet(path)
    assert read_table(path).frame.to_dict("list") == {"x": [1], "id": ["a"]}
    pd.DataFrame({"x": [1, 2]}, index=[5, 6]).to_parquet(path)
    table = read_table(path)
    assert table.frame.to_dict("list") == {"x": [1, 2]}
    assert table.at(0) == "nodes.parquet, row 1"


def test_a_column_without_a_name_is_left_out(tmp_path):
    table = read_table(write(tmp_path, ",id\n0,a\n"))
    assert table.frame.to_dict("list") == {"id": ["a"]}
    assert table.notes == ("nodes.csv: the column without a name is left out",)


def test_lines_are_right_after_blank_lines_and_quoted_line_ends(tmp_path):
    table = read_table(write(tmp_path, '\nid,title\na,"two\nlines"\n\n  \nb,"q ""x"""\nc,d\n'))
    assert table.frame["id"].tolist() == ["a", "b", "c"]
    assert [table.at(row) for row in range(3)] == [
        "nodes.csv, line 3",
        "nodes.csv, line 7",
        "nodes.csv, line 8",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"^nodes\.csv is empty: its first line must name the columns$"),
        ("\n\n", r"^nodes\.csv is empty"),
        (
            "a,b\n1,2,3\n",
            r"^nodes\.csv, line 2: a row must have at most 2 fields, as the header has, got 3$",
        ),
        ('a,b\n"1\n",2\n1,2,3\n', r"^nodes\.csv, line 4: a row must have at most 2 fields"),
        ('a,b\n1,2\n"x,1\n', r"^nodes\.csv, line 3: a quote must be closed, but the file ends$"),
        ("a,a\n1,2\n", r"^nodes\.csv must not have two columns named 'a'$"),
        (b"a,b\n1,\x81\n", r"^nodes\.csv must be UTF-8 or cp1252 text, got the byte 0x81$"),
    ],
)
def test_malformed_csv_is_one_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, content))


def test_broken_archives_and_parquet_files_are_one_line(tmp_path):
    packed = gzip.compress(b"id\n" + os.urandom(3000).hex().encode())
    for content in (b"id\n1\n", packed[:200], packed[:40] + b"?" * 99):
        with pytest.raises(ValueError, match=r"^nodes\.csv\.gz cannot be unpacked: [^\n]+$"):
            read_table(write(tmp_path, content, "nodes.csv.gz"))
    for content in (b"", b"PAR1", b"PAR1" * 9):
        with pytest.raises(ValueError, match=r"^nodes\.parquet must be a Parquet file: [^\n]+$"):
            read_table(write(tmp_path, content, "nodes.parquet"))


def test_a_missing_file_names_the_closest(tmp_path):
    write(tmp_path, "id\n", "nodes.csv")
    with pytest.raises(FileNotFoundError, match=r"node\.csv: no such file \(did you mean 'nodes"):
        read_table(tmp_path / "node.csv")
    with pytest.raises(FileNotFoundError, match=r"x\.csv: no such file$"):
        read_table(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(IsADirectoryError, match=r"must be a file, but it is a folder$"):
        read_table(tmp_path)


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"^nodes\.doc must end in one of \.csv, \.tsv, \.tab, "):
        read_table(write(tmp_path, "id\n", "nodes.doc"))


@pytest.mark.parametrize(
    "line",
    [
        "id,label",
        'id,"la""bel",',
        '"id"x,label',
        'i"d,label',
        " id , label ",
        '"a,b",c\r',
        "",
        "\t,",
    ],
)
def test_a_header_is_read_as_pandas_reads_it(tmp_path, line):
    path = tmp_path / "nodes.csv"
    path.write_bytes(f"\n  \n{line}\n1,2,3\n".encode())
    first = pd.read_csv(path, header=None, nrows=1, dtype="str", na_filter=False)
    expected = [cell.strip() for cell in first.iloc[0]]
    assert read_header(path, TextFormat()) == expected
