"""Column splits: splits that follow what is known of nodes, not chance: their time, or their group.

A `Graph` and a value for each node enter, the same graph with other train, validation and test
nodes leaves. Only labelled nodes are ever in a part.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.splits import RandomState, check_fractions


def time_split(
    graph: Graph,
    times: npt.ArrayLike,
    *,
    train: float = 0.6,
    validation: float = 0.2,
    test: float = 0.2,
) -> Graph:
    """Train on the past: the earliest nodes train, later ones validate, the latest test.

    Nodes of the same time are in the same part, so the parts may differ from the fractions.

    Parameters
    ----------
    graph : Graph
    times : array of shape (n_nodes,)
        Numbers or datetime64; a node whose time is NaN or NaT is in no part.
    train, validation, test : float
        Fractions of the labelled nodes with a time, which must add up to 1.

    Returns
    -------
    Graph

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph import Graph
    >>> from graphconv.graph.column_splits import time_split
    >>> graph = Graph(np.zeros((5, 5)), labels=[0, 1, 0, 1, 0])
    >>> split = time_split(graph, [2021, 2024, 2020, 2022, 2023])
    >>> split.train_index, split.validation_index, split.test_index
    (array([0, 2, 3]), array([4]), array([1]))
    """
    check_fractions("time_split", train, validation, test, must_fill=True)
    moments = np.asarray(times)
    if moments.shape != (graph.n_nodes,) or moments.dtype.kind not in "biufM":
        raise ValueError(
            f"times must be one number or date for each node ({graph.n_nodes}), "
            f"got shape {moments.shape} of {moments.dtype}"
        )
    is_known = ~(np.isnat(moments) if moments.dtype.kind == "M" else np.isnan(moments))
    nodes = np.flatnonzero(graph.is_labelled & is_known)
    different, place = np.unique(moments[nodes], return_inverse=True)
    n_parts = 1 + (validation > 0) + (test > 0)
    if len(different) < n_parts:
        raise ValueError(
            f"labelled nodes must have {n_parts} different times or more, got {len(different)}"
        )
    n_until = np.cumsum(np.bincount(place, minlength=len(different)))
    first = _closest(n_until, train * len(nodes), 1, len(different) - (n_parts - 1))
    second = len(different)
    if test > 0:
        wanted = (train + validation) * len(nodes)
        least = first + (validation > 0)
        second = _closest(n_until, wanted, least, len(different) - 1)
    part = np.digitize(place, [first, second]) if test > 0 else (place >= first).astype(int)
    return graph.with_split(nodes[part == 0], nodes[part == 1], nodes[part == 2])


def _closest(n_until: npt.NDArray[Any], wanted: float, least: int, most: int) -> int:
    """How many of the different times to take so that about `wanted` nodes are up to the last."""
    choices = np.arange(least, most + 1)
    return int(choices[np.argmin(np.abs(n_until[choices - 1] - wanted))])


def group_split(
    graph: Graph,
    groups: Sequence[Hashable] | npt.NDArray[Any],
    *,
    train: float = 0.6,
    validation: float = 0.2,
    test: float = 0.2,
    random_state: RandomState = 0,
) -> Graph:
    """Split so that no group is in two parts.

    Groups are dealt out whole, in random order, each to the part that lacks most. The parts are
    close to the fractions where groups are many and none is large.

    Parameters
    ----------
    graph : Graph
    groups : sequence of length n_nodes
        What each node belongs to. A node whose group is None is a group of its own.
    train, validation, test : float
        Fractions of the labelled nodes, which must add up to 1.
    random_state : int or numpy.random.Generator

    Returns
    -------
    Graph

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph import Graph
    >>> from graphconv.graph.column_splits import group_split
    >>> graph = Graph(np.zeros((5, 5)), labels=[0, 1, 0, 1, 0])
    >>> split = group_split(graph, ["a", "b", "a", "c", "a"])
    >>> split.train_index
    array([0, 2, 4])
    """
    check_fractions("group_split", train, validation, test, must_fill=True)
    if len(groups) != graph.n_nodes:
        raise ValueError(
            f"groups must have one entry for each node ({graph.n_nodes}), got {len(groups)}"
        )
    members: dict[Hashable, list[int]] = {}
    for node in np.flatnonzero(graph.is_labelled).tolist():
        group = groups[node]
        members.setdefault(("alone", node) if group is None else ("group", group), []).append(node)
    shares = np.array([train, validation, test])
    n_parts = int(np.count_nonzero(shares))
    if len(members) < n_parts:
        raise ValueError(f"labelled nodes must be of {n_parts} groups or more, got {len(members)}")
    rng = np.random.default_rng(random_state)
    dealt = [list(members.values())[place] for place in rng.permutation(len(members))]
    # The largest first: what comes later can still even them out.
    dealt.sort(key=len, reverse=True)
    parts: list[list[int]] = [[], [], []]
    wanted = shares * sum(map(len, dealt))
    for number, group_nodes in enumerate(dealt):
        lack = wanted - [len(part) for part in parts]
        empty = [place for place in range(3) if wanted[place] > 0 and not parts[place]]
        if len(dealt) - number <= len(empty):  # no part may stay empty
            lack[[place for place in range(3) if place not in empty]] = -np.inf
        parts[int(np.argmax(lack))] += group_nodes
    sorted_parts: list[IntArray] = [np.sort(np.array(part, dtype=np.int64)) for part in parts]
    return graph.with_split(*sorted_parts)
