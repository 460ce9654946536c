"""Fuzzing, the targets: for every kind of file a valid one, its changes, and who reads it.

A reader may refuse a file with a ValueError, TypeError or OSError of one line, or take it. It must
do nothing else: not end the process, hang, raise another error or take much memory.
"""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import safetensors.numpy
import scipy.sparse as sp
from scripts.faults_scenarios import planetoid_files
from scripts.fuzz_tables import ARCHIVE, EDGES, JSON, NODES, TEXT, table_kinds

from graphconv import Graph, load_dataset, read_tables
from graphconv.commands.console import Screen
from graphconv.commands.report import names_of_data, write_report_file
from graphconv.estimators.fitted_method import SavedMethod, fit_method, load_saved, save_method
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.array_files import write_arrays
from graphconv.io.datasets import _packed as packed
from graphconv.io.datasets.nell import KNOWN_LABELS, load_nell
from graphconv.io.datasets.places import NELL_PREFIX
from graphconv.io.datasets.planetoid import (
    PlanetoidFiles,
    _read_graph,
    _to_array,
    graph_from_planetoid,
    read_folder,
    read_pickle,
)
from graphconv.io.files import file_checksum
from graphconv.io.graph_files import read_graph_file, write_npz
from graphconv.results.provenance import check_parts, verify_provenance, write_provenance
from graphconv.storage.graph_part import open_part
from graphconv.storage.partition import partition_graph
from graphconv.storage.stored_graph import open_graph, store_graph, verify_graph
from graphconv.training.checkpoint import (
    SavedModel,
    TrainingFile,
    load_model,
    read_splits,
    save_model,
)
from graphconv.training.fit import Watch, fit_gcn
from graphconv.training.loop import Saved
from graphconv.training.out_of_fold import OutOfFold
from scripts import fuzz_inputs as inputs
from scripts import fuzz_requests

Changes = tuple[inputs.Change, ...]
CORPUS = Path(__file__).parents[1] / "tests" / "corpus"


@dataclass(frozen=True)
class Target:
    """A kind of file: a valid one, how it is changed, and what reads it."""

    content: bytes
    changes: Changes
    read: Callable[[bytes], None]
    corpus: tuple[bytes, ...] = ()

    def made(self, rng: random.Random, number: int) -> bytes:
        """The first inputs are the corpus as it is; all others are changed files."""
        if number < len(self.corpus):
            return self.corpus[number]
        is_valid = not self.corpus or rng.random() < 0.7
        begin = self.content if is_valid else rng.choice(self.corpus)
        try:
            return rng.choice(self.changes)(begin, rng)
        except Exception:  # what is damaged already may have no structure to change
            return inputs.change_bytes(begin, rng)


def small_graph() -> Graph:
    rng = np.random.default_rng(0)
    adjacency = sp.csr_array(rng.random((12, 12)) * (rng.random((12, 12)) < 0.3))
    features = (rng.random((12, 4)) * (rng.random((12, 4)) < 0.5)).astype(np.float32)
    ids = [f"n{number}" for number in range(12)]
    return Graph(
        adjacency + adjacency.T,
        features=sp.csr_array(features),
        labels=[0, 1, 2] * 4,
        class_names=["a", "b", "c"],
        node_ids=ids,
    )


def use(graph: Graph) -> None:
    """Follow the indices, as training does."""
    graph.adjacency @ np.ones(graph.n_nodes)
    # More columns are a matter of memory when a model has weights for them.
    if graph.features is not None and graph.n_features < 1 << 24:
        graph.features @ np.ones(graph.n_features)
    graph.node_ids[: graph.n_nodes].tolist()


def all_targets(folder: Path) -> dict[str, Target]:
    """Every kind of file, with `folder` to write them to."""
    graph = small_graph()
    targets = {
        **_graph_files(folder, graph),
        **_stored(folder, graph),
        **_parts(folder, graph),
        **_models(folder),
        **_baseline(folder),
        **_model_of_tables(folder),
        **{name: Target(*kind) for name, kind in table_kinds(folder, use).items()},
        **_data_sets(folder, graph),
        **_planetoid(folder),
        **{
            name: Target(content, JSON, read)
            for name, (content, read) in fuzz_requests.readers(folder, graph).items()
        },
    }
    return {name: replace(target, corpus=corpus(name)) for name, target in targets.items()}


def corpus(name: str) -> tuple[bytes, ...]:
    """Files of a kind that once did harm, or whose refusal differs from that of all others."""
    files = sorted((CORPUS / name.replace("/", "-")).glob("*"))
    return tuple(file.read_bytes() for file in files)


def _writing(path: Path, read: Callable[[], Any]) -> Callable[[bytes], None]:
    def write_and_read(content: bytes) -> None:
        path.write_bytes(content)
        read()

    return write_and_read


def _reading_graph(path: Path) -> Callable[[bytes], None]:
    return _writing(path, lambda: use(read_graph_file(path).graph))


def _graph_files(folder: Path, graph: Graph) -> dict[str, Target]:
    write_npz(graph, folder / "own.npz")
    sp.save_npz(folder / "scipy.npz", graph.adjacency)
    small = nx.path_graph(5)
    nx.set_node_attributes(small, {node: "ab"[node % 2] for node in small}, "label")
    nx.set_node_attributes(small, {node: node / 2 for node in small}, "age")
    nx.write_graphml(small, folder / "g.graphml")
    nx.write_gexf(small, folder / "g.gexf")
    mtx = b"%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1.5\n3 2 2\n"
    (folder / "g.mtx").write_bytes(mtx)
    return {
        name: Target((folder / name).read_bytes(), changes, _reading_graph(folder / name))
        for name, changes in {
            "own.npz": ARCHIVE,
            "scipy.npz": ARCHIVE,
            "g.graphml": TEXT,
            "g.gexf": TEXT,
            "g.mtx": TEXT,
        }.items()
    }


def _stored(folder: Path, graph: Graph) -> dict[str, Target]:
    """Files of a graph folder; each is read with a manifest that has its checksum."""
    place = folder / "stored"
    store_graph(graph, place)
    manifest = json.loads((place / "manifest.json").read_text())

    def read(content: bytes, file: str) -> None:
        (place / file).write_bytes(content)
        told = json.loads(json.dumps(manifest))
        for spec in (*told["arrays"].values(), told["ids_file"]):
            if spec["file"] == file:
                spec["blake2b"] = file_checksum(place / file)
        (place / "manifest.json").write_text(json.dumps(told))
        try:
            use(open_graph(place))
        finally:
            (place / file).write_bytes(kept[file])

    kept = {path.name: path.read_bytes() for path in place.iterdir()}
    targets = {}
    for spec in manifest["arrays"].values():
        file, kind = spec["file"], spec["dtype"]
        if kept[file]:
            changes = (partial(inputs.change_array, kind=kind),)
            targets[f"stored/{file}"] = Target(kept[file], changes, partial(read, file=file))
    ids = "ids.arrow"
    either = (inputs.change_bytes, inputs.change_words)
    targets[f"stored/{ids}"] = Target(kept[ids], either, partial(read, file=ids))

    def read_manifest(content: bytes) -> None:
        (place / "manifest.json").write_bytes(content)
        use(open_graph(place))
        verify_graph(place)

    targets["stored/manifest.json"] = Target(kept["manifest.json"], JSON, read_manifest)
    return targets


def _parts(folder: Path, graph: Graph) -> dict[str, Target]:
    """Files of a graph that is cut into parts, each with its right checksum."""
    place = folder / "cut"
    store_graph(graph, place)
    partition_graph(place, 2, method="contiguous")
    own = place / "parts-2" / "part-0"
    manifest = json.loads((own / "manifest.json").read_text())
    kept = {path.name: path.read_bytes() for path in own.iterdir()}

    def read(content: bytes, file: str) -> None:
        (own / file).write_bytes(content)
        told = json.loads(json.dumps(manifest))
        for spec in told["arrays"].values():
            if spec["file"] == file:
                spec["blake2b"] = file_checksum(own / file)
        if file != "manifest.json":
            (own / "manifest.json").write_text(json.dumps(told))
        try:
            part = open_part(place, 0, 2)
            part.graph.adjacency @ np.ones(part.graph.n_nodes)
        finally:
            (own / file).write_bytes(kept[file])

    targets = {
        "part/manifest.json": Target(
            kept["manifest.json"], JSON, partial(read, file="manifest.json")
        )
    }
    for name in ("adjacency.indices", "lent", "halo_bounds", "nodes"):
        spec = manifest["arrays"][name]
        changes = (partial(inputs.change_array, kind=spec["dtype"]), inputs.change_words)
        file = spec["file"]
        targets[f"part/{name}"] = Target(kept[file], changes, partial(read, file=file))
    return targets


def _models(folder: Path) -> dict[str, Target]:
    place = folder / "model"
    karate = load_dataset("karate")
    overrides = {"max_epochs": 2, "hidden": (3,)}
    saved: list[bytes] = []

    def keep(make_arrays: Callable[[], Saved]) -> None:
        saved.append(safetensors.numpy.save(make_arrays(), {"identity": '{"seed": 1}'}))

    fitted = fit_gcn(karate, overrides=overrides, watch=Watch(on_checkpoint=keep))
    save_model(SavedModel(fitted), place)
    write_provenance(place, karate, {})
    nodes = karate.train_index
    known = np.full((len(nodes), karate.n_classes), 0.5, dtype=np.float32)
    OutOfFold(nodes, karate.labels[nodes], known, known).write(place / "out_of_fold.npz")
    parts = dict(zip(SPLIT_NAMES, np.array_split(np.arange(9), 3), strict=True))
    write_arrays(folder / "splits.npz", parts)

    def read(content: bytes, file: str) -> None:
        (place / file).write_bytes(content)
        try:
            load_model(place).fitted.probabilities()
        finally:
            (place / file).write_bytes(kept[file])

    def read_provenance() -> None:
        # As `verify` and `report` do.
        check_parts(verify_provenance(place), karate, place)
        names_of_data(place)

    def resume(path: Path) -> None:
        tensors = TrainingFile(path, {"seed": 1}).read()
        fit_gcn(karate, overrides=overrides, watch=Watch(resume_from=tensors))

    kept = {path.name: path.read_bytes() for path in place.iterdir()}
    weights = (inputs.change_safetensors, inputs.change_safetensors, inputs.change_bytes)
    training, splits = folder / "x.training", folder / "splits.npz"
    folds, provenance = place / "out_of_fold.npz", place / "provenance.json"
    return {
        "model.json": Target(kept["model.json"], JSON, partial(read, file="model.json")),
        "graph.npz": Target(kept["graph.npz"], ARCHIVE, partial(read, file="graph.npz")),
        "model.safetensors": Target(
            kept["model.safetensors"], weights, partial(read, file="model.safetensors")
        ),
        "training": Target(saved[0], weights, _writing(training, lambda: resume(training))),
        "splits.npz": Target(
            splits.read_bytes(),
            ARCHIVE,
            _writing(splits, lambda: karate.with_split(*read_splits(splits))),
        ),
        "out_of_fold.npz": Target(
            kept["out_of_fold.npz"], ARCHIVE, _writing(folds, lambda: OutOfFold.read(folds, karate))
        ),
        "provenance.json": Target(
            kept["provenance.json"],
            JSON,
            _writing(provenance, read_provenance),
        ),
    }


def _reading_file_of(place: Path, read: Callable[[], Any]) -> Callable[[str, Changes], Target]:
    """Targets of a folder: one file of it is changed, then all of it is read."""
    kept = {path.name: path.read_bytes() for path in place.iterdir()}

    def write_and_read(content: bytes, file: str) -> None:
        (place / file).write_bytes(content)
        try:
            read()
        finally:
            (place / file).write_bytes(kept[file])

    return lambda file, changes: Target(kept[file], changes, partial(write_and_read, file=file))


def _baseline(folder: Path) -> dict[str, Target]:
    """A baseline that was saved as a model."""
    place = folder / "baseline"
    save_method(SavedMethod(fit_method(load_dataset("karate"), "label-propagation", {})), place)
    target = _reading_file_of(place, lambda: load_saved(place).fitted.probabilities())
    weights = (inputs.change_safetensors, inputs.change_bytes)
    return {
        "baseline/model.json": target("model.json", JSON),
        "baseline/model.safetensors": target("model.safetensors", weights),
    }


def _model_of_tables(folder: Path) -> dict[str, Target]:
    """A model that says how tables are encoded; others are read in the same way."""
    place, edges, nodes = folder / "of-tables", folder / "e.csv", folder / "n.csv"
    edges.write_bytes(EDGES)
    nodes.write_bytes(NODES.replace(b"2,Rome,", b"2,Rome,train"))
    options = {"categorical": ("town",)}
    loaded = read_tables(edges, nodes, **options)
    fitted = fit_gcn(loaded.graph, overrides={"max_epochs": 2, "hidden": (3,)})
    save_model(SavedModel(fitted, loaded.encoding, options), place)

    def read() -> None:
        saved = load_model(place)
        # As `predict` does with new tables.
        use(read_tables(edges, nodes, **{**saved.table_options, "encoding": saved.encoding}).graph)

    def report() -> None:
        screen = Screen(quiet=True)
        write_report_file(load_saved(place), folder / "report.html", screen, None)

    return {
        "tables/model.json": _reading_file_of(place, read)("model.json", JSON),
        "report": _reading_file_of(place, report)("model.json", JSON),
    }


def _planetoid(folder: Path) -> dict[str, Target]:
    """A data set of Planetoid's, and NELL in an archive with labels beside it."""
    place = folder / "planetoid"
    place.mkdir(exist_ok=True)
    for suffix, content in planetoid_files().items():
        (place / f"ind.x.{suffix}").write_bytes(content)

    def read() -> None:
        files = read_folder(place, "ind.x")
        assert files is not None
        use(graph_from_planetoid(files, "x"))

    target = _reading_file_of(place, read)
    pickles = (inputs.change_pickle,)
    archive = folder / "nell.tar"
    members = {f"{NELL_PREFIX}.{suffix}": c for suffix, c in planetoid_files().items()}
    del members[f"{NELL_PREFIX}.ally"]  # so that labels beside it are read
    members[KNOWN_LABELS] = b"node,label\n4,1\n5,0\n"
    packed = inputs.tarred(members)
    changes = (inputs.change_bytes, inputs.change_tar)
    return {
        "ind.x.allx": target("ind.x.allx", pickles),
        "ind.x.test.index": target("ind.x.test.index", TEXT),
        "nell.tar": Target(packed, changes, _writing(archive, lambda: use(load_nell(archive)))),
    }


def _data_sets(folder: Path, graph: Graph) -> dict[str, Target]:
    plain = Graph((graph.adjacency != 0).astype(np.float32), graph.features, graph.labels)
    packed.write_packed(folder / "cached.npz", plain)

    def with_digest(content: bytes, rng: random.Random) -> bytes:
        """Change an archive as somebody would who knows about its checksum."""
        with np.load(io.BytesIO(inputs.change_npz(content, rng)), allow_pickle=False) as loaded:
            arrays = dict(loaded)
        arrays.pop("sha256", None)
        arrays["sha256"] = np.frombuffer(packed._digest(arrays), dtype=np.uint8)
        made = io.BytesIO()
        np.savez(made, **arrays)
        return made.getvalue()

    def read_neighbours(content: bytes) -> None:
        _read_graph(PlanetoidFiles("ind.x", {"graph": content}, "folder"))

    def read_array(content: bytes) -> None:
        _to_array(read_pickle(content, "ind.x.y"))

    lists = inputs.pickled({0: [1, 2], 1: [0], 2: [0]})
    array = inputs.pickled(np.arange(6, dtype=np.int32).reshape(2, 3))
    cached = folder / "cached.npz"
    return {
        "cached.npz": Target(
            cached.read_bytes(),
            (with_digest, inputs.change_bytes),
            _writing(cached, lambda: use(packed.read_packed(cached))),
        ),
        "ind.x.graph": Target(lists, (inputs.change_pickle,), read_neighbours),
        "ind.x.y": Target(array, (inputs.change_pickle,), read_array),
    }


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    in_memory = Path("/dev/shm")
    place = in_memory if os.access(in_memory, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="graphconv-fuzz-", dir=place)
