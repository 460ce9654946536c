"""Mini-batches: training nodes in shuffled pieces, the next one made while one is trained on.

A graph enters, a function from an epoch's number to its `LabelledBatch`es leaves. Which nodes are
in which batch, and which neighbours are sampled, follow from (seed, epoch) and (seed, epoch, hop,
node): a training that is resumed goes on with the very batches it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.engine.batches import Numbering, make_batch, sample_batch
from graphconv.engine.objective import FloatArray, LabelledBatch
from graphconv.graph import Graph, IntArray
from graphconv.graph.mapping import release
from graphconv.kernels.hashing import hash_key
from graphconv.models.settings import Settings
from graphconv.storage.memory import available_memory, resident_memory

# Bytes of a stored graph's files that may be resident because batches were made of them.
MAPPED_BYTES = 2 << 30
# What else than dropout the seed decides; hash_key(seed, 1) is the held-out validation nodes.
SHUFFLE, SAMPLE, OTHERS = 2, 3, 4
# Stands for the epoch where validation nodes sample neighbours: always the same ones, or losses of
# different epochs could not be compared.
VALIDATION = -1


class MiniBatches:
    """Makes the batches of a training.

    Parameters
    ----------
    graph : Graph
    settings : Settings
        Says batch_size and fanout.
    n_hops : int
        How far the model sees.
    features : matrix or StoredFeatures
        Scaled.
    class_weight : array of shape (n_classes,), optional
    seed : int
        Where several replicas train side by side they share their batches, those of the first.
    agrees : bool
        Whether other nodes, about as many, go with the training nodes: those whose copies the model
        makes agree.
    """

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        *,
        n_hops: int,
        features: Any,
        class_weight: FloatArray | None = None,
        seed: int = 0,
        agrees: bool = False,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.n_hops = n_hops
        self.fanouts = settings.fanouts(n_hops)
        self.features = features
        self.class_weight = class_weight
        self.seed = seed
        self._is_train: npt.NDArray[np.bool_] | None = None
        if agrees:
            self._is_train = np.zeros(graph.n_nodes, dtype=bool)
            self._is_train[graph.train_index] = True
        self._numbering = Numbering(graph.n_nodes)
        # Pages of a stored graph that were read stay resident; past this they are let go.
        self._most_resident = resident_memory() + min(MAPPED_BYTES, available_memory() // 4)

    def training(self, epoch: int) -> Iterator[LabelledBatch]:
        """The batches of an epoch, which together hold every training node once."""
        index = self.graph.train_index
        rng = np.random.default_rng(hash_key(self.seed, epoch, SHUFFLE))
        return self._batches(index, rng.permutation(len(index)), epoch)

    def validation(self, epoch: int) -> Iterator[LabelledBatch]:
        """Batches of the validation nodes, the same in every epoch."""
        index = self.graph.validation_index
        return self._batches(index, np.arange(len(index)), VALIDATION)

    def _batches(self, index: IntArray, order: IntArray, epoch: int) -> Iterator[LabelledBatch]:
        size = self.settings.batch_size or max(1, len(index))
        # Within a batch nodes keep their order: one batch of all nodes is then the full batch.
        pieces = (
            index[np.sort(order[first : first + size])] for first in range(0, len(order), size)
        )
        return one_ahead(
            partial(self._make, piece, number, epoch) for number, piece in enumerate(pieces)
        )

    def _make(self, labelled: IntArray, number: int, epoch: int) -> LabelledBatch:
        targets = labelled
        if self._is_train is not None and epoch != VALIDATION:
            drawn = drawn_nodes(self.graph.n_nodes, len(labelled), self.seed, epoch, number)
            targets = np.concatenate([labelled, drawn[~self._is_train[drawn]]])
        if self.fanouts is None:
            batch = make_batch(
                self.graph,
                targets,
                n_hops=self.n_hops,
                features=self.features,
                numbering=self._numbering,
            )
        else:
            batch = sample_batch(
                self.graph,
                targets,
                fanouts=self.fanouts,
                keys=[hash_key(self.seed, epoch, SAMPLE, hop) for hop in range(self.n_hops)],
                features=self.features,
                numbering=self._numbering,
            )
        if self.graph.folder is not None and resident_memory() > self._most_resident:
            self._let_go()
        return LabelledBatch.make(batch, self.graph.labels, self.class_weight, len(labelled))

    def _let_go(self) -> None:
        matrices: tuple[Any, ...] = (self.graph.adjacency, self.graph.features)
        for matrix in matrices:
            if sp.issparse(matrix):
                release(matrix.indptr, matrix.indices, matrix.data)
            elif matrix is not None:
                release(matrix)


def one_ahead(jobs: Iterable[Callable[[], LabelledBatch]]) -> Iterator[LabelledBatch]:
    """What the jobs make, in order; while one result is used, a thread works on the next."""
    with ThreadPoolExecutor(1, thread_name_prefix="graphconv-batches") as executor:
        pending: Future[LabelledBatch] | None = None
        for job in jobs:
            following = executor.submit(job)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()


def drawn_nodes(n_nodes: int, n_drawn: int, seed: int, *numbers: int) -> IntArray:
    """Some nodes of a graph by chance, each once, in their order: fewer where some came twice."""
    rng = np.random.default_rng(hash_key(seed, OTHERS, *numbers))
    return np.unique(rng.integers(n_nodes, size=n_drawn))
