"""Fuzzing, the targets: for every kind of file a valid one, its changes, and who reads it.

A reader may refuse a file with a ValueError, TypeError or OSError of one line, or take it. It must
do nothing else: not end the process, hang, raise another error or take much memory.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import safetensors.torch
import scipy.sparse as sp

from graphconv import Graph, load_dataset, read_tables
from graphconv.io.datasets import _packed as packed
from graphconv.io.datasets.planetoid import PlanetoidFiles, _read_graph, _to_array, read_pickle
from graphconv.io.files import file_checksum
from graphconv.io.graph_files import read_graph_file, write_npz
from graphconv.results.provenance import verify_provenance, write_provenance
from graphconv.storage.stored_graph import open_graph, store_graph, verify_graph
from graphconv.training.checkpoint import SavedModel, load_model, read_identity, save_model
from graphconv.training.fit import fit_gcn
from scripts import fuzz_inputs as inputs

Changes = tuple[inputs.Change, ...]


@dataclass(frozen=True)
class Target:
    """A kind of file: a valid one, how it is changed, and what reads it."""

    content: bytes
    changes: Changes
    read: Callable[[bytes], None]

    def made(self, rng: random.Random) -> bytes:
        return rng.choice(self.changes)(self.content, rng)


def small_graph() -> Graph:
    rng = np.random.default_rng(0)
    adjacency = sp.random_array((12, 12), density=0.3, rng=rng)
    features = sp.random_array((12, 4), density=0.5, rng=rng).astype(np.float32)
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
    if graph.features is not None:
        graph.features @ np.ones(graph.n_features)
    graph.node_ids[: graph.n_nodes].tolist()


def all_targets(folder: Path) -> dict[str, Target]:
    """Every kind of file, with `folder` to write them to."""
    graph = small_graph()
    return {
        **_graph_files(folder, graph),
        **_stored(folder, graph),
        **_models(folder),
        **_tables(folder),
        **_data_sets(folder, graph),
    }


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
    text = (inputs.change_text, inputs.change_bytes)
    archive = (inputs.change_npz, inputs.change_npz, inputs.change_bytes)
    return {
        name: Target((folder / name).read_bytes(), changes, _reading_graph(folder / name))
        for name, changes in {
            "own.npz": archive,
            "scipy.npz": archive,
            "g.graphml": text,
            "g.gexf": text,
            "g.mtx": text,
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
    changes = (inputs.change_bytes,)
    targets[f"stored/{ids}"] = Target(kept[ids], changes, partial(read, file=ids))

    def read_manifest(content: bytes) -> None:
        (place / "manifest.json").write_bytes(content)
        use(open_graph(place))
        verify_graph(place)

    either = (inputs.change_json, inputs.change_json, inputs.change_bytes)
    targets["stored/manifest.json"] = Target(kept["manifest.json"], either, read_manifest)
    return targets


def _models(folder: Path) -> dict[str, Target]:
    place = folder / "model"
    fitted = fit_gcn(load_dataset("karate"), overrides={"max_epochs": 2, "hidden": (3,)})
    save_model(SavedModel(fitted), place)
    write_provenance(place, [], {})

    def read(content: bytes, file: str) -> None:
        (place / file).write_bytes(content)
        try:
            load_model(place).fitted.probabilities()
        finally:
            (place / file).write_bytes(kept[file])

    kept = {path.name: path.read_bytes() for path in place.iterdir()}
    tensors = safetensors.torch.load(kept["model.safetensors"])
    training = safetensors.torch.save(tensors, {"identity": '{"seed": 1}'})
    either = (inputs.change_json, inputs.change_json, inputs.change_bytes)
    weights = (inputs.change_safetensors, inputs.change_safetensors, inputs.change_bytes)
    provenance = place / "provenance.json"
    return {
        "model.json": Target(kept["model.json"], either, partial(read, file="model.json")),
        "model.safetensors": Target(
            kept["model.safetensors"], weights, partial(read, file="model.safetensors")
        ),
        "training": Target(
            training,
            weights,
            _writing(folder / "x.training", lambda: read_identity(folder / "x.training")),
        ),
        "provenance.json": Target(
            kept["provenance.json"],
            either,
            _writing(provenance, lambda: verify_provenance(place)),
        ),
    }


def _tables(folder: Path) -> dict[str, Target]:
    edges = b"source,target,weight\na,b,1\nb,c,2.5\nc,d,1\n"
    nodes = b"id,label,age,town,split\na,x,1,Oslo,train\nb,y,2,Rome,\nc,,3,Oslo,\nd,x,4,Rome,test\n"
    (folder / "edges.csv").write_bytes(edges)
    (folder / "nodes.csv").write_bytes(nodes)
    text = (inputs.change_text, inputs.change_text, inputs.change_bytes)

    def read(content: bytes, changed: str) -> None:
        paths = {"edges": folder / "edges.csv", "nodes": folder / "nodes.csv"}
        paths[changed] = folder / f"changed-{changed}.csv"
        paths[changed].write_bytes(content)
        use(read_tables(paths["edges"], paths["nodes"], categorical=("town",)).graph)

    return {
        "edges.csv": Target(edges, text, partial(read, changed="edges")),
        "nodes.csv": Target(nodes, text, partial(read, changed="nodes")),
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
    return tempfile.TemporaryDirectory(prefix="graphconv-fuzz-")
