"""Early stopping: when each replica of a training ends, and with which weights.

Validation loss and accuracy of every epoch enter. The rules:

    settled  stop once the accuracy has not risen and the loss not fallen by 1 % for `patience`
             epochs; end with the weights of the best accuracy. Of several epochs that have it, a
             later one takes the place of an earlier only with a loss below that of all epochs
             before it, whatever accuracy they had
    best     the same, but however little the loss falls counts
    lowest   as best, but end with the weights of the lowest loss
    window   the authors' rule: past `patience` epochs, stop when the loss exceeds its mean over the
             `patience` epochs before; end with the last weights
    consecutive
             the rule of the paper's text: stop once the loss has not fallen below its lowest for
             `patience` epochs in a row; end with the last weights
    none     never stop; end with the last weights
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.engine.devices import on_processor

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
# Of the loss: what it must fall by to count. docs/log.md has the measurements.
LEAST_FALL = 0.01
Weights = dict[str, Any]  # arrays, or tensors of a device


class EarlyStopping:
    """Watches the validation scores of some replicas.

    Parameters
    ----------
    rule : {"settled", "best", "lowest", "window", "consecutive", "none"}
    patience : int
    n_replicas : int

    Attributes
    ----------
    stopped_at : array of shape (n_replicas,)
        Epochs that each has run once it has stopped, 0 before.
    kept : list of dict or None
        The weights that each should end with; None: the last ones.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.early_stopping import EarlyStopping
    >>> stopping = EarlyStopping("best", patience=2, n_replicas=1)
    >>> for loss in (0.9, 0.5, 0.7, 0.6):
    ...     stopping.check(np.array([0]), np.array([loss]), np.array([0.8]), lambda replica: {})
    >>> stopping.stopped_at
    array([4])
    """

    def __init__(self, rule: str, patience: int, n_replicas: int) -> None:
        self.rule = rule
        self.patience = patience
        self.n_checked = np.zeros(n_replicas, dtype=np.int64)
        self.stopped_at = np.zeros(n_replicas, dtype=np.int64)
        # Accuracy and loss; the loss at the last gain, from which it must fall.
        self.best_score = np.tile([-np.inf, np.inf, np.inf], (n_replicas, 1))
        self.last_gain = np.zeros(n_replicas, dtype=np.int64)
        # Losses of the last epochs, that of epoch e in row e modulo their number.
        self.recent = np.zeros((patience + 1 if rule == "window" else 0, n_replicas))
        self.kept: list[Weights | None] = [None] * n_replicas

    def running(self, replicas: IntArray) -> IntArray:
        """Those of some replicas that have not stopped."""
        has_stopped = self.stopped_at[replicas] > 0
        return replicas[~has_stopped]

    def check(
        self,
        replicas: IntArray,
        loss: FloatArray,
        accuracy: FloatArray,
        weights_of: Callable[[int], Weights],
    ) -> None:
        """Look at the scores of an epoch that some replicas, all equally far, have run.

        `weights_of` gives a copy of a replica's present weights.
        """
        if not len(replicas):
            return
        self.n_checked[replicas] += 1
        if self.rule == "window":
            self._check_window(replicas, loss, weights_of)
        elif self.rule == "consecutive":
            self._check_consecutive(replicas, loss, weights_of)
        elif self.rule in ("settled", "best", "lowest"):
            for replica, own_loss, own_accuracy in zip(
                replicas.tolist(), loss.tolist(), accuracy.tolist(), strict=True
            ):
                self._check_best(replica, own_loss, own_accuracy, weights_of)

    def _check_best(
        self, replica: int, loss: float, accuracy: float, weights_of: Callable[[int], Weights]
    ) -> None:
        epoch = self.n_checked[replica]
        best_accuracy, best_loss, counted_loss = self.best_score[replica]
        is_best = accuracy > best_accuracy or (accuracy == best_accuracy and loss < best_loss)
        if loss < best_loss if self.rule == "lowest" else is_best:
            self.kept[replica] = weights_of(replica)
        if loss < counted_loss * (1 - LEAST_FALL if self.rule == "settled" else 1):
            counted_loss = loss
            self.last_gain[replica] = epoch
        if accuracy > best_accuracy:
            self.last_gain[replica] = epoch
        best = max(accuracy, best_accuracy), min(loss, best_loss)
        self.best_score[replica] = *best, counted_loss
        if epoch - self.last_gain[replica] >= self.patience:
            self.stopped_at[replica] = epoch

    # Paper: training stops if the validation loss does not decrease for 10 consecutive epochs;
    # here: the preset stops if it exceeds its mean over the 10 epochs before, because the authors'
    # code does; the rule of the text is early_stopping="consecutive".
    def _check_window(
        self, replicas: IntArray, loss: FloatArray, weights_of: Callable[[int], Weights]
    ) -> None:
        # All have run the same number of epochs.
        n_rows, epoch = len(self.recent), int(self.n_checked[replicas[0]])
        self.recent[(epoch - 1) % n_rows, replicas] = loss
        if epoch <= self.patience + 1:
            return
        earlier = np.arange(epoch - n_rows, epoch - 1) % n_rows  # the oldest first
        is_rising = loss > self.recent[earlier][:, replicas].mean(axis=0)
        for replica in replicas[is_rising].tolist():
            self.stopped_at[replica] = epoch
            self.kept[replica] = weights_of(replica)

    def _check_consecutive(
        self, replicas: IntArray, loss: FloatArray, weights_of: Callable[[int], Weights]
    ) -> None:
        falls = loss < self.best_score[replicas, 1]
        self.best_score[replicas, 1] = np.minimum(loss, self.best_score[replicas, 1])
        self.last_gain[replicas[falls]] = self.n_checked[replicas[falls]]
        has_waited = self.n_checked[replicas] - self.last_gain[replicas] >= self.patience
        for replica in replicas[has_waited].tolist():
            self.stopped_at[replica] = self.n_checked[replica]
            self.kept[replica] = weights_of(replica)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that `restore` needs; plain arrays, so it can be saved safely."""
        found = {name: getattr(self, name).copy() for name in _ARRAYS}
        for replica, weights in enumerate(self.kept):
            for name, value in (weights or {}).items():
                found[f"kept.{replica}.{name}"] = on_processor(value)
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `arrays` gave."""
        for name in _ARRAYS:
            own = getattr(self, name)
            if arrays[name].shape != own.shape:
                raise ValueError(f"{name} of early stopping must have the shape {own.shape}")
            own[...] = arrays[name]
        for replica in range(len(self.kept)):
            prefix = f"kept.{replica}."
            weights = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            self.kept[replica] = weights or None


_ARRAYS = ("n_checked", "stopped_at", "best_score", "last_gain", "recent")
