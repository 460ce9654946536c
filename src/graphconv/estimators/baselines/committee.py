"""A committee: several methods are trained, and the mean of what they say is the answer.

Methods that differ in kind are wrong about different nodes, so that their mean is often better than
any of them. Each is calibrated by itself before, so that a bold one does not outvote the others.
Their shares are equal unless validation nodes speak against it:

    p(class) = sum_m share_m p_m(class)

with the shares that make the right classes of the validation nodes likeliest, given that so many
nodes of each member's own have been seen already (expectation maximisation of a mixture).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphconv.estimators.baselines.transductive import FloatMatrix, TransductiveClassifier
from graphconv.estimators.candidates import Candidate
from graphconv.graph import Graph

# The more, the more validation nodes it takes to move the shares.
_NODES_OF_EACH = 20
_ROUNDS = 100


class CommitteeClassifier(TransductiveClassifier):
    """Weighted mean of the calibrated probabilities of several methods.

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
    shares_ : array of shape (n_members,)
        What each counts; near equal where there are few validation nodes.

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
        self.members_ = [candidate.fit(graph, [seed], self.watch) for candidate in self.candidates_]
        each = [member.ensemble_probabilities() for member in self.members_]
        judges = graph.validation_index
        of_right = [own[judges, graph.labels[judges]] for own in each]
        self.shares_ = shares_that_suit(np.stack(of_right, axis=1))
        return self._mean(each)

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        pairs = zip(self.members_, self.candidates_, strict=True)
        return self._mean([own.ensemble_probabilities(one.view(graph)) for own, one in pairs])

    def _mean(self, each: list[FloatMatrix]) -> FloatMatrix:
        mean: FloatMatrix = np.average(each, axis=0, weights=self.shares_)
        return mean


def shares_that_suit(of_right: FloatMatrix) -> FloatMatrix:
    """The shares of a mean that suit some nodes; equal where there are none.

    Parameters
    ----------
    of_right : array of shape (n_nodes, n_members)
        The probability that each member gives the right class.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.estimators.baselines.committee import shares_that_suit
    >>> shares_that_suit(np.tile([0.6, 0.2], (1000, 1))).round(2)
    array([0.97, 0.03])
    """
    n_nodes, n_members = of_right.shape
    shares: FloatMatrix = np.full(n_members, 1 / n_members)
    for _ in range(_ROUNDS):
        parts = shares * np.maximum(of_right, 1e-12)
        parts /= parts.sum(axis=1, keepdims=True)  # whose doing each node is
        shares = (parts.sum(axis=0) + _NODES_OF_EACH) / (n_nodes + n_members * _NODES_OF_EACH)
    return shares
