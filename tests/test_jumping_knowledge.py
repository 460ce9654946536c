"""Tests of jumping knowledge: the last layer takes the sum of all hidden ones."""

import numpy as np
import pytest

from graphconv import Graph, Settings
from graphconv.engine.batches import make_batch
from graphconv.training.fit import build_model

# Two nodes that are neighbours: every row of A-hat is (1/2, 1/2).
PAIR = Graph([[0, 1], [1, 0]], np.array([[2.0], [4.0]], dtype=np.float32), labels=[0, 1])


def logits(weights, **settings):
    own = Settings(**{"hidden": (1, 1), "bias": False, **settings})
    network = build_model(PAIR, own, [0])
    for parameter, value in zip(network.parameters.values(), weights, strict=True):
        parameter[...] = np.reshape(value, parameter.shape)
    return network(make_batch(PAIR, n_hops=network.n_hops))[:, 0]


def test_the_sum_of_hidden_layers_by_hand():
    # The mean of the features is 3, so the layers are 3 * 2 = 6 and 6 * 5 = 30: 36 enters the last.
    weights = ([2.0], [5.0], [1.0, -1.0])
    found = logits(weights, jumping_knowledge=True)
    np.testing.assert_allclose(found, [[36.0, -36.0]] * 2, rtol=1e-6)
    np.testing.assert_allclose(logits(weights), [[30.0, -30.0]] * 2, rtol=1e-6)


def test_a_layer_far_below_is_not_lost():
    # The second layer is all below zero: without the first one, nothing would be left.
    found = logits(([2.0], [-5.0], [1.0, 0.5]), jumping_knowledge=True)
    np.testing.assert_allclose(found, [[6.0, 3.0]] * 2, rtol=1e-6)


def test_with_one_hidden_layer_it_is_that_layer():
    weights = ([2.0], [1.0, -1.0])
    found = logits(weights, hidden=(1,), jumping_knowledge=True)
    np.testing.assert_array_equal(found, logits(weights, hidden=(1,)))


@pytest.mark.parametrize(("hidden", "told"), [((8, 4), "8, 4"), ((), "none")])
def test_layers_of_several_widths_are_refused(hidden, told):
    with pytest.raises(ValueError, match=f"hidden must be layers of one width .* got {told}"):
        Settings(hidden=hidden, jumping_knowledge=True)
