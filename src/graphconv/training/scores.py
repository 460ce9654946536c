"""Scores: probabilities and labels enter, how right they are leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Interval(NamedTuple):
    """A share with its 95 % confidence interval."""

    share: float
    low: float
    high: float


def wilson_interval(n_right: int, n_all: int) -> Interval:
    """A share and where it lies with 95 % confidence, by Wilson's score.

    Examples
    --------
    >>> from graphconv.training.scores import wilson_interval
    >>> [round(value, 3) for value in wilson_interval(9, 10)]
    [0.9, 0.596, 0.982]
    """
    if n_all == 0:
        raise ValueError("an interval needs at least one case, got none")
    z, share = 1.959964, n_right / n_all
    centre = (share + z**2 / (2 * n_all)) / (1 + z**2 / n_all)
    half = z / (1 + z**2 / n_all) * np.sqrt(share * (1 - share) / n_all + (z / 2 / n_all) ** 2)
    return Interval(share, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def accuracy_interval(
    labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]
) -> Interval | None:
    """Share of nodes with the right label, with its interval; None without nodes.

    Of several labels per node all must be right: pairs of one node are not chosen apart, so an
    interval over pairs would be far too narrow.
    """
    if len(labels) == 0:
        return None
    if labels.ndim == 2:
        right = ((probabilities > 0.5) == (labels > 0)).all(axis=1)
    else:
        right = probabilities.argmax(axis=-1) == labels
    return wilson_interval(int(right.sum()), len(right))


def mean_over_runs(each: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Means over the second axis, without a copy where there is one run: it may be on disk."""
    mean: npt.NDArray[Any] = each[:, 0] if each.shape[1] == 1 else each.mean(axis=1)
    return mean


def accuracy(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """Share of right labels; for several labels per node, of right (node, class) pairs.

    NaN without nodes.
    """
    if len(labels) == 0:
        return float("nan")
    if labels.ndim == 2:
        return float(((probabilities > 0.5) == (labels > 0)).mean())
    return float((probabilities.argmax(axis=-1) == labels).mean())


def all_labels_right(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """Of several labels per node, the share of nodes that have every one right and no other."""
    return float(((probabilities > 0.5) == (labels > 0)).all(axis=1).mean())


def micro_f1(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """F1 over all (node, class) pairs of several labels per node: 1 is perfect, 0 finds none."""
    given, found = labels > 0, probabilities > 0.5
    n_either = int(given.sum() + found.sum())
    return 2 * int((given & found).sum()) / n_either if n_either else 1.0


def macro_f1(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """The mean of the classes' F1, each class with the same say.

    Of one label per node, or several. Classes that no node has and none was given count for
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.scores import macro_f1
    >>> round(macro_f1(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])), 3)
    0.667
    """
    n_classes = probabilities.shape[-1]
    if labels.ndim == 2:
        given, found = labels > 0, probabilities > 0.5
    else:
        every = np.arange(n_classes)
        given = labels[:, None] == every
        found = probabilities.argmax(axis=-1)[:, None] == every
    either = given.sum(axis=0) + found.sum(axis=0)
    hits = 2 * (given & found).sum(axis=0)
    return float((hits[either > 0] / either[either > 0]).mean()) if either.any() else 1.0
