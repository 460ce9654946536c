"""graphconv inspect: what each column is taken for, all problems, and the command to train."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, by_type
from graphconv.commands.option_names import as_options, spell_option
from graphconv.commands.terminal import width_of
from graphconv.io.databases import is_database, without_password
from graphconv.io.inspection import Inspection, TableReport, inspect
from graphconv.io.wording import count

_WIDTH = 80
# Further columns of a table are counted only.
_LISTED = 40


def run_inspection(request: DataRequest, screen: Screen) -> None:
    """Show what was found."""
    if request.edges is None or request.name is not None:
        raise ValueError("inspect looks at tables: give --edges and, perhaps, --nodes")
    nodes = by_type(request.nodes)
    found = inspect(list(request.edges), nodes, **request.table_options)
    parts = train_command(request, found)
    screen.result({**found.to_json(), "command": " ".join(parts)})
    for table in found.tables:
        _show_table(table, screen)
        screen.say("")
    for problem in found.problems:
        screen.say(f"problem: {as_options(problem)}")
    for note in found.notes:
        screen.say(f"note: {as_options(note)}")
    what = "train with" if found.is_answered else "once that is mended, train with"
    screen.say(f"{what}:")
    screen.say("\n".join(command_lines(parts, width_of(sys.stdout))))


def train_command(request: DataRequest, found: Inspection) -> list[str]:
    """The command that trains on the tables as they were shown, an option in each part."""
    parts = ["graphconv train"]
    for option, files in (("--edges", request.edges), ("--nodes", request.nodes)):
        for file in files or ():
            shown = without_password(file) if is_database(file) else file
            parts.append(f"{option} {shlex.quote(shown)}")
    for name, value in found.options.items():
        if name != "require_label":
            parts.append(_option(name, value))
    return parts


def command_lines(parts: Sequence[str], width: int | None) -> list[str]:
    r"""A command for a terminal of some width: lines that a shell takes together when copied.

    Examples
    --------
    >>> from graphconv.commands.inspect import command_lines
    >>> print("\n".join(command_lines(["graphconv train", "--edges e.csv", "--id node"], 36)))
      graphconv train --edges e.csv \
        --id node
    >>> command_lines(["graphconv train", "--edges e.csv"], None)
    ['  graphconv train --edges e.csv']
    """
    if width is None:
        return ["  " + " ".join(parts)]
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        # Room for a blank and the mark that the command goes on.
        if len(lines[-1]) + 1 + len(part) + 2 <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return spell_option(name, str(value))
    if isinstance(value, list | tuple):
        # A name with a comma is quoted as in a CSV file.
        value = ",".join(f'"{each}"' if "," in each else each for each in value)
    return f"{spell_option(name)} {shlex.quote(str(value))}"


def _show_table(table: TableReport, screen: Screen) -> None:
    title = f"{table.what}: {table.name}, {count(table.n_rows, 'row')}"
    rows = []
    for column in table.columns[:_LISTED]:
        missing = f"{column.missing:.0%}" if column.missing else "-"
        rows.append([_cut(column.name, 20), _cut(column.role, 30), missing.replace("%", " %")])
    widths = [max([len(row[place]) for row in rows] + [8]) for place in range(3)]
    room = max(12, _WIDTH - sum(widths) - 2 - 3 * 3)
    for row, column in zip(rows, table.columns, strict=False):
        row.append(_fitting(column.examples, room))
    more = len(table.columns) - len(rows)
    if more > 0:
        rows.append([f"... {more:,} more", "", "-", ""])
    screen.table(title, ["column", "taken as", "missing", "examples"], rows)
    for how in table.how:
        screen.say(textwrap.fill(f"({how})", _WIDTH, initial_indent="  ", subsequent_indent="  "))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _fitting(examples: Sequence[str], width: int) -> str:
    """As many examples as there is room for, one at least."""
    text = ""
    for example in examples:
        longer = f"{text}, {example}" if text else _cut(example, width)
        if len(longer) > width:
            break
        text = longer
    return text
