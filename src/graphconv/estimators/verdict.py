"""Which method to use: accuracies of several methods on the same splits enter, a verdict leaves.

Methods share their splits, so they are compared split by split. The splits overlap, which makes
their results depend on one another; the interval is therefore that of the resampled t test as
corrected by Nadeau and Bengio (2003): for the differences d_k over K splits,

    mean(d) ± t_(0.975, K - 1) sqrt((1 / K + n_test / n_train) var(d)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from graphconv.estimators.statistics import seconds_text
from graphconv.io.wording import naming, signed

FloatArray = npt.NDArray[np.float64]
# Points of accuracy that nobody would give away for simplicity, whether the lead is proven or not.
NOTABLE_LEAD = 2.0
FEW_TEST_NODES = 30


@dataclass(frozen=True)
class MethodResult:
    """How a method did.

    Parameters
    ----------
    method : str
    accuracies : tuple of float
        Test accuracy in percent on each split.
    seconds : float
        Mean of a training.
    lead : float
        Mean accuracy of the best method minus this one's, in points.
    low, high : float
        95 % interval of that; NaN with fewer than two splits, and for the best method itself.
    """

    method: str
    accuracies: tuple[float, ...]
    seconds: float
    lead: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def is_worse(self) -> bool:
        """Whether the splits show that the best method is better than this one."""
        return self.low > 0

    @property
    def is_as_good(self) -> bool:
        """Whether it is close to the best and can't be told from it."""
        return not self.is_worse and self.lead < NOTABLE_LEAD


@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same random splits of a graph.

    Parameters
    ----------
    dataset : str
    n_splits : int
    n_train, n_validation, n_test : int
        Nodes of a split.
    results : tuple of MethodResult
        The most accurate first.
    simplest : tuple of str
        All methods that were tried, from the simplest to the most involved.
    failed : dict
        Why a method has no result, by its name.
    """

    dataset: str
    n_splits: int
    n_train: int
    n_validation: int
    n_test: int
    results: tuple[MethodResult, ...]
    simplest: tuple[str, ...]
    failed: dict[str, str]

    @property
    def best(self) -> MethodResult:
        return self.results[0]

    @property
    def recommended(self) -> MethodResult:
        """The simplest method that is as good as the best."""
        equals = {result.method: result for result in self.results if result.is_as_good}
        return next(equals[name] for name in self.simplest if name in equals)

    @property
    def recommendation(self) -> str:
        """One sentence: which method to use, and why."""
        use, best = self.recommended, self.best
        figure = f"{use.mean:.1f} % of the test nodes right"
        if len(self.results) == 1:
            return f"Only {use.method} was run: {figure}."
        if all(result.is_worse for result in self.results[1:]):
            return f"Use {use.method}: {figure}, and the splits show it to be the best."
        if use is best:
            return (
                f"Use {use.method}: {figure}, the most of all; no simpler method that was tried "
                f"lies within {NOTABLE_LEAD:g} points of it."
            )
        n_equal = sum(result.is_as_good for result in self.results)
        return (
            f"Use {use.method}: {figure}, and it is the simplest of the {n_equal} methods that lie "
            f"within {NOTABLE_LEAD:g} points of the best ({best.method}, {best.mean:.1f} %) and "
            "that the splits can't tell from it."
        )

    @property
    def caution(self) -> str:
        """What to bear in mind; empty where there is nothing."""
        if self.n_splits == 1:
            return naming("one split tells nothing about chance: take more with {n_splits}")
        if self.n_test < FEW_TEST_NODES:
            return (
                f"a split tests {self.n_test} nodes only, so intervals are wide: "
                "more labels would tell more"
            )
        return ""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and rows."""
        rows = [
            [
                result.method,
                f"{result.mean:.1f}",
                "best" if result is self.best else signed(-result.lead, 1),
                ""
                if math.isnan(result.low)
                else f"{signed(-result.high, 1)} to {signed(-result.low, 1)}",
                seconds_text(result.seconds),
            ]
            for result in self.results
        ]
        rows += [[name, "failed", "", "", ""] for name in self.failed]
        return ["method", "accuracy (%)", "to best", "95 % interval", "seconds"], rows

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        for result, plain in zip(self.results, values["results"], strict=True):
            plain["mean"] = result.mean
        return {
            **values,
            "recommended": self.recommended.method,
            "recommendation": self.recommendation,
            "caution": self.caution,
        }


def rank_methods(
    accuracies: Mapping[str, FloatArray],
    seconds: Mapping[str, float],
    test_ratio: float,
) -> tuple[MethodResult, ...]:
    """Methods from the most to the least accurate, each with the interval of what it lacks.

    Parameters
    ----------
    accuracies : dict of arrays
        In percent, one for each split, the splits in the same order.
    seconds : dict
    test_ratio : float
        Test nodes of a split for each node that was trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.estimators.verdict import rank_methods
    >>> runs = {"sgc": np.array([80.0, 82, 81]), "gcn": np.array([81.0, 84, 82])}
    >>> first, second = rank_methods(runs, {"sgc": 0.1, "gcn": 1.0}, test_ratio=0.25)
    >>> first.method, round(second.lead, 2), round(second.low, 2), round(second.high, 2)
    ('gcn', 1.33, -0.56, 3.23)
    """
    order = sorted(accuracies, key=lambda name: -float(np.mean(accuracies[name])))
    best = accuracies[order[0]]
    results = []
    for name in order:
        difference = best - accuracies[name]
        half = math.nan if name == order[0] else _half_width(difference, test_ratio)
        lead = float(difference.mean())
        results.append(
            MethodResult(
                name,
                tuple(accuracies[name].tolist()),
                seconds[name],
                lead,
                # Accuracies differ by 100 points at most, however wide few splits make it.
                float(np.clip(lead - half, -100, 100)),
                float(np.clip(lead + half, -100, 100)),
            )
        )
    return tuple(results)


def _half_width(difference: FloatArray, test_ratio: float) -> float:
    n_splits = len(difference)
    if n_splits < 2:
        return math.nan
    variance = (1 / n_splits + test_ratio) * float(difference.var(ddof=1))
    return float(stdtrit(n_splits - 1, 0.975)) * math.sqrt(variance)
