"""The networks of Planetoid (Yang, Cohen and Salakhutdinov 2016): labels and graph contexts.

Classes are read from a node's features and its embedding side by side (the paper's hidden layers
k = l = 0). The embedding also has to predict the node's contexts: nodes met on the same walk, or of
the same class.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphconv.engine.batches import Batch, make_batch
from graphconv.graph import Graph, IntArray
from graphconv.kernels import select
from graphconv.models.gcn import GraphConvolution
from graphconv.models.propagation import Propagation


class PlanetoidNetwork(nn.Module):
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
    generator : torch.Generator
    """

    def __init__(
        self,
        graph: Graph,
        dimension: int,
        inductive: bool,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.generator = generator
        n_classes = graph.n_classes
        self.feature_layer = self._from_features(graph, n_classes)
        self.embedding_layer = self._from_features(graph, dimension) if inductive else None
        self.own_embedding = None if inductive else self._small(graph.n_nodes, dimension)
        self.context = nn.Parameter(torch.zeros(graph.n_nodes, dimension))
        weight = torch.empty(dimension, n_classes)
        self.class_weight = nn.Parameter(nn.init.xavier_uniform_(weight, generator=generator))

    def _from_features(self, graph: Graph, n_out: int) -> GraphConvolution:
        propagation = Propagation("none", kernels=select("auto"))
        return GraphConvolution(graph.n_features, n_out, propagation, [self.generator], True)

    def _small(self, n_rows: int, n_columns: int) -> nn.Parameter:
        # Small, so that nodes few walks meet do not keep the noise they started with.
        values = torch.randn(n_rows, n_columns, generator=self.generator)
        return nn.Parameter(0.05 * values / n_columns**0.5)

    def embed(self, batch: Batch) -> Tensor:
        """Embedding of the batch's nodes, (n_rows, dimension)."""
        if self.embedding_layer is None:
            assert self.own_embedding is not None
            return functional.embedding(torch.from_numpy(batch.rows), self.own_embedding)
        return self.embedding_layer.forward_features(batch, 0, None)

    def forward(self, batch: Batch) -> Tensor:
        """Class logits of the batch's nodes."""
        from_features = self.feature_layer.forward_features(batch, 0, None)
        return from_features + self._drop(self.embed(batch)) @ self.class_weight

    def embedding_parameters(self) -> dict[str, nn.Parameter]:
        """What the embedding is made of."""
        return self._parameters_of("own_embedding", "embedding_layer")

    def class_parameters(self) -> dict[str, nn.Parameter]:
        """What leads from features and embedding to the classes."""
        return self._parameters_of("feature_layer", "class_weight")

    def _parameters_of(self, *parts: str) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.named_parameters() if n.split(".")[0] in parts}

    def _drop(self, values: Tensor) -> Tensor:
        if not self.training or self.dropout == 0:
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
        distinct, place, n_pairs_of = np.unique(nodes, return_inverse=True, return_counts=True)
        pairs, n_times = np.unique(place * graph.n_nodes + contexts, return_counts=True)
        embedding = self.embed(make_batch(graph, distinct, n_hops=0))
        own = functional.embedding(torch.from_numpy(pairs // graph.n_nodes), embedding)
        other = functional.embedding(torch.from_numpy(pairs % graph.n_nodes), self.context)
        right = torch.from_numpy(n_times) * functional.logsigmoid((own * other).sum(dim=1))
        scores = embedding @ functional.embedding(torch.from_numpy(noise), self.context).T
        wrong = torch.from_numpy(n_pairs_of)[:, None] * functional.logsigmoid(-scores)
        return -(right.sum() + n_negatives / len(noise) * wrong.sum()) / len(nodes)
