"""Plan: kernel calls that follow each other, run forward and back every epoch.

`planning.make_plan` makes one of a model and a batch. Arrays enter and leave; which memory can be
let go, and what is added up in which order, is found out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from graphconv.engine._steps import (
    Array,
    Arrays,
    Given,
    Step,
)
from graphconv.kernels import Dropout


class Part(NamedTuple):
    """Some leading rows and some columns of what a step has made."""

    step: int
    n_rows: int
    columns: slice | None = None


@dataclass(frozen=True)
class Call:
    """A step, what it is given, and when what it is given can be let go."""

    step: Step
    inputs: tuple[Part, ...]
    weights: Arrays
    parameters: tuple[int, ...]  # their places among all
    dropout: int | None  # its place in the text
    has_gradient: bool  # whether it depends on a parameter
    # Steps whose values are used for the last time: in a pass forward, and in one with gradients.
    last_uses: list[int] = field(default_factory=list)
    last_uses_forward: list[int] = field(default_factory=list)


class Plan:
    """Calls that follow each other, on arrays, without torch's record of them.

    The weights' memory is that of the tensors it was made with: they may change in place.
    """

    def __init__(self, calls: list[Call], shapes: list[tuple[int, int]], n_parameters: int) -> None:
        self._shapes = shapes
        self._n_parameters = n_parameters
        self._values: list[Array | None] = []
        _find_last_uses(calls)
        # An epoch on a small graph takes 200 microseconds: what can be found out once, is.
        wholes = [_whole_input(call, shapes) for call in calls]
        self._forward_calls = [
            (
                c.step.forward,
                whole,
                c.inputs,
                Given((), c.weights, None),
                c.dropout,
                c.last_uses,
                c.last_uses_forward,
            )
            for c, whole in zip(calls, wholes, strict=True)
        ]
        self._backward_calls = [
            (
                number,
                call.step.backward,
                call.step.keeps in ("input", "both"),
                wholes[number],
                call,
                Given((), call.weights, None),
                [part for part in call.inputs if calls[part.step].has_gradient],
            )
            for number, call in reversed(list(enumerate(calls)))
            if call.has_gradient
        ]

    def forward(self, dropouts: Sequence[Dropout | None], for_gradients: bool = False) -> Array:
        """Value of the last step, given the dropout at each place of the text."""
        values: list[Any] = []
        for forward, whole, parts, given, place, uses, uses_forward in self._forward_calls:
            if whole is not None:
                given.inputs = (values[whole],)
            elif parts:
                given.inputs = tuple(_part(values, part) for part in parts)
            if place is not None:
                given.dropout = dropouts[place]
            values.append(forward(given))
            given.inputs = ()
            for step in uses_forward if for_gradients else uses:
                values[step] = None
        self._values = values if for_gradients else []
        output: Array = values[-1]
        return output

    @property
    def has_values(self) -> bool:
        """Whether a pass for gradients has been made and they have not been asked for."""
        return bool(self._values)

    def gradients(self, gradient: Array, dropouts: Sequence[Dropout | None]) -> list[Array | None]:
        """Gradients for all parameters, given that for the value; to be asked for once.

        None for a parameter that the value does not depend on.
        """
        values: list[Any] = self._values
        self._values = []
        slopes = _Slopes(self._shapes)
        slopes.found[-1] = gradient
        found: list[Array | None] = [None] * self._n_parameters
        for number, backward, needs_inputs, whole, call, given, wanted in self._backward_calls:
            if needs_inputs:
                given.inputs = (
                    tuple(_part(values, part) for part in call.inputs)
                    if whole is None
                    else (values[whole],)
                )
            if call.dropout is not None:
                given.dropout = dropouts[call.dropout]
            # What is not needed any more is let go of at once: its memory serves the next step.
            given.output, values[number] = values[number], None
            slope, slopes.found[number] = slopes.found[number], None
            assert slope is not None
            for_inputs, for_weights = backward(slope, given)
            given.inputs, given.output = (), None
            if whole is not None and for_inputs and slopes.found[whole] is None:
                slopes.found[whole] = for_inputs[0]
            else:
                for part, own in zip(wanted, for_inputs, strict=True):
                    slopes.add(part, own)
            for place, own in zip(call.parameters, for_weights, strict=True):
                before = found[place]
                found[place] = own if before is None else before + own
        return found


def _whole_input(call: Call, shapes: list[tuple[int, int]]) -> int | None:
    """The step whose value, all of it, is a call's only input; None if it is not as simple."""
    if len(call.inputs) != 1:
        return None
    ((step, n_rows, columns),) = call.inputs
    return step if columns is None and n_rows == shapes[step][0] else None


def _part(values: list[Array | None], part: Part) -> Array:
    value = values[part.step]
    assert value is not None
    if part.columns is not None:
        return np.ascontiguousarray(value[: part.n_rows, part.columns])
    return value if part.n_rows == len(value) else value[: part.n_rows]


class _Slopes:
    """Gradients of steps' values, added up as they come."""

    def __init__(self, shapes: list[tuple[int, int]]) -> None:
        self._shapes = shapes
        self.found: list[Array | None] = [None] * len(shapes)
        self._is_own = [False] * len(shapes)  # whether it may be changed in place

    def add(self, part: Part, slope: Array) -> None:
        step, n_rows, columns = part
        before, shape = self.found[step], self._shapes[step]
        if columns is None and n_rows == shape[0]:
            self.found[step] = slope if before is None else before + slope
            self._is_own[step] = before is not None
            return
        if before is None or not self._is_own[step]:
            whole = np.zeros(shape, dtype=slope.dtype) if before is None else before.copy()
            self.found[step], self._is_own[step] = whole, True
            before = whole
        before[:n_rows, columns if columns is not None else slice(None)] += slope


def _find_last_uses(calls: list[Call]) -> None:
    last: dict[int, int] = {}
    for number, call in enumerate(calls):
        for part in call.inputs:
            last[part.step] = number
    kept = {
        part.step for call in calls if call.step.keeps in ("input", "both") for part in call.inputs
    } | {number for number, call in enumerate(calls) if call.step.keeps in ("output", "both")}
    for step, number in last.items():
        calls[number].last_uses.append(step)
        if step not in kept:
            calls[number].last_uses_forward.append(step)
