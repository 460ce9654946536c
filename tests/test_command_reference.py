"""The reference of commands: every command, every option, every field of --json."""

import os
import select
import shutil
import subprocess
import sys
import time

import pytest
import typer
from tests.command_line import PATIENCE, check_json, make_runner

from graphconv.commands.cli import app
from graphconv.commands.json_output import JSON_OUTPUT
from graphconv.commands.reference_page import commands_page

COMMANDS = typer.main.get_command(app).commands


def options_of(name):
    return [
        opt
        for parameter in COMMANDS[name].params
        if not getattr(parameter, "hidden", False)
        for opt in parameter.opts
    ]


def test_every_command_and_option_is_listed():
    page = commands_page()
    for name in COMMANDS:
        section = page.split(f"## graphconv {name}\n")[1].split("\n## ")[0]
        for option in options_of(name):
            if option.startswith("--") and option != "--help":
                assert option in section, (name, option)


@pytest.mark.parametrize("name", COMMANDS)
def test_fields_are_declared_where_json_is_printed(name):
    assert ("--json" in options_of(name)) == (name in JSON_OUTPUT)
    fields = JSON_OUTPUT.get(name, ())
    assert len({field.name for field in fields}) == len(fields)
    assert all(field.meaning.endswith(".") for field in fields)


def test_undeclared_fields_are_noticed():
    with pytest.raises(AssertionError, match=r"declare in commands/json_output\.py"):
        check_json("verify", {"output": "graph", "bytes": 3, "colour": "red"})
    with pytest.raises(AssertionError, match="printed no output"):
        check_json("verify", {"bytes": 3})
    with pytest.raises(AssertionError, match="n_nodes"):
        check_json("report", {"n_nodes": "many", "bytes": 3, "output": "x"})


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_eighty_columns_and_tells_defaults(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    out = make_runner(monkeypatch, capsys)(name, "--help").out
    examples = out.partition("Examples:")[0]
    assert max(map(len, examples.splitlines())) <= 80
    for parameter in COMMANDS[name].params:
        default = parameter.default
        if isinstance(default, str | int | float) and not isinstance(default, bool):
            assert f"[default: {default}]" in " ".join(out.split()), parameter.name


def test_defaults_of_settings_are_those_of_the_presets(monkeypatch, capsys):
    out = " ".join(make_runner(monkeypatch, capsys)("train", "--help").out.split())
    assert "[default: 64; preset paper: 16]" in out
    assert "Give layers a bias. [default: yes; preset paper: no]" in out


def complete(shell, line):
    """What the Tab key would offer, by the protocol that the shell's script speaks."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    environment = {
        **os.environ,
        **words,
        "_TYPER_COMPLETE_ARGS": line,
        "_GRAPHCONV_COMPLETE": f"complete_{shell}",
    }
    code = "from graphconv.commands.cli import app; app(prog_name='graphconv')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("graphconv pre", "predict"),
        ("graphconv train --unlab", "--unlabelled-value"),
        ("graphconv train --propagation cheb", "chebyshev"),
    ],
)
def test_the_tab_key_completes(shell, line, offered):
    assert offered in complete(shell, line)


def test_completion_is_installed_and_works_in_bash(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = tmp_path / "graphconv"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m graphconv "$@"\n')
    program.chmod(0o755)
    script = (
        "graphconv --install-completion bash >/dev/null && . ~/.bashrc && "
        "COMP_WORDS=(graphconv sugg) COMP_CWORD=1 && _graphconv_completion graphconv && "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["suggest"], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix")
def test_completion_is_installed_and_works_in_zsh(tmp_path):
    import pty

    program = tmp_path / "graphconv"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m graphconv "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TERM": "dumb",
    }
    # The shell is found by looking at what called the program.
    installed = subprocess.run(
        ["zsh", "-c", "graphconv --install-completion; true"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "zsh completion installed" in installed.stdout, installed.stderr
    terminal, of_shell = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-i"], stdin=of_shell, stdout=of_shell, stderr=of_shell, env=environment
    ) as shell:
        os.close(of_shell)
        # What is run shows in a line of its own, and only what the Tab key completed is "suggest".
        os.write(terminal, b"function graphconv() { print -r -- ran:$1 }; print -r -- re''ady\n")
        read_until(terminal, "\nready")
        # Typer's script is only loaded by the first press, at which zsh rings the bell.
        os.write(terminal, b"graphconv sugg\t")
        read_until(terminal, "\a")
        os.write(terminal, b"\t")
        assert "est" in read_until(terminal, "est")
        os.write(terminal, b"\n")
        seen = read_until(terminal, "ran:suggest")
        os.write(terminal, b"exit\n")
        shell.kill()
    os.close(terminal)
    assert "ran:suggest" in seen


def read_until(terminal, text, seconds=PATIENCE):
    """What a terminal shows until some text is in it, or for so long."""
    seen, end = "", time.monotonic() + seconds
    while text not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:  # the shell is gone
                break
    return seen
