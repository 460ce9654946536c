"""Tests of graphconv.models.appnp: its equation by hand, its limits, its use."""

import numpy as np
import pytest

from graphconv import GCNClassifier, Graph, Settings, load_dataset
from graphconv.engine.batches import make_batch
from graphconv.training.fit import build_model, fit_gcn

PATH = Graph(
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
    np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]], dtype=np.float32),
    labels=[0, 1, 0],
)


def dense_logits(network, steps, restart):
    """The equation with matrices of numpy."""
    first, second = (network.parameters[f"layers.{k}.weight"][:, 0, 0] for k in (0, 1))
    hidden = np.maximum(PATH.features @ first, 0) @ second
    looped = PATH.adjacency.toarray() + np.eye(3)
    root = looped.sum(axis=1) ** -0.5
    a_hat = root[:, None] * looped * root
    z = hidden
    for _ in range(steps):
        z = (1 - restart) * a_hat @ z + restart * hidden
    exact = restart * np.linalg.solve(np.eye(3) - (1 - restart) * a_hat, hidden)
    return z, exact


def logits_of(steps, restart):
    settings = Settings(model="appnp", hidden=(5,), bias=False, steps=steps, restart=restart)
    network = build_model(PATH, settings, [3])
    return network, network(make_batch(PATH, n_hops=network.n_hops))[:, 0]


@pytest.mark.parametrize(("steps", "restart"), [(0, 0.1), (1, 0.1), (3, 0.25), (10, 0.1), (4, 1)])
def test_equals_its_equation(steps, restart):
    network, logits = logits_of(steps, restart)
    assert network.n_hops == steps
    np.testing.assert_allclose(logits, dense_logits(network, steps, restart)[0], rtol=1e-5)


def test_many_steps_are_personalised_pagerank():
    network, logits = logits_of(steps=200, restart=0.2)
    np.testing.assert_allclose(logits, dense_logits(network, 200, 0.2)[1], rtol=1e-5)


def test_all_steps_are_one_step_of_the_plan():
    settings = Settings(model="appnp", hidden=(5,), steps=4, restart=0.2)
    network = build_model(PATH, settings, [3])
    plan = network.plan(make_batch(PATH, n_hops=4), drops=True)
    names = [type(call[0].__self__).__name__ for call in plan._forward_calls]
    assert names[-1] == "PowerSum"
    assert not {"NeighbourSum", "AddMultiple", "Multiply"} & set(names)


def test_other_rules_are_refused():
    with pytest.raises(ValueError, match="propagation must be 'renormalised' with appnp"):
        fit_gcn(PATH, overrides={"model": "appnp", "propagation": "chebyshev"})


def test_labels_cora_better_than_a_perceptron():
    cora = load_dataset("cora")

    def accuracy(**settings):
        clf = GCNClassifier("paper", random_state=0, hidden=(64,), bias=True, **settings).fit(cora)
        wanted = np.array(cora.class_names)[cora.labels]
        return (clf.predict()[cora.test_index] == wanted[cora.test_index]).mean()

    appnp = accuracy(model="appnp", early_stopping="best", patience=50)
    assert appnp > accuracy(propagation="none") + 0.15
