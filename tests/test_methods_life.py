"""Every method has the same life: train, save, load, predict, explain, suggest, doubt, report."""

import json
import shlex

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import COLUMNS, TABLES, write_papers

from graphconv import Graph, load_dataset
from graphconv.estimators import fitted_method as methods
from graphconv.estimators.baselines import make_estimator
from graphconv.results.removal import explain_by_removal

# One that labels new nodes, one that does not.
METHODS = ["sgc", "label-propagation"]


@pytest.fixture
def papers(tmp_path):
    return write_papers(tmp_path / "papers")


@pytest.mark.parametrize("method", METHODS)
def test_a_baseline_is_trained_and_used_as_a_gcn_is(run, papers, tmp_path, method):
    run("train", *TABLES, *COLUMNS, "--model", method, "--runs", 2, "--coverage", 0.8, "-o", "m")
    assert {file.name for file in (tmp_path / "m").iterdir()} == {
        "graph.npz",
        "model.json",
        "model.safetensors",
        "out_of_fold.npz",
        "predictions.csv",
        "provenance.json",
    }
    assert run("predict", "m", "-o", "again.csv", "--json").json["n_nodes"] == 150
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "m/predictions.csv").read_text()
    header = (tmp_path / "again.csv").read_text().splitlines()[0].split(",")
    assert header[:5] == ["id", "label", "confidence", "set", "set_size"]
    first = (tmp_path / "again.csv").read_text().splitlines()[1].split(",")[0]
    why = run("explain", "m", first, "--json").json
    assert str(why["node"]) == first
    assert why["n_edges"] > 0
    chosen = run("suggest", "m", "-n", 3, "--json").json["suggestions"]
    assert len(chosen) == 3
    assert chosen[0]["set_size"] >= 1
    doubted = run("doubt", "m", "-n", 2, "-o", "wrong.csv", "--json").json
    assert 0 < doubted["n_doubtful"] < doubted["n_labels"] == 46
    assert len((tmp_path / "wrong.csv").read_text().splitlines()) == doubted["n_doubtful"] + 1
    run("report", "m")
    page = (tmp_path / "m/report.html").read_text(encoding="utf-8")
    assert "Classes that a node may have" in page
    assert "does not learn epoch by epoch" in page


def test_new_nodes_where_the_method_allows(run, papers):
    run("train", *TABLES, *COLUMNS, "--model", "sgc", "-o", "sgc", "-q")
    assert run("predict", "sgc", *TABLES, "--json").json["n_nodes"] == 150
    pytest.importorskip("gensim", reason="DeepWalk needs gensim")
    run("train", *TABLES, *COLUMNS, "--model", "deepwalk", "-o", "walks", "-q")
    edges = papers / "edges.csv"
    edges.write_text(edges.read_text() + edges.read_text().splitlines()[1] + "\n")
    nodes = papers / "nodes.csv"
    lines = nodes.read_text().splitlines()
    nodes.write_text("\n".join([*lines, lines[1].replace(lines[1].split(",")[0], "new", 1)]) + "\n")
    assert run("predict", "sgc", *TABLES, "--json").json["n_nodes"] == 151
    done = run("predict", "walks", *TABLES, expect=2)
    assert "labels only the nodes it was trained with" in done.err[-1]
    assert "has no hidden activations" in run("embed", "walks", expect=2).err[-1]


def test_doubt_of_a_gcn_trains_folds_once(run, papers, tmp_path):
    run("train", *TABLES, *COLUMNS, "--max-epochs", 10, "-o", "m", "-q")
    assert not (tmp_path / "m/out_of_fold.npz").exists()
    first = run("doubt", "m")
    assert "training 5 models" in first.err[0]
    second = run("doubt", "m")
    assert second.out == first.out
    assert not any("training" in line for line in second.err)
    run("doubt", "m", "-n", 0, expect=2)


@pytest.mark.parametrize(
    ("coverage", "message"),
    [
        (1, "--coverage must be above 0 and below 1, got 1.0"),
        (0.99, "a coverage of 0.99 needs at least 99 labelled nodes, got 37"),
    ],
)
def test_coverage_is_refused_before_training(run, papers, tmp_path, coverage, message):
    done = run("train", *TABLES, *COLUMNS, "--coverage", coverage, expect=2)
    assert done.err[-1] == f"graphconv: {message}"
    assert not (tmp_path / "runs").exists()


def test_accuracy_without_test_nodes_is_cross_validated(run, papers):
    options = (*TABLES, *COLUMNS, "--max-epochs", 20, "--split", "fraction:0.7,0.3,0")
    found = run("train", *options, "--json").json
    assert found["test_accuracy"] is None
    assert found["accuracy"]["from"] == "cross-validation"
    assert found["accuracy"]["low"] < found["accuracy"]["share"] < found["accuracy"]["high"]
    assert "accuracy, by cross-validation" in run("train", *options).out
    run("train", *options, "--report")
    assert "by cross-validation" in (papers.parent / "runs/papers/report.html").read_text()


def test_parameters_of_a_saved_method_are_checked(tmp_path):
    fitted = methods.fit_method(load_dataset("karate"), "sgc", {"n_hops": 1}, (0, 1))
    methods.save_method(methods.SavedMethod(fitted), tmp_path / "m")
    path = tmp_path / "m/model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps({**description, "settings": {"n_hopps": 1}}))
    with pytest.raises(ValueError, match="sgc must get parameters among"):
        methods.load_saved(tmp_path / "m")
    path.write_text(json.dumps({**description, "seeds": [0]}))
    with pytest.raises(ValueError, match=r"complete graphconv model, but: .* shape \(34, 1, 4\)"):
        methods.load_saved(tmp_path / "m")


def test_a_loaded_method_labels_another_graph_as_before(tmp_path):
    graph = load_dataset("karate")
    fitted = methods.fit_method(graph, "sgc", {})
    methods.save_method(methods.SavedMethod(fitted), tmp_path / "m")
    again = methods.load_saved(tmp_path / "m").fitted
    changed = graph.adjacency.tolil()
    changed[0, 1] = changed[1, 0] = 0
    other = Graph(changed.tocsr())
    np.testing.assert_array_equal(
        again.ensemble_probabilities(other), fitted.ensemble_probabilities(other)
    )
    expected = make_estimator("sgc", random_state=0).fit(graph).predict_proba(other)
    np.testing.assert_allclose(again.ensemble_probabilities(other), expected, atol=1e-6)


def test_removal_finds_the_edge_and_the_feature_that_matter():
    """A node is "b" if it has a neighbour or its first feature."""

    def relabel(graph):
        first = np.asarray(graph.features)[:, 0] > 0
        share = 0.05 + 0.5 * (graph.degree > 0) + 0.4 * first
        return np.stack([1 - share, share], axis=1)

    graph = Graph([[0, 2, 0], [2, 0, 0], [0, 0, 0]], features=[[1.0, 3], [0, 0], [0, 0]])
    why = explain_by_removal(relabel, graph, 0, ["a", "b"])
    assert why.edges[0].item == (0, 1)
    assert why.edges[0].probability == pytest.approx(0.5)
    assert why.edges[0].label_without == "a"
    assert why.features[0].item == 0
    assert why.features[0].probability == pytest.approx(0.4)
    assert why.features[1].probability == 0
    assert [title for title, _, _ in why.tables()] == ["Features", "Edges"]  # all are its own
    few = explain_by_removal(relabel, graph, 0, ["a", "b"], label="a", most_edits=1)
    assert few.label == "a"
    assert few.notes == ("of 2 features the 1 heaviest were tried",)
    with pytest.raises(ValueError, match="class must be one of a, b"):
        explain_by_removal(relabel, graph, 0, ["a", "b"], label="c")


def test_removal_names_edges_as_they_lead():
    """From 0 to 1, from 2 to 0, and between 0 and 3 in both directions."""
    edges = np.zeros((4, 4))
    edges[0, 1] = edges[2, 0] = edges[0, 3] = edges[3, 0] = 1
    graph = Graph(edges, directed=True, node_ids=list("wxyz"))
    why = explain_by_removal(lambda _: np.full((4, 2), 0.5), graph, "w", ["a", "b"])
    assert {part.item for part in why.edges} == {("w", "x"), ("y", "w"), ("w", "z")}
    both_ways = Graph(edges + edges.T, node_ids=list("wxyz"))
    why = explain_by_removal(lambda _: np.full((4, 2), 0.5), both_ways, "w", ["a", "b"])
    assert {part.item for part in why.edges} == {("w", "x"), ("w", "y"), ("w", "z")}


@pytest.mark.parametrize("as_matrix", [np.array, sp.csr_array])
def test_without_a_measured_feature_a_node_has_the_usual_value(as_matrix):
    """A node is the more "b" the later its year: 2002 is little beside the median, all beside 0."""

    def relabel(graph):
        year = graph.features[:, [0]]
        share = 0.5 + 0.01 * (np.ravel(year.toarray() if sp.issparse(year) else year) - 2000)
        share = np.clip(share, 0, 1)
        return np.stack([1 - share, share], axis=1)

    features = as_matrix([[2002.0, 0], [1999, 0], [2000, 1]])
    graph = Graph(np.zeros((3, 3)), features=features, feature_names=["year", "word"])
    why = explain_by_removal(relabel, graph, 0, ["a", "b"])
    assert [part.item for part in why.features] == ["year"]
    assert why.features[0].probability == pytest.approx(0.02)
    assert why.features[0].detail == "value 2002, usually 2000"


def test_features_are_not_tried_where_the_method_ignores_them():
    graph = Graph([[0, 1], [1, 0]], features=[[1.0], [2.0]])
    why = explain_by_removal(lambda _: np.full((2, 2), 0.5), graph, 0, ["a", "b"])
    assert why.features == ()


def test_removal_bears_a_method_that_is_certain():
    graph = Graph([[0, 1], [1, 0]])
    certain = np.array([[1, 0], [1, 0]], dtype=np.float32)
    why = explain_by_removal(lambda _: certain, graph, 0, ["a", "b"])
    assert why.edges[0].log_odds == 0
    assert why.log_odds == pytest.approx(np.log(1e9))  # all but certain


def test_thirty_edges_are_tried():
    star = np.zeros((32, 32))
    star[0, 1:] = star[1:, 0] = np.arange(1, 32)
    why = explain_by_removal(lambda graph: np.full((32, 2), 0.5), Graph(star), 0, ["a", "b"])
    assert sorted(part.item[1] for part in why.edges) == list(range(2, 32))  # the heaviest
    assert why.notes == ("of 31 edges the 30 heaviest were tried",)


def test_compare_ends_with_a_command_that_works(run, papers):
    names = ("--methods", "sgc,label-propagation", "--splits", 2)
    done = run("compare", *TABLES, *COLUMNS, *names)
    command = done.out.splitlines()[-1]
    assert command.startswith("graphconv train --edges ")
    trained = run(*shlex.split(command)[1:], "--json").json
    assert trained["model"] in ("sgc", "label-propagation")
    assert run("compare", *TABLES, *COLUMNS, *names, "--json").json["command"] == command


def test_several_labels_are_measured_by_what_is_named(run, tmp_path):
    rng = np.random.default_rng(0)
    topics = rng.integers(2, size=(60, 2))
    rows = [
        f"{n},{';'.join(np.array(['a', 'b'])[t > 0]) or 'c'},{t[0]},{t[1]}"
        for n, t in enumerate(topics)
    ]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,x,y", *rows]) + "\n")
    edges = [f"{n},{(n + 1) % 60}" for n in range(60)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label-separator", ";")
    done = run("train", *tables, "--max-epochs", 30, "-o", "m")
    for words in ("test micro F1", "test macro F1", "nodes with all labels right", "pairs right"):
        assert words in done.out
    assert "accuracy" not in done.out
    found = run("train", *tables, "--max-epochs", 30, "-o", "m", "--json").json
    assert found["accuracy"]["share"] == found["test_all_labels_right"]
    assert "test_accuracy" not in found
    done = run("train", *tables, "--coverage", 0.9, expect=2)
    assert done.err[-1] == "graphconv: --coverage is for one label per node, got several labels"
    assert "one per node" in run("doubt", "m", expect=2).err[-1]


def by_columns(graph):
    """A method that adds its columns up, the first with the weight 0.01, the second 0.02, ..."""
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    share = 0.3 + np.nan_to_num(features @ (0.01 * np.arange(1, features.shape[1] + 1)))
    return np.stack([1 - share, share], axis=1)


@pytest.mark.parametrize(
    ("as_matrix", "measured", "first"),
    [
        (np.array, [12, 10, 8, 10, 12], "a"),
        (sp.csr_array, [12, 10, 8, 10, 12], "b"),
        (sp.csr_array, [12, 10, 2, 10, 18], "a"),
    ],
)
def test_the_most_unusual_features_are_tried_first(as_matrix, measured, first):
    # Medians 0, 10, 0 and 3; columns a and b of node 0 are 1 and 2 away from them.
    columns = [[1, 1, 0, 0, 0], measured, [0, 0, 0, 0, 7], [3, 3, 3, 3, 3]]
    features = as_matrix(np.array(columns, dtype=float).T)
    graph = Graph(np.zeros((5, 5)), features=features, feature_names=["a", "b", "c", "d"])
    why = explain_by_removal(by_columns, graph, 0, ["x", "y"])
    assert [(part.item, part.detail) for part in why.features] == [
        ("b", "value 12, usually 10"), ("a", "value 1"),
    ]  # fmt: skip
    assert [part.probability for part in why.features] == pytest.approx([0.04, 0.01])
    one = explain_by_removal(by_columns, graph, 0, ["x", "y"], most_edits=1)
    # That is 2.0 and 1.3 or 0.4 times their spread; of sparse columns that few have it counts as 1.
    assert [part.item for part in one.features] == [first]
    assert one.notes == ("of 2 features the 1 heaviest were tried",)
    both = explain_by_removal(by_columns, graph, 0, ["x", "y"], most_edits=2)
    assert both.notes == ()


def test_all_that_removal_says_by_hand():
    """A node's share of class b grows with the weight of its edges, in either direction."""

    def by_weight(graph):
        weight = np.asarray(graph.adjacency.sum(axis=1)).ravel()
        share = 0.1 + 0.1 * (weight + np.asarray(graph.adjacency.sum(axis=0)).ravel())
        return np.stack([1 - share, share], axis=1)

    adjacency = np.zeros((4, 4))
    adjacency[0, 1], adjacency[2, 0], adjacency[0, 3], adjacency[0, 0] = 1, 3, 2, 0.5
    graph = Graph(adjacency, node_ids=list("wxyz"), directed=True)
    why = explain_by_removal(by_weight, graph, "w", ["a", "b"])
    assert (why.label, why.predicted, why.directed, why.n_hops) == ("b", "b", True, 1)
    assert why.probability == pytest.approx(0.8)
    assert why.log_odds == pytest.approx(np.log(4))
    assert [(part.item, part.label_without) for part in why.edges] == [
        (("y", "w"), "a"), (("w", "z"), "b"), (("w", "x"), "b"),
    ]  # fmt: skip
    assert [part.probability for part in why.edges] == pytest.approx([0.3, 0.2, 0.1])
    odds = [np.log(4) - np.log(p / (1 - p)) for p in (0.5, 0.6, 0.7)]
    assert [part.log_odds for part in why.edges] == pytest.approx(odds)
    assert why.distances == {"w": 0, "y": 1, "z": 1, "x": 1}
    assert why.labels == {"w": "b", "x": "a", "y": "a", "z": "a"}
    few = explain_by_removal(by_weight, graph, "w", ["a", "b"], most_edits=2)
    assert [part.item for part in few.edges] == [("y", "w"), ("w", "z")]  # the heaviest
    assert few.notes == ("of 3 edges the 2 heaviest were tried",)
    assert graph.adjacency.nnz == 4  # the graph itself stays as it was
    other = explain_by_removal(by_weight, graph, "w", ["a", "b"], label="a")
    assert other.probability == pytest.approx(0.2)
    assert [part.probability for part in other.edges] == pytest.approx([-0.3, -0.2, -0.1])


@pytest.mark.parametrize("as_matrix", [np.array, sp.csr_array])
def test_of_a_feature_that_half_of_the_nodes_have_the_median_is_usual(as_matrix):
    features = as_matrix([[4.0], [2.0], [0.0], [0.0]])
    graph = Graph(np.zeros((4, 4)), features=features, feature_names=["a"])
    why = explain_by_removal(by_columns, graph, 0, ["x", "y"])
    assert [part.detail for part in why.features] == ["value 4, usually 1"]
