"""Drivers: what a model's labels rest on, over all nodes: its links, and which of its features.

A fitted model enters. Something is taken from the whole graph, all nodes are labelled again, and
what changes is counted: labels that become others, and held-out nodes that are right no more. To
take a feature away is to deal its values out among the nodes at random (Breiman's permutation
importance), so that the model meets nothing it has never seen. The same model gives the same
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray

Array = npt.NDArray[Any]
# A graph to the uncalibrated probabilities of its nodes, (n_nodes, n_classes).
Relabel = Callable[[Graph], Array]
# Columns, and single features, that are tried at most; fewer where the graph is large.
MOST_TRIED = 24
# Numbers that all passes together may go through: some seconds' worth.
WORK = 2e9


class Driver(NamedTuple):
    """What is lost without something.

    Parameters
    ----------
    name : str
    kind : {"links", "features", "column", "feature"}
        All links, all features, those made of one column of a table, or a single one.
    changed : float
        Share of all nodes that would be labelled otherwise.
    accuracy : float or None
        Share of held-out nodes that would still be right.
    """

    name: str
    kind: str
    changed: float
    accuracy: float | None


@dataclass(frozen=True)
class Drivers:
    """What the labels rest on.

    Parameters
    ----------
    whole : tuple of Driver
        Links and features, each as a whole; nothing where there are no features.
    columns, features : tuple of Driver
        Single columns and features, what changes most labels first.
    accuracy : float or None
        Share of held-out nodes that are right as it is.
    n_features : int
        How many single features there are, of which some were tried.
    """

    whole: tuple[Driver, ...]
    columns: tuple[Driver, ...]
    features: tuple[Driver, ...]
    accuracy: float | None
    n_features: int


def find_drivers(
    relabel: Relabel, graph: Graph, held_out: IntArray, columns: dict[str, IntArray] | None = None
) -> Drivers:
    """What a model's labels of a graph rest on.

    Parameters
    ----------
    relabel : callable
        A graph to the probabilities of its nodes.
    graph : Graph
    held_out : array
        Nodes whose labels tell how often the model is right.
    columns : dict, optional
        For each column of a table, the features that were made of it.

    Examples
    --------
    A model that copies its only feature, on a graph whose links say nothing:

    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.results.drivers import find_drivers
    >>> age = np.repeat([[0.0], [1.0]], 50, axis=0)
    >>> people = Graph(np.zeros((100, 100)), age, labels=age.ravel().astype(int))
    >>> copy = lambda graph: np.column_stack([1 - graph.features, graph.features])
    >>> found = find_drivers(copy, people, np.arange(100))
    >>> [(one.name, one.changed) for one in found.whole]
    [('links', 0.0), ('features', 0.44)]
    """
    if graph.features is None:
        # A model that knows a node by its place alone has learned what its links say: taking
        # them away afterwards would tell nothing.
        return Drivers((), (), (), None, 0)
    trial = _Trial(relabel, graph, held_out)
    whole = [
        trial.without("links", "links", _without_links(graph)),
        trial.without("features", "features", _dealt_out(graph, None)),
    ]
    most = int(np.clip(WORK // _cost(graph), 4, MOST_TRIED))
    many = {name: own for name, own in (columns or {}).items() if len(own) > 1}
    tried = _most_telling(graph, trial.found, most)
    alone = [(_feature_name(graph, column), np.array([column])) for column in tried]
    return Drivers(
        tuple(whole),
        tuple(trial.each("column", list(many.items())[:most])),
        tuple(trial.each("feature", alone)),
        trial.accuracy,
        graph.n_features,
    )


class _Trial:
    """The labels as they are, and how many of them change."""

    def __init__(self, relabel: Relabel, graph: Graph, held_out: IntArray) -> None:
        self._relabel, self._graph = relabel, graph
        self._held_out = held_out
        self.found = self._label(graph)
        self.accuracy = self._accuracy(self.found)

    def without(self, name: str, kind: str, changed: Graph) -> Driver:
        found = self._label(changed)
        differs = found != self.found
        share = differs.any(axis=1) if differs.ndim == 2 else differs
        return Driver(name, kind, float(share.mean()), self._accuracy(found))

    def each(self, kind: str, parts: list[tuple[str, IntArray]]) -> Iterator[Driver]:
        found = [self.without(name, kind, _dealt_out(self._graph, own)) for name, own in parts]
        return iter(sorted(found, key=lambda one: -one.changed))

    def _label(self, graph: Graph) -> Array:
        probabilities = np.asarray(self._relabel(graph))[: self._graph.n_entities]
        return probabilities > 0.5 if self._graph.is_multilabel else probabilities.argmax(axis=1)

    def _accuracy(self, found: Array) -> float | None:
        if not len(self._held_out):
            return None
        labels = self._graph.labels[self._held_out]
        return float((found[self._held_out] == labels).mean())


def _without_links(graph: Graph) -> Graph:
    shape = graph.adjacency.shape
    return replace(graph, adjacency=sp.csr_array(shape, dtype=graph.adjacency.dtype))


def _dealt_out(graph: Graph, columns: IntArray | None) -> Graph:
    """The graph with some features, or all, given to other nodes; a row stays together."""
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    features: Any = graph.features
    if columns is None:
        return replace(graph, features=features[order])
    if not sp.issparse(features):
        features = features.copy()
        features[:, columns] = features[order][:, columns]
        return replace(graph, features=features)
    is_moved = np.zeros(features.shape[1], dtype=bool)
    is_moved[columns] = True
    stays, moves = features.tocoo(), features[order].tocoo()
    kept, new = ~is_moved[stays.col], is_moved[moves.col]
    rows = np.concatenate([stays.row[kept], moves.row[new]])
    places = np.concatenate([stays.col[kept], moves.col[new]])
    values = np.concatenate([stays.data[kept], moves.data[new]])
    made = sp.coo_array((values, (rows, places)), shape=features.shape).tocsr()
    return replace(graph, features=made)


def _most_telling(graph: Graph, found: Array, most: int) -> list[int]:
    """Features whose means differ most between the classes that nodes were given."""
    features: Any = graph.features
    features = features[: graph.n_entities]
    if found.ndim == 2:
        found = found.argmax(axis=1)
    classes, members = np.unique(found, return_counts=True)
    belongs = sp.csr_array(found[None, :] == classes[:, None], dtype=np.float64)
    means = np.asarray(
        (belongs @ features).toarray() if sp.issparse(features) else belongs @ features
    )
    means = means / members[:, None]
    share = members / members.sum()
    overall = share @ means
    between = share @ (means - overall) ** 2
    if sp.issparse(features):
        exact = features.astype(np.float64)
        of_squares = np.asarray(exact.multiply(exact).mean(axis=0)).ravel()
    else:  # without a copy, which may be large
        of_squares = np.einsum("ij,ij->j", features, features, dtype=np.float64) / len(features)
    variance = of_squares - overall**2
    # A share of the variance, so that scale does not count, and less the fewer nodes have the
    # feature. A constant's is rounding error over rounding error.
    varies = variance > 1e-12 * of_squares
    telling = np.divide(between, variance, out=np.zeros_like(between), where=varies)
    order = np.argsort(-telling, kind="stable")
    return [int(column) for column in order[:most] if telling[column] > 0]


def _feature_name(graph: Graph, column: int) -> str:
    names = graph.feature_names
    return f"feature {column}" if names is None else str(names[column])


def _cost(graph: Graph) -> int:
    features: Any = graph.features
    filled = features.nnz if sp.issparse(features) else features.size
    return 64 * int(filled + graph.adjacency.nnz + graph.n_nodes)
