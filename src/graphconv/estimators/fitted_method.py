"""FittedMethod: a baseline with the same life as a GCN, from training to a folder and back.

A method's name, its parameters, its seeds and its graph decide all that it says, so these are what
is saved, beside the probabilities it came to. Where another graph is to be labelled, the method is
fitted again: a folder holds no code and nothing that could run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy

from graphconv import __version__
from graphconv.estimators.baselines import BASELINES, make_estimator
from graphconv.graph import Graph, IntArray
from graphconv.io.files import check_replaceable, json_text, replacing_folder
from graphconv.io.graph_files import read_npz, write_npz
from graphconv.io.table_encoding import TableEncoding
from graphconv.results.explain import explain
from graphconv.results.explanation import Explanation
from graphconv.results.provenance import write_provenance
from graphconv.results.removal import MOST_EDITS, explain_by_removal
from graphconv.training.calibration import Calibration, fit_calibration
from graphconv.training.checkpoint import (
    FORMAT,
    SavedModel,
    load_model,
    read_description,
    read_encoding,
    save_model,
)
from graphconv.training.fitted import FittedGCN
from graphconv.training.out_of_fold import FitPredict

if TYPE_CHECKING:
    from graphconv.estimators.baselines.transductive import FloatMatrix, TransductiveClassifier
    from graphconv.training.fit import Watch

# Where every edit means another training.
MOST_TRAININGS = 10


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A baseline, fitted once for each seed.

    Parameters
    ----------
    graph : Graph
    method : str
        A name of `BASELINES`.
    params : dict
        Parameters of the estimator, the seed apart.
    seeds : tuple of int
    each : array of shape (n_nodes, n_runs, n_classes)
        Probabilities of the graph's nodes by every run, uncalibrated.
    calibration : Calibration
    """

    graph: Graph
    method: str
    params: dict[str, Any]
    seeds: tuple[int, ...]
    each: FloatMatrix
    calibration: Calibration
    choice: str = ""
    history: dict[str, list[float]] = field(default_factory=dict)

    @cached_property
    def _estimators(self) -> list[TransductiveClassifier]:
        made = _make(self.method, self.params, self.seeds)
        return [estimator.learn(self.graph) for estimator in made]

    @property
    def labels_other_graphs(self) -> bool:
        """Whether it can label a graph that it was not trained on."""
        return _make(self.method, self.params, (0,))[0].labels_other_graphs

    def probabilities(
        self,
        graph: Graph | None = None,
        nodes: IntArray | None = None,
        *,
        scratch: Path | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> FloatMatrix:
        """Uncalibrated, of every run, of shape (n_nodes, n_runs, n_classes)."""
        if graph is None or graph is self.graph:
            each = self.each
        else:
            runs = [estimator.uncalibrated(graph) for estimator in self._estimators]
            each = np.stack(runs, axis=1)
        return each if nodes is None else each[nodes]

    def ensemble_probabilities(self, graph: Graph | None = None) -> FloatMatrix:
        """What predictions show: the mean over runs, calibrated, of shape (n_nodes, n_classes)."""
        return self.calibrate(self.probabilities(graph).mean(axis=1))

    def calibrate(
        self,
        probabilities: FloatMatrix,
        graph: Graph | None = None,
        nodes: IntArray | None = None,
    ) -> FloatMatrix:
        """Averaged probabilities made believable, of all nodes alike; labels stay."""
        return self.calibration.apply(probabilities)

    def embedding(self, graph: Graph | None = None, *, scratch: Path | None = None) -> FloatMatrix:
        """Refused: there are no hidden activations."""
        raise ValueError(f"{self.method} has no hidden activations to write: a GCN has")

    def fit_predict(self) -> FitPredict:
        """The same training, to be had again on other labels."""

        def again(graph: Graph, seed: int) -> FloatMatrix:
            fitted = fit_method(graph, self.method, self.params, self.seeds)
            return fitted.ensemble_probabilities()

        return again

    def explain(
        self, node: Hashable, graph: Graph | None = None, label: Hashable | None = None
    ) -> Explanation:
        """Why a node has its label, by taking its edges and features away one at a time."""
        graph = self.graph if graph is None else graph
        relabel: Callable[[Graph], FloatMatrix] = self.ensemble_probabilities
        most_edits = MOST_EDITS
        if not self.labels_other_graphs:
            fit_predict, most_edits = self.fit_predict(), MOST_TRAININGS
            relabel = partial(_with_seed, fit_predict, self.seeds[0])
        return explain_by_removal(relabel, graph, node, self.graph.class_names, label, most_edits)


def fit_method(
    graph: Graph,
    method: str,
    params: dict[str, Any],
    seeds: tuple[int, ...] = (0,),
    *,
    calibrate: bool = True,
    watch: Watch | None = None,
) -> FittedMethod:
    """Fit a baseline for each seed; the mean of all runs is calibrated on the validation nodes.

    Parameters
    ----------
    graph : Graph
    method : str
        A name of `BASELINES`.
    params : dict
        Parameters of the estimator.
    seeds : tuple of int
    calibrate : bool
    watch : Watch, optional
        Who looks on while networks of a committee train.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.fitted_method import fit_method
    >>> fit_method(load_dataset("karate"), "sgc", {"n_hops": 3}).probabilities().shape
    (34, 1, 4)
    """
    estimators = _make(method, params, seeds)
    for estimator in estimators:
        estimator.watch = watch
    runs = [estimator.learn(graph).uncalibrated_ for estimator in estimators]
    each = np.stack(runs, axis=1).astype(np.float32)
    index = graph.validation_index
    calibration = Calibration()
    if calibrate and len(index):
        calibration = fit_calibration(each[index].mean(axis=1), graph.labels[index])
    return FittedMethod(graph, method, params, tuple(seeds), each, calibration)


def fitted_method_of(estimator: TransductiveClassifier) -> FittedMethod:
    """What a fitted estimator came to, apart from it.

    Examples
    --------
    >>> from graphconv import load_dataset, make_estimator
    >>> from graphconv.estimators.fitted_method import fitted_method_of
    >>> clf = make_estimator("sgc", n_hops=3, random_state=4).fit(load_dataset("karate"))
    >>> fitted = fitted_method_of(clf)
    >>> fitted.method, fitted.params["n_hops"], fitted.seeds
    ('sgc', 3, (4,))
    """
    known = {where.partition(":")[2]: name for name, where in BASELINES.items()}
    own = type(estimator).__name__
    if own not in known:
        raise ValueError(f"only graphconv's own methods can be saved and explained, got {own}")
    params = estimator.get_params()
    del params["random_state"]
    each = estimator.uncalibrated_[:, None].astype(np.float32)
    calibration = estimator.calibration_
    return FittedMethod(estimator.graph_, known[own], params, (estimator.seed_,), each, calibration)


def explain_fitted(
    fitted: FittedMethod | FittedGCN,
    node: Hashable,
    graph: Graph | None = None,
    label: Hashable | None = None,
) -> Explanation:
    """Why a node has its label by a trained model of any kind; arguments as for `explain`."""
    if isinstance(fitted, FittedMethod):
        return fitted.explain(node, graph, label)
    return explain(fitted, node, graph, label)


def save_fitted(fitted: FittedMethod | FittedGCN, folder: Path, **estimator: Any) -> None:
    """Write the folder of a trained model of any kind, whole or not at all, with its provenance.

    Parameters
    ----------
    fitted : FittedMethod or FittedGCN
    folder : Path
    **estimator
        What the estimator needs beside the model to be as it was, such as `joins_neighbours`.
    """
    identity = {"estimator": estimator}
    if isinstance(fitted, FittedMethod):
        asked = {"model": fitted.method, "settings": fitted.params, "seeds": list(fitted.seeds)}
    else:
        settings = fitted.settings
        seeds = list(fitted.network.seeds)
        asked = {"model": settings.model, "settings": settings.to_json(), "seeds": seeds}

    def also(new: Path) -> None:
        write_provenance(new, fitted.graph, {**asked, **identity})

    if isinstance(fitted, FittedMethod):
        save_method(SavedMethod(fitted, identity=identity), folder, also)
    else:
        save_model(SavedModel(fitted, identity=identity), folder, also)


def _with_seed(fit_predict: FitPredict, seed: int, graph: Graph) -> FloatMatrix:
    return fit_predict(graph, seed)


def _make(
    method: str, params: dict[str, Any], seeds: tuple[int, ...]
) -> list[TransductiveClassifier]:
    return [make_estimator(method, random_state=seed, **params) for seed in seeds]


@dataclass(frozen=True)
class SavedMethod:
    """A fitted baseline with what it needs to read new tables; as `SavedModel` is for a GCN."""

    fitted: FittedMethod
    encoding: TableEncoding | None = None
    table_options: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)


def save_method(
    saved: SavedMethod, folder: Path, also: Callable[[Path], None] | None = None
) -> None:
    """Write a model folder, whole or not at all; arguments as for `save_model`."""
    check_replaceable(folder)
    fitted = saved.fitted
    description = {
        "format": FORMAT,
        "model": fitted.method,
        "settings": fitted.params,
        "seeds": list(fitted.seeds),
        "calibration": fitted.calibration.to_json(),
        "choice": fitted.choice,
        "metrics": saved.metrics,
        "table_options": saved.table_options,
        "encoding": None if saved.encoding is None else saved.encoding.to_json(),
        "data_fingerprint": fitted.graph.fingerprint(),
        "identity": saved.identity,
        "versions": {"graphconv": __version__},
    }
    with replacing_folder(folder) as new:
        arrays = {"probabilities": np.ascontiguousarray(fitted.each)}
        (new / "model.safetensors").write_bytes(safetensors.numpy.save(arrays))
        (new / "model.json").write_text(json_text(description, indent=1), encoding="utf-8")
        write_npz(fitted.graph, new / "graph.npz")
        if also is not None:
            also(new)


def load_saved(folder: Path, moved_to: Path | None = None) -> SavedModel | SavedMethod:
    """Read the folder of any trained model; arguments as for `load_model`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators import fitted_method as methods
    >>> fitted = methods.fit_method(load_dataset("karate"), "label-propagation", {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     methods.save_method(methods.SavedMethod(fitted), Path(folder) / "model")
    ...     again = methods.load_saved(Path(folder) / "model").fitted
    >>> bool((again.probabilities() == fitted.probabilities()).all())
    True
    """
    description = read_description(folder)
    if description.get("model") not in BASELINES:
        return load_model(folder, moved_to)
    try:
        content = (folder / "model.safetensors").read_bytes()
        each = safetensors.numpy.load(content)["probabilities"]
        graph = read_npz(folder / "graph.npz")
        seeds = tuple(int(seed) for seed in description["seeds"])
        shape = (graph.n_nodes, len(seeds), graph.n_classes)
        if each.shape != shape or not np.isfinite(each).all():
            raise TypeError(f"its probabilities must be finite and of shape {shape}")
        fitted = FittedMethod(
            graph,
            description["model"],
            dict(description["settings"]),
            seeds,
            each,
            Calibration(**description["calibration"]),
            description["choice"],
        )
        _make(fitted.method, fitted.params, seeds)  # refuses parameters that it does not have
        return SavedMethod(
            fitted,
            read_encoding(description, graph),
            description["table_options"],
            description["metrics"],
            description.get("identity", {}),  # missing in folders of 0.1.0
        )
    except (
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        safetensors.SafetensorError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{folder} must be a complete graphconv model, but: {reason}") from error
