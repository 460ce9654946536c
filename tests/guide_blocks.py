"""Runs the code blocks of a page of the guide; compares what they print with what the page shows.

CONTRIBUTING.md states the rules. A page is a Markdown file; its blocks run in order, in one folder
and one Python namespace.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from tests.command_line import PACKAGE_PLACE, ROOT

from graphconv.commands import cli
from graphconv.commands.console import show_warnings_as_lines

_FENCE = re.compile(r"^```(\w*)\s*$")
# Blocks that are indented, as README.md has some, are commands if they begin with one.
_COMMANDS = ("graphconv ", "python ", "make ", "pip ")
# A processor that rounds otherwise may move a decimal number by so much, as a share of itself.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class Step:
    """A piece of Python or a command, with the output that the page shows for it."""

    language: str
    code: str
    line: int
    """Where the page has it, counted from 1."""
    output: tuple[str, ...] | None = None
    first_output: int = 0
    """Position of the output's first line in the page, counted from 0."""


@dataclass(frozen=True)
class _Block:
    language: str
    lines: tuple[str, ...]
    first: int
    """Position of its first line in the page, counted from 0."""


def steps_of(text: str) -> list[Step]:
    """The steps of a page; refuses blocks that can't be run."""
    steps: list[Step] = []
    follows_python = False
    for block in _blocks(text.splitlines()):
        if block.language == "python":
            steps.append(Step("python", "\n".join(block.lines), block.first + 1))
        elif block.language == "text" and follows_python:
            steps[-1] = replace(steps[-1], output=block.lines, first_output=block.first)
        elif block.language in ("bash", "console"):
            steps += _commands(block)
        else:
            raise ValueError(
                f"line {block.first}: a block must be python, bash or console, or text right after "
                f"python, got {block.language!r}"
            )
        follows_python = block.language == "python"
    return steps


def _blocks(lines: list[str]) -> list[_Block]:
    blocks: list[_Block] = []
    position = 0
    while position < len(lines):
        fence = _FENCE.match(lines[position])
        begin = position + 1 if fence else position
        if fence:
            end = lines.index("```", begin)
            blocks.append(_Block(fence[1], tuple(lines[begin:end]), begin))
        else:
            end = begin
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            if lines[begin].strip().startswith(_COMMANDS) and end > begin:
                blocks.append(_Block("bash", tuple(line[4:] for line in lines[begin:end]), begin))
        position = max(end, begin) + 1
    return blocks


def _commands(block: _Block) -> list[Step]:
    """Each command of a shell block; in a console block they stand behind a dollar sign."""
    mark = "$ " if block.language == "console" else ""
    steps: list[Step] = []
    output: list[str] = []
    position = 0

    def close() -> None:
        if steps and output:
            first = block.first + position - len(output)
            steps[-1] = replace(steps[-1], output=tuple(output), first_output=first)
        output.clear()

    while position < len(block.lines):
        line = block.lines[position]
        if not line.startswith(mark):
            output.append(line)
        else:
            close()
            code, begin = line.removeprefix(mark), position
            while code.endswith("\\"):
                position += 1
                code = code[:-1] + block.lines[position].strip()
            if code.strip():
                steps.append(Step("shell", code, block.first + begin + 1))
        position += 1
    close()
    return steps


class Runner:
    """Runs steps in a folder; in this process, where torch is loaded, if it can."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__main__"}
        # As in a checkout, where the guide's reader is.
        (folder / "scripts").symlink_to(ROOT / "scripts")

    def run(self, step: Step) -> str | None:
        """What a step prints; None if it must not run here, such as installing something."""
        if step.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(step.code, f"<line {step.line}>", "exec"), self.names)
            return printed.getvalue()
        words = shlex.split(step.code, comments=True)
        if words[0] in ("make", "pip"):
            _check_set_up(words)
            return None
        if words[0] == "graphconv":
            shows_error = any(line.startswith("graphconv: ") for line in step.output or ())
            code, printed_text = self._graphconv(words[1:])
            assert code == (2 if shows_error else 0), printed_text
            return printed_text
        return self._shell(step.code)

    def _graphconv(self, arguments: list[str]) -> tuple[int, str]:
        printed = io.StringIO()
        before = sys.argv
        sys.argv = ["graphconv", *arguments]
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                # A slow machine prints how far it is; no page shows that.
                mock.patch("graphconv.commands.console.LINE_EVERY", math.inf),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("default")
                show_warnings_as_lines()
                code = cli._run()
        finally:
            sys.argv = before
        return code, printed.getvalue()

    def _shell(self, command: str) -> str:
        places = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": PACKAGE_PLACE,
        }
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env={**os.environ, **places},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def _check_set_up(words: list[str]) -> None:
    """`make` and `pip install` are not run by tests; what they name must be there."""
    if words[0] == "make":
        rules = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in words[1:]:
            assert re.search(rf"^{re.escape(target)}:", rules, re.MULTILINE), f"make {target}"
        return
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(words)):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"no extra {extra!r}"


def matches(shown: tuple[str, ...], printed: str) -> bool:
    r"""Whether printed text is what a page shows.

    Blanks and rules of dashes may be longer or shorter, `...` stands for anything, and numbers with
    a decimal point may differ a little.

    Examples
    --------
    >>> matches(("test  94.7 %", "...", "seconds ..."), "test 94.6 %\nepochs 3\nseconds 0.3\n")
    True
    >>> matches(("test  94.7 %",), "test  64.7 %")
    False
    """
    wanted = _even("\n".join(shown))
    parts = re.split(r"(\.\.\.|\d+\.\d+)", wanted)
    numbers = [part for part in parts[1::2] if part != "..."]
    patterns = [re.escape(part) for part in parts]
    patterns[1::2] = [".*?" if part == "..." else r"(\d+\.\d+)" for part in parts[1::2]]
    found = re.fullmatch("".join(patterns), _even(printed), re.DOTALL)
    return found is not None and all(
        _is_near(float(number), float(group), len(number.split(".")[1]))
        for number, group in zip(numbers, found.groups(), strict=True)
    )


def _is_near(wanted: float, got: float, digits: int) -> bool:
    return abs(wanted - got) <= max(_TOLERANCE * abs(wanted), 1.01 * 10.0**-digits)


def _even(text: str) -> str:
    lines = (re.sub(r"-{4,}", "----", " ".join(line.split())) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def renewed(shown: tuple[str, ...], printed: str) -> tuple[str, ...]:
    r"""What a page should show instead, with the `...` that it has.

    A line of dots alone stands for lines left out: as many as before stay above and below it. Where
    there are several of them nothing is renewed.

    Examples
    --------
    >>> renewed(("a 1", "...", "seconds ..."), "a 2\nb 3\nc 4\nseconds 5")
    ('a 2', '...', 'seconds ...')
    >>> renewed(("gcn 87.4 ...",), "gcn 94.1 0.33")
    ('gcn 94.1  ...',)
    """
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    bare = [line.strip() for line in shown]
    if bare.count("...") > 1:
        return shown
    if "..." in bare:
        above = bare.index("...")
        below = len(shown) - above - 1
        lines = [*lines[:above], shown[above], *(lines[len(lines) - below :] if below else ())]
    kept = [line for line in shown if "..." in line and line.strip() != "..."]
    return tuple(_with_dots(line, kept) for line in lines)


def _with_dots(line: str, kept: list[str]) -> str:
    """A printed line as the page shows it; of a line that has changed, its last word as dots."""
    for old in kept:
        if matches((old,), line):
            return old
        if old.endswith("...") and line.split()[:1] == old.split()[:1]:
            last = line.split()[-1]
            return line.removesuffix(last) + "...".rjust(len(last))
    return line
