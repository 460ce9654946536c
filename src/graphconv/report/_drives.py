"""What drives the labels, as a section of the report page."""

from __future__ import annotations

from collections.abc import Sequence

from graphconv.io.wording import signed
from graphconv.report._sections import html_table, safe
from graphconv.report._words import percent
from graphconv.results.drivers import Driver, Drivers

_N_SHOWN = 12


def drives(found: Drivers | None, judged_by: str) -> str:
    """Sentences and tables of what the labels rest on; why there are none, if there are none."""
    if found is None:
        return (
            "<p>This method labels no other graph than its own, so nothing can be taken away.</p>"
        )
    if not found.whole:
        return "<p>There are no features: who is linked with whom is all that the model knows.</p>"
    parts = [f"<p>{safe(text)}</p>" for text in _in_words(found, judged_by)]
    parts.append(_table("What is lost without it, over all nodes", found.whole, found))
    if found.columns:
        parts.append("<h3>Columns of several features</h3>")
        parts.append(_table("What is lost without a column", found.columns, found))
    if found.features:
        more = ""
        if found.n_features > len(found.features):
            more = (
                f" Of {found.n_features:,} features the {len(found.features)} were tried that "
                "differ most between the classes."
            )
        parts.append("<h3>Single features</h3>")
        if more:
            parts.append(f"<p>{safe(more.strip())}</p>")
        parts.append(_table("What is lost without a feature", found.features, found))
    return "\n".join(parts)


def _in_words(found: Drivers, judged_by: str) -> list[str]:
    links, features = found.whole
    return [
        f"Without its links, {percent(links.changed, 0)} of all nodes would be labelled otherwise"
        f"{_right(links, found, judged_by)}.",
        f"With all features dealt out among the nodes at random, {percent(features.changed, 0)} "
        f"would{_right(features, found, judged_by)}.",
    ]


def _right(one: Driver, found: Drivers, judged_by: str) -> str:
    if one.accuracy is None or found.accuracy is None:
        return ""
    return (
        f", and {percent(one.accuracy)} of the {judged_by} nodes would be right instead of "
        f"{percent(found.accuracy)}"
    )


def _table(caption: str, rows: Sequence[Driver], found: Drivers) -> str:
    names = {"links": "All links", "features": "All features"}
    columns = ["Without", "Labels that change", ""]
    if found.accuracy is not None:
        columns.append("Right, in points")
    cells = []
    for one in rows[:_N_SHOWN]:
        bar = f'<i class="bar" style="width: {100 * one.changed:.1f}%"></i>'
        row = [safe(names.get(one.kind, one.name)), safe(percent(one.changed)), bar]
        if found.accuracy is not None and one.accuracy is not None:
            points = 100 * (one.accuracy - found.accuracy)
            row.append(safe(signed(points, 1) if abs(points) >= 0.05 else "0"))
        cells.append(row)
    numbers = {"Labels that change", "Right, in points"}
    return f'<div class="drivers">{html_table(caption, columns, cells, numbers)}</div>'
