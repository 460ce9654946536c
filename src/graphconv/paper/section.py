"""What an experiment is asked for, and the form its results take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphconv.io.progress import Progress, silent
from graphconv.models.settings import Settings, resolve_settings


@dataclass(frozen=True)
class Request:
    """What is wanted of an experiment.

    Parameters
    ----------
    output : Path
        Folder for the log of runs, the results and the figures.
    datasets : tuple of str, optional
        Data sets to take; empty means all that the experiment is about.
    methods : tuple of str, optional
        Rows of table 2 or 3 to take; empty means all.
    runs : int, optional
        At most so many runs (trials in the search, epochs in the timing) for a quick look; 0 runs
        nothing, and tables are made from the runs that are in the log.
    times : bool
        Whether single runs are timed with nothing beside them, for table 2's column of seconds.
    data_dir : Path, optional
    n_workers : int, optional
    max_epochs : int, optional
        Cuts every training short: for tests.
    timing_edges : tuple of int, optional
        Sizes to measure instead of the paper's: for tests.
    timing_devices : tuple of str, optional
        Devices to measure instead of those there are: for tests.
    progress : callable
        Told how far it is, see `graphconv.io.progress`.
    """

    output: Path
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    runs: int | None = None
    times: bool = True
    data_dir: Path | None = None
    n_workers: int | None = None
    max_epochs: int | None = None
    timing_edges: tuple[int, ...] = ()
    timing_devices: tuple[str, ...] = ()
    progress: Progress = silent

    def datasets_of(self, all_of_them: tuple[str, ...]) -> tuple[str, ...]:
        """Those of an experiment's data sets that are wanted, in its order."""
        return tuple(name for name in all_of_them if not self.datasets or name in self.datasets)

    def wants_method(self, name: str) -> bool:
        return not self.methods or name in self.methods

    def n_runs(self, usual: int) -> int:
        return usual if self.runs is None else min(usual, self.runs)

    def settings(self, preset: str, **overrides: Any) -> dict[str, Any]:
        """All settings of a GCN as plain values, so that any change of them shows."""
        settings: Settings = resolve_settings(preset, overrides)
        values = settings.to_json()
        if self.max_epochs is not None:
            values["max_epochs"] = min(self.max_epochs, settings.max_epochs)
        return values


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture, as PNG and SVG of the same name in the folder of the results.

    `page` names a page to open beside it, if there is one; a GIF of the same name is with it.
    """

    file: str
    title: str
    alt: str
    page: str = ""


@dataclass(frozen=True)
class Section:
    """Results of an experiment: words, tables, figures, and the plain numbers behind them.

    `finished` is when, as ISO 8601 in UTC; the page says it, since a page may hold sections of
    several days.
    """

    name: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    finished: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Section:
        return cls(
            name=values["name"],
            title=values["title"],
            text=tuple(values["text"]),
            tables=tuple(
                Table(
                    table["title"], tuple(table["columns"]), tuple(tuple(r) for r in table["rows"])
                )
                for table in values["tables"]
            ),
            figures=tuple(Figure(**figure) for figure in values["figures"]),
            notes=tuple(values["notes"]),
            data=values["data"],
            finished=values.get("finished", ""),
        )
