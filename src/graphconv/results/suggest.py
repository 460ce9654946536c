"""suggest(): a fitted model enters; the nodes whose labels would teach it most leave.

One idea: every node the model is unsure of should have a labelled node like it. With z_j the
features of node j as the graph spreads them, A-hat^K X for K layers, and u_j the model's
uncertainty, nodes are chosen one after the other to raise

    sum_j u_j max_(i labelled or chosen) cos(z_i, z_j)

most. So a node in an uncertain crowd comes before an uncertain outlier, and what a chosen node
stands for already counts no more: uncertainty, density and diversity in one sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.io.wording import did_you_mean
from graphconv.models.propagation import renormalised_adjacency
from graphconv.results.predictions import Predictions
from graphconv.training.fitted import FittedGCN

Array = npt.NDArray[Any]
# Of larger graphs so many random nodes stand for all, and so many are candidates.
MOST_NODES = 3000
# Share of entries from which a matrix is treated as dense.
DENSE_FROM = 0.05


@dataclass(frozen=True)
class Suggestion:
    """A node to label.

    Parameters
    ----------
    node : hashable
        Its id.
    gain : float
        What the label adds to the sum that is raised, as a share of the largest possible sum.
    label : hashable
        What the model calls the node now.
    confidence : float
        The probability of that class.
    """

    node: Any
    gain: float
    label: Any
    confidence: float


def suggest(
    fitted: FittedGCN,
    n: int = 20,
    graph: Graph | None = None,
    candidates: Iterable[Hashable] | None = None,
) -> tuple[Suggestion, ...]:
    """The nodes whose labels would teach a model most, the best first.

    Parameters
    ----------
    fitted : FittedGCN
    n : int
        How many.
    graph : Graph, optional
        Where to choose from. Default: the graph of the training.
    candidates : iterable of node ids, optional
        What may be chosen. Default: all nodes without a label and those in no split.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.training.fit import fit_gcn
    >>> from graphconv.results.suggest import suggest
    >>> cora = load_dataset("cora")
    >>> chosen = suggest(fit_gcn(cora, preset="paper"), 3)
    >>> chosen[0].gain > chosen[1].gain > chosen[2].gain
    True
    """
    graph = fitted.graph if graph is None else graph
    shares = fitted.ensemble_probabilities(graph)
    predictions = Predictions(
        graph, shares, fitted.graph.class_names, fitted.graph.is_multilabel, fitted.graph
    )
    split = predictions.split
    allowed = _candidates(fitted, graph, split, candidates)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= len(allowed):
        raise ValueError(
            f"n must be from 1 to {len(allowed):,}, the number of nodes there are to choose from, "
            f"got {n}"
        )
    rng = np.random.default_rng(0)
    among = _sample(allowed, max(MOST_NODES, n), rng)
    crowd = _sample(np.arange(graph.n_nodes), MOST_NODES, rng)
    known = np.flatnonzero(split == "train")
    directions = _directions(fitted, graph, np.concatenate([crowd, known, among]))
    of_crowd, of_known, of_among = np.split(
        np.arange(len(crowd) + len(known) + len(among)), [len(crowd), len(crowd) + len(known)]
    )
    likeness = _product(directions[of_crowd], directions[of_among])
    covered = _product(directions[of_crowd], directions[of_known]).max(axis=1, initial=0)
    weight = _uncertainty(shares[crowd], fitted.graph.is_multilabel)
    labels, confidence = predictions.labels, predictions.confidence
    return tuple(
        Suggestion(
            graph.node_ids[node : node + 1].tolist()[0], gain, labels[node], float(confidence[node])
        )
        for node, gain in _choose(among, likeness, covered, weight, n)
    )


def _candidates(
    fitted: FittedGCN,
    graph: Graph,
    split: npt.NDArray[np.str_],
    given: Iterable[Hashable] | None,
) -> IntArray:
    """Positions of the nodes that may be suggested."""
    if given is not None:
        position = {node: place for place, node in enumerate(graph.node_ids.tolist())}
        wanted = list(dict.fromkeys(given))
        for node in wanted:
            if node not in position:
                hint = did_you_mean(str(node), map(str, position))
                raise ValueError(f"candidates must be ids of the graph's nodes, got {node!r}{hint}")
        return np.sort(np.array([position[node] for node in wanted], dtype=np.int64))
    is_free = (split == "") & (np.arange(graph.n_nodes) < graph.n_entities)
    if graph is not fitted.graph:
        # New data may bring labels that the model was not trained with.
        is_free &= ~graph.is_labelled
    free: IntArray = np.flatnonzero(is_free)
    if len(free) == 0:
        raise ValueError(
            f"some nodes must be without a label to suggest any, but all {graph.n_nodes:,} have one"
        )
    return free


def _sample(nodes: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    return nodes if len(nodes) <= most else np.sort(rng.choice(nodes, most, replace=False))


def _directions(fitted: FittedGCN, graph: Graph, nodes: IntArray) -> Any:
    """Rows of A-hat^K X, each of length 1; a row of zeros stays one."""
    step = renormalised_adjacency(graph)
    # From the left: all rows would fill up with entries.
    rows = sp.eye_array(graph.n_nodes, dtype=np.float32, format="csr")[nodes]
    if fitted.settings.propagation != "none":
        for _ in fitted.model.layers:
            rows = rows @ step
    features = fitted.scaler.transform(graph.features)
    spread = rows if features is None else rows @ features
    if sp.issparse(spread) and spread.nnz > DENSE_FROM * spread.shape[0] * spread.shape[1]:
        spread = spread.toarray()  # hops fill rows up, and dense products are far faster then
    squares = spread.multiply(spread) if sp.issparse(spread) else spread * spread
    length = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    return sp.diags_array(inverse) @ spread


def _product(left: Any, right: Any) -> Array:
    """All cosines of two sets of directions, (n_left, n_right)."""
    product = left @ right.T
    dense: Array = product.toarray() if sp.issparse(product) else product
    return dense.astype(np.float32, copy=False)


def _uncertainty(shares: Array, is_multilabel: bool) -> Array:
    """Entropy of each row, 1 at most; of several labels a node, their mean."""
    parts = np.stack([shares, 1 - shares], axis=2) if is_multilabel else shares[:, None]
    surprise = -np.log(np.maximum(parts, np.finfo(np.float32).tiny))
    entropy: Array = (parts * surprise).sum(axis=2).mean(axis=1) / np.log(max(parts.shape[2], 2))
    return entropy


def _choose(
    among: IntArray, likeness: Array, covered: Array, weight: Array, n: int
) -> Iterable[tuple[int, float]]:
    """Greedy choice: nodes, and what each adds to the weighted sum as a share of its bound."""
    total = float(weight.sum()) or 1.0
    is_left = np.ones(len(among), dtype=bool)
    for _ in range(n):
        gains = weight @ np.maximum(likeness - covered[:, None], 0)
        best = int(np.where(is_left, gains, -1).argmax())
        is_left[best] = False
        covered = np.maximum(covered, likeness[:, best])
        yield int(among[best]), float(gains[best]) / total
