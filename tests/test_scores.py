"""Scores, intervals and measures: against scikit-learn's and scipy's, and by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from graphconv import Graph
from graphconv.training import scores
from graphconv.training.measures import MEASURES, check_measure, measure_for


def drawn(n_classes, seed=0, n_nodes=60, n_values=8):
    """Labels, and probabilities with few values, so that many are equal."""
    rng = np.random.default_rng(seed)
    shares = rng.integers(1, n_values, (n_nodes, n_classes)).astype(float)
    return rng.integers(n_classes, size=n_nodes), shares / shares.sum(axis=1, keepdims=True)


def several(seed=0, n_nodes=40):
    """Several labels per node, and probabilities of which some are exactly one half."""
    rng = np.random.default_rng(seed)
    return rng.integers(2, size=(n_nodes, 3)), rng.integers(0, 5, (n_nodes, 3)) / 4


@pytest.mark.parametrize(
    ("n_right", "n_all"), [(0, 1), (1, 1), (0, 20), (20, 20), (9, 10), (313, 1000)]
)
def test_interval_is_wilsons(n_right, n_all):
    expected = stats.binomtest(n_right, n_all).proportion_ci(0.95, "wilson")
    found = scores.wilson_interval(n_right, n_all)
    assert found == pytest.approx((n_right / n_all, expected.low, expected.high), abs=1e-6)


def test_an_interval_needs_a_case():
    with pytest.raises(ValueError, match="at least one case, got none"):
        scores.wilson_interval(0, 0)
    assert scores.accuracy_interval(np.empty(0, int), np.empty((0, 2))) is None


@pytest.mark.parametrize("seed", range(3))
def test_one_label_a_node_as_scikit_learn_has_it(seed):
    labels, shares = drawn(4, seed)
    found = shares.argmax(axis=1)
    right = int((found == labels).sum())
    assert scores.accuracy(labels, shares) == metrics.accuracy_score(labels, found)
    assert scores.accuracy_interval(labels, shares) == scores.wilson_interval(right, 60)
    balanced = metrics.balanced_accuracy_score(labels, found)
    assert scores.balanced_accuracy(labels, shares) == pytest.approx(balanced)
    macro = metrics.f1_score(labels, found, average="macro")
    assert scores.macro_f1(labels, shares) == pytest.approx(macro)


@pytest.mark.parametrize("seed", range(3))
def test_several_labels_a_node_as_scikit_learn_has_it(seed):
    labels, shares = several(seed)
    found = (shares > 0.5).astype(int)
    all_right = metrics.accuracy_score(labels, found)
    assert scores.accuracy(labels, shares) == (labels == found).mean()
    assert scores.all_labels_right(labels, shares) == all_right
    interval = scores.accuracy_interval(labels, shares)
    assert interval == scores.wilson_interval(round(all_right * 40), 40)
    for average, score in (("micro", scores.micro_f1), ("macro", scores.macro_f1)):
        expected = metrics.f1_score(labels, found, average=average)
        assert score(labels, shares) == pytest.approx(expected)


def test_f1_where_there_is_nothing_to_find():
    nothing = np.zeros((3, 2), dtype=int)
    assert scores.micro_f1(nothing, nothing / 2) == scores.macro_f1(nothing, nothing / 2) == 1
    assert scores.micro_f1(nothing, nothing + 0.9) == scores.macro_f1(nothing, nothing + 0.9) == 0
    # Classes that no node has and none was given do not count.
    shares = np.eye(5)[[0, 0, 1]]
    assert scores.macro_f1(np.array([0, 0, 1]), shares) == 1
    assert np.isnan(scores.accuracy(np.empty(0, int), np.empty((0, 2))))


@pytest.mark.parametrize("seed", range(5))
def test_ranks_as_scikit_learn_has_them(seed):
    labels, shares = drawn(2, seed, n_values=4)  # many are equal
    assert len(np.unique(shares[:, 1])) < 8
    expected = metrics.roc_auc_score(labels, shares[:, 1])
    assert scores.roc_auc(labels, shares) == pytest.approx(expected)
    expected = metrics.average_precision_score(labels, shares[:, 1])
    assert scores.average_precision(labels, shares) == pytest.approx(expected)


@pytest.mark.parametrize(("label", "precision"), [(0, 0.0), (1, 1.0)])
def test_ranks_of_one_class(label, precision):
    labels, shares = np.full(4, label), drawn(2, n_nodes=4)[1]
    assert scores.roc_auc(labels, shares) == 0.5
    assert scores.average_precision(labels, shares) == precision


def test_bootstrap_draws_nodes_with_their_labels():
    labels, shares = drawn(3)
    rng = np.random.default_rng(0)  # the same nodes for everybody
    values = []
    for _ in range(50):
        draw = rng.integers(60, size=60)
        values.append(scores.accuracy(labels[draw], shares[draw]))
    low, high = np.quantile(values, [0.025, 0.975])
    found = scores.bootstrap_interval(scores.accuracy, labels, shares, n_draws=50)
    assert found == pytest.approx((scores.accuracy(labels, shares), low, high))
    asked = []
    scores.bootstrap_interval(lambda *given: asked.append(given) or 0.5, labels, shares)
    assert len(asked) == 300 + 1  # draws unless told, and the score itself


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_bootstrap_without_a_mistake_is_not_certain(share):
    labels = np.zeros(10, int)
    found = scores.bootstrap_interval(lambda *_: share, labels, np.ones((10, 1)))
    expected = scores.wilson_interval(10, 10) if share == 1 else (0.0, 0.0, 0.0)
    assert found == expected


def test_means_over_runs():
    each = np.random.default_rng(0).random((4, 3, 2))
    np.testing.assert_allclose(scores.mean_over_runs(each), each.mean(axis=1))
    assert np.shares_memory(scores.mean_over_runs(each[:, :1]), each)  # it may be on disk


# Which measure suits


@pytest.mark.parametrize(
    ("counts", "name", "reason"),
    [
        ([5], "accuracy", "classes have similar numbers of labels"),
        ([4, 11], "accuracy", "classes have similar numbers of labels"),
        ([4, 12], "roc-auc", "one of two classes has 3.0 times the labels of the other"),
        ([12, 2], "roc-auc", "one of two classes has 6.0 times the labels of the other"),
        ([2, 3, 19], "accuracy", "classes have similar numbers of labels"),
        ([2, 3, 20], "balanced-accuracy", "the largest class has 10 times the labels of"),
        ([2, 0, 19], "accuracy", "classes have similar numbers of labels"),  # three classes
        ([2, 0, 20], "balanced-accuracy", "the largest class has 10 times the labels of"),
    ],
)
def test_the_measure_that_suits_the_labels(counts, name, reason):
    labels = np.repeat(np.arange(len(counts)), counts)
    names = [f"class {number}" for number in range(max(2, len(counts)))]
    graph = Graph(np.zeros((len(labels), len(labels))), labels=labels, class_names=names)
    # Labels for training and for validation count, labels of test nodes do not.
    graph = graph.with_split(np.arange(0, len(labels), 2), np.arange(1, len(labels), 2), [])
    measure, why = measure_for(graph)
    assert measure is MEASURES[name]
    assert why.startswith(reason)


def test_labels_of_test_nodes_do_not_choose_the_measure():
    graph = Graph(np.zeros((12, 12)), labels=[0, 0, 1, 1] + 8 * [1])
    few = graph.with_split([0, 2], [1, 3], range(4, 12))
    assert measure_for(few)[0].name == "accuracy"
    assert measure_for(graph)[0].name == "roc-auc"


def test_a_measure_by_name():
    two = Graph(np.zeros((4, 4)), labels=[0, 0, 0, 1])
    three = Graph(np.zeros((3, 3)), labels=[0, 1, 2])
    both = Graph(np.zeros((2, 2)), labels=np.eye(2, dtype=int))
    assert measure_for(both) == (MEASURES["micro-f1"], "nodes have several labels")
    for name in MEASURES:
        assert measure_for(two, name) == (MEASURES[name], "")
        for graph, is_several in ((three, False), (both, True)):
            of_pairs = name in ("roc-auc", "average-precision")
            if of_pairs or (is_several and name == "balanced-accuracy"):
                words = "is for two classes, got" if of_pairs else "is for one label per node"
                with pytest.raises(ValueError, match=f"^metric '{name}' {words}"):
                    measure_for(graph, name)
            else:
                assert measure_for(graph, name) == (MEASURES[name], "")
    check_measure(None)
    with pytest.raises(ValueError, match=r"metric must be one of .* \(did you mean 'roc-auc'\?\)"):
        check_measure("roc_auc")


def test_what_methods_are_chosen_by():
    labels = np.array([0, 0, 0, 1])
    shares = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
    steady = {name: measure.steady(labels, shares) for name, measure in MEASURES.items()
              if name != "micro-f1"}  # fmt: skip
    # Half the share that is right, a tie going to the first class, half the probability of it.
    assert steady["accuracy"] == pytest.approx((3 / 4 + (0.9 + 0.5 + 0.1 + 0.8) / 4) / 2)
    of_classes = (2 / 3 + 1.5 / 3) / 2, (1 + 0.8) / 2
    assert steady["balanced-accuracy"] == pytest.approx(sum(of_classes) / 2)
    of_three = MEASURES["balanced-accuracy"].steady(
        np.array([0, 1, 1, 2]),
        np.array([[0.9, 0, 0.1], [0.4, 0.6, 0], [0.8, 0.2, 0], [0.5, 0, 0.5]]),
    )
    assert of_three == pytest.approx((0.95 + (0.8 + 0.1) / 2 + 0.25) / 3)
    for name in ("macro-f1", "roc-auc", "average-precision"):
        assert steady[name] == MEASURES[name].score(labels, shares)
    given = np.array([[0.9, 0.2], [0.5, 0.4]])
    right = MEASURES["accuracy"].steady(np.array([[1, 0], [0, 1]]), given)
    assert right == pytest.approx(((2 / 4) + (0.9 + 0.8 + 0.5 + 0.4) / 4) / 2)
    for name in MEASURES:
        assert MEASURES[name].score is getattr(scores, name.replace("-", "_"))


def test_no_interval_leaves_what_a_share_may_be():
    for n in range(1, 60):
        assert scores.wilson_interval(n, n).high <= 1
        assert scores.wilson_interval(0, n).low >= 0
