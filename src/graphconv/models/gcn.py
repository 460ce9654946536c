"""GCN: the model of the paper.

For two layers and the default rule this is equation 9, Z = softmax(A-hat ReLU(A-hat X W0) W1). The
softmax is the loss's, so logits leave.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import add

from graphconv.models.model import Model
from graphconv.models.operations import Parameter, Value, activate, dropout, normalise
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings


class GCN(Model):
    """Graph convolutional network of any depth; with the rule "none" a multi-layer perceptron."""

    normalises_first = True  # before the activation, and not after it

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        super().__init__(n_features, n_classes, settings, graph)
        self.layers = [
            (
                self.weight(f"layers.{k}.weight", n_in, n_out, graph.n_terms),
                self._bias(k, n_out),
                self._norm(k, n_out),
            )
            for k, (n_in, n_out) in enumerate(pairwise([n_features, *settings.hidden, n_classes]))
        ]

    def _bias(self, k: int, width: int) -> Parameter | None:
        # Batch normalisation takes a bias away again: only rounding would move it.
        is_taken = (
            self.normalises_first
            and self.settings.normalisation == "batch"
            and k < len(self.settings.hidden)
        )
        return (
            None if is_taken or not self.settings.bias else self.vector(f"layers.{k}.bias", width)
        )

    def _norm(self, k: int, width: int) -> list[Parameter] | None:
        kind = self.settings.normalisation
        if kind == "none" or k == len(self.settings.hidden):
            return None  # logits stay as they are
        starts = {"gain": 1.0, "shift": 0.0}
        if kind == "batch":
            starts |= {"mean": 0.0, "variance": 1.0}
        return [self.vector(f"layers.{k}.norm.{own}", width, at) for own, at in starts.items()]

    def dropped(self, h: Value, layer: int) -> Value:
        """What is left of a layer's input in training."""
        return dropout(h, self.dropout_rate(layer))

    def activated(self, h: Value, norm: list[Parameter] | None) -> Value:
        """What a hidden layer gives."""
        function = self.settings.activation
        if norm is None:
            return activate(h, function)
        if self.normalises_first:
            return activate(normalise(h, *norm), function)
        return normalise(activate(h, function), *norm)

    def mixed(self, h: Value, layer: int, graph: Propagation) -> Value:
        """What the graph makes of a layer's product: A-hat H W."""
        return graph.propagate(h)

    def logits(self, x: Value, graph: Propagation) -> Value:
        h = x
        hidden: list[Value] = []
        for k, (weight, bias, norm) in enumerate(self.layers):
            if self.settings.jumping_knowledge and k == len(self.layers) - 1:
                h = reduce(add, hidden)
            entered = self.dropped(h, k)
            h = self.mixed(entered @ weight, k, graph)
            h = h if bias is None else h + bias
            if k < len(self.layers) - 1:
                h = self.activated(h, norm)
                if self.settings.residual and k > 0 and h.width == entered.width:
                    h = h + entered
                hidden.append(h)
        return h  # Z = softmax(h): the loss takes h itself
