"""Tests of graphconv.training.class_prior: labels that are not as common as their classes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.generated_graphs import embeddings, planted_adjacency

from graphconv import AutoClassifier, GCNClassifier, Graph, load_model
from graphconv.training import class_prior
from graphconv.training.calibration import Calibration
from graphconv.training.class_prior import (
    check_prior,
    estimate_prior,
    read_prior,
    with_class_prior,
)
from graphconv.training.fit import fit_gcn


def make_uneven(seed=0, n_nodes=1500, shares=(0.8, 0.15, 0.05), distance=1.0):
    """Classes as common as `shares`, but as many labels of each."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n_nodes, p=shares)
    adjacency = planted_adjacency(labels, rng, homophily=0.8, degree=3)
    features = embeddings(labels, rng, width=8, distance=distance)
    drawn = [rng.permutation(np.flatnonzero(labels == label)) for label in range(3)]
    train = np.concatenate([nodes[:20] for nodes in drawn])
    validation = np.concatenate([nodes[20:40] for nodes in drawn])
    rest = np.setdiff1d(np.arange(n_nodes), np.concatenate([train, validation]))
    return Graph(
        adjacency,
        features,
        labels,
        train_index=train,
        validation_index=validation,
        test_index=rest,
        class_names=("a", "b", "c"),
    )


@pytest.fixture(scope="module")
def uneven():
    return make_uneven()


def test_probabilities_are_put_right_by_a_prior_that_is_given_or_found(uneven):
    test = uneven.test_index
    wanted = uneven.labels[test]
    truth = np.bincount(wanted) / len(test)
    scores, means = {}, {}
    priors = {
        "labels": "labels",
        "estimate": "estimate",
        "given": dict(zip("abc", truth, strict=True)),
    }
    for name, prior in priors.items():
        clf = GCNClassifier(class_prior=prior, random_state=0).fit(uneven)
        given = clf.predict_proba()[test]
        scores[name] = (given.argmax(axis=1) == wanted).mean()
        means[name] = given.mean(axis=0)
        np.testing.assert_allclose(given.sum(axis=1), 1, atol=1e-5)
    assert scores["estimate"] > scores["labels"] + 0.02
    assert scores["given"] > scores["labels"] + 0.02
    # What was found is nearer to the truth than the labels are: they say a third of each.
    assert np.abs(means["estimate"] - truth).max() < 0.5 * np.abs(means["labels"] - truth).max()


def test_the_estimate_is_exact_where_the_model_is():
    """Two classes, a feature whose posterior is known: the prior is found to a percent."""
    rng = np.random.default_rng(0)
    labels = rng.random(20_000) < 0.1
    x = rng.normal(np.where(labels, 1.0, -1.0))
    of_second = 1 / (1 + np.exp(-2 * x))  # under equal priors
    found = estimate_prior(np.stack([1 - of_second, of_second], axis=1), np.array([0.5, 0.5]))
    assert found[1] == pytest.approx(0.1, abs=0.01)


def test_a_model_that_hardly_tells_classes_apart_can_not_estimate():
    with pytest.warns(UserWarning, match="class_prior 'estimate' may be far off: on validation"):
        GCNClassifier(class_prior="estimate", random_state=0).fit(make_uneven(distance=0.1))


def test_it_is_saved_with_the_model(uneven, tmp_path):
    clf = GCNClassifier(class_prior="estimate", max_epochs=20, random_state=0).fit(uneven)
    clf.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(), clf.predict_proba())
    assert len(again.calibration_.class_factors) == 3


def test_calibration_without_factors_is_saved_as_ever():
    assert Calibration(2.0, 0.1).to_json() == {"temperature": 2.0, "doubt": 0.1}
    with pytest.raises(ValueError, match="class_factors must be at least 0"):
        Calibration(class_factors=(1.0, float("nan")))
    # Files have lists.
    assert Calibration(class_factors=[1.0, 2.0]) == Calibration(class_factors=(1.0, 2.0))


def test_what_is_no_prior_is_refused(uneven, tmp_path):
    for prior, reason in (
        ("graph", "class_prior must be 'labels', 'estimate' or shares, got 'graph'"),
        ({"a": 1, "b": 1, "d": 1}, "class_prior must name classes, got 'd'"),
        ({"a": 1, "b": 1}, "a share for each class, but class 'c' is missing"),
        ({"a": 0, "b": 0, "c": 0}, "a share for each class, but all are 0"),
        ({"a": -1, "b": 1, "c": 1}, "at least 0 for each class, got -1"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_prior(prior, uneven)
    path = tmp_path / "prior.csv"
    path.write_text("class,share\na,0.8\nb,0.15\nc,0.05\n")
    assert read_prior(path) == {"a": 0.8, "b": 0.15, "c": 0.05}
    path.write_text("a,0.8\nb,much\n")
    with pytest.raises(ValueError, match=r"line 2: must be a class and a number, got 'b,much'"):
        read_prior(path)


def test_a_file_of_shares_is_read_as_other_tables_are(tmp_path):
    path = tmp_path / "prior.csv"
    path.write_bytes("Klasse;Anteil\r\ngrün;0,8\r\nrot;0,2\r\n".encode("cp1252"))
    assert read_prior(path) == {"grün": 0.8, "rot": 0.2}
    path.write_text(f"a,{'1' * 200_000}\n")
    with pytest.raises(ValueError, match=r"prior.csv must be a CSV file: field larger than"):
        read_prior(path)
    path.write_bytes(b"a,1\n\x81,2\n")
    with pytest.raises(ValueError, match=r"must be UTF-8 or cp1252 text, got the byte 0x81"):
        read_prior(path)


def test_on_the_command_line(run, tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.choice(["rare", "common"], size=200, p=[0.2, 0.8])
    x = rng.normal(np.where(kinds == "rare", 1.0, -1.0))
    rows = [f"n{k},{kinds[k] if k < 150 else ''},{x[k]}" for k in range(200)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,x", *rows]) + "\n")
    edges = [f"n{k},n{(k + 1) % 200}" for k in range(200)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    (tmp_path / "prior.csv").write_text("rare,0.5\ncommon,0.5\n")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--max-epochs", 20, "-o", "m")
    plain = run("train", *tables, "--json").json
    found = run("train", *tables, "--class-prior", "prior.csv", "--json").json
    assert "class_factors" not in plain["calibration"]
    factors = dict(zip(found["classes"], found["calibration"]["class_factors"], strict=True))
    assert factors["rare"] > 1 > factors["common"]
    run("predict", "m", "-o", "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "m/predictions.csv").read_text()
    done = run("train", *tables, "--class-prior", "nowhere.csv", expect=2)
    assert "nowhere.csv" in done.err[-1]
    done = run("train", *tables, "--class-prior", "estimate", "--coverage", 0.9, expect=2)
    assert "leave --class-prior out" in done.err[-1]


def test_the_classifier_that_chooses_takes_it_too(uneven, tmp_path):
    clf = AutoClassifier(class_prior="estimate", random_state=0).fit(uneven)
    assert len(clf.calibration_.class_factors) == 3
    # What is trained in the end may have a limit to its epochs beside.
    assert clf.candidate_.words().startswith(clf.choice_.split(":")[0])
    np.testing.assert_allclose(clf.predict_proba(uneven), clf.predict_proba(), atol=1e-6)
    clf.save(tmp_path / "m")
    assert (tmp_path / "m/model.json").exists()
    assert clf.explain(0).node == 0


def test_the_estimate_is_a_fixed_point_of_its_equation():
    rng = np.random.default_rng(0)
    given = rng.dirichlet([1, 2, 0.5], 300)
    of_labels = np.array([0.5, 0.3, 0.2])
    found = estimate_prior(given, of_labels)
    weighted = given * found / of_labels
    again = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(again, found, atol=2e-6)
    assert found.sum() == pytest.approx(1)
    # A class without a label stays without nodes.
    assert estimate_prior(given, np.array([0.5, 0.5, 0]))[2] == 0


def test_factors_are_shares_wanted_over_shares_of_labels(uneven):
    fitted = fit_gcn(uneven.with_split(uneven.train_index[:50], uneven.validation_index, []),
                     overrides={"max_epochs": 2})  # fmt: skip
    of_labels = np.array([20, 20, 10]) / 50
    changed = with_class_prior(fitted, {"a": 6, "b": 2, "c": 0})  # any numbers in proportion
    factors = changed.calibration.class_factors
    assert factors == pytest.approx(np.array([0.75, 0.25, 0]) / of_labels)
    assert changed.calibration.temperature == fitted.calibration.temperature
    for nothing in (None, "labels"):
        assert with_class_prior(fitted, nothing) is fitted
    with pytest.raises(ValueError, match="class_prior must be 'labels', 'estimate' or shares"):
        with_class_prior(fitted, "estimated")
    found = with_class_prior(fitted, "estimate").calibration.class_factors
    rest = np.setdiff1d(np.arange(1500), [*uneven.train_index[:50], *uneven.validation_index])
    wanted = estimate_prior(fitted.ensemble_probabilities()[rest], of_labels)
    assert found == pytest.approx(wanted / of_labels)


def test_a_class_without_labels_keeps_its_probability():
    labels = np.array([0, 1] * 10)
    graph = Graph(np.zeros((20, 20)), np.eye(20), labels, class_names=("a", "b", "c"))
    fitted = fit_gcn(graph, overrides={"max_epochs": 2}, validation_fraction=0)
    changed = with_class_prior(fitted, {"a": 3, "b": 1, "c": 4})
    assert changed.calibration.class_factors == pytest.approx((0.75, 0.25, 1))


@pytest.mark.parametrize(
    ("classes", "n_right", "is_warned"),
    [("abc", 66, True), ("abc", 67, False), ("ab", 74, True), ("ab", 75, False)],
)
def test_when_an_estimate_is_doubted(classes, n_right, is_warned, recwarn):
    """Of three classes two thirds lie half way from guessing to knowing, of two three quarters."""
    graph = Graph(np.zeros((100, 100)), labels=np.zeros(100, int), class_names=classes,
                  train_index=[], validation_index=range(100))  # fmt: skip
    shares = np.eye(len(classes))[(np.arange(100) >= n_right).astype(int)]
    class_prior._warn_if_uninformed(graph, shares)
    assert [str(one.message) for one in recwarn] == is_warned * [
        "class_prior 'estimate' may be far off: on validation nodes the model is right in less "
        f"than {67 if len(classes) == 3 else 75} %"
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,1\nb,2\n", {"a": 1.0, "b": 2.0}),
        ("class,share\n\n a ,1\n", {"a": 1.0}),
        ("a,1\nb\n", r"line 2: must be a class and a number, got 'b'"),
        ("a,1,2\n", r"line 1: must be a class and a number, got 'a,1,2'"),
        ("class,share\nmore,names\n", r"line 2: must be a class and a number, got 'more,names'"),
        ("class,share\n", "must hold a class and a number in each line, got none"),
    ],
)
def test_what_a_file_of_shares_may_hold(text, found, tmp_path):
    path = tmp_path / "prior.csv"
    path.write_text(text)
    if isinstance(found, dict):
        assert read_prior(path) == found
    else:
        with pytest.raises(ValueError, match=found):
            read_prior(path)


def test_shares_may_be_zero_but_not_endless(uneven):
    check_prior({"a": 0, "b": 1, "c": 0}, uneven)
    check_prior(None, uneven)
    for share in (True, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="at least 0 for each class"):
            check_prior({"a": share, "b": 1, "c": 1}, uneven)
    several = Graph(np.zeros((2, 2)), labels=np.eye(2, dtype=int))
    check_prior("labels", several)
    with pytest.raises(ValueError, match="class_prior is for one label per node"):
        check_prior("estimate", several)


@pytest.mark.parametrize(("distance", "n_rounds"), [(0.4, 15), (0.01, 500)])
def test_rounds_end_where_a_millionth_changes_or_after_five_hundred(distance, n_rounds):
    """The equation of Saerens and others, with two classes that are more or less easy to tell."""
    second = np.repeat([0.5 - distance, 0.5 + distance], [70, 30])
    given = np.column_stack([1 - second, second])
    prior, n_taken, change = np.array([0.5, 0.5]), 0, 1.0
    while n_taken < 500 and change >= 1e-6:
        weighted = given * prior
        before, prior = prior, (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        n_taken, change = n_taken + 1, np.abs(prior - before).max()
    assert n_taken == n_rounds
    found = estimate_prior(given, np.array([0.5, 0.5]))
    np.testing.assert_allclose(found, prior, rtol=0, atol=1e-10)


def test_a_change_as_large_as_what_is_tolerated_is_gone_on_from(monkeypatch):
    given = np.array([[0.75, 0.25], [0.5, 0.5]])  # from (0.5, 0.5) to (0.625, 0.375): an eighth
    monkeypatch.setattr(class_prior, "_TOLERANCE", 0.125)
    first = (5 / 6 + 5 / 8) / 2
    assert estimate_prior(given, np.array([0.5, 0.5])) == pytest.approx([first, 1 - first])


def test_nodes_of_which_nothing_is_known_are_weighed_as_all_others():
    labels = np.array([0, 1] * 10)
    graph = Graph(np.zeros((20, 20)), np.eye(20), labels, class_names=("a", "b"))
    fitted = fit_gcn(graph, overrides={"max_epochs": 1}, validation_fraction=0)
    both = replace(fitted, undescribed_calibration=Calibration(3.0, 0.2))
    found = with_class_prior(both, {"a": 3, "b": 1})
    assert found.undescribed_calibration == Calibration(3.0, 0.2, (1.5, 0.5))
    assert with_class_prior(fitted, {"a": 3, "b": 1}).undescribed_calibration is None
