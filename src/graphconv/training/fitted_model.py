"""FittedModel: what every trained method can be asked, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.training.calibration import Calibration

FloatMatrix = npt.NDArray[np.floating[Any]]


class FittedModel(Protocol):
    """A trained method with the graph it was trained on.

    Parameters
    ----------
    graph : Graph
        With the validation nodes that were set aside, if any were.
    calibration : Calibration
    history : dict of lists
        Figures of each epoch; empty for methods that have none.
    choice : str
        What was chosen by itself, and why.
    """

    @property
    def graph(self) -> Graph: ...
    @property
    def calibration(self) -> Calibration: ...
    @property
    def history(self) -> dict[str, list[float]]: ...
    @property
    def choice(self) -> str: ...

    def probabilities(
        self,
        graph: Graph | None = None,
        nodes: IntArray | None = None,
        *,
        scratch: Path | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Any:
        """Uncalibrated, of every run, of shape (n_nodes, n_runs, n_classes)."""

    def ensemble_probabilities(self, graph: Graph | None = None) -> Any:
        """What predictions show: the mean over runs, calibrated."""

    def calibrate(
        self, probabilities: Any, graph: Graph | None = None, nodes: IntArray | None = None
    ) -> Any:
        """Averaged probabilities of the nodes of a graph, or of some of them, made believable."""
