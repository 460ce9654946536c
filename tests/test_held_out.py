"""Tests of what is told from labels that models have not seen: accuracy, sets, doubtful labels."""

from dataclasses import replace

import numpy as np
import pytest
from tests.generated_graphs import KINDS, generate, split

from graphconv import GCNClassifier, Graph
from graphconv.estimators.baselines import make_estimator
from graphconv.results.doubt import doubtful_labels, rank_by_doubt
from graphconv.results.prediction_sets import SetRule, check_coverage, find_set_rule
from graphconv.training.out_of_fold import OutOfFold, fit_folds, make_folds, neighbour_means
from graphconv.training.scores import accuracy, accuracy_interval, macro_f1

PATH = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], labels=[0, 1, 0])


def example(seed=0, kind="homophilous, bag of words", n_validation=40, n_nodes=300):
    return split(generate(kind, seed, n_nodes), seed, n_per_class=10, n_validation=n_validation)


def folds_of(labels, shares, of_neighbours=None):
    labels, shares = np.asarray(labels), np.asarray(shares, dtype=float)
    return OutOfFold(
        np.arange(len(labels)), labels, shares, shares if of_neighbours is None else of_neighbours
    )


@pytest.mark.parametrize("n_validation", [0, 3, 40])
def test_every_label_is_tested_once_and_keeps_its_role_otherwise(n_validation):
    graph = example(n_validation=n_validation)
    folds = make_folds(graph, seed=3)
    tested = np.concatenate([fold.test_index for fold in folds])
    labelled = np.union1d(graph.train_index, graph.validation_index)
    assert np.sort(tested).tolist() == labelled.tolist()
    for fold in folds:
        assert np.isin(fold.train_index, graph.train_index).all()
        assert np.isin(fold.validation_index, graph.validation_index).all()
        assert not np.isin(fold.test_index, fold.train_index).any()
        # As many labels of each class in every fold, one more or less.
        counts = np.bincount(graph.labels[fold.train_index], minlength=graph.n_classes)
        assert np.ptp(counts) <= 1


def test_labels_of_test_nodes_are_hidden_from_folds():
    graph = example()
    for fold in make_folds(graph, seed=0):
        assert (fold.labels[graph.test_index] == -1).all()


def test_a_fold_is_judged_by_the_model_that_has_not_seen_it():
    graph = example()

    def remember(fold, seed):
        """Certain of the labels it was shown, and of class 0 elsewhere."""
        shares = np.tile(np.eye(graph.n_classes)[0], (graph.n_nodes, 1))
        shown = np.union1d(fold.train_index, fold.validation_index)
        shares[shown] = np.eye(graph.n_classes)[graph.labels[shown]]
        return shares

    found = fit_folds(graph, remember)
    assert (found.probabilities.argmax(axis=1) == 0).all()
    assert found.labels.tolist() == graph.labels[found.nodes].tolist()


def test_too_few_labels_for_folds():
    with pytest.raises(ValueError, match="at least 10 labelled nodes, got 3"):
        make_folds(PATH, seed=0)
    lonely = np.zeros(12, dtype=int)
    lonely[0] = 1
    with pytest.raises(ValueError, match="two classes with several labelled nodes"):
        make_folds(Graph(np.zeros((12, 12)), labels=lonely), seed=0)


def test_neighbour_means_go_by_weight():
    heavy = Graph([[0, 3, 1], [3, 0, 0], [1, 0, 0]])
    means = neighbour_means(heavy, np.array([[0.0], [1.0], [0.0]]))
    np.testing.assert_allclose(means.ravel(), [0.75, 0, 0])


def test_folds_on_disk_come_back_and_are_checked(tmp_path):
    graph = example()
    found = fit_folds(graph, lambda fold, seed: np.full((graph.n_nodes, 4), 0.25))
    found.write(tmp_path / "folds.npz")
    again = OutOfFold.read(tmp_path / "folds.npz", graph)
    np.testing.assert_array_equal(again.nodes, found.nodes)
    np.testing.assert_array_equal(again.probabilities, found.probabilities)
    with pytest.raises(ValueError, match="must be about this model's labels, but: probabilities"):
        OutOfFold.read(tmp_path / "folds.npz", PATH)
    far = OutOfFold(found.nodes + 10_000, found.labels, found.probabilities, found.of_neighbours)
    far.write(tmp_path / "far.npz")
    with pytest.raises(ValueError, match="nodes must be whole numbers from 0 to 299"):
        OutOfFold.read(tmp_path / "far.npz", graph)
    (tmp_path / "torn.npz").write_bytes((tmp_path / "folds.npz").read_bytes()[:99])
    with pytest.raises(ValueError, match=r"torn\.npz must be about"):
        OutOfFold.read(tmp_path / "torn.npz", graph)


def test_threshold_is_what_the_asked_share_of_labels_passes():
    # Nineteen labels with probabilities 0.05, 0.10, ...: of twenty with the unknown one, two may
    # fall below, and the unknown one is as likely as any to be among them.
    right = np.arange(1, 20) / 20
    rule = find_set_rule(folds_of(np.zeros(19, int), np.column_stack([right, 1 - right])), 0.9)
    assert rule.threshold == pytest.approx(0.1)
    assert rule.n_labels == 19


def test_sets_need_enough_labels():
    shares = np.full((8, 2), 0.5)
    with pytest.raises(
        ValueError, match=r"coverage of 0\.9 needs at least 9 labelled nodes, got 8"
    ):
        find_set_rule(folds_of(np.zeros(8, int), shares), 0.9)
    with pytest.raises(ValueError, match="at least 99 labelled nodes"):
        find_set_rule(folds_of(np.zeros(8, int), shares), 0.99)
    for bad in (0, 1, -0.5, True):
        with pytest.raises(ValueError, match="coverage must be above 0 and below 1"):
            find_set_rule(folds_of(np.zeros(8, int), shares), bad)
    several = folds_of(np.zeros((20, 2), int), np.full((20, 2), 0.5))
    with pytest.raises(ValueError, match="one label per node"):
        find_set_rule(several)


def test_neighbours_count_where_they_make_sets_smaller():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    sure, unsure = np.eye(2)[labels] * 0.8 + 0.1, rng.dirichlet([1, 1], size=200)
    assert find_set_rule(folds_of(labels, unsure, sure)).smoothing >= 0.5
    assert find_set_rule(folds_of(labels, sure, unsure)).smoothing == 0


def test_sets_cover_unseen_labels_as_often_as_asked_for():
    hits, n_nodes = 0, 0
    for seed in range(4):
        graph = example(seed, n_validation=100, n_nodes=1000)
        clf = GCNClassifier(max_epochs=60, random_state=seed).fit(graph)
        sets = clf.predict_sets(0.9)
        test = graph.test_index
        assert sets[np.arange(graph.n_nodes), clf.predict()].all()
        hits += int(sets[test, graph.labels[test]].sum())
        n_nodes += len(test)
    # Each graph's 140 labels put its coverage within 0.05 of the target in two of three cases.
    assert 0.85 < hits / n_nodes < 0.95


@pytest.mark.parametrize("method", ["sgc", "label-propagation"])
def test_baselines_have_sets_doubts_and_an_estimate(method):
    graph = example(n_validation=100)
    clf = make_estimator(method, random_state=0).fit(graph)
    sets, test = clf.predict_sets(0.8), graph.test_index
    assert 0.65 < sets[test, graph.labels[test]].mean() < 0.95
    assert clf.estimate_accuracy() == accuracy_interval(
        graph.labels[test], clf.predict_proba()[test]
    )
    assert clf.doubtful_labels()[0].given_probability < 0.5


def test_rows_attached_to_the_training_graph_get_sets():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    columns = rng.standard_normal((60, 3)) + 3 * labels[:, None]
    clf = GCNClassifier(max_epochs=30, random_state=0).fit(columns, labels)
    sets = clf.predict_sets(0.9, columns[:5])
    assert sets.shape == (5, 2)
    assert sets[np.arange(5), labels[:5]].all()


def test_a_new_fit_forgets_the_folds_of_the_one_before():
    clf = make_estimator("sgc").fit(example(0))
    before = clf.out_of_fold()
    clf.fit(example(1))
    assert clf.out_of_fold().nodes.tolist() != before.nodes.tolist()


def test_flipped_labels_are_found():
    graph = example(n_validation=100, n_nodes=600)
    rng = np.random.default_rng(1)
    labelled = np.union1d(graph.train_index, graph.validation_index)
    flipped = rng.choice(labelled, 8, replace=False)
    labels = graph.labels.copy()
    labels[flipped] = (labels[flipped] + 1) % graph.n_classes
    wrong = Graph(
        graph.adjacency,
        graph.features,
        labels,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
    )
    found = GCNClassifier(random_state=0).fit(wrong).doubtful_labels()
    first = [one.node for one in found[:8]]
    # 8 of 140 by chance would be half a hit.
    assert len(set(first) & set(flipped.tolist())) >= 4
    margins = [one.likelier_probability - one.given_probability for one in found]
    assert margins == sorted(margins, reverse=True)
    assert min(margins) >= 0


def test_test_labels_are_doubted_by_the_model_itself():
    graph = PATH.with_split([0, 1], [], [2])
    every = folds_of([0, 1], [[0.9, 0.1], [0.1, 0.9]])
    shares = np.array([[1, 0], [0, 1], [0.2, 0.8]])
    assert doubtful_labels(graph, every) == ()
    (only,) = doubtful_labels(graph, every, shares)
    assert (only.node, only.given, only.likelier) == (2, 0, 1)
    several = Graph(np.zeros((2, 2)), labels=[[0, 1], [1, 1]])
    with pytest.raises(ValueError, match="one per node"):
        doubtful_labels(several, every)


def test_cross_validated_interval_holds_the_truth_on_most_graphs():
    """The truth: how often the model is right on all nodes that nobody has labelled."""
    n_covered = 0
    for number in range(30):
        graph = example(number, KINDS[number % len(KINDS)], n_validation=40, n_nodes=400)
        blind = graph.with_split(graph.train_index, graph.validation_index)
        clf = GCNClassifier(max_epochs=60, random_state=number).fit(blind)
        found = clf.estimate_accuracy()
        rest = graph.test_index
        truth = accuracy(graph.labels[rest], clf.predict_proba()[rest])
        n_covered += found.low <= truth <= found.high
    assert n_covered >= 27


def test_macro_f1_gives_every_class_the_same_say():
    labels = np.array([0, 0, 0, 1])
    shares = np.array([[0.9, 0.1, 0]] * 4)
    # Class 0: F1 of 3/4 precision and full recall; class 1: none; class 2: nobody's.
    assert macro_f1(labels, shares) == pytest.approx((6 / 7 + 0) / 2)
    several = np.array([[1, 0], [1, 1]])
    assert macro_f1(several, np.array([[0.9, 0.9], [0.9, 0.1]])) == pytest.approx(0.5)


def test_all_labels_of_a_node_must_be_right_to_count():
    found = accuracy_interval(np.array([[1, 0], [1, 1]]), np.array([[0.9, 0.1], [0.9, 0.1]]))
    assert found.share == 0.5
    assert accuracy_interval(np.empty(0, int), np.empty((0, 2))) is None


def test_smoothed_sets_by_hand():
    # On the path 0 - 1 - 2 the neighbours of 1 say 0.2 and 0.6 in the mean, 0.4 of class 0.
    graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    shares = np.array([[0.2, 0.8], [0.5, 0.5], [0.6, 0.4]])
    smoothed = 0.75 * shares + 0.25 * np.array([[0.5, 0.5], [0.4, 0.6], [0.5, 0.5]])
    for threshold in np.unique(smoothed):
        sets = SetRule(0.9, threshold, 0.25, 9).apply(graph, shares)
        expected = smoothed >= threshold
        expected[[0, 1, 2], [1, 0, 0]] = True  # the likeliest by itself is always one
        assert np.array_equal(sets, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.25, 0.5, 0.75])
def test_as_much_smoothing_as_makes_sets_smallest(smoothing):
    """Rows that only this mixture tells apart: own and neighbours' errors cancel in it."""
    labels = np.arange(40) % 2
    error = np.where(np.arange(40) % 8 < 4, 0.4, -0.4)
    # With this weight the errors of the two cancel; with any other some of them are left.
    own = 0.55 + error * smoothing
    others = 0.55 - error * (1 - smoothing)
    rows = np.arange(40)

    def shares(of_label):
        found = np.empty((40, 2))
        found[rows, labels], found[rows, 1 - labels] = of_label, 1 - of_label
        return found

    rule = find_set_rule(folds_of(labels, shares(own), shares(others)), 0.9)
    assert rule.smoothing == smoothing
    assert rule.threshold == pytest.approx(0.55)
    assert rule.coverage == 0.9


def test_of_equal_sets_the_least_smoothing_is_taken():
    labels = np.zeros(20, int)
    shares = np.tile([0.7, 0.3], (20, 1))
    rule = find_set_rule(folds_of(labels, shares, shares))
    assert (rule.smoothing, rule.coverage) == (0, 0.9)


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.5, 1), (0.75, 3), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)]
)
def test_how_many_labels_a_coverage_needs(coverage, needed):
    check_coverage(coverage, needed)
    with pytest.raises(ValueError, match=f"needs at least {needed} labelled nodes"):
        check_coverage(coverage, needed - 1)


@pytest.mark.parametrize(
    ("n_labels", "coverage", "n_below"),
    [(9, 0.9, 0), (18, 0.9, 0), (19, 0.9, 1), (29, 0.9, 2), (99, 0.99, 0), (4, 0.5, 1)],
)
def test_how_many_labels_may_fall_below_the_threshold(n_labels, coverage, n_below):
    right = np.arange(1, n_labels + 1) / (n_labels + 1)
    every = folds_of(np.zeros(n_labels, int), np.column_stack([right, 1 - right]))
    assert find_set_rule(every, coverage).threshold == right[n_below]


def test_labels_are_doubted_by_their_margin():
    # Margins 0.3, -0.8, -0.1, and 0: a tie is no contradiction, and stands where it would.
    shares = np.array([[0.6, 0.3, 0.1], [0.9, 0.1, 0.0], [0.3, 0.3, 0.4], [0.5, 0.0, 0.5]])
    labels = np.array([0, 1, 1, 0])
    order, likelier = rank_by_doubt(labels, shares)
    assert order.tolist() == [1, 2, 3, 0]
    assert likelier.tolist() == [0, 0, 2, 0]
    # A class of probability 0 may be the given one, and even all others may have 0.
    order, _ = rank_by_doubt(np.array([0, 0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert order.tolist() == [1, 0]


def test_doubts_say_what_was_given_and_what_is_likelier():
    graph = Graph(np.zeros((4, 4)), labels=[0, 1, 1, 0], class_names=["a", "b"],
                  node_ids=list("wxyz"), test_index=[3])  # fmt: skip
    shares = np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1]])
    folds = OutOfFold(np.array([0, 1, 2]), graph.labels[:3], shares, shares)
    found = doubtful_labels(graph, folds)
    assert [(one.node, one.given, one.likelier) for one in found] == [
        ("y", "b", "a"), ("w", "a", "b"),
    ]  # fmt: skip
    first = found[0]
    assert (first.given_probability, first.likelier_probability) == (0.1, 0.9)
    every = np.vstack([shares, [[0.01, 0.99]]])
    assert [one.node for one in doubtful_labels(graph, folds, every)] == ["z", "y", "w"]
    with pytest.raises(ValueError, match="labels to doubt must be one per node"):
        doubtful_labels(replace(graph, labels=np.eye(4, dtype=int)[:, :2], test_index=[]), folds)


def folds_with(**changes):
    """What is said of four nodes of a graph of six, of two classes, with something changed."""
    graph = Graph(np.zeros((6, 6)), labels=[0, 1, 0, 1, 0, 1])
    shares = np.full((4, 2), 0.5)
    own = {"nodes": np.array([0, 2, 3, 5]), "labels": np.array([0, 0, 1, 1]),
           "probabilities": shares, "of_neighbours": shares}  # fmt: skip
    return OutOfFold(**{**own, **changes}), graph


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"nodes": np.array([0, 2, 3, 6])}, "nodes must be whole numbers from 0 to 5"),
        ({"nodes": np.array([-1, 2, 3, 5])}, "nodes must be whole numbers from 0 to 5"),
        ({"nodes": np.array([0.0, 2, 3, 5])}, "nodes must be whole numbers from 0 to 5"),
        ({"labels": np.array([0, 0, 1, 2])}, "labels must be whole numbers from 0 to 1"),
        ({"labels": np.array([0, 0, 1])}, r"labels must have shape \(4,\), got \(3,\)"),
        ({"probabilities": np.ones((4, 3))}, r"probabilities must have shape \(4, 2\)"),
        ({"of_neighbours": np.ones((3, 2))}, r"of_neighbours must have shape \(4, 2\)"),
        ({"probabilities": np.full((4, 2), np.nan)}, "probabilities must be finite numbers"),
        ({"of_neighbours": np.full((4, 2), "a")}, "of_neighbours must be finite numbers"),
    ],
)
def test_folds_must_be_about_the_graph(changes, message):
    folds, graph = folds_with(**changes)
    if message is None:
        folds._check(graph)
    else:
        with pytest.raises(ValueError, match=message):
            folds._check(graph)


@pytest.mark.parametrize("n_validation", [0, 1, 4, 5, 23])
def test_folds_are_dealt_role_by_role(n_validation):
    labels = np.arange(60) % 3
    graph = Graph(np.zeros((60, 60)), labels=labels).with_split(
        np.arange(30), np.arange(30, 30 + n_validation), np.arange(55, 60)
    )
    folds = make_folds(graph, seed=1)
    assert len(folds) == 5
    for fold in folds:
        of_train = fold.test_index[fold.test_index < 30]
        assert len(of_train) == 6
        assert np.bincount(labels[of_train]).tolist() == [2, 2, 2]  # alike in every class
        of_validation = len(fold.test_index) - 6
        assert abs(of_validation - n_validation / 5) < 1 + (n_validation < 5)
        assert (fold.labels[55:] == -1).all()  # nobody may look at them
        used = [*fold.train_index, *fold.validation_index, *fold.test_index]
        assert sorted(used) == list(range(30 + n_validation))
    tested = np.concatenate([fold.test_index for fold in folds])
    assert sorted(tested) == list(range(30 + n_validation))
    other = make_folds(graph, seed=2)
    assert [fold.test_index.tolist() for fold in folds] != [
        fold.test_index.tolist() for fold in other
    ]


def test_ten_labels_are_the_fewest_for_folds():
    graph = Graph(np.zeros((12, 12)), labels=np.arange(12) % 2)
    assert len(make_folds(graph.with_split(np.arange(10), []), 0)) == 5
    with pytest.raises(ValueError, match="needs at least 10 labelled nodes, got 9"):
        make_folds(graph.with_split(np.arange(9), []), 0)
    assert len(make_folds(graph, 0, n_folds=3)) == 3


def test_folds_hand_on_seed_and_neighbours():
    graph = Graph(np.ones((12, 12)) - np.eye(12), labels=np.arange(12) % 2)
    asked, told = [], []

    def fit_predict(fold, seed):
        asked.append(seed)
        rows = np.arange(12)[:, None] / 12 + len(asked) / 100
        return np.hstack([rows, 1 - rows])

    found = fit_folds(graph, fit_predict, seed=7, progress=lambda *given: told.append(given))
    assert asked == [7] * 5
    asked.clear()
    assert fit_folds(graph, fit_predict).nodes.tolist() == found.nodes.tolist()
    assert asked == [0] * 5
    asked.clear()
    found = fit_folds(graph, fit_predict, seed=7)
    assert told == [("cross-validating", number, 5) for number in range(5)]
    assert found.nodes.tolist() == list(range(12))
    folds = make_folds(graph, 7)
    for number, fold in enumerate(folds, start=1):
        for node in fold.test_index:
            own = node / 12 + number / 100
            assert found.probabilities[node, 0] == pytest.approx(own)
            mean = (sum(range(12)) - node) / 12 / 11 + number / 100
            assert found.of_neighbours[node, 0] == pytest.approx(mean)


def test_rounding_of_a_coverage_is_a_billionth():
    """What lies farther above a whole number of labels asks for one more of them."""
    right = np.arange(1, 20) / 20
    every = folds_of(np.zeros(19, int), np.column_stack([right, 1 - right]))
    for above, n_below in ((0.8e-9, 1), (1.5e-9, 0)):  # of 18 labels
        assert find_set_rule(every, 0.9 + above / 20).threshold == right[n_below]
    check_coverage(0.5 + 0.8e-9 / 4, 1)
    with pytest.raises(ValueError, match="needs at least 2 labelled nodes, got 1"):
        check_coverage(0.5 + 1.5e-9 / 4, 1)


def test_fewer_nodes_of_a_kind_than_folds_are_left_out_one_by_one():
    labels = np.arange(20) % 2
    graph = Graph(
        np.zeros((20, 20)), labels=labels, train_index=range(3, 20), validation_index=[0, 2]
    )
    folds = make_folds(graph, 0)
    left_out = [np.intersect1d(fold.test_index, [0, 2]).tolist() for fold in folds]
    assert left_out == [[0], [2], [], [], []]
    kept = [fold.validation_index.tolist() for fold in folds]
    assert kept == [[2], [0], [0, 2], [0, 2], [0, 2]]
    # Whom nobody may look at has no label at all.
    assert (folds[0].labels[[1]] == -1).all()
