"""Tests of graphconv.io.readers: tables that are wrong, and tables that are mangled."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.small_tables import EDGES, NODES, dense, read, write

from graphconv.io.readers import from_frames, read_tables


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        (
            "from,head,to\na,b,c\n",
            None,
            {},
            "edges.csv has no column 'source'; its columns are 'from', 'head', 'to' "
            "(did you mean 'from'?): choose one with source",
        ),
        (
            "Source,targets\na,b\n",
            None,
            {"source": "Source"},
            "edges.csv has no column 'target'; its columns are 'Source', 'targets' "
            "(did you mean 'targets'?): choose one with target",
        ),
        (
            EDGES,
            None,
            {"weight": "w"},
            "edges.csv has no column 'w'; its columns are 'source', 'target': "
            "choose one with weight",
        ),
        (
            EDGES,
            "id,lable\nann,x\n",
            {},
            "nodes.csv has no column 'label'; its columns are 'id', 'lable' "
            "(did you mean 'lable'?): choose one with label",
        ),
        (
            EDGES,
            NODES,
            {"text": ["ages"]},
            "nodes.csv has no column 'ages'; its columns are 'id', 'label', 'age' "
            "(did you mean 'age'?): choose one with text",
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
            "source,target,weight\na,b,light\nb,c,heavy\n",
            None,
            {},
            "edges.csv, line 2: column 'weight' must be a finite number, got 'light': weight='' "
            "leaves it out",
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
            {"roles": "title=number"},
            "nodes.csv, line 2: column 'title' must be a finite number, got 'Deep nets': "
            "declare it with text or categorical, or drop it with ignore",
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
        (
            EDGES,
            "id,label,age\nann,x,1\nbob,y,\n",
            {},
            "nodes.csv, line 3: column 'age' must be a finite number, got an empty cell: "
            "train with missing_value='mean', or 'zero', to fill empty cells",
        ),
        (
            EDGES,
            None,
            {"missing_value": "median"},
            "missing_value must be 'refuse', 'mean' or 'zero', got 'median'",
        ),
        (EDGES, None, {"self_loops": "yes"}, "self_loops must be 'keep' or 'drop', got 'yes'"),
        (EDGES, NODES, {"label_separator": ""}, "label_separator must not be empty"),
    ],
)
def test_bad_input_is_one_line(tmp_path, edges, nodes, options, message):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        read(tmp_path, edges, nodes, **options)
    assert str(caught.value) == message


# What UTF-8 can hold, but for NUL, which pandas before 3 cannot read.
letters = st.characters(codec="utf-8", exclude_characters="\0")
ids = st.text(letters, min_size=1, max_size=4).filter(lambda text: text == text.strip())
# One folder serves all examples: every example writes its files anew.
fuzz = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
