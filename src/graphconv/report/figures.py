"""The paper's figures: plain numbers enter, matplotlib figures leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphconv.io.files import replacing_file
from graphconv.report._style import COLOURS

Array = npt.NDArray[Any]
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "graphconv",  # the same figure gives the same file
}


def new_figure(
    n_rows: int, n_columns: int, size: tuple[float, float], **more: Any
) -> tuple[Figure, Any]:
    """A figure and its axes, an array of shape (n_rows, n_columns)."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False, **more)
    return figure, axes


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and as SVG; `path` has no suffix."""
    write_figure(figure, path.with_suffix(".png"))
    write_figure(figure, path.with_suffix(".svg"))


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG, by the suffix."""
    more: Any = {"dpi": 150} if path.suffix == ".png" else {"metadata": {"Date": None}}
    with mpl.rc_context(STYLE), replacing_file(path) as temporary:
        figure.savefig(temporary, **more)


def draw_depth(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Accuracy against the number of layers, a panel for each data set.

    Parameters
    ----------
    curves : dict
        For each title, points with `variant` ("plain" or "residual"), `split` ("train" or "test"),
        `n_layers`, `mean`, `error` and `n_folds`.
    """
    figure, axes = new_figure(1, len(curves), (4 * len(curves) + 1, 4.5))
    names = {"train": "training nodes", "test": "test nodes"}
    lines = {"plain": "--", "residual": "-"}
    for panel, (title, points) in zip(axes[0], curves.items(), strict=True):
        for colour, marker, split in zip(COLOURS[:2], "os", names, strict=True):
            for variant, line in lines.items():
                own = [p for p in points if p["split"] == split and p["variant"] == variant]
                x = [p["n_layers"] for p in own]
                mean = np.array([p["mean"] for p in own])
                error = np.array([p["error"] for p in own])
                label = f"{names[split]}, " + (
                    "residual connections" if variant == "residual" else "plain GCN"
                )
                panel.plot(
                    x, mean, line, color=colour, marker=marker, markersize=4, label=label, lw=1.5
                )
                panel.fill_between(
                    x, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0
                )
        panel.set_title(title)
        panel.set_xlabel("number of layers")
        panel.set_xticks(range(1, 11))
        panel.grid(alpha=0.3)
    axes[0][0].set_ylabel("accuracy (%)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        frameon=False,
        loc="outside lower center",
        ncols={1: 1, 2: 2}.get(len(curves), 4),
    )
    n_folds = max(point["n_folds"] for points in curves.values() for point in points)
    figure.suptitle(f"Model depth: mean of {n_folds} folds, band = standard error")
    return figure


class TimingCurve(Protocol):
    """Seconds an epoch on graphs of growing size, on one device."""

    @property
    def title(self) -> str: ...
    @property
    def edges(self) -> list[float]: ...
    @property
    def seconds(self) -> list[float]: ...
    @property
    def out_of_memory(self) -> int | None: ...


def draw_timing(curves: Sequence[TimingCurve], slope: float, constant: float) -> Figure:
    """Seconds an epoch against edges, both logarithmic, with the line fitted to the large graphs.

    Parameters
    ----------
    curves : sequence
        The line belongs to the first.
    slope, constant : float
        log10 seconds = slope * log10 edges + constant.
    """
    figure, axes = new_figure(1, 1, (6.4, 4.6))
    panel = axes[0][0]
    for curve, colour in zip(curves, COLOURS, strict=False):
        panel.loglog(curve.edges, curve.seconds, "o-", color=colour, label=curve.title)
        if curve.out_of_memory is not None:
            # A limit, not a point: there are no seconds to be read off it.
            panel.axvline(curve.out_of_memory, color=colour, ls=":")
            panel.annotate(
                "does not fit in memory", (curve.out_of_memory, 0.5), (-4, 0), fontsize=9,
                xycoords=panel.get_xaxis_transform(), textcoords="offset points",
                rotation=90, ha="right", va="center", color=colour,
            )  # fmt: skip
    ends = np.array([min(curves[0].edges), max(curves[0].edges)], dtype=float)
    panel.loglog(
        ends,
        10**constant * ends**slope,
        "--",
        color=COLOURS[3],
        label=f"fitted to the larger half: seconds ∝ edges^{slope:.2f}",
    )
    panel.set_xlabel("edges of the random graph (half as many nodes)")
    panel.set_ylabel("seconds per epoch")
    panel.set_title("Wall-clock time of one epoch (forward, loss, backward)")
    panel.grid(alpha=0.3)
    panel.legend(loc="upper left", frameon=False)
    return figure


def draw_search(trials: Sequence[Mapping[str, float]], chosen: Mapping[str, float]) -> Figure:
    """Validation accuracy of a search's trials against each hyper-parameter.

    Parameters
    ----------
    trials : sequence of dict
        With `dropout`, `weight_decay`, `hidden` and `validation_accuracy` in percent.
    chosen : dict
        The paper's choice of the three.
    """
    names = {
        "dropout": "dropout rate",
        "weight_decay": "L2 penalty of the first layer",
        "hidden": "hidden units",
    }
    figure, axes = new_figure(1, 3, (12, 4.2), sharey=True)
    best = max(trials, key=lambda trial: trial["validation_accuracy"])
    heights = [trial["validation_accuracy"] for trial in trials]
    for panel, (name, title) in zip(axes[0], names.items(), strict=True):
        panel.scatter(
            [trial[name] for trial in trials], heights, s=22, color=COLOURS[0], alpha=0.7,
            linewidths=0, label="a trial",
        )  # fmt: skip
        panel.plot(
            best[name], best["validation_accuracy"], "*", color=COLOURS[3], markersize=14,
            label="best trial",
        )  # fmt: skip
        panel.axvline(chosen[name], color=COLOURS[2], ls="--", label="the paper's choice")
        _scale(panel, name)
        panel.set_xlabel(title)
        panel.grid(alpha=0.3)
    axes[0][0].set_ylabel("validation accuracy (%)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=3)
    figure.suptitle("Search on Cora: every trial's mean validation accuracy")
    return figure


def _scale(panel: Axes, name: str) -> None:
    if name == "weight_decay":
        panel.set_xscale("log")
        panel.set_xlim(7e-6, 1.4e-2)
    if name == "dropout":
        panel.set_xlim(-0.05, 0.85)
    if name == "hidden":
        panel.set_xscale("log", base=2)
        panel.set_xticks([8, 16, 32, 64], ["8", "16", "32", "64"])
        panel.minorticks_off()
