"""Tests of label files and answers: nothing that was saved is lost, undo included."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import Graph
from graphconv.io.label_file import LabelFile, LabelLine, latest_labels, read_label_lines
from graphconv.results.answers import HOW, Answers, with_label_lines

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


def reopened(answers, graph=None):
    """The same answers as another process would read them."""
    answers.file.close()
    return Answers(graph or make_graph(), LabelFile(answers.file.path))


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


def test_taking_a_skip_back_leaves_alone_what_others_did(tmp_path):
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    answers.give([0], "", "me", "skip")
    answers.give([0, 1], "", "you", "skip")
    answers.undo("you")
    assert answers.skipped == {0}
    answers.give([0], "red", "you", "chosen")
    answers.undo("me")
    assert answers.skipped == set()
    assert answers.labels.tolist() == [0, -1, -1, -1]
    held = latest_labels(read_label_lines(answers.file.path))
    assert {node: one.label for node, one in held.items()} == {answers.node_ids[0]: "red"}
    before = state(answers)
    assert state(reopened(answers)) == before


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


def summary(answers):
    """All that answers come to, with how each node got its label in words."""
    return {
        "labels": answers.labels.tolist(),
        "how": [HOW[how] for how in answers.how],
        "skipped": sorted(answers.skipped),
        "random": answers.random.tolist(),
        "lessons": answers.lessons.tolist(),
        "counts": (answers.n_questions, answers.n_answered, len(answers.labelled)),
        "version": answers.version,
    }


def test_what_answers_come_to_step_by_step(tmp_path):
    graph = make_graph(labels=[0, -1, -1, 1], class_names=["red", "blue"], train_index=[0])
    answers = Answers(graph, LabelFile(tmp_path / "labels.csv"))
    # The label of a node that is not for training is not known here.
    assert summary(answers) == {
        "labels": [0, -1, -1, -1], "how": ["given", "", "", ""], "skipped": [], "random": [],
        "lessons": [0, -1, -1, -1], "counts": (0, 0, 1), "version": 0,
    }  # fmt: skip
    answers.give([1], "red", "me", "random")
    answers.give([2], "red", "me", "asked")
    assert summary(answers) == {
        "labels": [0, 0, 0, -1], "how": ["given", "random", "asked", ""], "skipped": [],
        "random": [1], "lessons": [0, -1, 0, -1], "counts": (2, 2, 3), "version": 2,
    }  # fmt: skip
    # Another label for a node does not change how it was met; what is taken away was never met.
    answers.give([0, 1, 2, 3], "blue", "me", "chosen")
    answers.give([2], "", "me", "chosen")
    answers.give([2, 3], "", "me", "skip")  # 3 has a label: it is left alone
    assert summary(answers) == {
        "labels": [1, 1, -1, 1], "how": ["given", "random", "", "chosen"], "skipped": [2],
        "random": [1], "lessons": [1, -1, -1, 1], "counts": (2, 2, 3), "version": 5,
    }  # fmt: skip
    before = summary(answers)
    again = reopened(answers, graph)
    assert {**summary(again), "version": 5} == before
    # Taken back one by one, everything is as it was, and so it is after reading the file.
    for expected in (
        {"labels": [1, 1, -1, 1], "how": ["given", "random", "", "chosen"], "skipped": []},
        {"labels": [1, 1, 1, 1], "how": ["given", "random", "asked", "chosen"]},
        {"labels": [0, 0, 0, -1], "how": ["given", "random", "asked", ""]},
        {"labels": [0, 0, -1, -1], "how": ["given", "random", "", ""], "random": [1]},
        {"labels": [0, -1, -1, -1], "how": ["given", "", "", ""], "random": []},
    ):
        version = again.version
        again.undo("me")
        assert summary(again).items() >= expected.items()
        assert again.version == version + 1
        saved = {name: summary(again)[name] for name in ("labels", "how", "skipped")}
        again = reopened(again, graph)
        assert {name: summary(again)[name] for name in saved} == saved
    assert again.undo("me") is None
    assert again.class_names == ["red", "blue"]  # each once, however often it was given


def test_an_answer_says_what_it_replaced(tmp_path):
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    first = answers.give([2, 2, 0], " red ", "me", "asked")
    second = answers.give([2], "blue", "you", "chosen")
    assert (first.number, first.nodes, first.label) == (1, (2, 0), "red")
    assert first.before == (("", ""), ("", ""))
    assert (second.number, second.before) == (2, (("red", "asked"),))
    assert answers.undo("you") == second
    assert answers.undo("me") == first


@pytest.mark.parametrize(
    ("nodes", "label", "how", "message"),
    [
        ([3], "x" * 200, "asked", None),
        ([0], "x" * 201, "asked", "a name of 1 to 200 characters"),
        ([0], "", "chosen", None),
        ([0], "", "random", None),
        ([0], "", "asked", "how must say how the node was met, got 'asked'"),
        ([0], "red", "given", "how must say how the node was met, got 'given'"),
        ([4], "red", "asked", "must be about nodes of the graph"),
        ([0, 4], "red", "asked", "must be about nodes of the graph"),
        ([-1], "red", "asked", "must be about nodes of the graph"),
        ([], "red", "asked", "must be about nodes of the graph"),
    ],
)
def test_which_answers_are_taken(tmp_path, nodes, label, how, message):
    answers = Answers(make_graph(), LabelFile(tmp_path / "labels.csv"))
    if message is None:
        answers.give(nodes, label, "me", how)
        assert len(read_label_lines(tmp_path / "labels.csv")) == len(nodes)
    else:
        with pytest.raises(ValueError, match=message):
            answers.give(nodes, label, "me", how)
        assert read_label_lines(tmp_path / "labels.csv") == []
        assert summary(answers)["version"] == 0


def test_there_can_be_two_hundred_classes(tmp_path):
    names = [f"class {number}" for number in range(199)]
    graph = make_graph(labels=[0, -1, -1, -1], class_names=names, train_index=[0])
    answers = Answers(graph, LabelFile(tmp_path / "labels.csv"))
    answers.give([1], "the last", "me", "asked")
    answers.give([2], "the last", "me", "asked")
    answers.give([2], "class 5", "me", "asked")
    with pytest.raises(ValueError, match="there can be 200 classes at most"):
        answers.give([3], "one more", "me", "asked")
    assert answers.labels.tolist() == [0, 199, 5, -1]


def test_graphs_that_cannot_be_labelled_here(tmp_path):
    several = make_graph(labels=np.eye(4, dtype=int), class_names=list("wxyz"))
    with pytest.raises(ValueError, match="nodes must have one label each to be labelled here"):
        Answers(several, LabelFile(tmp_path / "labels.csv"))
    with pytest.raises(ValueError, match=r"labels\.csv gives nodes one label each, but"):
        with_label_lines(several, [], "labels.csv")
    twins = Graph(np.zeros((2, 2)), node_ids=[1, "1"])
    with pytest.raises(ValueError, match="node ids must be distinct as text"):
        Answers(twins, LabelFile(tmp_path / "twins.csv"))


def test_lines_of_another_program_are_an_answer_each(tmp_path):
    path = tmp_path / "labels.csv"
    with LabelFile(path) as file:
        file.append([line("a", "red", "chosen", action=0), line("b", "red", "chosen", action=0)])
        file.append([line("c", "red", "asked", action=7), line("d", "red", "asked", action=7)])
    answers = Answers(make_graph(), LabelFile(path))
    assert [(one.number, one.nodes) for one in answers.actions] == [
        (1, (0,)), (2, (1,)), (7, (2, 3)),
    ]  # fmt: skip
    assert answers.give([0], "blue", "me", "chosen").number == 8
    answers.file.append([line("a", "red", "undo", action=5)])
    with pytest.raises(ValueError, match="takes action 5 back, which it does not have"):
        reopened(answers)


def test_where_the_nodes_of_a_label_file_go():
    splits = {"train_index": [0], "validation_index": [1], "test_index": [2]}
    graph = make_graph(labels=[0, 0, 0, -1], class_names=["x"], **splits)
    for how, train, test in (("random", [0], [2, 3]), ("asked", [0, 3], [2])):
        lines = [line(node, "x", how) for node in "abcd"]
        joined = with_label_lines(graph, lines, "labels.csv")
        assert joined.train_index.tolist() == train
        assert joined.validation_index.tolist() == [1]
        assert joined.test_index.tolist() == test
        assert joined.class_names == ("x",)
        assert joined.labels.tolist() == [0, 0, 0, 0]
    assert graph.labels.tolist() == [0, 0, 0, -1]  # the graph itself stays as it was


def test_a_hint_is_sought_among_ten_thousand_names(tmp_path):
    ids = [*map(str, range(9_999)), "elephant", "crocodile"]
    graph = Graph(sp.csr_array((10_001, 10_001)), node_ids=ids)
    for name, hint in (("elephants", r" \(did you mean 'elephant'\?\)"), ("crocodiles", "")):
        lines = [LabelLine("2026-01-01T00:00:00Z", name, "red", "me", "asked", 1)]
        with pytest.raises(ValueError, match=f"the data lacks: '{name}'{hint}$"):
            with_label_lines(graph, lines, "labels.csv")
        with LabelFile(tmp_path / f"{name}.csv") as file:
            file.append(lines)
        told = pytest.raises(ValueError, match=f"the graph lacks: '{name}'{hint}$")
        with LabelFile(tmp_path / f"{name}.csv") as file, told:
            Answers(graph, file)
