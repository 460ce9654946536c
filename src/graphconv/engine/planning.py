"""Planning: the operations of a model, made into kernel calls for one batch.

A `Program` and a `Batch` enter; a `Plan` leaves. What has a fused kernel is found here, by its
pattern in the list: features times a weight, ReLU and dropout on the way into a narrow layer, a
node's own term beside its neighbours', features summed beforehand. Everything else is a step of its
own. An operation is computed on the rows that the targets need of it, which are leading rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np

from graphconv.engine._powers import Power, powers_of
from graphconv.engine._product_order import ProductAndSum, sum_comes_first
from graphconv.engine._steps import (
    Activate,
    AddBias,
    AddMultiple,
    Array,
    BatchNorm,
    ColumnDropout,
    DenseDropout,
    DenseFeatureProduct,
    DroppedFeatureSum,
    FeatureProduct,
    HaloExchange,
    HiddenProduct,
    LayerNorm,
    LearnedSum,
    Multiply,
    NeighbourSum,
    PowerSum,
    RepeatedFeatures,
    RowDropout,
    Step,
    SumBesideOwn,
    WeightRows,
    WideProduct,
)
from graphconv.engine.batches import Batch, Scales
from graphconv.engine.plan import Call, Part, Plan
from graphconv.kernels import Csr
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

# Up to this width of a layer's output, products never fuse a multiplication with an addition: so
# they give the same bits on every processor. Wider ones would take twice as long.
WIDEST_FUSED = 32
# From this width of all replicas' outputs on, products take features some columns at a time; narrow
# ones wait less for their additions with two rows at a time.
LEAST_PACKED = 32
# Up to so many sums of a row of dense features, dropping it out for each of them is less work than
# writing it down once.
MOST_SUMS = 8


def make_plan(
    program: Program,
    batch: Batch,
    parameters: Mapping[str, Array],
    *,
    kernels: ModuleType,
    directed: bool,
    drops: bool,
    target: Value | None = None,
) -> Plan:
    """The steps that compute a value of a program, by default its output, for a batch.

    Parameters
    ----------
    program : Program
    batch : Batch
    parameters : mapping of str to array
        Those of all replicas, by name.
    kernels : module
    directed : bool
        Whether sums over neighbours are means over the nodes that edges point to.
    drops : bool
        Whether it is to be run with dropout.
    target : Value, optional
    """
    builder = _Builder(program, batch, parameters, kernels, directed, drops)
    target = program.output if target is None else target
    for value in program.needed_for(target):
        # Others are made when these ask for them, perhaps as part of a fused kernel.
        if isinstance(value, Product | Neighbours | Sum | Bias) and not builder.is_part(value):
            builder.value_of(value)
    builder.value_of(target)
    return Plan(builder.calls, builder.shapes, len(parameters))


def row_step(
    value: Value, kernels: ModuleType, trains: bool = False
) -> tuple[Step, list[Parameter]]:
    """The step of an operation that needs of its inputs the same row alone, and its parameters."""
    match value:
        case Product():
            return WideProduct(kernels, None), [value.weight]
        case Bias():
            return AddBias(kernels), [value.bias]
        case Normalised():
            return LayerNorm(kernels), [value.gain, value.shift]
        case BatchNormalised():
            running = [value.mean, value.variance]
            return BatchNorm(kernels, trains), [value.gain, value.shift, *running]
        case Sum():
            return AddMultiple(value.factor), []
        case Multiple():
            return Multiply(value.factor), []
        case Activated():
            return Activate(value.function), []
    raise TypeError(f"{type(value).__name__} needs more than a row")


def _takes_any_columns(value: Value) -> bool:
    """Whether an operation works on whole rows, each column of which could stand alone."""
    if isinstance(value, Neighbours):
        return not isinstance(value.self_loops, Parameter)
    return isinstance(value, RowsDropped | Sum | Multiple)


class _Builder:
    """Turns operations into calls, each when it is first asked for."""

    def __init__(
        self,
        program: Program,
        batch: Batch,
        parameters: Mapping[str, Array],
        kernels: ModuleType,
        directed: bool,
        drops: bool,
    ) -> None:
        self.program = program
        self.batch = batch
        self.arrays = parameters
        self.places = {name: place for place, name in enumerate(parameters)}
        self.kernels = kernels
        self.directed = directed
        self.drops = drops
        self.calls: list[Call] = []
        self.shapes: list[tuple[int, int]] = []
        self.postponed = self._find_postponed()
        self._late_products = self._find_late_products()
        self._powers = {} if batch.has_halo else powers_of(program)
        self._inside_powers = {
            inside
            for chain in self._powers.values()
            for power in chain
            for inside in (power.summed, power.value)
        }.difference(self._powers)
        self._made: dict[Value, Part] = {}
        self._dropout_places = {value: place for place, value in enumerate(program.dropouts)}

    def value_of(self, value: Value) -> Part:
        """Where the value is, on all rows that are needed of it."""
        if value not in self._made:
            made = self._make(value)
            product = self._late_products.get(value)
            if product is not None:
                for_input = self.calls[made.step].has_gradient
                step = WideProduct(self.kernels, None, for_input=for_input)
                made = self._call(step, [product.weight], inputs=(made,))
            self._made[value] = made
        return self._made[value]

    def n_rows(self, value: Value) -> int:
        return self.batch.n_within[self.program.hops[value]]

    def _make(self, value: Value) -> Part:
        if isinstance(value, Dropped):
            return self._dropped(value)
        if isinstance(value, Term):
            whole = self.value_of(value.inputs[0])
            width = self.shapes[whole.step][1] // value.inputs[0].n_terms
            return Part(
                whole.step, whole.n_rows, slice(value.place * width, (value.place + 1) * width)
            )
        if isinstance(value, Product):
            return self._product(value)
        if isinstance(value, Neighbours):
            return self._neighbours(value)
        if isinstance(value, Bias) and self._adds_bias(value.inputs[0]):
            (summed,) = value.inputs
            if isinstance(summed, Sum):
                return self._sum_beside_own(summed, value.bias)
            assert isinstance(summed, Neighbours)
            return self._neighbours(summed, value.bias)
        if isinstance(value, Sum) and self._is_beside_own(value):
            return self._sum_beside_own(value)
        if value in self._powers:
            return self._power_sum(self._powers[value])
        if isinstance(value, Sum) and (normalised := self._normalised_before(value)):
            return self._normalised_and_added(normalised, value)
        if isinstance(value, BatchNormalised):
            return self._columns_normalised(value)
        if isinstance(value, Features):
            raise ValueError("features must meet a weight before anything else")
        given = tuple(self._rows_of(own, self.n_rows(value)) for own in value.inputs)
        return self._call(*row_step(value, self.kernels, self.drops), inputs=given)

    def _rows_of(self, value: Value, n_rows: int) -> Part:
        return self.value_of(value)._replace(n_rows=n_rows)

    def _call(
        self,
        step: Step,
        parameters: Sequence[Parameter] = (),
        *,
        inputs: tuple[Part, ...] = (),
        dropout: Dropped | None = None,
        n_rows: int | None = None,
        n_columns: int | None = None,
    ) -> Part:
        weights = tuple(self.arrays[own.name] for own in parameters)
        places = tuple(self.places[own.name] for own in parameters)
        place = None if dropout is None else self._dropout_places[dropout]
        has_gradient = bool(weights) or any(self.calls[own.step].has_gradient for own in inputs)
        self.calls.append(Call(step, inputs, weights, places, place, has_gradient))
        rows = inputs[0].n_rows if n_rows is None else n_rows
        if n_columns is None:
            is_product = bool(weights) and weights[0].ndim == 4
            n_columns = weights[0][0].size if is_product else self._width(inputs[0])
        self.shapes.append((rows, n_columns))
        return Part(len(self.calls) - 1, rows)

    def _width(self, part: Part) -> int:
        if part.columns is not None:
            return int(part.columns.stop - part.columns.start)
        return self.shapes[part.step][1]

    def _active(self, value: Value) -> Dropped | None:
        """The value, if it is a dropout that drops anything here."""
        is_active = self.drops and isinstance(value, Dropped) and value.rate > 0
        return value if is_active and isinstance(value, Dropped) else None

    def _dropped(self, value: Dropped) -> Part:
        (inner,) = value.inputs
        if self._active(value) is None:
            return self.value_of(inner)
        row_ids = self.batch.rows[: self.n_rows(value)]
        if isinstance(value, RowsDropped):
            given = self._rows_of(inner, len(row_ids))
            return self._call(RowDropout(self.kernels, row_ids), inputs=(given,), dropout=value)
        entered, relu = self._before_relu(inner, value)
        given = self._rows_of(entered, len(row_ids))
        return self._call(DenseDropout(self.kernels, row_ids, relu), inputs=(given,), dropout=value)

    def _before_relu(self, value: Value, user: Value) -> tuple[Value, bool]:
        """What a ReLU is of, where nobody but the user needs the ReLU itself."""
        is_relu = isinstance(value, Activated) and value.function == "relu"
        if is_relu and self.program.users[value] == [user]:
            return value.inputs[0], True
        return value, False

    def _product(self, value: Product) -> Part:
        (entered,) = value.inputs
        if value in self._late_products.values():
            n_replicas = self.arrays[value.weight.name].shape[2]
            return self._dense_features(self.n_rows(value), n_replicas, self._active(entered))
        inner = entered.inputs[0] if isinstance(entered, Dropped) else entered
        if isinstance(inner, Features):
            return self._feature_product(value, self._active(entered))
        n_rows = self.n_rows(value)
        dropout, relu = None, False
        is_alone = self.program.users[entered] == [value]
        if isinstance(entered, Dropped) and not self._active(entered):
            entered, user = inner, entered
        else:
            user = value
        if is_alone and self._active(entered):
            assert isinstance(entered, Dropped)
            dropout, user, entered = entered, entered, inner
        if is_alone:
            entered, relu = self._before_relu(entered, user)
        kind = HiddenProduct if value.width <= WIDEST_FUSED else WideProduct
        step: Step = kind(self.kernels, self.batch.rows[:n_rows], relu)
        given = self._rows_of(entered, n_rows)
        return self._call(step, [value.weight], inputs=(given,), dropout=dropout)

    def _feature_product(self, value: Product, dropout: Dropped | None, *bias: Parameter) -> Part:
        batch = self.batch
        assert not (batch.is_summed and dropout), "what was summed beforehand can't be dropped out"
        n_rows = len(batch.rows) if batch.is_summed else self.n_rows(value)
        step: Step
        by_column = isinstance(dropout, ColumnsDropped) or value.gain is not None
        if isinstance(batch.features, np.ndarray):
            features = batch.features[:n_rows]
            step = DenseFeatureProduct(self.kernels, features, batch.rows[:n_rows])
        elif batch.features is None and (dropout is None or by_column):
            step = WeightRows(None if batch.is_whole else batch.rows[:n_rows])
        else:
            rows = batch.identity_features if batch.features is None else batch.features
            packed = None
            if n_rows < len(rows.begin):
                rows = Csr(rows.begin[:n_rows], rows.end[:n_rows], *rows[2:])
            elif batch.is_summed and self.arrays[value.weight.name][0].size >= LEAST_PACKED:
                packed = batch.packed_features(self.kernels)  # of a batch that is used many times
            step = FeatureProduct(self.kernels, rows, batch.rows[:n_rows], packed)
        if by_column:
            assert not bias, "columns are dropped where nothing is summed beforehand"
            gains = [] if value.gain is None else [value.gain]
            dropping = ColumnDropout(self.kernels, step)
            return self._call(dropping, [value.weight, *gains], dropout=dropout, n_rows=n_rows)
        return self._call(step, [value.weight, *bias], dropout=dropout, n_rows=n_rows)

    def is_part(self, value: Value) -> bool:
        """Whether a value is made with the next one, by one step."""
        return (
            value in self.postponed
            or value in self._inside_powers
            or self._adds_bias(value)
            or self._is_given_bias(value)
            or (isinstance(value, Neighbours) and self._is_beside_own(*self.program.users[value]))
        )

    def _is_given_bias(self, value: Value) -> bool:
        """Whether this is the product that a sum made beforehand is, and adds the bias."""
        return isinstance(value, Product) and any(
            isinstance(user, Neighbours) and self._is_summed(user) and self._adds_bias(user)
            for user in self.program.users[value]
        )

    def _adds_bias(self, value: Value) -> bool:
        """Whether this is a sum over neighbours that adds the bias after it by itself.

        One that was made beforehand is the product, which adds it if features are dense.
        """
        users = self.program.users[value]
        if len(users) != 1 or not isinstance(users[0], Bias) or value in self._late_products:
            return False
        return self._is_beside_own(value) or (
            isinstance(value, Neighbours)
            and not isinstance(value.self_loops, Parameter)
            and (not self._is_summed(value) or isinstance(self.batch.features, np.ndarray))
        )

    def _is_beside_own(self, *values: Value) -> bool:
        """Whether this alone is a term of a product, plus the sum over neighbours of its other."""
        if len(values) != 1 or not isinstance(values[0], Sum) or self.batch.has_halo:
            return False
        own, summed = values[0].inputs
        if not isinstance(own, Term) or not isinstance(summed, Neighbours):
            return False
        (other,) = summed.inputs
        (product,) = own.inputs
        return (
            values[0].factor == 1
            and summed.self_loops == 0
            and self.program.users[summed] == [values[0]]
            and isinstance(other, Term)
            and other.inputs == (product,)
            and (own.place, other.place, product.n_terms) == (0, 1, 2)
        )

    def _sum_beside_own(self, value: Sum, *bias: Parameter) -> Part:
        own, summed = value.inputs
        n_rows = self.n_rows(value)
        given = self._rows_of(own.inputs[0], self.batch.n_within[self.program.hops[summed] + 1])
        scales = self.batch.scales(0.0, self.directed)
        shape = (n_rows, given.n_rows)
        step = SumBesideOwn(self.kernels, self.batch, shape, scales, 0.0)
        n_columns = self._width(given) // 2
        return self._call(step, bias, inputs=(given,), n_rows=n_rows, n_columns=n_columns)

    def _power_sum(self, chain: Sequence[Power]) -> Part:
        batch, hops = self.batch, self.program.hops
        sums = []
        for power in chain:
            hop = hops[power.summed]
            shape = batch.n_within[hop], batch.n_within[hop + 1]
            own = (batch.scales(power.self_loops, self.directed), power.self_loops, power.factor)
            sums.append(NeighbourSum(self.kernels, batch, shape, *own))
        start = self._rows_of(chain[0].start, sums[0].shape[1])
        step = PowerSum(tuple(sums), chain[0].share)
        return self._call(step, inputs=(start,), n_rows=sums[-1].shape[0])

    def _normalised_before(self, value: Sum) -> Normalised | None:
        """The layer normalisation that a sum adds something to, after a ReLU."""
        entered, is_relu = self._before_relu(value.inputs[0], value)
        alone = is_relu and value.factor == 1 and len(self.program.users[entered]) == 1
        return entered if alone and isinstance(entered, Normalised) else None

    def _normalised_and_added(self, normalised: Normalised, value: Sum) -> Part:
        n_rows = self.n_rows(value)
        given = tuple(self._rows_of(own, n_rows) for own in (*normalised.inputs, value.inputs[1]))
        parameters = [normalised.gain, normalised.shift]
        return self._call(LayerNorm(self.kernels, relu=True), parameters, inputs=given)

    def _columns_normalised(self, value: BatchNormalised) -> Part:
        entered, relu = self._before_relu(value.inputs[0], value)
        given = self._rows_of(entered, self.n_rows(value))
        parameters = [value.gain, value.shift, value.mean, value.variance]
        return self._call(BatchNorm(self.kernels, self.drops, relu), parameters, inputs=(given,))

    def _is_summed(self, value: Neighbours) -> bool:
        """Whether this sum over neighbours was made beforehand."""
        return self.batch.is_summed and value is self.program.summed_features

    def _neighbours(self, value: Neighbours, *bias: Parameter) -> Part:
        batch, hop = self.batch, self.program.hops[value]
        (summed,) = value.inputs
        if self._is_summed(value) and bias:
            assert isinstance(summed, Product)
            return self._feature_product(summed, None, *bias)
        if self._is_summed(value):
            return self._rows_of(summed, self.n_rows(value))
        if summed in self.postponed:
            return self._product_of_sums(value, summed, *bias)
        return self._sum(value, self._rows_of(summed, batch.n_within[hop + 1]), *bias)

    def _find_postponed(self) -> set[Value]:
        """Products that are made after the sum over neighbours that follows them.

        Dense features then are summed where nobody needs their gradient.
        """
        found: set[Value] = set()
        for value in self.program.values:
            if not isinstance(value, Neighbours) or isinstance(value.self_loops, Parameter):
                continue
            (product,) = value.inputs
            if (
                isinstance(product, Product)
                and self.program.users[product] == [value]
                and product.n_terms == 1
                and not isinstance(product.inputs[0], ColumnsDropped)
                and self._is_dense(product.inputs[0])
                and self._sum_comes_first(value, product)
            ):
                found.add(product)
        return found

    def _find_late_products(self) -> dict[Value, Product]:
        """Products of dense features that are made after several sums over neighbours, and where.

        Sums, multiples and dropout of rows take columns as they come: S (X W) is (S X) W, which may
        be narrower, and has no gradient.
        """
        found: dict[Value, Product] = {}
        for product in self.program.products:
            entered = product.inputs[0]
            inner = entered.inputs[0] if isinstance(entered, Dropped) else entered
            may_wait = product.n_terms == 1 and product not in self.postponed
            may_wait = may_wait and not isinstance(entered, ColumnsDropped)
            if self.batch.has_halo or not (
                may_wait and isinstance(inner, Features) and self._is_dense(inner)
            ):
                continue
            chain: dict[Value, None] = {product: None}
            for value in self.program.values:
                if _takes_any_columns(value) and all(own in chain for own in value.inputs):
                    chain[value] = None
            ends = [v for v in chain if any(user not in chain for user in self.program.users[v])]
            sums = [value for value in chain if isinstance(value, Neighbours)]
            n_in, _, n_out = product.weight.shape
            n_passes = 1 + self.drops  # forward and, where there is a gradient, back
            if len(ends) == 1 and len(sums) > 1 and n_in < n_passes * n_out:
                found[ends[0]] = product
        return found

    def _sum_comes_first(self, value: Neighbours, product: Product) -> bool:
        n_in, _, n_out = product.weight.shape
        if self.batch.has_halo:
            return n_in < n_out  # whatever its part of the graph, every process must choose alike
        hop = self.program.hops[value]
        n_rows, n_read = self.batch.n_within[hop], self.batch.n_within[hop + 1]
        (entered,) = product.inputs
        inner = entered.inputs[0] if isinstance(entered, Dropped) else entered
        is_hidden = not isinstance(inner, Features)
        drops = self._active(entered) is not None
        on_the_way = drops and not is_hidden and self._drops_on_the_way(n_rows, n_read)
        return sum_comes_first(
            ProductAndSum(
                n_in=n_in,
                n_out=n_out,
                n_read=n_read,
                n_rows=n_rows,
                n_entries=self._n_summed(n_rows, n_read),
                trained=self.drops,
                for_input=is_hidden,
                copied=is_hidden or (drops and not on_the_way),
                dropped=on_the_way,
            )
        )

    def _is_dense(self, value: Value) -> bool:
        inner = value.inputs[0] if isinstance(value, Dropped) else value
        if not isinstance(inner, Features):
            return True
        return isinstance(self.batch.features, np.ndarray) and not self.batch.is_summed

    def _product_of_sums(self, value: Neighbours, product: Value, *bias: Parameter) -> Part:
        assert isinstance(product, Product)
        (entered,) = product.inputs
        inner = entered.inputs[0] if isinstance(entered, Dropped) else entered
        if isinstance(inner, Features):
            n_replicas = self.arrays[product.weight.name].shape[2]
            summed = self._sum_of_features(value, n_replicas, self._active(entered))
        else:
            n_rows = self.batch.n_within[self.program.hops[value] + 1]
            summed = self._sum(value, self._rows_of(entered, n_rows))
        for_input = self.calls[summed.step].has_gradient
        step = WideProduct(self.kernels, self.batch.rows[: summed.n_rows], for_input=for_input)
        return self._call(step, [product.weight, *bias], inputs=(summed,))

    def _sum_of_features(self, value: Neighbours, n_replicas: int, dropout: Dropped | None) -> Part:
        """Sums of dense features, which are dropped out on the way unless that is more work."""
        batch, hop = self.batch, self.program.hops[value]
        assert isinstance(batch.features, np.ndarray)
        n_rows, n_read = batch.n_within[hop], batch.n_within[hop + 1]
        features, row_ids = batch.features[:n_read], batch.rows[:n_read]
        n_columns = features.shape[1] * n_replicas
        if dropout is not None and not batch.has_halo and self._drops_on_the_way(n_rows, n_read):
            assert not isinstance(value.self_loops, Parameter)
            scales = batch.scales(value.self_loops, self.directed)
            plain = NeighbourSum(self.kernels, batch, (n_rows, n_read), scales, value.self_loops)
            step = DroppedFeatureSum(plain, features, row_ids)
            return self._call(step, dropout=dropout, n_rows=n_rows, n_columns=n_columns)
        return self._sum(value, self._dense_features(n_read, n_replicas, dropout))

    def _dense_features(self, n_rows: int, n_replicas: int, dropout: Dropped | None) -> Part:
        """Dense features as hidden values are, dropped out for each replica by itself."""
        assert isinstance(self.batch.features, np.ndarray)
        features, row_ids = self.batch.features[:n_rows], self.batch.rows[:n_rows]
        repeated = RepeatedFeatures(features, n_replicas)
        n_columns = features.shape[1] * n_replicas
        given = self._call(repeated, n_rows=n_rows, n_columns=n_columns)
        if dropout is None:
            return given
        dropped = DenseDropout(self.kernels, row_ids, relu=False)
        return self._call(dropped, inputs=(given,), dropout=dropout)

    def _drops_on_the_way(self, n_rows: int, n_read: int) -> bool:
        return self._n_summed(n_rows, n_read) <= MOST_SUMS * n_read

    def _n_summed(self, n_rows: int, n_read: int) -> int:
        """How many rows a sum over neighbours adds up, the nodes' own among them."""
        block = self.batch.block(n_rows, n_read)
        return int((block.end - block.begin).sum()) + n_rows

    def _sum(self, value: Neighbours, given: Part, *bias: Parameter) -> Part:
        batch, hop = self.batch, self.program.hops[value]
        if batch.has_halo:
            given = self._call(HaloExchange(batch, hop), inputs=(given,), n_rows=len(batch.degree))
        shape = (batch.n_within[hop], given.n_rows)
        if isinstance(value.self_loops, Parameter):
            plain = NeighbourSum(self.kernels, batch, shape, Scales(), 0.0)
            learned = LearnedSum(plain, batch.degree, self.directed)
            return self._call(learned, [value.self_loops], inputs=(given,), n_rows=shape[0])
        scales = batch.scales(value.self_loops, self.directed)
        step = NeighbourSum(self.kernels, batch, shape, scales, value.self_loops)
        return self._call(step, bias, inputs=(given,), n_rows=shape[0])
