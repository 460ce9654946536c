"""Epochs on what users bring: dense features, wide layers, a large graph; ours and others'.

Three shapes of data, made by a seed. Every library takes turns with ours in one process; an epoch
is a step of training and a pass over the validation nodes, full batch, dropout 0.5.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F  # noqa: N812  (as everywhere in torch's world)

from graphconv import Graph, Settings
from graphconv.engine.replicas import Replicas
from graphconv.graph import adjacency_from_edges
from graphconv.kernels import native
from graphconv.training.fit import build_model, full_batches
from kernels import best, copy_bandwidth

Epoch = Callable[[int], Any]
NEAR_BYTES = 1 << 25  # what the caches hold together


@dataclass(frozen=True)
class Shape:
    """A graph of a kind, and the model that is customary for it."""

    n_nodes: int
    n_edges: int
    n_features: int
    hidden: tuple[int, ...]
    n_classes: int
    n_train: int
    n_validation: int = 500
    full: float = 1.0  # share of features that are not zero
    goal: float = 1.0  # how many times as long plain torch should take

    def graph(self) -> Graph:
        rng = np.random.default_rng(0)
        n = self.n_nodes
        sources = rng.integers(n, size=self.n_edges)
        targets = (rng.pareto(1.5, size=self.n_edges) * n / 20).astype(np.int64) % n
        features = rng.standard_normal((n, self.n_features)).astype(np.float32)
        if self.full < 1:
            features *= rng.random(features.shape) < self.full
        order = rng.permutation(n)
        return Graph(
            adjacency_from_edges(sources, targets, n_nodes=n),
            features,
            rng.integers(self.n_classes, size=n),
            train_index=np.sort(order[: self.n_train]),
            validation_index=np.sort(order[self.n_train : self.n_train + self.n_validation]),
        )


SHAPES = {
    "large": Shape(169_343, 1_170_000, 128, (256, 256), 40, 90_941, 29_799, goal=3),
    "embeddings": Shape(20_000, 100_000, 384, (64,), 10, 200, goal=12),
    "third full": Shape(7_650, 119_000, 745, (64,), 8, 160, full=1 / 3, goal=10),
}


@dataclass
class Ours:
    """An epoch by the kernels, one after the other."""

    graph: Graph
    hidden: tuple[int, ...]
    kernels: ModuleType = native
    settings: dict[str, Any] = field(default_factory=dict)
    _team: Any = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(hidden=self.hidden, scaling="none", dropout=0.5, **self.settings)
        network = build_model(self.graph, settings, [0])
        network.kernels = network.processor_kernels = self.kernels
        self._batches = full_batches(self.graph, settings, network, self.graph.features)
        self._team = Replicas(network, settings).take(np.arange(1), 0)

    def __call__(self, epoch: int) -> None:
        training, validation = self._batches
        objective = self._team.objective
        slopes, *_ = objective.gradients(training, epoch)
        self._team.optimiser.step(slopes)
        if validation is not None:
            objective.evaluate(validation)


class Counted(ModuleType):
    """The native kernels, which count the work that must be done: flops, and bytes that move."""

    def __init__(self) -> None:
        super().__init__("graphconv.kernels.native")
        self.flops = self.bytes = 0.0

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(native, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            result = kernel(*arguments, **options)
            self._count(name, arguments, result, options)
            return result

        return counted

    def _count(self, name: str, given: tuple[Any, ...], result: Any, options: Any) -> None:
        if name.startswith("propagate"):
            rows, dense = given[:2]
            n = int((rows.end - rows.begin).sum())
            # A table past the caches is fetched a row for each neighbour, another one once.
            read = n if dense.nbytes > NEAR_BYTES else len(dense)
            self.flops += 2 * n * result.shape[1]
            self.bytes += read * dense[0].nbytes + 4 * n + result.nbytes
        elif name in ("feature_product", "feature_product_transposed", "packed_product"):
            rows = given[0].pieces if name == "packed_product" else given[0]
            dropout = given[{"feature_product": 2, "feature_product_transposed": 3}.get(name, -1)]
            kept = dropout.threshold / 65536 if hasattr(dropout, "threshold") else 1.0
            n = int((rows.end - rows.begin).sum())
            self.flops += 2 * kept * n * given[1].shape[1]
            self.bytes += 8 * n + given[1].nbytes + result.nbytes
        elif name in ("wide_product", "hidden_product"):
            self.flops += 2 * len(given[0]) * given[1].size
            self.bytes += given[0].nbytes + result.nbytes
        elif name in ("wide_product_backward", "hidden_product_backward"):
            n_gradients = 1 + (result[0] is not None)
            self.flops += 2 * n_gradients * len(given[1]) * given[2].size
            self.bytes += given[0].nbytes + n_gradients * given[1].nbytes
        elif name.startswith("dropout_dense"):
            self.bytes += 2 * result.nbytes
        elif name == "normalise_rows":
            arrays = [own for own in given[:1] + given[5:] if own is not None]
            self.bytes += result.nbytes + sum(own.nbytes for own in arrays)
        elif name == "normalise_rows_backward":
            self.bytes += 3 * result[0].nbytes


class TorchCsr:
    """Thirty lines of torch: dense features, a normalised CSR adjacency matrix."""

    def __init__(self, graph: Graph, hidden: tuple[int, ...], compiled: bool = False) -> None:
        torch.manual_seed(0)
        self.features = torch.from_numpy(np.asarray(graph.features))
        self.adjacency = normalised(graph)
        self.targets = [
            (torch.from_numpy(index), torch.from_numpy(graph.labels[index]))
            for index in (graph.train_index, graph.validation_index)
        ]
        self.build([graph.n_features, *hidden, graph.n_classes])
        self.optimiser = torch.optim.Adam(self.parameters, lr=0.01)
        if compiled:  # mypy: one object's method is replaced, on purpose
            self.forward = torch.compile(self.forward)  # type: ignore[method-assign]

    def build(self, widths: list[int]) -> None:
        self.weights = [
            torch.nn.Parameter(torch.nn.init.xavier_uniform_(torch.empty(pair)))
            for pair in itertools.pairwise(widths)
        ]
        self.biases = [torch.nn.Parameter(torch.zeros(width)) for width in widths[1:]]
        self.parameters = [*self.weights, *self.biases]

    def layer(self, k: int, h: torch.Tensor) -> torch.Tensor:
        return self.adjacency @ (h @ self.weights[k]) + self.biases[k]

    def forward(self, training: bool) -> torch.Tensor:
        h = self.features
        for k in range(len(self.weights)):
            h = self.layer(k, F.dropout(h, 0.5, training))
            h = F.relu(h) if k < len(self.weights) - 1 else h
        return h

    def __call__(self, epoch: int) -> None:
        (train, wanted), (validation, held) = self.targets
        self.optimiser.zero_grad()
        F.cross_entropy(self.forward(True)[train], wanted).backward()
        self.optimiser.step()
        with torch.no_grad():
            F.cross_entropy(self.forward(False)[validation], held).item()


class PygCsr(TorchCsr):
    """PyG's GCNConv on the same adjacency matrix."""

    def build(self, widths: list[int]) -> None:
        from torch_geometric.nn import GCNConv

        pairs = itertools.pairwise(widths)
        self.layers = [GCNConv(*pair, normalize=False) for pair in pairs]
        self.weights = [own.lin.weight for own in self.layers]
        self.parameters = [own for layer in self.layers for own in layer.parameters()]

    def layer(self, k: int, h: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers[k](h, self.adjacency)
        return out


class TorchSparse(TorchCsr):
    """The product of torch-sparse, which PyG's own matrices use; it has to be compiled."""

    def build(self, widths: list[int]) -> None:
        from torch_sparse import SparseTensor

        super().build(widths)
        self.adjacency = SparseTensor.from_torch_sparse_csr_tensor(self.adjacency)


class JaxBcoo:
    """JAX: the adjacency matrix as BCOO, the whole step compiled."""

    def __init__(self, graph: Graph, hidden: tuple[int, ...]) -> None:
        import jax
        import jax.numpy as jnp
        from jax.experimental import sparse

        adjacency = sparse.BCOO.from_scipy_sparse(scaled_adjacency(graph))
        features = jnp.asarray(graph.features)
        widths = [graph.n_features, *hidden, graph.n_classes]
        keys = jax.random.split(jax.random.key(0), len(widths))
        start = jax.nn.initializers.glorot_uniform()
        pairs = list(itertools.pairwise(widths))
        layers = [
            (start(k, pair), jnp.zeros(pair[1])) for k, pair in zip(keys, pairs, strict=False)
        ]
        zeros = jax.tree.map(jnp.zeros_like, layers)
        self.state: Any = (layers, zeros, zeros)
        train, validation = graph.train_index, graph.validation_index
        labels = jnp.asarray(graph.labels)

        def loss(layers: Any, index: Any, key: Any) -> Any:
            h = features
            for k, (weight, bias) in enumerate(layers):
                if key is not None:
                    kept = jax.random.bernoulli(jax.random.fold_in(key, k), 0.5, h.shape)
                    h = jnp.where(kept, 2 * h, 0)
                h = adjacency @ (h @ weight) + bias
                h = jax.nn.relu(h) if k < len(layers) - 1 else h
            found = jax.nn.log_softmax(h[index])
            return -jnp.take_along_axis(found, labels[index][:, None], 1).mean()

        @jax.jit
        def step(state: Any, epoch: Any) -> Any:
            layers, mean, square = state
            slopes = jax.grad(loss)(layers, train, jax.random.key(epoch))
            mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slopes)
            square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, slopes)
            t = epoch + 1.0

            def moved(own: Any, m: Any, s: Any) -> Any:
                root = jnp.sqrt(s / (1 - 0.999**t)) + 1e-8
                return own - 0.01 * m / (1 - 0.9**t) / root

            layers = jax.tree.map(moved, layers, mean, square)
            return (layers, mean, square), loss(layers, validation, None)

        self.step = step

    def __call__(self, epoch: int) -> None:
        self.state, loss = self.step(self.state, epoch)
        loss.block_until_ready()


def scaled_adjacency(graph: Graph) -> sp.csr_matrix:
    looped = sp.csr_matrix(graph.adjacency + sp.eye_array(graph.n_nodes))
    scale = sp.diags(np.asarray(looped.sum(axis=1)).ravel() ** -0.5)
    return sp.csr_matrix(scale @ looped @ scale, dtype=np.float32)


def normalised(graph: Graph) -> torch.Tensor:
    matrix = scaled_adjacency(graph)
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
    )


PEERS: dict[str, tuple[Callable[..., Epoch], int]] = {
    "torch CSR, 1 thread": (TorchCsr, 1),
    "torch CSR, 2 threads": (TorchCsr, 2),
    "torch CSR, compiled": (lambda *given: TorchCsr(*given, compiled=True), 2),
    "PyG CSR": (PygCsr, 2),
    "PyG CSR, compiled": (lambda *given: PygCsr(*given, compiled=True), 2),
    "torch-sparse": (TorchSparse, 2),
    "JAX BCOO": (JaxBcoo, 2),
}


def shapes(quick: bool) -> dict[str, Any]:
    """Seconds of an epoch of each shape in each library, and how near ours is to the machine."""
    speed = machine_speed()
    results: dict[str, Any] = {"speed": speed, "rows": {}}
    for name, shape in SHAPES.items():
        if quick and name == "large":
            continue
        graph = shape.graph()
        ours = Ours(graph, shape.hidden)
        n = 2 if name == "large" else 7
        # Before others come, whose threads stay awake for a while after their turn.
        alone = epoch_seconds(ours, 3 * n)
        row: dict[str, Any] = {"goal": shape.goal, "alone": alone, "peers": {}, "missing": {}}
        own: list[float] = []
        for peer, (make, n_threads) in PEERS.items():
            try:
                theirs = make(graph, shape.hidden)
                seconds, before = turns(ours, theirs, n, n_threads)
            except Exception as error:  # a library that is not there, or cannot do this
                row["missing"][peer] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                continue
            own += before
            ratio = float(np.median(np.divide(seconds, before)))
            row["peers"][peer] = {"seconds": float(np.median(seconds)), "ratio": ratio}
        row["seconds"] = float(np.median(own))
        row["ratio"] = min(
            row["peers"][f"torch CSR, {k}"]["ratio"] for k in ("1 thread", "2 threads")
        )
        row["fastest_peer"] = min(row["peers"], key=lambda peer: row["peers"][peer]["ratio"])
        row.update(attainable(graph, shape.hidden, speed, alone))
        results["rows"][name] = row
    return results


def epoch_seconds(ours: Epoch, n: int) -> float:
    """The median of n epochs in a row, after a first one."""
    seconds = []
    for epoch in range(n + 1):
        begin = time.perf_counter()
        ours(epoch)
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds[1:]))


def turns(ours: Epoch, theirs: Epoch, n: int, n_threads: int) -> tuple[list[float], list[float]]:
    """Seconds of epochs that take turns: theirs, and ours before each."""
    seconds: list[float] = []
    before: list[float] = []
    torch.set_num_threads(n_threads)
    theirs(0)
    for epoch in range(n):
        ours(epoch)  # the caches are full of the other's data
        for call, to in ((ours, before), (theirs, seconds)):
            begin = time.perf_counter()
            call(epoch + 1)
            to.append(time.perf_counter() - begin)
    return seconds, before


DEEP = {"propagation": "first-order", "normalisation": "layer", "residual": True}
MODELS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "GCN, hidden 64": ((64,), {}),
    "deep block, three layers of 32": ((32,) * 3, DEEP),
    "deep block, six layers of 64": ((64,) * 6, DEEP),
    "APPNP, hidden 64, ten steps": ((64,), {"model": "appnp"}),
    "GRAND, hidden 32, ten steps, four copies": ((32,), {"model": "grand", "steps": 10}),
}


def grid_graph(side: int, n_features: int = 7) -> Graph:
    """Nodes of a square, each a neighbour of the eight around it; half of them are labelled."""
    rng = np.random.default_rng(0)
    ids = np.arange(side * side).reshape(side, side)
    right, down = (ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])
    slanted = (ids[:-1, :-1], ids[1:, 1:]), (ids[:-1, 1:], ids[1:, :-1])
    sources, targets = (
        np.concatenate([pair[end].ravel() for pair in (right, down, *slanted)]) for end in (0, 1)
    )
    order = rng.permutation(ids.size)
    return Graph(
        adjacency_from_edges(sources, targets, n_nodes=ids.size),
        rng.random((ids.size, n_features)).astype(np.float32),
        rng.integers(2, size=ids.size),
        train_index=np.sort(order[: ids.size // 2]),
        validation_index=np.sort(order[ids.size // 2 : 3 * ids.size // 4]),
    )


def models(quick: bool) -> dict[str, Any]:
    """Seconds of an epoch of models other than a GCN, and how near they are to the machine."""
    speed = machine_speed()
    graph = grid_graph(30 if quick else 100)
    results: dict[str, Any] = {"speed": speed, "n_nodes": graph.n_nodes, "rows": {}}
    for name, (hidden, settings) in MODELS.items():
        ours = Ours(graph, hidden, settings=settings)
        seconds = epoch_seconds(ours, 1 if quick else 30)
        own = attainable(graph, hidden, speed, seconds, settings)
        results["rows"][name] = {"seconds": seconds, **own}
    return results


def attainable(
    graph: Graph,
    hidden: tuple[int, ...],
    speed: dict[str, float],
    seconds: float,
    settings: dict[str, Any] | None = None,
) -> dict[str, float]:
    """The time that flops and bytes of an epoch would take at the machine's speed."""
    counted = Counted()
    epoch = Ours(graph, hidden, counted, settings or {})
    epoch(0)
    counted.flops = counted.bytes = 0.0
    epoch(1)
    least = counted.flops / speed["flops"] + counted.bytes / speed["bytes"]
    return {
        "flops": counted.flops,
        "bytes": counted.bytes,
        "attainable_seconds": least,
        "share": least / seconds,
    }


def machine_speed() -> dict[str, float]:
    """Flops a second of torch's dense product and of ours, bytes a second of copying; all cores."""
    size, n_threads = 2048, native.get_threads()
    left, right = torch.randn(2, size, size)
    weight = np.ascontiguousarray(right.numpy().reshape(size, 1, 1, size))
    torch.set_num_threads(n_threads)
    theirs = 2 * size**3 / best(lambda: left @ right, 5)
    own = 2 * size**3 / best(lambda: native.wide_product(left.numpy(), weight), 5)
    # What ours reach counts, where that is more than torch's do: the share is then the smaller.
    return {
        "flops": max(own, theirs),
        "torch_flops": theirs,
        "bytes": copy_bandwidth(2**28, n_threads),
    }
