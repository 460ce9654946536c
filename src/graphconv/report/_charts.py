"""Charts of the report page: findings enter, plotly figures leave.

Figures have no background and no font colour: the page gives them those of the reader's theme, and
exchanges the colours of `style.COLOURS` for their dark counterparts.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import plotly.graph_objects as go

from graphconv.report._findings import Findings
from graphconv.report._style import COLOURS

# White numbers can be read on it, on a light page and on a dark one.
_DEEP = "#00609A"
_TRANSPARENT = "rgba(0,0,0,0)"
# Above so many classes the cells of the confusion matrix have no room for numbers.
_MAX_CELLS = 12
_MAX_NAME = 22


def plain(text: object) -> str:
    """Text that plotly shows as it is: it would take <b> for an instruction."""
    return html.escape(str(text), quote=False)


def make_charts(findings: Findings, history: dict[str, list[float]]) -> dict[str, go.Figure]:
    """All charts there is data for, by the name of their place on the page."""
    charts = {
        "confusion": _confusion(findings),
        "confidence": _confidence(findings),
        "reliability": _reliability(findings),
        "loss": _curves(history, "loss"),
        "accuracy": _curves(history, "accuracy"),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _figure(x: str, y: str, **layout: Any) -> go.Figure:
    return go.Figure(
        layout={
            "template": "none",
            "paper_bgcolor": _TRANSPARENT,
            "plot_bgcolor": _TRANSPARENT,
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "margin": {"l": 56, "r": 22, "t": 12, "b": 48},
            "xaxis": {"title": {"text": x}, "automargin": True, "fixedrange": True},
            "yaxis": {"title": {"text": y}, "automargin": True, "fixedrange": True},
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "hovermode": "closest",
            **layout,
        }
    )


def _short(name: str) -> str:
    return plain(name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…")


def _confusion(findings: Findings) -> go.Figure | None:
    table = findings.confusion
    if table is None:
        return None
    names = findings.class_names
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    details = [
        [
            f"{plain(true)} taken for {plain(found)}:<br>{table[i, j]:,} nodes, "
            f"{100 * shares[i, j]:.0f} % of this class"
            for j, found in enumerate(names)
        ]
        for i, true in enumerate(names)
    ]
    ticks = list(range(len(names)))
    figure = _figure("predicted class", "true class")
    figure.add_heatmap(
        z=(100 * shares).round(2).tolist(),
        x=ticks,
        y=ticks,
        zmin=0,
        zmax=100,
        colorscale=[[0, "#FFFFFF"], [1, _DEEP]],
        colorbar={"title": {"text": "% of class"}, "thickness": 12},
        text=table.tolist(),
        texttemplate="%{text}" if len(names) <= _MAX_CELLS else None,
        customdata=details,
        hovertemplate="%{customdata}<extra></extra>",
        xgap=1,
        ygap=1,
    )
    labels = [_short(name) for name in names]
    axis = {"tickvals": ticks, "ticktext": labels, "showgrid": False, "zeroline": False}
    if len(names) > 40:
        axis = {"showticklabels": False, "showgrid": False, "zeroline": False}
    figure.update_xaxes(**axis, tickangle=-40)
    figure.update_yaxes(**axis, autorange="reversed")
    return figure


def _confidence(findings: Findings) -> go.Figure:
    entities = slice(findings.graph.n_entities)
    confidence = 100 * np.asarray(findings.predictions.confidence[entities], dtype=float)
    edges = np.linspace(0, 100, 21)
    counts, _ = np.histogram(confidence, edges)
    figure = _figure("confidence (%)", "nodes", bargap=0.05, showlegend=False)
    figure.add_bar(
        x=((edges[1:] + edges[:-1]) / 2).tolist(),
        y=counts.tolist(),
        width=5,
        marker={"color": COLOURS[0]},
        customdata=[f"{low:.0f} to {low + 5:.0f} % sure" for low in edges[:-1]],
        hovertemplate="%{customdata}: %{y:,} nodes<extra></extra>",
        name="nodes",
    )
    figure.update_xaxes(range=[0, 100], tickvals=[0, 20, 40, 60, 80, 100])
    return figure


def _reliability(findings: Findings) -> go.Figure | None:
    bins = findings.reliability
    if bins is None:
        return None
    filled = bins.n_decisions > 0
    width = 100 * np.diff(bins.edges)[0]
    what = "decisions" if findings.graph.is_multilabel else "nodes"
    figure = _figure("confidence (%)", "right (%)", bargap=0.05)
    figure.add_bar(
        x=(100 * (bins.edges[:-1] + bins.edges[1:]) / 2)[filled].tolist(),
        y=(100 * bins.accuracy[filled]).round(1).tolist(),
        width=width,
        marker={"color": COLOURS[0]},
        customdata=[
            f"{100 * said:.0f} % sure on average,<br>{100 * right:.0f} % right ({number:,} {what})"
            for said, right, number in zip(
                bins.confidence[filled], bins.accuracy[filled], bins.n_decisions[filled],
                strict=True,
            )
        ],
        hovertemplate="%{customdata}<extra></extra>",
        name="measured",
    )  # fmt: skip
    figure.add_scatter(
        x=[0, 100],
        y=[0, 100],
        mode="lines",
        line={"color": COLOURS[3], "dash": "dash", "width": 2},
        hoverinfo="skip",
        name="perfect: as sure as right",
    )
    figure.update_xaxes(range=[0, 100], tickvals=[0, 20, 40, 60, 80, 100])
    figure.update_yaxes(range=[0, 100], tickvals=[0, 20, 40, 60, 80, 100])
    return figure


def _curves(history: dict[str, list[float]], quantity: str) -> go.Figure | None:
    factor, unit = (100, "accuracy (%)") if quantity == "accuracy" else (1, "loss (nats)")
    figure = _figure("epoch", unit)
    looks = {"train": ("training nodes", COLOURS[0], "solid")}
    looks["validation"] = ("validation nodes", COLOURS[3], "dash")
    for name, (label, colour, dash) in looks.items():
        values = factor * np.asarray(history.get(f"{name}_{quantity}", ()), dtype=float)
        if not np.isfinite(values).any():
            continue
        # A curve of a few hundred points shows all that the eye can see.
        step = max(1, len(values) // 500)
        figure.add_scatter(
            x=list(range(1, len(values) + 1))[::step],
            y=[None if value != value else round(value, 4) for value in values.tolist()][::step],
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2},
            name=label,
            hovertemplate=f"epoch %{{x}}: %{{y:.{1 if factor == 100 else 3}f}}<extra></extra>",
        )
    return figure if figure.data else None
