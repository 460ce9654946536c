"""SplitMix64: where all randomness that must not depend on the order of work comes from."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def hash_key(*parts: int) -> int:
    """64 well-mixed bits of some integers, the same on every machine (SplitMix64)."""
    state = 0
    for part in parts:
        state = (state + (part & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
