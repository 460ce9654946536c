"""What must hold of a saved training before it is continued: names, shapes, kinds and counts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from graphconv.engine.network import Network
from graphconv.training.early_stopping import EarlyStopping

_COUNTS = ("n_run", "stopping.n_checked", "stopping.stopped_at", "stopping.last_gain")


def check_saved(tensors: Mapping[str, Tensor], network: Network, stopping: EarlyStopping) -> None:
    """Refuse the tensors of a checkpoint that are not those of a training of this network."""
    expected = _expected(tensors, network, stopping)
    for name, like in expected.items():
        if name not in tensors:
            raise ValueError(f"a saved training must be complete, but lacks {name}")
        found = tensors[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"a saved training must hold {name} of shape {tuple(like.shape)} and {like.dtype}, "
                f"got {tuple(found.shape)} and {found.dtype}"
            )
        if found.dtype == torch.float32 and not bool(found.isfinite().all()):
            raise ValueError(f"a saved training must hold numbers, got nan or infinity in {name}")
    strangers = sorted({*tensors} - {*expected})
    if strangers:
        raise ValueError(f"a saved training must not hold {strangers[0]}")
    n_epochs = len(tensors["epochs"])
    for name in _COUNTS:
        if not bool(((tensors[name] >= 0) & (tensors[name] <= n_epochs)).all()):
            raise ValueError(f"a saved training must have {name} from 0 to {n_epochs}")
    if int(tensors["adam.n_steps"]) < 0:
        raise ValueError("a saved training must not have fewer than 0 steps")


def _expected(
    tensors: Mapping[str, Tensor], network: Network, stopping: EarlyStopping
) -> dict[str, Tensor]:
    """Tensors of the shapes and kinds that a checkpoint has; their numbers mean nothing."""
    n_replicas = len(network.seeds)
    n_epochs = len(tensors["epochs"]) if "epochs" in tensors and tensors["epochs"].ndim else 0
    expected = {
        "adam.n_steps": torch.tensor(0),
        "n_run": torch.zeros(n_replicas, dtype=torch.int64),
        "epochs": torch.empty((n_epochs, 4, n_replicas), dtype=torch.float64),
    }
    for name, parameter in network.parameters.items():
        for place in ("model", "adam.mean", "adam.square"):
            expected[f"{place}.{name}"] = parameter
    for name, array in stopping.tensors().items():
        expected[f"stopping.{name}"] = array
    for replica in range(n_replicas):
        prefix = f"stopping.kept.{replica}."
        if any(name.startswith(prefix) for name in tensors):
            for name, own in network.replica_weights(replica).items():
                expected[f"{prefix}{name}"] = own
    return expected
