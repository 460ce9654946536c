"""Powers: sums over neighbours that follow each other and are one polynomial of the graph.

A program enters; the places where it says z = factor S z + share x several times over, from z = x
on, leave. So GRAND averages over its steps, and APPNP propagates what it predicts.
"""

from __future__ import annotations

from typing import NamedTuple

from graphconv.models.operations import Multiple, Neighbours, Parameter, Program, Sum, Value


class Power(NamedTuple):
    """value = factor * summed + share * start."""

    value: Value
    summed: Neighbours
    self_loops: float
    factor: float
    start: Value
    share: float

    def goes_on_as(self, after: Power) -> bool:
        mine = (self.self_loops, self.factor, self.start, self.share)
        return mine == (after.self_loops, after.factor, after.start, after.share)


def powers_of(program: Program) -> dict[Value, list[Power]]:
    """By the value that each such polynomial gives, its sums, the first one first."""
    found: dict[Value, list[Power]] = {}
    inside: set[Value] = set()
    for value in reversed(program.values):
        chain = [] if value in inside else _chain(program, value)
        if chain:
            found[value] = chain
            inside.update(power.value for power in chain)
    return found


def _chain(program: Program, value: Value) -> list[Power]:
    found: list[Power] = []
    power = _power(program, value)
    while power is not None and (not found or power.goes_on_as(found[-1])):
        found.append(power)
        (before,) = power.summed.inputs
        if before is power.start:
            return found[::-1]
        power = _power(program, before) if len(program.users[before]) == 1 else None
    return []


def _power(program: Program, value: Value) -> Power | None:
    """A value as a multiple of a sum over neighbours plus a multiple of something else."""
    if not isinstance(value, Sum) or value.factor != 1:
        return None
    for first, second in (value.inputs, value.inputs[::-1]):
        (factor, summed), (share, start) = _factor_of(first), _factor_of(second)
        if (
            isinstance(summed, Neighbours)
            and not isinstance(summed.self_loops, Parameter)
            and summed is not program.summed_features
            and len(program.users[first]) == len(program.users[summed]) == 1
        ):
            return Power(value, summed, summed.self_loops, factor, start, share)
    return None


def _factor_of(value: Value) -> tuple[float, Value]:
    return (value.factor, value.inputs[0]) if isinstance(value, Multiple) else (1, value)
