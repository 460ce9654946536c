"""GCN: the model of the paper.

For two layers and the default rule this is equation 9, Z = softmax(A-hat ReLU(A-hat X W0) W1). The
softmax is the loss's, so logits leave.
"""

from __future__ import annotations

from itertools import pairwise

from graphconv.models.model import Model
from graphconv.models.operations import Parameter, Value, activate, dropout, normalise
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings


class GCN(Model):
    """Graph convolutional network of any depth; with the rule "none" a multi-layer perceptron."""

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        super().__init__(n_features, n_classes, settings, graph)
        self.layers = [
            (
                self.weight(f"layers.{k}.weight", n_in, n_out, graph.n_terms),
                self.vector(f"layers.{k}.bias", n_out) if settings.bias else None,
                self._norm(k, n_out) if settings.normalisation == "layer" else None,
            )
            for k, (n_in, n_out) in enumerate(pairwise([n_features, *settings.hidden, n_classes]))
        ]

    def _norm(self, k: int, width: int) -> tuple[Parameter, Parameter] | None:
        if k == len(self.settings.hidden):
            return None  # logits stay as they are
        gain, shift = f"layers.{k}.norm.gain", f"layers.{k}.norm.shift"
        return self.vector(gain, width, start=1.0), self.vector(shift, width)

    def mixed(self, h: Value, layer: int, graph: Propagation) -> Value:
        """What the graph makes of a layer's product: A-hat H W."""
        return graph.propagate(h)

    def logits(self, x: Value, graph: Propagation) -> Value:
        h = x
        for k, (weight, bias, norm) in enumerate(self.layers):
            entered = dropout(h, self.dropout_rate(k))
            h = self.mixed(entered @ weight, k, graph)
            h = h if bias is None else h + bias
            h = h if norm is None else normalise(h, *norm)
            if k < len(self.layers) - 1:
                h = activate(h, self.settings.activation)
                if self.settings.residual and k > 0 and h.width == entered.width:
                    h = h + entered
        return h  # Z = softmax(h): the loss takes h itself
