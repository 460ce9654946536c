"""Wording: the small pieces that messages are made of, each in one place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
    if is_missing(value) or value == "":
        return "an empty cell"
    value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    if isinstance(value, str):
        return repr(value if len(value) <= width else value[: width - 3].rstrip() + "...")
    text = " ".join(str(value).split())
    return text if len(text) <= width else text[: width - 3] + "..."


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "2,708 nodes"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: object) -> str:
    return " ".join(str(text).split())


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
MISSING_MARKS = frozenset(("", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL"))


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, or one of pandas' marks of a missing value."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
