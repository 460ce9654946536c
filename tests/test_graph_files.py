"""Tests of graphconv.io.graph_files."""

import io
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphconv.graph import Graph
from graphconv.io._matrix_market import read_matrix_market
from graphconv.io.graph_files import read_graph_file, read_npz, write_npz

PATH = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
fuzz = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def club():
    graph = nx.Graph()
    graph.add_node("a", label="x", age=31, kind="big")
    graph.add_node("b", age=47, kind="small")
    graph.add_node("c", label="y", age=25, kind="big")
    graph.add_edge("a", "b", weight=0.5)
    graph.add_edge("b", "c", weight=2.0)
    return graph


@pytest.mark.parametrize("suffix", [".graphml", ".gexf", ".graphml.gz"])
def test_graphml_and_gexf_by_hand(tmp_path, suffix):
    graph = club()
    if suffix == ".gexf":
        # GEXF writes a label for every node, its name where there is none.
        nx.set_node_attributes(graph, {"a": "x", "b": "", "c": "x"}, "label")
    path = tmp_path / f"club{suffix}"
    (nx.write_gexf if suffix == ".gexf" else nx.write_graphml)(graph, path)
    loaded = read_graph_file(path, categorical=["kind"])
    assert loaded.graph.name == "club"
    assert loaded.graph.node_ids.tolist() == ["a", "b", "c"]
    assert loaded.graph.adjacency.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    assert loaded.graph.features.toarray().tolist() == [[31, 1, 0], [47, 0, 1], [25, 1, 0]]
    assert loaded.graph.labels.tolist() == ([0, -1, 0] if suffix == ".gexf" else [0, -1, 1])
    assert loaded.encoding.numeric == ("age",)
    assert loaded.notes == ()
    unweighted = read_graph_file(path, categorical=["kind"], weight="")
    assert unweighted.graph.adjacency.toarray().tolist() == PATH


def test_gexf_labels_that_are_names_are_no_classes(tmp_path):
    path = tmp_path / "path.gexf"
    nx.write_gexf(nx.path_graph(3), path)
    loaded = read_graph_file(path)
    assert loaded.graph.n_classes == 0
    assert loaded.notes == (
        "path.gexf: every node has another label: taken as names, not as classes",
    )


def test_graphml_errors_name_the_node(tmp_path):
    path = tmp_path / "club.graphml"
    nx.write_graphml(club(), path)
    with pytest.raises(
        ValueError,
        match=r"^club\.graphml, node 'a': column 'kind' must be a finite number, got 'big': decl",
    ):
        read_graph_file(path, roles={"kind": "number"})
    with pytest.raises(ValueError, match=r"^club\.graphml has no column 'clas'; its columns are"):
        read_graph_file(path, label="clas", ignore=["kind"])


BOMB = """<?xml version="1.0"?>
<!DOCTYPE g [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<graphml><graph edgedefault="undirected"><node id="&b;"/></graph></graphml>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("suffix", [".graphml", ".gexf"])
def test_xml_entities_are_refused(tmp_path, encoding, suffix):
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(BOMB.encode(encoding))
    with pytest.raises(ValueError, match=r"^bomb\.\w+ must be a \w+ file: it must not have a DOCT"):
        read_graph_file(path)


def test_adjacency_matrices(tmp_path):
    matrix = sp.csr_array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    npz, mtx = tmp_path / "a.npz", tmp_path / "a.mtx"
    sp.save_npz(npz, matrix)
    scipy.io.mmwrite(mtx, matrix)
    for path in (npz, mtx):
        loaded = read_graph_file(path)
        assert loaded.graph.adjacency.toarray().tolist() == [[1, 2, 0], [2, 0, 0], [0, 0, 0]]
        assert loaded.notes == (
            "1 directed edge was made undirected (directed=True keeps directions)",
        )
        assert loaded.encoding is None
        directed = read_graph_file(path, directed=True, self_loops="drop")
        assert directed.graph.adjacency.toarray().tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 0]]
        assert directed.notes == ("1 self-loop dropped",)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.0, 1.0]], r"^a\.\w+.* must be square, got (shape \(1, 2\)|1 x 2)$"),
        ([[0.0, -1.0], [0.0, 0.0]], r"^a\.\w+: edge weights must not be negative, got -1.0 from"),
        ([[np.inf]], r"^a\.\w+: edge weights must be finite, got inf"),
    ],
)
def test_matrices_that_are_no_adjacency(tmp_path, matrix, message):
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(matrix))
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.csr_array(matrix))
    for name in ("a.npz", "a.mtx"):
        with pytest.raises(ValueError, match=message):
            read_graph_file(tmp_path / name, self_loops="drop" if matrix[0][0] == 0 else "keep")


@pytest.mark.parametrize(
    ("text", "matrix"),
    [
        ("real general\n% note\n\n2 2 2\n1 2 0.5\n1 2 1e0\n", [[0, 1.5], [0, 0]]),
        ("INTEGER Symmetric\r\n2 2 2\r\n1 1 3\r\n2 1 4", [[3, 4], [4, 0]]),
        ("pattern general\n2 2 1\n2 1\n", [[0, 0], [1, 0]]),
        ("pattern general\n2 2 0\n", [[0, 0], [0, 0]]),
    ],
)
def test_matrix_market_by_hand(tmp_path, text, matrix):
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {text}", newline="")
    assert read_graph_file(path, directed=True).graph.adjacency.toarray().tolist() == matrix
    with path.open() as handle:
        np.testing.assert_array_equal(read_matrix_market(handle).toarray(), matrix)
    with warnings.catch_warnings():  # scipy 1.18 will return another type
        warnings.simplefilter("ignore", DeprecationWarning)
        np.testing.assert_array_equal(scipy.io.mmread(path).toarray(), matrix)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"its first line must begin with '%%MatrixMarket matrix coordinate'"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", r"its first line must begin"),
        ("%%MatrixMarket matrix coordinate complex general\n", r"it must be one of real, double"),
        ("%%MatrixMarket matrix coordinate real general\n2 2\n", r"it must say its rows, columns"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", r"it must have 2 entr"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", r"entries must be with"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n", r"entries must be with"),
        ("%%MatrixMarket matrix coordinate integer general\n3 3 1\n3 2 1k2\n", r".+"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1 1\n", r"its entries must"),
    ],
)
def test_bad_matrix_market_files(tmp_path, text, reason):
    path = tmp_path / "a.mtx"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^a\.mtx must be a Matrix Market file: {reason}"):
        read_graph_file(path)


def assert_same(first, second):
    assert (first.adjacency != second.adjacency).nnz == 0
    for field in ("labels", "train_index", "validation_index", "test_index"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    for field in ("class_names", "feature_names", "directed", "name"):
        assert getattr(first, field) == getattr(second, field)
    assert first.node_ids.tolist() == second.node_ids.tolist()
    assert type(first.features) is type(second.features)
    if sp.issparse(first.features):
        assert (first.features != second.features).nnz == 0
    elif first.features is not None:
        np.testing.assert_array_equal(first.features, second.features)


ids = st.one_of(
    st.lists(st.text(max_size=5), min_size=4, max_size=4, unique=True),
    st.lists(st.integers(-(2**62), 2**62), min_size=4, max_size=4, unique=True),
    st.none(),
)


@st.composite
def graphs(draw):
    entries = st.sampled_from([0.0, 0.0, 1.0, 0.25])
    adjacency = np.array(draw(st.lists(entries, min_size=16, max_size=16))).reshape(4, 4)
    directed = draw(st.booleans())
    features = np.array(draw(st.lists(entries, min_size=8, max_size=8))).reshape(4, 2)
    kind = draw(st.sampled_from(["none", "dense", "sparse"]))
    labels = draw(st.lists(st.integers(-1, 1), min_size=4, max_size=4))
    known = [place for place, label in enumerate(labels) if label >= 0]
    return Graph(
        adjacency if directed else np.maximum(adjacency, adjacency.T),
        features={"none": None, "dense": features, "sparse": sp.csr_array(features)}[kind],
        labels=labels if draw(st.booleans()) else [[-1] * 2 if v < 0 else [v, 1] for v in labels],
        class_names=draw(st.sampled_from([("ä", "b"), (3, 1), (0.5, 2.5)])),
        node_ids=draw(ids),
        train_index=known[:1],
        test_index=known[1:],
        feature_names=None if kind == "none" else draw(st.sampled_from([None, ("x", "y")])),
        directed=directed,
        name=draw(st.sampled_from(["graph", "Ünï"])),
    )


@fuzz
@given(graph=graphs())
def test_npz_gives_back_the_same_graph(tmp_path, graph):
    path = tmp_path / "graph.npz"
    if any(str(node_id).endswith("\0") for node_id in graph.node_ids):
        # Numpy cannot hold such a text.
        with pytest.raises(ValueError, match=r"^node_ids must be all text"):
            write_npz(graph, path)
        return
    write_npz(graph, path)
    assert_same(read_npz(path), graph)
    assert_same(read_graph_file(path).graph, graph)
    assert [p.name for p in tmp_path.iterdir()] == ["graph.npz"]


def test_ids_that_need_pickle_are_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "graph.npz"
    write_npz(Graph(PATH), path)
    before = path.read_bytes()
    for wrong in ([1, "a", 2], [("a", 1), ("b", 1), ("c", 1)], [2**70, 1, 2], ["a\0", "b", "c"]):
        with pytest.raises(ValueError, match=r"^node_ids must be all text or all numbers to be"):
            write_npz(Graph(PATH, node_ids=wrong), path)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match=r"^class_names must be all text or all numbers"):
        write_npz(Graph(PATH, labels=[0, 1, 0], class_names=["a", 1]), path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "graph.npz"
    write_npz(Graph(PATH), path)
    before = path.read_bytes()

    def fail(handle, *_, **__):
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="No space left"):
        write_npz(Graph(PATH, labels=[0, 1, 0]), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["graph.npz"]


def test_foreign_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones(3))
    with pytest.raises(ValueError, match=r"^a\.npz must be .*: it holds neither a graph nor a spa"):
        read_graph_file(path)
    with pytest.raises(ValueError, match=r"^a\.npz must be a graph written by graphconv: its gra"):
        read_npz(path)
    np.savez(path, x=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"^a\.npz must be .*: Object arrays cannot be loaded"):
        read_graph_file(path)
    np.savez(path, graphconv_format=1)
    with pytest.raises(ValueError, match=r"^a\.npz must be .*: it has no 'adjacency_indices'$"):
        read_graph_file(path)


def test_npz_with_an_index_out_of_range(tmp_path):
    path = tmp_path / "a.npz"
    write_npz(Graph(PATH), path)
    with np.load(path) as stored:
        arrays = {**stored, "adjacency_indices": stored["adjacency_indices"] + 7}
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"^a\.npz must be an \.npz file of a graph: [^\n]+$"):
        read_graph_file(path)


def test_missing_and_unknown_files(tmp_path):
    (tmp_path / "club.graphml").write_text("")
    with pytest.raises(FileNotFoundError, match=r"\(did you mean 'club\.graphml'\?\)$"):
        read_graph_file(tmp_path / "clubs.graphml")
    (tmp_path / "a.dot").write_text("")
    with pytest.raises(ValueError, match=r"^a\.dot must end in one of \.graphml, \.gexf, \.npz, "):
        read_graph_file(tmp_path / "a.dot")


def outcome(path):
    try:
        return read_graph_file(path)
    except ValueError as error:
        return str(error)


def samples():
    for suffix, save in (
        (".graphml", nx.write_graphml),
        (".gexf", nx.write_gexf),
    ):
        stream = io.BytesIO()
        save(club(), stream)
        yield suffix, stream.getvalue()
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, sp.csr_array(PATH))
    yield ".mtx", stream.getvalue()
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_array(PATH))
    yield ".npz", stream.getvalue()


SAMPLES = dict(samples())


@pytest.mark.parametrize("suffix", [*SAMPLES, ".graphml.gz"])
@fuzz
@given(data=st.data())
def test_mangled_files_load_or_fail_in_one_line(tmp_path, suffix, data):
    whole = bytearray(SAMPLES.get(suffix, b"\x1f\x8b"))
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 8)))
    whole[start:end] = data.draw(st.binary(max_size=8))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole))) :]
    path = tmp_path / f"graph{suffix}"
    path.write_bytes(bytes(whole))
    result = outcome(path)
    if isinstance(result, str):
        assert result.startswith(f"graph{suffix}")
        assert "\n" not in result
