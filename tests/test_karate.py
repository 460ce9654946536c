"""Appendix A: what is trained on the karate club, and what the table says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphconv import Graph, load_dataset
from graphconv.engine.batches import make_batch
from graphconv.engine.network import Network
from graphconv.kernels import select
from graphconv.models.propagation import Propagation
from graphconv.paper import karate
from graphconv.paper.section import Request

CLUB = load_dataset("karate")


def test_the_model_is_equation_12_with_a_softmax_layer() -> None:
    model = karate.PlaneModel(CLUB.n_features, 4, karate.SETTINGS, Propagation())
    network = Network(model, [3], select())
    weights = {name: own.astype(np.float64)[:, 0, 0] for name, own in network.parameters.items()}
    assert {name: own.shape for name, own in weights.items()} == {
        "layers.0.weight": (34, 4),
        "layers.1.weight": (4, 4),
        "layers.2.weight": (4, 2),
        "top": (2, 4),
    }
    looped = CLUB.adjacency.toarray() + np.eye(34)
    root = looped.sum(axis=1) ** -0.5
    a_hat = root[:, None] * looped * root
    place = np.eye(34)
    for layer in range(3):
        place = np.tanh(a_hat @ place @ weights[f"layers.{layer}.weight"])
    everyone = make_batch(CLUB, n_hops=network.n_hops)
    assert network.n_hops == 3
    found = karate.train_embeddings(CLUB, [3], 1)
    np.testing.assert_allclose(found.positions[0, 0], place, atol=1e-6)
    expected = place @ weights["top"]
    logits = network(everyone)[:, 0]
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    is_right = (expected.argmax(axis=1) == CLUB.labels)[CLUB.test_index]
    assert found.accuracy[0, 0] == pytest.approx(100 * is_right.mean())


def test_the_first_step_is_adams() -> None:
    """Every weight moves by the learning rate, against its slope; so do the places, a little."""
    found = karate.train_embeddings(CLUB, [0], 2)
    steps = np.abs(np.diff(found.positions[:, 0], axis=0)).max(axis=(1, 2))
    assert (steps > 1e-3).all()
    assert (steps < 0.1).all()


def test_moments_and_starts_that_are_asked_for() -> None:
    series = karate._series(Request(Path()))
    assert series.settings["iterations"] == [0, 25, 50, 75, 100, 200, 300]
    assert series.seeds == tuple(range(100))
    assert series.chunk == 100  # all side by side
    short = karate._series(Request(Path(), runs=3, max_epochs=75))
    assert (short.settings["iterations"], short.seeds) == ([0, 25, 50, 75], (0, 1, 2))
    assert karate._series(Request(Path(), max_epochs=10)).settings["iterations"] == [0, 10]


def test_a_run_says_what_became_of_each_start() -> None:
    series = karate._series(Request(Path(), runs=2, max_epochs=25))
    found = karate.train_embeddings(CLUB, range(2), 25)
    first, second = karate.run_embeddings(series, CLUB)
    assert [first["seed"], second["seed"]] == [0, 1]
    assert second["accuracy_after"] == pytest.approx(found.accuracy[[0, 25], 1])
    assert second["test_accuracy"] == pytest.approx(found.accuracy[25, 1])
    assert [type(one) for one in second["separable_after"]] == [bool, bool]
    assert second["epochs"] == 25


def test_the_table_of_hand_made_starts() -> None:
    after = [[10.0, 90.0], [30.0, 100.0], [20.0, 100.0], [20.0, 100.0]]
    separable = [[False, True], [False, True], [True, True], [False, False]]
    runs = [
        {"accuracy_after": of_start, "separable_after": is_parted}
        for of_start, is_parted in zip(after, separable, strict=True)
    ]
    assert karate._table(runs, [0, 25]).rows == (
        ("0", "10.0", "20.0", "0", "25"),
        ("25", "90.0", "97.5", "75", "75"),
    )


def test_every_friendship_is_drawn_once() -> None:
    path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert karate.edges_of(path).tolist() == [[0, 1], [1, 2]]
    looped = Graph([[1, 1, 0], [1, 0, 1], [0, 1, 1]])
    assert karate.edges_of(looped).tolist() == [[0, 1], [1, 2]]
    assert karate.edges_of(CLUB).shape == (78, 2)
