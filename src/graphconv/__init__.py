"""graphconv: label every node of a graph from a few labelled ones.

The public names are imported when first used, so that `import graphconv` is instant and torch is
loaded only where a model is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from graphconv.estimators.gcn import GCNClassifier
    from graphconv.graph import Graph, adjacency_from_edges, encode_labels, symmetrise
    from graphconv.graph.spectral import spectral_filter
    from graphconv.graph.splits import fraction_split, kfold_splits, random_split
    from graphconv.io.datasets import list_datasets, load_dataset
    from graphconv.io.inspection import inspect
    from graphconv.io.pyg import from_pyg
    from graphconv.io.readers import from_frames, from_networkx, read_tables
    from graphconv.models.settings import Settings

_HOME = {
    "GCNClassifier": "estimators.gcn",
    "Graph": "graph",
    "Settings": "models.settings",
    "adjacency_from_edges": "graph",
    "encode_labels": "graph",
    "fraction_split": "graph.splits",
    "from_frames": "io.readers",
    "from_networkx": "io.readers",
    "from_pyg": "io.pyg",
    "inspect": "io.inspection",
    "kfold_splits": "graph.splits",
    "list_datasets": "io.datasets",
    "load_dataset": "io.datasets",
    "random_split": "graph.splits",
    "read_tables": "io.readers",
    "spectral_filter": "graph.spectral",
    "symmetrise": "graph",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "plot":  # a module: graphconv.plot.embedding(...)
        return importlib.import_module("graphconv.report.plot")
    if name not in _HOME:
        raise AttributeError(f"module 'graphconv' has no attribute {name!r}")
    return getattr(importlib.import_module(f"graphconv.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
