"""Predictions: one row per node, as a table, on screen or in a file."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.graph.graph import MOST_SHOWN
from graphconv.graph.names import SPLIT_NAMES
from graphconv.graph.notebook import html_block, html_paragraph, html_table
from graphconv.io.files import json_text, replacing_file
from graphconv.results.provenance import sha256_of

if TYPE_CHECKING:
    import pandas as pd

# The first is for nodes that are in none.
SPLITS = ("", *SPLIT_NAMES)
# Rows that are made into text at a time.
BLOCK_ROWS = 1 << 16
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """Labels and probabilities of all nodes of a graph; tables leave relation nodes out.

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
    sets : array of bool of shape (n_nodes, n_classes), optional
        The classes that each node may have; see `graphconv.results.prediction_sets`.
    """

    graph: Graph
    probabilities: npt.NDArray[np.floating[Any]]
    class_names: tuple[Any, ...]
    is_multilabel: bool = False
    trained_on: Graph | None = None
    separator: str = ";"
    sets: npt.NDArray[np.bool_] | None = None

    @cached_property
    def split_codes(self) -> npt.NDArray[np.int8]:
        """Which split each node is in: a place in `SPLITS`, whose first is none."""
        graph = self.graph if self.trained_on is None else self.trained_on
        codes = np.zeros(graph.n_nodes, dtype=np.int8)
        for code, name in enumerate(SPLITS[1:], start=1):
            codes[getattr(graph, f"{name}_index")] = code
        is_same = graph.folder is not None and graph.folder == self.graph.folder
        if graph is self.graph or is_same:
            return codes
        # By name: only those that are in a split need to be looked up.
        known = np.flatnonzero(codes)
        of_id = dict(zip(graph.node_ids[known].tolist(), codes[known].tolist(), strict=True))
        return np.array([of_id.get(node, 0) for node in self.graph.node_ids.tolist()], np.int8)

    @property
    def split(self) -> npt.NDArray[np.str_]:
        """Which split each node is in; empty for nodes in none."""
        names: npt.NDArray[np.str_] = np.array(SPLITS)
        return names[self.split_codes]

    @property
    def labels(self) -> list[Any]:
        """The name of the likeliest class; of several labels, all above a half, as one text."""
        return self._labels(self.probabilities)

    def _labels(self, probabilities: npt.NDArray[Any]) -> list[Any]:
        if not self.is_multilabel:
            return [self.class_names[number] for number in probabilities.argmax(axis=1)]
        return self._joined(probabilities > 0.5)

    def _joined(self, members: npt.NDArray[np.bool_]) -> list[str]:
        """The names of each row's classes as one text."""
        names = [str(name) for name in self.class_names]
        return [
            self.separator.join(name for name, is_on in zip(names, row, strict=True) if is_on)
            for row in members
        ]

    @property
    def confidence(self) -> npt.NDArray[np.floating[Any]]:
        """Probability of the label; of several labels, of the least certain decision."""
        return self._confidence(self.probabilities)

    def _confidence(self, probabilities: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
        if self.is_multilabel:
            return np.asarray(np.maximum(probabilities, 1 - probabilities).min(axis=1))
        return np.asarray(probabilities.max(axis=1))

    def columns(self, rows: slice = slice(None)) -> dict[str, Any]:
        """Columns id, label, confidence, sets, one probability per class, split.

        Of all rows or some; sets, and how many classes they hold, where there are any.
        """
        entities = range(self.graph.n_entities)[rows]
        rows = slice(entities.start, entities.stop)
        probabilities = self.probabilities[rows]
        sets: dict[str, Any] = {}
        if self.sets is not None:
            members = self.sets[rows]
            sets = {"set": self._joined(members), "set_size": members.sum(axis=1)}
        return {
            "id": self.graph.node_ids[rows],
            "label": self._labels(probabilities),
            "confidence": self._confidence(probabilities),
            **sets,
            **{
                f"p_{name}": probabilities[:, number]
                for number, name in enumerate(self.class_names)
            },
            "split": np.array(SPLITS)[self.split_codes[rows]],
        }

    def to_frame(self) -> pd.DataFrame:
        """The columns as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __repr__(self) -> str:
        return f"Predictions({self.graph.n_entities:,} nodes of {self.graph.name!r}, {self._about})"

    @property
    def _about(self) -> str:
        return f"{len(self.class_names)} classes, mean confidence {self.confidence.mean():.3f}"

    def _repr_html_(self) -> str:
        """What a notebook shows: how many nodes got each label, and the first rows."""
        labels = self.labels[: self.graph.n_entities]
        sizes = Counter(map(str, labels)).most_common(MOST_SHOWN)
        first = {name: list(column) for name, column in self.columns(slice(0, 10)).items()}
        rows = [
            [f"{cell:.3f}" if isinstance(cell, float | np.floating) else cell for cell in row]
            for row in zip(*first.values(), strict=True)
        ]
        return html_block(
            f"{self.graph.n_entities:,} nodes of {self.graph.name}: {self._about}",
            html_table(["label", "nodes"], [(label, f"{n:,}") for label, n in sizes]),
            html_table(list(first), rows),
            html_paragraph("the first rows" if self.graph.n_entities > 10 else ""),
        )

    def write(
        self,
        path: Path,
        origin: Mapping[str, str] | None = None,
        *,
        spreadsheet_safe: bool = False,
    ) -> None:
        """Write the table as CSV, TSV or Parquet, by the suffix.

        Parameters
        ----------
        path : Path
        origin : mapping, optional
            What the table says of the model that made it: in Parquet's metadata, or in a file
            beside it that is called after it, with ".json" added.
        spreadsheet_safe : bool
            Whether text that a spreadsheet would take for a formula gets an apostrophe before it.
        """
        blocks = map(self.columns, row_blocks(self.graph.n_entities))
        write_table_blocks(blocks, path, origin, spreadsheet_safe=spreadsheet_safe)


def check_table_path(path: Path) -> None:
    """Refuse what is no file, or one that `write_table` has no format for."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise ValueError(f"output must end in .csv, .tsv or .parquet, got {path}")
    if path.is_dir():
        raise ValueError(f"output must be a file to write, got the folder {path}")


def row_blocks(n_rows: int) -> Iterator[slice]:
    """All rows of a table in pieces that fit any memory; one at least, for the columns' names."""
    for first in range(0, max(n_rows, 1), BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, n_rows))


def write_table(columns: Mapping[str, Any], path: Path, *, spreadsheet_safe: bool = False) -> None:
    """Write columns, or a data frame, by the suffix of the path, whole or not at all."""
    write_table_blocks([columns], path, spreadsheet_safe=spreadsheet_safe)


def write_table_blocks(
    blocks: Iterable[Mapping[str, Any]],
    path: Path,
    origin: Mapping[str, str] | None = None,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """Write a table that comes as blocks of rows, each with all columns; see `Predictions.write`.

    The csv module takes half the time of pandas' to_csv, and need not be imported first.
    """
    check_table_path(path)
    suffix = path.suffix.lower()
    with replacing_file(path) as new:
        if suffix == ".parquet":
            _write_parquet(blocks, new, origin)
            return
        with new.open("w", newline="", encoding="utf-8") as file:
            delimiter = "\t" if suffix == ".tsv" else ","
            writer = csv.writer(_PlainEnds(file), delimiter=delimiter, lineterminator="\r\n")
            for number, columns in enumerate(blocks):
                if number == 0:
                    writer.writerow(columns)
                cells = [_cells(columns[name], spreadsheet_safe) for name in columns]
                writer.writerows(zip(*cells, strict=True))
    if origin is not None:
        beside = path.with_name(f"{path.name}.json")
        with replacing_file(beside) as new:
            content = {**origin, "table": path.name, "sha256": sha256_of(path)}
            new.write_text(json_text(content, indent=1) + "\n", encoding="utf-8")


class _PlainEnds:
    """Rows that end in a line feed, though csv ends them in two characters: it quotes both then."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row[:-2] + "\n")


def _write_parquet(
    blocks: Iterable[Mapping[str, Any]], path: Path, origin: Mapping[str, str] | None
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file: Any = None
    with ExitStack() as opened:
        for columns in blocks:
            table = pa.table({name: pa.array(columns[name]) for name in columns})
            if file is None:
                said = {f"graphconv.{name}": value for name, value in (origin or {}).items()}
                schema = table.schema.with_metadata(said or None)
                file = opened.enter_context(pq.ParquetWriter(path, schema))
            file.write_table(table)


def _cells(column: Any, spreadsheet_safe: bool) -> list[Any]:
    values = np.asarray(column)
    if values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values.tolist()]
    return [_no_formula(cell) for cell in column] if spreadsheet_safe else list(column)


def _no_formula(cell: Any) -> Any:
    """Text that a spreadsheet shows as it is."""
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{cell}" if is_formula else cell


def confusion_table(
    labels: npt.NDArray[np.int64], found: npt.NDArray[np.int64], n_classes: int
) -> npt.NDArray[np.int64]:
    """Counts of shape (n_classes, n_classes): rows are true classes, columns predicted ones."""
    pairs = np.bincount(labels * n_classes + found, minlength=n_classes**2)
    return pairs.reshape(n_classes, n_classes)
