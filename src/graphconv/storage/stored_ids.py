"""Ids of a stored graph: text in an Arrow file, of which only what is asked for is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class StoredIds:
    """Names of nodes in an Arrow file, looked up when they are asked for.

    Stands where `Graph.node_ids` is an array: it has a length, can be indexed by slices and arrays
    of positions, which gives arrays of text, and has `tolist`.
    """

    dtype = np.dtype(object)
    ndim = 1

    def __init__(self, path: Path, n_nodes: int) -> None:
        import pyarrow as pa

        self.path = path
        with pa.memory_map(str(path)) as source:
            self._column = pa.ipc.open_file(source).read_all().column(0)
        if len(self._column) != n_nodes:
            raise ValueError(f"{path} must hold {n_nodes:,} ids, got {len(self._column):,}")

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            start, stop, step = position.indices(len(self))
            if step == 1:
                piece = self._column.slice(start, max(0, stop - start))
                return piece.to_numpy()
            position = np.arange(start, stop, step)
        if np.ndim(position) == 0:
            return self._column[int(position)].as_py()
        return self._column.take(np.asarray(position)).to_numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return cast(Array, self._column.to_numpy())

    def tolist(self) -> list[str]:
        return cast(list[str], self._column.to_pylist())
