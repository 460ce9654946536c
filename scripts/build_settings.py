"""Write what is declared of each setting into the estimator's docstring and the guide's table.

Run by `make settings`, after a change of graphconv/models/settings.py. A test fails where it was
forgotten.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from pathlib import Path

from graphconv.models.kinds import declaration
from graphconv.models.settings import Settings

ROOT = Path(__file__).parent.parent
ESTIMATOR = ROOT / "src" / "graphconv" / "estimators" / "gcn.py"
PAGE = ROOT / "docs" / "settings.md"


def docstring_lines() -> str:
    """The settings as parameters of a numpydoc docstring, indented as in a class."""
    lines = []
    for field in fields(Settings):
        declared = declaration(field)
        lines.append(f"    {field.name} : {declared.kind.type}, optional")
        lines += textwrap.wrap(
            declared.help, 100, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines) + "\n"


def table() -> str:
    """The settings as a table in Markdown."""
    lines = ["| setting | default | what it does |", "| --- | --- | --- |"]
    for field in fields(Settings):
        declared = declaration(field)
        option = f"--{field.name.replace('_', '-')}"
        lines.append(f"| `{option}` | {_shown(field.default)} | {declared.help} |")
    return "\n".join(lines) + "\n"


def with_docstring(source: str) -> str:
    """The estimator's module with the settings written into its docstring."""
    first = fields(Settings)[0].name
    place = re.compile(rf"^    {first} : .*?(?=^    ensemble : )", re.DOTALL | re.MULTILINE)
    return place.sub(lambda _: docstring_lines(), source, count=1)


def with_table(page: str) -> str:
    """The guide's page with the table of all settings."""
    place = re.compile(r"(?<=<!-- make settings -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)
    return place.sub(lambda _: table(), page, count=1)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return "" if default is None else str(default)


def main() -> None:
    ESTIMATOR.write_text(with_docstring(ESTIMATOR.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
