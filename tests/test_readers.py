"""Tests of graphconv.readers, and through it of table_graph, table_labels and triples."""

import csv
import subprocess
import sys
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphconv.readers import from_frames, from_networkx, from_pyg, read_tables

EDGES = "source,target\nann,bob\nbob,cy\n"
NODES = "id,label,age\nann,red,31\nbob,,47\ncy,blue,25\n"


def write(folder, content, name):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder, edges=EDGES, nodes=None, **options):
    node_path = None if nodes is None else write(folder, nodes, "nodes.csv")
    return read_tables(write(folder, edges, "edges.csv"), node_path, **options)


def dense(graph):
    return graph.adjacency.toarray().tolist()


def test_nothing_heavy_is_imported():
    script = "import sys, graphconv.graph_files; print(*sys.modules)"
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
    assert loaded.notes == ("2 directed edges were made undirected (--directed keeps directions)",)


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
    assert loaded.graph.features.tolist() == [[31], [47], [25], [0]]
    assert loaded.graph.labels.tolist() == [1, -1, 0, -1]
    assert loaded.notes == (
        "1 node only in edges.csv: no label and zero features",
        "1 directed edge was made undirected (--directed keeps directions)",
        "2 nodes without an edge to another node",
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
    loaded = read(tmp_path, "source,target\na,b\n", "id,label\na,NA\nb,-1\nc,red\nd,NA\n")
    assert loaded.graph.labels.tolist() == [-1, -1, 0, -1]
    assert "2 labels 'NA' of nodes.csv taken as missing" in loaded.notes


def test_labels_that_are_numbers_and_labels_that_look_like_them(tmp_path):
    edges = "source,target\na,b\n"
    assert read(tmp_path, edges, "id,label\na,10\nb,9\nc,-1\n").graph.class_names == (9, 10)
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
    as_feature = read(tmp_path, "source,target\na,b\n", nodes, split="", ignore=["split"])
    assert as_feature.graph.train_index.tolist() == [0, 1, 2, 4]


def test_split_column_without_train_marks(tmp_path):
    nodes = "id,label,part\na,x,\nb,y,validation\nc,x,\n"
    loaded = read(tmp_path, "source,target\na,b\n", nodes, split="part")
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


TRIPLES = "source,relation,target\nann,knows,bob\nbob,knows,cy\nann,likes,ann\n"


def test_triples_by_hand(tmp_path):
    loaded = read(tmp_path, TRIPLES, NODES)
    graph = loaded.graph
    ids = ["ann", "bob", "cy", "knows:head", "knows:tail", "likes:head", "likes:tail"]
    assert graph.node_ids.tolist() == ids
    # ann and bob are heads of knows, bob and cy its tails; ann is both of likes.
    block = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]])
    assert (
        dense(graph) == np.block([[np.zeros((3, 3)), block], [block.T, np.zeros((4, 4))]]).tolist()
    )
    expected = np.zeros((7, 5))
    expected[:3, 0] = [31, 47, 25]
    expected[3:, 1:] = np.eye(4)
    assert isinstance(graph.features, sp.csr_array)
    assert graph.features.toarray().tolist() == expected.tolist()
    assert graph.feature_names == ("age", *ids[3:])
    assert graph.labels.tolist() == [1, -1, 0, -1, -1, -1, -1]
    assert loaded.encoding.relations == ("knows", "likes")
    assert loaded.notes == ("3 triples made a graph with two nodes for each of 2 relations",)


def test_triples_without_features_are_featureless(tmp_path):
    loaded = read(tmp_path, TRIPLES + "ann,knows,knows:head\n")
    assert loaded.graph.features is None
    assert loaded.graph.node_ids.tolist()[4:] == [
        "knows:head#2",
        "knows:tail",
        "likes:head",
        "likes:tail",
    ]


def test_new_triples_have_the_columns_of_the_first_ones(tmp_path):
    first = read(tmp_path, TRIPLES, NODES)
    edges = "source,relation,target\nann,likes,bob\nann,hates,cy\n"
    features = read(tmp_path, edges, NODES, encoding=first.encoding).graph.features.toarray()
    # Nodes: ann, bob, cy, hates (unknown), likes; columns: age, knows, likes.
    assert features.shape == (7, 5)
    assert features[3:].tolist() == [[0] * 5, [0] * 5, [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    plain = read(tmp_path, EDGES, NODES, encoding=first.encoding).graph
    assert plain.features.shape == (3, 5)


def test_triples_are_undirected_and_binary(tmp_path):
    message = r"^edges\.csv holds triples, whose graph is undirected and binary, got "
    with pytest.raises(ValueError, match=message + "directed$"):
        read(tmp_path, TRIPLES, directed=True)
    with pytest.raises(ValueError, match=message + "duplicates='sum'$"):
        read(tmp_path, TRIPLES, duplicates="sum")
    with pytest.raises(ValueError, match=r"^edges\.csv, line 2: column 'relation' must name a rel"):
        read(tmp_path, "source,relation,target\na,,b\n")
    assert read(tmp_path, TRIPLES, relation="").graph.n_nodes == 3


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        (
            "from,to\na,b\n",
            None,
            {},
            "edges.csv has no column 'source'; its columns are 'from', 'to' "
            "(did you mean 'from'?): choose one with --source",
        ),
        (
            "Source,targets\na,b\n",
            None,
            {"source": "Source"},
            "edges.csv has no column 'target'; its columns are 'Source', 'targets' "
            "(did you mean 'targets'?): choose one with --target",
        ),
        (
            EDGES,
            None,
            {"weight": "w"},
            "edges.csv has no column 'w'; its columns are 'source', 'target': "
            "choose one with --weight",
        ),
        (
            EDGES,
            "id,lable\nann,x\n",
            {},
            "nodes.csv has no column 'label'; its columns are 'id', 'lable' "
            "(did you mean 'lable'?): choose one with --label",
        ),
        (
            EDGES,
            NODES,
            {"text": ["ages"]},
            "nodes.csv has no column 'ages'; its columns are 'id', 'label', 'age' "
            "(did you mean 'age'?): choose one with --text",
        ),
        (
            EDGES,
            NODES,
            {"text": ["age"], "categorical": ["age"]},
            "nodes.csv: column 'age' must have one use, got 2",
        ),
        (
            "source,target\na,b\nc,\n",
            None,
            {},
            "edges.csv, line 3: column 'target' must name a node, got an empty cell",
        ),
        (
            "source,target\na,b\nc\n",
            None,
            {},
            "edges.csv, line 3: column 'target' must name a node, got an empty cell",
        ),
        (
            "source,target,weight\na,b,1\nb,c,heavy\n",
            None,
            {},
            "edges.csv, line 3: column 'weight' must be a finite number, got 'heavy'",
        ),
        (
            "source,target,w\na,b,nan\n",
            None,
            {"weight": "w"},
            "edges.csv, line 2: column 'w' must be a finite number, got 'nan'",
        ),
        (
            "source,target,weight\na,b,1\nb,c,inf\n",
            None,
            {},
            "edges.csv, line 3: column 'weight' must be a finite number, got inf",
        ),
        (
            "source,target,weight\na,b,1\n\nb,c,-0.5\n",
            None,
            {},
            "edges.csv, line 4: column 'weight' must not be negative, got -0.5",
        ),
        (
            "source,target,weight\na,b,3e38\na,b,3e38\n",
            None,
            {},
            "edges.csv: edge weights must be finite, got inf from node 0 to node 1",
        ),
        (
            "source,target\nann,bob\nbob,p904\n",
            NODES,
            {"closed_ids": True},
            "edges.csv, line 3: target 'p904' is not in nodes.csv",
        ),
        (EDGES, None, {"closed_ids": True}, "closed ids need a node table, got none"),
        (
            "source,target\np1,p2\n",
            NODES,
            {},
            "edges.csv and nodes.csv must share ids, but no edge has one of the table's: "
            "'p1' is one of the edges', 'ann' of the table's",
        ),
        (
            EDGES,
            "id,label\nann,x\nbob,y\nann,x\n",
            {},
            "nodes.csv, line 4: id 'ann' must be unique, but nodes.csv, line 2 has it too",
        ),
        (
            EDGES,
            "id,label\nann,x\n,y\n",
            {},
            "nodes.csv, line 3: column 'id' must name a node, got an empty cell",
        ),
        (
            EDGES,
            "id,label,title\nann,x,Deep nets\n",
            {},
            "nodes.csv, line 2: column 'title' must be a finite number, got 'Deep nets': "
            "declare it with --text or --categorical, or drop it with --ignore",
        ),
        (
            EDGES,
            'id,label,age,note\nann,x,1,"a\nb"\nbob,y,abc,\n',
            {"ignore": ["note"]},
            "nodes.csv, line 4: column 'age' must be a finite number, got 'abc'",
        ),
        (
            EDGES,
            "id,label,split\nann,x,train\nbob,y,tset\n",
            {},
            "nodes.csv, line 3: column 'split' must be train, validation or test, or empty, "
            "got 'tset'",
        ),
        (
            EDGES,
            "id,label,split\nann,x,train\nbob,,train\n",
            {},
            "nodes.csv, line 3: a train node must have a label, got none",
        ),
        (EDGES, None, {"duplicates": "add"}, "duplicates must be 'sum' or 'collapse', got 'add'"),
        (EDGES, None, {"self_loops": "yes"}, "self_loops must be 'keep' or 'drop', got 'yes'"),
        (EDGES, NODES, {"label_separator": ""}, "label_separator must not be empty"),
    ],
)
def test_bad_input_is_one_line(tmp_path, edges, nodes, options, message):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        read(tmp_path, edges, nodes, **options)
    assert str(caught.value) == message


def test_frames_keep_the_types_of_ids_and_are_left_alone():
    edges = pd.DataFrame({"source": [10, 20], "target": [20, 30]}, index=[5, 5])
    nodes = pd.DataFrame({"label": ["a", None], 3: [0.5, 1.5]}, index=pd.Index([20, 10], name="id"))
    before = edges.copy(), nodes.copy()
    graph = from_frames(edges, nodes).graph
    assert graph.node_ids.tolist() == [20, 10, 30]
    assert graph.node_ids.dtype == np.int64
    assert graph.features.tolist() == [[0.5], [1.5], [0]]
    assert graph.feature_names == ("3",)
    pd.testing.assert_frame_equal(edges, before[0])
    pd.testing.assert_frame_equal(nodes, before[1])


def test_frames_with_ids_of_any_kind():
    ends = pd.DataFrame({"source": [(0, 1), "a"], "target": ["a", 2.5]})
    assert from_frames(ends).graph.node_ids.tolist() == [(0, 1), "a", 2.5]
    ends = pd.DataFrame({"source": pd.Categorical(["x"]), "target": pd.Categorical(["y"])})
    assert from_frames(ends).graph.node_ids.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match=r"^edges: ids must be hashable"):
        from_frames(pd.DataFrame({"source": [[1]], "target": [[2]]}))


def test_errors_in_frames_name_their_row():
    edges = pd.DataFrame({"source": ["a", None], "target": ["b", "c"]})
    with pytest.raises(ValueError, match=r"^edges\.iloc\[1\]: column 'source' must name a node"):
        from_frames(edges)
    with pytest.raises(TypeError, match="edges must be a pandas DataFrame, got list"):
        from_frames([[0, 1]])
    with pytest.raises(TypeError, match="'colour'"):
        from_frames(edges, colour="blue")


def test_networkx_by_hand():
    graph = nx.Graph()
    graph.add_node("a", club="x", age=3, unused="text")
    graph.add_node("b", age=4)
    graph.add_node(("c", 1), club="y", age=5)
    graph.add_edge("a", "b", weight=2.5)
    graph.add_edge("b", ("c", 1))
    loaded = from_networkx(graph, label="club", features="age")
    assert loaded.graph.node_ids.tolist() == ["a", "b", ("c", 1)]
    assert dense(loaded.graph) == [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]]
    assert loaded.graph.features.tolist() == [[3], [4], [5]]
    assert loaded.graph.class_names == ("x", "y")
    assert loaded.graph.labels.tolist() == [0, -1, 1]
    assert loaded.notes == ()
    directed = from_networkx(graph, label="club", directed=True, weight=None).graph
    assert dense(directed) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert directed.features is None


def test_directed_networkx_and_parallel_edges():
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 2)])
    loaded = from_networkx(graph, directed=True, duplicates="sum")
    assert dense(loaded.graph) == [[0, 2, 0], [0, 0, 1], [0, 0, 0]]
    assert loaded.graph.node_ids.dtype == np.int64
    assert "2 directed edges were made undirected (--directed keeps directions)" in (
        from_networkx(graph).notes
    )


def test_networkx_vectors_and_kinds():
    graph = nx.path_graph(2)
    for node, vector in ((0, [1.0, 2.0]), (1, np.array([3.0, 4.0]))):
        graph.nodes[node].update(x=vector, kind="k", label=node, split="train")
    loaded = from_networkx(graph, features=["x"], categorical=["kind"]).graph
    assert loaded.features.toarray().tolist() == [[1, 2, 1], [3, 4, 1]]
    assert loaded.feature_names == ("x_0", "x_1", "kind=k")
    graph.nodes[1]["x"] = [1.0]
    with pytest.raises(ValueError, match=r"^graph, node 1: attribute 'x' must hold 2 numbers"):
        from_networkx(graph, features="x")


def test_bad_networkx_attributes():
    graph = nx.path_graph(3)
    graph.nodes[1]["age"] = 4
    with pytest.raises(ValueError, match=r"^graph, node 0: column 'age' must be a finite number"):
        from_networkx(graph, features="age")
    with pytest.raises(ValueError, match="graph has no column 'club'"):
        from_networkx(graph, label="club")
    with pytest.raises(ValueError, match="graph has no edge with the attribute 'w'"):
        from_networkx(graph, weight="w")
    graph.edges[1, 2]["weight"] = -1
    with pytest.raises(ValueError, match=r"^graph, edge 1 to 2: column 'weight' must not be neg"):
        from_networkx(graph)


def pyg(**fields):
    return SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), **fields)


def test_pyg_by_hand():
    data = pyg(
        x=torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True),
        y=torch.tensor([[1], [0], [1]]),
        edge_attr=torch.tensor([[0.5], [2.0]]),
        train_mask=torch.tensor([True, False, False]),
        val_mask=torch.tensor([False, True, False]),
        test_mask=torch.tensor([False, False, True]),
        num_nodes=3,
    )
    graph = from_pyg(data, name="mine")
    assert dense(graph) == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    assert graph.features.tolist() == [[1], [2], [3]]
    assert graph.labels.tolist() == [1, 0, 1]
    splits = (graph.train_index, graph.validation_index, graph.test_index)
    assert [index.tolist() for index in splits] == [[0], [1], [2]]


def test_pyg_without_nodes_fields_and_with_several_edge_attributes():
    graph = from_pyg(pyg(edge_attr=torch.ones(2, 4)), directed=True)
    assert dense(graph) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert from_pyg(pyg(num_nodes=5)).n_nodes == 5


def test_pyg_sparse_features_indicator_labels_and_several_splits():
    wanted = torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    csr = sp.csr_array(wanted.numpy())
    for x in (wanted.to_sparse(), csr):
        labels = torch.tensor([[1.0, 0.0], [float("nan")] * 2, [1.0, 1.0]])
        masks = torch.tensor([[True, False], [False, False], [False, True]])
        data = pyg(x=x, y=labels, train_mask=masks)
        graph = from_pyg(data, split=1)
        assert graph.features.toarray().tolist() == wanted.tolist()
        assert graph.labels.tolist() == [[1, 0], [-1, -1], [1, 1]]
        assert graph.train_index.tolist() == [2]
    with pytest.raises(ValueError, match=r"^split must be 0\.\.1, got 2$"):
        from_pyg(data, split=2)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_pyg_compressed_sparse_features():
    wanted = torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    assert from_pyg(pyg(x=wanted.to_sparse_csr())).features.toarray().tolist() == wanted.tolist()


def test_bad_pyg_data():
    with pytest.raises(ValueError, match="data must have an edge_index, got none"):
        from_pyg(SimpleNamespace(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match=r"of shape \(2, n_edges\), got int64 \(3, 2\)"):
        from_pyg(SimpleNamespace(edge_index=torch.zeros(3, 2, dtype=torch.int64)))
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="edge weights must be finite and not negative"):
            from_pyg(pyg(edge_weight=torch.tensor([1.0, weight])))
    with pytest.raises(ValueError, match="labels must be class numbers"):
        from_pyg(pyg(y=torch.tensor([0.5, 1.0, 2.0])))


# What UTF-8 can hold, but for NUL, which pandas before 3 cannot read.
letters = st.characters(codec="utf-8", exclude_characters="\0")
ids = st.text(letters, min_size=1, max_size=4).filter(lambda text: text == text.strip())
# One folder serves all examples: every example writes its files anew.
fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzz
@given(edges=st.lists(st.tuples(ids, ids), min_size=1, max_size=12))
def test_any_edges_survive_csv_and_frames(tmp_path, edges):
    frame = pd.DataFrame(edges, columns=["source", "target"], dtype="str")
    path = tmp_path / "edges.csv"
    frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    from_file, from_frame = read_tables(path).graph, from_frames(frame).graph
    position = {node_id: place for place, node_id in enumerate(from_frame.node_ids)}
    expected = np.zeros((len(position), len(position)))
    for source, target in edges:
        expected[position[source], position[target]] = 1
        expected[position[target], position[source]] = 1
    assert set(position) == {end for edge in edges for end in edge}
    assert from_file.node_ids.tolist() == from_frame.node_ids.tolist()
    assert dense(from_file) == dense(from_frame) == expected.tolist()


cells = st.text(alphabet='ab01,;"\n\r\t -.\x00é\ufeff', max_size=12)
mangled = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", errors="replace")),
    st.lists(cells, max_size=8).map(lambda rows: "\n".join(rows).encode()),
    st.lists(cells, max_size=8).map(
        lambda rows: ("source,target,weight\n" + ",".join(rows)).encode()
    ),
    st.lists(st.tuples(cells, cells, cells), max_size=6).map(
        lambda rows: "\n".join(["source,target,weight", *map(",".join, rows)]).encode()
    ),
)


def outcome(edges, nodes):
    try:
        return read_tables(edges, nodes).graph
    except (ValueError, OSError) as error:
        return str(error)


@fuzz
@given(edges=mangled, nodes=mangled.map(lambda text: text.replace(b"source,target", b"id,label")))
def test_mangled_files_load_or_fail_in_one_line(tmp_path, edges, nodes):
    edge_path, node_path = write(tmp_path, edges, "edges.csv"), write(tmp_path, nodes, "nodes.csv")
    good = write(tmp_path, "source,target\na,b\n", "good.csv")
    for files in ((edge_path, None), (edge_path, node_path), (good, node_path)):
        result = outcome(*files)
        if isinstance(result, str):
            assert result
            assert "\n" not in result
        else:
            assert (result.adjacency != result.adjacency.T).nnz == 0
