"""Tests of label files and answers: nothing that was saved is lost, undo included."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from graphconv import Graph
from graphconv.io.label_file import LabelFile, LabelLine, latest_labels, read_label_lines
from graphconv.results.answers import Answers, with_label_lines

PATH = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


def make_graph(**more):
    return Graph(PATH, node_ids=["a", "b", "c", "d"], **more)


def line(node, label, how="asked", action=1):
    return LabelLine("2026-01-01T00:00:00Z", node, label, "me", how, action)


def state(answers):
    return (
        answers.labels.tolist(),
        answers.how.tolist(),
        answers.class_names,
        answers.actions,
        answers.skipped,
    )


def reopened(answers):
    """The same answers as another process would read them."""
    answers.file.close()
    return Answers(make_graph(), LabelFile(answers.file.path))


def test_lines_come_back_and_the_last_one_holds(tmp_path):
    path = tmp_path / "new folder" / "labels.csv"
    with LabelFile(path) as file:
        file.append([line("a", 'red, "dark"'), line("b", "grün")])
        file.append([line("a", "blue", "chosen", 2), line("b", "", "undo", 1)])
    lines = read_label_lines(path)
    assert [one.label for one in lines] == ['red, "dark"', "grün", "blue", ""]
    held = latest_labels(lines)
    assert {node: one.label for node, one in held.items()} == {"a": "blue"}
    assert held["a"].how == "asked"  # how the node was met stays


def test_a_line_cut_short_is_removed(tmp_path):
    path = tmp_path / "labels.csv"
    with LabelFile(path) as file:
        file.append([line("a", "red")])
    whole = path.read_bytes()
    for n_bytes in range(1, 30):
        path.write_bytes(whole + b'2026-01-01T00:00:00Z,b,"bl\xc3\xbce",me,asked,2\n'[:n_bytes])
        with LabelFile(path) as file:
            assert [one.node for one in file.lines] == ["a"]
        assert path.read_bytes() == whole


def test_one_process_at_a_time(tmp_path):
    path = tmp_path / "labels.csv"
    with LabelFile(path):
        code = "import sys; from pathlib import Path; from graphconv.io.label_file import LabelFile"
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; LabelFile(Path(sys.argv[1]))", str(path)],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "must be used by one process at a time" in done.stderr


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    with LabelFile(tmp_path / "labels.csv") as file:
        file.append([line("a", "red")])
        before = file.path.read_bytes()
        write = os.write

        def write_half(place, text):
            if len(text) > 20:
                return write(place, text[:20])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_half)
            with pytest.raises(OSError, match="No space left on device"):
                file.append([line("b", "x" * 10, action=2)])
        assert file.path.read_bytes() == before
        file.append([line("b", "blue", action=2)])
    assert len(read_label_lines(file.path)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,label\na,b\n", "must have the columns node"),
        ("node,label\na\n", "line 2: a line must have a node and a label"),
        ("node,label,how\na,x,perhaps\n", "how must be one of"),
        ("node,label,action\na,x,-1\n", "action a number"),
        ('node,label\na,"x\n', "must be a CSV file"),
        ("node,label\na,\udc81\n", "must be UTF-8 or cp1252 text, got the byte 0x81"),
        ("", "must have the columns"),
    ],
)
def test_other_files_are_refused(tmp_path, text, said):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=said):
        read_label_lines(path)


def test_a_table_of_another_program_is_read(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,label\na,red\n", encoding="utf-8-sig")
    assert read_label_lines(path) == [LabelLine("", "a", "red", "", "chosen", 0)]


def test_a_file_that_a_spreadsheet_saved_is_read_but_not_added_to(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes("Node;Label;who\r\na;grün;me\r\nb;red, dark;\r\n".encode("cp1252"))
    lines = read_label_lines(path)
    assert [(one.node, one.label, one.who) for one in lines] == [
        ("a", "grün", "me"),
        ("b", "red, dark", ""),
    ]
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"but has columns separated by semicolons and text in cp"):
        LabelFile(path)
    assert path.read_bytes() == before


def test_answers_are_as_they_were_after_reading_them_again(tmp_path):
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    answers.give([0], "red", "me", "asked")
    answers.give([1], "blue", "you", "random")
    answers.give([0, 2], "blue", "me", "chosen")  # of a lasso
    answers.give([3], "", "me", "skip")
    before = state(answers)
    answers = reopened(answers)
    assert state(answers) == before
    assert answers.random.tolist() == [1]
    assert answers.lessons.tolist() == [1, -1, 1, -1]
    assert (answers.n_questions, answers.n_answered) == (2, 3)
    answers.undo("me")  # of the skip
    assert answers.skipped == set()
    answers.undo("me")  # of the lasso: red again, and none
    assert answers.labels.tolist() == [0, 1, -1, -1]
    before = state(answers)
    answers = reopened(answers)
    assert state(answers) == before
    answers.undo("me")
    assert answers.undo("me") is None  # what is left is yours
    assert answers.labels.tolist() == [-1, 1, -1, -1]
    answers.give([0], "green", "me", "asked")
    numbers = [one.action for one in read_label_lines(answers.file.path) if one.how != "undo"]
    assert numbers == [1, 2, 3, 3, 4, 5]  # none is used twice


def test_any_sequence_of_answers_survives_reading(tmp_path):
    rng = np.random.default_rng(0)
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    for _ in range(150):
        who = ["me", "you"][rng.integers(2)]
        what = rng.integers(4)
        nodes = rng.permutation(4)[: 1 + rng.integers(3)].tolist()
        if what == 0:
            answers.undo(who)
        elif what == 1 and (answers.labels[nodes] < 0).any():
            answers.give(nodes, "", who, "skip")
        else:
            kind = ["asked", "random", "chosen"][rng.integers(3)]
            answers.give(nodes, f"class {rng.integers(5)}", who, kind)
        # Who only looks at the last line about each node comes to the same labels.
        held = latest_labels(read_label_lines(answers.file.path))
        names = {node: answers.class_names[answers.labels[answers.position[node]]] for node in held}
        assert {node: one.label for node, one in held.items()} == names
        assert len(held) == len(answers.labelled)
    before = state(answers)
    assert state(reopened(answers)) == before


def test_answers_that_make_no_sense_are_refused(tmp_path):
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    for nodes, label, how in (
        ([9], "red", "asked"),
        ([], "red", "asked"),
        ([0], "two\nlines", "asked"),
        ([0], "x" * 201, "asked"),
        ([0], "red", "undo"),
        ([0], "  ", "asked"),
    ):
        with pytest.raises(ValueError, match="must"):
            answers.give(nodes, label, "me", how)
    answers.give([0], "red", "me", "asked")
    with pytest.raises(ValueError, match="can't be skipped"):
        answers.give([0], "", "me", "skip")
    assert len(answers.actions) == 1
    answers.file.append([line("nobody", "red", action=9)])
    with pytest.raises(ValueError, match="names a node that the graph lacks: 'nobody'"):
        reopened(answers)


def test_labels_of_a_file_join_those_of_the_data():
    graph = make_graph(labels=[0, 1, -1, -1], class_names=[7, 8], train_index=[0], test_index=[1])
    lines = [
        line("a", "8", "chosen"),  # another label for a training node
        line("b", "7", "chosen"),  # a test node stays one
        line("c", "new", "random"),
        line("d", "8", "asked"),
    ]
    joined = with_label_lines(graph, lines, "labels.csv")
    assert joined.class_names == (7, 8, "new")
    assert joined.labels.tolist() == [1, 0, 2, 1]
    assert joined.train_index.tolist() == [0, 3]
    assert joined.test_index.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"labels\.csv names a node that the data lacks: 'dd'"):
        with_label_lines(graph, [line("dd", "x")], "labels.csv")
