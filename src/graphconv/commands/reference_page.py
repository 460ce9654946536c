"""Reference page: every command with its options and its JSON, read off the commands."""

from __future__ import annotations

from typing import Any

import typer

from graphconv.commands.cli import app
from graphconv.commands.json_output import JSON_OUTPUT, Field

_INTRODUCTION = """# Commands

Every command and every option. In a terminal `graphconv COMMAND --help` says the same, and
`graphconv --install-completion` lets the Tab key complete both. An error is one line, and the exit
code 2; an interruption exits with 130.

With `--json` a command prints one JSON object and nothing else on stdout. Its fields are listed
here. Later versions may add some; those that are here keep their meaning.
"""


def commands_page() -> str:
    """The page, as Markdown."""
    group = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands  # type: ignore[attr-defined]  # it is a group
    return "\n".join([_INTRODUCTION, *(_section(name, commands[name]) for name in commands)])


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"graphconv {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    description = (command.help or "").strip()
    lines = [f"## graphconv {name}\n", f"`graphconv {name} {usage}`\n", f"{description}\n"]
    groups: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in record[0]:
            continue
        panel = getattr(parameter, "rich_help_panel", None) or "Arguments"
        groups.setdefault(panel, []).append(f"| `{_name(record[0])}` | {_cell(record[1])} |")
    for panel, rows in groups.items():
        lines += [f"| {panel} | |", "| --- | --- |", *rows, ""]
    if name in JSON_OUTPUT:
        lines += ["| `--json` | type | |", "| --- | --- | --- |"]
        lines += [_json_row(field) for field in JSON_OUTPUT[name]]
        lines.append("")
    if command.epilog:
        examples = [f"    {line}" for line in command.epilog.splitlines()]
        lines += ["Examples:\n", *examples, ""]
    return "\n".join(lines)


def _json_row(field: Field) -> str:
    sometimes = "" if field.is_always_there else " Not always there."
    return f"| `{field.name}` | {field.kind} | {_cell(field.meaning)}{sometimes} |"


def _name(text: str) -> str:
    """An option's or argument's name, without the type that typer adds to arguments."""
    return " ".join(text.partition("<")[0].split()).replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
