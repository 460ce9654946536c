"""Exact inference in bounded memory: operations for all nodes, one block of rows after another.

A trained network and a graph enter, what it computes for every node leaves: equal to
`network(make_batch(graph))` up to rounding. The operations fall into stages: a sum over neighbours
needs all rows of its input, so it begins a new stage; whatever else needs only the same row goes on
in the same one. Of a stage, block by block, only what a later stage needs is written down: of a
GCN the narrow, projected values of one layer. Arrays that do not fit the memory given lie in
unnamed files.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.engine._steps import Given
from graphconv.engine.batches import normalising_scales
from graphconv.engine.network import Network
from graphconv.engine.planning import row_step
from graphconv.graph import Graph
from graphconv.graph.mapping import release
from graphconv.graph.scaling import FeatureScaler, StoredFeatures
from graphconv.kernels import Csr
from graphconv.models.operations import (
    Dropped,
    Features,
    Neighbours,
    Parameter,
    Product,
    Program,
    Term,
    Value,
)
from graphconv.storage.memory import available_memory

Array = npt.NDArray[Any]
# Numbers of a block of rows, of the widest of its arrays.
BLOCK_NUMBERS = 1 << 22


def run_in_blocks(
    network: Network,
    graph: Graph,
    scaler: FeatureScaler,
    *,
    embed: bool = False,
    memory: int | None = None,
    scratch: Path | None = None,
    advance: Callable[[int], None] | None = None,
    halo: Halo | None = None,
) -> npt.NDArray[np.float32]:
    """Logits of all nodes, or the activations that enter the last layer.

    Parameters
    ----------
    network : Network
    graph : Graph
        In memory or stored.
    scaler : FeatureScaler
    embed : bool
    memory : int, optional
        Bytes for arrays with a row per node; what is beyond goes to files. Default: half of the
        memory that is available.
    scratch : Path, optional
        Folder for those files. Default: the system's for temporary files.
    advance : callable, optional
        Told how many more rows of a stage are computed; a stage, of which there are
        `n_stages(network)`, has as many as there are nodes.
    halo : Halo, optional
        Where the graph is a part of one, who has the rows of the nodes after its own.

    Returns
    -------
    array of shape (n_nodes, n_replicas, width)

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import load_dataset
    >>> from graphconv.training.fit import fit_gcn
    >>> from graphconv.engine.blocks import run_in_blocks
    >>> fitted = fit_gcn(load_dataset("karate"))
    >>> logits = run_in_blocks(fitted.network, fitted.graph, fitted.scaler)
    >>> probabilities = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    >>> bool(np.allclose(probabilities, fitted.probabilities(), atol=1e-6))
    True
    """
    budget = available_memory() // 2 if memory is None else memory
    space = Space(budget, scratch)
    target = network.program.embedding if embed else network.program.output
    if target is None:
        raise ValueError("a model with a single layer has no hidden activations to embed")
    run = _Run(network, graph, scaler, space, advance or (lambda n_rows: None), halo)
    values = run.value_of(target)
    return cast(npt.NDArray[np.float32], values.reshape(graph.n_nodes, len(network.seeds), -1))


def n_stages(network: Network) -> int:
    """How often `run_in_blocks` goes over all nodes."""
    return max(stages_of(network.program).values()) + 1


def stages_of(program: Program) -> dict[Value, int]:
    """The stage in which each value is computed."""
    stages: dict[Value, int] = {}
    for value in program.values:
        before = max((stages[own] for own in value.inputs), default=0)
        stages[value] = before + isinstance(value, Neighbours)
    return stages


def last_stages(program: Program, target: Value) -> dict[Value, int]:
    """The last stage that needs each of the values that a target depends on."""
    stages = stages_of(program)
    last = {target: stages[target] + 1}  # whoever asked for it
    for value in reversed(program.values):
        for own in value.inputs if value in last else ():
            # What is dropped out is here the value itself.
            until = last[value] if isinstance(value, Dropped) else stages[value]
            last[own] = max(last.get(own, 0), until)
    return last


def is_written(value: Value, stage: int, last_use: dict[Value, int]) -> bool:
    """Whether a value of a stage is needed later; of several terms, each for itself."""
    is_own = value.n_terms == 1 and not isinstance(value, Features | Dropped)
    return is_own and last_use[value] > stage


class Halo(Protocol):
    """Rows of nodes whose layers another process computes."""

    n_own: int  # rows before them, to be computed here

    def fill(self, rows: Array) -> None:
        """Put the others' rows after this process's own, which the others get."""


class Space:
    """Arrays with a row per node: in memory as long as they fit, then in files without a name."""

    def __init__(self, n_bytes: int, scratch: Path | None) -> None:
        self.n_left = n_bytes
        self.scratch = scratch

    def new(self, n_rows: int, width: int) -> Array:
        n_bytes = 4 * n_rows * width
        if n_bytes <= self.n_left or n_bytes == 0:
            self.n_left -= n_bytes
            return np.empty((n_rows, width), dtype=np.float32)
        if self.scratch is not None:
            self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            file.truncate(n_bytes)
            mapped = mmap.mmap(file.fileno(), n_bytes)
        return np.frombuffer(mapped, dtype=np.float32).reshape(n_rows, width)

    def give_back(self, array: Array) -> None:
        if array.base is None:
            self.n_left += array.nbytes


class _Run:
    """One pass of a network over a graph."""

    def __init__(
        self,
        network: Network,
        graph: Graph,
        scaler: FeatureScaler,
        space: Space,
        advance: Callable[[int], None],
        halo: Halo | None = None,
    ) -> None:
        self.network = network
        self.program = network.program
        self.graph = graph
        self.halo = halo
        self.n_rows = graph.n_nodes if halo is None else halo.n_own
        self.space = space
        self.advance = advance
        self.features = None if graph.features is None else StoredFeatures(graph.features, scaler)
        self.edge_weights = graph.adjacency.data if graph.is_weighted else None
        self.arrays: dict[str, Array] = network.parameters
        self.stages = stages_of(self.program)
        self.written: dict[Value, Array] = {}
        self._scales: dict[float, tuple[Array, Array | None]] = {}

    def value_of(self, target: Value) -> Array:
        """A value of all nodes, (n_nodes, n_columns)."""
        last_use = last_stages(self.program, target)
        for stage in range(self.stages[target] + 1):
            self._run_stage(stage, last_use)
            for value, until in last_use.items():
                if until == stage and value in self.written:
                    self.space.give_back(self.written.pop(value))
        return self.written[target]

    def _run_stage(self, stage: int, last_use: dict[Value, int]) -> None:
        todo = [v for v in self.program.values if v in last_use and self.stages[v] == stage]
        kept = [value for value in todo if is_written(value, stage, last_use)]
        for value in kept:
            width = value.width * len(self.network.seeds)
            self.written[value] = self.space.new(self.graph.n_nodes, width)
        if self.halo is not None:
            for value in todo:
                if isinstance(value, Neighbours):
                    self.halo.fill(self._whole(value.inputs[0]))
        for block in self._blocks(max(map(self._read_width, todo))):
            found: dict[Value, Array] = {}
            for value in todo:
                found[value] = self._rows_of(value, block, found)
            for value in kept:
                self.written[value][block] = found[value]
            self._let_go()
            self.advance(block.stop - block.start)

    def _read_width(self, value: Value) -> int:
        """Numbers that a row of an operation takes."""
        if isinstance(value, Features):
            return 1 if self.features is None else value.width
        return value.n_terms * value.width * len(self.network.seeds)

    def _blocks(self, width: int) -> Iterator[slice]:
        n_rows = max(256, BLOCK_NUMBERS // max(1, width))
        for first in range(0, self.n_rows, n_rows):
            yield slice(first, min(first + n_rows, self.n_rows))

    def _let_go(self) -> None:
        release(self.graph.adjacency.indices, *self.written.values())
        if self.edge_weights is not None:
            release(self.edge_weights)
        if self.features is not None:
            stored = self.features.features
            release(*((stored.indices, stored.data) if sp.issparse(stored) else (stored,)))

    def _whole(self, value: Value) -> Array:
        """All rows of a value that was written down."""
        return self.written[value.inputs[0] if isinstance(value, Dropped) else value]

    def _rows_of(self, value: Value, block: slice, found: dict[Value, Array]) -> Array:
        """A block of rows of a value, given those of the same stage."""
        if isinstance(value, Features):
            return np.empty(0)  # read by the product
        if isinstance(value, Neighbours):
            return self._neighbours(value, block)
        if isinstance(value, Product) and self._is_features(value.inputs[0]):
            return self._feature_product(value, block)
        given = tuple(
            found[own] if own in found else np.ascontiguousarray(self._whole(own)[block])
            for own in value.inputs
        )
        if isinstance(value, Dropped):
            return given[0]
        if isinstance(value, Term):
            width = given[0].shape[1] // value.inputs[0].n_terms
            columns = slice(value.place * width, (value.place + 1) * width)
            return np.ascontiguousarray(given[0][:, columns])
        step, parameters = row_step(value, self.network.kernels)
        weights = tuple(self.arrays[own.name] for own in parameters)
        return step.forward(Given(given, weights, None))

    def _is_features(self, value: Value) -> bool:
        while isinstance(value, Dropped):
            (value,) = value.inputs
        return isinstance(value, Features)

    def _feature_product(self, value: Product, block: slice) -> Array:
        weight = self.arrays[value.weight.name]
        if value.gain is not None:
            weight = weight * self.arrays[value.gain.name]
        dense = weight.reshape(len(weight), -1)
        if self.features is None:
            # A part's ids are positions in the whole graph.
            whole = self.halo is None
            return dense[block] if whole else dense[np.asarray(self.graph.node_ids[block])]
        rows = self.features.take(block)
        if sp.issparse(rows):
            csr = Csr(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data)
            return cast(Array, self.network.kernels.feature_product(csr, dense))
        rows = np.ascontiguousarray(rows)
        return cast(Array, self.network.kernels.wide_product(rows, weight))

    def _neighbours(self, value: Neighbours, block: slice) -> Array:
        x = self._whole(value.inputs[0])
        if not isinstance(value.self_loops, Parameter):
            return self._neighbour_sum(x, block, value.self_loops)
        weights = self.network.self_loop_weight
        parts = np.split(x, len(weights), axis=1)
        return np.hstack(
            [self._neighbour_sum(x, block, own) for x, own in zip(parts, weights, strict=True)]
        )

    def _neighbour_sum(self, x: Array, block: slice, weight: float) -> Array:
        if weight not in self._scales:
            degree = self.graph.degree.astype(np.float32)
            directed = self.network.model.graph.directed
            self._scales[weight] = normalising_scales(degree, weight, directed)
        row_scale, column_scale = self._scales[weight]
        adjacency = self.graph.adjacency
        bounds = np.asarray(adjacency.indptr[block.start : block.stop + 1])
        entries = slice(int(bounds[0]), int(bounds[-1]))
        local = (bounds - bounds[0]).astype(adjacency.indices.dtype)
        values = None if self.edge_weights is None else self.edge_weights[entries]
        rows = Csr(local[:-1], local[1:], adjacency.indices[entries], values)
        x = np.ascontiguousarray(x)
        out: Array = self.network.kernels.propagate(rows, x, row_scale[block], column_scale, 0.0)
        if weight:
            own = row_scale[block] if column_scale is None else row_scale[block] ** 2
            out += (np.float32(weight) * own)[:, None] * x[block]
        return out
