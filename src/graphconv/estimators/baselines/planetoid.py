"""Planetoid-T and Planetoid-I (Yang, Cohen and Salakhutdinov 2016).

A network learns classes and, from random walks and from classes, contexts of nodes: first contexts
alone, then both in turn. The weights that do best on validation nodes are kept. The loop is its
own: two losses with an optimiser each, taken in turn, are not one loss on batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch.nn import functional

from graphconv.engine.adam import Adam
from graphconv.engine.batches import Batch
from graphconv.engine.devices import single_torch_thread
from graphconv.estimators.baselines._planetoid_network import PlanetoidNetwork
from graphconv.estimators.baselines._walks import context_pairs, random_walks
from graphconv.estimators.baselines.transductive import (
    FloatMatrix,
    TransductiveClassifier,
    check_same_width,
    in_all_classes,
    neighbour_matrix,
    with_known_classes,
)
from graphconv.graph import Graph, IntArray
from graphconv.graph.names import Scaling
from graphconv.graph.scaling import fit_scaler
from graphconv.kernels import select
from graphconv.training.early_stopping import EarlyStopping

PROCESSOR = torch.device("cpu")
N_NOISE = 200  # nodes that all pairs of a step share as noise


class PlanetoidTClassifier(TransductiveClassifier):
    """Planetoid-T: every node has an embedding of its own, so only known nodes can be labelled.

    Parameters
    ----------
    dimension : int
        Width of the embedding.
    walk_length : int
        Steps of a walk.
    window : int
        How far apart on a walk two nodes are still each other's context.
    n_starts : int
        Walks that one graph step looks at.
    n_negatives : int
        Noise nodes for each context node.
    n_graph_steps : int
        Steps on graph contexts before classes are learned.
    n_label_pairs : int
        Pairs of training nodes of the same class that a graph step takes for contexts as well; a
        node that was drawn with itself counts for none.
    max_epochs : int
        Steps on the classes, all training nodes at once, each with one on contexts in
        `graph_share` of cases.
    graph_share : float
        How often, from 0 to 1, a step on classes is followed by one on contexts.
    learning_rate : float
        Of Adam, on contexts and on the way from features and embedding to the classes.
    embedding_rate : float
        Learning rate at which the classes change the embedding, by plain gradient descent.
    joined : bool
        Whether a hidden layer on the features and one on the embedding are joined before the
        classifier, as published. If not, both vote for the classes and the votes are added.
    dropout : float
        On the embedding, where classes are read from it.
    weight_decay : float
        L2 penalty on the weights that lead from features to classes.
    patience : int
        Stop when validation has not improved for so many epochs, and keep the best weights. With
        no validation nodes training goes on to the end.
    scaling : {"auto", "row", "l2", "standard", "none"}
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Accepted for the contract; walks follow an edge in both directions.
    random_state : int or None
        Seed of the weights, walks and noise.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> karate = load_dataset("karate")
    >>> make_estimator("planetoid-t", random_state=0, max_epochs=20).fit(karate).predict().shape
    (34,)
    """

    _inductive = False

    def __init__(
        self,
        *,
        dimension: int = 50,
        walk_length: int = 10,
        window: int = 10,
        n_starts: int = 200,
        n_negatives: int = 5,
        n_graph_steps: int = 200,
        n_label_pairs: int = 20,
        max_epochs: int = 300,
        graph_share: float = 0.2,
        learning_rate: float = 0.01,
        embedding_rate: float = 0.1,
        joined: bool = True,
        dropout: float = 0.5,
        weight_decay: float = 5e-4,
        patience: int = 100,
        scaling: Scaling = "auto",
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.dimension = dimension
        self.walk_length = walk_length
        self.window = window
        self.n_starts = n_starts
        self.n_negatives = n_negatives
        self.n_graph_steps = n_graph_steps
        self.n_label_pairs = n_label_pairs
        self.max_epochs = max_epochs
        self.graph_share = graph_share
        self.learning_rate = learning_rate
        self.embedding_rate = embedding_rate
        self.joined = joined
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.patience = patience
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        self.scaler_ = fit_scaler(graph.features, self.scaling)
        scaled = self._scaled(graph)
        known, self.known_classes_ = with_known_classes(scaled)
        with single_torch_thread(PROCESSOR):
            self.network_ = PlanetoidNetwork(
                known, self.dimension, self._inductive, self.dropout, self.joined, seed
            )
            self._train(known, np.random.default_rng(seed))
        return self._probabilities(scaled)

    def _scaled(self, graph: Graph) -> Graph:
        return replace(graph, features=self.scaler_.transform(graph.features))

    def _probabilities(self, scaled: Graph) -> FloatMatrix:
        with torch.no_grad(), single_torch_thread(PROCESSOR):
            logits = self.network_(self.network_.batch(scaled))
            probabilities = logits.softmax(dim=1).numpy()
        return in_all_classes(probabilities, self.known_classes_, len(self.classes_))

    def _train(self, graph: Graph, rng: np.random.Generator) -> None:
        network = self.network_
        neighbours = neighbour_matrix(graph)
        kernels = select("auto")
        embedding = network.embedding_parameters()
        # Paper: Planetoid learns by stochastic gradient descent; here: by Adam, with dropout on the
        # embedding and an L2 penalty, because it then needs hundreds of steps instead of thousands.
        contextual = {**embedding, "context": network.context}
        on_contexts = Adam(as_arrays(contextual), self.learning_rate, kernels)
        penalty = {"features.layers.0.weight": self.weight_decay}
        own = network.class_parameters()
        on_classes = Adam(as_arrays(own), self.learning_rate, kernels, penalty)

        def step_on_contexts() -> None:
            loss = self._context_loss(graph, neighbours, rng)
            slopes = torch.autograd.grad(loss, list(contextual.values()))
            on_contexts.step([slope.contiguous().numpy() for slope in slopes])

        def step_on_classes(loss: torch.Tensor) -> None:
            slopes = torch.autograd.grad(loss, [*own.values(), *embedding.values()])
            on_classes.step([slope.contiguous().numpy() for slope in slopes[: len(own)]])
            # Adam's steps have the same size however small the slope: it would fit the embeddings
            # of the training nodes, and no others, to the classes at once. Plain descent does not.
            with torch.no_grad():
                for parameter, slope in zip(embedding.values(), slopes[len(own) :], strict=True):
                    parameter.sub_(slope, alpha=self.embedding_rate)

        for _ in range(self.n_graph_steps):
            step_on_contexts()
        train = network.batch(graph, graph.train_index)
        watched = network.batch(graph, graph.validation_index)
        targets = torch.from_numpy(graph.labels[graph.train_index])
        # Paper: the weights that do best on test nodes are kept by the code of Planetoid's authors;
        # here: those that do best on validation nodes, because test nodes may decide nothing.
        stopping = EarlyStopping("best", self.patience, 1)
        for _ in range(self.max_epochs):
            network.is_training = True
            step_on_classes(network.class_loss(train, targets))
            if rng.random() < self.graph_share:
                step_on_contexts()
            network.is_training = False
            if len(graph.validation_index):
                self._watch(stopping, watched, graph.labels[graph.validation_index])
            if stopping.stopped_at[0]:
                break
        (best,) = stopping.kept
        if best is not None:
            network.load(best)

    def _watch(self, stopping: EarlyStopping, batch: Batch, labels: IntArray) -> None:
        wanted = torch.from_numpy(labels)
        with torch.no_grad():
            logits = self.network_(batch)
            loss = float(functional.cross_entropy(logits, wanted))
            accuracy = float((logits.argmax(dim=1) == wanted).double().mean())
        stopping.check(
            np.zeros(1, np.int64),
            np.array([loss]),
            np.array([accuracy]),
            lambda _: self.network_.weights(),
        )

    def _context_loss(
        self, graph: Graph, neighbours: sp.csr_array, rng: np.random.Generator
    ) -> torch.Tensor:
        starts = rng.integers(graph.n_nodes, size=self.n_starts)
        walks = random_walks(neighbours, starts, self.walk_length, rng)
        pairs = np.hstack([context_pairs(walks, self.window), self._label_pairs(graph, rng)])
        noise = rng.integers(graph.n_nodes, size=N_NOISE)
        return self.network_.context_loss(graph, pairs[0], pairs[1], noise, self.n_negatives)

    def _label_pairs(self, graph: Graph, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        train = graph.train_index
        by_class = train[np.argsort(graph.labels[train], kind="stable")]
        ends = np.cumsum(np.bincount(graph.labels[train], minlength=graph.n_classes))
        nodes = rng.choice(train, size=self.n_label_pairs)
        last = ends[graph.labels[nodes]]
        first = np.concatenate(([0], ends))[graph.labels[nodes]]
        contexts = by_class[rng.integers(first, last)]
        # Paper: a labelled node may be drawn as its own context; here: it may not, because on NELL,
        # with one label a class, there are no other pairs (46 instead of 60 % on validation nodes).
        are_two = nodes != contexts
        return nodes[are_two], contexts[are_two]


def as_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, npt.NDArray[Any]]:
    """The memory of tensors as arrays."""
    return {name: own.detach().numpy() for name, own in tensors.items()}


class PlanetoidIClassifier(PlanetoidTClassifier):
    """Planetoid-I: embeddings are computed from features, so other graphs can be labelled too.

    Parameters are those of `PlanetoidTClassifier`.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> fast = {"n_graph_steps": 5, "max_epochs": 5}
    >>> make_estimator("planetoid-i", random_state=0, **fast).fit(cora).predict(cora).shape
    (2708,)
    """

    _inductive = True

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        check_same_width(self.graph_, graph)
        return self._probabilities(self._scaled(graph))
