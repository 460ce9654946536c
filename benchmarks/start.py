"""Fresh processes: what commands take from the first import to the last file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLE = Path(__file__).resolve().parent.parent / "scripts" / "make_example.py"


def end_to_end(quick: bool) -> dict[str, Any]:
    """Median seconds of commands and of imports, each a process, taking turns.

    A small table of one's own is that of `scripts/make_example.py`: 600 nodes with a text, a
    category and a number. With --preset robust it is trained on at once, as Cora is; without, the
    method is chosen first, by some thirty trainings.

    Bytecode is at hand, as after `pip install`: a first round, which does not count, writes it.
    """
    seconds = defaultdict(list)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(1 + (3 if quick else 7)):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, EXAMPLE, folder], check=True, stdout=subprocess.DEVNULL)
            for name, arguments in _processes(folder).items():
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, *arguments],
                    check=True,
                    stdout=subprocess.DEVNULL,
                    cwd=folder,
                    env=environment,
                )
                seconds[name].append(time.perf_counter() - begin)
    median = {name: float(np.median(taken[1:])) for name, taken in seconds.items()}
    train, alone = median["train cora"], median["import torch"]
    return {
        "train_seconds": train,
        "import_seconds": alone,
        "ratio": train / alone,
        "seconds": median,
    }


def _processes(folder: str) -> dict[str, list[str]]:
    tables = ["--edges", f"{folder}/edges.csv", "--nodes", f"{folder}/nodes.csv"]
    classifier = "from graphconv import GCNClassifier"
    imports = {
        "import torch": "import torch",
        "import torch and scikit-learn": "import torch, sklearn",
        "import GCNClassifier": classifier,
        "import GCNClassifier and what fit needs": f"{classifier}; import graphconv.training.fit",
    }
    commands = {
        "--help": ["--help"],
        "train cora": ["train", "cora", "-q", "-o", "cora"],
        "train on a table": ["train", *tables, "--preset", "robust", "-q", "-o", "model"],
        "train on a table, method chosen": ["train", *tables, "-q", "-o", "chosen"],
        "inspect": ["inspect", *tables],
        "predict": ["predict", "model", "-q"],
        "verify": ["verify", "model"],
    }
    return {
        **{name: ["-c", code] for name, code in imports.items()},
        **{name: ["-m", "graphconv", *arguments] for name, arguments in commands.items()},
    }
