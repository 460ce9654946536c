"""Tests of graphconv.plot and of the layouts it draws: what is drawn, not how it looks."""

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp

import graphconv
from graphconv import GCNClassifier, Graph, load_dataset, plot
from graphconv.estimators.baselines import make_estimator
from graphconv.report import _layouts as layouts
from graphconv.report._style import COLOURS, DARK_COLOURS, MARKERS, SYMBOLS, class_marks

mpl.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def cora():
    return load_dataset("cora")


@pytest.fixture(scope="module")
def clf(cora):
    return GCNClassifier("paper", max_epochs=30, random_state=0).fit(cora)


@pytest.fixture(scope="module")
def karate():
    return GCNClassifier(max_epochs=20, random_state=0).fit(load_dataset("karate"))


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_it_is_an_attribute_of_the_package():
    assert graphconv.plot is plot


def test_embedding_counts_the_predicted_classes(karate):
    axes = plot.embedding(karate)
    counts = np.bincount(karate.fitted_.ensemble_probabilities().argmax(axis=1), minlength=4)
    assert legend(axes) == [f"community {k} ({n})" for k, n in enumerate(counts)]
    drawn = sum(len(group.get_offsets()) for group in axes.collections)
    assert drawn == 34
    assert axes.get_xlabel() == "t-SNE dimension 1"


def test_embedding_of_two_columns_is_drawn_as_it_is():
    places = np.array([[0.0, 1], [2, 3], [4, 5]])
    axes = plot.embedding(places, [0, 1, -1], class_names=["a", "b"])
    offsets = {tuple(dot) for group in axes.collections for dot in np.asarray(group.get_offsets())}
    assert offsets == {(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)}
    assert legend(axes) == ["no label (1)", "a (1)", "b (1)"]
    assert plot.embedding(places).get_title() == "Map of 3 nodes"


def test_too_many_classes_share_a_look():
    labels = np.repeat(np.arange(60), np.arange(60) + 1)
    axes = plot.embedding(np.zeros((len(labels), 2)), labels)
    # The 23 most frequent classes, 37 to 59, and one entry for all others.
    assert len(legend(axes)) == 24
    assert legend(axes)[0] == f"other classes, or no label ({sum(range(1, 38))})"
    assert legend(axes)[1] == "37 (38)"


def test_looks_differ():
    marks = class_marks(64)
    assert len(set(marks)) == 64
    assert len(COLOURS) == len(DARK_COLOURS) == len(MARKERS) == len(SYMBOLS) == len(set(COLOURS))


def test_confusion_is_about_test_nodes(cora, clf):
    axes = plot.confusion(clf)
    index = cora.test_index
    truth, found = cora.labels[index], clf.predict_proba()[index].argmax(axis=1)
    expected = np.array([[((truth == i) & (found == j)).sum() for j in range(7)] for i in range(7)])
    assert [int(text.get_text()) for text in axes.texts] == expected.ravel().tolist()
    assert axes.get_title() == f"1,000 test nodes, {100 * (truth == found).mean():.1f} % right"
    assert axes.get_ylabel() == "true class"


def test_confusion_of_a_baseline(cora):
    baseline = make_estimator("label-propagation", dataset="cora", random_state=0).fit(cora)
    assert plot.confusion(baseline).get_title().startswith("1,000 test nodes")


def test_history(clf):
    axes = plot.history(clf)
    assert legend(axes) == ["training nodes", "validation nodes"]
    line = axes.get_lines()[1]
    assert line.get_xdata().tolist() == list(range(1, 31))
    assert line.get_ydata() == pytest.approx(clf.history_["validation_loss"])
    accuracy = plot.history(clf.history_, "accuracy").get_lines()[0].get_ydata()
    assert accuracy == pytest.approx(100 * np.array(clf.history_["train_accuracy"]))


def test_history_without_validation_nodes_has_one_curve(karate):
    assert legend(plot.history(karate)) == ["training nodes"]


def test_graph_draws_every_edge_and_rings_training_nodes(karate):
    axes = plot.graph(karate)
    edges, *dots, rings = axes.collections
    assert len(edges.get_segments()) == 78
    assert sum(len(group.get_offsets()) for group in dots) == 34
    assert len(rings.get_offsets()) == 4
    assert legend(axes)[-1] == "training node"
    directed = Graph([[0, 1], [0, 0]], directed=True)
    assert len(plot.graph(directed).collections[0].get_segments()) == 1


def test_calibration_of_arrays_and_of_an_estimator(cora, clf):
    shares = np.array([[0.9, 0.1]] * 10)
    axes = plot.calibration(shares, [0] * 9 + [1], n_bins=10)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0] * 8 + [90, 0])
    assert axes.get_title() == "Confidence of 10 nodes, calibration error 0.0 %"
    assert "1,000 test nodes" in plot.calibration(clf).get_title()


def test_axes_that_are_given_are_used(clf, karate):
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 5)
    calls = (plot.embedding, plot.history, plot.graph)
    for function, ax in zip(calls, axes, strict=False):
        assert function(karate, ax=ax) is ax
    assert plot.confusion(clf, ax=axes[3]) is axes[3]
    assert plot.calibration(clf, ax=axes[4]) is axes[4]
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.confusion([0, 1]), "true and predicted labels, got one"),
        (lambda: plot.confusion([0, 1], [0]), "one entry per node \\(2\\), got 1"),
        (lambda: plot.calibration(np.ones((2, 1))), "probabilities and labels, got one"),
        (lambda: plot.history({}), "a fitted GCNClassifier or its history_"),
        (lambda: plot.history({}, "error"), "'loss' or 'accuracy', got 'error'"),
        (lambda: plot.embedding(np.zeros((3, 2)), [0]), "one entry per node \\(3\\), got 1"),
        (lambda: plot.embedding(np.zeros(3)), "a row per node"),
        (lambda: plot.graph(Graph(sp.csr_array((2001, 2001)))), "at most 2,000 nodes, got 2,001"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_judging_needs_held_out_nodes():
    own = GCNClassifier(max_epochs=2).fit(Graph([[0, 1], [1, 0]], labels=[0, 1]))
    with pytest.raises(ValueError, match="test or validation nodes, got neither"):
        plot.confusion(own)


def test_map_is_the_same_for_any_number_of_threads(clf):
    from threadpoolctl import threadpool_limits

    rows = clf.transform()[:400]
    maps = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            maps.append(layouts.embedding_map(rows))
    np.testing.assert_array_equal(*maps)
    assert (layouts.embedding_map(rows, random_state=1) != maps[0]).any()


def test_map_keeps_neighbours_together(cora, clf):
    """The ten nearest nodes on the map have the same predicted class as often as those in truth."""
    rows = clf.transform()[:1000]
    found = clf.predict_proba()[:1000].argmax(axis=1)
    agree = {}
    for name, places in (("hidden", rows), ("map", layouts.embedding_map(rows))):
        nearest, _ = layouts._nearest(places, places, 10, skip_own=True)
        agree[name] = (found[nearest] == found[:, None]).mean()
    assert agree["map"] > agree["hidden"] - 0.05 > 0.7


def test_large_graphs_are_placed_beside_a_sample(monkeypatch):
    monkeypatch.setattr(layouts, "MAX_LANDMARKS", 60)
    rng = np.random.default_rng(0)
    group = np.arange(300) % 3
    rows = 10 * np.eye(3)[group] + rng.normal(size=(300, 3))
    steps = []
    places = layouts.embedding_map(rows, on_step=lambda *step: steps.append(step))
    assert places.shape == (300, 2)
    assert np.isfinite(places).all()
    nearest, _ = layouts._nearest(places, places, 5, skip_own=True)
    assert (group[nearest] == group[:, None]).mean() > 0.99
    assert steps[-1] == (300, 300)


@pytest.mark.parametrize("rows", [np.zeros((1, 3)), np.zeros((30, 3)), np.ones((2, 1))])
def test_map_of_next_to_nothing(rows):
    places = layouts.embedding_map(rows)
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()


def test_linked_nodes_are_drawn_near_each_other():
    blocks = sp.block_diag([sp.csr_array(np.ones((8, 8)))] * 3, format="csr")
    ends = sp.csr_array(([1.0], ([0], [8])), shape=(26, 26))
    blocks = sp.csr_array(sp.block_diag([blocks, np.zeros((2, 2))], format="csr"))
    places = layouts.graph_layout(sp.csr_array(blocks + ends + ends.T))
    assert np.isfinite(places).all()
    group = np.repeat([0, 1, 2], 8)
    centres = np.array([places[:24][group == k].mean(axis=0) for k in range(3)])
    inside = np.linalg.norm(places[:24] - centres[group], axis=1).mean()
    between = np.linalg.norm(centres - np.roll(centres, 1, axis=0), axis=1).min()
    assert inside < between / 2
