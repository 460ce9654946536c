"""Generated graphs of any size, written as tables in bounded memory.

A `GraphRecipe` enters, a folder with files of edges and nodes leaves, as `graphconv ingest` and,
where they are single files, the ordinary readers take them. Rows are made a chunk at a time, each
chunk from a random stream of its own: how many rows a file has does not change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import IntArray
from graphconv.io.files import replacing_folder
from graphconv.io.progress import Progress, counter, silent

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("random", "power-law", "planted-partition")
ID_KINDS = ("integer", "string")
FORMATS = ("parquet", "csv")
# Rows made at a time: small enough for any memory, large enough for numpy to be fast.
CHUNK = 1 << 18
# Chances of the four quarters of the adjacency matrix, at every level: those of Graph500.
RMAT_QUARTERS = (0.57, 0.19, 0.19, 0.05)
Advance = Callable[[int], None]


@dataclass(frozen=True)
class GraphRecipe:
    """What graph to make.

    Parameters
    ----------
    kind : {"random", "power-law", "planted-partition"}
        random: both ends uniformly at random. power-law: R-MAT with the quarters of Graph500,
        whose degrees have a heavy tail. planted-partition: an edge joins two nodes of one class
        with chance `homophily`, and the features of a class lie around a centre of its own.
    n_nodes, n_edges : int
        Edges as drawn, never from a node to itself. The few that are drawn twice are for the
        reader to count once.
    n_features : int
        Columns f0, f1, ... of float32; independent normal numbers, to which planted partitions
        add their class's centre.
    n_classes : int
        Of planted partitions; the others have no labels.
    homophily : float
        Chance that an edge of a planted partition stays in its class.
    signal : float
        Distance of the class centres from 0, in units of the noise.
    labelled : float
        Share of the nodes whose label is told.
    ids : {"integer", "string"}
        Nodes are called 0, 1, ... or n0, n1, ...
    seed : int
    """

    kind: str
    n_nodes: int
    n_edges: int
    n_features: int = 0
    n_classes: int = 5
    homophily: float = 0.7
    signal: float = 1.0
    labelled: float = 0.1
    ids: str = "integer"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (("kind", self.kind, KINDS), ("ids", self.ids, ID_KINDS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        demands = {
            "n_nodes": (2 <= self.n_nodes < 2**31, "from 2 to 2^31 - 1"),
            "n_edges": (self.n_edges >= 0, "at least 0"),
            "n_features": (self.n_features >= 0, "at least 0"),
            "n_classes": (2 <= self.n_classes <= self.n_nodes // 2, "from 2 to half the nodes"),
            "homophily": (0 <= self.homophily <= 1, "from 0 to 1"),
            "signal": (0 <= self.signal < math.inf, "at least 0"),
            "labelled": (0 <= self.labelled <= 1, "from 0 to 1"),
            "seed": (0 <= self.seed < 2**32, "from 0 to 2^32 - 1"),
        }
        for name, (holds, demand) in demands.items():
            is_used = self.has_labels or name not in ("n_classes", "homophily", "signal")
            if is_used and not holds:
                raise ValueError(f"{name} must be {demand}, got {getattr(self, name)}")

    @property
    def has_labels(self) -> bool:
        return self.kind == "planted-partition"


def write_generated(
    recipe: GraphRecipe,
    folder: Path,
    *,
    format: str = "parquet",
    rows_per_file: int = 1 << 24,
    progress: Progress = silent,
) -> list[Path]:
    """Write the tables of a graph into a new folder, whole or not at all.

    Parameters
    ----------
    recipe : GraphRecipe
    folder : Path
        Must be new or empty.
    format : {"parquet", "csv"}
    rows_per_file : int
        A table of more rows is cut into edges-0000, edges-0001, ...; else it is one file, edges.
    progress : callable, optional
        Told how far it is, see `graphconv.io.progress`.

    Returns
    -------
    list of Path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import read_tables
    >>> from graphconv.storage.generation import GraphRecipe, write_generated
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> recipe = GraphRecipe("planted-partition", 50, 100, n_features=3, labelled=1.0)
    >>> edges, nodes = write_generated(recipe, folder)
    >>> edges.name, nodes.name
    ('edges.parquet', 'nodes.parquet')
    >>> graph = read_tables(edges, nodes).graph
    >>> graph.n_nodes, graph.n_features, graph.n_classes
    (50, 3, 5)
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if rows_per_file < 1:
        raise ValueError(f"rows_per_file must be at least 1, got {rows_per_file}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} must be a new or empty folder")
    advance = counter(progress, "generating", recipe.n_nodes + recipe.n_edges)
    with replacing_folder(folder) as new:
        names = _write_pieces(_edge_chunks(recipe), new, "edges", format, rows_per_file, advance)
        names += _write_pieces(_node_chunks(recipe), new, "nodes", format, rows_per_file, advance)
    return [folder / name for name in names]


def _write_pieces(
    chunks: Iterator[pa.Table],
    folder: Path,
    name: str,
    format: str,
    rows_per_file: int,
    advance: Advance,
) -> list[str]:
    """Write chunks into as many files as they need; a single file goes without a number."""
    names: list[str] = []
    writer: Any = None
    n_free = 0
    for chunk in chunks:
        start = 0
        while start < len(chunk) or not names:
            if n_free == 0:
                if writer is not None:
                    writer.close()
                names.append(f"{name}-{len(names):04d}.{format}")
                writer = _open_writer(folder / names[-1], chunk.schema, format)
                n_free = rows_per_file
            piece = chunk.slice(start, n_free)
            writer.write_table(piece)
            n_free -= len(piece)
            start += len(piece)
            advance(len(piece))
    writer.close()
    if len(names) == 1:
        (folder / names[0]).rename(folder / f"{name}.{format}")
        names = [f"{name}.{format}"]
    return names


def _open_writer(path: Path, schema: pa.Schema, format: str) -> Any:
    if format == "csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(path, schema)
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(path, schema)


def _edge_chunks(recipe: GraphRecipe) -> Iterator[pa.Table]:
    import pyarrow as pa

    draw = {
        "random": _random_ends,
        "power-law": _rmat_ends,
        "planted-partition": _planted_ends,
    }[recipe.kind]
    for number, first in enumerate(range(0, max(recipe.n_edges, 1), CHUNK)):
        n_rows = min(CHUNK, recipe.n_edges - first)
        rng = np.random.default_rng([recipe.seed, 0, number])
        source, target = draw(recipe, n_rows, rng)
        yield pa.table({"source": _names(source, recipe), "target": _names(target, recipe)})


def _node_chunks(recipe: GraphRecipe) -> Iterator[pa.Table]:
    import pyarrow as pa

    centres = _class_centres(recipe)
    for number, first in enumerate(range(0, recipe.n_nodes, CHUNK)):
        nodes = np.arange(first, min(first + CHUNK, recipe.n_nodes))
        rng = np.random.default_rng([recipe.seed, 1, number])
        columns = {"id": _names(nodes, recipe)}
        features = rng.standard_normal((recipe.n_features, len(nodes)), dtype=np.float32)
        if recipe.has_labels:
            classes = nodes % recipe.n_classes
            is_told = rng.random(len(nodes)) < recipe.labelled
            names = np.array([f"class{k}" for k in range(recipe.n_classes)])
            columns["label"] = pa.array(names[classes], mask=~is_told)
            features += centres[:, classes]
        columns |= {f"f{place}": pa.array(values) for place, values in enumerate(features)}
        yield pa.table(columns)


def _names(nodes: IntArray, recipe: GraphRecipe) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(nodes)
    if recipe.ids == "integer":
        return numbers
    return pc.binary_join_element_wise("n", numbers.cast(pa.string()), "")


def _class_centres(recipe: GraphRecipe) -> npt.NDArray[np.float32]:
    """A point for each class, `signal` away from 0, in columns."""
    rng = np.random.default_rng([recipe.seed, 2])
    centres = rng.standard_normal((recipe.n_features, recipe.n_classes))
    length = np.sqrt((centres**2).sum(axis=0, keepdims=True))
    scaled: npt.NDArray[np.float32] = (
        recipe.signal * centres / np.where(length > 0, length, 1)
    ).astype(np.float32)
    return scaled


def _random_ends(
    recipe: GraphRecipe, n_edges: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    source = rng.integers(recipe.n_nodes, size=n_edges)
    target = rng.integers(recipe.n_nodes - 1, size=n_edges)
    return source, target + (target >= source)


def _rmat_ends(
    recipe: GraphRecipe, n_edges: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """R-MAT: the two ends choose a half of the nodes together, then a half of that half, ..."""
    n_nodes = recipe.n_nodes
    n_levels = (n_nodes - 1).bit_length()
    bounds = np.cumsum(RMAT_QUARTERS)[:-1]
    found: list[IntArray] = []
    n_missing = n_edges
    while n_missing > 0:
        n_drawn = n_missing + n_missing // 4 + 16
        ends = np.zeros((2, n_drawn), dtype=np.int64)
        for _ in range(n_levels):
            quarter = np.searchsorted(bounds, rng.random(n_drawn), side="right")
            ends = 2 * ends + np.stack([quarter >> 1, quarter & 1])
        # The matrix has a power of two of rows: what falls outside the graph is drawn again.
        ends = ends[:, (ends < n_nodes).all(axis=0) & (ends[0] != ends[1])][:, :n_missing]
        found.append(ends)
        n_missing -= ends.shape[1]
    source, target = np.concatenate([np.zeros((2, 0), dtype=np.int64), *found], axis=1)
    # The first numbers have the most edges; spread out, no file or part of the graph has them all.
    stride = _coprime_stride(n_nodes)
    return source * stride % n_nodes, target * stride % n_nodes


def _coprime_stride(n_nodes: int) -> int:
    stride = max(1, int(n_nodes * 0.6180339887))
    while math.gcd(stride, n_nodes) != 1:
        stride += 1
    return stride


def _planted_ends(
    recipe: GraphRecipe, n_edges: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Node i has class i % n_classes, so a node of a class is drawn without looking one up."""
    n_nodes, n_classes = recipe.n_nodes, recipe.n_classes
    source = rng.integers(n_nodes, size=n_edges)
    own = source % n_classes
    # Steps to another class, or none.
    step = np.where(
        rng.random(n_edges) < recipe.homophily, 0, rng.integers(1, n_classes, size=n_edges)
    )
    wanted = (own + step) % n_classes
    n_members = (n_nodes - wanted + n_classes - 1) // n_classes
    # Within its own class an end passes over itself.
    n_choices = n_members - (step == 0)
    place = (rng.random(n_edges) * n_choices).astype(np.int64)
    place += (step == 0) & (place >= source // n_classes)
    return source, place * n_classes + wanted
