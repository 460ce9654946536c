"""Half precision: features kept as float16, half the memory of float32.

Whatever computes reads rows of them as float32; see `scaling.StoredFeatures`. float16 keeps 11 bits
of a number up to 65,504, which is enough for embeddings and most columns. bfloat16 is not offered:
numpy has no such type, and it keeps 8 bits, for a range that features have no use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

# Of a column's standard deviation: the rounding that is told of.
MUCH = 0.01


class RoundingLoss:
    """What is lost of the columns of a matrix that is rounded to half precision, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph.half_precision import RoundingLoss
    >>> loss = RoundingLoss(2)
    >>> loss.add(np.array([[0.1, 40001.0], [0.2, 40007.0]]))  # steps of 32 up there
    >>> loss.told(["weight", "height"])
    "half precision is too coarse for 1 column ('height'): ..."
    """

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.first = np.zeros(n_columns)  # what deviations are taken from
        self.sums, self.squares, self.errors = (np.zeros(n_columns) for _ in range(3))

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Look at some more rows."""
        if not len(rows):
            return
        exact = rows.astype(np.float64)
        if self.n_rows == 0:
            self.first = exact[0].copy()
        with np.errstate(over="ignore"):
            error = exact - rows.astype(np.float16)
        exact -= self.first
        self.n_rows += len(rows)
        self.sums += exact.sum(axis=0)
        self.squares += (exact**2).sum(axis=0)
        self.errors += (error**2).sum(axis=0)

    def told(self, names: Sequence[str]) -> str:
        """Which columns lose much, in words; empty where none does."""
        n_rows = max(1, self.n_rows)
        variance = np.maximum(self.squares / n_rows - (self.sums / n_rows) ** 2, 0)
        coarse = np.flatnonzero(self.errors / n_rows > MUCH**2 * variance)
        coarse = coarse[variance[coarse] > 0]
        if not len(coarse):
            return ""
        listed = ", ".join(repr(names[place]) for place in coarse[:3])
        more = ", ..." if len(coarse) > 3 else ""
        columns = "1 column" if len(coarse) == 1 else f"{len(coarse):,} columns"
        return (
            f"half precision is too coarse for {columns} ({listed}{more}): what it rounds away is "
            f"more than {MUCH:.0%} of their spread; float32 keeps them"
        )


def in_half_precision(
    features: npt.NDArray[Any], names: Sequence[str]
) -> tuple[npt.NDArray[np.float16], str]:
    """Dense features as float16, and what is to be told of it; refused where they do not fit."""
    most = float(np.finfo(np.float16).max)
    too_large = np.flatnonzero((np.abs(features) > most).any(axis=0))
    if len(too_large):
        name = names[too_large[0]]
        raise ValueError(f"column {name!r} must lie within {most:,.0f} to fit float16")
    loss = RoundingLoss(features.shape[1])
    loss.add(features)
    return features.astype(np.float16), loss.told(names)
