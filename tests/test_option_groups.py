"""Groups of options: what typer sees of a command, and what the command gets."""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import typer

import graphconv
from graphconv.commands.cli import app
from graphconv.commands.option_groups import (
    ScreenOptions,
    SettingsOptions,
    TableColumns,
    takes_groups,
)
from graphconv.commands.option_names import spell_option
from graphconv.io.table_graph import TableOptions
from graphconv.models.settings import Settings


def test_a_group_is_shown_as_its_options_and_given_as_one():
    got = []

    @takes_groups(without=("text",))
    def command(*, first: int, tables: TableColumns, last: int = 3, screen: ScreenOptions) -> None:
        """What it does."""
        got.append((first, tables, last, screen))

    shown = inspect.signature(command).parameters
    assert list(shown)[:2] == ["first", "source"]
    assert list(shown)[-3:] == ["last", "quiet", "as_json"]
    assert "text" not in shown
    assert shown["id"].default == "id"
    assert command.__name__ == "command"
    assert command.__doc__ == "What it does."
    given = {name: parameter.default for name, parameter in shown.items()}
    command(**{**given, "first": 1, "id": "key", "quiet": True})
    assert got == [(1, TableColumns(id="key"), 3, ScreenOptions(quiet=True))]


def test_every_setting_has_an_option():
    names = [parameter.name for parameter in SettingsOptions.parameters()]
    assert ["model", *names] == [field.name for field in fields(Settings)]
    assert SettingsOptions().chosen() == {}
    assert SettingsOptions(hidden="0", fanout="5,5", dropout="0.1").chosen() == {
        "hidden": 0,
        "fanout": (5, 5),
        "dropout": 0.1,
    }


def test_table_options_have_the_defaults_of_the_readers():
    assert TableOptions(**TableColumns().options()) == TableOptions()


def library_texts():
    """Each text that code outside `commands` may show, with the file it is in."""
    package = Path(graphconv.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] == "commands":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docstrings = {
            ast.get_docstring(node, clean=False)
            for node in ast.walk(tree)
            if isinstance(node, documented)
        }
        for node in ast.walk(tree):
            value = getattr(node, "value", None)
            if isinstance(value, str) and value not in docstrings:
                yield path, value


def test_the_library_does_not_speak_of_options():
    spoken = [text for path, text in library_texts() if path.name != "download.py"]  # of pip
    assert [text for text in spoken if re.search(r"(?<![\w-])--[a-z]", text)] == []


def test_messages_name_options_that_there_are():
    """Every parameter that a message of the library names is an option of some command."""
    commands = typer.main.get_command(app).commands.values()
    options = {flag for command in commands for one in command.params for flag in one.opts}
    named = set()
    for path in Path(graphconv.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "naming":
                for text in ast.walk(node.args[0]):
                    named |= set(re.findall(r"{([a-z_]+)[:}]", str(getattr(text, "value", ""))))
    assert {"dropout", "preset", "missing_value", "directed"} <= named
    assert {spell_option(name) for name in named} - options == set()
