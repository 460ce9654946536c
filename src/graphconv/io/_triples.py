"""Triples: a knowledge graph becomes the bipartite graph of the paper's NELL data (section 5.1).

Every relation r becomes two nodes, r1 for its heads and r2 for its tails; a triple (e1, r, e2)
becomes the edges (e1, r1) and (e2, r2); every relation node has a one-hot feature of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features, IntArray
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table, as_text

if TYPE_CHECKING:
    import pandas as pd


def number_relations(edges: Table, column: pd.Series[Any]) -> tuple[tuple[str, ...], IntArray]:
    """Names of the relations, and the number of each triple's relation."""
    text = as_text(column)
    missing = (text == "").to_numpy(dtype=bool)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"{edges.at(row)}: column {str(column.name)!r} must name a relation, got an empty cell"
        )
    names, codes = np.unique(np.asarray(text, dtype=object), return_inverse=True)
    return tuple(str(name) for name in names), codes.astype(np.int64)


def bipartite_edges(
    head: IntArray, tail: IntArray, relation: IntArray, *, n_entities: int
) -> tuple[IntArray, IntArray]:
    """The edges (e1, r1) and (e2, r2) of triples (e1, r, e2), all given by their numbers.

    The two nodes of relation r are n_entities + 2 r, for its heads, and the next, for its tails.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.io._triples import bipartite_edges
    >>> bipartite_edges(np.array([0]), np.array([1]), np.array([0]), n_entities=2)
    (array([0, 1]), array([2, 3]))
    """
    head_node = n_entities + 2 * relation
    return np.concatenate((head, tail)), np.concatenate((head_node, head_node + 1))


def with_relation_ids(ids: npt.NDArray[Any], relations: Sequence[str]) -> npt.NDArray[Any]:
    """The ids of entities followed by those of the relations' nodes, all different."""
    taken: set[Hashable] = set(ids.tolist())
    more: list[str] = []
    for relation in relations:
        for end in ("head", "tail"):
            name, number = f"{relation}:{end}", 2
            while name in taken:
                name, number = f"{relation}:{end}#{number}", number + 1
            taken.add(name)
            more.append(name)
    return np.concatenate((ids.astype(object), np.array(more, dtype=object)))


def with_relation_features(
    features: Features | None, encoding: TableEncoding, relations: Sequence[str]
) -> tuple[Features | None, tuple[str, ...] | None]:
    """The block matrix [X, 0; U, I] of the entities' features and the relations' one-hot ones.

    U are the features of nodes that no table describes: a relation has no age, and 0 would be one.
    Featureless entities stay so: the identity of all nodes holds that of the relation nodes.
    """
    if features is None:
        return None, None
    if not encoding.relations and not relations:
        return features, encoding.feature_names
    column = {name: 2 * number for number, name in enumerate(encoding.relations)}
    known = [number for number, name in enumerate(relations) if name in column]
    # Two rows and two columns a relation: its heads, its tails.
    rows = np.array([2 * number + end for number in known for end in (0, 1)], dtype=np.int64)
    columns = np.array(
        [column[relations[number]] + end for number in known for end in (0, 1)], dtype=np.int64
    )
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (2 * len(relations), 2 * len(encoding.relations))
    one_hot = sp.coo_array((ones, (rows, columns)), shape=shape)
    names = [f"{name}:{end}" for name in encoding.relations for end in ("head", "tail")]
    unknown = encoding.unknown_rows(one_hot.shape[0])
    blocks = sp.block_array([[sp.csr_array(features), None], [unknown, one_hot]], format="csr")
    return sp.csr_array(blocks), (*encoding.feature_names, *names)
