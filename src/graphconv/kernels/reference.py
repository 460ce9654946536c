"""The kernels written plainly with numpy and scipy: what the native ones must equal.

All arrays are C-contiguous; floats are float32 or float64 and of one kind within a call. Rows of
`dense` and `weight` have width F. Costs are stated in multiply-adds.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.kernels import (
    PACKED_BLOCK,
    Csr,
    Dropout,
    PackedRows,
    RowSample,
    row_bounds,
    row_scale,
)
from graphconv.kernels.hashing import hash_counters

Array = npt.NDArray[Any]


def propagate(
    rows: Csr,
    dense: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
    entry_scale: Array | None = None,
    bias: Array | None = None,
    own: Array | None = None,
) -> Array:
    """Weighted sum over neighbours, plus the node itself: n_entries * F.

    out[i] = row_scale[i] * (sum_e values[e] * column_scale[j_e] * dense[j_e]
                             + self_weight * column_scale[i] * dense[i]) + own[i] + bias

    `dense` has shape (n_columns, F), out (n_rows, F). The self term is left out for rows past the
    end of `dense`, which is what the transposed product of a leading block needs, and so is what is
    past the end of `own`, (n_own, F). `entry_scale`
    (n_entries,) is column_scale[j_e], looked up beforehand; it changes nothing but the speed.
    """
    if column_scale is not None:
        dense = dense * column_scale[:, None]
    out: Array = _matrix(rows, dense.shape[0], dense.dtype) @ dense
    if self_weight:
        n = min(out.shape[0], dense.shape[0])
        out[:n] += dense.dtype.type(self_weight) * dense[:n]
    if row_scale is not None:
        out *= row_scale[:, None]
    if own is not None:
        out[: len(own)] += own[: len(out)]
    if bias is not None:
        out += bias.ravel()
    return out


def propagate_beside(
    rows: Csr,
    dense: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    entry_scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """The node's own term, plus the sum over neighbours of another, plus a bias, (F,).

    `dense` is (n_columns, 2 F): the own term, and beside it the one that is summed.
    """
    own, summed = (np.ascontiguousarray(term) for term in np.split(dense, 2, axis=1))
    out = propagate(rows, summed, row_scale, column_scale, 0.0, entry_scale)
    out += own[: len(out)]
    return out if bias is None else out + bias.ravel()


def propagate_beside_backward(
    rows: Csr,
    gradient: Array,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    entry_scale: Array | None = None,
) -> Array:
    """Gradient of `propagate_beside` for both terms, given rows and scales of the transpose."""
    summed = propagate(rows, gradient, row_scale, column_scale, 0.0, entry_scale)
    own = np.zeros_like(summed)
    own[: len(gradient)] = gradient
    return np.hstack([own, summed])


def propagate_dropped(
    rows: Csr,
    dense: Array,
    dropout: Dropout,
    row_ids: Array | None = None,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
) -> Array:
    """What `propagate` makes of dropout(dense), for every replica: n_entries * F for each.

    `dense` of shape (n_columns, F) is shared by the replicas, which drop out each by a key of its
    own; out has shape (n_rows, n_keys * F).
    """
    copies = np.tile(dense, len(dropout.keys))
    dropped = dropout_dense(copies, dropout, row_ids)
    return propagate(rows, dropped, row_scale, column_scale, self_weight)


def propagate_sparse(
    rows: Csr,
    features: Csr,
    n_columns: int,
    row_scale: Array | None = None,
    column_scale: Array | None = None,
    self_weight: float = 0.0,
) -> Csr:
    """What `propagate` makes of sparse rows, which have values: the sum of `n_summed`.

    `features` has one row for each column of `rows`, and n_columns columns; out has rows of its
    own, one after the other. Entries that add up to zero stay.
    """
    assert features.values is not None
    matrix = _matrix(features, n_columns, features.values.dtype)
    sums = _matrix(rows, matrix.shape[0], matrix.dtype)
    if self_weight:
        loops = sp.eye_array(*sums.shape, dtype=matrix.dtype, format="csr")
        sums = sums + matrix.dtype.type(self_weight) * loops
    if column_scale is not None:
        sums = sums @ sp.diags_array(column_scale)
    if row_scale is not None:
        sums = sp.diags_array(row_scale) @ sums
    out = sp.csr_array(sums @ matrix)
    out.sort_indices()
    kind = rows.begin.dtype
    indptr = out.indptr.astype(kind, copy=False)
    return Csr(indptr[:-1], indptr[1:], out.indices.astype(kind, copy=False), out.data)


def feature_product(
    rows: Csr, weight: Array, dropout: Dropout | None = None, row_ids: Array | None = None
) -> Array:
    """Product of sparse features, dropped out on the fly, with a weight matrix: n_entries * F.

    out = dropout(X) @ weight, with `weight` of shape (n_columns, F), out (n_rows, F). The element
    number of an entry, for the dropout hash, is its position within its row; `row_ids` (n_rows,)
    int64 are the rows' names in the hash, by default 0, 1, ...
    """
    matrix = _matrix(rows, weight.shape[0], weight.dtype)
    if dropout is None:
        return cast(Array, matrix @ weight)
    blocks = np.split(weight, len(dropout.keys), axis=1)
    return np.hstack(
        [
            _dropped(matrix, key, dropout.threshold, row_ids) @ block
            for key, block in zip(dropout.keys, blocks, strict=True)
        ]
    )


def feature_product_transposed(
    rows: Csr,
    dense: Array,
    n_columns: int,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
) -> Array:
    """Gradient of `feature_product` for the weight: dropout(X).T @ dense, shape (n_columns, F)."""
    matrix = _matrix(rows, n_columns, dense.dtype)
    if dropout is None:
        return cast(Array, matrix.T @ dense)
    blocks = np.split(dense, len(dropout.keys), axis=1)
    return np.hstack(
        [
            _dropped(matrix, key, dropout.threshold, row_ids).T @ block
            for key, block in zip(dropout.keys, blocks, strict=True)
        ]
    )


def pack_rows(rows: Csr, n_columns: int, n_ranges: int) -> PackedRows:
    """Rows, which have values, in the order in which wide products read them; costs the entries."""
    assert rows.values is not None
    indptr, entries = _entries(rows)
    columns, values = rows.indices[entries], rows.values[entries]
    limits = n_columns * np.arange(1, n_ranges + 1) // n_ranges
    n_rows = len(rows.begin)
    piece = _places(n_rows, n_ranges)[
        np.repeat(np.arange(n_rows), np.diff(indptr)), np.searchsorted(limits, columns, "right")
    ]
    order = np.argsort(piece, kind="stable")
    ends = np.cumsum(np.bincount(piece, minlength=n_rows * n_ranges), dtype=indptr.dtype)
    begins = np.concatenate([[0], ends[:-1]]).astype(indptr.dtype)[: len(ends)]
    return PackedRows(Csr(begins, ends, columns[order], values[order]), n_ranges)


def packed_product(packed: PackedRows, weight: Array) -> Array:
    """X @ weight of rows that `pack_rows` has packed, shape (n_rows, F): n_entries * F."""
    pieces, n_ranges = packed
    products = _matrix(pieces, len(weight), weight.dtype) @ weight
    places = _places(len(pieces.begin) // n_ranges, n_ranges)
    return cast(Array, products[places].sum(axis=1, dtype=weight.dtype))


def _places(n_rows: int, n_ranges: int) -> Array:
    """Which piece is that of a row and a range, shape (n_rows, n_ranges)."""
    within = np.arange(n_rows) % PACKED_BLOCK
    first = np.arange(n_rows) - within
    height = np.minimum(PACKED_BLOCK, n_rows - first)  # of the row's block
    places: Array = (first * n_ranges + within)[:, None] + height[:, None] * np.arange(n_ranges)
    return places


def dropout_dense(
    dense: Array, dropout: Dropout | None, row_ids: Array | None, relu: bool = False
) -> Array:
    """Drop elements of a dense matrix, after a ReLU if asked; element number is the column."""
    out = np.maximum(dense, 0) if relu else dense.copy()
    if dropout is not None:
        out *= _dense_mask(dense, dropout, row_ids)
    return out


def dropout_dense_backward(
    gradient: Array,
    dense: Array,
    dropout: Dropout | None,
    row_ids: Array | None,
    relu: bool = False,
) -> Array:
    """Gradient of `dropout_dense` for its input `dense`."""
    out = np.where(dense > 0, gradient, 0) if relu else gradient.copy()
    if dropout is not None:
        out *= _dense_mask(gradient, dropout, row_ids)
    return out


def hidden_product(
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
) -> Array:
    """Hidden activations, dropped out, times a layer's weight, replica by replica.

    `dense` is (n_rows, n_replicas * n_in), `weight` (n_in, n_terms, n_replicas, n_out), out
    (n_rows, n_terms * n_replicas * n_out). Dropout has a key for each replica.
    """
    hidden = _by_replica(dropout_dense(dense, dropout, row_ids, relu), weight)
    product = _replicas_apart("nrj,jtro->ntro", hidden, weight)
    return np.ascontiguousarray(product).reshape(len(dense), math.prod(weight.shape[1:]))


def hidden_product_backward(
    gradient: Array,
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
) -> tuple[Array, Array]:
    """Gradients of `hidden_product` for `dense` and for `weight`."""
    hidden = _by_replica(dropout_dense(dense, dropout, row_ids, relu), weight)
    upstream = gradient.reshape(len(dense), *weight.shape[1:])
    for_hidden = _replicas_apart("ntro,jtro->nrj", upstream, weight)
    for_weight = _replicas_apart("nrj,ntro->jtro", hidden, upstream)
    raw = np.ascontiguousarray(for_hidden).reshape(dense.shape)
    return (
        dropout_dense_backward(raw, dense, dropout, row_ids, relu),
        np.ascontiguousarray(for_weight),
    )


def wide_product(
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
    bias: Array | None = None,
) -> Array:
    """`hidden_product` for weights of many columns, and for features; plus a bias, (F,).

    `dense` may be (n_rows, n_in), too: all replicas then share it, each with its own dropout.
    """
    out = hidden_product(_for_all(dense, weight), weight, dropout, row_ids, relu)
    return out if bias is None else out + bias.ravel()


def wide_product_backward(
    gradient: Array,
    dense: Array,
    weight: Array,
    dropout: Dropout | None = None,
    row_ids: Array | None = None,
    relu: bool = False,
    for_dense: bool = True,
) -> tuple[Array | None, Array]:
    """Gradients of `wide_product` for `dense`, where that is wanted, and for `weight`."""
    shared = dense if for_dense else _for_all(dense, weight)
    found, for_weight = hidden_product_backward(gradient, shared, weight, dropout, row_ids, relu)
    return found if for_dense else None, for_weight


def _for_all(dense: Array, weight: Array) -> Array:
    n_replicas = weight.shape[2]
    return np.tile(dense, n_replicas) if dense.shape[1] == len(weight) else dense


def _by_replica(dense: Array, weight: Array) -> Array:
    return dense.reshape(len(dense), weight.shape[2], weight.shape[0])


def _replicas_apart(formula: str, *operands: Array) -> Array:
    """An einsum of operands that have an axis r, the replicas, each of which is summed by itself.

    In which order numpy adds follows from the shape: together, last bits could differ.
    """
    terms, out = formula.split("->")
    axes = [term.index("r") for term in terms.split(",")]
    parts = [
        np.einsum(
            formula,
            *(own.take([replica], axis) for own, axis in zip(operands, axes, strict=True)),
            optimize=True,
        )
        for replica in range(operands[0].shape[axes[0]])
    ]
    return np.concatenate(parts, axis=out.index("r"))


def normalise_rows(
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    added: Array | None = None,
) -> Array:
    """Rows of mean 0 and variance 1, times a gain, plus a shift, after a ReLU if asked; plus more.

    `gain` and `shift` are (n_replicas, width); of `dense`, (n_rows, n_replicas * width), each
    replica's columns are normalised by themselves. `epsilon` is added to the variance. `added`,
    like `dense`, is added in the end.
    """
    standard, _ = _standard(dense, gain, epsilon)
    out: Array = (standard * gain + shift).reshape(dense.shape)
    out = np.maximum(out, 0) if relu else out
    return out if added is None else out + added


def normalise_rows_backward(
    gradient: Array, dense: Array, gain: Array, shift: Array, epsilon: float, relu: bool = False
) -> tuple[Array, Array, Array]:
    """Gradients of `normalise_rows` for `dense`, `gain` and `shift`; that of `added` is its own."""
    standard, spread = _standard(dense, gain, epsilon)
    slope = gradient.reshape(standard.shape)
    if relu:
        slope = np.where(standard * gain + shift > 0, slope, 0)
    inner = slope * gain
    along = (inner * standard).mean(axis=2, keepdims=True)
    for_dense = (inner - inner.mean(axis=2, keepdims=True) - standard * along) / spread
    exact = np.stack([slope * standard, slope]).sum(axis=1, dtype=np.float64)
    return np.ascontiguousarray(for_dense.reshape(dense.shape)), *exact.astype(dense.dtype)


def _standard(dense: Array, gain: Array, epsilon: float) -> tuple[Array, Array]:
    """Rows of mean 0 and variance 1, (n_rows, n_replicas, width), and what they were divided by."""
    by_replica = dense.reshape(len(dense), *gain.shape)
    centred = by_replica - by_replica.mean(axis=2, keepdims=True)
    variance = (centred * centred).mean(axis=2, keepdims=True)
    spread = np.sqrt(variance + dense.dtype.type(epsilon))
    return centred / spread, spread


def normalise_columns(
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    mean: Array | None = None,
    variance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Columns of mean 0 and variance 1, times a gain, plus a shift: n_rows * F.

    `dense` is (n_rows, F), and taken after a ReLU if asked; the others have an element for each
    column. Mean and variance are those of the rows unless they are given; returned beside the
    result. `epsilon` is added to the variance.
    """
    x = np.maximum(dense, 0) if relu else dense
    if mean is None or variance is None:
        mean, variance = (own.reshape(gain.shape) for own in _mean_and_variance(x))
    spread = np.sqrt(variance.ravel() + dense.dtype.type(epsilon))
    return (x - mean.ravel()) * (gain.ravel() / spread) + shift.ravel(), mean, variance


def normalise_columns_backward(
    gradient: Array,
    dense: Array,
    gain: Array,
    shift: Array,
    epsilon: float,
    relu: bool = False,
    mean: Array | None = None,
    variance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Gradients of `normalise_columns` for `dense`, `gain` and `shift`; given statistics stay."""
    x = np.maximum(dense, 0) if relu else dense
    moves = mean is None or variance is None
    if mean is None or variance is None:
        mean, variance = _mean_and_variance(x)
    spread = np.sqrt(variance.ravel() + dense.dtype.type(epsilon))
    standard = (x - mean.ravel()) / spread
    exact = np.stack([gradient * standard, gradient]).sum(axis=1, dtype=np.float64)
    for_gain, for_shift = exact.astype(dense.dtype)
    slope = gradient
    if moves:  # every row has a say in mean and variance
        slope = gradient - (for_shift + standard * for_gain) / dense.dtype.type(max(1, len(x)))
    for_dense = slope * (gain.ravel() / spread)
    if relu:
        for_dense = np.where(dense > 0, for_dense, dense.dtype.type(0))
    return for_dense, for_gain.reshape(gain.shape), for_shift.reshape(gain.shape)


def _mean_and_variance(x: Array) -> tuple[Array, Array]:
    n_rows = max(1, len(x))
    mean = x.sum(axis=0, dtype=np.float64) / n_rows
    variance = np.square(x - mean).sum(axis=0) / n_rows
    return mean.astype(x.dtype), variance.astype(x.dtype)


def column_sums(rows: Array) -> Array:
    """Sums of the columns of (n_rows, F), shape (1, F): n_rows * F."""
    sums: Array = rows.sum(axis=0, dtype=np.float64, keepdims=True)
    return sums.astype(rows.dtype)


def walks(rows: Csr, totals: Array | None, starts: Array, n_steps: int, key: int) -> Array:
    """Random walks from int64 `starts`, shape (n_walks, n_steps + 1): one hash per step.

    Where entries weigh differently, `totals` (n_entries + 1,) is their running sum in float64, and
    steps are taken in proportion; `rows.values` is not looked at. A walk that comes to a node
    without neighbours stays there. Walk w's step s goes by the hash of (key, w, s).
    """
    out = np.empty((len(starts), n_steps + 1), dtype=np.int64)
    out[:, 0] = nodes = starts
    first_counter = np.arange(len(starts), dtype=np.uint64) << np.uint64(32)
    begin, end = rows.begin.astype(np.int64), rows.end.astype(np.int64)
    for step in range(1, n_steps + 1):
        chance = (hash_counters(key, first_counter + np.uint64(step)) >> np.uint64(11)) * 2.0**-53
        moving = begin[nodes] < end[nodes]
        first, last = begin[nodes[moving]], end[nodes[moving]]
        if totals is None:
            chosen = first + (chance[moving] * (last - first)).astype(np.int64)
        else:
            low, high = totals[first], totals[last]
            aim = low + chance[moving] * (high - low)
            chosen = np.searchsorted(totals, aim, side="right") - 1
        chosen = np.clip(chosen, first, last - 1)  # rounding may overshoot
        nodes = nodes.copy()
        nodes[moving] = rows.indices[chosen]
        out[:, step] = nodes
    return out


def loss(
    logits: Array, labels: Array, weight: Array, with_gradient: bool = False
) -> tuple[Array | None, Array]:
    """Cross-entropy of logits of shape (n_rows, n_replicas, n_classes), and what is right.

    `labels` are class numbers (n_rows,), for a softmax; or indicators (n_rows, n_classes), for a
    sigmoid each, of which the mean counts. `weight` (n_rows,) says how much a row counts. Returns
    the gradient of the weighted sum, or None if it is not wanted, and float64 scores of shape
    (2, n_replicas): that sum, and the weight of the rows (of the row's share of classes) that are
    labelled right.
    """
    exact = logits.astype(np.float64)
    if labels.ndim == 1:
        wanted = np.eye(logits.shape[2])[labels][:, None, :]
        shifted = exact - exact.max(axis=2, keepdims=True)
        totals = np.exp(shifted).sum(axis=2, keepdims=True)
        losses = (np.log(totals) - shifted)[np.arange(len(labels)), :, labels]
        right = exact.argmax(axis=2) == labels[:, None]
        slope = np.exp(shifted) / totals - wanted
    else:
        wanted = labels.astype(np.float64)[:, None, :]
        small = np.exp(-np.abs(exact))
        losses = (np.log1p(small) + np.maximum(exact, 0) - exact * wanted).mean(axis=2)
        right = ((exact > 0) == (wanted > 0.5)).mean(axis=2)
        slope = (np.where(exact < 0, small, 1) / (1 + small) - wanted) / logits.shape[2]
    scores = np.stack([weight @ losses, weight @ right])
    gradient = (weight[:, None, None] * slope).astype(logits.dtype) if with_gradient else None
    return gradient, scores


def agreement(logits: Array, temperature: float, is_multilabel: bool = False) -> Array:
    """The gradient of what copies disagree by: a softmax for each row, copy and replica.

    `logits` are (n_rows, n_copies, n_replicas, n_classes). With p_s the probabilities that copy s
    of S gives a row, and q their mean to the power of 1 / `temperature` (above 0), made to add up
    to 1 and taken as given, it is that of 1 / S sum_s |p_s - q|^2. Of several labels a row each
    class is a yes or no of its own, and the mean over classes counts.
    """
    slope: Array
    exact = logits.astype(np.float64)
    n_copies, n_classes = logits.shape[1], logits.shape[3]
    if is_multilabel:
        small = np.exp(-np.abs(exact))
        shares = np.where(exact < 0, small, 1) / (1 + small)
        mean = shares.mean(axis=1, keepdims=True)
        larger = np.maximum(mean, 1 - mean)
        yes, no = ((own / larger) ** (1 / temperature) for own in (mean, 1 - mean))
        away = 4 / max(1, n_copies * n_classes) * (shares - yes / (yes + no))
        slope = away * shares * (1 - shares)
    else:
        exponentials = np.exp(exact - exact.max(axis=3, keepdims=True, initial=-np.inf))
        shares = exponentials / exponentials.sum(axis=3, keepdims=True)
        mean = shares.mean(axis=1, keepdims=True)
        # The largest becomes 1 before the power, so that one of them stays above 0.
        raised = (mean / mean.max(axis=3, keepdims=True, initial=0)) ** (1 / temperature)
        away = 2 / max(1, n_copies) * (shares - raised / raised.sum(axis=3, keepdims=True))
        slope = shares * (away - (away * shares).sum(axis=3, keepdims=True))
    return slope.astype(logits.dtype)


def adam(
    parameter: Array,
    gradient: Array,
    mean: Array,
    square: Array,
    step: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """One step of Adam (Kingma and Ba), in place; `step` counts from 1. Decay is L2, not AdamW's.

    Betas are 0.9 and 0.999, epsilon is 1e-8. `gradient` is only read.
    """
    number = parameter.dtype.type
    slope = gradient + number(weight_decay) * parameter
    mean += (1 - number(0.9)) * (slope - mean)
    square[...] = number(0.999) * square + (1 - number(0.999)) * slope * slope
    rate = number(learning_rate / (1 - 0.9**step))
    correction = number(1 / np.sqrt(1 - 0.999**step))
    parameter -= rate * mean / (np.sqrt(square) * correction + number(1e-8))


def sample_rows(
    indptr: Array,
    indices: Array,
    values: Array | None,
    rows: Array,
    fanout: int | None = None,
    key: int = 0,
    row_ids: Array | None = None,
) -> RowSample:
    """Some rows of a sparse matrix; of longer rows than `fanout` a sample of so many entries.

    Every set of `fanout` entries is as likely as any other. Which it is follows from the key and
    the row's number alone (or its `row_ids`, which then stand for the number), by Floyd's
    algorithm: step k = 0, 1, ... draws a position of 0 .. n - fanout + k, from the upper half of
    hash(key + (row * 2**32 + k) * golden), and takes the last of them where that one is taken
    already. Entries stay in their order. Costs the entries that leave.
    """
    begin, end, offsets = row_bounds(indptr, rows, fanout)
    lengths = end - begin
    taken = np.diff(offsets)
    # All entries of all rows, then other positions for the rows that are cut.
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], taken)
    if fanout is not None:
        cut = np.flatnonzero(lengths > fanout)
        places = offsets[cut][:, None] + np.arange(fanout)
        within[places] = _floyd(
            key, (rows if row_ids is None else row_ids)[cut], lengths[cut], fanout
        )
    entries = np.repeat(begin, taken) + within
    return RowSample(
        offsets,
        indices[entries],
        None if values is None else values[entries],
        row_scale(begin, end, fanout),
    )


def _floyd(key: int, rows: Array, lengths: Array, fanout: int) -> Array:
    """Sorted positions of a sample of `fanout` of each row's entries, shape (n_rows, fanout)."""
    chosen = np.empty((len(rows), fanout), dtype=np.int64)
    for step in range(fanout):
        counter = (rows.astype(np.uint64) << np.uint64(32)) + np.uint64(step)
        drawn = hash_counters(key, counter) >> np.uint64(32)
        last = (lengths - fanout + step).astype(np.uint64)
        position = ((drawn * (last + np.uint64(1))) >> np.uint64(32)).astype(np.int64)
        is_taken = (chosen[:, :step] == position[:, None]).any(axis=1)
        chosen[:, step] = np.where(is_taken, last.astype(np.int64), position)
    chosen.sort(axis=1)
    return chosen


def get_threads() -> int:
    """How many threads the kernels use."""
    return 1


def trim_memory() -> None:
    """Let go of memory; nothing is kept here."""


def kept(key: int, threshold: int, row_ids: Array, elements: Array) -> Array:
    """Which (row id, element number) pairs survive; the two arrays broadcast.

    One 64-bit hash (SplitMix64's finaliser over a Weyl sequence) serves four elements with 16 bits
    each: counter = row_id * 2**32 + element // 4, lane = element % 4.
    """
    elements = elements.astype(np.uint64)
    counters = (row_ids.astype(np.uint64) << np.uint64(32)) + (elements >> np.uint64(2))
    z = hash_counters(key, counters)
    lane = (elements & np.uint64(3)) * np.uint64(16)
    survives: Array = ((z >> lane) & np.uint64(0xFFFF)) < np.uint64(threshold)
    return survives


def _dense_mask(dense: Array, dropout: Dropout, row_ids: Array | None) -> Array:
    ids = np.arange(dense.shape[0]) if row_ids is None else row_ids
    columns = np.arange(dense.shape[1] // len(dropout.keys))
    masks = [kept(key, dropout.threshold, ids[:, None], columns) for key in dropout.keys]
    return cast(Array, np.hstack(masks) * dense.dtype.type(65536 / dropout.threshold))


def _matrix(rows: Csr, n_columns: int, dtype: npt.DTypeLike) -> sp.csr_array:
    indptr, entries = _entries(rows)
    indices = rows.indices[entries]
    values = np.ones(len(indices), dtype) if rows.values is None else rows.values[entries]
    return sp.csr_array((values, indices, indptr), shape=(len(rows.begin), n_columns))


def _dropped(matrix: sp.csr_array, key: int, threshold: int, row_ids: Array | None) -> sp.csr_array:
    ids = np.arange(matrix.shape[0]) if row_ids is None else row_ids
    lengths = np.diff(matrix.indptr)
    element = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    mask = kept(key, threshold, np.repeat(ids, lengths), element)
    values = matrix.data * (mask * matrix.dtype.type(65536 / threshold))
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _entries(rows: Csr) -> tuple[Array, slice | Array]:
    """Row pointers of the chosen rows laid end to end, and where their entries are."""
    lengths = rows.end - rows.begin
    indptr = np.zeros(len(lengths) + 1, dtype=rows.indices.dtype)
    np.cumsum(lengths, out=indptr[1:])
    if len(lengths) == 0 or (rows.begin[1:] == rows.end[:-1]).all():
        first = int(rows.begin[0]) if len(lengths) else 0
        return indptr, slice(first, first + int(indptr[-1]))
    starts = np.repeat(rows.begin - indptr[:-1], lengths)
    return indptr, starts + np.arange(indptr[-1])
