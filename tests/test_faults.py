"""A few kills and disk errors at fixed places; `make faults` strikes at every one."""

import errno
import json
import mmap
import os
import platform
import shutil
import signal
import subprocess
import sys

import pytest
from tests.command_line import ROOT

if sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("cc") is None:
    pytest.skip("the harness needs Linux on x86-64 and a C compiler", allow_module_level=True)
pytest.importorskip("duckdb")

from scripts import faults


def test_a_rerun_makes_all_whole(tmp_path):
    command = [sys.executable, "-m", "scripts.faults", "--every", "43", "--log", tmp_path / "log"]
    command += ["--scenarios", "predict", "train over a model", "ingest over a graph", "download"]
    kept = tmp_path / "kept"  # what somebody has downloaded: stand-ins must not come there
    environment = {**os.environ, "GRAPHCONV_CACHE": str(kept)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert not kept.exists()
    summary = json.loads(done.stdout)
    assert summary["findings"] == []
    assert done.returncode == 0
    assert {mode: summary[mode] for mode in faults.MODES} == {
        mode: {"same": summary["points"] // 4} for mode in faults.MODES
    }
    assert summary["points"] >= 4 * 10


WRITES_TWO_FILES = """
import ctypes, mmap, os, sys

shim, tally, folder, mode, at = sys.argv[1:]
with open(tally, "r+b") as file:
    shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)
counter = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
ctypes.CDLL(shim).watch(counter, ctypes.c_int64(int(at)), int(mode), os.fsencode(folder + "/"))
try:
    for name in ("one", "two"):
        file = os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(file, b"12345678")
        os.close(file)
    os.rename(folder + "/two", folder + "/three")
except OSError as error:
    os._exit(error.errno)
os._exit(0)
"""


def write_two_files(folder, shim, mode, at):
    """In a process of its own, so that the filter ends with it: its exit code, and its calls.

    It is a new one: forked from a process that has threads, it may wait for ever for a lock.
    """
    tally = shim.with_name("tally")
    tally.write_bytes(bytes(mmap.PAGESIZE))
    arguments = map(str, (shim, tally, folder, mode, at))
    done = subprocess.run([sys.executable, "-c", WRITES_TWO_FILES, *arguments], timeout=300)
    return done.returncode, int.from_bytes(tally.read_bytes()[:8], "little")


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("mode", "at", "code", "left"),
    [
        ("count", 0, 0, {"one": "12345678", "three": "12345678"}),
        ("kill", 1, -signal.SIGKILL, {}),
        ("kill", 4, -signal.SIGKILL, {"one": "12345678", "two": ""}),
        ("torn", 4, -signal.SIGKILL, {"one": "12345678", "two": "1234"}),
        ("kill", 5, -signal.SIGKILL, {"one": "12345678", "two": "12345678"}),
        ("full", 2, errno.ENOSPC, {"one": ""}),
        ("full", 5, 0, {"one": "12345678", "three": "12345678"}),
        ("read-only", 5, errno.EROFS, {"one": "12345678", "two": "12345678"}),
    ],
)
def test_the_harness_strikes_where_it_should(tmp_path, mode, at, code, left):
    shim = faults.build_shim(tmp_path)
    folder = tmp_path / "watched"
    folder.mkdir()
    ended, n_calls = write_two_files(folder, shim, faults.NUMBERS[mode], at)
    assert ended == code
    assert n_calls == (at if code else 5)
    assert contents(folder) == left
