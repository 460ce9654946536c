"""Every message read once: collected from the sources, printed (pytest -s), and proof-read.

Messages are the texts of errors and remarks. A hole of a template is shown as {}.
"""

import ast
import re
from pathlib import Path

import pytest
from tests.command_line import ROOT
from tests.small_tables import read, write

from graphconv.graph import Graph
from graphconv.io.readers import read_tables

SOURCES = sorted((ROOT / "src" / "graphconv").rglob("*.py"))
# Calls whose text a user reads; methods of lists of notes and of screens among them.
TELLING = {"naming", "note", "remark", "say", "append", "warn"}
# What is wrong wherever it stands.
WRONG = {
    "a word twice": re.compile(r"(?<![-\w])([a-z]+) \1\b"),
    "two blanks": re.compile(r"(?<=[^\s(])  (?=[^\s(])"),
    "a blank before a mark": re.compile(r" [,;](?= )| \.(?=$| [A-Z])"),
    "one of many": re.compile(r"\b1 (nodes|edges|features|classes|labels|rows|files|epochs)\b"),
    "a slash lost": re.compile(r"\bhttps?:/(?!/)"),
    "an end with a mark": re.compile(r"[,;:]\s*$"),
    "these differs": re.compile(r"\b(settings|seeds|runs|kernels) differs\b"),
    "a article": re.compile(r"\ba ([aeio]\w+|unknown|unlabelled)\b"),
    "an article": re.compile(r"\ban ([bcdfgjklmnpqrstvwz]\w+)\b"),
}
NOT_WRONG = {"an npz", "an mtx", "a one", "a once"}


def text_of(node):
    """The text of an expression, {} where something is put in; None if it has no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    if isinstance(node, ast.Call) and node.args:
        return text_of(node.args[0])
    return None


def messages_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            text = text_of(node.exc)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            text = text_of(node) if name in TELLING else None
        else:
            continue
        if text and " " in text:
            yield node.lineno, text


MESSAGES = [(path, line, text) for path in SOURCES for line, text in messages_of(path)]


def mistakes(text):
    for name, pattern in WRONG.items():
        found = pattern.search(text)
        if found and found[0] not in NOT_WRONG:
            yield f"{name}: {found[0]!r}"


def test_every_message_is_in_order():
    assert len(MESSAGES) > 300
    wrong = []
    for path, line, text in MESSAGES:
        place = f"{path.relative_to(ROOT)}:{line}"
        print(f"{place}: {text}")
        wrong += [f"{place}: {mistake} in {text!r}" for mistake in mistakes(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    ["got 1 features", "its settings differs", "see https:/x.org", "the the end", "a edge",
     "an node", "so, ,", "two  blanks", "it must be:"],
)  # fmt: skip
def test_mistakes_are_found(text):
    assert list(mistakes(text))


def test_one_is_not_many(tmp_path):
    graph = Graph([[0, 1], [1, 0]], features=[[1.0], [2.0]], labels=[0, -1])
    assert repr(graph) == "Graph('graph': 2 nodes, 1 edge, 1 feature, 1 class, 1 labelled)"
    notes = read(tmp_path, "source,target\na,b\n", "id,label,age\na,x,1\n").notes
    assert not any(list(mistakes(note)) for note in notes)


def test_an_address_keeps_its_slashes(tmp_path):
    write(tmp_path, "id,label\na,x\n", "nodes.csv")
    with pytest.raises(
        ValueError, match=r"^https://example\.org/e\.csv must be a file on this mach"
    ):
        read_tables("https://example.org/e.csv", tmp_path / "nodes.csv")
    with pytest.raises(ValueError, match="https://example"):
        read_tables(Path("https://example.org/e.csv"))
