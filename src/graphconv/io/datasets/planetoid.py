"""Planetoid's file format: eight files ind.NAME.* enter, tables or a `Graph` leave.

Seven of the files are pickles, and a pickle is a program. Here it runs on inert stand-ins: the
few numpy and scipy names these files ask for become objects that only write down what they were
given, every other name is refused, and the arrays are made afterwards from what was written down.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray, adjacency_from_edges
from graphconv.graph.checks import check_sparse

SUFFIXES = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
N_VALIDATION = 500

# What taking apart a malformed stand-in may raise.
_MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)

# Where each admitted name has lived, from Python 2's numpy and scipy to today's.
_ADMITTED = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("numpy.core.multiarray", "_reconstruct"): "array",
    ("numpy._core.multiarray", "_reconstruct"): "array",
    ("scipy.sparse.csr", "csr_matrix"): "matrix",
    ("scipy.sparse._csr", "csr_matrix"): "matrix",
    ("scipy.sparse._csr", "csr_array"): "matrix",
}
_CONTAINERS = {
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


@dataclass(frozen=True)
class PlanetoidFiles:
    """The raw files of one data set: `contents` by suffix, and where they are, for messages."""

    prefix: str
    contents: Mapping[str, bytes]
    where: str

    def label(self, suffix: str) -> str:
        return f"{self.where}/{self.prefix}.{suffix}"


@dataclass(frozen=True)
class PlanetoidTables:
    """What the files say: rows of `allx` first, rows of `tx` at `test_index`, other rows empty."""

    adjacency: sp.csr_array
    features: sp.csr_array  # (n_nodes, n_features)
    labels: IntArray  # (n_nodes,), -1 where unknown
    n_classes: int
    n_train: int
    n_all: int  # rows of allx
    test_index: IntArray


def read_folder(folder: Path, prefix: str, optional: Collection[str] = ()) -> PlanetoidFiles | None:
    """Read the files PREFIX.* of a folder; None if it holds none of them."""
    paths = {suffix: folder / f"{prefix}.{suffix}" for suffix in SUFFIXES}
    if not any(path.is_file() for path in paths.values()):
        return None
    for suffix, path in paths.items():
        if suffix not in optional and not path.is_file():
            raise FileNotFoundError(
                f"{folder}: must hold all of {prefix}.*, but {path.name} is missing"
            )
    contents = {s: path.read_bytes() for s, path in paths.items() if path.is_file()}
    return PlanetoidFiles(prefix, contents, str(folder))


def graph_from_planetoid(files: PlanetoidFiles, name: str) -> Graph:
    """The graph of a citation network with its public split, as the authors of the paper read it.

    The first nodes, as many as `y` has rows, are for training, the next 500 for validation, those
    of test.index for testing. Features are as stored, self-loops stay, duplicate edges count once.
    Ids that test.index skips (15 of Citeseer's) are nodes without features and without a label.
    """
    tables = parse_planetoid(files)
    n_known = min(tables.n_train + N_VALIDATION, tables.n_all)
    return Graph(
        tables.adjacency,
        tables.features,
        tables.labels,
        class_names=tuple(range(tables.n_classes)),
        train_index=labelled(tables.labels, np.arange(tables.n_train)),
        validation_index=labelled(tables.labels, np.arange(tables.n_train, n_known)),
        test_index=labelled(tables.labels, tables.test_index),
        name=name,
    )


def labelled(labels: IntArray, index: IntArray) -> IntArray:
    return index[labels[index] >= 0]


def parse_planetoid(files: PlanetoidFiles) -> PlanetoidTables:
    """Read and check all files; `ally` may be missing, then only y and ty give labels."""
    _, tx, allx = (_read_matrix(files, suffix) for suffix in ("x", "tx", "allx"))
    y, ty = _read_array(files, "y"), _read_array(files, "ty")
    ally = _read_array(files, "ally") if "ally" in files.contents else y
    test_index = _read_test_index(files)
    adjacency = _read_graph(files)
    n_nodes, n_all = adjacency.shape[0], allx.shape[0]
    _require(files, "ty", len(ty) == tx.shape[0], f"a row for each of tx's {tx.shape[0]}", len(ty))
    _require(files, "test.index", len(test_index) == len(ty), f"{len(ty)} ids", len(test_index))
    if "ally" in files.contents:
        _require(files, "ally", len(ally) == n_all, f"a row for each of allx's {n_all}", len(ally))
    _require(files, "y", len(y) <= n_all, f"at most allx's {n_all} rows", len(y))
    _require(files, "tx", tx.shape[1] == allx.shape[1], f"{allx.shape[1]} columns", tx.shape[1])
    widths = (y.shape[1], ty.shape[1], ally.shape[1])
    _require(files, "y", len(set(widths)) == 1, "as many columns as ty and ally", widths)
    _require(files, "graph", n_nodes >= n_all, f"at least allx's {n_all} nodes", n_nodes)
    inside = (test_index >= n_all) & (test_index < n_nodes)
    if not inside.all():
        wrong = test_index[~inside][0]
        _require(files, "test.index", False, f"ids of {n_all}..{n_nodes - 1}", wrong)
    n_distinct = len(set(test_index.tolist()))
    _require(files, "test.index", n_distinct == len(ty), f"{len(ty)} distinct ids", n_distinct)
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[: len(ally)] = _class_numbers(ally)
    labels[test_index] = _class_numbers(ty)
    features = _place_rows(allx, tx, test_index, n_nodes)
    return PlanetoidTables(adjacency, features, labels, widths[0], len(y), n_all, test_index)


def _require(files: PlanetoidFiles, suffix: str, holds: bool, what: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{files.label(suffix)}: must have {what}, got {got}")


def _class_numbers(one_hot: npt.NDArray[Any]) -> IntArray:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _place_rows(
    allx: sp.csr_array, tx: sp.csr_array, test_index: IntArray, n_nodes: int
) -> sp.csr_array:
    # Row i of tx belongs to node test_index[i]; nodes in neither table get an empty row.
    stacked = sp.vstack([allx, tx], format="coo")
    node = np.concatenate([np.arange(allx.shape[0]), test_index])
    shape = (n_nodes, allx.shape[1])
    return sp.csr_array(sp.coo_array((stacked.data, (node[stacked.row], stacked.col)), shape))


def _read_test_index(files: PlanetoidFiles) -> IntArray:
    ids = []
    for number, line in enumerate(files.contents["test.index"].split(b"\n"), start=1):
        text = line.decode("latin1").strip()
        if text and not re.fullmatch(r"[0-9]{1,18}", text):
            raise ValueError(
                f"{files.label('test.index')}, line {number}: must be a node number, got {text!r}"
            )
        if text:
            ids.append(int(text))
    return np.array(ids, dtype=np.int64)


def _read_graph(files: PlanetoidFiles) -> sp.csr_array:
    label = files.label("graph")
    lists = read_pickle(files.contents["graph"], label)
    if not isinstance(lists, dict) or not all(isinstance(v, list) for v in lists.values()):
        raise ValueError(f"{label}: must hold a dictionary of lists of neighbours")
    n_nodes = len(lists)
    try:
        # numpy would cut the fraction off a number and go on.
        if not all(type(node) is int for node in chain(lists, chain.from_iterable(lists.values()))):
            raise TypeError
        nodes = np.fromiter(lists, dtype=np.int64, count=n_nodes)
        lengths = [len(neighbours) for neighbours in lists.values()]
        target = np.fromiter(chain.from_iterable(lists.values()), np.int64, sum(lengths))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{label}: nodes must be whole numbers") from None
    if not np.array_equal(np.sort(nodes), np.arange(n_nodes)):
        raise ValueError(f"{label}: must list each of the nodes 0..{n_nodes - 1} once")
    # Paper: a binary, symmetric adjacency matrix; here: self-loops of the files stay, so that the
    # diagonal has 2 there once I is added, because the authors' code does the same.
    try:
        return adjacency_from_edges(np.repeat(nodes, lengths), target, n_nodes=n_nodes)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _read_matrix(files: PlanetoidFiles, suffix: str) -> sp.csr_array:
    label = files.label(suffix)
    stored = read_pickle(files.contents[suffix], label)
    try:
        state = stored.state if _kind(stored) == "matrix" else None
        if isinstance(state, dict):
            arrays = tuple(_to_array(state[part]) for part in ("data", "indices", "indptr"))
            n_rows, n_columns = (int(length) for length in state["_shape"])
            matrix = sp.csr_array(arrays, shape=(n_rows, n_columns))
            check_sparse(matrix, "it")
        else:
            array = _to_array(stored)
            if array.ndim != 2:
                raise ValueError(f"got shape {array.shape}")
            matrix = sp.csr_array(array)
    except _MALFORMED as error:
        raise ValueError(f"{label}: must hold a sparse matrix ({error})") from None
    return matrix


def _read_array(files: PlanetoidFiles, suffix: str) -> npt.NDArray[Any]:
    label = files.label(suffix)
    stored = read_pickle(files.contents[suffix], label)
    try:
        array = _to_array(stored)
        if array.ndim != 2 or array.shape[1] == 0:
            raise ValueError(f"got shape {array.shape}")
    except _MALFORMED as error:
        raise ValueError(f"{label}: must hold one-hot labels ({error})") from None
    return array


class Stored:
    """What a pickle gave for an object of numpy or scipy: its arguments and its state."""

    kind = ""

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> Stored:  # a pickle may create without calling __init__
        new = super().__new__(cls)
        new.args, new.state = args, None
        return new

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _kind(stored: Any) -> str:
    return type(stored).kind if isinstance(stored, Stored) else ""


def _to_array(stored: Any) -> npt.NDArray[Any]:
    """Make the array that a stand-in describes; plain numbers only."""
    if _kind(stored) != "array":
        raise ValueError("got something that is not an array")
    _, shape, dtype, is_fortran, data = stored.state
    is_known = _kind(dtype) == "dtype" and isinstance(dtype.state or ("", "|"), tuple)
    if not is_known or not re.fullmatch(r"[biuf][1248]", str((*dtype.args, "")[0])):
        raise ValueError("got an array of something else than numbers")
    order = (*(dtype.state or ()), "|", "|")[1]
    if order not in ("<", ">", "|", "="):
        raise ValueError(f"got byte order {order!r}")
    # bytes(10**9) would be that many bytes.
    if not isinstance(data, str | bytes | bytearray):
        raise ValueError("got an array without its bytes")
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    number = np.dtype(f"{order}{dtype.args[0]}")
    if not all(isinstance(length, int) for length in shape):
        raise ValueError("got an array whose shape is not of whole numbers")
    lengths = tuple(shape)
    if len(raw) != math.prod(lengths) * number.itemsize or min(lengths, default=0) < 0:
        raise ValueError(f"got {len(raw)} bytes for an array of shape {lengths}")
    array = np.frombuffer(raw, dtype=number).astype(number.newbyteorder("="))
    return array.reshape(lengths, order="F" if is_fortran else "C")


def _refuse_large_claims(data: bytes) -> None:
    """Refuse a pickle that puts things far away: the reader would make all the places before it."""
    for opcode, argument, _ in pickletools.genops(data):
        is_put = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT")
        if is_put and argument is not None and int(argument) > len(data):
            raise ValueError(f"it puts something in place {argument}, more than it can fill")


class _RefusedNameError(Exception):
    """The pickle asked for a name that is not admitted."""


class _InertUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        # Made anew for each file: a pickle that tampers with a class harms nobody else's.
        kinds = {*_ADMITTED.values()}
        self._stand_ins = {kind: type(kind, (Stored,), {"kind": kind}) for kind in kinds}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _CONTAINERS:
            return _CONTAINERS[module, name]
        if (module, name) in _ADMITTED:
            return self._stand_ins[_ADMITTED[module, name]]
        raise _RefusedNameError(f"{module}.{name}")


def read_pickle(data: bytes, where: str) -> Any:
    r"""Read a pickle of Planetoid's without running anything it might ask for.

    Numbers, text, lists and dictionaries come back as they are, arrays and sparse matrices as
    `Stored`. Anything else is a ValueError that starts with `where`.

    Examples
    --------
    >>> from graphconv.io.datasets.planetoid import read_pickle
    >>> read_pickle(b"cos\nsystem\n(S'true'\ntR.", "ind.cora.x")
    Traceback (most recent call last):
    ...
    ValueError: ind.cora.x: refused: the pickle asks for 'os.system', which no Planetoid file needs
    """
    try:
        _refuse_large_claims(data)
        return _InertUnpickler(data).load()
    except _RefusedNameError as error:
        raise ValueError(
            f"{where}: refused: the pickle asks for {str(error)!r}, which no Planetoid file needs"
        ) from None
    except Exception as error:  # a damaged pickle may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ValueError(f"{where}: must be a pickle, but it cannot be read ({reason})") from None
