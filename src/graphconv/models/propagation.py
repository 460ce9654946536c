"""Propagation: the rules of the paper's table 3 as linear operators on a batch.

Projected features enter, one block of columns for each term of the rule; their propagated sum
leaves. A rule with terms k = 0..K returns sum_k S_k (X Theta_k). With D the degrees, A the
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

import importlib
import math
from types import ModuleType
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from graphconv.engine.batches import Batch
from graphconv.engine.steps import NeighbourSum, Scales, run_step
from graphconv.graph import Graph, symmetrise

Rule = Literal[
    "renormalised", "single-parameter", "first-order", "first-order-only", "chebyshev", "none"
]
RULES: tuple[str, ...] = get_args(Rule)
Array = npt.NDArray[Any]


class Propagation(nn.Module):
    """A rule by which a layer mixes the rows of neighbouring nodes.

    Parameters
    ----------
    rule : str
        One of RULES.
    directed : bool
    self_loop_weight : float or "learn"
        lambda of the renormalised rule; "learn" starts at 1 and follows the gradient.
    chebyshev_order : int
        K of the Chebyshev rule.
    lambda_max : float
        Largest eigenvalue of the normalised Laplacian, for the Chebyshev rule: 2 bounds it, and
        `largest_eigenvalue` works it out.
    n_replicas : int
        How many models train side by side; each learns a lambda of its own.
    kernels : module
        What computes the products: see graphconv.kernels.select.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        directed: bool = False,
        self_loop_weight: float | Literal["learn"] = 1.0,
        chebyshev_order: int = 3,
        lambda_max: float = 2.0,
        n_replicas: int = 1,
        kernels: ModuleType,
    ) -> None:
        super().__init__()
        self.rule = rule
        self.directed = directed
        self.lambda_max = lambda_max
        self.n_replicas = n_replicas
        self.kernels = kernels
        self.n_hops = {"none": 0, "chebyshev": chebyshev_order}.get(rule, 1)
        self.n_terms = {"first-order": 2, "chebyshev": chebyshev_order + 1}.get(rule, 1)
        # softplus keeps a learned weight positive; its inverse at 1 starts it there.
        self.raw_self_loop_weight = (
            nn.Parameter(torch.full((n_replicas,), math.log(math.e - 1)))
            if self_loop_weight == "learn"
            else None
        )
        self._fixed_weight = 1.0 if self_loop_weight == "learn" else float(self_loop_weight)
        self._scales: WeakKeyDictionary[Batch, Scales] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # A module and a cache keyed by identity: the copy gets its own.
        state = self.__dict__.copy()
        state["kernels"] = self.kernels.__name__
        del state["_scales"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.kernels = importlib.import_module(state["kernels"])
        self._scales = WeakKeyDictionary()

    @property
    def self_loop_weight(self) -> list[float]:
        """Lambda of each replica, learned or fixed."""
        if self.raw_self_loop_weight is None:
            return [self._fixed_weight] * self.n_replicas
        weights = nn.functional.softplus(self.raw_self_loop_weight.detach())
        return [float(weight) for weight in weights]

    def forward(self, projected: Tensor, batch: Batch, hop: int) -> Tensor:
        """Propagate to the rows within `hop` hops of the batch's targets.

        Parameters
        ----------
        projected : Tensor of shape (batch.n_within[hop + n_hops], n_terms * width)
        batch : Batch
        hop : int

        Returns
        -------
        Tensor of shape (batch.n_within[hop], width)
        """
        n_out = batch.n_within[hop]
        if self.rule == "none":
            return projected[:n_out]
        if self.rule == "renormalised":
            if self.raw_self_loop_weight is not None:
                return self._renormalised_learned(projected, batch, hop)
            return self._normalised(projected, batch, hop, self._fixed_weight)
        if self.rule == "single-parameter":
            return projected[:n_out] + self._normalised(projected, batch, hop)
        if self.rule == "first-order":
            own, neighbours = projected.chunk(2, dim=1)
            return own[:n_out] + self._normalised(neighbours, batch, hop)
        if self.rule == "first-order-only":
            return self._normalised(projected, batch, hop)
        return self._chebyshev(projected, batch, hop)

    def _chebyshev(self, projected: Tensor, batch: Batch, hop: int) -> Tensor:
        # Clenshaw's recurrence: b_k = X Theta_k + 2 L~ b_(k+1) - b_(k+2), and the sum is
        # X Theta_0 + L~ b_1 - b_2. b_k is needed on the rows within k further hops only.
        terms = projected.chunk(self.n_terms, dim=1)
        if len(terms) == 1:
            return terms[0][: batch.n_within[hop]]
        later, latest = torch.zeros_like(terms[-1]), terms[-1]
        for k in range(self.n_terms - 2, 0, -1):
            n_rows = batch.n_within[hop + k]
            b_k = (
                terms[k][:n_rows]
                + 2 * self._rescaled_laplacian(latest, batch, hop + k)
                - later[:n_rows]
            )
            later, latest = latest, b_k
        n_out = batch.n_within[hop]
        return terms[0][:n_out] + self._rescaled_laplacian(latest, batch, hop) - later[:n_out]

    def _rescaled_laplacian(self, x: Tensor, batch: Batch, hop: int) -> Tensor:
        """L~ x = (2 / lambda_max - 1) x - (2 / lambda_max) S x."""
        ratio = 2 / self.lambda_max
        product = -ratio * self._normalised(x, batch, hop)
        return product if ratio == 1 else (ratio - 1) * x[: batch.n_within[hop]] + product

    def _normalised(self, x: Tensor, batch: Batch, hop: int, self_weight: float = 0.0) -> Tensor:
        x = batch.with_halo(x, hop)
        return run_step(self._sum_step(batch, (batch.n_within[hop], x.shape[0]), self_weight), x)

    def step(self, batch: Batch, hop: int) -> NeighbourSum | None:
        """What `forward` does, where it is a single sum over neighbours; else None."""
        if self.rule not in ("renormalised", "first-order-only") or batch.has_halo:
            return None
        if self.raw_self_loop_weight is not None:
            return None
        self_weight = self._fixed_weight if self.rule == "renormalised" else 0.0
        return self._sum_step(batch, (batch.n_within[hop], batch.n_within[hop + 1]), self_weight)

    def _sum_step(self, batch: Batch, shape: tuple[int, int], self_weight: float) -> NeighbourSum:
        scales = self._scales.get(batch) or self._make_scales(batch, self_weight)
        return NeighbourSum(self.kernels, batch, shape, scales, self_weight)

    def _make_scales(self, batch: Batch, self_weight: float) -> Scales:
        # Degrees below the smallest normal number have an inverse that overflows: no neighbours.
        smallest = np.finfo(batch.degree.dtype).tiny
        scale = batch.degree + batch.degree.dtype.type(self_weight)
        is_alone = scale <= smallest
        np.divide(1, scale, out=scale, where=~is_alone)
        scale[is_alone] = 0
        if not self.directed:
            np.sqrt(scale, out=scale)
        self._scales[batch] = Scales(scale, None if self.directed else scale)
        return self._scales[batch]

    def _renormalised_learned(self, x: Tensor, batch: Batch, hop: int) -> Tensor:
        # The scales depend on lambda here, so torch applies them and follows their gradient.
        assert self.raw_self_loop_weight is not None
        n_out, x = batch.n_within[hop], batch.with_halo(x, hop)
        # One replica at a time, so that each sums its gradient in the order it would alone.
        weights = nn.functional.softplus(self.raw_self_loop_weight).unbind()
        degree = torch.from_numpy(batch.degree).to(x.dtype)[: x.shape[0], None]
        scales = [(degree + weight).pow(-1.0 if self.directed else -0.5) for weight in weights]
        blocks = x.unflatten(1, (self.n_replicas, -1)).unbind(1)
        scaled = [
            block.contiguous() if self.directed else scale * block.contiguous()
            for scale, block in zip(scales, blocks, strict=True)
        ]
        step = NeighbourSum(self.kernels, batch, (n_out, x.shape[0]), Scales(), 0.0)
        summed = run_step(step, torch.cat(scaled, dim=1)).unflatten(1, (self.n_replicas, -1))
        mixed = [
            scale[:n_out] * (own.contiguous() + weight * block[:n_out])
            for scale, own, weight, block in zip(
                scales, summed.unbind(1), weights, scaled, strict=True
            )
        ]
        return torch.cat(mixed, dim=1)


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


def normalised_laplacian(graph: Graph) -> sp.csr_array:
    """I - D^-1/2 A D^-1/2 in double precision; row i of a node without edges is the identity's."""
    adjacency = graph.adjacency.astype(np.float64)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    scaling = sp.diags_array(scale)
    return sp.csr_array(sp.eye_array(graph.n_nodes) - scaling @ adjacency @ scaling)


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
