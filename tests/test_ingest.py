"""ingest: what it stores is what the readers read, in bounded memory, whatever happens between."""

import gzip
import json
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("duckdb")

from tests.command_line import finish, start

from graphconv import Graph, read_tables
from graphconv.io.table_graph import TableOptions
from graphconv.storage.generation import GraphRecipe, write_generated
from graphconv.storage.ingest import IngestRequest, _write_state, ingest
from graphconv.storage.stored_graph import open_graph, verify_graph

SHARED_NOTES = ("repeated", "made undirected", "weight 0", "self-loop", "taken as missing")


def frames(rng, n_nodes=60, n_edges=400, name=str):
    """Messy tables: repeated and reversed edges, self-loops, zero weights, unknown nodes."""
    ends = rng.integers(n_nodes + 5, size=(n_edges, 2))
    edges = pd.DataFrame(
        {
            "source": [name(i) for i in ends[:, 0]],
            "target": [name(i) for i in ends[:, 1]],
            "weight": rng.integers(0, 4, n_edges) / 2,
        }
    )
    nodes = pd.DataFrame(
        {
            "id": [name(i) for i in rng.permutation(n_nodes)],
            "age": rng.standard_normal(n_nodes),
            "height": rng.integers(150, 200, n_nodes),
            "town": rng.choice(["Oslo", "Rome", "Bern"], n_nodes),
            "label": rng.choice(["red", "blue", "", "NA"], n_nodes),
            "split": rng.choice(["", "test", "Train", "val"], n_nodes),
        }
    )
    nodes.loc[nodes["label"].isin(["", "NA"]), "split"] = ""
    return edges, nodes


def write(frame, path, n_pieces=1):
    """Write a frame as one file or several; returns a pattern that names them all."""
    bounds = np.linspace(0, len(frame), n_pieces + 1).astype(int)
    stem, _, suffix = path.name.partition(".")
    for number in range(n_pieces):
        name = path if n_pieces == 1 else path.with_name(f"{stem}-{number}.{suffix}")
        piece = frame[bounds[number] : bounds[number + 1]]
        if suffix == "parquet":
            piece.to_parquet(name, index=False)
        else:
            piece.to_csv(name, index=False, sep="\t" if suffix.startswith("tsv") else ",")
    return str(path if n_pieces == 1 else path.with_name(f"{stem}-*.{suffix}"))


def both(folder, edges, nodes=None, n_pieces=1, suffix="csv", **options):
    """The same tables through the ordinary reader and through ingest."""
    whole = [write(edges, folder / f"edges.{suffix}")]
    pieces = [write(edges, folder / f"e.{suffix}", n_pieces)]
    if nodes is not None:
        whole.append(write(nodes, folder / f"nodes.{suffix}"))
        pieces.append(write(nodes, folder / f"n.{suffix}", n_pieces))
    loaded = read_tables(*whole, **options)
    request = IngestRequest(
        (pieces[0],), tuple(pieces[1:]), folder / "graph", TableOptions(**options)
    )
    manifest = ingest(request)
    return loaded, open_graph(folder / "graph"), manifest


def assert_same(loaded, stored):
    expected = loaded.graph
    # Built anew, so that everything ingest has promised is checked.
    checked = Graph(
        stored.adjacency.copy(),
        features=None if stored.features is None else stored.features.copy(),
        labels=stored.labels,
        class_names=stored.class_names,
        node_ids=stored.node_ids.tolist(),
        train_index=stored.train_index,
        validation_index=stored.validation_index,
        test_index=stored.test_index,
        directed=stored.directed,
    )
    assert (checked.adjacency != expected.adjacency).nnz == 0
    assert checked.adjacency.nnz == expected.adjacency.nnz
    assert [str(node) for node in checked.node_ids] == expected.node_ids.tolist()
    assert checked.class_names == expected.class_names
    for name in ("labels", "train_index", "validation_index", "test_index"):
        assert np.array_equal(getattr(checked, name), getattr(expected, name)), name
    assert (checked.features is None) == (expected.features is None)
    if expected.features is not None:
        ours, theirs = checked.features, expected.features
        ours, theirs = (m if isinstance(m, np.ndarray) else m.toarray() for m in (ours, theirs))
        assert np.array_equal(ours, theirs)
        assert stored.feature_names == expected.feature_names
    assert np.array_equal(stored.degree, expected.degree)
    for name in ("n_edges", "n_self_loops", "n_isolated", "is_weighted", "directed"):
        assert getattr(stored, name) == getattr(expected, name), name


OPTIONS = [
    {},
    {"directed": True},
    {"duplicates": "collapse"},
    {"duplicates": "sum", "weight": ""},
    {"weight": "", "self_loops": "drop"},
    {"self_loops": "drop", "directed": True, "duplicates": "sum"},
    {"categorical": ("town",), "ignore": ("height",)},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_stores_what_the_readers_read(tmp_path, options, suffix):
    edges, nodes = frames(np.random.default_rng(0), name=lambda i: f"node {i}")
    options = {"ignore": ("town",), **options}
    loaded, stored, manifest = both(tmp_path, edges, nodes, 3, suffix, **options)
    assert_same(loaded, stored)
    ours = [note for note in manifest["notes"] if any(word in note for word in SHARED_NOTES)]
    theirs = [note for note in loaded.notes if any(word in note for word in SHARED_NOTES)]
    assert [note.split(" of n")[0] for note in sorted(ours)] == [
        note.split(" of n")[0].split(" (directed=True")[0] for note in sorted(theirs)
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", [int, str, lambda i: f"{i:03d}", lambda i: i / 2])
@pytest.mark.parametrize("suffix", ["csv.gz", "tsv", "parquet"])
def test_ids_of_any_type(tmp_path, name, suffix):
    edges, nodes = frames(np.random.default_rng(1), name=name)
    loaded, stored, _ = both(tmp_path, edges, nodes[["id", "label"]], 2, suffix)
    assert_same(loaded, stored)
    few = np.array([5, 0, 7])
    assert [str(node) for node in stored.node_ids[few]] == [loaded.graph.node_ids[i] for i in few]
    assert [str(node) for node in stored.node_ids[3:6]] == loaded.graph.node_ids[3:6].tolist()


def test_edges_alone_are_enough(tmp_path):
    edges, _ = frames(np.random.default_rng(2))
    loaded, stored, manifest = both(tmp_path, edges, n_pieces=2)
    assert_same(loaded, stored)
    assert manifest["n_labelled"] == 0
    assert not stored.is_labelled.any()


def test_numbers_as_labels_and_half_precision_features(tmp_path):
    edges, nodes = frames(np.random.default_rng(3))
    nodes = nodes[["id", "age"]].assign(label=np.arange(60) % 3, split="")
    paths = [write(edges, tmp_path / "e.parquet"), write(nodes, tmp_path / "n.parquet")]
    expected = read_tables(*paths).graph
    ingest(IngestRequest((paths[0],), (paths[1],), tmp_path / "g", feature_type="float16"))
    stored = open_graph(tmp_path / "g")
    assert stored.class_names == expected.class_names == (0, 1, 2)
    assert stored.features.dtype == np.float16
    assert np.array_equal(stored.features, expected.features.astype(np.float16))


def test_merging_does_not_depend_on_where_batches_end(monkeypatch, tmp_path):
    edges, nodes = frames(np.random.default_rng(4), n_nodes=6, n_edges=300)
    monkeypatch.setattr("graphconv.storage._ingest_edges._BATCH_ROWS", 3)
    monkeypatch.setattr("graphconv.storage._ingest_ids._BATCH_ROWS", 2)
    loaded, stored, _ = both(tmp_path, edges, nodes, ignore=("town",))
    assert_same(loaded, stored)


def test_graph_folder_is_opened_without_reading_it(tmp_path):
    edges, nodes = write_generated(
        GraphRecipe("planted-partition", 300, 900, n_features=4), tmp_path / "t"
    )
    ingest(IngestRequest((str(edges),), (str(nodes),), tmp_path / "g"))
    stored = open_graph(tmp_path / "g")
    assert not stored.adjacency.indices.flags.owndata
    assert not stored.features.flags.owndata
    assert not stored.features.flags.writeable
    split = stored.with_split(stored.train_index[:5], stored.train_index[5:9])
    assert split.features is stored.features
    assert split.fingerprint() != stored.fingerprint()
    assert open_graph(tmp_path / "g").fingerprint() == stored.fingerprint()


def test_changed_bytes_are_found(run, tmp_path):
    edges, nodes = write_generated(
        GraphRecipe("planted-partition", 300, 900, n_features=4), tmp_path / "t"
    )
    ingest(IngestRequest((str(edges),), (str(nodes),), tmp_path / "g"))
    assert verify_graph(tmp_path / "g") == run("verify", "g", "--json", "-q").json["bytes"]
    path = tmp_path / "g" / "features.bin"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"features\.bin must have the checksum"):
        verify_graph(tmp_path / "g")
    done = run("verify", "g", expect=2)
    assert "features.bin must have the checksum of its manifest" in done.err[0]
    path.write_bytes(content[:-4])
    with pytest.raises(ValueError, match=r"features\.bin must have 4,800 bytes, got 4,796"):
        open_graph(tmp_path / "g")


BAD = [
    ("source,target\na,b\nb\n", None, {}, "e.csv, row 2: column 'target' must name a node"),
    ("source,target\na,b\n\nb,c,d\n", None, {}, "e.csv, line 4: a row must have 2 fields"),
    ("source,target\na,b\n,c\n", None, {}, "e.csv, line 3: column 'source' must name a node"),
    ("source,target,weight\na,b,1\nb,c,x\n", None, {}, "e.csv, line 3: column 'weight' must be a"),
    ("source,target,weight\na,b,1\nb,c,-2\n", None, {}, "line 3: column 'weight' must not be neg"),
    ("source,target,weight\na,b,1\nb,c,1e39\n", None, {}, "line 3: column 'weight' must be a fini"),
    ("source,target,weight\na,b,3e38\na,b,3e38\n", None, {}, "edge weights must fit float32"),
    ("a,b,c\n1,2,3\n", None, {}, "e.csv has no column 'source'; its columns are 'a', 'b', 'c'"),
    ("source,target\na,b\n", "id,label\na,1\na,2\n", {}, "n.csv, line 3: id 'a' must be unique"),
    ("source,target\na,b\n", "id,label\n,1\n", {}, "n.csv, line 2: column 'id' must name a node"),
    ("source,target\na,b\n", "id,label\nx,1\n", {}, "must share ids"),
    (
        "source,target\na,b\n", "id,label\na,1\n", {"closed_ids": True},
        "e.csv, line 2: target 'b' is not in n.csv",
    ),
    ("source,target\na,b\n", "id,label,age\na,1,x\nb,1,2\n", {}, "line 2: column 'age' must be"),
    (
        "source,target\na,b\n", "id,label,age\na,1,x\nb,1,y\n", {"roles": {"age": "number"}},
        "declare it with categorical",
    ),
    (
        "source,target\na,b\n", "id,label,age\na,1,x\nb,1,2\n", {"missing_value": "mean"},
        "line 2: column 'age' must be a finite number, got 'x'",
    ),
    ("source,target\na,b\n", "id,label,t\na,1,x\n", {"roles": "t=text"}, "words of two letters"),
    ("source,target\na,b\n", "id,age\na,1\n", {}, "n.csv has no column 'label'"),
    ("source,target\na,b\n", "id,label,split\na,1,dev\n", {}, "must be train, validation or test"),
    ("source,target\na,b\n", "id,label,split\na,,train\n", {}, "a train node must have a label"),
    ("source,target,relation\na,b,\n", None, {}, "line 2: "),
]  # fmt: skip


@pytest.mark.parametrize(("edges", "nodes", "options", "message"), BAD)
def test_bad_rows_are_named_with_file_and_line(tmp_path, edges, nodes, options, message):
    (tmp_path / "e.csv").write_text(edges)
    files = ()
    if nodes is not None:
        (tmp_path / "n.csv").write_text(nodes)
        files = (str(tmp_path / "n.csv"),)
    request = IngestRequest(
        (str(tmp_path / "e.csv"),), files, tmp_path / "g", TableOptions(**options)
    )
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what is tested
        ingest(request)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "g").exists()


def test_the_right_file_of_several_is_named(tmp_path):
    for number, weight in enumerate(["1", "2", "x"]):
        text = f"source,target,weight\na,b,1\nb,c,{weight}\n".encode()
        (tmp_path / f"e{number}.csv.gz").write_bytes(gzip.compress(text))
    with pytest.raises(ValueError, match=r"e2\.csv\.gz, line 3: column 'weight'"):
        ingest(IngestRequest((str(tmp_path / "e*.csv.gz"),), (), tmp_path / "g"))


def test_command_tells_and_refuses(run, tmp_path):
    write_generated(GraphRecipe("random", 50, 200, n_features=2), tmp_path / "t")
    arguments = ("ingest", "--edges", "t/edges.parquet", "--nodes", "t/nodes.parquet")
    done = run(*arguments, "-o", "g", "--json", expect=2)
    assert done.err == [
        "graphconv: nodes.parquet has no column 'label'; its columns are 'id', 'f0', 'f1': "
        "choose one with --label"
    ]
    write_generated(GraphRecipe("planted-partition", 50, 200, n_features=2), tmp_path / "p")
    arguments = ("ingest", "--edges", "p/edges.parquet", "--nodes", "p/nodes.parquet")
    done = run(*arguments, "-o", "g", "--json", "--quiet")
    assert done.json["n_nodes"] == 50
    assert done.err == []
    run(*arguments, "-o", "g", "--quiet")  # an earlier graph may be replaced
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    for more, message in (
        (("-o", "full"), "must be a new or empty folder, or an earlier graph"),
        (("-o", "h", "--memory", "much"), "an amount of memory must be like 6GiB"),
        (("-o", "h", "--memory", "1MB"), "ingest needs at least 400 MiB"),
        (("-o", "h", "--feature-type", "int8"), "feature type must be one of float32, float16"),
        (("-o", "h", "--edges", "no-*.csv"), "no-*.csv: no file has such a name"),
    ):
        done = run(*arguments, *more, expect=2)
        assert len(done.err) == 1
        assert message in done.err[0]
    assert not (tmp_path / "h").exists()


def test_resumes_after_kill(tmp_path):
    edges, nodes = write_generated(
        GraphRecipe("planted-partition", 40_000, 400_000, n_features=8, ids="string"),
        tmp_path / "t",
    )
    arguments = ("ingest", "--edges", edges, "--nodes", nodes, "-o", "g")
    state = tmp_path / ".g.ingest" / "state.json"
    n_finished = 0
    for _ in range(20):
        process = start(*arguments, cwd=tmp_path)
        while process.poll() is None:
            finished = json.loads(state.read_text())["finished"] if state.exists() else []
            if len(finished) > n_finished and len(finished) < 7:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                break
            time.sleep(0.001)
        done = finish(process)
        if process.returncode == 0:
            break
        n_finished = len(json.loads(state.read_text())["finished"])
    assert n_finished >= 3, "killed after too few stages to show anything"
    assert any("continuing after node ids" in line for line in done.err)
    assert not (tmp_path / ".g.ingest").exists()
    ingest(IngestRequest((str(edges),), (str(nodes),), tmp_path / "whole"))
    one, other = (
        json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("g", "whole")
    )
    assert one["arrays"] == other["arrays"]
    assert one["digest"] == other["digest"]
    verify_graph(tmp_path / "g")


def test_other_files_start_anew(tmp_path, run):
    write_generated(GraphRecipe("random", 50, 200), tmp_path / "t")
    (tmp_path / ".g.ingest").mkdir()
    state = {"identity": {"edges": ["other"]}, "finished": ["node ids"], "found": {}}
    _write_state(tmp_path / ".g.ingest", state)
    done = run("ingest", "--edges", "t/edges.parquet", "-o", "g")
    assert done.err[0] == "note: starting anew: .g.ingest is of other files or options"
    assert open_graph("g").n_edges > 150
