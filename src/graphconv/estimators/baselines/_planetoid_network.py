"""The networks of Planetoid (Yang, Cohen and Salakhutdinov 2016): labels and graph contexts.

A hidden layer on a node's features and one on its embedding are joined, and classes are read from
both; or, simpler, features and embedding each vote for the classes, and the votes are added. The
embedding also has to predict the node's contexts: nodes met on the same walk, or of the same class.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from graphconv.engine.batches import Batch, make_batch
from graphconv.engine.network import Network
from graphconv.engine.recorded import Recorded
from graphconv.graph import Graph, IntArray
from graphconv.kernels import select
from graphconv.kernels.hashing import hash_key
from graphconv.models.catalogue import make_model
from graphconv.models.settings import Settings


class PlanetoidNetwork:
    """Class logits and context scores.

    Parameters
    ----------
    graph : Graph
        With scaled features.
    dimension : int
        Width of the embedding.
    inductive : bool
        Whether a node's embedding is computed from its features, or a parameter of its own.
    dropout : float
        On the embedding, where classes are read from it.
    joined : bool
        Whether hidden layers, as wide as there are classes, are joined before the classifier.
    seed : int
    """

    def __init__(
        self,
        graph: Graph,
        dimension: int,
        inductive: bool,
        dropout: float,
        joined: bool,
        seed: int,
    ) -> None:
        self.dropout = dropout
        self.generator = torch.Generator().manual_seed(hash_key(seed) >> 1)
        self.is_training = True
        n_classes = graph.n_classes
        self._from_features = _linear(graph, n_classes, seed)
        self.context = torch.zeros(graph.n_nodes, dimension, requires_grad=True)
        self.class_weight = self._glorot(dimension, n_classes)
        self.joined_weight = self._glorot(2 * n_classes, n_classes) if joined else None
        self._embedding: Recorded | Tensor
        if inductive:
            self._embedding = _linear(graph, dimension, hash_key(seed, 1) >> 1)
        else:
            # Small, so that nodes few walks meet do not keep the noise they started with.
            values = torch.randn(graph.n_nodes, dimension, generator=self.generator)
            self._embedding = (0.05 * values / dimension**0.5).requires_grad_()

    def _glorot(self, n_in: int, n_out: int) -> Tensor:
        limit = (6 / (n_in + n_out)) ** 0.5  # Glorot and Bengio
        drawn = torch.rand(n_in, n_out, generator=self.generator)
        weight: Tensor = (2 * limit * drawn - limit).requires_grad_()
        return weight

    def batch(self, graph: Graph, nodes: IntArray | None = None) -> Batch:
        """Some nodes of a graph with scaled features, or all."""
        return make_batch(graph, nodes, n_hops=self._from_features.network.n_hops)

    def embed(self, batch: Batch) -> Tensor:
        """Embedding of the batch's nodes, (n_rows, dimension)."""
        if isinstance(self._embedding, Tensor):
            return functional.embedding(torch.from_numpy(batch.rows), self._embedding)
        return self._embedding(batch)[:, 0]

    def __call__(self, batch: Batch) -> Tensor:
        """Class logits of the batch's nodes."""
        return self._joined(*self._votes(batch))

    def class_loss(self, batch: Batch, targets: Tensor) -> Tensor:
        """Cross-entropy of the batch's nodes; of the hidden layers too, where they are joined."""
        votes = self._votes(batch)
        loss = functional.cross_entropy(self._joined(*votes), targets)
        # Paper: Planetoid's loss is that of the joined classifier; here: each hidden layer has to
        # tell the class by itself as well, because the authors' code has it so.
        for vote in votes if self.joined_weight is not None else ():
            loss = loss + functional.cross_entropy(vote, targets)
        return loss

    def _votes(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What features and embedding say of the classes, each by itself."""
        of_embedding: Tensor = self._drop(self.embed(batch)) @ self.class_weight
        return self._from_features(batch)[:, 0], of_embedding

    def _joined(self, of_features: Tensor, of_embedding: Tensor) -> Tensor:
        if self.joined_weight is None:
            return of_features + of_embedding
        # The hidden layers are softmaxes, as in the authors' code.
        hidden = torch.cat([of_features.softmax(dim=1), of_embedding.softmax(dim=1)], dim=1)
        joined: Tensor = hidden @ self.joined_weight
        return joined

    def embedding_parameters(self) -> dict[str, Tensor]:
        """What the embedding is made of."""
        if isinstance(self._embedding, Tensor):
            return {"embedding": self._embedding}
        return {f"embedding.{name}": own for name, own in self._embedding.parameters.items()}

    def class_parameters(self) -> dict[str, Tensor]:
        """What leads from features and embedding to the classes."""
        own = {f"features.{n}": tensor for n, tensor in self._from_features.parameters.items()}
        own["class_weight"] = self.class_weight
        return own if self.joined_weight is None else {**own, "joined": self.joined_weight}

    def weights(self) -> dict[str, Tensor]:
        """A copy of all that class logits depend on."""
        parameters = {**self.embedding_parameters(), **self.class_parameters()}
        return {name: tensor.detach().clone() for name, tensor in parameters.items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take weights that `weights` gave."""
        parameters = {**self.embedding_parameters(), **self.class_parameters()}
        for name, tensor in parameters.items():
            tensor.detach().copy_(weights[name])

    def _drop(self, values: Tensor) -> Tensor:
        if not self.is_training:
            return values
        kept = torch.rand(values.shape, generator=self.generator) >= self.dropout
        return values * kept / (1 - self.dropout)

    def context_loss(
        self,
        graph: Graph,
        nodes: IntArray,
        contexts: IntArray,
        noise: IntArray,
        n_negatives: int,
    ) -> Tensor:
        """Negative-sampling loss of pairs (node, context) against shared noise nodes.

        Every pair stands against all of the noise, which counts as `n_negatives` nodes.
        """
        # Paper: Planetoid samples pairs of a node and a context, each with noise of its own;
        # here: many pairs share their noise, because the loss of all is then a few products.
        distinct, place, n_pairs_of = np.unique(nodes, return_inverse=True, return_counts=True)
        pairs, n_times = np.unique(place * graph.n_nodes + contexts, return_counts=True)
        embedding = self.embed(self.batch(graph, distinct))
        own = functional.embedding(torch.from_numpy(pairs // graph.n_nodes), embedding)
        other = functional.embedding(torch.from_numpy(pairs % graph.n_nodes), self.context)
        right = torch.from_numpy(n_times) * functional.logsigmoid((own * other).sum(dim=1))
        scores = embedding @ functional.embedding(torch.from_numpy(noise), self.context).T
        wrong = torch.from_numpy(n_pairs_of)[:, None] * functional.logsigmoid(-scores)
        return -(right.sum() + n_negatives / len(noise) * wrong.sum()) / len(nodes)


def _linear(graph: Graph, n_out: int, seed: int) -> Recorded:
    """Features times a weight, plus a bias."""
    settings = Settings(hidden=(), propagation="none", dropout=0.0, bias=True)
    model = make_model(settings, graph.n_features, n_out)
    return Recorded(Network(model, [seed], select("auto")))
