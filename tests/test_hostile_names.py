"""Names that come with the data lead to no other folder and do nothing to a terminal."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.command_line import PACKAGE_PLACE, names

from graphconv import Graph
from graphconv.commands.console import Screen
from graphconv.io.graph_files import write_npz
from graphconv.io.wording import as_file_name, printable

CONTROLS = "\x1b[2J\x07\x9b31m\u202e\r"


def graph_called(name):
    """Two triangles with a node of each labelled."""
    block = np.ones((3, 3)) - np.eye(3)
    adjacency = np.kron(np.eye(2), block)
    ids = [f"{CONTROLS}{number}" for number in range(6)]
    classes = [f"a[/b]{CONTROLS}", "b"]
    return Graph(
        adjacency,
        features=np.eye(6),
        labels=[0, 0, 0, 1, 1, 1],
        class_names=classes,
        node_ids=ids,
        train_index=[0, 3],
        validation_index=[1],
        test_index=[2, 4],
        name=name,
    )


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("../../../x", "x"),
        ("/absolute/x", "absolute-x"),
        ("", "graph"),
        ("..", "graph"),
        ("a\x00b", "a-b"),
        ("C:\\x", "C-x"),
        ("random:100", "random-100"),
        ("é" * 300, "é" * 75),
        (" my data. ", "my data"),
    ],
)
def test_a_graph_is_trained_into_a_folder_of_runs(run, tmp_path, name, folder):
    assert as_file_name(name, "graph") == folder
    if name in ("../../../x", ""):
        write_npz(graph_called(name), tmp_path / "g.npz")
        run("train", "g.npz", "--max-epochs", "2", "--quiet")
        assert names(tmp_path) == ["g.npz", "runs"]
        assert names(tmp_path / "runs") == [folder]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_names_reach_a_terminal_without_control_characters(run, tmp_path, monkeypatch):
    write_npz(graph_called(f"a[/b]{CONTROLS}"), tmp_path / "g.npz")
    done = run("train", "g.npz", "--max-epochs", "2", "-o", "m")
    said = done.out + "".join(done.err)
    done = run("explain", "m", f"{CONTROLS}0")
    said += done.out + "".join(done.err)
    done = run("explain", "m", f"{CONTROLS}none", expect=2)
    said += done.out + "".join(done.err)
    assert "\\x1b[2J\\x07\\x9b31m\\u202e" in said
    assert not set(CONTROLS) - set("[2J31m") & set(said)


def test_names_are_no_markup(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Screen().training("a[/b]"):
        pass
    with Screen().showing() as progress:
        progress("c[/d]", 1, 2)
    assert "c[/d]" in terminal.getvalue()
    assert "a[/b]" in terminal.getvalue()


def test_what_is_plain_stays():
    assert printable("naïve 日本\ttab\nline") == "naïve 日本\ttab\nline"


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE}
    command = f"{sys.executable} -m graphconv train karate --max-epochs 2 -o m {closed}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0
    assert "model.json" in names(tmp_path / "m")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("full", ["> /dev/full", "2> /dev/full"])
def test_a_stream_that_takes_nothing_is_an_error(tmp_path, full):
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE}
    command = f"{sys.executable} -m graphconv train karate --max-epochs 2 -o m {full}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 2
