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

from graphconv.engine._steps import Array
from graphconv.engine.agreement import agreement_slopes
from graphconv.engine.batches import Batch
from graphconv.engine.device_plan import DevicePlan
from graphconv.engine.network import Network
from graphconv.engine.plan import Plan
from graphconv.models.settings import Settings

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """A batch with what its targets should be, and how much each of them counts in the loss.

    The targets with a label come first. There may be more of them: nodes whose copies are to agree.
    """

    batch: Batch
    labels: npt.NDArray[Any]  # (n_labelled,) class numbers or (n_labelled, n_classes) indicators
    weight: FloatArray  # (n_labelled,), adds up to 1
    total: float  # what the weights added up to: how much the batch counts among others

    @classmethod
    def make(
        cls,
        batch: Batch,
        labels: npt.NDArray[np.int64],
        class_weight: FloatArray | None = None,
        n_labelled: int | None = None,
    ) -> LabelledBatch:
        """Labels are those of all nodes; the batch picks its targets'. Weights are by class.

        `n_labelled` are the targets whose labels count, by default all.
        """
        n_labelled = batch.n_within[0] if n_labelled is None else n_labelled
        own = labels if batch.is_whole else labels[batch.rows[:n_labelled]]
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
        own = [network.parameters[n] for n in network.penalised(settings.weight_decay_layers)]
        # The parameters' memory as matrices, looked up once and not every epoch; one column for
        # each replica and output.
        matrices = [tensor.detach().view(-1, tensor.shape[2] * tensor.shape[3]) for tensor in own]
        self._penalised: list[Any] = [
            matrix if network.device is not None else matrix.numpy() for matrix in matrices
        ]
        self._plans: dict[bool, WeakKeyDictionary[LabelledBatch, list[Plan | DevicePlan]]] = {
            drops: WeakKeyDictionary() for drops in (False, True)
        }
        self._n_copies = network.model.n_copies
        self._agreement = settings.agreement if network.model.agrees else 0.0
        self._warmup = settings.agreement_warmup
        self._temperature = settings.sharpening
        self._shape = (len(network.seeds), network.program.output.width)
        self._targets: WeakKeyDictionary[LabelledBatch, tuple[Any, Any]] = WeakKeyDictionary()

    def gradients(
        self, labelled: LabelledBatch, epoch: int
    ) -> tuple[Sequence[Any], FloatArray, float]:
        """Gradients, each replica's loss and accuracy, and how much the batch counts."""
        plans: list[Any] = self._plans_of(labelled, drops=True)
        dropouts = [self.network.dropouts(epoch, copy) for copy in range(len(plans))]
        values = [
            plan.forward(own, for_gradients=True) for plan, own in zip(plans, dropouts, strict=True)
        ]
        by_copy, mean, total = self._loss_of_copies(labelled, values, epoch)
        for plan, value, slope, dropped in zip(plans, values, by_copy, dropouts, strict=True):
            own_slopes = plan.gradients(slope.reshape(value.shape), dropped)
            assert not any(own is None for own in own_slopes), "every parameter must be used"
            if plan is plans[0]:
                slopes = own_slopes
            else:
                slopes = [own + more for own, more in zip(slopes, own_slopes, strict=True)]
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
        (plan,) = self._plans_of(labelled, drops=False)
        value = plan.forward(self.network.dropouts(None))
        return _mean_scores(self._loss(labelled, value)[1], labelled.total, self.group)

    def penalty(self) -> FloatArray:
        """The L2 penalty of each replica, which Adam sees to and the loss does not hold."""
        n_replicas = len(self.network.seeds)
        squares = np.zeros(n_replicas)
        for own in self._penalised:
            rows = own.cpu().numpy() if isinstance(own, Tensor) else own
            # Down the columns first: a replica's sum then runs as it would alone.
            columns = np.einsum("ij,ij->j", rows, rows)
            squares += columns.reshape(n_replicas, -1).sum(axis=1, dtype=np.float64)
        return self.weight_decay / 2 * squares

    def _loss_of_copies(
        self, labelled: LabelledBatch, values: list[Any], epoch: int
    ) -> tuple[list[Any], FloatArray, float]:
        """Gradients for the logits of each copy, their mean scores, and the batch's total."""
        # Paper: the loss is summed over the labelled nodes (equation 10); here: their mean, because
        # the authors' code has it, and the L2 penalty means what it means there.
        each = [self._loss(labelled, value, with_gradient=True) for value in values]
        slopes = [slope for slope, _ in each]
        scores = each[0][1] if len(each) == 1 else np.mean([own for _, own in each], axis=0)
        mean, total = _mean_scores(scores, labelled.total, self.group)
        if self.group is not None:
            for slope in slopes:
                slope *= labelled.total / total  # this process's share of the batch
        if self._agreement:
            slopes = self._with_agreement(slopes, values, labelled.labels.ndim == 2, epoch)
        elif len(slopes) > 1:
            slopes = [slope / len(slopes) for slope in slopes]
        return slopes, mean, total

    def _with_agreement(
        self, slopes: list[Any], values: list[Any], is_multilabel: bool, epoch: int
    ) -> list[Any]:
        """Gradients for all targets: those of labels, and those that make copies agree."""
        n_rows = torch.tensor(float(len(values[0])))
        if self.group is not None:
            self.group.add_up(n_rows, "gradients")
        logits = [torch.as_tensor(own).reshape(-1, *self._shape) for own in values]
        found = agreement_slopes(logits, self._temperature, is_multilabel)
        # Copies that know nothing yet would agree on one class for all.
        grown = 1.0 if epoch >= self._warmup else epoch / self._warmup
        factor = grown * self._agreement / max(1.0, float(n_rows))
        for own, slope in zip(found, slopes, strict=True):
            own *= factor
            own[: len(slope)] += torch.as_tensor(slope) / len(slopes)
        if self.network.device is not None:
            return [own.contiguous() for own in found]
        return [own.contiguous().numpy() for own in found]

    def _loss(
        self, labelled: LabelledBatch, logits: Any, with_gradient: bool = False
    ) -> tuple[Any, FloatArray]:
        by_replica = logits.reshape(len(logits), *self._shape)
        if len(labelled.labels) < len(logits):  # the others only have to agree
            by_replica = by_replica[: len(labelled.labels)]
        found: tuple[Any, FloatArray] = self.network.kernels.loss(
            by_replica, *self._wanted(labelled), with_gradient
        )
        return found

    def _wanted(self, labelled: LabelledBatch) -> tuple[Any, Any]:
        """Labels and weights of the targets, where the network is."""
        if self.network.device is None:
            return labelled.labels, labelled.weight
        if labelled not in self._targets:
            # Some devices have no double precision.
            weight = labelled.weight.astype(labelled.batch.degree.dtype)
            # A copy of the labels: those of a graph may not be written to, which torch warns of.
            both = torch.tensor(labelled.labels), torch.from_numpy(weight)
            device = self.network.device
            self._targets[labelled] = both[0].to(device), both[1].to(device)
        return self._targets[labelled]

    def _plans_of(self, labelled: LabelledBatch, drops: bool) -> list[Plan | DevicePlan]:
        """A plan for each copy: what one has computed waits for what the others will."""
        found = self._plans[drops].get(labelled)
        if found is None:
            n_plans = self._n_copies if drops else 1
            found = [self.network.plan(labelled.batch, drops) for _ in range(n_plans)]
            self._plans[drops][labelled] = found
        return found


def _added_up(slopes: Sequence[Any], group: Group) -> list[Any]:
    """Gradients summed over all processes, in one message; arrays, or tensors of a device."""
    own = [torch.as_tensor(slope) for slope in slopes]
    flat = torch.cat([slope.reshape(-1) for slope in own]).cpu()
    group.add_up(flat, "gradients")
    parts = torch.split(flat, [slope.numel() for slope in own])
    found = [
        part.reshape(slope.shape).to(slope.device) for part, slope in zip(parts, own, strict=True)
    ]
    return found if isinstance(slopes[0], Tensor) else [part.numpy() for part in found]


def _mean_scores(scores: FloatArray, total: float, group: Group | None) -> tuple[FloatArray, float]:
    """Scores of the batch of all processes, and how much it counts."""
    if group is None:
        return scores, total
    sums = torch.from_numpy(np.append(total * scores.ravel(), total))
    group.add_up(sums)
    return sums[:-1].numpy().reshape(scores.shape) / float(sums[-1]), float(sums[-1])
