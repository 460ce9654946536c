"""docs/mutants.md, made from measured/mutants.json (`make mutants` measures and makes it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.generated_pages import DOCS, measured, write_pages
from scripts.mutants import table_of

INTRODUCTION = """# Would a test notice?

Small faults are put into the source, one at a time, and the tests have to notice: a comparison
turned round, `+` for `-`, a number one larger or twice as large, a condition denied, a call or a
change in place left out. `make mutants` draws so many in each folder, tries each against the tests
that run its line and lists those that no test notices. A fault counts as noticed only if the test
that failed passes without it.

Not drawn, because no result depends on them: texts of messages and what an error raises, types,
hints for the interpreter, memory that is given back, how far a run is said to be and how long it is
guessed to take, and how large or thick something is drawn. Code that only processes of torchrun run
is left out too, since these import the files as they are.

What survives is listed below. Of a fault with a reason it was worked out by hand that it changes no
result, or only how long it takes to get it; of the others the tests knew nothing when it was
measured.
"""


def pages() -> dict[Path, str]:
    rows = measured("mutants")
    parts = [INTRODUCTION, table_of(rows), ""]
    for row in rows:
        parts += [f"## `{row['folder']}`", "", *_survivors(row["survivors"]), ""]
    return {DOCS / "mutants.md": "\n".join(parts).rstrip("\n") + "\n"}


def _survivors(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["None of those drawn."]
    lines = []
    for one in found:
        place, _, change = one["fault"].partition(": ")
        before, _, after = change.partition(" => ")
        why = one["reason"] or f"No reason: {one['result']}."
        lines.append(f"- {why.rstrip('.')} (`{place}`):\n\n      {before}\n      {after}\n")
    return lines


if __name__ == "__main__":
    write_pages(pages())
