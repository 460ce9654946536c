"""Places in the plane: of nodes by their embedding (t-SNE), and of a graph by its edges.

Numbers enter, an array of shape (n_nodes, 2) leaves. In t-SNE, attraction along the edges of a
graph of nearest neighbours gives much the same picture as perplexity does, for a fraction of the
time (Böhm, Berens and Kobak, "Attraction-repulsion spectrum in neighbor embeddings", JMLR 2022).
The graph is drawn by the forces of Fruchterman and Reingold (1991).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]
OnStep = Callable[[int, int], None]
# All pairs of this many nodes are looked at in each step; more nodes are placed beside these.
MAX_LANDMARKS = 3_000
_N_NEIGHBOURS = 15
_MAX_WIDTH = 50
_BLOCK = 128  # rows of pairs at a time: they stay in the cache
_N_EARLY, _N_LATE = 75, 225
# Of the drawn graph: how long an edge would like to be, and how many steps its forces get.
_EDGE, _N_FORCE_STEPS = 10.0, 150


def embedding_map(
    hidden: npt.ArrayLike, random_state: int = 0, on_step: OnStep | None = None
) -> Array:
    """Places of nodes such that those with similar rows lie close together.

    PCA to at most 50 columns, then t-SNE. Of more than 3,000 nodes a random sample is laid out
    so, and every other node is put among the sampled nodes it resembles most.

    Parameters
    ----------
    hidden : array of shape (n_nodes, width)
    random_state : int
    on_step : callable, optional
        Told the step and how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.report._layouts import embedding_map
    >>> rows = np.repeat([[0.0, 0, 1], [1, 0, 0]], 20, axis=0)
    >>> rows += np.random.default_rng(0).normal(0, 0.01, rows.shape)
    >>> places = embedding_map(rows)
    >>> gap = np.linalg.norm(places[:20].mean(axis=0) - places[20:].mean(axis=0))
    >>> bool(gap > 2 * places[:20].std())
    True
    """
    rng = np.random.default_rng(random_state)
    with _one_thread():
        rows = _principal_components(np.asarray(hidden, dtype=np.float64))
        if len(rows) <= MAX_LANDMARKS:
            return _map_of_all(rows, rng, on_step)
        landmarks = np.sort(rng.choice(len(rows), MAX_LANDMARKS, replace=False))
        known = _map_of_all(rows[landmarks], rng, on_step)
        nearest, distance = _nearest(rows, rows[landmarks], 3)
    weight = 1 / (distance**2 + 1e-6)
    weight /= weight.sum(axis=1, keepdims=True)
    places: Array = (known[nearest] * weight[:, :, None]).sum(axis=1)
    # Beside, not upon, the nodes they resemble.
    places += rng.normal(0, 0.01 * known.std(), places.shape)
    places[landmarks] = known
    return places


def graph_layout(
    adjacency: sp.csr_array, random_state: int = 0, on_step: OnStep | None = None
) -> Array:
    """Places of nodes such that linked ones lie close together.

    Parameters
    ----------
    adjacency : sparse array of shape (n_nodes, n_nodes)
        Directions and weights are left aside.
    random_state : int
    on_step : callable, optional
        Told the step and how many there are.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.report._layouts import graph_layout
    >>> graph_layout(load_dataset("karate").adjacency).shape
    (34, 2)
    """
    n_nodes = adjacency.shape[0]
    neighbours = sp.csr_array(adjacency + adjacency.T)
    neighbours.setdiag(0)
    neighbours.eliminate_zeros()
    heads = np.repeat(np.arange(n_nodes), np.diff(neighbours.indptr))
    degree = np.maximum(np.diff(neighbours.indptr), 1)[:, None]
    neighbours.data[:] = 1
    # Smoothed noise is a rough layout already: linked nodes get similar numbers.
    rng = np.random.default_rng(random_state)
    places = rng.normal(size=(n_nodes, 2))
    for _ in range(20):
        places = (places + (neighbours @ places) / degree) / 2
        places = (places - places.mean(axis=0)) / max(places.std(), 1e-12)
    side = _EDGE * np.sqrt(n_nodes)
    places = side / 4 * (places + rng.normal(0, 0.05, places.shape))
    with _one_thread():
        for number in range(_N_FORCE_STEPS):
            gap = places[heads] - places[neighbours.indices]
            length = np.sqrt((gap**2).sum(axis=1))
            pull = _add_up(heads, gap * (length / _EDGE)[:, None], n_nodes)
            push = _EDGE**2 * _all_pairs(places, power=1)[1]
            # Nothing else would keep parts that are not linked from drifting off.
            push -= 2 * places
            force = push - pull
            size = np.maximum(np.sqrt((force**2).sum(axis=1, keepdims=True)), 1e-12)
            longest = side / 10 * (1 - number / _N_FORCE_STEPS)
            places = places + force * (np.minimum(size, longest) / size)
            if on_step is not None:
                on_step(number + 1, _N_FORCE_STEPS)
    centred: Array = places - places.mean(axis=0)
    return centred


def _principal_components(rows: Array) -> Array:
    centred: Array = rows - rows.mean(axis=0)
    if not centred.any():
        return centred
    values, directions = np.linalg.eigh(centred.T @ centred)
    chosen = directions[:, np.argsort(values)[::-1][:_MAX_WIDTH]]
    # The sign of a direction is arbitrary: it is fixed so that every machine draws the same.
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    components: Array = centred @ chosen
    return components


def _map_of_all(rows: Array, rng: np.random.Generator, on_step: OnStep | None) -> Array:
    n_nodes = len(rows)
    n_neighbours = min(_N_NEIGHBOURS, n_nodes - 1)
    if n_neighbours < 1:
        return np.zeros((n_nodes, 2))
    nearest, _ = _nearest(rows, rows, n_neighbours, skip_own=True)
    ends = np.repeat(np.arange(n_nodes), n_neighbours), nearest.ravel()
    joined = sp.csr_array((np.ones(len(ends[0])), ends), shape=(n_nodes, n_nodes))
    start = np.zeros((n_nodes, 2))
    start[:, : min(2, rows.shape[1])] = rows[:, :2]
    # Noise parts nodes that are described alike.
    start = _small(start) + rng.normal(0, 1e-6, start.shape)
    return _spread(sp.csr_array(joined + joined.T), start, on_step)


def _nearest(rows: Array, among: Array, k: int, skip_own: bool = False) -> tuple[Array, Array]:
    """Positions of the k nearest rows of `among`, and their distances."""
    places, distances = [], []
    near, right = rows.astype(np.float32), -2 * among.T.astype(np.float32)
    squares = (among**2).sum(axis=1).astype(np.float32)
    for begin in range(0, len(rows), _BLOCK):
        block = near[begin : begin + _BLOCK]
        # Less the square of the row itself, which is the same for all.
        gaps = block @ right
        gaps += squares
        if skip_own:
            own = np.arange(len(block))
            gaps[own, begin + own] = np.inf
        chosen = np.argpartition(gaps, k - 1, axis=1)[:, :k]
        squared = np.take_along_axis(gaps, chosen, axis=1) + (block**2).sum(axis=1, keepdims=True)
        places.append(chosen)
        distances.append(np.sqrt(np.maximum(squared, 0)))
    return np.concatenate(places), np.concatenate(distances)


def _small(start: Array) -> Array:
    """The same picture, small enough for repulsion to work everywhere."""
    spread = start.std()
    return np.zeros_like(start) if spread == 0 else start * (1e-4 / spread)


def _spread(affinity: sp.csr_array, start: Array, on_step: OnStep | None) -> Array:
    """Gradient descent on the loss of t-SNE, with the usual momentum and gains.

    Parameters
    ----------
    affinity : symmetric sparse array of shape (n_nodes, n_nodes)
        How much two nodes attract each other.
    start : array of shape (n_nodes, 2)
    on_step : callable, optional
    """
    n_nodes = len(start)
    heads = np.repeat(np.arange(n_nodes), np.diff(affinity.indptr))
    share = affinity.data / affinity.data.sum()
    places, step, gains = start.copy(), np.zeros_like(start), np.ones_like(start)
    rate = max(n_nodes / 48, 20.0)
    for number in range(_N_EARLY + _N_LATE):
        # Attraction is exaggerated at first, which lets clusters form.
        exaggeration, momentum = (12.0, 0.5) if number < _N_EARLY else (1.0, 0.8)
        gap = places[heads] - places[affinity.indices]
        force = share / (1 + (gap**2).sum(axis=1))
        pull = _add_up(heads, gap * force[:, None], n_nodes)
        total, push = _all_pairs(places, power=2)
        slope = 4 * (exaggeration * pull - push / max(total, 1e-12))
        gains = np.where(step * slope < 0, gains + 0.2, gains * 0.8).clip(0.01)
        # A few nodes push each other so hard that only a limit keeps them in sight.
        step = (momentum * step - rate * gains * slope).clip(-5, 5)
        places = places + step
        places -= places.mean(axis=0)
        if on_step is not None:
            on_step(number + 1, _N_EARLY + _N_LATE)
    return places


def _add_up(heads: Array, forces: Array, n_nodes: int) -> Array:
    columns = [np.bincount(heads, weights=column, minlength=n_nodes) for column in forces.T]
    return np.column_stack(columns)


def _all_pairs(places: Array, power: int) -> tuple[float, Array]:
    """Over all pairs i, j with nearness k = 1 / (1 + distance^2), block by block.

    Returns the sum of k over pairs of different nodes, and for each i the sum of
    k^power (place_i - place_j).
    """
    near = places.astype(np.float32)
    ones = np.ones((len(near), 1), dtype=np.float32)
    squares = (near**2).sum(axis=1, keepdims=True)
    # One product of narrow matrices gives 1 + distance^2 of all pairs.
    left, right = np.hstack([-2 * near, ones, squares + 1]), np.hstack([near, squares, ones]).T
    terms = np.hstack([ones, near])
    sums = np.empty((len(near), 3))
    total = 0.0
    for begin in range(0, len(near), _BLOCK):
        kernel = left[begin : begin + _BLOCK] @ right
        np.maximum(kernel, 1, out=kernel)  # rounding may leave less
        np.reciprocal(kernel, out=kernel)
        total += float(kernel.sum()) - len(kernel)
        if power == 2:
            kernel *= kernel
        sums[begin : begin + _BLOCK] = kernel @ terms
    return total, places * sums[:, :1] - sums[:, 1:]


def _one_thread() -> AbstractContextManager[Any]:
    """Sums of one thread are added up in one order: the same picture everywhere."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits
