"""ingest(): table files of any size become a stored graph, within a memory limit.

Files of edges and nodes enter, a folder that `stored_graph.open_graph` opens leaves. The work goes
through stages; what each has finished stays in a work folder beside the output, so that an ingest
that was killed goes on from there. What the tables mean is what `readers.read_tables` says.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphconv import __version__
from graphconv.graph.half_precision import in_half_precision
from graphconv.io.column_names import settled_names
from graphconv.io.databases import is_database, without_password
from graphconv.io.files import json_text, put_in_place, remove_leftovers, replacing_file
from graphconv.io.progress import Progress, silent
from graphconv.io.readers import read_tables
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.table_graph import TableOptions
from graphconv.io.wording import count
from graphconv.storage._duckdb_tables import Database, TableFiles, find_tables, import_duckdb
from graphconv.storage._ingest_edges import write_adjacency
from graphconv.storage._ingest_features import write_features
from graphconv.storage._ingest_ids import number_edges, read_edges, read_ids, write_ids
from graphconv.storage._ingest_nodes import write_labels
from graphconv.storage._staging import source_state, staged_files
from graphconv.storage.memory import available_memory
from graphconv.storage.stored_graph import FORMAT, MANIFEST, store_graph, verify_files

# Options whose tables have to be looked at as a whole.
_READ_WHOLE = (
    "source_type", "target_type", "label_separator", "bins", "relation", "edge_features",
)  # fmt: skip
FEATURE_TYPES = ("float32", "float16")
# Memory of Python, numpy, Arrow and pandas themselves, which DuckDB's limit must leave.
_OWN_MEMORY = 300 << 20


@dataclass(frozen=True)
class IngestRequest:
    """What to ingest, and how.

    Parameters
    ----------
    edges : tuple of str
    nodes : tuple of str, or mapping of types to sequences of str
        As for `read_tables`. CSV in UTF-8 and Parquet are scanned in place, rows of databases
        copied batch by batch; other files are read whole.
    output : Path
    options : TableOptions
        As for `read_tables`. Nodes of several types, triples, several labels per node and bins of
        labels are read whole, too, and so is what has `features` in a file beside.
    memory : int or None
        Bytes that the process should stay within; None: half of what is available.
    feature_type : {"float32", "float16"}
        How numbers of dense features are stored.
    """

    edges: tuple[str, ...]
    nodes: tuple[str, ...] | Mapping[str, Sequence[str]]
    output: Path
    options: TableOptions = field(default_factory=TableOptions)
    memory: int | None = None
    feature_type: str = "float32"
    features: str | None = None

    def __post_init__(self) -> None:
        if not self.edges:
            raise ValueError("ingest needs at least one file of edges, got none")
        if self.feature_type not in FEATURE_TYPES:
            raise ValueError(
                f"feature type must be one of {', '.join(FEATURE_TYPES)}, got {self.feature_type!r}"
            )
        if self.memory is not None and self.memory < 400 << 20:
            raise ValueError(
                f"ingest needs at least 400 MiB of memory, got {self.memory / (1 << 20):.0f} MiB"
            )
        if self.options.closed_ids and not self.nodes:
            raise ValueError("closed ids need a node table, got none")

    @property
    def is_read_whole(self) -> bool:
        """Whether the tables can't be gone through piece by piece."""
        is_typed = isinstance(self.nodes, Mapping)
        asked = any(getattr(self.options, name) not in (None, "", ()) for name in _READ_WHOLE)
        return is_typed or self.features is not None or asked

    @property
    def sources(self) -> tuple[str, ...]:
        """All that rows come from."""
        return (*self.edges, *self.node_sources, *([self.features] if self.features else ()))

    @property
    def node_sources(self) -> tuple[str, ...]:
        if isinstance(self.nodes, Mapping):
            return tuple(source for sources in self.nodes.values() for source in sources)
        return self.nodes


@dataclass
class Work:
    """An ingest under way: its tables, its database and what its stages have found out."""

    request: IngestRequest
    folder: Path  # arrays that are finished
    database: Database
    edges: TableFiles
    nodes: TableFiles | None
    progress: Progress
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> TableOptions:
        return self.request.options

    @property
    def paths(self) -> tuple[Path, ...]:
        return (*self.edges.paths, *(self.nodes.paths if self.nodes else ()))

    def note(self, text: str) -> None:
        self.found.setdefault("notes", []).append(text)


# In this order; each is skipped where an earlier attempt has finished it.
_STAGES: dict[str, Callable[[Work], None]] = {
    "node ids": read_ids,
    "edges": read_edges,
    "edge ids": number_edges,
    "adjacency": write_adjacency,
    "features": write_features,
    "labels": write_labels,
    "ids": write_ids,
}


def ingest(request: IngestRequest, progress: Progress = silent) -> dict[str, Any]:
    r"""Make a stored graph of table files, whole or not at all.

    Parameters
    ----------
    request : IngestRequest
    progress : callable, optional
        Told how far it is, see `graphconv.io.progress`.

    Returns
    -------
    dict
        The manifest that was written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.storage.ingest import IngestRequest, ingest
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("source,target\nann,bob\nbob,cy\n")
    >>> manifest = ingest(IngestRequest((str(folder / "edges.csv"),), (), folder / "graph"))
    >>> manifest["n_nodes"], manifest["n_edges"]
    (3, 2)
    """
    import_duckdb()
    output = Path(os.path.realpath(request.output))
    remove_leftovers(output)
    _check_output(output)
    if request.is_read_whole:
        return _ingest_whole(request, output, progress)
    work_folder = output.with_name(f".{output.name}.ingest")
    memory = request.memory if request.memory is not None else available_memory() // 2
    identity = _identity(request)
    state = _read_state(work_folder, identity, progress)
    is_resumed = bool(state["finished"])
    (work_folder / "arrays").mkdir(parents=True, exist_ok=True)
    database = Database(
        work_folder / "work.duckdb",
        int((memory - _OWN_MEMORY) * 0.7),
        work_folder / "spill",
        progress,
    )
    try:
        edges, nodes, notes = _find(request, work_folder / "staged", database)
        if request.options.relation is None and "relation" in edges.columns:
            database.close()
            shutil.rmtree(work_folder)
            return _ingest_whole(request, output, progress)
        options = _settled_options(request.options, edges, nodes, notes)
        request = replace(request, options=options)
        if not is_resumed:
            state["found"]["notes"] = notes
        arrays = work_folder / "arrays"
        work = Work(request, arrays, database, edges, nodes, progress, state["found"])
        for name, stage in _STAGES.items():
            if name in state["finished"]:
                continue
            stage(work)
            state["finished"].append(name)
            _write_state(work_folder, state)
    finally:
        database.close()
    manifest = _manifest(work)
    text = json_text(manifest, indent=1)
    if not _is_in_place(output, text):
        (work.folder / MANIFEST).write_text(text, encoding="utf-8")
        if is_resumed and not _is_whole(work.folder):
            progress(f"starting anew: {work_folder.name} is damaged", None, None)
            shutil.rmtree(work_folder)
            return ingest(request, progress)
        put_in_place(work.folder, output)
    # First of all, so that nobody goes on from what is left if this is cut short.
    (work_folder / "state.json").unlink()
    shutil.rmtree(work_folder)
    return manifest


def _ingest_whole(request: IngestRequest, output: Path, progress: Progress) -> dict[str, Any]:
    """Make a stored graph of tables that are read into memory."""
    progress("reading tables into memory", None, None)
    options = {key.name: getattr(request.options, key.name) for key in fields(TableOptions)}
    nodes = request.nodes or None
    loaded = read_tables(list(request.edges), nodes, features=request.features, **options)
    # A stored graph has no directions to keep any more.
    notes = [str(note).removesuffix(" (directed=True keeps directions)") for note in loaded.notes]
    notes.append("read whole into memory: tables of this kind can't be read piece by piece")
    encoding = loaded.encoding or TableEncoding()
    graph = loaded.graph
    if request.feature_type == "float16" and isinstance(graph.features, np.ndarray):
        names = graph.feature_names or [f"f{place}" for place in range(graph.n_features)]
        halved, told = in_half_precision(graph.features, names)
        graph = replace(graph, features=halved)
        notes.append(told)
    return store_graph(
        graph,
        output,
        {
            "name": request.options.name or output.name,
            "encoding": encoding.to_json(),
            "notes": [note for note in (*notes, *loaded.columns) if note],
            "options": _shown_options(request.options),
            "sources": [
                without_password(source) if is_database(source) else Path(source).name
                for source in request.sources
            ],
            "versions": _versions(),
        },
    )


def _find(
    request: IngestRequest, folder: Path, database: Database
) -> tuple[TableFiles, TableFiles | None, list[str]]:
    """The tables to scan, and what to tell about how they are written."""
    options, notes = request.options, list[str]()
    given = (request.edges, options.edge_text_columns, options, folder, notes)
    edges = find_tables(staged_files(*given), database, options.text_format)
    if not request.nodes:
        return edges, None, notes
    given = (request.node_sources, options.node_text_columns, options, folder, notes)
    return edges, find_tables(staged_files(*given), database, options.text_format), notes


def _settled_options(
    options: TableOptions, edges: TableFiles, nodes: TableFiles | None, notes: list[str]
) -> TableOptions:
    """The options with the names of the tables' columns, by names alone."""
    import pandas as pd

    tables = [
        Table(pd.DataFrame(columns=list(files.columns)), files.name, str, is_file=True)
        for files in (edges, nodes)
        if files is not None
    ]
    settled = settled_names(tables[0], tables[1] if nodes else None, options, notes)
    # What is not named need not be there: the stages look for it by its usual name.
    usual = {"weight": "weight", "relation": "relation", "split_column": "split"}
    unnamed = [name for name in usual if getattr(settled, name) in (None, usual[name])]
    return replace(settled, **{name: getattr(options, name) for name in unnamed})


def _check_output(output: Path) -> None:
    is_ours = (output / MANIFEST).is_file()
    is_taken = output.exists() and (not output.is_dir() or any(output.iterdir()))
    if is_taken and not is_ours:
        raise FileExistsError(
            f"{output} must be a new or empty folder, or an earlier graph, but is neither"
        )
    output.parent.mkdir(parents=True, exist_ok=True)


def _identity(request: IngestRequest) -> dict[str, Any]:
    """What must be the same for an unfinished ingest to go on: options, and the files' state."""
    files = [state for source in request.sources for state in source_state(source)]
    values = {
        "version": __version__,
        "format": FORMAT,
        "n_edge_sources": len(request.edges),
        "files": files,
        "feature_type": request.feature_type,
        "options": _shown_options(request.options),
    }
    # As JSON reads it back: tuples are lists.
    plain: dict[str, Any] = json.loads(json_text(values))
    return plain


def _shown_options(options: TableOptions) -> dict[str, Any]:
    return {**asdict(replace(options, encoding=None)), "name": options.name}


def _read_state(folder: Path, identity: dict[str, Any], progress: Progress) -> dict[str, Any]:
    fresh: dict[str, Any] = {"identity": identity, "finished": [], "found": {}}
    path = folder / "state.json"
    if not path.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        return fresh
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        is_whole = state.pop("digest") == _digest(state)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole or state["identity"] != identity:
        what = "is of other files or options" if is_whole else "is damaged"
        progress(f"starting anew: {folder.name} {what}", None, None)
        shutil.rmtree(folder)
        return fresh
    progress(f"continuing after {', '.join(state['finished'])} ({folder})", None, None)
    return state


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    with replacing_file(folder / "state.json") as new:
        new.write_text(json_text({**state, "digest": _digest(state)}), encoding="utf-8")


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json_text(state).encode()).hexdigest()


def _manifest(work: Work) -> dict[str, Any]:
    found = work.found
    arrays = found["arrays"]
    sums = sorted((name, spec["blake2b"]) for name, spec in arrays.items())
    if found.get("ids_file"):
        sums.append(("ids_file", found["ids_file"]["blake2b"]))
    said = json_text([sums, work.options.directed, found["class_names"], found["feature_names"]])
    name = work.options.name or work.request.output.resolve().name
    return {
        "format": FORMAT,
        "name": name,
        "directed": work.options.directed,
        **{key: found[key] for key in _SIZES},
        "has_split": found["has_split"],
        "class_names": found["class_names"],
        "feature_names": found["feature_names"],
        "unknown_features": found["unknown_features"],
        "encoding": found["encoding"],
        "arrays": arrays,
        "ids_file": found.get("ids_file"),
        "digest": hashlib.sha256(said.encode()).hexdigest(),
        "notes": found.get("notes", []),
        "options": _shown_options(work.options),
        "sources": [
            path.name for path in (*work.edges.paths, *(work.nodes.paths if work.nodes else ()))
        ],
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    return {
        "graphconv": __version__,
        "duckdb": import_duckdb().__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


_SIZES = (
    "n_nodes", "n_edges", "n_entries", "n_self_loops", "n_isolated", "is_weighted", "n_labelled",
)  # fmt: skip


def _is_in_place(output: Path, manifest: str) -> bool:
    """Whether an attempt that was killed while tidying up has put this very graph in place."""
    path = output / MANIFEST
    return path.is_file() and path.read_bytes() == manifest.encode()


def _is_whole(folder: Path) -> bool:
    """Whether all that stages of an earlier attempt have written is still there, unchanged."""
    try:
        verify_files(folder)
    except (OSError, ValueError):
        return False
    return True


def describe_manifest(manifest: dict[str, Any]) -> str:
    """One line about a stored graph."""
    kind = "directed edge" if manifest["directed"] else "edge"
    features = len(manifest["feature_names"] or ())
    return ", ".join(
        [
            count(manifest["n_nodes"], "node"),
            count(manifest["n_edges"], kind),
            count(features, "feature") if features else "no features",
            f"{len(manifest['class_names'])} classes",
            f"{manifest['n_labelled']:,} labelled",
        ]
    )
