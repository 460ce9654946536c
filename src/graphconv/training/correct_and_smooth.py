"""Correct and smooth: what the graph and the known labels still make of a model's probabilities.

Probabilities of all nodes and the labels that are known enter, better ones leave (Huang et al.,
"Combining label propagation and simple models out-performs graph neural networks", ICLR 2021). With
S = D^-1/2 A D^-1/2, first the errors that the model makes on known labels are spread, for
neighbours are wrong alike; then the corrected probabilities, with known labels in their places, are
smoothed:

    E_k+1 = (1 - a) E_0 + a S E_k,   G_k+1 = (1 - b) G_0 + b S G_k

Known are the labels that training used, none else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv import kernels
from graphconv.engine.batches import normalising_scales
from graphconv.graph import Graph, IntArray, symmetrise
from graphconv.kernels import Csr

FloatArray = npt.NDArray[np.float32]
# a and b of the equations above, and how many steps are taken: of nine pairs the best on validation
# nodes after a perceptron.
CORRECTION, SMOOTHING, N_STEPS = 0.8, 0.95, 50
# Errors that have thinned out to less than this share of their mean say nothing of a node.
_LEAST_ERROR = 1e-3


def correct_and_smooth(
    graph: Graph, probabilities: FloatArray, known: IntArray, labels: npt.NDArray[Any]
) -> FloatArray:
    """Probabilities corrected by the errors on known labels, and smoothed over the graph.

    Parameters
    ----------
    graph : Graph
        In memory.
    probabilities : array of shape (n_nodes, n_runs, n_classes)
    known : array of node numbers
    labels : array of shape (n_known,) or (n_known, n_classes)
        Class numbers, or indicators where nodes have several labels.

    Returns
    -------
    array of shape (n_nodes, n_runs, n_classes)

    Examples
    --------
    A model that knows nothing, on two pairs of which one node each is known:

    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.training.correct_and_smooth import correct_and_smooth
    >>> pairs = Graph([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> blank = np.full((4, 1, 2), 0.5, dtype=np.float32)
    >>> correct_and_smooth(pairs, blank, np.array([0, 2]), np.array([0, 1]))[:, 0].argmax(axis=1)
    array([0, 0, 1, 1])
    """
    _, n_runs, n_classes = probabilities.shape
    if not len(known):
        return probabilities
    wanted = labels if labels.ndim == 2 else np.eye(n_classes)[labels]
    answers = np.repeat(wanted[:, None].astype(np.float32), n_runs, axis=1)
    edges: Any = symmetrise(graph.adjacency) if graph.directed else graph.adjacency
    degree = np.asarray(sp.csr_array(edges).sum(axis=1), dtype=np.float32).ravel()
    walk = _walk_on(edges, degree, graph.is_weighted)

    errors = np.zeros_like(probabilities)
    errors[known] = answers - probabilities[known]
    spread = walk(errors, CORRECTION)
    # Steps make errors smaller; each node's are given back the mean size of those that are known.
    size = np.abs(errors[known]).sum(axis=2).mean(axis=0)[:, None]  # (n_runs, 1)
    length = np.abs(spread).sum(axis=2, keepdims=True)
    is_told = length > _LEAST_ERROR * size
    corrected = probabilities + np.where(is_told, spread * size / np.maximum(length, 1e-30), 0)

    corrected[known] = answers
    smooth = walk(corrected.astype(np.float32), SMOOTHING)
    is_alone = degree == 0
    smooth[is_alone] = corrected[is_alone]
    if labels.ndim == 2:
        return np.clip(smooth, 0, 1)
    kept = np.maximum(smooth, 0)
    total = kept.sum(axis=2, keepdims=True)
    found: FloatArray = np.where(total > 0, kept / np.maximum(total, 1e-30), probabilities)
    return found


def known_nodes(trained_on: Graph, graph: Graph) -> tuple[IntArray, IntArray]:
    """Training nodes that are in a graph: their places in it, and in that of the training.

    They are found by their ids. Rows of two graphs may have the same numbers and be of different
    things, so the ids count only if most of those nodes have the features they had.
    """
    known = trained_on.train_index
    if graph is trained_on:
        return known, known
    place = {node: number for number, node in enumerate(graph.node_ids.tolist())}
    pairs = [
        (place[node], number)
        for node, number in zip(trained_on.node_ids[known].tolist(), known.tolist(), strict=True)
        if node in place
    ]
    here, there = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2).T
    if len(here) and graph.features is not None:
        # mypy: both graphs have features, or neither has.
        ours, theirs = graph.features[here], trained_on.features[there]  # type: ignore[index]
        gap = abs(ours - theirs).sum(axis=1)
        if np.mean(np.asarray(gap).ravel() == 0) < 0.5:
            return here[:0], there[:0]
    return here, there


def _walk_on(
    edges: Any, degree: FloatArray, is_weighted: bool
) -> Callable[[FloatArray, float], FloatArray]:
    """The recurrence above, on edges that go both ways."""
    weights = edges.data if is_weighted else None
    rows = Csr(edges.indptr[:-1], edges.indptr[1:], edges.indices, weights)
    scale, _ = normalising_scales(degree, 0.0, directed=False)
    propagate = kernels.select().propagate

    def walk(start: FloatArray, share: float) -> FloatArray:
        n_nodes, n_runs, n_classes = start.shape
        flat = start.reshape(n_nodes, n_runs * n_classes)
        begin = np.float32(1 - share) * flat
        now = flat
        for _ in range(N_STEPS):
            now = begin + np.float32(share) * propagate(rows, now, scale, scale, 0.0)
        return cast(FloatArray, now.reshape(start.shape))

    return walk
