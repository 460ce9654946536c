"""Groups of options: what typer sees of a command, and what the command gets."""

import inspect
from dataclasses import fields

from graphconv.commands.option_groups import (
    ScreenOptions,
    SettingsOptions,
    TableColumns,
    takes_groups,
)
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
    assert {f.name for f in fields(SettingsOptions)} == {f.name for f in fields(Settings)}
    assert SettingsOptions().chosen() == {}
    assert SettingsOptions(hidden="0", fanout="5,5", dropout="0.1").chosen() == {
        "hidden": (),
        "fanout": (5, 5),
        "dropout": 0.1,
    }


def test_table_options_have_the_defaults_of_the_readers():
    assert TableOptions(**TableColumns().options()) == TableOptions()
