"""The one place for colours and shapes, of figures and of pages.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart; what
colours say, markers or line styles say as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

COLOURS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # green
    "#D55E00",  # vermilion
    "#CC79A7",  # purple
    "#56B4E9",  # sky
    "#000000",
    "#F0E442",  # yellow
)
# On a dark page: blue is lighter, and black is white.
DARK_COLOURS = ("#3D9BE0", *COLOURS[1:6], "#FFFFFF", COLOURS[7])
OTHER = "#999999"
# The same shapes in the words of matplotlib and of plotly.
MARKERS = "osD^vPX*"
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
)  # fmt: skip
# More classes than this get no look of their own: nobody could find them in a legend.
MAX_SHOWN_CLASSES = 24


class Mark(NamedTuple):
    """How a class looks: positions in the lists above."""

    colour: int
    shape: int


def class_marks(n_classes: int) -> list[Mark]:
    """A look for each class; no two of the first 64 are alike.

    Examples
    --------
    >>> from graphconv.report._style import class_marks
    >>> class_marks(10)[0], class_marks(10)[8]
    (Mark(colour=0, shape=0), Mark(colour=0, shape=1))
    """
    n = len(COLOURS)
    return [Mark(number % n, (number + number // n) % n) for number in range(n_classes)]


def shown_classes(labels: npt.NDArray[Any], n_classes: int) -> npt.NDArray[np.int64]:
    """The classes to show by themselves: all or, of too many, the most frequent ones."""
    if n_classes <= MAX_SHOWN_CLASSES:
        return np.arange(n_classes)
    counts = np.bincount(labels[labels >= 0], minlength=n_classes)
    return np.sort(np.argsort(-counts, kind="stable")[: MAX_SHOWN_CLASSES - 1])
