"""Training and prediction on a graph folder, from tables to predictions, without loading it."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("duckdb")

from tests.command_line import PACKAGE_PLACE, finish, start

from graphconv import read_tables
from graphconv.graph.scaling import fit_scaler, fit_stored_scaler
from graphconv.io.table_graph import TableOptions
from graphconv.storage.generation import GraphRecipe, write_generated
from graphconv.storage.ingest import IngestRequest, ingest
from graphconv.storage.stored_graph import open_graph
from graphconv.training.fit import fit_gcn

RECIPE = GraphRecipe(
    "planted-partition", 2000, 10_000, n_features=6, labelled=0.4, ids="string", seed=3
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with tables and the graph made of them."""
    folder = tmp_path_factory.mktemp("stored")
    edges, nodes = write_generated(RECIPE, folder / "tables")
    ingest(IngestRequest((str(edges),), (str(nodes),), folder / "graph"))
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_size": 100, "fanout": (5, 5)},
        {"propagation": "chebyshev", "lambda_max": 2.0},
        {"scaling": "l2", "residual": True, "hidden": (6, 6)},
    ],
)
def test_training_on_disk_is_training_in_memory(place, settings):
    in_memory = read_tables(
        place / "tables" / "edges.parquet", place / "tables" / "nodes.parquet"
    ).graph
    overrides = {"max_epochs": 15, "hidden": (8,), **settings}
    expected = fit_gcn(in_memory, overrides=overrides, seeds=[1, 2])
    stored = fit_gcn(open_graph(place / "graph"), overrides=overrides, seeds=[1, 2])
    assert stored.history["train_loss"] == pytest.approx(expected.history["train_loss"], rel=1e-5)
    np.testing.assert_allclose(stored.probabilities(), expected.probabilities(), atol=1e-4)
    np.testing.assert_allclose(stored.embedding(), expected.embedding(), atol=1e-3)
    on_other = expected.probabilities(open_graph(place / "graph"))
    np.testing.assert_allclose(on_other, expected.probabilities(), atol=1e-5)


@pytest.mark.parametrize("kind", ["auto", "standard", "l2", "row", "none"])
@pytest.mark.parametrize("n_categories", [0, 4])
def test_scaling_on_disk_is_scaling_in_memory(tmp_path, monkeypatch, kind, n_categories):
    monkeypatch.setattr("graphconv.graph.scaling.BLOCK_NUMBERS", 50)
    rng = np.random.default_rng(0)
    edges = pd.DataFrame({"source": np.arange(100), "target": np.roll(np.arange(100), 1)})
    nodes = pd.DataFrame({"id": np.arange(100), "label": 1, "a": 1e3 + rng.random(100), "b": 7.0})
    options = {}
    if n_categories:
        nodes["town"] = rng.integers(n_categories, size=100).astype(str)
        options = {"categorical": ("town",)}
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    paths = [str(tmp_path / f"{name}.csv") for name in ("edges", "nodes")]
    ingest(IngestRequest((paths[0],), (paths[1],), tmp_path / "g", TableOptions(**options)))
    expected = fit_scaler(read_tables(*paths, **options).graph.features, kind)
    found = fit_stored_scaler(open_graph(tmp_path / "g").features, kind)
    assert found.kind == expected.kind
    for name in ("mean", "scale"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_commands_from_tables_to_predictions(run, place):
    shutil.copytree(place / "graph", "graph")
    done = run(
        "train", "graph", "--max-epochs", 30, "--batch-size", 200, "--fanout", "5,5",
        "-o", "model", "--json",
    )  # fmt: skip
    assert done.json["test_accuracy"] > 0.91
    assert sorted(os.listdir("model")) == [
        "model.json", "model.safetensors", "predictions.parquet", "provenance.json",
        "splits.npz",
    ]  # fmt: skip
    done = run("predict", "model", "graph", "-o", "p.parquet", "--json")
    assert done.json["n_nodes"] == 2000
    table = pd.read_parquet("p.parquet")
    assert table["id"].tolist() == [f"n{i}" for i in range(2000)]
    pd.testing.assert_frame_equal(table, pd.read_parquet("model/predictions.parquet"))
    assert set(table["split"]) == {"", "train", "validation", "test"}
    assert np.allclose(table.filter(regex="^p_").sum(axis=1), 1, atol=1e-5)
    run("predict", "model", "-o", "p.csv")  # its own graph, where it was
    assert pd.read_csv("p.csv")["label"].tolist() == table["label"].tolist()
    run("embed", "model", "graph", "-o", "h.parquet")
    assert pd.read_parquet("h.parquet").shape == (2000, 65)
    # The graph moves; then it changes.
    os.rename("graph", "elsewhere")
    done = run("predict", "model", "-o", "p.csv", expect=2)
    assert "which is not there or has changed" in done.err[0]
    run("predict", "model", "elsewhere", "-o", "q.parquet")
    pd.testing.assert_frame_equal(table, pd.read_parquet("q.parquet"))


def test_other_tables_are_read_as_the_graph_was(run, place):
    run("train", place / "graph", "--max-epochs", 5, "-o", "model", "-q")
    tables = place / "tables"
    run(
        "predict", "model", "--edges", tables / "edges.parquet", "--nodes",
        tables / "nodes.parquet", "-o", "p.parquet",
    )  # fmt: skip
    ours, theirs = pd.read_parquet("p.parquet"), pd.read_parquet("model/predictions.parquet")
    assert ours["label"].tolist() == theirs["label"].tolist()
    assert ours["split"].tolist() == theirs["split"].tolist()


def test_what_needs_the_whole_graph_is_refused(run, place):
    for arguments, message in (
        (("--model", "sgc"), "--model sgc needs a graph in memory, got a folder"),
        (("--preset", "auto"), "--preset auto needs a graph in memory, got a folder"),
        (("--propagation", "chebyshev"), "lambda_max must be a number for a graph on disk"),
        (("--weight", "w"), "--weight is for tables"),
    ):
        done = run("train", place / "graph", *arguments, "-o", "m", expect=2)
        assert message in done.err[-1]
        assert not os.path.exists("m")


def test_a_killed_training_goes_on(tmp_path, place):
    arguments = (
        "train", place / "graph", "--batch-size", 50, "--fanout", "5,5", "--max-epochs", 120,
        "--early-stopping", "none", "--checkpoint-seconds", 0, "-q",
    )  # fmt: skip
    process = start(*arguments, "-o", "killed", cwd=tmp_path)
    unfinished = tmp_path / "killed.training"
    while not unfinished.exists():
        assert process.poll() is None, finish(process)
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert finish(start(*arguments, "-o", "killed", "--resume", cwd=tmp_path)).code == 0
    assert finish(start(*arguments, "-o", "whole", cwd=tmp_path)).code == 0
    one, other = ((tmp_path / name / "model.safetensors") for name in ("killed", "whole"))
    assert one.read_bytes() == other.read_bytes()


_PEAK = """
import sys
code = 0
if sys.argv[1:]:
    from graphconv.commands import cli
    code = cli._run()
else:
    import torch
peak = next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]
print(peak, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's VmHWM")
def test_the_path_of_make_scale_stays_under_a_cap(tmp_path):
    """Generate, ingest, train and predict at 1e5 edges; peak memory of each process."""

    def peak(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": PACKAGE_PLACE},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stderr.splitlines()[-1]) * 1024

    generated = (
        "generate", "planted-partition", "--nodes", 10_000, "--edges", 100_000,
        "--features", 64, "--rows-per-file", 30_000, "-o", "tables", "-q",
    )  # fmt: skip
    mini = ("--batch-size", 256, "--fanout", "10,10", "--max-epochs", 2)
    peaks = {
        "generate": peak(*generated),
        "ingest": peak(
            "ingest", "--edges", "tables/edges-*.parquet", "--nodes", "tables/nodes*.parquet",
            "-o", "graph", "--memory", "500MiB", "-q",
        ),
        "train": peak("train", "graph", *mini, "-o", "model", "-q"),
        "predict": peak("predict", "model", "graph", "-o", "p.parquet", "-q"),
    }  # fmt: skip
    of_torch = peak()  # one for CUDA takes half a gigabyte more than another
    assert all(number < of_torch + (300 << 20) for number in peaks.values()), (of_torch, peaks)
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 10_000
