"""NELL, the knowledge graph of the paper: a folder or archive with ind.nell.0.001.* -> Graph."""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.io.datasets.places import NELL_PREFIX
from graphconv.io.datasets.planetoid import (
    N_VALIDATION,
    SUFFIXES,
    PlanetoidFiles,
    PlanetoidTables,
    labelled,
    parse_planetoid,
    read_folder,
)
from graphconv.io.wording import one_line

KNOWN_LABELS = "known_labels.csv"
_OPTIONAL = ("ally",)


def load_nell(place: Path) -> Graph:
    """The graph of NELL from the folder or archive that `find_nell` found.

    Nodes past the rows of `allx` that test.index does not name stand for relations: each has a
    feature column of its own. Where the archive's `ally` is present, validation nodes are the 500
    after the training ones, as in the paper. Without it, labels of further nodes come from
    known_labels.csv beside the files (columns node, label), and 500 of those are for validation:
    the known ones among the official 500 first, the rest drawn from the other known nodes by
    `numpy.random.default_rng(0)`. Without that file either there are no validation nodes.
    """
    if place.is_dir():
        files = read_folder(place, NELL_PREFIX, _OPTIONAL)
        assert files is not None
        csv_path = place / KNOWN_LABELS
        known = csv_path.read_bytes() if csv_path.is_file() else None
    else:
        files, known = _read_archive(place)
    tables = parse_planetoid(files)
    official = np.arange(tables.n_train, min(tables.n_train + N_VALIDATION, tables.n_all))
    labels = tables.labels.copy()
    if "ally" not in files.contents and known is not None:
        nodes, classes = _parse_known(known, f"{files.where}/{KNOWN_LABELS}", tables)
        labels[nodes] = classes
        validation = _choose_validation(nodes, official)
    else:
        validation = labelled(labels, official)
    return Graph(
        tables.adjacency,
        _with_relation_columns(tables),
        labels,
        class_names=tuple(range(tables.n_classes)),
        train_index=labelled(labels, np.arange(tables.n_train)),
        validation_index=validation,
        test_index=labelled(labels, tables.test_index),
        name="nell",
    )


def _read_archive(path: Path) -> tuple[PlanetoidFiles, bytes | None]:
    wanted = {f"{NELL_PREFIX}.{suffix}" for suffix in SUFFIXES} | {KNOWN_LABELS}
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            # Members are read by name into memory: nothing is unpacked, so none can go astray.
            for member in archive:
                name = PurePosixPath(member.name).name
                content = archive.extractfile(member) if member.isreg() else None
                if name in wanted and content is not None:
                    found[name] = content.read()
    except MemoryError:
        raise ValueError(f"{path}: must be a tar archive that fits in memory") from None
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{path}: must be a tar archive, but it is damaged ({one_line(error)})"
        ) from None
    contents = {s: found[f"{NELL_PREFIX}.{s}"] for s in SUFFIXES if f"{NELL_PREFIX}.{s}" in found}
    for suffix in SUFFIXES:
        if suffix not in contents and suffix not in _OPTIONAL:
            raise FileNotFoundError(f"{path}: must hold {NELL_PREFIX}.{suffix}, but it does not")
    return PlanetoidFiles(NELL_PREFIX, contents, str(path)), found.get(KNOWN_LABELS)


def _parse_known(content: bytes, where: str, tables: PlanetoidTables) -> tuple[IntArray, IntArray]:
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        pairs = [(row.get("node"), row.get("label"), rows.line_num) for row in rows]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{where}: must be CSV with columns node, label ({error})") from None
    classes: dict[int, int] = {}
    for node, label, line in pairs:
        if not (str(node).isdecimal() and str(label).isdecimal()):
            raise ValueError(
                f"{where}, line {line}: node and label must be numbers, got {node!r} and {label!r}"
            )
        position, number = int(str(node)), int(str(label))
        if not tables.n_train <= position < tables.n_all or position in classes:
            raise ValueError(
                f"{where}, line {line}: node must be one of {tables.n_train}..{tables.n_all - 1} "
                f"and occur once, got {position}"
            )
        if number >= tables.n_classes:
            raise ValueError(
                f"{where}, line {line}: label must be 0..{tables.n_classes - 1}, got {number}"
            )
        classes[position] = number
    nodes = np.array(sorted(classes), dtype=np.int64)
    return nodes, np.array([classes[node] for node in nodes.tolist()], dtype=np.int64)


# Paper: 500 nodes after the training ones are for validation; here: where the labels of those are
# not at hand, other known nodes join them, because only 128 can be recovered without `ally`.
def _choose_validation(known: IntArray, official: IntArray) -> IntArray:
    first = np.intersect1d(known, official)
    others = np.setdiff1d(known, official)
    n_others = min(N_VALIDATION - len(first), len(others))
    drawn = np.random.default_rng(0).choice(others, size=n_others, replace=False)
    return np.sort(np.concatenate([first, drawn]))


def _with_relation_columns(tables: PlanetoidTables) -> sp.csr_array:
    n_nodes, n_words = tables.features.shape
    relations = np.setdiff1d(np.arange(tables.n_all, n_nodes), tables.test_index)
    words = tables.features.tocoo()
    row = np.concatenate([words.row, relations])
    column = np.concatenate([words.col, n_words + np.arange(len(relations))])
    values = np.concatenate([words.data, np.ones(len(relations), dtype=np.float32)])
    shape = (n_nodes, n_words + len(relations))
    return sp.csr_array(sp.coo_array((values, (row, column)), shape=shape))
