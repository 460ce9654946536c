"""Features of a batch as sparse rows or as a dense matrix: the same numbers, the same training."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import Graph
from graphconv.engine.feature_storage import faster_features
from graphconv.training.fit import fit_gcn

RING = sp.csr_array(np.roll(np.eye(30), 1, axis=1) + np.roll(np.eye(30), -1, axis=1))


def features(density: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = rng.standard_normal((30, 40)) * (rng.random((30, 40)) < density)
    return found.astype(np.float32)


@pytest.mark.parametrize("given", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_what_is_stored_depends_on_how_full_and_how_much_is_kept(given):
    for density, kept, is_dense in ((1 / 3, 1.0, True), (1 / 3, 0.5, False), (0.05, 1.0, False)):
        whole = features(density)
        own = faster_features(given(whole), kept)
        assert isinstance(own, np.ndarray) is is_dense
        assert own.dtype == np.float32
        np.testing.assert_array_equal(own if is_dense else own.toarray(), whole)


@pytest.mark.parametrize("features", [None, np.empty((30, 0))])
def test_nothing_is_left_as_it_is(features):
    assert faster_features(features) is features


def test_training_does_not_depend_on_how_features_come():
    labels = np.arange(30) % 3
    probabilities = [
        fit_gcn(
            Graph(RING, given(features(1 / 3)), labels, train_index=range(9), validation_index=[9]),
            overrides={"max_epochs": 20, "scaling": "none"},
            seeds=[0],
        ).probabilities()
        for given in (np.asarray, sp.csr_array)
    ]
    np.testing.assert_allclose(probabilities[0], probabilities[1], rtol=1e-5, atol=1e-6)
