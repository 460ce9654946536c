"""Several files with rows of one kind."""

import pytest
from tests.command_line import make_runner, one_line
from tests.small_tables import dense, write

from graphconv.io.readers import read_tables

NODES = "id,label,age\nann,red,31\nbob,,47\ncy,blue,25\n"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "source,target\nann,bob\n", "edges-2023.csv")
    write(tmp_path, "target,source\ncy,bob\nann,cy\n", "edges-2024.csv")
    write(tmp_path, NODES, "nodes.csv")
    return tmp_path


@pytest.mark.parametrize("names", [["edges-*.csv"], ["edges-2023.csv", "edges-2024.csv"]])
def test_all_files_are_read(folder, names):
    loaded = read_tables([folder / name for name in names], [folder / "nodes.csv"])
    assert dense(loaded.graph) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert loaded.notes[0] == "read edges-2023.csv (1 row), edges-2024.csv (2 rows)"


def test_places_are_those_in_their_file(folder):
    write(folder, "id,label,age\ndan,red,31\nbob,,47\n", "more.csv")
    with pytest.raises(ValueError, match="must be unique") as error:
        read_tables(folder / "edges-*.csv", [folder / "nodes.csv", folder / "more.csv"])
    assert one_line(error) == (
        "more.csv, line 3: id 'bob' must be unique, but nodes.csv, line 3 has it too"
    )


def test_other_columns(folder):
    write(folder, "id,label\ndan,red\n", "more.csv")
    with pytest.raises(ValueError, match=r"nodes.csv has 'age' and more.csv has not"):
        read_tables(folder / "edges-*.csv", [folder / "nodes.csv", folder / "more.csv"])


def test_no_file_of_that_pattern(folder):
    with pytest.raises(FileNotFoundError, match="no file has such a name"):
        read_tables(folder / "links-*.csv")


def test_no_file_at_all():
    with pytest.raises(ValueError, match="at least one file must be given"):
        read_tables([], name="graph")


def test_from_the_command_line(folder, monkeypatch, capsys):
    run = make_runner(monkeypatch, capsys)
    monkeypatch.chdir(folder)
    options = ("--nodes", "nodes.csv", "--max-epochs", 2, "--json")
    edges = ("--edges", "edges-2023.csv", "--edges", "edges-2024.csv")
    assert run("train", *edges, *options).json["n_edges"] == 3
    # The name that a pattern has in common names the folder of the model.
    assert run("train", "--edges", "edges-*.csv", *options).json["dataset"] == folder.name
    done = run("train", *edges[:2], "edges-2024.csv", *options, expect=2)
    assert done.err[-1].endswith("(several files: repeat --edges, or quote the pattern)")
