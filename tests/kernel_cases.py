"""Inputs that the kernels are tested on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from graphconv import kernels
from graphconv.kernels import Csr, Dropout

Array = npt.NDArray[Any]

MISSING = kernels.native_missing()
needs_native = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
KERNELS = ["reference", pytest.param("native", marks=needs_native)]
HALF = 1 << 15
KEY = 0x0123456789ABCDEF


def make_rows(
    n_rows: int,
    n_columns: int,
    *,
    density: float = 0.3,
    values: bool = True,
    dtype: Any = np.float32,
    index: Any = np.int32,
    seed: int = 0,
    gaps: bool = True,
) -> tuple[Csr, Array]:
    """Random rows, some empty, with unused entries between them; and the same as a dense matrix."""
    rng = np.random.default_rng(seed)
    begin, end, columns = [], [], []
    used = 0
    for i in range(n_rows):
        gap = int(rng.integers(0, 3)) if gaps else 0
        columns.append(rng.integers(0, max(n_columns, 1), gap))
        chosen = np.flatnonzero(rng.random(n_columns) < (0 if i % 5 == 2 else density))
        columns.append(chosen)
        begin.append(used + gap)
        used += gap + len(chosen)
        end.append(used)
    indices = np.concatenate([*columns, np.zeros(0, int)]).astype(index)
    data = rng.standard_normal(used).astype(dtype) if values else None
    dense = np.zeros((n_rows, n_columns))
    for i, (first, last) in enumerate(zip(begin, end, strict=True)):
        dense[i, indices[first:last]] = 1 if data is None else data[first:last]
    return Csr(np.array(begin, index), np.array(end, index), indices, data), dense


def big_results(native: ModuleType) -> dict[str, Array]:
    """Every kernel, and every way of sharing its work, on enough work for several threads."""
    rng = np.random.default_rng(0)
    one, many = Dropout((KEY,), HALF), Dropout(tuple(range(5)), 50000)
    tall, _ = make_rows(6000, 60, density=0.4, seed=1)  # many entries to a column
    wide, _ = make_rows(3000, 3000, density=0.015, seed=2)  # few
    results = {}
    for name, rows, n_columns in (("tall", tall, 60), ("wide", wide, 3000)):
        n_rows = len(rows.begin)
        for width in (16, 20, 35):
            weight = rng.standard_normal((n_columns, width)).astype(np.float32)
            dense = rng.standard_normal((n_rows, width)).astype(np.float32)
            results[f"propagate {name} {width}"] = native.propagate(
                rows, weight, dense[:, 0].copy(), weight[:, 0].copy(), 0.5
            )
            dropouts = [None, one, many] if width % 5 == 0 else [None, one]
            for dropout in dropouts:
                which = f"{name} {width} {dropout and len(dropout.keys)}"
                results[f"product {which}"] = native.feature_product(rows, weight, dropout)
                results[f"transposed {which}"] = native.feature_product_transposed(
                    rows, dense, n_columns, dropout
                )
            if width == 20:
                scales = (dense[:, 0].copy(), weight[:, 0].copy())
                both = rng.standard_normal((max(n_columns, n_rows), 20)).astype(np.float32)
                whole = (scales[0], both[:, 0].copy())
                results[f"beside {name}"] = native.propagate_beside(
                    rows, both, *whole, None, both[0, :10].copy()
                )
                results[f"beside {name} backward"] = native.propagate_beside_backward(
                    rows, weight, *scales
                )
    for width, dropout in ((7, one), (45, many), (200, one)):
        dense = rng.standard_normal((3000, width)).astype(np.float32)
        scales = rng.random((2, 3000)).astype(np.float32)
        results[f"dropped {width}"] = native.propagate_dropped(
            wide, dense, dropout, None, *scales, 0.5
        )
    for width in (256, 300):  # weights in slices, the last of 300 columns narrower
        weight = rng.standard_normal((3000, width)).astype(np.float32)
        dense = rng.standard_normal((3000, width)).astype(np.float32)
        for dropout in (None, one):
            which = f"slices {width} {dropout is not None}"
            results[which] = native.feature_product(wide, weight, dropout)
            results[f"{which} transposed"] = native.feature_product_transposed(
                wide, dense, 3000, dropout
            )
    packed = native.pack_rows(make_rows(2000, 400, density=0.4, seed=3)[0], 400, 4)
    for width in (32, 64, 100, 256):
        weight = rng.standard_normal((400, width)).astype(np.float32)
        results[f"packed {width}"] = native.packed_product(packed, weight)
    dense, gradient = rng.standard_normal((2, 30000, 20)).astype(np.float32)
    results["dense"] = native.dropout_dense(dense, many, None, True)
    results["dense backward"] = native.dropout_dense_backward(gradient, dense, one, None, True)
    for n_replicas, width, dropout in ((1, 7, one), (5, 7, many), (1, 32, None), (5, 3, many)):
        hidden = rng.standard_normal((20000, 20 * n_replicas)).astype(np.float32)
        weight = rng.standard_normal((20, 2, n_replicas, width)).astype(np.float32)
        upstream = rng.standard_normal((20000, weight[0].size)).astype(np.float32)
        which = f"hidden {n_replicas} {width}"
        results[which] = native.hidden_product(hidden, weight, dropout, None, True)
        for_hidden, for_weight = native.hidden_product_backward(
            upstream, hidden, weight, dropout, None, True
        )
        results[f"{which} for hidden"], results[f"{which} for weight"] = for_hidden, for_weight / 99
    for n_replicas, width in ((1, 32), (5, 7), (2, 64)):
        shape, columns = (n_replicas, width), n_replicas * width
        dense, gradient, added = rng.standard_normal((3, 20000, columns)).astype(np.float32)
        gain, shift = rng.standard_normal((2, *shape)).astype(np.float32)
        which = f"normalised {n_replicas} {width}"
        results[which] = native.normalise_rows(dense, gain, shift, 1e-5, True, added)
        for_dense, *for_weights = native.normalise_rows_backward(
            gradient, dense, gain, shift, 1e-5, True
        )
        results[f"{which} for dense"] = for_dense
        results[f"{which} for gain and shift"] = np.stack(for_weights) / 99
        weights = gain.reshape(1, -1), shift.reshape(1, -1), 1e-5, True
        results[f"columns {which}"] = native.normalise_columns(dense, *weights)[0]
        for_dense, *for_weights = native.normalise_columns_backward(gradient, dense, *weights)
        results[f"columns {which} for dense"] = for_dense
        results[f"columns {which} for gain and shift"] = np.stack(for_weights) / 99
    results.update(_wide_results(native, one, many))
    logits = rng.standard_normal((3000, 5, 7)).astype(np.float32)
    results["loss gradient"], results["loss"] = native.loss(
        logits, np.arange(3000) % 7, np.full(3000, 1 / 3000), True
    )
    for n_rows, width in ((100_000, 5), (3000, 300)):
        dense = rng.standard_normal((n_rows, width)).astype(np.float32)
        results[f"column sums {width}"] = native.column_sums(dense) / 99
    logits = rng.standard_normal((3000, 3, 5, 7)).astype(np.float32)
    for is_multilabel in (False, True):
        results[f"agreement {is_multilabel}"] = native.agreement(logits, 0.5, is_multilabel)
    starts = np.arange(3000)
    results["walks"] = native.walks(wide, None, starts, 20, KEY)
    weights = np.concatenate([[0.0], np.cumsum(rng.random(len(wide.indices)))])
    results["weighted walks"] = native.walks(wide, weights, starts, 20, KEY)
    parameter, gradient, mean, square = rng.random((4, 200000)).astype(np.float32)
    native.adam(parameter, gradient, mean, square, 3, 0.01, 0.1)
    results["adam"] = np.stack([parameter, mean, square])
    return results


def _wide_results(native: ModuleType, one: Dropout, many: Dropout) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    results = {}
    # Columns of more than one block, of more than one panel, and of parts of registers.
    for n_replicas, n_in, width, dropout in (
        (1, 600, 70, one),
        (1, 40, 530, None),
        (5, 24, 33, many),
    ):
        hidden = rng.standard_normal((3000, n_in * n_replicas)).astype(np.float32)
        weight = rng.standard_normal((n_in, 2, n_replicas, width)).astype(np.float32)
        upstream = rng.standard_normal((3000, weight[0].size)).astype(np.float32)
        which = f"wide {n_replicas} {width}"
        results[which] = native.wide_product(hidden, weight, dropout, None, True, weight[0])
        for_hidden, for_weight = native.wide_product_backward(
            upstream, hidden, weight, dropout, None, True
        )
        results[f"{which} for hidden"] = for_hidden / 99
        results[f"{which} for weight"] = for_weight / 99
        shared = np.ascontiguousarray(hidden[:, :n_in])
        results[f"{which} shared"] = native.wide_product(shared, weight, dropout)
        _, for_weight = native.wide_product_backward(
            upstream, shared, weight, dropout, for_dense=False
        )
        results[f"{which} shared for weight"] = for_weight / 99
    return results


def big_product(native: ModuleType) -> tuple[Csr, Array, Array]:
    rows, _ = make_rows(4000, 60, density=0.7, seed=1)
    weight = np.random.default_rng(0).standard_normal((60, 16)).astype(np.float32)
    return rows, weight, native.feature_product(rows, weight)
