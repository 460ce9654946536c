"""GCN: the model of the paper, equation 9 for two layers and the default rule.

A Batch enters, logits of its target nodes leave. Several replicas, differing only in their seed,
may live side by side in one model: one pass over the graph then serves them all, and each computes
what it would compute alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from graphconv.batching import Array, Batch
from graphconv.kernels import Csr, Dropout
from graphconv.propagation import Propagation

Activation = Literal["relu", "tanh", "elu", "none"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": nn.functional.elu,
    "none": Tensor.clone,
}
_MASK = (1 << 64) - 1


class GraphConvolution(nn.Module):
    """One layer: sum_k S_k (H Theta_k), which under the default rule is A-hat H W.

    The weight has shape (n_in, n_terms, n_replicas, n_out).
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        propagation: Propagation,
        generators: Sequence[torch.Generator],
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.propagation = propagation
        self.n_replicas = len(generators)
        shape = (n_in, propagation.n_terms, self.n_replicas, n_out)
        self.weight = nn.Parameter(torch.empty(shape))
        limit = math.sqrt(6 / (n_in + n_out))  # Glorot and Bengio, uniform, each matrix by itself
        with torch.no_grad():
            for replica, generator in enumerate(generators):
                for term in range(propagation.n_terms):
                    draw = torch.rand((n_in, n_out), generator=generator)
                    self.weight[:, term, replica] = draw.mul_(2 * limit).sub_(limit)
        self.bias = nn.Parameter(torch.zeros(self.n_replicas, n_out)) if bias else None

    def forward(self, hidden: Tensor, batch: Batch, hop: int) -> Tensor:
        """Layer on hidden activations (n_within[hop + n_hops], n_replicas * n_in)."""
        return self._propagate(self._project(hidden), batch, hop)

    def forward_features(self, batch: Batch, hop: int, dropout: Dropout | None) -> Tensor:
        """Layer on the batch's own features, dropped out on the way."""
        n_rows = batch.n_within[hop + self.propagation.n_hops]
        return self._propagate(self._project_features(batch, n_rows, dropout), batch, hop)

    def _propagate(self, projected: Tensor, batch: Batch, hop: int) -> Tensor:
        out = cast(Tensor, self.propagation(projected, batch, hop))
        return out if self.bias is None else cast(Tensor, _AddBias.apply(out, self.bias))

    def _project(self, hidden: Tensor) -> Tensor:
        n_in, n_terms, n_replicas, n_out = self.weight.shape
        if n_replicas == 1:
            return hidden @ self.weight.view(n_in, -1)
        by_replica = hidden.view(-1, n_replicas, n_in).transpose(0, 1)
        weights = self.weight.permute(2, 0, 1, 3).reshape(n_replicas, n_in, n_terms * n_out)
        product = torch.bmm(by_replica, weights).view(n_replicas, -1, n_terms, n_out)
        return product.permute(1, 2, 0, 3).reshape(hidden.shape[0], -1)

    def _project_features(self, batch: Batch, n_rows: int, dropout: Dropout | None) -> Tensor:
        weight = self.weight.view(self.weight.shape[0], -1)
        kernels = self.propagation.kernels
        features = batch.features
        if dropout is not None:
            dropout = Dropout(dropout.keys * self.propagation.n_terms, dropout.threshold)
        if isinstance(features, np.ndarray):
            return self._project_dropped(kernels, features[:n_rows], batch, dropout)
        if features is None:
            if dropout is None:
                return weight if batch.is_whole else weight[torch.from_numpy(batch.rows[:n_rows])]
            features = batch.identity_features
        rows = Csr(features.begin[:n_rows], features.end[:n_rows], *features[2:])
        return cast(
            Tensor, _FeatureProduct.apply(weight, kernels, rows, dropout, batch.rows[:n_rows])
        )

    def _project_dropped(
        self, kernels: ModuleType, features: Array, batch: Batch, dropout: Dropout | None
    ) -> Tensor:
        row_ids = batch.rows[: len(features)]
        products = []  # each (n_rows, n_terms, n_out)
        for replica in range(self.n_replicas):
            own = features
            if dropout is not None:
                key = Dropout((dropout.keys[replica],), dropout.threshold)
                own = kernels.dropout_dense(features, key, row_ids)
            dropped = torch.from_numpy(own)
            own_weight = self.weight[:, :, replica].reshape(dropped.shape[1], -1)
            products.append((dropped @ own_weight).view(len(features), self.weight.shape[1], -1))
        return torch.stack(products, dim=2).reshape(len(features), -1)


class GCN(nn.Module):
    """Graph convolutional network of any depth.

    Parameters
    ----------
    n_features, n_classes : int
    propagation : Propagation
    hidden : sequence of int
        Width of each hidden layer; empty for a single-layer (linear) model.
    seeds : sequence of int
        One for each replica: its first weights and, in training, its dropout follow from it.
    dropout : float or sequence of float
        Probability of dropping an input of a layer; one number, or one a layer.
    activation : {"relu", "tanh", "elu", "none"}
    residual : bool
        Add a hidden layer's input to its output where their widths agree.
    bias : bool
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        propagation: Propagation,
        *,
        hidden: Sequence[int] = (16,),
        seeds: Sequence[int] = (0,),
        dropout: float | Sequence[float] = 0.5,
        activation: Activation = "relu",
        residual: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.seeds = tuple(seeds)
        self.activation = activation
        self.residual = residual
        self.propagation = propagation
        widths = [n_features, *hidden, n_classes]
        generators = [torch.Generator().manual_seed(hash_key(seed) >> 1) for seed in seeds]
        self.layers = nn.ModuleList(
            GraphConvolution(n_in, n_out, propagation, generators, bias)
            for n_in, n_out in itertools.pairwise(widths)
        )
        rates = [dropout] * len(self.layers) if isinstance(dropout, int | float) else list(dropout)
        self.thresholds = [round(65536 * (1 - rate)) for rate in rates]

    @property
    def n_hops(self) -> int:
        """How far from a node its output depends on."""
        return len(self.layers) * self.propagation.n_hops

    def forward(self, batch: Batch, epoch: int | None = None) -> Tensor:
        """Logits of the batch's targets, shape (n_targets, n_replicas, n_classes).

        `epoch` numbers the dropout; None means no dropout.
        """
        return self._run(batch, epoch, len(self.layers))

    def embed(self, batch: Batch) -> Tensor:
        """Activations that enter the last layer, shape (n_rows, n_replicas, width)."""
        return self._run(batch, None, len(self.layers) - 1)

    def _run(self, batch: Batch, epoch: int | None, n_layers: int) -> Tensor:
        hidden: Tensor | None = None
        for depth in range(n_layers):
            layer = cast(GraphConvolution, self.layers[depth])
            hop = (len(self.layers) - 1 - depth) * self.propagation.n_hops
            if hidden is None:
                value = layer.forward_features(batch, hop, self._dropout(epoch, 0))
            else:
                value = layer(hidden, batch, hop)
            if depth == len(self.layers) - 1:
                hidden = value
            else:
                dropout = self._dropout(epoch, depth + 1)
                hidden = self._activate(value, hidden, batch, dropout)
        if hidden is None:
            raise ValueError("a model with a single layer has no hidden activations to embed")
        return hidden.view(hidden.shape[0], len(self.seeds), -1)

    def _activate(
        self, value: Tensor, before: Tensor | None, batch: Batch, dropout: Dropout | None
    ) -> Tensor:
        relu = self.activation == "relu"
        if self.residual and before is not None and before.shape[1] == value.shape[1]:
            value = _FUNCTIONS[self.activation](value) + before[: value.shape[0]]
            relu = False
        elif not relu:
            value = _FUNCTIONS[self.activation](value)
        if dropout is None and not relu:
            return value
        if dropout is None:
            return torch.relu(value)
        rows = batch.rows[: value.shape[0]]
        return cast(
            Tensor, _DenseDropout.apply(value, self.propagation.kernels, dropout, rows, relu)
        )

    def _dropout(self, epoch: int | None, depth: int) -> Dropout | None:
        threshold = self.thresholds[depth]
        if epoch is None or threshold == 65536:
            return None
        return Dropout(tuple(hash_key(seed, epoch, depth) for seed in self.seeds), threshold)


class _AddBias(torch.autograd.Function):
    """x + bias, whose gradient is summed replica by replica, as each would do alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.n_replicas = bias.shape[0]
        return x + bias.view(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        blocks = gradients[0].view(gradients[0].shape[0], ctx.n_replicas, -1)
        return gradients[0], torch.stack([own.contiguous().sum(0) for own in blocks.unbind(1)])


class _FeatureProduct(torch.autograd.Function):
    """Sparse features, dropped out, times weight."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        kernels: ModuleType,
        rows: Csr,
        dropout: Dropout | None,
        ids: Array,
    ) -> Tensor:
        ctx.saved = (kernels, rows, weight.shape[0], dropout, ids)
        out = kernels.feature_product(rows, weight.detach().numpy(), dropout, ids)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        kernels, rows, n_columns, dropout, ids = ctx.saved
        dense = gradients[0].contiguous().numpy()
        out = kernels.feature_product_transposed(rows, dense, n_columns, dropout, ids)
        return torch.from_numpy(out), None, None, None, None


class _DenseDropout(torch.autograd.Function):
    """Dropout of dense activations, after a ReLU if asked."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, kernels: ModuleType, dropout: Dropout, ids: Array, relu: bool
    ) -> Tensor:
        dense = value.detach().contiguous().numpy()
        ctx.saved = (kernels, dense, dropout, ids, relu)
        return torch.from_numpy(kernels.dropout_dense(dense, dropout, ids, relu))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        kernels, dense, dropout, ids, relu = ctx.saved
        gradient = gradients[0].contiguous().numpy()
        out = kernels.dropout_dense_backward(gradient, dense, dropout, ids, relu)
        return torch.from_numpy(out), None, None, None, None


def hash_key(*parts: int) -> int:
    """64 well-mixed bits of some integers, the same on every machine (SplitMix64)."""
    state = 0
    for part in parts:
        state = (state + (part & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
