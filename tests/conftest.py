"""Fixtures that several test files share."""

import os
import signal
from collections.abc import Iterator
from types import ModuleType

import hypothesis
import pytest
from tests.command_line import make_runner, write_papers
from tests.kernel_cases import KERNELS, MISSING
from tests.processes import adopt_orphans, children, end_processes

from graphconv import kernels

adopt_orphans()
# A shell starts what runs in the background with Ctrl-C ignored; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes says more of a busy machine than of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def processes_end_with_their_test() -> Iterator[None]:
    before = children(os.getpid())
    yield
    end_processes(before)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command line of graphconv in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return make_runner(monkeypatch, capsys)


@pytest.fixture
def papers(tmp_path):
    return write_papers(tmp_path / "papers")


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return kernels.select(request.param)


@pytest.fixture
def native() -> Iterator[ModuleType]:
    if MISSING is not None:
        pytest.skip(MISSING)
    module = kernels.select("native")
    before = module.get_threads()
    yield module
    module.set_threads(before)
