"""train(): the only loop.

A network and labelled batches enter; the network leaves trained, with the record of it. Full-batch
training is a single batch that holds all training nodes. The replicas of a network share the
batches: each has its own loss, its own early stopping and its own best weights, and ends as it
would have ended alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphconv.engine.devices import on_device, on_processor, single_torch_thread
from graphconv.engine.network import Network
from graphconv.engine.objective import ExtraLoss, FloatArray, Group, LabelledBatch
from graphconv.engine.replicas import IntArray, Replicas, Team, team_size
from graphconv.models.settings import Settings
from graphconv.training._resumption import check_saved
from graphconv.training.early_stopping import EarlyStopping

# Without validation nodes there is nothing to stop by; the paper's number of epochs is safe.
MAX_EPOCHS_UNWATCHED = 200

# Batches that are made anew for every epoch, while the one before is trained on.
MakeBatches = Callable[[int], Iterable[LabelledBatch]]
# What a training can be continued from, by name.
Saved = dict[str, npt.NDArray[Any]]


class Epoch(NamedTuple):
    """Scores of one epoch, each of shape (n_replicas,); NaN for replicas that did not run it."""

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
    scores: Epoch  # of the replicas that this epoch trained
    network: Network  # of the same replicas, with the weights that the epoch ended with
    replicas: IntArray  # their places among all

    @property
    def n_epochs_done(self) -> int:
        """Of n_replicas * max_epochs; replicas that have stopped count as if they had run all."""
        n_here = len(self.scores.train_loss)
        n_before = self.n_replicas - self.n_waiting - n_here
        return n_before * self.max_epochs + n_here * self.epoch


@dataclass
class TrainingState:
    """The record of a training."""

    epochs: list[Epoch]
    n_run: IntArray  # (n_replicas,) number of epochs run
    stopping: EarlyStopping

    @classmethod
    def start(cls, n_replicas: int, settings: Settings) -> TrainingState:
        stopping = EarlyStopping(settings.early_stopping, settings.patience, n_replicas)
        return cls([], np.zeros(n_replicas, dtype=np.int64), stopping)

    @property
    def stopped_at(self) -> IntArray:
        """Epochs that each replica has run once it has stopped, 0 before; (n_replicas,)."""
        return self.stopping.stopped_at

    def record(self, replicas: IntArray, scores: FloatArray) -> None:
        """Note the scores (4, n) of an epoch that some replicas, all equally far, have run."""
        epoch = int(self.n_run[replicas[0]])
        self.n_run[replicas] += 1
        if len(replicas) == len(self.n_run):
            self.epochs.append(Epoch(*scores))
            return
        if epoch == len(self.epochs):
            self.epochs.append(Epoch(*np.full((4, len(self.n_run)), np.nan)))
        for values, own in zip(self.epochs[epoch], scores, strict=True):
            values[replicas] = own

    def teams(self, size: int) -> Iterator[IntArray]:
        """Replicas that have not stopped, in teams of at most `size` that are equally far.

        Each team must have stopped before the next is asked for.
        """
        while len(running := self.stopping.running(np.arange(len(self.n_run)))):
            yield running[self.n_run[running] == self.n_run[running[0]]][:size]


class DivergedError(ValueError):
    """A training whose numbers are none any more: going on from it would lead nowhere."""


def train(
    network: Network,
    batches: Sequence[LabelledBatch] | MakeBatches,
    validation: LabelledBatch | MakeBatches | None,
    settings: Settings,
    *,
    on_epoch: Callable[[Progress], None] | None = None,
    resume_from: Saved | None = None,
    on_checkpoint: Callable[[Callable[[], Saved]], None] | None = None,
    group: Group | None = None,
    extra: ExtraLoss | None = None,
) -> TrainingState:
    """Train the network in place and return the record of it.

    Parameters
    ----------
    network : Network
        Of any model.
    batches : sequence of LabelledBatch, or callable
        One step of Adam is taken for each, in order, every epoch. A callable is given the epoch's
        number and returns its batches.
    validation : LabelledBatch or callable, optional
        Decides when to stop. Without it training runs for max_epochs, but no more than 200 unless
        early_stopping is "none".
    settings : Settings
    on_epoch : callable, optional
        Called with a Progress after each epoch.
    resume_from : dict of array, optional
        What `on_checkpoint` was given earlier; training goes on from there, bit for bit.
    on_checkpoint : callable, optional
        Called after each epoch with a function that returns the checkpoint's arrays; calling that
        function is what costs, so the receiver chooses when.
    group : Group, optional
        The processes that train this model together: they have the same weights, and each has a
        share of every batch. Without it this process trains alone.
    extra : ExtraLoss, optional
        A term to be added to the loss of every batch.
    """
    state = TrainingState.start(len(network.seeds), settings)
    max_epochs = settings.max_epochs
    if validation is None and settings.early_stopping != "none":
        max_epochs = min(max_epochs, MAX_EPOCHS_UNWATCHED)
    # Batches that are made anew are made once for all replicas; processes that train together say
    # more at once, and less often.
    at_once = len(network.seeds) if callable(batches) or group else team_size(network)
    # Numbers that grow too large are noticed in the loss, and told in words.
    with single_torch_thread(network.device), np.errstate(over="ignore", invalid="ignore"):
        everyone = Replicas(network, settings, group, extra)
        if resume_from is not None:
            check_saved(resume_from, network, state.stopping)
            _restore(everyone, state, resume_from)
        for replicas in state.teams(at_once):
            first = int(state.n_run[replicas[0]])
            n_steps = 0
            if resume_from is not None and first > 0:
                n_steps = int(resume_from["adam.n_steps"])
            team = everyone.take(replicas, n_steps)
            for epoch in range(first, max_epochs):
                steps = batches(epoch) if callable(batches) else batches
                watched = validation(epoch) if callable(validation) else validation
                scores = _run_epoch(team, steps, watched, epoch, settings)
                _check_loss(scores[0], epoch)
                state.record(team.replicas, scores)
                if validation is not None:
                    _, _, loss, accuracy = scores
                    state.stopping.check(team.replicas, loss, accuracy, team.weights_of)
                running = state.stopping.running(team.replicas)
                if on_epoch is not None:
                    on_epoch(
                        Progress(
                            epoch + 1,
                            max_epochs,
                            n_running=len(running),
                            n_waiting=int((state.n_run == 0).sum()),
                            n_replicas=len(network.seeds),
                            scores=Epoch(*scores),
                            network=team.network,
                            replicas=team.replicas,
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
    network.kernels.trim_memory()
    for replica, weights in enumerate(state.stopping.kept):
        if weights is not None:
            network.load_replica(replica, weights)
    if not all(np.isfinite(on_processor(own)).all() for own in network.parameters.values()):
        raise DivergedError("training diverged: weights became too large; train more slowly")
    return state


def _check_loss(loss: FloatArray, epoch: int) -> None:
    if not np.isfinite(loss).all():
        raise DivergedError(
            f"training diverged: the loss must be a number, got {loss[~np.isfinite(loss)][0]} in "
            f"epoch {epoch + 1}; a smaller learning rate or other settings of the propagation help"
        )


def _run_epoch(
    team: Team,
    batches: Iterable[LabelledBatch],
    validation: LabelledBatch | Iterable[LabelledBatch] | None,
    epoch: int,
    settings: Settings,
) -> FloatArray:
    """Scores of the team, shape (4, n_replicas), in the order of Epoch's."""
    trained = _mean(_step(team, labelled, epoch) for labelled in batches)
    if validation is None:
        return np.concatenate([trained, np.full_like(trained, np.nan)])
    parts = [validation] if isinstance(validation, LabelledBatch) else validation
    watched = _mean(team.objective.evaluate(part) for part in parts)
    if settings.early_stopping == "window":
        # Paper: the validation loss decides when to stop; here: the L2 term is added to it in the
        # rule of the authors' code, because their validation cost has it.
        watched[0] += team.objective.penalty()
    return np.concatenate([trained, watched])


def _step(team: Team, labelled: LabelledBatch, epoch: int) -> tuple[FloatArray, float]:
    slopes, scores, total = team.objective.gradients(labelled, epoch)
    team.optimiser.step(slopes)
    return scores, total


def _mean(found: Iterable[tuple[FloatArray, float]]) -> FloatArray:
    """The mean of scores, each of which counts as much as its batch."""
    pairs = list(found)
    if len(pairs) == 1:
        return pairs[0][0]
    scores, totals = zip(*pairs, strict=True)
    return np.average(scores, axis=0, weights=totals)


def _checkpoint(everyone: Replicas, team: Team, state: TrainingState) -> Saved:
    everyone.put_back(team)
    optimiser = everyone.optimiser
    found: Saved = {"adam.n_steps": np.array(team.optimiser.n_steps)}
    kinds = {
        "model": everyone.network.parameters,
        "adam.mean": optimiser.mean,
        "adam.square": optimiser.square,
    }
    for kind, values in kinds.items():
        found.update({f"{kind}.{name}": on_processor(own).copy() for name, own in values.items()})
    found["epochs"] = np.array(state.epochs)  # (n_epochs, 4, n_replicas)
    found["n_run"] = state.n_run.copy()
    found.update({f"stopping.{name}": own for name, own in state.stopping.arrays().items()})
    return found


def _restore(everyone: Replicas, state: TrainingState, saved: Saved) -> None:
    network, optimiser = everyone.network, everyone.optimiser
    for name, parameter in network.parameters.items():
        parameter[...] = on_device(saved[f"model.{name}"], network.device)
        optimiser.mean[name][...] = on_device(saved[f"adam.mean.{name}"], network.device)
        optimiser.square[name][...] = on_device(saved[f"adam.square.{name}"], network.device)
    state.epochs = [Epoch(*scores) for scores in saved["epochs"].copy()]
    state.n_run[:] = saved["n_run"]
    prefix = "stopping."
    state.stopping.restore(
        {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}
    )
