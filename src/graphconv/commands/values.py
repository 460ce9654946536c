"""Values of options that are more than a number or a word: `64,64`, `learn`, `spam=2,ham=1`."""

from __future__ import annotations

from typing import Any


def number_or(text: str | None, word: str, option: str) -> float | str | None:
    """A number, or the one word that may stand in its place."""
    if text is None or text == word:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number or '{word}', got {text!r}") from None


def widths(text: str | None) -> tuple[int, ...] | None:
    """Widths of hidden layers; 0 is for none."""
    values = _numbers(text, int, "--hidden")
    return () if values == (0,) else values


def rates(text: str | None) -> float | tuple[float, ...] | None:
    """A dropout rate for all layers, or one for each."""
    values = _numbers(text, float, "--dropout")
    return values[0] if values is not None and len(values) == 1 else values


def _numbers(text: str | None, kind: type, option: str) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}") from None


def fanout(text: str | None) -> str | int | tuple[int, ...] | None:
    """Neighbours to sample at every hop, or at each."""
    if text is None or text == "all":
        return text
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--fanout must be all, or numbers such as 10,10, got {text!r}") from None
    return numbers[0] if len(numbers) == 1 else numbers


def class_weight(text: str | None) -> str | dict[str, float] | None:
    """What a node of each class counts."""
    if text is None or text == "balanced":
        return text
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        return {name: float(weight) for name, weight in pairs}
    except ValueError:
        raise ValueError(
            f"--class-weight must be 'balanced' or NAME=WEIGHT,..., got {text!r}"
        ) from None
