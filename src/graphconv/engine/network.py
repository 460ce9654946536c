"""Network: a model with numbers, those of several replicas that differ in their seed.

All replicas share their arrays: one pass over the graph serves them all, and each computes what it
would compute alone. A batch enters, logits of its targets leave.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from types import ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphconv.engine._steps import softplus
from graphconv.engine.batches import Batch
from graphconv.engine.device_plan import BatchOnDevice, DevicePlan
from graphconv.engine.plan import Plan
from graphconv.engine.planning import make_plan
from graphconv.kernels import Dropout, torch_device
from graphconv.kernels.hashing import hash_key
from graphconv.models.model import Model
from graphconv.models.operations import Parameter, Value, glorot_limit
from graphconv.models.propagation import LEARNED

EVERYTHING_KEPT = 65536


class Network:
    """The parameters of a model, one of each for every replica.

    A weight has the shape (n_in, n_terms, n_replicas, n_out); of everything else the replicas are
    the first axis.

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
        self.kernels = kernels if device is None else torch_device
        self.device = device
        self.processor_kernels = kernels
        self._on_device: WeakKeyDictionary[Batch, BatchOnDevice] = WeakKeyDictionary()
        generators = [torch.Generator().manual_seed(hash_key(seed) >> 1) for seed in seeds]
        self.parameters = {
            own.name: _drawn(own, generators).to(device).requires_grad_()
            for own in self.program.parameters
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
        other.kernels = self.processor_kernels if device is None else torch_device
        place = "cpu" if device is None else device
        other.parameters = {
            name: own.detach().to(place).requires_grad_() for name, own in self.parameters.items()
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

    def __call__(self, batch: Batch, epoch: int | None = None) -> Tensor:
        """Logits of the batch's targets, shape (n_targets, n_replicas, n_classes).

        `epoch` numbers the dropout; None means no dropout. Torch can follow the gradient.
        """
        return self._run(batch, epoch, self.program.output)

    def embed(self, batch: Batch) -> Tensor:
        """Activations that enter the last layer, shape (n_rows, n_replicas, width)."""
        if self.program.embedding is None:
            raise ValueError("a model with a single layer has no hidden activations to embed")
        return self._run(batch, None, self.program.embedding)

    def _run(self, batch: Batch, epoch: int | None, target: Value) -> Tensor:
        plan = self.plan(batch, epoch is not None, target)
        dropouts = self.dropouts(epoch)
        if torch.is_grad_enabled():
            run: Any = _RunPlan  # whose `apply` torch has no types for
            values = cast(Tensor, run.apply(plan, dropouts, *self.parameters.values()))
        else:
            values = torch.as_tensor(plan.forward(dropouts))
        # Nothing but this tells the width where a process has no rows of a batch.
        return values.view(len(values), len(self.seeds), target.width)

    def plan(self, batch: Batch, drops: bool, target: Value | None = None) -> Plan | DevicePlan:
        """The steps that compute a value of the model, by default its logits, for a batch."""
        if self.device is not None:
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
        index = torch.tensor(chosen, device=self.device)
        other = object.__new__(Network)
        other.__dict__.update(self.__dict__)
        other.seeds = tuple(self.seeds[replica] for replica in chosen)
        other.parameters = {
            name: tensor.detach().index_select(self.replica_axis(name), index).requires_grad_()
            for name, tensor in self.parameters.items()
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
                copies = self._by_copy(self.parameters[name].detach(), axis)
                copies.copy_(own.detach().unsqueeze(axis))

    def _by_copy(self, tensor: Tensor, axis: int) -> Tensor:
        """The axis of the replicas as two, that of the copies before that of the originals."""
        shape = list(tensor.shape)
        shape[axis : axis + 1] = [self.n_copies, shape[axis] // self.n_copies]
        return tensor.view(shape)

    def summed_over_copies(self, slopes: Sequence[Any]) -> list[Any]:
        """Gradients for the originals, given those for the copies; arrays or tensors."""
        found = []
        for name, slope in zip(self.parameters, slopes, strict=True):
            if name not in self.program.running:
                axis = self.replica_axis(name)
                own = self._by_copy(torch.as_tensor(slope), axis).unbind(axis)
                total = reduce(add, own)  # one after the other: the order decides the last bits
                slope = total if isinstance(slope, Tensor) else total.numpy()
            found.append(slope)
        return found

    def replica_weights(self, replica: int) -> dict[str, Tensor]:
        """A copy of one replica's parameters."""
        return {name: own.clone() for name, own in self._of_replica(replica)}

    def load_replica(self, replica: int, weights: Mapping[str, Tensor]) -> None:
        """Put parameters, as `replica_weights` gave them, into one replica."""
        for name, own in self._of_replica(replica):
            own.copy_(weights[name])

    def _of_replica(self, replica: int) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self.parameters.items():
            yield name, tensor.detach().select(self.replica_axis(name), replica)


def _replica_axis(parameter: Parameter) -> int:
    return 2 if len(parameter.shape) == 3 else 0


def _drawn(parameter: Parameter, generators: Sequence[torch.Generator]) -> Tensor:
    """First values, those of each replica by its own generator."""
    shape = list(parameter.shape)
    shape.insert(_replica_axis(parameter), len(generators))
    if parameter.start is not None:
        return torch.full(shape, parameter.start)
    values = torch.empty(shape)
    limit = glorot_limit(parameter)
    n_in, n_terms, n_out = parameter.shape
    for replica, generator in enumerate(generators):
        for term in range(n_terms):
            draw = torch.rand((n_in, n_out), generator=generator)
            values[:, term, replica] = draw.mul_(2 * limit).sub_(limit)
    return values


class _RunPlan(torch.autograd.Function):
    """A plan as part of torch's record, for losses that are not the loop's own."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, dropouts: list[Dropout | None], *parameters: Tensor
    ) -> Tensor:
        ctx.saved = (plan, dropouts)
        return torch.from_numpy(plan.forward(dropouts, for_gradients=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        plan, dropouts = ctx.saved
        if not plan.has_values:  # torch asks a second time
            plan.forward(dropouts, for_gradients=True)
        slope = gradients[0].contiguous().numpy()
        found = plan.gradients(slope, dropouts)
        return None, None, *(None if own is None else torch.from_numpy(own) for own in found)
