"""The list of departures on docs/paper.md, made from the comments that mark them in the source.

A departure is marked where it happens, as `# Paper: ...; here: ..., because ...`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scripts.generated_pages import DOCS, ROOT, write_pages

PAGE = DOCS / "paper.md"
BEGIN, END = "<!-- departures -->", "<!-- /departures -->"
_FORM = re.compile(r"Paper: (.+?); here: (.+?), because (.+)")


@dataclass(frozen=True)
class Departure:
    """What the paper has, what is here instead, and why."""

    file: str
    paper: str
    here: str
    reason: str


def departures_of(path: Path, root: Path) -> list[Departure]:
    """The marks in one file."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    name = path.relative_to(root).as_posix()
    found = []
    for number, line in enumerate(lines):
        if not line.startswith("# Paper:"):
            continue
        comment = [line]
        for further in lines[number + 1 :]:
            if not further.startswith("# ") or further.startswith("# Paper:"):
                break
            comment.append(further)
        text = " ".join(part.removeprefix("# ") for part in comment)
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise SystemExit(
                f"{name}, line {number + 1}: must read '# Paper: ...; here: ..., because ...', "
                f"got {text!r}"
            )
        found.append(Departure(name, *parts.groups()))
    return found


def departures() -> list[Departure]:
    """All marks of the source, by file."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    return [one for path in paths for one in departures_of(path, ROOT)]


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text.replace("|", "\\|")


def block() -> str:
    """The list as a table."""
    rows = [
        f"| {_sentence(one.paper)} | {_sentence(one.here)} | {_sentence(one.reason)} | "
        f"`{one.file.removeprefix('src/graphconv/')}` |"
        for one in departures()
    ]
    head = "| the paper | here | because | where |\n| --- | --- | --- | --- |"
    return "\n".join([BEGIN, "", head, *rows, "", END])


def pages() -> dict[Path, str]:
    """docs/paper.md with the list it should have."""
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{PAGE.name} must hold the marks {BEGIN} and {END}")
    return {PAGE: before + block() + after}


if __name__ == "__main__":
    write_pages(pages())
