"""Recorded: a network whose values torch follows, for losses that are not the loop's own.

A network on the processor enters; what it computes is then part of torch's record, and torch finds
gradients for its parameters by the gradients of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from graphconv.engine.batches import Batch
from graphconv.engine.network import Network
from graphconv.engine.plan import Plan
from graphconv.kernels import Dropout
from graphconv.models.operations import Value


class Recorded:
    """A network on the processor and its parameters as tensors, which share their memory.

    Examples
    --------
    >>> import torch
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.engine.batches import make_batch
    >>> from graphconv.engine.recorded import Recorded
    >>> from graphconv.training.fit import build_model
    >>> karate = load_dataset("karate")
    >>> network = Recorded(build_model(karate, Settings(hidden=(4,)), seeds=[0]))
    >>> logits = network(make_batch(karate, n_hops=2))
    >>> slopes = torch.autograd.grad(logits.square().sum(), list(network.parameters.values()))
    >>> tuple(slopes[0].shape)  # as the weight: features, terms, replicas, width
    (34, 1, 1, 4)
    """

    def __init__(self, network: Network, parameters: Mapping[str, Tensor] | None = None) -> None:
        self.network = network
        self.parameters = parameters or {
            name: torch.from_numpy(own).requires_grad_() for name, own in network.parameters.items()
        }

    def __call__(self, batch: Batch, epoch: int | None = None) -> Tensor:
        """Logits of the batch's targets, as those of the network."""
        return self._run(batch, epoch, self.network.program.output)

    def embed(self, batch: Batch) -> Tensor:
        """Activations that enter the last layer, as those of the network."""
        target = self.network.program.embedding
        assert target is not None, "a model with a single layer has no hidden activations"
        return self._run(batch, None, target)

    def _run(self, batch: Batch, epoch: int | None, target: Value) -> Tensor:
        plan = self.network.plan(batch, epoch is not None, target)
        run: Any = RunPlan  # whose `apply` torch has no types for
        values = run.apply(plan, self.network.dropouts(epoch), *self.parameters.values())
        return cast(Tensor, values).view(len(values), len(self.network.seeds), target.width)


class RunPlan(torch.autograd.Function):
    """A plan as a function of the parameters that it was made with."""

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
        found = plan.gradients(gradients[0].contiguous().numpy(), dropouts)
        return None, None, *(None if own is None else torch.from_numpy(own) for own in found)
