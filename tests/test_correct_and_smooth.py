"""Tests of correct and smooth: a graph of five nodes by hand, and its life after a model."""

import numpy as np
import pytest

from graphconv import GCNClassifier, Graph, load_dataset, load_model
from graphconv.training import correct_and_smooth as module
from graphconv.training.correct_and_smooth import correct_and_smooth, known_nodes
from graphconv.training.fit import fit_gcn

# 0 - 1 - 2 and 3 - 4; nodes 0 and 3 are known.
EDGES = np.zeros((5, 5))
for first, second in ((0, 1), (1, 2), (3, 4)):
    EDGES[first, second] = EDGES[second, first] = 1
FIVE = Graph(
    EDGES, np.arange(10.0).reshape(5, 2), labels=[0, -1, -1, 1, -1], node_ids=list("abcde")
)
SAID = np.array([[0.4, 0.6], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7], [0.6, 0.4]], dtype=np.float32)


def by_hand(n_steps):
    """The equations with numpy's dense matrices, in double precision."""
    degree = EDGES.sum(axis=1)
    s = EDGES / np.sqrt(np.outer(degree, degree))
    known, answers = [0, 3], np.eye(2)

    def walk(start, share):
        now = start
        for _ in range(n_steps):
            now = (1 - share) * start + share * s @ now
        return now

    errors = np.zeros((5, 2))
    errors[known] = answers - SAID[known]  # (0.6, -0.6) and (-0.3, 0.3)
    spread = walk(errors, 0.8)
    size = (1.2 + 0.6) / 2
    corrected = SAID + size * spread / np.abs(spread).sum(axis=1, keepdims=True)
    corrected[known] = answers
    smooth = np.maximum(walk(corrected, 0.95), 0)
    return smooth / smooth.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_steps", [2, 50])
def test_equals_its_equations_on_five_nodes(monkeypatch, n_steps):
    # After one step node 2 would not have heard of an error yet; 50 are taken unless told.
    if n_steps != 50:
        monkeypatch.setattr(module, "N_STEPS", n_steps)
    known = np.array([0, 3])
    found = correct_and_smooth(FIVE, SAID[:, None], known, np.array([0, 1]))
    np.testing.assert_allclose(found[:, 0], by_hand(n_steps), atol=1e-5)
    assert found[:, 0].argmax(axis=1).tolist() == [0, 0, 0, 1, 1]


def test_nodes_without_neighbours_keep_what_the_model_said():
    lonely = Graph([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    said = np.array([[[0.5, 0.5]], [[0.5, 0.5]], [[0.2, 0.8]]], dtype=np.float32)
    found = correct_and_smooth(lonely, said, np.array([0]), np.array([0]))
    np.testing.assert_allclose(found[2], said[2], atol=1e-6)


@pytest.mark.parametrize("of_other", [0.5, 0.9, 0.1])  # what is corrected may leave the bounds
def test_several_labels_stay_between_none_and_all(of_other):
    pair = Graph([[0, 1], [1, 0]])
    said = np.full((2, 1, 3), 0.5, dtype=np.float32)
    said[1] = of_other
    found = correct_and_smooth(pair, said, np.array([0]), np.array([[1, 0, 1]]))
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[1, 0] > 0.5).tolist() == [True, False, True]


def test_without_known_labels_nothing_changes():
    nobody = np.empty(0, dtype=np.int64)
    assert correct_and_smooth(FIVE, SAID[:, None], nobody, nobody) is not None
    np.testing.assert_array_equal(
        correct_and_smooth(FIVE, SAID[:, None], nobody, nobody), SAID[:, None]
    )


def test_known_nodes_are_found_by_id_in_a_larger_graph():
    order = [4, 0, 3, 1, 2]
    larger = Graph(
        EDGES[np.ix_(order, order)],
        FIVE.features[order],
        node_ids=[FIVE.node_ids[k] for k in order],
    )
    here, there = known_nodes(FIVE, larger)
    assert here.tolist() == [1, 2]
    assert there.tolist() == [0, 3]


def test_rows_that_are_other_nodes_are_not_taken_for_known_ones():
    other = Graph(EDGES, FIVE.features + 1, node_ids=FIVE.node_ids)
    assert known_nodes(FIVE, other)[0].tolist() == []


def test_a_perceptron_gains_and_is_saved(tmp_path):
    cora = load_dataset("cora")
    wanted = np.array(cora.class_names)[cora.labels[cora.test_index]]
    settings = {"random_state": 0, "propagation": "none", "max_epochs": 60}
    plain = GCNClassifier(**settings).fit(cora)
    better = GCNClassifier(**settings, correct_and_smooth=True).fit(cora)
    accuracy = [(clf.transduction_[cora.test_index] == wanted).mean() for clf in (plain, better)]
    assert accuracy[1] > accuracy[0] + 0.1
    better.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(), better.predict_proba())
    # The same nodes in another order are the same nodes.
    np.testing.assert_allclose(better.predict_proba(cora), better.predict_proba(), atol=1e-6)
    assert better.explain(cora.node_ids[int(cora.test_index[0])]).edges


def test_some_nodes_get_what_all_nodes_get():
    fitted = fit_gcn(load_dataset("karate"), overrides={"correct_and_smooth": True})
    some = np.array([3, 30])
    np.testing.assert_array_equal(fitted.probabilities(nodes=some), fitted.probabilities()[some])


def test_a_graph_on_disk_is_refused(tmp_path):
    from graphconv.storage.stored_graph import open_graph, store_graph

    store_graph(load_dataset("karate"), tmp_path / "graph")
    with pytest.raises(ValueError, match="correct_and_smooth must be off for a graph on disk"):
        fit_gcn(open_graph(tmp_path / "graph"), overrides={"correct_and_smooth": True})


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_faint_errors_correct_nothing(monkeypatch, share):
    """What has thinned out below a thousandth of the mean error says nothing of a node."""
    chain = np.diag(np.ones(9), 1)
    path = Graph(chain + chain.T)
    said = np.tile(np.float32([share, 1 - share]), (10, 1))[:, None]
    seen = []

    def walk_on(*graph):
        walk = walk_before(*graph)

        def watched(start, share):
            seen.append((start.copy(), walk(start, share)))
            return seen[-1][1]

        return watched

    walk_before = module._walk_on
    monkeypatch.setattr(module, "_walk_on", walk_on)
    monkeypatch.setattr(module, "N_STEPS", 6)
    correct_and_smooth(path, said, np.array([0]), np.array([0]))
    (_, errors), (corrected, _) = seen
    spread = np.abs(errors[:, 0]).sum(axis=1)
    size = 2 * (1 - share)  # of the one known error
    is_told = spread > 0.001 * size
    assert 1 < is_told.sum() < 9
    moved = corrected[:, 0, 0] - share
    assert moved[1:] == pytest.approx(np.where(is_told[1:], size / 2, 0), abs=1e-6)
    assert corrected[0, 0].tolist() == [1, 0]  # known labels are in their places


def test_runs_are_corrected_each_by_itself():
    other = np.roll(SAID, 1, axis=0)
    both = np.stack([SAID, other], axis=1)
    known, labels = np.array([0, 3]), np.array([0, 1])
    found = correct_and_smooth(FIVE, both, known, labels)
    for run, said in enumerate((SAID, other)):
        alone = correct_and_smooth(FIVE, said[:, None], known, labels)
        np.testing.assert_allclose(found[:, run], alone[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=2), 1, atol=1e-6)


def test_edges_go_both_ways_and_count_by_their_weight():
    known, labels = np.array([0, 3]), np.array([0, 1])
    one_way = Graph(np.triu(EDGES), directed=True)  # no edge leaves the last node
    both = correct_and_smooth(FIVE, SAID[:, None], known, labels)
    np.testing.assert_allclose(
        correct_and_smooth(one_way, SAID[:, None], known, labels), both, atol=1e-6
    )
    heavier = EDGES.copy()
    heavier[1, 2] = heavier[2, 1] = 9
    weighted = correct_and_smooth(Graph(heavier), SAID[:, None], known, labels)
    assert np.abs(weighted - both).max() > 0.01


@pytest.mark.parametrize(("n_same", "is_known"), [(0, False), (1, True), (2, True)])
def test_half_of_the_known_nodes_must_have_their_features(n_same, is_known):
    features = FIVE.features.copy()
    features[[0, 3][n_same:]] += 1
    other = Graph(EDGES, features, node_ids=FIVE.node_ids)
    here, there = known_nodes(FIVE, other)
    assert here.tolist() == there.tolist() == ([0, 3] if is_known else [])
    bare = Graph(EDGES, labels=FIVE.labels, node_ids=FIVE.node_ids)
    assert known_nodes(bare, Graph(EDGES, node_ids=list("edcba")))[0].tolist() == [4, 1]
    strangers = Graph(EDGES, FIVE.features, node_ids=list("vwxyz"))
    assert known_nodes(FIVE, strangers)[0].tolist() == []
    assert known_nodes(FIVE, FIVE)[0].tolist() == [0, 3]


def test_what_becomes_nothing_stays_as_it_was(monkeypatch):
    """Where the corrected shares of all classes fall below zero, the model's own are kept."""
    monkeypatch.setattr(module, "_walk_on", lambda *graph: lambda start, share: -np.abs(start))
    found = correct_and_smooth(FIVE, SAID[:, None], np.array([0]), np.array([0]))
    np.testing.assert_array_equal(found[:, 0], SAID)


def test_errors_of_more_than_a_thousandth_are_told(monkeypatch):
    """Of a known error of size 1, what has reached nodes 1 to 3: 0.5, 1 and 1.5 thousandths."""
    starts = []
    faint = np.zeros((4, 1, 2), dtype=np.float32)
    faint[1:, 0, 0] = 0.0005, 0.001, 0.0015

    def walk(start, share):
        starts.append(start)
        return faint if len(starts) == 1 else start

    monkeypatch.setattr(module, "_walk_on", lambda *graph: walk)
    said = np.full((4, 1, 2), 0.5, dtype=np.float32)
    path = Graph(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    correct_and_smooth(path, said, np.array([0]), np.array([0]))
    assert starts[1][:, 0].tolist() == [[1, 0], [0.5, 0.5], [0.5, 0.5], [1.5, 0.5]]
