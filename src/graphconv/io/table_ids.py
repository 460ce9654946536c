"""Table ids: which nodes the tables name, and the positions of both ends of every edge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray
from graphconv.io.table_columns import TableOptions, column_of
from graphconv.io.table_files import Table, as_text
from graphconv.io.wording import count, shown

if TYPE_CHECKING:
    import pandas as pd

_WRITTEN_NUMBER = re.compile(r"0*(\d+)(\.0*)?", re.ASCII)


def ids_of(table: Table, name: str, option: str) -> pd.Series[Any]:
    """A column of ids; those of files are text, and none is missing."""
    column = column_of(table, name, option)
    if table.is_file:
        column = as_text(column)
        missing = (column == "").to_numpy(dtype=bool)
    else:
        column = column.astype(object) if column.dtype == "category" else column
        missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"{table.at(row)}: column {name!r} must name a node, got an empty cell")
    return column


def node_positions(
    edges: Table, nodes: Table | None, options: TableOptions, notes: list[str]
) -> tuple[npt.NDArray[Any], IntArray, IntArray]:
    """Ids of all nodes, those of the table first, and the positions of both ends of the edges."""
    import pandas as pd

    source = ids_of(edges, options.source, "source")
    target = ids_of(edges, options.target, "target")
    # Row by row, so that nodes stand in the order in which a reader of the file meets them.
    parts = [pd.concat([source, target]).sort_index(kind="stable")]
    if nodes is not None:
        parts.insert(0, ids_of(nodes, options.id, "id"))
    elif options.closed_ids:
        raise ValueError("closed ids need a node table, got none")
    if len({part.dtype for part in parts}) > 1:
        # pandas would make floats of whole numbers that meet a float.
        parts = [part.astype(object) for part in parts]
    try:
        codes, unique = pd.concat(parts).factorize()
    except TypeError:
        raise ValueError(f"{edges.name}: ids must be hashable, such as numbers or text") from None
    ids = np.asarray(unique)
    if not len(ids):
        raise ValueError(f"{edges.name} must have an edge, or the node table a node, got neither")
    n_table = 0 if nodes is None else len(nodes.frame)
    positions = codes[n_table:].reshape(-1, 2).astype(np.int64)
    if nodes is not None:
        check_table_ids(nodes, options.id, codes[:n_table].tolist())
    _check_edge_ids(edges, nodes, options, ids, positions, notes)
    return ids, positions[:, 0], positions[:, 1]


def check_table_ids(nodes: Table, column: str, ids: Sequence[Any]) -> None:
    """Refuse a table that has an id twice; `ids` may be numbers that stand for them."""
    first: dict[Any, int] = {}
    for row, node_id in enumerate(ids):
        earlier = first.setdefault(node_id, row)
        if earlier != row:
            shown_id = shown(nodes.frame[column].iloc[row])
            raise ValueError(
                f"{nodes.at(row)}: id {shown_id} must be unique, but {nodes.at(earlier)} has it too"
            )


def _check_edge_ids(
    edges: Table,
    nodes: Table | None,
    options: TableOptions,
    ids: npt.NDArray[Any],
    positions: IntArray,
    notes: list[str],
) -> None:
    """Refuse, or tell of, edges to nodes that neither the table nor the graph before has."""
    listed = ids.tolist()
    known = listed[: 0 if nodes is None else len(nodes.frame)]
    before: list[Any] = [] if options.merge_into is None else options.merge_into.node_ids.tolist()
    n_table, there = len(known), set(before)
    if not n_table and not there:
        return
    is_known = np.array(
        [place < n_table or node_id in there for place, node_id in enumerate(listed)], dtype=bool
    )
    place = nodes.name if nodes is not None and n_table else "the graph"
    unknown = ~is_known[positions]
    _tell_other_spellings(edges, place, [*known, *before], ids, is_known, positions, notes)
    if options.closed_ids and unknown.any():
        row = int(np.flatnonzero(unknown.any(axis=1))[0])
        side = 0 if unknown[row, 0] else 1
        raise ValueError(
            f"{edges.at(row)}: {('source', 'target')[side]} {shown(ids[positions[row, side]])} "
            f"is not in {place}"
        )
    if len(unknown) and unknown.all():
        example = known[0] if known else before[0]
        raise ValueError(
            f"{edges.name} and {place} must share ids, but no edge has one of the table's: "
            f"{shown(ids[positions[0, 0]])} is one of the edges', {shown(example)} of the table's"
        )


def _tell_other_spellings(
    edges: Table,
    place: str,
    known: Sequence[Any],
    ids: npt.NDArray[Any],
    is_known: npt.NDArray[np.bool_],
    positions: IntArray,
    notes: list[str],
) -> None:
    """Say which ids of the edges are probably known ones, written otherwise.

    Refuse the edges where most would end in a node that nothing is known of.
    """
    strangers = np.flatnonzero(~is_known)
    if not len(strangers):
        return
    meant = {_spelling(node_id): node_id for node_id in known}
    is_likely = np.zeros(len(ids), dtype=bool)
    is_likely[strangers] = [_spelling(node_id) in meant for node_id in ids[strangers].tolist()]
    n_likely = int(is_likely.sum())
    if not n_likely:
        return
    node_id = ids[np.argmax(is_likely)]
    n_edges = int(is_likely[positions].any(axis=1).sum())
    pair = (node_id, meant[_spelling(node_id)])
    notes.append(
        about_other_spellings(
            edges.name, place, pair, (n_likely, len(strangers)), (n_edges, len(positions))
        )
    )


def about_other_spellings(
    edges: str,
    place: str,
    pair: tuple[Any, Any],
    ids: tuple[int, int],
    ends: tuple[int, int],
) -> str:
    """A note about ids that are probably known ones; an error where most edges have such an end.

    Parameters
    ----------
    edges, place : str
        The edges, and what has the ids that are meant.
    pair : tuple
        An id of the edges, and the one that it probably is.
    ids, ends : tuples of int
        Ids of the kind, and of all that only edges have; edges with such an end, and all edges.
    """
    n_likely, n_strangers = ids
    n_edges, n_all = ends
    said = (
        f"{n_likely:,} of {count(n_strangers, 'id')} that only {edges} has "
        f"{'is' if n_likely == 1 else 'are'} probably in {place}, written otherwise: "
        f"{shown(pair[0])} for {shown(pair[1])}"
    )
    if 2 * n_edges > n_all:
        raise ValueError(f"{said}: {n_edges:,} of {count(n_all, 'edge')} would miss it")
    return f"{said}; taken as other nodes"


def _spelling(node_id: object) -> str:
    """An id without what spreadsheets and data frames change: 26.0 is 26, and so is " 026"."""
    text = "".join(str(node_id).split()).casefold()
    number = _WRITTEN_NUMBER.fullmatch(text)
    return number[1] if number else text
