"""Named splits: what a user writes, such as "fraction:0.6,0.2,0.2", becomes a split of a graph."""

from __future__ import annotations

import math

import numpy as np

from graphconv.graph import Graph
from graphconv.graph.names import SPLIT_NAMES
from graphconv.graph.splits import (
    check_two_classes,
    fraction_split,
    kfold_splits,
    random_split,
)
from graphconv.io.split_values import KINDS, SplitValues
from graphconv.io.wording import naming


def split_by_name(
    graph: Graph, split: str | None, random_state: int, values: SplitValues | None = None
) -> tuple[Graph, str]:
    """The graph with the split that a text asks for, and what to tell about it.

    Parameters
    ----------
    graph : Graph
    split : str, optional
        "public", the data's own; "random" (20 per class, 500 validation, 1000 test);
        "fraction:TRAIN,VALIDATION,TEST"; "kfold:K,I"; "time:COLUMN", the past trains; or
        "group:COLUMN", no group is in two parts. Default: the data's own or, where it has none,
        by fractions.
    random_state : int
    values : SplitValues, optional
        Of the column that `split` names.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.io.named_splits import split_by_name
    >>> graph, note = split_by_name(load_dataset("cora"), "fraction:0.1,0.1,0.8", 0)
    >>> len(graph.train_index), len(graph.validation_index), len(graph.test_index)
    (271, 271, 2166)
    """
    graph, note = _apply_split(graph, split, random_state, values)
    if len(graph.train_index):
        # So says fit, too; but torch is imported by then, and half a page of remarks made.
        check_two_classes(graph)
    return graph, note


def _apply_split(
    graph: Graph, split: str | None, random_state: int, values: SplitValues | None
) -> tuple[Graph, str]:
    if not graph.is_labelled.any():
        raise ValueError(
            naming(
                "at least one node must have a label to learn from, got none of {:,}: labels come "
                "from a column of {nodes} or an attribute of the graph file (see {label})",
                graph.n_nodes,
            )
        )
    kind, _, numbers = (split or "").partition(":")
    has_own = bool(len(graph.validation_index) or len(graph.test_index))
    if kind in KINDS and numbers:
        if values is None:
            message = "{split:" + kind + ":COLUMN} needs a table with such a column, got none"
            raise ValueError(naming(message))
        graph, said = values.split(graph, random_state)
        return graph, f"{said} ({_shares(graph)})"
    if split in (None, "public") and has_own:
        return graph, ""
    if split == "public":
        message = "{split:public} needs data with a split of its own, got none"
        raise ValueError(naming(message))
    if split is None:
        graph = fraction_split(graph, random_state=random_state)
        return graph, naming("labels split at random: {} ({split})", _shares(graph))
    if kind == "random" and not numbers:
        return random_split(graph, random_state=random_state), ""
    amounts = _split_numbers(numbers)
    if kind == "fraction" and len(amounts) in (0, 3):
        shares = dict(zip(SPLIT_NAMES, amounts, strict=False))
        return fraction_split(graph, random_state=random_state, **shares), ""
    if kind == "kfold" and len(amounts) == 2 and all(amount.is_integer() for amount in amounts):
        n_folds, number = int(amounts[0]), int(amounts[1])
        if not 0 <= number < n_folds:
            message = "{split:kfold:K,I} must have I from 0 to K-1, got {!r}"
            raise ValueError(naming(message, split))
        folds = kfold_splits(graph, n_folds, random_state=random_state, validation_fraction=0.1)
        return folds[number], ""
    raise ValueError(
        naming(
            "{split} must be public, random, fraction, fraction:TRAIN,VALIDATION,TEST, "
            "kfold:K,I, time:COLUMN or group:COLUMN, got {!r}",
            split,
        )
    )


def _shares(graph: Graph) -> str:
    """How much of the labels each part of a split has got, and which classes are not in all."""
    parts = [getattr(graph, f"{name}_index") for name in SPLIT_NAMES]
    total = sum(map(len, parts))
    names = ("training", "validation", "test")
    text = ", ".join(
        f"{100 * len(part) / total:.0f} % {name}" for part, name in zip(parts, names, strict=True)
    )
    if graph.is_multilabel:
        return text
    number = [np.bincount(graph.labels[part], minlength=graph.n_classes) for part in parts]
    small = np.flatnonzero((np.min(number, axis=0) == 0) & (np.sum(number, axis=0) > 0))
    if not len(small):
        return text
    total_of = np.sum(number, axis=0)
    listed = [f"{graph.class_names[code]!r} ({total_of[code]})" for code in small[:5]]
    more = f" and {len(small) - 5} more" if len(small) > 5 else ""
    return f"{text}; classes not in all three: {', '.join(listed)}{more}"


def _split_numbers(text: str) -> list[float]:
    """Numbers separated by commas; one that no split takes where something else is there."""
    try:
        values = [float(number) for number in text.split(",")] if text else []
    except ValueError:
        return [math.nan]
    return values if all(map(math.isfinite, values)) else [math.nan]
