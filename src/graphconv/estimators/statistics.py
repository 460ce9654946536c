"""Arithmetic of tables: records of runs enter, rows of numbers and texts leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphconv.estimators.runs import Record


@dataclass(frozen=True)
class Summary:
    """What some runs come to.

    Parameters
    ----------
    mean, spread : float
        Test accuracy in percent: mean and standard deviation; NaN without runs.
    error : float
        Standard error of the mean; NaN with fewer than two runs.
    quartiles : tuple of float
        Lower quartile, median and upper quartile of test accuracy; NaN without runs.
    n_runs : int
    seconds : float
        Mean of a run.
    validation : float
        Mean validation accuracy in percent.
    """

    mean: float
    spread: float
    error: float
    quartiles: tuple[float, float, float]
    n_runs: int
    seconds: float
    validation: float


def summarise(records: Sequence[Record]) -> Summary:
    """Mean, spread and standard error of some runs.

    Examples
    --------
    >>> from graphconv.estimators.statistics import summarise
    >>> runs = [{"test_accuracy": a, "validation_accuracy": 0, "seconds": 1} for a in (80, 82)]
    >>> summarise(runs).mean, summarise(runs).error, summarise(runs).quartiles
    (81.0, 1.0, (80.5, 81.0, 81.5))
    """
    values = _column(records, "test_accuracy")
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    low, median, high = np.percentile(values, (25, 50, 75)) if len(values) else [math.nan] * 3
    return Summary(
        mean=_mean(values),
        spread=spread,
        error=spread / math.sqrt(len(values)) if len(values) > 1 else math.nan,
        quartiles=(float(low), float(median), float(high)),
        n_runs=len(values),
        seconds=_mean(_column(records, "seconds")),
        validation=_mean(_column(records, "validation_accuracy")),
    )


def _column(records: Sequence[Record], name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = [math.nan if run.get(name) is None else float(run[name]) for run in records]
    return np.array(values, dtype=np.float64)


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(values.mean()) if len(values) else math.nan


def fixed(value: float | None, digits: int = 1) -> str:
    """A number for a table; a dash where there is none.

    Examples
    --------
    >>> from graphconv.estimators.statistics import fixed
    >>> fixed(81.46), fixed(None), fixed(float("nan"))
    ('81.5', '-', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def with_error(summary: Summary, digits: int = 1) -> str:
    """Mean ± standard error, the latter where it is known."""
    text = fixed(summary.mean, digits)
    return text if math.isnan(summary.error) else f"{text} ± {summary.error:.{digits + 1}f}"


def median_text(summary: Summary, digits: int = 1) -> str:
    """The median, with the quartiles in brackets where there is more than one run.

    Examples
    --------
    >>> from graphconv.estimators.statistics import median_text, summarise
    >>> runs = [{"test_accuracy": a, "seconds": 1} for a in (19.6, 70, 71, 72)]
    >>> median_text(summarise(runs)), median_text(summarise(runs[1:2]))
    ('70.5 (57.4 to 71.2)', '70.0')
    """
    low, median, high = (fixed(value, digits) for value in summary.quartiles)
    return f"{median} ({low} to {high})" if summary.n_runs > 1 else median


def difference(ours: float, paper: float | None) -> str:
    """Ours minus the paper's, signed; a dash where either is missing.

    Examples
    --------
    >>> from graphconv.estimators.statistics import difference
    >>> difference(81.6, 81.5), difference(70, 70.3), difference(70, None)
    ('+0.1', '-0.3', '-')
    """
    if paper is None or math.isnan(ours):
        return "-"
    return f"{round(ours, 1) - paper:+.1f}"


def seconds_text(value: float) -> str:
    """Seconds with as many digits as they deserve.

    Examples
    --------
    >>> from graphconv.estimators.statistics import seconds_text
    >>> seconds_text(0.4321), seconds_text(12.3), seconds_text(float("nan"))
    ('0.43', '12', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value < 1 else f"{value:.1f}"
