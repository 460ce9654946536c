"""Runs on all cores: in which order, how many beside each other, and what becomes of failures."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.graph import Graph
from graphconv.paper import workers

DONE: list[Any] = []


def count(series: Series, graph: Graph) -> list[Record]:
    DONE.append((series.method, series.seeds))
    return [{"seed": seed, "test_accuracy": 1.0} for seed in series.seeds]


def fail(series: Series, graph: Graph) -> list[Record]:
    DONE.append((series.method, series.seeds))
    raise RuntimeError("no luck")


def warn(series: Series, graph: Graph) -> list[Record]:
    warnings.warn("not for the user to act upon", UserWarning, stacklevel=1)
    return count(series, graph)


def make(method: str, n_seeds: int = 2, task: Any = count, **more: Any) -> Series:
    return Series("table2", "karate", method, task, {"of": method}, tuple(range(n_seeds)), **more)


class Pool:
    """Stands for processes: a piece is done when somebody waits for it."""

    def __init__(self) -> None:
        self.n_running = self.most_running = 0
        self.futures: dict[Future[Any], tuple[Any, ...]] = {}

    def submit(self, task: Any, *given: Any) -> Future[Any]:
        self.n_running += 1
        self.most_running = max(self.most_running, self.n_running)
        future: Future[Any] = Future()
        self.futures[future] = (task, *given)
        return future

    def wait(self, running: Any, **more: Any) -> tuple[set[Future[Any]], None]:
        first = next(future for future in self.futures if future in running)
        task, *given = self.futures.pop(first)
        first.set_result(task(*given))
        self.n_running -= 1
        return {first}, None


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    DONE.clear()
    made = Pool()
    asked: list[int] = []

    @contextlib.contextmanager
    def pool_of(n_workers: int) -> Iterator[Pool]:
        asked.append(n_workers)
        yield made

    made.asked = asked  # type: ignore[attr-defined]  # for the tests to look at
    monkeypatch.setattr(workers, "_pool", pool_of)
    monkeypatch.setattr(workers, "wait", made.wait)
    return made


def run(folder: Path, wanted: list[Series], **more: Any) -> tuple[dict[str, str], list[Any]]:
    told: list[Any] = []
    with RunLog(folder / "runs.jsonl") as log:
        failed = workers.run_all(wanted, log, lambda *given: told.append(given), **more)
        assert all(log.missing(one) == [] for one in wanted if one.fingerprint not in failed)
    return failed, told


def test_timed_runs_come_first_with_nothing_beside_them(tmp_path: Path, pool: Any) -> None:
    wanted = [make("a", 3), make("timed", 2, is_alone=True), make("b", 3)]
    failed, told = run(tmp_path, wanted, n_workers=2)
    assert failed == {}
    assert [method for method, _ in DONE[:2]] == ["timed", "timed"]
    assert len(DONE) == 8
    assert pool.asked == [2]
    assert pool.most_running == 3  # one more than workers, so that none waits for the next
    shares = [done / total for _, done, total in told]
    assert shares == pytest.approx([number / 8 for number in range(1, 9)])


def test_no_more_workers_than_pieces(tmp_path: Path, pool: Any) -> None:
    run(tmp_path, [make("a", 6, chunk=2)], n_workers=8)
    assert pool.asked == [3]
    assert DONE == [("a", (0, 1)), ("a", (2, 3)), ("a", (4, 5))]


def test_as_many_workers_as_cores_unless_told(
    tmp_path: Path, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "n_cores", lambda: 5)
    run(tmp_path, [make("a", 9)])
    assert pool.asked == [5]


def test_one_worker_is_this_process(tmp_path: Path, pool: Any) -> None:
    run(tmp_path, [make("a", 3)], n_workers=1)
    assert (pool.asked, len(DONE)) == ([], 3)


@pytest.mark.parametrize("error", [OSError, ImportError])
def test_without_shared_memory_this_process_does_it_all(
    error: Any, tmp_path: Path, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock() -> None:
        raise error("no /dev/shm")

    context = SimpleNamespace(Lock=lock)
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: context)
    run(tmp_path, [make("a", 3)], n_workers=4)
    assert (pool.asked, len(DONE)) == ([], 3)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_what_failed_once_is_not_tried_again(tmp_path: Path, pool: Any, n_workers: int) -> None:
    bad = make("bad", 9, fail)
    failed, told = run(tmp_path, [bad, make("good", 2)], n_workers=n_workers)
    assert failed == {bad.fingerprint: "RuntimeError: no luck"}
    tried = sum(method == "bad" for method, _ in DONE)
    assert tried == (1 if n_workers == 1 else 3)  # those that were under way when it failed
    words = [what for what, done, _ in told if done is None]
    assert words == ["table2, karate, bad: RuntimeError: no luck"]  # said once
    shares = [done / total for _, done, total in told if done is not None]
    assert (len(shares), shares[-1]) == (11, 1.0)  # and all are accounted for


def test_warnings_of_a_run_are_known_and_not_told(tmp_path: Path, pool: Any) -> None:
    failed, _ = run(tmp_path, [make("a", 2, warn)], n_workers=1)  # here they would be errors
    assert (failed, len(DONE)) == ({}, 2)


def test_two_that_ask_for_the_same_runs(tmp_path: Path, pool: Any) -> None:
    run(tmp_path, [make("a", 2), make("a", 4)], n_workers=2)
    assert sorted(seeds for _, seeds in DONE) == [(0,), (1,), (2,), (3,)]


def test_a_killed_worker_is_one_line(tmp_path: Path, pool: Any) -> None:
    def wait(running: Any, **more: Any) -> Any:
        first = next(iter(running))
        first.set_exception(BrokenProcessPool())
        return {first}, None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "wait", wait)
        message = "a worker process was killed, perhaps for want of memory, near table2, karate, a"
        with pytest.raises(ChildProcessError, match=message):
            run(tmp_path, [make("a", 2)], n_workers=2)


def test_data_that_cannot_be_had_fails_its_runs_alone(tmp_path: Path, pool: Any) -> None:
    lost = Series("table2", "nowhere", "x", count, {"of": "x"}, (0,))
    failed, _ = run(tmp_path, [lost, make("a", 1)], n_workers=1)
    assert failed[lost.fingerprint].startswith("ValueError: ")
    assert DONE == [("a", (0,))]


def test_workers_have_one_thread_each_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    started: list[Any] = []
    ended: list[Any] = []

    class Executor:
        def __init__(self, n_workers: int, **more: Any) -> None:
            threads = {os.environ[name] for name in workers._ONE_THREAD}
            started.append((n_workers, more["mp_context"].get_start_method(), threads))

        def shutdown(self, **how: Any) -> None:
            ended.append(how)

    monkeypatch.setattr(workers, "ProcessPoolExecutor", Executor)
    with workers._pool(3):
        pass
    assert started == [(3, "spawn", {"1"})]
    assert ended == [{}]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    with pytest.raises(KeyboardInterrupt), workers._pool(3):
        raise KeyboardInterrupt
    assert ended[1] == {"wait": False, "cancel_futures": True}
    assert os.environ["OMP_NUM_THREADS"] == "7"


class Child:
    """Stands for a process, and says whose it was when it is ended."""

    def __init__(self, whose: str, ended: list[str]) -> None:
        self.whose, self.ended = whose, ended

    def terminate(self) -> None:
        self.ended.append(self.whose)


def test_an_interrupted_round_ends_the_workers_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    children = [Child("somebody else's", ended)]
    monkeypatch.setattr(multiprocessing, "active_children", lambda: list(children))

    class Executor:
        def __init__(self, *given: Any, **more: Any) -> None:
            children.append(Child("ours", ended))

        def shutdown(self, **how: Any) -> None:
            pass

    monkeypatch.setattr(workers, "ProcessPoolExecutor", Executor)
    with pytest.raises(KeyboardInterrupt), workers._pool(1):
        raise KeyboardInterrupt
    assert ended == ["ours"]


def test_a_worker_has_one_thread_and_leaves_ctrl_c_to_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Any] = []

    class Thread:
        def __init__(self, **how: Any) -> None:
            started.append(how)

        def start(self) -> None:
            started.append("started")

    monkeypatch.setattr(threading, "Thread", Thread)
    monkeypatch.setattr(signal, "signal", lambda *given: started.append(given))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        workers._start_worker()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert started == [
        (signal.SIGINT, signal.SIG_IGN),
        {"target": workers._end_with_parent, "daemon": True},
        "started",
    ]


def test_workers_end_with_whoever_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    parents = iter([None, SimpleNamespace(sentinel=7)])
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: next(parents))
    monkeypatch.setattr(workers, "wait_for_end", told.append)
    monkeypatch.setattr(os, "_exit", told.append)
    workers._end_with_parent()
    assert told == []  # nobody started it
    workers._end_with_parent()
    assert told == [[7], 1]


@pytest.mark.parametrize(("missing", "cores", "found"), [("why", 6, 6), ("why", None, 1)])
def test_cores_without_kernels_of_our_own(
    missing: str, cores: int | None, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "native_missing", lambda: missing)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert workers.n_cores() == found
