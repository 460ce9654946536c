"""Columns of the node table become stored labels and splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.graph import IntArray
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.table_files import Table
from graphconv.io.table_labels import SPLIT_MARKS, read_labels
from graphconv.io.wording import count, naming, shown
from graphconv.storage._duckdb_tables import identifier, quoted
from graphconv.storage._ingest_ids import optional_column, refuse_row
from graphconv.storage.stored_graph import write_array

if TYPE_CHECKING:
    from graphconv.storage.ingest import Work

# More distinct labels than this are no classes but names.
MAX_CLASSES = 10_000


def has_label(work: Work) -> bool:
    nodes = work.nodes
    return nodes is not None and (work.options.require_label or work.options.label in nodes.columns)


def write_labels(work: Work) -> None:
    """Write class numbers and, where a column marks them, the splits."""
    found, n_nodes = work.found, work.found["n_nodes"]
    labels = np.full(n_nodes, -1, dtype=np.int32)
    found["class_names"] = []
    if has_label(work):
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
