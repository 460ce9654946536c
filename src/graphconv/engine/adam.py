"""Adam (Kingma and Ba 2015) by our own kernel: parameters and gradients enter, parameters change.

Parameters are arrays on the processor or tensors on a device, where the kernels are those of
`kernels.torch_device`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from graphconv import kernels as kernel_memory


class Adam:
    """Adam with an L2 penalty on chosen parameters, one call of a kernel a parameter.

    Parameters
    ----------
    parameters : mapping of str to array
        Changed in place.
    learning_rate : float
    kernels : module
        `graphconv.kernels.native` or `reference`, or `torch_device` for tensors.
    decay : mapping of str to float, optional
        For the parameters that have one: how many times itself is added to the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import kernels
    >>> from graphconv.engine.adam import Adam
    >>> weight = np.array([1.0, -1.0])
    >>> Adam({"weight": weight}, 0.1, kernels.select()).step([np.array([5.0, 0.0])])
    >>> weight  # a first step is as long as the learning rate, whatever the gradient
    array([ 0.9, -1. ])
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        learning_rate: float,
        kernels: ModuleType,
        decay: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.kernels = kernels
        self.n_steps = 0
        self.mean = {name: _zeros_like(own) for name, own in self.parameters.items()}
        self.square = {name: _zeros_like(own) for name, own in self.parameters.items()}
        self._decay = [(decay or {}).get(name, 0.0) for name in self.parameters]
        self._arrays = [
            (own, self.mean[name], self.square[name]) for name, own in self.parameters.items()
        ]

    def step(self, slopes: Sequence[Any]) -> None:
        """Change the parameters, given the gradient of each, in their order."""
        self.n_steps += 1
        for slope, decay, (parameter, mean, square) in zip(
            slopes, self._decay, self._arrays, strict=True
        ):
            self.kernels.adam(
                parameter, slope, mean, square, self.n_steps, self.learning_rate, decay
            )


def _zeros_like(own: Any) -> Any:
    if isinstance(own, np.ndarray):
        return kernel_memory.zeros(own.shape, own.dtype)
    return own.new_zeros(own.shape)
