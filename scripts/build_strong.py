"""docs/strong.md, made from measured/strong.json (`make strong` measures and makes it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scripts.generated_pages import DOCS, measured, write_pages

from graphconv.paper.page import markdown_table
from graphconv.paper.section import Table

PAGE = DOCS / "strong.md"
DATASETS = ("cora", "citeseer", "pubmed")
PRESETS = {"strong": "preset `strong`", "robust": "preset `robust`, a GCN"}
# Feng et al., "Graph random neural networks for semi-supervised learning on graphs", table 1.
PUBLISHED = {"cora": 85.4, "citeseer": 75.4, "pubmed": 82.7}
SPLITS = {
    "public": "The public split: 20 training labels of each class, 500 validation and 1,000 test "
    "nodes.",
    "random": "Random splits of the same sizes, a new one for each seed; the preset chooses on "
    "each.",
    "no validation nodes": "The public split without its validation nodes: both presets hold out a "
    "fifth of the training labels instead, to stop by.",
}
INTRODUCTION = """# The strongest preset, measured

`--preset strong` trains models of several kinds in full, among them random propagation (GRAND), and
lets the validation nodes say which one to take; `scripts/measure_strong.py` says how. Test
accuracy in percent, mean and standard deviation over seeds, and processor seconds of one training
without the choice; `make strong` prints it again and goes on where it was interrupted. The settings
of the candidates were found on the validation nodes of these three public splits: the random splits
draw their test nodes from all nodes, those among them. What GRAND's authors published for Citeseer
and Pubmed is among the candidates.
"""


def pages() -> dict[Path, str]:
    found = measured("strong")
    parts = [INTRODUCTION]
    for split, text in SPLITS.items():
        rows = [
            row
            for preset, words in PRESETS.items()
            if (row := _row(found, split, preset, words)) is not None
        ]
        if rows:
            header = ["", *(name.capitalize() for name in DATASETS)]
            if split == "public":
                published = [str(PUBLISHED[name]) for name in DATASETS]
                rows.append(["GRAND as published, 100 seeds", *published])
            table = markdown_table(Table(split, tuple(header), tuple(map(tuple, rows))))
            parts.append(f"## {split.capitalize()}\n\n{text}\n\n{table}\n")
    parts.append("## What was chosen on the public splits\n")
    for name in DATASETS:
        row = found.get(f"public/{name}/strong")
        if row is not None:
            parts.append(f"- {name.capitalize()}: {row['choice']}.")
    return {PAGE: "\n".join(parts).rstrip("\n") + "\n"}


def _row(found: dict[str, Any], split: str, preset: str, words: str) -> list[str] | None:
    rows = [found.get(f"{split}/{name}/{preset}") for name in DATASETS]
    if not any(rows):
        return None
    return [words, *("" if row is None else _cell(row) for row in rows)]


def _cell(row: dict[str, Any]) -> str:
    runs = np.array(row["test"])
    seconds = row["seconds"] / len(runs)
    return f"{runs.mean():.1f} ± {runs.std():.1f} ({len(runs)} seeds, {seconds:.1f} s)"


if __name__ == "__main__":
    write_pages(pages())
