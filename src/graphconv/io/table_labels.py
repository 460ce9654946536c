"""Table labels: the columns of classes and of splits become class numbers and node positions."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray, encode_labels
from graphconv.io.table_files import Table, as_text
from graphconv.io.wording import MISSING_MARKS, count, is_missing, shown

if TYPE_CHECKING:
    import pandas as pd

MISSING_LABELS = MISSING_MARKS | {"-1"}
SPLIT_MARKS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
} | {marker.lower(): "" for marker in MISSING_LABELS}
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?", re.ASCII)


def read_labels(
    nodes: Table,
    column: pd.Series[Any],
    *,
    n_nodes: int,
    separator: str | None,
    notes: list[str],
) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Class numbers of all nodes, -1 where unknown, and the names of the classes.

    With a separator a node may have several classes, and the labels are an indicator matrix of
    shape (n_nodes, n_classes). Rows after those of the column are unknown.
    """
    values = _label_values(nodes, column, notes)
    owners = np.arange(len(values))
    if separator is not None:
        parts = [[] if value is None else str(value).split(separator) for value in values]
        parts = [[part.strip() for part in row if part.strip()] for row in parts]
        owners = np.repeat(owners, [len(row) for row in parts])
        values = _numbers_if_all([part for row in parts for part in row])
    try:
        codes, class_names = encode_labels(values)
    except TypeError:
        raise ValueError(f"{nodes.name}: labels must be numbers or text") from None
    known = codes >= 0
    if separator is None or not known.any():
        labels = np.full(n_nodes, -1, dtype=np.int64)
        labels[owners[known]] = codes[known]
        return labels, class_names
    labels = np.full((n_nodes, len(class_names)), -1, dtype=np.int64)
    labels[owners[known]] = 0
    labels[owners[known], codes[known]] = 1
    return labels, class_names


def _label_values(nodes: Table, column: pd.Series[Any], notes: list[str]) -> list[Any]:
    """Labels with None for the missing ones; whole numbers are ints wherever they come from."""
    plain = [None if is_missing(cell) else cell for cell in column.tolist()]
    is_text = all(value is None or isinstance(value, str) for value in plain)
    if not (nodes.is_file and is_text):
        return [int(v) if isinstance(v, float) and v.is_integer() else v for v in plain]
    text = as_text(column).tolist()
    for marker in sorted(MISSING_LABELS.intersection(text) - {"", "-1"}):
        labels = count(text.count(marker), "label")
        notes.append(f"{labels} {marker!r} of {nodes.name} taken as missing")
    return _numbers_if_all([None if value in MISSING_LABELS else value for value in text])


def _numbers_if_all(values: list[Any]) -> list[Any]:
    """Whole numbers written as text as ints, if all values are, so that CSV equals Parquet."""
    if all(value is None or _WHOLE_NUMBER.fullmatch(value) for value in values):
        return [None if value is None else int(value.split(".")[0]) for value in values]
    return values


def read_split(
    nodes: Table,
    column: pd.Series[Any],
    is_labelled: npt.NDArray[np.bool_],
    *,
    strict: bool,
    notes: list[str],
) -> dict[str, IntArray]:
    """The index arguments of `Graph` that a column of train, validation and test marks gives.

    A test node without a label is one to predict; a train or validation node without one is an
    error where `strict`.
    """
    marks = np.full(len(column), "", dtype=object)
    n_unlabelled = 0
    for row, value in enumerate(as_text(column).str.lower().tolist()):
        mark = SPLIT_MARKS.get(value)
        if mark is None:
            raise ValueError(
                f"{nodes.at(row)}: column {str(column.name)!r} must be train, validation or "
                f"test, or empty, got {shown(column.iloc[row])}"
            )
        if mark and not is_labelled[row]:
            if strict and mark != "test":
                raise ValueError(f"{nodes.at(row)}: a {mark} node must have a label, got none")
            n_unlabelled, mark = n_unlabelled + 1, ""
        marks[row] = mark
    if n_unlabelled:
        notes.append(
            f"{count(n_unlabelled, 'node')} marked in column {str(column.name)!r} without a "
            "label: to be predicted, in no split"
        )
    index = {f"{mark}_index": np.flatnonzero(marks == mark) for mark in sorted(set(marks) - {""})}
    if index and "train_index" not in index:
        notes.append("no node is marked train: all labelled nodes without a mark are for training")
    return index
