"""A committee: several methods are trained, and the mean of what they say is the answer.

Methods that differ in kind are wrong about different nodes, so that their mean is often better than
any of them. Each is calibrated by itself before, so that a bold one does not outvote the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphconv.estimators.baselines.transductive import FloatMatrix, TransductiveClassifier
from graphconv.estimators.candidates import Candidate
from graphconv.graph import Graph


class CommitteeClassifier(TransductiveClassifier):
    """Mean of the calibrated probabilities of several methods.

    Parameters
    ----------
    members : sequence of str or dict
        A network or a baseline each, by its name; or a dict with the name as `model` and perhaps
        `settings`, `position_features` and `runs` (trainings to average), as preset "quick" and
        "auto" choose them.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Whether `adjacency` keeps its directions; else it is made symmetric.
    random_state : int or None

    Attributes
    ----------
    members_ : list of FittedGCN or FittedMethod

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("committee", members=["sgc", "label-propagation"]).fit(cora)
    >>> is_right = clf.predict_proba().argmax(axis=1) == cora.labels
    >>> bool(is_right[cora.test_index].mean() > 0.75)
    True
    """

    def __init__(
        self,
        members: Any = ("appnp", "sgc"),
        *,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.members = members
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    @property
    def labels_other_graphs(self) -> bool:
        return all(Candidate.from_json(member).labels_other_graphs for member in self.members)

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        self.candidates_ = [Candidate.from_json(member) for member in self.members]
        if not self.candidates_:
            raise ValueError("a committee must have at least one member, got none")
        self.members_ = [candidate.fit(graph, [seed]) for candidate in self.candidates_]
        return _mean([member.ensemble_probabilities() for member in self.members_])

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        pairs = zip(self.members_, self.candidates_, strict=True)
        return _mean([member.ensemble_probabilities(one.view(graph)) for member, one in pairs])


def _mean(each: list[FloatMatrix]) -> FloatMatrix:
    mean: FloatMatrix = np.mean(each, axis=0)
    return mean
