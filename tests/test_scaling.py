"""Tests of graphconv.graph.scaling: each kind by hand, and which kind suits which features."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from tests.generated_graphs import embeddings, measured_columns, word_counts

from graphconv.graph import Graph
from graphconv.graph.scaling import SCALINGS, FeatureScaler, fit_scaler

FORMS = [
    pytest.param(np.asarray, id="dense"),
    pytest.param(sp.csr_array, id="sparse"),
]
LABELS = np.random.default_rng(0).integers(4, size=200)


def as_graph_has_them(features):
    """Float32, and CSR where sparse: what `Graph` makes of features."""
    return Graph(np.zeros((features.shape[0],) * 2), features).features


def dense(features):
    return features.toarray() if sp.issparse(features) else features


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Rows: |3| + |-4| = 7 and length 5; 0; 2 and 2.
        ("row", [[3 / 7, -4 / 7], [0, 0], [0, 1]]),
        ("l2", [[3 / 5, -4 / 5], [0, 0], [0, 1]]),
        ("none", [[3, -4], [0, 0], [0, 2]]),
    ],
)
def test_row_scalings_by_hand(kind, expected, form):
    features = as_graph_has_them(form([[3, -4], [0, 0], [0, 2]]))
    scaler = fit_scaler(features, kind)
    assert scaler == FeatureScaler(kind)
    scaled = scaler.transform(features)
    assert sp.issparse(scaled) == sp.issparse(features)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(dense(scaled), expected, rtol=1e-6)


def test_standard_of_dense_columns_by_hand():
    # Columns 1, 3: mean 2, deviation 1. 10, 10: no deviation, so only centred. 0, 8: mean 4.
    scaler = fit_scaler(np.array([[1, 10, 0], [3, 10, 8]], dtype=np.float32), "standard")
    assert scaler.mean.tolist() == [2, 10, 4]
    assert scaler.scale.tolist() == [1, 1, 4]
    new = scaler.transform(np.array([[2, 10, 12]], dtype=np.float32))
    assert new.tolist() == [[0, 0, 2]]


def test_standard_of_sparse_columns_by_hand():
    # First column filled: mean 2, deviation 1. Second has one entry in four, 3: divided by 3.
    # Third is empty, and stays so.
    features = as_graph_has_them(sp.csr_array([[1, 0, 0], [3, 0, 0], [1, 3, 0], [3, 0, 0]]))
    scaler = fit_scaler(features, "standard")
    assert scaler.mean.tolist() == [2, 0, 0]
    assert scaler.scale.tolist() == [1, 3, 1]
    scaled = scaler.transform(features)
    assert sp.issparse(scaled)
    assert scaled.toarray().tolist() == [[-1, 0, 0], [1, 0, 0], [-1, 1, 0], [1, 0, 0]]
    # A new row without an entry in a centred column is a zero there, not a mean.
    assert scaler.transform(sp.csr_array((1, 3), dtype=np.float32)).toarray().tolist() == [
        [-2, 0, 0]
    ]


@pytest.mark.parametrize("kind", ["row", "l2", "none"])
def test_sparse_rows_equal_dense_ones(kind):
    features = as_graph_has_them(sp.csr_array(word_counts(LABELS, np.random.default_rng(1))))
    sparse, full = (dense(fit_scaler(f, kind).transform(f)) for f in (features, features.toarray()))
    np.testing.assert_allclose(sparse, full, rtol=1e-6)


def test_filled_sparse_columns_equal_dense_ones():
    values = as_graph_has_them(measured_columns(LABELS, np.random.default_rng(2)))
    sparse, full = (
        dense(fit_scaler(f, "standard").transform(f)) for f in (sp.csr_array(values), values)
    )
    np.testing.assert_allclose(sparse, full, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(full.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(full.std(axis=0), 1, rtol=1e-4)


def mixed(rng):
    """One-hot columns beside a year and an income: what tables make."""
    category = sp.csr_array(np.eye(50)[rng.integers(50, size=200)])
    year = rng.integers(1950, 2020, size=(200, 1))
    income = rng.lognormal(10, 1, size=(200, 1))
    return sp.hstack([category, sp.csr_array(year), sp.csr_array(income)], format="csr")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda rng: (word_counts(LABELS, rng) > 0).astype(float), "l2", id="binary"),
        pytest.param(lambda rng: word_counts(LABELS, rng), "l2", id="counts"),
        pytest.param(
            lambda rng: TfidfTransformer().fit_transform(word_counts(LABELS, rng)),
            "l2",
            id="tf-idf",
        ),
        pytest.param(lambda rng: np.eye(200), "l2", id="one-hot"),
        pytest.param(lambda rng: measured_columns(LABELS, rng), "standard", id="measured"),
        pytest.param(
            lambda rng: np.abs(measured_columns(LABELS, rng)) + 1, "standard", id="all positive"
        ),
        pytest.param(lambda rng: embeddings(LABELS, rng), "standard", id="embeddings"),
        pytest.param(mixed, "standard", id="mixed"),
        pytest.param(lambda rng: np.full((200, 1), 7.0), "standard", id="constant"),
        pytest.param(lambda rng: np.zeros((200, 3)), "l2", id="all zero"),
        pytest.param(lambda rng: np.zeros((200, 0)), "l2", id="no columns"),
    ],
)
def test_auto_chooses_by_what_the_features_are(make, expected, form):
    features = make(np.random.default_rng(3))
    features = features.toarray() if sp.issparse(features) else features
    assert fit_scaler(as_graph_has_them(form(features)), "auto").kind == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SCALINGS)
def test_never_nan_for_zero_rows_and_constant_columns(kind, form):
    features = np.zeros((6, 5))
    features[:, 1] = 1e9  # constant, large
    features[0, 2] = 1e-30
    features[1, 3] = -1e30
    features[2] = 0
    scaler = fit_scaler(as_graph_has_them(form(features)), kind)
    for rows in (features, np.zeros((2, 5)), np.full((1, 5), 3.0)):
        scaled = dense(scaler.transform(as_graph_has_them(form(rows))))
        assert scaled.dtype == np.float32
        assert np.isfinite(scaled).all()


def test_new_nodes_are_scaled_like_the_old_ones():
    rng = np.random.default_rng(4)
    old = as_graph_has_them(measured_columns(LABELS, rng))
    scaler = fit_scaler(old)
    whole = scaler.transform(old)
    np.testing.assert_array_equal(scaler.transform(old[10:13]), whole[10:13])


def test_featureless_graphs_have_nothing_to_scale():
    assert fit_scaler(None, "standard") == FeatureScaler("none")
    assert fit_scaler(None).transform(None) is None


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"scaling must be one of auto, row.*got 'minmax'"):
        fit_scaler(np.ones((2, 2)), "minmax")


@pytest.mark.parametrize("form", FORMS)
def test_input_is_left_alone(form):
    features = as_graph_has_them(form([[3.0, -4.0], [1.0, 2.0]]))
    for kind in SCALINGS:
        fit_scaler(features, kind).transform(features)
    assert dense(features).tolist() == [[3, -4], [1, 2]]


def test_columns_of_sparse_rows_stay_in_order():
    rng = np.random.default_rng(0)
    values = rng.random((40, 30)) * (rng.random((40, 30)) < 0.2)
    # Columns that most rows have are centred.
    values[:, ::7] = (rng.random((40, 5)) + 1) * (rng.random((40, 5)) < 0.8)
    features = sp.csr_array(values.astype(np.float32))
    for kind in ("row", "l2", "standard"):
        scaled = fit_scaler(features, kind).transform(features)
        assert all((np.diff(row.indices) > 0).all() for row in (scaled[[k]] for k in range(40)))
