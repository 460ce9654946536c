"""Out of fold: what models say of labelled nodes whose labels they have not seen.

A graph and a way to fit it enter. Its training and validation nodes are dealt into folds; for each
fold a model is fitted to all others. What the models say is the honest ground for all that is told
about a model: how often it is right, which classes a node may have, which given labels look wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.splits import kfold_splits
from graphconv.io.array_files import read_arrays, write_arrays
from graphconv.io.progress import Progress, silent

if TYPE_CHECKING:
    from graphconv.training.fitted import FittedGCN

FloatMatrix = npt.NDArray[np.floating[Any]]
# A graph with training and perhaps validation nodes, and a seed: probabilities of all its nodes,
# calibrated, of shape (n_nodes, n_classes).
FitPredict = Callable[[Graph, int], FloatMatrix]

N_FOLDS = 5


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What models say of labelled nodes whose labels they have not seen.

    Parameters
    ----------
    nodes : array of shape (n_labelled,)
        Positions of the nodes that were dealt into folds: all whose labels training may look at.
    labels : array of shape (n_labelled,) or (n_labelled, n_classes)
        The labels they were given.
    probabilities : array of shape (n_labelled, n_classes)
        By the model of the node's fold, calibrated.
    of_neighbours : array of shape (n_labelled, n_classes)
        The same model's probabilities, as a mean over the node's neighbours.
    """

    nodes: IntArray
    labels: IntArray
    probabilities: FloatMatrix
    of_neighbours: FloatMatrix

    def write(self, path: Path) -> None:
        """Write all of it to an npz file."""
        write_arrays(path, {name: getattr(self, name) for name in _FIELDS})

    @classmethod
    def read(cls, path: Path, graph: Graph) -> OutOfFold:
        """Read what `write` wrote about a graph; refuse what can't be about it."""
        try:
            arrays = read_arrays(path)
            found = cls(**{name: arrays[name] for name in _FIELDS})
            found._check(graph)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path} must be about this model's labels, but: {error}") from error
        return found

    def _check(self, graph: Graph) -> None:
        n_labelled, n_classes = self.nodes.size, graph.n_classes
        shapes = {
            "nodes": (n_labelled,),
            "labels": (n_labelled, *graph.labels.shape[1:]),
            "probabilities": (n_labelled, n_classes),
            "of_neighbours": (n_labelled, n_classes),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {values.shape}")
            if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise ValueError(f"{name} must be finite numbers")
        for name, end in (("nodes", graph.n_nodes), ("labels", max(n_classes, 2))):
            values = getattr(self, name)
            if values.dtype.kind != "i" or (values < 0).any() or (values >= end).any():
                raise ValueError(f"{name} must be whole numbers from 0 to {end - 1}")


_FIELDS = tuple(field.name for field in fields(OutOfFold))


def neighbour_means(graph: Graph, probabilities: FloatMatrix) -> FloatMatrix:
    """Each node's neighbours' probabilities, averaged by weight; its own where it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.training.out_of_fold import neighbour_means
    >>> path = Graph([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    >>> neighbour_means(path, np.array([[1.0], [0.5], [0.0], [0.25]])).ravel()
    array([0.5 , 0.5 , 0.5 , 0.25])
    """
    total = np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64).ravel()
    sums = np.asarray(graph.adjacency @ probabilities, dtype=np.float64)
    has_any = total > 0
    means = np.array(probabilities, dtype=np.float64)
    means[has_any] = sums[has_any] / total[has_any, None]
    return means


def make_folds(graph: Graph, seed: int, n_folds: int = N_FOLDS) -> list[Graph]:
    """The graph split so often that each training or validation node is once left to test.

    Training nodes stay training nodes and validation nodes stay validation nodes in all folds but
    the one that tests them. The graph's own test nodes lose their labels: nobody may look at them.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.training.out_of_fold import make_folds
    >>> fold = make_folds(load_dataset("cora"), seed=0)[0]
    >>> len(fold.train_index), len(fold.validation_index), len(fold.test_index)
    (112, 400, 128)
    """
    if graph.folder is not None:
        raise ValueError("cross-validation needs a graph in memory, got one on disk")
    n_labelled = len(graph.train_index) + len(graph.validation_index)
    if n_labelled < 2 * n_folds:
        raise ValueError(
            f"cross-validation needs at least {2 * n_folds} labelled nodes, got {n_labelled}"
        )
    # Role by role: where training nodes were drawn equally from every class and validation nodes
    # were not, models of folds must be trained the same way.
    train_parts = _deal(graph, graph.train_index, n_folds, seed)
    validation_parts = _deal(graph, graph.validation_index, n_folds, seed)
    hidden = _without_test_labels(graph)
    folds = []
    for some, others in zip(train_parts, validation_parts, strict=True):
        train = np.setdiff1d(graph.train_index, some)
        if not graph.is_multilabel and len(np.unique(graph.labels[train])) < 2:
            raise ValueError("cross-validation needs two classes with several labelled nodes each")
        validation = np.setdiff1d(graph.validation_index, others)
        folds.append(hidden.with_split(train, validation, np.union1d(some, others)))
    return folds


def make_halves(graph: Graph, seed: int) -> list[Graph]:
    """The graph twice: one half of its validation nodes stays, the other is left to test.

    All training nodes stay, so a model is what it would be on the whole graph. The graph's own test
    nodes lose their labels.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.training.out_of_fold import make_halves
    >>> half = make_halves(load_dataset("cora"), seed=0)[0]
    >>> len(half.train_index), len(half.validation_index), len(half.test_index)
    (140, 250, 250)
    """
    hidden = _without_test_labels(graph)
    return [
        hidden.with_split(graph.train_index, np.setdiff1d(graph.validation_index, half), half)
        for half in _deal(graph, graph.validation_index, 2, seed)
    ]


def _without_test_labels(graph: Graph) -> Graph:
    labelled = np.concatenate([graph.train_index, graph.validation_index])
    visible = np.full_like(graph.labels, -1)
    visible[labelled] = graph.labels[labelled]
    return replace(graph, labels=visible, test_index=np.empty(0, dtype=np.int64))


def _deal(graph: Graph, index: IntArray, n_folds: int, seed: int) -> list[IntArray]:
    """Some labelled nodes dealt into parts that are alike in every class."""
    if len(index) < n_folds:
        return [index[k : k + 1] for k in range(n_folds)]
    labels = np.full_like(graph.labels, -1)
    labels[index] = graph.labels[index]
    nobody = np.empty(0, dtype=np.int64)
    pool = replace(
        graph, labels=labels, train_index=index, validation_index=nobody, test_index=nobody
    )
    return [fold.test_index for fold in kfold_splits(pool, n_folds, random_state=seed)]


def fit_folds(
    graph: Graph,
    fit_predict: FitPredict,
    seed: int = 0,
    n_folds: int = N_FOLDS,
    progress: Progress = silent,
) -> OutOfFold:
    """Fit a model to all but each fold.

    Parameters
    ----------
    graph : Graph
    fit_predict : callable
        (graph, seed) to probabilities of all nodes, calibrated.
    seed : int
        Deals the nodes into folds, and is handed to `fit_predict`.
    n_folds : int
    progress : callable, optional
        Told how many folds are done.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import load_dataset
    >>> from graphconv.training.out_of_fold import fit_folds
    >>> cora = load_dataset("cora")
    >>> even = np.full((cora.n_nodes, cora.n_classes), 1 / 7, dtype=np.float32)
    >>> fit_folds(cora, lambda graph, seed: even).probabilities.shape
    (640, 7)
    """
    folds = make_folds(graph, seed, n_folds)
    nodes = np.concatenate([fold.test_index for fold in folds])
    own, others = [], []
    for number, fold in enumerate(folds):
        progress("cross-validating", number, n_folds)
        with warnings.catch_warnings():
            # Of a class with one label, the fold that tests it has none: no news to anybody.
            warnings.filterwarnings("ignore", "no training node has class", UserWarning)
            probabilities = np.asarray(fit_predict(fold, seed))
        own.append(probabilities[fold.test_index])
        others.append(neighbour_means(graph, probabilities)[fold.test_index])
    order = np.argsort(nodes)
    return OutOfFold(
        nodes[order],
        graph.labels[nodes[order]],
        np.concatenate(own)[order].astype(np.float32),
        np.concatenate(others)[order].astype(np.float32),
    )


def same_training(fitted: FittedGCN) -> FitPredict:
    """The training of a fitted model, to be had again on other labels."""
    from graphconv.training.fit import fit_gcn  # torch: not before something is trained

    def fit_predict(graph: Graph, seed: int) -> FloatMatrix:
        again = fit_gcn(
            graph,
            overrides=fitted.settings.to_json(),
            seeds=fitted.network.seeds,
            # Folds have validation nodes where the model had them.
            validation_fraction=0,
        )
        return again.ensemble_probabilities()

    return fit_predict
