"""What training minimises: the loss of labelled batches, its gradient, and its scores.

A model and a LabelledBatch enter; loss and accuracy of each replica leave, and gradients for the
parameters if they are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.engine.batches import Batch
from graphconv.engine.device_plan import DevicePlan
from graphconv.engine.network import Network
from graphconv.engine.plan import Plan
from graphconv.engine.steps import Array
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
            # Of several labels per node, the heaviest counts.
            weight = class_weight[own] if own.ndim == 1 else (own * class_weight).max(axis=1)
        # The kernels want indicators as floats and class numbers as int64.
        wanted = own.astype(batch.degree.dtype if own.ndim == 2 else np.int64, copy=False)
        total = float(weight.sum())
        weight /= max(total, 1e-300)
        return cls(batch, wanted, weight, total)


class ExtraLoss(Protocol):
    """A term of the loss that does not come from the batches' labels."""

    def gradients(self, network: Network, epoch: int) -> Sequence[Array]:
        """Its gradient for each parameter of the network, in their order."""


class Group(Protocol):
    """Processes that train together, each on its share of every batch."""

    def add_up(self, values: Tensor, what: str = ...) -> None:
        """Replace values by their sum over all processes."""


class Objective:
    """The loss of a network, with gradients for its parameters.

    Parameters
    ----------
    network : Network
        Its parameters may change in place only.
    settings : Settings
        Those of the L2 penalty.
    group : Group, optional
        The processes that train together.
    extra : ExtraLoss, optional
        A term to be added to the loss of every batch.
    """

    def __init__(
        self,
        network: Network,
        settings: Settings,
        group: Group | None = None,
        extra: ExtraLoss | None = None,
    ) -> None:
        self.network = network
        self.group = group
        self.extra = extra
        self.weight_decay = settings.weight_decay
        self._penalised = [
            network.parameters[name].detach()
            for name in network.penalised(settings.weight_decay_layers)
        ]
        self._plans: dict[bool, WeakKeyDictionary[LabelledBatch, Plan | DevicePlan]] = {
            drops: WeakKeyDictionary() for drops in (False, True)
        }
        self._shape = (len(network.seeds), network.program.output.width)
        self._targets: WeakKeyDictionary[LabelledBatch, tuple[Any, Any]] = WeakKeyDictionary()

    def gradients(
        self, labelled: LabelledBatch, epoch: int
    ) -> tuple[Sequence[Any], FloatArray, float]:
        """Gradients, each replica's loss and accuracy, and how much the batch counts."""
        plan: Any = self._plan(labelled, drops=True)
        dropouts = self.network.dropouts(epoch)
        value = plan.forward(dropouts, for_gradients=True)
        # Paper: the loss is summed over the labelled nodes (equation 10); here: their mean, because
        # the authors' code has it, and the L2 penalty means what it means there.
        slope, scores = self._loss(labelled, value, with_gradient=True)
        mean, total = _mean_scores(scores, labelled.total, self.group)
        if self.group is not None:
            slope *= labelled.total / total  # this process's share of the batch
        found = plan.gradients(slope.reshape(value.shape), dropouts)
        slopes = [own for own in found if own is not None]
        assert len(slopes) == len(found), "every parameter must be used"
        if self.group is not None:
            slopes = _added_up(slopes, self.group)
        if self.extra is not None:
            more = self.extra.gradients(self.network, epoch)
            slopes = [own + other for own, other in zip(slopes, more, strict=True)]
        return slopes, mean, total

    def evaluate(self, labelled: LabelledBatch) -> tuple[FloatArray, float]:
        """Each replica's loss and accuracy without dropout, and how much the batch counts.

        Nodes count by their weight. For several labels per node, accuracy is the share of (node,
        class) pairs that are right. Both together are an array of shape (2, n_replicas).
        """
        value = self._plan(labelled, drops=False).forward(self.network.dropouts(None))
        return _mean_scores(self._loss(labelled, value)[1], labelled.total, self.group)

    def penalty(self) -> FloatArray:
        """The L2 penalty of each replica, which Adam sees to and the loss does not hold."""
        squares = np.zeros(len(self.network.seeds))
        for tensor in self._penalised:
            weight = tensor.cpu().numpy()
            n_in, n_terms, n_replicas, n_out = weight.shape
            # Down the columns first: a replica's sum then runs as it would alone.
            rows = weight.reshape(n_in * n_terms, n_replicas * n_out)
            columns = np.einsum("ij,ij->j", rows, rows)
            squares += columns.reshape(n_replicas, n_out).sum(axis=1, dtype=np.float64)
        return self.weight_decay / 2 * squares

    def _loss(
        self, labelled: LabelledBatch, logits: Any, with_gradient: bool = False
    ) -> tuple[Any, FloatArray]:
        by_replica = logits.reshape(len(logits), *self._shape)
        found: tuple[Any, FloatArray] = self.network.kernels.loss(
            by_replica, *self._wanted(labelled), with_gradient
        )
        return found

    def _wanted(self, labelled: LabelledBatch) -> tuple[Any, Any]:
        """Labels and weights of the targets, where the network is."""
        if self.network.device is None:
            return labelled.labels, labelled.weight
        if labelled not in self._targets:
            weight = labelled.weight.astype(np.float32)  # some devices have no double precision
            both = torch.from_numpy(labelled.labels), torch.from_numpy(weight)
            device = self.network.device
            self._targets[labelled] = both[0].to(device), both[1].to(device)
        return self._targets[labelled]

    def _plan(self, labelled: LabelledBatch, drops: bool) -> Plan | DevicePlan:
        plans = self._plans[drops]
        if labelled not in plans:
            plans[labelled] = self.network.plan(labelled.batch, drops)
        return plans[labelled]


def _added_up(slopes: Sequence[Array], group: Group) -> list[Array]:
    """Gradients summed over all processes, in one message."""
    flat = torch.cat([torch.from_numpy(slope).reshape(-1) for slope in slopes])
    group.add_up(flat, "gradients")
    parts = torch.split(flat, [slope.size for slope in slopes])
    return [part.numpy().reshape(slope.shape) for part, slope in zip(parts, slopes, strict=True)]


def _mean_scores(scores: FloatArray, total: float, group: Group | None) -> tuple[FloatArray, float]:
    """Figures of the batch of all processes, and how much it counts."""
    if group is None:
        return scores, total
    sums = torch.from_numpy(np.append(total * scores.ravel(), total))
    group.add_up(sums)
    return sums[:-1].numpy().reshape(scores.shape) / float(sums[-1]), float(sums[-1])
