"""sample_rows: both implementations give the same bits, and a fair sample."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare
from tests.generated_graphs import random_matrix

from graphconv import kernels
from graphconv.kernels import reference

IMPLEMENTATIONS = [
    reference,
    pytest.param(
        None if kernels.native_missing() else kernels.select("native"),
        marks=pytest.mark.skipif(kernels.native_missing() is not None, reason="not built"),
    ),
]


def matrix(rng, n_rows=50, n_columns=80, density=0.3):
    return random_matrix((n_rows, n_columns), density, rng)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_a_fanout_rows_are_copied(implementation):
    rng = np.random.default_rng(0)
    whole = matrix(rng)
    rows = np.array([7, 7, 0, 49, 13])
    sample = implementation.sample_rows(whole.indptr, whole.indices, whole.data, rows)
    copied = sp.csr_array((sample.values, sample.columns, sample.indptr), shape=(5, whole.shape[1]))
    assert np.array_equal(copied.toarray(), whole.toarray()[rows])
    assert (sample.scale == 1).all()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("fanout", [1, 4, 1000])
def test_samples_are_parts_of_their_rows(implementation, fanout):
    whole = matrix(np.random.default_rng(1))
    rows = np.arange(50)
    sample = implementation.sample_rows(
        whole.indptr, whole.indices, whole.data, rows, fanout, key=3
    )
    lengths = np.diff(whole.indptr)
    assert np.array_equal(np.diff(sample.indptr), np.minimum(lengths, fanout))
    assert np.allclose(sample.scale, np.maximum(lengths / fanout, 1))
    for row in rows:
        own = slice(sample.indptr[row], sample.indptr[row + 1])
        assert (np.diff(sample.columns[own]) > 0).all()  # in order, none twice
        assert np.array_equal(whole.toarray()[row, sample.columns[own]], sample.values[own])


@pytest.mark.skipif(kernels.native_missing() is not None, reason="not built")
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("value_type", [np.float32, np.float64, None])
@pytest.mark.parametrize("fanout", [None, 1, 7, 64])
def test_native_equals_the_reference_bit_for_bit(index_type, value_type, fanout):
    rng = np.random.default_rng(2)
    whole = matrix(rng, 300, 500)
    indices = whole.indices.astype(index_type)
    values = None if value_type is None else whole.data.astype(value_type)
    rows = rng.integers(300, size=2000)  # enough entries for several threads
    key = 0xFEDCBA9876543210
    native = kernels.select("native")
    results = [
        module.sample_rows(whole.indptr.astype(np.int64), indices, values, rows, fanout, key)
        for module in (reference, native)
    ]
    for ours, theirs in zip(*results, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)


@pytest.mark.skipif(kernels.native_missing() is not None, reason="not built")
def test_threads_and_order_of_rows_change_nothing():
    rng = np.random.default_rng(3)
    whole = matrix(rng, 3000, 400)
    native = kernels.select("native")
    before = native.get_threads()
    rows = np.arange(3000)
    try:
        samples = []
        for n_threads in (1, 4):
            native.set_threads(n_threads)
            samples.append(native.sample_rows(whole.indptr, whole.indices, None, rows, 50, 9))
    finally:
        native.set_threads(before)
    assert np.array_equal(samples[0].columns, samples[1].columns)
    backwards = native.sample_rows(
        whole.indptr, whole.indices, None, np.ascontiguousarray(rows[::-1]), 50, 9
    )
    last = backwards.columns[backwards.indptr[0] : backwards.indptr[1]]
    assert np.array_equal(last, samples[0].columns[samples[0].indptr[-2] :])


def test_every_entry_is_as_likely_as_any_other():
    n, fanout, n_draws = 12, 5, 20_000
    indptr, indices = np.array([0, n]), np.arange(n, dtype=np.int32)
    # One row a draw: the row's number is part of the hash, so each is a draw of its own.
    many = np.tile(indptr[None, :], (n_draws, 1))
    chosen = reference._floyd(5, np.arange(n_draws), many[:, 1], fanout)
    assert (np.diff(chosen, axis=1) > 0).all()
    assert chisquare(np.bincount(chosen.ravel(), minlength=n)).pvalue > 1e-3
    # Pairs too: a sample is not only fair entry by entry.
    pairs = np.zeros((n, n))
    for k in range(fanout):
        for m in range(k):
            np.add.at(pairs, (chosen[:, m], chosen[:, k]), 1)
    counts = pairs[np.triu_indices(n, 1)]
    assert chisquare(counts).pvalue > 1e-3
    keys = {
        tuple(reference.sample_rows(indptr, indices, None, np.array([0]), fanout, key).columns)
        for key in range(30)
    }
    assert len(keys) > 20


@pytest.mark.skipif(kernels.native_missing() is not None, reason="not built")
def test_wrong_arguments_are_refused():
    whole = matrix(np.random.default_rng(4))
    native = kernels.select("native")
    with pytest.raises(ValueError, match="fanout must be at least 1, got 0"):
        native.sample_rows(whole.indptr, whole.indices, None, np.array([0]), 0)
    with pytest.raises(TypeError, match="row_ids must be int64"):
        native.sample_rows(whole.indptr, whole.indices, None, np.array([0], np.int32))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_that_have_other_names_are_sampled_by_them(implementation):
    whole = matrix(np.random.default_rng(5))
    arrays = (whole.indptr, whole.indices, whole.data)
    rows = np.array([4, 30, 11])
    expected = reference.sample_rows(*arrays, rows, 3, key=9)
    # The same rows, alone in a matrix of their own.
    part = whole[rows]
    found = implementation.sample_rows(
        part.indptr, part.indices, part.data, np.arange(3), 3, key=9, row_ids=rows
    )
    assert np.array_equal(found.columns, expected.columns)
    other = implementation.sample_rows(part.indptr, part.indices, part.data, np.arange(3), 3, key=9)
    assert not np.array_equal(found.columns, other.columns)
