"""Import once what forked processes would each import again."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress


def import_what(work: Callable[[], object]) -> None:
    """Do some work in a forked process, whose threads end with it; import here what it imported."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            work()
            os.write(writer, "\n".join(sys.modules).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        modules = pipe.read().decode().split()
    os.waitpid(process, 0)
    for name in modules:
        if name not in sys.modules and name != "__mp_main__":
            with suppress(Exception):
                importlib.import_module(name)
