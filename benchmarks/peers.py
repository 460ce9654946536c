"""The same training in several libraries: two layers, the paper's settings, a validation pass.

A Graph enters, a Peer leaves: something that trains some epochs and says how long each took, and
that trains to the end and says how many test nodes it labels right. Each is written as its
library's documentation would have it, or better where that is said.
"""

from __future__ import annotations

import importlib
import sys
import time
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F  # noqa: N812  (as everywhere in torch's world)
from torch import Tensor

from graphconv.graph import Graph
from graphconv.graph.scaling import fit_scaler
from graphconv.models.settings import resolve_settings
from graphconv.training.fit import build_model, fit_gcn, full_batches
from graphconv.training.loop import train

N_EPOCHS = 200


class Peer(ABC):
    """A model in training on one graph."""

    name: str
    what: str

    def __init__(self, graph: Graph, preset: str, seed: int) -> None:
        self.graph = graph
        self.settings = resolve_settings(preset, {})
        self.seed = seed

    @abstractmethod
    def run(self, n_epochs: int) -> list[float]:
        """Train for some epochs, each with its validation pass; seconds of each."""

    @abstractmethod
    def test_accuracy(self) -> float:
        """Share of test nodes labelled right after 200 epochs, in percent, trained afresh."""


class Graphconv(Peer):
    name = "graphconv"
    what = "this package"

    def __init__(self, graph: Graph, preset: str, seed: int) -> None:
        super().__init__(graph, preset, seed)
        self.preset = preset
        self.network = build_model(graph, self.settings, [seed])
        scaler = fit_scaler(graph.features, self.settings.scaling)
        features = scaler.transform(graph.features)
        self.training, self.validation = full_batches(graph, self.settings, self.network, features)

    def run(self, n_epochs: int) -> list[float]:
        # The authors' stopping rule is worked out every epoch but has no chance to stop this.
        settings = resolve_settings(self.preset, {"max_epochs": n_epochs, "patience": n_epochs})
        ends = [time.perf_counter()]
        train(
            self.network,
            [self.training],
            self.validation,
            settings,
            on_epoch=lambda _: ends.append(time.perf_counter()),
        )
        return np.diff(ends).tolist()

    def test_accuracy(self) -> float:
        overrides = {"max_epochs": N_EPOCHS, "early_stopping": "none"}
        fitted = fit_gcn(self.graph, preset=self.preset, overrides=overrides, seeds=[self.seed])
        predicted = fitted.probabilities()[:, 0].argmax(axis=1)
        return _accuracy(self.graph, predicted)


class TorchPeer(Peer):
    """What the peers on torch share: the loop; each builds its model in `reset`."""

    forward: Any

    def __init__(self, graph: Graph, preset: str, seed: int) -> None:
        super().__init__(graph, preset, seed)
        self.labels = torch.from_numpy(graph.labels.astype(np.int64))
        self.train_index = torch.from_numpy(graph.train_index)
        self.validation_index = torch.from_numpy(graph.validation_index)
        self.prepare()
        self.reset()

    def prepare(self) -> None:
        """Turn the graph into the library's own form."""

    @abstractmethod
    def build(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        """Make a fresh model; its parameters with and without L2."""

    def reset(self) -> None:
        torch.manual_seed(self.seed)
        penalised, others = self.build()
        self.optimiser = torch.optim.Adam(
            [{"params": penalised, "weight_decay": self.settings.weight_decay}, {"params": others}],
            lr=self.settings.learning_rate,
        )

    def run(self, n_epochs: int) -> list[float]:
        seconds = []
        for _ in range(n_epochs):
            begin = time.perf_counter()
            self.optimiser.zero_grad()
            logits = self.forward(training=True)[self.train_index]
            F.cross_entropy(logits, self.labels[self.train_index]).backward()
            self.optimiser.step()
            with torch.no_grad():
                logits = self.forward(training=False)[self.validation_index]
                wanted = self.labels[self.validation_index]
                F.cross_entropy(logits, wanted).item()
                (logits.argmax(dim=1) == wanted).double().mean().item()
            seconds.append(time.perf_counter() - begin)
        return seconds

    def test_accuracy(self) -> float:
        self.reset()
        self.run(N_EPOCHS)
        with torch.no_grad():
            predicted = self.forward(training=False).argmax(dim=1).numpy()
        return _accuracy(self.graph, predicted)


class PlainTorch(TorchPeer):
    name = "plain torch"
    what = (
        "torch CSR products in two small autograd functions, sparse dropout, both transposes stored"
    )

    def prepare(self) -> None:
        features = _scaled(self)
        self.adjacency = _csr(_renormalised(self.graph))
        self.features = _csr(features)
        self.transposed, self.order = _transposed(features)

    def build(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        shapes = (self.graph.n_features, *self.settings.hidden, self.graph.n_classes)
        self.first, self.second = (
            torch.nn.Parameter(torch.nn.init.xavier_uniform_(torch.empty(shape)))
            for shape in (shapes[:2], shapes[1:])
        )
        return [self.first], [self.second]

    def forward(self, training: bool) -> Tensor:
        values = F.dropout(self.features.values(), self.settings.dropout, training)
        hidden = _FeatureProduct.apply(values, self.first, self)
        hidden = F.relu(_SymmetricProduct.apply(hidden, self.adjacency))
        hidden = F.dropout(hidden, self.settings.dropout, training) @ self.second
        return _SymmetricProduct.apply(hidden, self.adjacency)


class _FeatureProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, peer: PlainTorch) -> Tensor:
        ctx.save_for_backward(values)
        ctx.peer = peer
        return _with_values(peer.features, values) @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (values,) = ctx.saved_tensors
        transposed = _with_values(ctx.peer.transposed, values[ctx.peer.order])
        return None, transposed @ gradients[0], None


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.matrix @ gradients[0], None


class PygDense(TorchPeer):
    name = "PyG"
    what = "GCNConv with cached normalisation and dense features, as in its examples"

    def prepare(self) -> None:
        self.features: Any = torch.from_numpy(_scaled(self).toarray())
        rows, columns = self.graph.adjacency.nonzero()
        self.edges: Any = torch.from_numpy(np.stack([rows, columns]).astype(np.int64))

    def build(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        from torch_geometric.nn import GCNConv

        shapes = (self.graph.n_features, *self.settings.hidden, self.graph.n_classes)
        self.first = GCNConv(*shapes[:2], cached=True, bias=False)
        self.second = GCNConv(*shapes[1:], cached=True, bias=False)
        return list(self.first.parameters()), list(self.second.parameters())

    def forward(self, training: bool) -> Tensor:
        hidden = F.dropout(self.features, self.settings.dropout, training)
        hidden = F.relu(self.first(hidden, self.edges))
        logits: Tensor = self.second(F.dropout(hidden, self.settings.dropout, training), self.edges)
        return logits


class PygSparse(PygDense):
    name = "PyG, tuned"
    what = (
        "GCNConv on a normalised CSR adjacency, sparse features with their transpose stored, "
        "no dropout of the input"
    )

    def prepare(self) -> None:
        features = _scaled(self)
        self.features = _csr(features)
        self.transposed, order = _transposed(features)
        self.transposed = _with_values(self.transposed, self.features.values()[order])
        self.edges = _csr(_renormalised(self.graph))

    def build(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        from torch_geometric.nn import GCNConv

        shapes = (self.graph.n_features, *self.settings.hidden, self.graph.n_classes)
        self.first = GCNConv(*shapes[:2], normalize=False, bias=False)
        self.second = GCNConv(*shapes[1:], normalize=False, bias=False)
        return list(self.first.parameters()), list(self.second.parameters())

    def forward(self, training: bool) -> Tensor:
        weight = self.first.lin.weight
        projected = _ConstantProduct.apply(weight, self.features, self.transposed)
        hidden = F.relu(self.first.propagate(self.edges, x=projected, edge_weight=None))
        logits: Tensor = self.second(F.dropout(hidden, self.settings.dropout, training), self.edges)
        return logits


class _ConstantProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed
        return matrix @ weight.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (ctx.transposed @ gradients[0]).t(), None, None


class Dgl(TorchPeer):
    name = "DGL"
    what = "GraphConv with dense features, as in its examples"

    def prepare(self) -> None:
        import dgl

        rows, columns = self.graph.adjacency.nonzero()
        links = dgl.graph((torch.from_numpy(rows.copy()), torch.from_numpy(columns.copy())))
        self.links = dgl.add_self_loop(links)
        self.features = torch.from_numpy(_scaled(self).toarray())

    def build(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        from dgl.nn import GraphConv

        shapes = (self.graph.n_features, *self.settings.hidden, self.graph.n_classes)
        self.first = GraphConv(*shapes[:2], bias=False)
        self.second = GraphConv(*shapes[1:], bias=False)
        return list(self.first.parameters()), list(self.second.parameters())

    def forward(self, training: bool) -> Tensor:
        hidden = F.dropout(self.features, self.settings.dropout, training)
        hidden = F.relu(self.first(self.links, hidden))
        logits: Tensor = self.second(self.links, F.dropout(hidden, self.settings.dropout, training))
        return logits


class ScikitNetwork(Peer):
    name = "scikit-network"
    what = "GNNClassifier, which has no dropout, no L2 and no validation pass here"

    def __init__(self, graph: Graph, preset: str, seed: int) -> None:
        super().__init__(graph, preset, seed)
        self.features = _scaled(self)
        self.adjacency = sp.csr_matrix(graph.adjacency, dtype=float)
        self.known = np.full(graph.n_nodes, -1)
        self.known[graph.train_index] = graph.labels[graph.train_index]

    def _fit(self, n_epochs: int) -> Any:
        from sknetwork.gnn import GNNClassifier

        model = GNNClassifier(
            [*self.settings.hidden, self.graph.n_classes],
            "Conv",
            ["ReLu", "Softmax"],
            learning_rate=self.settings.learning_rate,
            early_stopping=False,
        )
        model.fit(
            self.adjacency,
            self.features,
            self.known,
            n_epochs=n_epochs,
            validation=0,
            random_state=self.seed,
        )
        return model

    def run(self, n_epochs: int) -> list[float]:
        # An epoch can't be timed by itself; the set-up is small beside twenty.
        begin = time.perf_counter()
        self._fit(n_epochs)
        return [(time.perf_counter() - begin) / n_epochs] * n_epochs

    def test_accuracy(self) -> float:
        return _accuracy(self.graph, self._fit(N_EPOCHS).labels_)


PEERS: list[type[Peer]] = [Graphconv, PygDense, PygSparse, Dgl, ScikitNetwork, PlainTorch]
_MODULES = {
    "PyG": "torch_geometric",
    "PyG, tuned": "torch_geometric",
    "DGL": "dgl.nn",
    "scikit-network": "sknetwork",
}
# DGL's newest wheel loads these when it is imported, and they do not load beside a newer torch: one
# is a library built for another torch, the others are gone from torchdata. Graph convolution uses
# none of them.
_UNUSED_BY_DGL = (
    "dgl.graphbolt",
    "torchdata",
    "torchdata.datapipes",
    "torchdata.datapipes.iter",
    "torchdata.dataloader2",
    "torchdata.dataloader2.graph",
)


def available() -> tuple[list[type[Peer]], dict[str, str]]:
    """The peers that can be imported, and why the others cannot."""
    for name in _UNUSED_BY_DGL:
        sys.modules.setdefault(name, ModuleType(name))
    reasons = {peer.name: _why_not(_MODULES.get(peer.name, "torch")) for peer in PEERS}
    found = [peer for peer in PEERS if reasons[peer.name] is None]
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    return found, missing


def _why_not(module: str) -> str | None:
    """Why a module can't be imported; None if it can."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a library that does not fit its neighbours raises anything
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _accuracy(graph: Graph, predicted: Any) -> float:
    return 100 * float((predicted == graph.labels)[graph.test_index].mean())


def _scaled(peer: Peer) -> sp.csr_matrix:
    scaler = fit_scaler(peer.graph.features, peer.settings.scaling)
    return sp.csr_matrix(scaler.transform(peer.graph.features), dtype=np.float32)


def _renormalised(graph: Graph) -> sp.csr_matrix:
    looped = sp.csr_matrix(graph.adjacency + sp.eye_array(graph.n_nodes))
    scale = sp.diags(np.asarray(looped.sum(axis=1)).ravel() ** -0.5)
    return sp.csr_matrix(scale @ looped @ scale, dtype=np.float32)


def _csr(matrix: sp.csr_matrix) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
    )


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape
    )


def _transposed(matrix: sp.csr_matrix) -> tuple[Tensor, Tensor]:
    """The transpose, and where its values are among the matrix's own."""
    numbered = sp.csr_matrix(
        (np.arange(1, matrix.nnz + 1), matrix.indices, matrix.indptr), shape=matrix.shape
    ).T.tocsr()
    order = torch.from_numpy(numbered.data.astype(np.int64) - 1)
    numbered.data = np.ones(matrix.nnz, dtype=np.float32)
    return _csr(numbered), order
