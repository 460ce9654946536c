"""Device plan: the operations of a model for one batch, by torch on any device.

The same as `plan`, for the same `Program` and `Batch`: what enters and leaves is on the device, and
torch follows the gradient. Nothing is fused; a device has its own ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from graphconv.engine._steps import BatchNorm
from graphconv.engine.batches import Batch
from graphconv.kernels import Dropout
from graphconv.kernels import torch_device as kernels
from graphconv.kernels.torch_device import SparseRows
from graphconv.models.operations import (
    Activated,
    BatchNormalised,
    Bias,
    ColumnsDropped,
    Dropped,
    Features,
    Multiple,
    Neighbours,
    Normalised,
    Parameter,
    Product,
    Program,
    RowsDropped,
    Sum,
    Term,
    Value,
)

EPSILON = 1e-5  # of layer normalisation


class BatchOnDevice:
    """The arrays of a batch, copied to a device when first asked for."""

    def __init__(self, batch: Batch, device: torch.device, dtype: torch.dtype) -> None:
        self.batch = batch
        self.device = device
        self.dtype = dtype
        self.row_ids = torch.from_numpy(batch.rows).to(device)
        self.degree = torch.from_numpy(batch.degree).to(device, dtype)
        self._adjacency: dict[tuple[int, int], SparseRows] = {}
        self._features: SparseRows | Tensor | None = None

    def features(self) -> SparseRows | Tensor:
        """Dense or sparse; the rows of the identity matrix where there are none."""
        if self._features is None:
            own = self.batch.features
            if isinstance(own, np.ndarray):
                self._features = torch.from_numpy(own).to(self.device, self.dtype)
            else:
                rows = self.batch.identity_features if own is None else own
                self._features = kernels.sparse_rows(
                    rows, self.batch.n_features, self.dtype, self.device
                )
        return self._features

    def adjacency(self, n_rows: int, n_columns: int) -> SparseRows:
        key = (n_rows, n_columns)
        if key not in self._adjacency:
            block = self.batch.block(n_rows, n_columns)
            self._adjacency[key] = kernels.sparse_rows(block, n_columns, self.dtype, self.device)
        return self._adjacency[key]


class DevicePlan:
    """A value of a program for a batch, on a device; see `graphconv.engine.plan.Plan`."""

    def __init__(
        self,
        program: Program,
        batch: BatchOnDevice,
        parameters: Mapping[str, Tensor],
        *,
        n_replicas: int,
        directed: bool,
        drops: bool,
        target: Value | None = None,
    ) -> None:
        self.program = program
        self.batch = batch
        # The same memory, with gradients.
        self.parameters = {n: own.detach().requires_grad_() for n, own in parameters.items()}
        self.n_replicas = n_replicas
        self.directed = directed
        self.drops = drops
        self.target = program.output if target is None else target
        self._needed = program.needed_for(self.target)
        self._places = {value: place for place, value in enumerate(program.dropouts)}
        self._output: Tensor | None = None

    def forward(self, dropouts: Sequence[Dropout | None], for_gradients: bool = False) -> Tensor:
        """The value, given the dropout at each place of the text."""
        with torch.set_grad_enabled(for_gradients):
            found: dict[Value, Tensor] = {}
            for value in self._needed:
                own = self._value(value, found, dropouts)
                if own is not None:
                    found[value] = own
        output = found[self.target]
        self._output = output if for_gradients else None
        return output.detach()

    def gradients(
        self, gradient: Tensor, dropouts: Sequence[Dropout | None]
    ) -> list[Tensor | None]:
        """Gradients for all parameters, given that for the value; to be asked for once."""
        output, self._output = self._output, None
        assert output is not None
        own = list(self.parameters.values())
        # Running statistics have no gradient, but a place among the parameters.
        return list(torch.autograd.grad(output, own, gradient, materialize_grads=True))

    def _value(
        self, value: Value, found: dict[Value, Tensor], dropouts: Sequence[Dropout | None]
    ) -> Tensor | None:
        if isinstance(value, Features):
            return None  # read by the product
        if isinstance(value, Dropped):
            return self._dropped(value, found, dropouts)
        if isinstance(value, Product):
            return self._product(value, found, dropouts)
        if isinstance(value, Neighbours):
            return self._neighbours(value, found[value.inputs[0]])
        n_rows = self._n_rows(value)
        given = [found[own][:n_rows] for own in value.inputs]
        match value:
            case Term():
                return given[0].chunk(value.inputs[0].n_terms, dim=1)[value.place]
            case Bias():
                return given[0] + self.parameters[value.bias.name].reshape(-1)
            case Normalised():
                return self._normalised(value, given[0])
            case BatchNormalised():
                return self._columns_normalised(value, given[0])
            case Sum():
                return given[0] + value.factor * given[1]
            case Multiple():
                return value.factor * given[0]
        assert isinstance(value, Activated)
        functions = {"relu": torch.relu, "tanh": torch.tanh, "elu": torch.nn.functional.elu}
        return functions[value.function](given[0])

    def _n_rows(self, value: Value) -> int:
        n_within = self.batch.batch.n_within
        return n_within[min(self.program.hops[value], len(n_within) - 1)]

    def _dropout(self, value: Value, dropouts: Sequence[Dropout | None]) -> Dropout | None:
        return dropouts[self._places[value]] if self.drops and isinstance(value, Dropped) else None

    def _dropped(
        self, value: Dropped, found: dict[Value, Tensor], dropouts: Sequence[Dropout | None]
    ) -> Tensor | None:
        (inner,) = value.inputs
        if isinstance(inner, Features):
            return None
        dropout, x = self._dropout(value, dropouts), found[inner]
        if dropout is None:
            return x
        n_columns = self.n_replicas if isinstance(value, RowsDropped) else x.shape[1]
        mask = kernels.dense_mask((len(x), n_columns), dropout, self.batch.row_ids[: len(x)])
        if isinstance(value, RowsDropped):
            mask = mask.repeat_interleave(x.shape[1] // n_columns, dim=1)
        return x * mask.to(x.dtype)

    def _product(
        self, value: Product, found: dict[Value, Tensor], dropouts: Sequence[Dropout | None]
    ) -> Tensor:
        (entered,) = value.inputs
        inner = entered.inputs[0] if isinstance(entered, Dropped) else entered
        weight = self.parameters[value.weight.name]  # (n_in, n_terms, n_replicas, n_out)
        n_rows = self._n_rows(value)
        if isinstance(inner, Features):
            dropout = self._dropout(entered, dropouts)
            if value.gain is not None:
                weight = weight * self.parameters[value.gain.name]
            if isinstance(entered, ColumnsDropped) and dropout is not None:
                ids = torch.arange(len(weight), device=weight.device)
                mask = kernels.dense_mask((len(weight), self.n_replicas), dropout, ids)
                weight, dropout = weight * mask.to(weight.dtype)[:, None, :, None], None
            products = [
                self._features_times(weight[:, :, replica].flatten(1), replica, dropout)
                for replica in range(self.n_replicas)
            ]
        else:
            blocks = _blocks(found[entered][:n_rows], self.n_replicas)
            products = [
                blocks[:, replica] @ weight[:, :, replica].flatten(1)
                for replica in range(self.n_replicas)
            ]
        by_term = [_blocks(own[:n_rows], weight.shape[1]) for own in products]
        return torch.stack(by_term, dim=2).flatten(1)

    def _features_times(self, weight: Tensor, replica: int, dropout: Dropout | None) -> Tensor:
        features, row_ids = self.batch.features(), self.batch.row_ids
        key = None if dropout is None else Dropout((dropout.keys[replica],), dropout.threshold)
        if isinstance(features, Tensor):
            if key is not None:
                shape = (len(features), features.shape[1])
                features = features * kernels.dense_mask(shape, key, row_ids).to(features.dtype)
            return features @ weight
        values = features.values
        if key is not None:
            mask = kernels.kept(key.keys[0], key.threshold, row_ids[features.rows], features.places)
            values = values * mask.to(values.dtype) * (65536 / key.threshold)
        return kernels.product(features, weight, values)

    def _normalised(self, value: Normalised, x: Tensor) -> Tensor:
        by_replica = _blocks(x, self.n_replicas)
        standard = torch.nn.functional.layer_norm(by_replica, (value.width,), eps=EPSILON)
        gain, shift = (self.parameters[own.name] for own in (value.gain, value.shift))
        return (standard * gain + shift).flatten(1)

    def _columns_normalised(self, value: BatchNormalised, x: Tensor) -> Tensor:
        names = (own.name for own in (value.gain, value.shift, value.mean, value.variance))
        gain, shift, mean, variance = (self.parameters[name] for name in names)
        by_replica = _blocks(x, self.n_replicas)
        if self.drops and len(x):
            own_variance, own_mean = torch.var_mean(by_replica, dim=0, correction=0)
            with torch.no_grad():
                for running, every in ((mean, own_mean), (variance, own_variance)):
                    for now in every.view(-1, *running.shape):  # each copy of the replicas
                        running.lerp_(now, BatchNorm.share)
            mean, variance = own_mean, own_variance
        factor = gain / (variance + EPSILON).sqrt()
        return ((by_replica - mean) * factor + shift).flatten(1)

    def _neighbours(self, value: Neighbours, x: Tensor) -> Tensor:
        batch = self.batch.batch
        if batch.is_summed and value is self.program.summed_features:
            return x
        hop = self.program.hops[value]
        n_out, x = batch.n_within[hop], x[: batch.n_within[hop + 1]]
        if batch.has_halo:
            run: Any = _WithHalo  # whose `apply` torch has no types for
            x = cast(Tensor, run.apply(batch, hop, x))
        n_in = len(x)
        weights = value.self_loops
        if isinstance(weights, Parameter):
            self_weight = torch.nn.functional.softplus(self.parameters[weights.name])
        else:
            self_weight = self.batch.degree.new_full((1,), weights)
        total = self.batch.degree[:n_in, None] + self_weight  # (n_in, n_replicas or 1)
        is_alone = total <= torch.finfo(total.dtype).tiny
        scale = torch.where(is_alone, 0, 1 / torch.where(is_alone, 1, total))
        scale = (scale if self.directed else scale.sqrt())[:, :, None]
        by_replica = _blocks(x, self.n_replicas)
        scaled = by_replica if self.directed else scale * by_replica
        summed = kernels.product(self.batch.adjacency(n_out, n_in), scaled.flatten(1))
        own = self_weight[None, :, None] * scaled[:n_out]
        both = _blocks(summed, self.n_replicas) + own
        return (scale[:n_out] * both).flatten(1)


class _WithHalo(torch.autograd.Function):
    """Rows of this process with those of others after them, which travel by way of processors."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, hop: int, x: Tensor) -> Tensor:
        ctx.saved = (batch, hop)
        return torch.from_numpy(batch.with_halo(x.cpu().numpy(), hop)).to(x.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        batch, hop = ctx.saved
        slope = gradients[0].contiguous()
        found = batch.halo_gradient(slope.cpu().numpy(), hop)
        return None, None, torch.from_numpy(found).to(slope.device)


def _blocks(x: Tensor, n_blocks: int) -> Tensor:
    """Columns as blocks of equal width, (n_rows, n_blocks, width)."""
    return x.reshape(x.shape[0], n_blocks, x.shape[1] // n_blocks)
