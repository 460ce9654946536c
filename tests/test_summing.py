"""Tests of summing: features summed over neighbours once give what every pass would."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import random_matrix
from tests.kernel_cases import KERNELS
from tests.training_runs import SHORT

from graphconv import Graph, load_dataset
from graphconv.engine.batches import make_batch
from graphconv.engine.objective import LabelledBatch, Objective
from graphconv.engine.summing import sum_beforehand
from graphconv.models.settings import RULES
from graphconv.training import fit as fitting
from graphconv.training.fit import build_model, fit_gcn

N_TARGETS = 8
SUMMED_RULES = ("renormalised", "first-order-only")


def forest(features="sparse", directed=False, weighted=False):
    """Trees whose roots are the targets: each hop reaches several times as many nodes."""
    rng = np.random.default_rng(7)
    levels = [N_TARGETS]
    for _ in range(3):
        levels.append(levels[-1] * 5)
    n_nodes = sum(levels)
    parents = np.concatenate(
        [
            np.repeat(np.arange(sum(levels[:depth]), sum(levels[: depth + 1])), 5)
            for depth in range(3)
        ]
    )
    edges = rng.random(len(parents)) + 0.5 if weighted else np.ones(len(parents))
    children = np.arange(N_TARGETS, n_nodes)
    adjacency = sp.csr_array((edges, (parents, children)), shape=(n_nodes, n_nodes))
    words = random_matrix((n_nodes, 40), 0.3, rng)
    return Graph(
        adjacency if directed else adjacency + adjacency.T,
        {"sparse": words, "dense": words.toarray(), "none": None}[features],
        np.arange(n_nodes) % 3,
        directed=directed,
        train_index=np.arange(4),
        validation_index=np.arange(4, N_TARGETS),
    )


def both(graph, kernel="auto", seeds=(3, 4), **changes):
    """A model, and a batch of targets as it is and with its features summed."""
    model = build_model(graph, replace(SHORT, **changes), seeds=seeds, kernels=kernel)
    batch = make_batch(graph, range(N_TARGETS), n_hops=model.n_hops)
    return model, batch, sum_beforehand(batch, model)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 40)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("rule", SUMMED_RULES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_logits_are_those_of_sums_in_every_pass(kernel, rule, features, directed, weighted, hidden):
    graph = forest(features, directed, weighted)
    model, batch, summed = both(graph, kernel, propagation=rule, hidden=hidden, bias=True)
    assert summed.is_summed
    assert summed.n_within == batch.n_within[:-1]
    assert len(summed.rows) == summed.n_within[-1] < len(batch.rows)
    np.testing.assert_allclose(model(summed), model(batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_sums_in_every_pass(kernel, features):
    graph = forest(features)
    model, batch, summed = both(graph, kernel, dropout=(0.0, 0.5))
    found = []
    for own in (batch, summed):
        labelled = LabelledBatch.make(own, graph.labels)
        found.append(Objective(model, SHORT).gradients(labelled, 5))
    for want, got in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_of_many_words_are_packed_for_wide_weights(kernel):
    few = forest()
    words = random_matrix((few.n_nodes, 300), 0.4, np.random.default_rng(1))
    graph = Graph(few.adjacency, words, few.labels, train_index=few.train_index)
    three, batch, summed = both(graph, kernel, hidden=(16,), seeds=(3, 4, 5))
    one = build_model(graph, replace(SHORT, hidden=(16,)), seeds=[4], kernels=kernel)
    alone = one(summed)
    assert not summed._packed  # one replica is too narrow
    together = three(summed)
    assert summed._packed[0].n_ranges == 3
    np.testing.assert_allclose(together, three(batch), rtol=1e-5, atol=1e-6)
    if kernel == "native":
        assert (together[:, 1] == alone[:, 0]).all()
    assert summed.packed_features(three.kernels) is summed._packed[0]


@pytest.mark.parametrize("rule", sorted(set(RULES) - set(SUMMED_RULES)))
def test_other_rules_leave_the_batch_as_it_is(rule):
    _, batch, summed = both(forest(), propagation=rule)
    assert summed is batch


def test_nothing_to_sum_stays_as_it_is():
    _, batch, summed = both(forest("none"))
    assert summed is batch
    _, batch, summed = both(forest(), self_loop_weight="learn")
    assert summed is batch


def test_batch_stays_as_it_is_where_sums_are_no_smaller():
    for features in ("sparse", "dense"):
        graph = forest(features)
        model = build_model(graph, SHORT, seeds=[0])
        everyone = make_batch(graph, n_hops=2)
        assert sum_beforehand(everyone, model) is everyone
    cora = load_dataset("cora")  # few words a node, and hardly any in common with its neighbours
    model = build_model(cora, SHORT, seeds=[0])
    batch = make_batch(cora, cora.validation_index, n_hops=2)
    assert sum_beforehand(batch, model) is batch


def test_sums_are_not_dropped_out():
    model, _, summed = both(forest())
    with pytest.raises(AssertionError, match="can't be dropped out"):
        model(summed, epoch=1)
    with pytest.raises(AssertionError, match="can't be dropped out"):
        model.plan(summed, drops=True)


@pytest.mark.parametrize("dropout", [0.5, (0.0, 0.5)])
@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_training_takes_the_same_course(features, dropout, monkeypatch):
    used = []

    def watched(batch, propagation):
        out = sum_beforehand(batch, propagation)
        used.append(out.is_summed)
        return out

    histories = []
    for summing in (watched, lambda batch, propagation: batch):
        monkeypatch.setattr(fitting, "sum_beforehand", summing)
        overrides = {"max_epochs": 8, "early_stopping": "none", "dropout": dropout, "hidden": (16,)}
        fitted = fit_gcn(forest(features), preset="paper", overrides=overrides)
        histories.append(fitted.history)
    # Of the two batches, that of training only where it drops out no features.
    assert used == ([True] if dropout == 0.5 else [True, True])
    for name, want in histories[1].items():
        np.testing.assert_allclose(histories[0][name], want, rtol=1e-4, err_msg=name)
