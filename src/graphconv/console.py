"""What the command line shows: progress bars on a terminal, plain lines elsewhere, tables.

Progress and remarks go to stderr, results to stdout, so that output can be piped.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphconv.training import Progress

# Seconds between two plain lines of progress.
LINE_EVERY = 5.0


@dataclass(frozen=True)
class Screen:
    """Where a command's words go.

    Parameters
    ----------
    quiet : bool
        No remarks and no progress.
    as_json : bool
        Results as one JSON object, and nothing else on stdout.
    """

    quiet: bool = False
    as_json: bool = False

    def note(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def result(self, values: dict[str, Any]) -> None:
        """Print the JSON object, if that is what is wanted."""
        if self.as_json:
            print(json.dumps(values, default=_to_plain), flush=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        if self.as_json or (self.quiet and not rows):
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
        for number, column in enumerate(columns):
            table.add_column(
                column, justify="left" if number == 0 else "right", no_wrap=number == 0
            )
        for row in rows:
            table.add_row(*row)
        wide = None if sys.stdout.isatty() else 120
        Console(width=wide, highlight=False, markup=False).print(table)

    @contextmanager
    def training(self, title: str) -> Iterator[Callable[[Progress], None] | None]:
        """A progress display for `train`'s on_epoch."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            with _bar(title) as show:
                yield show
        else:
            yield _lines(title)

    def downloading(self) -> Callable[[str, int | None, int | None], None]:
        """A progress display for downloads."""
        last: dict[str, float] = {}

        def show(message: str, done: int | None, total: int | None) -> None:
            if self.quiet or (message in last and monotonic() - last[message] < 1):
                return
            last[message] = monotonic()
            amount = "" if done is None else f" {done / 1e6:.1f} MB"
            whole = "" if total is None or done is None else f" of {total / 1e6:.1f}"
            end = "\r" if sys.stderr.isatty() and done is not None else "\n"
            print(f"{message}{amount}{whole}", file=sys.stderr, end=end, flush=True)

        return show


@contextmanager
def _bar(title: str) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs, at most"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None, figures="")
        last = 0.0

        def show(progress: Progress) -> None:
            # Ten looks a second are enough for the eye and cost nothing.
            nonlocal last
            if monotonic() - last > 0.1:
                last = monotonic()
                bars.update(
                    task,
                    total=progress.max_epochs,
                    completed=progress.epoch,
                    figures=_figures(progress),
                )

        yield show


def _lines(title: str) -> Callable[[Progress], None]:
    last = monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        if monotonic() - last > LINE_EVERY:
            last = monotonic()
            print(
                f"{title}: epoch {progress.epoch} of at most {progress.max_epochs}, "
                f"{_figures(progress)}",
                file=sys.stderr,
                flush=True,
            )

    return show


def _figures(progress: Progress) -> str:
    figures = progress.figures
    text = f"loss {figures.train_loss.mean():.3f}"
    accuracy = figures.validation_accuracy.mean()
    return text if accuracy != accuracy else f"{text}, validation accuracy {100 * accuracy:.1f} %"


def show_warnings_as_lines() -> None:
    """Print warnings as one line each, without the place in the code they come from."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        print(f"warning: {one_line(message)}", file=sys.stderr, flush=True)

    warnings.showwarning = show


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def _to_plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
