"""train(): the only loop.

A model and labelled batches enter, a trained model and its History leave. Full-batch training is a
single batch that holds all training nodes. Replicas in one model train side by side: each has its
own loss, its own early stopping and its own best weights, and ends as it would have ended alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.adam import Adam
from graphconv.model import GCN
from graphconv.objective import (
    FloatArray,
    Group,
    LabelledBatch,
    Objective,
)
from graphconv.settings import Settings

# Without validation nodes there is nothing to stop by; the paper's number of epochs is safe.
MAX_EPOCHS_UNWATCHED = 200


# Batches that are made anew for every epoch, while the one before is trained on.
MakeBatches = Callable[[int], Iterable[LabelledBatch]]


class Epoch(NamedTuple):
    """Figures of one epoch, each of shape (n_replicas,)."""

    train_loss: FloatArray
    train_accuracy: FloatArray
    validation_loss: FloatArray
    validation_accuracy: FloatArray


class Progress(NamedTuple):
    """What a progress display is told after each epoch."""

    epoch: int
    max_epochs: int
    n_running: int
    figures: Epoch


@dataclass
class TrainingState:
    """All that continuing a training needs; plain tensors, so it can be saved safely."""

    epochs: list[Epoch]
    stopped_at: npt.NDArray[np.int64]  # (n_replicas,) number of epochs run, 0 while running
    best_score: FloatArray  # (n_replicas, 2) best validation accuracy and loss
    last_gain: npt.NDArray[np.int64]  # (n_replicas,) epoch of the last improvement
    kept: list[dict[str, Tensor] | None]  # weights to end with, for each replica

    @classmethod
    def start(cls, n_replicas: int) -> TrainingState:
        return cls(
            epochs=[],
            stopped_at=np.zeros(n_replicas, dtype=np.int64),
            best_score=np.tile([-np.inf, np.inf], (n_replicas, 1)),
            last_gain=np.zeros(n_replicas, dtype=np.int64),
            kept=[None] * n_replicas,
        )


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
    objective = Objective(model, settings, group)
    optimiser = _adam(objective, settings)
    if resume_from is not None:
        state = _restore(model, optimiser, resume_from)
    max_epochs = settings.max_epochs
    if validation is None and settings.early_stopping != "none":
        max_epochs = min(max_epochs, MAX_EPOCHS_UNWATCHED)
    with single_torch_thread():
        for epoch in range(len(state.epochs), max_epochs):
            if (state.stopped_at > 0).all():
                break
            steps = batches(epoch) if callable(batches) else batches
            watched = validation(epoch) if callable(validation) else validation
            figures = _run_epoch(objective, optimiser, steps, watched, epoch, settings)
            state.epochs.append(figures)
            _stop_early(model, state, settings, has_validation=validation is not None)
            if on_epoch is not None:
                running = int((state.stopped_at == 0).sum())
                on_epoch(Progress(epoch + 1, max_epochs, running, figures))
            if on_checkpoint is not None:
                on_checkpoint(lambda: _checkpoint(model, optimiser, state))
    model.propagation.kernels.trim_memory()
    state.stopped_at[state.stopped_at == 0] = len(state.epochs)
    _load_kept(model, state)
    return state


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


def _adam(objective: Objective, settings: Settings) -> Adam:
    model = objective.model
    chosen = {id(layer.weight) for layer in objective.penalised}
    parameters = dict(model.named_parameters())
    decay = {
        name: settings.weight_decay
        for name, parameter in parameters.items()
        if id(parameter) in chosen
    }
    return Adam(parameters, settings.learning_rate, model.propagation.kernels, decay)


def _run_epoch(
    objective: Objective,
    optimiser: Adam,
    batches: Iterable[LabelledBatch],
    validation: LabelledBatch | Iterable[LabelledBatch] | None,
    epoch: int,
    settings: Settings,
) -> Epoch:
    figures, totals = [], []
    for labelled in batches:
        slopes, mean, total = objective.gradients(labelled, epoch)
        optimiser.step(slopes)
        figures.append(mean)
        totals.append(total)
    mean = np.average(figures, axis=0, weights=totals) if len(totals) > 1 else figures[0]
    train_loss, train_accuracy = mean
    if validation is None:
        missing = np.full(len(train_loss), np.nan)
        return Epoch(train_loss, train_accuracy, missing, missing)
    validation_loss, validation_accuracy = objective.evaluate(validation)
    if settings.early_stopping == "window":
        # The authors' validation cost carries the L2 term, which matters to their stopping rule.
        validation_loss = validation_loss + objective.penalty()
    return Epoch(train_loss, train_accuracy, validation_loss, validation_accuracy)


def _stop_early(model: GCN, state: TrainingState, settings: Settings, has_validation: bool) -> None:
    """Mark the replicas that end with this epoch, and keep the weights they should end with."""
    if not has_validation or settings.early_stopping == "none":
        return
    epoch = len(state.epochs)
    if settings.early_stopping == "window":
        window = settings.patience
        if epoch <= window + 1:
            return
        recent = np.array([figures.validation_loss for figures in state.epochs[-window - 1 :]])
        rising = recent[-1] > recent[:-1].mean(axis=0)
        for replica in np.flatnonzero(rising & (state.stopped_at == 0)).tolist():
            state.stopped_at[replica] = epoch
            state.kept[replica] = replica_weights(model, replica)
        return
    figures = state.epochs[-1]
    for replica in np.flatnonzero(state.stopped_at == 0).tolist():
        accuracy = figures.validation_accuracy[replica]
        loss = figures.validation_loss[replica]
        best_accuracy, best_loss = state.best_score[replica]
        if accuracy > best_accuracy or (accuracy == best_accuracy and loss < best_loss):
            state.kept[replica] = replica_weights(model, replica)
        if accuracy > best_accuracy or loss < best_loss:
            state.last_gain[replica] = epoch
        state.best_score[replica] = max(accuracy, best_accuracy), min(loss, best_loss)
        if epoch - state.last_gain[replica] >= settings.patience:
            state.stopped_at[replica] = epoch


def replica_weights(model: GCN, replica: int) -> dict[str, Tensor]:
    """A copy of one replica's parameters."""
    return {
        name: _of_replica(parameter.detach(), replica).clone()
        for name, parameter in model.named_parameters()
    }


def _of_replica(parameter: Tensor, replica: int) -> Tensor:
    # Weights are (n_in, n_terms, n_replicas, n_out); everything else has replicas first.
    return parameter[:, :, replica] if parameter.ndim == 4 else parameter[replica]


def load_replica(model: GCN, replica: int, weights: dict[str, Tensor]) -> None:
    """Put parameters, as `replica_weights` gave them, into one replica of a model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _of_replica(parameter, replica).copy_(weights[name])


def _load_kept(model: GCN, state: TrainingState) -> None:
    for replica, weights in enumerate(state.kept):
        if weights is not None:
            load_replica(model, replica, weights)


def _checkpoint(model: GCN, optimiser: Adam, state: TrainingState) -> dict[str, Tensor]:
    tensors = {f"model.{n}": p.detach().clone() for n, p in model.named_parameters()}
    tensors["adam.n_steps"] = torch.tensor(optimiser.n_steps)
    for name in optimiser.parameters:
        tensors[f"adam.mean.{name}"] = optimiser.mean[name].clone()
        tensors[f"adam.square.{name}"] = optimiser.square[name].clone()
    tensors["epochs"] = torch.from_numpy(np.array(state.epochs))  # (n_epochs, 4, n_replicas)
    for name in ("stopped_at", "best_score", "last_gain"):
        tensors[f"state.{name}"] = torch.from_numpy(getattr(state, name).copy())
    for replica, weights in enumerate(state.kept):
        for name, value in (weights or {}).items():
            tensors[f"kept.{replica}.{name}"] = value
    return tensors


def _restore(model: GCN, optimiser: Adam, tensors: dict[str, Tensor]) -> TrainingState:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
            optimiser.mean[name].copy_(tensors[f"adam.mean.{name}"])
            optimiser.square[name].copy_(tensors[f"adam.square.{name}"])
    optimiser.n_steps = int(tensors["adam.n_steps"])
    kept: list[dict[str, Tensor] | None] = []
    for replica in range(len(model.seeds)):
        prefix = f"kept.{replica}."
        own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        kept.append(own or None)
    return TrainingState(
        epochs=[Epoch(*figures) for figures in tensors["epochs"].numpy()],
        stopped_at=tensors["state.stopped_at"].numpy().copy(),
        best_score=tensors["state.best_score"].numpy().copy(),
        last_gain=tensors["state.last_gain"].numpy().copy(),
        kept=kept,
    )
