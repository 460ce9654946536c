"""Graph: the one checked type that all data passes through, and what needs no model."""

from graphconv.graph.graph import (
    Duplicates,
    Features,
    FloatArray,
    Graph,
    IntArray,
    SelfLoops,
    adjacency_from_edges,
    encode_labels,
    symmetrise,
)

__all__ = [
    "Duplicates",
    "Features",
    "FloatArray",
    "Graph",
    "IntArray",
    "SelfLoops",
    "adjacency_from_edges",
    "encode_labels",
    "symmetrise",
]
