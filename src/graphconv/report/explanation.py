"""The picture of an explanation: the node, what surrounds it, and which edges carried its label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from graphconv.report._lettering import drawable, families, shortened, shortened_apart
from graphconv.report._style import COLOURS, MARKERS
from graphconv.report.figures import new_figure
from graphconv.results.explanation import Contribution, Explanation

# A change of log-odds that shows in no figure with two digits.
FAINT = 5e-3
_FOR, _AGAINST, _NEITHER = COLOURS[0], COLOURS[3], "#999999"
# Blue and vermilion are the edges' colours, so nodes are told apart by shape and by grey tones.
_TONES = ("#FFFFFF", "#CCCCCC", "#777777", "#F0E442", "#CC79A7", "#56B4E9", "#009E73")
_MOST_CLASSES = len(_TONES)
# Above so many features their names would not have room beside each other.
_MOST_FEATURES = 15
_ID_WIDTH, _FEATURE_WIDTH, _CLASS_WIDTH = 14, 24, 24


def draw_explanation(why: Explanation, n: int = 10) -> Figure:
    """The strongest edges around a node, and beside them the features that count most.

    Colour says for or against, the width of an edge and the length of a bar say how much.

    Parameters
    ----------
    why : Explanation
        As `graphconv.results.explain.explain` returns it.
    n : int
        How many edges to draw, beside those that join them to the node, and how many features.
    """
    with mpl.rc_context({"font.family": list(families())}):
        n_features = min(n, _MOST_FEATURES, len(why.features))
        widths = [2.2, 1] if n_features else [1]
        figure, axes = new_figure(
            1, len(widths), (9 + 4 * bool(n_features), 6.4), gridspec_kw={"width_ratios": widths}
        )
        _draw_neighbourhood(axes[0][0], why, n)
        if n_features:
            _draw_features(axes[0][1], why.features[:n_features])
        _part_names(figure, axes[0][0])
    return figure


def _draw_neighbourhood(panel: Axes, why: Explanation, n: int) -> None:
    shown = _joined(why, n)
    places = _rings(why, shown)
    classes = _classes(why, places)
    _draw_edges(panel, shown, places, why.directed)
    for number, name in enumerate(classes):
        own = [node for node in places if _class_of(why, node, classes) == name]
        points = np.array([places[node] for node in own]).reshape(-1, 2)
        label = f"predicted {drawable(shortened(name, _CLASS_WIDTH))}"
        panel.scatter(
            points[:, 0], points[:, 1], s=90, color=_TONES[number], marker=MARKERS[number],
            edgecolors="black", linewidths=0.8, zorder=3, label=label,
        )  # fmt: skip
    panel.scatter(
        *places[why.node], s=420, facecolors="none", edgecolors="black", linewidths=1.6, zorder=2
    )
    names = shortened_apart(places, _ID_WIDTH)
    for node, place in places.items():
        is_centre = node == why.node
        panel.annotate(
            drawable(names[node]), place, textcoords="offset points",
            xytext=(0, 0), ha="center", va="center", fontsize=8, zorder=4,
            weight="bold" if is_centre else "normal",
            bbox={"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip
    panel.margins(x=0.25, y=0.12)
    panel.set_axis_off()
    panel.set_title(_title(why, len(shown)))
    handles = [*_edge_legend(shown), *panel.get_legend_handles_labels()[0]]
    panel.legend(
        handles=handles, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2
    )


def _draw_features(panel: Axes, features: tuple[Contribution, ...]) -> None:
    """A bar for each feature, with its value: how much the log-odds change without it."""
    rows = range(len(features))
    sizes = [part.log_odds for part in features]
    colours = [_look(part)[0] for part in features]
    panel.barh(rows, sizes, color=colours, height=0.6)
    names = [
        f"{drawable(shortened(part.item, _FEATURE_WIDTH))}\n{drawable(part.detail)}"
        for part in features
    ]
    panel.set_yticks(list(rows), names, fontsize=8)
    panel.invert_yaxis()
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set_xlabel("change of log-odds without it")
    panel.set_title("features it rests on")
    panel.tick_params(axis="y", length=0)


def _part_names(figure: Figure, panel: Axes) -> None:
    """Move each node's id beside its mark, to where no other id and no other mark is."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # or moving them would move all else
    names = [text for text in panel.texts if isinstance(text, Annotation)]
    points = np.array([panel.transData.transform(text.xy) for text in names])
    pixels = figure.dpi / 72
    marks = [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7) for x, y in points]
    middle = panel.transData.transform((0, 0))
    taken: list[Bbox] = []
    for number, text in enumerate(names):
        size = text.get_window_extent()
        box = size
        for across, up in _ways_out(points[number] - middle):
            # From the mark's middle to the text's: past half of the mark and half of the text.
            x = points[number][0] + across * (size.width / 2 + 8 * pixels)
            y = points[number][1] + up * (size.height / 2 + 8 * pixels)
            box = Bbox.from_bounds(x - size.width / 2, y - size.height / 2, size.width, size.height)
            if not any(box.overlaps(other) for other in (*taken, *marks)):
                break
        taken.append(box)
        centre = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        text.set_position(tuple((np.array(centre) - points[number]) / pixels))


def _ways_out(away: Any) -> list[tuple[float, float]]:
    """Directions to try for a name: away from the middle first, then beside and further out."""
    begin = math.atan2(away[1], away[0]) if np.hypot(*away) > 1 else -math.pi / 2
    turns = (0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.2, -2.2, math.pi)
    return [
        (far * math.cos(begin + turn), far * math.sin(begin + turn))
        for far in (1, 1.6, 2.4, 3.4, 4.6, 6)
        for turn in turns
    ]


def _title(why: Explanation, n_shown: int) -> str:
    node, label = (drawable(shortened(name, 30)) for name in (why.node, why.label))
    first = f"Why {node} is labelled {label}"
    if why.label != why.predicted:
        first = f"What speaks for calling {node} {label}"
    left_out = f", the {n_shown} strongest" if n_shown < len(why.edges) else ""
    return f"{first} (probability {why.probability:.2f})\nedges it rests on{left_out}"


def _joined(why: Explanation, n: int) -> list[Contribution]:
    """The strongest edges, each with the path that joins it to the node."""
    nearer: dict[Any, Contribution] = {}
    for part in why.edges:  # the strongest first: so every node is reached by its strongest edge
        one, other = part.item
        for near, far in ((one, other), (other, one)):
            if why.distances[near] < why.distances[far]:
                nearer.setdefault(far, part)
    shown: dict[tuple[Any, Any], Contribution] = {}
    for part in why.edges[:n]:
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
