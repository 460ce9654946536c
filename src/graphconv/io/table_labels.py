"""Table labels: the columns of classes and of splits become class numbers and node positions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray, encode_labels
from graphconv.io.delimited import WIDE
from graphconv.io.table_columns import TableOptions
from graphconv.io.table_files import Table, as_text
from graphconv.io.wording import MISSING_MARKS, Message, count, naming, shown

if TYPE_CHECKING:
    import pandas as pd

SPLIT_MARKS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
} | {marker.lower(): "" for marker in (*MISSING_MARKS, "-1")}
# Labels that mean, as a rule, that there is none; but they may be classes, so somebody must say so.
_LIKELY_MARKS = frozenset(
    [
        "-1",
        "?",
        "??",
        "-",
        "--",
        ".",
        "unknown",
        "unlabelled",
        "unlabeled",
        "unclassified",
        "none",
        "missing",
        "undefined",
        "tbd",
        "todo",
        "unbekannt",
        "inconnu",
        "desconocido",
        "sconosciuto",
    ]
)
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.0+)?", re.ASCII)
# Fewer different labels than this are classes, however few nodes each has.
_FEW_LABELS = 10
# Among fewer labels a column may tell all of them by chance.
_ENOUGH_LABELS = 30
# So many different numbers are a quantity, unless each occurs so often.
_MANY_NUMBERS, _OFTEN = 20, 5


def read_labels(
    nodes: Table,
    column: pd.Series[Any],
    options: TableOptions,
    *,
    n_nodes: int,
    notes: list[str],
    times: Sequence[int] | None = None,
) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Class numbers of all nodes, -1 where unknown, and the names of the classes.

    With a separator a node may have several classes, and the labels are an indicator matrix of
    shape (n_nodes, n_classes). Rows after those of the column are unknown. A row stands for as many
    nodes as `times` says, by default for one.
    """
    times = [1] * len(column) if times is None else times
    values = _label_values(nodes, column, options.unlabelled_value, times, notes)
    owners = np.arange(len(values))
    separator = options.label_separator
    if separator is not None:
        parts = [[] if value is None else str(value).split(separator) for value in values]
        parts = [[part.strip() for part in row if part.strip()] for row in parts]
        owners = np.repeat(owners, [len(row) for row in parts])
        values = _numbers_if_all([part for row in parts for part in row])
    elif options.encoding is None:
        _check_are_classes(nodes, column, values, times)
    try:
        codes, class_names = encode_labels(values, unlabelled=None)
    except TypeError:
        raise ValueError(f"{nodes.name}: labels must be numbers or text") from None
    if options.encoding is None:
        notes += _alike(class_names, nodes.name)
    known = codes >= 0
    if separator is None or not known.any():
        labels = np.full(n_nodes, -1, dtype=np.int64)
        labels[owners[known]] = codes[known]
        return labels, class_names
    labels = np.full((n_nodes, len(class_names)), -1, dtype=np.int64)
    labels[owners[known]] = 0
    labels[owners[known], codes[known]] = 1
    return labels, class_names


def _alike(class_names: Sequence[Hashable], table: str) -> list[str]:
    """A note on the classes that only capitals and blanks keep apart; none if there are none."""
    spellings: dict[str, list[str]] = {}
    for name in class_names:
        if isinstance(name, str):
            spellings.setdefault(" ".join(name.casefold().split()), []).append(shown(name))
    alike = [" and ".join(names) for names in spellings.values() if len(names) > 1]
    more = f" and {len(alike) - 3} more" if len(alike) > 3 else ""
    listed = f"{', '.join(alike[:3])}{more}"
    note = f"labels of {table} that differ in capitals or blanks alone are classes apart: {listed}"
    return [note] if alike else []


def notes_on_copies(nodes: Table, labels: IntArray, options: TableOptions) -> list[Message]:
    """Notes on the columns of which a few values tell every given label, as a copy of them does.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from graphconv.io.table_columns import TableOptions
    >>> from graphconv.io.table_files import table_of_frame
    >>> from graphconv.io.table_labels import notes_on_copies
    >>> labels = np.arange(40) % 2
    >>> nodes = pd.DataFrame({"code": 7 + labels, "size": np.arange(40) % 3})
    >>> print(*notes_on_copies(table_of_frame(nodes, "nodes"), labels, TableOptions()))
    nodes: column 'code' alone tells every label: was it made of them? (ignore leaves it out)
    """
    if labels.ndim == 2:
        return []
    rows = np.flatnonzero(labels[: len(nodes.frame)] >= 0)
    n_classes = len(np.unique(labels[rows]))
    if len(rows) < _ENOUGH_LABELS or n_classes < 2:
        return []
    split = "split" if options.split_column is None else options.split_column
    others = {options.id, options.label, split, *options.ignore}
    said = "{}: column {} alone tells every label: was it made of them? ({ignore} leaves it out)"
    return [
        naming(said, nodes.name, shown(str(name)))
        for name in nodes.frame.columns[:WIDE]  # words that are columns do not tell labels alone
        if name not in others
        # A few rows are enough to see that most columns do not.
        and _tells(nodes.frame[name].iloc[rows[:1000]], labels[rows[:1000]], n_classes)
        and _tells(nodes.frame[name].iloc[rows], labels[rows], n_classes)
    ]


def _tells(column: pd.Series[Any], labels: IntArray, n_classes: int) -> bool:
    cells = column if column.dtype.kind in "biuf" else as_text(column)
    values, distinct = cells.factorize(use_na_sentinel=False)
    n_pairs = len(np.unique(values * np.int64(labels.max() + 1) + labels))
    return n_pairs == len(distinct) <= 2 * n_classes


def read_label_numbers(
    nodes: Table, column: pd.Series[Any], options: TableOptions, notes: list[str]
) -> npt.NDArray[np.float64]:
    """A column of labels that are numbers, NaN where one is missing."""
    values = _label_values(nodes, column, options.unlabelled_value, [1] * len(column), notes)
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        number = np.nan if value is None else _as_number(value)
        if number is None or np.isinf(number):
            raise ValueError(
                f"{nodes.at(row)}: column {str(column.name)!r} must hold numbers to be cut into "
                f"bins, got {shown(value)}"
            )
        numbers[row] = number
    return numbers


def _label_values(
    nodes: Table,
    column: pd.Series[Any],
    unlabelled_value: object,
    times: Sequence[int],
    notes: list[str],
) -> list[Any]:
    """Labels with None for the missing ones; whole numbers are ints wherever they come from."""
    text = as_text(column).tolist()
    number: Counter[str] = Counter()
    for written, n_nodes in zip(text, times, strict=True):
        number[written] += n_nodes
    missing = set(MISSING_MARKS)
    if unlabelled_value is not None:
        missing.add(str(unlabelled_value).strip())
    notes += [
        f"{count(number[marker], 'label')} {marker!r} of {nodes.name} taken as missing"
        for marker in sorted(missing.intersection(number) - {""})
    ]
    for marker in sorted(number.keys() - missing):
        if marker.lower() in _LIKELY_MARKS:
            mark = marker if marker == "-1" else repr(marker)
            notes.append(
                naming(
                    f"{{}} {{}} of {{}} taken as a class "
                    f"({{unlabelled_value:{mark}}} leaves such nodes to be predicted)",
                    *(count(number[marker], "label"), mark, nodes.name),
                )
            )
    cells = [
        None if written in missing else cell
        for cell, written in zip(column.tolist(), text, strict=True)
    ]
    if nodes.is_file and all(cell is None or isinstance(cell, str) for cell in cells):
        return _numbers_if_all([None if written in missing else written for written in text])
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in cells]


def _check_are_classes(
    nodes: Table, column: pd.Series[Any], values: list[Any], times: Sequence[int]
) -> None:
    """Refuse a column of quantities or of names: a model would get a class for almost each node."""
    number: Counter[Any] = Counter()
    for value, n_nodes in zip(values, times, strict=True):
        if value is not None and isinstance(value, Hashable):
            number[value] += n_nodes
    n_labels, n_known = len(number), sum(number.values())
    if n_labels <= _FEW_LABELS:
        return
    numbers = [_as_number(value) for value in number]
    amounts = [amount for amount in numbers if amount is not None]
    has_fractions = any(not float(amount).is_integer() for amount in amounts)
    is_amount = len(amounts) == n_labels > _MANY_NUMBERS and (
        has_fractions or n_known < _OFTEN * n_labels
    )
    n_once = sum(times_seen == 1 for times_seen in number.values())
    if not is_amount and n_once < 0.9 * n_labels:
        return
    examples = ", ".join(shown(value, 20) for value in list(number)[:3])
    kind = "a number to predict, or an id" if is_amount else "a name or an id"
    way_out = naming("{bins:5} makes five classes of it, " if is_amount else "")
    raise ValueError(
        naming(
            "{}: column {!r} must hold classes, but looks like {}: {:,} different values in {}, "
            "such as {} ({}{label} takes another column)",
            *(nodes.name, str(column.name), kind, n_labels),
            *(count(n_known, "row"), examples, way_out),
        )
    )


def _as_number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


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
