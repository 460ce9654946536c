"""graphconv: label every node of a graph from a few labelled ones.

The public names are imported when first used, so that `import graphconv` is instant and torch is
loaded only where a model is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graphconv.datasets import list_datasets, load_dataset
    from graphconv.estimator import GCNClassifier
    from graphconv.graph import Graph, adjacency_from_edges, encode_labels, symmetrise
    from graphconv.pyg import from_pyg
    from graphconv.readers import from_frames, from_networkx, read_tables
    from graphconv.settings import Settings
    from graphconv.splits import fraction_split, kfold_splits, random_split

_HOME = {
    "GCNClassifier": "estimator",
    "Graph": "graph",
    "Settings": "settings",
    "adjacency_from_edges": "graph",
    "encode_labels": "graph",
    "fraction_split": "splits",
    "from_frames": "readers",
    "from_networkx": "readers",
    "from_pyg": "pyg",
    "kfold_splits": "splits",
    "list_datasets": "datasets",
    "load_dataset": "datasets",
    "random_split": "splits",
    "read_tables": "readers",
    "symmetrise": "graph",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "plot":  # a module: graphconv.plot.embedding(...)
        return importlib.import_module("graphconv.plot")
    if name not in _HOME:
        raise AttributeError(f"module 'graphconv' has no attribute {name!r}")
    return getattr(importlib.import_module(f"graphconv.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
