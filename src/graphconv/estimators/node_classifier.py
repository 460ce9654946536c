"""What every fitted node classifier can be asked for.

Labels, probabilities, reasons, suggestions and a saved folder; and, of labels that its models have
not seen, prediction sets, suspected slips and an honest accuracy. These three go by the same
models, one for each fold of the labels, which are trained when first asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from graphconv.estimators._inputs import (
    array_of_names,
    as_graph,
    encode_targets,
    graph_to_predict,
)
from graphconv.graph import Graph
from graphconv.results.doubt import DoubtfulLabel, doubtful_labels
from graphconv.results.explanation import Explanation
from graphconv.results.prediction_sets import find_set_rule
from graphconv.results.predictions import Predictions
from graphconv.training.out_of_fold import FitPredict, OutOfFold, fit_folds
from graphconv.training.scores import Interval, accuracy_interval

if TYPE_CHECKING:
    import pandas as pd

    from graphconv.estimators.fitted_method import FittedMethod
    from graphconv.results.suggest import Suggestion
    from graphconv.training.fitted import FittedGCN, FloatMatrix


class NodeClassifierMixin:
    """Methods that every node classifier of this package has.

    The class says in `_training_graph` what it was trained on, in `_fitted` what that came to, in
    `_probabilities_of` what it says of another graph and in `_fit_predict` how the same training
    goes on one; and it has `classes_` and `label_distributions_`.
    """

    # What it needs beside the model it was fitted to, once it is saved.
    _saved_parameters: tuple[str, ...] = ()

    classes_: npt.NDArray[Any]
    label_distributions_: FloatMatrix
    joins_neighbours_: bool

    def predict(self, X: Any = None, *, adjacency: Any = None) -> npt.NDArray[Any]:
        """Label of each node; for several labels per node, a 0/1 matrix.

        Without arguments: of every node of the training graph. With a Graph, or features and an
        adjacency: of every node of that graph, which may be larger or another one. Where fit built
        the graph itself, rows of X are attached to their nearest training rows.

        Parameters
        ----------
        X : Graph, array or sparse matrix of shape (n_nodes, n_features), optional
            Another graph, or the features of its nodes.
        adjacency : array or sparse matrix of shape (n_nodes, n_nodes), optional
            Its edges, where X does not bring them.

        Returns
        -------
        array of shape (n_nodes,), or (n_nodes, n_classes) for several labels per node
        """
        return self._labels_of(self.predict_proba(X, adjacency=adjacency))

    def _labels_of(self, probabilities: FloatMatrix) -> npt.NDArray[Any]:
        if self._training_graph().is_multilabel:
            return (probabilities > 0.5).astype(np.int64)
        labels: npt.NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any = None, *, adjacency: Any = None) -> FloatMatrix:
        """Probability of each class for each node.

        Parameters
        ----------
        X, adjacency
            As for `predict`.

        Returns
        -------
        array of shape (n_nodes, n_classes)
            In the order of `classes_`. Rows add up to 1, unless nodes have several labels.
        """
        check_is_fitted(self)
        if X is None and adjacency is None:
            return self.label_distributions_.copy()
        graph, n_skipped = graph_to_predict(self, self._given_graph(), X, adjacency)
        return self._probabilities_of(graph)[n_skipped:]

    def explain(self, node: Any, graph: Graph | None = None, label: Any = None) -> Explanation:
        """Why a node has its label: what each edge, neighbour and feature contributes, exactly.

        Parameters
        ----------
        node : hashable
            Id of a node; its row where fit was given arrays.
        graph : Graph, optional
            Where the node is. Default: the graph of the training.
        label : hashable, optional
            The class to explain. Default: the likeliest one.

        Returns
        -------
        Explanation
            A sentence, and the contributions of edges, neighbours and features.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
        >>> why = clf.explain(11)
        >>> why.label == clf.predict()[11]
        True
        >>> why.edges[0].item
        (11, 0)
        """
        from graphconv.estimators.fitted_method import explain_fitted

        check_is_fitted(self)
        return explain_fitted(self._fitted(), node, as_graph(graph), label)

    def suggest(self, n: int = 20, graph: Graph | None = None) -> tuple[Suggestion, ...]:
        """The nodes whose labels would teach the model most, the best first.

        Parameters
        ----------
        n : int
            How many.
        graph : Graph, optional
            Where to choose from. Default: the graph of the training.

        Returns
        -------
        tuple of Suggestion
            Id, label now, confidence and gain of each.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> clf = GCNClassifier("paper", random_state=0).fit(load_dataset("cora"))
        >>> len({suggestion.node for suggestion in clf.suggest(3)})
        3
        """
        from graphconv.results.suggest import suggest

        check_is_fitted(self)
        return suggest(self._fitted(), n, as_graph(graph))

    def save(self, folder: str | Path) -> None:
        """Write a model folder that `graphconv.load_model` and the command line read.

        Parameters
        ----------
        folder : path
            Made if need be. A model folder that is there is replaced; anything else is left alone.

        Examples
        --------
        >>> import tempfile
        >>> from graphconv import GCNClassifier, load_dataset, load_model
        >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/karate")
        ...     again = load_model(f"{folder}/karate")
        >>> bool((again.predict_proba() == clf.predict_proba()).all())
        True
        """
        from graphconv.estimators.fitted_method import save_fitted

        check_is_fitted(self)
        own = {name: getattr(self, name) for name in self._saved_parameters}
        save_fitted(self._fitted(), Path(folder), **own, joins_neighbours=self.joins_neighbours_)

    def predictions_frame(self, X: Any = None, *, adjacency: Any = None) -> pd.DataFrame:
        """Label, confidence and probabilities of each node as a table, indexed by node id.

        Parameters
        ----------
        X, adjacency
            As for `predict`.

        Returns
        -------
        DataFrame
            Columns label, confidence, one probability per class and split, which is train,
            validation, test, or empty.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
        >>> frame = clf.predictions_frame()
        >>> bool(frame.loc[0, "label"] == clf.predict()[0])
        True
        >>> frame.index.name, list(frame.columns[:2])
        ('id', ['label', 'confidence'])
        """
        check_is_fitted(self)
        known = self._training_graph()
        probabilities = self.predict_proba(X, adjacency=adjacency)
        graph, n_skipped = graph_to_predict(self, known, X, adjacency)
        if n_skipped:  # rows attached to the training graph, which come after its own
            probabilities = np.concatenate([self.predict_proba(), probabilities])
        predictions = Predictions(
            graph, probabilities, known.class_names, known.is_multilabel, trained_on=known
        )
        return predictions.to_frame().set_index("id").iloc[n_skipped:]

    def predict_sets(
        self, coverage: float = 0.9, X: Any = None, *, adjacency: Any = None
    ) -> npt.NDArray[np.bool_]:
        """The classes each node may have: sets that hold the true class as often as asked for.

        Every label is judged by a model that has not seen it, which takes five trainings when it
        is first asked for. A set is never empty: the predicted class is in it.

        Parameters
        ----------
        coverage : float
            The share of nodes whose set is to hold their true class, above 0 and below 1.
        X, adjacency
            As for `predict`.

        Returns
        -------
        array of bool of shape (n_nodes, n_classes)
            Whether a class, in the order of `classes_`, belongs to a node's set.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> cora = load_dataset("cora")
        >>> clf = GCNClassifier("paper", random_state=0).fit(cora)
        >>> sets = clf.predict_sets(coverage=0.9)
        >>> bool(0.87 < sets[cora.test_index, cora.labels[cora.test_index]].mean() < 0.93)
        True
        """
        check_is_fitted(self)
        rule = find_set_rule(self.out_of_fold(), coverage)
        known = self._training_graph()
        probabilities = self.predict_proba(X, adjacency=adjacency)
        graph, n_skipped = graph_to_predict(self, known, X, adjacency)
        if n_skipped:  # rows attached to the training graph: sets go by all of its nodes
            probabilities = np.concatenate([self.predict_proba(), probabilities])
        return rule.apply(graph, probabilities)[n_skipped:]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, adjacency: Any = None) -> float:
        """Share of nodes with the right label, among those that have one.

        Of several labels per node all must be right.

        Parameters
        ----------
        X, adjacency
            As for `predict`.
        y : array of shape (n_nodes,) or (n_nodes, n_classes)
            The true labels; nodes that are marked as unlabelled, as for `fit`, are left out.
        sample_weight : array of shape (n_nodes,), optional
            What each node counts.

        Returns
        -------
        float

        Examples
        --------
        >>> from graphconv import SGCClassifier
        >>> X, y = [[0.0], [0.1], [1.0], [1.1]], ["cold", None, "hot", None]
        >>> clf = SGCClassifier(n_neighbors=1).fit(X, y)
        >>> clf.score(X, y), clf.score(X, ["cold", "cold", "hot", "cold"])
        (1.0, 0.75)
        """
        codes, names = encode_targets(y)
        predicted = self.predict(X, adjacency=adjacency)
        if codes.ndim == 2:
            is_known, is_right = (codes >= 0).all(axis=1), (codes == predicted).all(axis=1)
        else:
            is_known, is_right = codes >= 0, array_of_names(names or (None,))[codes] == predicted
        if not is_known.any():
            raise ValueError(f"y must have a label to score by, got none among {len(codes)}")
        weights = None if sample_weight is None else np.asarray(sample_weight)[is_known]
        return float(np.average(is_right[is_known], weights=weights))

    def doubtful_labels(self) -> tuple[DoubtfulLabel, ...]:
        """The given labels that look wrong, the most suspicious first.

        Returns
        -------
        tuple of DoubtfulLabel
            The node, its given label, the likelier one, and the share of each.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> clf = GCNClassifier("paper", random_state=0).fit(load_dataset("cora"))
        >>> worst = clf.doubtful_labels()[0]
        >>> worst.given != worst.likelier, worst.given_probability < worst.likelier_probability
        (True, True)
        """
        check_is_fitted(self)
        probabilities = self.predict_proba()
        return doubtful_labels(self._training_graph(), self.out_of_fold(), probabilities)

    def estimate_accuracy(self) -> Interval:
        """How often the labels are right, with its 95 % interval.

        On test nodes, where the graph has any; else by cross-validation over the labelled nodes.
        Of several labels per node all must be right.

        Returns
        -------
        Interval
            The share, and the low and high end of its interval.

        Examples
        --------
        >>> from graphconv import GCNClassifier, load_dataset
        >>> clf = GCNClassifier("paper", random_state=0).fit(load_dataset("cora"))
        >>> found = clf.estimate_accuracy()
        >>> bool(found.low < found.share < found.high)
        True
        """
        check_is_fitted(self)
        graph = self._training_graph()
        test = graph.test_index
        probabilities = self.predict_proba()
        found = accuracy_interval(graph.labels[test], probabilities[test])
        if found is None:
            held_out = self.out_of_fold()
            found = accuracy_interval(held_out.labels, held_out.probabilities)
        assert found is not None  # there are labelled nodes, or fit would have refused
        return found

    def out_of_fold(self) -> OutOfFold:
        """What models say of the training and validation nodes whose labels they have not seen.

        Returns
        -------
        OutOfFold
            Nodes, their labels, and probabilities by a model that was trained without them. They
            are computed when first asked for, by as many trainings as there are folds.
        """
        if not hasattr(self, "out_of_fold_"):
            self.out_of_fold_ = fit_folds(self._training_graph(), self._fit_predict())
        return self.out_of_fold_

    # What every estimator with this mixin says:

    def _training_graph(self) -> Graph:
        """The graph that the model was trained on."""
        raise NotImplementedError

    def _given_graph(self) -> Graph:
        """The graph that `fit` was given, which need not have what the training added to it."""
        return self._training_graph()

    def _fitted(self) -> FittedMethod | FittedGCN:
        """What it came to, apart from the estimator."""
        raise NotImplementedError

    def _probabilities_of(self, graph: Graph) -> FloatMatrix:
        """Class probabilities of all nodes of a graph."""
        raise NotImplementedError

    def _fit_predict(self) -> FitPredict:
        """How the estimator is trained anew."""
        raise NotImplementedError
