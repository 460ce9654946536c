"""Tests of graphconv.estimators.saving, and of what `fit` takes besides arrays."""

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import graphconv
from graphconv import GCNClassifier, fit_gcn, load_dataset, load_model, read_tables, save_model


@pytest.fixture(scope="module")
def karate():
    return load_dataset("karate")


def test_a_saved_classifier_says_the_same(tmp_path, karate):
    clf = GCNClassifier(hidden=8, max_epochs=5, ensemble=2, random_state=3).fit(karate)
    clf.save(str(tmp_path / "model"))
    again = load_model(str(tmp_path / "model"))
    assert np.array_equal(again.predict_proba(), clf.predict_proba())
    assert np.array_equal(again.transform(), clf.transform())
    assert again.explain(0).sentence == clf.explain(0).sentence
    assert (again.settings_, again.ensemble, again.random_state) == (clf.settings_, 2, 3)


def test_a_loaded_classifier_trains_again_as_it_was_trained(tmp_path, karate):
    weights = dict.fromkeys(karate.class_names, 2.0)
    clf = GCNClassifier(max_epochs=5, class_weight=weights, random_state=3).fit(karate)
    clf.save(tmp_path / "model")
    again = clone(load_model(tmp_path / "model")).fit(karate)
    assert np.array_equal(again.predict_proba(), clf.predict_proba())


def test_rows_are_attached_after_loading_too(tmp_path):
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) % 3, -1, y)
    clf = GCNClassifier(max_epochs=5, n_neighbors=3, random_state=0).fit(X, y)
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X[:4]), clf.predict_proba(X[:4]))


def test_a_model_without_an_estimator_can_be_saved(tmp_path, karate):
    fitted = fit_gcn(karate, overrides={"max_epochs": 3})
    save_model(fitted, str(tmp_path / "model"))
    shares = load_model(tmp_path / "model").predict_proba()
    assert np.array_equal(shares, fitted.ensemble_probabilities())


def test_only_what_is_fitted_can_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        GCNClassifier().save(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="must be a graphconv model folder"):
        load_model(str(tmp_path / "nowhere"))


def test_fit_takes_what_readers_return(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    (tmp_path / "nodes.csv").write_text("id,label,age\na,x,1\nb,x,2\nc,y,8\nd,,9\n")
    loaded = read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    clf = GCNClassifier(max_epochs=5, random_state=0)
    expected = clf.fit(loaded.graph).predict_proba()
    assert np.array_equal(clf.fit(loaded).predict_proba(), expected)
    assert np.array_equal(clf.predict_proba(loaded), expected)
    baseline = graphconv.LabelPropagationClassifier().fit(loaded)
    assert baseline.predict().shape == (4,)
    with pytest.raises(ValueError, match="fit must get a graph alone, or arrays; got both"):
        clf.fit(loaded, [0, 1, 0, 1])


def test_fit_takes_a_networkx_graph():
    club = nx.karate_club_graph()
    for node, attributes in club.nodes(data=True):
        side = attributes.pop("club")
        if node in (0, 1, 32, 33):
            attributes["label"] = side
    clf = GCNClassifier(max_epochs=20, random_state=0).fit(club)
    assert clf.classes_.tolist() == ["Mr. Hi", "Officer"]
    assert clf.predict().shape == (34,)
    assert clf.explain(5, club).label in clf.classes_
    assert len(clf.suggest(2, club)) == 2


def test_lack_of_memory_is_a_warning(monkeypatch, karate):
    monkeypatch.setattr("graphconv.engine.memory_estimate.available_memory", lambda: 1)
    monkeypatch.setattr("graphconv.engine.memory_estimate._SMALL", 0)
    with pytest.warns(UserWarning, match=r"training in mini-batches instead \(batch_size=1024"):
        clf = GCNClassifier(max_epochs=2, random_state=0).fit(karate)
    assert clf.settings_.batch_size == 1024


def test_public_names_can_be_imported():
    for name in graphconv.__all__:
        assert getattr(graphconv, name).__name__ == name
