"""DeepWalk (Perozzi et al. 2014): random walks are sentences, nodes are words.

Skip-gram embeds the nodes, and a logistic regression on the embedding labels them. Features are
not looked at. Needs gensim, the extra `deepwalk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphconv.estimators.baselines._logistic import fit_logistic
from graphconv.estimators.baselines._walks import random_walks
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    neighbour_matrix,
)
from graphconv.graph import Graph, IntArray


class DeepWalkClassifier(TransductiveClassifier):
    """Logistic regression on skip-gram embeddings of random walks.

    Parameters
    ----------
    n_walks : int
        Walks that start at each node.
    walk_length : int
        Nodes on a walk.
    window : int
        How far apart on a walk two nodes are still each other's context.
    dimension : int
        Width of the embedding.
    n_negatives : int
        Noise nodes for each context node; 0 takes hierarchical softmax instead.
    n_passes : int
        How often skip-gram reads all walks.
    learning_rate : float
        Of skip-gram at its start; it falls to nearly nothing.
    C : float
        Inverse strength of the L2 penalty of the logistic regression.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; walks follow an edge in both directions.
    random_state : int or None
        Seed of the walks and of skip-gram, which runs on one thread so as to repeat itself.

    Attributes
    ----------
    embedding_ : array of shape (n_nodes, dimension)

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> karate = load_dataset("karate")
    >>> clf = make_estimator("deepwalk", dimension=8, random_state=0)
    >>> clf.fit(karate).embedding_.shape  # doctest: +SKIP
    (34, 8)
    """

    def __init__(
        self,
        *,
        n_walks: int = 10,
        walk_length: int = 40,
        window: int = 5,
        dimension: int = 64,
        n_negatives: int = 5,
        n_passes: int = 1,
        learning_rate: float = 0.025,
        C: float = 0.1,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.dimension = dimension
        self.n_negatives = n_negatives
        self.n_passes = n_passes
        self.learning_rate = learning_rate
        self.C = C
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        self.embedding_ = self._embed(graph, seed)
        train = graph.train_index
        fitted = fit_logistic(self.embedding_[train], graph.labels[train], graph.n_classes, self.C)
        return fitted.probabilities(self.embedding_)

    def _embed(self, graph: Graph, seed: int) -> FloatMatrix:
        skip_gram = _import_skip_gram()
        rng = np.random.default_rng(seed)
        neighbours = neighbour_matrix(graph)
        starts = np.concatenate([rng.permutation(graph.n_nodes) for _ in range(self.n_walks)])
        walks = random_walks(neighbours, starts, self.walk_length - 1, rng)
        # Paper: DeepWalk's figures are for hierarchical softmax; here: noise nodes unless
        # n_negatives is 0, because that is what skip-gram is usually trained with.
        model = skip_gram(
            _Sentences(walks),
            vector_size=self.dimension,
            window=self.window,
            sg=1,
            hs=int(self.n_negatives == 0),
            negative=self.n_negatives,
            min_count=0,
            sample=0,
            alpha=self.learning_rate,
            epochs=self.n_passes,
            seed=seed % 2**32,
            workers=1,
        )
        order = [model.wv.key_to_index[node] for node in range(graph.n_nodes)]
        embedding: FloatMatrix = model.wv.vectors[order]
        return embedding


class _Sentences:
    """Walks as gensim reads them, as often as it asks; lists of all at once would fill memory."""

    def __init__(self, walks: IntArray) -> None:
        self.walks = walks

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.walks), 1024):
            yield from self.walks[start : start + 1024].tolist()


def _import_skip_gram() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise ValueError(f"deepwalk needs gensim, got {error}: pip install gensim") from None
    return Word2Vec
