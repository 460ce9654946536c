"""Batches of a graph in parts: each process computes the rows of its own nodes.

A `GraphPart` and target nodes enter, a `PartBatch` leaves. The batch is the one that a single
process would make of all processes' targets together: the nodes within each hop are found together,
and of these a process has the rows of its own part. Sums over neighbours in other parts read their
rows, which come from the process that has them: forward the rows are sent, backward their
gradients. Only rows that the targets' receptive field needs travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.engine.batches import (
    Array,
    Batch,
    Numbering,
    SampledBatch,
    add_rows,
    copied_rows,
    feature_rows,
)
from graphconv.engine.mini_batches import SAMPLE, SHUFFLE, VALIDATION, drawn_nodes, one_ahead
from graphconv.engine.objective import FloatArray, LabelledBatch
from graphconv.graph import IntArray
from graphconv.kernels import RowSample
from graphconv.kernels.hashing import hash_key
from graphconv.models.settings import Settings
from graphconv.storage.graph_part import GraphPart
from graphconv.training.processes import Processes

NO_NODES: IntArray = np.empty(0, dtype=np.int64)


class HaloExchange(NamedTuple):
    """Which rows travel in one hop, seen from one process."""

    wanted: IntArray  # halo rows to receive, numbered within the part, by the process they are of
    from_each: list[int]
    lent: IntArray  # own rows to send
    to_each: list[int]


class Hop(NamedTuple):
    """An exchange in the numbering of a batch."""

    halo_rows: IntArray  # places of the rows that come, in the input of the hop's sums
    lent_rows: IntArray  # places of the rows that go, in the rows within the hop
    exchange: HaloExchange


@dataclass(frozen=True, eq=False)
class PartBatch(Batch):
    """A batch whose rows are those of one part; sums read rows of the halo after them.

    `rows` are positions in the whole graph. The adjacency matrix has the columns of all `rows` and
    then of the halo; `degree` is of both.
    """

    has_halo = True
    processes: Processes | None = None
    exchanges: tuple[Hop, ...] = ()
    purpose: str = ""

    def with_halo(self, x: Array, hop: int) -> Array:
        """The rows of x, those of the halo that the hop needs, and zeros for all others."""
        halo_rows, lent_rows, exchange = self.exchanges[hop]
        came = self._exchange(x[lent_rows], exchange.to_each, exchange.from_each)
        out = np.empty((len(self.degree), x.shape[1]), dtype=x.dtype)
        out[: len(x)] = x
        out[len(x) :] = 0
        out[halo_rows] = came
        return out

    def halo_gradient(self, gradient: Array, hop: int) -> Array:
        """The gradient of x, given that of `with_halo`: what others found for its rows is added."""
        halo_rows, lent_rows, exchange = self.exchanges[hop]
        came = self._exchange(gradient[halo_rows], exchange.from_each, exchange.to_each)
        own = gradient[: self.n_within[hop + 1]].copy()
        add_rows(own, lent_rows, came)
        return own

    def _exchange(self, rows: Array, to_each: Sequence[int], from_each: Sequence[int]) -> Array:
        assert self.processes is not None
        return self.processes.exchange(rows, to_each, from_each, self.purpose)


@dataclass(frozen=True, eq=False)
class SampledPartBatch(PartBatch, SampledBatch):
    """The same with a sample of the edges for every hop."""


def make_part_batch(
    part: GraphPart,
    processes: Processes,
    targets: IntArray,
    *,
    n_hops: int,
    features: Any,
    purpose: str,
    fanouts: Sequence[int] | None = None,
    keys: Sequence[int] = (),
    numbering: Numbering | None = None,
) -> PartBatch:
    """Batch of the targets of all processes; every process calls this with its own.

    Parameters
    ----------
    part : GraphPart
    processes : Processes
    targets : array of node numbers within the part
    n_hops : int
    features : matrix, StoredFeatures or None
        Of the part's nodes, scaled.
    purpose : str
        What the bytes that it makes travel are counted for.
    fanouts, keys : sequences of int, optional
        As for `sample_batch`. The sample is the one that a single process would take.
    numbering : Numbering, optional
    """
    graph = part.graph
    numbering = numbering or Numbering(graph.n_nodes)
    of_node = numbering.of_node
    rows, n_within, found, exchanges = _reach(
        part, processes, targets, n_hops, of_node, fanouts, keys
    )
    halo = np.unique(np.concatenate([NO_NODES, *(exchange.wanted for exchange in exchanges)]))
    of_node[halo] = np.arange(len(rows), len(rows) + len(halo), dtype=np.int32)
    width = len(rows) + len(halo)
    hops = tuple(
        Hop(
            of_node[exchange.wanted].astype(np.int64),
            of_node[exchange.lent].astype(np.int64),
            exchange,
        )
        for exchange in exchanges
    )
    matrices = _matrices(found, of_node, n_within, width, is_sampled=fanouts is not None)
    numbering.forget(np.concatenate([rows, halo]))
    adjacency, transposed = matrices[-1] if matrices else (sp.csr_array((0, width)),) * 2
    fields: dict[str, Any] = {
        "rows": part.nodes[rows],
        "n_within": tuple(n_within),
        "degree": graph.degree[np.concatenate([rows, halo])].astype(np.float32),
        "features": feature_rows(features, rows, np.float32),
        "n_features": part.n_features,
        "adjacency": adjacency,
        "adjacency_transposed": transposed,
        "is_whole": False,
        "processes": processes,
        "exchanges": hops,
        "purpose": purpose,
    }
    if fanouts is not None:
        return SampledPartBatch(**fields, is_weighted=True, hops=tuple(matrices))
    return PartBatch(**fields, is_weighted=graph.is_weighted)


def _reach(
    part: GraphPart,
    processes: Processes,
    targets: IntArray,
    n_hops: int,
    of_node: npt.NDArray[np.int32],
    fanouts: Sequence[int] | None,
    keys: Sequence[int],
) -> tuple[IntArray, list[int], list[RowSample], list[HaloExchange]]:
    """The part's rows within each hop of all targets, numbered; each hop's entries and exchange."""
    adjacency, is_weighted = part.graph.adjacency, part.graph.is_weighted
    rows, ring, wanted = targets, targets, NO_NODES
    of_node[rows] = np.arange(len(rows), dtype=np.int32)
    n_within, found, exchanges = [len(rows)], [], []
    for hop in range(n_hops):
        if fanouts is None:
            # Rows within earlier hops have been looked at; what they want stays wanted.
            sample = copied_rows(adjacency, ring, is_weighted)
            wanted = np.union1d(wanted, sample.columns[sample.columns >= part.n_own])
        else:
            sample = copied_rows(
                adjacency, rows, is_weighted, fanouts[hop], keys[hop], part.nodes[rows]
            )
            wanted = np.unique(sample.columns[sample.columns >= part.n_own])
        found.append(sample)
        exchanges.append(ask(part, processes, wanted.astype(np.int64)))
        reached = np.concatenate([sample.columns[sample.columns < part.n_own], exchanges[-1].lent])
        ring = np.unique(reached[of_node[reached] < 0]).astype(np.int64)
        of_node[ring] = np.arange(len(rows), len(rows) + len(ring), dtype=np.int32)
        if fanouts is not None and not len(ring):
            ring = rows[:1]  # as in sample_batch: n_within must grow
        rows = np.concatenate([rows, ring])
        n_within.append(len(rows))
    return rows, n_within, found, exchanges


def ask(part: GraphPart, processes: Processes, wanted: IntArray) -> HaloExchange:
    """Tell the others which rows of theirs this process needs, and learn which of its they do."""
    place = wanted - part.n_own
    bounds = np.searchsorted(place, part.halo_bounds)
    from_each = np.diff(bounds).tolist()
    # A row is named by its place in the list that both processes have.
    names = place - np.repeat(part.halo_bounds[:-1], from_each)
    to_each = processes.exchange_counts(from_each)
    asked = processes.exchange(names, from_each, to_each, "batches")
    lent = part.lent[np.repeat(part.lent_bounds[:-1], to_each) + asked].astype(np.int64)
    return HaloExchange(wanted, from_each, lent, to_each)


def _matrices(
    found: list[RowSample],
    of_node: npt.NDArray[np.int32],
    n_within: list[int],
    width: int,
    is_sampled: bool,
) -> list[tuple[sp.csr_array, sp.csr_array]]:
    """What is summed over, and its transpose: a matrix for each hop, or one for all hops."""
    if not is_sampled and found:
        # The rows of the hops follow each other; those of the last hop have no sums.
        ends = np.concatenate([np.zeros(1, np.int64), *(np.diff(s.indptr) for s in found)])
        values = [sample.values for sample in found if sample.values is not None]
        found = [
            RowSample(
                np.cumsum(ends),
                np.concatenate([sample.columns for sample in found]),
                np.concatenate(values) if values else None,
                np.ones(len(ends) - 1),
            )
        ]
        n_within = n_within[-2:-1]
    matrices = []
    for sample, n_rows in zip(found, n_within, strict=False):
        scale = np.repeat(sample.scale.astype(np.float32), np.diff(sample.indptr))
        values_of = scale if sample.values is None else sample.values * scale
        parts = (values_of, of_node[sample.columns], sample.indptr.astype(np.int32))
        matrix = sp.csr_array(parts, shape=(n_rows, width))
        transposed = sp.csr_array(matrix.T.tocsr())
        matrix.sort_indices()
        transposed.sort_indices()
        matrices.append((matrix, transposed))
    return matrices


class Members(NamedTuple):
    """The nodes of a split that are in this part, and their places in the whole split."""

    nodes: IntArray  # numbered within the part
    places: IntArray
    n_all: int

    def chosen(self, order: IntArray) -> IntArray:
        """Those at some places of the split, in the order of the split."""
        is_chosen = np.isin(self.places, order, assume_unique=True)
        return self.nodes[is_chosen]


class PartBatches:
    """Makes the batches of a training by several processes: the nodes that one process would take.

    Parameters
    ----------
    part : GraphPart
    processes : Processes
    settings : Settings
    n_hops : int
    features : matrix or StoredFeatures
        Of the part's nodes, scaled.
    members : dict
        "train" and "validation".
    class_weight : array of shape (n_classes,), optional
    seed : int
    agrees : bool
        As for `MiniBatches`.
    """

    def __init__(
        self,
        part: GraphPart,
        processes: Processes,
        settings: Settings,
        *,
        n_hops: int,
        features: Any,
        members: dict[str, Members],
        class_weight: FloatArray | None = None,
        seed: int = 0,
        agrees: bool = False,
    ) -> None:
        self.part = part
        self.settings = settings
        self.n_hops = n_hops
        self.fanouts = settings.fanouts(n_hops)
        self.features = features
        self.members = members
        self.class_weight = class_weight
        self.seed = seed
        self.processes = processes
        # The next batch is made in a thread while one is trained on.
        self._beside = processes.beside()
        self._numbering = Numbering(part.graph.n_nodes)
        # The part's nodes that do not train by a label, and their places in the whole graph.
        own = np.arange(part.n_own if agrees else 0)
        self._others = np.setdiff1d(own, members["train"].nodes)
        self._other_places = part.nodes[self._others]

    @property
    def sent_making(self) -> int:
        """Bytes that making batches has sent."""
        return self._beside.sent.total()

    @property
    def is_full_batch(self) -> bool:
        return self.settings.is_full_batch(self.members["train"].n_all)

    def whole(self, split: str) -> LabelledBatch:
        """All nodes of a split at once."""
        others = self._others if split == "train" else NO_NODES
        return self._make(split, self.members[split].nodes, others, VALIDATION)

    def training(self, epoch: int) -> Iterator[LabelledBatch]:
        """The batches of an epoch, which together hold every training node once."""
        rng = np.random.default_rng(hash_key(self.seed, epoch, SHUFFLE))
        return self._batches("train", rng.permutation(self.members["train"].n_all), epoch)

    def validation(self, epoch: int) -> Iterator[LabelledBatch]:
        """Batches of the validation nodes, the same in every epoch."""
        return self._batches("validation", np.arange(self.members["validation"].n_all), VALIDATION)

    def _batches(self, split: str, order: IntArray, epoch: int) -> Iterator[LabelledBatch]:
        members = self.members[split]
        size = self.settings.batch_size or max(1, members.n_all)
        pieces = [order[first : first + size] for first in range(0, len(order), size)]
        return one_ahead(
            partial(
                self._make,
                split,
                members.chosen(piece),
                self._drawn(len(piece), epoch, number),
                epoch,
            )
            for number, piece in enumerate(pieces)
        )

    def _drawn(self, n_drawn: int, epoch: int, number: int) -> IntArray:
        """Own nodes among the others that one process would draw for a batch."""
        if epoch == VALIDATION or not len(self._others):
            return NO_NODES
        drawn = drawn_nodes(self.part.n_nodes, n_drawn, self.seed, epoch, number)
        return self._others[np.isin(self._other_places, drawn, assume_unique=True)]

    def _make(self, split: str, labelled: IntArray, others: IntArray, epoch: int) -> LabelledBatch:
        targets = np.concatenate([labelled, others])
        batch = make_part_batch(
            self.part,
            self._beside,
            targets,
            n_hops=self.n_hops,
            features=self.features,
            purpose=split,
            fanouts=self.fanouts,
            keys=[hash_key(self.seed, epoch, SAMPLE, hop) for hop in range(self.n_hops)],
            numbering=self._numbering,
        )
        # It was made beside the training; its rows travel with the training.
        object.__setattr__(batch, "processes", self.processes)
        labels = self.part.graph.labels[labelled]
        return LabelledBatch.of_targets(batch, labels, self.class_weight)
