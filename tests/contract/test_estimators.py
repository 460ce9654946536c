"""One contract for every estimator: what GCNClassifier promises, the baselines promise too."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from graphconv import GCNClassifier, Graph, load_dataset, load_model
from graphconv.estimators.baselines import BASELINES, make_estimator

# Small enough to be quick, large enough to learn three groups of six nodes.
PLANETOID = {"dimension": 8, "window": 2, "n_starts": 20, "n_graph_steps": 30}
PLANETOID |= {"max_epochs": 30, "learning_rate": 0.05}
FAST = {
    "gcn": {"hidden": 8, "max_epochs": 60},
    "mlp": {"hidden": 8, "max_epochs": 60},
    "semi-embedding": {
        "hidden": 8,
        "max_epochs": 30,
        "learning_rate": 0.03,
        "n_pairs": 50,
        "dropout": 0.0,
    },
    "deepwalk": {"dimension": 8, "n_passes": 10, "C": 10.0},
    "boosted-trees": {"max_iterations": 5},
    "planetoid-t": PLANETOID,
    "planetoid-i": PLANETOID,
}
ALL = ["gcn", *BASELINES]
ONLY_KNOWN_NODES = {"label-propagation", "deepwalk", "planetoid-t"}
SEVERAL_LABELS = {"gcn", "mlp"}
each = pytest.mark.parametrize("name", ALL)


def make(name, **params):
    if name == "deepwalk":
        pytest.importorskip("gensim")
    params = {"random_state": 0, **FAST.get(name, {}), **params}
    return GCNClassifier(**params) if name == "gcn" else make_estimator(name, **params)


def groups():
    """Three rings of six nodes with chords, joined in a row; features tell the groups apart."""
    labels = np.repeat([0, 1, 2], 6)
    adjacency = np.kron(np.eye(3), np.ones((6, 6)) - np.eye(6))
    for left, right in ((5, 6), (11, 12)):
        adjacency[left, right] = adjacency[right, left] = 1
    noise = np.random.default_rng(3).random((18, 4))
    features = np.hstack([np.eye(3)[labels] + 0.2 * noise[:, :3], noise[:, 3:]])
    return adjacency, features.astype(np.float32), labels


TRAIN, VALIDATION, TEST = [0, 1, 6, 7, 12, 13], [2, 8, 14], [3, 4, 5, 9, 10, 11, 15, 16, 17]


def make_graph(**changes):
    adjacency, features, labels = groups()
    parts = {"features": features, "labels": labels, "train_index": TRAIN}
    parts |= {"validation_index": VALIDATION, "test_index": TEST}
    return Graph(**{"adjacency": adjacency, **parts, **changes})


def check_output(estimator, n_nodes, n_classes):
    probabilities = estimator.predict_proba()
    assert probabilities.shape == (n_nodes, n_classes)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(probabilities, estimator.label_distributions_)
    assert len(estimator.classes_) == n_classes
    chosen = estimator.classes_[probabilities.argmax(axis=1)]
    assert np.array_equal(estimator.predict(), chosen)
    assert np.array_equal(estimator.transduction_, chosen)


@each
def test_learns_three_groups_from_a_graph(name):
    graph = make_graph()
    estimator = make(name)
    assert estimator.fit(graph) is estimator
    check_output(estimator, 18, 3)
    assert (estimator.predict() == graph.labels)[TEST].sum() >= len(TEST) - 1
    assert np.array_equal(estimator.predict(graph), estimator.predict())


@each
def test_arrays_with_minus_one_for_unlabelled(name):
    adjacency, features, labels = groups()
    given = np.full(18, -1)
    given[TRAIN] = labels[TRAIN]
    estimator = make(name).fit(sp.csr_array(features), given, adjacency=sp.csr_array(adjacency))
    check_output(estimator, 18, 3)
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert (estimator.predict() == labels)[TEST].sum() >= len(TEST) - 1


@each
def test_labels_are_given_back_as_they_came(name):
    adjacency, features, labels = groups()
    given = np.array(["ape", "bee", "cow"], dtype=object)[labels]
    given[TEST] = None
    estimator = make(name).fit(features, given, adjacency=adjacency)
    assert estimator.classes_.tolist() == ["ape", "bee", "cow"]
    assert set(estimator.predict()) <= {"ape", "bee", "cow"}


@each
def test_without_adjacency_rows_are_joined_to_nearest_ones(name):
    _, features, labels = groups()
    given = np.where(np.isin(np.arange(18), TEST), -1, labels)
    estimator = make(name, n_neighbors=3).fit(features, given)
    check_output(estimator, 18, 3)


@each
def test_same_seed_same_result(name):
    first, second = (make(name).fit(make_graph()).predict_proba() for _ in range(2))
    assert np.array_equal(first, second)


@each
def test_labels_of_test_nodes_are_not_looked_at(name):
    graph = make_graph()
    turned = graph.labels.copy()
    turned[TEST] = (turned[TEST] + 1) % 3
    first, second = (
        make(name).fit(make_graph(labels=labels)).predict_proba()
        for labels in (graph.labels, turned)
    )
    assert np.array_equal(first, second)


# Where validation nodes choose between epochs, one epoch leaves them nothing to choose.
UNWATCHED = {"gcn": {"early_stopping": "none", "calibrate": False}}
UNWATCHED["mlp"] = UNWATCHED["gcn"]
UNWATCHED["committee"] = {
    "members": [{"model": "gcn", "settings": {"early_stopping": "none", "max_epochs": 20}}, "sgc"]
}
UNWATCHED |= {name: {"max_epochs": 1} for name in ("semi-embedding", "planetoid-t", "planetoid-i")}


@each
def test_labels_of_validation_nodes_are_not_trained_on(name):
    graph = make_graph()
    turned = graph.labels.copy()
    turned[VALIDATION] = (turned[VALIDATION] + 1) % 3
    fits = [
        make(name, **UNWATCHED.get(name, {})).fit(make_graph(labels=labels))
        for labels in (graph.labels, turned)
    ]
    # Calibration goes by validation nodes, and changes no label.
    if name == "committee":  # but whose word counts more there
        for first, second in zip(*(fit.members_ for fit in fits), strict=True):
            assert np.array_equal(first.probabilities(), second.probabilities())
        return
    first, second = (getattr(fit, "uncalibrated_", fit.predict_proba()) for fit in fits)
    assert np.array_equal(first, second)
    assert np.array_equal(fits[0].predict(), fits[1].predict())


@each
def test_another_graph_is_labelled_or_refused(name):
    estimator = make(name).fit(make_graph())
    kept = np.arange(12)
    adjacency, features, _ = groups()
    other = Graph(adjacency[np.ix_(kept, kept)], features=features[kept])
    if name in ONLY_KNOWN_NODES:
        with pytest.raises(ValueError, match="labels only the nodes it was trained with"):
            estimator.predict(other)
        return
    assert estimator.predict(other).shape == (12,)
    assert estimator.predict_proba(features[kept], adjacency=other.adjacency).shape == (12, 3)
    with pytest.raises(ValueError, match="features"):
        estimator.predict(Graph(other.adjacency, features=features[kept, :2]))


@each
def test_new_rows_without_adjacency(name):
    _, features, labels = groups()
    estimator = make(name, n_neighbors=3).fit(features, labels)
    if name in ONLY_KNOWN_NODES:
        with pytest.raises(ValueError, match="labels only the nodes it was trained with"):
            estimator.predict(features[:5] + 0.01)
    else:
        assert estimator.predict(features[:5] + 0.01).shape == (5,)


@each
@pytest.mark.parametrize("kind", ["featureless", "weighted", "directed", "loops", "isolated"])
def test_graphs_of_all_kinds(name, kind):
    adjacency, features, _ = groups()
    changes = {}
    if kind == "featureless":
        changes["features"] = None
    elif kind == "weighted":
        changes["adjacency"] = adjacency * 0.5 + np.diag(np.zeros(18))
        changes["adjacency"][5, 6] = changes["adjacency"][6, 5] = 0.1
    elif kind == "directed":
        changes["adjacency"], changes["directed"] = np.triu(adjacency), True
    elif kind == "loops":
        changes["adjacency"] = adjacency + np.eye(18)
    else:
        alone = adjacency.copy()
        alone[[0, 17]] = alone[:, [0, 17]] = 0
        changes["adjacency"] = alone
        changes["features"] = features * (np.arange(18) != 17)[:, None]
    check_output(make(name).fit(make_graph(**changes)), 18, 3)


@each
def test_no_edges_at_all(name):
    graph = make_graph(adjacency=sp.csr_array((18, 18)))
    check_output(make(name).fit(graph), 18, 3)


@each
def test_two_classes(name):
    _, _, labels = groups()
    estimator = make(name).fit(make_graph(labels=np.minimum(labels, 1)))
    check_output(estimator, 18, 2)


@each
def test_class_without_training_node(name):
    estimator = make(name)
    with pytest.warns(UserWarning, match="no training node has class 2"):
        estimator.fit(make_graph(train_index=[0, 1, 6, 7]))
    check_output(estimator, 18, 3)


@each
def test_karate_club(name):
    karate = load_dataset("karate")
    estimator = make(name).fit(karate)
    check_output(estimator, 34, 4)
    assert estimator.classes_.tolist() == list(karate.class_names)


@each
def test_several_labels_a_node(name):
    _, _, labels = groups()
    graph = make_graph(labels=np.eye(3, dtype=int)[labels])
    if name in SEVERAL_LABELS:
        assert make(name).fit(graph).predict().shape == (18, 3)
    else:
        with pytest.raises(ValueError, match="needs one label per node"):
            make(name).fit(graph)


@each
def test_parameters_survive_fit_and_clone(name):
    estimator = make(name)
    before = estimator.get_params()
    estimator.fit(make_graph())
    assert estimator.get_params() == before
    assert clone(estimator).get_params() == before
    assert not hasattr(clone(estimator), "classes_")


@each
def test_what_cannot_be_learned_from_is_refused(name):
    adjacency, features, labels = groups()
    with pytest.raises(NotFittedError):
        make(name).predict()
    with pytest.raises(ValueError, match="at least one node must be labelled"):
        make(name).fit(features, np.full(18, -1), adjacency=adjacency)
    with pytest.raises(ValueError, match="one class only"):
        make(name).fit(make_graph(labels=np.minimum(labels, 1), train_index=[0, 1]))
    with pytest.raises(ValueError, match="a graph alone, or arrays"):
        make(name).fit(make_graph(), labels)
    with pytest.raises(ValueError, match="y"):
        make(name).fit(features, adjacency=adjacency)


@each
def test_what_is_saved_comes_back(name, tmp_path):
    graph = make_graph(labels=np.where(np.arange(18) == 17, -1, groups()[2]), test_index=TEST[:-1])
    estimator = make(name).fit(graph)
    estimator.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, GCNClassifier if name in ("gcn", "mlp") else type(estimator))
    np.testing.assert_array_equal(again.predict_proba(), estimator.predict_proba())
    assert again.classes_.tolist() == [0, 1, 2]
    assert again.explain(3).sentence == estimator.explain(3).sentence
    assert [one.node for one in again.suggest(1)] == [17]
    kept = np.arange(12)
    other = Graph(graph.adjacency[kept][:, kept], features=graph.features[kept])
    if name in ONLY_KNOWN_NODES:
        with pytest.raises(ValueError, match="labels only the nodes it was trained with"):
            again.predict(other)
    else:
        np.testing.assert_array_equal(again.predict_proba(other), estimator.predict_proba(other))
    np.testing.assert_array_equal(clone(again).fit(graph).predict(), estimator.predict())


@each
def test_rows_are_attached_after_loading_too(name, tmp_path):
    if name in ONLY_KNOWN_NODES:
        pytest.skip("it labels only the nodes it was trained with")
    _, features, labels = groups()
    estimator = make(name, n_neighbors=3).fit(features, labels)
    estimator.save(tmp_path / "model")
    rows = features[:5] + 0.01
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(rows), estimator.predict_proba(rows))
