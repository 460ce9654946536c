"""train(): the only loop.

A model and labelled batches enter, a trained model and its History leave. Full-batch training is a
single batch that holds all training nodes. The replicas of a model share the batches: each has its
own loss, its own early stopping and its own best weights, and ends as it would have ended alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from graphconv.engine.objective import FloatArray, Group, LabelledBatch
from graphconv.engine.replicas import IntArray, Replicas, Team, team_size
from graphconv.models.gcn import GCN
from graphconv.models.settings import Settings

# Without validation nodes there is nothing to stop by; the paper's number of epochs is safe.
MAX_EPOCHS_UNWATCHED = 200


# Batches that are made anew for every epoch, while the one before is trained on.
MakeBatches = Callable[[int], Iterable[LabelledBatch]]


class Epoch(NamedTuple):
    """Figures of one epoch, each of shape (n_replicas,); NaN for replicas that did not run it."""

    train_loss: FloatArray
    train_accuracy: FloatArray
    validation_loss: FloatArray
    validation_accuracy: FloatArray


class Progress(NamedTuple):
    """What a progress display is told after each epoch."""

    epoch: int
    max_epochs: int
    n_running: int  # replicas that go on
    n_waiting: int  # replicas that have not begun
    n_replicas: int
    figures: Epoch  # of the replicas that this epoch trained

    @property
    def n_epochs_done(self) -> int:
        """Of n_replicas * max_epochs; replicas that have stopped count as if they had run all."""
        n_here = len(self.figures.train_loss)
        n_before = self.n_replicas - self.n_waiting - n_here
        return n_before * self.max_epochs + n_here * self.epoch


@dataclass
class TrainingState:
    """All that continuing a training needs; plain tensors, so it can be saved safely."""

    epochs: list[Epoch]
    n_run: IntArray  # (n_replicas,) number of epochs run
    stopped_at: IntArray  # (n_replicas,) the same once it has stopped, 0 before
    best_score: FloatArray  # (n_replicas, 2) best validation accuracy and loss
    last_gain: IntArray  # (n_replicas,) epoch of the last improvement
    kept: list[dict[str, Tensor] | None]  # weights to end with, for each replica

    @classmethod
    def start(cls, n_replicas: int) -> TrainingState:
        return cls(
            epochs=[],
            n_run=np.zeros(n_replicas, dtype=np.int64),
            stopped_at=np.zeros(n_replicas, dtype=np.int64),
            best_score=np.tile([-np.inf, np.inf], (n_replicas, 1)),
            last_gain=np.zeros(n_replicas, dtype=np.int64),
            kept=[None] * n_replicas,
        )

    def record(self, replicas: IntArray, figures: FloatArray) -> None:
        """Note the figures (4, n) of an epoch that some replicas, all equally far, have run."""
        epoch = int(self.n_run[replicas[0]])
        self.n_run[replicas] += 1
        if len(replicas) == len(self.n_run):
            self.epochs.append(Epoch(*figures))
            return
        if epoch == len(self.epochs):
            self.epochs.append(Epoch(*np.full((4, len(self.n_run)), np.nan)))
        for values, own in zip(self.epochs[epoch], figures, strict=True):
            values[replicas] = own

    def running(self, replicas: IntArray) -> IntArray:
        """Those of some replicas that have not stopped."""
        has_stopped = self.stopped_at[replicas] > 0
        return replicas[~has_stopped]

    def teams(self, size: int) -> Iterator[IntArray]:
        """Replicas that have not stopped, in teams of at most `size` that are equally far.

        Each team must have stopped before the next is asked for.
        """
        while len(running := self.running(np.arange(len(self.n_run)))):
            yield running[self.n_run[running] == self.n_run[running[0]]][:size]


class DivergedError(ValueError):
    """A training whose numbers are none any more: going on from it would lead nowhere."""


def train(
    model: GCN,
    batches: Sequence[LabelledBatch] | MakeBatches,
    validation: LabelledBatch | MakeBatches | None,
    settings: Settings,
    *,
    on_epoch: Callable[[Progress], None] | None = None,
    resume_from: dict[str, Tensor] | None = None,
    on_checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] | None = None,
    group: Group | None = None,
) -> TrainingState:
    """Train the model in place and return the record of it.

    Parameters
    ----------
    model : GCN
    batches : sequence of LabelledBatch, or callable
        One step of Adam is taken for each, in order, every epoch. A callable is given the epoch's
        number and returns its batches.
    validation : LabelledBatch or callable, optional
        Decides when to stop. Without it training runs for max_epochs, but no more than 200 unless
        early_stopping is "none".
    settings : Settings
    on_epoch : callable, optional
        Called with a Progress after each epoch.
    resume_from : dict of Tensor, optional
        What `on_checkpoint` was given earlier; training goes on from there, bit for bit.
    on_checkpoint : callable, optional
        Called after each epoch with a function that returns the checkpoint's tensors; calling that
        function is what costs, so the receiver chooses when.
    group : Group, optional
        The processes that train this model together: they have the same weights, and each has a
        share of every batch. Without it this process trains alone.
    """
    state = TrainingState.start(len(model.seeds))
    max_epochs = settings.max_epochs
    if validation is None and settings.early_stopping != "none":
        max_epochs = min(max_epochs, MAX_EPOCHS_UNWATCHED)
    # Batches that are made anew are made once for all replicas; processes that train together say
    # more at once, and less often.
    at_once = len(model.seeds) if callable(batches) or group else team_size(model)
    with single_torch_thread():
        everyone = Replicas(model, settings, group)
        n_steps = 0 if resume_from is None else int(resume_from["adam.n_steps"])
        if resume_from is not None:
            state = _restore(everyone, resume_from)
        for replicas in state.teams(at_once):
            first = int(state.n_run[replicas[0]])
            team = everyone.take(replicas, n_steps if first > 0 else 0)
            for epoch in range(first, max_epochs):
                steps = batches(epoch) if callable(batches) else batches
                watched = validation(epoch) if callable(validation) else validation
                figures = _run_epoch(team, steps, watched, epoch, settings)
                _check_loss(figures[0], epoch)
                state.record(team.replicas, figures)
                if validation is not None:
                    _stop_early(state, team.replicas, settings, team.weights_of)
                running = state.running(team.replicas)
                if on_epoch is not None:
                    on_epoch(
                        Progress(
                            epoch + 1,
                            max_epochs,
                            n_running=len(running),
                            n_waiting=int((state.n_run == 0).sum()),
                            n_replicas=len(model.seeds),
                            figures=Epoch(*figures),
                        )
                    )
                if 0 < len(running) < len(team.replicas):
                    everyone.put_back(team)
                    team = everyone.take(running, team.optimiser.n_steps)
                if on_checkpoint is not None:
                    on_checkpoint(partial(_checkpoint, everyone, team, state))
                if not len(running):
                    break
            everyone.put_back(team)
            state.stopped_at[team.replicas] = state.n_run[team.replicas]
    model.propagation.kernels.trim_memory()
    for replica, weights in enumerate(state.kept):
        if weights is not None:
            model.load_replica(replica, weights)
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):
        raise DivergedError("training diverged: weights became too large; train more slowly")
    return state


def _check_loss(loss: FloatArray, epoch: int) -> None:
    if not np.isfinite(loss).all():
        raise DivergedError(
            f"training diverged: the loss must be a number, got {loss[~np.isfinite(loss)][0]} in "
            f"epoch {epoch + 1}; a smaller learning rate or other settings of the propagation help"
        )


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Keep torch's own small operations on one thread.

    Its threads wait by spinning, which ruins epochs of a millisecond on a busy machine, and their
    number changes the last bits of sums. The large products run in our kernels.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_epoch(
    team: Team,
    batches: Iterable[LabelledBatch],
    validation: LabelledBatch | Iterable[LabelledBatch] | None,
    epoch: int,
    settings: Settings,
) -> FloatArray:
    """Figures of the team, shape (4, n_replicas), in the order of Epoch's."""
    trained = _mean(_step(team, labelled, epoch) for labelled in batches)
    if validation is None:
        return np.concatenate([trained, np.full_like(trained, np.nan)])
    parts = [validation] if isinstance(validation, LabelledBatch) else validation
    watched = _mean(team.objective.evaluate(part) for part in parts)
    if settings.early_stopping == "window":
        # The authors' validation cost carries the L2 term, which matters to their stopping rule.
        watched[0] += team.objective.penalty()
    return np.concatenate([trained, watched])


def _step(team: Team, labelled: LabelledBatch, epoch: int) -> tuple[FloatArray, float]:
    slopes, figures, total = team.objective.gradients(labelled, epoch)
    team.optimiser.step(slopes)
    return figures, total


def _mean(found: Iterable[tuple[FloatArray, float]]) -> FloatArray:
    """The mean of figures, each of which counts as much as its batch."""
    figures, totals = zip(*found, strict=True)
    if len(totals) == 1:
        return cast(FloatArray, figures[0])
    return np.average(figures, axis=0, weights=totals)


def _stop_early(
    state: TrainingState,
    replicas: IntArray,
    settings: Settings,
    weights_of: Callable[[int], dict[str, Tensor]],
) -> None:
    """Mark those that end with the epoch they have run, and keep the weights they should end with.

    All have run the same number of epochs.
    """
    if settings.early_stopping == "none" or not len(replicas):
        return
    epoch = int(state.n_run[replicas[0]])
    if settings.early_stopping == "window":
        window = settings.patience
        if epoch <= window + 1:
            return
        rows = state.epochs[epoch - window - 1 : epoch]
        recent = np.array([figures.validation_loss for figures in rows])[:, replicas]
        rising = recent[-1] > recent[:-1].mean(axis=0)
        for replica in replicas[rising].tolist():
            state.stopped_at[replica] = epoch
            state.kept[replica] = weights_of(replica)
        return
    figures = state.epochs[epoch - 1]
    for replica in replicas.tolist():
        accuracy = figures.validation_accuracy[replica]
        loss = figures.validation_loss[replica]
        best_accuracy, best_loss = state.best_score[replica]
        if accuracy > best_accuracy or (accuracy == best_accuracy and loss < best_loss):
            state.kept[replica] = weights_of(replica)
        if accuracy > best_accuracy or loss < best_loss:
            state.last_gain[replica] = epoch
        state.best_score[replica] = max(accuracy, best_accuracy), min(loss, best_loss)
        if epoch - state.last_gain[replica] >= settings.patience:
            state.stopped_at[replica] = epoch


def _checkpoint(everyone: Replicas, team: Team, state: TrainingState) -> dict[str, Tensor]:
    everyone.put_back(team)
    model, optimiser = everyone.model, everyone.optimiser
    tensors = {f"model.{n}": p.detach().clone() for n, p in model.named_parameters()}
    tensors["adam.n_steps"] = torch.tensor(team.optimiser.n_steps)
    for name in optimiser.parameters:
        tensors[f"adam.mean.{name}"] = optimiser.mean[name].clone()
        tensors[f"adam.square.{name}"] = optimiser.square[name].clone()
    tensors["epochs"] = torch.from_numpy(np.array(state.epochs))  # (n_epochs, 4, n_replicas)
    for name in ("n_run", "stopped_at", "best_score", "last_gain"):
        tensors[f"state.{name}"] = torch.from_numpy(getattr(state, name).copy())
    for replica, weights in enumerate(state.kept):
        for name, value in (weights or {}).items():
            tensors[f"kept.{replica}.{name}"] = value
    return tensors


def _restore(everyone: Replicas, tensors: dict[str, Tensor]) -> TrainingState:
    model, optimiser = everyone.model, everyone.optimiser
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
            optimiser.mean[name].copy_(tensors[f"adam.mean.{name}"])
            optimiser.square[name].copy_(tensors[f"adam.square.{name}"])
    kept: list[dict[str, Tensor] | None] = []
    for replica in range(len(model.seeds)):
        prefix = f"kept.{replica}."
        own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        kept.append(own or None)
    return TrainingState(
        epochs=[Epoch(*figures) for figures in tensors["epochs"].numpy().copy()],
        n_run=tensors["state.n_run"].numpy().copy(),
        stopped_at=tensors["state.stopped_at"].numpy().copy(),
        best_score=tensors["state.best_score"].numpy().copy(),
        last_gain=tensors["state.last_gain"].numpy().copy(),
        kept=kept,
    )
