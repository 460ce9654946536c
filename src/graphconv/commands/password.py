"""A password from where no list of processes shows it: a file, the environment or the terminal."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

VARIABLE = "GRAPHCONV_PASSWORD"
_FEWEST_CHARACTERS = 8


def read_password(file: Path | None, what_for: str | None) -> str | None:
    """The password of a file's first line, else of the environment, else one that is typed.

    Parameters
    ----------
    file : Path, optional
    what_for : str, optional
        What can't be done without one. Without it nobody is asked, and None is returned where
        neither the file nor the environment has one.
    """
    given = None
    if file is not None:
        given, where = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r"), str(file)
    elif VARIABLE in os.environ:
        # Programs that are started from here need not know it.
        given, where = os.environ.pop(VARIABLE), VARIABLE
    elif what_for is not None and sys.stdin.isatty():
        given, where = getpass.getpass(f"{what_for}. Password for them: "), "the password"
        if getpass.getpass("The same again: ") != given:
            raise ValueError("the password was typed differently the second time")
    elif what_for is not None:
        raise ValueError(
            f"{what_for}, so a password must be given: in --password-file FILE, in {VARIABLE}, or "
            "typed in a terminal"
        )
    if given is not None and len(given) < _FEWEST_CHARACTERS:
        raise ValueError(
            f"{where} must have at least {_FEWEST_CHARACTERS} characters, got {len(given)}"
        )
    return given
