"""Provenance: what a model was trained on, in its folder, so that anybody can check it later.

The files of a model folder and those of its data enter, provenance.json leaves: checksums of all
of them, versions and options. `verify_provenance` compares; the fingerprint names a model in the
tables that it wrote.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from graphconv import __version__
from graphconv.graph import Graph
from graphconv.io.files import json_text, read_json, replacing_file
from graphconv.io.wording import one_line
from graphconv.storage.stored_graph import MANIFEST

PROVENANCE_FILE = "provenance.json"
FORMAT = 1
# What a model is; the rest of its folder is what it said.
_MODEL_FILES = ("model.json", "model.safetensors", "graph.npz", "splits.npz")
_LIBRARIES = ("numpy", "scipy", "torch", "safetensors", "pandas", "pyarrow", "scikit-learn")


@dataclass(frozen=True)
class Verified:
    """What comparing a model folder with its provenance came to.

    Attributes
    ----------
    fingerprint : str
    n_files : int
        Files of the folder that are as they were written.
    data : dict
        Of each file of data: "same", "changed" or "not here".
    parts : dict
        Where the data was no file, the SHA-256 of each part of the graph, as `Graph.checksums`.
    """

    fingerprint: str
    n_files: int
    data: dict[str, str]
    parts: dict[str, str]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read a block at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def describe_file(path: Path, role: str) -> dict[str, Any]:
    """What is kept of a file of data: its role, its name as it was given, size and SHA-256."""
    return {
        "role": role,
        "name": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_of(path),
    }


def write_provenance(
    folder: Path,
    graph: Graph,
    options: Mapping[str, Any],
    files_of_data: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write provenance.json into a model folder that holds everything else.

    Parameters
    ----------
    folder : Path
    graph : Graph
        What the model was trained on.
    options : mapping
        What was asked for.
    files_of_data : sequence of mappings
        One for each file of data, as `describe_file` makes them. Without any, the data is known by
        the graph's folder, or else by the checksums of its parts.
    """
    data = list(files_of_data)
    if not data and graph.folder is not None:
        data = [describe_file(graph.folder / MANIFEST, "graph folder")]
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.is_file()}
    content = {
        "format": FORMAT,
        "fingerprint": fingerprint_of(files),
        "files": files,
        "data": data,
        **({} if data else {"parts": graph.checksums()}),
        "options": {
            "data": graph.name,
            "rows": graph.n_entities,
            "edges": graph.n_edges,
            "columns": None if graph.feature_names is None else list(graph.feature_names)[:10_000],
            **options,
        },
        "versions": {"graphconv": __version__, "python": platform.python_version(), **_versions()},
    }
    with replacing_file(folder / PROVENANCE_FILE) as new:
        new.write_text(json_text(content, indent=1), encoding="utf-8")


def fingerprint_of(files: Mapping[str, str]) -> str:
    """One SHA-256 for the files that make a model, given the SHA-256 of each."""
    parts = [f"{name} {files[name]}\n" for name in _MODEL_FILES if name in files]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def folder_fingerprint(folder: Path) -> str:
    """The fingerprint of the model in a folder, from its files as they are."""
    there = [folder / name for name in _MODEL_FILES]
    return fingerprint_of({path.name: sha256_of(path) for path in there if path.is_file()})


def verify_provenance(folder: Path) -> Verified:
    """Compare a model folder with its provenance; raise ValueError if a file of it has changed.

    Files of data are looked for by the names they were given, from the current folder.
    """
    path = folder / PROVENANCE_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} has no {PROVENANCE_FILE}: it was saved by an earlier version"
        )
    content = read_json(path)
    try:
        found = content["format"]
        if found != FORMAT:
            raise ValueError(f"its format must be {FORMAT}, got {found!r}")
        files = {_plain(name): str(expected) for name, expected in content["files"].items()}
        for name, expected in files.items():
            if not (folder / name).is_file():
                raise ValueError(f"{name} is not there")
            if sha256_of(folder / name) != expected:
                raise ValueError(f"{name} has changed since it was written")
        if content["fingerprint"] != fingerprint_of(files):
            raise ValueError("its fingerprint is not that of its files")
        data = {str(each["name"]): _state(each) for each in content["data"]}
        parts = {str(name): str(sum_) for name, sum_ in content.get("parts", {}).items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} must be complete, but lacks {one_line(error)}") from None
    except ValueError as error:
        reason = one_line(error)
        raise ValueError(f"{folder} must be as it was written, but: {reason}") from None
    return Verified(content["fingerprint"], len(files), data, parts)


def check_parts(found: Verified, graph: Graph, folder: Path) -> None:
    """Raise ValueError if the graph of a folder is not the one its provenance says."""
    now = graph.checksums() if found.parts else {}
    for name, expected in found.parts.items():
        if now.get(name) != expected:
            raise ValueError(
                f"{folder} must hold the graph it was trained on, but not by its {one_line(name)}"
            )


def _state(described: Mapping[str, Any]) -> str:
    path = Path(described["name"])
    if not path.is_file():
        return "not here"
    return "same" if sha256_of(path) == described["sha256"] else "changed"


def _plain(name: str) -> str:
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"files must be named without a folder, got {name!r}")
    return name


def _versions() -> dict[str, str]:
    found = {name: _version(name) for name in _LIBRARIES}
    return {name: version for name, version in found.items() if version is not None}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
