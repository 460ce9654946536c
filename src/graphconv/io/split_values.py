"""Split values: the column that a split goes by, with a value for each node.

"time:joined" or "group:region" and the tables enter, `SplitValues` leave. The time of a node may
also come from its edges: it is that of the first one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.column_splits import group_split, time_split
from graphconv.io.derived_columns import dates_of
from graphconv.io.number_columns import as_numbers
from graphconv.io.table_columns import TableOptions, column_of
from graphconv.io.table_files import Table, as_text
from graphconv.io.wording import count, shown

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("time", "group")
# With a unit: numpy gives up dates without one.
_NO_DATE = np.datetime64("NaT", "ns")


@dataclass(frozen=True, eq=False)
class SplitValues:
    """What a split goes by.

    Parameters
    ----------
    kind : {"time", "group"}
    column : str
    values : array of shape (n_nodes,)
        Numbers or datetime64 with NaN or NaT, or names of groups with None, where unknown.
    of_edges : bool
        The column is one of the edges.
    """

    kind: str
    column: str
    values: npt.NDArray[Any]
    of_edges: bool = False

    def split(self, graph: Graph, random_state: int) -> tuple[Graph, str]:
        """The graph split by the values, and what to tell about it."""
        if self.kind == "group":
            split = group_split(graph, self.values, random_state=random_state)
            n_groups = len({name for name in self.values.tolist() if name is not None})
            return split, f"labels split by {count(n_groups, 'group')} of column {self.column!r}"
        split = time_split(graph, self.values)
        ends = [
            self._shown(self.values[index].max())
            for index in (split.train_index, split.validation_index, split.test_index)
        ]
        note = (
            f"labels split by time, column {self.column!r}: training until {ends[0]}, validation "
            f"until {ends[1]}, test until {ends[2]}"
        )
        if self.of_edges:
            note += "; a node has the time of its first edge, and edges of all times are used"
        n_without = int(graph.is_labelled.sum()) - sum(
            len(index) for index in (split.train_index, split.validation_index, split.test_index)
        )
        if n_without:
            note += f"; {count(n_without, 'label')} without a time in no part"
        return split, note

    def without_some(self, share: float, random_state: int) -> SplitValues:
        """The same with the values of a random share of the nodes unknown."""
        chance = np.random.default_rng(random_state).random(len(self.values))
        missing = {"M": _NO_DATE, "O": None}.get(self.values.dtype.kind, np.nan)
        values = self.values.copy()
        values[chance < share] = missing
        return replace(self, values=values)

    def digest(self) -> str:
        """Equal values, equal digest."""
        return hashlib.sha256(repr(self.values.tolist()).encode()).hexdigest()[:16]

    def _shown(self, moment: Any) -> str:
        if self.values.dtype.kind == "M":
            return str(moment.astype("datetime64[s]")).removesuffix("T00:00:00")
        return f"{moment:.6g}"


def read_split_values(
    edges: Table,
    nodes: Table | None,
    options: TableOptions,
    ends: tuple[IntArray, IntArray],
    n_nodes: int,
) -> SplitValues | None:
    """The values of the column that `options.split_by` names; None where it names none.

    `ends` are the positions of source and target of each edge; rows of `nodes` come first.
    """
    if options.split_by is None:
        return None
    kind, _, column = options.split_by.partition(":")
    if nodes is not None and column in nodes.frame.columns:
        cells = nodes.frame[column]
        if kind == "group":
            names = np.full(n_nodes, None, dtype=object)
            names[: len(cells)] = [text or None for text in as_text(cells).tolist()]
            return SplitValues(kind, column, names)
        times = _times(nodes, cells)
        missing = _NO_DATE if times.dtype.kind == "M" else np.nan
        values = np.full(n_nodes, missing, dtype=times.dtype)
        values[: len(times)] = times
        return SplitValues(kind, column, values)
    if kind == "time" and column in edges.frame.columns:
        return SplitValues(kind, column, _first_times(edges, column, ends, n_nodes), of_edges=True)
    place = edges if nodes is None else nodes
    column_of(place, column, "split")
    raise AssertionError("a column that is not there is refused")


def _times(table: Table, column: pd.Series[Any]) -> npt.NDArray[Any]:
    """A column of dates or numbers; NaT or NaN where a cell is empty."""
    text = as_text(column).tolist()
    numbers = as_numbers(column)
    if column.dtype.kind != "M" and all(
        np.isfinite(number) or not written for number, written in zip(numbers, text, strict=True)
    ):
        return numbers
    dates = dates_of(column)
    for row, written in enumerate(text):
        if written and (np.isnan(numbers[row]) if dates is None else np.isnat(dates[row])):
            raise ValueError(
                f"{table.at(row)}: column {str(column.name)!r} must hold dates or numbers to split "
                f"by time, got {shown(column.iloc[row])}"
            )
    assert dates is not None
    return dates


def _first_times(
    edges: Table, column: str, ends: tuple[IntArray, IntArray], n_nodes: int
) -> npt.NDArray[Any]:
    times = _times(edges, edges.frame[column])
    is_date = times.dtype.kind == "M"
    is_known = ~(np.isnat(times) if is_date else np.isnan(times))
    number = times.astype("datetime64[ns]").astype(np.int64) if is_date else times
    largest = np.iinfo(np.int64).max if is_date else np.inf
    first = np.full(n_nodes, largest, dtype=number.dtype)
    for side in ends:
        np.minimum.at(first, side[is_known], number[is_known])
    if not is_date:
        return np.where(first == largest, np.nan, first)
    dates = first.astype("datetime64[ns]")
    dates[first == largest] = _NO_DATE
    return dates
