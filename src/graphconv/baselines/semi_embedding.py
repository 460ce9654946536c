"""Semi-supervised embedding (Weston et al. 2012): a neural network whose neighbours lie together.

Besides the loss on labelled nodes, one layer's activations f are trained as an embedding: for
neighbours |f_i - f_j|^2 is small, for others |f_i - f_j| is at least a margin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from graphconv.adam import Adam
from graphconv.baselines.selection import BestOnValidation, labels_of
from graphconv.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    links_of,
)
from graphconv.batching import make_batch
from graphconv.fitting import build_model
from graphconv.graph import Graph, IntArray
from graphconv.model import GCN
from graphconv.scaling import Scaling, fit_scaler
from graphconv.settings import Settings
from graphconv.training import single_torch_thread


class SemiEmbeddingClassifier(TransductiveClassifier):
    """Multi-layer perceptron with an embedding loss on one of its layers.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    layer : {"hidden", "output"}
        Which activations are the embedding.
    smoothness : float
        Weight of the embedding loss.
    margin : float
        How far apart nodes that are not neighbours should be.
    n_pairs : int
        Neighbours, and as many pairs of others, that each step draws.
    dropout : float
    weight_decay : float
        L2 penalty on the first layer.
    scaling : {"auto", "row", "l2", "standard", "none"}
    learning_rate : float
        Of Adam.
    max_epochs : int
        Steps; each sees all training nodes.
    patience : int
        Stop when validation has not improved for so many epochs, and keep the best weights. With
        no validation nodes training goes on to the end.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; an edge makes neighbours of both its ends.
    random_state : int or None
        Seed of the weights, dropout and pairs.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("semi-embedding", max_epochs=20, random_state=0).fit(cora)
    >>> clf.predict_proba().shape
    (2708, 7)
    """

    def __init__(
        self,
        *,
        hidden: int = 64,
        layer: Literal["hidden", "output"] = "output",
        smoothness: float = 1.0,
        margin: float = 1.0,
        n_pairs: int = 1000,
        dropout: float = 0.5,
        weight_decay: float = 5e-4,
        scaling: Scaling = "auto",
        learning_rate: float = 0.01,
        max_epochs: int = 300,
        patience: int = 100,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.layer = layer
        self.smoothness = smoothness
        self.margin = margin
        self.n_pairs = n_pairs
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.scaling = scaling
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        if self.layer not in ("hidden", "output"):
            raise ValueError(f"layer must be 'hidden' or 'output', got {self.layer!r}")
        self.scaler_ = fit_scaler(graph.features, self.scaling)
        settings = Settings(
            hidden=(self.hidden,),
            propagation="none",
            dropout=self.dropout,
            bias=True,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            max_epochs=self.max_epochs,
            patience=self.patience,
        )
        with single_torch_thread():
            self.model_ = build_model(graph, settings, [seed])
            self._train(graph, settings, np.random.default_rng(seed))
        return self._label_graph(graph)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        with torch.no_grad(), single_torch_thread():
            features = self.scaler_.transform(graph.features)
            logits = self.model_(make_batch(graph, n_hops=0, features=features))[:, 0]
            return cast(FloatMatrix, logits.softmax(dim=1).numpy())

    def _train(self, graph: Graph, settings: Settings, rng: np.random.Generator) -> None:
        model = self.model_
        links = links_of(graph)
        train, watched = graph.train_index, graph.validation_index
        scaled = replace(graph, features=self.scaler_.transform(graph.features))
        train_batch = make_batch(scaled, train, n_hops=0)
        watched_batch = make_batch(scaled, watched, n_hops=0)
        targets = labels_of(graph.labels, train)
        best = BestOnValidation(model, labels_of(graph.labels, watched), settings.patience)
        optimiser = Adam(
            dict(model.named_parameters()),
            settings.learning_rate,
            model.propagation.kernels,
            {"layers.0.weight": settings.weight_decay},
        )
        for epoch in range(settings.max_epochs):
            loss = functional.cross_entropy(model(train_batch, epoch)[:, 0], targets)
            if links.nnz and self.smoothness:
                loss = loss + self.smoothness * self._embedding_loss(scaled, links, rng)
            optimiser.step(torch.autograd.grad(loss, list(optimiser.parameters.values())))
            if best.check(lambda: model(watched_batch)[:, 0]):
                break
        best.restore()

    def _embedding_loss(
        self, scaled: Graph, links: sp.csr_array, rng: np.random.Generator
    ) -> Tensor:
        left, right, others = draw_pairs(links, self.n_pairs, rng)
        nodes, place = np.unique(np.concatenate([left, right, others]), return_inverse=True)
        batch = make_batch(scaled, nodes, n_hops=0)
        model: GCN = self.model_
        f = (model.embed(batch) if self.layer == "hidden" else model(batch))[:, 0]
        # Not f[place], whose gradient takes ten times as long.
        of_pairs: Tensor = functional.embedding(torch.from_numpy(place).view(3, -1), f)
        first, near, far = of_pairs.unbind()
        together = (first - near).square().sum(dim=1)
        # The root of 0 has no slope: keep away from it.
        distance = ((first - far).square().sum(dim=1) + 1e-12).sqrt()
        apart = torch.relu(self.margin - distance).square()
        return together.mean() + apart.mean()


def draw_pairs(
    links: sp.csr_array, n_pairs: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Nodes with a neighbour of each, and with a node that is not, where one is soon found."""
    edges = rng.integers(links.nnz, size=n_pairs)
    left = np.searchsorted(links.indptr, edges, side="right") - 1
    right = links.indices[edges].astype(np.int64)
    others = rng.integers(links.shape[0], size=n_pairs)
    for _ in range(10):
        joined = np.asarray(links[left, others]).ravel() != 0
        wrong = np.flatnonzero(joined | (left == others))
        if len(wrong) == 0:
            break
        others[wrong] = rng.integers(links.shape[0], size=len(wrong))
    return left, right, others
