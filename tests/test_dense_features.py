"""Dense features in the plan: which kernels an epoch calls, and that all ways give one result."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.kernel_cases import KERNELS, needs_native

from graphconv import Graph, Settings, kernels
from graphconv.engine import planning
from graphconv.engine.replicas import Replicas
from graphconv.training.fit import build_model, full_batches


class Named(ModuleType):
    """Kernels that note which of them were called."""

    def __init__(self, own: ModuleType) -> None:
        super().__init__(own.__name__)
        self.own = own
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self.own, name)


def a_ring(n_nodes: int = 400) -> Graph:
    """Nodes with two neighbours each, so that few labelled ones need few others."""
    rng = np.random.default_rng(0)
    own = np.arange(n_nodes)
    adjacency = np.zeros((n_nodes, n_nodes), np.float32)
    adjacency[own, (own + 1) % n_nodes] = adjacency[(own + 1) % n_nodes, own] = 1
    return Graph(
        adjacency,
        rng.standard_normal((n_nodes, 150)).astype(np.float32),
        own % 3,
        train_index=np.arange(0, 40),
        validation_index=np.arange(100, 160),
    )


def first_epoch(kernel: str, n_seeds: int, dropout: float) -> tuple[Named, list[Any], Any]:
    """The kernels called by an epoch, its gradients, and what validation says after it."""
    graph = a_ring()
    settings = Settings(hidden=(140,), scaling="none", dropout=dropout)
    network = build_model(graph, settings, range(n_seeds))
    network.kernels = network.processor_kernels = named = Named(kernels.select(kernel))
    training, validation = full_batches(graph, settings, network, graph.features)
    team = Replicas(network, settings).take(np.arange(n_seeds), 0)
    named.calls.clear()
    slopes, *_ = team.objective.gradients(training, 0)
    assert validation is not None
    return named, list(slopes), team.objective.evaluate(validation)[0]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_seeds", [1, 3])
def test_features_are_dropped_out_on_the_way_or_before_with_one_result(
    monkeypatch: pytest.MonkeyPatch, kernel: str, n_seeds: int
) -> None:
    on_the_way, slopes, scores = first_epoch(kernel, n_seeds, 0.5)
    assert on_the_way.calls.count("propagate_dropped") == 1
    assert "dropout_dense" not in on_the_way.calls
    monkeypatch.setattr(planning, "MOST_SUMS", 0)
    monkeypatch.setattr(planning, "sum_comes_first", lambda size: not size.for_input)
    before, others, same_scores = first_epoch(kernel, n_seeds, 0.5)
    assert "propagate_dropped" not in before.calls
    assert before.calls.count("dropout_dense") == 1
    np.testing.assert_array_equal(same_scores, scores)
    for own, other in zip(slopes, others, strict=True):
        np.testing.assert_array_equal(own, other)


def test_what_was_summed_beforehand_is_multiplied_once_with_its_bias() -> None:
    named, _, _ = first_epoch("reference", 1, 0.0)
    # Training and validation, each the product of sums made beforehand, and nothing else for it.
    assert named.calls.count("wide_product") == 2
    assert named.calls.count("wide_product_backward") == 1
    assert "propagate_dropped" not in named.calls


@needs_native
def test_bias_of_sums_made_beforehand_has_its_gradient() -> None:
    _, slopes, scores = first_epoch("native", 2, 0.0)
    _, wanted, same_scores = first_epoch("reference", 2, 0.0)
    assert len(slopes) == len(wanted) == 4
    np.testing.assert_allclose(scores, same_scores, rtol=1e-5)
    for own, want in zip(slopes, wanted, strict=True):
        assert np.abs(want).max() > 0
        np.testing.assert_allclose(own, want, rtol=1e-3, atol=1e-6)
