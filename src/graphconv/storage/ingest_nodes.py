"""Columns of the node table become stored features, labels and splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.graph import IntArray
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.number_columns import neutral_number
from graphconv.io.progress import counter
from graphconv.io.table_encoding import CategoricalColumn, TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_labels import SPLIT_MARKS, read_labels
from graphconv.io.wording import count, naming, shown
from graphconv.storage.duckdb_tables import TableFiles, identifier, quoted
from graphconv.storage.ingest_ids import optional_column, refuse_row
from graphconv.storage.stored_graph import ArrayWriter, write_array

if TYPE_CHECKING:
    from graphconv.storage.ingest import Work

# Numbers of a block of features that are held at a time.
_BLOCK_NUMBERS = 1 << 21
# More distinct labels than this are no classes but names.
MAX_CLASSES = 10_000


def write_features(work: Work) -> None:
    """Write the features in the order of the table; those of nodes that it lacks are unknown."""
    work.database.run("DROP TABLE IF EXISTS numbered")
    encoding = _fit_encoding(work)
    work.found["feature_names"] = list(encoding.feature_names) if encoding.columns else None
    work.found["encoding"] = encoding.to_json()
    if encoding.columns:
        _write_blocks(work, encoding)


def _fit_encoding(work: Work) -> TableEncoding:
    """What becomes of each column: numbers as they are, categories one-hot."""
    nodes, options = work.nodes, work.options
    if nodes is None:
        return TableEncoding()
    if options.encoding is not None:
        if options.encoding.text or options.encoding.relations:
            raise ValueError("ingest does not make text or relation features")
        for column in options.encoding.columns:
            nodes.require(column, "nodes")
        return options.encoding
    categorical = []
    for name in options.categorical:
        text = nodes.text(nodes.require(name, "categorical"))
        query = f"SELECT DISTINCT {text} AS value FROM {nodes.scan()} WHERE value <> '' ORDER BY 1"
        values = tuple(row[0] for row in work.database.rows(query))
        if not values:
            raise ValueError(f"{nodes.name}: categorical column {name!r} must not be empty")
        categorical.append(CategoricalColumn(name, values))
    numeric = tuple(_number_columns(work, nodes))
    return TableEncoding(
        numeric=numeric, categorical=tuple(categorical), fill=_neutral_numbers(work, nodes, numeric)
    )


def _neutral_numbers(work: Work, nodes: TableFiles, columns: Sequence[str]) -> tuple[float, ...]:
    """What stands for an unknown number of each column."""
    if not columns:
        return ()
    numbers = [nodes.number(name) for name in columns]
    wanted = [
        f"avg({what}) FILTER (WHERE isfinite({number}))"
        for number in numbers
        for what in (number, f"CAST({number} = 0 AS DOUBLE)")
    ]
    (found,) = work.database.rows(f"SELECT {', '.join(wanted)} FROM {nodes.scan()}")
    pairs = zip(found[::2], found[1::2], strict=True)
    # No number at all: the column is refused when its cells are read.
    return tuple(
        0.0 if mean is None else neutral_number(mean, zeros, "refuse") for mean, zeros in pairs
    )


def _number_columns(work: Work, nodes: TableFiles) -> list[str]:
    options = work.options
    label = nodes.require(options.label, "label") if _has_label(work) else None
    split = optional_column(nodes, options.split_column, "split", "split_column")
    for name in options.ignore:
        nodes.require(name, "ignore")
    given = [options.id, label, split, *options.categorical, *options.ignore]
    roles = [name for name in given if name is not None]
    name, times = Counter(roles).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{nodes.name}: column {name!r} must have one use, got {times}")
    return [column for column in nodes.columns if column not in roles]


def _has_label(work: Work) -> bool:
    nodes = work.nodes
    return nodes is not None and (work.options.require_label or work.options.label in nodes.columns)


def _write_blocks(work: Work, encoding: TableEncoding) -> None:
    n_nodes, n_columns = work.found["n_nodes"], len(encoding.feature_names)
    blocks = chain(
        _encoded(work, encoding), _unknown_rows(encoding, n_nodes - work.found["n_table"])
    )
    arrays = work.found["arrays"]
    advance = counter(work.progress, "writing features", n_nodes)
    if not encoding.categorical:
        kind = "<f2" if work.request.feature_type == "float16" else "<f4"
        dense = ArrayWriter(work.folder / "features.bin", kind, (n_columns,))
        for block in blocks:
            dense.append(block)
            advance(len(block))
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
        block = encoding.unknown_rows(min(at_a_time, n_rows - first))
        yield block if encoding.categorical else block.toarray()


def _encoded(work: Work, encoding: TableEncoding) -> Iterator[Any]:
    """Feature matrices of blocks of rows of the node table."""
    nodes = work.nodes
    assert nodes is not None
    columns = [f"{nodes.number(name)} AS {identifier(name)}" for name in encoding.numeric]
    columns += [f"{nodes.text(c.name)} AS {identifier(c.name)}" for c in encoding.categorical]
    n_rows = max(1024, _BLOCK_NUMBERS // max(1, len(encoding.columns)))
    first = 0
    largest = np.finfo(np.float16 if work.request.feature_type == "float16" else np.float32).max
    for batch in work.database.batches(f"SELECT {', '.join(columns)} FROM {nodes.scan()}", n_rows):
        frame = batch.to_pandas()
        for name in encoding.numeric:
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(frame[name].to_numpy(dtype=np.float64)) <= largest)
            if wrong.any():
                row = first + int(np.flatnonzero(wrong)[0])
                kind = work.request.feature_type
                _refuse_number(work, nodes, name, row, f"be a finite number that fits {kind}")
        yield encoding.transform(frame, nodes.name)[0]
        first += len(frame)


def _refuse_number(work: Work, nodes: TableFiles, name: str, row: int, must: str) -> None:
    is_any = work.database.value(
        f"SELECT 1 FROM {nodes.scan()} WHERE {nodes.number(name)} IS NOT NULL LIMIT 1"
    )
    if is_any is None:
        # No number at all: the column is not dirty, it is of another kind.
        must = naming("hold numbers (else declare it with {categorical}, or drop it with {ignore})")
    refuse_row(work, nodes, row, name, must)


def write_labels(work: Work) -> None:
    """Write class numbers and, where a column marks them, the splits."""
    found, n_nodes = work.found, work.found["n_nodes"]
    labels = np.full(n_nodes, -1, dtype=np.int32)
    found["class_names"] = []
    if _has_label(work):
        codes, found["class_names"] = _label_codes(work)
        labels[: len(codes)] = codes
    found["n_labelled"] = int(np.count_nonzero(labels >= 0))
    arrays = found["arrays"]
    arrays["labels"] = write_array(work.folder / "labels.bin", labels).to_json()
    index = _split_index(work, labels)
    found["has_split"] = index is not None
    for name, nodes in (index or {}).items():
        stored = write_array(work.folder / f"{name}_index.bin", nodes)
        arrays[f"{name}_index"] = stored.to_json()


def _label_codes(work: Work) -> tuple[IntArray, list[Any]]:
    """Class number of each row of the table, and the names of the classes.

    Only the distinct labels are looked at one by one, as `read_tables` looks at all.
    """
    import pandas as pd

    nodes, database = work.nodes, work.database
    assert nodes is not None
    column = nodes.require(work.options.label, "label")
    is_text = nodes.columns[column] == "VARCHAR"
    cell = nodes.text(column) if is_text else identifier(column)
    found = database.rows(
        f"SELECT {cell} AS cell, count(*) FROM {nodes.scan()} GROUP BY 1 LIMIT {MAX_CLASSES + 1}"
    )
    if len(found) > MAX_CLASSES:
        raise ValueError(
            naming(
                "{}: column {!r} must have at most {:,} different labels, got more: "
                "choose another with {label}",
                *(nodes.name, column, MAX_CLASSES),
            )
        )
    values = pd.Series([value for value, _ in found], dtype=None if not is_text else "str")
    table = Table(pd.DataFrame({column: values}), nodes.name, str, is_file=True)
    notes: list[str] = []
    codes, names = read_labels(
        table,
        table.frame[column],
        work.options,
        n_nodes=len(values),
        notes=notes,
        times=[times for _, times in found],
    )
    for note in notes:
        work.note(note)
    cases = " ".join(
        f"WHEN cell = {quoted(value) if is_text else value} THEN {code}"
        for (value, _), code in zip(found, codes.tolist(), strict=True)
        if code >= 0
    )
    number = f"CASE {cases} ELSE -1 END" if cases else "-1"
    query = f"SELECT CAST({number} AS INTEGER) FROM (SELECT {cell} AS cell FROM {nodes.scan()})"
    parts = [batch.column(0).to_numpy() for batch in database.batches(query, 1 << 18)]
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64), list(names)


def _split_index(work: Work, labels: IntArray) -> dict[str, IntArray] | None:
    """Node numbers of each split; None where no column marks any."""
    nodes, database = work.nodes, work.database
    column = (
        None
        if nodes is None
        else optional_column(nodes, work.options.split_column, "split", "split_column")
    )
    if nodes is None or column is None:
        return None
    mark = f"lower({nodes.text(column)})"
    known = ", ".join(quoted(value) for value in SPLIT_MARKS)
    numbered = f"(SELECT row_number() OVER () - 1 AS row, {mark} AS mark FROM {nodes.scan()})"
    wrong = database.value(f"SELECT min(row) FROM {numbered} WHERE mark NOT IN ({known})")
    if wrong is not None:
        refuse_row(work, nodes, wrong, column, "be train, validation or test, or empty")
    cases = " ".join(
        f"WHEN {quoted(value)} THEN {SPLIT_NAMES.index(meant)}"
        for value, meant in SPLIT_MARKS.items()
        if meant
    )
    query = f"SELECT CAST(CASE mark {cases} ELSE -1 END AS INTEGER) FROM {numbered}"
    parts = [batch.column(0).to_numpy() for batch in database.batches(query, 1 << 18)]
    marks = np.concatenate([np.empty(0, np.int32), *parts])
    if not (marks >= 0).any():
        return None
    unlabelled = (labels[: len(marks)] < 0) & (marks >= 0)
    bare = np.flatnonzero(unlabelled & (marks < 2))
    if len(bare) and work.options.require_label:
        place, name = nodes.at(database, int(bare[0])), SPLIT_NAMES[marks[bare[0]]]
        raise ValueError(f"{place}: a {name} node must have a label, got none")
    if unlabelled.any():
        work.note(
            f"{count(int(unlabelled.sum()), 'node')} marked in column {shown(column)} without a "
            "label: to be predicted, in no split"
        )
    marks[unlabelled] = -1
    index = {name: np.flatnonzero(marks == number) for number, name in enumerate(SPLIT_NAMES)}
    if not len(index["train"]):
        work.note("no node is marked train: all labelled nodes without a mark are for training")
        unmarked = labels >= 0
        unmarked[: len(marks)] &= marks < 0
        index["train"] = np.flatnonzero(unmarked)
    return index
