"""Splits: sizes, classes, seeds, and too few labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphconv.graph import Graph
from graphconv.graph.splits import (
    fraction_split,
    hold_out_validation,
    kfold_splits,
    random_split,
    split_by_values,
)
from graphconv.io.datasets import load_dataset


def graph_of(labels, **options) -> Graph:
    n_nodes = len(labels)
    return Graph(sp.csr_array((n_nodes, n_nodes)), labels=np.array(labels), **options)


def sizes(graph: Graph) -> tuple[int, int, int]:
    return len(graph.train_index), len(graph.validation_index), len(graph.test_index)


def several_labels(n_nodes: int = 10) -> Graph:
    labels = np.random.default_rng(0).integers(2, size=(n_nodes, 3))
    labels[0] = -1
    return graph_of(labels)


def check_parts(graph: Graph, split: Graph) -> None:
    parts = (split.train_index, split.validation_index, split.test_index)
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert graph.is_labelled[together].all()
    for part in parts:
        np.testing.assert_array_equal(part, np.sort(part))


def test_random_split_has_the_public_sizes():
    cora = load_dataset("cora")
    split = random_split(cora, random_state=3)
    assert sizes(split) == (140, 500, 1000)
    assert np.bincount(split.labels[split.train_index]).tolist() == [20] * 7
    check_parts(cora, split)
    same, other = random_split(cora, random_state=3), random_split(cora, random_state=4)
    np.testing.assert_array_equal(split.test_index, same.test_index)
    assert not np.array_equal(split.test_index, other.test_index)
    assert not np.array_equal(split.train_index, cora.train_index)


def test_random_split_of_few_and_of_several_labels():
    # Class 1 is named but no node has it: nothing can be drawn from it.
    graph = graph_of([0, 0, 0, 2, 2, -1], class_names="abc")
    split = random_split(graph, n_per_class=1, n_validation=1, n_test=2)
    assert sizes(split) == (2, 1, 2)
    assert split.labels[split.train_index].tolist() == [0, 2]
    assert sizes(random_split(several_labels(), n_per_class=1, n_validation=2, n_test=4)) == (
        *(3, 2, 4),
    )


def test_random_split_needs_enough():
    graph = graph_of([0, 0, 0, 1, 1, -1], class_names=("cat", "dog"))
    with pytest.raises(
        ValueError, match=r"needs 3 labelled nodes of class 'dog' for training, got 2$"
    ):
        random_split(graph, n_per_class=3, n_validation=0, n_test=0)
    with pytest.raises(
        ValueError,
        match="needs 1 validation and 1 test nodes besides the 4 for training, but only 1 other",
    ):
        random_split(graph, n_per_class=2, n_validation=1, n_test=1)
    with pytest.raises(ValueError, match="random_split needs 1 labelled node or more, got 0"):
        random_split(graph_of([-1, -1]))
    with pytest.raises(ValueError, match="needs 60 labelled nodes for training, got 9"):
        random_split(several_labels())
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="n_per_class must be a whole number of at least 1"):
            random_split(graph, n_per_class=wrong)


def test_fraction_split_by_hand():
    # 5 + 5 nodes, 60/20/20 %: exactly 3, 1 and 1 of each class.
    graph = graph_of([0, 1] * 5 + [-1])
    split = fraction_split(graph)
    for index, n_each in (
        (split.train_index, 3),
        (split.validation_index, 1),
        (split.test_index, 1),
    ):
        assert np.bincount(split.labels[index]).tolist() == [n_each] * 2
    # 3 classes of 3: 1.8, 0.6 and 0.6 each. Rounding class by class would give 6, 3, 0.
    assert sizes(fraction_split(graph_of([0, 1, 2] * 3))) == (5, 2, 2)
    assert sizes(fraction_split(graph, train=0.2, validation=0, test=0.4)) == (2, 0, 4)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0], (1, 0, 0)), ([0, 1], (2, 0, 0)), ([0, 0], (1, 1, 0)), ([-1, 0, 1, 1], (2, 1, 0))],
)
def test_fraction_split_of_very_few(labels, expected):
    assert sizes(fraction_split(graph_of(labels))) == expected


def test_fraction_split_of_several_labels():
    graph = several_labels(11)
    split = fraction_split(graph)
    check_parts(graph, split)
    assert sizes(split) == (6, 2, 2)


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({"train": 0.8}, r"at most 1, got 0\.8 \+ 0\.2 \+ 0\.2"),
        ({"train": 0}, "train must be above 0, at most 1, got 0"),
        ({"test": -0.1}, r"test must be from 0 to 1, got -0\.1"),
        ({"validation": float("nan")}, "validation must be from 0 to 1, got nan"),
    ],
)
def test_fraction_split_refuses(fractions, message):
    with pytest.raises(ValueError, match=message):
        fraction_split(graph_of([0, 1]), **fractions)


label_lists = st.lists(st.integers(-1, 4), min_size=1, max_size=60).filter(lambda x: max(x) >= 0)


@settings(max_examples=60)
@given(label_lists, st.integers(1, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 9))
def test_fraction_split_always(labels, train, validation, test, seed):
    graph = graph_of(labels)
    total = max(train + validation + test, 20)
    shares = np.array([train, validation, test]) / total
    options = dict(zip(("train", "validation", "test"), shares.tolist(), strict=True))
    split = fraction_split(graph, random_state=seed, **options)
    check_parts(graph, split)
    known = graph.labels[graph.is_labelled]
    assert set(split.labels[split.train_index]) == set(known)
    n_classes = len(set(known))
    for got, share in zip(sizes(split), shares, strict=True):
        # Off by rounding, and by the training nodes that classes too small for one were given.
        assert abs(got - share * len(known)) < n_classes + 1
    again = fraction_split(graph, random_state=seed, **options)
    np.testing.assert_array_equal(split.train_index, again.train_index)
    np.testing.assert_array_equal(split.test_index, again.test_index)


def test_kfold():
    graph = graph_of([0] * 6 + [1] * 4 + [-1] * 3)
    folds = kfold_splits(graph, 2, random_state=5, validation_fraction=0.4)
    assert [np.bincount(f.labels[f.test_index]).tolist() for f in folds] == [[3, 2], [3, 2]]
    assert [sizes(fold) for fold in folds] == [(3, 2, 5)] * 2
    tested = np.concatenate([fold.test_index for fold in folds])
    assert sorted(tested) == list(range(10))
    for fold, again in zip(folds, kfold_splits(graph, 2, 5, 0.4), strict=True):
        check_parts(graph, fold)
        np.testing.assert_array_equal(fold.train_index, again.train_index)
        np.testing.assert_array_equal(fold.validation_index, again.validation_index)


def test_kfold_of_several_labels():
    folds = kfold_splits(several_labels(), 3)
    assert [sizes(fold) for fold in folds] == [(6, 0, 3)] * 3


def test_kfold_refuses():
    with pytest.raises(ValueError, match="n_splits=5 needs 5 labelled nodes or more, got 3"):
        kfold_splits(graph_of([0, 1, 1, -1]))
    with pytest.raises(ValueError, match="n_splits must be a whole number of at least 2, got 1"):
        kfold_splits(graph_of([0, 1]), 1)
    with pytest.raises(ValueError, match="fraction must be from 0 to below 1, got 1"):
        kfold_splits(graph_of([0, 1]), 2, validation_fraction=1)


def test_split_by_values():
    graph = graph_of([0, 1, 0, 1, 0, -1], node_ids=list("abcdef"))
    marks = ["train", "Train ", "val", "test", float("nan"), None]
    split = split_by_values(graph, marks)
    assert split.train_index.tolist() == [0, 1]
    assert split.validation_index.tolist() == [2]
    assert split.test_index.tolist() == [3]
    assert sizes(split_by_values(graph, np.array(["train"] + [""] * 5))) == (1, 0, 0)
    for marks, message in (
        (["train", "trian", "", "", "", ""], "or empty, got 'trian' at node b"),
        (["train"], r"one entry per node \(6\), got 1"),
        (["test", "", "", "", "", ""], "at least one 'train' node, got none"),
        (["train", "", "", "", "", "test"], "node 'f' has no label"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            split_by_values(graph, marks)
        assert "\n" not in str(error.value)


def test_hold_out_validation_leaves_every_class_a_node():
    rng = np.random.default_rng(0)
    labels = np.array([0] * 10 + [1] * 10 + [2])
    train, validation = hold_out_validation(labels, np.arange(21), 0.2, rng)
    assert np.bincount(labels[train]).tolist() == [8, 8, 1]
    assert np.bincount(labels[validation]).tolist() == [2, 2]
    # One node a class: nothing can be spared.
    train, validation = hold_out_validation(np.arange(3), np.arange(3), 0.5, rng)
    assert (train.tolist(), validation.tolist()) == ([0, 1, 2], [])
    assert validation.dtype == np.int64
    for index in (np.arange(5), np.empty(0, dtype=np.int64)):
        train, validation = hold_out_validation(labels, index, 0.0, rng)
        assert (train.tolist(), validation.tolist()) == (index.tolist(), [])


def test_hold_out_validation_of_several_labels():
    labels = np.eye(10, 3, dtype=np.int64)
    train, validation = hold_out_validation(
        labels, np.arange(1, 10), 1 / 3, np.random.default_rng(0)
    )
    assert (len(train), len(validation)) == (6, 3)


def test_a_generator_is_used_as_it_stands():
    rng = np.random.default_rng(0)
    graph = graph_of([0, 1] * 20)
    first, second = (fraction_split(graph, random_state=rng) for _ in range(2))
    assert not np.array_equal(first.train_index, second.train_index)
