"""Arithmetic of tables: records of runs enter, rows of figures and texts leave."""

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
    n_runs : int
    seconds : float
        Mean of a run.
    validation : float
        Mean validation accuracy in percent.
    """

    mean: float
    spread: float
    error: float
    n_runs: int
    seconds: float
    validation: float


def summarise(records: Sequence[Record]) -> Summary:
    """Mean, spread and standard error of some runs.

    Examples
    --------
    >>> from graphconv.estimators.statistics import summarise
    >>> runs = [{"test_accuracy": a, "validation_accuracy": 0, "seconds": 1} for a in (80, 82)]
    >>> summarise(runs).mean, summarise(runs).error
    (81.0, 1.0)
    """
    values = _column(records, "test_accuracy")
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return Summary(
        mean=_mean(values),
        spread=spread,
        error=spread / math.sqrt(len(values)) if len(values) > 1 else math.nan,
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
