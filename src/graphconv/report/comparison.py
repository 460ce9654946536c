"""The picture of a comparison: accuracy, what each method lacks to the best, and time."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphconv.estimators.verdict import Comparison
from graphconv.report._style import COLOURS
from graphconv.report.figures import new_figure

_EQUAL, _WORSE = COLOURS[0], COLOURS[3]


def draw_comparison(found: Comparison) -> Figure:
    """Three panels with a row for each method: accuracy, difference from the best, seconds.

    Parameters
    ----------
    found : Comparison
        As `graphconv.estimators.compare.compare` returns it.
    """
    height = 2.2 + 0.36 * len(found.results)
    figure, axes = new_figure(1, 3, (12, height), sharey=True, width_ratios=(3, 3, 2))
    rows = range(len(found.results))
    looks = [(_WORSE, "s") if result.is_worse else (_EQUAL, "o") for result in found.results]
    for row, result, (colour, marker) in zip(rows, found.results, looks, strict=True):
        _draw_accuracy(axes[0][0], row, result.accuracies, colour, marker)
        _draw_difference(axes[0][1], row, (-result.lead, -result.high, -result.low), colour, marker)
        axes[0][2].plot(max(result.seconds, 1e-4), row, marker, color=colour, markersize=7)
    first: Axes = axes[0][0]
    names = [
        f"{result.method} (use this)" if result is found.recommended else result.method
        for result in found.results
    ]
    first.set_yticks(rows, names)
    first.invert_yaxis()
    first.set_xlabel("test accuracy (%)")
    first.set_title("Accuracy of each split, and mean")
    axes[0][1].axvline(0, color="black", lw=0.8)
    axes[0][1].set_xlabel("points of accuracy")
    axes[0][1].set_title("Difference from the best, 95 % interval")
    axes[0][2].set_xscale("log")
    axes[0][2].set_xlabel("seconds of a training")
    axes[0][2].set_title("Time")
    for panel in axes[0]:
        panel.grid(alpha=0.3)
    handles = [
        Line2D([], [], color=_EQUAL, marker="o", ls="none", label="can't be told from the best"),
        Line2D([], [], color=_WORSE, marker="s", ls="none", label="worse than the best"),
        Line2D([], [], color="#777777", marker="|", ls="none", label="a split"),
    ]
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=3)
    figure.suptitle(f"{found.dataset}: methods on the same {found.n_splits} splits")
    return figure


def _draw_accuracy(
    panel: Axes, row: int, accuracies: tuple[float, ...], colour: str, marker: str
) -> None:
    panel.plot(accuracies, [row] * len(accuracies), "|", color="#777777", markersize=9, zorder=1)
    panel.plot(float(np.mean(accuracies)), row, marker, color=colour, markersize=7, zorder=2)


def _draw_difference(
    panel: Axes, row: int, interval: tuple[float, float, float], colour: str, marker: str
) -> None:
    middle, low, high = interval
    if not math.isnan(low):
        panel.plot([low, high], [row, row], "-", color=colour, lw=2)
    panel.plot(middle, row, marker, color=colour, markersize=7)
