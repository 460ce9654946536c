"""Dense products in blocks of rows: each block is dropped out, multiplied and let go in the cache.

How rows are cut depends on their number and width alone, never on the number of threads, and
partial sums are added in the order of the blocks: so the same bits leave for any number of threads.
A block's product is one call of torch's on one thread; blocks are shared out among the threads.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
# Numbers of a block, of the widest of its arrays: half of a near cache.
BLOCK_NUMBERS = 1 << 17
MOST_ROWS, LEAST_ROWS = 4096, 128
# Pieces whose sums are made apart, each by one thread, and then added in their order.
MOST_SUMS = 16
# Multiply-adds below which waking another thread takes longer than the work.
LEAST_SHARED = 1 << 21

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def row_blocks(n_rows: int, width: int) -> list[slice]:
    """Blocks of rows that are as wide."""
    size = min(MOST_ROWS, max(LEAST_ROWS, BLOCK_NUMBERS // max(1, width)))
    return [slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size)]


def for_each(blocks: list[slice], work: Callable[[slice], None], n_threads: int, cost: int) -> None:
    """Do the work of every block; `cost` is that of all of them, in multiply-adds."""
    n_threads = min(n_threads, len(blocks))
    if n_threads <= 1 or cost < LEAST_SHARED:
        for block in blocks:
            work(block)
        return
    places = itertools.count()

    def take() -> None:
        # next() of a counter is one step for the interpreter: no two threads get the same.
        while (place := next(places)) < len(blocks):
            work(blocks[place])

    others = [_pool(n_threads - 1).submit(take) for _ in range(n_threads - 1)]
    try:
        take()
    finally:
        for other in others:
            other.result()


def summed_over(
    blocks: list[slice],
    work: Callable[[slice, Array], None],
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    n_threads: int,
    cost: int,
) -> Array:
    """The sum of what the blocks add to an array that they are given."""
    n_sums = max(1, min(MOST_SUMS, len(blocks) // 4))
    sums = [np.zeros(shape, dtype) for _ in range(n_sums)]
    bounds = [len(blocks) * place // n_sums for place in range(n_sums + 1)]

    def add(piece: slice) -> None:
        for block in blocks[bounds[piece.start] : bounds[piece.start + 1]]:
            work(block, sums[piece.start])

    for_each([slice(place, place + 1) for place in range(n_sums)], add, n_threads, cost)
    total = sums[0]
    for own in sums[1:]:
        total += own
    return total


def _pool(n_workers: int) -> ThreadPoolExecutor:
    key = (os.getpid(), n_workers)  # a forked child has none of its parent's threads
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(
            n_workers, "graphconv-dense", initializer=torch.set_num_threads, initargs=(1,)
        )
    return _pools[key]
