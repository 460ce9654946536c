"""GRAND: random propagation with consistency (Feng et al., NeurIPS 2020).

Training drops all features of some nodes. What is left is averaged over 0, 1, ..., K steps of the
graph, and a multi-layer perceptron predicts from that:

    X-bar = 1 / (K + 1) sum_k A-hat^k (mask X),   Z = f(X-bar)

As with its authors, what is kept is not made larger in training: prediction takes (1 - rate) X for
mask X. A node thus learns to do without any one of its neighbours. Several copies of the masks are
drawn at a time, and all nodes, labelled or not, are made to agree with the copies' sharpened mean;
see `graphconv.engine.agreement`. K is `steps`. The mask commutes with the first weight, so what is
propagated is X W, which is narrow. The authors drop out elements of X-bar; here those of X are.
"""

from __future__ import annotations

from graphconv.models.gcn import GCN
from graphconv.models.operations import Value, drop_rows
from graphconv.models.propagation import Propagation, require_renormalised
from graphconv.models.settings import Settings


class GRAND(GCN):
    """A perceptron on features that were averaged over several steps, with nodes left out."""

    usual_copies = 4

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        require_renormalised(graph, "grand")
        super().__init__(n_features, n_classes, settings, graph)

    def mixed(self, h: Value, layer: int, graph: Propagation) -> Value:
        if layer > 0:
            return h
        start = drop_rows(h, self.settings.row_dropout)
        total = start
        for _ in range(self.settings.steps):  # Horner's scheme
            total = start + graph.propagate(total)
        kept = 1 - self.settings.row_dropout  # undoes that what dropout keeps is made larger
        return kept / (self.settings.steps + 1) * total
