"""Runs on all cores: processes with one thread each, which beats threads on graphs this small."""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path

from graphconv.estimators.runs import Record, RunLog, Series, count_by_cost, record_of
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset
from graphconv.io.progress import Progress, silent
from graphconv.io.wording import naming
from graphconv.kernels import native_missing

# What numerical libraries read when they are imported, to use one thread each.
_ONE_THREAD = (
    "GRAPHCONV_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def run_all(
    wanted: Sequence[Series],
    log: RunLog,
    progress: Progress = silent,
    data_dir: Path | None = None,
    n_workers: int | None = None,
) -> dict[str, str]:
    """Do all runs that are not in the log yet.

    Parameters
    ----------
    wanted : sequence of Series
        In the order they are taken up; two that ask for the same runs are done once.
    log : RunLog
    progress : callable, optional
        Told how far it is, see `graphconv.io.progress`.
    data_dir : Path, optional
    n_workers : int, optional
        Processes at a time. Default: one for every core this process may use.

    Returns
    -------
    dict
        For each series that failed, by fingerprint, why. All others are done.
    """
    pieces = _missing_pieces(wanted, log, data_dir)
    n_workers = min(n_workers or n_cores(), len(pieces)) if _can_share_locks() else 1
    alone = [piece for piece in pieces if piece.is_alone or n_workers == 1]
    beside = [piece for piece in pieces if not (piece.is_alone or n_workers == 1)]
    work = _Round(log, progress, count_by_cost(progress, pieces), data_dir)
    for piece in alone:
        work.settle(piece, work.failed.get(piece.fingerprint) or _attempt(piece, data_dir))
    if beside:
        with _pool(n_workers) as pool:
            work.run_beside(pool, beside, n_workers)
    return work.failed


def _can_share_locks() -> bool:
    """Whether processes can wait for each other: not without /dev/shm."""
    try:
        multiprocessing.get_context("spawn").Lock()
    except (OSError, ImportError):
        return False
    return True


def n_cores() -> int:
    """Cores that this process may use."""
    if native_missing() is None:
        return int(importlib.import_module("graphconv.kernels.native").get_threads())
    return os.cpu_count() or 1


def _missing_pieces(wanted: Sequence[Series], log: RunLog, data_dir: Path | None) -> list[Series]:
    pieces: list[Series] = []
    planned: dict[str, set[int]] = {}
    for series in wanted:
        known = planned.setdefault(series.fingerprint, set())
        # Data is read only where there are runs that may be of other data.
        data = _data_digest(series.dataset, data_dir) if log.records(series) else None
        seeds = [seed for seed in log.missing(series, data) if seed not in known]
        known.update(seeds)
        pieces += series.chunks(seeds)
    return pieces


@functools.lru_cache
def _data_digest(name: str, data_dir: Path | None) -> str | None:
    """Digest of a data set; None where it can't be had, and what is known must do."""
    try:
        return digest_of(_graph(name, data_dir))
    except (OSError, ValueError):
        return None


def digest_of(graph: Graph) -> str:
    """What a run's record says of its data."""
    return graph.fingerprint()[:16]


@dataclass
class _Round:
    """Where the outcomes of some runs go."""

    log: RunLog
    progress: Progress
    advance: Callable[[Series], None]
    data_dir: Path | None
    failed: dict[str, str] = field(default_factory=dict)

    def run_beside(
        self, pool: ProcessPoolExecutor, pieces: Sequence[Series], n_workers: int
    ) -> None:
        waiting = deque(pieces)
        running: dict[Future[list[Record] | str], Series] = {}
        while waiting or running:
            # One more than there are workers, so that none waits for the next.
            while waiting and len(running) <= n_workers:
                piece = waiting.popleft()
                if piece.fingerprint in self.failed:
                    self.settle(piece, self.failed[piece.fingerprint])
                else:
                    running[pool.submit(_attempt, piece, self.data_dir)] = piece
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                piece = running.pop(future)
                self.settle(piece, _outcome(future, piece))

    def settle(self, piece: Series, outcome: list[Record] | str) -> None:
        """Log the records of a piece, or note why there are none."""
        if isinstance(outcome, str):
            if piece.fingerprint not in self.failed:
                self.progress(f"{piece.name}: {outcome}", None, None)
            self.failed[piece.fingerprint] = outcome
        else:
            self.log.append(record_of(piece, run) for run in outcome)
        self.advance(piece)


def _outcome(future: Future[list[Record] | str], piece: Series) -> list[Record] | str:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            naming(
                "a worker process was killed, perhaps for want of memory, near {}; "
                "do the same again, with a smaller {n_workers}, to go on from here",
                piece.name,
            )
        ) from None


def _attempt(piece: Series, data_dir: Path | None) -> list[Record] | str:
    """The records of a piece, or in words why there are none."""
    try:
        with warnings.catch_warnings():
            # Known and not for the user to act upon, such as classes that no training node has.
            warnings.simplefilter("ignore")
            graph = _graph(piece.dataset, data_dir)
            return [{**run, "data": digest_of(graph)} for run in piece.task(piece, graph)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@functools.lru_cache(maxsize=2)
def _graph(name: str, data_dir: Path | None) -> Graph:
    return load_dataset(name, data_dir=data_dir)


@contextlib.contextmanager
def _pool(n_workers: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that end with this block, however it ends."""
    before = set(multiprocessing.active_children())
    saved = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    # Spawned, not forked: a fork copies locks of threads that it does not copy.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_workers, mp_context=context, initializer=_start_worker)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start_worker() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """A parent that was killed can't tell its workers, and they would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)
