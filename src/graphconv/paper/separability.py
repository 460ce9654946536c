"""Whether points can be told apart by a linear classifier at all: a linear programme."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog


def is_separable(points: npt.ArrayLike, labels: npt.ArrayLike) -> bool:
    """Whether some linear classifier gives every point its label.

    It exists if there are weights w_c and offsets b_c of all classes c such that each point x of
    class y has w_y x + b_y >= w_c x + b_c + 1 for every other class c. Whether a linear programme
    with these constraints has a solution can be decided exactly; nothing is trained.

    Parameters
    ----------
    points : array of shape (n_points, n_dimensions)
    labels : array of shape (n_points,)

    Examples
    --------
    >>> from graphconv.paper.separability import is_separable
    >>> is_separable([[0, 0], [1, 1], [2, 0]], [0, 0, 1])
    True
    >>> is_separable([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1])  # exclusive or
    False
    """
    raw = np.asarray(points, dtype=np.float64)
    # The solver has a tolerance, so that points very close together should not look the same.
    spread = np.ptp(raw, axis=0)
    raw = (raw - raw.mean(axis=0)) / np.where(spread > 0, spread, 1)
    extended = np.column_stack([raw, np.ones(len(raw))])  # the offset is one more weight
    classes, numbers = np.unique(np.asarray(labels), return_inverse=True)
    n_classes, width = len(classes), extended.shape[1]
    rows: list[npt.NDArray[Any]] = []
    for point, own in zip(extended, numbers, strict=True):
        for other in range(n_classes):
            if other != own:
                row = np.zeros((n_classes, width))
                row[own], row[other] = -point, point
                rows.append(row.ravel())
    if not rows:
        return True
    found = linprog(
        np.zeros(n_classes * width),
        A_ub=np.array(rows),
        b_ub=-np.ones(len(rows)),
        bounds=(None, None),
    )
    return bool(found.status == 0)
