"""AutoClassifier: a node classifier that finds out by itself which method suits a graph."""

from __future__ import annotations

from typing import Any, Literal

from graphconv.estimators.baselines.transductive import FloatMatrix, TransductiveClassifier
from graphconv.estimators.choice import Search
from graphconv.estimators.fitted_method import FittedMethod
from graphconv.graph import Graph
from graphconv.training.calibration import Calibration
from graphconv.training.class_prior import with_class_prior
from graphconv.training.fitted import FittedGCN
from graphconv.training.out_of_fold import FitPredict
from graphconv.training.scores import mean_over_runs


class AutoClassifier(TransductiveClassifier):
    """Node classifier that tries methods of several kinds and keeps the best.

    What `graphconv train` does where no option names a method: networks, label propagation, linear
    models and boosted trees are compared on labels that each trial has not seen.

    Parameters
    ----------
    preset : {"quick", "auto", "strong"}
        "quick" takes seconds, "auto" up to a minute, "strong" minutes: it trains every method to
        its end, and demanding ones beside them.
    metric : str, optional
        What methods are compared by: accuracy, balanced-accuracy, macro-f1, roc-auc or
        average-precision. Default: what suits the balance of the classes.
    class_prior : {"labels", "estimate"} or dict, optional
        As for `GCNClassifier`.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Whether `adjacency` keeps its directions; else it is made symmetric.
    random_state : int or None

    Attributes
    ----------
    choice_ : str
        What was chosen, by which measure, and how the default did.
    fitted_ : FittedGCN or FittedMethod
        The chosen method, trained.

    Examples
    --------
    >>> from graphconv import AutoClassifier, load_dataset
    >>> clf = AutoClassifier(random_state=0).fit(load_dataset("karate"))
    >>> clf.choice_
    'graph convolution: 4 labels are too few to compare methods by'
    >>> clf.predict().shape
    (34,)
    """

    def __init__(
        self,
        preset: Literal["quick", "auto", "strong"] = "quick",
        *,
        metric: str | None = None,
        class_prior: Any = None,
        n_neighbors: int = 10,
        directed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.preset = preset
        self.metric = metric
        self.class_prior = class_prior
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.random_state = random_state

    def _fit_graph(self, graph: Graph, seed: int) -> FloatMatrix:
        search = Search(graph, self.preset, metric=self.metric, seed=seed)
        search.run()
        found = search.conclude()
        self.candidate_ = found.candidate
        self.fitted_ = with_class_prior(found.fit([seed]), self.class_prior)
        self.choice_ = found.reason
        averaged: FloatMatrix = mean_over_runs(self.fitted_.probabilities())
        return averaged

    def _label_graph(self, graph: Graph) -> FloatMatrix:
        graph = self.candidate_.view(graph)
        averaged: FloatMatrix = mean_over_runs(self.fitted_.probabilities(graph))
        return averaged

    def _fit_calibration(self, graph: Graph) -> Calibration:
        return self.fitted_.calibration

    def _training_graph(self) -> Graph:
        return self.fitted_.graph

    def _fit_predict(self) -> FitPredict:
        def fit_predict(graph: Graph, seed: int) -> FloatMatrix:
            again: FloatMatrix = self.candidate_.fit(graph, [seed]).ensemble_probabilities()
            return again

        return fit_predict

    def _fitted(self) -> FittedMethod | FittedGCN:
        return self.fitted_
