"""Groups of options: what typer sees of a command, and what the command gets."""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import typer

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
    assert names == [field.name for field in fields(Settings)]
    assert SettingsOptions().chosen() == {}
    assert SettingsOptions(hidden="0", fanout="5,5", dropout="0.1").chosen() == {
        "hidden": 0,
        "fanout": (5, 5),
        "dropout": 0.1,
    }


def test_table_options_have_the_defaults_of_the_readers():
    assert TableOptions(**TableColumns().options()) == TableOptions()


def test_messages_name_options_that_there_are():
    """Every parameter that a message of the library names is an option of some command."""
    commands = typer.main.get_command(app).commands.values()
    options = {flag for command in commands for one in command.params for flag in one.opts}
    named = set()
    for path in (Path(__file__).parent.parent / "src" / "graphconv").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "naming":
                template = ast.unparse(node.args[0])
                named |= set(re.findall(r"{([a-z_]+)[:}]", template))
    named.discard("name")  # of a setting, of which the test above knows
    assert {"dropout", "preset"} <= named
    assert {spell_option(name) for name in named} - options == set()
