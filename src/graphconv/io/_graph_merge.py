"""Graph merge: new rows of tables join the graph they belong to.

The graph that a model knows enters, and a graph of new rows; one graph with all of their nodes and
edges leaves. What the new rows say replaces what was known; what they don't mention stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features, Graph, IntArray
from graphconv.io.wording import count, shown


@dataclass(frozen=True)
class Merged:
    """A merged graph and how many of its nodes came from where.

    Parameters
    ----------
    graph : Graph
    n_new : int
        Nodes that were not known before.
    n_renewed : int
        Known nodes whose row the new table has.
    n_kept : int
        Known nodes that are as they were.
    """

    graph: Graph
    n_new: int
    n_renewed: int
    n_kept: int

    @property
    def note(self) -> str:
        return (
            f"merged into the {count(self.n_renewed + self.n_kept, 'node')} of the training: "
            f"{self.n_new:,} new, {self.n_renewed:,} with a new row, {self.n_kept:,} as they were"
        )


def merge_graphs(known: Graph, new: Graph, has_row: npt.ArrayLike) -> Merged:
    """Merge a graph of new rows into a known one.

    Parameters
    ----------
    known : Graph
    new : Graph
        Its features are of the same kind. An edge of both has the weight that it has here.
    has_row : array of bool
        Which nodes of `new` have a row of their own. The others are named by edges alone: their
        features are those that are known already, if they are.

    Returns
    -------
    Merged
        Known nodes come first, in their order, so that splits stay as they are; relations last.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.io._graph_merge import merge_graphs
    >>> pair = Graph([[0, 1], [1, 0]], features=[[1.0], [2.0]], node_ids=["ann", "bob"])
    >>> later = Graph([[0, 1], [1, 0]], features=[[7.0], [0.0]], node_ids=["cy", "bob"])
    >>> merged = merge_graphs(pair, later, has_row=[True, False])
    >>> merged.graph.node_ids.tolist(), merged.graph.features.ravel().tolist()
    (['ann', 'bob', 'cy'], [1.0, 2.0, 7.0])
    """
    places = _Places(known, new)
    entities = new.node_ids[: new.n_entities].tolist()
    is_new = np.array([node not in places.of_known for node in entities], dtype=bool)
    n_new = int(is_new.sum())
    if n_new and known.features is None:
        node = entities[int(np.argmax(is_new))]
        raise ValueError(
            f"a model without features labels only the nodes it was trained on, but {shown(node)} "
            "is new"
        )
    described = np.asarray(has_row, dtype=bool)
    n_renewed = int((~is_new & described[: new.n_entities]).sum())
    labels, class_names = _labels(known, new, places)
    graph = Graph(
        _adjacency(known, new, places),
        features=_features(known, new, places, described),
        labels=labels,
        class_names=class_names,
        node_ids=places.ids,
        train_index=known.train_index,
        validation_index=known.validation_index,
        test_index=known.test_index,
        feature_names=known.feature_names,
        directed=known.directed,
        name=new.name,
        n_entities=known.n_entities + n_new,
        unknown_features=known.unknown_features,
    )
    return Merged(graph, n_new, n_renewed, known.n_entities - n_renewed)


class _Places:
    """Where the nodes of two graphs stand in the merged one."""

    def __init__(self, known: Graph, new: Graph) -> None:
        old, more = known.node_ids.tolist(), new.node_ids.tolist()
        self.of_known = set(old)
        added = [node not in self.of_known for node in more]
        listed = [
            *old[: known.n_entities],
            *(node for node, is_new in zip(more[: new.n_entities], added, strict=False) if is_new),
            *old[known.n_entities :],
            *(more[place] for place in range(new.n_entities, len(more)) if added[place]),
        ]
        place = {node: position for position, node in enumerate(listed)}
        self.ids = np.empty(len(listed), dtype=object)
        self.ids[:] = listed
        self.known: IntArray = np.array([place[node] for node in old], dtype=np.int64)
        self.new: IntArray = np.array([place[node] for node in more], dtype=np.int64)
        self.is_added = np.array(added, dtype=bool)

    def __len__(self) -> int:
        return len(self.ids)


def _adjacency(known: Graph, new: Graph, places: _Places) -> sp.csr_array:
    old, more = (
        _moved(graph.adjacency, where, len(places))
        for graph, where in ((known, places.known), (new, places.new))
    )
    return sp.csr_array(old - old.multiply(more != 0) + more)


def _moved(adjacency: sp.csr_array, where: IntArray, n_nodes: int) -> sp.csr_array:
    entries = adjacency.tocoo()
    ends = (where[entries.row], where[entries.col])
    return sp.coo_array((entries.data, ends), shape=(n_nodes, n_nodes)).tocsr()


def _features(
    known: Graph, new: Graph, places: _Places, described: npt.NDArray[np.bool_]
) -> Features | None:
    if known.features is None or new.features is None:
        return None
    # For every node the row of one of the two, the new graph's below the known one's.
    row = np.empty(len(places), dtype=np.int64)
    row[places.known] = np.arange(known.n_nodes)
    says_more = places.is_added | described
    row[places.new[says_more]] = known.n_nodes + np.flatnonzero(says_more)
    if sp.issparse(known.features):
        return sp.csr_array(sp.vstack((known.features, sp.csr_array(new.features))).tocsr()[row])
    features = new.features.toarray() if sp.issparse(new.features) else new.features
    return np.vstack((known.features, features))[row]


def _labels(
    known: Graph, new: Graph, places: _Places
) -> tuple[npt.NDArray[np.int64], tuple[Any, ...]]:
    """Labels of both; those of the new rows count where both have one."""
    names = list(known.class_names)
    names += [name for name in new.class_names if name not in set(names)]
    number = {name: code for code, name in enumerate(names)}
    codes = np.array([number[name] for name in new.class_names], dtype=np.int64)
    shape = (len(places), len(names)) if known.is_multilabel else (len(places),)
    labels = np.full(shape, -1, dtype=np.int64)
    said = np.flatnonzero(new.is_labelled)
    if not known.is_multilabel:
        labels[places.known] = known.labels
        if not new.is_multilabel:
            labels[places.new[said]] = codes[new.labels[said]]
        return labels, tuple(names)
    labels[places.known, : known.n_classes] = known.labels
    labels[places.known[known.is_labelled], known.n_classes :] = 0
    if new.is_multilabel:
        labels[places.new[said]] = 0
        labels[places.new[said][:, None], codes] = new.labels[said]
    return labels, tuple(names)
