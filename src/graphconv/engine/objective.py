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

from graphconv.engine._steps import Array
from graphconv.engine.batches import Batch
from graphconv.engine.devices import on_device, on_processor
from graphconv.engine.network import Network
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

    def add_up(self, values: npt.NDArray[Any], what: str = ...) -> None:
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
        self._penalised = [array.reshape(-1, array.shape[2] * array.shape[3]) for array in own]
        self._plans: dict[bool, WeakKeyDictionary[LabelledBatch, Any]] = {
            drops: WeakKeyDictionary() for drops in (False, True)
        }
        self._n_copies = network.model.n_copies
        # What a training step computes with: every copy is a replica there.
        self._trained = network if self._n_copies == 1 else network.copied(self._n_copies)
        self._agreement = settings.agreement if network.model.agrees else 0.0
        self._warmup = settings.agreement_warmup
        self._temperature = settings.sharpening
        self._n_classes = network.program.output.width
        self._targets: WeakKeyDictionary[LabelledBatch, tuple[Any, Any]] = WeakKeyDictionary()

    def gradients(
        self, labelled: LabelledBatch, epoch: int
    ) -> tuple[Sequence[Any], FloatArray, float]:
        """Gradients, each replica's loss and accuracy, and how much the batch counts."""
        trained = self._trained
        if trained is not self.network:
            trained.take_over(self.network)
        plan = self._plan_of(labelled, drops=True)
        dropouts = trained.dropouts(epoch)
        value = plan.forward(dropouts, for_gradients=True)
        slope, mean, total = self._loss_of_copies(labelled, value, epoch)
        slopes = plan.gradients(slope.reshape(value.shape), dropouts)
        assert not any(own is None for own in slopes), "every parameter must be used"
        if trained is not self.network:
            slopes = trained.summed_over_copies(slopes)
        if self.group is not None:
            slopes = _added_up(slopes, self.group, self.network.device)
        if self.extra is not None:
            more = self.extra.gradients(self.network, epoch)
            slopes = [own + other for own, other in zip(slopes, more, strict=True)]
        return slopes, mean, total

    def evaluate(self, labelled: LabelledBatch) -> tuple[FloatArray, float]:
        """Each replica's loss and accuracy without dropout, and how much the batch counts.

        Nodes count by their weight. For several labels per node, accuracy is the share of (node,
        class) pairs that are right. Both together are an array of shape (2, n_replicas).
        """
        value = self._plan_of(labelled, drops=False).forward(self.network.dropouts(None))
        return _mean_scores(self._loss(labelled, value)[1], labelled.total, self.group)

    def penalty(self) -> FloatArray:
        """The L2 penalty of each replica, which Adam sees to and the loss does not hold."""
        n_replicas = len(self.network.seeds)
        squares = np.zeros(n_replicas)
        for own in self._penalised:
            rows = on_processor(own)
            # Down the columns first: a replica's sum then runs as it would alone.
            columns = np.einsum("ij,ij->j", rows, rows)
            squares += columns.reshape(n_replicas, -1).sum(axis=1, dtype=np.float64)
        return self.weight_decay / 2 * squares

    def _loss_of_copies(
        self, labelled: LabelledBatch, value: Any, epoch: int
    ) -> tuple[Any, FloatArray, float]:
        """The gradient for the logits, the copies' mean scores, and the batch's total."""
        # Paper: the loss is summed over the labelled nodes (equation 10); here: their mean, because
        # the authors' code has it, and the L2 penalty means what it means there.
        slope, scores = self._loss(labelled, value, with_gradient=True)
        if self._n_copies > 1:
            scores = scores.reshape(2, self._n_copies, -1).mean(axis=1)
            slope /= self._n_copies
        mean, total = _mean_scores(scores, labelled.total, self.group)
        if self.group is not None:
            slope *= labelled.total / total  # this process's share of the batch
        if self._agreement:
            slope = self._with_agreement(slope, value, labelled.labels.ndim == 2, epoch)
        return slope, mean, total

    def _with_agreement(self, slope: Any, value: Any, is_multilabel: bool, epoch: int) -> Any:
        """The gradient for all targets: that of labels, and what makes copies agree."""
        n_rows = np.array(float(len(value)))
        if self.group is not None:
            self.group.add_up(n_rows, "gradients")
        shape = (self._n_copies, len(self.network.seeds), self._n_classes)
        logits = value.reshape(len(value), *shape)
        found = self.network.kernels.agreement(logits, self._temperature, is_multilabel)
        # Copies that know nothing yet would agree on one class for all.
        grown = 1.0 if epoch >= self._warmup else epoch / self._warmup
        found *= grown * self._agreement / max(1.0, float(n_rows))
        found[: len(slope)] += slope.reshape(len(slope), *shape)
        return found

    def _loss(
        self, labelled: LabelledBatch, logits: Any, with_gradient: bool = False
    ) -> tuple[Any, FloatArray]:
        n_replicas = logits.shape[1] // self._n_classes  # of a batch without rows, too
        by_replica = logits.reshape(len(logits), n_replicas, self._n_classes)
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
            self._targets[labelled] = (
                on_device(labelled.labels, self.network.device),
                on_device(weight, self.network.device),
            )
        return self._targets[labelled]

    def _plan_of(self, labelled: LabelledBatch, drops: bool) -> Any:
        found = self._plans[drops].get(labelled)
        if found is None:
            network = self._trained if drops else self.network
            found = self._plans[drops][labelled] = network.plan(labelled.batch, drops)
        return found


def _added_up(slopes: Sequence[Any], group: Group, device: Any) -> list[Any]:
    """Gradients summed over all processes, in one message, where they were."""
    own = [on_processor(slope) for slope in slopes]
    flat = np.concatenate([slope.ravel() for slope in own])
    group.add_up(flat, "gradients")
    parts = np.split(flat, np.cumsum([slope.size for slope in own])[:-1])
    return [
        on_device(part.reshape(slope.shape), device) for part, slope in zip(parts, own, strict=True)
    ]


def _mean_scores(scores: FloatArray, total: float, group: Group | None) -> tuple[FloatArray, float]:
    """Scores of the batch of all processes, and how much it counts."""
    if group is None:
        return scores, total
    sums = np.append(total * scores.ravel(), total)
    group.add_up(sums)
    return sums[:-1].reshape(scores.shape) / float(sums[-1]), float(sums[-1])
