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

LINE = 64  # bytes; rows of dense are scaled first where they are whole cache lines


@pytest.fixture
def thread_counts() -> Any:
    before = native.get_threads()
    yield (1, 2, 4)
    native.set_threads(before)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_rows_first_gives_the_bits_of_scaling_on_the_way(
    dtype: Any, index_type: Any, thread_counts: tuple[int, ...]
) -> None:
    # More scales than fit 4 MiB, and two entries a row: the rows are scaled first.
    n = 2**22 // np.dtype(dtype).itemsize + 100
    width = LINE // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    indices = rng.integers(n, size=2 * n).astype(index_type)
    bounds = np.arange(0, 2 * n + 1, 2, dtype=index_type)
    dense = rng.standard_normal((n, width)).astype(dtype)
    left, right = rng.random(n).astype(dtype), rng.random(n).astype(dtype)
    # Some rows by themselves are too few entries for that: there the scales are gathered too.
    some = slice(1000, 1200)
    begin, end = bounds[:-1][some] - bounds[1000], bounds[1:][some] - bounds[1000]
    few = Csr(begin, end, indices[bounds[1000] : bounds[1200]].copy(), None)
    expected = native.propagate(few, dense, left[some].copy(), right, 0.0)
    whole = Csr(bounds[:-1].copy(), bounds[1:].copy(), indices, None)
    for n_threads in thread_counts:
        native.set_threads(n_threads)
        out = native.propagate(whole, dense, left, right, 0.0)
        np.testing.assert_array_equal(out[some], expected)
    # The node itself is added last: weight times scale, then times its row.
    with_self = native.propagate(whole, dense, None, right, 0.7)[some]
    without = native.propagate(whole, dense, None, right, 0.0)[some]
    own = (dtype(0.7) * right[some])[:, None] * dense[some]
    np.testing.assert_array_equal(with_self, without + own)
