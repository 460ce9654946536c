"""SplitMix64: where all randomness that must not depend on the order of work comes from.

`native/splitmix.h` is the same in C++.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def hash_key(*parts: int) -> int:
    """64 well-mixed bits of some integers, the same on every machine.

    Examples
    --------
    >>> from graphconv.kernels.hashing import hash_key
    >>> hex(hash_key(0))
    '0xe220a8397b1dcdaf'
    """
    state = 0
    for part in parts:
        state = _mixed((state + (part & _MASK) + GOLDEN) & _MASK)
    return state


def hash_counters(key: int, counters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The outputs of a generator that a key starts, at each of some counters."""
    with np.errstate(over="ignore"):  # numbers wrap around, as they must
        mixed: npt.NDArray[np.uint64] = _mixed(np.uint64(key) + counters * np.uint64(GOLDEN))
    return mixed


def _mixed(z: Any) -> Any:
    """SplitMix64's last steps, for an int of 64 bits or an array of them."""
    z = ((z ^ (z >> 30)) * MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * MIX_2) & _MASK
    return z ^ (z >> 31)
