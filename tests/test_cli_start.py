"""Tests of the command line: help, and what is imported before it is needed."""

import os
import resource
import subprocess
import sys

import pytest
from tests.command_line import FILES, PACKAGE_PLACE, names


def measure_child(code, *arguments):
    """What a script printed in a process of its own, and the CPU seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return out.stdout, seconds


# Runs a command, then says on the last line which heavy packages it has brought in.
LOADED = """
import sys
sys.argv[0] = "graphconv"
from graphconv.commands.cli import _run
assert _run() == 0
heavy = "torch numpy scipy pandas pyarrow sklearn networkx rich matplotlib plotly".split()
print(*(name for name in heavy if name in sys.modules))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_help_is_instant(arguments):
    # CPU time, the least of three: the machine may be busy with something else.
    taken = []
    for _ in range(3):
        out, seconds = measure_child(LOADED, *arguments)
        taken.append(seconds)
        assert out.splitlines()[-1] == "", "nothing heavy may be imported"
        if seconds < 0.5:
            break
    assert min(taken) < 0.5


def test_listing_data_sets_needs_no_torch():
    out, _ = measure_child(LOADED, "datasets")
    assert "torch" not in out.splitlines()[-1]
    assert " ".join(out.splitlines()[3].split()) == (
        "karate 34 78 34 4 in the package Zachary's karate club, with networkx"
    )


def test_training_imports_no_more_than_it_needs(tmp_path):
    """Not torch, pandas, networkx or scikit-learn, which take as long as training on Cora each."""
    output = tmp_path / "cora"
    out, _ = measure_child(LOADED, "train", "cora", "-q", "--max-epochs", 2, "-o", output)
    assert out.splitlines()[-1].split() == ["numpy", "scipy"]
    assert names(output) == FILES


def test_a_table_of_ones_own_needs_pandas_but_not_scikit_learn(papers, tmp_path):
    """Text becomes features without it, and a model that is there labels without either."""
    tables = ["--edges", papers / "edges.csv", "--nodes", papers / "nodes.csv"]
    model = tmp_path / "model"
    training = ["train", *tables, "--preset", "robust", "-q", "--max-epochs", 2, "-o", model]
    needed = {
        ("numpy", "scipy", "pandas", "pyarrow"): [training, ["inspect", *tables]],
        ("numpy", "scipy"): [
            ["predict", model, "-q", "-o", tmp_path / "new.csv"],
            ["verify", model],
        ],
    }
    for packages, commands in needed.items():
        for command in commands:
            out, _ = measure_child(LOADED, *command)
            assert tuple(out.splitlines()[-1].split()) == packages, command[0]


# One of each kind: where labels are one or several, and what of torch a model could need.
WITHOUT_TORCH = {
    "gcn": [],
    "appnp": [],
    "grand": ["--copies", 2],
    "mlp": [],
    "normalised": ["--normalisation", "batch", "--hidden", "8,8", "--bias"],
    "learned": ["--self-loop-weight", "learn", "--activation", "elu"],
    "in batches": ["--batch-size", 2, "--fanout", 3],
    "several": ["--runs", 3],
}


@pytest.mark.parametrize("case", WITHOUT_TORCH)
def test_the_processor_needs_no_torch(case, tmp_path):
    """Training, its continuation, prediction and verification."""
    options = WITHOUT_TORCH[case]
    if case in ("appnp", "grand", "mlp"):
        options = ["--model", case, *options]
    else:
        options = ["--model", "gcn", *options]
    model, table = tmp_path / "model", tmp_path / "new.csv"
    for command in (
        ["train", "karate", *options, "-q", "--max-epochs", 4, "-o", model],
        ["predict", model, "-q", "-o", table],
        ["verify", model],
    ):
        out, _ = measure_child(LOADED, *command)
        assert "torch" not in out.splitlines()[-1].split(), command
    assert len(table.read_text().splitlines()) == 35
    assert names(model) == FILES


def test_the_classifier_needs_no_torch(tmp_path):
    code = """
import sys
import numpy as np
from graphconv import GCNClassifier, load_dataset, load_model, save_model
karate = load_dataset("karate")
for options in ({}, {"model": "grand"}, {"hidden": (8, 8), "normalisation": "batch"}):
    model = GCNClassifier(max_epochs=5, random_state=0, **options).fit(karate)
    assert model.predict_proba(karate).shape == (34, 4)
    model.transform(karate)
    save_model(model, sys.argv[1])
    assert np.array_equal(load_model(sys.argv[1]).predict(karate), model.predict(karate))
print("torch" in sys.modules)
"""
    assert measure_child(code, tmp_path / "model")[0] == "False\n"


def test_a_device_needs_torch():
    """The check above would see it."""
    code = """
import sys
from graphconv import GCNClassifier, load_dataset
from graphconv.engine.devices import choose_device
assert choose_device("cpu", 10**12) is choose_device("auto", 1000) is None
print("torch" in sys.modules)
choose_device("auto", 10**12)
print("torch" in sys.modules)
"""
    assert measure_child(code)[0] == "False\nTrue\n"


def test_no_command_shows_the_help(run):
    done = run(expect=2)
    assert done.err[0].startswith("Usage: graphconv")
    assert any(line.split()[:1] == ["predict"] for line in done.err)


def test_help_lists_options_in_groups(run):
    out = run("train", "-h").out
    groups = [line for line in out.splitlines() if line.endswith("options:")]
    assert groups == [f"{n} options:" for n in ("Data", "Table", "Model", "Training", "Output")]
    assert "label-propagation" in out


@pytest.mark.parametrize("command", ["train", "compare", "reproduce"])
def test_help_gives_each_example_a_line(run, command):
    lines = run(command, "-h").out.splitlines()
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) == 2
    assert all(line.startswith(f"  graphconv {command} ") for line in examples)


def test_version(run):
    assert run("--version").out.startswith("graphconv 0.")


def test_data_sets_as_json(run):
    listed = {info["name"]: info for info in run("datasets", "--json").json["datasets"]}
    assert listed["cora"]["n_nodes"] == 2708
    assert listed["random:N"]["n_nodes"] is None
