"""Scores: probabilities and labels enter, how right they are leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def mean_over_runs(each: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Means over the second axis, without a copy where there is one run: it may be on disk."""
    mean: npt.NDArray[Any] = each[:, 0] if each.shape[1] == 1 else each.mean(axis=1)
    return mean


def accuracy(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """Share of right labels; for several labels a node, of right (node, class) pairs.

    NaN without nodes.
    """
    if len(labels) == 0:
        return float("nan")
    if labels.ndim == 2:
        return float(((probabilities > 0.5) == (labels > 0)).mean())
    return float((probabilities.argmax(axis=-1) == labels).mean())


def micro_f1(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """F1 over all (node, class) pairs of several labels a node: 1 is perfect, 0 finds none."""
    given, found = labels > 0, probabilities > 0.5
    n_either = int(given.sum() + found.sum())
    return 2 * int((given & found).sum()) / n_either if n_either else 1.0
