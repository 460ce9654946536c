"""Generated tables: what each kind of graph is like, and that cutting files changes nothing."""

import numpy as np
import pandas as pd
import pytest

from graphconv import GCNClassifier, fraction_split, read_tables
from graphconv.storage.generation import KINDS, GraphRecipe, write_generated


def tables(folder):
    parts = {"edges": [], "nodes": []}
    for path in sorted(folder.iterdir()):
        read = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
        parts[path.name.split(".")[0].split("-")[0]].append(read(path))
    return (pd.concat(parts[name], ignore_index=True) for name in ("edges", "nodes"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_nodes", [4, 33, 1000])
def test_edges_join_two_nodes_of_the_graph(tmp_path, kind, n_nodes):
    write_generated(GraphRecipe(kind, n_nodes, 3000, n_classes=2), tmp_path / "g")
    edges, nodes = tables(tmp_path / "g")
    assert len(edges) == 3000
    assert (nodes["id"] == np.arange(n_nodes)).all()
    ends = edges.to_numpy()
    assert ends.min() >= 0
    assert ends.max() < n_nodes
    assert (ends[:, 0] != ends[:, 1]).all()
    # With so many edges, every node is likely to be an end of both kinds somewhere.
    if kind != "power-law":
        assert len(np.unique(ends[:, 0])) > 0.9 * n_nodes
        assert len(np.unique(ends[:, 1])) > 0.9 * n_nodes


def test_power_law_has_hubs_and_random_has_none(tmp_path):
    largest = {}
    for kind in ("random", "power-law"):
        write_generated(GraphRecipe(kind, 4096, 40_960), tmp_path / kind)
        edges, _ = tables(tmp_path / kind)
        largest[kind] = np.bincount(edges.to_numpy().ravel()).max()
    assert largest["random"] < 50  # the mean is 20
    assert largest["power-law"] > 400


def test_homophily_is_the_share_of_edges_within_a_class(tmp_path):
    recipe = GraphRecipe("planted-partition", 999, 20_000, n_classes=7, homophily=0.6)
    write_generated(recipe, tmp_path / "g")
    edges, _ = tables(tmp_path / "g")
    share = (edges["source"] % 7 == edges["target"] % 7).mean()
    assert abs(share - 0.6) < 0.02


def test_features_lie_around_their_class_and_some_labels_are_told(tmp_path):
    recipe = GraphRecipe(
        "planted-partition", 4000, 1, n_features=8, n_classes=3, signal=2.0, labelled=0.25
    )
    write_generated(recipe, tmp_path / "g")
    _, nodes = tables(tmp_path / "g")
    known = nodes["label"].notna()
    assert abs(known.mean() - 0.25) < 0.03
    assert (nodes["label"][known] == [f"class{i % 3}" for i in nodes["id"][known]]).all()
    values = nodes[[f"f{k}" for k in range(8)]].to_numpy()
    centres = np.stack([values[k::3].mean(axis=0) for k in range(3)])
    assert np.allclose(np.linalg.norm(centres, axis=1), 2.0, atol=0.2)
    assert values.dtype == np.float32


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_pieces_hold_what_one_file_holds(tmp_path, format):
    recipe = GraphRecipe("planted-partition", 300, 1000, n_features=2, ids="string", seed=5)
    whole = write_generated(recipe, tmp_path / "whole", format=format)
    pieces = write_generated(recipe, tmp_path / "pieces", format=format, rows_per_file=128)
    assert [path.name for path in whole] == [f"edges.{format}", f"nodes.{format}"]
    assert len(pieces) == 8 + 3
    for one, other in zip(tables(tmp_path / "whole"), tables(tmp_path / "pieces"), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_seed_decides(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_generated(GraphRecipe("random", 50, 80, n_features=1, seed=seed), tmp_path / name)
    a, b, c = (list(tables(tmp_path / name)) for name in "abc")
    assert a[0].equals(b[0])
    assert a[1].equals(b[1])
    assert not a[0].equals(c[0])


def test_a_planted_partition_can_be_learned_through_the_ordinary_readers(tmp_path):
    recipe = GraphRecipe("planted-partition", 600, 3000, n_features=8, labelled=0.5, ids="string")
    edges, nodes = write_generated(recipe, tmp_path / "g")
    graph = fraction_split(read_tables(edges, nodes).graph)
    classifier = GCNClassifier(random_state=0, max_epochs=60).fit(graph)
    right = (
        classifier.predict()[graph.test_index]
        == np.array(graph.class_names)[graph.labels[graph.test_index]]
    )
    assert right.mean() > 0.6  # chance is 0.2


def test_command_says_what_it_wrote(run, tmp_path):
    done = run(
        "generate", "power-law", "--nodes", 100, "--edges", 500, "--rows-per-file", 200,
        "-o", "g", "--json",
    )  # fmt: skip
    assert [name.split("/")[1] for name in done.json["files"]] == [
        "edges-0000.parquet", "edges-0001.parquet", "edges-0002.parquet", "nodes.parquet",
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == [
        name.split("/")[1] for name in done.json["files"]
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fractal"], "kind must be one of random, power-law, planted-partition, got 'fractal'"),
        (["random", "--ids", "uuid"], "ids must be one of integer, string, got 'uuid'"),
        (["random", "--nodes", "1"], "n_nodes must be from 2 to 2^31 - 1, got 1"),
        (["planted-partition", "--classes", "9"], "n_classes must be from 2 to half the nodes"),
        (["random", "--format", "xlsx"], "format must be one of parquet, csv, got 'xlsx'"),
        (["random", "-o", "full"], "full must be a new or empty folder"),
    ],
)
def test_bad_requests_are_one_line(run, tmp_path, arguments, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("all my work")
    defaults = ["--nodes", "10", "--edges", "10"]
    done = run("generate", arguments[0], *defaults, *arguments[1:], expect=2)
    assert len(done.err) == 1
    assert message in done.err[0]
    assert (tmp_path / "full" / "thesis.tex").read_text() == "all my work"
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
