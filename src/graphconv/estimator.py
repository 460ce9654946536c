"""GCNClassifier: the scikit-learn face of the model.

Arrays or a Graph enter `fit`, labels and probabilities of every node leave. The estimator is also
the fitted model that is saved, loaded and used by the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from graphconv import kernels as kernel_choice
from graphconv.batching import Batch, make_batch
from graphconv.estimator_input import (
    attach_to_neighbours,
    check_trainable,
    encode_targets,
    graph_from_arrays,
    hold_out,
    seeds_of,
)
from graphconv.graph import Graph
from graphconv.model import GCN, Activation
from graphconv.preset_search import choose_settings
from graphconv.propagation import Propagation, Rule, largest_eigenvalue
from graphconv.scaling import FeatureScaler, Scaling, fit_scaler
from graphconv.settings import Settings, resolve_settings
from graphconv.training import (
    Progress,
    TrainingState,
    single_torch_thread,
    train,
    training_batch,
)

FloatMatrix = npt.NDArray[np.float32]


class GCNClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised node classifier: a graph convolutional network.

    Every hyper-parameter that is None takes the value of the preset; see `graphconv.Settings` for
    what each one means.

    Parameters
    ----------
    preset : {"robust", "paper", "auto"}
        "robust" serves on unknown data, "paper" is the recipe of Kipf and Welling, "auto" tries a
        handful of settings and keeps what does best on held-out labels.
    hidden : int or sequence of int, optional
    propagation : str, optional
    self_loop_weight : float or "learn", optional
    chebyshev_order : int, optional
    lambda_max : float or "true", optional
    dropout : float or sequence of float, optional
    activation : str, optional
    residual : bool, optional
    bias : bool, optional
    scaling : str, optional
    learning_rate : float, optional
    weight_decay : float, optional
    weight_decay_layers : {"first", "all"}, optional
    max_epochs : int, optional
    early_stopping : {"best", "window", "none"}, optional
    patience : int, optional
    class_weight : "balanced", optional
    ensemble : int
        How many models, differing in their seed, to train at once; their probabilities are averaged.
    validation_fraction : float
        Share of the labelled nodes that decides when to stop, where the data brings no validation
        nodes of its own. Every class keeps at least one training node.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Whether `adjacency` keeps its directions; else it is made symmetric.
    kernels : {"auto", "native", "reference"}
        Which sparse products to use.
    random_state : int or None
        Seed of the weights, of dropout and of the held-out labels. Equal seeds give equal results.

    Attributes
    ----------
    classes_ : array of class names
    transduction_ : array of shape (n_nodes,)
        Label of every node of the training graph.
    label_distributions_ : array of shape (n_nodes, n_classes)
    n_epochs_ : int
        Epochs run, by the longest-running member of the ensemble.
    history_ : dict of lists
        Loss and accuracy of each epoch on training and validation nodes.
    settings_ : Settings
        What the preset and the parameters came to.
    choice_ : str
        With preset="auto", what was chosen and why.
    self_loop_weight_ : float
        lambda, learned or given.

    Examples
    --------
    Three lines, from a graph to labels:

    >>> from graphconv import GCNClassifier, load_dataset
    >>> karate = load_dataset("karate")
    >>> clf = GCNClassifier(random_state=0).fit(karate)
    >>> clf.predict().shape
    (34,)

    From arrays; -1 marks the nodes to label:

    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> y = np.array([0, -1, 1, -1])
    >>> edges = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> GCNClassifier(random_state=0).fit(X, y, adjacency=edges).transduction_
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        preset: Literal["robust", "paper", "auto"] = "robust",
        *,
        hidden: Any = None,
        propagation: Rule | None = None,
        self_loop_weight: float | Literal["learn"] | None = None,
        chebyshev_order: int | None = None,
        lambda_max: float | Literal["true"] | None = None,
        dropout: Any = None,
        activation: Activation | None = None,
        residual: bool | None = None,
        bias: bool | None = None,
        scaling: Scaling | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        weight_decay_layers: Literal["first", "all"] | None = None,
        max_epochs: int | None = None,
        early_stopping: Literal["best", "window", "none"] | None = None,
        patience: int | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble: int = 1,
        validation_fraction: float = 0.2,
        n_neighbors: int = 10,
        directed: bool = False,
        kernels: Literal["auto", "native", "reference"] = "auto",
        random_state: Any = None,
    ) -> None:
        self.preset = preset
        self.hidden = hidden
        self.propagation = propagation
        self.self_loop_weight = self_loop_weight
        self.chebyshev_order = chebyshev_order
        self.lambda_max = lambda_max
        self.dropout = dropout
        self.activation = activation
        self.residual = residual
        self.bias = bias
        self.scaling = scaling
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.weight_decay_layers = weight_decay_layers
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.patience = patience
        self.class_weight = class_weight
        self.ensemble = ensemble
        self.validation_fraction = validation_fraction
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.kernels = kernels
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        adjacency: Any = None,
        on_epoch: Callable[[Progress], None] | None = None,
        resume_from: dict[str, torch.Tensor] | None = None,
        on_checkpoint: Callable[[Callable[[], dict[str, torch.Tensor]]], None] | None = None,
    ) -> GCNClassifier:
        """Learn from the labelled nodes of a graph.

        Parameters
        ----------
        X : Graph, array or sparse matrix of shape (n_nodes, n_features), or None
            A Graph brings its own adjacency, labels and splits. None means featureless.
        y : array of shape (n_nodes,) or (n_nodes, n_classes), optional
            Labels of any type; -1, None, NaN and empty strings mark unlabelled nodes. A 0/1 matrix
            gives several labels a node; its unlabelled rows are -1.
        adjacency : array or sparse matrix of shape (n_nodes, n_nodes), optional
            Without one the graph joins every row of X to its nearest neighbours.
        on_epoch, resume_from, on_checkpoint
            See `graphconv.training.train`.
        """
        seeds = seeds_of(self.random_state, self.ensemble)
        self.graph_mode_ = "graph"
        if isinstance(X, Graph):
            if y is not None or adjacency is not None:
                raise ValueError("fit must get either a Graph or arrays, got a Graph with y or adjacency")
            graph = X
            self.n_features_in_ = graph.n_features
        else:
            labels, class_names = encode_targets(y)
            X = self._check_features(X, reset=True)
            self.graph_mode_ = "neighbours" if adjacency is None else "adjacency"
            graph = graph_from_arrays(
                X, labels, class_names, adjacency, self.directed, self.n_neighbors
            )
            if X is None:
                self.n_features_in_ = graph.n_features
        check_trainable(graph)
        if len(graph.validation_index) == 0:
            graph = hold_out(graph, self.validation_fraction, seeds[0])
        self._fit_graph(graph, seeds, on_epoch, resume_from, on_checkpoint)
        return self

    def _fit_graph(
        self,
        graph: Graph,
        seeds: list[int],
        on_epoch: Callable[[Progress], None] | None,
        resume_from: dict[str, torch.Tensor] | None,
        on_checkpoint: Callable[[Callable[[], dict[str, torch.Tensor]]], None] | None,
    ) -> None:
        overrides = self._overrides()
        settings = resolve_settings("robust" if self.preset == "auto" else self.preset, overrides)
        self.choice_ = ""
        if self.preset == "auto":
            settings, self.choice_ = choose_settings(
                graph, settings, set(overrides), seeds[0], self._train_and_score
            )
        model, scaler, state = self._train(
            graph, settings, seeds, on_epoch, resume_from, on_checkpoint
        )
        self._set_fitted(graph, settings, scaler, model)
        self._set_record(state)
        self._set_transduction()

    def _set_fitted(
        self, graph: Graph, settings: Settings, scaler: FeatureScaler, model: GCN
    ) -> None:
        self.graph_ = graph
        self.settings_ = settings
        self.scaler_ = scaler
        self.model_ = model
        self.is_featureless_ = graph.features is None
        self.is_multilabel_ = graph.is_multilabel
        self.classes_ = _array_of_names(graph.class_names)
        weights = model.propagation.self_loop_weight
        self.self_loop_weight_ = float(np.mean(weights))

    def _set_transduction(self) -> None:
        self.label_distributions_ = self.predict_proba(self.graph_)
        self.transduction_ = self._labels_of(self.label_distributions_)

    def _set_record(self, state: TrainingState) -> None:
        self.n_epochs_ = int(state.stopped_at.max())
        self.history_ = {
            name: np.array([getattr(epoch, name) for epoch in state.epochs]).mean(axis=1).tolist()
            for name in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")
        }

    def _train(
        self,
        graph: Graph,
        settings: Settings,
        seeds: list[int],
        on_epoch: Callable[[Progress], None] | None = None,
        resume_from: dict[str, torch.Tensor] | None = None,
        on_checkpoint: Callable[[Callable[[], dict[str, torch.Tensor]]], None] | None = None,
    ) -> tuple[GCN, FeatureScaler, TrainingState]:
        scaler = fit_scaler(graph.features, cast(Scaling, settings.scaling))
        features = scaler.transform(graph.features)
        model = build_model(graph, settings, seeds, self.kernels)

        def labelled(index: npt.NDArray[np.int64], class_weight: str | None) -> Any:
            return training_batch(
                graph, index, n_hops=model.n_hops, features=features, class_weight=class_weight
            )

        batch = labelled(graph.train_index, settings.class_weight)
        watched = graph.validation_index
        validation = labelled(watched, None) if len(watched) else None
        state = train(
            model,
            [batch],
            validation,
            settings,
            on_epoch=on_epoch,
            resume_from=resume_from,
            on_checkpoint=on_checkpoint,
        )
        return model, scaler, state

    def _train_and_score(
        self, graph: Graph, settings: Settings, seeds: list[int]
    ) -> tuple[float, float]:
        """Mean validation accuracy and loss of some settings, over seeds."""
        _, _, state = self._train(graph, settings, seeds)
        accuracies = np.array([epoch.validation_accuracy for epoch in state.epochs])
        losses = np.array([epoch.validation_loss for epoch in state.epochs])
        return float(accuracies.max(axis=0).mean()), float(losses.min(axis=0).mean())

    def predict(self, X: Any = None, *, adjacency: Any = None) -> npt.NDArray[Any]:
        """Label of each node; for several labels a node, a 0/1 matrix.

        Without arguments: of every node of the training graph. With a Graph, or features and an
        adjacency: of every node of that graph, which may be larger or another one. Where fit built
        the graph itself, rows of X are attached to their nearest training rows.
        """
        return self._labels_of(self.predict_proba(X, adjacency=adjacency))

    def _labels_of(self, probabilities: FloatMatrix) -> npt.NDArray[Any]:
        if self.is_multilabel_:
            return (probabilities > 0.5).astype(np.int64)
        return cast(npt.NDArray[Any], self.classes_[probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any = None, *, adjacency: Any = None) -> FloatMatrix:
        """Probability of each class for each node; arguments as for `predict`."""
        check_is_fitted(self)
        if X is None and adjacency is None:
            return self.label_distributions_.copy()
        batch, n_skipped = self._inference_batch(X, adjacency)
        with torch.no_grad(), single_torch_thread():
            logits = self.model_(batch)
            shares = logits.sigmoid() if self.is_multilabel_ else logits.softmax(dim=2)
        mean: FloatMatrix = shares.mean(dim=1).numpy()[n_skipped:]
        return mean

    def transform(self, X: Any = None, *, adjacency: Any = None) -> FloatMatrix:
        """Hidden activations that enter the last layer; those of an ensemble side by side."""
        batch, n_skipped = self._inference_batch(X, adjacency)
        with torch.no_grad(), single_torch_thread():
            hidden = self.model_.embed(batch)
        flat: FloatMatrix = hidden.reshape(hidden.shape[0], -1).numpy()[n_skipped:]
        return flat

    @property
    def _n_features_out(self) -> int:
        width = (self.settings_.hidden or (0,))[-1]
        return width * len(self.model_.seeds)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Names of the columns that `transform` returns."""
        check_is_fitted(self)
        return np.array([f"gcn{i}" for i in range(self._n_features_out)], dtype=object)

    def _inference_batch(self, X: Any, adjacency: Any) -> tuple[Batch, int]:
        """The batch of all nodes to predict, and how many leading rows are not asked for."""
        check_is_fitted(self)
        graph, n_skipped = self._graph_to_predict(X, adjacency)
        if self.is_featureless_ != (graph.features is None):
            had = "no features" if self.is_featureless_ else f"{self.n_features_in_} features"
            raise ValueError(f"the model was trained with {had}, so the graph to predict must match")
        if graph.n_features != self.n_features_in_:
            what = "nodes (it is featureless)" if self.is_featureless_ else "features"
            raise ValueError(
                f"the model was trained with {self.n_features_in_} {what}, "
                f"but the graph to predict has {graph.n_features}"
            )
        features = self.scaler_.transform(graph.features)
        return make_batch(graph, n_hops=self.model_.n_hops, features=features), n_skipped

    def _graph_to_predict(self, X: Any, adjacency: Any) -> tuple[Graph, int]:
        if isinstance(X, Graph):
            return X, 0
        if X is None and adjacency is None:
            return self.graph_, 0
        X = self._check_features(X, reset=False)
        if adjacency is not None:
            return graph_from_arrays(X, None, None, adjacency, self.directed, 0), 0
        if self.graph_mode_ == "neighbours":
            return attach_to_neighbours(self.graph_, X, self.n_neighbors), self.graph_.n_nodes
        if X is not None and X.shape[0] == self.graph_.n_nodes:
            return replace(self.graph_, features=X), 0
        raise ValueError(
            "the model was trained on a graph, so new rows of X need an adjacency: "
            f"got {0 if X is None else X.shape[0]} rows, the training graph has "
            f"{self.graph_.n_nodes} nodes"
        )

    def _check_features(self, X: Any, reset: bool) -> Any:
        if X is None:
            return None
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _overrides(self) -> dict[str, Any]:
        names = Settings.__dataclass_fields__
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def build_model(
    graph: Graph,
    settings: Settings,
    seeds: list[int],
    kernels: kernel_choice.KernelName = "auto",
) -> GCN:
    """An untrained GCN for a graph.

    Examples
    --------
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.estimator import build_model
    >>> model = build_model(load_dataset("karate"), Settings(hidden=(4,)), seeds=[0])
    >>> tuple(model.layers[0].weight.shape)  # features, terms, replicas, width
    (34, 1, 1, 4)
    """
    lambda_max = settings.lambda_max
    if lambda_max == "true":
        needed = settings.propagation == "chebyshev" and not graph.directed
        lambda_max = largest_eigenvalue(graph) if needed else 2.0
    propagation = Propagation(
        cast(Rule, settings.propagation),
        directed=graph.directed,
        self_loop_weight=settings.self_loop_weight,
        chebyshev_order=settings.chebyshev_order,
        lambda_max=lambda_max,
        n_replicas=len(seeds),
        kernels=kernel_choice.select(kernels),
    )
    return GCN(
        graph.n_features,
        graph.n_classes,
        propagation,
        hidden=settings.hidden,
        seeds=seeds,
        dropout=settings.dropout,
        activation=cast(Activation, settings.activation),
        residual=settings.residual,
        bias=settings.bias,
    )


def _array_of_names(names: tuple[Any, ...]) -> npt.NDArray[Any]:
    if all(isinstance(name, str) for name in names) or all(
        isinstance(name, int | float) and not isinstance(name, bool) for name in names
    ):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array
