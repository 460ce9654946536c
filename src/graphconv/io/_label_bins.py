"""Label bins: a number to predict becomes classes of about equal size, each a range of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray


def bin_edges(numbers: npt.NDArray[np.float64], n_bins: int) -> tuple[float, ...]:
    """The numbers that part `n_bins` classes of about equal size; fewer where values repeat.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.io._label_bins import bin_edges
    >>> bin_edges(np.array([1.0, 2.0, 3.0, 10.0]), 2)
    (2.5,)
    """
    inner = np.quantile(numbers, np.arange(1, n_bins) / n_bins)
    # An edge at the smallest number would leave the first class empty.
    return tuple(float(edge) for edge in np.unique(inner) if edge > numbers.min())


def bin_names(edges: Sequence[float]) -> tuple[str, ...]:
    """What the classes between edges are called.

    Examples
    --------
    >>> from graphconv.io._label_bins import bin_names
    >>> bin_names((2.5, 10))
    ('under 2.5', '2.5 to 10', '10 or more')
    """
    shown = [f"{edge:.6g}" for edge in edges]
    if len(set(shown)) < len(shown):  # edges that six digits don't tell apart
        shown = [repr(edge) for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(shown)]
    return (f"under {shown[0]}", *between, f"{shown[-1]} or more")


def bin_codes(numbers: npt.NDArray[np.float64], edges: Sequence[float]) -> IntArray:
    """The class of each number, -1 where it is NaN; an edge belongs to the class above it.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.io._label_bins import bin_codes
    >>> bin_codes(np.array([1, 2.5, np.nan, 30]), (2.5, 10))
    array([ 0,  1, -1,  2])
    """
    codes = np.searchsorted(np.asarray(edges), numbers, side="right").astype(np.int64)
    return np.where(np.isnan(numbers), -1, codes)
