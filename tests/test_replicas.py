"""Tests of graphconv.training: seeds trained at once end as if each were alone."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_cases import KERNELS, needs_native
from tests.training_runs import SHORT, assert_same_bits, run, small_graph

from graphconv.datasets import load_dataset
from graphconv.fitting import build_model
from graphconv.training import load_replica, replica_weights

# Where a replica's last bits could come to depend on those beside it: gradients summed over nodes
# (a learned lambda, a bias), vectorised loops with a remainder and the edges of matrix products
# (odd widths).
VARIANTS = {
    "renormalised": {},
    "single-parameter": {"propagation": "single-parameter"},
    "first-order": {"propagation": "first-order"},
    "first-order-only": {"propagation": "first-order-only"},
    "chebyshev": {"propagation": "chebyshev"},
    "none": {"propagation": "none"},
    "learned": {"self_loop_weight": "learn"},
    "bias": {"bias": True},
    "residual": {"hidden": (8, 8), "residual": True},
    "tanh, no dropout": {"activation": "tanh", "dropout": 0.0},
    "linear": {"hidden": ()},
    "wide": {"hidden": (64,)},
    "odd": {"hidden": (5,)},
    "odd, no dropout": {"hidden": (5,), "dropout": 0.0},
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_replicas_end_bit_for_bit_as_alone(variant, features, kernel):
    graph = small_graph(features)
    settings = replace(SHORT, **VARIANTS[variant])
    seeds = (4, 11, 2)
    together, state = run(graph, settings, seeds, kernel)
    for replica, seed in enumerate(seeds):
        alone, own = run(graph, settings, (seed,), kernel)
        assert_same_bits(replica_weights(together, replica), replica_weights(alone, 0))
        # The figures shown are sums in double precision, whose order may differ.
        np.testing.assert_allclose(
            np.array(state.epochs)[:, :, replica], np.array(own.epochs)[:, :, 0], rtol=1e-12
        )


@pytest.mark.parametrize("early_stopping", ["best", "window"])
@pytest.mark.parametrize("variant", ["renormalised", "learned", "bias", "residual"])
def test_replicas_stop_as_alone(variant, early_stopping):
    graph = small_graph()
    settings = replace(
        SHORT,
        **VARIANTS[variant],
        early_stopping=early_stopping,
        patience=8,
        max_epochs=120,
        learning_rate=0.05,
    )
    seeds = (4, 11, 2)
    together, state = run(graph, settings, seeds)
    assert len(set(state.stopped_at.tolist())) > 1
    for replica, seed in enumerate(seeds):
        alone, own = run(graph, settings, (seed,))
        assert state.stopped_at[replica] == own.stopped_at[0]
        assert_same_bits(replica_weights(together, replica), replica_weights(alone, 0))


def test_weights_of_a_replica_can_be_moved():
    graph = small_graph()
    settings = replace(SHORT, self_loop_weight="learn", bias=True)
    trained, _ = run(graph, settings, (1, 2))
    other = build_model(graph, settings, [1, 2, 3])
    load_replica(other, 2, replica_weights(trained, 1))
    assert_same_bits(replica_weights(other, 2), replica_weights(trained, 1))


@needs_native
def test_many_replicas_on_pubmed_end_bit_for_bit_as_alone():
    """There the product with the features is made replica by replica, and summed in parts."""
    graph = load_dataset("pubmed")
    settings = replace(SHORT, hidden=(16,), max_epochs=3)
    seeds = (4, 11, 2, 9, 6)
    together, _ = run(graph, settings, seeds, "native", watched=False)
    for replica, seed in enumerate(seeds):
        alone, _ = run(graph, settings, (seed,), "native", watched=False)
        assert_same_bits(replica_weights(together, replica), replica_weights(alone, 0))
