"""Network: a model with numbers, those of several replicas that differ in their seed.

All replicas share their arrays: one pass over the graph serves them all, and each computes what it
would compute alone. A batch enters, logits of its targets leave.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from graphconv.engine._steps import softplus
from graphconv.engine.batches import Batch
from graphconv.engine.devices import on_device, on_processor
from graphconv.engine.plan import Plan
from graphconv.engine.planning import make_plan
from graphconv.kernels import Dropout, zeros
from graphconv.kernels.hashing import hash_key
from graphconv.models.model import Model
from graphconv.models.operations import Parameter, Value, glorot_limit
from graphconv.models.propagation import LEARNED

if TYPE_CHECKING:
    import torch

    from graphconv.engine.device_plan import BatchOnDevice, DevicePlan

Array = npt.NDArray[Any]
EVERYTHING_KEPT = 65536


class Network:
    """The parameters of a model, one of each for every replica.

    A weight has the shape (n_in, n_terms, n_replicas, n_out); of everything else the replicas are
    the first axis. Parameters are arrays, on a device tensors; they change in place.

    Parameters
    ----------
    model : Model
    seeds : sequence of int
        One for each replica: its first weights and, in training, its dropout follow from it.
    kernels : module
        What computes the products: see graphconv.kernels.select.
    device : torch.device, optional
        Where the parameters are and torch computes; by default the kernels do, on the processor.

    Examples
    --------
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.training.fit import build_model
    >>> network = build_model(load_dataset("karate"), Settings(hidden=(4,)), seeds=[0, 1])
    >>> tuple(network.parameters["layers.0.weight"].shape)  # features, terms, replicas, width
    (34, 1, 2, 4)
    """

    def __init__(
        self,
        model: Model,
        seeds: Sequence[int],
        kernels: ModuleType,
        device: torch.device | None = None,
    ) -> None:
        self.model = model
        self.program = model.program
        self.seeds = tuple(seeds)
        self.n_copies = 1
        self.device = device
        self.processor_kernels = kernels
        self.kernels = _kernels_of(device, kernels)
        self._on_device: WeakKeyDictionary[Batch, BatchOnDevice] = WeakKeyDictionary()
        generators = [np.random.RandomState(hash_key(seed) >> 1 & 0xFFFFFFFF) for seed in seeds]
        self.parameters: dict[str, Any] = {
            own.name: on_device(_drawn(own, generators), device) for own in self.program.parameters
        }
        self._thresholds = [
            round(EVERYTHING_KEPT * (1 - place.rate)) for place in self.program.dropouts
        ]

    def __getstate__(self) -> dict[str, Any]:
        # Modules can't be pickled, and batches are kept by their identity.
        modules = {name: getattr(self, name).__name__ for name in ("kernels", "processor_kernels")}
        return {**self.__dict__, **modules, "_on_device": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _on_device=WeakKeyDictionary())
        for name in ("kernels", "processor_kernels"):
            setattr(self, name, importlib.import_module(state[name]))

    def on(self, device: torch.device | None) -> Network:
        """The same network on a device, or without one where the kernels are."""
        other = object.__new__(Network)
        other.__dict__.update(self.__dict__, device=device, _on_device=WeakKeyDictionary())
        other.kernels = _kernels_of(device, self.processor_kernels)
        other.parameters = {
            name: on_device(on_processor(own), device) for name, own in self.parameters.items()
        }
        return other

    @property
    def n_hops(self) -> int:
        """How far from a node its output depends on."""
        return self.program.n_hops

    @property
    def self_loop_weight(self) -> list[float]:
        """Lambda of each replica, learned or fixed."""
        if LEARNED.name not in self.parameters:
            return [float(self.model.graph.self_loop_weight)] * len(self.seeds)
        return [softplus(raw) for raw in self.parameters[LEARNED.name].tolist()]

    def __call__(self, batch: Batch, epoch: int | None = None) -> Array:
        """Logits of the batch's targets, shape (n_targets, n_replicas, n_classes).

        `epoch` numbers the dropout; None means no dropout.
        """
        return self._run(batch, epoch, self.program.output)

    def embed(self, batch: Batch) -> Array:
        """Activations that enter the last layer, shape (n_rows, n_replicas, width)."""
        if self.program.embedding is None:
            raise ValueError("a model with a single layer has no hidden activations to embed")
        return self._run(batch, None, self.program.embedding)

    def _run(self, batch: Batch, epoch: int | None, target: Value) -> Array:
        plan = self.plan(batch, epoch is not None, target)
        values = on_processor(plan.forward(self.dropouts(epoch)))
        # Nothing but this tells the width where a process has no rows of a batch.
        return values.reshape(len(values), len(self.seeds), target.width)

    def plan(self, batch: Batch, drops: bool, target: Value | None = None) -> Plan | DevicePlan:
        """The steps that compute a value of the model, by default its logits, for a batch."""
        if self.device is not None:
            from graphconv.engine.device_plan import BatchOnDevice, DevicePlan

            if batch not in self._on_device:
                dtype = next(iter(self.parameters.values())).dtype
                self._on_device[batch] = BatchOnDevice(batch, self.device, dtype)
            return DevicePlan(
                self.program,
                self._on_device[batch],
                self.parameters,
                n_replicas=len(self.seeds),
                directed=self.model.graph.directed,
                drops=drops,
                target=target,
            )
        return make_plan(
            self.program,
            batch,
            self.parameters,
            kernels=self.kernels,
            directed=self.model.graph.directed,
            drops=drops,
            target=target,
        )

    def dropouts(self, epoch: int | None) -> list[Dropout | None]:
        """The dropout at each place of the text in an epoch; None means none."""
        if epoch is None:
            return [None] * len(self._thresholds)
        n_originals = len(self.seeds) // self.n_copies
        which = [(k // n_originals,) if k >= n_originals else () for k in range(len(self.seeds))]
        return [
            None
            if threshold == EVERYTHING_KEPT
            else Dropout(
                tuple(
                    hash_key(seed, epoch, place, *copy)
                    for seed, copy in zip(self.seeds, which, strict=True)
                ),
                threshold,
            )
            for place, threshold in enumerate(self._thresholds)
        ]

    def penalised(self, layers: str) -> list[str]:
        """Names of the weights that an L2 penalty rests on: those of the "first" layer or "all"."""
        names = [weight.name for weight in self.program.weights]
        return names if layers == "all" else names[:1]

    def replica_axis(self, name: str) -> int:
        """Which axis of a parameter has one place for each replica."""
        return _replica_axis(next(p for p in self.program.parameters if p.name == name))

    def some_replicas(self, chosen: Sequence[int]) -> Network:
        """A network of some of the replicas, with weights of its own.

        Examples
        --------
        >>> from graphconv import Settings, load_dataset
        >>> from graphconv.training.fit import build_model
        >>> network = build_model(load_dataset("karate"), Settings(), seeds=[5, 6, 7])
        >>> network.some_replicas([2, 0]).seeds
        (7, 5)
        """
        other = object.__new__(Network)
        other.__dict__.update(self.__dict__)
        other.seeds = tuple(self.seeds[replica] for replica in chosen)
        other.parameters = {
            name: _some(own, self.replica_axis(name), chosen)
            for name, own in self.parameters.items()
        }
        return other

    def copied(self, n_copies: int) -> Network:
        """The replicas so many times over, one copy of all after the other.

        They differ in what training drops out. Running statistics are those of the originals, which
        every copy moves; of other parameters the copies have what `take_over` gives them.
        """
        other = self.some_replicas([*range(len(self.seeds))] * n_copies)
        other.n_copies = n_copies
        other.parameters.update({name: self.parameters[name] for name in self.program.running})
        return other

    def take_over(self, originals: Network) -> None:
        """Give every copy the parameters that the originals have now."""
        for name, own in originals.parameters.items():
            if name not in self.program.running:
                axis = self.replica_axis(name)
                self._by_copy(self.parameters[name], axis)[...] = own[along(axis, None)]

    def _by_copy(self, values: Any, axis: int) -> Any:
        """The axis of the replicas as two, that of the copies before that of the originals."""
        shape = list(values.shape)
        shape[axis : axis + 1] = [self.n_copies, shape[axis] // self.n_copies]
        return values.reshape(shape)

    def summed_over_copies(self, slopes: Sequence[Any]) -> list[Any]:
        """Gradients for the originals, given those for the copies; arrays or tensors."""
        found = []
        for name, slope in zip(self.parameters, slopes, strict=True):
            if name not in self.program.running:
                axis = self.replica_axis(name)
                by_copy = self._by_copy(slope, axis)
                # One after the other: the order decides the last bits.
                slope = reduce(add, (by_copy[along(axis, k)] for k in range(self.n_copies)))
            found.append(slope)
        return found

    def replica_weights(self, replica: int) -> dict[str, Any]:
        """A copy of one replica's parameters."""
        found = {}
        for name, own in self.parameters.items():
            axis = self.replica_axis(name)
            shape = own.shape[:axis] + own.shape[axis + 1 :]
            found[name] = own[along(axis, [replica])].reshape(shape)
        return found

    def load_replica(self, replica: int, weights: Mapping[str, Any]) -> None:
        """Put parameters, as `replica_weights` gave them, into one replica."""
        for name, own in self.parameters.items():
            values = on_device(on_processor(weights[name]), self.device)
            own[along(self.replica_axis(name), replica)] = values


def along(axis: int, index: Any) -> tuple[Any, ...]:
    """What picks places along an axis, of arrays and tensors alike: a list of them for a copy."""
    return (*(slice(None),) * axis, index)


def _some(values: Any, axis: int, chosen: Sequence[int]) -> Any:
    """Some places along an axis, copied to memory of their own."""
    found = values[along(axis, list(chosen))]
    if not isinstance(found, np.ndarray):
        return found
    own = zeros(found.shape, found.dtype)
    own[...] = found
    return own


def _kernels_of(device: torch.device | None, processor_kernels: ModuleType) -> ModuleType:
    if device is None:
        return processor_kernels
    return importlib.import_module("graphconv.kernels.torch_device")


def _replica_axis(parameter: Parameter) -> int:
    return 2 if len(parameter.shape) == 3 else 0


def _drawn(parameter: Parameter, generators: Sequence[np.random.RandomState]) -> Array:
    """First values, those of each replica by its own generator."""
    shape = list(parameter.shape)
    shape.insert(_replica_axis(parameter), len(generators))
    values = zeros(shape)
    if parameter.start is not None:
        values[...] = parameter.start
        return values
    limit = glorot_limit(parameter)
    n_in, n_terms, n_out = parameter.shape
    for replica, generator in enumerate(generators):
        for term in range(n_terms):
            draw = _uniform(generator, (n_in, n_out))
            values[:, term, replica] = draw * np.float32(2 * limit) - np.float32(limit)
    return values


def _uniform(generator: np.random.RandomState, shape: tuple[int, int]) -> Array:
    """Numbers from 0 to 1, of 24 bits: those that torch draws with the same seed."""
    raw = generator.randint(1 << 32, size=shape, dtype=np.uint32)
    return (raw & 0xFFFFFF).astype(np.float32) * np.float32(2.0**-24)
