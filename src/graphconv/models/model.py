"""Model: what every model has: parameters, a rule of propagation, and a text that gives logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from graphconv.models.operations import Features, Parameter, Program, Value
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings


class Model(ABC):
    """A network described in words; `graphconv.engine.network.Network` gives it numbers.

    Parameters
    ----------
    n_features, n_classes : int
    settings : Settings
    graph : Propagation
        The rule by which rows of neighbouring nodes are mixed.
    """

    usual_copies = 1  # see `n_copies`

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        self.n_features = n_features
        self.n_classes = n_classes
        self.settings = settings
        self.graph = graph
        self.parameters: list[Parameter] = list(graph.parameters)

    @abstractmethod
    def logits(self, x: Value, graph: Propagation) -> Value:
        """What is computed from the features x: a number for each node and class."""

    @cached_property
    def program(self) -> Program:
        """The operations of `logits`."""
        output = self.logits(Features((), self.n_features), self.graph)
        assert output.width == self.n_classes
        return Program.of(output, self.parameters)

    def dropout_rate(self, layer: int) -> float:
        """The share of a layer's input that training drops out."""
        rates = self.settings.dropout
        return float(rates) if isinstance(rates, int | float) else float(rates[layer])

    @property
    def n_copies(self) -> int:
        """Passes of a training step that differ in what they drop out, and are made to agree."""
        return self.settings.copies or self.usual_copies

    @property
    def agrees(self) -> bool:
        """Whether nodes without a label take part in training, by the agreement of copies."""
        return self.n_copies > 1 and self.settings.agreement > 0

    def weight(
        self, name: str, n_in: int, n_out: int, n_terms: int = 1, start: float | None = None
    ) -> Parameter:
        return self._declared(Parameter(name, (n_in, n_terms, n_out), start))

    def vector(self, name: str, width: int, start: float = 0.0) -> Parameter:
        return self._declared(Parameter(name, (width,), start))

    def _declared(self, parameter: Parameter) -> Parameter:
        self.parameters.append(parameter)
        return parameter
