"""results.json on paper: the sections as one Markdown and one HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from graphconv.paper.section import Figure, Section, Table

TITLE = "The paper, rerun"
_PAPER = (
    "Kipf and Welling, “Semi-supervised classification with graph convolutional networks”, "
    "ICLR 2017."
)


def sections_of(results: dict[str, Any]) -> list[Section]:
    """The sections of a results.json, in their order."""
    return [Section.from_json(values) for values in results["sections"].values()]


def machine_text(results: dict[str, Any]) -> str:
    """The machine in one sentence."""
    machine = dict(results["machine"])
    memory = machine.pop("memory_gb")
    hardware = [machine.pop("processor"), f"{machine.pop('cores')} cores"]
    hardware += [] if memory is None else [f"{memory:.0f} GB of memory"]
    software = [machine.pop("system"), f"Python {machine.pop('python')}"]
    software += [f"{name} {value}" for name, value in machine.items()]
    return f"Last measured on {results['date']}: {', '.join(hardware)}; {', '.join(software)}."


def to_markdown(results: dict[str, Any]) -> str:
    """All sections as Markdown, with figures by their file names."""
    parts = [f"# {TITLE}", _PAPER, machine_text(results)]
    for section in sections_of(results):
        parts += [f"## {section.title}", *section.text, *_finished(section)]
        for table in section.tables:
            parts += [f"### {table.title}", markdown_table(table)]
        parts += [_markdown_figure(figure) for figure in section.figures]
        parts += [_markdown_notes(section.notes)] if section.notes else []
    return "\n\n".join(parts) + "\n"


def _finished(section: Section) -> list[str]:
    return [f"Finished at {section.finished}."] if section.finished else []


def markdown_table(table: Table) -> str:
    """A table; names to the left, numbers to the right."""
    lines = [_markdown_row(table.columns), _markdown_row(["---"] + ["---:"] * (_width(table) - 1))]
    return "\n".join(lines + [_markdown_row(row) for row in table.rows])


def _width(table: Table) -> int:
    return len(table.columns)


def _markdown_row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _markdown_figure(figure: Figure) -> str:
    lines = [f"![{figure.alt}]({figure.file}.png)", f"*{figure.title}*"]
    if figure.page:
        moving = figure.page.removesuffix(".html") + ".gif"
        lines.append(f"![Animation: {figure.title}]({moving})")
        lines.append(f"A rerun also writes `{figure.page}`: the same, to play and to step through.")
    return "\n\n".join(lines)


def _markdown_notes(notes: Iterable[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def to_html(results: dict[str, Any]) -> str:
    """All sections as one HTML page that asks nothing of the network."""
    parts = [f"<h1>{TITLE}</h1>", _paragraph(_PAPER), _paragraph(machine_text(results))]
    for section in sections_of(results):
        parts.append(f'<h2 id="{html.escape(section.name)}">{html.escape(section.title)}</h2>')
        parts += [_paragraph(text) for text in (*section.text, *_finished(section))]
        parts += [_html_table(table) for table in section.tables]
        parts += [_html_figure(figure) for figure in section.figures]
        if section.notes:
            items = "".join(f"<li>{html.escape(note)}</li>" for note in section.notes)
            parts.append(f"<ul>{items}</ul>")
    return _FRAME.format(title=TITLE, style=_STYLE, body="\n".join(parts))


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{html.escape(text)}</td>" for text in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide"><table><caption>{html.escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _html_figure(figure: Figure) -> str:
    source, alt = html.escape(f"{figure.file}.svg"), html.escape(figure.alt)
    caption = html.escape(figure.title)
    if figure.page:
        page = html.escape(figure.page)
        caption += f' <a href="{page}">The same, to play and to step through.</a>'
    return f'<figure><img src="{source}" alt="{alt}"><figcaption>{caption}</figcaption></figure>'


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
# Figures are drawn on white, so they keep a white ground where the page is dark.
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
.wide { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .25rem .8rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 2px solid; }
tbody th { font-weight: 400; }
th:first-child { text-align: left; padding-left: 0; }
tbody tr + tr > * { border-top: 1px solid #8884; }
figure { margin: 1.5rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { font-size: .9rem; }
"""
