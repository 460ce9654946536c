"""Notebook: small pieces of HTML that show an object where a notebook displays it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; every cell is escaped, since ids and labels are anybody's text.

    Examples
    --------
    >>> from graphconv.graph.notebook import html_table
    >>> html_table(["id"], [["<b>"]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def html_block(title: str, *parts: str) -> str:
    """A heading above some HTML."""
    return f"<div><p><strong>{escape(title)}</strong></p>{''.join(parts)}</div>"


def html_paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
