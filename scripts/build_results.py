"""docs/results.md and the README's main table, made from measured/results.json.

python -m scripts.build_results              from what is committed
python -m scripts.build_results runs/paper   take over the results of a rerun first
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.generated_pages import DOCS, MEASURED, ROOT, measured, write_pages

from graphconv.commands.reproduce import EXPERIMENTS
from graphconv.io.files import json_text, replacing_file
from graphconv.paper.page import machine_text, markdown_table, sections_of, to_markdown

BEGIN, END = "<!-- results -->", "<!-- /results -->"
DEPARTURES = (
    "Where we leave the paper, and why: [a list](paper.md#where-we-leave-the-paper), made from the "
    "marks in the source."
)


def take_over(folder: Path) -> None:
    """Copy the results of a rerun and its single runs to measured/, its figures to docs/.

    Sections that the rerun lacks stay as they are; each says when it was finished.
    """
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    (DOCS / "figures").mkdir(parents=True, exist_ok=True)
    for section in sections_of(results):
        for figure in section.figures:
            for suffix in (".png", ".svg"):
                shutil.copyfile(folder / f"{figure.file}{suffix}", DOCS / f"{figure.file}{suffix}")
            if figure.page:
                moving = Path(figure.page).with_suffix(".gif")
                shutil.copyfile(folder / moving, DOCS / moving)
    before = measured("results")
    sections = {**before["sections"], **results["sections"]}
    results["sections"] = {name: sections[name] for name in EXPERIMENTS if name in sections}
    with replacing_file(MEASURED / "results.json") as temporary:
        temporary.write_text(json_text(results, indent=1) + "\n", encoding="utf-8")
    # Every single run, without the time of packing, so that the same runs give the same file.
    packed = gzip.compress((folder / "runs.jsonl").read_bytes(), mtime=0)
    with replacing_file(MEASURED / "runs.jsonl.gz") as temporary:
        temporary.write_bytes(packed)


def readme_block(results: dict[str, Any]) -> str:
    """The main table with a line on where it comes from; all the rest is in docs/results.md."""
    by_name = {section.name: section for section in sections_of(results)}
    if "table2" not in by_name:
        raise SystemExit("measured/results.json must hold table2: run graphconv reproduce table2")
    section = by_name["table2"]
    text = (
        "Test accuracy in percent, ours and in brackets the paper's. "
        f"{machine_text(results)} More rows, runs, errors, times and all other tables and figures: "
        "[docs/results.md](docs/results.md)."
    )
    # Without these the table would mislead: which rows are not the paper's, and which fall short.
    kept = [note for note in section.notes if note.startswith(("NELL", "More than"))]
    notes = "\n".join(f"- {note}" for note in kept)
    # Of the rows, those that the paper has: its numbers stand in brackets.
    table = section.tables[0]
    rows = tuple(row for row in table.rows if any("(" in cell for cell in row[1:]))
    parts = [BEGIN, markdown_table(replace(table, rows=rows)), text, notes, END]
    return "\n\n".join(part for part in parts if part)


def replace_block(text: str, block: str) -> str:
    """The text with what stands between the two marks, and the marks, replaced by the block."""
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"README.md must hold the marks {BEGIN} and {END}")
    return before + block + after


def pages() -> dict[Path, str]:
    """Every page that is made from measured/results.json, with the text it should have."""
    results = measured("results")
    note = "<!-- Made by `make results` from results.json: do not edit. -->"
    title, rest = to_markdown(results).split("\n\n", 1)
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    return {
        DOCS / "results.md": "\n\n".join([note, title, DEPARTURES, rest]),
        readme: replace_block(before, readme_block(results)),
    }


def main() -> None:
    if len(sys.argv) > 1:
        take_over(Path(sys.argv[1]))
    write_pages(pages())


if __name__ == "__main__":
    main()
