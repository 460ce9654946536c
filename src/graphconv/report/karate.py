"""The karate club in pictures: figures, an animation, and a page to play it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from graphconv.io.files import json_text, replacing_file
from graphconv.report._style import COLOURS, MARKERS
from graphconv.report.figures import Array, new_figure

if TYPE_CHECKING:
    from PIL.Image import Image

# Frames of the animation: every third iteration, and a rest on the last one.
_STEP, _REST, _FRAMES_A_SECOND = 3, 20, 15
_N_GREYS = 9
_RING = "#444444"


@dataclass(frozen=True, eq=False)
class Club:
    """What is drawn.

    Parameters
    ----------
    edges : array of shape (n_edges, 2)
    labels : array of shape (n_nodes,)
        Community of each member, a number.
    labelled : array of node numbers
        Those whose community the model was told.
    positions : array of shape (n_iterations + 1, n_nodes, 2)
    """

    edges: Array
    labels: Array
    labelled: Array
    positions: Array


def _draw_members(panel: Axes, club: Club, places: Array, ring: bool) -> None:
    panel.add_collection(
        LineCollection(list(places[club.edges]), colors="#999999", linewidths=0.6, zorder=1)
    )
    is_labelled = np.isin(np.arange(len(places)), club.labelled) & ring
    for number in range(int(club.labels.max()) + 1):
        for chosen, size, edge in ((~is_labelled, 45, "white"), (is_labelled, 110, _RING)):
            own = places[(club.labels == number) & chosen]
            panel.scatter(
                own[:, 0],
                own[:, 1],
                s=size,
                color=COLOURS[number],
                marker=MARKERS[number],
                edgecolors=edge,
                linewidths=2.0 if edge != "white" else 0.6,
                zorder=3 if edge != "white" else 2,
                label=f"community {number + 1}" if edge == "white" else None,
            )


def _frame_plane(panel: Axes) -> None:
    panel.set_xlim(-1.1, 1.1)
    panel.set_ylim(-1.1, 1.1)
    panel.set_aspect("equal")
    panel.set_xticks([-1, 0, 1])
    panel.set_yticks([-1, 0, 1])


def draw_untrained(club: Club) -> Figure:
    """The network in a usual layout, and its embedding before any training."""
    import networkx as nx

    figure, axes = new_figure(1, 2, (10, 5.2))
    left, right = axes[0]
    layout = nx.kamada_kawai_layout(nx.Graph([(int(a), int(b)) for a, b in club.edges]))
    usual = np.array([layout[node] for node in range(len(club.labels))])
    _draw_members(left, club, usual, ring=False)
    left.set_title("Karate club network")
    left.set_axis_off()
    left.set_aspect("equal")
    _draw_members(right, club, club.positions[0], ring=False)
    right.set_title("Output of an untrained GCN with random weights")
    right.set_xlabel("first output unit")
    right.set_ylabel("second output unit")
    right.margins(0.08)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=4)
    return figure


def draw_evolution(club: Club, iterations: Sequence[int]) -> Figure:
    """Embeddings at some moments of the training."""
    n_columns = min(3, len(iterations))
    n_rows = -(-len(iterations) // n_columns)
    figure, axes = new_figure(
        n_rows, n_columns, (3.5 * n_columns, 3.5 * n_rows + 0.9), sharex=True, sharey=True
    )
    for panel, number in zip(axes.ravel(), iterations, strict=False):
        _draw_members(panel, club, club.positions[number], ring=True)
        _frame_plane(panel)
        panel.set_title(f"iteration {number}")
    for panel in axes[-1]:
        panel.set_xlabel("first output unit")
    for panel in axes[:, 0]:
        panel.set_ylabel("second output unit")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, loc="outside lower center", ncols=4,
        title="ringed: the one member of each community whose label was given",
    )  # fmt: skip
    figure.suptitle("Karate club: embeddings while the GCN learns from four labels")
    return figure


def write_animation(club: Club, path: Path) -> None:
    """The whole training as a GIF."""
    from PIL import Image

    last = len(club.positions) - 1
    # One palette for all frames, without dithering: what does not move has the same bytes in every
    # frame, and Pillow writes only what changed.
    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette(int(club.labels.max()) + 1).tobytes())
    frames = [
        _draw_frame(club, number).quantize(palette=palette, dither=Image.Dither.NONE)
        for number in [*range(0, last, _STEP), last]
    ]
    milliseconds = 1000 // _FRAMES_A_SECOND
    with replacing_file(path) as temporary:
        frames[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=[milliseconds] * (len(frames) - 1) + [_REST * milliseconds],
            loop=0,
        )


def _palette(n_communities: int) -> Array:
    """Greys, and each community's colour pure, half white and half the dark of its ring."""
    greys = np.repeat(np.linspace(0, 255, _N_GREYS)[:, None], 3, axis=1)
    pure = 255 * np.array([to_rgb(colour) for colour in COLOURS[:n_communities]])
    mixed = [(pure + 255 * np.array(to_rgb(other))) / 2 for other in ("white", _RING)]
    return np.vstack([greys, pure, *mixed]).round().astype(np.uint8)


def _draw_frame(club: Club, number: int) -> Image:
    """One moment of the training."""
    from PIL import Image

    figure, axes = new_figure(1, 1, (4.8, 5.0))
    panel = axes[0][0]
    _draw_members(panel, club, club.positions[number], ring=True)
    _frame_plane(panel)
    panel.set_title(f"Karate club, iteration {number} of {len(club.positions) - 1}")
    panel.set_xlabel("first output unit")
    panel.set_ylabel("second output unit")
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=80)
    return Image.open(drawn).convert("RGB")


def write_page(club: Club, accuracy: Array, path: Path) -> None:
    """The whole training as one HTML page that plays it, with no need of a network.

    Parameters
    ----------
    club : Club
    accuracy : array of shape (n_iterations + 1,)
        Percent of unlabelled members that are right.
    path : Path
    """
    data: dict[str, Any] = {
        "edges": club.edges,
        "labels": club.labels,
        "labelled": club.labelled,
        "positions": np.round(club.positions, 3).reshape(len(club.positions), -1).astype(float),
        "accuracy": np.round(accuracy, 1),
        "colours": COLOURS[: int(club.labels.max()) + 1],
    }
    template = files("graphconv.report").joinpath("karate.html").read_text(encoding="utf-8")
    with replacing_file(path) as temporary:
        temporary.write_text(template.replace("/*DATA*/null", json_text(data)), encoding="utf-8")
