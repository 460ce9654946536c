"""Predictions: one row a node, as a table, on screen or in a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.files import replacing_file
from graphconv.graph import Graph

if TYPE_CHECKING:
    import pandas as pd

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Labels and probabilities of all nodes of a graph.

    Parameters
    ----------
    graph : Graph
    probabilities : array of shape (n_nodes, n_classes)
    class_names : tuple
    is_multilabel : bool
    trained_on : Graph, optional
        The graph whose splits are meant, where it is another one: nodes are looked up by their id.
    separator : str
        What stands between several labels of one node.
    """

    graph: Graph
    probabilities: npt.NDArray[np.floating[Any]]
    class_names: tuple[Any, ...]
    is_multilabel: bool = False
    trained_on: Graph | None = None
    separator: str = ";"

    @property
    def split(self) -> npt.NDArray[np.str_]:
        """Which split each node is in; empty for nodes in none."""
        graph = self.graph if self.trained_on is None else self.trained_on
        marks = np.full(graph.n_nodes, "", dtype="<U10")
        for name in ("train", "validation", "test"):
            marks[getattr(graph, f"{name}_index")] = name
        if graph is self.graph:
            return marks
        of_id = dict(zip(graph.node_ids.tolist(), marks.tolist(), strict=True))
        return np.array([of_id.get(node, "") for node in self.graph.node_ids.tolist()])

    @property
    def labels(self) -> list[Any]:
        """The name of the likeliest class; of several labels, all above a half, as one text."""
        if not self.is_multilabel:
            return [self.class_names[number] for number in self.probabilities.argmax(axis=1)]
        names = [str(name) for name in self.class_names]
        return [
            self.separator.join(name for name, is_on in zip(names, row, strict=True) if is_on)
            for row in self.probabilities > 0.5
        ]

    @property
    def confidence(self) -> npt.NDArray[np.floating[Any]]:
        """Probability of the label; of several labels, of the least certain decision."""
        shares = self.probabilities
        if self.is_multilabel:
            shares = np.maximum(shares, 1 - shares)
            return np.asarray(shares.min(axis=1))
        return np.asarray(shares.max(axis=1))

    def columns(self) -> dict[str, Any]:
        """Columns id, label, confidence, one probability a class, split."""
        shares = self.probabilities
        return {
            "id": self.graph.node_ids,
            "label": self.labels,
            "confidence": self.confidence,
            **{f"p_{name}": shares[:, number] for number, name in enumerate(self.class_names)},
            "split": self.split,
        }

    def to_frame(self) -> pd.DataFrame:
        """The columns as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def write(self, path: Path) -> None:
        """Write the table as CSV, TSV or Parquet, by the suffix."""
        write_table(self.columns(), path)


def check_table_path(path: Path) -> None:
    """Refuse a file that `write_table` has no format for."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise ValueError(f"output must end in .csv, .tsv or .parquet, got {path}")


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns, or a data frame, as CSV, TSV or Parquet, by the suffix, whole or not at all.

    The csv module takes half the time of pandas' to_csv, and need not be imported first.
    """
    check_table_path(path)
    suffix = path.suffix.lower()
    with replacing_file(path) as new:
        if suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({name: pa.array(columns[name]) for name in columns}), new)
            return
        with new.open("w", newline="", encoding="utf-8") as file:
            delimiter = "\t" if suffix == ".tsv" else ","
            writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(_cells(columns[name]) for name in columns), strict=True))


def _cells(column: Any) -> list[Any]:
    values = np.asarray(column)
    if values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values.tolist()]
    return list(column)


def accuracy(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """Share of right labels; for several labels a node, of right (node, class) pairs.

    NaN without nodes.
    """
    if len(labels) == 0:
        return float("nan")
    if labels.ndim == 2:
        return float(((probabilities > 0.5) == (labels > 0)).mean())
    return float((probabilities.argmax(axis=-1) == labels).mean())


def micro_f1(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """F1 over all (node, class) pairs of several labels a node: 1 is perfect, 0 finds none."""
    given, found = labels > 0, probabilities > 0.5
    n_either = int(given.sum() + found.sum())
    return 2 * int((given & found).sum()) / n_either if n_either else 1.0


def confusion_table(
    labels: npt.NDArray[np.int64], found: npt.NDArray[np.int64], n_classes: int
) -> npt.NDArray[np.int64]:
    """Counts of shape (n_classes, n_classes): rows are true classes, columns predicted ones."""
    pairs = np.bincount(labels * n_classes + found, minlength=n_classes**2)
    return pairs.reshape(n_classes, n_classes)
