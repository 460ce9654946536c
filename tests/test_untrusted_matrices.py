"""Index arrays that lead out of their matrix are refused before scipy or a kernel follows them."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import Graph
from graphconv.io.datasets import _packed as packed
from graphconv.io.graph_files import read_graph_file, read_npz, write_npz

EDGES = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


def broken(kind, part, place, value):
    """A matrix whose index arrays were changed after it was made."""
    matrix = sp.csr_array(np.array(EDGES, dtype=np.float32)).asformat(kind)
    array = matrix.coords[part] if kind == "coo" else getattr(matrix, part)
    array[place] = value
    return matrix


BROKEN = [
    ("csr", "indices", 0, 10**8), ("csr", "indices", 2, -1), ("csr", "indptr", 1, 10**8),
    ("csr", "indptr", 2, 1), ("csr", "indptr", 3, 10**8), ("csr", "indptr", 0, 1),
    ("csr", "indptr", 3, 0), ("csc", "indptr", 3, 0),
    ("csr", "indptr", 1, -5), ("csc", "indices", 0, 10**8), ("csc", "indptr", 3, 10**8),
    ("bsr", "indices", 0, 10**8), ("coo", 0, 0, 10**8), ("coo", 1, 0, -1),
]  # fmt: skip


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_graph_refuses_wrong_indices(case):
    with pytest.raises(ValueError, match=r"^adjacency must"):
        Graph(broken(*case), directed=True)
    with pytest.raises(ValueError, match=r"^features must"):
        Graph(EDGES, features=broken(*case))


def test_graph_refuses_arrays_of_other_lengths_and_kinds():
    matrix = sp.csr_array(np.array(EDGES, dtype=np.float32))
    matrix.data = matrix.data[:1]
    with pytest.raises(ValueError, match=r"^adjacency must be a sparse matrix in order"):
        Graph(matrix)
    matrix = sp.csr_array(np.array(EDGES, dtype=np.float32))
    matrix.indices = matrix.indices.astype(float)
    with pytest.raises(ValueError, match="whole numbers for indices, got float64 and int32"):
        Graph(matrix)
    matrix = sp.coo_array(np.array(EDGES, dtype=np.float32))
    matrix.data = matrix.data[:1]
    with pytest.raises(ValueError, match="as many rows and columns as values"):
        Graph(matrix)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_a_scipy_file_with_a_wrong_index_is_refused(tmp_path, kind):
    sp.save_npz(tmp_path / "a.npz", broken(kind, "indices", 0, 10**9))
    with pytest.raises(ValueError, match=r"^a\.npz must be .*: its matrix must be"):
        read_graph_file(tmp_path / "a.npz")


@pytest.mark.parametrize("field", ["adjacency_indices", "adjacency_indptr", "features_indices"])
def test_a_cached_data_set_with_a_wrong_index_is_refused(tmp_path, field):
    """Its digest matches: whoever changed it knew how."""
    graph = Graph(EDGES, features=sp.csr_array(np.eye(3)), labels=[0, 1, -1])
    arrays = packed._to_arrays(graph)
    arrays[field] = arrays[field].astype(np.int64)
    arrays[field][1] = 10**9
    arrays["sha256"] = np.frombuffer(packed._digest(arrays), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)
    (tmp_path / "cora.npz").write_bytes(content.getvalue())
    with pytest.raises(ValueError, match="must be a packed graph, but is damaged"):
        packed.read_packed(tmp_path / "cora.npz")


@pytest.mark.parametrize("field", ["adjacency_indices", "features_indptr"])
def test_a_graph_file_with_a_wrong_index_is_refused(tmp_path, field):
    graph = Graph(EDGES, features=sp.csr_array(np.eye(3)), labels=[0, 1, -1])
    write_npz(graph, tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as loaded:
        arrays = dict(loaded)
    arrays[field][1] = 10**8
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(ValueError, match=r"^g\.npz must be a graph written by graphconv"):
        read_npz(tmp_path / "g.npz")
