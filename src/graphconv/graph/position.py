"""Features of place and role: where a node lies in the graph, and how connected it is.

A graph enters, columns for each of its nodes leave; labels are not looked at. Place: random
directions, one for each node, are averaged over neighbours again and again, so that nodes whose
surroundings overlap come out alike (Chen et al., "Fast and accurate network embeddings via very
sparse random projection", CIKM 2019). Role: the logarithms of the degree and of PageRank.

A node's random direction comes from its id, so that it has the same one in a larger graph.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph.graph import Graph, symmetrise

FloatArray = npt.NDArray[np.float32]
# With 64 columns and four steps a linear model is right in 59 % of held-out nodes of a citation
# graph, with these in 77 %, where walks and a skip-gram come to 75 %; see docs/log.md.
N_COLUMNS = 256
_N_STEPS = 10
_ROLES = ("position: log degree", "position: log PageRank")
N_ROLES = len(_ROLES)  # they are the last columns
_DAMPING, _N_ROUNDS = 0.85, 30


def position_features(graph: Graph, n_columns: int = N_COLUMNS) -> FloatArray:
    """Columns that say where each node lies, and how connected it is.

    Parameters
    ----------
    graph : Graph
    n_columns : int
        Of place; two of role come after them.

    Returns
    -------
    array of shape (n_nodes, n_columns + 2)

    Examples
    --------
    Two triangles that nothing joins: nodes of one lie together, and apart from the other's.

    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.graph.position import position_features
    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> pair = Graph(np.block([[triangle, np.zeros((3, 3))], [np.zeros((3, 3)), triangle]]))
    >>> places = position_features(pair)[:, :-2]
    >>> cosines = places @ places.T
    >>> bool(cosines[0, 1] > 0.5), bool(abs(cosines[0, 4]) < 0.5)
    (True, True)
    """
    neighbours = symmetrise(graph.adjacency) if graph.directed else graph.adjacency
    degree = np.asarray(neighbours.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
    mean = (sp.diags_array(inverse.astype(np.float32)) @ neighbours).tocsr()
    place = _directions(graph, n_columns)
    total = np.zeros_like(place)
    for _ in range(_N_STEPS):
        place = mean @ place
        total += _of_length_one(place)
    roles = [np.log1p(degree), np.log(_page_rank(mean) * graph.n_nodes + 1e-6)]
    return np.column_stack([_of_length_one(total), *(_standard(role) for role in roles)])


def with_position_features(graph: Graph) -> Graph:
    """The graph with these columns beside its own, or instead of none.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.graph.position import has_position_features, with_position_features
    >>> placed = with_position_features(load_dataset("karate"))
    >>> placed.n_features, has_position_features(placed)
    (258, True)
    """
    columns = position_features(graph)
    names = (*(f"position {number}" for number in range(columns.shape[1] - N_ROLES)), *_ROLES)
    features: Any = graph.features
    if features is None:
        return replace(graph, features=columns, feature_names=names)
    given = graph.feature_names or tuple(str(number) for number in range(graph.n_features))
    # Beside own columns these must not be drowned: all have about the same size.
    size = _typical_size(features)
    if sp.issparse(features):
        features = sp.hstack([features, sp.csr_array(size * columns)], format="csr")
    else:
        features = np.hstack([features, size * columns])
    return replace(graph, features=features, feature_names=(*given, *names))


def without_position_features(graph: Graph) -> Graph:
    """The graph as it was before `with_position_features`."""
    n_own = graph.n_features - N_COLUMNS - N_ROLES
    if n_own == 0:
        return replace(graph, features=None, feature_names=None)
    assert graph.features is not None
    assert graph.feature_names is not None
    return replace(
        graph, features=graph.features[:, :n_own], feature_names=graph.feature_names[:n_own]
    )


def has_position_features(graph: Graph) -> bool:
    """Whether a graph's features are, or end in, those of place and role."""
    names = graph.feature_names
    return names is not None and tuple(names[-N_ROLES:]) == _ROLES


def _typical_size(features: Any) -> float:
    """The root mean square length of a row."""
    squares = features.multiply(features) if sp.issparse(features) else features * features
    return float(np.sqrt(squares.sum() / max(features.shape[0], 1))) or 1.0


def _directions(graph: Graph, n_columns: int) -> FloatArray:
    """A random sign for each node and column, by the node's id."""
    codes = [zlib.crc32(str(node).encode()) for node in graph.node_ids.tolist()]
    keys = np.array(codes, dtype=np.uint64)[:, None] << np.uint64(16)
    mixed: npt.NDArray[Any] = keys + np.arange(n_columns, dtype=np.uint64)
    # The mixing steps of splitmix64.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    signs = (mixed ^ (mixed >> np.uint64(31))) & np.uint64(1)
    return np.asarray((2.0 * signs - 1.0) / n_columns**0.5, dtype=np.float32)


def _of_length_one(rows: FloatArray) -> FloatArray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    shortened: FloatArray = rows / np.maximum(length, np.float32(1e-12))
    return shortened


def _standard(values: npt.NDArray[np.float64]) -> FloatArray:
    """Values as deviations from their mean, at the size of a column of place."""
    spread = float(values.std())
    scaled = (values - values.mean()) / (spread or 1.0) / np.sqrt(N_COLUMNS)
    return np.asarray(scaled, dtype=np.float32)


def _page_rank(mean: sp.csr_array) -> npt.NDArray[np.float64]:
    """How often a random walk is at each node that jumps anywhere in 15 of 100 steps."""
    n_nodes = mean.shape[0]
    back = mean.T.tocsr().astype(np.float64)
    is_stuck = np.asarray(mean.sum(axis=1)).ravel() == 0
    rank = np.full(n_nodes, 1 / n_nodes)
    for _ in range(_N_ROUNDS):
        lost = rank[is_stuck].sum()
        rank = (1 - _DAMPING) / n_nodes + _DAMPING * (back @ rank + lost / n_nodes)
    return rank
