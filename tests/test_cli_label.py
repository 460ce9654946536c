"""`graphconv label` and the labels it writes, on the command line."""

import pytest
from tests.command_line import make_runner


@pytest.fixture
def run(monkeypatch, capsys):
    return make_runner(monkeypatch, capsys)


def write_tables(folder):
    """Two chains of ten without any label, that one edge links."""
    names = [f"{side}{number}" for side in "ab" for number in range(10)]
    edges = [f"{side}{number},{side}{number + 1}" for side in "ab" for number in range(9)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, "a9,b0"]) + "\n")
    words = {"a": "apples", "b": "bears"}
    rows = [f"{name},all about {words[name[0]]}" for name in names]
    (folder / "nodes.csv").write_text("\n".join(["id,title", *rows]) + "\n")
    return "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--text", "title"


def test_training_takes_a_label_file(run, tmp_path):
    tables = write_tables(tmp_path)
    labels = tmp_path / "labels.csv"
    labels.write_text(
        "time,node,label,who,how,action\n"
        ",a0,left,me,asked,1\n,b0,right,me,asked,2\n,a5,right,me,random,3\n"
        ",a5,left,me,chosen,4\n,b5,right,me,random,5\n,b7,right,me,asked,6\n,b7,,me,undo,6\n"
    )
    done = run("train", *tables, "--labels", labels, "-o", tmp_path / "out", "--json")
    assert (done.json["n_train"], done.json["n_test"], done.json["n_unlabelled"]) == (2, 2, 16)
    assert done.json["classes"] == ["left", "right"]
    assert done.json["test_accuracy"] == 1


def test_a_label_file_that_does_not_fit_is_one_line(run, tmp_path):
    tables = write_tables(tmp_path)
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\na11,left\n")
    done = run("train", *tables, "--labels", labels, "-o", tmp_path / "out", expect=2)
    assert done.err == [
        "graphconv: labels.csv names a node that the data lacks: 'a11' (did you mean 'a1'?)"
    ]
    done = run("train", *tables, "--labels", tmp_path / "none.csv", expect=2)
    assert done.err == [f"graphconv: {tmp_path / 'none.csv'}: No such file or directory"]
