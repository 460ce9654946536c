"""Steps: kernel calls on arrays, each with its gradient.

A step is made for an operation and a batch. Arrays have a row for each node of the batch that is
needed, and blocks of columns: for each term of the rule, for each replica, its width.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from graphconv import kernels as kernel_sizes
from graphconv.engine.batches import Batch, Scales, add_rows
from graphconv.kernels import Csr, Dropout, PackedRows

Array = npt.NDArray[Any]
Arrays = tuple[Array, ...]
# What the gradient is made from, besides the gradient of the output.
Keeps = Literal["", "input", "output", "both"]


@dataclass(slots=True)
class Given:
    """What a step works on; in the pass back, of inputs and output only what it keeps."""

    inputs: Arrays
    weights: Arrays
    dropout: Dropout | None
    output: Array | None = None


NOTHING = Given((), (), None)


class Step(ABC):
    """A differentiable function of some inputs and some weights."""

    keeps: ClassVar[Keeps] = ""

    @abstractmethod
    def forward(self, given: Given) -> Array:
        """Its value."""

    @abstractmethod
    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        """Gradients for the inputs and for the weights, given that for the value."""


@dataclass(frozen=True)
class FeatureProduct(Step):
    """Sparse features, dropped out, times weight (n_features, n_terms, n_replicas, n_out)."""

    kernels: ModuleType
    rows: Csr
    row_ids: Array
    packed: PackedRows | None = None  # the rows again, for products without dropout

    def forward(self, given: Given) -> Array:
        (weight,) = given.weights
        dense = weight.reshape(len(weight), -1)
        if self.packed is not None and given.dropout is None:
            return cast(Array, self.kernels.packed_product(self.packed, dense))
        keys = _for_terms(given.dropout, weight)
        return cast(Array, self.kernels.feature_product(self.rows, dense, keys, self.row_ids))

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (weight,) = given.weights
        keys = _for_terms(given.dropout, weight)
        out = self.kernels.feature_product_transposed(
            self.rows, gradient, len(weight), keys, self.row_ids
        )
        return (), (out.reshape(weight.shape),)


def _for_terms(dropout: Dropout | None, weight: Array) -> Dropout | None:
    """All terms of a rule see the same features."""
    n_terms = weight.shape[1]
    if dropout is None or n_terms == 1:
        return dropout
    return Dropout(dropout.keys * n_terms, dropout.threshold)


@dataclass(frozen=True)
class WeightRows(Step):
    """Rows of the weight: what it is multiplied by are rows of the identity matrix."""

    rows: Array | None  # None: all of them

    def forward(self, given: Given) -> Array:
        (weight,) = given.weights
        dense = weight.reshape(len(weight), -1)
        return dense if self.rows is None else dense[self.rows]

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (weight,) = given.weights
        if self.rows is None:
            return (), (gradient.reshape(weight.shape),)
        out = np.zeros((len(weight), gradient.shape[1]), dtype=gradient.dtype)
        add_rows(out, self.rows, gradient)  # for a sampled batch may have a row twice
        return (), (out.reshape(weight.shape),)


@dataclass(frozen=True)
class DenseFeatureProduct(Step):
    """Dense features, dropped out for each replica by itself, times weight.

    A second weight is a bias, (n_replicas, n_out), which is added.
    """

    kernels: ModuleType
    features: Array
    row_ids: Array

    def forward(self, given: Given) -> Array:
        weight, *bias = given.weights
        keys = (given.dropout, self.row_ids)
        return cast(Array, self.kernels.wide_product(self.features, weight, *keys, False, *bias))

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        weight, *bias = given.weights
        keys = (given.dropout, self.row_ids)
        _, for_weight = self.kernels.wide_product_backward(
            gradient, self.features, weight, *keys, for_dense=False
        )
        return (), (for_weight, *_for_bias(self.kernels, gradient, bias))


@dataclass(frozen=True)
class ColumnDropout(Step):
    """Features, some of whose columns are dropped out, times weight: rows of the weight are.

    A second weight, (n_features, 1, n_replicas, 1), is a gain of each column.
    """

    kernels: ModuleType
    product: Step  # of all columns, as they are

    def forward(self, given: Given) -> Array:
        factor = self._factor(given)
        return self.product.forward(Given((), (given.weights[0] * factor,), None))

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        weight, *gains = given.weights
        mask, factor = self._mask(given), self._factor(given)
        _, (slope,) = self.product.backward(gradient, Given((), (weight * factor,), None))
        for_gains = [(slope * mask * weight).sum(axis=(1, 3), keepdims=True) for _ in gains]
        return (), (slope * factor, *for_gains)

    def _factor(self, given: Given) -> Array:
        """What rows of the weight are multiplied by."""
        return math.prod(given.weights[1:], start=self._mask(given))

    def _mask(self, given: Given) -> Array:
        weight = given.weights[0]
        every = np.ones((len(weight), weight.shape[2]), dtype=weight.dtype)
        kept: Array = self.kernels.dropout_dense(every, given.dropout, np.arange(len(weight)))
        return kept[:, None, :, None]


@dataclass(frozen=True)
class HiddenProduct(Step):
    """Hidden values, after ReLU and dropout, times weight: one kernel for narrow layers."""

    kernels: ModuleType
    row_ids: Array
    relu: bool
    keeps: ClassVar[Keeps] = "input"

    def forward(self, given: Given) -> Array:
        (x,), (weight,) = given.inputs, given.weights
        out = self.kernels.hidden_product(x, weight, given.dropout, self.row_ids, self.relu)
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (x,), (weight,) = given.inputs, given.weights
        for_x, for_weight = self.kernels.hidden_product_backward(
            gradient, x, weight, given.dropout, self.row_ids, self.relu
        )
        return (for_x,), (for_weight,)


@dataclass(frozen=True)
class WideProduct(Step):
    """Hidden values, after ReLU and dropout, times weight, for layers of any width.

    A second weight is a bias, (n_replicas, n_out), which is added. Without `for_input` the input
    depends on no parameter, and has no use for a gradient.
    """

    kernels: ModuleType
    row_ids: Array | None  # None: nothing is dropped out
    relu: bool = False
    for_input: bool = True
    keeps: ClassVar[Keeps] = "input"

    def forward(self, given: Given) -> Array:
        (x,), (weight, *bias) = given.inputs, given.weights
        out = self.kernels.wide_product(x, weight, given.dropout, self.row_ids, self.relu, *bias)
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (x,), (weight, *bias) = given.inputs, given.weights
        for_x, for_weight = self.kernels.wide_product_backward(
            gradient, x, weight, given.dropout, self.row_ids, self.relu, self.for_input
        )
        for_bias = _for_bias(self.kernels, gradient, bias)
        return ((for_x,) if self.for_input else ()), (for_weight, *for_bias)


def _columns(x: Array, replica: int, n_replicas: int) -> Array:
    """The columns of one replica, contiguous: its product is then what it would be alone."""
    if n_replicas == 1:
        return x
    width = x.shape[1] // n_replicas
    return np.ascontiguousarray(x[:, replica * width : (replica + 1) * width])


@dataclass(frozen=True)
class RepeatedFeatures(Step):
    """Dense features as hidden values, once for each replica."""

    features: Array
    n_replicas: int

    def forward(self, given: Given) -> Array:
        return self.features if self.n_replicas == 1 else np.tile(self.features, self.n_replicas)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        raise AssertionError("features have no gradient")


@dataclass(frozen=True)
class DenseDropout(Step):
    """Dropout of dense activations, after a ReLU if asked."""

    kernels: ModuleType
    row_ids: Array
    relu: bool
    keeps: ClassVar[Keeps] = "input"

    def forward(self, given: Given) -> Array:
        (x,) = given.inputs
        return cast(Array, self.kernels.dropout_dense(x, given.dropout, self.row_ids, self.relu))

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (x,) = given.inputs
        out = self.kernels.dropout_dense_backward(
            gradient, x, given.dropout, self.row_ids, self.relu
        )
        return (out,), ()


@dataclass(frozen=True)
class RowDropout(Step):
    """Whole rows dropped out, of each replica its own."""

    kernels: ModuleType
    row_ids: Array

    def forward(self, given: Given) -> Array:
        return self._times_mask(given.inputs[0], given.dropout)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        return (self._times_mask(gradient, given.dropout),), ()

    def _times_mask(self, x: Array, dropout: Dropout | None) -> Array:
        assert dropout is not None
        n_replicas = len(dropout.keys)
        every = np.ones((len(x), n_replicas), dtype=x.dtype)
        # The mask of a matrix that has a single column for each replica.
        return _times(x, self.kernels.dropout_dense(every, dropout, self.row_ids), n_replicas)


@dataclass(frozen=True)
class AddBias(Step):
    """x + bias (n_replicas, n_out)."""

    kernels: ModuleType

    def forward(self, given: Given) -> Array:
        (x,), (bias,) = given.inputs, given.weights
        return x + bias.ravel()

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        return (gradient,), _for_bias(self.kernels, gradient, given.weights)


def _for_bias(kernels: ModuleType, gradient: Array, bias: Sequence[Array]) -> Arrays:
    """The gradient for a bias that was added to every row, if there is one."""
    return tuple(kernels.column_sums(gradient).reshape(own.shape) for own in bias)


@dataclass(frozen=True)
class AddMultiple(Step):
    """x + factor * y."""

    factor: float

    def forward(self, given: Given) -> Array:
        x, y = given.inputs
        if self.factor == 1:
            return x + y
        return cast(Array, x - y if self.factor == -1 else x + x.dtype.type(self.factor) * y)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        if self.factor == 1:
            return (gradient, gradient), ()
        return (gradient, gradient.dtype.type(self.factor) * gradient), ()


@dataclass(frozen=True)
class Multiply(Step):
    """x times a number."""

    factor: float

    def forward(self, given: Given) -> Array:
        (x,) = given.inputs
        return cast(Array, x.dtype.type(self.factor) * x)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        return (gradient.dtype.type(self.factor) * gradient,), ()


@dataclass(frozen=True)
class Activate(Step):
    """ReLU, tanh or ELU of every element."""

    function: str
    keeps: ClassVar[Keeps] = "output"

    def forward(self, given: Given) -> Array:
        (x,) = given.inputs
        if self.function == "relu":
            return np.maximum(x, 0)
        if self.function == "tanh":
            return np.tanh(x)
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        output = given.output
        assert output is not None
        one = output.dtype.type(1)
        if self.function == "relu":
            slope: Array = output > 0
        elif self.function == "tanh":
            slope = one - output * output
        else:  # of ELU, exp(x) below zero, which is the value plus one
            slope = np.where(output > 0, one, output + one)
        return (gradient * slope,), ()


@dataclass(frozen=True)
class LayerNorm(Step):
    """Rows of each replica made mean 0 and variance 1, times a gain, plus a shift.

    After a ReLU, if asked; a second input is added in the end.
    """

    kernels: ModuleType
    relu: bool = False
    keeps: ClassVar[Keeps] = "input"
    epsilon = 1e-5

    def forward(self, given: Given) -> Array:
        x, *added = given.inputs
        out = self.kernels.normalise_rows(x, *given.weights, self.epsilon, self.relu, *added)
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        x, *added = given.inputs
        for_x, *for_weights = self.kernels.normalise_rows_backward(
            gradient, x, *given.weights, self.epsilon, self.relu
        )
        return (for_x, *(gradient for _ in added)), tuple(for_weights)


@dataclass(frozen=True)
class BatchNorm(Step):
    """Columns made mean 0 and variance 1 over the rows, times a gain, plus a shift.

    After a ReLU, if asked. In training mean and variance are those of the rows; the last two
    weights, which have no gradient and are what prediction takes, then move a tenth of the way to
    them.
    """

    kernels: ModuleType
    trains: bool
    relu: bool = False
    keeps: ClassVar[Keeps] = "input"
    epsilon = 1e-5
    share = 0.1

    def forward(self, given: Given) -> Array:
        (x,), (gain, shift, *running) = given.inputs, given.weights
        known = self._known(x, running)
        out, *found = self.kernels.normalise_columns(
            x, gain, shift, self.epsilon, self.relu, *known
        )
        if not known:
            for before, every in zip(running, found, strict=True):
                for now in every.reshape(-1, *before.shape):  # each copy of the replicas
                    before += x.dtype.type(self.share) * (now - before)
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (x,), (gain, shift, *running) = given.inputs, given.weights
        for_x, *for_weights = self.kernels.normalise_columns_backward(
            gradient, x, gain, shift, self.epsilon, self.relu, *self._known(x, running)
        )
        return (for_x,), (*for_weights, *(np.zeros_like(own) for own in running))

    def _known(self, x: Array, running: list[Array]) -> list[Array]:
        """Mean and variance, each (n_replicas, width), where they are not those of the rows."""
        return [] if self.trains and len(x) else running


class NeighbourSum(Step):
    """factor * row_scale * (A + self_weight I) (column_scale * x) on a leading block of rows.

    A weight, if there is one, is a bias that is added, (n_replicas, n_out).
    """

    def __init__(
        self,
        kernels: ModuleType,
        batch: Batch,
        shape: tuple[int, int],
        scales: Scales,
        self_weight: float,
        factor: float = 1,
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
        self._left = _multiple(factor, self.row_scale, batch.degree[:n_out])
        self._left_transposed = _multiple(factor, self.column_scale, batch.degree[:n_in])
        # Small graphs look nothing up beforehand: that is known without asking every epoch.
        self._is_near = len(batch.degree) * batch.degree.itemsize <= kernel_sizes.NEAR_BYTES

    def of_sparse(self, x: Csr, n_columns: int) -> Csr:
        """The same of sparse rows."""
        scales = (self.row_scale, self.column_scale)
        out = self.kernels.propagate_sparse(self.block, x, n_columns, *scales, self.self_weight)
        return cast(Csr, out)

    def forward(self, given: Given) -> Array:
        return self.of(given.inputs[0], *given.weights)

    def of(self, x: Array, bias: Array | None = None, own: Array | None = None) -> Array:
        """The sum, plus a bias and, of the leading rows, something of their own."""
        scales = (self._left, self.column_scale, self.self_weight, self._looked_up())
        return cast(Array, self.kernels.propagate(self.block, x, *scales, bias, own))

    def _looked_up(self) -> Array | None:
        """The scales of the entries, where they are looked up beforehand."""
        scales = self.scales
        return None if self._is_near else scales.of_entries(self.block, scales.columns)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        out = self.transposed_of(gradient)
        return (out,), _for_bias(self.kernels, gradient, given.weights)

    def transposed_of(self, gradient: Array, own: Array | None = None) -> Array:
        """The sum by the transposed matrix, plus something of the leading rows' own."""
        block, looked_up = self._transposed()
        scales = (self._left_transposed, self.row_scale, self.self_weight, looked_up)
        return cast(Array, self.kernels.propagate(block, gradient, *scales, None, own))

    def _transposed(self) -> tuple[Csr, Array | None]:
        """The transpose, and the scales of its entries where they are looked up beforehand."""
        n_out, n_in = self.shape
        block = self.batch.block(n_in, n_out, transposed=True)
        return block, None if self._is_near else self.scales.of_entries(block, self.scales.rows)


class SumBesideOwn(NeighbourSum):
    """Of two terms side by side the node's own, plus the sum over neighbours of the other."""

    def forward(self, given: Given) -> Array:
        (both,) = given.inputs
        scales = (self.row_scale, self.column_scale, self._looked_up())
        out = self.kernels.propagate_beside(self.block, both, *scales, *given.weights)
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        block, looked_up = self._transposed()
        out = self.kernels.propagate_beside_backward(
            block, gradient, self.column_scale, self.row_scale, looked_up
        )
        return (out,), _for_bias(self.kernels, gradient, given.weights)


def _multiple(factor: float, scale: Array | None, like: Array) -> Array | None:
    if factor == 1:
        return scale
    return np.full_like(like, factor) if scale is None else like.dtype.type(factor) * scale


@dataclass(frozen=True)
class PowerSum(Step):
    """z = x, then z = S z + share * x for each of some sums S: a polynomial, by Horner's scheme.

    Its transpose is the same polynomial of the transposed sums, and so is made in the same way.
    """

    sums: tuple[NeighbourSum, ...]
    share: float

    def forward(self, given: Given) -> Array:
        (x,) = given.inputs
        own, z = self._own(x), x
        for summed in self.sums:
            z = summed.of(z, own=own)
        return z

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        own, z = self._own(gradient), gradient
        for summed in reversed(self.sums):
            z = summed.transposed_of(z, own=own)
        return (z,), ()

    def _own(self, x: Array) -> Array:
        return x if self.share == 1 else cast(Array, x.dtype.type(self.share) * x)


@dataclass(frozen=True)
class DroppedFeatureSum(Step):
    """A sum over neighbours of dense features, dropped out for each replica by itself."""

    summed: NeighbourSum
    features: Array  # those of the columns of the sum
    row_ids: Array

    def forward(self, given: Given) -> Array:
        own = self.summed
        scales = (own.row_scale, own.column_scale)
        out = own.kernels.propagate_dropped(
            own.block, self.features, given.dropout, self.row_ids, *scales, own.self_weight
        )
        return cast(Array, out)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        raise AssertionError("features have no gradient")


@dataclass(frozen=True)
class LearnedSum(Step):
    """The renormalised sum with a learned lambda, the softplus of the weight; one per replica.

    With D the degrees that is (D + lambda I)^-1/2 (A + lambda I) (D + lambda I)^-1/2 x or, in a
    directed graph, (D + lambda I)^-1 (A + lambda I) x.
    """

    plain: NeighbourSum  # A x
    degree: Array
    directed: bool
    keeps: ClassVar[Keeps] = "both"

    def forward(self, given: Given) -> Array:
        (x,) = given.inputs
        n_out = self.plain.shape[0]
        scale, lambdas = self._scales(given.weights[0])  # (n_in, n_replicas)
        n_replicas = len(lambdas)
        scaled = x if self.directed else _times(x, scale, n_replicas)
        summed = self.plain.forward(Given((scaled,), (), None))
        with_own = summed + _times(scaled[:n_out], lambdas[None], n_replicas)
        return _times(with_own, scale[:n_out], n_replicas)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        (x,), output = given.inputs, given.output
        assert output is not None
        n_out = self.plain.shape[0]
        scale, lambdas = self._scales(given.weights[0])
        n_replicas = len(lambdas)
        slope = _times(gradient, scale[:n_out], n_replicas)
        (for_x,), _ = self.plain.backward(slope, NOTHING)
        for_x[:n_out] += _times(slope, lambdas[None], n_replicas)
        # With s the scale and y the output, dy/dlambda is s (x - y) in a directed graph; else it is
        # s^2 (x - y / 2) and, because x is scaled too, -s^2 / 2 times the gradient for x.
        if self.directed:
            found = _by_replica(slope * (x[:n_out] - output), n_replicas)
        else:
            for_x = _times(for_x, scale, n_replicas)
            found = _by_replica(
                _times(slope * (x[:n_out] - output / 2), scale[:n_out], n_replicas), n_replicas
            ) - _by_replica(_times(for_x * x, scale * scale, n_replicas) / 2, n_replicas)
        slopes = [1 / (1 + math.exp(-raw)) for raw in given.weights[0].tolist()]
        return (for_x,), ((found * slopes).astype(x.dtype),)

    def _scales(self, raw: Array) -> tuple[Array, Array]:
        # A root and a quotient have one right rounding, so replicas don't depend on each other.
        lambdas = np.array([softplus(own) for own in raw.tolist()], dtype=raw.dtype)
        total = self.degree[: self.plain.shape[1], None] + lambdas
        return 1 / (total if self.directed else np.sqrt(total)), lambdas


def softplus(x: float) -> float:
    """log(1 + exp(x)), without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _times(x: Array, factors: Array, n_replicas: int) -> Array:
    """Each replica's columns times a factor for each row, (n_rows or 1, n_replicas)."""
    product = x.reshape(len(x), n_replicas, -1) * factors[:, :, None]
    return cast(Array, product.reshape(x.shape))


def _by_replica(x: Array, n_replicas: int) -> Array:
    """The sum of each replica's columns, in the order in which it would be summed alone."""
    return np.array([_columns(x, k, n_replicas).sum(dtype=np.float64) for k in range(n_replicas)])


@dataclass(frozen=True)
class HaloExchange(Step):
    """The rows of this process, followed by those of others that the sums of a hop read."""

    batch: Batch
    hop: int

    def forward(self, given: Given) -> Array:
        return self.batch.with_halo(given.inputs[0], self.hop)

    def backward(self, gradient: Array, given: Given) -> tuple[Arrays, Arrays]:
        return (self.batch.halo_gradient(gradient, self.hop),), ()
