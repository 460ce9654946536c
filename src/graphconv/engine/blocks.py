"""Exact inference in bounded memory: every layer for all nodes, one block of rows after another.

A trained GCN and a graph enter, what the model computes for every node leaves: equal to
`model(make_batch(graph))` up to rounding, for every rule. A layer's input is projected first, which
makes it narrow; then each block of rows sums over its neighbours, is activated and goes straight
into the next layer's projection. So no more than two narrow arrays of all nodes exist at a time
(and the hidden layer, with residual connections; and two more, with the Chebyshev rule). Those that
do not fit the memory given lie in unnamed files.
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
import torch

from graphconv.graph import Graph
from graphconv.graph.mapping import release
from graphconv.graph.scaling import FeatureScaler, StoredFeatures
from graphconv.kernels import Csr
from graphconv.models.gcn import GCN, GraphConvolution
from graphconv.storage.memory import available_memory

Array = npt.NDArray[Any]
# Numbers of a block of rows, of the widest of its arrays.
BLOCK_NUMBERS = 1 << 22
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": torch.nn.functional.elu,
    "none": lambda value: value,
}


def run_in_blocks(
    model: GCN,
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
    model : GCN
    graph : Graph
        In memory or stored.
    scaler : FeatureScaler
    embed : bool
    memory : int, optional
        Bytes for arrays with a row a node; what is beyond goes to files. Default: half of the
        memory that is available.
    scratch : Path, optional
        Folder for those files. Default: the system's for temporary files.
    advance : callable, optional
        Told how many more rows of a layer are computed; a layer has as many as there are nodes.
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
    >>> logits = run_in_blocks(fitted.model, fitted.graph, fitted.scaler)
    >>> shares = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    >>> bool(np.allclose(shares, fitted.probabilities(), atol=1e-6))
    True
    """
    budget = available_memory() // 2 if memory is None else memory
    space = Space(budget, scratch)
    run = _Run(model, graph, scaler, space, advance or (lambda n_rows: None), halo)
    with torch.no_grad():
        values = run.layers(len(model.layers) - 1 if embed else len(model.layers))
    return cast(npt.NDArray[np.float32], values.reshape(graph.n_nodes, len(model.seeds), -1))


class Halo(Protocol):
    """Rows of nodes whose layers another process computes."""

    n_own: int  # rows before them, to be computed here

    def fill(self, rows: Array) -> None:
        """Put the others' rows after this process's own, which the others get."""


class Space:
    """Arrays with a row a node: in memory as long as they fit, then in files without a name."""

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
    """One pass of a model over a graph."""

    def __init__(
        self,
        model: GCN,
        graph: Graph,
        scaler: FeatureScaler,
        space: Space,
        advance: Callable[[int], None],
        halo: Halo | None = None,
    ) -> None:
        self.model = model
        self.graph = graph
        self.halo = halo
        self.n_rows = graph.n_nodes if halo is None else halo.n_own
        self.rule = model.propagation.rule
        self.kernels = model.propagation.kernels
        self.space = space
        self.advance = advance
        self.features = None if graph.features is None else StoredFeatures(graph.features, scaler)
        adjacency = graph.adjacency
        self.values = adjacency.data if graph.is_weighted else None
        self.scales = self._scales()

    def layers(self, n_layers: int) -> Array:
        layers = [cast(GraphConvolution, layer) for layer in self.model.layers]
        projected = self._project_features(layers[0])
        hidden: Array | None = None
        for depth in range(n_layers):
            layer = layers[depth]
            is_last = depth == len(layers) - 1
            summed = self._chebyshev_sums(projected) if self.rule == "chebyshev" else projected
            n_out = layer.weight.shape[2] * layer.weight.shape[3]
            feeds = depth + 1 < n_layers
            keeps = not feeds or (self.model.residual and not is_last)
            output = self.space.new(self.graph.n_nodes, n_out) if keeps else None
            following = self._new_terms(layers[depth + 1]) if feeds else []
            self._complete(summed)
            for block in self._blocks(n_out):
                value = torch.from_numpy(self._propagate(summed, block))
                if layer.bias is not None:
                    value += layer.bias.detach().reshape(-1)
                if not is_last:
                    value = _ACTIVATIONS[self.model.activation](value)
                    if self.model.residual and hidden is not None and hidden.shape[1] == n_out:
                        value = value + torch.from_numpy(hidden[block])
                if output is not None:
                    output[block] = value.numpy()
                if feeds:
                    self._project(layers[depth + 1], value, following, block)
                self._let_go(*summed, *following, output, hidden)
                self.advance(len(value))
            for array in {id(array): array for array in (*projected, *summed, hidden)}.values():
                if array is not None:
                    self.space.give_back(array)
            projected, hidden = following, output
        assert hidden is not None
        return hidden

    def _blocks(self, width: int) -> Iterator[slice]:
        n_rows = max(256, BLOCK_NUMBERS // max(1, width))
        for first in range(0, self.n_rows, n_rows):
            yield slice(first, min(first + n_rows, self.n_rows))

    def _complete(self, terms: list[Array]) -> None:
        """Fetch the rows of other processes of the term whose neighbours are summed next."""
        if self.halo is not None and self.rule != "none":
            has_own_term = self.rule in ("chebyshev", "first-order") and len(terms) > 1
            self.halo.fill(terms[1] if has_own_term else terms[0])

    def _let_go(self, *arrays: Array | None) -> None:
        adjacency = self.graph.adjacency
        release(adjacency.indices, *(array for array in arrays if array is not None))
        if self.values is not None:
            release(self.values)

    def _new_terms(self, layer: GraphConvolution) -> list[Array]:
        _, n_terms, n_replicas, n_out = layer.weight.shape
        return [self.space.new(self.graph.n_nodes, n_replicas * n_out) for _ in range(n_terms)]

    def _project_features(self, layer: GraphConvolution) -> list[Array]:
        """X Theta_k for every term k, each of shape (n_nodes, n_replicas * n_out)."""
        n_in, n_terms, _, _ = layer.weight.shape
        weight = layer.weight.detach().reshape(n_in, -1)
        if self.features is None:
            if self.halo is not None:  # a part's ids are positions in the whole graph
                weight = weight[torch.from_numpy(np.asarray(self.graph.node_ids))]
            return [np.ascontiguousarray(part) for part in np.split(weight.numpy(), n_terms, 1)]
        terms = self._new_terms(layer)
        for block in self._blocks(n_in):
            rows = self.features.take(block)
            if sp.issparse(rows):
                csr = Csr(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data)
                product = self.kernels.feature_product(csr, weight.numpy())
            else:
                product = (torch.from_numpy(rows) @ weight).numpy()
            for term, part in zip(terms, np.split(product, n_terms, axis=1), strict=True):
                term[block] = part
            stored = self.features.features
            release(*((stored.indices, stored.data) if sp.issparse(stored) else (stored,)), *terms)
        return terms

    def _project(
        self, layer: GraphConvolution, hidden: torch.Tensor, terms: list[Array], block: slice
    ) -> None:
        """H Theta_k of a block of rows, replica by replica, into the arrays of the terms."""
        n_in, n_terms, n_replicas, n_out = layer.weight.shape
        for replica in range(n_replicas):
            own = hidden[:, replica * n_in : (replica + 1) * n_in]
            columns = slice(replica * n_out, (replica + 1) * n_out)
            for k in range(n_terms):
                terms[k][block, columns] = (own @ layer.weight.detach()[:, k, replica]).numpy()

    def _scales(self) -> list[tuple[float, Array, Array | None]]:
        """Self-loop weight, row scale and column scale, one for all replicas or one for each."""
        propagation = self.model.propagation
        weights = propagation.self_loop_weight if self.rule == "renormalised" else [0.0]
        if len(set(weights)) == 1:
            weights = weights[:1]
        scales: list[tuple[float, Array, Array | None]] = []
        for weight in weights:
            total = self.graph.degree.astype(np.float32) + np.float32(weight)
            smallest = np.finfo(np.float32).tiny
            inverse = np.divide(1, total, out=np.zeros_like(total), where=total > smallest)
            if propagation.directed:
                scales.append((weight, inverse, None))
            else:
                root = np.sqrt(inverse)
                scales.append((weight, root, root))
        return scales

    def _normalised(self, x: Array, block: slice) -> Array:
        """The block's rows of S x, or of the renormalised rule, self-loops included."""
        if len(self.scales) == 1:
            return self._neighbour_sum(x, block, *self.scales[0])
        parts = np.split(x, len(self.scales), axis=1)
        return np.hstack(
            [
                self._neighbour_sum(np.ascontiguousarray(part), block, *scale)
                for part, scale in zip(parts, self.scales, strict=True)
            ]
        )

    def _neighbour_sum(
        self, x: Array, block: slice, weight: float, row_scale: Array, column_scale: Array | None
    ) -> Array:
        adjacency = self.graph.adjacency
        bounds = np.asarray(adjacency.indptr[block.start : block.stop + 1])
        entries = slice(int(bounds[0]), int(bounds[-1]))
        local = (bounds - bounds[0]).astype(adjacency.indices.dtype)
        values = None if self.values is None else self.values[entries]
        rows = Csr(local[:-1], local[1:], adjacency.indices[entries], values)
        out: Array = self.kernels.propagate(rows, x, row_scale[block], column_scale, 0.0)
        if weight:
            own = row_scale[block] if column_scale is None else row_scale[block] ** 2
            out += (np.float32(weight) * own)[:, None] * x[block]
        return out

    def _propagate(self, terms: list[Array], block: slice) -> Array:
        """The rule applied to a block of rows; Chebyshev's terms are its last two sums."""
        if self.rule == "none":
            return terms[0][block].copy()
        if self.rule == "chebyshev":
            if len(terms) == 1:
                return terms[0][block].copy()
            first, latest, later = terms
            return first[block] + self._laplacian(latest, block) - later[block]
        if self.rule == "first-order":
            return terms[0][block] + self._normalised(terms[1], block)
        summed = self._normalised(terms[0], block)
        return terms[0][block] + summed if self.rule == "single-parameter" else summed

    def _laplacian(self, x: Array, block: slice) -> Array:
        ratio = np.float32(2 / self.model.propagation.lambda_max)
        return (ratio - 1) * x[block] - ratio * self._normalised(x, block)

    def _chebyshev_sums(self, terms: list[Array]) -> list[Array]:
        """Clenshaw's recurrence down to b_1 and b_2: returns X Theta_0, b_1, b_2."""
        if len(terms) == 1:
            return terms
        n_nodes, width = terms[0].shape
        later, latest = self.space.new(n_nodes, width), terms[-1]
        later[:] = 0
        spare = self.space.new(n_nodes, width) if len(terms) > 2 else later
        for k in range(len(terms) - 2, 0, -1):
            self._complete([terms[0], latest])
            for block in self._blocks(width):
                spare[block] = terms[k][block] + 2 * self._laplacian(latest, block) - later[block]
                self._let_go(spare, latest, later, terms[k])
            # b_(k+2) is not needed any more: the next sum goes there.
            latest, later, spare = spare, latest, later
        return [terms[0], latest, later]
