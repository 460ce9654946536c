"""Devices: where numbers are, and how they get there.

The processor has numpy arrays and the kernels made for it; every other device has torch's tensors,
and torch is imported once a device is asked for: it takes longer than training on Cora.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph.names import DEVICES
from graphconv.io.wording import naming

if TYPE_CHECKING:
    import torch

# Numbers of a graph, edges and features, above which a device that is there is worth the way.
LEAST_NUMBERS = 10_000_000
NO_MEMORY_FOR_BATCH = (
    "{device} must have memory for a batch, but ran out: train in mini-batches, by {batch_size}"
)


def choose_device(name: str, n_numbers: int, process: int = 0) -> torch.device | None:
    """The device of a name; None is the processor with the kernels made for it.

    Of several graphics cards, each process of a machine takes its own.

    Examples
    --------
    >>> from graphconv.engine.devices import choose_device
    >>> choose_device("auto", n_numbers=1000) is None  # small graphs stay where they are
    True
    """
    if name not in DEVICES:
        known = ", ".join(DEVICES)
        raise ValueError(naming("{device} must be one of {}, got {!r}", known, name))
    if name == "cpu" or (name == "auto" and n_numbers < LEAST_NUMBERS):
        return None
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        first = next((own for own, is_there in there.items() if is_there), None)
        if first is None:
            return None
        name = first
    if not there[name]:
        raise ValueError(naming("{device} must be there to be used, but torch finds no {}", name))
    if name == "cuda" and process:
        return torch.device(name, process % torch.cuda.device_count())
    return torch.device(name)


@contextmanager
def out_of_memory_says(template: str) -> Iterator[None]:
    """Say what helps where a device has not enough memory."""
    try:
        yield
    except RuntimeError as error:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(error, torch.OutOfMemoryError):
            raise
        raise ValueError(naming(template)) from None


def on_device(array: npt.NDArray[Any], device: torch.device | None) -> Any:
    """A copy of an array on a device, as a tensor; without a device the array itself."""
    if device is None:
        return array
    import torch

    return torch.tensor(array, device=device)


def on_processor(values: Any) -> npt.NDArray[Any]:
    """An array itself, or the numbers of a tensor as one."""
    found: npt.NDArray[Any] = (
        values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()
    )
    return found


@contextmanager
def single_torch_thread(device: torch.device | None) -> Iterator[None]:
    """Keep torch's own operations on one thread where it computes, on some device.

    Its threads wait by spinning, which ruins epochs of a millisecond on a busy machine, and their
    number changes the last bits of sums. On the processor the kernels compute, without torch.
    """
    if device is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
