"""Kinds of settings: what a value must be, how it is written as text, and how it is described.

Nothing heavy is imported: the command line makes its options and its help from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, replace
from numbers import Integral, Real
from typing import Any

from graphconv.io.wording import did_you_mean, naming


@dataclass(frozen=True)
class Kind:
    """What the values of a setting have in common.

    Parameters
    ----------
    type : str
        As a docstring writes it: 'float or "learn"'.
    demand : str
        What must hold, so that "NAME must be DEMAND, got VALUE" is the error.
    holds : callable
        Whether a value meets the demand.
    keep : callable
        The form in which a value is kept, where several are taken.
    read : callable
        The value that a text stands for. What it can't read stays text, for `holds` to refuse.
    metavar : str, optional
        What stands for the value in a command's help; None for a switch, which has no value.
    choices : sequence of str
        All values, where they can be listed.
    """

    type: str
    demand: str
    holds: Callable[[Any], bool]
    keep: Callable[[Any], Any] = lambda value: value
    read: Callable[[str], Any] = lambda text: _numbers(text)
    metavar: str | None = "NUMBER"
    choices: Sequence[str] = ()


@dataclass(frozen=True)
class Declaration:
    """What is known of a setting beside its name, its Python type and its default."""

    kind: Kind
    group: str
    summary: str

    @property
    def help(self) -> str:
        """What the setting does, and all its values where they can be listed."""
        choices = self.kind.choices
        return f"{self.summary} One of {', '.join(choices)}." if choices else self.summary


def setting(default: Any, kind: Kind, group: str, help: str) -> Any:
    """A field of `Settings`: the one place where a hyper-parameter is declared."""
    return field(default=default, metadata={"declaration": Declaration(kind, group, help)})


def declaration(declared: Field[Any]) -> Declaration:
    found: Declaration = declared.metadata["declaration"]
    return found


def settle(name: str, kind: Kind, value: Any) -> Any:
    """The value of a setting as it is kept, or a ValueError."""
    kept = kind.keep(value.tolist() if hasattr(value, "tolist") else value)
    if not kind.holds(kept):
        template = f"{{{name}}} must be {{}}, got {{!r}}{{}}"
        hint = did_you_mean(value, kind.choices) if isinstance(value, str) else ""
        raise ValueError(naming(template, kind.demand, value, hint))
    return kept


def one_of(names: Sequence[str], metavar: str = "NAME") -> Kind:
    return Kind(
        type="str",
        demand=f"one of {', '.join(map(repr, names))}",
        holds=lambda value: value in names,
        metavar=metavar,
        choices=names,
    )


def number(least: float, most: float = math.inf, *, is_open: bool = False, word: str = "") -> Kind:
    """A finite number of at least so much (above it if open), or a word in its place."""
    bound = f"above {least:g}" if is_open else f"at least {least:g}"
    if most < math.inf:
        bound += f" and at most {most:g}"

    def holds(value: Any) -> bool:
        if word and value == word:
            return True
        return _is_number(value, least) and value <= most and not (is_open and value == least)

    return Kind(
        type=f'float or "{word}"' if word else "float",
        demand=f"'{word}' or {bound}" if word else bound,
        holds=holds,
    )


def whole(least: int) -> Kind:
    return Kind(
        type="int",
        demand=f"a whole number {'above 0' if least == 1 else f'of at least {least}'}",
        holds=lambda value: _is_whole(value, least),
        metavar="N",
    )


def optional(kind: Kind) -> Kind:
    """The same, or None."""
    return replace(kind, holds=lambda value: value is None or kind.holds(value))


SWITCH = Kind(
    type="bool",
    demand="True or False",
    holds=lambda value: isinstance(value, bool),
    metavar=None,
)
WIDTHS = Kind(
    type="int or sequence of int",
    demand="whole widths of at least 1",
    # 0 is for no hidden layer.
    keep=lambda value: () if type(value) is int and value == 0 else _several(value, alone=True),
    holds=lambda value: isinstance(value, tuple) and all(_is_whole(width, 1) for width in value),
    metavar="WIDTHS",
)
RATES = Kind(
    type="float or sequence of float",
    demand="at least 0 and below 1",
    keep=lambda value: _several(value),
    holds=lambda value: all(
        _is_number(rate, 0) and rate < 1
        for rate in (value if isinstance(value, tuple) else (value,))
    ),
    metavar="RATE",
)
COUNTS = Kind(
    type='"all", int or sequence of int',
    demand="'all' or whole numbers above 0",
    keep=lambda value: value if value == "all" else _several(value, alone=True),
    holds=lambda value: (
        value == "all" or (isinstance(value, tuple) and all(_is_whole(n, 1) for n in value))
    ),
    metavar="N",
)
CLASS_WEIGHTS = Kind(
    type='"balanced" or dict',
    demand="'balanced' or a weight of at least 0 for each class",
    # Pairs rather than a dict, so that settings can be compared, hashed and frozen.
    keep=lambda value: _pairs(value.items() if isinstance(value, dict) else value),
    holds=lambda value: (
        value in (None, "balanced")
        or (isinstance(value, tuple) and all(len(p) == 2 and _is_number(p[1], 0) for p in value))
    ),
    read=lambda text: _weights(text),
    metavar="NAME=WEIGHT,...",
)


def _is_number(value: object, least: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(value) and float(value) >= least


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and _is_number(value, least)


def _several(value: Any, alone: bool = False) -> Any:
    """A sequence as a tuple, and with `alone` also what stands alone; a text as it is."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    return (value,) if alone and _is_number(value, -math.inf) else value


def _pairs(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    try:
        return tuple((name, float(weight)) for name, weight in value)
    except (TypeError, ValueError):
        return value


def _numbers(text: str) -> Any:
    """`64` and `64,64` as numbers; anything else as it is."""
    try:
        values = tuple(_number(part) for part in text.split(","))
    except ValueError:
        return text
    return values[0] if len(values) == 1 else values


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _weights(text: str) -> Any:
    """`spam=2,ham=1` as a dict; anything else as it is."""
    pairs = [part.rsplit("=", 1) for part in text.split(",")]
    try:
        return {name: float(weight) for name, weight in pairs}
    except ValueError:
        return text
