"""Edge nodes: an edge that has features becomes a node that carries them (the paper, section 7.2).

Tables of edges and nodes enter and leave: the edge (a, b) becomes a node e of a type of its own and
the edges (a, e) and (b, e). What follows is a graph of nodes of two types, see `node_types`: only
the nodes themselves are counted, labelled and reported, edges only help to label them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from graphconv.io.column_names import settled_names
from graphconv.io.roles import propose_role
from graphconv.io.table_columns import TableOptions, column_of
from graphconv.io.table_files import Table
from graphconv.io.table_ids import node_positions
from graphconv.io.wording import count, naming

if TYPE_CHECKING:
    import pandas as pd

NODE, EDGE = "node", "edge"


def edge_feature_columns(options: TableOptions) -> tuple[str, ...]:
    """Columns of the edge table that become features: those named, or those of the training."""
    if options.encoding is not None:
        return options.encoding.edge_columns
    return tuple(options.edge_features)


def with_edge_nodes(
    edges: Table, nodes: Table | None, options: TableOptions
) -> tuple[Table, dict[str, Table], TableOptions]:
    """The tables of the bipartite graph: its edges, its nodes by type, and how to read them.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io._edge_nodes import with_edge_nodes
    >>> from graphconv.io.table_columns import TableOptions
    >>> from graphconv.io.table_files import table_of_frame
    >>> paid = pd.DataFrame({"source": ["ann"], "target": ["bob"], "amount": [7.5]})
    >>> options = TableOptions(edge_features=["amount"])
    >>> edges, tables, _ = with_edge_nodes(table_of_frame(paid, "paid"), None, options)
    >>> edges.frame.to_numpy().tolist()
    [['ann', 'ann to bob'], ['bob', 'ann to bob']]
    >>> tables["edge"].frame.to_numpy().tolist()
    [['ann to bob', 7.5]]
    """
    notes = [*edges.notes]
    options = settled_names(edges, nodes, options, notes)
    _check_alone(edges, options)
    ids, source, target = node_positions(edges, nodes, options, notes)
    columns = [str(column_of(edges, name, "edge_features").name) for name in _named(edges, options)]
    if options.self_loops == "drop":
        kept = np.flatnonzero(source != target)
        source, target = source[kept], target[kept]
    else:
        kept = np.arange(len(source))
    frame = edges.frame.iloc[kept].reset_index(drop=True)
    names = _edge_ids([f"{ids[a]} to {ids[b]}" for a, b in zip(source, target, strict=True)])
    described = frame[columns].copy()
    described.insert(0, options.id, names)
    roles = [] if options.encoding is not None else _proposed_roles(edges, described, options)
    halves = frame.drop(columns=columns).loc[np.tile(np.arange(len(frame)), 2)]
    halves[options.source] = np.concatenate((ids[source], ids[target]))
    halves[options.target] = [*names, *names]
    listed = ", ".join(repr(name) for name in columns)
    notes.append(f"{count(len(names), 'edge')} made nodes that carry {listed}")
    if nodes is None:
        nodes = Table(frame.iloc[:0][[]].assign(**{options.id: []}), edges.name, edges.at)
        options = replace(options, require_label=False)
    return (
        replace(edges, frame=halves.reset_index(drop=True), notes=tuple(notes)),
        {NODE: nodes, EDGE: replace(edges, frame=described, notes=())},
        replace(
            options,
            source_type=NODE,
            target_type=EDGE,
            self_loops="keep",
            relation="",
            roles=[*options.roles, *roles],
        ),
    )


def _named(edges: Table, options: TableOptions) -> Sequence[str]:
    """The columns as the table spells them, as other names are found, whatever their case."""
    there = {str(column).lower(): str(column) for column in edges.frame.columns}
    names = edge_feature_columns(options)
    return [
        name if name in edges.frame.columns else there.get(name.lower(), name) for name in names
    ]


def _check_alone(edges: Table, options: TableOptions) -> None:
    uses = Counter([options.source, options.target, *edge_feature_columns(options)])
    name, times = uses.most_common(1)[0]
    if times > 1:
        raise ValueError(f"{edges.name}: column {name!r} must have one use, got {times}")
    if options.directed or options.relation:
        wrong = "directions" if options.directed else "relations"
        raise ValueError(
            naming(
                "{}: edges with features become nodes of an undirected graph, which has no {}: "
                "leave out {edge_features}, or them",
                edges.name,
                wrong,
            )
        )


def _edge_ids(names: Sequence[str]) -> list[str]:
    """The names, with a number where one is there already: two edges may join the same nodes."""
    seen: Counter[str] = Counter()
    ids = []
    for name in names:
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return ids


def _proposed_roles(edges: Table, described: pd.DataFrame, options: TableOptions) -> list[str]:
    """A role for each column that has none yet, so that none is mistaken for a label."""
    declared = {name for name, _ in options.declarations}
    roles = []
    for name in described.columns[1:]:
        if name not in declared:
            role = propose_role(described[name])
            if role.role == "ignore":
                raise ValueError(
                    f"{edges.name}: column {name!r} must tell edges apart, but it is {role.words}"
                )
            roles.append(f"{name}={role.role}")
    return roles
