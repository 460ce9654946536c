"""docs/evidence.md, made from measured/choice.jsonl, sets.jsonl and doubt.jsonl."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scripts.generated_pages import DOCS, write_pages
from scripts.measure_choice import summary
from scripts.measure_sets import COVERAGE
from scripts.measured_lines import read

from graphconv.paper.page import markdown_table
from graphconv.paper.section import Table

PAGE = DOCS / "evidence.md"
CHOICE = """# Choices and estimates, measured

## Is the right method chosen?

`graphconv train` without an option (*default*) and `--preset auto` beside the best single method:
the one among all that were tried with the highest mean, which nobody can know beforehand. Accuracy
in percent; ROC AUC where one of two classes has three times the nodes of the other. 20 training and
30 validation labels of each class, or the splits that were published with a graph; generated graphs
have 20 training labels of each class and 100 validation labels of any. Seconds are processor
seconds, the last training among them. `make choose GRAPHS=folder` measures and prints it;
`scripts/measure_choice.py` says what the folder holds.

The default and `auto` were measured last, on three splits of each graph, beside other work on two
cores. GRAND without features stands among the single methods since it is tried there.
"""
SETS = """## Do prediction sets hold the true class?

Sets for a coverage of {coverage:g} %: the share of test nodes whose set holds their class, the mean
number of classes in a set, and the share of sets with a single class. Beside them stands plain
split conformal prediction, which sets a fifth of the labels aside and does not smooth over
neighbours. 95 % of the mean coverages of so many splits would lie in the band if every label were
drawn by itself. A set always holds the likeliest class, so where that alone is right more often
than asked for, as without features here, coverage is higher. `python -m scripts.measure_sets`
measures it.
"""
DOUBT = """## Are wrong labels found?

5 % of the labels of each citation set were flipped to another class. Of the labels that
`graphconv doubt` puts first, as many were looked at as had been flipped: the share of them that was
flipped (with equal numbers, precision and recall are one), and the share of all flipped ones among
twice as many. `python -m scripts.measure_doubt` measures it.
"""


def pages() -> dict[Path, str]:
    parts = [
        CHOICE,
        _choice_table(read("choice")),
        SETS.format(coverage=100 * COVERAGE),
        _sets_table(read("sets")),
        DOUBT,
        _doubt_table(read("doubt")),
    ]
    return {PAGE: "\n".join(parts)}


def _table(name: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return markdown_table(Table(name, header, tuple(rows))) + "\n"


def _graphs(rows: list[dict[str, Any]]) -> list[str]:
    """Names in the order of their first line."""
    return list(dict.fromkeys(row["graph"] for row in rows))


def _choice_table(rows: list[dict[str, Any]]) -> str:
    header = ("graph", "splits", "default", "auto", "best single", "which", "default, s", "auto, s")
    made = []
    for name in _graphs(rows):
        found = summary(rows, name)
        if found is None:
            continue
        scores = [f"{found[key]:.1f}" for key in ("default", "auto", "best score")]
        seconds = [f"{found[f'{key} seconds']:.1f}" for key in ("default", "auto")]
        made.append((name, str(found["splits"]), *scores, found["best"], *seconds))
    return _table("choice", header, made)


def _sets_table(rows: list[dict[str, Any]]) -> str:
    header = ("graph", "splits", "coverage", "band", "size", "single")
    header = (*header, "plain: coverage", "size", "single")
    made = []
    for name in _graphs(rows):
        own = [row for row in rows if row["graph"] == name]
        n_labels, n_test = own[0]["n_labels"], own[0]["n_test"]
        spread = COVERAGE * (1 - COVERAGE) * (1 / n_labels + 1 / n_test) / len(own)
        low, high = (100 * (COVERAGE + sign * 1.96 * math.sqrt(spread)) for sign in (-1, 1))
        cells = [name, str(len(own))]
        for kind in ("smoothed", "plain"):
            coverage, size, single = np.mean([row[kind] for row in own], axis=0)
            cells.append(f"{coverage:.1f}")
            if kind == "smoothed":
                cells.append(f"{low:.1f} to {high:.1f}")
            cells += [f"{size:.2f}", f"{single:.0f} %"]
        made.append(tuple(cells))
    return _table("sets", header, made)


def _doubt_table(rows: list[dict[str, Any]]) -> str:
    header = ("graph", "seeds", "flipped", "found among as many", "among twice as many")
    made = []
    for name in _graphs(rows):
        own = [row for row in rows if row["graph"] == name]
        recall, twice = (
            f"{100 * np.mean([row[key] for row in own]):.1f} %"
            for key in ("recall", "recall_twice")
        )
        made.append((name, str(len(own)), f"{own[0]['n_flipped']:,}", recall, twice))
    return _table("doubt", header, made)


if __name__ == "__main__":
    write_pages(pages())
