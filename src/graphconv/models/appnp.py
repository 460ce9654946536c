"""APPNP: predict, then propagate (Gasteiger, Bojchevski and Guennemann, ICLR 2019).

A multi-layer perceptron predicts each node by itself, H = f(X). Its predictions then walk the
graph, and at every step a node goes back to its own with probability alpha:

    Z_0 = H,   Z_k+1 = (1 - alpha) A-hat Z_k + alpha H

which is personalised PageRank after infinitely many steps. A node thus sees `steps` hops far with
no more parameters than the perceptron has. `restart` is alpha. The authors drop out entries of
A-hat as well; here only inputs of layers are.
"""

from __future__ import annotations

from graphconv.models.gcn import GCN
from graphconv.models.operations import Value
from graphconv.models.propagation import Propagation, require_renormalised
from graphconv.models.settings import Settings


class APPNP(GCN):
    """The layers of a GCN without its graph, then steps of propagation."""

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        require_renormalised(graph, "appnp")
        super().__init__(n_features, n_classes, settings, graph)

    def mixed(self, h: Value, layer: int, graph: Propagation) -> Value:
        return h

    def logits(self, x: Value, graph: Propagation) -> Value:
        alpha = self.settings.restart
        h = super().logits(x, graph)
        z = h
        for _ in range(self.settings.steps):
            z = (1 - alpha) * graph.propagate(z) + alpha * h
        return z
