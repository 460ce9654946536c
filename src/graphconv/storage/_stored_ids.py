"""Ids of a stored graph: text in an Arrow file, of which only what is asked for is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphconv.io.files import file_checksum

Array = npt.NDArray[Any]


class StoredIds:
    """Names of nodes in an Arrow file, looked up when they are asked for.

    Stands where `Graph.node_ids` is an array: it has a length, can be indexed by slices and arrays
    of positions, which gives arrays of text, and has `tolist`.
    """

    dtype = np.dtype(object)
    ndim = 1

    def __init__(self, path: Path, n_nodes: int, expected: str | None = None) -> None:
        """Open the file; with its checksum, look at all of it first."""
        import pyarrow as pa

        self.path = path
        # Before Arrow follows what is written in it.
        if expected is not None and file_checksum(path) != expected:
            raise ValueError(f"{path.name} must have the checksum of its manifest")
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            if expected is not None:
                table.validate(full=True)
            self._column = table.column(0)
        except (pa.ArrowException, IndexError):
            # What Arrow says of it may quote memory.
            raise ValueError(f"{path.name} must be an Arrow file of ids, but is damaged") from None
        if self._column.type != pa.large_string() or self._column.null_count:
            raise ValueError(f"{path.name} must hold texts, got {self._column.type}")
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
