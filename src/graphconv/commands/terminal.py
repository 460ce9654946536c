"""Terminal: text and tables laid out in cells, so that they fit the screen and columns align.

A Chinese letter takes two cells, an accent that is written by itself none. Where the output is no
terminal nothing is wrapped: a program or a file may read it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from graphconv.io.wording import n_cells

# Words between which a column may be wrapped are not made narrower than this.
_LEAST_WIDTH = 8
_GAP = 3  # cells between two columns


def width_of(stream: Any) -> int | None:
    """How many cells a line of a stream may have; None where it is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, width: int) -> list[str]:
    """A text as lines of at most so many cells, broken between words where that is possible.

    Examples
    --------
    >>> from graphconv.commands.terminal import wrapped
    >>> wrapped("labels split at random", 14)
    ['labels split', 'at random']
    """
    lines = [""]
    for word in text.split(" "):
        for piece in _pieces(word, width):
            longer = f"{lines[-1]} {piece}" if lines[-1] else piece
            if n_cells(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(piece)
    return lines


def _pieces(word: str, width: int) -> list[str]:
    if n_cells(word) <= width:
        return [word]
    if word.isascii():
        return [word[first : first + width] for first in range(0, len(word), width)]
    from rich.cells import chop_cells

    return chop_cells(word, width)


def for_terminal(text: str, stream: Any) -> str:
    """A text of one line, or of several that are wrapped between words on a terminal."""
    width = width_of(stream)
    if width is None or all(n_cells(line) <= width for line in text.splitlines()):
        return text
    lines = []
    for line in text.splitlines():
        first, *more = wrapped(line, width)
        # What is wrapped is indented, so that a list of remarks still reads as one.
        rest = wrapped(" ".join(more), max(width - 2, _LEAST_WIDTH)) if more else []
        lines += [first, *(f"  {part}" for part in rest)]
    return "\n".join(lines)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    width: int | None = None,
) -> list[str]:
    """The lines of a table: heads, a rule and the rows, at most `width` cells wide.

    Columns of words are wrapped where the table would be wider; numbers never are.
    """
    widths = [max(map(n_cells, column)) for column in zip(columns, *rows, strict=True)]
    if width is not None:
        widths = _narrowed(widths, to_right, width - 2)

    def lines_of(cells: Sequence[str]) -> list[str]:
        parts = [
            wrapped(cell, size) if n_cells(cell) > size else [cell]
            for cell, size in zip(cells, widths, strict=True)
        ]
        return [_line(line, widths, to_right) for line in zip_longest(*parts, fillvalue="")]

    rule = "  " + "-" * (sum(widths) + _GAP * (len(widths) - 1))
    head = [*lines_of(columns), rule] if any(columns) else [rule]
    return [*head, *(line for row in rows for line in lines_of(row))]


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    padded = [
        " " * (size - n_cells(cell)) + cell if right else cell + " " * (size - n_cells(cell))
        for cell, size, right in zip(cells, widths, to_right, strict=True)
    ]
    return ("  " + (" " * _GAP).join(padded)).rstrip()


def _narrowed(widths: list[int], to_right: Sequence[bool], width: int) -> list[int]:
    """The widths with the widest columns of words made narrower until all fit, or can't."""
    widths = list(widths)
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        words = [
            place
            for place, right in enumerate(to_right)
            if not right and widths[place] > _LEAST_WIDTH
        ]
        if not words:
            break
        widest = max(words, key=lambda place: widths[place])
        others = [widths[place] for place in words if place != widest]
        # Down to the next widest at a time, so that no column alone pays for all.
        least = max([_LEAST_WIDTH, *(other for other in others if other < widths[widest])])
        cut = min(excess, max(1, widths[widest] - least))
        widths[widest] -= cut
        excess -= cut
    return widths
