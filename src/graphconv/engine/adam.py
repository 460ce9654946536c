"""Adam (Kingma and Ba 2015) by our own kernel: parameters and gradients enter, parameters change.

Making a torch.optim.Adam imports torch's compiler, 2.5 seconds, which is ten times what training on
Cora takes; and its many small operations cost more than a Cora forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.kernels import torch_device


class Adam:
    """Adam with an L2 penalty on chosen parameters, one call of a kernel a parameter.

    Parameters
    ----------
    parameters : mapping of str to Tensor
        Changed in place.
    learning_rate : float
    kernels : module
        `graphconv.kernels.native` or `reference`.
    decay : mapping of str to float, optional
        For the parameters that have one: how many times itself is added to the gradient.

    Examples
    --------
    >>> import torch
    >>> from graphconv import kernels
    >>> from graphconv.engine.adam import Adam
    >>> weight = torch.tensor([1.0, -1.0])
    >>> Adam({"weight": weight}, 0.1, kernels.select()).step([torch.tensor([5.0, 0.0])])
    >>> weight  # a first step is as long as the learning rate, whatever the gradient
    tensor([ 0.9000, -1.0000])
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        learning_rate: float,
        kernels: ModuleType,
        decay: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.kernels = kernels
        self.n_steps = 0
        self.mean = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.square = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self._decay = [(decay or {}).get(name, 0.0) for name in self.parameters]
        self._arrays = [
            [_as_taken(own, kernels) for own in (parameter, self.mean[name], self.square[name])]
            for name, parameter in self.parameters.items()
        ]

    def step(self, slopes: Sequence[Tensor | npt.NDArray[Any]]) -> None:
        """Change the parameters, given the gradient of each, in their order."""
        self.n_steps += 1
        for slope, decay, (parameter, mean, square) in zip(
            slopes, self._decay, self._arrays, strict=True
        ):
            self.kernels.adam(
                parameter,
                _as_taken(slope.contiguous(), self.kernels) if isinstance(slope, Tensor) else slope,
                mean,
                square,
                self.n_steps,
                self.learning_rate,
                decay,
            )


def _as_taken(tensor: Tensor, kernels: ModuleType) -> Any:
    """A parameter as the kernels take it: they change its memory."""
    own = tensor.detach()
    return own if kernels is torch_device else own.numpy()
