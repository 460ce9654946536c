"""Features that are summed over neighbours once, not in every epoch.

A batch and a network enter, a batch leaves whose features are sums over neighbours
already: (S X) W is S (X W), and without dropout S X stays the same. It has the rows within one hop
less, often far fewer, so the first layer multiplies less and sums nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphconv.engine._steps import Given, NeighbourSum
from graphconv.engine.batches import Array, Batch
from graphconv.engine.network import Network
from graphconv.kernels import Csr, fixed, n_summed

# What a product takes for each row, and a sum for each neighbour, in entries of a product: reckoned
# from the times of Pubmed's kernels at width 16.
_ROW_COST = 5
_NEIGHBOUR_COST = 4
# Below this share of the work that was, the sums are worth making.
_WORTHWHILE = 0.8
# Not even tried where the sums go over more entries, or could have more, than these multiples of
# the work that was.
_MOST_TERMS = 8
_MOST_ENTRIES = 1.5


def sum_beforehand(batch: Batch, network: Network) -> Batch:
    """The batch with its features summed over neighbours, or as it is where that saves no work.

    For models that do not drop out features, and for batches that are used many times.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph, Settings
    >>> from graphconv.engine.batches import make_batch
    >>> from graphconv.engine.summing import sum_beforehand
    >>> from graphconv.training.fit import build_model
    >>> features = np.array([[1.0], [2.0], [6.0]])
    >>> star = Graph([[0, 1, 1], [0, 0, 0], [0, 0, 0]], features, [0, 1, 1], directed=True)
    >>> mean = build_model(star, Settings(hidden=(), propagation="first-order-only"), [0])
    >>> sum_beforehand(make_batch(star, [0], n_hops=1), mean).features
    array([[4.]], dtype=float32)
    """
    features, operation = batch.features, network.program.summed_features
    if features is None or operation is None or batch.has_halo:
        return batch
    assert isinstance(operation.self_loops, float)
    hop = network.program.hops[operation]
    scales = batch.scales(operation.self_loops, network.model.graph.directed)
    shape = (batch.n_within[hop], batch.n_within[hop + 1])
    step = NeighbourSum(network.processor_kernels, batch, shape, scales, operation.self_loops)
    summed: Csr | Array | None
    if isinstance(features, np.ndarray):
        n_out, n_in = step.shape
        summed = step.forward(Given((features,), (), None)) if n_out <= _WORTHWHILE * n_in else None
    else:
        summed = _summed_sparse(features, batch.n_features, step)
    if summed is None:
        return batch
    n_rows = step.shape[0]
    own = batch.adjacency[:n_rows, :n_rows]
    is_symmetric = batch.adjacency_transposed is batch.adjacency
    return replace(
        batch,
        rows=batch.rows[:n_rows],
        n_within=batch.n_within[:-1],
        degree=batch.degree[:n_rows],
        features=summed,
        adjacency=own,
        adjacency_transposed=own if is_symmetric else batch.adjacency_transposed[:n_rows, :n_rows],
        is_summed=True,
    )


def _summed_sparse(features: Csr, n_columns: int, step: NeighbourSum) -> Csr | None:
    """The sums, unless they have so many entries that the products would not get cheaper."""
    block, (n_out, n_in) = step.block, step.shape
    n_before = int((features.end - features.begin).sum())
    n_neighbours = int((block.end - block.begin).sum()) + n_out
    before = n_before + _ROW_COST * n_in + _NEIGHBOUR_COST * n_neighbours
    n_terms = n_summed(block, features, step.self_weight)
    n_most = int(np.minimum(n_terms, n_columns).sum())
    if int(n_terms.sum()) > _MOST_TERMS * before or n_most > _MOST_ENTRIES * before:
        return None
    if block.indices.dtype != features.indices.dtype or n_most > np.iinfo(np.int32).max:
        return None  # too many for indices of four bytes
    summed = step.of_sparse(features, n_columns)
    after = len(summed.indices) + _ROW_COST * n_out
    return fixed(summed) if after < _WORTHWHILE * before else None
