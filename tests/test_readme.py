"""README's list of commands, and what it says to install, are true."""

import re
from pathlib import Path

import typer

from graphconv.commands.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_is_in_the_list():
    listed = re.findall(r"^\| `graphconv ([a-z]+)", README, flags=re.MULTILINE)
    assert sorted(listed) == sorted(typer.main.get_command(app).commands)


def test_extras_that_are_named_exist():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, section = project.split("[project.optional-dependencies]\n")
    extras = re.findall(r"^(\w+) = \[", section.split("\n[")[0], flags=re.MULTILINE)
    named = re.findall(r"'\.\[([a-z,]+)\]'", README)
    assert named
    assert set(",".join(named).split(",")) <= set(extras)
