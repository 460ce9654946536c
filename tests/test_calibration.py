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
from graphconv.training import calibration
from graphconv.training.calibration import (
    Calibration,
    calibrate_apart,
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


@pytest.mark.parametrize("is_multilabel", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_doubt_is_the_likeliest(is_multilabel, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 0.5), 50)
    wanted = np.eye(4)[rng.integers(4, size=50)]
    if is_multilabel:
        wanted = (rng.random((50, 4)) < 0.3 + 0.4 * shares).astype(float)
    elif seed:  # mostly right, so that some doubt is best, neither none nor all
        wanted = np.where(rng.random((50, 1)) < 0.8, np.eye(4)[shares.argmax(axis=1)], wanted)
    even = 0.5 if is_multilabel else 0.25

    def loss(doubt):
        mixed = (1 - doubt) * shares + doubt * even
        likely = wanted * np.log(mixed)
        if is_multilabel:
            likely += (1 - wanted) * np.log(1 - mixed)
        return -likely.sum()

    found = calibration._best_doubt(shares, wanted, even, is_multilabel)
    grid = np.linspace(0, 0.5, 5001)
    best = grid[np.argmin([loss(doubt) for doubt in grid])]
    assert found == pytest.approx(best, abs=2e-4)


def test_no_doubt_where_none_helps():
    sure = np.tile([0.7, 0.3], (10, 1))
    assert calibration._best_doubt(sure, np.tile([1.0, 0.0], (10, 1)), 0.5, False) == 0
    # All that is allowed where the model is always wrong.
    found = calibration._best_doubt(sure, np.tile([0.0, 1.0], (10, 1)), 0.5, False)
    assert found == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("lowest_at", [-2.0, -0.3, 0.0, 1.7])
def test_a_valley_is_found_to_a_thousandth(lowest_at):
    asked = []

    def function(x):
        asked.append(x)
        return abs(x - lowest_at) ** 1.5 + 0.1 * (x - lowest_at) * (x > lowest_at)

    found = calibration._lowest(function, -3, 3)
    assert found == pytest.approx(lowest_at, abs=1e-3)
    # Golden sections: each call narrows 6 down by 0.618, so 19 of them come below a thousandth.
    assert len(asked) == 2 + 19
    assert min(asked) >= -3
    assert max(asked) <= 3


def test_labels_are_softened_by_a_nodes_worth():
    # Of four nodes and one that nobody has seen: a fifth of the doubt of not knowing.
    found = calibration._softened(np.array([0, 1, 2, 0]), 3)
    expected = np.full((4, 3), 0.2 / 3) + 0.8 * np.eye(3)[[0, 1, 2, 0]]
    np.testing.assert_allclose(found, expected)
    both = calibration._softened(np.array([[1, 0], [0, 0], [1, 1], [0, 1]]), 2)
    np.testing.assert_allclose(both, [[0.9, 0.1], [0.1, 0.1], [0.9, 0.9], [0.1, 0.9]])


@pytest.mark.parametrize("is_multilabel", [False, True])
def test_logits_and_probabilities_are_inverse(is_multilabel):
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    logits = calibration._logits(shares, is_multilabel)
    np.testing.assert_allclose(calibration._probabilities(logits, is_multilabel), shares)
    extreme = calibration._logits(np.array([[0.0, 1.0]]), is_multilabel)
    assert np.isfinite(extreme).all()
    if is_multilabel:
        assert extreme[0] == pytest.approx([np.log(1e-30), 25 * np.log(2)])
        far = calibration._probabilities(np.array([[-1e9, 1e9]]), True)
        assert far[0] == pytest.approx([0, 1], abs=1e-12)


@pytest.mark.parametrize("is_multilabel", [False, True])
def test_temperature_then_doubt_by_hand(is_multilabel):
    shares = np.array([[0.8, 0.15, 0.05], [0.2, 0.3, 0.5]])
    found = Calibration(2.0, 0.1).apply(shares, is_multilabel)
    if is_multilabel:
        odds = np.sqrt(shares / (1 - shares))
        expected = 0.9 * odds / (1 + odds) + 0.1 * 0.5
    else:
        roots = np.sqrt(shares)
        expected = 0.9 * roots / roots.sum(axis=1, keepdims=True) + 0.1 / 3
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_class_factors_weigh_the_last_axis():
    weights = Calibration(class_factors=(2, 0, 1))
    shares = np.array([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]], dtype=np.float32)
    expected = [[0.4 / 0.7, 0, 0.3 / 0.7], [0, 1, 0]]  # a row of which nothing is left stays
    np.testing.assert_allclose(weights.reweighed(shares), expected, atol=1e-6)
    runs = np.stack([shares, shares[::-1], shares, shares], axis=1)  # (nodes, runs, classes)
    np.testing.assert_allclose(weights.reweighed(runs)[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(weights.reweighed(runs)[:, 1], expected[::-1], atol=1e-6)
    np.testing.assert_allclose(weights.apply(shares[:1]), expected[:1], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 1e-9}, None),
        ({"temperature": 0}, "temperature must be above 0"),
        ({"temperature": np.inf}, "temperature must be above 0"),
        ({"temperature": np.nan}, "temperature must be above 0"),
        ({"doubt": 0}, None),
        ({"doubt": 1}, None),
        ({"doubt": -1e-9}, "doubt must be from 0 to 1"),
        ({"doubt": 1 + 1e-9}, "doubt must be from 0 to 1"),
        ({"class_factors": (0, 2)}, None),
        ({"class_factors": (1, -1e-9)}, "class_factors must be at least 0"),
        ({"class_factors": (1, np.inf)}, "class_factors must be at least 0"),
    ],
)
def test_what_a_calibration_may_be(values, message):
    if message is None:
        found = Calibration(**values).to_json()
        assert {name: found[name] for name in values} == values
    else:
        with pytest.raises(ValueError, match=message):
            Calibration(**values)


def test_the_lowest_bin_and_gaps_by_their_number():
    shares = np.tile([0.02, 0.03, 0.05], (4, 1))  # of more classes than are shown, say
    bins = reliability(shares, np.array([2, 0, 0, 0]), n_bins=10)
    assert bins.n_decisions.tolist() == [4, *[0] * 9]
    assert (bins.confidence[0], bins.accuracy[0]) == (pytest.approx(0.05), 0.25)
    assert bins.error == pytest.approx(0.2)
    assert len(reliability(shares, np.zeros(4, int)).n_decisions) == 15  # as Guo et al.
    nothing = reliability(np.zeros((1, 2)), np.array([0]), n_bins=4)
    assert nothing.n_decisions.tolist() == [1, 0, 0, 0]


def test_some_nodes_have_a_calibration_of_their_own():
    shares = np.array([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]])
    one, other = Calibration(2.0), Calibration(0.5, 0.1)
    apart = np.array([False, True, False])
    for is_multilabel in (False, True):
        found = calibrate_apart(shares, one, other, apart, is_multilabel)
        expected = one.apply(shares, is_multilabel).copy()
        expected[1] = other.apply(shares[1:2], is_multilabel)[0]
        np.testing.assert_array_equal(found, expected)
        for second, nodes in ((None, apart), (other, apart & False)):
            found = calibrate_apart(shares, one, second, nodes, is_multilabel)
            np.testing.assert_array_equal(found, one.apply(shares, is_multilabel))


def test_a_fit_looks_at_enough_nodes_of_many_classes(monkeypatch):
    """200,000 numbers, but 500 nodes at least, from the first to the last."""
    seen = []
    softened = calibration._softened

    def watched(labels, n_classes):
        seen.append(labels)
        return softened(labels, n_classes)

    monkeypatch.setattr(calibration, "_softened", watched)
    monkeypatch.setattr(calibration, "_MOST_NUMBERS", 4000)
    for n_nodes, n_classes, n_used in ((3000, 4, 1000), (900, 4, 900), (900, 40, 500)):
        shares = np.full((n_nodes, n_classes), 1 / n_classes)
        labels = np.arange(n_nodes) % n_classes
        labels[-1] = 0
        fit_calibration(shares, labels)
        assert len(seen[-1]) == n_used
        assert (seen[-1][0], seen[-1][-1]) == (0, 0)


def test_where_a_search_ends():
    asked = []
    flat = calibration._lowest(lambda x: asked.append(x) or 0.0, -3, 3)
    assert flat == pytest.approx(3, abs=1e-3)  # of equals the upper one is kept
    del asked[:]
    assert calibration._lowest(lambda x: asked.append(x) or x, 0.0, 1e-3) == 0.5e-3
    assert len(asked) == 2  # nothing that narrow is narrowed down


def test_how_closely_doubt_is_found(monkeypatch):
    wrong = np.tile([0.7, 0.3], (10, 1)), np.tile([0.0, 1.0], (10, 1)), 0.5, False
    assert calibration._best_doubt(*wrong) == 0.5 - 0.5 / 2**13  # to less than 0.0001
    monkeypatch.setattr(calibration, "_DOUBT_STEP", 0.25)
    assert calibration._best_doubt(*wrong) == 0.25
    # A model that knows nothing is the same with any doubt, and has none.
    even = np.full((10, 2), 0.5)
    assert calibration._best_doubt(even, wrong[1], 0.5, False) == 0


def test_between_which_temperatures_and_by_how_many_nodes(monkeypatch):
    seen = []
    softened = calibration._softened
    monkeypatch.setattr(
        calibration, "_softened", lambda labels, n: seen.append(len(labels)) or softened(labels, n)
    )
    monkeypatch.setattr(
        calibration, "_lowest", lambda function, *ends: seen.append(ends) or function(0.0) * 0
    )
    for n_nodes, n_classes in ((66_668, 3), (520, 500)):
        shares = np.full((n_nodes, n_classes), 1 / n_classes, dtype=np.float32)
        fit_calibration(shares, np.arange(n_nodes) % n_classes)
    ends = pytest.approx((-np.log(50), np.log(50)))
    assert seen == [66_666, ends, 500, ends]  # 200,000 numbers, or 500 nodes


def test_a_sigmoid_as_far_as_a_power_has_a_number():
    far, near = calibration._probabilities(np.array([[-1e9], [-600.0]]), True)[:, 0]
    assert np.log(far) == pytest.approx(-700)
    assert np.log(near) == pytest.approx(-600)
    assert calibration._probabilities(np.array([[1e9]]), True).tolist() == [[1]]


def test_what_rounding_has_made_more_than_certain_is_in_the_last_bin():
    bins = reliability(np.array([[1 + 1e-7, 0.0]]), np.array([0]), n_bins=2)
    assert bins.n_decisions.tolist() == [0, 1]
    half = Calibration(2.0).apply(np.array([[0.5, 0.75]]), is_multilabel=True)
    assert half[0, 0] == 0.5 < half[0, 1]  # one half is no label before, and none afterwards
