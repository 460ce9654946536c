"""Processes of one training: who they are, and what they tell each other, over torch.distributed.

`torchrun` starts the processes and puts their number and rank into the environment; they talk over
gloo, which needs no GPU. All calls are made by all processes in the same order. A process that ends
or keeps silent for longer than the timeout makes every call fail, in words.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public by its docs
from torch.distributed.rendezvous import rendezvous

from graphconv.io.wording import naming

Made = TypeVar("Made")
FloatArray = npt.NDArray[np.float64]
# Bytes of an error's text that all processes get to know.
_TEXT_BYTES = 1000


class Processes:
    """The processes of a training, as one of them sees them.

    Parameters
    ----------
    timeout : float
        Seconds that a process may keep the others waiting.
    group : process group, optional
        Default: all processes, whose calls are in the order of the main thread.

    Attributes
    ----------
    rank, count : int
    sent, messages : Counter
        Bytes that this process has sent to others, and in how many messages, by what for.
    """

    def __init__(self, timeout: float, group: Any = None) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()
        self.timeout = timeout
        self.sent: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self._group = group

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def beside(self) -> Processes:
        """The same processes for calls of another thread, in an order of their own."""
        with _in_words(self.timeout):
            group = dist.new_group(timeout=timedelta(seconds=self.timeout))
        return Processes(self.timeout, group)

    def add_up(self, values: npt.NDArray[Any], what: str = "other") -> None:
        """Replace values by their sum over all processes, the same bits in each."""
        # Around a ring, every value passes by twice.
        self.sent[what] += 2 * values.nbytes * (self.count - 1) // self.count
        self.messages[what] += 2 * (self.count - 1)
        with _in_words(self.timeout):
            dist.all_reduce(torch.from_numpy(values), group=self._group)

    def combine(self, values: FloatArray, how: str) -> FloatArray:
        """Sum or maximum ("sum", "max") of each number over all processes."""
        tensor = torch.from_numpy(np.array(values, dtype=np.float64))
        kind = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[how]
        with _in_words(self.timeout):
            dist.all_reduce(tensor, kind, group=self._group)
        combined: FloatArray = tensor.numpy()
        return combined

    def exchange(
        self,
        rows: npt.NDArray[Any],
        to_each: Sequence[int],
        from_each: Sequence[int],
        what: str = "other",
    ) -> npt.NDArray[Any]:
        """Send to_each[q] of the rows to process q, in order; returns the rows that came."""
        came = np.empty((sum(from_each), *rows.shape[1:]), dtype=rows.dtype)
        row_bytes = rows[:1].nbytes
        self.sent[what] += row_bytes * (len(rows) - to_each[self.rank])
        self.messages[what] += self.count - 1
        with _in_words(self.timeout):
            dist.all_to_all_single(
                torch.from_numpy(came),
                torch.from_numpy(np.ascontiguousarray(rows)),
                list(from_each),
                list(to_each),
                group=self._group,
            )
        return came

    def exchange_counts(self, to_each: Sequence[int]) -> list[int]:
        """Tell process q a number, to_each[q]; returns what each process told this one."""
        ones = [1] * self.count
        told: list[int] = self.exchange(np.array(to_each, dtype=np.int64), ones, ones).tolist()
        return told

    def table(self, values: Sequence[float]) -> FloatArray:
        """A row of numbers from each process, shape (n_processes, n_values)."""
        rows = np.zeros((self.count, len(values)))
        rows[self.rank] = values
        return self.combine(rows, "sum")

    def broadcast(self, content: bytes = b"") -> bytes:
        """What the first process has, in all of them."""
        length = torch.tensor([len(content)])
        with _in_words(self.timeout):
            dist.broadcast(length, 0, group=self._group)
            data = torch.zeros(int(length), dtype=torch.uint8)
            if self.is_first:
                data = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else data
            dist.broadcast(data, 0, group=self._group)
        return data.numpy().tobytes()

    def from_first(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a function returns in the first process, where alone it is called; plain values."""
        made = self.as_one(lambda: make() if self.is_first else {})
        told: dict[str, Any] = json.loads(self.broadcast(json.dumps(made).encode()))
        return told

    def as_one(self, make: Callable[[], Made]) -> Made:
        """Do something in every process; if it fails in one, the first says why and all end."""
        made, failure, own_error = [], "", None
        try:
            made.append(make())
        except (ValueError, TypeError, OSError) as error:
            failure, own_error = _words_of(error), error
        texts = np.zeros((self.count, _TEXT_BYTES), dtype=np.uint8)
        encoded = failure.encode()[:_TEXT_BYTES]
        texts[self.rank, : len(encoded)] = list(encoded)
        self.add_up(texts)
        for text in texts:
            words = text.tobytes().rstrip(b"\0").decode(errors="ignore")
            if words and self.is_first:
                # Its own error knows more than its words: which parameters they name.
                raise own_error or ValueError(words)
            if words:
                raise SystemExit(2)
        return made[0]

    def send(self, rows: npt.NDArray[Any], to: int) -> None:
        with _in_words(self.timeout):
            dist.send(torch.from_numpy(np.ascontiguousarray(rows)), to, group=self._group)

    def receive(self, rows: npt.NDArray[Any], source: int) -> None:
        """Fill the rows with what another process sends."""
        with _in_words(self.timeout):
            dist.recv(torch.from_numpy(rows), source, group=self._group)


@contextmanager
def started_processes(timeout: float) -> Iterator[Processes]:
    """Join the other processes that torchrun has started."""
    if not 1 <= timeout <= 1e6:
        message = "{timeout} must be from 1 to 1,000,000 seconds, got {:g}"
        raise ValueError(naming(message, timeout))
    limit = timedelta(seconds=timeout)
    with _in_words(timeout):
        store, rank, count = next(rendezvous("env://", timeout=limit))
        store.set_timeout(limit)
        fresh = PrefixStore(_meet(store, rank, count, timeout), store)
        dist.init_process_group("gloo", store=fresh, rank=rank, world_size=count, timeout=limit)
    try:
        yield Processes(timeout)
    finally:
        dist.destroy_process_group()


def _meet(store: Any, rank: int, count: int, timeout: float) -> str:
    """A name for this meeting of processes that no earlier one has had.

    After a restart torchrun's store still has the addresses of the processes that are gone, and
    whoever reads one waits in vain. So the first process answers each of the others by a name that
    only this one has, and asks again until all who are there now have joined.
    """
    own = uuid.uuid4().hex
    if rank != 0:
        store.set(f"graphconv/process/{rank}", own)
        meeting = str(store.get(f"graphconv/meeting/{own}").decode())
        store.set(f"graphconv/joined/{meeting}/{rank}", "yes")
        return meeting
    answered: dict[int, bytes] = {}
    missing = set(range(1, count))
    deadline = time.monotonic() + timeout
    while missing:
        for other in sorted(missing):
            if store.check([f"graphconv/process/{other}"]):
                name = store.get(f"graphconv/process/{other}")
                if answered.get(other) != name:
                    store.set(f"graphconv/meeting/{name.decode()}", own)
                    answered[other] = name
            if store.check([f"graphconv/joined/{own}/{other}"]):
                missing.discard(other)
        if time.monotonic() > deadline:
            raise RuntimeError(f"process {min(missing)} has not come")
        time.sleep(0.01)
    return own


@contextmanager
def _in_words(timeout: float) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # gloo's and the store's alike
        rank, count = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        raise ConnectionError(
            f"process {rank} of {count}: another process ended, or did not answer within "
            f"{timeout:g} s ({str(error).splitlines()[0][:150]})"
        ) from None


def _words_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or 'can not be used'}"
    return str(error) or type(error).__name__
