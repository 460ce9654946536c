"""Operations: the words a model is written in.

A model is run once, on symbols instead of numbers, and leaves a `Program`: the short list of its
operations. Everything else is read off that list: how far a node sees, the plan of a training step
and its gradients, prediction in blocks, memory, what travels between processes. A symbol stands for
a matrix with a row for every node; nothing here knows which rows are computed, or how.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Parameter:
    """Numbers that are learned.

    A weight has the shape (n_in, n_terms, n_out), a bias (n_out,), a single number ().
    """

    name: str
    shape: tuple[int, ...]
    start: float | None = None  # None: Glorot and Bengio's uniform draw, each term by itself


@dataclass(frozen=True, eq=False)
class Value:
    """What an operation gives: a row for each node, `n_terms` blocks of `width` columns."""

    inputs: tuple[Value, ...]
    width: int
    n_terms: int = field(default=1, kw_only=True)

    def __matmul__(self, weight: Parameter) -> Value:
        n_in, n_terms, n_out = weight.shape
        assert (n_in, self.n_terms) == (self.width, 1), f"{weight.name} does not fit its input"
        assert not isinstance(self, RowsDropped), "dropping rows after the product is the same"
        return Product((self,), n_out, weight, n_terms=n_terms)

    def __add__(self, other: Value | Parameter) -> Value:
        if isinstance(other, Parameter):
            return Bias((self,), self.width, other)
        return Sum((self, other), self.width)

    def __rmul__(self, factor: float) -> Value:
        return self if factor == 1 else Multiple((self,), self.width, factor)

    def __sub__(self, other: Value) -> Value:
        return Sum((self, other), self.width, -1)

    def terms(self) -> list[Value]:
        """The blocks of columns, each for itself."""
        if self.n_terms == 1:
            return [self]
        return [Term((self,), self.width, k) for k in range(self.n_terms)]


@dataclass(frozen=True, eq=False)
class Features(Value):
    """X: the features of the nodes; the identity matrix where they have none."""


@dataclass(frozen=True, eq=False)
class Dropped(Value):
    """The input with elements dropped out in training."""

    rate: float


@dataclass(frozen=True, eq=False)
class RowsDropped(Dropped):
    """The input with all elements of some rows dropped out in training."""


@dataclass(frozen=True, eq=False)
class ColumnsDropped(Dropped):
    """Features with some columns dropped out in training: no node sees these.

    A gain, which is a weight with one output, is what each column is multiplied by.
    """

    gain: Parameter | None


@dataclass(frozen=True, eq=False)
class Product(Value):
    """The input times a weight, for each of its terms."""

    weight: Parameter

    @property
    def gain(self) -> Parameter | None:
        """What the rows of the weight are multiplied by beforehand."""
        (entered,) = self.inputs
        return entered.gain if isinstance(entered, ColumnsDropped) else None


@dataclass(frozen=True, eq=False)
class Term(Value):
    """One block of columns of the input."""

    place: int


@dataclass(frozen=True, eq=False)
class Bias(Value):
    """The input plus a number for each column."""

    bias: Parameter


@dataclass(frozen=True, eq=False)
class Sum(Value):
    """The first input plus the second times a factor."""

    factor: float = 1


@dataclass(frozen=True, eq=False)
class Multiple(Value):
    """The input times a number."""

    factor: float


@dataclass(frozen=True, eq=False)
class Activated(Value):
    """A function of each element."""

    function: str


@dataclass(frozen=True, eq=False)
class Normalised(Value):
    """Rows of mean 0 and variance 1, times a gain, plus a shift (layer normalisation)."""

    gain: Parameter
    shift: Parameter


@dataclass(frozen=True, eq=False)
class BatchNormalised(Value):
    """Columns of mean 0 and variance 1, times a gain, plus a shift (batch normalisation).

    In training mean and variance are those of the rows that are computed, and `mean` and `variance`
    follow them; prediction takes these, so that a row does not depend on others beside it.
    """

    gain: Parameter
    shift: Parameter
    mean: Parameter
    variance: Parameter


@dataclass(frozen=True, eq=False)
class Neighbours(Value):
    """S x or, with self-loops of weight lambda, A-hat x: each row sums over its neighbours.

    A parameter is the number whose softplus is lambda.
    """

    self_loops: float | Parameter


def dropout(x: Value, rate: float) -> Value:
    return Dropped((x,), x.width, rate)


def drop_rows(x: Value, rate: float) -> Value:
    return RowsDropped((x,), x.width, rate)


def drop_columns(x: Value, rate: float, gain: Parameter | None = None) -> Value:
    assert isinstance(x, Features), "only of features can whole columns be dropped"
    return ColumnsDropped((x,), x.width, rate, gain)


def activate(x: Value, function: str) -> Value:
    return x if function == "none" else Activated((x,), x.width, function)


def normalise(x: Value, gain: Parameter, shift: Parameter, *running: Parameter) -> Value:
    """Layer normalisation or, given the columns' running mean and variance, batch normalisation."""
    if not running:
        return Normalised((x,), x.width, gain, shift)
    return BatchNormalised((x,), x.width, gain, shift, *running)


@dataclass(frozen=True, eq=False)
class Program:
    """The operations of a model, each after its inputs."""

    values: tuple[Value, ...]
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, output: Value, parameters: Sequence[Parameter]) -> Program:
        """All that an output depends on."""
        found: dict[Value, None] = {}
        waiting = [output]  # no recursion: a model may propagate a thousand times
        while waiting:
            value = waiting[-1]
            missing = [own for own in value.inputs if own not in found]
            if missing:
                waiting.append(missing[0])
                continue
            found[value] = None
            waiting.pop()
        return cls(tuple(found), tuple(parameters))

    def needed_for(self, target: Value) -> list[Value]:
        """The values that one of them depends on, and itself, in their order."""
        needed = {target}
        for value in reversed(self.values):
            if value in needed:
                needed.update(value.inputs)
        return [value for value in self.values if value in needed]

    @property
    def output(self) -> Value:
        return self.values[-1]

    @cached_property
    def hops(self) -> dict[Value, int]:
        """How many hops away from a node its output depends on each value."""
        hops = {self.output: 0}
        for value in reversed(self.values):
            one_more = isinstance(value, Neighbours)
            for own in value.inputs:
                hops[own] = max(hops.get(own, 0), hops[value] + one_more)
        return hops

    @property
    def n_hops(self) -> int:
        """How far from a node its output depends on."""
        return max(self.hops.values())

    @cached_property
    def users(self) -> dict[Value, list[Value]]:
        """The operations that take each value."""
        users: dict[Value, list[Value]] = {value: [] for value in self.values}
        for value in self.values:
            for own in value.inputs:
                users[own].append(value)
        return users

    @cached_property
    def dropouts(self) -> list[Dropped]:
        """The places where elements are dropped out, in the order of the text."""
        return [value for value in self.values if isinstance(value, Dropped)]

    @property
    def products(self) -> list[Product]:
        return [value for value in self.values if isinstance(value, Product)]

    @property
    def weights(self) -> list[Parameter]:
        """What an L2 penalty may rest on, from the features upwards."""
        return [
            own
            for product in self.products
            for own in (product.weight, product.gain)
            if own is not None
        ]

    @cached_property
    def running(self) -> frozenset[str]:
        """Names of the parameters that follow the statistics of columns, and have no gradient."""
        return frozenset(
            own.name
            for value in self.values
            if isinstance(value, BatchNormalised)
            for own in (value.mean, value.variance)
        )

    @cached_property
    def embedding(self) -> Value | None:
        """What enters the last product; None where that is the features."""
        (entered,) = self.products[-1].inputs
        while isinstance(entered, Dropped):
            (entered,) = entered.inputs
        return None if isinstance(entered, Features) else entered

    @property
    def features_kept(self) -> float:
        """The share of features that dropout keeps in training, where each is drawn by itself."""
        rates = [
            own.rate
            for own in self.dropouts
            if isinstance(own.inputs[0], Features) and not isinstance(own, ColumnsDropped)
        ]
        return 1 - min(rates, default=0.0)

    @property
    def drops_features(self) -> bool:
        """Whether features are dropped out in training."""
        return any(
            value.rate > 0 and isinstance(value.inputs[0], Features) for value in self.dropouts
        )

    @cached_property
    def summed_features(self) -> Neighbours | None:
        """The sum over neighbours of features times a weight, where that is all they are used for.

        S (X W) is (S X) W: where nothing is dropped out, S X can be made beforehand.
        """
        value, users = self.values[0], self.users
        assert isinstance(value, Features)
        while len(users[value]) == 1:
            (value,) = users[value]
            if isinstance(value, Neighbours):
                return None if isinstance(value.self_loops, Parameter) else value
            is_product = isinstance(value, Product) and value.n_terms == 1
            if isinstance(value, RowsDropped) or not (isinstance(value, Dropped) or is_product):
                return None
        return None


def glorot_limit(weight: Parameter) -> float:
    """Glorot and Bengio: uniform between minus and plus this."""
    n_in, _, n_out = weight.shape
    return math.sqrt(6 / (n_in + n_out))
