"""What the command line shows: progress bars on a terminal, plain lines elsewhere, tables.

Progress and remarks go to stderr, results to stdout, so that output can be piped.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphconv.commands.option_names import as_options
from graphconv.io.files import json_text
from graphconv.io.wording import one_line, printable

if TYPE_CHECKING:
    from graphconv.training.loop import Progress

# Seconds between two plain lines of progress.
LINE_EVERY = 5.0
_NUMBER = re.compile(r"[+-]?[\d.,]+( %)?( ± [\d.]+)?|-|")


class TrainingStoppedError(Exception):
    """The user stopped a training; the text says how to go on."""


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
            print(printable(as_options(text)), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A result in words, on stdout."""
        if not self.as_json:
            print(printable(text), flush=True)

    def remark(self, text: str) -> None:
        """A note that explains what was done with the data; nothing if the text is empty."""
        if text:
            self.note(f"note: {as_options(text)}")

    def result(self, values: dict[str, Any]) -> None:
        """Print the JSON object, if that is what is wanted."""
        if self.as_json:
            print(json_text(values), flush=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        """Print rows under a title, numbers to the right and words to the left."""
        if self.as_json:
            return
        columns, rows = list(map(printable, columns)), [list(map(printable, row)) for row in rows]
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        to_right = [all(map(_NUMBER.fullmatch, column)) for column in zip(*rows, strict=True)]

        def line(cells: list[str]) -> str:
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, to_right, strict=True)
            ]
            return ("  " + "   ".join(padded)).rstrip()

        rule = "  " + "-" * (sum(widths) + 3 * (len(widths) - 1))
        head = [line(columns), rule] if any(columns) else [rule]
        print("\n".join([printable(title), *head, *map(line, rows)]), flush=True)

    @contextmanager
    def training(self, title: str, first: str = "") -> Iterator[Callable[[Progress], None] | None]:
        """A progress display for `train`'s on_epoch; `first` is what it says until epoch 1."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            with _bar(title, first) as show:
                yield show
        else:
            if first:
                self.note(f"{title}: {first}")
            yield _lines(title)

    @contextmanager
    def stages(self) -> Iterator[Callable[[str, int, int], None] | None]:
        """A progress display for work in stages: a stage's name, steps done, steps in all."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            with _stage_bars() as show:
                yield show
        else:
            yield _stage_lines()

    @contextmanager
    def counting(self, title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """A progress display for a job of many rows or bytes; told how many more are done."""
        done = 0
        last = monotonic()
        with (
            _count_bar(title, total)
            if not self.quiet and sys.stderr.isatty()
            else _no_bar() as show
        ):

            def advance(n_more: int) -> None:
                nonlocal done, last
                done += n_more
                if show is not None:
                    show(done)
                elif not self.quiet and monotonic() - last > LINE_EVERY:
                    last = monotonic()
                    whole = "" if total is None else f" of {total:,}"
                    self.note(f"{title}: {done:,}{whole} {unit}")

            yield advance

    def downloading(self) -> Callable[[str, int | None, int | None], None]:
        """A progress display for downloads."""
        last: dict[str, float] = {}

        def show(message: str, done: int | None, total: int | None) -> None:
            is_last = done is not None and done == total
            is_soon = message in last and monotonic() - last[message] < 1
            if self.quiet or (is_soon and not is_last):
                return
            last[message] = monotonic()
            amount = "" if done is None else f": {done / 1e6:.1f} MB"
            whole = "" if total is None or done is None else f" of {total / 1e6:.1f} MB"
            text, end = f"{printable(message)}{amount}{whole}", "\n"
            if sys.stderr.isatty() and done is not None:
                # The amount grows in place; the escape wipes what a longer text left.
                text, end = f"\033[K{text}", "\n" if is_last else "\r"
            print(text, file=sys.stderr, end=end, flush=True)

        return show


@contextmanager
def _no_bar() -> Iterator[None]:
    yield None


@contextmanager
def _count_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}"),
        *([] if total is None else [TimeRemainingColumn()]),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(printable(title), total=total)
        yield lambda done: bars.update(task, completed=done)


@contextmanager
def _bar(title: str, first: str) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    # No remaining time: training stops early, and when is what nobody knows.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(printable(title), total=None, figures=first)
        last = 0.0

        def show(progress: Progress) -> None:
            # Ten looks a second are enough for the eye and cost nothing.
            nonlocal last
            if monotonic() - last > 0.1:
                last = monotonic()
                bars.update(
                    task,
                    total=progress.n_replicas * progress.max_epochs,
                    completed=progress.n_epochs_done,
                    figures=_figures(progress),
                )

        yield show


@contextmanager
def _stage_bars() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeRemainingColumn(),
    )
    tasks: dict[str, Any] = {}
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield show


def _stage_lines() -> Callable[[str, int, int], None]:
    begun: dict[str, float] = {}
    last = monotonic()

    def show(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = monotonic()
        start = begun.setdefault(stage, now)
        if now - last > LINE_EVERY and done < total:
            last = now
            left = (now - start) / max(done, 1) * (total - done)
            text = f"{stage}: {100 * done // total} %, {left:.0f} s left"
            print(printable(text), file=sys.stderr, flush=True)

    return show


def _lines(title: str) -> Callable[[Progress], None]:
    last = monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        if monotonic() - last > LINE_EVERY:
            last = monotonic()
            print(printable(f"{title}: {_figures(progress)}"), file=sys.stderr, flush=True)

    return show


def _figures(progress: Progress) -> str:
    figures = progress.figures
    text = f"epoch {progress.epoch}/{progress.max_epochs}, loss {figures.train_loss.mean():.3f}"
    if progress.n_replicas > 1:
        n_begun = progress.n_replicas - progress.n_waiting
        text = f"{n_begun} of {progress.n_replicas} models, {text}"
    accuracy = figures.validation_accuracy.mean()
    return text if accuracy != accuracy else f"{text}, validation {100 * accuracy:.1f} %"


def show_warnings_as_lines() -> None:
    """Print warnings as one line each, without the place in the code they come from."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = message.args[0] if isinstance(message, Warning) and message.args else message
        print(f"warning: {printable(one_line(as_options(text)))}", file=sys.stderr, flush=True)

    warnings.showwarning = show
