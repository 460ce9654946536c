"""PyG: a PyTorch Geometric `Data` object becomes a `Graph`; neither PyG nor torch is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Duplicates, Features, Graph, SelfLoops, adjacency_from_edges
from graphconv.io.table_graph import LoadedGraph


def from_pyg(
    data: Any,
    *,
    split: int = 0,
    directed: bool = False,
    duplicates: Duplicates | None = None,
    self_loops: SelfLoops = "keep",
    class_names: Sequence[Any] | None = None,
    name: str = "graph",
) -> LoadedGraph:
    """Make a graph of a PyTorch Geometric `Data` object, without importing PyG or torch.

    Parameters
    ----------
    data : Data
        Or anything with its attributes: `edge_index`, and, each of them optional, `x`, `y`,
        `edge_weight` or a column of `edge_attr`, `train_mask`, `val_mask`, `test_mask`,
        `num_nodes`. Tensors may be dense or sparse, or numpy arrays.
    split : int
        Which column of the masks to take where they hold several splits.
    directed, duplicates, self_loops
        As in `adjacency_from_edges`.
    class_names : sequence, optional
    name : str

    Returns
    -------
    LoadedGraph

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from graphconv.io.readers import from_pyg
    >>> data = SimpleNamespace(edge_index=np.array([[0, 1], [1, 2]]), y=np.array([0, -1, 1]))
    >>> from_pyg(data).graph
    Graph('graph': 3 nodes, 2 edges, no features, 2 classes, 2 labelled)
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise ValueError("data must have an edge_index, got none")
    ends = _dense(edge_index)
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise ValueError(
            f"edge_index must be whole numbers of shape (2, n_edges), got {ends.dtype} {ends.shape}"
        )
    features = _matrix(getattr(data, "x", None))
    labels = _pyg_labels(getattr(data, "y", None))
    weight = _pyg_weight(data)
    if weight is not None and (not np.isfinite(weight).all() or (weight < 0).any()):
        raise ValueError("edge weights must be finite and not negative")
    n_nodes = getattr(data, "num_nodes", None)
    if n_nodes is None:
        known = [len(part) for part in (labels,) if part is not None]
        known += [] if features is None else [features.shape[0]]
        n_nodes = max([*known, int(ends.max(initial=-1)) + 1])
    adjacency = adjacency_from_edges(
        ends[0],
        ends[1],
        weight,
        n_nodes=int(n_nodes),
        directed=directed,
        duplicates=duplicates,
        self_loops=self_loops,
    )
    graph = Graph(
        adjacency,
        features=features,
        labels=labels,
        class_names=None if class_names is None else tuple(class_names),
        train_index=_mask_index(data, "train_mask", split),
        validation_index=_mask_index(data, "val_mask", split),
        test_index=_mask_index(data, "test_mask", split),
        directed=directed,
        name=name,
    )
    return LoadedGraph(graph)


def _dense(tensor: Any) -> npt.NDArray[Any]:
    """A torch tensor on any device, or anything like an array, as a numpy array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    return np.asarray(tensor)


def _matrix(tensor: Any) -> Features | None:
    """A dense or sparse tensor or array as a matrix that `Graph` takes."""
    if tensor is None or sp.issparse(tensor):
        return tensor
    if getattr(tensor, "is_sparse", False):
        tensor = tensor.coalesce()
        parts = (_dense(tensor.values()), tuple(_dense(tensor.indices())))
        return sp.coo_array(parts, shape=tuple(tensor.shape)).tocsr()
    if getattr(tensor, "is_sparse_csr", False):
        arrays = (tensor.values(), tensor.col_indices(), tensor.crow_indices())
        return sp.csr_array(tuple(map(_dense, arrays)), shape=tuple(tensor.shape))
    return _dense(tensor)


def _pyg_weight(data: Any) -> npt.NDArray[Any] | None:
    weight = getattr(data, "edge_weight", None)
    if weight is None:
        weight = getattr(data, "edge_attr", None)
    if weight is None:
        return None
    values = _dense(weight)
    # Several attributes an edge are no weights.
    return values.reshape(-1) if values.ndim == 1 or values.shape[1:] == (1,) else None


def _pyg_labels(tensor: Any) -> npt.NDArray[Any] | None:
    if tensor is None:
        return None
    labels = _dense(tensor)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "f":
        # Unknown labels of whole numbers and 0/1 indicators come as NaN among floats.
        labels = np.where(np.isnan(labels), -1, labels)
        if np.isfinite(labels).all() and (labels == np.round(labels)).all():
            labels = labels.astype(np.int64)
    return labels


def _mask_index(data: Any, field: str, split: int) -> npt.NDArray[Any] | None:
    mask = getattr(data, field, None)
    if mask is None:
        return None
    array = _dense(mask)
    if array.ndim == 2:
        if not 0 <= split < array.shape[1]:
            raise ValueError(f"split must be 0..{array.shape[1] - 1}, got {split}")
        array = array[:, split]
    return np.flatnonzero(array)
