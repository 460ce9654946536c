"""Feature scaling: raw features enter, features a network can learn from leave.

The paper divides every row by its sum, which suits bags of words and ruins measured columns, so
outside the paper's own data the scaling is chosen from what the features are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features, FloatArray, IntArray
from graphconv.graph.mapping import release
from graphconv.graph.names import SCALINGS, Scaling
from graphconv.kernels import reference

# Numbers of a block of stored features that are in memory at a time.
BLOCK_NUMBERS = 1 << 22
Combine = Callable[[npt.NDArray[Any], str], npt.NDArray[Any]]


@dataclass(frozen=True)
class FeatureScaler:
    """A scaling with all it learned from the training graph, so that new nodes get the same.

    kind "row" divides each row by its sum of absolute values, "l2" by its length, "none" leaves all
    as it is. "standard" brings columns to mean 0 and standard deviation 1; in a sparse matrix only
    columns that are mostly filled are centred, the others are divided by the root mean square of
    their nonzero entries, which keeps them sparse.
    """

    kind: str
    mean: FloatArray | None = None
    scale: FloatArray | None = None

    def transform(self, features: Features | None) -> Features | None:
        if features is None:
            return None
        if features.dtype == np.float16:
            features = features.astype(np.float32)
        if self.kind == "none":
            return features
        if self.kind in ("row", "l2"):
            return _divide_rows(features, self.kind)
        assert self.mean is not None
        assert self.scale is not None
        if not sp.issparse(features):
            scaled: FloatArray = features - self.mean
            scaled /= self.scale
            return scaled
        scaled_sparse = features @ sp.diags_array(1 / self.scale)
        centred = np.flatnonzero(self.mean)
        if len(centred):
            # Only filled columns are centred, so storing all their entries costs little.
            shift = sp.csr_array(
                (self.mean[centred] / self.scale[centred], (np.zeros_like(centred), centred)),
                shape=(1, features.shape[1]),
            )
            ones = sp.csr_array(np.ones((features.shape[0], 1), dtype=np.float32))
            scaled_sparse = scaled_sparse - ones @ shift
        matrix = sp.csr_array(scaled_sparse.astype(np.float32))
        matrix.sort_indices()  # scipy's difference leaves columns in any order; kernels need theirs
        return matrix


class StoredFeatures:
    """Features on disk or in half precision: rows are read and scaled when they are asked for.

    Every scaling treats a row by itself once its statistics are known, so rows scaled alone are
    bit for bit those of a matrix scaled whole.
    """

    def __init__(self, features: Features, scaler: FeatureScaler | None = None) -> None:
        self.features = features
        self.scaler = scaler or FeatureScaler("none")
        self.shape: tuple[int, int] = features.shape

    def take(self, rows: IntArray | slice) -> Features:
        """Some rows as float32, dense or sparse as they are stored."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.shape[0]))
        if not sp.issparse(self.features):
            return self._take_dense(rows)
        # scipy would convert all indices of a matrix whose arrays are of two types.
        part = reference.sample_rows(
            self.features.indptr, self.features.indices, self.features.data, rows
        )
        shape = (len(rows), self.shape[1])
        matrix = sp.csr_array((part.values, part.columns, part.indptr), shape=shape)
        return self.scaler.transform(matrix)

    def _take_dense(self, rows: IntArray) -> FloatArray:
        """A block at a time: what converting and scaling need beside is no more than a block."""
        taken: FloatArray = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for first in range(0, len(rows), self._block_rows):
            part = slice(first, first + self._block_rows)
            taken[part] = self.scaler.transform(self.features[rows[part]].astype(np.float32))
        return taken

    @property
    def _block_rows(self) -> int:
        return max(1, BLOCK_NUMBERS // max(1, self.shape[1]))

    def blocks(self) -> Iterator[Features]:
        """All rows, some at a time, without keeping what was read."""
        n_rows = self._block_rows
        for first in range(0, self.shape[0], n_rows):
            yield self.take(slice(first, first + n_rows))
            if not sp.issparse(self.features):
                release(self.features)
            else:
                release(self.features.indices, self.features.data)


def fit_stored_scaler(
    features: Features, kind: Scaling = "auto", combine: Combine | None = None
) -> FeatureScaler:
    """What `fit_scaler` learns, from stored features, in two passes over blocks of rows.

    Where other processes have the other rows, `combine` gives the sum or the maximum ("sum", "max")
    of numbers over all of them.
    """
    combine = combine or (lambda numbers, how: numbers)
    if kind not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {kind!r}")
    source = StoredFeatures(features)
    is_sparse = sp.issparse(features)
    n_rows, n_columns = features.shape
    if kind not in ("auto", "standard"):
        return FeatureScaler(kind)
    largest, total, squares = (np.zeros(n_columns) for _ in range(3))
    filled = np.zeros(n_columns, dtype=np.int64)
    smallest, n_filled = 0.0, 0
    for block in source.blocks():
        values = block.data if is_sparse else block
        smallest = min(smallest, float(values.min(initial=0)))
        n_filled += int(np.count_nonzero(values))
        exact = block.astype(np.float64)
        total += exact.sum(axis=0)
        if is_sparse:
            exact.data = np.abs(exact.data)
            largest = np.maximum(largest, exact.max(axis=0).toarray().ravel())
            exact.data **= 2
            squares += exact.sum(axis=0)
            filled += np.bincount(block.indices, minlength=n_columns)
        else:
            largest = np.maximum(largest, np.abs(exact).max(axis=0, initial=0))
    largest = combine(largest, "max")
    smallest = -float(combine(np.array([-smallest]), "max")[0])
    total, squares = combine(total, "sum"), combine(squares, "sum")
    filled = combine(filled, "sum").astype(np.int64)
    n_filled, n_rows = combine(np.array([n_filled, n_rows]), "sum").astype(np.int64).tolist()
    if kind == "auto":
        share = n_filled / max(1, n_rows * n_columns)
        kind = "l2" if _are_words(smallest, largest, share) else "standard"
    if kind == "l2":
        return FeatureScaler(kind)
    mean = total / max(n_rows, 1)
    if is_sparse:
        return FeatureScaler("standard", *_sparse_scale(mean, squares, filled, n_rows))
    # A second pass around the mean: a difference of large squares would lose small deviations.
    deviation = np.zeros(n_columns)
    for block in source.blocks():
        deviation += ((block.astype(np.float64) - mean) ** 2).sum(axis=0)
    deviation = combine(deviation, "sum")
    return FeatureScaler("standard", *_safe_scale(mean, np.sqrt(deviation / max(n_rows, 1))))


def fit_scaler(features: Features | None, kind: Scaling = "auto") -> FeatureScaler:
    """Learn a scaling from features; "auto" chooses the kind from what they are.

    Bags of words and other rows of non-negative numbers on one scale (counts, TF-IDF, binary) get
    "l2"; everything else, such as measured columns or embeddings, gets "standard".

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.graph.scaling import fit_scaler
    >>> fit_scaler(np.array([[0, 1, 0, 2], [1, 0, 0, 0]])).kind
    'l2'
    >>> fit_scaler(np.array([[0.1, 180.0], [-0.3, 172.0]])).kind
    'standard'
    """
    if kind not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {kind!r}")
    if features is None:
        return FeatureScaler("none")
    if kind == "auto":
        kind = "l2" if _looks_like_words(features) else "standard"
    if kind != "standard":
        return FeatureScaler(kind)
    mean, scale = _column_statistics(features)
    return FeatureScaler("standard", mean, scale)


def _divide_rows(features: Any, kind: str) -> Features:
    if sp.issparse(features):
        size = abs(features).sum(axis=1) if kind == "row" else _lengths_sparse(features)
        size = np.asarray(size, dtype=np.float32).ravel()
        inverse = np.divide(1, size, out=np.zeros_like(size), where=size > 0)
        scaled = sp.csr_array(features, copy=True)
        scaled.data *= np.repeat(inverse, np.diff(scaled.indptr))
        return scaled
    absolute = np.abs(features).astype(np.float64)
    size = absolute.sum(axis=1) if kind == "row" else np.sqrt((absolute**2).sum(axis=1))
    inverse = np.divide(1, size, out=np.zeros_like(size), where=size > 0)
    dense: FloatArray = (features * inverse[:, None]).astype(np.float32)
    return dense


def _lengths_sparse(features: Any) -> npt.NDArray[np.float64]:
    squares = features.astype(np.float64)
    squares.data **= 2
    lengths: npt.NDArray[np.float64] = np.sqrt(squares.sum(axis=1))
    return lengths


def _looks_like_words(features: Any) -> bool:
    values = features.data if sp.issparse(features) else features
    if values.size == 0:
        return True
    largest = abs(features).max(axis=0)
    largest = np.asarray(largest.todense() if sp.issparse(largest) else largest).ravel()
    share = np.count_nonzero(values) / (features.shape[0] * features.shape[1])
    return _are_words(float(values.min()), largest, share)


def _are_words(smallest: float, largest: npt.NDArray[Any], share: float) -> bool:
    """Judged by the smallest number, the largest of each column and the share of nonzeros."""
    if smallest < 0:
        return False
    used = largest[largest > 0]
    if len(used) == 0:
        return True
    # Mostly empty rows, and columns on one scale: counts, weights and flags differ by little,
    # measured columns by powers of ten.
    return bool(share <= 0.5 and used.max() <= 100 * np.median(used))


def _column_statistics(features: Any) -> tuple[FloatArray, FloatArray]:
    n_rows = max(features.shape[0], 1)
    exact = features.astype(np.float64)
    if sp.issparse(features):
        filled = np.bincount(features.indices, minlength=features.shape[1])
        squares = exact.copy()
        squares.data **= 2
        return _sparse_scale(exact.sum(axis=0) / n_rows, squares.sum(axis=0), filled, n_rows)
    return _safe_scale(exact.mean(axis=0), exact.std(axis=0))


def _sparse_scale(
    mean: npt.NDArray[np.float64],
    total_squares: npt.NDArray[np.float64],
    filled: npt.NDArray[np.int64],
    n_rows: int,
) -> tuple[FloatArray, FloatArray]:
    """Mean and scale of the columns of a sparse matrix; only filled ones are centred."""
    deviation = np.sqrt(np.maximum(total_squares / max(n_rows, 1) - mean**2, 0))
    root_mean_square = np.sqrt(total_squares / np.maximum(filled, 1))
    centre = filled > 0.5 * n_rows
    return _safe_scale(np.where(centre, mean, 0), np.where(centre, deviation, root_mean_square))


def _safe_scale(
    mean: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]
) -> tuple[FloatArray, FloatArray]:
    # A column that does not vary carries nothing: leave its scale alone.
    flat = scale <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    scale = np.where(flat, 1, scale)
    return mean.astype(np.float32), scale.astype(np.float32)
