"""Columns of labels: what is a class, what is missing, and what is neither."""

import numpy as np
import pandas as pd
import pytest
from tests.command_line import make_runner, one_line
from tests.small_tables import read, write

from graphconv import GCNClassifier, encode_labels
from graphconv.io._label_bins import bin_names
from graphconv.io.graph_files import read_graph_file
from graphconv.io.readers import from_frames, read_tables
from graphconv.io.table_encoding import TableEncoding

EDGES = "source,target\na,b\n"
NUMBERED = "source,target\nn0,n1\n"
SENTIMENT = "id,label\na,-1\nb,0\nc,1\nd,\n"
TOLD = (
    "1 label -1 of nodes.csv taken as a class "
    "(unlabelled_value=-1 leaves such nodes to be predicted)"
)


def labels_of(frame, **options):
    edges = pd.DataFrame({"source": [0], "target": [1]})
    loaded = from_frames(edges, frame.rename_axis("id").reset_index(), **options)
    return loaded.graph.labels.tolist(), loaded.graph.class_names


def test_minus_one_in_a_table_is_a_class(tmp_path):
    loaded = read(tmp_path, EDGES, SENTIMENT)
    assert loaded.graph.class_names == (-1, 0, 1)
    assert loaded.graph.labels.tolist() == [0, 1, 2, -1]
    assert TOLD in loaded.notes


@pytest.mark.parametrize("mark", ["?", "unknown", "TBD"])
def test_what_looks_like_no_label_is_a_class_and_told(tmp_path, mark):
    text = f"id,label\na,red\nb,{mark}\nc,blue\n"
    loaded = read(tmp_path, EDGES, text)
    assert mark in loaded.graph.class_names
    note = (
        f"1 label {mark!r} of nodes.csv taken as a class "
        f"(unlabelled_value={mark!r} leaves such nodes to be predicted)"
    )
    assert note in loaded.notes
    again = read(tmp_path, EDGES, text, unlabelled_value=mark)
    assert again.graph.class_names == ("blue", "red")
    assert not any("taken as a class" in note for note in again.notes)


@pytest.mark.parametrize("value", [-1, "-1", " -1 "])
def test_minus_one_is_missing_where_that_is_said(tmp_path, value):
    loaded = read(tmp_path, EDGES, SENTIMENT, unlabelled_value=value)
    assert loaded.graph.class_names == (0, 1)
    assert loaded.graph.labels.tolist() == [-1, 0, 1, -1]


@pytest.mark.parametrize(
    ("cells", "labels", "names"),
    [
        ([-1, 0, 1], [0, 1, 2], (-1, 0, 1)),
        ([-1.0, np.nan, 1.0], [0, -1, 1], (-1, 1)),
        (["-1", "NA", "x"], [0, -1, 1], ("-1", "x")),
        ([-1, None, "x"], [0, -1, 1], (-1, "x")),
    ],
)
def test_frames_are_read_as_files_are(cells, labels, names):
    frame = pd.DataFrame({"label": pd.Series(cells, dtype=None)})
    assert labels_of(frame) == (labels, names)


def test_minus_one_in_an_array_is_unlabelled_as_in_scikit_learn():
    assert encode_labels([-1, 0, 1])[1] == (0, 1)
    adjacency = np.ones((4, 4)) - np.eye(4)
    fitted = GCNClassifier(max_epochs=1).fit(np.eye(4), [-1, 0, 1, 1], adjacency=adjacency)
    assert fitted.classes_.tolist() == [0, 1]


def numbers(n_rows=131, seed=0):
    values = np.random.default_rng(seed).gamma(2, 15000, n_rows).round(2)
    rows = "\n".join(f"n{row},{value}" for row, value in enumerate(values))
    return f"id,income\n{rows}\n", values


def test_a_quantity_is_refused(tmp_path):
    table, values = numbers()
    with pytest.raises(ValueError, match="must hold classes") as error:
        read(tmp_path, NUMBERED, table, label="income")
    examples = ", ".join(f"'{value}'" for value in values[:3])
    assert one_line(error) == (
        "nodes.csv: column 'income' must hold classes, but looks like a number to predict, or an "
        f"id: 131 different values in 131 rows, such as {examples} "
        "(bins=5 makes five classes of it, label takes another column)"
    )


def test_names_are_refused(tmp_path):
    rows = "\n".join(f"n{row},Paper no {row}" for row in range(12))
    with pytest.raises(
        ValueError, match="looks like a name or an id: 12 different values in 12 rows"
    ):
        read(tmp_path, NUMBERED, f"id,label\n{rows}\n")


@pytest.mark.parametrize(
    "cells",
    [
        [str(row % 40) for row in range(400)],  # 40 whole numbers, ten of each
        [f"topic {row % 30}" for row in range(60)],
        list("abcdefghij"),  # few, each once
    ],
)
def test_classes_are_not_refused(tmp_path, cells):
    rows = "\n".join(f"n{row},{cell}" for row, cell in enumerate(cells))
    assert read(tmp_path, NUMBERED, f"id,label\n{rows}\n").graph.n_classes == len(set(cells))


def test_bins_have_about_equal_size(tmp_path):
    table, values = numbers(100)
    loaded = read(tmp_path, NUMBERED, table + "m1,\n", label="income", bins=4)
    graph = loaded.graph
    assert np.bincount(graph.labels[:100]).tolist() == [25, 25, 25, 25]
    assert graph.labels[100] == -1
    edges = np.quantile(values, [0.25, 0.5, 0.75])
    assert graph.class_names[0] == f"under {edges[0]:.6g}"
    assert loaded.notes[1].startswith("column 'income' cut into 4 classes: under ")
    # Labels of later tables lie in the bins of the first one, whatever their own quantiles.
    encoding = TableEncoding.from_json(loaded.encoding.to_json())
    later = read(
        tmp_path, EDGES, "id,income\na,0\nb,1e9\n", label="income", bins=4, encoding=encoding
    )
    assert later.graph.labels.tolist() == [0, 3]
    assert later.graph.class_names == graph.class_names


def test_fewer_bins_where_values_repeat(tmp_path):
    rows = "\n".join(f"n{row},{0 if row < 8 else row}" for row in range(12))
    loaded = read(tmp_path, NUMBERED, f"id,label\n{rows}\n", bins=4)
    assert "cut into 2 classes (not 4: values repeat): under 8" in loaded.notes[1]


def test_names_of_bins_differ():
    assert bin_names((1.0000001, 1.0000002))[1] == "1.0000001 to 1.0000002"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,label\na,red\nb,2\n", "nodes.csv, line 2: .* must hold numbers to be cut .* 'red'"),
        ("id,label\na,2\nb,2\n", "must hold different numbers to be cut into bins, got one number"),
        ("id,label\na,\nb,\n", "got none"),
    ],
)
def test_what_cannot_be_cut(tmp_path, table, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, EDGES, table, bins=2)


@pytest.mark.parametrize("options", [{"bins": 1}, {"bins": 3, "label_separator": ";"}])
def test_bins_that_cannot_be_meant(tmp_path, options):
    with pytest.raises(ValueError, match="bins"):
        read(tmp_path, EDGES, SENTIMENT, **options)


def test_a_model_of_bins_labels_new_nodes(tmp_path, monkeypatch, capsys):
    run = make_runner(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    _, values = numbers(200)
    rows = "\n".join(f"n{row},{row % 7},{value}" for row, value in enumerate(values))
    write(tmp_path, f"id,x,income\n{rows}\n", "nodes.csv")
    edges = "\n".join(f"n{row},n{row + 1}" for row in range(199))
    write(tmp_path, f"source,target\n{edges}\n", "edges.csv")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv")
    assert run("train", *tables, "--label", "income", expect=2).err[0].startswith("graphconv: ")
    assert not (tmp_path / "runs").exists()
    options = ("--label", "income", "--bins", 3, "--max-epochs", 3, "--output", "m", "--json")
    trained = run("train", *tables, *options).json
    assert len(trained["classes"]) == 3
    again = run("predict", "m", *tables, "-o", "new.csv", "--json").json
    assert again["n_labelled"] == trained["n_test"]
    assert again["accuracy"] == pytest.approx(trained["test_accuracy"])


def test_shares_are_those_made_and_small_classes_are_named(tmp_path, monkeypatch, capsys):
    run = make_runner(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    labels = ["big"] * 9 + ["rare"] + ["few"] * 2 + [""] * 3
    rows = "\n".join(f"n{row},{label}" for row, label in enumerate(labels))
    write(tmp_path, f"id,label\n{rows}\n", "nodes.csv")
    write(tmp_path, "source,target\nn0,n1\nn0,n14\n", "edges.csv")
    err = run(
        *("train", "--edges", "edges.csv", "--nodes", "nodes.csv", "--max-epochs", 2, "-o", "m")
    ).err
    told = next(line for line in err if "split at random" in line)
    made = run(
        *("train", "--edges", "edges.csv", "--nodes", "nodes.csv", "--max-epochs", 2, "-o", "m"),
        "--json",
    ).json
    sizes = [made[f"n_{name}"] for name in ("train", "validation", "test")]
    assert sum(sizes) == 12
    shares = [f"{100 * size / 12:.0f} %" for size in sizes]
    assert told == (
        f"note: labels split at random: {shares[0]} training, {shares[1]} validation, "
        f"{shares[2]} test; classes not in all three: 'few' (2), 'rare' (1) (--split)"
    )


def test_graph_files_have_tables_too(tmp_path):
    text = """<graphml><key id="d" for="node" attr.name="label" attr.type="int"/>
    <graph edgedefault="undirected"><node id="a"><data key="d">-1</data></node>
    <node id="b"><data key="d">1</data></node><node id="c"><data key="d">1</data></node>
    <edge source="a" target="b"/></graph></graphml>"""
    graph = read_graph_file(write(tmp_path, text, "g.graphml")).graph
    assert graph.class_names == (-1, 1)


def test_classes_that_differ_in_writing_alone_are_said(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n1,2\n2,3\n3,4\n")
    (tmp_path / "n.csv").write_text("id,label\n0,red\n1,Red\n2,sea  blue\n3,sea blue\n4,green\n")
    notes = read_tables(tmp_path / "e.csv", tmp_path / "n.csv").notes
    said = "that differ in capitals or blanks alone are classes apart: 'Red' and 'red', 'sea"
    assert any(said in note for note in notes)


@pytest.mark.parametrize("unlabelled", [None, "none"])
def test_a_column_that_tells_every_label_is_said(unlabelled):
    labels = [["cat", "dog", None][node % 3] for node in range(60)]
    nodes = pd.DataFrame(
        {
            "id": range(60),
            "label": labels,
            "code": [unlabelled if label is None else label[0] for label in labels],
            "size": np.where(np.arange(60) == 1, 0, np.arange(60) % 3),  # but for one node
            "name": [f"n{node}" for node in range(60)],
        }
    )
    edges = pd.DataFrame({"source": range(59), "target": range(1, 60)})
    told = [note for note in from_frames(edges, nodes).notes if "tells every label" in note]
    assert told == [
        "nodes: column 'code' alone tells every label: was it made of them? (ignore leaves it out)"
    ]
    loaded = from_frames(edges, nodes, ignore=["code"])
    assert not any("tells every label" in note for note in loaded.notes)
