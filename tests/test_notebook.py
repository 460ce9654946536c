"""What a notebook shows of graphs, predictions and explanations, and what help() says."""

import inspect
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from graphconv import GCNClassifier, Graph, load_dataset
from graphconv.estimators.baselines import make_estimator
from graphconv.io.readers import from_frames
from graphconv.results.predictions import Predictions


@pytest.fixture(scope="module")
def karate():
    return GCNClassifier(max_epochs=5, random_state=0).fit(load_dataset("karate"))


def cells(html):
    return re.findall(r"<td>(.*?)</td>", html)


def test_a_graph_tells_sizes_classes_and_splits():
    graph = Graph(
        [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
        features=np.eye(3),
        labels=[1, 1, 0],
        class_names=["<i>tea</i>", "coffee"],
        test_index=[2],
        feature_names=["a", "b", "c"],
        name="drinks",
    )
    html = graph._repr_html_()
    assert "<strong>Graph drinks</strong>" in html
    assert cells(html) == [
        "nodes", "3", "edges", "2", "features", "3 a, b, c", "labelled", "3",
        "training, validation, test", "2, 0, 1", "coffee", "2", "&lt;i&gt;tea&lt;/i&gt;", "1",
    ]  # fmt: skip


def test_graphs_with_many_classes_or_none():
    many = Graph(np.zeros((20, 20)), labels=np.arange(20))
    assert "and 8 more classes" in many._repr_html_()
    assert "class" not in Graph(np.zeros((2, 2)))._repr_html_()
    several = Graph(np.zeros((2, 2)), labels=[[1, 1], [0, 1]], class_names=["a", "b"])
    assert cells(several._repr_html_())[-4:] == ["b", "2", "a", "1"]


def test_predictions_tell_labels_and_first_rows(karate):
    graph = karate.fitted_.graph
    shares = karate.predict_proba()
    predictions = Predictions(graph, shares, graph.class_names)
    html = predictions._repr_html_()
    sizes = sum(
        int(cell) for cell in re.findall(r"</td><td>(\d+)</td></tr>", html.split("<th>id</th>")[0])
    )
    assert sizes == 34
    assert "<th>confidence</th>" in html
    assert "Predictions(34 nodes of 'karate', 4 classes, mean confidence 0." in repr(predictions)
    assert len(repr(predictions)) < 120


def test_an_explanation_tells_the_sentence_and_tables(karate):
    why = karate.explain(11)
    html = why._repr_html_()
    assert why.sentence in html
    assert "<strong>Edges farther away</strong>" in html
    assert "Explanation(11" in repr(why)


def test_no_repr_dumps_a_vocabulary():
    words = " ".join(f"word{number}" for number in range(500))
    nodes = pd.DataFrame({"id": [1, 2], "label": ["a", "b"], "text": [words, words], "age": [3, 4]})
    edges = pd.DataFrame({"source": [1], "target": [2]})
    loaded = from_frames(edges, nodes, text=["text"])
    assert repr(loaded.encoding) == "TableEncoding('age', TextColumn('text', 500 words))"
    assert len(repr(loaded)) < 600
    assert "note: 1 directed edge" in loaded._repr_html_()
    clf = GCNClassifier(max_epochs=1).fit(loaded)
    assert len(repr(clf.fitted_)) < 2000
    assert "word7" not in repr(clf.fitted_)


def test_predictions_frame_is_indexed_by_node_id():
    nodes = pd.DataFrame({"id": ["x", "y", "z"], "label": ["a", "b", None], "age": [3, 4, 5]})
    edges = pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"]})
    graph = from_frames(edges, nodes).graph
    clf = GCNClassifier(max_epochs=3, random_state=0).fit(graph)
    frame = clf.predictions_frame()
    assert frame.index.tolist() == ["x", "y", "z"]
    assert frame.columns.tolist() == ["label", "confidence", "p_a", "p_b", "split"]
    assert frame["label"].tolist() == clf.predict().tolist()
    assert frame[["p_a", "p_b"]].to_numpy() == pytest.approx(clf.predict_proba())
    assert frame["split"].tolist() == ["train", "train", ""]
    other = from_frames(edges, nodes.iloc[:2], require_label=False).graph
    assert clf.predictions_frame(other).index.tolist() == ["x", "y", "z"]


def test_predictions_frame_of_rows_and_of_a_baseline():
    rows = np.array([[0.0], [0.1], [1.0], [1.1], [0.05], [1.05]])
    clf = GCNClassifier(max_epochs=3, n_neighbors=2).fit(rows, [0, -1, 1, -1, -1, -1])
    assert len(clf.predictions_frame(np.array([[0.2], [0.9]]))) == 2
    frame = make_estimator("label-propagation").fit(load_dataset("karate")).predictions_frame()
    assert len(frame) == 34


def entries(documented, section):
    """Names of a numpydoc section with what is said of each."""
    lines = inspect.getdoc(documented).splitlines()
    found = {}
    if section not in lines:
        return found
    names = []
    first = lines.index(section) + 2
    for line, following in pairwise([*lines[first:], ""]):
        if line and set(following) == {"-"}:  # the next section's heading
            break
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
            found |= dict.fromkeys(names, "")
        elif line:
            found |= {name: found[name] + line for name in names}
    return found


def own_methods():
    members = inspect.getmembers(GCNClassifier, inspect.isfunction)
    return [
        (name, method)
        for name, method in members
        if not name.startswith("_") and method.__module__.startswith("graphconv.")
    ]


@pytest.mark.parametrize(("name", "method"), own_methods())
def test_help_describes_every_parameter_and_result(name, method):
    signature = inspect.signature(method)
    assert set(entries(method, "Parameters")) == set(signature.parameters) - {"self"}, name
    assert signature.return_annotation == "None" or entries(method, "Returns"), name


def test_help_describes_every_setting_and_attribute():
    given = entries(GCNClassifier, "Parameters")
    assert set(given) == set(inspect.signature(GCNClassifier).parameters)
    assert all(given.values())
    attributes = entries(GCNClassifier, "Attributes")
    assert all(attributes.values()), attributes
    fitted = vars(GCNClassifier(max_epochs=1).fit(load_dataset("karate")))
    public = {name for name in fitted if name.endswith("_") and not name.startswith("_")}
    assert public == set(attributes)
