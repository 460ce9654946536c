"""Semi-supervised embedding (Weston et al. 2012): a neural network whose neighbours lie together.

Besides the loss on labelled nodes, one layer's activations f are trained as an embedding: for
neighbours |f_i - f_j|^2 is small, for others |f_i - f_j| is at least a margin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from graphconv.engine.batches import make_batch
from graphconv.engine.devices import single_torch_thread
from graphconv.engine.network import Network
from graphconv.engine.recorded import Recorded
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    in_all_classes,
    neighbour_matrix,
    with_known_classes,
)
from graphconv.graph import Graph, IntArray
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler
from graphconv.models.settings import Settings
from graphconv.training.fit import build_model, full_batches
from graphconv.training.loop import train

PROCESSOR = torch.device("cpu")


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
    >>> from graphconv.estimators.baselines import make_estimator
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
            early_stopping="best" if len(graph.validation_index) else "none",
        )
        known, self.known_classes_ = with_known_classes(graph)
        scaled = replace(known, features=self.scaler_.transform(known.features))
        self.network_ = build_model(scaled, settings, [seed])
        training, watched = full_batches(scaled, settings, self.network_)
        neighbours = neighbour_matrix(graph)
        extra = None
        if neighbours.nnz and self.smoothness:
            extra = EmbeddingLoss(self, scaled, PairDraw(neighbours), np.random.default_rng(seed))
        train(self.network_, [training], watched, settings, extra=extra)
        return self._label_graph(graph)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        features = self.scaler_.transform(graph.features)
        batch = make_batch(graph, n_hops=self.network_.n_hops, features=features)
        probabilities = softmax(self.network_(batch)[:, 0], axis=1)
        return in_all_classes(probabilities, self.known_classes_, len(self.classes_))


class EmbeddingLoss:
    """The term of the loss that places neighbours together and others apart.

    Parameters
    ----------
    method : SemiEmbeddingClassifier
    graph : Graph
        With scaled features.
    pairs : PairDraw
    rng : Generator
    """

    def __init__(
        self,
        method: SemiEmbeddingClassifier,
        graph: Graph,
        pairs: PairDraw,
        rng: np.random.Generator,
    ) -> None:
        self.method = method
        self.graph = graph
        self.pairs = pairs
        self.rng = rng

    def gradients(self, network: Network, epoch: int) -> list[npt.NDArray[Any]]:
        """Gradient of the loss of freshly drawn pairs, for each parameter."""
        recorded = Recorded(network)
        parameters = list(recorded.parameters.values())
        with single_torch_thread(PROCESSOR):
            loss = self.method.smoothness * self._loss(recorded)
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [
            np.zeros(tuple(parameter.shape), np.float32) if own is None else own.numpy()
            for own, parameter in zip(found, parameters, strict=True)
        ]

    def _loss(self, network: Recorded) -> Tensor:
        # Paper: Weston et al. take a single example and a single pair at a time; here: all training
        # nodes and n_pairs of each kind in every step, because products of many are much cheaper.
        drawn = np.concatenate(self.pairs.draw(self.method.n_pairs, self.rng))
        nodes, place = np.unique(drawn, return_inverse=True)
        batch = make_batch(self.graph, nodes, n_hops=network.network.n_hops)
        f = (network.embed(batch) if self.method.layer == "hidden" else network(batch))[:, 0]
        # Not f[place], whose gradient takes ten times as long.
        of_pairs: Tensor = functional.embedding(torch.from_numpy(place).view(3, -1), f)
        first, near, far = of_pairs.unbind()
        together = (first - near).square().sum(dim=1)
        # The root of 0 has no slope: keep away from it.
        distance = ((first - far).square().sum(dim=1) + 1e-12).sqrt()
        apart = torch.relu(self.method.margin - distance).square()
        return together.mean() + apart.mean()


class PairDraw:
    """Draws pairs of neighbours, and of nodes that are not.

    Parameters
    ----------
    neighbours : sparse matrix of shape (n_nodes, n_nodes), with at least one entry
        Its rows are sorted, as those of a `Graph` are.
    """

    def __init__(self, neighbours: sp.csr_array) -> None:
        self.n_nodes, _ = neighbours.shape
        self.left = np.repeat(np.arange(self.n_nodes), np.diff(neighbours.indptr))
        self.right = neighbours.indices.astype(np.int64)
        # One ascending number an edge: looking in them is quicker than in the rows of hubs, which
        # are drawn most often.
        self.numbers = self.left * self.n_nodes + self.right

    def draw(self, n_pairs: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Nodes with a neighbour of each, and with a node that is not, where one is soon found."""
        edges = rng.integers(len(self.numbers), size=n_pairs)
        left, right = self.left[edges], self.right[edges]
        others = rng.integers(self.n_nodes, size=n_pairs)
        doubtful = np.arange(n_pairs)
        for _ in range(10):
            wrong = doubtful[self._are_near(left[doubtful], others[doubtful])]
            if len(wrong) == 0:
                break
            others[wrong] = rng.integers(self.n_nodes, size=len(wrong))
            doubtful = wrong
        return left, right, others

    def _are_near(self, left: IntArray, right: IntArray) -> npt.NDArray[np.bool_]:
        """Whether nodes are neighbours or the same."""
        wanted = left * self.n_nodes + right
        place = np.minimum(np.searchsorted(self.numbers, wanted), len(self.numbers) - 1)
        are_near: npt.NDArray[np.bool_] = (self.numbers[place] == wanted) | (left == right)
        return are_near
