"""Splits: a `Graph` enters, the same graph with other train, validation and test nodes leaves.

Only labelled nodes are ever drawn. Randomness is numpy's PCG64: the same seed gives the same
split. The public split of a named data set is the one it is loaded with.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.checks import check_count

RandomState = int | np.random.Generator
_MARKS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "": "",
    "none": "",
    "nan": "",
    "<na>": "",
}


def random_split(
    graph: Graph,
    *,
    n_per_class: int = 20,
    n_validation: int = 500,
    n_test: int = 1000,
    random_state: RandomState = 0,
) -> Graph:
    """A random split of the public one's sizes: so many a class, then validation and test nodes.

    Parameters
    ----------
    graph : Graph
        Where nodes have several labels, n_per_class * n_classes nodes are drawn regardless of
        class. A class that no node has is passed over.
    n_per_class : int
        Training nodes of every class.
    n_validation, n_test : int
        Drawn from all other labelled nodes, regardless of class.
    random_state : int or numpy.random.Generator

    Returns
    -------
    Graph

    Examples
    --------
    >>> from graphconv.io.datasets import load_dataset
    >>> from graphconv.graph.splits import random_split
    >>> split = random_split(load_dataset("cora"), random_state=1)
    >>> len(split.train_index), len(split.validation_index), len(split.test_index)
    (140, 500, 1000)
    """
    check_count("n_per_class", n_per_class, 1)
    check_count("n_validation", n_validation, 0)
    check_count("n_test", n_test, 0)
    rng = np.random.default_rng(random_state)
    labelled = _require_labelled(graph, 1, "random_split")
    labels = _labels(graph)
    n_needed = n_per_class * graph.n_classes if graph.is_multilabel else n_per_class
    train = []
    for members in _by_class(labels, labelled):
        if len(members) < n_needed:
            of = "" if graph.is_multilabel else f" of class {_class_of(graph, members[0])}"
            raise ValueError(
                f"random_split needs {n_needed} labelled nodes{of} for training, got {len(members)}"
            )
        train.append(rng.permutation(members)[:n_needed])
    chosen = np.concatenate(train)
    rest = rng.permutation(np.setdiff1d(labelled, chosen))
    if len(rest) < n_validation + n_test:
        raise ValueError(
            f"random_split needs {n_validation} validation and {n_test} test nodes besides the "
            f"{len(chosen)} for training, but only {len(rest)} other nodes have a label"
        )
    return graph.with_split(
        np.sort(chosen),
        np.sort(rest[:n_validation]),
        np.sort(rest[n_validation : n_validation + n_test]),
    )


def fraction_split(
    graph: Graph,
    *,
    train: float = 0.6,
    validation: float = 0.2,
    test: float = 0.2,
    random_state: RandomState = 0,
) -> Graph:
    """Split the labelled nodes by fractions, alike in every class.

    Every class that occurs has at least one training node; with very few labels validation and
    test may be left empty. Where nodes have several labels, the split is regardless of class.

    Parameters
    ----------
    graph : Graph
    train, validation, test : float
        Fractions of the labelled nodes, together at most 1; what is left over is in no split.
    random_state : int or numpy.random.Generator

    Returns
    -------
    Graph

    Examples
    --------
    >>> from graphconv.io.datasets import load_dataset
    >>> from graphconv.graph.splits import fraction_split
    >>> split = fraction_split(load_dataset("karate"), train=0.5, validation=0.25, test=0.25)
    >>> len(split.train_index), len(split.validation_index), len(split.test_index)
    (17, 9, 8)
    """
    fractions = check_fractions("fraction_split", train, validation, test)
    labelled = _require_labelled(graph, 1, "fraction_split")
    rng = np.random.default_rng(random_state)
    parts = _divide(_labels(graph), labelled, fractions, rng)
    return graph.with_split(*parts)


def check_fractions(
    who: str, train: float, validation: float, test: float, *, must_fill: bool = False
) -> list[float]:
    """The fractions of a split, which must be such that a graph can be split by them."""
    fractions = {"train": train, "validation": validation, "test": test}
    for name, fraction in fractions.items():
        if not (math.isfinite(fraction) and 0 <= fraction <= 1) or (
            name == "train" and fraction == 0
        ):
            span = "above 0, at most 1" if name == "train" else "from 0 to 1"
            raise ValueError(f"{who}: {name} must be {span}, got {fraction}")
    total = sum(fractions.values())
    if total > 1 + 1e-9 or (must_fill and total < 1 - 1e-9):
        listed = " + ".join(str(fraction) for fraction in fractions.values())
        most = "1" if must_fill else "at most 1"
        raise ValueError(f"{who}: fractions must add up to {most}, got {listed}")
    return list(fractions.values())


def kfold_splits(
    graph: Graph,
    n_splits: int = 5,
    random_state: RandomState = 0,
    validation_fraction: float = 0.0,
) -> list[Graph]:
    """Split the labelled nodes `n_splits` times, so that each is a test node exactly once.

    Folds are alike in every class and differ by at most one node in size. A class with a single
    labelled node is missing from training in the fold that tests it.

    Parameters
    ----------
    graph : Graph
    n_splits : int
        At least 2.
    random_state : int or numpy.random.Generator
    validation_fraction : float
        Part of each fold's training nodes that becomes validation nodes, see
        `hold_out_validation`.

    Returns
    -------
    list of Graph

    Examples
    --------
    >>> from graphconv.io.datasets import load_dataset
    >>> from graphconv.graph.splits import kfold_splits
    >>> [len(fold.test_index) for fold in kfold_splits(load_dataset("karate"), 5)]
    [7, 7, 7, 7, 6]
    """
    check_count("n_splits", n_splits, 2)
    labelled = _require_labelled(graph, n_splits, f"kfold_splits with n_splits={n_splits}")
    rng = np.random.default_rng(random_state)
    by_class = _by_class(_labels(graph), labelled)
    # Dealt out class by class like cards, so that neither classes nor folds come out uneven.
    dealt = np.concatenate([rng.permutation(members) for members in by_class])
    folds = []
    for number in range(n_splits):
        is_test = np.arange(len(dealt)) % n_splits == number
        train, validation = hold_out_validation(
            _labels(graph), np.sort(dealt[~is_test]), validation_fraction, rng
        )
        folds.append(graph.with_split(train, validation, np.sort(dealt[is_test])))
    return folds


def split_by_values(graph: Graph, marks: Sequence[Any] | npt.NDArray[Any]) -> Graph:
    """Split as a column of marks says.

    Parameters
    ----------
    graph : Graph
    marks : sequence of length n_nodes
        "train", "validation" (or "val", "valid", "dev") or "test", in any case; empty or missing
        where a node is in no split.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from graphconv.graph import Graph
    >>> from graphconv.graph.splits import split_by_values
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, 1, 1])
    >>> split_by_values(path, ["train", "test", ""]).test_index
    array([1])
    """
    if len(marks) != graph.n_nodes:
        raise ValueError(f"marks must have one entry per node ({graph.n_nodes}), got {len(marks)}")
    nodes: dict[str, list[int]] = {"train": [], "validation": [], "test": [], "": []}
    for position, mark in enumerate(marks):
        meant = _MARKS.get(str(mark).strip().lower())
        if meant is None:
            assert graph.node_ids is not None
            raise ValueError(
                "marks must be 'train', 'validation', 'test' or empty, got "
                f"{str(mark)!r} at node {graph.node_ids[position]!s}"
            )
        nodes[meant].append(position)
    if not nodes["train"]:
        raise ValueError("marks must name at least one 'train' node, got none")
    return graph.with_split(nodes["train"], nodes["validation"], nodes["test"])


def hold_out_validation(
    labels: npt.NDArray[np.int64],
    labelled_index: IntArray,
    fraction: float,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Set a fraction of some labelled nodes aside for validation, alike in every class.

    Parameters
    ----------
    labels : array of shape (n_nodes,) or (n_nodes, n_classes)
        Class numbers, or a 0/1 indicator matrix: then the choice is regardless of class.
    labelled_index : array of node positions
    fraction : float
        From 0 up to, but without, 1.
    rng : numpy.random.Generator

    Returns
    -------
    train, validation : arrays of node positions, sorted
        Every class keeps at least one training node, so validation may be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph.splits import hold_out_validation
    >>> labels = np.array([0, 0, 0, 1, 1, 1, 2])
    >>> train, validation = hold_out_validation(labels, np.arange(7), 0.3, np.random.default_rng(0))
    >>> len(train), labels[validation]
    (5, array([0, 1]))
    """
    if not (math.isfinite(fraction) and 0 <= fraction < 1):
        raise ValueError(f"validation fraction must be from 0 to below 1, got {fraction}")
    train, validation = _divide(labels, labelled_index, [1 - fraction, fraction], rng)
    return train, validation


def _divide(
    labels: npt.NDArray[np.int64],
    labelled: IntArray,
    fractions: list[float],
    rng: np.random.Generator,
) -> list[IntArray]:
    """Parts of `labelled` in the given fractions; the first has a node of every class."""
    shares = np.array([*fractions, max(0.0, 1 - sum(fractions))])  # the last: in no part
    shares[shares < 1e-9] = 0
    shares /= shares.sum()
    parts: list[list[IntArray]] = [[] for _ in fractions]
    wanted = np.zeros(len(shares))
    given = np.zeros(len(shares), dtype=np.int64)
    for members in _by_class(labels, labelled):
        quota = shares * len(members)
        wanted += quota
        counts = np.floor(quota + 1e-9).astype(np.int64)
        counts[0] = max(counts[0], 1)
        # What rounding leaves goes where most is missing so far: totals come out right as well.
        while counts.sum() < len(members):
            counts[np.argmax(wanted - given - counts)] += 1
        given += counts
        pieces = np.split(rng.permutation(members), np.cumsum(counts)[:-1])
        for part, piece in zip(parts, pieces, strict=False):
            part.append(piece)
    empty = np.empty(0, dtype=np.int64)
    return [np.sort(np.concatenate([empty, *part])) for part in parts]


def _by_class(labels: npt.NDArray[np.int64], labelled: IntArray) -> list[IntArray]:
    """The labelled nodes class by class, or all together where nodes have several labels."""
    if labels.ndim == 2 or len(labelled) == 0:
        return [labelled] if len(labelled) else []
    of_node = labels[labelled]
    order = np.argsort(of_node, kind="stable")
    ends = np.flatnonzero(np.diff(of_node[order])) + 1
    return np.split(labelled[order], ends)


def _labels(graph: Graph) -> npt.NDArray[np.int64]:
    assert graph.labels is not None
    return graph.labels


def _class_of(graph: Graph, node: int) -> str:
    assert graph.class_names is not None
    return repr(graph.class_names[_labels(graph)[node]])


def _require_labelled(graph: Graph, n_needed: int, who: str) -> IntArray:
    labelled = np.flatnonzero(graph.is_labelled)
    if len(labelled) < n_needed:
        nodes = "node" if n_needed == 1 else "nodes"
        raise ValueError(f"{who} needs {n_needed} labelled {nodes} or more, got {len(labelled)}")
    return labelled


def check_trainable(graph: Graph) -> None:
    """Refuse a graph that nothing can be learned from; warn where something cannot be."""
    train_labels = graph.labels[graph.train_index]
    if len(train_labels) == 0:
        raise ValueError(
            f"at least one node must be labelled for training, got none of {graph.n_nodes}"
        )
    if graph.is_multilabel:
        return
    check_two_classes(graph)
    present = np.unique(train_labels)
    later = np.concatenate([graph.validation_index, graph.test_index])
    missing = np.setdiff1d(graph.labels[later], present)
    if len(missing):
        names = ", ".join(repr(graph.class_names[int(number)]) for number in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        warnings.warn(
            f"no training node has class {names}{more}, which validation or test nodes have: "
            "it can't be predicted",
            UserWarning,
            stacklevel=4,
        )


def check_two_classes(graph: Graph) -> None:
    """Refuse training nodes that are all of one class; of several labels per node one is enough."""
    present = np.unique(graph.labels[graph.train_index])
    if len(present) == 1 and not graph.is_multilabel:
        name = graph.class_names[int(present[0])]
        raise ValueError(
            f"training nodes must have at least two classes, got one class only: {name!r}"
        )
