"""What the kernels do only where graphs are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphconv import kernels
from graphconv.kernels import Csr

if kernels.native_missing() is not None:
    pytest.skip("the C++ kernels are not built", allow_module_level=True)
from graphconv.kernels import native

LINE = 64  # bytes


@pytest.fixture
def thread_counts() -> Any:
    before = native.get_threads()
    yield (1, 2, 4)
    native.set_threads(before)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_scales_looked_up_beforehand_give_the_same_bits(
    is_weighted: bool, dtype: Any, index_type: Any, thread_counts: tuple[int, ...]
) -> None:
    # More than 32 MiB of whole cache lines: the result is written past the caches.
    n = 2**25 // LINE + 100
    width = LINE // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    indices = rng.integers(n, size=2 * n).astype(index_type)
    values = rng.random(2 * n).astype(dtype) if is_weighted else None
    bounds = np.arange(0, 2 * n + 1, 2, dtype=index_type)
    dense = rng.standard_normal((n, width)).astype(dtype)
    left, right = rng.random(n).astype(dtype), rng.random(n).astype(dtype)
    # Some rows by themselves are written as usual.
    some = slice(1000, 1200)
    begin, end = bounds[:-1][some] - bounds[1000], bounds[1:][some] - bounds[1000]
    entries = slice(bounds[1000], bounds[1200])
    own_values = None if values is None else values[entries].copy()
    few = Csr(begin, end, indices[entries].copy(), own_values)
    expected = native.propagate(few, dense, left[some].copy(), right, 0.0)
    whole = Csr(bounds[:-1].copy(), bounds[1:].copy(), indices, values)
    for n_threads in thread_counts:
        native.set_threads(n_threads)
        for looked_up in (None, right[indices]):
            out = native.propagate(whole, dense, left, right, 0.0, looked_up)
            np.testing.assert_array_equal(out[some], expected)
    # The node itself is added last: weight times scale, then times its row.
    with_self = native.propagate(whole, dense, None, right, 0.7, right[indices])[some]
    without = native.propagate(whole, dense, None, right, 0.0)[some]
    own = (dtype(0.7) * right[some])[:, None] * dense[some]
    np.testing.assert_array_equal(with_self, without + own)


def test_looked_up_scales_must_fit() -> None:
    rows = Csr(np.array([0]), np.array([2]), np.array([0, 1]), None)
    dense, scale = np.ones((2, 8), np.float32), np.ones(2, np.float32)
    with pytest.raises(ValueError, match="entry_scale must be that of a column_scale"):
        native.propagate(rows, dense, None, None, 0.0, scale)
    with pytest.raises(ValueError, match=r"entry_scale must have shape \(2,\), one for each entry"):
        native.propagate(rows, dense, None, scale, 0.0, np.ones(3, np.float32))
