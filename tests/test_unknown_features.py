"""Nodes that no table describes: their features are unknown, and their confidence is honest."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.generated_graphs import embeddings, measured_columns, planted_edges
from tests.small_tables import read

from graphconv import GCNClassifier, Graph, load_model
from graphconv.graph.scaling import fit_scaler
from graphconv.graph.splits import fraction_split
from graphconv.graph.unknown_features import is_undescribed, without_features
from graphconv.io.readers import from_frames
from graphconv.io.table_encoding import TableEncoding
from graphconv.training.calibration import expected_calibration_error

EDGES = "source,target\nann,bob\nbob,cy\ncy,dan\n"
NODES = "id,label,age,visits\nann,red,31,0\nbob,,47,0\ncy,blue,30,6\n"


@pytest.mark.parametrize(
    ("missing_value", "expected", "told"),
    [
        # Most have no visits, so 0 says least of them; under "mean" the mean is what was asked for.
        ("refuse", [36, 0], "the mean of their column"),
        ("mean", [36, 2], "the mean of their column"),
        ("zero", [0, 0], "0"),
    ],
)
def test_numbers_of_a_node_without_a_row(tmp_path, missing_value, expected, told):
    loaded = read(tmp_path, EDGES, NODES, missing_value=missing_value)
    assert loaded.graph.node_ids[-1] == "dan"
    assert loaded.graph.features[-1].tolist() == expected
    assert loaded.notes[0] == (
        f"1 node only in edges.csv: no label, features unknown (numbers taken as {told})"
    )


def test_scaling_brings_unknown_numbers_to_the_middle(tmp_path):
    graph = read(tmp_path, EDGES, NODES).graph
    scaled = fit_scaler(graph.features, "standard").transform(graph.features)
    assert scaled[-1, 0] == pytest.approx(0, abs=1e-6)


def test_categories_and_words_of_a_node_without_a_row_are_none(tmp_path):
    nodes = "id,label,age,town\nann,red,31,Oslo\nbob,,47,Rome\ncy,blue,30,Rome\n"
    graph = read(tmp_path, EDGES, nodes, categorical=["town"]).graph
    assert graph.feature_names == ("age", "town=Oslo", "town=Rome")
    assert graph.features.toarray()[-1].tolist() == [36, 0, 0]


def test_relation_nodes_have_unknown_numbers(tmp_path):
    edges = "source,target,relation\nann,bob,knows\nbob,cy,knows\n"
    graph = read(tmp_path, edges, NODES).graph
    assert graph.features.toarray()[-2:].tolist() == [[36, 0, 1, 0], [36, 0, 0, 1]]


def test_later_tables_are_filled_with_the_numbers_of_the_first(tmp_path):
    first = read(tmp_path, EDGES, NODES)
    encoding = TableEncoding.from_json(first.encoding.to_json())
    later = read(
        tmp_path, EDGES, "id,age,visits\nann,90,9\n", encoding=encoding, require_label=False
    )
    assert later.graph.features[-1].tolist() == [36, 0]


def test_models_of_earlier_versions_fill_as_they_were_trained():
    kept = {"numeric": ["age"], "categorical": [], "text": [], "relations": []}
    assert TableEncoding.from_json(kept).unknown_rows(1).toarray().tolist() == [[0]]
    filled = TableEncoding.from_json({**kept, "fill": [7.0]})
    assert filled.missing_value == "mean"


def planted_customers(seed, homophily, columns, n_nodes=4000):
    """Edges and a table that lacks a fifth of the nodes, with the class of every node."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n_nodes)
    source, target = planted_edges(labels, rng, homophily=homophily)
    values = columns(labels, rng)
    ids = np.array([f"c{number}" for number in range(n_nodes)], dtype=object)
    names = labels.astype(str).astype(object)
    nodes = pd.DataFrame(values, columns=[f"x{place}" for place in range(values.shape[1])])
    nodes.insert(0, "id", ids)
    nodes["label"] = np.where(rng.random(n_nodes) < 0.3, names, None)
    nodes = nodes[rng.random(n_nodes) >= 0.2]
    edges = pd.DataFrame({"source": ids[source], "target": ids[target]})
    return edges, nodes, pd.Series(labels, index=ids)


def calibration_error(seed, homophily, columns):
    """Of the nodes without a row; and how many of them get the right label."""
    edges, nodes, truth = planted_customers(seed, homophily, columns)
    graph = fraction_split(from_frames(edges, nodes).graph, random_state=seed)
    shares = GCNClassifier(random_state=seed).fit(graph).predict_proba()
    unknown = np.flatnonzero(~np.isin(graph.node_ids, nodes["id"]))
    assert unknown.tolist() == np.flatnonzero(is_undescribed(graph)).tolist()
    assert 0.15 < len(unknown) / graph.n_nodes < 0.25
    labels = truth[graph.node_ids[unknown]].to_numpy()
    right = (shares[unknown].argmax(axis=1) == labels).mean()
    return expected_calibration_error(shares[unknown], labels), right


@pytest.mark.parametrize("columns", [measured_columns, embeddings])
@pytest.mark.parametrize(
    # The least is what edges of four classes give that features add to, not chance.
    ("homophily", "least_right"),
    [(0.9, 0.9), (0.7, 0.75), (0.5, 0.5)],
)
def test_confidence_in_nodes_without_a_row_is_honest(columns, homophily, least_right):
    """With the calibration of all other nodes it was up to 20.2 % for edges of 0.5."""
    found = [calibration_error(seed, homophily, columns) for seed in range(4)]
    errors, right = zip(*found, strict=True)
    assert max(errors) < 0.1
    assert min(right) > least_right


def test_undescribed_nodes_are_told_by_their_leading_columns():
    rows = np.array([[5, 0, 1], [5, 0, 9], [5, 2, 1], [0, 0, 1]], dtype=np.float32)
    for features in (rows, sp.csr_array(rows)):
        graph = Graph(np.ones((4, 4)), features=features, unknown_features=[5, 0])
        assert is_undescribed(graph).tolist() == [True, True, False, False]
        assert is_undescribed(graph, np.array([2, 1])).tolist() == [False, True]


def test_hidden_features_are_those_of_an_undescribed_node():
    rows = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    unknown = np.array([8, 0], dtype=np.float32)
    for given in (rows, sp.csr_array(rows)):
        hidden = without_features(given, 1, unknown)
        dense = hidden.toarray() if sp.issparse(hidden) else hidden
        assert dense.tolist() == [[8, 0, 3], [4, 5, 6]]
    assert rows[0, 0] == 1


def test_unknown_features_must_fit_the_features():
    with pytest.raises(ValueError, match="at most 1 finite numbers"):
        Graph([[0, 1], [1, 0]], features=[[1], [2]], unknown_features=[1, 2])
    with pytest.raises(ValueError, match="finite"):
        Graph([[0, 1], [1, 0]], features=[[1], [2]], unknown_features=[np.nan])


def test_new_nodes_without_a_row_are_calibrated_apart_after_saving(tmp_path):
    edges, nodes, _ = planted_customers(0, 0.5, embeddings, n_nodes=600)
    described = edges[edges.isin(set(nodes["id"])).all(axis=1)]
    first = from_frames(described, nodes).graph
    clf = GCNClassifier(random_state=0).fit(fraction_split(first, random_state=0))
    clf.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    fitted = again.fitted_
    assert fitted.undescribed_calibration == clf.fitted_.undescribed_calibration is not None
    assert not is_undescribed(fitted.graph).any()
    encoding = from_frames(described, nodes).encoding
    merged = from_frames(
        edges, None, encoding=encoding, merge_into=fitted.graph, require_label=False
    ).graph
    apart = is_undescribed(merged)
    assert apart.sum() == merged.n_nodes - first.n_nodes > 50
    raw = fitted.probabilities(merged)[:, 0]
    shares = again.predict_proba(merged)
    assert (shares[apart] == fitted.undescribed_calibration.apply(raw[apart])).all()
    assert (shares[~apart] == fitted.calibration.apply(raw[~apart])).all()
