"""Kernels of training: the hidden product, the loss and Adam, by hand and against torch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernel_cases import HALF, needs_native

from graphconv import kernels
from graphconv.kernels import Dropout


def test_hidden_product_by_hand(kernel: ModuleType) -> None:
    dense = np.array([[1.0, -2.0], [3.0, 4.0]])
    weight = np.array([[1.0, 10.0], [2.0, 20.0]]).reshape(2, 1, 1, 2)
    assert kernel.hidden_product(dense, weight).tolist() == [[-3, -30], [11, 110]]
    assert kernel.hidden_product(dense, weight, relu=True).tolist() == [[1, 10], [11, 110]]
    gradient = np.array([[1.0, 0.0], [0.0, 1.0]])
    for_dense, for_weight = kernel.hidden_product_backward(gradient, dense, weight, relu=True)
    assert for_dense.tolist() == [[1, 0], [10, 20]]
    assert for_weight[:, 0, 0].tolist() == [[1, 3], [0, 4]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 4, 7, 8, 16, 33, 70])
@pytest.mark.parametrize(("n_replicas", "n_terms", "n_in"), [(1, 1, 16), (3, 2, 5), (2, 4, 1)])
@pytest.mark.parametrize("kind", ["hidden", "wide"])
def test_hidden_product_is_dropout_then_product(
    kernel: ModuleType, kind: str, n_replicas: int, n_terms: int, n_in: int, width: int, dtype: Any
) -> None:
    product = getattr(kernel, f"{kind}_product")
    product_backward = getattr(kernel, f"{kind}_product_backward")
    rng = np.random.default_rng(width)
    dense = rng.standard_normal((77, n_replicas * n_in)).astype(dtype)
    weight = rng.standard_normal((n_in, n_terms, n_replicas, width)).astype(dtype)
    gradient = rng.standard_normal((77, n_terms * n_replicas * width)).astype(dtype)
    dropout = Dropout(tuple(range(n_replicas)), HALF)
    ids = rng.permutation(1000)[:77]
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-10}
    for drop in (None, dropout):
        hidden = kernel.dropout_dense(dense, drop, ids, True)
        out = product(dense, weight, drop, ids, True)
        for_dense, for_weight = product_backward(gradient, dense, weight, drop, ids, True)
        raw = np.zeros_like(dense)
        for replica in range(n_replicas):
            own = slice(replica * n_in, (replica + 1) * n_in)
            for term in range(n_terms):
                first = (term * n_replicas + replica) * width
                block, theta = slice(first, first + width), weight[:, term, replica]
                np.testing.assert_allclose(out[:, block], hidden[:, own] @ theta, **tolerance)
                want = hidden[:, own].T @ gradient[:, block]
                np.testing.assert_allclose(for_weight[:, term, replica], want, **tolerance)
                raw[:, own] += gradient[:, block] @ theta.T
        want = kernel.dropout_dense_backward(raw, dense, drop, ids, True)
        np.testing.assert_allclose(for_dense, want, **tolerance)
        assert (for_dense == 0).sum() == (want == 0).sum()


def test_wide_product_adds_a_bias_and_shares_features(kernel: ModuleType) -> None:
    dense = np.array([[1.0, -2.0], [3.0, 4.0]])
    weight = np.array([[[[1.0], [10.0]]], [[[2.0], [20.0]]]])  # two replicas, an output each
    bias = np.array([[0.5], [7.0]])
    assert kernel.wide_product(dense, weight, bias=bias).tolist() == [[-2.5, -23], [11.5, 117]]
    gradient = np.array([[1.0, 0.0], [0.0, 1.0]])
    nothing, for_weight = kernel.wide_product_backward(gradient, dense, weight, for_dense=False)
    assert nothing is None
    assert for_weight[:, 0, :, 0].tolist() == [[1, 3], [-2, 4]]
    # A gradient of zeros, kept by dropout, is one; what is zero before it has one, too.
    zeros = np.zeros((50, 4))
    ones = np.ones((50, 3))
    slope, _ = kernel.wide_product_backward(
        ones, zeros, np.ones((4, 1, 1, 3)), Dropout((1,), HALF), None, False
    )
    assert set(np.unique(slope)) == {0.0, 6.0}


def test_wide_product_of_nothing(kernel: ModuleType) -> None:
    weight = np.ones((3, 1, 1, 40), np.float32)
    none = np.empty((0, 3), np.float32)
    assert kernel.wide_product(none, weight).shape == (0, 40)
    for_dense, for_weight = kernel.wide_product_backward(
        kernel.wide_product(none, weight), none, weight
    )
    assert for_dense.shape == (0, 3)
    assert not for_weight.any()
    assert not kernel.wide_product(np.empty((2, 0), np.float32), weight[:0]).any()


@pytest.mark.parametrize("shape", [(288, 16, 1, 4, 1), (18, 1, 2, 2, 20), (1, 14, 4, 2, 9)])
def test_numpy_adds_for_a_replica_as_for_it_alone(shape: tuple[int, ...]) -> None:
    """Widths of 1, at which einsum takes other ways for several replicas than for one."""
    n_rows, n_in, n_terms, n_replicas, n_out = shape
    reference = kernels.select("reference")
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((n_rows, n_replicas, n_in)).astype(np.float32)
    weight = rng.standard_normal((n_in, n_terms, n_replicas, n_out)).astype(np.float32)
    gradient = rng.standard_normal((n_rows, *weight.shape[1:])).astype(np.float32)

    def products(r: slice) -> list[np.ndarray]:
        inputs = dense[:, r].reshape(n_rows, -1), np.ascontiguousarray(weight[:, :, r])
        forward = reference.hidden_product(*inputs)
        backward = reference.hidden_product_backward(gradient[:, :, r].reshape(n_rows, -1), *inputs)
        shapes = gradient[:, :, r].shape, dense[:, r].shape, inputs[1].shape
        return [p.reshape(s) for p, s in zip((forward, *backward), shapes, strict=True)]

    together = products(slice(None))
    for r in range(n_replicas):
        alone = products(slice(r, r + 1))
        for all_of_them, own, axis in zip(together, alone, (2, 1, 2), strict=True):
            assert (all_of_them.take([r], axis) == own).all()


@needs_native
@pytest.mark.parametrize("n_rows", [50, 20000])  # one part of the rows, and several
@pytest.mark.parametrize("kind", ["hidden", "wide"])
def test_a_replica_gives_the_bits_of_its_single_run(n_rows: int, kind: str) -> None:
    native = kernels.select("native")
    product = getattr(native, f"{kind}_product")
    product_backward = getattr(native, f"{kind}_product_backward")
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((n_rows, 3 * 16)).astype(np.float32)
    weight = rng.standard_normal((16, 2, 3, 7)).astype(np.float32)
    gradient = rng.standard_normal((n_rows, 2, 3, 7)).astype(np.float32)
    logits = rng.standard_normal((n_rows, 3, 7)).astype(np.float32)
    labels, shares = rng.integers(7, size=n_rows), np.full(n_rows, 1 / n_rows)
    keys = (3, 5, 7)
    together = product(dense, weight, Dropout(keys, HALF), None, True)
    backward = product_backward(
        gradient.reshape(n_rows, -1), dense, weight, Dropout(keys, HALF), None, True
    )
    losses = native.loss(logits, labels, shares, True)
    for r in range(3):
        own_dense = dense[:, 16 * r : 16 * r + 16].copy()
        own_weight, own_keys = weight[:, :, r : r + 1].copy(), Dropout(keys[r : r + 1], HALF)
        alone = product(own_dense, own_weight, own_keys, None, True)
        assert (together.reshape(n_rows, 2, 3, 7)[:, :, r] == alone.reshape(n_rows, 2, 7)).all()
        own_gradient = gradient[:, :, r].reshape(n_rows, -1)
        for_dense, for_weight = product_backward(
            own_gradient, own_dense, own_weight, own_keys, None, True
        )
        assert (backward[0][:, 16 * r : 16 * r + 16] == for_dense).all()
        assert (backward[1][:, :, r] == for_weight[:, :, 0]).all()
        slope, figures = native.loss(logits[:, r : r + 1].copy(), labels, shares, True)
        assert (losses[0][:, r] == slope[:, 0]).all()
        assert (losses[1][:, r] == figures[:, 0]).all()


def test_normalised_rows_by_hand(kernel: ModuleType) -> None:
    # Mean 4, variance 4: the row is -1 and 1 before the gain.
    dense, gain = np.array([[2.0, 6.0]]), np.array([[3.0, 5.0]])
    shift, added = np.array([[1.0, -4.0]]), np.array([[10.0, 20.0]])
    assert kernel.normalise_rows(dense, gain, shift, 0.0).tolist() == [[-2, 1]]
    assert kernel.normalise_rows(dense, gain, shift, 0.0, True, added).tolist() == [[10, 21]]
    gradient = np.array([[7.0, 2.0]])
    for_dense, for_gain, for_shift = kernel.normalise_rows_backward(gradient, dense, gain, shift, 0)
    assert (for_gain.tolist(), for_shift.tolist()) == ([[-7, 2]], [[7, 2]])
    assert for_dense.tolist() == [[0, 0]]  # of two columns only the order can matter
    _, for_gain, for_shift = kernel.normalise_rows_backward(
        gradient, dense, gain, shift, 0.0, relu=True
    )
    assert (for_gain.tolist(), for_shift.tolist()) == ([[0, 2]], [[0, 2]])


def test_normalised_columns_by_hand(kernel: ModuleType) -> None:
    # Mean 4, variance 4: the first column is -1 and 1 before the gain; after a ReLU the second is
    # 0 and 2, so that it is -1 and 1 too.
    dense = np.array([[2.0, -5.0], [6.0, 2.0]])
    gain, shift = np.array([[3.0, 5.0]]), np.array([[1.0, -4.0]])
    out, mean, variance = kernel.normalise_columns(dense, gain, shift, 0.0, True)
    assert out.tolist() == [[-2, -9], [4, 1]]
    assert (mean.tolist(), variance.tolist()) == ([[4, 1]], [[4, 1]])
    known = np.array([[2.0, 2.0]]), np.array([[16.0, 4.0]])
    out, *given = kernel.normalise_columns(dense, gain, shift, 0.0, False, *known)
    assert out.tolist() == [[1, -21.5], [4, -4]]
    assert [own.tolist() for own in given] == [own.tolist() for own in known]
    gradient = np.array([[7.0, 3.0], [2.0, 1.0]])
    for_dense, *for_weights = kernel.normalise_columns_backward(
        gradient, dense, gain, shift, 0.0, True, *known
    )
    # Standard values are 0 and 1, then -1 and 0; nothing passes where the ReLU gives 0.
    assert [own.tolist() for own in for_weights] == [[[2, -3]], [[9, 4]]]
    assert for_dense.tolist() == [[5.25, 0], [1.5, 2.5]]
    for_dense, *_ = kernel.normalise_columns_backward(gradient, dense, gain, shift, 0.0)
    assert for_dense.tolist() == [[0, 0], [0, 0]]  # of two rows only the order can matter


@needs_native
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 3000])
def test_normalised_columns_are_those_of_the_reference(n_rows: int, relu: bool) -> None:
    native, reference = kernels.select("native"), kernels.select("reference")
    rng = np.random.default_rng(n_rows)
    dense, gradient = rng.standard_normal((2, n_rows, 21))
    dense += 100 * np.arange(21)  # sums of squares would cancel
    gain, shift = rng.standard_normal((2, 3, 7))
    for known in ((), (rng.standard_normal((3, 7)), rng.random((3, 7)))):
        given = (gain, shift, 1e-5, relu, *known)
        for name, arrays in (
            ("normalise_columns", (dense,)),
            ("normalise_columns_backward", (gradient, dense)),
        ):
            found = getattr(native, name)(*arrays, *given)
            wanted = getattr(reference, name)(*arrays, *given)
            for own, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


@needs_native
@pytest.mark.parametrize("width", [7, 32])
def test_a_normalised_replica_gives_the_bits_of_its_single_run(width: int) -> None:
    native = kernels.select("native")
    rng = np.random.default_rng(0)
    dense, gradient = rng.standard_normal((2, 1000, 3, width)).astype(np.float32)
    gain, shift = rng.standard_normal((2, 3, width)).astype(np.float32)
    flat, slope = dense.reshape(1000, -1), gradient.reshape(1000, -1)
    together = native.normalise_rows(flat, gain, shift, 1e-5, True)
    backward = native.normalise_rows_backward(slope, flat, gain, shift, 1e-5, True)
    for r in range(3):
        own = np.ascontiguousarray(dense[:, r])
        weights = (gain[r : r + 1], shift[r : r + 1], 1e-5, True)
        columns = slice(width * r, width * (r + 1))
        assert (together[:, columns] == native.normalise_rows(own, *weights)).all()
        alone = native.normalise_rows_backward(np.ascontiguousarray(gradient[:, r]), own, *weights)
        assert (backward[0][:, columns] == alone[0]).all()
        for got, want in zip(backward[1:], alone[1:], strict=True):
            assert (got[r] == want[0]).all()


def test_losses_by_hand(kernel: ModuleType) -> None:
    # Softmax of (ln 3, 0) is (3/4, 1/4); sigmoid of ln 3 is 3/4, of 0 a half.
    logits = np.array([[[np.log(3), 0.0]], [[np.log(3), 0.0]]])
    halves = np.array([0.5, 0.5])
    gradient, figures = kernel.loss(logits, np.array([0, 1]), halves, True)
    np.testing.assert_allclose(figures, [[(np.log(4 / 3) + np.log(4)) / 2], [0.5]], rtol=1e-12)
    want = [[[-1 / 8, 1 / 8]], [[3 / 8, -3 / 8]]]
    np.testing.assert_allclose(gradient, want, rtol=1e-12)
    several = np.array([[1.0, 0.0], [0.0, 1.0]])
    gradient, figures = kernel.loss(logits, several, halves, True)
    losses = [(np.log(4 / 3) + np.log(2)) / 2, (np.log(4) + np.log(2)) / 2]
    np.testing.assert_allclose(figures, [[np.mean(losses)], [0.5]], rtol=1e-12)
    want = [[[-1 / 16, 1 / 8]], [[3 / 16, -1 / 8]]]
    np.testing.assert_allclose(gradient, want, rtol=1e-12)
    assert kernel.loss(logits, several, halves)[0] is None


@pytest.mark.parametrize("n_classes", [1, 2, 7, 600])
def test_loss_equals_torch(kernel: ModuleType, n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    logits = rng.standard_normal((40, 3, n_classes)) * 20
    labels = rng.integers(n_classes, size=40)
    several = (rng.random((40, n_classes)) < 0.5).astype(float)
    weight = rng.random(40)
    for wanted in (labels, several):
        gradient, (losses, right) = kernel.loss(logits, wanted, weight, True)
        for replica in range(3):
            x = torch.tensor(logits[:, replica], requires_grad=True)
            y = torch.from_numpy(wanted)
            if wanted.ndim == 1:
                node = torch.nn.functional.cross_entropy(x, y, reduction="none")
                good = (x.argmax(dim=1) == y).double()
            else:
                node = torch.nn.functional.binary_cross_entropy_with_logits(
                    x, y, reduction="none"
                ).mean(dim=1)
                good = ((x > 0) == (y > 0.5)).double().mean(dim=1)
            loss = (node * torch.from_numpy(weight)).sum()
            (slope,) = torch.autograd.grad(loss, x)
            np.testing.assert_allclose(losses[replica], loss.item(), rtol=1e-10)
            np.testing.assert_allclose(right[replica], (good.numpy() * weight).sum(), rtol=1e-12)
            np.testing.assert_allclose(gradient[:, replica], slope, rtol=1e-9, atol=1e-14)


def test_loss_takes_the_first_of_equal_logits(kernel: ModuleType) -> None:
    logits = np.zeros((2, 1, 3), np.float32)
    _, (_, right) = kernel.loss(logits, np.array([0, 1]), np.ones(2))
    assert right.tolist() == [1.0]


def test_loss_of_extreme_logits_is_finite_and_of_nan_is_nan(kernel: ModuleType) -> None:
    logits = np.array([[[3e38, -3e38]]], np.float32)
    for labels in (np.array([1]), np.array([[0.0, 1.0]], np.float32)):
        gradient, (loss, _) = kernel.loss(logits, labels, np.ones(1), True)
        assert np.isfinite(loss).all()
        assert np.isfinite(gradient).all()
        _, (loss, _) = kernel.loss(logits * np.float32(np.nan), labels, np.ones(1))
        assert np.isnan(loss).all()


def test_column_sums_by_hand(kernel: ModuleType) -> None:
    rows = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, 0.25]])
    sums = kernel.column_sums(rows)
    assert sums.tolist() == [[4, 2, 0.75]]
    assert sums.dtype == np.float64
    assert kernel.column_sums(rows[:1].astype(np.float32)).tolist() == [[1, -2, 0.5]]
    nothing = kernel.column_sums(np.empty((0, 3), np.float32))
    assert (nothing.tolist(), nothing.dtype) == ([[0, 0, 0]], np.float32)
    assert kernel.column_sums(np.empty((4, 0))).shape == (1, 0)
    assert np.isnan(kernel.column_sums(np.array([[1.0, np.nan]]))).tolist() == [[False, True]]


@needs_native
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 63, 64, 65, 1000])
def test_column_sums_are_those_of_the_reference(n_rows: int, dtype: Any) -> None:
    native, reference = kernels.select("native"), kernels.select("reference")
    rng = np.random.default_rng(n_rows)
    # What is summed in single precision has an error for each of 64 rows at most.
    error = 64 * np.finfo(dtype).eps
    for width in range(1, 71):
        rows = rng.standard_normal((n_rows, width)).astype(dtype)
        got, want = native.column_sums(rows), reference.column_sums(rows)
        assert got.dtype == want.dtype == dtype
        assert got.shape == want.shape == (1, width)
        size = np.abs(rows).sum(axis=0, dtype=np.float64)
        assert (np.abs(got[0].astype(np.float64) - want[0]) <= error * size).all()


def test_column_sums_of_many_rows_keep_their_digits(kernel: ModuleType) -> None:
    """Added one by one in single precision, 0.1 to a sum of 10,000 is right to three digits."""
    rows = np.full((100_000, 3), 0.1, dtype=np.float32)
    exact = 100_000 * float(np.float32(0.1))
    np.testing.assert_allclose(kernel.column_sums(rows), np.full((1, 3), exact), rtol=1e-6)


@needs_native
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_is_summed_as_it_is_alone(dtype: Any) -> None:
    native = kernels.select("native")
    rows = np.random.default_rng(0).standard_normal((1000, 37)).astype(dtype)
    together = native.column_sums(rows)
    for first, last in ((0, 1), (3, 16), (16, 32), (31, 37), (36, 37)):
        alone = native.column_sums(rows[:, first:last].copy())
        np.testing.assert_array_equal(alone, together[:, first:last])


@needs_native
def test_sums_and_agreement_are_the_same_for_any_number_of_threads(native: ModuleType) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100_000, 7)).astype(np.float32)
    logits = rng.standard_normal((5000, 3, 2, 7)).astype(np.float32)
    found = []
    for n_threads in (1, 2, 3, 7):
        native.set_threads(n_threads)
        by_label = [native.agreement(logits, 0.5, several).tobytes() for several in (False, True)]
        found.append((native.column_sums(rows).tobytes(), *by_label))
    assert len(set(found)) == 1


def test_agreement_by_hand(kernel: ModuleType) -> None:
    # Softmax of (ln 3, 0) is (3/4, 1/4), that of (0, 0) is (1/2, 1/2): their mean (5/8, 3/8).
    logits = np.array([[[[np.log(3), 0.0]], [[0.0, 0.0]]]])  # a row of two copies
    # Away from the mean by 1/8 and -1/8, and the other way: the slope of a share p is p times what
    # it is away less the mean of that, 3/4 (1/8 - 1/16) and 1/2 (-1/8 - 0).
    want = [[[[3 / 64, -3 / 64]], [[-1 / 16, 1 / 16]]]]
    np.testing.assert_allclose(kernel.agreement(logits, 1.0), want, rtol=1e-12)
    # Squared, the mean becomes (25/34, 9/34): away by 1/68, and by -4/17.
    want = [[[[3 / 544, -3 / 544]], [[-2 / 17, 2 / 17]]]]
    np.testing.assert_allclose(kernel.agreement(logits, 0.5), want, rtol=1e-12)


def test_agreement_of_several_labels_by_hand(kernel: ModuleType) -> None:
    # Sigmoids 3/4 and 1/2 of the first class, of the second twice 1/2, on which both agree.
    logits = np.array([[[[np.log(3), 0.0]], [[0.0, 0.0]]]])
    # Away by 1/8 and -1/8, times p (1 - p), times 4 / 2 copies / 2 classes.
    want = [[[[3 / 128, 0]], [[-1 / 32, 0]]]]
    np.testing.assert_allclose(kernel.agreement(logits, 1.0, True), want, rtol=1e-12)
    # 25 to 9 after squaring: away by 1/68 and -4/17.
    want = [[[[3 / 16 / 68, 0]], [[-1 / 17, 0]]]]
    np.testing.assert_allclose(kernel.agreement(logits, 0.5, True), want, rtol=1e-12)


@pytest.mark.parametrize("is_multilabel", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("shape", [(40, 2, 3, 7), (9, 4, 1, 2), (5, 1, 2, 60), (3, 3, 2, 1)])
def test_agreement_equals_torch(
    kernel: ModuleType, shape: tuple[int, ...], temperature: float, is_multilabel: bool
) -> None:
    rng = np.random.default_rng(shape[0])
    logits = rng.standard_normal(shape) * 4
    x = torch.tensor(logits, requires_grad=True)
    if is_multilabel:
        shares = torch.stack([x.sigmoid(), (-x).sigmoid()])  # both answers of each class
        raised = shares.mean(dim=2, keepdim=True).detach() ** (1 / temperature)
        wanted = raised / raised.sum(dim=0)
        loss = ((shares - wanted) ** 2).sum() / shape[1] / shape[3]
    else:
        shares = x.softmax(dim=3)
        raised = shares.mean(dim=1, keepdim=True).detach() ** (1 / temperature)
        wanted = raised / raised.sum(dim=3, keepdim=True)
        loss = ((shares - wanted) ** 2).sum() / shape[1]
    (slope,) = torch.autograd.grad(loss, x)
    got = kernel.agreement(logits, temperature, is_multilabel)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, slope, rtol=1e-9, atol=1e-14)
    single = kernel.agreement(logits.astype(np.float32), temperature, is_multilabel)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, slope, rtol=1e-5, atol=1e-6)


@needs_native
@pytest.mark.parametrize("is_multilabel", [False, True])
def test_agreement_of_a_row_and_replica_is_that_of_it_alone(is_multilabel: bool) -> None:
    native = kernels.select("native")
    logits = np.random.default_rng(0).standard_normal((50, 3, 4, 7)).astype(np.float32)
    together = native.agreement(logits, 0.5, is_multilabel)
    for replica in range(4):
        alone = native.agreement(logits[:, :, replica : replica + 1].copy(), 0.5, is_multilabel)
        np.testing.assert_array_equal(alone[:, :, 0], together[:, :, replica])
    for row in range(50):
        alone = native.agreement(logits[row : row + 1].copy(), 0.5, is_multilabel)
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("is_multilabel", [False, True])
def test_agreement_of_extreme_logits_is_finite_and_of_nothing_is_nothing(
    kernel: ModuleType, is_multilabel: bool
) -> None:
    for shape in ((0, 2, 3, 4), (3, 2, 0, 4)):
        none = np.empty(shape, np.float32)
        assert kernel.agreement(none, 0.5, is_multilabel).shape == shape
    logits = np.array([[[[3e38, -3e38]], [[-3e38, 3e38]]], [[[3e38, 0]], [[3e38, 0]]]], np.float32)
    for temperature in (1e-3, 0.5, 1e3):
        slopes = kernel.agreement(logits, temperature, is_multilabel)
        assert np.isfinite(slopes).all()
    # Copies that are sure of the same have nothing to learn from each other.
    sure = np.array([[[[40.0, -40.0]], [[40.0, -40.0]]]])
    np.testing.assert_allclose(kernel.agreement(sure, 0.5, is_multilabel), 0, atol=1e-15)
    # Those that do not know at all have no more, however sharp the mean is made.
    unsure = np.zeros((2, 3, 1, 2))
    np.testing.assert_allclose(kernel.agreement(unsure, 0.01, is_multilabel), 0, atol=1e-15)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_equals_torch(kernel: ModuleType, decay: float) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((5, 3))
    wanted = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimiser = torch.optim.Adam([wanted], lr=0.05, weight_decay=decay)
    got, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, 20):
        gradient = rng.standard_normal((5, 3))
        wanted.grad = torch.from_numpy(gradient.copy())
        optimiser.step()
        kernel.adam(got, gradient, mean, square, step, 0.05, decay)
    np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-9)


@needs_native
def test_adam_gives_the_bits_of_the_reference() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.random(1001).astype(np.float32) for _ in range(4)]
    results = []
    for name in ("native", "reference"):
        parameter, gradient, mean, square = (array.copy() for array in arrays)
        kernels.select(name).adam(parameter, gradient, mean, square, 2, 0.01, 5e-4)
        results.append((parameter, mean, square))
    for got, want in zip(*results, strict=True):
        assert (got == want).all()
