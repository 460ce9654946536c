"""Propagation: the rules of the paper's table 3, in the words of `operations`.

Projected features enter, one block of columns for each term of the rule; their propagated sum
leaves. A rule with terms k = 0..K gives sum_k S_k (X Theta_k). With D the degrees, A the
adjacency matrix and S = D^-1/2 A D^-1/2, the rules are

    renormalised      (D + lambda I)^-1/2 (A + lambda I) (D + lambda I)^-1/2        equation 8
    single-parameter  I + S                                                         equation 7
    first-order       X Theta_0 + S X Theta_1                                       equation 6
    first-order-only  S
    chebyshev         sum_k T_k(L~) X Theta_k, L~ = 2 / lambda_max (I - S) - I      equation 5
    none              I: a multi-layer perceptron

In a directed graph D^-1 A stands for S, and (D + lambda I)^-1 (A + lambda I) for the first: a node
takes the mean over the nodes its edges point to. Nodes without neighbours take part with zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from graphconv.graph import Graph, symmetrise
from graphconv.graph.spectral import normalised_laplacian
from graphconv.io.wording import naming
from graphconv.models.operations import Neighbours, Parameter, Value

# softplus keeps a learned lambda positive; its inverse at 1 starts it there.
LEARNED = Parameter("propagation.raw_self_loop_weight", (), math.log(math.e - 1))


@dataclass(frozen=True)
class Propagation:
    """A rule by which a layer mixes the rows of neighbouring nodes.

    Parameters
    ----------
    rule : str
        One of `graphconv.models.settings.RULES`.
    directed : bool
    self_loop_weight : float or "learn"
        lambda of the renormalised rule; "learn" starts at 1 and follows the gradient.
    chebyshev_order : int
        K of the Chebyshev rule.
    lambda_max : float
        Largest eigenvalue of the normalised Laplacian, for the Chebyshev rule: 2 bounds it, and
        `largest_eigenvalue` works it out.
    """

    rule: str = "renormalised"
    directed: bool = False
    self_loop_weight: float | Literal["learn"] = 1.0
    chebyshev_order: int = 3
    lambda_max: float = 2.0

    @property
    def n_terms(self) -> int:
        """How many weights a layer has."""
        return {"first-order": 2, "chebyshev": self.chebyshev_order + 1}.get(self.rule, 1)

    @property
    def parameters(self) -> list[Parameter]:
        """What the rule itself learns."""
        return [LEARNED] if self.self_loop_weight == "learn" else []

    def propagate(self, x: Value) -> Value:
        """The rule, applied to the terms of x."""
        if self.rule == "none":
            return x
        if self.rule == "renormalised":
            return self.smooth(x)
        if self.rule == "single-parameter":
            return x + _sum(x)
        if self.rule == "first-order":
            own, neighbours = x.terms()
            return own + _sum(neighbours)
        if self.rule == "first-order-only":
            return _sum(x)
        return self._chebyshev(x.terms())

    def smooth(self, x: Value) -> Value:
        """A-hat x: equation 8, whatever the rule."""
        weight = self.self_loop_weight
        return _sum(x, LEARNED if weight == "learn" else float(weight))

    def _chebyshev(self, terms: list[Value]) -> Value:
        # Clenshaw's recurrence: b_k = X Theta_k + 2 L~ b_(k+1) - b_(k+2), and the sum is
        # X Theta_0 + L~ b_1 - b_2.
        if len(terms) == 1:
            return terms[0]
        later, latest = None, terms[-1]
        for term in terms[-2:0:-1]:
            b_k = term + 2 * self._rescaled_laplacian(latest)
            later, latest = latest, b_k if later is None else b_k - later
        total = terms[0] + self._rescaled_laplacian(latest)
        return total if later is None else total - later

    def _rescaled_laplacian(self, x: Value) -> Value:
        """L~ x = (2 / lambda_max - 1) x - (2 / lambda_max) S x."""
        ratio = 2 / self.lambda_max
        product = -ratio * _sum(x)
        return product if ratio == 1 else (ratio - 1) * x + product


def require_renormalised(graph: Propagation, model: str) -> None:
    """Refuse rules of several terms, or whose powers grow, in a model that repeats the rule."""
    if graph.rule != "renormalised":
        raise ValueError(
            naming("{propagation} must be 'renormalised' with {}, got {!r}", model, graph.rule)
        )


def _sum(x: Value, self_loops: float | Parameter = 0.0) -> Value:
    return Neighbours((x,), x.width, self_loops)


def largest_eigenvalue(graph: Graph) -> float:
    """Largest eigenvalue of the normalised Laplacian I - D^-1/2 A D^-1/2 of an undirected graph.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.models.propagation import largest_eigenvalue
    >>> round(largest_eigenvalue(Graph([[0, 1], [1, 0]])), 6)
    2.0
    """
    laplacian = normalised_laplacian(graph)
    if graph.n_nodes < 64:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    # A fixed start vector makes Lanczos deterministic.
    start = np.random.default_rng(0).standard_normal(graph.n_nodes)
    values = sp.linalg.eigsh(laplacian, k=1, which="LA", v0=start, return_eigenvectors=False)
    return float(values[0])


def renormalised_adjacency(graph: Graph) -> sp.csr_array:
    """A-hat = D~^-1/2 (A + I) D~^-1/2 as a matrix; the edges of a directed graph go both ways.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.models.propagation import renormalised_adjacency
    >>> renormalised_adjacency(Graph([[0, 1], [1, 0]])).toarray().round(3)
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    adjacency = symmetrise(graph.adjacency) if graph.directed else graph.adjacency
    looped = adjacency + sp.eye_array(graph.n_nodes, dtype=np.float32)
    scale = sp.diags_array(1 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel()))
    return sp.csr_array(scale @ looped @ scale)
