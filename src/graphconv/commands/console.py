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
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphconv.commands.option_names import as_options
from graphconv.commands.terminal import (
    for_terminal,
    table_lines,
    width_of,
    wrapped,
)
from graphconv.io.files import json_text
from graphconv.io.progress import Progress, silent
from graphconv.io.wording import duration, n_cells, one_line, printable

if TYPE_CHECKING:
    from graphconv.training.loop import Progress as Epoch

# Seconds between two plain lines of progress.
LINE_EVERY = 5.0
# Cells of a progress bar, and those that its numbers may take.
_BAR = 20
_FIGURES, _TIME_LEFT = 48, 16
_NUMBER = re.compile(r"[+-]?[\d.,]+( %)?( ± [\d.]+)?|-|")


class TrainingStoppedError(Exception):
    """The user stopped a training; the text says how to go on."""


Show = Callable[[str, int, int | None], None]


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
            shown = for_terminal(printable(as_options(text)), sys.stderr)
            print(shown, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A result in words, on stdout."""
        if not self.as_json:
            print(for_terminal(printable(text), sys.stdout), flush=True)

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
        to_right = [all(map(_NUMBER.fullmatch, column)) for column in zip(*rows, strict=True)]
        to_right = to_right or [False] * len(columns)
        lines = table_lines(columns, rows, to_right, width_of(sys.stdout))
        print("\n".join([for_terminal(printable(title), sys.stdout), *lines]), flush=True)

    @contextmanager
    def training(self, title: str) -> Iterator[Callable[[Epoch], None] | None]:
        """A progress display for `train`'s on_epoch."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            with _bar(title) as show:
                yield show
        else:
            yield _epoch_lines(title)

    @contextmanager
    def showing(self) -> Iterator[Progress]:
        """What long work tells of its progress, shown as bars on a terminal, elsewhere as lines."""
        if self.quiet:
            yield silent
        elif sys.stderr.isatty():
            with _bars() as show:
                yield partial(self._show, show)
        else:
            yield partial(self._show, _lines())

    def _show(self, show: Show, what: str, done: int | None, total: int | None) -> None:
        if done is None:
            self.remark(what)
        else:
            show(printable(what), done, total)


@contextmanager
def _bar(title: str) -> Iterator[Callable[[Epoch], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    # No remaining time: training stops early, and when is what nobody knows.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR),
        TextColumn("{task.fields[numbers]}", markup=False),
    )
    title = _shortened(printable(title), (width_of(sys.stderr) or 80) - _BAR - _FIGURES)
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None, numbers="")
        last = 0.0

        def show(progress: Epoch) -> None:
            # Ten looks a second are enough for the eye and cost nothing.
            nonlocal last
            if monotonic() - last > 0.1:
                last = monotonic()
                bars.update(
                    task,
                    total=progress.n_replicas * progress.max_epochs,
                    completed=progress.n_epochs_done,
                    numbers=_numbers(progress),
                )

        yield show


@contextmanager
def _bars() -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR),
        TaskProgressColumn(show_speed=False),
        TimeRemainingColumn(),
    )
    tasks: dict[str, Any] = {}
    # No bar before there is something to show: most work is done too soon.
    bars = Bars(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)

    def show(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            bars.start()
            title = _shortened(what, (width_of(sys.stderr) or 80) - _BAR - _TIME_LEFT)
            tasks[what] = bars.add_task(title, total=total)
        bars.update(tasks[what], completed=done)

    try:
        yield show
    finally:
        bars.stop()


def _shortened(text: str, width: int) -> str:
    """A text that leaves a bar its place: what does not fit is cut off."""
    width = max(width, 8)
    return text if n_cells(text) <= width else f"{wrapped(text, width - 1)[0]}…"


def _lines() -> Show:
    begun: dict[str, float] = {}
    last = monotonic()

    def show(what: str, done: int, total: int | None) -> None:
        nonlocal last
        now = monotonic()
        start = begun.setdefault(what, now)
        if now - last <= LINE_EVERY or done == total:
            return
        last = now
        text = f"{what}: {done:,}"
        if total:
            left = (now - start) / max(done, 1) * (total - done)
            text = f"{what}: {100 * done // total} %, {duration(left)} left"
        print(text, file=sys.stderr, flush=True)

    return show


def _epoch_lines(title: str) -> Callable[[Epoch], None]:
    last = monotonic()

    def show(progress: Epoch) -> None:
        nonlocal last
        if monotonic() - last > LINE_EVERY:
            last = monotonic()
            print(printable(f"{title}: {_numbers(progress)}"), file=sys.stderr, flush=True)

    return show


def _numbers(progress: Epoch) -> str:
    scores = progress.scores
    text = f"epoch {progress.epoch}/{progress.max_epochs}, loss {scores.train_loss.mean():.3f}"
    if progress.n_replicas > 1:
        n_begun = progress.n_replicas - progress.n_waiting
        text = f"{n_begun} of {progress.n_replicas} models, {text}"
    accuracy = scores.validation_accuracy.mean()
    return text if accuracy != accuracy else f"{text}, validation {100 * accuracy:.1f} %"


def show_warnings_as_lines() -> None:
    """Print warnings as one line each, without the place in the code they come from.

    What a library says to programmers, that a function will go, is nothing a user can mend.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning)):
            return
        text = message.args[0] if isinstance(message, Warning) and message.args else message
        print(f"warning: {printable(one_line(as_options(text)))}", file=sys.stderr, flush=True)

    warnings.showwarning = show
