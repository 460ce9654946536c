"""Ids that tables write differently."""

import pandas as pd
import pytest
from tests.command_line import one_line
from tests.small_tables import read

from graphconv.io.readers import from_frames
from graphconv.io.table_ids import _spelling

NODES = "id,label,age\n26,red,31\n27,,47\n28,blue,25\n"


def test_floats_of_a_data_frame_beside_whole_numbers(tmp_path):
    edges = "source,target\n26.0,27.0\n27.0,28.0\n26,28\n"
    with pytest.raises(ValueError, match="written otherwise") as error:
        read(tmp_path, edges, NODES)
    assert one_line(error) == (
        "3 of 3 ids that only edges.csv has are probably in nodes.csv, written otherwise: '26.0' "
        "for '26': 2 of 3 edges would miss it"
    )


def test_few_of_them_are_told(tmp_path):
    edges = "source,target\n26,27\n27,28\n28,26.0\n26,999\n"
    loaded = read(tmp_path, edges, NODES)
    assert loaded.notes[0] == (
        "1 of 2 ids that only edges.csv has is probably in nodes.csv, written otherwise: '26.0' "
        "for '26'; taken as other nodes"
    )
    assert loaded.graph.node_ids.tolist() == ["26", "27", "28", "26.0", "999"]


def test_blanks_around_ids_of_files_do_not_count(tmp_path):
    edges = "source,target\n 26 ,27\n27, 28\n"
    assert read(tmp_path, edges, NODES).graph.n_nodes == 3


def test_ids_of_data_frames(tmp_path):
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "label": [0, 1, None]})
    edges = pd.DataFrame({"source": ["a ", "b ", "a"], "target": ["b", "c", "c"]})
    with pytest.raises(ValueError, match="'a ' for 'a': 2 of 3 edges would miss it"):
        from_frames(edges, nodes)


@pytest.mark.parametrize("written", ["26", "26.0", " 26", "026", "26.", 26, 26.0])
def test_spellings_of_a_number(written):
    assert _spelling(written) == "26"


@pytest.mark.parametrize("written", ["260", "2.6", "26.5", "26a", "-26"])
def test_other_ids(written):
    assert _spelling(written) != "26"
