"""Parts of a stored graph: together they are the graph, and each knows whom it depends on."""

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import make_runner

from graphconv import Graph, load_dataset
from graphconv.storage.graph_part import open_part
from graphconv.storage.partition import METHODS, partition_graph
from graphconv.storage.stored_graph import open_graph, store_graph

# 0 - 1 - 2 - 3 - 4, and 1 - 3; node 5 knows nobody; contiguous halves are 0, 1, 2 and 3, 4, 5.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)]


def small(**options):
    dense = np.zeros((6, 6))
    for one, other in EDGES:
        dense[one, other] = dense[other, one] = 1
    return Graph(dense, np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, -1, 1], **options)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return make_runner(monkeypatch, capsys)


def test_parts_of_a_path_worked_by_hand(tmp_path):
    store_graph(small(train_index=[3, 0], test_index=[5]), tmp_path / "g")
    found = partition_graph(tmp_path / "g", 2, method="contiguous")
    assert [(part.n_nodes, part.n_halo, part.n_cut) for part in found] == [(3, 1, 2), (3, 2, 2)]
    first, second = (open_part(tmp_path / "g", part, 2) for part in range(2))
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert second.nodes.tolist() == [3, 4, 5, 1, 2]
    assert second.halo_bounds.tolist() == [0, 2, 2]
    assert second.lent.tolist() == [0]  # node 3, which part 0 sees
    assert first.lent.tolist() == [1, 2]
    assert first.lent_bounds.tolist() == [0, 0, 2]
    assert second.graph.degree.tolist() == [3, 1, 0, 3, 2]
    assert second.graph.labels.tolist() == [1, -1, 1, -1, -1]
    assert (second.graph.train_index.tolist(), second.graph.test_index.tolist()) == ([0], [2])
    assert second.graph.features.tolist() == [[6, 7], [8, 9], [10, 11]]
    # Entries keep the order that they have in the whole graph: 1, 2, 4 of node 3.
    adjacency = second.graph.adjacency
    assert adjacency.indptr.tolist() == [0, 3, 4, 4, 4, 4]
    assert adjacency.indices.tolist() == [3, 4, 1, 0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["cora", "directed", "weighted", "featureless"])
def test_parts_together_are_the_graph(tmp_path, monkeypatch, method, kind):
    if method == "metis":
        pytest.importorskip("pymetis")
    monkeypatch.setattr("graphconv.storage.partition.BLOCK_NUMBERS", 3000)
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((80, 80)) < 0.05) * rng.random((80, 80))
    graph = {
        "cora": lambda: load_dataset("cora"),
        "directed": lambda: Graph((dense > 0) * 1.0, rng.random((80, 3)), directed=True),
        "weighted": lambda: Graph(dense + dense.T, rng.random((80, 3)), np.arange(80) % 3),
        "featureless": lambda: load_dataset("karate"),
    }[kind]()
    store_graph(graph, tmp_path / "g")
    summaries = partition_graph(tmp_path / "g", 3, method=method)
    assert max(part.n_nodes for part in summaries) < 0.6 * graph.n_nodes
    whole = np.zeros(graph.n_nodes, dtype=int)
    entries = sp.lil_array(graph.adjacency.shape, dtype=np.float32)
    for number in range(3):
        part = open_part(tmp_path / "g", number, 3)
        own, halo = part.nodes[: part.n_own], part.nodes[part.n_own :]
        whole[own] += 1
        adjacency = part.graph.adjacency
        entries[own] = 0
        rows = np.repeat(part.nodes, np.diff(adjacency.indptr))
        entries[rows, part.nodes[adjacency.indices]] = adjacency.data
        assert (adjacency.indptr[part.n_own :] == adjacency.indptr[-1]).all()
        assert np.array_equal(part.graph.labels[: part.n_own], graph.labels[own])
        np.testing.assert_array_equal(part.graph.degree, graph.degree[part.nodes])
        if graph.features is not None:
            theirs, ours = graph.features[own], part.graph.features
            if sp.issparse(ours):
                assert np.array_equal(ours.indices, theirs.indices)
                assert np.array_equal(ours.data, theirs.data)
            else:
                assert np.array_equal(ours, theirs)
        for other in range(3):
            lender = open_part(tmp_path / "g", other, 3)
            low, high = lender.lent_bounds[number : number + 2]
            begin, end = part.halo_bounds[other : other + 2]
            assert np.array_equal(lender.nodes[lender.lent[low:high]], halo[begin:end])
    assert (whole == 1).all()
    assert (abs(entries.tocsr() - graph.adjacency)).nnz == 0
    again = open_graph(tmp_path / "g")
    assert again.fingerprint() == open_graph(tmp_path / "g").fingerprint()
    assert np.array_equal(again.train_index, graph.train_index)


def test_metis_cuts_fewer_edges_than_ranges(tmp_path):
    pytest.importorskip("pymetis")
    store_graph(load_dataset("cora"), tmp_path / "g")
    cut = {
        method: sum(p.n_cut for p in partition_graph(tmp_path / "g", 4, method=method))
        for method in ("metis", "contiguous")
    }
    assert cut["metis"] < 0.2 * cut["contiguous"]


def test_command_stores_a_data_set_and_prints_a_table(run):
    done = run("partition", "karate", "--parts", 2, "-o", "graph", "--method", "contiguous")
    lines = done.out.splitlines()
    assert lines[1].split() == ["part", "nodes", "edges", "halo", "rows", "cut", "edges"]
    assert lines[5].split() == ["all", "34", "78", "17", "20"]
    assert lines[6].split() == ["largest", "/", "mean", "1.00", "1.02", "1.06", "1.00"]
    assert done.err == ["note: cut by contiguous ranges of nodes"]
    done = run("partition", "graph", "--parts", 1, "--json", "-q")
    assert done.json["parts"] == [
        {"n_nodes": 34, "n_edges": 78, "n_entries": 156, "n_halo": 0, "n_cut": 0}
    ]
    assert sorted(path.name for path in open_graph("graph").folder.glob("parts-*")) == [
        "parts-1",
        "parts-2",
    ]


def test_ranges_take_over_where_metis_can_not_serve(run, monkeypatch):
    run("partition", "karate", "--parts", 1, "-o", "graph")
    monkeypatch.setattr("graphconv.storage.partition.available_memory", lambda: 10)
    if "pymetis" in sys.modules:
        done = run("partition", "graph", "--parts", 2)
        assert "contiguous ranges of nodes: METIS would need about" in done.err[0]
    monkeypatch.setitem(sys.modules, "pymetis", None)
    done = run("partition", "graph", "--parts", 2)
    assert done.err == [
        "note: cut by contiguous ranges of nodes: pymetis is not installed (pip install pymetis)"
    ]
    done = run("partition", "graph", "--parts", 2, "--method", "metis", expect=2)
    assert done.err[0].startswith("graphconv: method metis can't be used: pymetis")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("karate", "--parts", 2), "karate must be a graph folder, or be stored in one"),
        (("graph", "--parts", 0), "parts must be from 1 to 34 (nodes), got 0"),
        (("graph", "--parts", 35), "parts must be from 1 to 34 (nodes), got 35"),
        (("graph", "--parts", 2, "--method", "x"), "method must be one of auto, metis"),
        (("graph", "--parts", 2, "-o", "h"), "--output is for data sets"),
    ],
)
def test_what_can_not_be_cut_is_refused_in_a_line(run, arguments, message):
    store_graph(load_dataset("karate"), "graph")
    done = run("partition", *arguments, expect=2)
    assert len(done.err) == 1
    assert message in done.err[0]
    assert not list(open_graph("graph").folder.glob("parts-*"))


def test_a_part_that_changed_is_noticed(tmp_path):
    store_graph(small(), tmp_path / "g")
    with pytest.raises(ValueError, match=r"must be cut into as many parts .* is not cut"):
        open_part(tmp_path / "g", 0, 2)
    partition_graph(tmp_path / "g", 2)
    with pytest.raises(ValueError, match=r"processes \(3\), but is cut into 2 parts"):
        open_part(tmp_path / "g", 0, 3)
    path = tmp_path / "g" / "parts-2" / "part-1" / "degree.bin"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    open_part(tmp_path / "g", 0, 2)
    with pytest.raises(ValueError, match=r"part-1.degree.bin must have the checksum"):
        open_part(tmp_path / "g", 1, 2)
    manifest = tmp_path / "g" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "digest": "other"}))
    with pytest.raises(ValueError, match="must be of the graph"):
        open_part(tmp_path / "g", 0, 2)
