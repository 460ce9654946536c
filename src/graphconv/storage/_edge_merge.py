"""Sorted edges become the rows of an adjacency matrix, in pieces.

Batches of edges enter, sorted by a key that packs source, target and direction; the entries of the
matrix leave, row after row, with what `adjacency_from_edges` would make of them: repeated edges
added up or counted once, and both directions of an edge made one by the larger weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray

Array = npt.NDArray[Any]
# Bits of a node's number in a key: source, target, and one bit for the direction.
NODE_BITS = 31
_COLUMN_MASK = (1 << NODE_BITS) - 1


class Entries(NamedTuple):
    """Entries of a matrix in order; values are None where all are 1."""

    rows: IntArray
    columns: IntArray
    values: npt.NDArray[np.float32] | None


@dataclass
class EdgeMerge:
    """Makes matrix entries of sorted edges and counts what happens to them.

    Parameters
    ----------
    has_weight : bool
    is_sum : bool
        Whether repeated edges are added up; else the largest counts.

    Attributes
    ----------
    n_repeated : int
        Edges beyond the first of each (source, target) pair.
    n_zero : int
        Pairs whose weight comes to 0: they are no edges.
    n_changed : int
        Entries that making the matrix symmetric added or changed.
    """

    has_weight: bool
    is_sum: bool
    n_repeated: int = 0
    n_zero: int = 0
    n_changed: int = 0
    _held: list[tuple[IntArray, Array | None]] = field(default_factory=list)

    def entries(self, batches: Iterable[tuple[IntArray, Array | None]]) -> Iterator[Entries]:
        """Entries of (key, weight) batches; key is (source, target, is reversed) in bits."""
        for key, weight in batches:
            if not len(key):
                continue
            # More of the last pair may follow, so it waits for the next batch.
            cut = int(np.searchsorted(key, (key[-1] >> 1) << 1))
            if cut == 0:
                self._held.append((key, weight))
                continue
            held = self._release([(key[:cut], None if weight is None else weight[:cut])])
            self._held = [(key[cut:], None if weight is None else weight[cut:])]
            yield self._merge(*held)
        if self._held:
            yield self._merge(*self._release([]))

    def _release(self, more: list[tuple[IntArray, Array | None]]) -> tuple[IntArray, Array | None]:
        parts, self._held = [*self._held, *more], []
        keys = np.concatenate([key for key, _ in parts])
        weights = [weight for _, weight in parts if weight is not None]
        return keys, np.concatenate(weights) if weights else None

    def _merge(self, key: IntArray, weight: Array | None) -> Entries:
        first = _starts(key)
        listed = key[first]
        n_each = np.diff(np.append(first, len(key)))
        is_reversed = (listed & 1).astype(bool)
        self.n_repeated += int((n_each - 1)[~is_reversed].sum())
        if not self.has_weight and not self.is_sum:
            return self._pairs(listed, is_reversed, None)
        if weight is None:
            values = n_each.astype(np.float64)
        else:
            values = (np.add if self.is_sum else np.maximum).reduceat(weight, first)
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        if not np.isfinite(rounded).all():
            place = int(np.flatnonzero(~np.isfinite(rounded))[0])
            source, target = listed[place] >> (NODE_BITS + 1), listed[place] >> 1 & _COLUMN_MASK
            raise ValueError(
                f"edge weights must fit float32, got {values[place]} from node {source} to "
                f"node {target}"
            )
        keep = rounded != 0
        self.n_zero += int(np.count_nonzero(~keep & ~is_reversed))
        return self._pairs(listed[keep], is_reversed[keep], rounded[keep])

    def _pairs(
        self,
        listed: IntArray,
        is_reversed: npt.NDArray[np.bool_],
        values: npt.NDArray[np.float32] | None,
    ) -> Entries:
        """Make one entry of a pair and its reverse, which are next to each other."""
        pair = listed >> 1
        first = _starts(pair)
        weight = np.ones(len(pair), dtype=np.float32) if values is None else values
        if len(pair):
            largest = np.maximum.reduceat(weight, first)
            own = np.maximum.reduceat(np.where(is_reversed, 0, weight), first)
            self.n_changed += int(np.count_nonzero(own != largest))
        else:
            largest = weight
        pair = pair[first]
        return Entries(pair >> NODE_BITS, pair & _COLUMN_MASK, None if values is None else largest)


def _starts(sorted_keys: IntArray) -> IntArray:
    """Where each run of equal keys begins."""
    if not len(sorted_keys):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1]))
