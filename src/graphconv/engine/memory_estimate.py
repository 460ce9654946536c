"""How much memory a training will take, before it begins.

A graph, settings and a number of replicas enter, a `MemoryEstimate` leaves: what the process has
now, and what scaling the features, making the batches, training and predicting will add. Every
term is a count of numbers times their size; docs/scaling.md compares the sum with measured peaks.
Of several processes each estimates for the part of the graph that it has; see `part_memory`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv import kernels
from graphconv.engine.blocks import is_written, last_stages, stages_of
from graphconv.engine.feature_storage import SPARSE_BELOW
from graphconv.engine.replicas import TEAM_SIZE
from graphconv.graph import Graph, IntArray
from graphconv.io.wording import naming
from graphconv.models.catalogue import make_model
from graphconv.models.model import Model
from graphconv.models.operations import (
    Bias,
    Dropped,
    Features,
    Neighbours,
    Product,
    Program,
    Term,
    Value,
)
from graphconv.models.settings import Settings
from graphconv.storage.memory import available_memory, in_units, resident_memory

# What a switch to mini-batches starts with: few enough rows for any machine.
AUTO_BATCH_SIZE = 1024
AUTO_FANOUT = 10
# Rows of the graph that are looked at together.
_ROWS_AT_A_TIME = 1 << 18
# An entry of a batch of a part: in the adjacency matrix and in the transposed, index and value.
_PART_ENTRY_BYTES = 16
# Graphs below so many numbers are not worth a look, where there is plenty of memory for all values
# of a training: estimating would take longer than training.
_SMALL = 1 << 24
_PLENTY = 200  # bytes for each value


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a training needs at most, by what for."""

    resident: int  # taken already: Python, libraries, the data
    scaling: int
    training: int
    prediction: int

    @property
    def more(self) -> int:
        """What is needed beyond what is taken; phases follow each other."""
        return max(self.scaling, self.training, self.prediction)

    @property
    def total(self) -> int:
        return self.resident + self.more


class Need(NamedTuple):
    """What a process needs, and what there is."""

    total: float
    more: float
    free: float
    where: str = ""  # in words, where there are several processes


class ProcessPart(Protocol):
    """What one of several processes has of a graph; all of them call its methods together."""

    n_own: int  # nodes; those of the halo follow them
    n_features: int  # of the whole graph
    n_collected: int  # rows of predictions that it gets from others and keeps

    def lent(self, halo: IntArray) -> IntArray:
        """Own nodes that others need, while this process needs some of the halo."""

    def add_up(self, number: int) -> int:
        """The sum over all processes."""

    def tightest(self, need: Need) -> Need:
        """The need of the process that lacks most, or has least to spare."""


@dataclass(frozen=True)
class _Reach:
    """Rows and entries of the adjacency matrix that a batch touches."""

    n_within: tuple[int, ...]
    n_entries: int
    n_halo: int = 0


def estimate_memory(
    graph: Graph,
    settings: Settings,
    n_replicas: int = 1,
    part: ProcessPart | None = None,
) -> MemoryEstimate:
    """The memory a training with these settings will take.

    Parameters
    ----------
    graph : Graph
    settings : Settings
    n_replicas : int
    part : ProcessPart, optional
        Where the graph is a part of one, what its process has; its splits are those of the part.

    Examples
    --------
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.engine.memory_estimate import estimate_memory
    >>> estimate = estimate_memory(load_dataset("cora"), Settings())
    >>> 0 < estimate.training < estimate.total
    True
    """
    n_features = graph.n_features if part is None else part.n_features
    model = make_model(settings, n_features, max(1, graph.n_classes))
    program = model.program
    n_hops = program.n_hops
    targets, watched = graph.train_index, graph.validation_index
    n_targets, n_watched = (
        len(index) if part is None else part.add_up(len(index)) for index in (targets, watched)
    )
    n_batches = 1
    if settings.batch_size is not None and settings.batch_size < n_targets:
        # Of several processes each has its share of a batch.
        targets = targets[: -(-settings.batch_size * len(targets) // n_targets)]
        n_batches = 2  # the next one is made while one is trained on
        if model.agrees:
            targets = _with_others(graph, targets, len(targets), part)
    elif model.agrees:
        targets = _with_others(graph, targets, graph.n_nodes, part)
    fanouts = settings.fanouts(n_hops)
    reach = _reach(graph, targets, n_hops, fanouts, part)
    if n_batches > 1 or fanouts is not None:
        n_watched = 0  # no larger than a training batch, and not at the same time
    own = _training_bytes(graph, settings, model, n_replicas, reach, part)
    batch = _batch_bytes(graph, reach, part)
    held, summing = batch * (n_batches - 1), 0
    if n_watched:
        watched_reach = _reach(graph, watched, n_hops, None, part)
        held += _batch_bytes(graph, watched_reach, part)
        if n_hops:
            # Features that are summed beforehand lie beside those that they will replace.
            summing = batch + _feature_bytes(graph, watched_reach.n_within[-2])
    kept = _scaled_bytes(graph)
    return MemoryEstimate(
        resident=resident_memory(),
        scaling=_scaling_bytes(graph),
        training=kept + held + max(own, summing),
        prediction=_prediction_bytes(graph, program, n_replicas, part),
    )


def settle_batches(
    graph: Graph,
    settings: Settings,
    n_replicas: int,
    *,
    auto: bool = True,
    part: ProcessPart | None = None,
) -> tuple[Settings, str]:
    """The settings to train with, and what to tell about memory.

    Where full-batch training would not fit the memory that is available, mini-batches take its
    place; without `auto` that is an error. Settings that say how to batch stay as they are. Several
    processes, each with its part, come to the same settings.
    """
    n_numbers, free = n_numbers_of(graph), available_memory()
    if part is None:
        n_values = graph.n_nodes * (sum(settings.hidden) + graph.n_classes) * n_replicas
        is_small = n_numbers < _SMALL and _PLENTY * (n_numbers + n_values) < free
    else:  # all processes have to come to the same
        is_small = part.add_up(n_numbers) < _SMALL
    if is_small:
        return settings, ""
    estimate = estimate_memory(graph, settings, n_replicas, part)
    need = Need(estimate.total, estimate.more, free)
    if part is not None:
        need = part.tightest(need)
    said = f"{in_units(need.total)} of memory needed, {in_units(need.free)} available{need.where}"
    if need.more <= need.free or settings.batch_size is not None:
        return settings, f"about {said}"
    if not auto:
        raise ValueError(
            naming(
                "training must fit the memory, but about {}: use {batch_size} and {fanout}", said
            )
        )
    values = settings.to_json()
    values["batch_size"] = AUTO_BATCH_SIZE
    if settings.propagation != "chebyshev":
        values["fanout"] = AUTO_FANOUT
    changed = Settings.from_json(values)
    shown = "all" if changed.fanout == "all" else ",".join(map(str, changed.fanout))
    chosen = f"({{batch_size:{changed.batch_size}}} {{fanout:{shown}}})"
    return changed, naming(
        f"the full batch does not fit, about {{}}: training in mini-batches instead {chosen}", said
    )


def n_numbers_of(graph: Graph) -> int:
    """Numbers that a graph is made of: its edges and what its features hold."""
    return int(graph.adjacency.indptr[-1]) + _n_feature_numbers(graph)


def _n_feature_numbers(graph: Graph) -> int:
    if graph.features is None:
        return 0
    if sp.issparse(graph.features):
        return int(graph.features.indptr[-1])
    return int(np.prod(graph.features.shape, dtype=np.int64))


def _reach(
    graph: Graph,
    targets: IntArray,
    n_hops: int,
    fanouts: tuple[int, ...] | None,
    part: ProcessPart | None,
) -> _Reach:
    """How many rows lie within each hop, looked at in pieces: the graph may be on disk."""
    n_own = graph.n_nodes if part is None else part.n_own
    if fanouts is not None:
        return _sampled_reach(graph, len(targets), fanouts, n_own)
    is_seen = np.zeros(graph.n_nodes, dtype=bool)
    is_seen[targets] = True
    counts, ring = [int(is_seen.sum())], targets
    for _ in range(n_hops):
        if part is None and counts[-1] == n_own:
            counts.append(counts[-1])
            continue
        before = is_seen.copy()
        for first in range(0, len(ring), _ROWS_AT_A_TIME):
            _mark_neighbours(graph.adjacency, ring[first : first + _ROWS_AT_A_TIME], is_seen)
        if part is not None:
            # What the others' targets reach here is computed here.
            is_seen[part.lent(n_own + np.flatnonzero(is_seen[n_own:]))] = True
        ring = np.flatnonzero(is_seen[:n_own] & ~before[:n_own])
        counts.append(counts[-1] + len(ring))
    lengths = np.diff(graph.adjacency.indptr)
    n_entries = int(lengths[is_seen].sum())
    if part is not None:  # the rows of the last hop sum over nothing, and are not kept
        n_entries -= int(lengths[ring].sum()) if n_hops else n_entries
    return _Reach(tuple(counts), n_entries, int(is_seen[n_own:].sum()))


def _with_others(
    graph: Graph, targets: IntArray, n_others: int, part: ProcessPart | None
) -> IntArray:
    """The targets and so many other nodes, whichever."""
    n_own = graph.n_nodes if part is None else part.n_own
    others = np.setdiff1d(np.arange(min(n_own, n_others + len(targets))), targets)
    return np.concatenate([targets, others[:n_others]])


def _sampled_reach(graph: Graph, n_rows: int, fanouts: tuple[int, ...], n_own: int) -> _Reach:
    """The same of samples, on average: which rows they have is not known before."""
    n_entries, counts = 0, [n_rows]
    mean = int(graph.adjacency.indptr[-1]) / max(1, n_own)
    for fanout in fanouts:
        taken = int(n_rows * min(fanout, mean))
        n_entries += taken
        n_rows = min(n_own, n_rows + taken)
        counts.append(n_rows)
    return _Reach(tuple(counts), n_entries, min(graph.n_nodes - n_own, n_entries))


def _mark_neighbours(
    adjacency: sp.csr_array, rows: IntArray, is_seen: npt.NDArray[np.bool_]
) -> None:
    found = kernels.select().sample_rows(adjacency.indptr, adjacency.indices, None, rows)
    is_seen[found.columns] = True


def _dense_width(graph: Graph) -> int:
    is_dense = graph.features is not None and not sp.issparse(graph.features)
    return graph.n_features if is_dense else 0


def _scaled_bytes(graph: Graph) -> int:
    """The scaled copy of the features, which those that are read row by row do without."""
    if graph.reads_rows or graph.folder is not None:
        return 0
    return _n_feature_numbers(graph) * (8 if sp.issparse(graph.features) else 4)


def _scaling_bytes(graph: Graph) -> int:
    """Statistics of the columns in double precision, with the squares beside the numbers."""
    if graph.reads_rows or graph.folder is not None:
        return 3 * 8 * (1 << 22)
    return _n_feature_numbers(graph) * (24 if sp.issparse(graph.features) else 16)


def _batch_bytes(graph: Graph, reach: _Reach, part: ProcessPart | None) -> int:
    """What a batch keeps: rows, degrees, its part of the adjacency matrix, its features."""
    # Indices and values, and what is left of the counts by which blocks are cut out; of a part,
    # the transposed matrix as well.
    matrix = (10 if part is None else _PART_ENTRY_BYTES) * reach.n_entries
    if 4 * reach.n_within[-1] > kernels.NEAR_BYTES:
        matrix += 4 * reach.n_entries  # the scale of each
    # Which rows travel is known for each hop, where they come from and where they go to.
    exchanges = reach.n_halo * 2 * 16 * (len(reach.n_within) - 1)
    n_rows = reach.n_within[-1]
    return matrix + exchanges + 24 * n_rows + _feature_bytes(graph, n_rows)


def _feature_bytes(graph: Graph, n_rows: int) -> int:
    """The features of some rows; of sparse ones, indices and values of as many a row as in all."""
    if graph.features is None or not sp.issparse(graph.features):
        return 4 * n_rows * _dense_width(graph)
    n_own = _n_feature_numbers(graph) * n_rows // max(1, int(graph.features.shape[0]))
    n_whole = n_rows * graph.n_features
    return 4 * n_whole if n_own >= SPARSE_BELOW * n_whole else 8 * n_own


def _training_bytes(
    graph: Graph,
    settings: Settings,
    model: Model,
    n_replicas: int,
    reach: _Reach,
    part: ProcessPart | None,
) -> int:
    """A batch, its activations with their gradients, and the weights with Adam's moments."""
    program = model.program
    n_in_first = reach.n_within[-1]
    n_at_once = n_replicas
    if part is None and settings.is_full_batch(len(graph.train_index)):
        of_thread = max(1, TEAM_SIZE // model.n_copies)
        n_at_once = min(n_replicas, of_thread * kernels.select().get_threads())
    # Dense features are dropped out into a copy, that of one replica at a time.
    numbers = n_in_first * _dense_width(graph)
    sizes = [
        value.n_terms * value.width * reach.n_within[min(hops, len(reach.n_within) - 1)]
        for value, hops in program.hops.items()
        if not isinstance(value, Features | Dropped | Term)
        and not _is_added_at_once(program, value)
    ]
    # Each value, or its gradient; and the largest twice, while its gradient is made.
    numbers += n_at_once * model.n_copies * (sum(sizes) + max(sizes))
    if part is not None:
        # The rows with those of the halo after them, and the gradient of that; the rows that come
        # and about as many that go, which are copied once more on the way.
        widest = max(value.width for value in program.values if isinstance(value, Neighbours))
        numbers += widest * n_at_once * (2 * (n_in_first + reach.n_halo) + 4 * reach.n_halo)
    n_weights = sum(math.prod(own.shape) for own in program.parameters)
    # Of each replica its weights, Adam's moments and the best weights; of those that train also the
    # gradient, and all of it once more where they are not all.
    numbers += n_weights * (4 * n_replicas + n_at_once * (1 if n_at_once == n_replicas else 4))
    if model.n_copies > 1:  # each has the weights, and a gradient for them
        numbers += 2 * n_weights * n_at_once * model.n_copies
    return _batch_bytes(graph, reach, part) + 4 * numbers


def _is_added_at_once(program: Program, value: Value) -> bool:
    """Whether a value is a sum or a product with a bias, which the same step adds."""
    if not isinstance(value, Bias):
        return False
    (inner,) = value.inputs
    return isinstance(inner, Neighbours | Product) and program.users[inner] == [value]


def _prediction_bytes(
    graph: Graph, program: Program, n_replicas: int, part: ProcessPart | None
) -> int:
    """All rows at once, or what is written down of all rows where it is done in blocks."""
    if graph.folder is not None:
        numbers = graph.n_nodes * n_replicas * _most_written(program)
        if part is not None:
            numbers += part.n_collected * n_replicas * program.output.width
        return min(4 * numbers, available_memory() // 2) + 12 * graph.n_nodes
    scaled = 2 * _n_feature_numbers(graph) * (4 if not sp.issparse(graph.features) else 8)
    widest = max((product.n_terms + 3) * product.width for product in program.products)
    return scaled + 4 * graph.n_nodes * n_replicas * widest


def _most_written(program: Program) -> int:
    """Columns of all values that prediction in blocks has at a time, where they are most."""
    stages, last_use = stages_of(program), last_stages(program, program.output)
    return max(
        sum(
            value.width
            for value in program.values
            if stages[value] <= stage <= last_use[value]
            and is_written(value, stages[value], last_use)
        )
        for stage in range(stages[program.output] + 1)
    )
