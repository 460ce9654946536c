"""What must hold of the arrays that make a Graph; a check returns what the Graph keeps of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.kernels import sealed

IntArray = npt.NDArray[np.int64]


def check_sparse(matrix: Any, what: str) -> None:
    """Refuse a sparse matrix whose index arrays lead out of it, before scipy or a kernel follows.

    scipy itself looks at the indices only when it is asked to, and ends the process where one of
    them is wrong.
    """
    if not sp.issparse(matrix):
        return
    index: tuple[npt.NDArray[Any], ...] = ()
    if matrix.format in ("csr", "csc", "bsr"):
        index = (matrix.indices, matrix.indptr)
    elif matrix.format == "coo":
        index = tuple(matrix.coords)
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in index):
        kinds = " and ".join(str(part.dtype) for part in index)
        raise ValueError(f"{what} must have whole numbers for indices, got {kinds}")
    if matrix.format == "coo":
        _check_coordinates(index, matrix, what)
    elif index:
        try:
            # In two steps: the second looks at indices that the first says are there.
            matrix.check_format(full_check=False)
            # scipy looks no further where the last pointer says that there are no entries.
            if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
                raise ValueError("index pointer values must form a non-decreasing sequence")
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(
                f"{what} must be a sparse matrix in order, but: {' '.join(str(error).split())}"
            ) from None


def _check_coordinates(index: tuple[npt.NDArray[Any], ...], matrix: Any, what: str) -> None:
    if len(index) != matrix.ndim or len({len(matrix.data), *map(len, index)}) != 1:
        raise ValueError(f"{what} must have as many rows and columns as values")
    for part, width in zip(index, matrix.shape, strict=True):
        if len(part) and not 0 <= part.min() <= part.max() < width:
            wrong = part.min() if part.min() < 0 else part.max()
            raise ValueError(f"{what} must have indices from 0 to {width - 1}, got {wrong}")


def check_adjacency(adjacency: Any, directed: bool) -> sp.csr_array:
    check_sparse(adjacency, "adjacency")
    try:
        matrix = sp.csr_array(adjacency)
    except (TypeError, ValueError):  # scipy would print all of it
        kind = f"{type(adjacency).__module__}.{type(adjacency).__qualname__}"
        raise ValueError(
            f"adjacency must be an array or a scipy sparse matrix of numbers, got {kind}"
        ) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"adjacency must be square, got shape {matrix.shape}")
    if matrix.dtype.kind == "c":
        raise ValueError("adjacency weights must be real numbers, got complex ones")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    weights = matrix.data
    if weights.dtype.kind == "f" and not np.isfinite(weights).all():
        raise ValueError(
            f"edge weights must be finite, got {_entry(matrix, ~np.isfinite(weights))}"
        )
    if weights.dtype.kind != "b" and (weights < 0).any():
        raise ValueError(f"edge weights must not be negative, got {_entry(matrix, weights < 0)}")
    with np.errstate(over="ignore"):
        matrix = sp.csr_array(matrix.astype(np.float32))
    if not np.isfinite(matrix.data).all():
        wrong = ~np.isfinite(matrix.data)
        raise ValueError(f"edge weights must fit float32, got {_entry(matrix, wrong)}")
    _check_degrees(matrix)
    if (matrix.data == 0).any():
        matrix.eliminate_zeros()
    if not directed and (matrix != matrix.T).nnz:
        row, column = (int(ends[0]) for ends in (matrix != matrix.T).nonzero())
        raise ValueError(
            "adjacency of an undirected graph must be symmetric, but entries "
            f"({row}, {column}) and ({column}, {row}) differ: use graphconv.symmetrise, "
            "or directed=True"
        )
    return sealed_matrix(_with_narrow_indices(matrix))


def _check_degrees(matrix: sp.csr_array) -> None:
    """Refuse weights of a node's edges whose sum would be infinite in float32."""
    most = float(np.finfo(np.float32).max)
    if float(matrix.data.max(initial=0)) * matrix.nnz <= most:
        return
    degree = matrix.astype(np.float64).sum(axis=1)
    if degree.max() > most:
        node = int(degree.argmax())
        raise ValueError(
            f"the weights of a node's edges must add up to {most:.1e} at most, got "
            f"{degree[node]:.1e} at node {node}"
        )


def _with_narrow_indices(matrix: sp.csr_array) -> sp.csr_array:
    """Indices of four bytes where these do: then the kernels read half as much."""
    kind = np.int32 if max(*matrix.shape, matrix.nnz) <= np.iinfo(np.int32).max else np.int64
    indices, indptr = (part.astype(kind, copy=False) for part in (matrix.indices, matrix.indptr))
    return sp.csr_array((matrix.data, indices, indptr), shape=matrix.shape)


def _entry(matrix: sp.csr_array, wrong: npt.NDArray[np.bool_]) -> str:
    position = int(np.flatnonzero(wrong)[0])
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return f"{matrix.data[position]} from node {row} to node {int(matrix.indices[position])}"


def check_features(features: Any, n_nodes: int) -> Any:
    if sp.issparse(features):
        check_sparse(features, "features")
        matrix: Any = sp.csr_array(features)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values = matrix.data
    else:
        matrix = np.asarray(features)
        values = matrix
    if matrix.ndim != 2 or matrix.shape[0] != n_nodes:
        raise ValueError(
            f"features must have one row per node ({n_nodes}), got shape {matrix.shape}"
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"features must be numbers, got dtype {values.dtype}")
    # Dense half precision is kept: whatever computes reads it row by row.
    if sp.issparse(matrix) or matrix.dtype != np.float16:
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32)
    values = matrix.data if sp.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        if sp.issparse(matrix):
            matrix = matrix.tocoo()
            position = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
            row, column = int(matrix.row[position]), int(matrix.col[position])
            value = matrix.data[position]
        else:
            row, column = (int(ends[0]) for ends in np.nonzero(~np.isfinite(values)))
            value = values[row, column]
        raise ValueError(
            f"features must be finite {values.dtype} numbers, got {value} at node {row}, column "
            f"{column}"
        )
    if sp.issparse(matrix):
        return sealed_matrix(_with_narrow_indices(matrix))
    return sealed(np.ascontiguousarray(matrix))


def sealed_matrix(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix, none of whose arrays can be written to; they must be the caller's own."""
    parts = (sealed(part) for part in (matrix.data, matrix.indices, matrix.indptr))
    same = sp.csr_array(tuple(parts), shape=matrix.shape)
    same.has_canonical_format = True  # scipy would look again, and can't sort in place any more
    return same


def check_labels(labels: Any, n_nodes: int) -> npt.NDArray[np.int64]:
    array = np.asarray(labels)
    if array.ndim not in (1, 2) or len(array) != n_nodes:
        raise ValueError(
            f"labels must have one entry per node ({n_nodes}), got shape {array.shape}"
        )
    if array.dtype.kind not in "iub":
        raise ValueError(
            f"labels must be class numbers, -1 where unknown, got dtype {array.dtype}: "
            "graphconv.encode_labels turns labels of any type into numbers"
        )
    array = array.astype(np.int64)
    if array.size and array.min() < -1:
        raise ValueError(f"labels must be -1 (unknown) or a class number, got {array.min()}")
    if array.ndim == 2:
        unknown = (array == -1).any(axis=1)
        if (array > 1).any() or (array[unknown] != -1).any():
            raise ValueError("indicator labels must be 0 or 1, or -1 throughout an unknown row")
    return array


def check_class_names(
    class_names: Sequence[Hashable] | None, labels: npt.NDArray[np.int64]
) -> tuple[Hashable, ...]:
    needed = labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
    if class_names is None:
        return tuple(range(needed))
    names = tuple(n.item() if isinstance(n, np.generic) else n for n in class_names)
    if len(names) < needed or (labels.ndim == 2 and len(names) != needed):
        raise ValueError(f"class_names must name all {needed} classes, got {len(names)} names")
    if len(set(names)) != len(names):
        raise ValueError("class_names must be distinct")
    return names


def check_node_ids(node_ids: Any, n_nodes: int) -> npt.NDArray[Any]:
    if node_ids is None:
        return frozen(np.arange(n_nodes))
    if isinstance(node_ids, np.ndarray) and node_ids.ndim == 1:
        ids = node_ids
    else:
        # Tuples and mixed types stay as they are, one object a node.
        listed = list(node_ids)
        ids = np.empty(len(listed), dtype=object)
        ids[:] = listed
    if len(ids) != n_nodes:
        raise ValueError(f"node_ids must have one entry per node ({n_nodes}), got {len(ids)}")
    seen: set[Hashable] = set()
    for node_id in ids.tolist():
        if node_id in seen:
            raise ValueError(f"node_ids must be unique, but {node_id!r} occurs more than once")
        seen.add(node_id)
    return frozen(ids)


def check_index(index: Any, n_nodes: int, field: str) -> IntArray:
    array = np.asarray(index)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{field} must be a list of node positions, got {array.dtype} array")
    array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= n_nodes):
        raise ValueError(f"{field} must hold node positions 0..{n_nodes - 1}")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"{field} must not name a node twice")
    return array


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = array.view()
    array.flags.writeable = False
    return array
