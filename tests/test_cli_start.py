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
    """Not pandas, networkx or scikit-learn, each of which takes as long as training on Cora."""
    output = tmp_path / "cora"
    out, _ = measure_child(LOADED, "train", "cora", "-q", "--max-epochs", 2, "-o", output)
    assert out.splitlines()[-1].split() == ["torch", "numpy", "scipy"]
    assert names(output) == FILES


def test_a_table_of_ones_own_needs_pandas_but_not_scikit_learn(papers, tmp_path):
    """Text becomes features without it, and a model that is there labels without either."""
    tables = ["--edges", papers / "edges.csv", "--nodes", papers / "nodes.csv"]
    model = tmp_path / "model"
    training = ["train", *tables, "--preset", "robust", "-q", "--max-epochs", 2, "-o", model]
    needed = {
        ("torch", "numpy", "scipy", "pandas", "pyarrow"): [training],
        ("torch", "numpy", "scipy"): [
            ["predict", model, "-q", "-o", tmp_path / "new.csv"],
            ["verify", model],
        ],
        ("numpy", "scipy", "pandas", "pyarrow"): [["inspect", *tables]],
    }
    for packages, commands in needed.items():
        for command in commands:
            out, _ = measure_child(LOADED, *command)
            assert tuple(out.splitlines()[-1].split()) == packages, command[0]


def test_the_classifier_is_imported_without_torch():
    code = "import sys; from graphconv import GCNClassifier; print('torch' in sys.modules)"
    assert measure_child(code)[0] == "False\n"


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
