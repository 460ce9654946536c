"""Cards: what is known of a node, as a person can read it: its columns and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.io.readers import LoadedGraph
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import as_text
from graphconv.io.wording import is_missing, one_line

_MAX_COLUMNS, _MAX_TEXT, _MAX_FEATURES = 30, 2000, 12
_N_NEIGHBOURS = 10


@dataclass(frozen=True)
class Cards:
    """What is known of each node of a graph.

    Parameters
    ----------
    graph : Graph
    table : mapping of str to sequence
        Columns as they came, one value for each of the first nodes; nodes that only edges name
        have none. Empty where the table is not at hand: features stand for it then.
    encoding : TableEncoding, optional
        How features were made of columns, where they were: it tells the one from the other.
    """

    graph: Graph
    table: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    encoding: TableEncoding | None = None

    @classmethod
    def of_loaded(cls, loaded: LoadedGraph) -> Cards:
        """Cards of all that was read, whatever it was read from."""
        frame = loaded.node_table
        table = {} if frame is None else {str(c): as_text(frame[c]).tolist() for c in frame.columns}
        return cls(loaded.graph, table, loaded.encoding)

    def columns(self, node: int) -> list[tuple[str, str]]:
        """Names and values to show; empty cells are left out."""
        if self.table:
            shown = []
            for name, values in list(self.table.items())[:_MAX_COLUMNS]:
                value = values[node] if node < len(values) else None
                if not is_missing(value) and str(value).strip():
                    shown.append((name, str(value)[:_MAX_TEXT]))
            return shown
        return self._features(node)

    def _features(self, node: int) -> list[tuple[str, str]]:
        """The features that are not zero, by the column they were made of, the largest first."""
        features = self.graph.features
        if features is None:
            return []
        row = features[[node]]
        values = row.toarray().ravel() if sp.issparse(row) else np.asarray(row).ravel()
        filled = np.flatnonzero(values)
        order = filled[np.argsort(-np.abs(values[filled]), kind="stable")].tolist()
        names = self.graph.feature_names
        if names is None:
            return [(f"feature {k}", f"{values[k]:.4g}") for k in order[:_MAX_FEATURES]]
        shown: dict[str, list[str]] = {}
        for place in order:
            column = self._column_of.get(place, names[place])
            # "town=Rome" and "title:graph" say what they are; a number has its value to say.
            rest = names[place].removeprefix(column)
            said = rest[1:] if rest[:1] in ("=", ":") else f"{rest} {values[place]:.4g}".strip()
            shown.setdefault(column, []).append(said)
        cells = [(name, ", ".join(parts[:_MAX_FEATURES])) for name, parts in shown.items()]
        return cells[:_MAX_COLUMNS]

    @cached_property
    def _column_of(self) -> dict[int, str]:
        """The column that each feature was made of."""
        made = {} if self.encoding is None else self.encoding.features_of_columns
        return {place: name for name, places in made.items() for place in places}

    def summary(self, node: int) -> str:
        """One line about a node, for tables."""
        is_readable = self.table or self.encoding is not None
        texts = [one_line(value) for _, value in self.columns(node)] if is_readable else []
        longest = max(texts, key=len, default="")
        return longest[:140]

    def neighbours(self, node: int) -> IntArray:
        """Positions of the nodes that a node is linked with, not itself."""
        both = self._both_ways
        found = both.indices[both.indptr[node] : both.indptr[node + 1]]
        others: IntArray = found[(found != node) & (found < self.graph.n_entities)].astype(np.int64)
        return others

    def most_telling(self, neighbours: IntArray, labels: IntArray) -> list[int]:
        """Some of a node's neighbours: those with a label first."""
        order = np.argsort(labels[neighbours] < 0, kind="stable")
        chosen: list[int] = neighbours[order][:_N_NEIGHBOURS].tolist()
        return chosen

    def search(self, text: str, n: int) -> list[int]:
        """Nodes whose id or text holds some words, those whose id begins with them first."""
        wanted = text.strip().lower()
        if not wanted:
            return []
        ids = self._lower_ids
        exact = [node for node, name in enumerate(ids) if name == wanted]
        begin = [node for node, name in enumerate(ids) if name.startswith(wanted)]
        inside = [node for node, name in enumerate(ids) if wanted in name]
        found = list(dict.fromkeys([*exact, *begin[:n], *inside[: 3 * n]]))
        if len(found) < n and self.table:
            texts = self._lower_texts
            found += [node for node, line in enumerate(texts) if wanted in line][:n]
        return list(dict.fromkeys(found))[:n]

    @cached_property
    def _both_ways(self) -> sp.csr_array:
        adjacency = self.graph.adjacency
        return sp.csr_array(adjacency + adjacency.T) if self.graph.directed else adjacency

    @cached_property
    def _lower_ids(self) -> list[str]:
        return [str(node).lower() for node in self.graph.node_ids[: self.graph.n_entities].tolist()]

    @cached_property
    def _lower_texts(self) -> list[str]:
        lists = list(self.table.values())
        n_rows = max(map(len, lists), default=0)
        return [
            " ".join(str(values[row]) for values in lists if row < len(values)).lower()
            for row in range(n_rows)
        ]
