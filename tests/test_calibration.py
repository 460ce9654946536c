"""Tests of graphconv.training.calibration, and of its way from fit to the files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.command_line import make_runner
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.training.calibration import (
    Calibration,
    decisions,
    expected_calibration_error,
    fit_calibration,
    reliability,
)
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import fit_gcn


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def draw_labels(shares, seed=0):
    """A label for each row, drawn with its probabilities."""
    uniform = np.random.default_rng(seed).random((len(shares), 1))
    return np.minimum((uniform > shares.cumsum(axis=1)).sum(axis=1), shares.shape[1] - 1)


def test_the_coldest_temperature_leaves_no_power_without_a_number():
    shares = np.array([[0.6, 0.4], [0.2, 0.8]])
    found = Calibration(temperature=1e-3).apply(shares)
    np.testing.assert_allclose(found, [[1, 0], [0, 1]], atol=1e-6)


def test_bins_worked_by_hand():
    shares = np.array([[0.55, 0.45], [0.6, 0.4], [0.3, 0.7], [0.05, 0.95], [1.0, 0.0]])
    bins = reliability(shares, np.array([0, 1, 1, 1, 0]), n_bins=5)
    # Bins are open to the left: 0.6 lies in (0.4, 0.6], 1.0 in (0.8, 1.0].
    assert bins.edges == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert bins.n_decisions.tolist() == [0, 0, 2, 1, 2]
    assert bins.confidence[2:] == pytest.approx([0.575, 0.7, 0.975])
    assert bins.accuracy[2:] == pytest.approx([0.5, 1.0, 1.0])
    assert np.isnan(bins.confidence[:2]).all()
    assert np.isnan(bins.accuracy[:2]).all()
    assert bins.error == pytest.approx((2 * 0.075 + 0.3 + 2 * 0.025) / 5)


def test_several_labels_are_decisions_of_their_own():
    shares = np.array([[0.9, 0.2], [0.5, 0.7]])
    confidence, right = decisions(shares, np.array([[1, 1], [0, 1]]))
    assert confidence == pytest.approx([0.9, 0.8, 0.5, 0.7])
    assert right.tolist() == [True, False, True, True]


def test_no_nodes():
    nobody = np.empty((0, 3)), np.empty(0, dtype=np.int64)
    assert np.isnan(expected_calibration_error(*nobody))
    with pytest.raises(ValueError, match="at least one node, got none"):
        fit_calibration(*nobody)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_temperature_is_found_again(temperature):
    """Labels drawn from the probabilities of known logits, which the model over- or understates."""
    logits = np.random.default_rng(1).normal(0, 2, (4000, 5))
    labels = draw_labels(softmax(logits))
    found = fit_calibration(softmax(logits * temperature), labels)
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.doubt < 0.03
    after = expected_calibration_error(found.apply(softmax(logits * temperature)), labels)
    assert after < 0.02


def test_doubt_is_found_again():
    logits = np.random.default_rng(1).normal(0, 3, (4000, 4))
    shares = softmax(logits)
    labels = draw_labels(0.8 * shares + 0.2 / 4)
    found = fit_calibration(shares, labels)
    assert found.doubt == pytest.approx(0.2, abs=0.03)
    assert found.temperature == pytest.approx(1, abs=0.15)


def test_temperature_for_several_labels_is_found_again():
    logits = np.random.default_rng(1).normal(0, 2, (2000, 3))
    truth = 1 / (1 + np.exp(-logits))
    labels = (np.random.default_rng(2).random(truth.shape) < truth).astype(np.int64)
    modest = 1 / (1 + np.exp(-logits / 2))
    found = fit_calibration(modest, labels)
    assert found.temperature == pytest.approx(0.5, rel=0.1)
    before = expected_calibration_error(modest, labels)
    after = expected_calibration_error(found.apply(modest, is_multilabel=True), labels)
    assert after < 0.02 < 0.08 < before


@pytest.mark.parametrize("n_nodes", [1, 5, 50])
def test_few_nodes_that_are_all_right_make_nothing_certain(n_nodes):
    """With Platt's doubt the confidence can't pass the share that n + 1 nodes would allow."""
    shares = np.tile([0.7, 0.2, 0.1], (n_nodes, 1))
    found = fit_calibration(shares, np.zeros(n_nodes, dtype=np.int64))
    highest = found.apply(shares)[0, 0]
    assert highest <= 1 - (2 / 3) / (n_nodes + 1) + 1e-3
    assert highest > 0.6


def test_few_nodes_do_not_make_all_alike():
    """One mistake in 38 must not be explained by doubt alone, which would tell no node apart."""
    confidence = np.linspace(0.6, 0.99, 38)
    shares = np.column_stack([confidence, 1 - confidence])
    labels = np.zeros(38, dtype=np.int64)
    labels[30] = 1
    found = fit_calibration(shares, labels)
    assert 0.3 < found.temperature < 3
    scaled = found.apply(shares)[:, 0]
    assert (np.diff(scaled) > 0).all()
    assert scaled[-1] - scaled[0] > 0.15


def test_many_nodes_are_thinned_out_evenly():
    logits = np.random.default_rng(1).normal(0, 2, (20_000, 3))
    labels = draw_labels(softmax(logits))
    # Sorted by label: the first five thousand would have but one class.
    order = np.argsort(labels)
    found = fit_calibration(softmax(logits / 2)[order], labels[order])
    assert found.temperature == pytest.approx(0.5, rel=0.1)


tables = hnp.arrays(np.float32, (7, 4), elements=st.floats(0, 30, width=32))
temperatures = st.floats(0.02, 50)
doubts = st.floats(0, 0.5)


@given(tables, temperatures, doubts)
def test_labels_never_change(logits, temperature, doubt):
    shares = softmax(logits).astype(np.float32)
    scaled = Calibration(temperature, doubt).apply(shares)
    assert scaled.dtype == np.float32
    assert (scaled.argmax(axis=1) == shares.argmax(axis=1)).all()
    assert scaled.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (scaled >= 0).all()


@given(hnp.arrays(np.float32, (7, 4), elements=st.floats(0, 1, width=32)), temperatures, doubts)
def test_sets_of_labels_never_change(shares, temperature, doubt):
    scaled = Calibration(temperature, doubt).apply(shares, is_multilabel=True)
    assert ((scaled > 0.5) == (shares > 0.5)).all()
    assert ((scaled >= 0) & (scaled <= 1)).all()


def test_the_smallest_lead_survives_rounding():
    ahead = np.nextafter(np.float32(0.5), np.float32(1))
    behind = np.float32(1) - ahead
    flat = Calibration(temperature=40).apply(np.array([[behind, ahead]]))
    assert flat.argmax() == 1
    both = Calibration(temperature=40).apply(np.array([[behind, ahead]]), is_multilabel=True)
    assert (both > 0.5).tolist() == [[False, True]]


@pytest.fixture(scope="module")
def graph():
    return split(
        generate("homophilous, bag of words", n_nodes=300), n_per_class=8, n_validation=100
    )


@pytest.fixture(scope="module")
def fitted(graph):
    return fit_gcn(graph, overrides={"max_epochs": 30}, seeds=[0, 1])


def test_fit_calibrates_the_ensemble(graph, fitted):
    averaged = fitted.probabilities().mean(axis=1)
    index = graph.validation_index
    expected = fit_calibration(fitted.probabilities(nodes=index).mean(axis=1), graph.labels[index])
    assert fitted.calibration == expected
    assert not expected.changes_nothing
    shares = fitted.ensemble_probabilities()
    assert (shares == expected.apply(averaged)).all()
    assert (shares.argmax(axis=1) == averaged.argmax(axis=1)).all()
    error = [expected_calibration_error(p[index], graph.labels[index]) for p in (averaged, shares)]
    assert error[1] < error[0]


def test_it_can_be_switched_off(graph, fitted):
    plain = fit_gcn(graph, overrides={"max_epochs": 30}, seeds=[0, 1], calibrate=False)
    assert plain.calibration.changes_nothing
    averaged = fitted.probabilities().mean(axis=1)
    assert (plain.ensemble_probabilities() == averaged).all()


def test_without_validation_nodes_nothing_is_calibrated():
    fitted = fit_gcn(load_dataset("karate"), overrides={"max_epochs": 5})
    assert fitted.calibration == Calibration(1.0, 0.0)


def test_estimator(graph):
    clf = GCNClassifier(max_epochs=30, random_state=0).fit(graph)
    plain = GCNClassifier(max_epochs=30, random_state=0, calibrate=False).fit(graph)
    assert clf.calibration_.temperature != 1
    assert plain.calibration_.changes_nothing
    assert (clf.predict() == plain.predict()).all()
    assert (clf.predict_proba() != plain.predict_proba()).any()
    assert clf.predict_proba(graph) == pytest.approx(clf.predict_proba(), abs=1e-5)
    expected = clf.calibration_.apply(plain.predict_proba())
    assert clf.predict_proba() == pytest.approx(expected, abs=1e-6)


def test_several_labels_a_node(graph):
    labels = np.column_stack([graph.labels == 0, graph.labels >= 2]).astype(np.int64)
    several = Graph(
        graph.adjacency,
        graph.features,
        labels,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
    )
    clf = GCNClassifier(max_epochs=30, random_state=0).fit(several)
    plain = GCNClassifier(max_epochs=30, random_state=0, calibrate=False).fit(several)
    assert not clf.calibration_.changes_nothing
    assert (clf.predict() == plain.predict()).all()


def test_model_folders_keep_it_and_older_ones_load(tmp_path, fitted):
    folder = tmp_path / "model"
    save_model(SavedModel(fitted), folder)
    again = load_model(folder).fitted
    assert again.calibration == fitted.calibration
    assert (again.ensemble_probabilities() == fitted.ensemble_probabilities()).all()

    description = json.loads((folder / "model.json").read_text())
    del description["calibration"]
    (folder / "model.json").write_text(json.dumps(description))
    old = load_model(folder).fitted
    assert old.calibration.changes_nothing
    raw = replace(fitted, calibration=Calibration()).ensemble_probabilities()
    assert (old.ensemble_probabilities() == raw).all()


def test_command_line(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = make_runner(monkeypatch, capsys)
    brief = ("cora", "--max-epochs", 60)
    results = run("train", *brief, "--json", "-o", "calibrated").json
    before = results["test_calibration_error_uncalibrated"]
    after = results["test_calibration_error_calibrated"]
    assert after < 0.05 < 0.2 < before
    assert results["calibration"]["temperature"] < 1
    table = run("train", *brief, "-o", "calibrated").out
    assert f"test calibration error {100 * after:.1f} % 1,000" in " ".join(table.split())
    assert f"before calibration {100 * before:.1f} % 1,000" in " ".join(table.split())

    done = run("train", *brief, "--json", "--no-calibration", "-o", "plain").json
    assert done["calibration"] == {"temperature": 1.0, "doubt": 0.0}
    assert done["test_calibration_error_calibrated"] == pytest.approx(before)
    table = run("train", *brief, "--no-calibration", "-o", "plain").out
    assert "test calibration error" in table
    assert "before calibration" not in table

    confidence = {}
    for name in ("calibrated", "plain"):
        run("predict", name, "-o", f"{name}.csv")
        written = (tmp_path / f"{name}.csv").read_text()
        assert written == (tmp_path / name / "predictions.csv").read_text()
        rows = [line.split(",") for line in written.splitlines()[1:]]
        confidence[name] = [(row[1], float(row[2])) for row in rows]
    pairs = list(zip(confidence["calibrated"], confidence["plain"], strict=True))
    assert all(one[0] == other[0] for one, other in pairs)
    assert np.mean([one[1] - other[1] for one, other in pairs]) > 0.1


@pytest.mark.parametrize("n_labels", [12, 300])
@pytest.mark.parametrize("is_multilabel", [False, True])
def test_no_other_temperature_and_doubt_do_better(n_labels, is_multilabel):
    rng = np.random.default_rng(n_labels)
    given = rng.dirichlet(np.full(3, 0.3), n_labels)  # far too sure, at times altogether wrong
    labels = np.array(
        [rng.choice(3, p=0.7 * share**0.5 / (share**0.5).sum() + 0.1) for share in given]
    )
    if is_multilabel:
        labels = (rng.random(given.shape) < 0.7 * given + 0.15).astype(np.int64)
    wanted = np.eye(3)[labels] if labels.ndim == 1 else labels
    wanted = wanted + (1 / 3 - wanted if labels.ndim == 1 else 0.5 - wanted) / (n_labels + 1)

    def loss(calibration):
        said = calibration.apply(given, is_multilabel).astype(np.float64)
        likely = wanted * np.log(said)
        if is_multilabel:
            likely += (1 - wanted) * np.log(np.maximum(1 - said, 2**-25))
        return (np.log(calibration.temperature) / 0.5) ** 2 / 2 - likely.sum()

    found = fit_calibration(given, labels)
    others = [
        Calibration(found.temperature * np.exp(power), doubt)
        for power in np.linspace(-1, 1, 21)
        for doubt in np.linspace(0, 0.5, 21)
    ]
    assert loss(found) <= min(map(loss, others)) + 1e-3
