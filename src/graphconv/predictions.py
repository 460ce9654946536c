"""Predictions: one row a node, as a table, on screen or in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.files import replacing_file
from graphconv.graph import Graph

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Predictions:
    """Labels and probabilities of all nodes of a graph.

    Parameters
    ----------
    graph : Graph
    probabilities : array of shape (n_nodes, n_classes)
    class_names : tuple
    is_multilabel : bool
    """

    graph: Graph
    probabilities: npt.NDArray[np.float32]
    class_names: tuple[Any, ...]
    is_multilabel: bool = False

    @property
    def split(self) -> npt.NDArray[np.str_]:
        """Which split each node is in; empty for nodes in none."""
        marks = np.full(self.graph.n_nodes, "", dtype="<U10")
        for name in ("train", "validation", "test"):
            marks[getattr(self.graph, f"{name}_index")] = name
        return marks

    def to_frame(self) -> pd.DataFrame:
        """Columns id, label, confidence, one probability a class, split."""
        import pandas as pd

        names = [str(name) for name in self.class_names]
        columns: dict[str, Any] = {"id": self.graph.node_ids}
        if self.is_multilabel:
            chosen = self.probabilities > 0.5
            columns["label"] = [
                ";".join(name for name, is_on in zip(names, row, strict=True) if is_on)
                for row in chosen
            ]
            columns["confidence"] = np.maximum(self.probabilities, 1 - self.probabilities).min(
                axis=1
            )
        else:
            best = self.probabilities.argmax(axis=1)
            columns["label"] = [self.class_names[number] for number in best]
            columns["confidence"] = self.probabilities.max(axis=1)
        for number, name in enumerate(names):
            columns[f"p_{name}"] = self.probabilities[:, number]
        columns["split"] = self.split
        return pd.DataFrame(columns)

    def write(self, path: Path) -> None:
        """Write the table as CSV or Parquet, by the suffix."""
        write_table(self.to_frame(), path)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a data frame as CSV, TSV or Parquet, by the suffix, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"output must end in .csv, .tsv or .parquet, got {path}")
    with replacing_file(path) as new:
        if suffix == ".parquet":
            frame.to_parquet(new, index=False)
        else:
            separator = "\t" if suffix == ".tsv" else ","
            frame.to_csv(new, index=False, sep=separator, float_format="%.6g")


def accuracy(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[Any]) -> float:
    """Share of right labels; for several labels a node, of right (node, class) pairs.

    NaN without nodes.
    """
    if len(labels) == 0:
        return float("nan")
    if labels.ndim == 2:
        return float(((probabilities > 0.5) == (labels > 0)).mean())
    return float((probabilities.argmax(axis=-1) == labels).mean())
