"""GCN: the model of the paper, equation 9 for two layers and the default rule.

A Batch enters, logits of its target nodes leave. Several replicas, differing only in their seed,
may live side by side in one model: one pass over the graph then serves them all, and each computes
what it would compute alone.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from graphconv.engine.batches import Array, Batch
from graphconv.engine.steps import (
    AddBias,
    Chain,
    DenseDropout,
    FeatureProduct,
    HiddenProduct,
    Link,
    WeightRows,
    run_step,
)
from graphconv.kernels import Csr, Dropout
from graphconv.kernels.hashing import hash_key
from graphconv.models.propagation import Propagation

Activation = Literal["relu", "tanh", "elu", "none"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": nn.functional.elu,
    "none": Tensor.clone,
}
# Up to this width of a layer's output, ReLU, dropout and product are one kernel, up to three times
# as fast as one after the other; at 64 torch's product, which alone may fuse additions, catches up.
WIDEST_FUSED = 32
# From this width of all replicas' outputs on, products take features some columns at a time; narrow
# ones wait less for their additions with two rows at a time.
LEAST_PACKED = 32


class Entry(NamedTuple):
    """What happens to hidden values on their way into a layer."""

    relu: bool
    dropout: Dropout | None

    def apply(self, value: Tensor, kernels: ModuleType, batch: Batch) -> Tensor:
        if self.dropout is not None:
            step = DenseDropout(kernels, batch.rows[: value.shape[0]], self.relu)
            return run_step(step, value, None, self.dropout)
        return torch.relu(value) if self.relu else value


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
        shape = (n_in, propagation.n_terms, len(generators), n_out)
        self.weight = nn.Parameter(torch.empty(shape))
        limit = math.sqrt(6 / (n_in + n_out))  # Glorot and Bengio, uniform, each matrix by itself
        with torch.no_grad():
            for replica, generator in enumerate(generators):
                for term in range(propagation.n_terms):
                    draw = torch.rand((n_in, n_out), generator=generator)
                    self.weight[:, term, replica] = draw.mul_(2 * limit).sub_(limit)
        self.bias = nn.Parameter(torch.zeros(len(generators), n_out)) if bias else None

    def forward(self, hidden: Tensor, batch: Batch, hop: int, entry: Entry) -> Tensor:
        """Layer on hidden values (n_within[hop + n_hops], n_replicas * n_in).

        `entry` is what happens to them before they meet the weight.
        """
        return self._propagate(self._project(hidden, batch, entry), batch, hop)

    def forward_features(self, batch: Batch, hop: int, dropout: Dropout | None) -> Tensor:
        """Layer on the batch's own features, dropped out on the way."""
        if batch.is_summed:
            assert dropout is None, "what was summed beforehand can't be dropped out"
            return self._biased(self._project_features(batch, batch.n_within[hop], None))
        n_rows = batch.n_within[hop + self.propagation.n_hops]
        return self._propagate(self._project_features(batch, n_rows, dropout), batch, hop)

    def _propagate(self, projected: Tensor, batch: Batch, hop: int) -> Tensor:
        return self._biased(self.propagation.forward(projected, batch, hop))

    def _biased(self, value: Tensor) -> Tensor:
        return value if self.bias is None else run_step(AddBias(), value, self.bias)

    def _project(self, hidden: Tensor, batch: Batch, entry: Entry) -> Tensor:
        n_in, n_terms, n_replicas, n_out = self.weight.shape
        kernels = self.propagation.kernels
        if n_out <= WIDEST_FUSED:
            step = HiddenProduct(kernels, batch.rows[: hidden.shape[0]], entry.relu)
            return run_step(step, hidden, self.weight, entry.dropout)
        hidden = entry.apply(hidden, kernels, batch)
        if n_replicas == 1:
            return hidden @ self.weight.view(n_in, -1)
        by_replica = hidden.unflatten(1, (n_replicas, n_in)).transpose(0, 1)
        weights = self.weight.permute(2, 0, 1, 3).reshape(n_replicas, n_in, n_terms * n_out)
        product = torch.bmm(by_replica, weights).unflatten(2, (n_terms, n_out))
        return cast(Tensor, product.permute(1, 2, 0, 3).flatten(1))

    def _project_features(self, batch: Batch, n_rows: int, dropout: Dropout | None) -> Tensor:
        if isinstance(batch.features, np.ndarray):
            kernels = self.propagation.kernels
            return self._project_dropped(kernels, batch.features[:n_rows], batch, dropout)
        step = self._feature_step(batch, n_rows, drops=dropout is not None)
        return run_step(step, None, self.weight, dropout)

    def _feature_step(self, batch: Batch, n_rows: int, drops: bool) -> FeatureProduct | WeightRows:
        """Sparse features, or those of the identity matrix, times weight."""
        assert not isinstance(batch.features, np.ndarray)
        if batch.features is None and not drops:
            return WeightRows(None if batch.is_whole else batch.rows[:n_rows])
        rows = batch.identity_features if batch.features is None else batch.features
        kernels = self.propagation.kernels
        packed = None
        if n_rows < len(rows.begin):
            rows = Csr(rows.begin[:n_rows], rows.end[:n_rows], *rows[2:])
        elif batch.is_summed and self.weight[0].numel() >= LEAST_PACKED:
            packed = batch.packed_features(kernels)  # of a batch that is used many times
        return FeatureProduct(kernels, rows, batch.rows[:n_rows], packed)

    def links(self, batch: Batch, hop: int, depth: int, drops: bool) -> list[Link] | None:
        """The layer as steps of a chain; None where torch must take part.

        `depth` is the layer's place in the model and `drops` whether it drops out inputs. A layer
        that is not the first takes the ReLU of the one before.
        """
        propagation = self.propagation
        is_summed = depth == 0 and batch.is_summed
        assert not (is_summed and drops), "what was summed beforehand can't be dropped out"
        sum_step = None if is_summed else propagation.step(batch, hop)
        if sum_step is None and not is_summed:
            return None
        is_dense = isinstance(batch.features, np.ndarray)
        if is_dense if depth == 0 else self.weight.shape[3] > WIDEST_FUSED:
            return None
        n_rows = batch.n_within[hop if is_summed else hop + propagation.n_hops]
        product: FeatureProduct | WeightRows | HiddenProduct
        if depth == 0:
            product = self._feature_step(batch, n_rows, drops)
        else:
            product = HiddenProduct(propagation.kernels, batch.rows[:n_rows], relu=True)
        links = [Link(product, self.weight, depth)]
        if sum_step is not None:
            links.append(Link(sum_step))
        return links if self.bias is None else [*links, Link(AddBias(), self.bias)]

    def _project_dropped(
        self, kernels: ModuleType, features: Array, batch: Batch, dropout: Dropout | None
    ) -> Tensor:
        row_ids = batch.rows[: len(features)]
        products = []  # each (n_rows, n_terms, n_out)
        for replica in range(self.weight.shape[2]):
            own = features
            if dropout is not None:
                key = Dropout((dropout.keys[replica],), dropout.threshold)
                own = kernels.dropout_dense(features, key, row_ids)
            dropped = torch.from_numpy(own)
            own_weight = self.weight[:, :, replica].reshape(dropped.shape[1], -1)
            products.append((dropped @ own_weight).unflatten(1, (self.weight.shape[1], -1)))
        return torch.stack(products, dim=2).flatten(1)


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
    def drops_features(self) -> bool:
        """Whether features are dropped out in training."""
        return self.thresholds[0] < 65536

    @property
    def n_hops(self) -> int:
        """How far from a node its output depends on."""
        return len(self.layers) * self.propagation.n_hops

    def forward(self, batch: Batch, epoch: int | None = None) -> Tensor:
        """Logits of the batch's targets, shape (n_targets, n_replicas, n_classes).

        `epoch` numbers the dropout; None means no dropout.
        """
        return self._run(batch, epoch, len(self.layers))

    def chain(self, batch: Batch, drops: bool) -> Chain | None:
        """`forward` on a batch as a chain of steps; None where torch must take part.

        `drops` is whether it is to be run with dropout, as `dropouts` gives it.
        """
        if self.residual or (self.activation != "relu" and len(self.layers) > 1):
            return None
        links: list[Link] = []
        for depth, layer in enumerate(self.layers):
            hop = (len(self.layers) - 1 - depth) * self.propagation.n_hops
            drops_here = drops and self.thresholds[depth] < 65536
            own = cast(GraphConvolution, layer).links(batch, hop, depth, drops_here)
            if own is None:
                return None
            links += own
        return Chain(links)

    def dropouts(self, epoch: int | None) -> list[Dropout | None]:
        """The dropout of each layer's input in an epoch; None means none."""
        return [self._dropout(epoch, depth) for depth in range(len(self.thresholds))]

    def some_replicas(self, chosen: Sequence[int]) -> GCN:
        """A model of some of the replicas, with weights of its own.

        Examples
        --------
        >>> from graphconv import Settings, load_dataset
        >>> from graphconv.training.fit import build_model
        >>> model = build_model(load_dataset("karate"), Settings(), seeds=[5, 6, 7])
        >>> model.some_replicas([2, 0]).seeds
        (7, 5)
        """
        index = torch.tensor(chosen)
        own = {
            id(parameter): nn.Parameter(
                parameter.detach().index_select(replica_axis(parameter), index)
            )
            for parameter in self.parameters()
        }
        model = copy.deepcopy(self, cast(dict[int, Any], own))  # which takes these for copied
        model.seeds = tuple(self.seeds[replica] for replica in chosen)
        model.propagation.n_replicas = len(chosen)
        return model

    def replica_weights(self, replica: int) -> dict[str, Tensor]:
        """A copy of one replica's parameters."""
        return {
            name: parameter.detach().select(replica_axis(parameter), replica).clone()
            for name, parameter in self.named_parameters()
        }

    def load_replica(self, replica: int, weights: Mapping[str, Tensor]) -> None:
        """Put parameters, as `replica_weights` gave them, into one replica."""
        for name, parameter in self.named_parameters():
            parameter.detach().select(replica_axis(parameter), replica).copy_(weights[name])

    def embed(self, batch: Batch) -> Tensor:
        """Activations that enter the last layer, shape (n_rows, n_replicas, width)."""
        return self._run(batch, None, len(self.layers) - 1)

    def _run(self, batch: Batch, epoch: int | None, n_layers: int) -> Tensor:
        """Values of the first `n_layers`, activated if the last of them is a hidden one."""
        if n_layers == 0:
            raise ValueError("a model with a single layer has no hidden activations to embed")
        layers = [cast(GraphConvolution, layer) for layer in self.layers]
        hop = (len(layers) - 1) * self.propagation.n_hops
        value = layers[0].forward_features(batch, hop, self._dropout(epoch, 0))
        entered: Tensor | None = None  # what entered the layer that made `value`
        for depth, layer in enumerate(layers[1:n_layers], start=1):
            hop -= self.propagation.n_hops
            value, relu = self._activate(value, entered)
            entry = Entry(relu, self._dropout(epoch, depth))
            if self.residual:
                value = entered = entry.apply(value, self.propagation.kernels, batch)
                entry = Entry(relu=False, dropout=None)
            value = layer.forward(value, batch, hop, entry)
        if n_layers < len(layers):
            value, relu = self._activate(value, entered)
            value = torch.relu(value) if relu else value
        return cast(Tensor, value.unflatten(1, (len(self.seeds), -1)))

    def _activate(self, value: Tensor, entered: Tensor | None) -> tuple[Tensor, bool]:
        """Activations of a hidden layer, and whether a ReLU is left for the next one to do."""
        if self.residual and entered is not None and entered.shape[1] == value.shape[1]:
            return _FUNCTIONS[self.activation](value) + entered[: value.shape[0]], False
        if self.activation == "relu":
            return value, True
        return _FUNCTIONS[self.activation](value), False

    def _dropout(self, epoch: int | None, depth: int) -> Dropout | None:
        threshold = self.thresholds[depth]
        if epoch is None or threshold == 65536:
            return None
        return Dropout(tuple(hash_key(seed, epoch, depth) for seed in self.seeds), threshold)


def replica_axis(parameter: Tensor) -> int:
    """Which axis of a parameter has one place for each replica."""
    # Weights are (n_in, n_terms, n_replicas, n_out); everything else has replicas first.
    return 2 if parameter.ndim == 4 else 0
