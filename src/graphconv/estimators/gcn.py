"""GCNClassifier: the scikit-learn face of the model.

Arrays or a Graph enter `fit`, labels and probabilities of every node leave. The work is done by
`fit_gcn`, and the fitted model is the `FittedGCN` in `fitted_`. Torch is imported by `fit`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from graphconv.estimators._inputs import (
    array_of_names,
    graph_to_fit,
    graph_to_predict,
    seeds_of,
)
from graphconv.estimators.node_classifier import NodeClassifierMixin
from graphconv.graph import Graph
from graphconv.graph.names import Scaling
from graphconv.models.settings import (
    SEARCHES,
    Activation,
    Normalisation,
    Rule,
    Settings,
    StoppingRule,
)
from graphconv.training.class_prior import with_class_prior
from graphconv.training.out_of_fold import FitPredict, same_training

if TYPE_CHECKING:
    from graphconv.estimators.choice import Choice
    from graphconv.training.fit import Watch
    from graphconv.training.fitted import FittedGCN, FloatMatrix


# scikit-learn's wrapping of transform's output would make its X obligatory. It takes the keyword in
# an __init_subclass__ that mypy, for which the base classes are Any, can't see.
class GCNClassifier(  # type: ignore[call-arg]
    NodeClassifierMixin,
    ClassifierMixin,
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,
):
    """Semi-supervised node classifier: a graph convolutional network.

    Every hyper-parameter that is None takes the value of the preset.

    Parameters
    ----------
    preset : {"robust", "paper", "quick", "auto", "strong"}
        "robust" serves on unknown data, "paper" is the recipe of Kipf and Welling. "quick" tries
        networks that differ in kind for some seconds and keeps what does best on held-out labels;
        "auto" takes longer and tries other settings of them as well. `AutoClassifier` does the
        same with methods that are no networks among the candidates. "strong" trains all of them to
        their end, and demanding ones beside them, which may take minutes.
    model : str, optional
        The network that is trained. One of gcn, appnp, grand.
    propagation : str, optional
        Propagation rule of the paper's table 3. One of renormalised, single-parameter, first-order,
        first-order-only, chebyshev, none.
    self_loop_weight : float or "learn", optional
        lambda in A + lambda I, of the renormalised rule: a number, or 'learn'.
    chebyshev_order : int, optional
        K of the Chebyshev rule.
    lambda_max : float or "true", optional
        Largest eigenvalue of the Laplacian in the Chebyshev rule: a number; 'true' works it out.
    hidden : int or sequence of int, optional
        Width of each hidden layer, such as 64 or 64,64; 0 for none.
    activation : str, optional
        What follows a hidden layer. One of relu, tanh, elu, none.
    normalisation : str, optional
        What hidden values go through before the activation: 'layer' gives those of a node mean 0
        and variance 1, 'batch' those of a column over the nodes that a step of training computes;
        prediction takes running means of these. With grand, 'batch' comes after the activation, and
        each feature has a gain. One of none, layer, batch.
    residual : bool, optional
        Add a hidden layer's input to its output.
    jumping_knowledge : bool, optional
        Give the last layer the sum of all hidden layers, which must be of one width, in place of
        the last of them.
    bias : bool, optional
        Give layers a bias.
    steps : int, optional
        Steps of a model that propagates apart from its layers: appnp, grand.
    restart : float, optional
        Share of its own prediction that a node keeps at each of these steps, with appnp.
    row_dropout : float, optional
        Probability of dropping all features of a node in training, with grand.
    correct_and_smooth : bool, optional
        Spread the errors on training labels to neighbours, then smooth what the model says over the
        graph, training labels among it.
    scaling : str, optional
        How features are scaled; 'auto' looks at them. One of auto, row, l2, standard, none.
    dropout : float or sequence of float, optional
        Probability of dropping an input of a layer: one for all layers, or one for each, such as
        0.5,0,0.5.
    copies : int, optional
        Passes of a training step, each with dropout of its own, that are made to agree on all
        nodes, labelled or not. By default 4 with grand, else 1.
    agreement : float, optional
        Weight of the copies' disagreement in the loss.
    agreement_warmup : int, optional
        Epochs in which that weight grows from 0 to what it is.
    sharpening : float, optional
        Temperature of the mean that copies are to agree with: the lower, the surer it is.
    learning_rate : float, optional
        Step size of Adam.
    weight_decay : float, optional
        L2 penalty: the loss grows by half of it times the sum of squared weights.
    weight_decay_layers : str, optional
        Layers whose weights are penalised. One of first, all.
    max_epochs : int, optional
        Stop after so many epochs at the latest.
    early_stopping : str, optional
        'settled' stops once the accuracy on validation nodes has not risen and the loss on them not
        fallen by 1 % for so many epochs as patience says, and goes back to the most accurate
        weights (of equals the first, but for a later one with the lowest loss of all epochs so
        far); 'best' does the same, but counts any gain; so does 'lowest', which goes back to the
        weights of the lowest loss. 'window' is the authors' rule: stop when the validation loss
        exceeds its mean over that many epochs before, and keep the last weights. 'consecutive' is
        the rule of the paper's text: stop once that loss has not fallen below its lowest for that
        many epochs in a row, and keep the last weights. One of settled, best, lowest, window,
        consecutive, none.
    patience : int, optional
        Epochs without gain before stopping.
    class_weight : "balanced" or dict, optional
        What a node of each class counts: a weight for each, or 'balanced', which gives every class
        the same say, however many labels it has.
    batch_size : int, optional
        Train on so many nodes at a time. By default all at once.
    fanout : "all", int or sequence of int, optional
        Neighbours that a node of a mini-batch sums over: all of them, which is exact, or a sample
        of so many at each hop, such as 10,10, counted from the nodes to be labelled.
    ensemble : int, optional
        How many models, differing in their seed, to train at once; their probabilities are
        averaged. By default up to 4 with preset "quick" and 8 with "auto" and "strong", as time
        allows, else 1.
    validation_fraction : float
        Share of the labelled nodes that decides when to stop, where the data brings no validation
        nodes of its own. Every class keeps at least one training node. If it comes to fewer than
        20 nodes, all labels are used for training, which then lasts 200 epochs.
    calibrate : bool
        Whether to fit a temperature and a share of doubt to the validation nodes, where there are
        any, so that of the labels given with 80 % about 80 % are right. It changes no label.
    class_prior : {"labels", "estimate"} or dict, optional
        How common classes are in the graph, where labels were drawn otherwise: probabilities are
        put right by it. "estimate" finds out from nodes without labels; a dict has a share for
        each class. Default: as among the labels.
    n_neighbors : int
        Neighbours of a row in the graph that is built when there is no adjacency.
    directed : bool
        Whether `adjacency` keeps its directions; else it is made symmetric.
    kernels : {"auto", "native", "reference"}
        Which sparse products to use.
    device : {"cpu", "cuda", "mps", "auto"}
        Where to train and to predict: with the kernels on the processor, or with torch on a
        device; "auto" takes a device that is there for graphs large enough. It may be changed in
        between by `set_params`.
    random_state : int or None
        Seed of the weights, of dropout and of the held-out labels. Equal seeds give equal results.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Names of the classes, in the order of the columns of probabilities.
    transduction_ : array of shape (n_nodes,)
        Label of every node of the training graph.
    label_distributions_ : array of shape (n_nodes, n_classes)
        Probability of each class for every node of the training graph.
    n_epochs_ : int
        Epochs run, by the longest-running member of the ensemble.
    history_ : dict of lists
        Loss and accuracy of each epoch on training and validation nodes.
    settings_ : Settings
        What the preset and the parameters came to.
    choice_ : str
        With preset="quick" or "auto", what was chosen and why.
    self_loop_weight_ : float
        lambda, learned or given.
    calibration_ : Calibration
        Temperature and doubt; 1 and 0 where nothing was calibrated.
    n_features_in_ : int
        Features of a node; without any, the nodes of the graph.
    joins_neighbours_ : bool
        Whether fit built the graph itself, of every row's nearest neighbours.
    fitted_ : FittedGCN
        The trained model with its graph, for whoever goes beyond scikit-learn.

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

    _saved_parameters = ("validation_fraction", "calibrate", "n_neighbors", "directed", "kernels")

    def __init__(
        self,
        preset: Literal["robust", "paper", "quick", "auto", "strong"] = "robust",
        *,
        model: str | None = None,
        propagation: Rule | None = None,
        self_loop_weight: float | Literal["learn"] | None = None,
        chebyshev_order: int | None = None,
        lambda_max: float | Literal["true"] | None = None,
        hidden: Any = None,
        activation: Activation | None = None,
        normalisation: Normalisation | None = None,
        residual: bool | None = None,
        jumping_knowledge: bool | None = None,
        bias: bool | None = None,
        steps: int | None = None,
        restart: float | None = None,
        row_dropout: float | None = None,
        correct_and_smooth: bool | None = None,
        scaling: Scaling | None = None,
        dropout: Any = None,
        copies: int | None = None,
        agreement: float | None = None,
        agreement_warmup: int | None = None,
        sharpening: float | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        weight_decay_layers: Literal["first", "all"] | None = None,
        max_epochs: int | None = None,
        early_stopping: StoppingRule | None = None,
        patience: int | None = None,
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        batch_size: int | None = None,
        fanout: Any = None,
        ensemble: int | None = None,
        validation_fraction: float = 0.2,
        calibrate: bool = True,
        class_prior: Any = None,
        n_neighbors: int = 10,
        directed: bool = False,
        kernels: Literal["auto", "native", "reference"] = "auto",
        device: Literal["cpu", "cuda", "mps", "auto"] = "cpu",
        random_state: Any = None,
    ) -> None:
        self.preset = preset
        self.model = model
        self.propagation = propagation
        self.self_loop_weight = self_loop_weight
        self.chebyshev_order = chebyshev_order
        self.lambda_max = lambda_max
        self.hidden = hidden
        self.activation = activation
        self.normalisation = normalisation
        self.residual = residual
        self.jumping_knowledge = jumping_knowledge
        self.bias = bias
        self.steps = steps
        self.restart = restart
        self.row_dropout = row_dropout
        self.correct_and_smooth = correct_and_smooth
        self.scaling = scaling
        self.dropout = dropout
        self.copies = copies
        self.agreement = agreement
        self.agreement_warmup = agreement_warmup
        self.sharpening = sharpening
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.weight_decay_layers = weight_decay_layers
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.patience = patience
        self.class_weight = class_weight
        self.batch_size = batch_size
        self.fanout = fanout
        self.ensemble = ensemble
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.class_prior = class_prior
        self.n_neighbors = n_neighbors
        self.directed = directed
        self.kernels = kernels
        self.device = device
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, adjacency: Any = None, watch: Watch | None = None
    ) -> GCNClassifier:
        """Learn from the labelled nodes of a graph.

        Parameters
        ----------
        X : Graph, array or sparse matrix of shape (n_nodes, n_features), or None
            A Graph brings its own adjacency, labels and splits; so does what `read_tables` and
            the other readers return, and a networkx graph whose nodes have the attribute "label".
            None means featureless.
        y : array of shape (n_nodes,) or (n_nodes, n_classes), optional
            Labels of any type; -1, None, NaN and empty strings mark unlabelled nodes. A 0/1 matrix
            gives several labels per node; its unlabelled rows are -1.
        adjacency : array or sparse matrix of shape (n_nodes, n_nodes), optional
            Without one the graph joins every row of X to its nearest neighbours.
        watch : Watch, optional
            Who looks on: progress and checkpoints.

        Returns
        -------
        GCNClassifier
            The classifier itself.
        """
        from graphconv.training.fit import fit_gcn

        seeds = seeds_of(self.random_state, 1 if self.ensemble is None else self.ensemble)
        graph = graph_to_fit(self, X, y, adjacency)
        self.n_features_in_ = graph.n_features
        preset, overrides, choice = str(self.preset), self._overrides(), ""
        if preset in SEARCHES:
            found = self._chosen(graph, seeds[0])
            preset, choice, one = "robust", found.reason, found.candidate
            overrides = {**dict(one.settings), "model": one.model}
            if self.ensemble is None:
                seeds = seeds_of(seeds[0], one.runs)
        fitted = fit_gcn(
            graph,
            preset=preset,
            overrides=overrides,
            seeds=seeds,
            validation_fraction=self.validation_fraction,
            calibrate=self.calibrate,
            kernels=self.kernels,
            device=self.device,
            watch=watch,
        )
        fitted = with_class_prior(fitted, self.class_prior)
        self._set_fitted(replace(fitted, choice=choice or fitted.choice))
        return self

    def _chosen(self, graph: Graph, seed: int) -> Choice:
        """The settings that do best on held-out labels, and why."""
        from graphconv.estimators.choice import Search

        fixed = self._overrides()
        search = Search(
            graph,
            self.preset,
            model=fixed.pop("model", None),
            fixed=fixed,
            seed=seed,
            networks_only=True,
            validation_fraction=self.validation_fraction,
        )
        search.run()
        return search.conclude()

    def _training_graph(self) -> Graph:
        return self.fitted_.graph

    def _fit_predict(self) -> FitPredict:
        return same_training(self.fitted_)

    def _fitted(self) -> FittedGCN:
        return self.fitted_

    def _probabilities_of(self, graph: Graph) -> FloatMatrix:
        return self._fitted_on_device().ensemble_probabilities(graph)

    def _set_fitted(self, fitted: FittedGCN) -> None:
        self.__dict__.pop("out_of_fold_", None)  # of an earlier fit
        self.fitted_ = fitted
        self.settings_ = fitted.settings
        self.choice_ = fitted.choice
        self.n_epochs_ = fitted.n_epochs
        self.history_ = fitted.history
        self.self_loop_weight_ = fitted.self_loop_weight
        self.calibration_ = fitted.calibration
        self.classes_ = array_of_names(fitted.graph.class_names)
        self.label_distributions_ = fitted.ensemble_probabilities()
        self.transduction_ = self._labels_of(self.label_distributions_)

    def transform(self, X: Any = None, *, adjacency: Any = None) -> FloatMatrix:
        """Hidden activations that enter the last layer; those of an ensemble side by side.

        Parameters
        ----------
        X, adjacency
            As for `predict`.

        Returns
        -------
        array of shape (n_nodes, n_hidden)
        """
        check_is_fitted(self)
        graph, n_skipped = graph_to_predict(self, self.fitted_.graph, X, adjacency)
        return self._fitted_on_device().embedding(graph)[n_skipped:]

    def _fitted_on_device(self) -> FittedGCN:
        """The model where it is to predict now, which need not be where it was trained."""
        if self.fitted_.device != self.device:
            self.fitted_ = replace(self.fitted_, device=self.device)
        return self.fitted_

    @property
    def _n_features_out(self) -> int:
        width = (self.settings_.hidden or (0,))[-1]
        return width * len(self.fitted_.network.seeds)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : ignored
            There for scikit-learn, whose transformers take it.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        return np.array([f"gcn{i}" for i in range(self._n_features_out)], dtype=object)

    def _overrides(self) -> dict[str, Any]:
        names = Settings.__dataclass_fields__
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
