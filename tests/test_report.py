"""Tests of the report page without a browser: its numbers, its words, its file."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from tests.command_line import COLUMNS, TABLES, write_papers
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.report import _sections as sections
from graphconv.report import _words as words
from graphconv.report._findings import Findings, n_neighbours
from graphconv.report.page import write_report
from graphconv.results.predictions import Predictions
from graphconv.training.calibration import Calibration
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import wilson_interval

NASTY = "</script><b>&\"'<!--data-->/*data*/"


class Page(HTMLParser):
    """What a browser would make of the page: its elements, its text, its scripts."""

    VOID = ("meta", "input", "br", "wbr")

    def __init__(self, path):
        super().__init__()
        self.elements, self.open, self.scripts, self.words = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).replace("\xa0", " ").split())

    @property
    def data(self):
        packed = base64.b85decode(self.scripts[1].replace(",", "<"))
        return json.loads(gzip.decompress(packed))

    def column(self, name, dtype):
        return np.frombuffer(base64.b64decode(self.data["nodes"][name]), dtype)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def findings_of(graph, probabilities, calibration=None):
    shares = np.asarray(probabilities, dtype=float)
    predictions = Predictions(graph, shares, graph.class_names, graph.is_multilabel)
    return Findings(predictions, shares, calibration or Calibration())


def path_graph(n_nodes, **more):
    ends = np.arange(n_nodes - 1)
    adjacency = np.zeros((n_nodes, n_nodes))
    adjacency[ends, ends + 1] = adjacency[ends + 1, ends] = 1
    return Graph(adjacency, **more)


@pytest.fixture(scope="module")
def six():
    """Six nodes in a row: two to train, three to test, one to label."""
    graph = path_graph(
        6,
        labels=[0, 1, 0, 0, 1, -1],
        class_names=["a", "b"],
        node_ids=["n0", "n1", "n2", "n3", "n4", "n5"],
        train_index=[0, 1],
        test_index=[2, 3, 4],
    )
    first = np.array([0.9, 0.1, 0.8, 0.4, 0.1, 0.55])
    return findings_of(graph, np.column_stack([first, 1 - first]))


def test_wilson_interval_is_the_text_books():
    # Newcombe (1998), table I: 81 of 263 gives 0.2553 to 0.3662, 0 of 20 gives 0 to 0.1611.
    assert wilson_interval(81, 263) == pytest.approx((81 / 263, 0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20) == pytest.approx((0, 0, 0.1611), abs=5e-5)
    assert wilson_interval(20, 20) == pytest.approx((1, 1 - 0.1611, 1), abs=5e-5)
    with pytest.raises(ValueError, match="at least one case"):
        wilson_interval(0, 0)


def test_findings_worked_by_hand(six):
    assert six.judged_by == "test"
    assert six.accuracy.share == pytest.approx(2 / 3)  # n3 is taken for b
    assert six.confusion.tolist() == [[1, 1], [0, 1]]
    assert six.mix_ups() == [("a", "b", 1, 2)]
    a, b = six.class_rows()
    assert (a.n_train, a.n_labelled, a.n_predicted, a.n_held_out) == (1, 3, 3, 2)
    assert (a.precision, a.recall, a.f1) == pytest.approx((1, 1 / 2, 2 / 3))
    assert (b.precision, b.recall, b.f1) == pytest.approx((1 / 2, 1, 2 / 3))
    assert six.least_certain().tolist() == [5]
    assert six.doubtful_labels().tolist() == []
    rows = {row.threshold: row for row in six.threshold_rows()}
    assert (rows[0.7].n_nodes, rows[0.7].n_held_out, rows[0.7].right.share) == (4, 2, 1.0)
    assert rows[0.99].right is None
    assert six.commonest == ("a", pytest.approx(2 / 3))


def test_neighbours_and_links():
    labels = [0, 0, 1, 1, 1, -1]
    graph = path_graph(6, labels=labels)
    many = findings_of(graph, np.full((6, 2), 0.5))
    assert many.homophily() is None, "four edges say nothing"
    wide = path_graph(31, labels=[0] * 16 + [1] * 15)
    found = findings_of(wide, np.full((31, 2), 0.5)).homophily()
    assert found.share == pytest.approx(29 / 30)
    assert found.by_chance == pytest.approx((16 / 31) ** 2 + (15 / 31) ** 2)
    loops = Graph([[1, 1, 0], [0, 0, 0], [0, 1, 0]], directed=True)
    assert n_neighbours(loops).tolist() == [1, 2, 1]


def test_doubtful_labels_are_the_surest_contradictions():
    graph = path_graph(4, labels=[0, 0, 1, 1], train_index=[0, 2], test_index=[1, 3])
    found = findings_of(graph, [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [0.95, 0.05]])
    assert found.doubtful_labels().tolist() == [3, 1]


def test_several_labels_are_judged_pair_by_pair():
    labels = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [-1, -1, -1]])
    graph = path_graph(4, labels=labels, train_index=[0], test_index=[1, 2])
    found = findings_of(graph, [[0.9, 0.2, 0.9], [0.1, 0.8, 0.7], [0.6, 0.7, 0.1], [0.5] * 3])
    assert found.accuracy.share == pytest.approx(5 / 6)
    assert found.confusion is None
    assert found.mix_ups() == []
    assert [row.recall for row in found.class_rows()] == [1, 1, None]
    assert found.threshold_rows()[0].right.share == pytest.approx(1 / 2)
    assert "5 of 6" not in " ".join(words.summary(found))
    assert "decisions" in " ".join(words.summary(found))


def test_words_of_six_nodes(six):
    said = words.summary(six)
    assert said[0] == (
        "The model was shown the labels of 2 nodes (33.3 %) and labelled all 6 nodes of the graph."
    )
    assert said[1].startswith("On 3 test nodes, whose labels it never saw, 66.7 % of its labels")
    assert said[-1] == "Its commonest mistake is to take a for b: 1 of 2 such nodes."
    warned = words.warnings(six)
    assert warned[0].startswith("No class has 5 training nodes or more")
    assert warned[1].startswith("The model may be no better than always guessing a")
    assert warned[2].startswith("There are no validation nodes, so confidence")
    assert len(warned) == 3
    card = dict(words.data_card(six))
    assert card["Edges"] == "5 (undirected, unweighted)"
    assert card["Labelled nodes"] == "5, of which 2 to train, 0 to validate and 3 to test"


def warned_of(graph, probabilities):
    return " ".join(words.warnings(findings_of(graph, probabilities)))


def test_warnings():
    n = 200
    labels = np.array([0] * 180 + [1] * 20)
    train = np.r_[0:90, 180:184]
    test = np.r_[90:180, 184:200]
    graph = path_graph(n, labels=labels, train_index=train, test_index=test)
    right = np.eye(2)[labels]
    text = warned_of(graph, right)
    assert "unbalanced: 0 has 90 training nodes, 1 has 4" in text
    assert "1 has fewer than 5 training nodes" in text
    assert "No node at all was labelled 1." in warned_of(graph, np.tile([1.0, 0], (n, 1)))
    assert "no better than always guessing 0" in warned_of(graph, np.tile([1.0, 0], (n, 1)))
    assert "hardly alike" not in text
    apart = Graph(np.zeros((n, n)), labels=labels, train_index=train, test_index=test)
    assert "200 nodes (100 %) have no neighbour" in warned_of(apart, right)
    mixed = path_graph(n, labels=np.arange(n) % 2, train_index=range(100), test_index=range(100, n))
    assert "Neighbours are hardly alike: 0 % of the edges" in warned_of(mixed, right)
    watched = path_graph(n, labels=labels, train_index=train, validation_index=test)
    assert "validation nodes, which also decided" in warned_of(watched, right)
    alone = path_graph(n, labels=labels)
    assert "nobody knows how good" in warned_of(alone, right)
    good = path_graph(
        n, labels=np.arange(n) // 100, train_index=np.r_[0:20, 100:120],
        validation_index=np.r_[20:40, 120:140], test_index=np.r_[40:100, 140:200],
    )  # fmt: skip
    halves = np.eye(2)[np.arange(n) // 100]
    assert warned_of(good, halves) == ""
    assert "differ by 40.0 %" in warned_of(good, np.where(halves == 1, 0.6, 0.4))


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A page of a graph whose every name tries to break out."""
    graph = generate("homophilous, bag of words", n_nodes=60)
    graph = split(graph, n_per_class=5, n_validation=20)
    named = Graph(
        graph.adjacency,
        graph.features,
        graph.labels,
        class_names=[f"{NASTY}{number}" for number in range(4)],
        node_ids=[f"{number}{NASTY}" for number in range(60)],
        train_index=graph.train_index,
        validation_index=graph.validation_index,
        test_index=graph.test_index,
        name=f"graph {NASTY}",
    )
    clf = GCNClassifier(max_epochs=20, random_state=0).fit(named)
    path = tmp_path_factory.mktemp("nasty") / "report.html"
    write_report(clf, path)
    return path, clf


def test_names_never_become_markup(nasty):
    path, _ = nasty
    page = Page(path)
    assert len(page.scripts) == 4
    assert not page.all("b")
    assert page.data["classes"] == [f"{NASTY}{number}" for number in range(4)]
    assert page.data["nodes"]["ids"][7] == f"7{NASTY}"
    assert f"Report: graph {NASTY}" in page.text
    # The data's script holds nothing that could end it.
    source = path.read_text(encoding="utf-8")
    start = source.index('id="report-data">')
    assert "<" not in source[start + 17 : source.index("</script>", start)]
    ticks = page.data["charts"]["confusion"]["layout"]["xaxis"]["ticktext"]
    assert all("<" not in tick for tick in ticks)


def test_page_holds_what_the_model_says(nasty):
    path, clf = nasty
    page = Page(path)
    shares = clf.predict_proba()
    assert (page.column("choice", "<u2") == shares.argmax(axis=1)).all()
    assert page.column("confidence", "<u2") / 1e4 == pytest.approx(shares.max(axis=1), abs=2e-4)
    top = page.column("top", "<u2").reshape(60, 3)
    assert (top[:, 0] == shares.argmax(axis=1)).all()
    graph = clf.fitted_.graph
    assert np.flatnonzero(page.column("split", "u1") == 1).tolist() == sorted(graph.train_index)
    assert (page.column("links", "<u4") == np.diff(graph.adjacency.indptr)).all()
    assert set(page.data["charts"]) == {
        "confusion",
        "confidence",
        "reliability",
        "loss",
        "accuracy",
    }
    edges = np.frombuffer(base64.b64decode(page.data["graph"]["edges"]), "<u2").reshape(-1, 2)
    assert len(edges) == graph.n_edges - graph.n_self_loops


def test_page_can_be_read_without_eyes(nasty):
    page = Page(nasty[0])
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table"))
    ids = {a["id"] for _, a in page.elements if "id" in a}
    for link in page.all("a"):
        assert link["href"][1:] in ids
    for section in page.all("section"):
        assert section["aria-labelledby"] in ids
    charts = [a for a in page.all("div") if a.get("class", "").startswith("chart")]
    assert len(charts) == 7
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    assert [a["for"] for a in page.all("label") if "for" in a] == ["query"]


def test_page_asks_the_network_for_nothing(nasty):
    page = Page(nasty[0])
    policies = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policies == [
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data: blob:"
    ]
    assert not any("src" in a or a.get("rel") for _, a in page.elements)


def test_same_model_same_page(nasty, tmp_path):
    path, clf = nasty
    write_report(clf, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


def test_pages_of_odd_models(tmp_path):
    """No hidden layer; several runs; several labels per node; no test nodes; no features."""
    graph = split(generate("homophilous, bag of words", n_nodes=60), n_per_class=5, n_validation=20)
    several = np.column_stack([graph.labels == 0, graph.labels >= 2]).astype(np.int64)
    several[50:] = -1
    odd = {
        "one layer": (graph, {"hidden": ()}, [0]),
        "runs": (graph, {"hidden": (4,)}, [0, 1]),
        "several labels": (Graph(graph.adjacency, graph.features, several), {}, [0]),
        "bare": (Graph(graph.adjacency, labels=graph.labels), {}, [0]),
    }
    for name, (own, overrides, seeds) in odd.items():
        fitted = fit_gcn(own, overrides={"max_epochs": 5, **overrides}, seeds=seeds)
        path = tmp_path / f"{name}.html"
        write_report(fitted, path)
        page = Page(path)
        assert len(page.data["nodes"]["ids"]) == 60, name
        assert np.isfinite(page.column("x", "<i2")).all()


def test_large_graphs_show_a_sample_but_know_all(tmp_path, monkeypatch):
    monkeypatch.setattr("graphconv.report.page.MAX_MAP_NODES", 20)
    monkeypatch.setattr("graphconv.report.page.MAX_GRAPH_NODES", 30)
    fitted = fit_gcn(load_dataset("karate"), overrides={"max_epochs": 5})
    write_report(fitted, tmp_path / "report.html")
    page = Page(tmp_path / "report.html")
    assert page.data["graph"] is None
    shown = np.frombuffer(base64.b64decode(page.data["shown"]), "<u4")
    assert len(np.unique(shown)) == 20
    assert len(page.column("x", "<i2")) == 34
    assert "A random sample of 20 of the 34 nodes is shown" in page.text


def test_relation_nodes_are_not_on_the_map(tmp_path):
    # Ten things that are linked by four relations, whose nodes come last.
    rng = np.random.default_rng(0)
    adjacency = np.zeros((14, 14))
    adjacency[:10, 10:] = rng.random((10, 4)) < 0.5
    ids = [*(f"thing {number}" for number in range(10)), *(f"relation {n}" for n in range(4))]
    labels = [*(number % 2 for number in range(10)), *[-1] * 4]
    graph = Graph(
        adjacency + adjacency.T, labels=labels, node_ids=ids, train_index=[0, 1], n_entities=10
    )
    fitted = fit_gcn(graph, overrides={"max_epochs": 5})
    write_report(fitted, tmp_path / "report.html")
    page = Page(tmp_path / "report.html")
    assert page.data["nodes"]["ids"] == ids[:10]
    kinds = {"label": "<u4", "truth": "<u4", "choice": "<u2", "confidence": "<u2", "split": "u1"}
    for name, dtype in {**kinds, "links": "<u4", "x": "<i2", "y": "<i2"}.items():
        assert len(page.column(name, dtype)) == 10, name
    assert len(page.column("top", "<u2")) == len(page.column("topShare", "<u2")) == 10 * 2
    # The drawing needs their places, for there are no edges but to them.
    assert len(np.frombuffer(base64.b64decode(page.data["graph"]["x"]), "<i2")) == 14
    assert "10 nodes can be found" in page.text
    assert "Where lines meet without a mark is a relation." in page.text
    assert "Of all nodes outside training, the model is least sure" in page.text
    assert sum(page.data["charts"]["confidence"]["data"][0]["y"]) == 10
    findings = findings_of(graph, fitted.probabilities().mean(axis=1))
    assert sum(row.n_predicted for row in findings.class_rows()) == 10


def test_command_line(run, tmp_path):
    write_papers(tmp_path / "papers")
    done = run("train", *TABLES, *COLUMNS, "--max-epochs", 20, "--report", "--name", "Our papers")
    assert "model, predictions.csv and report.html written to runs/papers" in done.err
    page = Page(tmp_path / "runs/papers/report.html")
    assert page.text.startswith("Our papers")
    assert len(page.data["nodes"]["ids"]) == 150
    with_table = page.data["columns"]
    assert "Without its links" in page.text

    results = run("report", "runs/papers", "-o", "page.html", "--name", "Our papers", "--json").json
    # The table is not in the folder: of titles their words are left.
    again = Page(tmp_path / "page.html")
    from_features = again.data["columns"]
    assert again.text == page.text
    assert [key for key in page.data if again.data[key] != page.data[key]] == ["columns"]
    assert set(from_features["names"]) <= set(with_table["names"])
    assert from_features["cells"] != with_table["cells"]
    assert results == {
        "n_nodes": 150,
        "bytes": (tmp_path / "page.html").stat().st_size,
        "output": "page.html",
    }
    inside = (tmp_path / "runs/papers/report.html").read_bytes()
    assert run("report", "runs/papers").err == ["report written to runs/papers/report.html"]
    # A training that had finished is not run again, but reported on.
    (tmp_path / "runs/papers/report.html").unlink()
    more = ("--report", "--name", "Our papers", "--resume")
    done = run("train", *TABLES, *COLUMNS, "--max-epochs", 20, *more)
    assert any("this training had finished" in line for line in done.err)
    assert (tmp_path / "runs/papers/report.html").read_bytes() == inside
    # A folder with a report in it is still a model folder, and can be trained into again.
    run("train", *TABLES, *COLUMNS, "--max-epochs", 5)


def test_command_line_refusals(run, tmp_path):
    done = run("report", "nowhere", expect=2)
    assert done.err == ["graphconv: nowhere must be a graphconv model folder, but is not there"]
    done = run("train", "karate", "--name", "Our club", expect=2)
    assert done.err == ["graphconv: --name is the title of the report: it needs --report"]
    done = run("report", "nowhere", "-o", "page.pdf", expect=2)
    assert done.err == ["graphconv: output must end in .html, got page.pdf"]
    (tmp_path / "page.html").mkdir()
    done = run("report", "nowhere", "-o", "page.html", expect=2)
    assert done.err == ["graphconv: output must be a file to write, got the folder page.html"]


def test_the_page_of_cora_is_below_two_megabytes(tmp_path):
    fitted = fit_gcn(load_dataset("cora"), preset="paper", overrides={"max_epochs": 50})
    write_report(fitted, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    page = Page(tmp_path / "report.html")
    assert len(page.data["why"]) > 20


def test_page_is_small_and_begins_with_the_answer(tmp_path):
    graph = path_graph(12, labels=[0, 1] * 3 + [-1] * 6, class_names=["red", "blue"])
    path = tmp_path / "report.html"
    notes = ["2 nodes without features"]
    write_report(fit_gcn(graph), path, name="My <title>", about=["nodes.csv", "today"], notes=notes)
    assert path.stat().st_size < 1_950_000
    page = Page(path)
    assert page.text.startswith("My <title>")
    assert "nodes.csv · today" in page.text
    assert "What was done with the data 2 nodes without features" in page.text
    order = [page.text.index(title) for title in ("Surest nodes", "Find a node Node id")]
    assert order == sorted(order)
    names = [section["id"] for section in page.all("section")]
    assert names[:5] == ["short", "good", "drives", "trust", "unsure"]


def test_few_test_nodes_get_no_calibration_headline():
    few, many = (
        path_graph(n, labels=[0, 0, 1] * (n // 3), train_index=[0, 2], test_index=range(3, n))
        for n in (30, 300)
    )
    said = []
    for graph in (few, many):
        shares = np.tile([0.8, 0.2], (graph.n_nodes, 1))
        said.append(sections.tiles(findings_of(graph, shares)))
    assert "Calibration error" not in said[0]
    # All are taken for class 0, which guessing would do as well.
    assert "Better than guessing by" in said[0]
    assert "+0 points" in said[0]
    assert "Calibration error" in said[1]
