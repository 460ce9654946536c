"""Tests of explain: every figure equals a plain recompute on the edited whole graph."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.io.files import json_text
from graphconv.models.settings import RULES
from graphconv.results import explain as explain_module
from graphconv.results import neighbourhood as neighbourhood_module
from graphconv.results.explain import explain, position_of
from graphconv.results.explanation import Contribution, Explanation
from graphconv.results.neighbourhood import Edit, Neighbourhood
from graphconv.training.calibration import Calibration
from graphconv.training.fit import fit_gcn

N_NODES = 16
BRIEF = {"max_epochs": 8, "hidden": (4,), "dropout": 0.0}


def random_graph(directed, weighted, features, seed=3):
    """A graph with a self-loop and a hanging node, all of its parts random."""
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((N_NODES, N_NODES)) < 0.15, 1).astype(float)
    dense[2, 2] = 1
    if weighted:
        dense *= rng.uniform(0.1, 3, dense.shape)
    adjacency = dense if directed else np.maximum(dense, dense.T)
    if directed:
        adjacency = np.maximum(adjacency, np.triu(rng.random(dense.shape) < 0.1, 1).T)
    counts = rng.poisson(0.7, (N_NODES, 6)) * rng.uniform(0.5, 2, (N_NODES, 6))
    matrix = {"sparse": sp.csr_array(counts), "dense": counts + 1, "none": None}[features]
    ids = [f"n{number}" for number in range(N_NODES)]
    labels = rng.integers(3, size=N_NODES)
    return Graph(adjacency, matrix, labels, node_ids=ids, directed=directed)


def without_edge(graph, edge):
    one, other = (position_of(graph, end) for end in edge)
    matrix = graph.adjacency.toarray()
    assert matrix[one, other] > 0
    matrix[one, other] = 0
    if not graph.directed:
        matrix[other, one] = 0
    return replace(graph, adjacency=matrix)


def without_node(graph, node):
    matrix = graph.adjacency.toarray()
    matrix[position_of(graph, node)] = 0
    matrix[:, position_of(graph, node)] = 0
    return replace(graph, adjacency=matrix)


def without_feature(graph, column, scaler):
    is_sparse = sp.issparse(graph.features)
    matrix = graph.features.toarray() if is_sparse else graph.features.copy()
    matrix[:, column] = 0 if scaler.mean is None else scaler.mean[column]
    return replace(graph, features=sp.csr_array(matrix) if is_sparse else matrix)


def assert_exact(fitted, graph, node):
    """All contributions of an explanation equal what the whole edited graph gives."""
    why = explain(fitted, node, graph)
    position = position_of(graph, node)
    target = graph.class_names.index(why.label)

    def probability(edited):
        return float(fitted.ensemble_probabilities(edited)[position, target])

    assert why.probability == pytest.approx(probability(graph), abs=2e-6)
    edited = [(part, without_edge(graph, part.item)) for part in why.edges]
    edited += [(part, without_node(graph, part.item)) for part in why.neighbours]
    edited += [(part, without_feature(graph, part.item, fitted.scaler)) for part in why.features]
    for part, graph_without in edited:
        expected = probability(graph) - probability(graph_without)
        assert part.probability == pytest.approx(expected, abs=5e-6), part
        p, q = probability(graph), probability(graph_without)
        odds = np.log(p / (1 - p)) - np.log(q / (1 - q))
        assert part.log_odds == pytest.approx(odds, abs=1e-3), part
    return why


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_contributions_equal_a_recompute_on_the_edited_graph(rule, directed, weighted):
    for features in ("sparse", "dense", "none"):
        graph = random_graph(directed, weighted, features)
        overrides = {**BRIEF, "propagation": rule, "scaling": "row"}
        fitted = fit_gcn(graph, overrides=overrides, seeds=[1, 2])
        for node in ("n2", "n9"):
            why = assert_exact(fitted, graph, node)
            assert bool(why.features) == (features != "none")
            assert bool(why.edges) == (rule != "none")


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("scaling", ["row", "l2", "standard", "none"])
def test_features_are_scaled_anew(scaling, features):
    graph = random_graph(False, False, features)
    fitted = fit_gcn(graph, overrides={**BRIEF, "scaling": scaling})
    why = assert_exact(fitted, graph, "n5")
    assert max(abs(part.probability) for part in why.features) > 1e-4


@pytest.mark.parametrize("directed", [False, True])
def test_learned_self_loops_three_layers_and_other_graphs(directed):
    graph = random_graph(directed, True, "sparse")
    overrides = {**BRIEF, "hidden": (4, 4), "residual": True, "self_loop_weight": "learn"}
    fitted = fit_gcn(graph, overrides=overrides, seeds=[0, 5, 9])
    assert_exact(fitted, graph, "n3")
    assert_exact(fitted, random_graph(directed, True, "sparse", seed=8), "n3")


def test_which_edges_and_neighbours_are_listed():
    # 0 - 1 - 2 - 3 - 4: two layers see 2; the edge 2 - 3 only counts in the degree of 2.
    path = np.diag([1, 1, 1, 1], 1) + np.diag([1, 1, 1, 1], -1)
    graph = Graph(path, labels=[0, 0, 1, 1, 1])
    why = explain(fit_gcn(graph, overrides=BRIEF), 0)
    assert {part.item for part in why.edges} == {(0, 1), (1, 2)}
    assert {part.item for part in why.neighbours} == {1, 2}
    assert why.distances == {0: 0, 1: 1, 2: 2}
    assert why.features == ()
    # Both directions of an edge go, so that the degree of the farther end is right as well.
    assert_exact(fit_gcn(graph, overrides=BRIEF), graph, 0)
    one_way = Graph(np.triu(path), labels=[0, 0, 1, 1, 1], directed=True)
    fitted = fit_gcn(one_way, overrides=BRIEF)
    assert {part.item for part in assert_exact(fitted, one_way, 0).edges} == {(0, 1), (1, 2)}
    assert {part.item for part in assert_exact(fitted, one_way, 4).edges} == set()
    # From the farthest node back an edge carries nothing to where it leads.
    back = np.triu(path)
    back[2, 0] = 1
    back = Graph(back, labels=[0, 0, 1, 1, 1], directed=True)
    why = assert_exact(fit_gcn(back, overrides=BRIEF), back, 0)
    assert {part.item for part in why.edges} == {(0, 1), (1, 2)}


def test_several_entries_at_once_are_exact():
    graph = random_graph(False, True, "sparse")
    fitted = fit_gcn(graph, overrides=BRIEF)
    around = Neighbourhood(fitted, graph, 9)
    rows, columns = around.entry_row, around.entry_column
    own = np.flatnonzero((rows == 0) | (columns == 0))
    shares = around.probabilities([Edit(entries=tuple(own.tolist())), Edit(node=0)])
    edited = fitted.probabilities(without_node(graph, "n9"))[9]
    np.testing.assert_allclose(shares, np.stack([edited, edited]), atol=2e-6)


def test_small_chunks_change_nothing(monkeypatch):
    karate = load_dataset("karate")
    fitted = fit_gcn(karate)
    whole = explain(fitted, 5)
    monkeypatch.setattr(neighbourhood_module, "NUMBERS_AT_ONCE", 1)
    again = explain(fitted, 5)
    for kind in ("edges", "neighbours"):
        before = {part.item: part.probability for part in getattr(whole, kind)}
        after = {part.item: part.probability for part in getattr(again, kind)}
        assert after == pytest.approx(before, abs=1e-6)


def test_a_hub_is_cut_down_to_what_the_model_uses_most(monkeypatch):
    karate = load_dataset("karate")
    fitted = fit_gcn(karate)
    full = {part.item: part.probability for part in explain(fitted, 0).edges}
    n_own = karate.adjacency.indptr[1]
    monkeypatch.setattr(explain_module, "WORK", 0)
    monkeypatch.setattr(explain_module, "FEWEST_EDITS", int(n_own))
    why = explain(fitted, 0)
    assert len(why.edges) == n_own
    assert all(0 in part.item for part in why.edges)  # its own edges come first
    assert why.notes[0].startswith(f"{n_own} of ")
    assert "random walk of 2 steps" in why.notes[0]
    assert len(full) > n_own
    for part in why.edges:
        assert part.probability == pytest.approx(full[part.item], abs=1e-6)


def test_neighbours_are_cut_down_to_those_that_a_walk_visits_most(monkeypatch):
    """Visits on the way count, not only where it ends."""
    karate = load_dataset("karate")
    looped = karate.adjacency.toarray() + np.eye(34)
    step = looped / looped.sum(axis=1, keepdims=True)
    first = step[8]
    second = first @ step

    def most(use):
        order = np.argsort(-use, kind="stable")
        return set(order[order != 8][:5].tolist())

    monkeypatch.setattr(explain_module, "WORK", 0)
    monkeypatch.setattr(explain_module, "FEWEST_EDITS", 5)
    found = {part.item for part in explain(fit_gcn(karate), 8).neighbours}
    assert found == most(first + second) != most(second)


@pytest.mark.parametrize(("steps", "n_tried"), [(2, 40), (8, 10)])
def test_what_sees_far_is_cut_down_more(monkeypatch, steps, n_tried):
    karate = load_dataset("karate")
    fitted = fit_gcn(karate, overrides={"model": "grand", "steps": steps, "max_epochs": 2})
    size = Neighbourhood(fitted, karate, 0).size
    monkeypatch.setattr(explain_module, "WORK", 40 * size)
    monkeypatch.setattr(explain_module, "FEWEST_EDITS", 1)
    assert len(explain(fitted, 0).edges) == n_tried


def test_another_class_and_several_labels():
    graph = random_graph(False, False, "dense")
    fitted = fit_gcn(graph, overrides=BRIEF)
    shares = fitted.ensemble_probabilities()[4]
    least = int(shares.argmin())
    why = explain(fitted, "n4", label=least)
    assert (why.label, why.predicted) == (least, int(shares.argmax()))
    assert why.probability == pytest.approx(shares[least], abs=1e-6)
    assert f"the probability of {least} is" in why.sentence

    indicator = np.eye(3, dtype=int)[graph.labels]
    several = replace(graph, labels=indicator)
    fitted = fit_gcn(several, overrides=BRIEF)
    why = explain(fitted, "n4")
    shares = fitted.ensemble_probabilities()[4]
    assert why.probability == pytest.approx(shares.max(), abs=1e-6)
    assert why.log_odds == pytest.approx(np.log(shares.max() / (1 - shares.max())), abs=1e-4)


def test_bad_requests():
    graph = random_graph(False, False, "sparse")
    fitted = fit_gcn(graph, overrides=BRIEF)
    with pytest.raises(ValueError, match=r"16 node ids, got 'm13' \(did you mean 'n13'\?\)"):
        explain(fitted, "m13")
    with pytest.raises(ValueError, match="class must be one of 0, 1, 2, got '7'"):
        explain(fitted, "n3", label=7)
    with pytest.raises(ValueError, match="trained with 6 features, the graph to predict has none"):
        explain(fitted, "n3", replace(graph, features=None))


def test_text_finds_an_id_that_is_a_number():
    karate = load_dataset("karate")
    assert position_of(karate, "7") == position_of(karate, 7) == 7


EXAMPLE = Explanation(
    node="p1",
    label="theory",
    probability=0.8,
    log_odds=1.386,
    predicted="theory",
    n_hops=2,
    edges=(
        Contribution(("p1", "p2"), 0.43, 1.9, "vision"),
        Contribution(("p2", "p3"), -0.05, -0.3, "theory", "weight 2"),
    ),
    neighbours=(Contribution("p2", 0.45, 2.0, "vision", "linked"),),
    features=(),
    labels={"p1": "theory", "p2": "theory", "p3": "vision"},
    distances={"p1": 0, "p2": 1, "p3": 2},
    notes=("2 of 5 edges were tried",),
)


def test_words():
    assert EXAMPLE.sentence == (
        "p1 is labelled theory, with probability 0.800. What speaks for it most: the neighbour p2 "
        "(without it 0.350, and the label would be vision). What speaks against it most: the edge "
        "p2 - p3 (without it 0.850)."
    )
    assert EXAMPLE.reasons(2) == ["neighbour p2 (linked) speaks for it: 45 points"]
    text = str(EXAMPLE)
    assert "p2         +0.450       +2.00     vision" in text
    assert "p1 - p2" not in text  # the neighbour says the same
    assert "p1 - p2" in str(replace(EXAMPLE, neighbours=()))
    assert text.endswith("note: 2 of 5 edges were tried")
    assert "Features" not in text
    assert repr(EXAMPLE) == (
        "Explanation('p1': 'theory', 0.800; 2 edges, 1 neighbours, 0 features)"
    )
    plain = replace(EXAMPLE, edges=(), neighbours=())
    assert plain.sentence.endswith("No single edge, neighbour or feature changes this by itself.")
    values = json.loads(json_text(EXAMPLE.top(1).to_json()))
    assert values["edges"] == [
        {
            "item": ["p1", "p2"],
            "probability": 0.43,
            "log_odds": 1.9,
            "label_without": "vision",
            "detail": "",
        }
    ]


def test_the_estimator_explains_by_row_number():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (20, 3)), rng.normal(4, 1, (20, 3))])
    y = np.array(["low"] * 20 + ["high"] * 20)
    clf = GCNClassifier(random_state=0, ensemble=2, max_epochs=20).fit(X, y)
    why = clf.explain(30)
    assert why.label == clf.predict()[30]
    assert why.probability == pytest.approx(clf.predict_proba()[30].max(), abs=1e-6)


def test_top_edges_matter_more_than_random_ones_on_cora():
    from scripts.measure_fidelity import measure

    result = measure(n_nodes=25, n_removed=(1, 3))
    for row in result["rows"]:
        assert row["mean_change_top"] > 2 * row["mean_change_random"]
        assert row["nodes_where_top_is_larger"] > 0.75 * row["nodes"]


def test_the_picture_shows_joined_edges():
    from graphconv.report.explanation import draw_explanation

    figure = draw_explanation(EXAMPLE)
    panel = figure.axes[0]
    assert "Why p1 is labelled theory (probability 0.80)" in panel.get_title()
    legend = [text.get_text() for text in panel.get_legend().get_texts()]
    assert legend[:2] == ["edge speaks for the label", "edge speaks against it"]
    assert {"predicted theory", "predicted vision"} < set(legend)
    assert {text.get_text() for text in panel.texts} == {"p1", "p2", "p3"}
    assert len(panel.patches) == 2
    assert "p2 -> p3" in replace(EXAMPLE, directed=True).sentence


MANY = replace(
    EXAMPLE,
    edges=tuple(Contribution(("p1", f"{k} of a long family name {k}"), 0.5 - k / 50, 2 - k / 15,
                             "theory") for k in range(24)),
    neighbours=(),
    features=(
        Contribution("year", 0.3, 1.2, "theory", "value 2019"),
        Contribution("a word that is far too long to be drawn", -0.1, -0.4, "theory", "value 0.31"),
        Contribution("東京", 0.01, 0.05, "theory", "in 3 of 4 neighbours only"),
    ),
    labels={"p1": "theory", **{f"{k} of a long family name {k}": "vision" for k in range(24)}},
    distances={"p1": 0, **{f"{k} of a long family name {k}": 1 for k in range(24)}},
)  # fmt: skip


def test_ten_rows_and_three_reasons_unless_told():
    (_, _, of_features), (_, _, of_edges) = MANY.tables()
    assert (len(of_features), len(of_edges)) == (3, 10)
    assert len(MANY.reasons()) == 3
    assert [len(rows) for _, _, rows in MANY.tables(2)] == [2, 2]


@pytest.mark.parametrize("n", [3, 24])
def test_labels_of_the_picture_do_not_collide(n):
    from graphconv.report.explanation import draw_explanation

    figure = draw_explanation(MANY, n)
    figure.canvas.draw()
    panel, features = figure.axes
    assert len(panel.patches) == n
    names = [text for text in panel.texts if text.get_text()]
    assert len(names) == n + 1
    boxes = [text.get_window_extent() for text in names]
    collisions = [
        (names[i].get_text(), names[j].get_text())
        for i in range(len(boxes))
        for j in range(i)
        if boxes[i].overlaps(boxes[j])
    ]
    assert collisions == []
    assert {"0 of a…name 0", "p1"} <= {text.get_text() for text in names}  # cut in the middle
    assert len(features.patches) == 3
    drawn = [text.get_text() for text in features.get_yticklabels()]
    assert drawn[0] == "year\nvalue 2019"
    assert "…" in drawn[1]


def test_letters_that_no_font_has_become_codes_not_boxes(monkeypatch):
    from graphconv.report import _lettering as lettering

    assert lettering.drawable("Zürich Ω") == "Zürich Ω"
    monkeypatch.setattr(lettering, "_charmaps", lambda: (frozenset(map(ord, "abc")),))
    assert lettering.drawable("ab東c") == "abU+6771 c"


@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
def test_neighbours_are_called_what_the_model_calls_them(features):
    graph = random_graph(False, True, features)
    fitted = fit_gcn(graph, overrides=BRIEF)
    labels = fitted.probabilities().mean(axis=1).argmax(axis=1)
    why = explain(fitted, "n9")
    assert len(why.labels) > 1
    assert why.labels == {node: labels[position_of(graph, node)] for node in why.labels}


def test_a_walk_from_the_node_decides_what_is_tried_first():
    """On the path 0 - 1 - 2, by hand: a walk of two steps that stays as likely as it goes on."""
    graph = Graph(np.diag([1, 1], 1) + np.diag([1, 1], -1), labels=[0, 1, 0])
    around = Neighbourhood(fit_gcn(graph, overrides=BRIEF), graph, 0)
    crossed, visited, ends = explain_module._walk(around)
    # From 0 it stays or goes to 1, a half each; from 1 it stays or goes to 0 or 2, a third each.
    assert ends == pytest.approx([1 / 4 + 1 / 6, 1 / 4 + 1 / 6, 1 / 6])
    assert visited == pytest.approx([1 / 2 + 5 / 12, 1 / 2 + 5 / 12, 1 / 6])
    found = dict(zip(zip(around.entry_row, around.entry_column, strict=True), crossed, strict=True))
    expected = {(0, 1): 1 / 2 + 1 / 4, (1, 0): 1 / 6, (1, 2): 1 / 6, (2, 1): 0}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("work", "n_things", "n_tried"),
    [(7 * 450, 500, 450), (7 * 450, 450, 450), (7 * 20, 500, 100), (7 * 6000, 5500, 5000)],
)
def test_how_many_things_are_tried(monkeypatch, work, n_things, n_tried):
    """As many as there is time for, but never fewer than 100 nor more than 5,000."""
    monkeypatch.setattr(explain_module, "WORK", work)
    question = explain_module._Question(SimpleNamespace(work=7, n_hops=2), 0, 0.5, 0.0)
    use = np.random.default_rng(0).random(n_things)
    chosen, note = question.limit(use, "edges")
    assert len(chosen) == n_tried
    assert np.array_equal(chosen, np.argsort(-use)[:n_tried])
    assert note.startswith(f"{n_tried:,} of {n_things:,} edges") if n_tried < n_things else not note


def test_of_many_neighbours_the_nearest_thousand_are_named():
    star = np.zeros((1101, 1101))
    star[0, 1:] = star[1:, 0] = 1
    graph = Graph(star, np.arange(1101)[:, None] % 7.0, np.arange(1101) % 2)
    around = Neighbourhood(fit_gcn(graph, overrides={**BRIEF, "max_epochs": 1}), graph, 0)
    assert len(explain_module._labels_around(around)) == 1000


@pytest.mark.parametrize(("n_classes", "end"), [(10, "c9, got 'x'"), (11, "c9, ..., got 'x'")])
def test_of_many_classes_ten_are_named(n_classes, end):
    names = [f"c{number}" for number in range(n_classes)]
    with pytest.raises(ValueError, match=f"^class must be one of c0, .*{re.escape(end)}"):
        explain_module.class_number(names, "x")
    assert explain_module.class_number([7, 8], "8") == explain_module.class_number([7, 8], 8) == 1


def test_the_score_of_a_class_by_hand():
    shares = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]], dtype=np.float32)
    tiny = np.log(np.finfo(np.float32).tiny)
    yes, odds = explain_module._score(shares, 1, is_multilabel=False)
    assert yes == pytest.approx([0.3, 0])
    assert odds == pytest.approx([np.log(0.3 / 0.7), tiny])
    yes, odds = explain_module._score(shares, 2, is_multilabel=True)
    assert odds == pytest.approx([0, -tiny])


def test_details_say_how_far_how_heavy_and_whether_trained_on():
    adjacency = np.array([[0, 2, 0, 1], [2, 0, 3, 0], [0, 3, 0, 0], [1, 0, 0, 0]], dtype=float)
    features = np.array([[1, 0, 4], [0, 0, 5], [0, 0, 6], [7, 0, 0]], dtype=float)
    graph = Graph(
        adjacency, features, [0, 1, 1, 0], train_index=[0, 2], node_ids=list("wxyz"),
        feature_names=["a", "b", "c"],
    )  # fmt: skip
    fitted = fit_gcn(graph, overrides={**BRIEF, "scaling": "none"})
    why = explain(fitted, "w")
    assert {part.item: part.detail for part in why.edges} == {
        ("w", "x"): "weight 2", ("x", "y"): "weight 3", ("w", "z"): "weight 1",
    }  # fmt: skip
    labels = why.labels
    assert {part.item: part.detail for part in why.neighbours} == {
        "x": f"linked, weight 2, predicted {labels['x']}",
        "y": f"2 hops away, predicted {labels['y']}, used in training",
        "z": f"linked, weight 1, predicted {labels['z']}",
    }
    assert {part.item: part.detail for part in why.features} == {
        "a": "value 1, in 1 of 3 neighbours", "c": "value 4, in 2 of 3 neighbours",
    }  # fmt: skip
    assert {part.item: part.detail for part in explain(fitted, "y").features} == {
        "c": "value 6, in 2 of 2 neighbours", "a": "in 1 of 2 neighbours only",
    }  # fmt: skip
    assert labels == dict(zip("wxyz", fitted.probabilities().mean(axis=1).argmax(1), strict=True))


def part(item, probability, detail="", without="theory"):
    return Contribution(item, probability, 3 * probability, without, detail)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # The strongest of each kind, in both directions.
        (
            {"neighbours": (part("p2", 0.1), part("p4", 0.2)), "features": (part("a", -0.3),)},
            "What speaks for it most: the neighbour p4 (without it 0.600). "
            "What speaks against it most: the feature a (without it 1.100).",
        ),
        (
            {"features": (part("a", -0.1), part("b", -0.2), part("c", 0.4, "value 3, in 2"))},
            "What speaks for it most: the feature c (value 3; without it 0.400). "
            "What speaks against it most: the feature b (without it 1.000).",
        ),
        # An edge to a neighbour that is named says no more; another does.
        (
            {"neighbours": (part("p2", 0.1),), "edges": (part(("p2", "p3"), 0.2),)},
            "What speaks for it most: the neighbour p2 (without it 0.700).",
        ),
        (
            {"neighbours": (part("p2", 0.1),), "edges": (part(("p3", "p4"), 0.2),)},
            "What speaks for it most: the neighbour p2 (without it 0.700) and the edge p3 - p4 "
            "(without it 0.600).",
        ),
        # A thousandth does not show.
        (
            {"features": (part("a", 0.001), part("b", -0.001))},
            "No single edge, neighbour or feature changes this by itself.",
        ),
        (
            {"features": (part("a", 0.0011, without="vision"),)},
            "What speaks for it most: the feature a (without it 0.799, and the label would be "
            "vision).",
        ),
    ],
)
def test_which_parts_a_sentence_names(changes, said):
    bare = replace(EXAMPLE, edges=(), neighbours=(), features=())
    assert replace(bare, **changes).sentence == f"{EXAMPLE._decision} {said}"


def test_reasons_are_the_strongest_in_points():
    many = replace(
        EXAMPLE,
        neighbours=(part("p2", 0.005), part("p3", -0.0049), part("p4", -0.25, "linked")),
        features=(part("a", 0.1),),
    )
    assert many.reasons() == [
        "neighbour p4 (linked) speaks against it: 25 points",
        "feature a speaks for it: 10 points",
        "neighbour p2 speaks for it: 0 points",
    ]
    assert many.reasons(1) == many.reasons()[:1]
    edges = replace(EXAMPLE, neighbours=())
    assert edges.reasons(1) == ["edge p1 - p2 speaks for it: 43 points"]
    bare = replace(EXAMPLE, edges=(), neighbours=(), features=())
    assert bare.reasons() == ["no single neighbour or feature decides it"]


def test_tables_have_the_columns_that_say_something():
    ((title, columns, rows), (farther, of_edges, _)) = EXAMPLE.tables()
    assert (title, columns) == (
        "Neighbours", ["neighbour", "probability", "log-odds", "label without", ""],
    )  # fmt: skip
    assert rows == [["p2", "+0.450", "+2.00", "vision", "linked"]]
    assert (farther, of_edges) == ("Edges farther away", ["edge", "probability", "log-odds", ""])
    ((title, columns, rows),) = replace(EXAMPLE, neighbours=()).tables(1)
    assert (title, columns) == ("Edges", ["edge", "probability", "log-odds", "label without"])
    assert rows == [["p1 - p2", "+0.430", "+1.90", "vision"]]
    top = EXAMPLE.top(1)
    assert (len(top.edges), len(top.neighbours), len(top.features)) == (1, 1, 0)
    assert str(EXAMPLE).splitlines()[1:5] == [
        "",
        "Neighbours",
        "  neighbour  probability  log-odds  label without",
        "  p2         +0.450       +2.00     vision         linked",
    ]


def test_a_node_without_features_is_calibrated_as_such():
    graph = random_graph(False, True, "dense")
    graph = replace(graph, unknown_features=graph.features[9])
    fitted = fit_gcn(graph, overrides=BRIEF)
    fitted = replace(fitted, undescribed_calibration=Calibration(3.0, 0.2))
    for node in (9, 0):
        around = Neighbourhood(fitted, graph, node)
        found = around.calibrated([Edit(), Edit(node=1)])
        own = fitted.undescribed_calibration if node == 9 else fitted.calibration
        expected = own.apply(around.probabilities([Edit(), Edit(node=1)]).mean(axis=1))
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("scaling", ["row", "l2", "standard", "none"])
def test_edits_of_features_and_of_nothing_side_by_side(features, scaling):
    """Each copy of a neighbourhood is as it would be alone, whatever the others lack."""
    graph = random_graph(False, True, features)
    fitted = fit_gcn(graph, overrides={**BRIEF, "scaling": scaling}, seeds=[0, 1])
    around = Neighbourhood(fitted, graph, 9)
    edits = [Edit(), Edit(feature=0), Edit(node=1), Edit(feature=5)]
    together = around.probabilities(edits)
    assert together.shape == (4, 2, 3)
    for number, edit in enumerate(edits):
        np.testing.assert_allclose(around.probabilities([edit])[0], together[number], atol=1e-6)
    np.testing.assert_allclose(together[0], fitted.probabilities()[9], atol=2e-6)
    assert not np.allclose(together[0], together[1], atol=1e-5)
    assert around.probabilities([]).shape == (0, 2, 3)


def test_a_second_is_spent_on_each_kind():
    question = explain_module._Question(SimpleNamespace(work=10**6, n_hops=2), 0, 0.5, 0.0)
    assert len(question.limit(np.ones(3000), "edges")[0]) == 500


@pytest.mark.parametrize(("hidden", "n_hops"), [((), 1), ((4,), 2), ((4, 5), 3)])
def test_the_size_of_a_neighbourhood_by_hand(hidden, n_hops):
    """On the path 0 - 1 - 2 with two seeds: entries, activations of each row, and features."""
    adjacency = np.diag([1, 1], 1) + np.diag([1, 1], -1)
    n_rows = min(n_hops, 2) + 1
    for features in (np.eye(3, 7), None):
        graph = Graph(adjacency, features, labels=[0, 1, 2])
        fitted = fit_gcn(graph, overrides={**BRIEF, "hidden": hidden}, seeds=[0, 1])
        around = Neighbourhood(fitted, graph, 0)
        widest = max((3, *hidden))  # three classes
        n_features = 0 if features is None else 7 * n_rows
        assert around.size == 2 * (n_rows - 1) + n_rows * widest * 2 + n_features
        assert around.work == around.size * max(2, n_hops) // 2


def test_copies_stand_side_by_side_as_far_as_memory_goes(monkeypatch):
    graph = random_graph(False, False, "dense")
    around = Neighbourhood(fit_gcn(graph, overrides=BRIEF), graph, 9)
    expected = around.probabilities([Edit()] * 7)
    sizes = []
    whole = around._of_chunk
    monkeypatch.setattr(around, "_of_chunk", lambda edits: sizes.append(len(edits)) or whole(edits))
    for size, wanted in ((10**6, [4, 3]), (10**7, [1] * 7)):
        around.__dict__["size"], sizes[:] = size, []
        np.testing.assert_allclose(around.probabilities([Edit()] * 7), expected, atol=1e-6)
        assert sizes == wanted


def test_edges_among_the_farthest_nodes_are_not_tried():
    """A triangle as seen from its first node, by models that look one or two hops far."""
    graph = Graph(np.ones((3, 3)) - np.eye(3), np.eye(3), labels=[0, 1, 0])
    for hidden, n_edges in (((), 2), ((4,), 3)):
        why = explain(fit_gcn(graph, overrides={**BRIEF, "hidden": hidden}), 0)
        assert {(0, 1), (0, 2)} <= {part.item for part in why.edges}
        assert len(why.edges) == n_edges
