"""Prediction sets: for each node the classes it may have, with a guarantee on how often that holds.

A coverage such as 0.9 and out-of-fold probabilities enter, a rule leaves: a class belongs to a
node's set if its probability, smoothed over the node's neighbours, is at least a threshold. The
threshold is the largest one that 90 % of the labels pass when each is judged by a model that has
not seen it, so no label is set aside for it: cross-conformal prediction (Vovk 2015) in the form of
the cross-validated threshold of Barber et al. (2021, the jackknife). Smoothing over neighbours is
that of Zargarbashi, Antonelli and Bojchevski ("Conformal prediction sets for graph neural
networks", ICML 2023), which makes sets smaller where neighbours are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.io.wording import naming
from graphconv.training.out_of_fold import OutOfFold, neighbour_means

FloatMatrix = npt.NDArray[np.floating[Any]]
# How much neighbours may count; what makes the smallest sets on the labelled nodes is taken.
SMOOTHINGS = (0.0, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class SetRule:
    """Which classes belong to a node's set.

    Parameters
    ----------
    coverage : float
        The share of nodes whose set is to hold their true class.
    threshold : float
        The least smoothed probability of a class in the set.
    smoothing : float
        How much of a smoothed probability is that of the neighbours.
    n_labels : int
        How many labels the rule was found with.
    """

    coverage: float
    threshold: float
    smoothing: float
    n_labels: int

    def apply(self, graph: Graph, probabilities: FloatMatrix) -> npt.NDArray[np.bool_]:
        """Members of each node's set, (n_nodes, n_classes); the likeliest class is always one.

        Parameters
        ----------
        graph : Graph
        probabilities : array of shape (n_nodes, n_classes)
            Of all nodes of the graph, calibrated.
        """
        own = np.asarray(probabilities)
        smoothed = _smoothed(own, neighbour_means(graph, own), self.smoothing)
        members = smoothed >= self.threshold
        members[np.arange(len(own)), own.argmax(axis=1)] = True
        return members


def find_set_rule(out_of_fold: OutOfFold, coverage: float = 0.9) -> SetRule:
    """The rule whose sets hold the true class of a share `coverage` of the nodes.

    Parameters
    ----------
    out_of_fold : OutOfFold
    coverage : float
        Above 0 and below 1.

    Examples
    --------
    Ten nodes whose labels got 10 %, 20 %, ... 100 %; nine of ten must pass:

    >>> import numpy as np
    >>> from graphconv.results.prediction_sets import find_set_rule
    >>> from graphconv.training.out_of_fold import OutOfFold
    >>> right = np.arange(1, 11)[:, None] / 10
    >>> probabilities = np.hstack([right, 1 - right])
    >>> every = OutOfFold(np.arange(10), np.zeros(10, dtype=np.int64), probabilities, probabilities)
    >>> find_set_rule(every, 0.8).threshold
    0.2
    """
    labels = out_of_fold.labels
    if labels.ndim == 2:
        raise ValueError("prediction sets must be of one label per node, got several labels")
    check_coverage(coverage, len(labels))
    # Of n labels and the unknown one, the rank is below which at most a share 1 - coverage lies.
    n_below = len(labels) - math.ceil(coverage * (len(labels) + 1) - 1e-9)

    def rule(smoothing: float) -> tuple[float, SetRule]:
        smoothed = _smoothed(out_of_fold.probabilities, out_of_fold.of_neighbours, smoothing)
        of_label = np.sort(smoothed[np.arange(len(labels)), labels])
        threshold = float(of_label[n_below])
        # The likeliest class makes a set of one where no class passes.
        size = float(np.maximum((smoothed >= threshold).sum(axis=1), 1).mean())
        return size, SetRule(coverage, threshold, smoothing, len(labels))

    # Of equals the one with least smoothing.
    return min(map(rule, SMOOTHINGS), key=lambda found: found[0])[1]


def check_coverage(coverage: float, n_labels: int) -> None:
    """Refuse a coverage that is none, or that so few labels can't give."""
    if isinstance(coverage, bool) or not 0 < coverage < 1:
        raise ValueError(naming("{coverage} must be above 0 and below 1, got {!r}", coverage))
    needed = math.ceil(coverage / (1 - coverage) - 1e-9)
    if n_labels < needed:
        raise ValueError(
            f"a coverage of {coverage:g} needs at least {needed} labelled nodes, got {n_labels}"
        )


def _smoothed(own: FloatMatrix, of_neighbours: FloatMatrix, smoothing: float) -> FloatMatrix:
    mixed: FloatMatrix = (1 - smoothing) * own.astype(np.float64) + smoothing * of_neighbours
    return mixed
