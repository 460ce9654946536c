"""Training job: what was asked for, on which data, and where the result goes.

A `ModelRequest` and a `DataRequest` enter, a `Job` leaves, whose data is loaded and whose output
can be written. Nothing is trained here; whoever trains, in one process or several, starts from it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv import __version__
from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, data_files, load_data
from graphconv.commands.summary import describe, measure, show_results
from graphconv.estimators.baselines import BASELINES
from graphconv.graph import Graph, IntArray
from graphconv.graph.names import DEVICES
from graphconv.graph.position import with_position_features
from graphconv.io.files import check_replaceable, check_writable
from graphconv.io.named_splits import split_by_name
from graphconv.io.readers import LoadedGraph
from graphconv.io.table_files import existing_file
from graphconv.io.wording import as_file_name, did_you_mean
from graphconv.models.catalogue import MODELS
from graphconv.models.settings import (
    ON_NELL,
    PAPER_ACCURACY,
    SEARCHES,
    Settings,
    resolve_settings,
)
from graphconv.results.predictions import Predictions
from graphconv.storage.memory import available_memory, in_units
from graphconv.training.class_prior import ClassPrior, check_prior, read_prior
from graphconv.training.measures import check_measure

# What the training loop can do; all other models are baselines.
_NETWORKS = (*MODELS, "mlp")
NETWORKS_NAMED = f"{', '.join(_NETWORKS[:-1])} and {_NETWORKS[-1]}"


def check_device_name(name: str) -> None:
    """Refuse what no machine could have, before anything is read."""
    if name not in DEVICES:
        raise ValueError(f"--device must be one of {', '.join(DEVICES)}, got {name!r}")


@dataclass(frozen=True)
class ModelRequest:
    """Which model to train, and how."""

    model: str = "gcn"
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    runs: int | None = None
    kernels: str = "auto"
    calibrate: bool = True
    auto: bool = True
    coverage: float | None = None
    position_features: bool = False
    device: str = "cpu"
    metric: str | None = None
    class_prior: str | None = None  # labels, estimate or the name of a file
    names_model: bool = True  # whether the user did, not the command
    chooses: bool = False  # whether a method is chosen where the preset is not named

    def check(self) -> None:
        """Refuse what no data could make right."""
        models = (*_NETWORKS, *(name for name in BASELINES if name not in _NETWORKS))
        if self.model not in models:
            hint = did_you_mean(self.model, models)
            raise ValueError(
                f"--model must be one of {', '.join(models)}, got {self.model!r}{hint}"
            )
        check_measure(self.metric)
        if self.class_prior not in (None, "labels") and self.coverage is not None:
            raise ValueError("--coverage goes by the labels' own balance: leave --class-prior out")
        if self.n_runs < 1:
            raise ValueError(f"--runs must be at least 1, got {self.runs}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"--seed must be from 0 to 2^32 - 1, got {self.seed}")
        if self.kernels not in ("auto", "native", "reference"):
            raise ValueError(f"--kernels must be auto, native or reference, got {self.kernels!r}")
        check_device_name(self.device)
        if self.is_baseline:
            if self.device != "cpu":
                raise ValueError(f"--device is for {NETWORKS_NAMED}, got --model {self.model}")
            if self.preset is not None:
                raise ValueError(f"--preset is for {NETWORKS_NAMED}, got --model {self.model}")
            return
        named = self.preset or "robust"
        resolve_settings("robust" if named in SEARCHES else named, self.settings)

    def with_batches_of(self, settled: Settings, before: Settings) -> ModelRequest:
        """The same with the batches of settings that were changed; the same if they were not."""
        if settled == before:
            return self
        chosen = {"batch_size": settled.batch_size, "fanout": settled.fanout}
        return replace(self, settings={**self.settings, **chosen})

    @property
    def is_baseline(self) -> bool:
        return self.model not in _NETWORKS

    @property
    def n_runs(self) -> int:
        return 1 if self.runs is None else self.runs

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.n_runs)


@dataclass(frozen=True, eq=False)
class ChosenMethod:
    """What is told of a method that was chosen.

    Parameters
    ----------
    name : str
        In words.
    reason : str
    position_features : bool
    nodes : array of shape (n_judged,)
    nested : array of shape (n_judged, n_classes)
        See `graphconv.estimators.choice.Choice`; empty where there is nothing to tell.
    """

    name: str
    reason: str
    position_features: bool
    nodes: IntArray
    nested: npt.NDArray[np.floating[Any]]

    @property
    def identity(self) -> dict[str, Any]:
        names = ("name", "reason", "position_features")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Job:
    """A training whose data is loaded and whose output folder is known to be writable."""

    loaded: LoadedGraph
    graph: Graph
    data: DataRequest
    wanted: ModelRequest
    folder: Path
    screen: Screen
    with_report: bool = False
    sources: tuple[dict[str, Any], ...] = ()  # the files of the data, see `data_files`
    chosen: ChosenMethod | None = None
    class_prior: ClassPrior = None
    report_name: str | None = None

    def asked_for(self) -> dict[str, Any]:
        """What was asked for, as a model's provenance says it."""
        return {
            "data": self.data.name or self.graph.name,
            "split": self.data.split,
            "table_options": self.data.table_options,
            "model": self.wanted.model,
            "preset": self.wanted.preset,
            "settings": self.wanted.settings,
            "seeds": list(self.wanted.seeds),
        }

    @property
    def training_path(self) -> Path:
        """Where the state of an unfinished training lies."""
        return self.folder.with_name(f"{self.folder.name}.training")

    @property
    def paper_accuracy(self) -> float | None:
        is_comparable = self.wanted.model == "gcn" and self.data.split in (None, "public")
        return PAPER_ACCURACY.get(self.graph.name) if is_comparable else None

    def introduce(self) -> None:
        """Say what is about to be done with what; not before all of it is known to be possible."""
        if self.chosen is not None:
            return  # it was said before methods were tried
        for note in self.loaded.notes:
            self.screen.remark(note)
        for line in describe(self.graph):
            self.screen.note(line)
        for line in self.loaded.columns:
            self.screen.remark(line)

    def results(self, graph: Graph, each: Any, started: float) -> dict[str, Any]:
        return {
            "dataset": graph.name,
            "model": self.wanted.model,
            "method": self.wanted.model if self.chosen is None else self.chosen.name,
            "seeds": list(self.wanted.seeds),
            "seconds": time.perf_counter() - started,
            **measure(graph, each, self.paper_accuracy),
            "notes": [note for note in self.loaded.notes if note],
            "columns": list(self.loaded.columns),
            "output": str(self.folder),
        }

    def predictions(self, graph: Graph, probabilities: Any, sets: Any = None) -> Predictions:
        separator = self.data.table_options.get("label_separator") or ";"
        return Predictions(
            graph,
            probabilities,
            graph.class_names,
            graph.is_multilabel,
            separator=separator,
            sets=sets,
        )

    def tell(self, results: dict[str, Any], what: str) -> None:
        show_results(results, self.screen)
        self.screen.note(f"{what} written to {self.folder}")
        self.screen.result(results)


def load_job(
    data: DataRequest,
    wanted: ModelRequest,
    output: Path | None,
    screen: Screen,
    with_report: bool = False,
    loaded: LoadedGraph | None = None,
) -> Job:
    """Load the data, if it is not, split it, and find out whether the result can be written."""
    if loaded is None:
        loaded = load_data(data, screen)
    if wanted.position_features:
        if loaded.graph.folder is not None:
            raise ValueError("--position-features needs a graph in memory, got a folder")
        loaded = replace(loaded, graph=with_position_features(loaded.graph))
    graph, note = split_by_name(loaded.graph, data.split, wanted.seed, loaded.split_values)
    folder = Path("runs") / as_file_name(graph.name, "graph") if output is None else output
    check_replaceable(folder)
    check_writable(folder)
    # The table is for a report to show; nobody else needs its memory.
    table = loaded.node_table if with_report else None
    loaded = replace(loaded, notes=(*loaded.notes, note), node_table=table)
    sources = tuple(data_files(data))
    job = Job(loaded, graph, data, wanted, folder, screen, with_report, sources)
    return replace(job, class_prior=_class_prior(wanted.class_prior, graph))


def _class_prior(given: str | None, graph: Graph) -> ClassPrior:
    """What --class-prior says, once it is known to suit the graph."""
    if given in (None, "labels"):
        return None
    if graph.folder is not None:
        raise ValueError("--class-prior needs a graph in memory, got a folder")
    prior = given if given == "estimate" else read_prior(existing_file(given))
    check_prior(prior, graph)
    return prior


def resolve(wanted: ModelRequest, graph_name: str) -> tuple[str, dict[str, Any]]:
    """The preset and the settings that differ from it."""
    overrides = dict(wanted.settings)
    if wanted.model == "mlp":
        overrides.setdefault("propagation", "none")
    elif wanted.model in MODELS:
        overrides["model"] = wanted.model
    preset = wanted.preset
    if preset is None:
        preset = "quick" if wanted.chooses else "robust"
        preset = "paper" if graph_name in PAPER_ACCURACY else preset
        # Better than the paper's own recipe for NELL, which is there by its name.
        preset = "paper-nell" if graph_name == "nell" else preset
    elif preset == "paper" and graph_name == "nell":
        overrides = {**ON_NELL, **overrides}
    return preset, overrides


def settle_batches_of(job: Job) -> tuple[Job, str]:
    """The job with mini-batches, if the full batch would not fit, and what to tell about memory.

    Decided before the training's identity is known: it must not be resumed with other batches.
    """
    from graphconv.engine.memory_estimate import estimate_memory, settle_batches

    preset, overrides = resolve(job.wanted, job.graph.name)
    settings = resolve_settings(preset, overrides)
    settled, note = settle_batches(job.graph, settings, job.wanted.n_runs, auto=job.wanted.auto)
    if settled != settings:
        estimate = estimate_memory(job.graph, settled, job.wanted.n_runs)
        # Predicting, which goes by blocks where memory is short, needs less.
        needed, free = max(estimate.scaling, estimate.training), available_memory()
        if needed > free:
            raise ValueError(
                f"training must fit the memory, but even in mini-batches it needs about "
                f"{in_units(needed)} more, and there are {in_units(free)}"
            )
    return replace(job, wanted=job.wanted.with_batches_of(settled, settings)), note


def identity_of(job: Job) -> dict[str, Any]:
    """What must be the same for an unfinished training to be continued."""
    preset, overrides = resolve(job.wanted, job.graph.name)
    return {
        "version": __version__,
        "model": job.wanted.model,
        "preset": preset,
        "settings": overrides,
        "seed": job.wanted.seed,
        "runs": job.wanted.n_runs,
        "kernels": job.wanted.kernels,
        "calibrate": job.wanted.calibrate,
        **({} if job.chosen is None else {"chosen": job.chosen.identity}),
        # Last: the first difference is the one that is told, and another seed splits otherwise.
        "data": job.graph.fingerprint(),
    }
