"""Tests of graphconv.commands.console: tables, progress and JSON as they appear."""

import io
import json
import sys
import warnings

import numpy as np
import pytest

from graphconv.commands.console import Screen, show_warnings_as_lines
from graphconv.io.wording import naming, one_line
from graphconv.training.loop import Epoch, Progress


def test_table_puts_numbers_right_and_words_left(capsys):
    lines = [["a", "1", "here"], ["long name", "1,234", "no"]]
    Screen().table("Title", ["", "n", "where"], lines)
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "                  n   where",
        "  -------------------------",
        "  a               1   here",
        "  long name   1,234   no",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(epoch, validation, n_replicas=1, n_waiting=0):
    figures = [np.array([value]) for value in (0.5, 0.75, 1.0, validation)]
    return Progress(epoch, 30, 1, n_waiting, n_replicas, Epoch(*figures), None, None)


def test_progress_on_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with Screen().training("training on cora") as show:
        show(progress(7, 0.812))
    assert "training on cora" in screen.getvalue()
    assert "epoch 7/30, loss 0.500, validation 81.2 %" in screen.getvalue()


def test_progress_elsewhere_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr("graphconv.commands.console.LINE_EVERY", 0.0)
    with Screen().training("training on cora") as show:
        show(progress(7, float("nan")))
        show(progress(8, float("nan"), n_replicas=16, n_waiting=9))
    assert capsys.readouterr().err.splitlines() == [
        "training on cora: epoch 7/30, loss 0.500",
        "training on cora: 7 of 16 models, epoch 8/30, loss 0.500",
    ]
    with Screen(quiet=True).training("training on cora") as show:
        assert show is None
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal_is_a_bar_for_each_piece_of_work(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with Screen().showing() as progress:
        progress("laying out", 1, 2)
        progress("a remark", None, None)
        progress("drawing", 2, None)
    assert "laying out" in screen.getvalue()
    assert "note: a remark" in screen.getvalue()
    assert "drawing" in screen.getvalue()


def test_progress_elsewhere_is_lines_with_the_time_left(monkeypatch, capsys):
    clock = iter([0.0, 0.0, 10.0, 11.0, 20.0, 30.0])
    monkeypatch.setattr("graphconv.commands.console.monotonic", lambda: next(clock))
    with Screen().showing() as progress:
        progress("laying out", 0, 40)
        progress("laying out", 10, 40)
        progress("laying out", 11, 40)  # too soon after the last line
        progress("laying out", 40, 40)  # done: nothing to say
        progress("counting", 1234, None)
        progress(naming("edges are one-way ({directed:True})"), None, None)
    assert capsys.readouterr().err.splitlines() == [
        "laying out: 25 %, 30 s left",
        "counting: 1,234",
        "note: edges are one-way (--directed)",
    ]
    with Screen(quiet=True).showing() as progress:
        progress("laying out", 1, 2)
        progress("a remark", None, None)
    assert capsys.readouterr().err == ""


def test_warnings_are_lines(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    show_warnings_as_lines()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.warn("a function will go", kind, stacklevel=1)
    assert capsys.readouterr().err == "warning: two lines\n"
    assert one_line(" a\n b ") == "a b"


@pytest.mark.parametrize("as_json", [False, True])
def test_results_are_json_or_a_table(capsys, as_json):
    screen = Screen(as_json=as_json)
    screen.result({"loss": float("inf"), "n": np.int64(3), "each": np.array([0.5, np.nan])})
    screen.table("Title", ["a"], [["1"]])
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out) == {"loss": None, "n": 3, "each": [0.5, None]}
    else:
        assert out.splitlines()[0] == "Title"
