"""What must hold of a stored graph's arrays before anything follows their indices.

Mapped arrays enter; a ValueError leaves if one is not what its name says. Each is read once, in
blocks, about as fast as it comes from disk. That a large folder was found in order is remembered
in the user's cache, so that the reading is paid once; a folder can't vouch for itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph.mapping import release
from graphconv.io.datasets.places import cache_dir
from graphconv.io.files import json_text, replacing_file

Array = npt.NDArray[Any]
# How numbers are stored in each array.
KINDS: dict[str, tuple[str, ...]] = {
    "adjacency.indptr": ("<i8",),
    "adjacency.indices": ("<i4",),
    "adjacency.data": ("<f4",),
    "features": ("<f4", "<f2"),
    "features.indptr": ("<i8",),
    "features.indices": ("<i4",),
    "features.data": ("<f4",),
    "degree": ("<f8",),
    "labels": ("<i4",),
    "ids": ("<i8",),
    "train_index": ("<i8",),
    "validation_index": ("<i8",),
    "test_index": ("<i8",),
    # Of a part:
    "assignment": ("<i4",),
    "nodes": ("<i8",),
    "halo_bounds": ("<i8",),
    "lent": ("<i4",),
    "lent_bounds": ("<i8",),
}
# Numbers that are looked at while they are in the cache.
_BLOCK = 1 << 18
# Smaller folders are looked at each time: that takes milliseconds.
_REMEMBERED_BYTES = 1 << 26
_MOST_REMEMBERED = 200
_HALF_EXPONENT = np.uint16(0x7C00)


def check_matrix(
    name: str, arrays: Mapping[str, Array], shape: tuple[int, int], *, in_order: bool = True
) -> None:
    """Refuse a sparse matrix whose rows or columns are not in order, or outside its shape.

    Columns of a part keep the order of the whole graph, which is not that of their numbers.
    """
    indptr, indices = arrays[f"{name}.indptr"], arrays[f"{name}.indices"]
    check_shape(f"{name}.indptr", indptr, (shape[0] + 1,))
    n_entries = len(indices)
    if indptr[0] != 0 or indptr[-1] != n_entries:
        ends = f"{indptr[0]} and {indptr[-1]}"
        raise ValueError(f"{name}.indptr must begin with 0 and end with {n_entries}, got {ends}")
    for first in range(0, len(indptr), _BLOCK):
        block = indptr[first : first + _BLOCK + 1]
        if (block[1:] < block[:-1]).any():
            raise ValueError(f"{name}.indptr must not decrease")
    for first in range(0, n_entries, _BLOCK):
        # One entry of the block before, to compare the first one with.
        block = indices[max(0, first - 1) : first + _BLOCK]
        low, high = int(block.min()), int(block.max())
        if low < 0 or high >= shape[1]:
            wrong = low if low < 0 else high
            raise ValueError(f"{name}.indices must be from 0 to {shape[1] - 1}, got {wrong}")
        if not in_order:
            continue
        begins = np.zeros(len(block), dtype=bool)
        end = min(first + _BLOCK, n_entries)
        here = slice(*np.searchsorted(indptr, (max(0, first - 1), end)))
        begins[indptr[here] - max(0, first - 1)] = True
        if not ((block[1:] > block[:-1]) | begins[1:]).all():
            raise ValueError(f"{name}.indices must increase within a row")
    release(indptr, indices)
    if f"{name}.data" in arrays:
        check_shape(f"{name}.data", arrays[f"{name}.data"], (n_entries,))
        check_numbers(f"{name}.data", arrays[f"{name}.data"], is_positive=name == "adjacency")


def check_numbers(name: str, array: Array, *, is_positive: bool = False) -> None:
    """Refuse numbers that are not finite, or not above 0 where they must be."""
    flat = array.reshape(-1)
    is_half = flat.dtype == np.float16
    for first in range(0, len(flat), _BLOCK):
        block = flat[first : first + _BLOCK]
        if is_half:
            # numpy compares halves one by one; their bits it compares sixteen at a time.
            bits = block.view(np.uint16) & _HALF_EXPONENT
            is_finite = bool((bits != _HALF_EXPONENT).all())
        else:
            low, high = block.min(), block.max()  # NaN, if one of them is
            is_finite = bool(np.isfinite(low) and np.isfinite(high))
        if not is_finite:
            raise ValueError(f"{name} must hold finite numbers, got nan or infinity")
        if is_positive and not low > 0:
            raise ValueError(f"{name} must hold numbers above 0, got {low}")
    release(array)


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Refuse sizes that are no whole numbers, or that no array can have."""
    for name, value in sizes.items():
        if not isinstance(value, int) or not 0 <= value < 2**63:
            raise ValueError(f"{name} must be a whole number, got {value!r}")


def check_range(name: str, array: Array, low: int, high: int) -> None:
    """Refuse whole numbers below `low`, or at least `high`."""
    for first in range(0, len(array), _BLOCK):
        block = array[first : first + _BLOCK]
        if block.size and not low <= block.min() <= block.max() < high:
            wrong = block.min() if block.min() < low else block.max()
            raise ValueError(f"{name} must be from {low} to {high - 1}, got {wrong}")


def check_bounds(name: str, array: Array, n_parts: int, total: int) -> None:
    """Refuse bounds that do not go up from 0 to `total`."""
    check_shape(name, array, (n_parts + 1,))
    if array[0] != 0 or array[-1] != total or (np.diff(array) < 0).any():
        raise ValueError(f"{name} must go up from 0 to {total}")


def check_graph_arrays(
    arrays: Mapping[str, Array], *, n_nodes: int, n_features: int | None, n_classes: int
) -> None:
    """Refuse arrays that are not those of a graph of this size; only those that are there."""
    if "adjacency.indptr" in arrays:
        check_matrix("adjacency", arrays, (n_nodes, n_nodes))
        check_shape("degree", arrays["degree"], (n_nodes,))
        check_numbers("degree", arrays["degree"])
    if "features.indptr" in arrays:
        check_matrix("features", arrays, (n_nodes, n_features or 0))
    elif "features" in arrays:
        check_shape("features", arrays["features"], (n_nodes, n_features or 0))
        check_numbers("features", arrays["features"])
    labels = arrays["labels"]
    if labels.ndim == 2:
        check_shape("labels", labels, (n_nodes, n_classes))
        check_range("labels", labels, -1, 2)
    else:
        check_shape("labels", labels, (n_nodes,))
        check_range("labels", labels, -1, n_classes)
    if "ids" in arrays:
        check_shape("ids", arrays["ids"], (n_nodes,))


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")


class Checked:
    """Whether a folder, as it is now, was found in order before.

    Goes by what the system says of the files, of which the time of the last change can't be set
    by whoever writes them, and by the manifest's bytes.
    """

    def __init__(self, folder: Path, manifest: Path, files: list[Path]) -> None:
        self._key = str(folder)
        stamps = [(path.name, path.stat()) for path in sorted(files)]
        self._is_large = sum(stat.st_size for _, stat in stamps) >= _REMEMBERED_BYTES
        self._state = {
            "manifest": hashlib.sha256(manifest.read_bytes()).hexdigest(),
            "files": [
                [name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
                for name, stat in stamps
            ],
        }
        self._path = cache_dir() / "checked-graphs.json"

    def is_known(self) -> bool:
        return self._is_large and _read(self._path).get(self._key) == self._state

    def remember(self) -> None:
        """Keep it for the next time, if that would save anything and can be written."""
        if not self._is_large:
            return
        known = _read(self._path)
        known.pop(self._key, None)
        latest = dict([*known.items(), (self._key, self._state)][-_MOST_REMEMBERED:])
        try:
            with replacing_file(self._path) as new:
                new.write_text(json_text(latest), encoding="utf-8")
        except OSError:  # a cache that can't be written costs time, no more
            return


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
