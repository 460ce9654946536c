"""Node details: what the report tells of single nodes beside their labels, within bounds.

Columns as they came, neighbours, and the reasons for a label. A page must stay small and be made
in seconds, so neighbours and columns have limits, and reasons are worked out for the nodes that
the page itself speaks of, as far as that is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import IntArray
from graphconv.io.progress import Progress, silent
from graphconv.io.wording import one_line
from graphconv.report.cards import Cards
from graphconv.results.explain import explain
from graphconv.results.neighbourhood import Neighbourhood
from graphconv.training.fitted import FittedGCN

# Neighbours of a node that are named, and of all nodes together.
N_NEIGHBOURS, MOST_NEIGHBOURS = 6, 400_000
# Letters of all columns together, and of one cell.
MOST_LETTERS, CELL = 1_500_000, 160
# Nodes whose reasons are worked out, and numbers to compute for that: some seconds' worth.
MOST_EXPLAINED, WORK = 60, 1_000_000_000


def neighbours_of_all(cards: Cards, labels: IntArray) -> tuple[IntArray, IntArray] | None:
    """How many neighbours of each node are named, and these; those with a label first.

    None where there are too many nodes for it.
    """
    n_nodes = cards.graph.n_entities
    if n_nodes * N_NEIGHBOURS > MOST_NEIGHBOURS:
        return None
    is_known = labels >= 0 if labels.ndim == 1 else labels.max(axis=1) >= 0
    order = np.where(is_known, labels if labels.ndim == 1 else 0, -1)
    chosen = [cards.most_telling(cards.neighbours(k), order)[:N_NEIGHBOURS] for k in range(n_nodes)]
    counts: IntArray = np.array([len(own) for own in chosen], dtype=np.int64)
    named: IntArray = np.array([node for own in chosen for node in own], dtype=np.int64)
    return counts, named


def columns_of_nodes(cards: Cards, first: Iterable[int]) -> dict[str, Any]:
    """Names of the columns, and the cells of each node that has any, by its number.

    Where all nodes have more than the page can hold, those come that it speaks of, `first`.
    """
    if not cards.table and cards.encoding is None:
        return {"names": [], "cells": {}}
    places: dict[str, int] = {}
    cells: dict[str, list[Any]] = {}
    n_letters = 0
    for node in dict.fromkeys([*first, *range(cards.graph.n_entities)]):
        row = []
        for name, value in cards.columns(node):
            text = one_line(value)
            text = text if len(text) <= CELL else f"{text[: CELL - 1]}…"
            row += [places.setdefault(name, len(places)), text]
            n_letters += len(text) + 4
        if n_letters > MOST_LETTERS:
            break
        if row:
            cells[str(node)] = row
    return {"names": list(places), "cells": cells}


def reasons_of_nodes(
    fitted: Any, nodes: npt.NDArray[Any], progress: Progress = silent
) -> dict[str, list[str]]:
    """The strongest reasons for the labels of some nodes, by their number.

    What would cost too much is left out, by the size of neighbourhoods alone: the same model has
    the same nodes explained on every machine.
    """
    if not isinstance(fitted, FittedGCN) or fitted.graph.is_multilabel:
        return {}
    graph = fitted.graph
    found: dict[str, list[str]] = {}
    work = 0
    chosen = list(dict.fromkeys(nodes.tolist()))[:MOST_EXPLAINED]
    for done, node in enumerate(chosen):
        progress("working out why", done, len(chosen))
        around = Neighbourhood(fitted, graph, node)
        n_edits = around.adjacency.nnz + len(around.rows) + _n_columns(around.features)
        cost = around.size * n_edits
        if work + cost > WORK:
            continue
        work += cost
        found[str(node)] = explain(fitted, graph.node_ids[node : node + 1].tolist()[0]).reasons()
    return found


def _n_columns(features: Any) -> int:
    """How many columns have something in some row."""
    if features is None:
        return 0
    return len(np.unique(features.indices)) if sp.issparse(features) else int(features.shape[1])
