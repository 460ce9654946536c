"""Why a node has its label, for any method: take something away, label again, compare.

A way to label a graph and a node enter, an `Explanation` leaves. Each edge of the node is taken
away by itself, and each of its features gets the usual value of all nodes, their median: 0 for
words that few have, but not for a year, whose 0 would be further off than anything the method has
met. Nothing is assumed of the method, which may look further than that; what lies beyond the node's
own edges is not taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph
from graphconv.io.wording import count
from graphconv.results.explain import class_number, position_of
from graphconv.results.explanation import Contribution, Explanation

FloatMatrix = npt.NDArray[np.floating[Any]]
# Every one of them has the whole graph labelled again.
MOST_EDITS = 30
_LEAST_PROBABILITY = 1e-9


def explain_by_removal(
    relabel: Callable[[Graph], FloatMatrix],
    graph: Graph,
    node: Hashable,
    class_names: Sequence[Any],
    label: Hashable | None = None,
    most_edits: int = MOST_EDITS,
) -> Explanation:
    """Why a node has its label: what each of its edges and features contributes.

    Parameters
    ----------
    relabel : callable
        A graph to the probabilities of all its nodes.
    graph : Graph
        Where the node is.
    node : hashable
        Its id.
    class_names : sequence
        What the columns of the probabilities are called.
    label : hashable, optional
        The class to explain. Default: the likeliest one.
    most_edits : int
        Of more edges, or more features, only so many are tried, the heaviest first.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.results.removal import explain_by_removal
    >>> def follow(graph):  # a node is "b" if it has a neighbour
    ...     share = 0.9 * (graph.degree > 0) + 0.05
    ...     return np.stack([1 - share, share], axis=1)
    >>> pair = Graph([[0, 1], [1, 0]], node_ids=["x", "y"])
    >>> why = explain_by_removal(follow, pair, "x", ["a", "b"])
    >>> why.label, why.edges[0].item, round(why.edges[0].probability, 2)
    ('b', ('x', 'y'), 0.9)
    """
    position = position_of(graph, node)
    probabilities = np.asarray(relabel(graph))
    own = probabilities[position]
    predicted = int(own.argmax())
    target = predicted if label is None else class_number(class_names, label)

    def contribution(item: Any, without: Graph, detail: str = "") -> Contribution:
        changed = np.asarray(relabel(without))[position]
        return Contribution(
            item,
            float(own[target] - changed[target]),
            _log_odds(own[target]) - _log_odds(changed[target]),
            class_names[int(changed.argmax())],
            detail,
        )

    ids = graph.node_ids.tolist()
    neighbours, about_edges = _strongest(_weights(graph, position), "edge", most_edits)
    unusual, spread = _unusual_features(graph, position)
    if unusual:
        usual = {column: value for column, (_, value) in unusual.items()}
        bare = np.asarray(relabel(_with_features(graph, position, usual)))
        if (bare[position] == own).all():  # the method does not look at features
            unusual = {}
    sizes = {
        column: abs(here - usual) / spread[column] for column, (here, usual) in unusual.items()
    }
    columns, about_features = _strongest(sizes, "feature", most_edits)
    edges = [
        contribution(_ends(graph, position, other), _without_edge(graph, position, other))
        for other in neighbours
    ]
    names = graph.feature_names
    features = [
        contribution(
            int(column) if names is None else names[column],
            _with_features(graph, position, {column: unusual[column][1]}),
            _said(*unusual[column]),
        )
        for column in columns
    ]
    around = [position, *neighbours]
    return Explanation(
        node=ids[position],
        label=class_names[target],
        probability=float(own[target]),
        log_odds=_log_odds(own[target]),
        predicted=class_names[predicted],
        n_hops=1,
        edges=_ordered(edges),
        neighbours=(),
        features=_ordered(features),
        labels={ids[other]: class_names[int(probabilities[other].argmax())] for other in around},
        distances={ids[other]: int(other != position) for other in around},
        notes=tuple(note for note in (about_edges, about_features) if note),
        directed=graph.directed,
    )


def _ends(graph: Graph, node: int, other: int) -> tuple[Any, Any]:
    """The ids of an edge's ends: the node's own first, or that where a directed edge begins."""
    is_led_to = graph.directed and not graph.adjacency[node, other]
    one, two = graph.node_ids[[other, node] if is_led_to else [node, other]].tolist()
    return one, two


def _weights(graph: Graph, node: int) -> dict[int, float]:
    """Weight of each edge of a node, in either direction, by the node at its other end."""
    both: dict[int, float] = {}
    for matrix in (graph.adjacency[[node]], graph.adjacency[:, [node]].T):
        row = sp.coo_array(matrix)
        both.update(zip(row.coords[1].tolist(), row.data.tolist(), strict=True))
    both.pop(node, None)
    return both


def _unusual_features(
    graph: Graph, node: int
) -> tuple[dict[int, tuple[float, float]], npt.NDArray[np.float64]]:
    """A node's value and the usual one, by column, where they differ; and how columns spread."""
    features: Any = graph.features
    if features is None:
        return {}, np.ones(0)
    if sp.issparse(features):
        features = sp.csc_array(features)
        usual, spread = np.zeros(graph.n_features), np.ones(graph.n_features)
        # Where most nodes have 0, that is the median.
        for column in np.flatnonzero(2 * np.diff(features.indptr) >= features.shape[0]):
            dense = features[:, [int(column)]].toarray()
            usual[column], spread[column] = np.median(dense), dense.std(dtype=np.float64)
        here = features[[node]].toarray()[0]
    else:
        usual, spread = np.median(features, axis=0), features.std(axis=0, dtype=np.float64)
        here = features[node]
    columns = np.flatnonzero(here != usual.astype(here.dtype))
    pairs = {int(column): (float(here[column]), float(usual[column])) for column in columns}
    return pairs, spread


def _said(here: float, usual: float) -> str:
    return f"value {here:.4g}" if usual == 0 else f"value {here:.4g}, usually {usual:.4g}"


def _strongest(weights: dict[int, float], noun: str, most: int) -> tuple[list[int], str]:
    order = sorted(weights, key=lambda item: (-weights[item], item))
    if len(order) <= most:
        return order, ""
    return order[:most], f"of {count(len(order), noun)} the {most} heaviest were tried"


def _without_edge(graph: Graph, one: int, other: int) -> Graph:
    adjacency = graph.adjacency.tolil()
    adjacency[one, other] = adjacency[other, one] = 0
    return replace(graph, adjacency=adjacency.tocsr())


def _with_features(graph: Graph, node: int, values: dict[int, float]) -> Graph:
    """The graph with other features of a node, given by column."""
    features: Any = graph.features
    is_sparse = sp.issparse(features)
    features = features.tolil() if is_sparse else features.copy()
    features[node, list(values)] = list(values.values())
    return replace(graph, features=features.tocsr() if is_sparse else features)


def _ordered(parts: list[Contribution]) -> tuple[Contribution, ...]:
    return tuple(sorted(parts, key=lambda part: -abs(part.log_odds)))


def _log_odds(share: Any) -> float:
    # As a double: the largest float32 below 1 is further from it than the least probability.
    inside = float(np.clip(float(share), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY))
    return float(np.log(inside) - np.log1p(-inside))
