"""Mapped arrays: memory that a file stands behind, and how to let go of it."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def release(*arrays: Array) -> None:
    """Let go of the memory of mapped arrays; what is needed again is read again from the file.

    Reading a mapped file counts as memory of the process until somebody else needs it. Passes over
    all of a large graph call this now and then, so that their memory stays what they say it is.
    """
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    for array in arrays:
        owner: Any = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if isinstance(owner, memoryview):
            owner = owner.obj
        if isinstance(owner, mmap.mmap):
            owner.madvise(mmap.MADV_DONTNEED)
