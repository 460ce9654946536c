"""What must hold of a saved training before it is continued: names, shapes, kinds and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.engine.devices import on_processor
from graphconv.engine.network import Network
from graphconv.training.early_stopping import EarlyStopping

_COUNTS = ("n_run", "stopping.n_checked", "stopping.stopped_at", "stopping.last_gain")


Saved = Mapping[str, npt.NDArray[Any]]


def check_saved(arrays: Saved, network: Network, stopping: EarlyStopping) -> None:
    """Refuse the arrays of a checkpoint that are not those of a training of this network."""
    expected = _expected(arrays, network, stopping)
    for name, like in expected.items():
        if name not in arrays:
            raise ValueError(f"a saved training must be complete, but lacks {name}")
        found = arrays[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"a saved training must hold {name} of shape {tuple(like.shape)} and {like.dtype}, "
                f"got {tuple(found.shape)} and {found.dtype}"
            )
        if found.dtype == np.float32 and not np.isfinite(found).all():
            raise ValueError(f"a saved training must hold numbers, got nan or infinity in {name}")
    strangers = sorted({*arrays} - {*expected})
    if strangers:
        raise ValueError(f"a saved training must not hold {strangers[0]}")
    n_epochs = len(arrays["epochs"])
    for name in _COUNTS:
        if not bool(((arrays[name] >= 0) & (arrays[name] <= n_epochs)).all()):
            raise ValueError(f"a saved training must have {name} from 0 to {n_epochs}")
    if int(arrays["adam.n_steps"]) < 0:
        raise ValueError("a saved training must not have fewer than 0 steps")


def _expected(
    arrays: Saved, network: Network, stopping: EarlyStopping
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of the shapes and kinds that a checkpoint has; their numbers mean nothing."""
    n_replicas = len(network.seeds)
    n_epochs = len(arrays["epochs"]) if "epochs" in arrays and arrays["epochs"].ndim else 0
    expected = {
        "adam.n_steps": np.array(0),
        "n_run": np.zeros(n_replicas, dtype=np.int64),
        "epochs": np.empty((n_epochs, 4, n_replicas)),
    }
    for name, parameter in network.parameters.items():
        for place in ("model", "adam.mean", "adam.square"):
            expected[f"{place}.{name}"] = on_processor(parameter)
    for name, array in stopping.arrays().items():
        expected[f"stopping.{name}"] = array
    for replica in range(n_replicas):
        prefix = f"stopping.kept.{replica}."
        if any(name.startswith(prefix) for name in arrays):
            for name, own in network.replica_weights(replica).items():
                expected[f"{prefix}{name}"] = on_processor(own)
    return expected
