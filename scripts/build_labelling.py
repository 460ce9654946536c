"""The table of docs/labelling.md, made from measured/labelling.json; run by `make labelling`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripts.generated_pages import DOCS, measured, write_pages

PAGE = DOCS / "labelling.md"
TITLES = {"cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed"}


def block(result: dict[str, Any]) -> str:
    """The tables and what they amount to."""
    datasets = result["datasets"]
    lines = [
        "| | answers | the page | random questions | `suggest`, one at a time | "
        "a third of the public labels |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, entry in datasets.items():
        last = [entry[method]["mean"][-1] for method in ("page", "random", "suggest")]
        goal = entry.get("goal")
        reached = "" if goal is None else (
            f"{goal['reached']:.1f} % with {goal['answers']} answers; wanted {goal['wanted']:.1f} %"
        )  # fmt: skip
        n_answers = len(entry["page"]["mean"])
        shares = " | ".join(f"{share:.1f} %" for share in last)
        lines.append(f"| {TITLES.get(name, name)} | {n_answers} | {shares} | {reached} |")
    lines += [
        "",
        "How far the page's own estimate is from the truth, in points:",
        "",
        "| | random answers | distance | distance by chance | mean of estimate minus truth | "
        "truth inside the interval | sets that hold the class |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, entry in datasets.items():
        found = entry["estimate"]
        lines.append(
            f"| {TITLES.get(name, name)} | {found['random_answers']} | {found['mean_distance']} | "
            f"{found['distance_by_chance']} | {found['mean_gap']:+.1f} ± {found['gap_error']} | "
            f"{found['truth_in_interval']} | {_share(entry['sets_hold'])} |"
        )
    return "\n".join(lines) + "\n"


def _share(number: float | None) -> str:
    return "none yet" if number is None else f"{number:.0f} %"


def latency_lines(found: dict[str, Any]) -> str:
    """How long a page waits for what an answer changes."""
    lines = [
        "How long after an answer the page has what it changes (two cores, `make latency`):",
        "",
        "| | answers | median | 95th percentile |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in found.items():
        times = f"{row['median']} ms | {row['95th percentile']} ms"
        lines.append(f"| {TITLES.get(name, name)} | {row['answers']} | {times} |")
    return "\n" + "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """The page with the text it should have."""
    result, latency = measured("labelling"), measured("latency")
    before = PAGE.read_text(encoding="utf-8")
    place = re.compile(r"(?<=<!-- make labelling -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)
    if not place.search(before):
        raise SystemExit(f"{PAGE.name} must hold the marks of `make labelling`")
    return {PAGE: place.sub(lambda _: block(result) + latency_lines(latency), before, count=1)}


if __name__ == "__main__":
    write_pages(pages())
