"""GRAND: random propagation with consistency (Feng et al., NeurIPS 2020).

Training drops all features of some nodes. What is left is averaged over 0, 1, ..., K steps of the
graph, and a multi-layer perceptron predicts from that:

    X-bar = 1 / (K + 1) sum_k A-hat^k (mask X),   Z = f(X-bar)

As with its authors, what is kept is not made larger in training: prediction takes (1 - rate) X for
mask X. A node thus learns to do without any one of its neighbours. Several copies of the masks are
drawn at a time, and all nodes, labelled or not, are made to agree with the copies' sharpened mean;
see `graphconv.kernels.reference.agreement`. K is `steps`. The mask commutes with the first weight,
so what is propagated is X W, which is narrow. The authors drop out elements of X-bar; here those of
X are.

With batch normalisation they normalise X-bar, with a gain for each column, and what the activation
gives. Rows of X that add up to 1 make columns of X-bar vary by so little that the former mostly
multiplies by a number, which is what is done here. Dropout then takes whole columns, which to any
one node is the same as elements of X-bar and commutes as well: averaging undoes that of X.
"""

from __future__ import annotations

from graphconv.models.gcn import GCN
from graphconv.models.operations import Value, drop_columns, drop_rows
from graphconv.models.propagation import Propagation, require_renormalised
from graphconv.models.settings import Settings

# What the authors' normalisation multiplies most columns of X-bar by, on Pubmed 240 to 280.
ENLARGED = 256.0


class GRAND(GCN):
    """A perceptron on features that were averaged over several steps, with nodes left out."""

    usual_copies = 4

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        require_renormalised(graph, "grand")
        self.is_normalised = settings.normalisation == "batch"
        self.normalises_first = not self.is_normalised
        super().__init__(n_features, n_classes, settings, graph)
        self.gain = self.weight("gain", n_features, 1, start=1.0) if self.is_normalised else None

    def dropped(self, h: Value, layer: int) -> Value:
        if layer == 0 and self.is_normalised:
            return drop_columns(h, self.dropout_rate(layer), self.gain)
        return super().dropped(h, layer)

    def mixed(self, h: Value, layer: int, graph: Propagation) -> Value:
        if layer > 0:
            return h
        start = drop_rows(h, self.settings.row_dropout)
        total = start
        for _ in range(self.settings.steps):  # Horner's scheme
            total = start + graph.propagate(total)
        kept = 1 - self.settings.row_dropout  # undoes that what dropout keeps is made larger
        factor = ENLARGED if self.is_normalised else 1.0
        return factor * kept / (self.settings.steps + 1) * total
