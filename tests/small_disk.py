"""A file system of a test's own, which is gone when the test's process is, however that ends."""

import ctypes
import functools
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

_CLONE_NEWNS = 0x00020000


@contextmanager
def mounted(path, *options):
    """A tmpfs with options such as "size=64k" at `path`, where the machine lets us mount one."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root on Linux to mount a file system")
    _see_mounts_alone()
    path.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(path)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a file system can't be mounted: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@functools.cache
def _see_mounts_alone():
    """From now on what this process mounts is seen by it alone, and ends with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        pytest.skip(f"mounts can't be private: {os.strerror(ctypes.get_errno())}")
    done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounts can't be private: {done.stderr.decode().strip()}")
