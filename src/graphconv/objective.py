"""What training minimises: the loss of labelled batches, its gradient, and its figures.

A model and a LabelledBatch enter; loss and accuracy of each replica leave, and gradients for the
parameters if they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.batching import Batch
from graphconv.model import GCN, GraphConvolution
from graphconv.settings import Settings
from graphconv.tape import Tape

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
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
    parameters : mapping of str to Tensor
        Those to make gradients for, in their order.
    group : Group, optional
        The processes that train together.
    """

    def __init__(
        self, model: GCN, parameters: Mapping[str, Tensor], group: Group | None = None
    ) -> None:
        self.model = model
        self.parameters = list(parameters.values())
        self.group = group
        # The first batch tells; a process can't go back alone, so a group need not try.
        self._has_tape = group is None

    def gradients(
        self, labelled: LabelledBatch, epoch: int
    ) -> tuple[Sequence[Tensor], FloatArray, float]:
        """Gradients, each replica's loss and accuracy, and how much the batch counts."""
        tape = Tape() if self._has_tape else None
        with tape or nullcontext():
            logits = self.model.forward(labelled.batch, epoch)
        gradient, figures = self.model.propagation.kernels.loss(
            logits.detach().numpy(), labelled.labels, labelled.weight, with_gradient=True
        )
        mean, total = _mean_figures(figures, labelled.total, self.group)
        slope = torch.from_numpy(gradient)
        if tape is not None:
            slopes = tape.gradients(logits, slope, self.parameters)
            if slopes is not None:
                return slopes, mean, total
            self._has_tape = False
            return self.gradients(labelled, epoch)
        if self.group is None:
            return torch.autograd.grad(_Loss.apply(logits, slope), self.parameters), mean, total
        slope *= labelled.total / total
        own = torch.autograd.grad(_Loss.apply(logits, slope), self.parameters)
        return _added_up(own, self.group), mean, total


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
    parts = flat.split([slope.numel() for slope in slopes])
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


def evaluate(
    model: GCN, labelled: LabelledBatch | Iterable[LabelledBatch], group: Group | None = None
) -> tuple[FloatArray, FloatArray]:
    """Loss and accuracy of each replica on a batch or on several, without dropout.

    Nodes count by their weight. For several labels a node, accuracy is the share of (node, class)
    pairs that are right.
    """
    parts = [labelled] if isinstance(labelled, LabelledBatch) else labelled
    found = [_mean_figures(_figures(model, part), part.total, group) for part in parts]
    if len(found) == 1:
        loss, accuracy = found[0][0]
        return loss, accuracy
    shares = np.array([total for _, total in found])
    shares /= shares.sum()
    loss, accuracy = np.tensordot(shares, np.array([figures for figures, _ in found]), axes=1)
    return loss, accuracy


def _figures(model: GCN, labelled: LabelledBatch) -> FloatArray:
    with torch.no_grad():
        logits = model.forward(labelled.batch)
    _, figures = model.propagation.kernels.loss(logits.numpy(), labelled.labels, labelled.weight)
    return cast(FloatArray, figures)


def penalised_layers(model: GCN, settings: Settings) -> list[GraphConvolution]:
    layers = [cast(GraphConvolution, layer) for layer in model.layers]
    return layers if settings.weight_decay_layers == "all" else layers[:1]


def penalty(model: GCN, settings: Settings) -> FloatArray:
    squares = np.zeros(len(model.seeds))
    for layer in penalised_layers(model, settings):
        n_in, n_terms, n_replicas, n_out = layer.weight.shape
        weight = layer.weight.detach().numpy().reshape(n_in * n_terms, -1)
        # Down the columns first: a replica's sum then runs as it would alone.
        columns = np.einsum("ij,ij->j", weight, weight).reshape(n_replicas, n_out)
        squares += columns.astype(np.float64).sum(axis=1)
    return settings.weight_decay / 2 * squares
