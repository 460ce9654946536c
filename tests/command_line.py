"""Runs graphconv's command line: in the process of the tests, where torch is loaded, or another."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import graphconv
from graphconv.commands import cli
from graphconv.commands.json_output import JSON_OUTPUT

ROOT = Path(__file__).resolve().parent.parent
# The folder with the package that is tested: src/, or where it was installed with its kernels.
PACKAGE_PLACE = str(Path(graphconv.__file__).resolve().parent.parent)
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
        if code == 0 and "--json" in arguments:
            check_json(str(arguments[0]), done.json)
        return done

    return run


_KINDS = {"integer": int, "number": (int, float), "text": str, "flag": bool, "object": dict}


def check_json(command, values):
    """Hold what a command printed to what the reference says of it (commands/json_output.py)."""
    declared = {field.name: field for field in JSON_OUTPUT[command]}
    assert values.keys() <= declared.keys(), f"{command}: declare in commands/json_output.py"
    for name, field in declared.items():
        if name in values:
            assert _is_of_kind(values[name], field.kind), (command, field, values[name])
        else:
            assert not field.is_always_there, f"{command} printed no {name}"


def _is_of_kind(value, kind):
    if kind.endswith(" or null"):
        return value is None or _is_of_kind(value, kind.removesuffix(" or null"))
    if kind.startswith("list of "):
        return isinstance(value, list) and all(
            _is_of_kind(v, kind[len("list of ") :]) for v in value
        )
    if kind in ("any", "list"):
        return kind == "any" or isinstance(value, list)
    return isinstance(value, _KINDS[kind]) and (kind == "flag" or not isinstance(value, bool))


def start(*arguments, cwd, environment=None, **options):
    """Start a command line in a process of its own, with more environment variables if need be."""
    paths = [PACKAGE_PLACE, os.environ.get("PYTHONPATH", "")]
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


# Seconds after which something will never happen, however busy the machine is.
PATIENCE = 600


def finish(process, seconds=PATIENCE):
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
