"""Runs graphconv's command line: in the process of the tests, where torch is loaded, or another."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from graphconv.commands import cli

ROOT = Path(__file__).resolve().parent.parent
TABLES = ("--edges", "papers/edges.csv", "--nodes", "papers/nodes.csv")
# What a trained model's folder holds.
FILES = ["graph.npz", "model.json", "model.safetensors", "predictions.csv", "provenance.json"]
COLUMNS = ("--text", "title", "--categorical", "venue")


class Done(NamedTuple):
    """What a command left: its exit code, its output and its lines on stderr."""

    code: int
    out: str
    err: list[str]

    @property
    def json(self):
        """The one JSON object on stdout; NaN and Infinity are not JSON."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out, parse_constant=lambda word: 1 / 0)


def make_runner(monkeypatch, capsys):
    """A function that runs a command line in this process."""

    def run(*arguments, expect=0):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["graphconv", *map(str, arguments)])
        code = cli._run()
        captured = capsys.readouterr()
        done = Done(code, captured.out, captured.err.splitlines())
        assert code == expect, done
        return done

    return run


def start(*arguments, cwd, environment=None, **options):
    """Start a command line in a process of its own, with more environment variables if need be."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **(environment or {}),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "graphconv", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process, seconds=120):
    out, err = process.communicate(timeout=seconds)
    return Done(process.returncode, out, err.splitlines())


def write_papers(folder, n_papers=150):
    """The example of own data, made smaller by scripts/make_example.py."""
    path = ROOT / "scripts" / "make_example.py"
    spec = importlib.util.spec_from_file_location("make_example", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_example"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    module.write_example(folder, n_papers)
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def one_line(error) -> str:
    """The message of an error that `pytest.raises` caught, which must be one line."""
    message = str(error.value)
    assert "\n" not in message
    return message
