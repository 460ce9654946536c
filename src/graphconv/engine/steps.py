"""Steps: kernel calls on arrays, each with its gradient, and chains of them.

A step is made for a layer and a batch. Torch's operations may come between steps: `run_step` makes
them part of autograd's record. A model that is steps alone, as the paper's is, can do without:
autograd takes some 30 microseconds to record a call and to come back to it, and so do the layers to
find out what to call, which together was half of an epoch on Cora. A `Chain` has found out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast

import numpy.typing as npt
import torch
from torch import Tensor

from graphconv import kernels
from graphconv.kernels import Csr, Dropout, PackedRows

Array = npt.NDArray[Any]


class Step(Protocol):
    """A differentiable function of an input and a weight, either of which it may lack."""

    needs_input: bool  # whether the gradient depends on the input, which is kept until then

    def forward(self, x: Any, weight: Any, dropout: Dropout | None) -> Array:
        """Its value."""

    def backward(
        self, gradient: Array, x: Any, weight: Any, dropout: Dropout | None
    ) -> tuple[Array | None, Array | None]:
        """Gradients for the input and for the weight, given that for the value."""


@dataclass(frozen=True)
class FeatureProduct:
    """Sparse features, dropped out, times weight (n_features, n_terms, n_replicas, n_out)."""

    kernels: ModuleType
    rows: Csr
    row_ids: Array
    packed: PackedRows | None = None  # the rows again, for products without dropout
    needs_input = False

    def forward(self, x: None, weight: Array, dropout: Dropout | None) -> Array:
        dense = weight.reshape(len(weight), -1)
        if self.packed is not None and dropout is None:
            return cast(Array, self.kernels.packed_product(self.packed, dense))
        keys = _for_terms(dropout, weight)
        return cast(Array, self.kernels.feature_product(self.rows, dense, keys, self.row_ids))

    def backward(
        self, gradient: Array, x: None, weight: Array, dropout: Dropout | None
    ) -> tuple[None, Array]:
        keys = _for_terms(dropout, weight)
        out = self.kernels.feature_product_transposed(
            self.rows, gradient, len(weight), keys, self.row_ids
        )
        return None, out.reshape(weight.shape)


def _for_terms(dropout: Dropout | None, weight: Array) -> Dropout | None:
    """All terms of a rule see the same features."""
    n_terms = weight.shape[1]
    if dropout is None or n_terms == 1:
        return dropout
    return Dropout(dropout.keys * n_terms, dropout.threshold)


@dataclass(frozen=True)
class WeightRows:
    """Rows of the weight: what it is multiplied by are rows of the identity matrix."""

    rows: Array | None  # None: all of them
    needs_input = False

    def forward(self, x: None, weight: Array, dropout: Dropout | None) -> Array:
        dense = weight.reshape(len(weight), -1)
        return dense if self.rows is None else dense[self.rows]

    def backward(
        self, gradient: Array, x: None, weight: Array, dropout: Dropout | None
    ) -> tuple[None, Array]:
        if self.rows is None:
            return None, gradient.reshape(weight.shape)
        out = torch.zeros((len(weight), gradient.shape[1]), dtype=torch.from_numpy(gradient).dtype)
        # Added up, for a sampled batch may have a row twice.
        out.index_add_(0, torch.from_numpy(self.rows), torch.from_numpy(gradient))
        return None, out.numpy().reshape(weight.shape)


@dataclass(frozen=True)
class HiddenProduct:
    """Hidden values, after ReLU and dropout, times weight."""

    kernels: ModuleType
    row_ids: Array
    relu: bool
    needs_input = True

    def forward(self, x: Array, weight: Array, dropout: Dropout | None) -> Array:
        return cast(Array, self.kernels.hidden_product(x, weight, dropout, self.row_ids, self.relu))

    def backward(
        self, gradient: Array, x: Array, weight: Array, dropout: Dropout | None
    ) -> tuple[Array, Array]:
        return cast(
            tuple[Array, Array],
            self.kernels.hidden_product_backward(
                gradient, x, weight, dropout, self.row_ids, self.relu
            ),
        )


@dataclass(frozen=True)
class DenseDropout:
    """Dropout of dense activations, after a ReLU if asked."""

    kernels: ModuleType
    row_ids: Array
    relu: bool
    needs_input = True

    def forward(self, x: Array, weight: None, dropout: Dropout | None) -> Array:
        return cast(Array, self.kernels.dropout_dense(x, dropout, self.row_ids, self.relu))

    def backward(
        self, gradient: Array, x: Array, weight: None, dropout: Dropout | None
    ) -> tuple[Array, None]:
        out = self.kernels.dropout_dense_backward(gradient, x, dropout, self.row_ids, self.relu)
        return out, None


@dataclass(frozen=True)
class AddBias:
    """x + bias (n_replicas, n_out); the gradient is summed replica by replica, as each would."""

    needs_input = False

    def forward(self, x: Array, weight: Array, dropout: Dropout | None) -> Array:
        return x + weight.ravel()

    def backward(
        self, gradient: Array, x: None, weight: Array, dropout: Dropout | None
    ) -> tuple[Array, Array]:
        # Torch adds up in a tree: of a million rows numpy's sums would be right to three digits.
        blocks = torch.from_numpy(gradient).tensor_split(len(weight), dim=1)
        return gradient, torch.stack([own.contiguous().sum(0) for own in blocks]).numpy()


class Scales:
    """What the rows and the columns of a batch's adjacency matrix are multiplied by."""

    def __init__(self, rows: Array | None = None, columns: Array | None = None) -> None:
        self.rows = rows
        self.columns = columns
        self._n_uses: dict[int, int] = {}
        self._of_entries: dict[int, Array] = {}

    def of_entries(self, block: Csr, scale: Array | None) -> Array | None:
        """The scale of each entry's column, where looking it up in every product takes longer.

        Two products are a mini-batch, forward and back: for these it does not pay.
        """
        if scale is None or scale.nbytes <= kernels.NEAR_BYTES:
            return None
        key = id(block.indices)  # blocks of a batch share their entries, which live as long as it
        self._n_uses[key] = self._n_uses.get(key, 0) + 1
        if self._n_uses[key] <= 2:
            return None
        if key not in self._of_entries:
            self._of_entries[key] = scale[block.indices]
        return self._of_entries[key]


class NeighbourSum:
    """row_scale * (A + self_weight I) (column_scale * x) on a leading block of rows."""

    needs_input = False

    def __init__(
        self,
        kernels: ModuleType,
        batch: Any,
        shape: tuple[int, int],
        scales: Scales,
        self_weight: float,
    ) -> None:
        n_out, n_in = shape
        self.kernels = kernels
        self.batch = batch
        self.shape = shape
        self.scales = scales
        self.self_weight = self_weight
        self.row_scale = None if scales.rows is None else scales.rows[:n_out]
        self.column_scale = None if scales.columns is None else scales.columns[:n_in]
        self.block = batch.block(n_out, n_in)

    def of_sparse(self, x: Csr, n_columns: int) -> Csr:
        """The same of sparse rows."""
        scales = (self.row_scale, self.column_scale)
        out = self.kernels.propagate_sparse(self.block, x, n_columns, *scales, self.self_weight)
        return cast(Csr, out)

    def forward(self, x: Array, weight: None, dropout: Dropout | None) -> Array:
        looked_up = self.scales.of_entries(self.block, self.scales.columns)
        out = self.kernels.propagate(
            self.block, x, self.row_scale, self.column_scale, self.self_weight, looked_up
        )
        return cast(Array, out)

    def backward(
        self, gradient: Array, x: None, weight: None, dropout: Dropout | None
    ) -> tuple[Array, None]:
        n_out, n_in = self.shape
        block = self.batch.block(n_in, n_out, transposed=True)
        looked_up = self.scales.of_entries(block, self.scales.rows)
        out = self.kernels.propagate(
            block, gradient, self.column_scale, self.row_scale, self.self_weight, looked_up
        )
        return out, None


def run_step(
    step: Step,
    x: Tensor | None = None,
    weight: Tensor | None = None,
    dropout: Dropout | None = None,
) -> Tensor:
    """A step on tensors, part of autograd's record where gradients are on."""
    if torch.is_grad_enabled():
        function: Any = _StepFunction  # whose `apply` torch has no types for
        return cast(Tensor, function.apply(step, x, weight, dropout))
    return torch.from_numpy(step.forward(_array(x), _array(weight), dropout))


def _array(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else tensor.detach().contiguous().numpy()


class _StepFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, step: Step, x: Tensor | None, weight: Tensor | None, dropout: Dropout | None
    ) -> Tensor:
        ctx.saved = (step, dropout)
        # Torch lets go of what it saves once the gradient is made, ctx only with the whole graph.
        ctx.save_for_backward(x if step.needs_input else None, weight)
        return torch.from_numpy(step.forward(_array(x), _array(weight), dropout))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step, dropout = ctx.saved
        x, weight = map(_array, ctx.saved_tensors)
        found = step.backward(_array(gradients[0]), x, weight, dropout)
        for_x, for_weight = (None if own is None else torch.from_numpy(own) for own in found)
        return None, for_x, for_weight, None


class Link(NamedTuple):
    """A step of a chain: its weight, and the layer whose dropout it applies."""

    step: Step
    weight: Tensor | None = None
    layer: int | None = None


class Chain:
    """Steps that follow each other, on arrays, without torch.

    The weights' memory is that of the tensors it was made with: they may change in place.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self.weights = [link.weight for link in links if link.weight is not None]
        self._links = [(link.step, _array(link.weight), link.layer) for link in links]
        self._inputs: list[Array | None] = []

    def forward(self, dropouts: Sequence[Dropout | None], for_gradients: bool = False) -> Array:
        """Value of the last step, given the dropout of each layer."""
        inputs: list[Array | None] = []
        value: Array | None = None
        for step, weight, layer in self._links:
            inputs.append(value if step.needs_input else None)
            value = step.forward(value, weight, None if layer is None else dropouts[layer])
        self._inputs = inputs if for_gradients else []
        assert value is not None
        return value

    def gradients(self, gradient: Array, dropouts: Sequence[Dropout | None]) -> list[Array]:
        """Gradients for the weights, given that for the value; to be asked for once."""
        found: list[Array] = []
        slope: Array | None = gradient
        for step, weight, layer in reversed(self._links):
            dropout = None if layer is None else dropouts[layer]
            assert slope is not None
            # What is not needed any more is let go of at once: its memory serves the next step.
            slope, own = step.backward(slope, self._inputs.pop(), weight, dropout)
            if own is not None:
                found.append(own)
        return found[::-1]
