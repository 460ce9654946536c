"""Labels that look wrong: out-of-fold probabilities enter, the given labels they contradict leave.

Each label is judged by a model that has not seen it, so a wrong label can't have taught the model
to agree with it. Labels are ranked by how much likelier the best other class is, the most
suspicious first (Northcutt, Jiang and Chuang, "Confident learning", JAIR 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.training.out_of_fold import OutOfFold

FloatMatrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class DoubtfulLabel:
    """A given label that the graph contradicts.

    Parameters
    ----------
    node : hashable
        Id of the node.
    given : hashable
        The label it was given.
    likelier : hashable
        The class a model that has not seen the label takes it for.
    given_probability, likelier_probability : float
        The probability that model gives to each.
    """

    node: Any
    given: Any
    likelier: Any
    given_probability: float
    likelier_probability: float


def doubtful_labels(
    graph: Graph, out_of_fold: OutOfFold, probabilities: FloatMatrix | None = None
) -> tuple[DoubtfulLabel, ...]:
    """The given labels that look wrong, the most suspicious first.

    Parameters
    ----------
    graph : Graph
    out_of_fold : OutOfFold
        Of the graph's training and validation nodes.
    probabilities : array of shape (n_nodes, n_classes), optional
        Of all nodes, by a model that has not seen test nodes' labels: these are judged as well.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv import Graph
    >>> from graphconv.results.doubt import doubtful_labels
    >>> from graphconv.training.out_of_fold import OutOfFold
    >>> pair = Graph([[0, 1], [1, 0]], labels=[0, 1], class_names=["a", "b"], node_ids=["x", "y"])
    >>> probabilities = np.array([[0.25, 0.75], [0.25, 0.75]])
    >>> every = OutOfFold(np.array([0, 1]), pair.labels, probabilities, probabilities)
    >>> [(one.node, one.given, one.likelier) for one in doubtful_labels(pair, every)]
    [('x', 'a', 'b')]
    """
    if graph.is_multilabel:
        raise ValueError("labels to doubt must be one per node, got several labels")
    nodes, unseen = judged_labels(graph, out_of_fold, probabilities)
    order, likelier = rank_by_doubt(graph.labels[nodes], unseen)
    names = graph.class_names
    return tuple(
        DoubtfulLabel(
            graph.node_ids[[nodes[row]]].tolist()[0],
            names[graph.labels[nodes[row]]],
            names[likelier[row]],
            float(unseen[row, graph.labels[nodes[row]]]),
            float(unseen[row, likelier[row]]),
        )
        for row in order
        if likelier[row] != graph.labels[nodes[row]]
    )


def judged_labels(
    graph: Graph, out_of_fold: OutOfFold, probabilities: FloatMatrix | None = None
) -> tuple[IntArray, FloatMatrix]:
    """Labelled nodes, and what a model that has not seen their label says; as `doubtful_labels`."""
    nodes, unseen = out_of_fold.nodes, out_of_fold.probabilities
    if probabilities is not None and len(graph.test_index):
        nodes = np.concatenate([nodes, graph.test_index])
        unseen = np.concatenate([unseen, probabilities[graph.test_index]])
    return nodes, unseen


def rank_by_doubt(labels: IntArray, probabilities: FloatMatrix) -> tuple[IntArray, IntArray]:
    """Rows from the most to the least doubtful label, and the likeliest class of each row."""
    rows = np.arange(len(labels))
    others = np.array(probabilities, dtype=np.float64)
    others[rows, labels] = -np.inf
    margin = probabilities[rows, labels] - others.max(axis=1)
    return np.argsort(margin, kind="stable"), probabilities.argmax(axis=1)
