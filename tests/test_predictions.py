"""Tests of graphconv.results.predictions: the table, and the files it is written to."""

import hashlib
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from graphconv.graph import Graph
from graphconv.results import predictions as module
from graphconv.results.predictions import (
    Predictions,
    check_table_path,
    confusion_table,
    row_blocks,
    write_table,
    write_table_blocks,
)
from graphconv.storage.stored_graph import open_graph, store_graph
from graphconv.training.scores import accuracy, micro_f1

GRAPH = Graph(
    np.zeros((4, 4)),
    labels=[0, 1, 1, -1],
    class_names=["ham", "spam"],
    node_ids=["a", "b", "c", "d"],
    train_index=[0],
    validation_index=[1],
    test_index=[2],
)
PROBABILITIES = np.array([[0.75, 0.25], [0.125, 0.875], [0.5, 0.5], [0.0, 1.0]], dtype=np.float32)


def predictions():
    return Predictions(GRAPH, PROBABILITIES, GRAPH.class_names)


def several():
    graph = Graph(
        np.zeros((3, 3)), labels=[[1, 0, 1], [0, 0, 1], [-1, -1, -1]], class_names=["x", "y", "z"]
    )
    shares = np.array([[0.9, 0.2, 0.6], [0.1, 0.2, 0.3], [0.5, 0.75, 1.0]], dtype=np.float32)
    return Predictions(graph, shares, graph.class_names, is_multilabel=True)


def test_columns_by_hand():
    frame = predictions().to_frame()
    assert list(frame.columns) == ["id", "label", "confidence", "p_ham", "p_spam", "split"]
    assert frame["id"].tolist() == ["a", "b", "c", "d"]
    # Of equals the first class wins.
    assert frame["label"].tolist() == ["ham", "spam", "ham", "spam"]
    assert frame["confidence"].tolist() == [0.75, 0.875, 0.5, 1.0]
    assert frame["p_spam"].tolist() == [0.25, 0.875, 0.5, 1.0]
    assert frame["split"].tolist() == ["train", "validation", "test", ""]


def test_several_labels_by_hand():
    frame = several().to_frame()
    assert list(frame.columns) == ["id", "label", "confidence", "p_x", "p_y", "p_z", "split"]
    # On are those above a half; the confidence is that of the least certain decision.
    assert frame["label"].tolist() == ["x;z", "", "y;z"]
    np.testing.assert_allclose(frame["confidence"], [0.6, 0.7, 0.5], rtol=1e-6)


def test_labels_keep_their_type():
    graph = Graph(np.zeros((2, 2)), labels=[0, 1], class_names=[10, 20])
    frame = Predictions(graph, np.eye(2, dtype=np.float32), graph.class_names).to_frame()
    assert frame["label"].tolist() == [10, 20]
    assert list(frame.columns)[3:5] == ["p_10", "p_20"]


@pytest.mark.parametrize("make", [predictions, several])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".CSV"])
def test_files_hold_the_table(tmp_path, make, suffix):
    path = tmp_path / f"out{suffix}"
    made = make()
    made.write(path)
    if suffix == ".parquet":
        read = pd.read_parquet(path)
    else:
        separator = "\t" if suffix == ".tsv" else ","
        read = pd.read_csv(path, sep=separator, keep_default_na=False)
    expected = made.to_frame()
    assert list(read.columns) == list(expected.columns)
    for name in expected.columns:
        if expected[name].dtype.kind == "f":
            np.testing.assert_allclose(read[name], expected[name], rtol=1e-5)
        else:
            assert read[name].tolist() == expected[name].tolist()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_csv_by_hand(tmp_path):
    path = tmp_path / "out.csv"
    predictions().write(path)
    assert path.read_text().splitlines()[:3] == [
        "id,label,confidence,p_ham,p_spam,split",
        "a,ham,0.75,0.75,0.25,train",
        "b,spam,0.875,0.125,0.875,validation",
    ]


@pytest.mark.parametrize("name", ["out.xlsx", "out"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"output must end in \.csv, \.tsv or \.parquet, got"):
        predictions().write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


class FailsHalfway(dict):
    """Columns of which the second can't be read."""

    def __getitem__(self, name):
        if name == "b":
            raise OSError(28, "No space left on device")
        return super().__getitem__(name)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("before", [False, True])
def test_failing_writer_leaves_what_was_there(tmp_path, suffix, before):
    path = tmp_path / f"out{suffix}"
    if before:
        path.write_text("old")
    with pytest.raises(OSError, match="No space left"):
        write_table(FailsHalfway(a=[1, 2], b=[3, 4]), path)
    assert [file.name for file in tmp_path.iterdir()] == ([path.name] if before else [])
    assert not before or path.read_text() == "old"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_data_frames_can_be_written_too(tmp_path, suffix):
    frame = pd.DataFrame({"id": ["a", "b"], "x": [0.5, 0.25]})
    path = tmp_path / f"out{suffix}"
    write_table(frame, path)
    separator = "\t" if suffix == ".tsv" else ","
    read = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path, sep=separator)
    assert read["id"].tolist() == ["a", "b"]
    assert read["x"].tolist() == [0.5, 0.25]


def test_awkward_text_survives_csv(tmp_path):
    ids = ["a,b", 'say "hi"', "two\nlines", "ümlaut"]
    graph = Graph(np.zeros((4, 4)), labels=[0, 1, 0, 1], class_names=["x;y", "z,"], node_ids=ids)
    Predictions(graph, PROBABILITIES, graph.class_names).write(tmp_path / "out.csv")
    read = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert read["id"].tolist() == ids
    assert list(read.columns)[3:5] == ["p_x;y", "p_z,"]
    assert read["label"].tolist() == ["x;y", "z,", "x;y", "z,"]


def test_splits_of_another_graph_are_looked_up_by_id():
    other = Graph(np.zeros((3, 3)), node_ids=["c", "new", "a"])
    shares = np.full((3, 2), 0.5, dtype=np.float32)
    made = Predictions(other, shares, GRAPH.class_names, trained_on=GRAPH)
    assert made.split.tolist() == ["test", "", "train"]


def test_labels_are_separated_as_told():
    made = several()
    told = Predictions(
        made.graph, made.probabilities, made.class_names, is_multilabel=True, separator="|"
    )
    assert told.labels == ["x|z", "", "y|z"]


def test_paths_are_checked_beforehand(tmp_path):
    check_table_path(tmp_path / "fine.parquet")
    with pytest.raises(ValueError, match="output must end in"):
        check_table_path(tmp_path / "out.json")


@pytest.mark.parametrize(
    ("labels", "probabilities", "expected"),
    [
        ([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], 2 / 3),
        # Pairs of node and class: right, right; wrong, right.
        ([[1, 0], [0, 1]], [[0.9, 0.1], [0.8, 0.6]], 3 / 4),
    ],
)
def test_accuracy_by_hand(labels, probabilities, expected):
    assert accuracy(np.array(labels), np.array(probabilities)) == pytest.approx(expected)


def test_accuracy_without_nodes_is_nan():
    assert math.isnan(accuracy(np.array([], dtype=int), np.zeros((0, 2))))


def test_micro_f1_by_hand():
    # 2 given and found, 1 given but not found, 1 found but not given: 2 * 2 / (3 + 3).
    labels = np.array([[1, 0], [1, 1], [0, 0]])
    shares = np.array([[0.9, 0.6], [0.8, 0.1], [0.2, 0.3]])
    assert micro_f1(labels, shares) == pytest.approx(2 / 3)
    assert micro_f1(np.zeros((2, 2), dtype=int), np.zeros((2, 2))) == 1


@pytest.mark.parametrize(
    ("n_rows", "blocks"),
    [(0, [(0, 0)]), (1, [(0, 1)]), (3, [(0, 3)]), (7, [(0, 3), (3, 6), (6, 7)])],
)
def test_tables_come_in_blocks_of_rows(n_rows, blocks, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "BLOCK_ROWS", 3)
    assert [(rows.start, rows.stop) for rows in row_blocks(n_rows)] == blocks
    graph = Graph(np.zeros((n_rows, n_rows)), class_names=["x", "y"])
    shares = np.column_stack([np.arange(n_rows), np.ones(n_rows)]).astype(np.float32)
    made = Predictions(graph, shares, graph.class_names)
    for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        made.write(tmp_path / f"t{suffix}")
        frame = read(tmp_path / f"t{suffix}")
        assert frame["id"].tolist() == list(range(n_rows))
        assert frame["p_x"].tolist() == list(range(n_rows))


def test_sets_stand_beside_the_labels():
    sets = np.array([[True, False], [True, True], [False, True], [True, True]])
    made = Predictions(GRAPH, PROBABILITIES, GRAPH.class_names, sets=sets)
    frame = made.to_frame()
    assert list(frame.columns)[2:5] == ["confidence", "set", "set_size"]
    assert frame["set"].tolist() == ["ham", "ham;spam", "spam", "ham;spam"]
    assert frame["set_size"].tolist() == [1, 2, 1, 2]
    some = made.columns(slice(1, 3))
    assert some["id"].tolist() == ["b", "c"]
    assert some["set_size"].tolist() == [2, 1]
    assert some["split"].tolist() == ["validation", "test"]


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        *((f"{sign}1", f"'{sign}1") for sign in ("=", "+", "-", "@", "\t", "\r")),
        *(("1=", "1="), ("", ""), (-1, -1)),
    ],
)
def test_formulas_get_an_apostrophe(cell, safe, tmp_path):
    assert module._no_formula(cell) == safe
    for wanted, is_safe in ((safe, True), (cell, False)):
        assert module._cells([cell, "x"], is_safe) == [wanted, "x"]
    write_table({"a": ["=1"]}, tmp_path / "t.csv")  # as it is unless told
    assert (tmp_path / "t.csv").read_text() == "a\n=1\n"
    assert module._cells(np.array([-0.5, 1e-9, 1 / 3]), True) == ["-0.5", "1e-09", "0.333333"]


def test_confusions_are_counted_by_true_and_found_class():
    found = confusion_table(np.array([0, 0, 2, 2, 2]), np.array([0, 1, 2, 0, 0]), 3)
    assert found.tolist() == [[1, 1, 0], [0, 0, 0], [2, 0, 1]]


def test_a_table_says_where_it_is_from(tmp_path):
    path = tmp_path / "t.tsv"
    predictions().write(path, {"model": "abc"})
    assert path.read_text().splitlines()[0] == "id\tlabel\tconfidence\tp_ham\tp_spam\tsplit"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    beside = json.loads((tmp_path / "t.tsv.json").read_text())
    assert beside == {"model": "abc", "table": "t.tsv", "sha256": digest}
    predictions().write(tmp_path / "t.parquet", {"model": "abc"})
    said = pq.read_schema(tmp_path / "t.parquet").metadata
    assert said[b"graphconv.model"] == b"abc"
    assert not (tmp_path / "t.parquet.json").exists()


def test_what_a_notebook_shows():
    text = predictions()._repr_html_()
    assert "4 nodes of graph: 2 classes, mean confidence 0.781" in text
    assert (
        repr(predictions()) == "Predictions(4 nodes of 'graph', 2 classes, mean confidence 0.781)"
    )
    assert "the first rows" not in text
    many = Graph(np.zeros((11, 11)), class_names=["x", "y"])
    shares = np.tile(np.float32([0.25, 0.75]), (11, 1))
    text = Predictions(many, shares, many.class_names)._repr_html_()
    assert "the first rows" in text
    assert text.count("0.250") == 10
    ten = Predictions(Graph(np.zeros((10, 10)), class_names=["x", "y"]), shares[:10], ("x", "y"))
    assert "the first rows" not in ten._repr_html_()


def test_the_same_graph_on_disk_has_its_splits_by_place(tmp_path):
    store_graph(GRAPH, tmp_path / "graph")
    first, again = open_graph(tmp_path / "graph"), open_graph(tmp_path / "graph")
    moved = first.with_split([2], [0], [])
    made = Predictions(again, PROBABILITIES, GRAPH.class_names, trained_on=moved)
    assert made.split.tolist() == ["validation", "", "train", ""]


def test_confusions_have_a_row_for_classes_that_nobody_has():
    found = confusion_table(np.array([0]), np.array([0]), 4)
    assert found.tolist() == [[1, 0, 0, 0], *[[0] * 4] * 3]


def test_so_many_rows_are_written_at_a_time():
    blocks = [(rows.start, rows.stop) for rows in row_blocks(65_537)]
    assert blocks == [(0, 65_536), (65_536, 65_537)]


@pytest.mark.parametrize(("ours", "theirs"), [(None, None), ("a", "a"), ("a", "b"), (None, "a")])
def test_ids_are_looked_up_only_where_graphs_differ(ours, theirs):
    """Those of a graph on disk may be many: the same folder, or graph, is known by place."""
    index = {"train_index": [0], "validation_index": [2], "test_index": []}
    trained = SimpleNamespace(folder=ours, n_nodes=3, node_ids=np.array(list("xyz")), **index)
    other = SimpleNamespace(folder=theirs, n_nodes=3, node_ids=np.array(list("zyx")), **index)
    made = Predictions(other, np.zeros((3, 2)), ("a", "b"), trained_on=trained)
    is_same = ours is not None and ours == theirs
    assert made.split_codes.tolist() == ([1, 0, 2] if is_same else [2, 0, 1])
    own = Predictions(trained, np.zeros((3, 2)), ("a", "b"), trained_on=trained)
    del trained.node_ids  # nobody asks for them
    assert own.split_codes.tolist() == [1, 0, 2]


def test_tables_of_predictions_keep_formulas_unless_told(tmp_path):
    graph = Graph(np.zeros((1, 1)), class_names=["x"], node_ids=["=1"])
    made = Predictions(graph, np.ones((1, 1), dtype=np.float32), graph.class_names)
    for number, (how, first) in enumerate((({}, "=1"), ({"spreadsheet_safe": True}, "'=1"))):
        made.write(tmp_path / f"{number}.csv", **how)
        write_table_blocks([{"a": ["=1"]}], tmp_path / f"{number}.tsv", **how)
        assert (tmp_path / f"{number}.csv").read_text().splitlines()[1].startswith(f"{first},x,")
        assert (tmp_path / f"{number}.tsv").read_text() == f"a\n{first}\n"
