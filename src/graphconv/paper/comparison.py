"""Tables that put our accuracy beside the paper's: series of runs enter, tables leave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graphconv.estimators.statistics import (
    Summary,
    difference,
    fixed,
    median_text,
    seconds_text,
    with_error,
)
from graphconv.paper.published import TITLES
from graphconv.paper.section import Table

# The last is left out where no run of a table was timed with nothing beside it.
COLUMNS = ("paper", "ours", "difference", "median (quartiles)", "runs", "seconds")


@dataclass(frozen=True)
class Cell:
    """One method on one data set."""

    dataset: str
    method: str
    title: str
    paper: float | None
    ours: Summary
    reason: str = ""  # why there are no runs
    paper_text: str = ""  # where it says more than the figure

    def texts(self) -> tuple[str, ...]:
        """What stands in COLUMNS."""
        if self.ours.n_runs == 0:
            ours = "failed" if self.reason else "not run"
            return self.paper_text or fixed(self.paper), ours, "-", "-", "0", "-"
        return (
            self.paper_text or fixed(self.paper),
            with_error(self.ours),
            difference(self.ours.mean, self.paper),
            median_text(self.ours),
            str(self.ours.n_runs),
            seconds_text(self.ours.seconds),
        )

    def to_json(self) -> dict[str, Any]:
        shown = {"dataset": self.dataset, "method": self.method, "paper": self.paper}
        return {**shown, **asdict(self.ours), "reason": self.reason}


def overview(title: str, cells: Sequence[Cell]) -> Table:
    """All data sets side by side: ours, and the paper's in brackets."""
    datasets = _in_order(cell.dataset for cell in cells)
    by_place = {(cell.method, cell.dataset): cell for cell in cells}
    rows = []
    for method, name in _in_order((cell.method, cell.title) for cell in cells):
        texts = [_short(by_place.get((method, dataset))) for dataset in datasets]
        rows.append((name, *texts))
    columns = ("method", *(TITLES.get(name, name) for name in datasets))
    return Table(title, columns, tuple(rows))


def _short(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    ours = "-" if math.isnan(cell.ours.mean) else fixed(cell.ours.mean)
    return ours if cell.paper is None else f"{ours} ({fixed(cell.paper)})"


def details(cells: Sequence[Cell]) -> tuple[Table, ...]:
    """A table for each data set, with COLUMNS."""
    n_columns = len(COLUMNS) - all(math.isnan(cell.ours.seconds) for cell in cells)
    return tuple(
        Table(
            TITLES.get(dataset, dataset),
            ("method", *COLUMNS[:n_columns]),
            tuple(
                (cell.title, *cell.texts()[:n_columns]) for cell in cells if cell.dataset == dataset
            ),
        )
        for dataset in _in_order(cell.dataset for cell in cells)
    )


def short_of_paper(found: Sequence[Cell]) -> list[str]:
    """Which numbers are more than a point below the paper's, in one sentence."""
    short = [
        f"{one.title} on {TITLES[one.dataset]} ({one.ours.mean - one.paper:.1f})"
        for one in found
        if one.paper is not None and one.ours.n_runs and one.ours.mean < one.paper - 1
    ]
    return [f"More than one point below the paper: {', '.join(short)}."] if short else []


def reasons(cells: Sequence[Cell]) -> tuple[str, ...]:
    """For every cell without runs that was tried, why it has none."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason and cell.ours.n_runs == 0:
            where = f"{cell.title} on {TITLES.get(cell.dataset, cell.dataset)}"
            by_reason.setdefault(cell.reason, []).append(where)
    return tuple(f"{', '.join(who)}: {reason}." for reason, who in by_reason.items())


def _in_order(items: Any) -> list[Any]:
    return list(dict.fromkeys(items))


def first_reason(failed: Mapping[str, str], *fingerprints: str) -> str:
    """Why the first of some series failed; empty if none did."""
    return next((failed[print_] for print_ in fingerprints if print_ in failed), "")
