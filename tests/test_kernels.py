"""The kernels: reference by answers worked by hand, native against dense arithmetic."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel_cases import HALF, KEY, MISSING, Array, make_rows, needs_native

from graphconv import kernels
from graphconv.kernels import Csr, Dropout, reference

WIDTHS = [1, 2, 3, 5, 7, 8, 16, 17, 32, 64, 100]
SECOND_KEY = 2**64 - 3


def kept_by_hand(key: int, threshold: int, row: int, element: int) -> bool:
    """The hash in Python's own integers."""
    word = 2**64 - 1
    z = (key + (row * 2**32 + element // 4) * 0x9E3779B97F4A7C15) & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    z ^= z >> 31
    return (z >> (16 * (element % 4))) & 0xFFFF < threshold


def dropped(rows: Csr, dense: Array, key: int, threshold: int, row_ids: Array) -> Array:
    """The dense matrix of `rows` with entries dropped, row by row."""
    out = np.zeros_like(dense)
    for i, (first, last) in enumerate(zip(rows.begin, rows.end, strict=True)):
        bits = reference.kept(key, threshold, row_ids[i : i + 1], np.arange(last - first))
        chosen = rows.indices[first:last][bits]
        out[i, chosen] = dense[i, chosen] * 65536 / threshold
    return out


def product_by_hand(
    rows: Csr,
    dense: Array,
    right: Array,
    dropout: Dropout,
    row_ids: Array,
    transposed: bool = False,
) -> Array:
    blocks = []
    for key, block in zip(dropout.keys, np.split(right, len(dropout.keys), axis=1), strict=True):
        left = dropped(rows, dense, key, dropout.threshold, row_ids)
        blocks.append((left.T if transposed else left) @ block)
    return np.hstack(blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_zeros_begin_at_a_cache_line(dtype: Any) -> None:
    for shape in ((), (0,), (1,), (3, 16), (7, 0, 2), (5, 3, 2, 7), (1000, 33)):
        kept = [kernels.zeros(shape, dtype) for _ in range(5)]  # at different places in memory
        for array in kept:
            assert array.size == 0 or array.ctypes.data % 64 == 0
            assert (array.shape, array.dtype) == (shape, dtype)
            assert array.flags.c_contiguous
            assert array.flags.writeable
            assert not array.any()
        kept[0].fill(1)
        assert not any(array.any() for array in kept[1:])
    assert kernels.zeros((2, 3)).dtype == np.float32


def close(got: Array, want: Array, dtype: Any) -> None:
    assert got.dtype == dtype
    assert got.flags.c_contiguous
    assert got.shape == want.shape
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    largest = np.abs(want).max(initial=1)  # sums of large terms may cancel
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * largest)


# Answers worked by hand. The graph is the path 0 - 1 - 2 and the isolated node 3.
PATH = Csr(
    np.array([0, 1, 3, 4], np.int32),
    np.array([1, 3, 4, 4], np.int32),
    np.array([1, 0, 2, 1], np.int32),
    None,
)
HEIGHTS = np.array([[1, 10], [2, 20], [4, 40], [8, 80]], np.float32)


def test_propagate_sums_neighbours(kernel: ModuleType) -> None:
    assert kernel.propagate(PATH, HEIGHTS).tolist() == [[2, 20], [5, 50], [2, 20], [0, 0]]


def test_propagate_adds_the_node_itself(kernel: ModuleType) -> None:
    out = kernel.propagate(PATH, HEIGHTS, self_weight=0.5)
    assert out.tolist() == [[2.5, 25], [6, 60], [4, 40], [4, 40]]


def test_propagate_scales_both_sides(kernel: ModuleType) -> None:
    row_scale = np.array([1, 2, 1, 0.5], np.float32)
    column_scale = np.array([1, 0.5, 2, 4], np.float32)
    out = kernel.propagate(PATH, HEIGHTS, row_scale, column_scale, 1.0)
    # Scaled heights are 1, 1, 8, 32: sums with the node itself 2, 10, 9, 32.
    assert out.tolist() == [[2, 20], [20, 200], [9, 90], [16, 160]]


def test_propagate_uses_values_and_rows_apart(kernel: ModuleType) -> None:
    values = np.array([3, 1, 0.5, 7], np.float32)
    rows = Csr(PATH.begin[[2, 0]], PATH.end[[2, 0]], PATH.indices, values)
    assert kernel.propagate(rows, HEIGHTS).tolist() == [[14, 140], [6, 60]]


def test_propagate_has_no_self_term_past_the_end_of_dense(kernel: ModuleType) -> None:
    rows = Csr(*(np.zeros(3, np.int32) for _ in range(2)), np.zeros(0, np.int32), None)
    out = kernel.propagate(rows, HEIGHTS[:2].copy(), self_weight=1.0)
    assert out.tolist() == [[1, 10], [2, 20], [0, 0]]


@pytest.mark.parametrize("n_own", [0, 2, 4, 6])
def test_propagate_adds_what_leading_rows_have_of_their_own(kernel: ModuleType, n_own: int) -> None:
    own = np.arange(12, dtype=np.float32).reshape(6, 2)[:n_own].copy()
    scale, bias = np.full(4, 2, np.float32), np.array([[100, 200]], np.float32)
    out = kernel.propagate(PATH, HEIGHTS, scale, None, 0.0, None, bias, own)
    want = np.array([[104, 240], [110, 300], [104, 240], [100, 200]])
    want[: min(n_own, 4)] += own[:4].astype(int)
    assert out.tolist() == want.tolist()


def test_feature_product_without_dropout(kernel: ModuleType) -> None:
    out = kernel.feature_product(PATH, HEIGHTS)
    assert out.tolist() == [[2, 20], [5, 50], [2, 20], [0, 0]]


def test_feature_product_transposed_without_dropout(kernel: ModuleType) -> None:
    rows = Csr(PATH.begin[:2], PATH.end[:2], PATH.indices, np.array([3, 1, 2, 9], np.float32))
    out = kernel.feature_product_transposed(rows, HEIGHTS[:2].copy(), 4)
    # Feature 0 is held by row 1 (1), feature 1 by row 0 (3), feature 2 by row 1 (2).
    assert out.tolist() == [[2, 20], [3, 30], [4, 40], [0, 0]]


def test_relu_and_its_gradient(kernel: ModuleType) -> None:
    dense = np.array([[-1, 0, 2]], np.float32)
    assert kernel.dropout_dense(dense, None, None).tolist() == [[-1, 0, 2]]
    assert kernel.dropout_dense(dense, None, None, True).tolist() == [[0, 0, 2]]
    gradient = np.array([[5, 6, 7]], np.float32)
    assert kernel.dropout_dense_backward(gradient, dense, None, None).tolist() == [[5, 6, 7]]
    assert kernel.dropout_dense_backward(gradient, dense, None, None, True).tolist() == [[0, 0, 7]]


def test_keeping_everything_is_no_dropout(kernel: ModuleType) -> None:
    dropout = Dropout((KEY,), 65536)
    assert (
        kernel.feature_product(PATH, HEIGHTS, dropout) == kernel.feature_product(PATH, HEIGHTS)
    ).all()
    assert (kernel.dropout_dense(HEIGHTS, dropout, None) == HEIGHTS).all()


def test_kept_is_the_hash_of_key_row_and_element() -> None:
    rows, elements = np.array([0, 1, 7, 2**31, 2**40]), np.arange(70)
    for key in (0, KEY, SECOND_KEY):
        got = reference.kept(key, 20000, rows[:, None], elements)
        want = [[kept_by_hand(key, 20000, int(r), int(e)) for e in elements] for r in rows]
        assert got.tolist() == want


def test_kept_keeps_the_share_asked_for() -> None:
    bits = reference.kept(KEY, round(0.8 * 65536), np.arange(1000)[:, None], np.arange(1000))
    assert abs(bits.mean() - 0.8) < 0.002
    # Neighbours are independent: pairs are kept with the square of the probability.
    assert abs((bits[:, 1:] & bits[:, :-1]).mean() - 0.64) < 0.003
    assert abs((bits[1:] & bits[:-1]).mean() - 0.64) < 0.003


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_propagate(kernel: ModuleType, width: int, dtype: Any, index: Any) -> None:
    rng = np.random.default_rng(width)
    left, right = (rng.random(n).astype(dtype) for n in (12, 9))
    dense = rng.standard_normal((9, width)).astype(dtype)
    for values in (True, False):
        rows, matrix = make_rows(12, 9, values=values, dtype=dtype, index=index, seed=width)
        close(kernel.propagate(rows, dense), matrix @ dense, dtype)
        want = matrix @ (right[:, None] * dense)
        close(kernel.propagate(rows, dense, None, right), want, dtype)
        want[:9] += 0.3 * right[:, None] * dense
        close(kernel.propagate(rows, dense, left, right, 0.3), left[:, None] * want, dtype)


def test_propagate_dropped_keeps_what_dropout_keeps(kernel: ModuleType) -> None:
    dropout, ids = Dropout((KEY, 7), HALF), np.array([5, 6, 9, 2])
    kept = np.hstack(
        [reference.kept(key, HALF, ids[:, None], np.arange(2)) for key in dropout.keys]
    )
    out = kernel.propagate_dropped(PATH, HEIGHTS, dropout, ids, self_weight=1.0)
    # What is kept counts double; node 1 is next to 0 and 2, and 3 to nobody.
    own = 2 * kept * np.hstack([HEIGHTS, HEIGHTS])
    assert kept.any()
    assert not kept.all()
    assert out.tolist() == [
        (own[0] + own[1]).tolist(),
        own[:3].sum(axis=0).tolist(),
        (own[1] + own[2]).tolist(),
        own[3].tolist(),
    ]


@needs_native
@pytest.mark.parametrize("threshold", [HALF, 50000, 65536])
@pytest.mark.parametrize("width", [1, 5, 33, 128, 200, 300])
def test_propagate_dropped_has_the_bits_of_dropping_first(width: int, threshold: int) -> None:
    native = kernels.select("native")
    rng = np.random.default_rng(width)
    dense = rng.standard_normal((20, width)).astype(np.float32)
    dense[3, 0] = np.nan  # stays one, kept or not
    left, right = (rng.random(n).astype(np.float32) for n in (30, 20))
    ids, dropout = rng.integers(0, 99, 20), Dropout((KEY, 3), threshold)
    for values in (True, False):
        rows, _ = make_rows(30, 20, values=values, seed=width)
        got = native.propagate_dropped(rows, dense, dropout, ids, left, right, 0.7)
        dropped = native.dropout_dense(np.tile(dense, 2), dropout, ids)
        want = native.propagate(rows, dropped, left, right, 0.7)
        np.testing.assert_array_equal(got, want)


def as_matrix(rows: Csr, n_columns: int) -> Array:
    assert rows.values is not None
    out = np.zeros((len(rows.begin), n_columns))
    for i, (first, last) in enumerate(zip(rows.begin, rows.end, strict=True)):
        columns = rows.indices[first:last]
        assert (np.diff(columns) > 0).all()  # each once, in order
        out[i, columns] = rows.values[first:last]
    return out


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 64, 150])
@pytest.mark.parametrize("n_rows", [0, 6, 12])
def test_propagate_sparse(
    kernel: ModuleType, n_rows: int, n_columns: int, dtype: Any, index: Any
) -> None:
    rng = np.random.default_rng(n_columns)
    left, right = (rng.random(n).astype(dtype) for n in (n_rows, 9))
    kinds = {"dtype": dtype, "index": index, "seed": n_columns}
    features, dense = make_rows(9, n_columns, density=0.2, **kinds)
    for values in (True, False):
        rows, matrix = make_rows(n_rows, 9, values=values, **kinds)
        got = kernel.propagate_sparse(rows, features, n_columns)
        assert (got.begin.dtype, got.indices.dtype) == (index, index)
        close(as_matrix(got, n_columns).astype(dtype), matrix @ dense, dtype)
        want = matrix @ (right[:, None] * dense)
        want[:9] += 0.3 * right[:n_rows, None] * dense[:n_rows]  # rows past it have no self term
        got = kernel.propagate_sparse(rows, features, n_columns, left, right, 0.3)
        close(as_matrix(got, n_columns).astype(dtype), left[:, None] * want, dtype)


def test_propagate_sparse_gives_every_entry_once(kernel: ModuleType) -> None:
    heights = Csr(PATH.begin, PATH.end, PATH.indices, np.array([1, -1, 5, 7], np.float32))
    got = kernel.propagate_sparse(PATH, heights, 3, self_weight=1.0)
    assert np.diff([*got.begin, got.end[-1]]).tolist() == [3, 3, 3, 0]
    assert as_matrix(got, 3).tolist() == [[-1, 1, 5], [-1, 8, 5], [-1, 7, 5], [0, 0, 0]]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 8, 17, 64, 100])
@pytest.mark.parametrize("n_rows", [0, 64, 130])
def test_packed_products(
    kernel: ModuleType, n_rows: int, width: int, dtype: Any, index: Any
) -> None:
    rows, matrix = make_rows(n_rows, 40, dtype=dtype, index=index, seed=width)
    weight = np.random.default_rng(width).standard_normal((40, width)).astype(dtype)
    for n_ranges in (1, 3, 7):
        packed = kernel.pack_rows(rows, 40, n_ranges)
        assert packed.n_ranges == n_ranges
        assert packed.pieces.begin.dtype == packed.pieces.indices.dtype == index
        for got, want in zip(
            packed.pieces, reference.pack_rows(rows, 40, n_ranges)[0], strict=True
        ):
            np.testing.assert_array_equal(got, want)
        close(kernel.packed_product(packed, weight), matrix @ weight, dtype)


def test_pieces_lie_in_the_order_of_use(kernel: ModuleType) -> None:
    # 65 rows of four columns, which hold 0, 1, 2, 3; then 4, 5, 6, 7; and so on.
    ends = np.arange(4, 4 * 65 + 1, 4)
    rows = Csr(ends - 4, ends, np.tile(np.arange(4), 65), np.arange(4 * 65.0))
    pieces = kernel.pack_rows(rows, 4, 2).pieces
    first, second = np.arange(64)[:, None] * 4 + [0, 1], np.arange(64)[:, None] * 4 + [2, 3]
    assert pieces.values.tolist() == [*first.ravel(), *second.ravel(), 256, 257, 258, 259]
    assert pieces.begin.tolist() == list(range(0, 260, 2))
    assert (pieces.end - pieces.begin == 2).all()


def test_only_long_rows_are_cut() -> None:
    def cut(n_entries: int, n_columns: int, n_rows: int = 5) -> int:
        ends = np.arange(1, n_rows + 1) * n_entries
        rows = Csr(ends - n_entries, ends, np.zeros(n_entries * n_rows, int), None)
        return kernels.n_ranges(rows, n_columns)

    assert cut(200, 500) == 5
    assert cut(119, 500) == 1  # pieces of fewer than 24
    assert cut(90, 96) == 1  # all weights fit the nearest cache
    assert cut(200, 500, n_rows=0) == 1


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_feature_products(kernel: ModuleType, width: int, dtype: Any, index: Any) -> None:
    n_rows, n_columns = 11, 160  # long rows need masks of more than 64 bits
    rng = np.random.default_rng(width)
    weight = rng.standard_normal((n_columns, width)).astype(dtype)
    gradient = rng.standard_normal((n_rows, width)).astype(dtype)
    row_ids = rng.integers(0, 2**31, n_rows)
    for values, density in ((True, 0.1), (False, 0.9)):
        rows, matrix = make_rows(
            n_rows, n_columns, density=density, values=values, dtype=dtype, index=index, seed=width
        )
        close(kernel.feature_product(rows, weight), matrix @ weight, dtype)
        got = kernel.feature_product_transposed(rows, gradient, n_columns)
        close(got, matrix.T @ gradient, dtype)
        for threshold, keys in ((HALF, (KEY,)), (60000, (KEY, SECOND_KEY)), (1, (0,))):
            if width % len(keys):
                continue
            dropout = Dropout(keys, threshold)
            for ids in (None, row_ids):
                names = np.arange(n_rows) if ids is None else ids
                want = product_by_hand(rows, matrix, weight, dropout, names)
                close(kernel.feature_product(rows, weight, dropout, ids), want, dtype)
                want = product_by_hand(rows, matrix, gradient, dropout, names, transposed=True)
                got = kernel.feature_product_transposed(rows, gradient, n_columns, dropout, ids)
                close(got, want, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [*WIDTHS, 256, 520, 1200])
def test_dropout_dense(kernel: ModuleType, width: int, dtype: Any) -> None:
    rng = np.random.default_rng(width)
    dense, gradient = rng.standard_normal((2, 9, width)).astype(dtype)
    row_ids = rng.integers(0, 2**40, 9)
    for keys in ((KEY,), (KEY, SECOND_KEY)):
        if width % len(keys):
            continue
        dropout = Dropout(keys, 40000)
        block = np.arange(width // len(keys))
        mask = np.hstack([reference.kept(k, 40000, row_ids[:, None], block) for k in keys])
        factor = mask * (65536 / 40000)
        close(kernel.dropout_dense(dense, dropout, row_ids), dense * factor, dtype)
        close(kernel.dropout_dense(dense, dropout, row_ids, True), dense.clip(0) * factor, dtype)
        got = kernel.dropout_dense_backward(gradient, dense, dropout, row_ids)
        close(got, gradient * factor, dtype)
        got = kernel.dropout_dense_backward(gradient, dense, dropout, row_ids, True)
        close(got, gradient * factor * (dense > 0), dtype)


@pytest.mark.parametrize("width", [16, 17, 100])
def test_matrices_past_the_caches(kernel: ModuleType, width: int) -> None:
    n_columns, per_row = 70_000, 30
    rng = np.random.default_rng(width)
    columns = np.sort(rng.integers(0, n_columns, (40, per_row)))
    bounds = np.arange(0, 41 * per_row, per_row, dtype=np.int32)
    rows = Csr(bounds[:-1], bounds[1:], columns.astype(np.int32).ravel(), None)
    weight = rng.standard_normal((n_columns, width)).astype(np.float32)
    close(kernel.feature_product(rows, weight), weight[columns].sum(axis=1), np.float32)
    scale = rng.random(n_columns).astype(np.float32)
    want = (scale[columns, None] * weight[columns]).sum(axis=1)
    close(kernel.propagate(rows, weight, None, scale), want, np.float32)
    bits = reference.kept(KEY, HALF, np.arange(40)[:, None], np.arange(per_row))
    want = (2 * bits[:, :, None] * weight[columns]).sum(axis=1)
    close(kernel.feature_product(rows, weight, Dropout((KEY,), HALF)), want, np.float32)
    dense = rng.standard_normal((40, width)).astype(np.float32)
    want = np.zeros_like(weight)
    np.add.at(want, columns, 2 * bits[:, :, None] * dense[:, None])
    got = kernel.feature_product_transposed(rows, dense, n_columns, Dropout((KEY,), HALF))
    close(got, want, np.float32)


def test_nan_stays_nan(kernel: ModuleType) -> None:
    dense = np.array([[np.nan, 1.0]], np.float32)
    assert np.isnan(kernel.dropout_dense(dense, None, None, True)[0, 0])
    assert np.isnan(kernel.propagate(PATH, np.full((3, 8), np.nan, np.float32))[:3]).all()


@pytest.mark.parametrize("width", [0, 3, 16])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(0, 0), (0, 5), (4, 0), (4, 5)])
def test_nothing_to_do(kernel: ModuleType, n_rows: int, n_columns: int, width: int) -> None:
    nothing = np.zeros(n_rows, np.int32)
    rows = Csr(nothing, nothing, np.zeros(0, np.int32), None)
    dropout = Dropout((KEY,), HALF)
    weight, dense = np.ones((n_columns, width), np.float32), np.ones((n_rows, width), np.float32)
    assert not kernel.propagate(rows, weight).any()
    for d in (None, dropout):
        out = kernel.feature_product(rows, weight, d)
        assert out.shape == (n_rows, width)
        assert not out.any()
        out = kernel.feature_product_transposed(rows, dense, n_columns, d)
        assert out.shape == (n_columns, width)
        assert not out.any()
        assert kernel.dropout_dense(dense, d, None).shape == (n_rows, width)
        assert kernel.dropout_dense_backward(dense, dense, d, None, True).shape == (n_rows, width)


def test_inputs_stay_as_they_are(kernel: ModuleType) -> None:
    rows, _ = make_rows(6, 9)
    weight, dense = np.ones((9, 5), np.float32), np.ones((6, 5), np.float32)
    arrays = [rows.begin, rows.end, rows.indices, rows.values, weight, dense]
    for array in arrays:
        assert array is not None
        array.flags.writeable = False  # a frozen Graph hands out such arrays
    dropout = Dropout((KEY,), HALF)
    kernel.propagate(rows, weight)
    kernel.feature_product(rows, weight, dropout)
    kernel.feature_product_transposed(rows, dense, 9, dropout)
    out = kernel.dropout_dense(dense, None, None)
    assert not np.shares_memory(out, dense)


@needs_native
@settings(max_examples=60)
@given(
    n_rows=st.integers(0, 80),
    n_columns=st.integers(1, 40),
    block=st.integers(1, 20),
    n_keys=st.integers(1, 5),
    threshold=st.integers(1, 65536),
    density=st.floats(0, 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    index=st.sampled_from([np.int32, np.int64]),
    values=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_native_equals_reference(
    n_rows: int,
    n_columns: int,
    block: int,
    n_keys: int,
    threshold: int,
    density: float,
    dtype: Any,
    index: Any,
    values: bool,
    seed: int,
) -> None:
    native = kernels.select("native")
    rng = np.random.default_rng(seed)
    rows, _ = make_rows(
        n_rows, n_columns, density=density, values=values, dtype=dtype, index=index, seed=seed
    )
    width = block * n_keys
    dropout = Dropout(tuple(int(k) for k in rng.integers(0, 2**63, n_keys)), threshold)
    row_ids, column_ids = (rng.integers(0, 2**31, n) for n in (n_rows, n_columns))
    weight = rng.standard_normal((n_columns, width)).astype(dtype)
    dense, gradient = rng.standard_normal((2, n_rows, width)).astype(dtype)
    left, right = rng.random(n_rows).astype(dtype), rng.random(n_columns).astype(dtype)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("propagate", (rows, weight, left, right, 0.7)),
        ("propagate_dropped", (rows, weight, dropout, column_ids, left, right, 0.7)),
        ("feature_product", (rows, weight, dropout, row_ids)),
        ("feature_product_transposed", (rows, dense, n_columns, dropout, row_ids)),
        ("dropout_dense", (dense, dropout, row_ids, values)),
        ("dropout_dense_backward", (gradient, dense, dropout, row_ids, values)),
    ]
    for name, arguments in calls:
        want = getattr(reference, name)(*arguments)
        # Large where few are kept.
        scale = 65536 / threshold if "product" in name or "dropped" in name else 1
        got = getattr(native, name)(*arguments)
        assert got.dtype == want.dtype
        tolerance = 1e-5 if dtype == np.float32 else 1e-13
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=10 * tolerance * scale)


def test_select_says_what_it_takes() -> None:
    assert kernels.select("reference") is reference
    with pytest.raises(ValueError, match="kernels must be 'auto', 'native' or 'reference'"):
        kernels.select("fast")
    assert kernels.select() is kernels.select("reference" if MISSING else "native")


@needs_native
@pytest.mark.parametrize("n_keys", [1, 4])
def test_transposed_product_of_nothing_is_zero(n_keys: int) -> None:
    native = kernels.select("native")
    empty = np.empty(0, dtype=np.int32)
    rows = Csr(empty, empty, empty, None)
    keys = Dropout(tuple(range(n_keys)), 100)
    # Memory that has held other numbers, so that zeros are not there by themselves.
    for _ in range(3):
        np.full((5, 4 * n_keys), 7, dtype=np.float32)
        out = native.feature_product_transposed(
            rows, np.empty((0, 4 * n_keys), np.float32), 5, keys
        )
        assert out.tolist() == np.zeros((5, 4 * n_keys)).tolist()
