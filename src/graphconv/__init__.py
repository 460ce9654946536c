"""graphconv: label every node of a graph from a few labelled ones.

The public names are imported when first used, so that `import graphconv` is instant and torch is
loaded only where a model is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from graphconv.estimators.auto import AutoClassifier
    from graphconv.estimators.baselines import make_estimator
    from graphconv.estimators.baselines.boosted_trees import BoostedTreesClassifier
    from graphconv.estimators.baselines.committee import CommitteeClassifier
    from graphconv.estimators.baselines.deepwalk import DeepWalkClassifier
    from graphconv.estimators.baselines.ica import ICAClassifier
    from graphconv.estimators.baselines.label_propagation import LabelPropagationClassifier
    from graphconv.estimators.baselines.manifold import ManifoldClassifier
    from graphconv.estimators.baselines.mlp import MLPClassifier
    from graphconv.estimators.baselines.planetoid import PlanetoidIClassifier, PlanetoidTClassifier
    from graphconv.estimators.baselines.semi_embedding import SemiEmbeddingClassifier
    from graphconv.estimators.baselines.sgc import SGCClassifier
    from graphconv.estimators.compare import compare
    from graphconv.estimators.gcn import GCNClassifier
    from graphconv.estimators.saving import load_model, save_model
    from graphconv.graph import Graph, adjacency_from_edges, encode_labels, symmetrise
    from graphconv.graph.spectral import chebyshev_filter, spectral_filter
    from graphconv.graph.splits import fraction_split, kfold_splits, random_split
    from graphconv.io.datasets import list_datasets, load_dataset
    from graphconv.io.inspection import inspect
    from graphconv.io.pyg import from_pyg
    from graphconv.io.readers import from_frames, from_networkx, read_tables
    from graphconv.io.table_graph import LoadedGraph
    from graphconv.models.settings import Settings
    from graphconv.results.explanation import Contribution, Explanation
    from graphconv.results.predictions import Predictions
    from graphconv.results.suggest import Suggestion
    from graphconv.storage.partition import PartSummary, partition_graph
    from graphconv.storage.stored_graph import open_graph, store_graph
    from graphconv.training.fit import Watch, fit_gcn
    from graphconv.training.fitted import FittedGCN

_HOME = {
    "AutoClassifier": "estimators.auto",
    "BoostedTreesClassifier": "estimators.baselines.boosted_trees",
    "CommitteeClassifier": "estimators.baselines.committee",
    "Contribution": "results.explanation",
    "DeepWalkClassifier": "estimators.baselines.deepwalk",
    "Explanation": "results.explanation",
    "FittedGCN": "training.fitted",
    "GCNClassifier": "estimators.gcn",
    "Graph": "graph",
    "ICAClassifier": "estimators.baselines.ica",
    "LabelPropagationClassifier": "estimators.baselines.label_propagation",
    "LoadedGraph": "io.table_graph",
    "MLPClassifier": "estimators.baselines.mlp",
    "ManifoldClassifier": "estimators.baselines.manifold",
    "PartSummary": "storage.partition",
    "PlanetoidIClassifier": "estimators.baselines.planetoid",
    "PlanetoidTClassifier": "estimators.baselines.planetoid",
    "Predictions": "results.predictions",
    "SGCClassifier": "estimators.baselines.sgc",
    "SemiEmbeddingClassifier": "estimators.baselines.semi_embedding",
    "Settings": "models.settings",
    "Suggestion": "results.suggest",
    "Watch": "training.fit",
    "adjacency_from_edges": "graph",
    "chebyshev_filter": "graph.spectral",
    "compare": "estimators.compare",
    "encode_labels": "graph",
    "fit_gcn": "training.fit",
    "fraction_split": "graph.splits",
    "from_frames": "io.readers",
    "from_networkx": "io.readers",
    "from_pyg": "io.pyg",
    "inspect": "io.inspection",
    "kfold_splits": "graph.splits",
    "list_datasets": "io.datasets",
    "load_dataset": "io.datasets",
    "load_model": "estimators.saving",
    "make_estimator": "estimators.baselines",
    "open_graph": "storage.stored_graph",
    "partition_graph": "storage.partition",
    "random_split": "graph.splits",
    "read_tables": "io.readers",
    "save_model": "estimators.saving",
    "spectral_filter": "graph.spectral",
    "store_graph": "storage.stored_graph",
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
