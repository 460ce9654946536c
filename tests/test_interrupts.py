"""Ctrl-C while modules are read: one line and exit 130, as at any other moment."""

import os
import subprocess
import sys

import pytest
from tests.command_line import PACKAGE_PLACE, PATIENCE


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
@pytest.mark.parametrize("module", ["typer", "numpy", "scipy.sparse", "networkx", "torch"])
def test_ctrl_c_while_modules_are_read(tmp_path, module):
    # Training on the processor does not read torch.
    model = "planetoid-t" if module == "torch" else "gcn"
    code = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["graphconv", "train", "karate", "--model", {model!r}, "-q", "-o", "m"]
runpy.run_module("graphconv", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE_PLACE},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "graphconv: interrupted\n"
    assert [*tmp_path.iterdir()] == []
