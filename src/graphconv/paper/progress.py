"""How far the runs are and how long they will take: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphconv.commands.console import Screen

if TYPE_CHECKING:
    from graphconv.estimators.runs import Series

# Seconds between two plain lines.
LINE_EVERY = 10.0


class RunProgress:
    """Counts runs; guesses the time left from what the finished ones took."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._bars: Any = None
        self._task: Any = None
        self._started = self._last_line = monotonic()
        self._total = self._done = 0
        self._total_cost = self._done_cost = 0.0
        self._name = ""

    def start(self, pieces: Sequence[Series]) -> None:
        """Begin a round of runs."""
        self._started = self._last_line = monotonic()
        self._total = sum(len(piece.seeds) for piece in pieces)
        self._total_cost = sum(len(piece.seeds) * piece.cost for piece in pieces)
        self._done, self._done_cost = 0, 0.0
        if self._total and not self.screen.quiet and sys.stderr.isatty():
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._bars.start()
        self._task = self._bars.add_task("", total=self._total, left="")

    def advance(self, piece: Series) -> None:
        """Count a piece as done."""
        self._done += len(piece.seeds)
        self._done_cost += len(piece.seeds) * piece.cost
        self._name = piece.name
        self.tick()

    def tick(self) -> None:
        """Show how things stand, if it is time to."""
        if self._bars is not None:
            self._bars.update(
                self._task, completed=self._done, description=self._name, left=self.left()
            )
        elif not self.screen.quiet and self._done and monotonic() - self._last_line > LINE_EVERY:
            self._last_line = monotonic()
            self.screen.note(f"{self._done} of {self._total} runs, {self.left()} ({self._name})")

    def left(self) -> str:
        """The time left in words."""
        if not self._done_cost:
            return "time left unknown"
        pace = (monotonic() - self._started) / self._done_cost
        return f"{in_words(pace * (self._total_cost - self._done_cost))} left"

    def note(self, text: str) -> None:
        """A remark, above the bar if there is one."""
        if self._bars is not None and not self.screen.quiet:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            self.screen.note(text)

    def finish(self) -> None:
        """Take the bar away."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def in_words(seconds: float) -> str:
    """A duration for people.

    Examples
    --------
    >>> from graphconv.paper.progress import in_words
    >>> in_words(42), in_words(185), in_words(7300)
    ('42 s', '3 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
