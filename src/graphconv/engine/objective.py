"""What training minimises: the loss of labelled batches, its gradient, and its figures.

A model and a LabelledBatch enter; loss and accuracy of each replica leave, and gradients for the
parameters if they are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.engine.batches import Batch
from graphconv.engine.steps import Array, Chain
from graphconv.models.gcn import GCN, GraphConvolution
from graphconv.models.settings import Settings

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """A batch with what its targets should be, and how much each of them counts in the loss."""

    batch: Batch
    labels: npt.NDArray[Any]  # (n_targets,) class numbers or (n_targets, n_classes) indicators
    weight: FloatArray  # (n_targets,), adds up to 1
    total: float  # what the weights added up to: how much the batch counts among others

    @classmethod
    def make(
        cls, batch: Batch, labels: npt.NDArray[np.int64], class_weight: FloatArray | None = None
    ) -> LabelledBatch:
        """Labels are those of all nodes; the batch picks its targets'. Weights are by class."""
        own = labels if batch.is_whole else labels[batch.rows[: batch.n_within[0]]]
        return cls.of_targets(batch, own, class_weight)

    @classmethod
    def of_targets(
        cls, batch: Batch, own: npt.NDArray[np.int64], class_weight: FloatArray | None = None
    ) -> LabelledBatch:
        """The same, given the targets' labels."""
        weight = np.ones(len(own))
        if class_weight is not None:
            # Of several labels a node, the heaviest counts.
            weight = class_weight[own] if own.ndim == 1 else (own * class_weight).max(axis=1)
        # The kernels want indicators as floats and class numbers as int64.
        wanted = own.astype(batch.degree.dtype if own.ndim == 2 else np.int64, copy=False)
        total = float(weight.sum())
        weight /= max(total, 1e-300)
        return cls(batch, wanted, weight, total)


class Group(Protocol):
    """Processes that train together, each on its share of every batch."""

    def add_up(self, values: Tensor, what: str = ...) -> None:
        """Replace values by their sum over all processes."""


class Objective:
    """The loss of a model, with gradients for its parameters.

    Parameters
    ----------
    model : GCN
        Its parameters may change in place only.
    settings : Settings
        Those of the L2 penalty.
    group : Group, optional
        The processes that train together.
    """

    def __init__(self, model: GCN, settings: Settings, group: Group | None = None) -> None:
        self.model = model
        self.group = group
        self.weight_decay = settings.weight_decay
        layers = [cast(GraphConvolution, layer) for layer in model.layers]
        self.penalised = layers if settings.weight_decay_layers == "all" else layers[:1]
        self._penalised_arrays = [layer.weight.detach().numpy() for layer in self.penalised]
        self._parameters = list(model.parameters())
        self._chains: dict[bool, WeakKeyDictionary[LabelledBatch, Chain | None]] = {
            drops: WeakKeyDictionary() for drops in (False, True)
        }

    def gradients(
        self, labelled: LabelledBatch, epoch: int
    ) -> tuple[Sequence[Tensor | Array], FloatArray, float]:
        """Gradients, each replica's loss and accuracy, and how much the batch counts."""
        chain = self._chain(labelled, drops=True)
        if chain is not None:
            dropouts = self.model.dropouts(epoch)
            value = chain.forward(dropouts, for_gradients=True)
            slope, figures = self._loss(labelled, value, with_gradient=True)
            slopes = chain.gradients(slope.reshape(value.shape), dropouts)
            return slopes, figures, labelled.total
        logits = self.model.forward(labelled.batch, epoch)
        slope, figures = self._loss(labelled, logits.detach().numpy(), with_gradient=True)
        mean, total = _mean_figures(figures, labelled.total, self.group)
        slope *= labelled.total / total  # this process's share of the batch
        loss: Any = _Loss  # whose `apply` torch has no types for
        found = torch.autograd.grad(loss.apply(logits, torch.from_numpy(slope)), self._parameters)
        return found if self.group is None else _added_up(found, self.group), mean, total

    def evaluate(self, labelled: LabelledBatch) -> tuple[FloatArray, float]:
        """Each replica's loss and accuracy without dropout, and how much the batch counts.

        Nodes count by their weight. For several labels a node, accuracy is the share of (node,
        class) pairs that are right. Both together are an array of shape (2, n_replicas).
        """
        chain = self._chain(labelled, drops=False)
        if chain is not None:
            logits = chain.forward(self.model.dropouts(None))
        else:
            with torch.no_grad():
                logits = self.model.forward(labelled.batch).numpy()
        return _mean_figures(self._loss(labelled, logits)[1], labelled.total, self.group)

    def penalty(self) -> FloatArray:
        """The L2 penalty of each replica, which Adam sees to and the loss does not hold."""
        squares = np.zeros(len(self.model.seeds))
        for weight in self._penalised_arrays:
            n_in, n_terms, n_replicas, n_out = weight.shape
            # Down the columns first: a replica's sum then runs as it would alone.
            rows = weight.reshape(n_in * n_terms, n_replicas * n_out)
            columns = np.einsum("ij,ij->j", rows, rows)
            squares += columns.reshape(n_replicas, n_out).sum(axis=1, dtype=np.float64)
        return self.weight_decay / 2 * squares

    def _loss(
        self, labelled: LabelledBatch, logits: Array, with_gradient: bool = False
    ) -> tuple[Array, FloatArray]:
        # A process of several may have no rows of a batch: then nothing tells the width but this.
        n_classes = math.prod(logits.shape[1:]) // len(self.model.seeds)
        by_replica = logits.reshape(len(logits), len(self.model.seeds), n_classes)
        found: tuple[Array, FloatArray] = self.model.propagation.kernels.loss(
            by_replica, labelled.labels, labelled.weight, with_gradient
        )
        return found

    def _chain(self, labelled: LabelledBatch, drops: bool) -> Chain | None:
        chains = self._chains[drops]
        if labelled not in chains:
            chain = None if self.group else self.model.chain(labelled.batch, drops)
            if chain is not None:
                assert list(map(id, chain.weights)) == list(map(id, self._parameters))
            chains[labelled] = chain
        return chains[labelled]


class _Loss(torch.autograd.Function):
    """A scalar with the given gradient.

    Torch can be given the gradient of a matrix too, but loads its compiler, 0.8 seconds, to compare
    their shapes.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return logits.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0], None


def _added_up(slopes: Sequence[Tensor], group: Group) -> tuple[Tensor, ...]:
    """Gradients summed over all processes, in one message."""
    flat = torch.cat([slope.reshape(-1) for slope in slopes])
    group.add_up(flat, "gradients")
    parts = torch.split(flat, [slope.numel() for slope in slopes])
    return tuple(part.view_as(slope) for part, slope in zip(parts, slopes, strict=True))


def _mean_figures(
    figures: FloatArray, total: float, group: Group | None
) -> tuple[FloatArray, float]:
    """Figures of the batch of all processes, and how much it counts."""
    if group is None:
        return figures, total
    sums = torch.from_numpy(np.append(total * figures.ravel(), total))
    group.add_up(sums)
    return sums[:-1].numpy().reshape(figures.shape) / float(sums[-1]), float(sums[-1])
