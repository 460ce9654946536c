"""Tests of what tests leave behind: nothing, however they end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.command_line import PATIENCE, ROOT
from tests.processes import children, end_processes
from tests.small_disk import mounted

pytestmark = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="needs Linux"
)


def test_processes_end_with_their_test():
    before = children(os.getpid())
    sleep = f"import time; time.sleep({PATIENCE})"
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {sleep!r}])\n"
    process = subprocess.Popen([sys.executable, "-c", code + sleep], start_new_session=True)
    deadline = time.monotonic() + PATIENCE
    while not children(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (grandchild,) = children(process.pid)
    end_processes(before)
    process.returncode = 0  # it has been waited for
    assert children(os.getpid()) == before
    assert not Path(f"/proc/{grandchild}").exists()


def test_a_killed_test_leaves_no_disk(tmp_path):
    with mounted(tmp_path / "first", "size=64k"):
        pass  # or skipped, where none can be mounted
    code = f"""
import os, signal
from pathlib import Path
from tests.small_disk import mounted
with mounted(Path({str(tmp_path / "disk")!r}), "size=64k") as disk:
    assert os.path.ismount(disk)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == -9
    assert (tmp_path / "disk").exists()
    for mounts in ("/proc/self/mountinfo", "/proc/1/mountinfo"):
        assert str(tmp_path) not in Path(mounts).read_text()
