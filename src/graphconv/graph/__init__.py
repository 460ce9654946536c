"""Graph: the one checked type that all data passes through, and what needs no model.

The names are imported when first used: `graphconv.graph.names` must not bring in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'graphconv.graph' has no attribute {name!r}")
    from graphconv.graph import graph

    return getattr(graph, name)
