"""Processes that a test has started end with it, also when it fails."""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What outlives its parent becomes a child of this process, so that it can be found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(number):
    """Numbers of the processes that a process has started and that are still there."""
    found = set()
    for task in Path(f"/proc/{number}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # gone since it was listed
            found.update(map(int, task.read_text().split()))
    return found


def end_processes(except_these):
    """Kill what this process has started, with all that those have, but for some of them."""
    left = sorted(children(os.getpid()) - except_these)
    for number in left:
        if not _serves_all_tests(number):
            _end(number)


def _serves_all_tests(number):
    """Multiprocessing and joblib keep processes for later work; a fixture stops a server."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{number}/cmdline").read_bytes()
        kept = (b"resource_tracker", b"forkserver", b"bin/postgres", b"loky", b"pgrep")
        return any(word in words for word in kept)
    return False


def _end(number):
    below = children(number)
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(number, 0)
    for other in below:
        _end(other)
