"""Places: where each node lies on the labelling page's map."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.graph.scaling import fit_scaler
from graphconv.models.propagation import renormalised_adjacency
from graphconv.report._layouts import embedding_map
from graphconv.training.fitted import FittedGCN

Places = npt.NDArray[np.float32]
_WIDTH = 48


def place_nodes(graph: Graph, fitted: FittedGCN | None = None) -> Places:
    """X and y of every node, from -1 to 1: by what a model makes of them, or by the data alone."""
    rows = _spread_features(graph) if fitted is None else fitted.embedding()
    places = embedding_map(rows[: graph.n_entities])
    if len(places):
        places = places - (places.max(axis=0) + places.min(axis=0)) / 2
    limit = max(float(np.abs(places).max(initial=0)), 1e-9)
    return np.ascontiguousarray(places / limit, dtype=np.float32)


def _spread_features(graph: Graph) -> Places:
    """A-hat^2 X P: features as the graph spreads them, in a few random directions P.

    Distances stay about the same (Johnson and Lindenstrauss), and no wide matrix is ever made.
    """
    rng = np.random.default_rng(0)
    features = fit_scaler(graph.features, "auto").transform(graph.features)
    directions = rng.normal(size=(graph.n_features, _WIDTH)).astype(np.float32)
    rows = directions if features is None else np.asarray(features @ directions)
    step = renormalised_adjacency(graph)
    for _ in range(2):
        rows = step @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Places = (rows / np.maximum(length, 1e-12)).astype(np.float32)
    return unit
