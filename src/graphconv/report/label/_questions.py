"""Questions: which node each open page asks about; no two pages ask about the same one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from graphconv.results.answers import Action, Answers
from graphconv.results.labelling import RANDOM_EVERY

# Pages that are gone hold their question until so many others have come.
_MOST_PAGES = 50


@dataclass
class Questions:
    """The question of every open page.

    Parameters
    ----------
    answers : Answers
    draw : callable
        Labels, the number of the question and nodes to leave out: a node drawn at random, or None.
    ready : list of int
        Nodes that would teach most, prepared ahead.
    """

    answers: Answers
    draw: Callable[..., int | None]
    ready: list[int] = field(default_factory=list)
    _held: dict[str, tuple[int, str]] = field(default_factory=dict)

    def of_page(self, page: str) -> tuple[int, str] | None:
        """Node and kind of a page's question: the one it has, or the next; None if all is done."""
        held = self._held.get(page)
        if held is None or not self._is_open(held[0]):
            held = self._next(page)
            if held is None:
                self._held.pop(page, None)
                return None
            while len(self._held) > _MOST_PAGES:
                self._held.pop(next(iter(self._held)))
            self._held[page] = held
        return held

    def give_back(self, page: str, action: Action) -> None:
        """Ask a page again what it was asked before somebody took the answer back."""
        if len(action.nodes) == 1 and action.how != "chosen":
            # A skipped question does not count, so the turn is still the one it was asked in.
            how = self._turn if action.how == "skip" else action.how
            self._held[page] = action.nodes[0], how

    @property
    def _turn(self) -> str:
        is_random = self.answers.n_questions % RANDOM_EVERY == RANDOM_EVERY - 1
        return "random" if is_random else "asked"

    def _is_open(self, node: int) -> bool:
        return bool(self.answers.labels[node] < 0) and node not in self.answers.skipped

    def _next(self, page: str) -> tuple[int, str] | None:
        others = {node for name, (node, _) in self._held.items() if name != page}
        turn = self._turn
        if turn == "asked":
            for node in self.ready:
                if self._is_open(node) and node not in others:
                    return node, "asked"
        skipped = self.answers.skipped
        for avoided in (skipped | others, skipped):
            drawn = self.draw(self.answers.labels, self.answers.n_questions, avoided)
            if drawn is not None:
                return drawn, turn
        return None
