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
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import FeatureScaler, fit_scaler
from graphconv.io.wording import did_you_mean
from graphconv.models.propagation import renormalised_adjacency
from graphconv.results.prediction_sets import SetRule
from graphconv.results.predictions import Predictions
from graphconv.training.fitted import FittedGCN
from graphconv.training.fitted_model import FittedModel

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
    set_size : int, optional
        How many classes the node may have, where a rule for sets was given.
    """

    node: Any
    gain: float
    label: Any
    confidence: float
    set_size: int | None = None


def suggest(
    fitted: FittedModel,
    n: int = 20,
    graph: Graph | None = None,
    candidates: Iterable[Hashable] | None = None,
    rule: SetRule | None = None,
) -> tuple[Suggestion, ...]:
    """The nodes whose labels would teach a model most, the best first.

    Parameters
    ----------
    fitted : FittedModel
    n : int
        How many.
    graph : Graph, optional
        Where to choose from. Default: the graph of the training.
    candidates : iterable of node ids, optional
        What may be chosen. Default: all nodes without a label and those in no split.
    rule : SetRule, optional
        For prediction sets: a node whose set holds many classes then counts so much more, one
        whose set holds a single class not at all.

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
    probabilities = fitted.ensemble_probabilities(graph)
    predictions = Predictions(
        graph, probabilities, fitted.graph.class_names, fitted.graph.is_multilabel, fitted.graph
    )
    split = predictions.split
    allowed = _candidates(fitted, graph, split, candidates)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= len(allowed):
        raise ValueError(
            f"n must be from 1 to {len(allowed):,}, the number of nodes there are to choose from, "
            f"got {n}"
        )
    n_hops, scaler = _reach(fitted)
    cover = Coverage(
        graph,
        scaler.transform(graph.features),
        n_hops=n_hops,
        candidates=allowed,
        most_candidates=max(MOST_NODES, n),
    )
    weight = uncertainty(probabilities[cover.crowd], fitted.graph.is_multilabel)
    sizes = None if rule is None else rule.apply(graph, probabilities).sum(axis=1)
    if sizes is not None and (sizes[cover.crowd] > 1).any():
        weight = weight * (sizes[cover.crowd] - 1)
    labels, confidence = predictions.labels, predictions.confidence
    return tuple(
        Suggestion(
            graph.node_ids[[node]].tolist()[0],
            gain,
            labels[node],
            float(confidence[node]),
            None if sizes is None else int(sizes[node]),
        )
        for node, gain in cover.choose(np.flatnonzero(split == "train"), weight, n)
    )


class Coverage:
    """How well some nodes stand for all others, and which nodes would do so best.

    Parameters
    ----------
    graph : Graph
    features : array or sparse array, optional
        As the model sees them.
    n_hops : int
        How far the graph spreads them.
    candidates : array of int
        Positions of the nodes that may be chosen.
    most_candidates : int
        Of more than so many, a random sample is considered.

    Attributes
    ----------
    crowd : array of int
        Positions of the nodes that stand for all: of a large graph a random sample.
    """

    def __init__(
        self,
        graph: Graph,
        features: Any,
        n_hops: int,
        candidates: IntArray,
        most_candidates: int = MOST_NODES,
    ) -> None:
        rng = np.random.default_rng(0)
        self._graph, self._features, self._n_hops = graph, features, n_hops
        self.among = _sample(candidates, most_candidates, rng)
        self.crowd = _sample(np.arange(graph.n_nodes), MOST_NODES, rng)
        self._of_crowd = self._directions(self.crowd)
        self._likeness = _product(self._of_crowd, self._directions(self.among))
        self._nearness: dict[int, Array] = {}  # of each labelled node to the crowd

    def choose(
        self,
        known: IntArray,
        weight: Array,
        n: int,
        is_allowed: npt.NDArray[np.bool_] | None = None,
    ) -> Iterable[tuple[int, float]]:
        """Nodes that raise the weighted sum most, and what each adds as a share of its bound.

        Parameters
        ----------
        known : array of int
            Positions of the nodes that are labelled already.
        weight : array of shape (n_crowd,)
            How much each node of the crowd counts: the model's uncertainty.
        n : int
        is_allowed : array of bool, optional
            Which of all nodes may be chosen now. Default: all candidates.
        """
        new = np.array([node for node in known.tolist() if node not in self._nearness], np.int64)
        if len(new):
            columns = _product(self._of_crowd, self._directions(new))
            self._nearness.update(zip(new.tolist(), columns.T, strict=True))
        covered = np.zeros(len(self.crowd), dtype=np.float32)
        for node in known.tolist():
            np.maximum(covered, self._nearness[node], out=covered)
        is_left = None if is_allowed is None else is_allowed[self.among]
        yield from _choose(self.among, self._likeness, covered, weight, n, is_left)

    def _directions(self, nodes: IntArray) -> Any:
        return _directions(self._step, nodes, self._features, self._n_hops)

    @cached_property
    def _step(self) -> sp.csr_array:
        return renormalised_adjacency(self._graph)


def _candidates(
    fitted: FittedModel,
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


def _directions(step: sp.csr_array, nodes: IntArray, features: Any, n_hops: int) -> Any:
    """Rows of A-hat^K X, each of length 1; a row of zeros stays one."""
    # From the left: all rows would fill up with entries.
    rows = sp.eye_array(step.shape[0], dtype=np.float32, format="csr")[nodes]
    for _ in range(n_hops):
        rows = rows @ step
    spread = rows if features is None else rows @ features
    if sp.issparse(spread) and spread.nnz > DENSE_FROM * spread.shape[0] * spread.shape[1]:
        spread = spread.toarray()  # hops fill rows up, and dense products are far faster then
    squares = spread.multiply(spread) if sp.issparse(spread) else spread * spread
    length = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    return sp.diags_array(inverse) @ spread


def _reach(fitted: FittedModel) -> tuple[int, FeatureScaler]:
    """How far the model looks, and how it scales features; two hops where it does not say."""
    if not isinstance(fitted, FittedGCN):
        return 2, fit_scaler(fitted.graph.features, "auto")
    is_graph_used = fitted.settings.propagation != "none"
    return len(fitted.network.program.products) if is_graph_used else 0, fitted.scaler


def _product(left: Any, right: Any) -> Array:
    """All cosines of two sets of directions, (n_left, n_right)."""
    product = left @ right.T
    dense: Array = product.toarray() if sp.issparse(product) else product
    return np.asarray(dense, dtype=np.float32)


def uncertainty(probabilities: Array, is_multilabel: bool) -> Array:
    """Entropy of each row, 1 at most; of several labels per node, their mean."""
    parts = (
        np.stack([probabilities, 1 - probabilities], axis=2)
        if is_multilabel
        else probabilities[:, None]
    )
    surprise = -np.log(np.maximum(parts, np.finfo(np.float32).tiny))
    entropy: Array = (parts * surprise).sum(axis=2).mean(axis=1) / np.log(max(parts.shape[2], 2))
    return entropy


def _choose(
    among: IntArray,
    likeness: Array,
    covered: Array,
    weight: Array,
    n: int,
    is_left: npt.NDArray[np.bool_] | None = None,
) -> Iterable[tuple[int, float]]:
    """Greedy choice: nodes, and what each adds to the weighted sum as a share of its bound."""
    total = float(weight.sum())
    is_left = np.ones(len(among), dtype=bool) if is_left is None else is_left.copy()
    more = np.empty_like(likeness)
    for _ in range(min(n, int(is_left.sum()))):
        np.subtract(likeness, covered[:, None], out=more)
        gains = weight @ np.maximum(more, 0, out=more)
        best = int(np.where(is_left, gains, -np.inf).argmax())
        is_left[best] = False
        covered = np.maximum(covered, likeness[:, best])
        yield int(among[best]), float(gains[best]) / total if total else 0.0
