"""The picture of an explanation: the node, what surrounds it, and which edges carried its label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from graphconv.report.figures import new_figure
from graphconv.report.style import COLOURS, MARKERS
from graphconv.results.explanation import Contribution, Explanation

# More than these make a thicket, not a picture.
MOST_EDGES = 30
# A change of log-odds that shows in no figure with two digits.
FAINT = 5e-3
_FOR, _AGAINST, _NEITHER = COLOURS[0], COLOURS[3], "#999999"
# Blue and vermilion are the edges' colours, so nodes are told apart by shape and by grey tones.
_TONES = ("#FFFFFF", "#CCCCCC", "#777777", "#F0E442", "#CC79A7", "#56B4E9", "#009E73")
_MOST_CLASSES = len(_TONES)


def draw_explanation(why: Explanation) -> Figure:
    """The strongest edges around a node: colour says for or against, width says how much.

    Parameters
    ----------
    why : Explanation
        As `graphconv.results.explain.explain` returns it.
    """
    shown = _joined(why)
    places = _rings(why, shown)
    classes = _classes(why, places)
    figure, axes = new_figure(1, 1, (9, 6.4))
    panel: Axes = axes[0][0]
    _draw_edges(panel, shown, places, why.directed)
    for number, name in enumerate(classes):
        own = [node for node in places if _class_of(why, node, classes) == name]
        points = np.array([places[node] for node in own]).reshape(-1, 2)
        panel.scatter(
            points[:, 0], points[:, 1], s=90, color=_TONES[number], marker=MARKERS[number],
            edgecolors="black", linewidths=0.8, zorder=3, label=f"predicted {name}",
        )  # fmt: skip
    panel.scatter(
        *places[why.node], s=420, facecolors="none", edgecolors="black", linewidths=1.6, zorder=2
    )
    for node, place in places.items():
        _name_node(panel, node, place, is_centre=node == why.node)
    panel.margins(0.12)
    panel.set_axis_off()
    panel.set_title(_title(why, len(shown)))
    handles = [*_edge_legend(shown), *panel.get_legend_handles_labels()[0]]
    panel.legend(
        handles=handles, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=0.8
    )
    return figure


def _name_node(panel: Axes, node: Any, place: tuple[float, float], is_centre: bool) -> None:
    """Write a node's id on its far side from the middle, where no edge of its own runs."""
    size = math.hypot(*place) or 1.0
    across, up = (0.0, -2.2) if is_centre else (place[0] / size, place[1] / size)
    panel.annotate(
        _short(node), place, xytext=(9 * across, 9 * up), textcoords="offset points",
        ha="center" if abs(across) < 0.5 else "left" if across > 0 else "right",
        va="center" if abs(up) < 0.5 else "bottom" if up > 0 else "top",
        fontsize=8, zorder=4, weight="bold" if is_centre else "normal",
        bbox={"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none", "alpha": 0.7},
    )  # fmt: skip


def _title(why: Explanation, n_shown: int) -> str:
    first = f"Why {_short(why.node, 30)} is labelled {_short(why.label, 30)}"
    if why.label != why.predicted:
        first = f"What speaks for calling {_short(why.node, 30)} {_short(why.label, 30)}"
    left_out = f", the {n_shown} strongest" if n_shown < len(why.edges) else ""
    return f"{first} (probability {why.probability:.2f})\nedges it rests on{left_out}"


def _joined(why: Explanation) -> list[Contribution]:
    """The strongest edges, each with the path that joins it to the node."""
    nearer: dict[Any, Contribution] = {}
    for part in why.edges:  # the strongest first: so every node is reached by its strongest edge
        one, other = part.item
        for near, far in ((one, other), (other, one)):
            if why.distances[near] < why.distances[far]:
                nearer.setdefault(far, part)
    shown: dict[tuple[Any, Any], Contribution] = {}
    for part in why.edges[:MOST_EDGES]:
        shown[part.item] = part
        for end in part.item:
            while end != why.node and end in nearer:
                step = nearer[end]
                shown[step.item] = step
                end = min(step.item, key=why.distances.__getitem__)
    return list(shown.values())


def _rings(why: Explanation, shown: list[Contribution]) -> dict[Any, tuple[float, float]]:
    """The node in the middle, the others on rings by distance, each beside what it hangs on."""
    children: dict[Any, list[Any]] = {why.node: []}
    for hops in range(1, why.n_hops + 1):
        for part in shown:
            near, far = sorted(part.item, key=why.distances.__getitem__)
            is_next = why.distances[near] < why.distances[far] == hops
            if is_next and near in children and far not in children:
                children[near].append(far)
                children[far] = []
    places = {why.node: (0.0, 0.0)}

    def leaves(node: Any) -> int:
        return sum(map(leaves, children[node])) or 1

    def spread(node: Any, begin: float, end: float, hops: int) -> None:
        share = (end - begin) / leaves(node)
        for child in children[node]:
            width = share * leaves(child)
            angle = 2 * math.pi * (begin + width / 2)
            places[child] = (hops * math.cos(angle), hops * math.sin(angle))
            spread(child, begin, begin + width, hops + 1)
            begin += width

    spread(why.node, 0.0, 1.0, 1)
    return places


def _draw_edges(
    panel: Axes,
    shown: list[Contribution],
    places: Mapping[Any, tuple[float, float]],
    directed: bool,
) -> None:
    largest = max((abs(part.log_odds) for part in shown), default=0) or 1.0
    for part in reversed(shown):  # the strongest on top
        one, other = part.item
        if one not in places or other not in places or one == other:
            continue
        colour, line = _look(part)
        arrow = FancyArrowPatch(
            places[one], places[other], arrowstyle="-|>" if directed else "-", mutation_scale=14,
            color=colour, linestyle=line, lw=0.8 + 5 * abs(part.log_odds) / largest, zorder=1,
            shrinkA=0, shrinkB=7 if directed else 0,
        )  # fmt: skip
        panel.add_patch(arrow)


def _look(part: Contribution) -> tuple[str, Literal["-", "--", ":"]]:
    if abs(part.log_odds) < FAINT:
        return _NEITHER, ":"
    return (_FOR, "-") if part.log_odds > 0 else (_AGAINST, "--")


def _edge_legend(shown: list[Contribution]) -> list[Line2D]:
    names: dict[tuple[str, Literal["-", "--", ":"]], str] = {
        (_FOR, "-"): "edge speaks for the label",
        (_AGAINST, "--"): "edge speaks against it",
        (_NEITHER, ":"): "edge changes next to nothing",
    }
    looks = {_look(part) for part in shown}
    handles = [
        Line2D([], [], color=colour, linestyle=line, lw=2.5, label=name)
        for (colour, line), name in names.items()
        if (colour, line) in looks
    ]
    widths = Line2D([], [], linestyle="none", label="width: change of log-odds without it")
    return [*handles, widths] if handles else []


def _classes(why: Explanation, places: Mapping[Any, Any]) -> list[Any]:
    """Classes in the picture, the commonest first; what is rarer than the marks last is "other"."""
    counts: dict[Any, int] = {}
    for node in places:
        name = why.labels.get(node, "other")
        counts[name] = counts.get(name, 0) + 1
    names = sorted(counts, key=lambda name: -counts[name])
    return names if len(names) <= _MOST_CLASSES else [*names[: _MOST_CLASSES - 1], "other"]


def _class_of(why: Explanation, node: Any, classes: list[Any]) -> Any:
    name = why.labels.get(node, "other")
    return name if name in classes else "other"


def _short(value: Any, width: int = 14) -> str:
    text = str(value)
    return text if len(text) <= width else f"{text[: width - 1]}…"
