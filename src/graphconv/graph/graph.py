"""Graph: the one checked type that all data passes through.

Arrays enter, a frozen and validated `Graph` leaves. Every check on data is made here, by
graph_checks.py, so nothing further down the line looks at it again: adjacency is a canonical CSR
matrix with finite, positive weights, features are finite float32 (or dense and float16), labels
are class numbers with -1 for "unknown".
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph.checks import (
    check_adjacency,
    check_class_names,
    check_features,
    check_index,
    check_labels,
    check_node_ids,
    frozen,
)
from graphconv.graph.notebook import html_block, html_paragraph, html_table

# Classes that a notebook lists.
MOST_SHOWN = 12
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
# A csr_array of float32 or an array; scipy has no types to say so with.
Features: TypeAlias = Any
Duplicates = Literal["sum", "collapse"]
SelfLoops = Literal["keep", "drop"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Graph:
    """A graph with what is known about its nodes, validated once and never changed.

    Parameters
    ----------
    adjacency : sparse or dense array of shape (n_nodes, n_nodes)
        Entry (i, j) is the weight of the edge from i to j; 1 everywhere means unweighted. Must be
        symmetric unless `directed`; `adjacency_from_edges` and `symmetrise` make it so.
    features : sparse or dense array of shape (n_nodes, n_features), optional
        None means featureless: every node is described by its identity alone.
    labels : array of shape (n_nodes,) or (n_nodes, n_classes), optional
        Class numbers, -1 where unknown; or, for several labels per node, a 0/1 indicator matrix
        whose unknown rows are all -1. `encode_labels` makes either from labels of any type.
    class_names : sequence, optional
        What each class is called. Default: the class numbers.
    node_ids : sequence, optional
        A unique name for each node, of any hashable kind. Default: 0 .. n_nodes - 1.
    train_index, validation_index, test_index : arrays of node positions, optional
        Disjoint. Without `train_index` every labelled node outside the other two is for training.
    feature_names : sequence of str, optional
    directed : bool
        Keep the direction of edges instead of requiring symmetry.
    name : str
    n_entities : int, optional
        So many leading nodes are what the graph is about; those after them stand for relations of a
        knowledge graph and are not to be labelled. Default: all nodes.
    unknown_features : array of at most n_features numbers, optional
        What the leading columns of `features` hold of a node that nothing is known of.

    Examples
    --------
    >>> from graphconv import Graph
    >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, -1, 1])
    >>> path
    Graph('graph': 3 nodes, 2 edges, no features, 2 classes, 2 labelled)
    >>> path.train_index
    array([0, 2])
    """

    adjacency: sp.csr_array
    features: Features | None
    labels: npt.NDArray[np.int64]
    class_names: tuple[Hashable, ...]
    node_ids: npt.NDArray[Any]
    train_index: IntArray
    validation_index: IntArray
    test_index: IntArray
    feature_names: tuple[str, ...] | None
    directed: bool
    name: str
    n_entities: int
    unknown_features: FloatArray | None = None

    def __init__(
        self,
        adjacency: Any,
        features: Any = None,
        labels: npt.ArrayLike | None = None,
        class_names: Sequence[Hashable] | None = None,
        node_ids: Sequence[Hashable] | npt.NDArray[Any] | None = None,
        train_index: npt.ArrayLike | None = None,
        validation_index: npt.ArrayLike | None = None,
        test_index: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        directed: bool = False,
        name: str = "graph",
        n_entities: int | None = None,
        unknown_features: npt.ArrayLike | None = None,
    ) -> None:
        self._fix(name=name, directed=bool(directed))
        self._fix(adjacency=check_adjacency(adjacency, directed))
        n_nodes = self.n_nodes
        self._fix(features=None if features is None else check_features(features, n_nodes))
        codes = np.full(n_nodes, -1) if labels is None else check_labels(labels, n_nodes)
        self._fix(labels=frozen(codes), class_names=check_class_names(class_names, codes))
        self._fix(node_ids=check_node_ids(node_ids, n_nodes))
        self._fix(n_entities=n_nodes if n_entities is None else int(n_entities))
        self._check_entities()
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != self.n_features:
            raise ValueError(
                f"feature_names must hold one name a feature ({self.n_features}), got {len(names)}"
            )
        self._fix(feature_names=names, unknown_features=self._checked_unknown(unknown_features))
        self._fix_splits(train_index, validation_index, test_index)

    @classmethod
    def trusted(cls, fields: Mapping[str, Any], known: Mapping[str, Any]) -> Graph:
        """A graph of parts that were checked when they were written, as `stored_graph` reads them.

        Parameters
        ----------
        fields : mapping
            Every field; none is looked at but the splits, and none is copied.
        known : mapping
            Values of cached properties that are stored too, so that nobody works them out again,
            and `_folder`.
        """
        graph = object.__new__(cls)
        graph._fix(**fields)
        graph.__dict__.update(known)
        graph._fix_splits(graph.train_index, graph.validation_index, graph.test_index)
        return graph

    @property
    def folder(self) -> Path | None:
        """Where the graph is stored, if its arrays are memory-mapped from there; else None."""
        return self.__dict__.get("_folder")

    @property
    def reads_rows(self) -> bool:
        """Whether features are read and scaled row by row: from disk, or from half precision."""
        is_half = getattr(self.features, "dtype", None) == np.float16
        return self.features is not None and (self.folder is not None or is_half)

    def _fix(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _checked_unknown(self, given: npt.ArrayLike | None) -> FloatArray | None:
        if given is None or self.features is None:
            return None
        row = np.asarray(given, dtype=np.float32)
        if row.ndim != 1 or len(row) > self.n_features or not np.isfinite(row).all():
            raise ValueError(
                f"unknown_features must be at most {self.n_features} finite numbers, "
                f"got shape {row.shape}"
            )
        return frozen(row) if len(row) else None

    def _check_entities(self) -> None:
        if not 0 <= self.n_entities <= self.n_nodes or self.is_labelled[self.n_entities :].any():
            raise ValueError(
                f"n_entities must be from 0 to {self.n_nodes}, the number of nodes, and leave no "
                f"labelled node out, got {self.n_entities}"
            )

    def _fix_splits(
        self,
        train: npt.ArrayLike | None,
        validation: npt.ArrayLike | None,
        test: npt.ArrayLike | None,
    ) -> None:
        taken = np.zeros(self.n_nodes, dtype=bool)
        known = self.is_labelled
        # Training comes last: by default it takes what the other two leave.
        splits = {"validation_index": validation, "test_index": test, "train_index": train}
        for field, given in splits.items():
            if given is None:
                given = np.flatnonzero(known & ~taken) if field == "train_index" else []
            index = check_index(given, self.n_nodes, field)
            if taken[index].any():
                raise ValueError(
                    f"train, validation and test nodes must be disjoint, but node "
                    f"{self._shown(index[taken[index]][0])} of {field} is in another too"
                )
            if not known[index].all():
                raise ValueError(
                    f"{field} must hold labelled nodes only, but node "
                    f"{self._shown(index[~known[index]][0])} has no label"
                )
            taken[index] = True
            self._fix(**{field: frozen(index)})

    def _shown(self, node: int) -> str:
        return repr(self.node_ids[node : node + 1].tolist()[0])

    @property
    def n_nodes(self) -> int:
        return int(self.adjacency.shape[0])

    @cached_property
    def n_edges(self) -> int:
        """Number of edges: pairs of nodes where undirected, a self-loop counting once."""
        if self.directed:
            return int(self.adjacency.nnz)
        n_loops = self.n_self_loops
        return int((self.adjacency.nnz - n_loops) // 2 + n_loops)

    @cached_property
    def degree(self) -> npt.NDArray[np.float64]:
        """Sum of the weights of each node's edges; in a directed graph, of those it points with."""
        # scipy would add float32 weights up in float32, whatever dtype it is asked for.
        return frozen(self.adjacency.astype(np.float64) @ np.ones(self.n_nodes))

    @cached_property
    def n_self_loops(self) -> int:
        return int(np.count_nonzero(self.adjacency.diagonal()))

    @cached_property
    def n_isolated(self) -> int:
        """Number of nodes with no neighbour but, perhaps, themselves."""
        n_others = np.diff(self.adjacency.indptr) - (self.adjacency.diagonal() != 0)
        if self.directed:
            incoming = np.bincount(self.adjacency.indices, minlength=self.n_nodes)
            n_others = n_others + incoming - (self.adjacency.diagonal() != 0)
        return int(np.count_nonzero(n_others == 0))

    @property
    def n_features(self) -> int:
        """Width of the feature matrix; the number of nodes where the graph is featureless."""
        return self.n_nodes if self.features is None else int(self.features.shape[1])

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def is_weighted(self) -> bool:
        return bool((self.adjacency.data != 1).any())

    @property
    def is_multilabel(self) -> bool:
        return self.labels.ndim == 2

    @property
    def is_labelled(self) -> npt.NDArray[np.bool_]:
        """Mask of the nodes whose label is known."""
        known: npt.NDArray[np.bool_] = (
            self.labels[:, 0] >= 0 if self.is_multilabel else self.labels >= 0
        )
        return known

    def with_split(
        self, train: npt.ArrayLike, validation: npt.ArrayLike = (), test: npt.ArrayLike = ()
    ) -> Graph:
        """The same graph with other train, validation and test nodes."""
        other = copy.copy(self)
        other._fix_splits(
            np.asarray(train, dtype=np.int64),
            np.asarray(validation, dtype=np.int64),
            np.asarray(test, dtype=np.int64),
        )
        return other

    def with_labels(
        self,
        labels: npt.ArrayLike,
        class_names: Sequence[Hashable] | None = None,
        train: npt.ArrayLike | None = None,
        test: npt.ArrayLike = (),
    ) -> Graph:
        """The same graph with other labels; edges and features are not looked at again.

        Examples
        --------
        >>> from graphconv import Graph
        >>> path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> path.with_labels([0, -1, 1], ["red", "blue"])
        Graph('graph': 3 nodes, 2 edges, no features, 2 classes, 2 labelled)
        """
        other = copy.copy(self)
        other.__dict__.pop("_content_digest", None)
        codes = check_labels(labels, self.n_nodes)
        other._fix(labels=frozen(codes), class_names=check_class_names(class_names, codes))
        other._check_entities()
        other._fix_splits(train, (), test)
        return other

    def fingerprint(self) -> str:
        """SHA-256 over everything in the graph but its name: equal data, equal fingerprint."""
        digest = hashlib.sha256(self._content_digest.encode())
        for index in (self.train_index, self.validation_index, self.test_index):
            _update_digest(digest, index)
        return digest.hexdigest()

    @cached_property
    def _content_digest(self) -> str:
        """SHA-256 over everything but the splits, which alone may change; stored graphs have it."""
        digest = hashlib.sha256(f"directed={self.directed}".encode())
        arrays: tuple[Any, ...] = (self.adjacency, self.features, self.labels)
        for array in arrays:
            _update_digest(digest, array)
        digest.update(repr((self.class_names, self.node_ids.tolist())).encode())
        if self.n_entities < self.n_nodes:  # most graphs have no relations: theirs stays as it was
            digest.update(f"n_entities={self.n_entities}".encode())
        return digest.hexdigest()

    def checksums(self) -> dict[str, str]:
        """SHA-256 of each part of the graph by its name, to tell later what it was.

        Examples
        --------
        >>> from graphconv import load_dataset
        >>> now, then = load_dataset("karate").checksums(), load_dataset("karate").checksums()
        >>> now == then, sorted(now)[:2]
        (True, ['adjacency', 'class_names'])
        """
        arrays = (
            "adjacency",
            "features",
            "labels",
            "train_index",
            "validation_index",
            "test_index",
        )
        texts = {"node_ids": self.node_ids.tolist(), "class_names": self.class_names}
        return {
            **{name: _digest(getattr(self, name)) for name in arrays},
            **{
                name: hashlib.sha256(repr(text).encode()).hexdigest()
                for name, text in texts.items()
            },
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        # Nothing in it can change, so a copy would be the same thing twice.
        return self

    def __repr__(self) -> str:
        kind = "directed edge" if self.directed else "edge"
        n_features = 0 if self.features is None else self.n_features
        parts = [
            _counted(self.n_nodes, "node"),
            _counted(self.n_edges, kind),
            "no features" if self.features is None else _counted(n_features, "feature"),
            f"{self.n_classes} {'class' if self.n_classes == 1 else 'classes'}",
            f"{int(self.is_labelled.sum())} labelled",
        ]
        return f"Graph({self.name!r}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, the labels of each class, the splits."""
        names = ", ".join(self.feature_names[:6]) if self.feature_names else ""
        more = ", ..." if self.feature_names and len(self.feature_names) > 6 else ""
        facts = [
            ("nodes", f"{self.n_nodes:,}"),
            ("edges", f"{self.n_edges:,}{', directed' if self.directed else ''}"),
            (
                "features",
                f"{self.n_features:,} {names}{more}" if self.features is not None else "none",
            ),
            ("labelled", f"{int(self.is_labelled.sum()):,}"),
            (
                "training, validation, test",
                ", ".join(
                    f"{len(index):,}"
                    for index in (self.train_index, self.validation_index, self.test_index)
                ),
            ),
        ]
        parts = [html_table(["", ""], facts)]
        if self.n_classes:
            known = self.labels[self.is_labelled]
            sizes = (
                known.sum(axis=0)
                if self.is_multilabel
                else np.bincount(known, minlength=self.n_classes)
            )
            order = np.argsort(-sizes, kind="stable")[:MOST_SHOWN]
            rows = [(self.class_names[code], f"{sizes[code]:,}") for code in order]
            parts.append(html_table(["class", "labels"], rows))
            if self.n_classes > MOST_SHOWN:
                parts.append(html_paragraph(f"and {self.n_classes - MOST_SHOWN:,} more classes"))
        return html_block(f"Graph {self.name}", *parts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def adjacency_from_edges(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    n_nodes: int,
    directed: bool = False,
    duplicates: Duplicates | None = None,
    self_loops: SelfLoops = "keep",
) -> sp.csr_array:
    """Canonical adjacency matrix of a list of edges between node positions.

    Parameters
    ----------
    source, target : integer arrays of shape (n_edges,)
    weight : array of shape (n_edges,), optional
    n_nodes : int
    directed : bool
        False makes the matrix symmetric: an edge and its reverse are one edge, which carries the
        larger of their two weights.
    duplicates : {"sum", "collapse"}, optional
        What becomes of a (source, target) pair that is listed more than once: its weights are
        added, or the largest one is kept. Default: "sum" with weights, "collapse" without.
    self_loops : {"keep", "drop"}

    Examples
    --------
    >>> from graphconv.graph import adjacency_from_edges
    >>> adjacency_from_edges([0, 1], [1, 2], n_nodes=3).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    heads: IntArray = np.asarray(source, dtype=np.int64)
    tails: IntArray = np.asarray(target, dtype=np.int64)
    weighted = weight is not None
    values = np.ones(len(heads)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(heads) == len(tails) == len(values):
        raise ValueError(
            "source, target and weight must have one entry per edge, got lengths "
            f"{len(heads)}, {len(tails)} and {len(values)}"
        )
    for side, ends in (("source", heads), ("target", tails)):
        if len(ends) and (ends.min() < 0 or ends.max() >= n_nodes):
            wrong = ends[(ends < 0) | (ends >= n_nodes)][0]
            raise ValueError(f"{side} must be a node position 0..{n_nodes - 1}, got {wrong}")
    if self_loops == "drop":
        keep = heads != tails
        heads, tails, values = heads[keep], tails[keep], values[keep]
    if duplicates is None:
        duplicates = "sum" if weighted else "collapse"
    if duplicates == "collapse":
        heads, tails, values = _largest_of_each_pair(heads, tails, values)
    # The constructor adds up what is left of duplicates.
    matrix = sp.coo_array((values, (heads, tails)), shape=(n_nodes, n_nodes)).tocsr()
    matrix = matrix.astype(np.float32)
    return matrix if directed else symmetrise(matrix)


def symmetrise(adjacency: sp.csr_array) -> sp.csr_array:
    """Make every edge go both ways; where both directions exist the larger weight counts.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from graphconv.graph import symmetrise
    >>> symmetrise(sp.csr_array([[0, 3], [2, 0]])).toarray()
    array([[0, 3],
           [3, 0]])
    """
    return sp.csr_array(adjacency.maximum(adjacency.T))


def encode_labels(
    values: Sequence[Any] | npt.NDArray[Any], *, unlabelled: float | None = -1
) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Class numbers and class names of labels of any type; missing ones become -1.

    Missing are None, NaN, pandas' NA and empty strings. Classes are numbered in sorted order,
    numbers before text.

    Parameters
    ----------
    values : sequence
    unlabelled : number or None
        Another value that stands for a label that is not there. In arrays -1 does, as in
        scikit-learn; None: no number does.

    Examples
    --------
    >>> from graphconv.graph import encode_labels
    >>> encode_labels(["spam", None, "ham"])
    (array([ 1, -1,  0]), ('ham', 'spam'))
    """
    # One pass over plain Python objects treats pandas, numpy and lists alike.
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    known = [not _is_missing(value, unlabelled) for value in plain]
    distinct = {value for value, is_known in zip(plain, known, strict=True) if is_known}
    names = sorted(distinct, key=_label_order)
    number = {name: position for position, name in enumerate(names)}
    codes = [
        number[value] if is_known else -1 for value, is_known in zip(plain, known, strict=True)
    ]
    return np.array(codes, dtype=np.int64), tuple(names)


def _is_missing(value: Any, unlabelled: float | None) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(value != value or value == unlabelled)
    return type(value).__name__ in ("NAType", "NaTType")


def _label_order(value: Any) -> tuple[int, Any]:
    is_number = isinstance(value, int | float)
    return (0, value) if is_number else (1, str(value))


def _largest_of_each_pair(
    source: IntArray, target: IntArray, values: npt.NDArray[np.float64]
) -> tuple[IntArray, IntArray, npt.NDArray[np.float64]]:
    order = np.lexsort((-values, target, source))
    source, target, values = source[order], target[order], values[order]
    first = np.ones(len(source), dtype=bool)
    first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    return source[first], target[first], values[first]


def _digest(array: Any) -> str:
    digest = hashlib.sha256()
    _update_digest(digest, array)
    return digest.hexdigest()


def _update_digest(digest: Any, array: Any) -> None:
    """Add an array, a sparse matrix or None."""
    for part in (array.indptr, array.indices, array.data) if sp.issparse(array) else (array,):
        digest.update(repr(None if part is None else (part.dtype.str, part.shape)).encode())
        if part is not None:
            digest.update(np.ascontiguousarray(part).data)
