"""Wording: the small pieces that messages are made of, each in one place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from string import Formatter
from typing import Any

# Control characters but tab and line feed, and those that change the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Message(str):
    """A text that knows which of its words are parameters, so that others can spell them.

    The text itself spells them as Python does. The command line spells the same ones as options.
    """

    _parts: tuple[str | tuple[str, str], ...]

    def spelled(self, spell: Callable[[str, str], str]) -> str:
        """The text with each parameter's name, and its value or "", put into words by `spell`."""
        return "".join(part if isinstance(part, str) else spell(*part) for part in self._parts)


def naming(template: str, *values: object) -> Message:
    """A message from a template: `{}` and `{0!r}` are values, `{name}` is a parameter.

    `{name:value}` is a parameter with the value to give it. Values may be messages themselves.

    Examples
    --------
    >>> from graphconv.io.wording import naming
    >>> message = naming("{} nodes are too many ({batch_size:512} or {directed:True})", 9)
    >>> message
    '9 nodes are too many (batch_size=512 or directed=True)'
    >>> message.spelled(lambda name, value: f"--{name} {value}")
    '9 nodes are too many (--batch_size 512 or --directed True)'
    """
    formatter = Formatter()
    parts: list[str | tuple[str, str]] = []
    n_unnumbered = 0
    for literal, field, specification, conversion in formatter.parse(template):
        parts.append(literal)
        if field is None:
            continue
        if field.isidentifier():
            parts.append((field, specification or ""))
            continue
        value: Any = values[int(field) if field else n_unnumbered]
        n_unnumbered += not field
        if isinstance(value, Message):
            parts += value._parts
        else:
            parts.append(format(formatter.convert_field(value, conversion), specification or ""))
    message = Message(
        "".join(part if isinstance(part, str) else "=".join(filter(None, part)) for part in parts)
    )
    message._parts = tuple(parts)
    return message


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint at the candidate that looks most like a name, or nothing if none does.

    Examples
    --------
    >>> from graphconv.io.wording import did_you_mean
    >>> did_you_mean("lable", ["id", "Label"])
    " (did you mean 'Label'?)"
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return f" (did you mean {by_lower[matches[0]]!r}?)" if matches else ""


def shown(value: object, width: int = 40) -> str:
    """A value as it is quoted in an error: on one line, and short."""
    if is_missing(value) or (isinstance(value, str) and value == ""):
        return "an empty cell"
    value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    if isinstance(value, str):
        return repr(value if len(value) <= width else value[: width - 3].rstrip() + "...")
    text = " ".join(str(value).split())
    return text if len(text) <= width else text[: width - 3] + "..."


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "2,708 nodes"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def made_undirected(n_edges: int) -> str:
    """What readers say of edges that were listed one way only."""
    return f"{count(n_edges, 'directed edge')} {'was' if n_edges == 1 else 'were'} made undirected"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> from graphconv.io.wording import duration
    >>> duration(42), duration(185), duration(7300)
    ('42 s', '3 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def n_cells(text: str) -> int:
    """How many cells of a terminal a text takes.

    Examples
    --------
    >>> from graphconv.io.wording import n_cells
    >>> n_cells("tea"), n_cells("茶")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def printable(text: str) -> str:
    r"""Text for a terminal: names from a file must not move its cursor or turn its writing round.

    Examples
    --------
    >>> from graphconv.io.wording import printable
    >>> print(printable("caf\u00e9 \x1b[2J"))
    café \x1b[2J
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def as_file_name(name: str, otherwise: str) -> str:
    """A name as that of a file or folder, which can't lead anywhere else.

    Examples
    --------
    >>> from graphconv.io.wording import as_file_name
    >>> as_file_name("random:100", "graph"), as_file_name("../../x", "graph")
    ('random-100', 'x')
    >>> as_file_name("..", "graph")
    'graph'
    """
    plain = re.sub(r'[\x00-\x1f\x7f-\x9f/\\\\:*?"<>|]+', "-", name).strip(" .-")
    # File systems count bytes; 255 is the most that all of them take, and suffixes are added.
    return plain.encode("utf-8", "ignore")[:150].decode("utf-8", "ignore").strip(" .-") or otherwise


def signed(number: float, n_digits: int) -> str:
    """A difference with its sign; what rounds to nothing is not negative.

    Examples
    --------
    >>> from graphconv.io.wording import signed
    >>> signed(-0.12, 1), signed(-0.04, 1)
    ('-0.1', '+0.0')
    """
    # Adding 0 makes a zero of -0.0, which would read as a loss.
    return f"{round(number, n_digits) + 0.0:+.{n_digits}f}"


# What programs write for a value that is not there. Ids are never read this way.
MISSING_MARKS = frozenset(("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL"))


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, or one of pandas' marks of a missing value."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
