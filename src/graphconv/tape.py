"""Tape: the short way to gradients, where all steps of a model are our own functions.

Autograd follows any operation of torch, and takes some 30 microseconds to record a call of ours and
to come back to it; on Cora that was a quarter of an epoch. A tape writes down our own calls alone
and goes through them backwards. It knows when there were others: then autograd must serve.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, cast

import torch
from torch import Tensor


class _Call:
    """A call of a function; stands in for the context that autograd would give it."""

    __slots__ = ("arguments", "function", "output", "saved", "saved_tensors")

    saved: tuple[Any, ...]
    saved_tensors: tuple[Tensor, ...]

    def __init__(
        self, function: type[torch.autograd.Function], arguments: tuple[Any, ...]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.output: Tensor = function.forward(self, *arguments)

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors


class _Active(threading.local):
    tape: Tape | None = None


_active = _Active()


class Tape:
    """Writes down the calls of `apply_function` while it is entered; torch records nothing then.

    Examples
    --------
    >>> import torch
    >>> from graphconv.tape import Tape, apply_function
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return (2 * gradient,)
    >>> x = torch.tensor([1.0, 3.0])
    >>> with Tape() as tape:
    ...     y = apply_function(Double, apply_function(Double, x))
    >>> tape.gradients(y, torch.ones(2), [x])
    [tensor([4., 4.])]
    >>> with Tape() as tape:
    ...     y = apply_function(Double, x) + 1
    >>> tape.gradients(y, torch.ones(2), [x]) is None
    True
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._no_grad = torch.no_grad()

    def __enter__(self) -> Tape:
        self._no_grad.__enter__()
        _active.tape = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.tape = None
        self._no_grad.__exit__(kind, error, trace)

    def apply(self, function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
        call = _Call(function, arguments)
        self._calls.append(call)
        return call.output

    def gradients(
        self, output: Tensor, slope: Tensor, parameters: Sequence[Tensor]
    ) -> list[Tensor] | None:
        """Gradients for the parameters, given that for the output; to be asked for once.

        None if operations of torch's own took part between them, or a value was used twice.
        """
        if not self._is_tree(output, parameters):
            return None
        slopes = {id(output): slope}
        while self._calls:
            # Let go of a call once it is done: its memory may serve the next.
            call = self._calls.pop()
            found = call.function.backward(call, slopes.pop(id(call.output)))
            for argument, own in zip(call.arguments, found, strict=True):
                if own is not None:
                    slopes[id(argument)] = own
        return [slopes[id(parameter)] for parameter in parameters]

    def _is_tree(self, output: Tensor, parameters: Sequence[Tensor]) -> bool:
        """Whether each tensor is used once, and is an output of a call or a parameter."""
        used = [id(a) for call in self._calls for a in call.arguments if isinstance(a, Tensor)]
        made = [id(call.output) for call in self._calls]
        known = {*made, *map(id, parameters)}
        return len(used) == len(set(used)) and {id(output), *used} == known


def apply_function(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """function.apply by the cheapest way that serves: tape, autograd, or no record at all."""
    if _active.tape is not None:
        return _active.tape.apply(function, *arguments)
    if torch.is_grad_enabled():
        return cast(Tensor, function.apply(*arguments))
    return _Call(function, arguments).output
