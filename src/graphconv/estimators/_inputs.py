"""What an estimator is given, made into a Graph: the `fit` door of the checks on data."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from graphconv.graph import Graph, encode_labels, symmetrise
from graphconv.graph.checks import check_adjacency
from graphconv.graph.position import has_position_features, with_position_features
from graphconv.graph.scaling import fit_scaler


def seeds_of(random_state: Any, n: int) -> list[int]:
    """Seeds of n replicas; the first of many is the one of a single run."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"ensemble must be a number of models, at least 1, got {n!r}")
    if isinstance(random_state, int | np.integer):
        first = int(random_state)
    else:
        first = int(check_random_state(random_state).randint(2**31))
    return [first + replica for replica in range(n)]


def encode_targets(y: Any) -> tuple[npt.NDArray[np.int64], tuple[Any, ...] | None]:
    """Labels of any type as class numbers, or an indicator matrix as it is."""
    if y is None:
        raise ValueError(
            "GCNClassifier requires y to be passed, but the target y is None: "
            "give the labels, -1 or missing where unknown, or a graph"
        )
    if sp.issparse(y):
        y = y.toarray()
    if hasattr(y, "to_list"):  # a column of pandas or polars, whose whole numbers stay whole
        y = y.to_list()
    array = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected",
            DataConversionWarning,
            stacklevel=3,
        )
        array = array.ravel()
    if array.ndim == 2:
        return _check_indicator(array), None
    if array.ndim != 1:
        raise ValueError(f"y must be one label per node, or a 0/1 matrix, got shape {array.shape}")
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise ValueError("Input y contains infinity or a value too large for a label")
    codes, names = encode_labels(array)
    known = array[codes >= 0]
    if len(known):
        if array.dtype.kind == "O" and len({isinstance(name, str) for name in names}) > 1:
            raise ValueError("labels in y must be all text or all numbers, got a mixture")
        check_classification_targets(np.array(known.tolist()))
    return codes, names


def _check_indicator(array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(array.shape, np.inf)
    numbers[np.isnan(numbers).all(axis=1)] = -1
    if not np.isin(numbers, (-1, 0, 1)).all():
        raise ValueError("a label matrix must hold 0 and 1, or -1 throughout an unlabelled row")
    return numbers.astype(np.int64)


def graph_from_arrays(
    X: Any,
    labels: npt.NDArray[np.int64] | None,
    class_names: tuple[Any, ...] | None,
    adjacency: Any,
    directed: bool,
    n_neighbors: int,
) -> Graph:
    """A Graph of the arrays; a graph of nearest neighbours where there is no adjacency."""
    if X is None and adjacency is None:
        raise ValueError("fit must get features X, an adjacency or both, got neither")
    if adjacency is None:
        adjacency = neighbour_graph(X, n_neighbors)
        directed = False
    else:
        # Checked before both directions are joined, which would hide an edge of negative weight.
        adjacency = check_adjacency(_matrix(adjacency), directed=True)
        if not directed:
            adjacency = symmetrise(adjacency)
    return Graph(adjacency, features=X, labels=labels, class_names=class_names, directed=directed)


def _matrix(adjacency: Any) -> Any:
    """The adjacency, unless it is a graph of another kind."""
    if hasattr(adjacency, "adjacency"):  # networkx, or a Graph
        raise ValueError(
            "adjacency must be a matrix with a row for each row of X, got a graph: give that "
            "as X, alone"
        )
    shape = np.shape(adjacency)
    if len(shape) == 2 and shape[0] != shape[1] and 2 in shape:
        raise ValueError(
            f"adjacency must be square, got shape {shape}: adjacency_from_edges makes a matrix of "
            "the two ends of each edge"
        )
    return adjacency


def check_features(estimator: Any, X: Any, reset: bool) -> Any:
    """X as scikit-learn checks it, its width noted or compared; None stays None."""
    if X is None:
        return None
    _check_columns(X)
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32, np.float16],
        )
    except ValueError as error:
        first, *others = str(error).splitlines()
        # scikit-learn goes on with advice about other estimators, or with all of X.
        if others and "contains NaN" in first:
            first = f"{first.rstrip('.')}: fill its gaps first, as by SimpleImputer in a pipeline"
        elif not first.startswith("Complex data"):
            raise
        raise ValueError(first) from None


def _check_columns(X: Any) -> None:
    """A data frame must have numbers in all columns; numpy would fail without naming one."""
    if not hasattr(X, "columns"):
        return
    for name in X.columns:
        kind = X[name].dtype
        # Text may hold numbers, which scikit-learn reads.
        if str(kind).lower().startswith(("categor", "enum", "date", "time", "duration")):
            raise ValueError(
                f"X must hold numbers, but column {name!r} is of type {kind}: from_frames "
                "encodes such columns, or a transformer before this one in a pipeline"
            )


def as_graph(data: Any, *, is_new: bool = False) -> Any:
    """The Graph of what a reader returned or of a networkx graph; anything else as it is.

    Of a new one it is said what attributes have no use: nobody sees the notes of its reader.
    """
    # Who has such an object has imported its class.
    tables, networkx = map(sys.modules.get, ("graphconv.io.table_graph", "networkx"))
    if tables is not None and isinstance(data, tables.LoadedGraph):
        return data.graph
    if networkx is not None and isinstance(data, networkx.Graph):
        from graphconv.io.readers import from_networkx

        loaded = from_networkx(data)
        for note in loaded.notes:
            if is_new and "attributes not used" in note:
                warnings.warn(f"{note} (from_networkx can take them)", stacklevel=4)
        return loaded.graph
    return data


def graph_to_fit(estimator: Any, X: Any, y: Any, adjacency: Any) -> Graph:
    """The graph that an estimator's `fit` was given, whole or as arrays."""
    X = as_graph(X, is_new=True)
    estimator.joins_neighbours_ = adjacency is None and not isinstance(X, Graph)
    if isinstance(X, Graph):
        if y is not None or adjacency is not None:
            raise ValueError("fit must get a graph alone, or arrays; got both")
        return X
    X = check_features(estimator, X, reset=True)
    labels, class_names = encode_targets(y)
    return graph_from_arrays(
        X, labels, class_names, adjacency, estimator.directed, estimator.n_neighbors
    )


def graph_to_predict(estimator: Any, known: Graph, X: Any, adjacency: Any) -> tuple[Graph, int]:
    """The graph to predict, and how many of its leading nodes are not asked for.

    `known` is the estimator's training graph.
    """
    X = as_graph(X)
    if isinstance(X, Graph):
        if has_position_features(known) and not has_position_features(X):
            return with_position_features(X), 0
        return X, 0
    if X is None and adjacency is None:
        return known, 0
    X = check_features(estimator, X, reset=False)
    if adjacency is not None:
        return graph_from_arrays(X, None, None, adjacency, estimator.directed, 0), 0
    if estimator.joins_neighbours_:
        return attach_to_neighbours(known, X, estimator.n_neighbors), known.n_nodes
    if X.shape[0] == known.n_nodes:
        return replace(known, features=X), 0
    raise ValueError(
        "the model was trained on a graph, so new rows of X need an adjacency: got "
        f"{X.shape[0]} rows, the training graph has {known.n_nodes} nodes"
    )


def neighbour_graph(X: Any, n_neighbors: int) -> sp.csr_array:
    """Every row joined to its nearest neighbours, in both directions."""
    n_rows = X.shape[0]
    n_neighbors = min(_check_n_neighbors(n_neighbors), n_rows - 1)
    if n_neighbors < 1:
        return sp.csr_array((n_rows, n_rows))
    scaled = fit_scaler(_as_float32(X)).transform(_as_float32(X))
    return symmetrise(sp.csr_array(_neighbour_search(scaled, n_neighbors).kneighbors_graph()))


def _neighbour_search(X: Any, n_neighbors: int) -> Any:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=n_neighbors).fit(X)


def attach_to_neighbours(graph: Graph, X: Any, n_neighbors: int) -> Graph:
    """The training graph with new rows that look at their nearest training rows.

    The training rows don't look back, so a new row's label depends on no other new row.
    """
    features: Any = graph.features
    scaler = fit_scaler(features)
    n_neighbors = min(_check_n_neighbors(n_neighbors), graph.n_nodes)
    search = _neighbour_search(scaler.transform(features), n_neighbors)
    nearest = sp.csr_array(search.kneighbors_graph(scaler.transform(_as_float32(X))))
    n_new = X.shape[0]
    stack = sp.vstack if sp.issparse(features) or sp.issparse(X) else np.vstack
    return Graph(
        sp.block_array(
            [[graph.adjacency, None], [nearest, sp.csr_array((n_new, n_new))]], format="csr"
        ),
        features=stack([features, _as_float32(X)]),
        directed=True,
    )


def _as_float32(X: Any) -> Any:
    return sp.csr_array(X, dtype=np.float32) if sp.issparse(X) else np.asarray(X, np.float32)


def _check_n_neighbors(n_neighbors: int) -> int:
    if not isinstance(n_neighbors, int | np.integer) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be at least 1, got {n_neighbors!r}")
    return int(n_neighbors)


def array_of_names(names: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Class names as numpy holds them best: text, numbers, or objects of any kind."""
    if all(isinstance(name, str) for name in names) or all(
        isinstance(name, int | float) and not isinstance(name, bool) for name in names
    ):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
