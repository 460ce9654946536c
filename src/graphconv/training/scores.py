"""Scores: probabilities and labels enter, how right they are leaves."""

from __future__ import annotations

from collections.abc import Callable
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
        right = probabilities.argmax(axis=1) == labels
    return wilson_interval(int(right.sum()), len(right))


def bootstrap_interval(
    score: Callable[[npt.NDArray[np.int64], npt.NDArray[Any]], float],
    labels: npt.NDArray[np.int64],
    probabilities: npt.NDArray[Any],
    n_draws: int = 300,
) -> Interval:
    """A score and where it lies with 95 % confidence, by drawing nodes again and again.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.scores import bootstrap_interval, macro_f1
    >>> labels = np.arange(100) % 2
    >>> given = np.where(np.arange(100)[:, None] < 80, np.eye(2)[labels], 0.5)
    >>> found = bootstrap_interval(macro_f1, labels, given)
    >>> bool(found.low < found.share < found.high)
    True

    Ten nodes without a mistake do not show that there are none:

    >>> found = bootstrap_interval(macro_f1, labels[:10], given[:10])
    >>> [round(value, 2) for value in found]
    [1.0, 0.72, 1.0]
    """
    rng = np.random.default_rng(0)
    draws = (rng.integers(len(labels), size=len(labels)) for _ in range(n_draws))
    scores = [score(labels[draw], probabilities[draw]) for draw in draws]
    found = score(labels, probabilities)
    low, high = np.quantile(scores, [0.025, 0.975])
    if found == low == high == 1:
        # Without a mistake among the nodes all draws are alike; that does not make it certain.
        return wilson_interval(len(labels), len(labels))
    return Interval(found, float(low), float(high))


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
    return float((probabilities.argmax(axis=1) == labels).mean())


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
    _, n_classes = probabilities.shape
    if labels.ndim == 2:
        given, found = labels > 0, probabilities > 0.5
    else:
        every = np.arange(n_classes)
        given = labels[:, None] == every
        found = probabilities.argmax(axis=1)[:, None] == every
    either = given.sum(axis=0) + found.sum(axis=0)
    hits = 2 * (given & found).sum(axis=0)
    return float((hits[either > 0] / either[either > 0]).mean()) if either.any() else 1.0


def balanced_accuracy(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """The mean over classes of the share of their nodes with the right label.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.scores import balanced_accuracy
    >>> balanced_accuracy(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]))
    0.75
    """
    right = probabilities.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def roc_auc(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """How often a node of class 1 is given more of it than one of class 0; ties count half.

    One half where there is only one class.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.scores import roc_auc
    >>> roc_auc(np.array([0, 1, 0, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.7, 0.3]]))
    0.75
    """
    of_second = np.asarray(probabilities, dtype=np.float64)[:, 1]
    is_second = labels == 1
    n_second = int(is_second.sum())
    n_pairs = n_second * (len(labels) - n_second)
    if n_pairs == 0:
        return 0.5
    _, place, counts = np.unique(of_second, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]  # of equals, their mean rank
    return float((rank[is_second].sum() - n_second * (n_second + 1) / 2) / n_pairs)


def average_precision(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """The mean precision over the nodes of class 1, from the surest of class 1 downwards.

    The share of class 1 where there is only one class.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.scores import average_precision
    >>> given = np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])
    >>> round(average_precision(np.array([1, 0, 1]), given), 3)
    0.833
    """
    of_second = np.asarray(probabilities, dtype=np.float64)[:, 1]
    n_second = int((labels == 1).sum())
    if n_second in (0, len(labels)):
        return float(n_second > 0)
    order = np.argsort(-of_second, kind="stable")
    # Equals are looked at together: only after the last of them does a threshold lie.
    last = np.append(np.flatnonzero(np.diff(of_second[order])), len(labels) - 1)
    found = np.cumsum(labels[order] == 1)[last]
    more = np.diff(found, prepend=0)
    return float((more * found / (last + 1)).sum() / n_second)
