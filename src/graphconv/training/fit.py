"""fit_gcn(): from a Graph to a fitted model that labels it, or another graph.

This is what the estimator and the command line share. It needs no scikit-learn, whose import takes
as long as training on Cora.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv import kernels as kernel_choice
from graphconv.engine.batches import feature_rows, make_batch
from graphconv.engine.devices import (
    NO_MEMORY_FOR_BATCH,
    choose_device,
    on_device,
    on_processor,
    out_of_memory_says,
)
from graphconv.engine.feature_storage import faster_features
from graphconv.engine.memory_estimate import n_numbers_of, settle_batches
from graphconv.engine.mini_batches import MiniBatches
from graphconv.engine.network import Network
from graphconv.engine.objective import FloatArray, LabelledBatch
from graphconv.engine.summing import sum_beforehand
from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import (
    FeatureScaler,
    StoredFeatures,
    fit_scaler,
    fit_stored_scaler,
)
from graphconv.graph.splits import check_trainable, hold_out_validation
from graphconv.graph.unknown_features import without_features
from graphconv.io.wording import naming
from graphconv.kernels.hashing import hash_key
from graphconv.models.catalogue import make_model
from graphconv.models.propagation import largest_eigenvalue
from graphconv.models.settings import Settings, resolve_settings
from graphconv.training.calibration import fit_calibration
from graphconv.training.fitted import FittedGCN, scaled_features
from graphconv.training.loop import (
    Epoch,
    MakeBatches,
    Progress,
    Saved,
    TrainingState,
    train,
)
from graphconv.training.scores import mean_over_runs

if TYPE_CHECKING:
    import torch

FloatMatrix = npt.NDArray[np.float32]
# Fewer held-out nodes than this say too little to stop by: all labels then train, for a fixed time.
MIN_VALIDATION = 20
VALIDATION_FRACTION = 0.2
# Validation nodes that calibration goes by; fewer where each must be read from disk.
MOST_CALIBRATED, MOST_CALIBRATED_STORED = 5000, 1000
# Of all nodes, whose features are hidden at a time.
MOST_HIDDEN = 0.05


@dataclass(frozen=True)
class Watch:
    """Who looks on while a model trains; see `graphconv.training.loop.train`."""

    on_epoch: Callable[[Progress], None] | None = None
    resume_from: Saved | None = None
    on_checkpoint: Callable[[Callable[[], Saved]], None] | None = None
    on_end: Callable[[TrainingState], None] | None = None  # told the record


def fit_gcn(
    graph: Graph,
    *,
    preset: str = "robust",
    overrides: dict[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    validation_fraction: float = VALIDATION_FRACTION,
    calibrate: bool = True,
    kernels: kernel_choice.KernelName = "auto",
    watch: Watch | None = None,
    auto: bool = True,
    start_from: FittedGCN | None = None,
    device: str = "cpu",
) -> FittedGCN:
    """Train a GCN, or several that differ in their seed, on the training nodes of a graph.

    Parameters
    ----------
    graph : Graph
    preset : {"robust", "paper", "paper-nell"}
    overrides : dict, optional
        Settings that differ from the preset's.
    seeds : sequence of int
        One model each; all train at once.
    validation_fraction : float
        Share of the training nodes to set aside, where the graph has no validation nodes. If that
        makes fewer than 20, none are, and training lasts a fixed 200 epochs.
    calibrate : bool
        Whether to fit a temperature and a share of doubt to the validation nodes, where there are
        any, so that confidence can be believed; see `fit_calibration`.
    kernels : {"auto", "native", "reference"}
    watch : Watch, optional
    auto : bool
        Train in mini-batches where the full batch would not fit the memory; else that is an error.
    start_from : FittedGCN, optional
        A model whose weights training begins with, instead of random ones: fewer epochs do where
        few labels have changed since. Its classes, features, widths and seeds must be the same.
    device : {"cpu", "cuda", "mps", "auto"}
        Where to train and to predict: with the kernels on the processor, or with torch on a
        device; "auto" takes a device that is there for graphs large enough.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.training.fit import fit_gcn
    >>> fitted = fit_gcn(load_dataset("karate"), seeds=[1, 2])
    >>> fitted.probabilities().shape  # nodes, models, classes
    (34, 2, 4)
    """
    overrides = overrides or {}
    check_trainable(graph)
    graph = hold_out(graph, validation_fraction, seeds[0])
    settings = resolve_settings(preset, overrides)
    if settings.correct_and_smooth and graph.folder is not None:
        raise ValueError(naming("{correct_and_smooth} must be off for a graph on disk"))
    watch = watch or Watch()
    wanted, (settings, note) = settings, settle_batches(graph, settings, len(seeds), auto=auto)
    if settings != wanted:
        warnings.warn(note, UserWarning, stacklevel=2)
    place = choose_device(device, n_numbers_of(graph))
    network, scaler, state = _train(graph, settings, seeds, kernels, watch, start_from, place)
    if watch.on_end is not None:
        watch.on_end(state)
    fitted = FittedGCN(
        graph,
        settings,
        scaler,
        network,
        int(state.stopped_at.max()),
        history_of(state),
        device=device,
    )
    return calibrated(fitted) if calibrate else fitted


def history_of(state: TrainingState) -> dict[str, list[float]]:
    """Loss and accuracy of each epoch, a mean over the replicas that it trained."""
    scores = np.array(state.epochs)  # (n_epochs, 4, n_replicas)
    has_run = state.stopped_at > np.arange(len(scores))[:, None, None]
    means = scores.mean(axis=2, where=has_run)
    return {name: means[:, k].tolist() for k, name in enumerate(Epoch._fields)}


def build_model(
    graph: Graph,
    settings: Settings,
    seeds: Sequence[int],
    kernels: kernel_choice.KernelName = "auto",
    n_features: int | None = None,
    device: torch.device | None = None,
) -> Network:
    """An untrained network for a graph, of the model that the settings name.

    `n_features` are those of the whole, where the graph is a part of one. Without a device the
    kernels compute, on the processor.

    Examples
    --------
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.training.fit import build_model
    >>> network = build_model(load_dataset("karate"), Settings(hidden=(4,)), seeds=[0])
    >>> tuple(network.parameters["layers.0.weight"].shape)  # features, terms, replicas, width
    (34, 1, 1, 4)
    """
    lambda_max = settings.lambda_max
    if lambda_max == "true":
        needed = settings.propagation == "chebyshev" and not graph.directed
        if needed and graph.folder is not None:
            raise ValueError(
                "lambda_max must be a number for a graph on disk (2 is its bound), got 'true'"
            )
        lambda_max = largest_eigenvalue(graph) if needed else 2.0
    model = make_model(
        settings,
        graph.n_features if n_features is None else n_features,
        graph.n_classes,
        directed=graph.directed,
        lambda_max=lambda_max,
    )
    return Network(model, seeds, kernel_choice.select(kernels), device)


def _train(
    graph: Graph,
    settings: Settings,
    seeds: Sequence[int],
    kernels: kernel_choice.KernelName,
    watch: Watch,
    start_from: FittedGCN | None = None,
    device: torch.device | None = None,
) -> tuple[Network, FeatureScaler, TrainingState]:
    scaler, features = _scaled_features(graph, settings)
    network = build_model(graph, settings, seeds, kernels, device=device)
    if start_from is not None:
        copy_weights(start_from.network, network)

    batches: Sequence[LabelledBatch] | MakeBatches
    watched: LabelledBatch | MakeBatches | None
    if settings.is_full_batch(len(graph.train_index)):
        training, watched = full_batches(graph, settings, network, features)
        batches = [training]
    else:
        parts = MiniBatches(
            graph,
            settings,
            n_hops=network.n_hops,
            features=faster_features(features, network.program.features_kept),
            class_weight=class_weights(graph, settings),
            seed=seeds[0],
            agrees=network.model.agrees,
        )
        batches = parts.training
        watched = parts.validation if len(graph.validation_index) else None
    with out_of_memory_says(NO_MEMORY_FOR_BATCH):
        state = train(
            network,
            batches,
            watched,
            settings,
            on_epoch=watch.on_epoch,
            resume_from=watch.resume_from,
            on_checkpoint=watch.on_checkpoint,
        )
    return network.on(None), scaler, state


def copy_weights(source: Network, target: Network) -> None:
    """Give a network the weights of another, which must be of the same shape."""
    shapes = {name: tuple(values.shape) for name, values in source.parameters.items()}
    wanted = {name: tuple(values.shape) for name, values in target.parameters.items()}
    if shapes != wanted:
        differ = sorted(name for name in {*shapes, *wanted} if shapes.get(name) != wanted.get(name))
        name = differ[0]
        raise ValueError(
            f"start_from must have the shape of the model to train, got {shapes.get(name)} instead "
            f"of {wanted.get(name)} for {name}"
        )
    for name, values in target.parameters.items():
        values[...] = on_device(on_processor(source.parameters[name]), target.device)


def full_batches(
    graph: Graph, settings: Settings, network: Network, features: Any = None
) -> tuple[LabelledBatch, LabelledBatch | None]:
    """The batch of all training nodes, and that of all validation nodes if there are any.

    `features` stand in for the graph's, for features that were scaled.

    Examples
    --------
    >>> from graphconv import Settings, load_dataset
    >>> from graphconv.training.fit import build_model, full_batches
    >>> karate = load_dataset("karate")
    >>> network = build_model(karate, Settings(), [0])
    >>> training, validation = full_batches(karate, Settings(), network)
    >>> training.batch.n_within, validation is None
    ((4, 34, 34), True)
    """
    # Validation weighs classes as training does, or early stopping would undo the weights.
    class_weight = class_weights(graph, settings)

    def labelled(index: IntArray, others: IntArray, drops: bool) -> LabelledBatch:
        targets = np.concatenate([index, others])
        own = graph.features if features is None else features
        own = faster_features(own, network.program.features_kept if drops else 1)
        batch = make_batch(graph, targets, n_hops=network.n_hops, features=own)
        if not drops:
            batch = sum_beforehand(batch, network)
        return LabelledBatch.make(batch, graph.labels, class_weight, len(index))

    nobody = np.empty(0, dtype=np.int64)
    everyone = np.arange(graph.n_nodes) if network.model.agrees else nobody
    others = np.setdiff1d(everyone, graph.train_index)
    training = labelled(graph.train_index, others, network.program.drops_features)
    if not len(graph.validation_index):
        return training, None
    return training, labelled(graph.validation_index, nobody, drops=False)


def calibrated(fitted: FittedGCN, each: FloatMatrix | None = None) -> FittedGCN:
    """The same with the calibration that suits its validation nodes.

    `each` are the probabilities of all nodes, where they are known already.

    One for the ensemble, not one per replica: its averaged probabilities are what is predicted, and
    scaling them can't change a label.
    """
    graph = fitted.graph
    if not len(graph.validation_index):
        return fitted
    # Two numbers need no more nodes than this, and each node of a large graph has its neighbours.
    most = MOST_CALIBRATED if graph.folder is None else MOST_CALIBRATED_STORED
    everyone = graph.validation_index
    index = everyone[np.linspace(0, len(everyone) - 1, min(len(everyone), most)).astype(np.int64)]
    own = fitted.probabilities(nodes=index) if each is None else each[index]
    calibration = fit_calibration(mean_over_runs(own), graph.labels[index])
    apart = None
    if each is None and graph.unknown_features is not None:
        hidden = mean_over_runs(_probabilities_undescribed(fitted, index))
        apart = fit_calibration(hidden, graph.labels[index])
    return replace(fitted, calibration=calibration, undescribed_calibration=apart)


def _probabilities_undescribed(fitted: FittedGCN, nodes: IntArray) -> FloatMatrix:
    """Probabilities that some nodes would have if nothing were known of their features.

    A few at a time: their neighbours are to be known as well as those of other nodes are.
    """
    graph = fitted.graph
    assert graph.unknown_features is not None
    source = StoredFeatures(graph.features)
    n_parts = -(-len(nodes) // max(1, int(MOST_HIDDEN * graph.n_nodes)))
    probabilities = np.empty(
        (len(nodes), len(fitted.network.seeds), graph.n_classes), dtype=np.float32
    )
    for part in range(n_parts):
        some = nodes[part::n_parts].copy()
        batch = make_batch(graph, some, n_hops=fitted.network.n_hops, features=source)
        rows = without_features(source.take(batch.rows), len(some), graph.unknown_features)
        features = feature_rows(fitted.scaler.transform(rows), None, np.float32)
        probabilities[part::n_parts] = fitted.batch_probabilities(replace(batch, features=features))
    return probabilities


def _scaled_features(graph: Graph, settings: Settings) -> tuple[FeatureScaler, Any]:
    """A scaler that suits the features, and what it makes of them."""
    kind = settings.scaling
    fit = fit_stored_scaler if graph.reads_rows else fit_scaler
    scaler = fit(graph.features, kind)
    return scaler, scaled_features(graph, scaler)


def class_weights(graph: Graph, settings: Settings) -> FloatArray | None:
    """How much a node of each class counts; None where all count the same."""
    given = settings.class_weight
    if given is None:
        return None
    train_labels = graph.labels[graph.train_index]
    if given == "balanced":
        if graph.is_multilabel:
            raise ValueError("class_weight must be None where nodes have several labels")
        counts = np.bincount(train_labels, minlength=graph.n_classes)
        return 1 / np.maximum(counts, 1)
    weights = np.ones(graph.n_classes)
    # Names given on a command line are text, whatever the classes are.
    number = {str(name): position for position, name in enumerate(graph.class_names)}
    for name, weight in given:
        if str(name) not in number:
            known = ", ".join(repr(name) for name in graph.class_names[:10])
            raise ValueError(f"class_weight must name classes ({known}), got {name!r}")
        weights[number[str(name)]] = weight
    counted = train_labels.any(axis=0) if graph.is_multilabel else np.unique(train_labels)
    if not weights[counted].any():
        raise ValueError("class_weight must leave some training nodes to count, got only zeros")
    return weights


def hold_out(graph: Graph, fraction: float, seed: int) -> Graph:
    """The graph with some of its training nodes for validation, if it has none and has enough."""
    if len(graph.validation_index):
        return graph
    if isinstance(fraction, bool) or not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction must be at least 0 and below 1, got {fraction!r}")
    if fraction == 0:
        return graph
    rng = np.random.default_rng(hash_key(seed, 1))
    train_index, validation = hold_out_validation(graph.labels, graph.train_index, fraction, rng)
    if len(validation) < MIN_VALIDATION:
        return graph
    return graph.with_split(train_index, validation, graph.test_index)
