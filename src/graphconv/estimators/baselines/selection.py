"""Keep the weights that did best on the validation nodes, and stop when they no longer improve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class BestOnValidation:
    """The best weights so far, by validation accuracy and, where that ties, loss.

    Parameters
    ----------
    model : torch.nn.Module
    labels : tensor of shape (n_validation,)
        Without any, the last weights count as the best and training is never stopped.
    patience : int
        How many checks without improvement are enough.
    """

    def __init__(self, model: nn.Module, labels: Tensor, patience: int) -> None:
        self.model = model
        self.labels = labels
        self.patience = patience
        self.best: tuple[float, float] | None = None
        self.weights: dict[str, Tensor] = {}
        self.n_since = 0

    @torch.no_grad()
    def check(self, make_logits: Callable[[], Tensor]) -> bool:
        """Look at validation logits, (n_validation, n_classes); True asks to stop."""
        if len(self.labels) == 0:
            return False
        logits = make_logits()
        accuracy = float((logits.argmax(dim=1) == self.labels).float().mean())
        score = (accuracy, -float(functional.cross_entropy(logits, self.labels)))
        if self.best is None or score > self.best:
            self.best, self.n_since = score, 0
            self._keep(self.model.state_dict())
        else:
            self.n_since += 1
        return self.n_since >= self.patience

    def _keep(self, weights: dict[str, Tensor]) -> None:
        if not self.weights:
            self.weights = {name: value.clone() for name, value in weights.items()}
        # Into the same memory: with many features, fresh memory costs more than an epoch.
        for name, value in weights.items():
            self.weights[name].copy_(value)

    def restore(self) -> None:
        """Give the model its best weights back."""
        if self.weights:
            self.model.load_state_dict(self.weights)


def labels_of(labels: Any, nodes: Any) -> Tensor:
    """Labels of some nodes as a tensor."""
    return torch.from_numpy(labels[nodes].copy())
