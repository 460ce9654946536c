"""What appears on a terminal of eighty columns, or of any other width."""

import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from graphconv.commands.console import Screen
from graphconv.commands.errors import exit_code
from graphconv.commands.terminal import for_terminal, table_lines, wrapped
from graphconv.results.explanation import Contribution, Explanation
from graphconv.training.loop import Epoch, Progress

LONG = "labels split at random: 60 % training, 20 % validation, 20 % test; classes not in all three"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """A function that puts both streams on a terminal; pytest would undo it before the test."""

    def turn(width=80):
        terminal = Terminal()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return turn


@given(st.text(alphabet="ab 茶é", max_size=60), st.integers(4, 30))
def test_lines_fit_and_nothing_is_lost(text, width):
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_prose_wraps_between_words(on_terminal):
    screen = on_terminal()
    Screen().remark(LONG)
    assert screen.getvalue().splitlines() == [
        "note: labels split at random: 60 % training, 20 % validation, 20 % test; classes",
        "  not in all three",
    ]


def test_what_is_piped_stays_on_one_line(capsys):
    Screen().remark(LONG)
    assert capsys.readouterr().err == f"note: {LONG}\n"
    assert for_terminal("a " * 200, io.StringIO()) == "a " * 200


def test_errors_wrap(on_terminal):
    screen = on_terminal()

    def fail(**_):
        raise ValueError(LONG)

    assert exit_code(fail) == 2
    assert all(len(line) <= 80 for line in screen.getvalue().splitlines())
    assert screen.getvalue().startswith("graphconv: labels split")


def test_tables_are_not_wider_than_the_terminal(on_terminal):
    screen = on_terminal()
    columns = ["id", "what it says", "confidence", "where"]
    rows = [["p1", "word " * 30, "0.5", "x" * 70], ["p2", "short", "0.25", "here"]]
    Screen().table("Title", columns, rows)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("word") for line in lines) == 30
    assert sum(line.count("x") for line in lines) == 70
    assert next(line for line in lines if "0.25" in line).split()[:3] == ["p2", "short", "0.25"]


def test_numbers_are_never_wrapped():
    lines = table_lines(["n", "m"], [["1" * 30, "2" * 30]], [True, True], width=20)
    assert "1" * 30 in lines[-1]


def test_wide_letters_are_aligned(capsys):
    Screen().table("", ["name", "place"], [["茶茶", "x"], ["tea", "y"]])
    head, _, first, second = capsys.readouterr().out.splitlines()[1:]
    places = [cell_len(line[: line.index(end)]) for line, end in
              ((head, "place"), (first, "x"), (second, "y"))]  # fmt: skip
    assert len(set(places)) == 1
    parts = tuple(Contribution(item, 0.5, 1.0, "a", "near") for item in ("茶茶茶茶", "tea"))
    told = str(Explanation("n", "a", 0.5, 0.0, "a", 2, (), parts, ())).splitlines()
    ends = {cell_len(line[: line.index("+0.500")]) for line in told if "+0.500" in line}
    assert len(ends) == 1


def test_a_long_name_leaves_the_bar_its_place(on_terminal):
    screen = on_terminal()
    figures = [np.array([value]) for value in (0.5, 0.75, 1.0, 0.812)]
    with Screen().training("training on " + "customers-of-all-regions-" * 5) as show:
        show(Progress(7, 200, 1, 0, 1, Epoch(*figures), None, None))
    text = screen.getvalue()
    assert "epoch 7/200, loss 0.500, validation 81.2 %" in text
    assert "━" * 10 in text
    with Screen().showing() as progress:
        progress("laying out " + "x" * 100, 1, 3)
    assert "33%" in screen.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80])
def test_narrow_terminals(on_terminal, width):
    screen = on_terminal(width)
    Screen().say(LONG)
    assert all(cell_len(line) <= width for line in screen.getvalue().splitlines())
