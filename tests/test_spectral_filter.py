"""Equation 3 by hand, and Chebyshev on its way to it."""

from itertools import pairwise

import numpy as np
import pytest

import graphconv
from graphconv import Graph, spectral_filter
from graphconv.graph.spectral import chebyshev_filter

PATH = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])  # eigenvalues 0, 1 and 2
# Eigenvectors by hand: D^1/2 1, the difference of the ends, and the first with signs in turn.
ROOT = np.sqrt([1, 2, 1]) / 2
U = np.column_stack([ROOT, np.array([1, 0, -1]) / np.sqrt(2), ROOT * [1, -1, 1]])


def heat(eigenvalues):
    return np.exp(-2 * eigenvalues)


@pytest.mark.parametrize("values", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.3, -2, 5]])
def test_path_by_hand(values):
    seen = []

    def g(eigenvalues):
        seen.append(eigenvalues)
        return np.array(values)

    x = np.array([0.5, -1.0, 3.0])
    np.testing.assert_allclose(
        spectral_filter(PATH, g, x), U @ np.diag(values) @ U.T @ x, atol=1e-12
    )
    np.testing.assert_allclose(seen[0], [0, 1, 2], atol=1e-12)


def test_several_signals_are_filtered_one_by_one():
    x = np.random.default_rng(0).random((3, 4))
    both = spectral_filter(PATH, heat, x)
    for column in range(4):
        np.testing.assert_allclose(both[:, column], spectral_filter(PATH, heat, x[:, column]))


def weighted_graph():
    rng = np.random.default_rng(1)
    upper = np.triu(rng.random((20, 20)) * (rng.random((20, 20)) < 0.2), 1)
    upper[:, 7] = upper[7] = 0  # a node without edges
    return Graph(upper + upper.T)


def test_chebyshev_approaches_the_exact_filter():
    graph = weighted_graph()
    x = np.random.default_rng(2).standard_normal((20, 2))
    exact = spectral_filter(graph, heat, x)
    errors = [
        np.abs(chebyshev_filter(graph, heat, x, order) - exact).max()
        for order in (0, 1, 2, 4, 8, 16)
    ]
    assert all(after < before for before, after in pairwise(errors))
    assert errors[-1] < 1e-10


def test_a_polynomial_is_met_exactly():
    graph = weighted_graph()
    x = np.random.default_rng(3).standard_normal(20)

    def cubic(values):
        return 1 - values + 0.5 * values**3

    exact = spectral_filter(graph, cubic, x)
    np.testing.assert_allclose(chebyshev_filter(graph, cubic, x, 3), exact, atol=1e-10)
    assert np.abs(chebyshev_filter(graph, cubic, x, 2) - exact).max() > 1e-3


def test_an_order_reaches_so_many_steps():
    n_nodes = 9
    line = Graph(np.diag(np.ones(n_nodes - 1), 1) + np.diag(np.ones(n_nodes - 1), -1))
    for order in range(4):
        found = chebyshev_filter(line, heat, np.eye(n_nodes)[4], order)
        assert np.flatnonzero(np.abs(found) > 1e-12).tolist() == list(range(4 - order, 5 + order))


def test_what_cannot_be_filtered_is_refused():
    directed = Graph([[0, 1], [0, 0]], directed=True)
    with pytest.raises(ValueError, match="needs an undirected graph"):
        spectral_filter(directed, heat, [1, 2])
    with pytest.raises(ValueError, match=r"x must have one entry or row for each of 3 nodes"):
        spectral_filter(PATH, heat, [1, 2])
    with pytest.raises(ValueError, match="g must return a number for each eigenvalue"):
        spectral_filter(PATH, lambda values: 1.0, [1, 2, 3])
    with pytest.raises(ValueError, match="order must be a whole number"):
        chebyshev_filter(PATH, heat, [1, 2, 3], -1)


def test_large_graphs_are_refused_before_anything_is_worked_out():
    large = graphconv.load_dataset("random:10001")
    with pytest.raises(ValueError, match="at most 10,000 nodes, got 10,001"):
        spectral_filter(large, heat, np.zeros(10001))
