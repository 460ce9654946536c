"""AutoClassifier: a node classifier that finds out by itself which method suits a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from graphconv.estimators._inputs import as_graph
from graphconv.estimators.baselines.transductive import FloatMatrix, TransductiveClassifier
from graphconv.estimators.choice import Search
from graphconv.estimators.fitted_method import FittedMethod, SavedMethod, save_method
from graphconv.graph import Graph
from graphconv.results.explain import explain
from graphconv.results.explanation import Explanation
from graphconv.results.suggest import Suggestion, suggest
from graphconv.training.calibration import Calibration
from graphconv.training.checkpoint import SavedModel, save_model
from graphconv.training.class_prior import with_class_prior
from graphconv.training.out_of_fold import FitPredict
from graphconv.training.scores import mean_over_runs


class AutoClassifier(TransductiveClassifier):
    """Node classifier that tries methods of several kinds and keeps the best.

    What `graphconv train` does where no option names a method: networks, label propagation, linear
    models and boosted trees are compared on labels that each trial has not seen.

    Parameters
    ----------
    preset : {"quick", "auto"}
        "quick" takes seconds, "auto" up to a minute.
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
        preset: Literal["quick", "auto"] = "quick",
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

    def explain(self, node: Any, label: Any = None) -> Explanation:
        """Why a node has its label: what its edges, neighbours and features contribute.

        Parameters
        ----------
        node : hashable
            Id of a node; its row where fit was given arrays.
        label : hashable, optional
            The class to explain. Default: the likeliest one.
        """
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedMethod):
            return self.fitted_.explain(node, label=label)
        return explain(self.fitted_, node, None, label)

    def suggest(self, n: int = 20, graph: Graph | None = None) -> tuple[Suggestion, ...]:
        """The nodes whose labels would teach most, the best first.

        Parameters
        ----------
        n : int
            How many.
        graph : Graph, optional
            Where to choose from. Default: the graph of the training.
        """
        check_is_fitted(self)
        return suggest(self.fitted_, n, as_graph(graph))

    def save(self, folder: str | Path) -> None:
        """Write a model folder that the command line reads.

        Parameters
        ----------
        folder : path
            Made if need be. A model folder that is there is replaced; anything else is left alone.
        """
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedMethod):
            save_method(SavedMethod(self.fitted_), Path(folder))
        else:
            save_model(SavedModel(self.fitted_), Path(folder))
