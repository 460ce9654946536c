"""What a model folder says of where it came from, and what tables say of their model."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import COLUMNS, TABLES

from graphconv import Graph
from graphconv.results import provenance
from graphconv.results.provenance import folder_fingerprint, sha256_of
from graphconv.storage.stored_graph import open_graph, store_graph

TRAIN = ("train", *TABLES, *COLUMNS, "--max-epochs", "3", "-o", "m", "--quiet")


def test_a_model_says_what_it_was_trained_on(run, papers, tmp_path):
    run(*TRAIN, "--seed", "3")
    said = json.loads((tmp_path / "m" / "provenance.json").read_text())
    files = {each["role"]: each for each in said["data"]}
    for role in ("edges", "nodes"):
        path = tmp_path / "papers" / f"{role}.csv"
        assert files[role]["sha256"] == sha256_of(path)
        assert files[role]["bytes"] == path.stat().st_size
        assert files[role]["name"] == f"papers/{role}.csv"
    assert said["options"]["rows"] == 150
    assert said["options"]["seeds"] == [3]
    assert said["options"]["settings"] == {"max_epochs": 3}
    assert said["options"]["table_options"]["text"] == ["title"]
    assert {"graphconv", "python", "numpy", "torch"} <= {*said["versions"]}
    assert said["fingerprint"] == folder_fingerprint(tmp_path / "m")
    done = run("verify", "m", "--json")
    assert done.json["fingerprint"] == said["fingerprint"]
    assert done.json["data"] == {"papers/edges.csv": "same", "papers/nodes.csv": "same"}


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.json", "graph.npz", "predictions.csv"]
)
def test_verify_finds_a_changed_file(run, papers, tmp_path, name):
    run(*TRAIN)
    path = tmp_path / "m" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    done = run("verify", "m", expect=2)
    assert done.err == [
        f"graphconv: m must be as it was written, but: {name} has changed since it was written"
    ]
    if name != "model.json":  # without it, it is no model folder
        path.unlink()
        assert f"{name} is not there" in run("verify", "m", expect=2).err[0]


def test_verify_finds_changed_data(run, papers, tmp_path):
    run(*TRAIN)
    path = tmp_path / "papers" / "edges.csv"
    path.write_text(path.read_text() + "\n")
    done = run("verify", "m", expect=2)
    assert "papers/edges.csv as it was then, but that file has changed since" in done.err[0]
    (tmp_path / "papers").rename(tmp_path / "elsewhere")
    assert "data papers/edges.csv: not here" in run("verify", "m").err


def test_a_folder_without_provenance_is_told(run, tmp_path):
    run("train", "karate", "--max-epochs", "2", "-o", "m", "--quiet")
    (tmp_path / "m" / "provenance.json").unlink()
    done = run("verify", "m", expect=2)
    assert "has no provenance.json" in done.err[0]
    (tmp_path / "m" / "provenance.json").write_text('{"format": 1}')
    assert "must be complete, but lacks" in run("verify", "m", expect=2).err[0]
    (tmp_path / "m" / "provenance.json").write_text('{"format": 2}')
    assert "its format must be 1, got 2" in run("verify", "m", expect=2).err[0]


@pytest.mark.parametrize("method", ["gcn", "sgc", "auto"])
def test_a_model_saved_from_python_says_what_it_was_trained_on(run, tmp_path, method):
    from graphconv import AutoClassifier, GCNClassifier, load_dataset, make_estimator
    from graphconv.io.graph_files import read_npz

    makers = {
        "gcn": lambda: GCNClassifier("paper", max_epochs=3, random_state=5),
        "sgc": lambda: make_estimator("sgc", n_hops=3, random_state=5),
        "auto": lambda: AutoClassifier(random_state=5),
    }
    karate = load_dataset("karate")
    makers[method]().fit(karate).save("m")
    said = json.loads(Path("m/provenance.json").read_text())
    assert said["data"] == []
    # What is learned of the data is the same wherever it is read.
    for name in ("adjacency", "features", "labels", "train_index", "node_ids", "class_names"):
        assert said["parts"][name] == karate.checksums()[name]
    options = said["options"]
    assert (options["data"], options["rows"], options["edges"]) == ("karate", 34, 78)
    assert options["seeds"][0] == 5 or method == "auto"  # which may take other seeds
    known = {"gcn": ("max_epochs", 3), "sgc": ("n_hops", 3)}
    if method in known:
        name, value = known[method]
        assert options["settings"][name] == value
    assert {"graphconv", "python", "numpy", "torch"} <= {*said["versions"]}

    done = run("verify", "m", "--json")
    assert done.json["fingerprint"] == said["fingerprint"] == folder_fingerprint(Path("m"))
    assert done.json["parts"] == said["parts"] == read_npz("m/graph.npz").checksums()
    run("predict", "m", "-o", "p.csv", "--quiet")
    assert json.loads(Path("p.csv.json").read_text())["model"] == said["fingerprint"]
    said["parts"]["labels"] = "0" * 64
    Path("m/provenance.json").write_text(json.dumps(said))
    assert run("verify", "m", expect=2).err == [
        "graphconv: m must hold the graph it was trained on, but not by its labels"
    ]


def test_a_model_of_columns_and_of_a_graph_folder_saved_from_python(run, tmp_path):
    import numpy as np

    from graphconv import GCNClassifier, Graph, open_graph

    adjacency = np.ones((4, 4)) - np.eye(4)
    features = np.eye(4, 2, dtype=np.float32)
    graph = Graph(adjacency, features, [0, 1, 0, -1], feature_names=["age", "income"])
    GCNClassifier("paper", max_epochs=2).fit(graph).save("m")
    assert json.loads(Path("m/provenance.json").read_text())["options"]["columns"] == [
        "age",
        "income",
    ]
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,label\na,x\nb,y\nc,x\n")
    run("ingest", "--edges", "edges.csv", "--nodes", "nodes.csv", "-o", "g", "--quiet")
    GCNClassifier("paper", max_epochs=2).fit(open_graph("g")).save("m")
    done = run("verify", "m", "--json")
    (name,) = done.json["data"]
    assert Path(name).name == "manifest.json"
    assert done.json["data"][name] == "same"
    assert done.json["parts"] == {}


@pytest.mark.parametrize("content", ["{}", '{"data": 3}', '{"data": [{}]}', '{"data": [[1]]}'])
def test_a_report_refuses_a_damaged_provenance(run, content):
    run("train", "karate", "--max-epochs", "2", "-o", "m", "--quiet")
    Path("m/provenance.json").write_text(content)
    (said,) = run("report", "m", expect=2).err
    assert "provenance.json must be complete, but lacks" in said


def test_tables_carry_the_fingerprint_of_their_model(run, tmp_path):
    import pyarrow.parquet as pq

    run("train", "karate", "--max-epochs", "2", "-o", "m", "--quiet")
    run("predict", "m", "-o", "p.csv", "--quiet")
    run("predict", "m", "-o", "p.parquet", "--quiet")
    fingerprint = folder_fingerprint(tmp_path / "m")
    said = json.loads((tmp_path / "p.csv.json").read_text())
    assert said["model"] == fingerprint
    assert said["sha256"] == sha256_of(tmp_path / "p.csv")
    metadata = pq.read_schema(tmp_path / "p.parquet").metadata
    assert metadata[b"graphconv.model"] == fingerprint.encode()


def test_text_can_be_made_safe_for_a_spreadsheet(run, tmp_path):
    edges = "source,target\n=1+1,@x\n@x,plain\n"
    nodes = "id,label\n=1+1,+a\n@x,b\nplain,b\n"
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "nodes.csv").write_text(nodes)
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv")
    run("train", *tables, "--split", "fraction:0.9,0,0.1", "-o", "m", "--quiet")
    run("predict", "m", "-o", "raw.csv", "--quiet")
    run("predict", "m", "-o", "safe.csv", "--spreadsheet-safe", "--quiet")
    raw = [line.split(",")[:2] for line in (tmp_path / "raw.csv").read_text().splitlines()]
    safe = [line.split(",")[:2] for line in (tmp_path / "safe.csv").read_text().splitlines()]
    assert [row[0] for row in raw[1:]] == ["=1+1", "@x", "plain"]
    assert [row[0] for row in safe[1:]] == ["'=1+1", "'@x", "plain"]
    assert [row[1] for row in safe[1:]] == [row[1].replace("+a", "'+a") for row in raw[1:]]


def test_every_table_of_ids_can_be_made_safe(run, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n=1+1,@x\n@x,-z\n")
    (tmp_path / "nodes.csv").write_text("id,label\n=1+1,+a\n@x,b\n")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv")
    run("train", *tables, "--split", "fraction:0.9,0,0.1", "-o", "m", "--quiet")
    for command, ids in (
        (("embed", "m"), ["'=1+1", "'@x", "'-z"]),
        (("suggest", "m", "-n", 1), ["'-z"]),
    ):
        run(*command, "-o", "safe.csv", "--spreadsheet-safe", "--quiet")
        header, *rows = (line.split(",") for line in Path("safe.csv").read_text().splitlines())
        assert [row[header.index("id")] for row in rows] == ids


def saved(folder, graph=None, **more):
    """A folder with the files of a model, and its provenance."""
    folder.mkdir()
    (folder / "model.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "notes.txt").write_text("not of the model")
    graph = graph or Graph([[0, 1], [1, 1]], np.eye(2), [0, 1], feature_names=["a", "b"])
    provenance.write_provenance(folder, graph, {"preset": "robust"}, **more)
    return graph, json.loads((folder / "provenance.json").read_text())


def test_what_is_kept_of_a_training(tmp_path):
    graph, content = saved(tmp_path / "m")
    assert content["parts"] == graph.checksums()
    assert content["data"] == []
    assert content["options"] == {
        "data": "graph", "rows": 2, "edges": 2, "columns": ["a", "b"], "preset": "robust",
    }  # fmt: skip
    assert set(content["files"]) == {"model.json", "model.safetensors", "notes.txt"}
    sums = {name: hashlib.sha256((tmp_path / "m" / name).read_bytes()).hexdigest()
            for name in content["files"]}  # fmt: skip
    assert content["files"] == sums
    # Files beside the model are verified, but are no part of what it is known by.
    assert content["fingerprint"] == provenance.folder_fingerprint(tmp_path / "m")
    del sums["notes.txt"]
    assert content["fingerprint"] == provenance.fingerprint_of(sums)
    found = provenance.verify_provenance(tmp_path / "m")
    assert (found.n_files, found.data, found.parts) == (3, {}, content["parts"])
    provenance.check_parts(found, graph, tmp_path / "m")
    other = Graph([[0, 1], [1, 0]], np.eye(2), [0, 1])
    with pytest.raises(ValueError, match="must hold the graph it was trained on, but not by its"):
        provenance.check_parts(found, other, tmp_path / "m")


def test_files_of_data_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("edges.csv")
    path.write_text("a,b\n")
    described = provenance.describe_file(path, "edges")
    assert described == {
        "role": "edges", "name": "edges.csv", "bytes": 4,
        "sha256": hashlib.sha256(b"a,b\n").hexdigest(),
    }  # fmt: skip
    graph, content = saved(tmp_path / "m", files_of_data=[described])
    assert "parts" not in content
    for text, state in (("a,b\n", "same"), ("a,c\n", "changed"), (None, "not here")):
        path.unlink()
        if text is not None:
            path.write_text(text)
        found = provenance.verify_provenance(tmp_path / "m")
        assert found.data == {"edges.csv": state}
        path.touch()
    provenance.check_parts(found, graph, tmp_path / "m")  # nothing to compare with


def test_a_graph_folder_is_known_by_its_manifest(tmp_path):
    graph = Graph([[0, 1], [1, 0]], labels=[0, 1])
    store_graph(graph, tmp_path / "g")
    _, content = saved(tmp_path / "m", open_graph(tmp_path / "g"))
    (described,) = content["data"]
    assert described["role"] == "graph folder"
    assert Path(described["name"]).parent == tmp_path / "g"
    assert content["options"]["columns"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "its format must be 1, got 99"),
        ({"fingerprint": "0"}, "its fingerprint is not that of its files"),
        ({"files": {"gone.txt": "0"}}, "gone.txt is not there"),
        ({"files": {"notes.txt": "0"}}, "notes.txt has changed since it was written"),
        ({"files": {"../m/notes.txt": "0"}}, "files must be named without a folder"),
        ({"files": {"..": "0"}}, "files must be named without a folder"),
        ({"files": None}, "must be complete, but lacks"),
        ({"data": [{}]}, "must be complete, but lacks"),
    ],
)
def test_a_folder_that_is_not_as_it_was(change, message, tmp_path):
    _, content = saved(tmp_path / "m")
    (tmp_path / "m/provenance.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=message):
        provenance.verify_provenance(tmp_path / "m")


def test_large_files_are_read_in_blocks(tmp_path):
    content = bytes(range(256)) * 5000  # more than a mebibyte
    (tmp_path / "large").write_bytes(content)
    assert provenance.sha256_of(tmp_path / "large") == hashlib.sha256(content).hexdigest()


def test_ten_thousand_columns_are_named(tmp_path):
    names = [str(number) for number in range(10_001)]
    wide = Graph(np.zeros((1, 1)), np.ones((1, 10_001)), feature_names=names)
    _, content = saved(tmp_path / "m", wide)
    assert content["options"]["columns"] == names[:10_000]
