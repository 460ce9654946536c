"""Columns of the node table become stored features.

What each column is taken for is found out on a sample of the rows; then the table is gone through
once for what numbers and categories there are, and once more to write the features, block by block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph.half_precision import RoundingLoss
from graphconv.io.delimited import SPARSE_BELOW, WIDE
from graphconv.io.derived_columns import DerivedColumn, names_with_weights, with_derived
from graphconv.io.number_columns import neutral_number
from graphconv.io.progress import counter
from graphconv.io.roles import ColumnRole, lines_about, settle_roles
from graphconv.io.table_columns import PARAMETER_OF
from graphconv.io.table_encoding import CategoricalColumn, TableEncoding, fit_text
from graphconv.io.table_files import Table
from graphconv.io.wording import MISSING_MARKS, naming
from graphconv.storage._duckdb_tables import TableFiles, identifier, quoted
from graphconv.storage._ingest_ids import optional_column, refuse_row
from graphconv.storage._ingest_nodes import has_label
from graphconv.storage.stored_graph import ArrayWriter

if TYPE_CHECKING:
    import pandas as pd

    from graphconv.storage.ingest import Work

# Numbers of a block of features that are held at a time.
_BLOCK_NUMBERS = 1 << 21
# Rows that are looked at to find out what columns are.
_SAMPLE_ROWS = 10_000
_MAX_CATEGORIES = 10_000


def write_features(work: Work) -> None:
    """Write the features in the order of the table; those of nodes that it lacks are unknown."""
    work.database.run("DROP TABLE IF EXISTS numbered")
    encoding, is_sparse = _fit_encoding(work)
    work.found["feature_names"] = list(encoding.feature_names) if encoding.columns else None
    work.found["unknown_features"] = (
        encoding.unknown_features.tolist() if encoding.columns else None
    )
    work.found["encoding"] = encoding.to_json()
    if encoding.columns:
        _write_blocks(work, encoding, is_sparse)


def _fit_encoding(work: Work) -> tuple[TableEncoding, bool]:
    """What becomes of each column, and whether most of the features are 0."""
    nodes, options = work.nodes, work.options
    if nodes is None:
        return TableEncoding(), False
    if options.encoding is not None:
        if options.encoding.relations or options.encoding.types:
            raise ValueError("ingest does not make features of relations or types")
        for column in options.encoding.columns:
            nodes.require(column, "nodes")
        return options.encoding, bool(options.encoding.categorical or options.encoding.text)
    roles = _roles(work, nodes)
    numeric = [role.name for role in roles if role.role == "number"]
    first = list(options.categorical)
    others = [r.name for r in roles if r.role == "category" and r.name not in first]
    texts = [*options.text]
    texts += [role.name for role in roles if role.role == "text" and role.name not in texts]
    derived = tuple(role.derived for role in roles if role.derived is not None)
    if options.missing_value != "refuse":
        _refuse_words(work, nodes, numeric)
    means, zeros = _statistics(work, nodes, numeric, derived)
    encoding = TableEncoding(
        numeric=(*numeric, *(name for column in derived for name in column.numbers)),
        categorical=tuple(_categories(work, nodes, name) for name in (*first, *others)),
        text=tuple(fit_text(_cells(work, nodes, name), name, nodes.name) for name in texts),
        derived=derived,
        missing_value=options.missing_value,
        fill=tuple(
            neutral_number(mean, share, options.missing_value)
            for mean, share in zip(means, zeros, strict=True)
        ),
    )
    n_features = len(encoding.feature_names)
    is_wide = len(encoding.numeric) > WIDE and np.mean(zeros) > 1 - SPARSE_BELOW
    # A one-hot block beside an embedding is the smaller part.
    is_full = len(encoding.numeric) > 64 and len(encoding.numeric) > 0.5 * n_features
    has_blocks = bool(encoding.categorical or encoding.text)
    return encoding, bool(is_wide or (has_blocks and not is_full))


def _roles(work: Work, nodes: TableFiles) -> list[ColumnRole]:
    """What each column is taken for, by a sample of the rows."""
    columns = _feature_columns(work, nodes)
    if not columns:
        return []
    listed = ", ".join(identifier(name) for name in columns)
    sample = work.database.batches(
        f"SELECT {listed} FROM {nodes.scan()} LIMIT {_SAMPLE_ROWS}", _SAMPLE_ROWS
    )
    import pyarrow as pa

    batches = list(sample)
    if not batches:
        return [ColumnRole(name, "number", "a number", is_guess=False) for name in columns]
    frame = pa.Table.from_batches(batches).to_pandas()
    table = Table(frame, nodes.name, lambda row: nodes.at(work.database, row), is_file=True)
    roles = []
    for role in settle_roles(table, columns, work.options):
        if role.derived is not None and role.role == "sparse":
            # A sample would lack the rarer names.
            names = names_with_weights(_cells(work, nodes, role.name))
            derived = replace(role.derived, detail=names)
            role = replace(role, words=derived.in_words(), derived=derived)
        roles.append(role)
    for line in lines_about(roles):
        work.note(line)
    return roles


def _cells(work: Work, nodes: TableFiles, name: str) -> Iterator[pd.Series[Any]]:
    """The cells of one column, some rows at a time."""
    query = f"SELECT {identifier(name)} FROM {nodes.scan()}"
    for batch in work.database.batches(query, _SAMPLE_ROWS):
        yield batch.to_pandas()[name]


def _feature_columns(work: Work, nodes: TableFiles) -> list[str]:
    options = work.options
    label = nodes.require(options.label, "label") if has_label(work) else None
    split = optional_column(nodes, options.split_column, "split", "split_column")
    others = [name for name in (options.id, label, split) if name is not None]
    declared = [
        nodes.require(name, PARAMETER_OF.get(role, "roles")) for name, role in options.declarations
    ]
    name, times = Counter([*others, *declared]).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{nodes.name}: column {name!r} must have one use, got {times}")
    return [column for column in nodes.columns if column not in others]


def _categories(work: Work, nodes: TableFiles, name: str) -> CategoricalColumn:
    text = nodes.text(name)
    query = f"SELECT DISTINCT {text} AS value FROM {nodes.scan()} WHERE value <> '' ORDER BY 1"
    values = tuple(row[0] for row in work.database.rows(f"{query} LIMIT {_MAX_CATEGORIES + 1}"))
    if not values:
        raise ValueError(f"{nodes.name}: categorical column {name!r} must not be empty")
    if len(values) > _MAX_CATEGORIES:
        raise ValueError(
            naming(
                "{}: column {!r} must have at most {:,} categories, got more: {ignore} drops it",
                *(nodes.name, name, _MAX_CATEGORIES),
            )
        )
    return CategoricalColumn(name, values)


def _statistics(
    work: Work, nodes: TableFiles, columns: Sequence[str], derived: Sequence[DerivedColumn]
) -> tuple[list[float], list[float]]:
    """The mean of each column of numbers, and the share of its numbers that are 0."""
    means: list[float] = []
    zeros: list[float] = []
    if columns:
        numbers = [nodes.number(name) for name in columns]
        wanted = [
            f"avg({what}) FILTER (WHERE isfinite({number}))"
            for number in numbers
            for what in (number, f"CAST({number} = 0 AS DOUBLE)")
        ]
        (found,) = work.database.rows(f"SELECT {', '.join(wanted)} FROM {nodes.scan()}")
        # No number at all: the column is refused when its cells are read.
        means = [mean or 0.0 for mean in found[::2]]
        zeros = [share or 0.0 for share in found[1::2]]
    if derived:
        n_columns = sum(len(column.numbers) for column in derived)
        total, n_zero, n_known = (np.zeros(n_columns) for _ in range(3))
        for block in _derived_blocks(work, nodes, derived):
            total += np.nansum(block, axis=0)
            n_zero += (block == 0).sum(axis=0)
            n_known += np.isfinite(block).sum(axis=0)
        means += (total / np.maximum(n_known, 1)).tolist()
        zeros += (n_zero / np.maximum(n_known, 1)).tolist()
    return means, zeros


def _derived_blocks(
    work: Work, nodes: TableFiles, derived: Sequence[DerivedColumn]
) -> Iterator[npt.NDArray[np.float64]]:
    """The columns of numbers that other columns become, some rows at a time."""
    listed = ", ".join(identifier(column.name) for column in derived)
    n_rows = max(1024, _BLOCK_NUMBERS // sum(len(column.numbers) for column in derived))
    first = 0
    for batch in work.database.batches(f"SELECT {listed} FROM {nodes.scan()}", n_rows):
        frame = batch.to_pandas()
        made = with_derived(frame, derived, _places(work, nodes, first))
        yield made.to_numpy(dtype=np.float64)
        first += len(frame)


def _places(work: Work, nodes: TableFiles, first: int) -> Callable[[int], str]:
    """Names the place of a row of a block that starts at some row of the table."""
    return lambda row: nodes.at(work.database, first + row)


def _refuse_words(work: Work, nodes: TableFiles, columns: Sequence[str]) -> None:
    """Empty cells among numbers may be filled; words may not."""
    marks = ", ".join(quoted(mark) for mark in sorted(MISSING_MARKS))
    for name in columns:
        is_word = f"{nodes.number(name)} IS NULL AND {nodes.text(name)} NOT IN ({marks})"
        row = work.database.value(
            "SELECT min(row) FROM (SELECT row_number() OVER () - 1 AS row, * "
            f"FROM {nodes.scan()}) WHERE {is_word}"
        )
        if row is not None:
            refuse_row(work, nodes, int(row), name, "be a finite number")


def _write_blocks(work: Work, encoding: TableEncoding, is_sparse: bool) -> None:
    n_nodes, n_columns = work.found["n_nodes"], len(encoding.feature_names)
    given = chain(
        _encoded(work, encoding), _unknown_rows(encoding, n_nodes - work.found["n_table"])
    )
    # Each block alone might be stored in one way or the other.
    blocks = (
        sp.csr_array(block) if is_sparse else block.toarray() if sp.issparse(block) else block
        for block in given
    )
    arrays = work.found["arrays"]
    advance = counter(work.progress, "writing features", n_nodes)
    if not is_sparse:
        is_half = work.request.feature_type == "float16"
        kind = "<f2" if is_half else "<f4"
        dense = ArrayWriter(work.folder / "features.bin", kind, (n_columns,))
        loss = RoundingLoss(n_columns)
        for block in blocks:
            dense.append(block)
            if is_half:
                loss.add(block)
            advance(len(block))
        if is_half and (told := loss.told(encoding.feature_names)):
            work.note(told)
        arrays["features"] = dense.close().to_json()
        return
    parts = {"indices": "<i4", "data": "<f4", "indptr": "<i8"}
    writers = {
        part: ArrayWriter(work.folder / f"features.{part}.bin", kind)
        for part, kind in parts.items()
    }
    n_entries = 0
    writers["indptr"].append(np.zeros(1, dtype=np.int64))
    for block in blocks:
        writers["indptr"].append(block.indptr[1:].astype(np.int64) + n_entries)
        writers["indices"].append(block.indices)
        writers["data"].append(block.data)
        n_entries += block.nnz
        advance(block.shape[0])
    for part, writer in writers.items():
        arrays[f"features.{part}"] = writer.close().to_json()


def _unknown_rows(encoding: TableEncoding, n_rows: int) -> Iterator[Any]:
    """Feature matrices, some rows at a time, of nodes that the table lacks."""
    at_a_time = max(1024, _BLOCK_NUMBERS // max(1, len(encoding.feature_names)))
    for first in range(0, n_rows, at_a_time):
        yield encoding.unknown_rows(min(at_a_time, n_rows - first))


def _encoded(work: Work, encoding: TableEncoding) -> Iterator[Any]:
    """Feature matrices of blocks of rows of the node table."""
    nodes = work.nodes
    assert nodes is not None
    given = [name for name in encoding.numeric if name in encoding.columns]
    plain = [name for name in given if name not in {column.name for column in encoding.derived}]
    columns = [f"{nodes.number(name)} AS {identifier(name)}" for name in plain]
    columns += [identifier(column.name) for column in encoding.derived]
    words = [column.name for column in encoding.categorical]
    words += [column.name for column in encoding.text]
    columns += [f"{nodes.text(name)} AS {identifier(name)}" for name in words]
    n_rows = max(1024, _BLOCK_NUMBERS // max(1, len(encoding.columns)))
    first = 0
    largest = np.finfo(np.float16 if work.request.feature_type == "float16" else np.float32).max
    for batch in work.database.batches(f"SELECT {', '.join(columns)} FROM {nodes.scan()}", n_rows):
        frame = batch.to_pandas()
        for name in plain:
            numbers = frame[name].to_numpy(dtype=np.float64)
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(numbers) <= largest)
            if encoding.missing_value != "refuse":
                wrong &= ~np.isnan(numbers)
            if wrong.any():
                row = first + int(np.flatnonzero(wrong)[0])
                kind = work.request.feature_type
                _refuse_number(work, nodes, name, row, f"be a finite number that fits {kind}")
        yield encoding.transform(frame, nodes.name, at=_places(work, nodes, first))[0]
        first += len(frame)


def _refuse_number(work: Work, nodes: TableFiles, name: str, row: int, must: str) -> None:
    is_any = work.database.value(
        f"SELECT 1 FROM {nodes.scan()} WHERE {nodes.number(name)} IS NOT NULL LIMIT 1"
    )
    if is_any is None:
        # No number at all: the column is not dirty, it is of another kind.
        must = naming("hold numbers (else declare it with {categorical}, or drop it with {ignore})")
    refuse_row(work, nodes, row, name, must)
