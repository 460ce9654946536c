"""GCNClassifier: scikit-learn's own checks, and what users do with it."""

import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.estimator_checks import parametrize_with_checks

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.estimators.choice import Search

EXPECTED_FAILURES = {
    "check_classifiers_classes": "labels -1 and 1: -1 marks unlabelled nodes, as in LabelSpreading"
}


@parametrize_with_checks(
    [GCNClassifier(max_epochs=60, random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cora():
    return load_dataset("cora")


@pytest.fixture
def two_triangles():
    """Nodes 0-2 and 3-5 form a triangle each, joined by the edge 2-3."""
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]
    adjacency = np.zeros((6, 6))
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_so_many_labels_are_held_out_as_was_asked_for(fraction, monkeypatch):
    """By a training, and by a search for settings before it."""
    ring = np.roll(np.eye(200), 1, axis=1)
    y = np.arange(200) % 2
    searched = []

    def look(search):
        searched.append(search.graph)
        raise InterruptedError

    monkeypatch.setattr(Search, "run", look)
    clf = GCNClassifier(validation_fraction=fraction, max_epochs=1, random_state=0)
    trained = clf.fit(None, y, adjacency=ring + ring.T).fitted_.graph
    with pytest.raises(InterruptedError):
        clf.set_params(preset="quick").fit(None, y, adjacency=ring + ring.T)
    for graph in (trained, *searched):
        assert len(graph.validation_index) == 200 * fraction
        assert sorted([*graph.train_index, *graph.validation_index]) == list(range(200))
    assert np.array_equal(trained.validation_index, searched[0].validation_index)


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, -1, -1, -1, -1, 1]),
        np.array(["red", None, None, None, None, "blue"], dtype=object),
        ["red", "", "", "", "", "blue"],
        np.array([2.0, np.nan, np.nan, np.nan, np.nan, 5.0]),
        np.array([True, None, None, None, None, False], dtype=object),
    ],
    ids=["numbers", "None", "empty text", "NaN", "booleans"],
)
def test_labels_of_any_type_and_featureless(two_triangles, y):
    clf = GCNClassifier(random_state=0).fit(None, y, adjacency=two_triangles)
    assert clf.transduction_.tolist() == [y[0]] * 3 + [y[5]] * 3
    assert clf.predict().tolist() == clf.transduction_.tolist()
    assert clf.label_distributions_.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-5)


def test_asymmetric_adjacency_is_made_symmetric_unless_directed(two_triangles):
    y = [0, -1, -1, -1, -1, 1]
    upper = np.triu(two_triangles)
    both = GCNClassifier(random_state=0).fit(None, y, adjacency=two_triangles)
    half = GCNClassifier(random_state=0).fit(None, y, adjacency=sp.csr_matrix(upper))
    assert (both.label_distributions_ == half.label_distributions_).all()
    directed = GCNClassifier(random_state=0, directed=True).fit(None, y, adjacency=upper)
    assert directed.fitted_.graph.directed
    assert np.isfinite(directed.label_distributions_).all()


def test_graph_brings_its_own_labels_and_splits(cora):
    clf = GCNClassifier("paper", random_state=0).fit(cora)
    right = clf.label_distributions_.argmax(axis=1) == cora.labels
    assert right[cora.test_index].mean() == pytest.approx(0.815, abs=0.005)
    assert clf.classes_.tolist() == list(cora.class_names)
    assert 10 < clf.n_epochs_ <= 200
    assert len(clf.history_["validation_loss"]) == clf.n_epochs_
    assert clf.transform().shape == (2708, 16)
    assert set(clf.predict()) <= set(cora.class_names)


def test_same_seed_same_result_and_another_seed_another(cora):
    first, second, other = (
        GCNClassifier("paper", max_epochs=20, random_state=seed).fit(cora) for seed in (3, 3, 4)
    )
    assert (first.label_distributions_ == second.label_distributions_).all()
    assert (first.label_distributions_ != other.label_distributions_).any()


def test_ensemble_averages_its_members(cora):
    # Uncalibrated, since each has a calibration of its own.
    brief = {"preset": "paper", "max_epochs": 20, "calibrate": False}
    together = GCNClassifier(**brief, ensemble=3, random_state=5).fit(cora)
    alone = [GCNClassifier(**brief, random_state=seed).fit(cora) for seed in (5, 6, 7)]
    mean = np.mean([clf.label_distributions_ for clf in alone], axis=0)
    assert together.label_distributions_ == pytest.approx(mean, abs=1e-6)
    assert together.transform().shape == (2708, 3 * 16)


def test_new_nodes_on_a_larger_graph(cora):
    """A model trained on a part of Cora labels the papers that came later."""
    old = np.arange(2000)
    part = Graph(
        cora.adjacency[old][:, old],
        features=cora.features[old],
        labels=cora.labels[old],
        class_names=cora.class_names,
        train_index=cora.train_index,
        validation_index=cora.validation_index,
    )
    clf = GCNClassifier("paper", random_state=0).fit(part)
    labels = clf.predict(cora)
    names = np.array(cora.class_names)
    new = np.arange(2000, 2708)
    assert (labels[new] == names[cora.labels[new]]).mean() > 0.78
    from_arrays = clf.predict(cora.features, adjacency=cora.adjacency)
    assert (from_arrays == labels).all()


def test_several_labels_a_node(two_triangles):
    y = -np.ones((6, 3), dtype=int)
    y[0], y[5], y[2] = [1, 0, 1], [0, 1, 1], [1, 0, 1]
    clf = GCNClassifier(random_state=0, validation_fraction=0).fit(None, y, adjacency=two_triangles)
    assert clf.predict().shape == (6, 3)
    assert clf.predict()[[0, 5]].tolist() == [[1, 0, 1], [0, 1, 1]]
    assert clf.predict_proba()[0].sum() > 1  # classes do not share a whole


def test_stands_where_label_spreading_stands():
    X, y = make_moons(200, noise=0.08, random_state=0)
    partly = np.where(np.arange(200) % 7 == 0, y, -1)
    ours = GCNClassifier(random_state=0).fit(X, partly)
    theirs = LabelSpreading(kernel="knn").fit(X, partly)
    assert ours.transduction_.shape == theirs.transduction_.shape
    assert ours.label_distributions_.shape == theirs.label_distributions_.shape
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert (ours.transduction_ == y).mean() >= 0.98
    X_new, y_new = make_moons(100, noise=0.08, random_state=1)
    assert (ours.predict(X_new) == y_new).mean() >= 0.97


def test_new_rows_do_not_depend_on_each_other():
    X, y = load_iris(return_X_y=True)
    clf = GCNClassifier(random_state=0, max_epochs=100).fit(X[::2], y[::2])
    together = clf.predict_proba(X[1::2])
    alone = np.vstack([clf.predict_proba(row[None, :]) for row in X[1::2][:5]])
    assert together[:5] == pytest.approx(alone, abs=1e-6)


def test_pipeline_grid_search_and_joblib(tmp_path):
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), GCNClassifier(max_epochs=200, random_state=0))
    search = GridSearchCV(pipeline, {"gcnclassifier__hidden": [(8,), (32,)]}, cv=3, n_jobs=2)
    search.fit(X, y)
    assert search.best_score_ == pytest.approx(0.93, abs=0.02)
    joblib.dump(search.best_estimator_, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    assert (again.predict(X) == search.predict(X)).all()


@pytest.mark.parametrize("propagation", ["renormalised", "chebyshev", "none"])
def test_pickled_model_predicts_the_same(cora, propagation):
    clf = GCNClassifier("paper", propagation=propagation, max_epochs=5, random_state=0).fit(cora)
    again = pickle.loads(pickle.dumps(clf))
    assert (again.predict_proba(cora) == clf.predict_proba(cora)).all()
    assert clone(clf).get_params() == clf.get_params()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": None, "y": [0, 1]}, "fit must get features X, an adjacency or both, got neither"),
        ({"X": np.eye(2), "y": [-1, -1]}, "at least one node must be labelled .* got none of 2"),
        ({"X": np.eye(2), "y": ["a", None]}, "at least two classes, got one class only: 'a'"),
        ({"X": np.eye(3), "y": [0, 1]}, r"labels must have one entry per node \(3\), got shape"),
        (
            {"X": np.eye(2), "y": [0, 1], "adjacency": np.ones((3, 3))},
            r"features must have one row per node \(3\)",
        ),
        ({"X": np.eye(2), "y": [0, 1], "adjacency": np.ones((2, 3))}, "adjacency must be square"),
        (
            {"X": np.eye(2), "y": [0, 1], "adjacency": [[0, -1], [-1, 0]]},
            "edge weights must not be negative",
        ),
        ({"X": np.eye(2), "y": [["a", "b"], ["c", "d"]]}, "label matrix must hold 0 and 1"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        GCNClassifier().fit(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"preset": "papr"}, "preset must be one of 'robust', 'paper'"),
        ({"hidden": (0,)}, "hidden must be whole widths of at least 1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"dropout": (0.1, 0.2, 0.3)}, "one for each of 2 layers, got 3"),
        ({"propagation": "renormalized"}, "propagation must be one of 'renormalised'"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"ensemble": 0}, "ensemble must be a number of models, at least 1"),
        ({"validation_fraction": 1}, "validation_fraction must be at least 0 and below 1"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        (
            {"propagation": "none", "self_loop_weight": "learn"},
            "self_loop_weight must be 1 unless propagation is 'renormalised'",
        ),
        ({"kernels": "gpu"}, "kernels must be 'auto', 'native' or 'reference'"),
        ({"class_weight": {"zebra": 2}}, "class_weight must name classes .* got 'zebra'"),
    ],
)
def test_bad_parameter_is_one_clear_line(parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        GCNClassifier(**parameters).fit(X, y)


def test_prediction_errors(two_triangles):
    with pytest.raises(NotFittedError):
        GCNClassifier().predict()
    X = np.arange(12.0).reshape(6, 2)
    clf = GCNClassifier(max_epochs=5).fit(X, [0, 0, 0, 1, 1, 1], adjacency=two_triangles)
    with pytest.raises(ValueError, match="new rows of X need an adjacency: got 2 rows"):
        clf.predict(X[:2])
    with pytest.raises(ValueError, match=r"trained with 2 features, the graph to predict has none"):
        clf.predict(Graph(two_triangles))
    featureless = GCNClassifier(max_epochs=5).fit(None, [0, 0, 0, 1, 1, 1], adjacency=two_triangles)
    with pytest.raises(ValueError, match=r"trained with 6 nodes and no features, .* has 7"):
        featureless.predict(Graph(np.zeros((7, 7))))


def test_a_class_only_validation_has_is_a_warning(two_triangles):
    graph = Graph(
        two_triangles, labels=[0, 0, 1, 1, 2, 2], train_index=[0, 2], validation_index=[1, 4]
    )
    with pytest.warns(UserWarning, match="no training node has class 2"):
        GCNClassifier(max_epochs=3).fit(graph)


def test_balanced_class_weights_help_the_rare_class():
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 10 == 0).astype(int)
    X = rng.normal(size=(400, 5)) + 1.2 * y[:, None]
    plain = GCNClassifier(random_state=0, propagation="none").fit(X, y)
    balanced = GCNClassifier(random_state=0, propagation="none", class_weight="balanced").fit(X, y)
    rare = y == 1
    assert (balanced.predict(X)[rare] == 1).mean() > (plain.predict(X)[rare] == 1).mean()


@pytest.mark.parametrize(
    "y",
    [[0, 0, -1, -1, 1, -1], [[1, 0], [1, 0], [-1, -1], [-1, -1], [0, 1], [-1, -1]]],
    ids=["one label a node", "several"],
)
def test_scores_leave_unlabelled_nodes_out(two_triangles, y):
    clf = GCNClassifier(max_epochs=50, random_state=0, validation_fraction=0)
    clf.fit(None, y, adjacency=two_triangles)
    assert clf.score(None, y) == clf.score(None, y, adjacency=two_triangles) == 1
    worse = np.array(y)
    worse[0] = 1 - worse[0]
    assert clf.score(None, worse) == pytest.approx(2 / 3)
    assert clf.score(None, worse, sample_weight=[2, 1, 9, 9, 1, 9]) == 0.5
    with pytest.raises(ValueError, match="must have a label to score by, got none among 6"):
        clf.score(None, np.full_like(worse, -1))


def test_nullable_whole_labels_stay_whole(two_triangles):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    labels = [7, None, None, 8, None, None]
    for y in (pd.Series(labels, dtype="Int64"), pl.Series(labels)):
        clf = GCNClassifier(max_epochs=5, random_state=0).fit(None, y, adjacency=two_triangles)
        assert clf.predict().dtype.kind == "i"
        assert clf.classes_.tolist() == [7, 8]


def test_frames_must_hold_numbers_and_the_column_is_named(two_triangles):
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=6)
    for column in (pd.Categorical(list("uvwuvw")), days, days - days[0]):
        frame = pd.DataFrame({"a": np.arange(6.0), "odd": column})
        with pytest.raises(ValueError, match=r"^X must hold numbers, but column 'odd' is of .*$"):
            GCNClassifier().fit(frame, [0, 0, 0, 1, 1, 1], adjacency=two_triangles)
    gaps = np.array([[0.0], [1], [2], [np.nan], [4], [5]])
    with pytest.raises(ValueError, match=r"^Input X contains NaN: fill its gaps first.*$"):
        GCNClassifier().fit(gaps, [0, 0, 0, 1, 1, 1], adjacency=two_triangles)


def test_an_adjacency_that_is_no_adjacency(two_triangles):
    nx = pytest.importorskip("networkx")
    y = [0, 0, 0, 1, 1, 1]
    one_way = two_triangles.copy()
    one_way[0, 1], one_way[1, 0] = -1, 0
    with pytest.raises(ValueError, match=r"must not be negative, got -1\.0 from node 0 to node 1"):
        GCNClassifier().fit(None, y, adjacency=one_way)
    with pytest.raises(ValueError, match=r"must be a matrix .* got a graph: give that as X"):
        GCNClassifier().fit(None, y, adjacency=nx.path_graph(6))
    with pytest.raises(ValueError, match=r"got shape \(2, 7\): adjacency_from_edges makes"):
        GCNClassifier().fit(None, y, adjacency=np.array(two_triangles.nonzero())[:, :7])


def test_attributes_that_a_networkx_graph_brings_in_vain_are_said():
    nx = pytest.importorskip("networkx")
    graph = nx.path_graph(6)
    nx.set_node_attributes(graph, {0: "a", 5: "b"}, "label")
    nx.set_node_attributes(graph, dict(enumerate(range(6))), "age")
    with pytest.warns(UserWarning, match=r"node attributes not used: 'age' \(from_networkx can"):
        GCNClassifier(max_epochs=3).fit(graph)


@pytest.mark.parametrize(
    ("X", "adjacency", "message"),
    [
        (np.eye(6), np.ones((9, 2)), r"got shape \(9, 2\): adjacency_from_edges makes a matrix of"),
        (np.eye(6), np.ones((2, 9)), r"got shape \(2, 9\): adjacency_from_edges makes a matrix of"),
        (np.eye(6), torch.eye(6).to_sparse(), r"must be an array or a scipy .* got torch\.Tensor$"),
        (np.eye(6) * 1j, np.eye(6), r"^Complex data not supported$"),
    ],
)
def test_what_is_no_matrix_is_told_in_one_line(X, adjacency, message):
    with pytest.raises(ValueError, match=message) as raised:
        GCNClassifier().fit(X, [0, 1, 0, 1, 0, 1], adjacency=adjacency)
    assert len(str(raised.value).splitlines()) == 1
