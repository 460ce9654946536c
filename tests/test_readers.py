"""Tests of graphconv.io.readers's files, and through it of table_graph and table_labels."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.small_tables import EDGES, NODES, dense, read

from graphconv.io.readers import from_frames, read_tables
from graphconv.io.table_encoding import TableEncoding


def test_nothing_heavy_is_imported():
    script = "import sys, graphconv.io.graph_files; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert shown.returncode == 0
    heavy = {"torch", "pandas", "pyarrow", "networkx", "sklearn", "matplotlib"}
    assert not heavy & set(shown.stdout.split())


def test_edges_and_nodes_by_hand(tmp_path):
    loaded = read(tmp_path, EDGES, NODES)
    graph = loaded.graph
    assert dense(graph) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.node_ids.tolist() == ["ann", "bob", "cy"]
    assert graph.features.tolist() == [[31], [47], [25]]
    assert graph.feature_names == ("age",)
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.class_names == ("blue", "red")
    assert graph.train_index.tolist() == [0, 2]
    assert graph.name == "edges"
    assert loaded.encoding.numeric == ("age",)
    assert loaded.notes == (
        "2 directed edges were made undirected (directed=True keeps directions)",
    )


def test_edges_alone_are_featureless_and_in_reading_order(tmp_path):
    graph = read(tmp_path, "source,target\nc,a\nb,c\n").graph
    assert graph.node_ids.tolist() == ["c", "a", "b"]
    assert graph.features is None
    assert dense(graph) == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_parquet_equals_csv(tmp_path):
    edges = pd.DataFrame({"source": [7, 8], "target": [8.0, 9.0], "weight": [1.5, 2.0]})
    nodes = pd.DataFrame({"id": [7, 8, 9], "label": [0.0, np.nan, 1.0], "x": [True, False, True]})
    results = []
    for suffix in ("csv", "parquet", "tsv.gz"):
        for frame, name in ((edges, "edges"), (nodes, "nodes")):
            path = tmp_path / f"{name}.{suffix}"
            if suffix == "parquet":
                frame.to_parquet(path)
            elif suffix == "csv":
                frame.astype({c: int for c in ("target",) if c in frame}).to_csv(path, index=False)
            else:
                frame = frame.astype({c: int for c in ("target",) if c in frame})
                frame.to_csv(path, index=False, sep="\t")
        graph = read_tables(tmp_path / f"edges.{suffix}", tmp_path / f"nodes.{suffix}").graph
        assert graph.node_ids.tolist() == ["7", "8", "9"]
        assert graph.class_names == (0, 1)
        assert graph.labels.tolist() == [0, -1, 1]
        results.append((dense(graph), graph.features.tolist()))
    assert results[0] == results[1] == results[2]


def test_ids_of_files_are_text_without_blanks(tmp_path):
    graph = read(tmp_path, "source, target\n007, 7\nNA,None\n").graph
    assert graph.node_ids.tolist() == ["007", "7", "NA", "None"]


def test_nodes_only_in_edges_and_only_in_the_table(tmp_path):
    loaded = read(tmp_path, "source,target\nann,dan\n", NODES)
    assert loaded.graph.node_ids.tolist() == ["ann", "bob", "cy", "dan"]
    assert loaded.graph.features.tolist() == [[31], [47], [25], [pytest.approx(103 / 3)]]
    assert loaded.graph.labels.tolist() == [1, -1, 0, -1]
    assert loaded.notes == (
        "1 node only in edges.csv: no label, features unknown "
        "(numbers taken as the mean of their column)",
        "1 directed edge was made undirected (directed=True keeps directions)",
    )


def test_sparse_features_of_nodes_only_in_edges_are_zero(tmp_path):
    nodes = "id,label,kind\na,x,big\nb,y,small\n"
    graph = read(tmp_path, "source,target\na,c\n", nodes, categorical=["kind"]).graph
    assert sp.issparse(graph.features)
    assert graph.features.toarray().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_text_categorical_ignored_and_several_labels(tmp_path):
    nodes = "id,label,kind,title,note\na,x;y,big,deep graphs,..\nb,,small,,\nc,y; ,,graphs,\n"
    loaded = read(
        tmp_path,
        "source,target\na,b\n",
        nodes,
        categorical=["kind"],
        text="title",
        ignore=["note"],
        label_separator=";",
    )
    graph = loaded.graph
    assert graph.feature_names == ("kind=big", "kind=small", "title:deep", "title:graphs")
    assert graph.features.toarray()[1:].tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]
    assert graph.labels.tolist() == [[1, 1], [-1, -1], [0, 1]]
    assert graph.class_names == ("x", "y")


def test_several_labels_of_which_none_is_known(tmp_path):
    graph = read(tmp_path, "source,target\na,b\n", "id,label\na,\nb,;\n", label_separator=";").graph
    assert graph.labels.tolist() == [-1, -1]


def test_labels_that_are_missing_in_other_ways(tmp_path):
    nodes = "id,label\na,NA\nb,-1\nc,red\nd,NA\n"
    loaded = read(tmp_path, "source,target\na,b\n", nodes, unlabelled_value="-1")
    assert loaded.graph.labels.tolist() == [-1, -1, 0, -1]
    assert loaded.notes[1:] == (
        "1 label '-1' of nodes.csv taken as missing",
        "2 labels 'NA' of nodes.csv taken as missing",
    )


def test_labels_that_are_numbers_and_labels_that_look_like_them(tmp_path):
    edges = "source,target\na,b\n"
    assert read(tmp_path, edges, "id,label\na,10\nb,9\nc,\n").graph.class_names == (9, 10)
    assert read(tmp_path, edges, "id,label\na,01\nb,1\n").graph.class_names == ("01", "1")


def test_weights_are_kept_and_duplicates_summed(tmp_path):
    edges = "source,target,weight\na,b,0.5\na,b,2\nb,c,0\nc,a,1\n"
    loaded = read(tmp_path, edges)
    assert dense(loaded.graph) == [[0, 2.5, 1], [2.5, 0, 0], [1, 0, 0]]
    assert loaded.notes[:2] == (
        "1 repeated edge added up",
        "1 edge of weight 0 left out",
    )
    assert dense(read(tmp_path, edges, duplicates="collapse").graph)[0] == [0, 2, 1]
    assert dense(read(tmp_path, edges, weight="").graph) == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_repeated_edges_without_weights_count_once(tmp_path):
    loaded = read(tmp_path, "source,target\na,b\na,b\nb,a\n")
    assert dense(loaded.graph) == [[0, 1], [1, 0]]
    assert loaded.notes == ("1 repeated edge counted once",)
    assert dense(read(tmp_path, "source,target\na,b\na,b\n", duplicates="sum").graph)[0] == [0, 2]


def test_directed_and_self_loops(tmp_path):
    edges = "source,target\na,a\na,b\n"
    assert dense(read(tmp_path, edges, directed=True).graph) == [[1, 1], [0, 0]]
    loaded = read(tmp_path, edges, self_loops="drop")
    assert dense(loaded.graph) == [[0, 1], [1, 0]]
    assert loaded.notes[0] == "1 self-loop dropped"


def test_an_edge_file_with_a_header_only(tmp_path):
    loaded = read(tmp_path, "source,target\n", NODES)
    assert loaded.graph.n_edges == 0
    assert loaded.notes == (
        "no edges: the graph is empty, the model works as a multi-layer perceptron",
    )
    with pytest.raises(ValueError, match=r"^edges\.csv must have an edge, or the node table"):
        read(tmp_path, "source,target\n")


def test_split_column(tmp_path):
    nodes = "id,label,split\na,x,Train\nb,y,val\nc,x,TEST\nd,,test\ne,y,\n"
    loaded = read(tmp_path, "source,target\na,b\n", nodes)
    graph = loaded.graph
    assert graph.train_index.tolist() == [0]
    assert graph.validation_index.tolist() == [1]
    assert graph.test_index.tolist() == [2]
    assert graph.features is None
    assert (
        "1 node marked in column 'split' without a label: to be predicted, in no split"
    ) in loaded.notes
    as_feature = read(tmp_path, "source,target\na,b\n", nodes, split_column="", ignore=["split"])
    assert as_feature.graph.train_index.tolist() == [0, 1, 2, 4]


def test_split_column_without_train_marks(tmp_path):
    nodes = "id,label,part\na,x,\nb,y,validation\nc,x,\n"
    loaded = read(tmp_path, "source,target\na,b\n", nodes, split_column="part")
    assert loaded.graph.train_index.tolist() == [0, 2]
    assert "no node is marked train: all labelled nodes without a mark are for training" in (
        loaded.notes
    )


def test_new_nodes_are_encoded_as_the_first_ones(tmp_path):
    first = read(
        tmp_path, "source,target\na,b\n", "id,label,kind\na,x,p\nb,y,q\n", categorical="kind"
    )
    loaded = read(
        tmp_path,
        "source,target\nc,d\n",
        "id,more,kind\nc,word,q\nd,,r\n",
        encoding=first.encoding,
        require_label=False,
    )
    assert loaded.graph.features.toarray().tolist() == [[0, 1], [0, 0]]
    assert loaded.graph.labels.tolist() == [-1, -1]
    assert loaded.notes[0] == "nodes.csv: the model was not trained with 'more', left out"
    with pytest.raises(ValueError, match="trained with the column 'kind': give a node table with"):
        read(tmp_path, "source,target\nc,d\n", encoding=first.encoding)


GAPS = "id,label,age,height\nann,red,30,1\nbob,, ,2\ncy,blue,40,3\n"


@pytest.mark.parametrize(("way", "expected"), [("mean", 35), ("zero", 0)])
def test_empty_cells_among_numbers_can_be_filled(tmp_path, way, expected):
    first = read(tmp_path, EDGES, GAPS, missing_value=way)
    assert first.graph.features.tolist() == [[30, 1], [expected, 2], [40, 3]]
    assert f"1 empty cell of column 'age' taken as {expected}" in first.notes
    assert TableEncoding.from_json(first.encoding.to_json()) == first.encoding
    # Nodes that come later get what the first ones got.
    later = "id,age,height\nann,NA,7\nbob,90,8\ncy,2,\n"
    again = read(tmp_path, EDGES, later, encoding=first.encoding, require_label=False)
    height = {"mean": 2, "zero": 0}[way]
    assert again.graph.features.tolist() == [[expected, 7], [90, 8], [2, height]]


def test_words_among_numbers_are_never_filled(tmp_path):
    nodes = GAPS.replace("40", "old")
    message = r"^nodes\.csv, line 4: column 'age' must be a finite number, got 'old'$"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, EDGES, nodes, missing_value="mean")
    empty = "id,label,age\nann,x,\nbob,y,\n"
    with pytest.raises(ValueError, match=r"^nodes\.csv: column 'age' must hold a number to take"):
        read(tmp_path, EDGES, empty, missing_value="mean", roles={"age": "number"})
    filled = read(tmp_path, EDGES, empty, missing_value="zero", roles={"age": "number"})
    assert filled.graph.features.max() == 0
    words = "id,label,age\nann,x,young\nbob,y,\n"
    with pytest.raises(ValueError, match=r": declare it with text or categorical, or drop it"):
        read(tmp_path, EDGES, words, missing_value="mean", roles={"age": "number"})


def test_data_frames_can_be_filled():
    nodes = pd.DataFrame({"id": ["a", "b"], "label": [0, 1], "x": [1.5, np.nan]})
    edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    assert from_frames(edges, nodes, missing_value="mean").graph.features.tolist() == [[1.5], [1.5]]


@pytest.mark.parametrize(
    ("last", "edges", "is_told"),
    [
        ("Total,6,60.5", "a,b", True),
        ("gesamt:,6,", "a,b", True),
        ("Total,6,60.5", "a,Total", False),  # an edge knows it
        ("Total,7,61", "a,b", False),  # no sums
        ("d,6,60.5", "a,b", False),  # a node as any other
    ],
)
def test_a_row_of_sums_is_told_and_kept(tmp_path, last, edges, is_told):
    nodes = f"id,n,x,label\na,1,10.5,p\nb,2,20,q\nc,3,30,\n{last},\n"
    loaded = read(tmp_path, f"source,target\n{edges}\n", nodes, missing_value="mean")
    assert loaded.graph.n_nodes == 4
    name = last.split(",")[0]
    note = f"nodes.csv, line 5: {name!r} holds the sums of the rows above, but is taken as a node"
    assert (note in loaded.notes) == is_told
