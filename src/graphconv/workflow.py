"""What the commands do, from files to files: load, train, tell, save; load, predict, save."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from graphconv.checkpoint import (
    SavedModel,
    TrainingFile,
    check_replaceable,
    load_model,
    save_model,
)
from graphconv.console import Screen
from graphconv.datasets import load_dataset
from graphconv.fitting import FittedGCN, FloatMatrix, Watch, fit_gcn
from graphconv.graph import Graph
from graphconv.graph_files import read_graph_file
from graphconv.kernels import native_missing
from graphconv.predictions import Predictions, accuracy, write_table
from graphconv.readers import LoadedGraph, read_tables
from graphconv.settings import PAPER_ACCURACY
from graphconv.splits import fraction_split, kfold_splits, random_split

_SPLITS = ("train", "validation", "test")
GRAPH_SUFFIXES = (".graphml", ".gexf", ".npz", ".mtx")


@dataclass(frozen=True)
class DataRequest:
    """Where the data comes from: a data set's name, a graph file, or tables."""

    name: str | None = None
    edges: Path | None = None
    nodes: Path | None = None
    table_options: dict[str, Any] = field(default_factory=dict)
    split: str | None = None
    data_dir: Path | None = None


@dataclass(frozen=True)
class ModelRequest:
    """Which model to train, and how."""

    model: str = "gcn"
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    runs: int = 1
    kernels: str = "auto"


def load_data(request: DataRequest, screen: Screen, **more: Any) -> LoadedGraph:
    """The graph that was asked for, whatever kind of source it has."""
    options = {**request.table_options, **more}
    if request.edges is not None:
        if request.name is not None:
            raise ValueError(f"give a data set or --edges, not both: got {request.name!r} as well")
        return read_tables(request.edges, request.nodes, **options)
    if request.nodes is not None:
        raise ValueError("--nodes needs --edges beside it")
    if request.name is None:
        raise ValueError("name a data set or a graph file, or give --edges (and --nodes)")
    path = Path(request.name)
    if path.suffix and (path.is_file() or path.suffix.lower() in GRAPH_SUFFIXES):
        return read_graph_file(path, **options)
    progress = None if screen.quiet else screen.downloading()
    graph = load_dataset(request.name, data_dir=request.data_dir, progress=progress)
    return LoadedGraph(graph)


def apply_split(graph: Graph, split: str | None, seed: int) -> Graph:
    """The graph with the split that was asked for; its own, or fractions, by default."""
    kind, _, numbers = (split or "").partition(":")
    if kind == "":
        has_own = len(graph.validation_index) or len(graph.test_index)
        return graph if has_own else fraction_split(graph, random_state=seed)
    if kind == "public" and not numbers:
        return graph
    if kind == "random" and not numbers:
        return random_split(graph, random_state=seed)
    try:
        values = [float(number) for number in numbers.split(",")] if numbers else []
    except ValueError:
        values = [math.nan]
    if kind == "fraction" and len(values) in (0, 3) and not any(map(math.isnan, values)):
        shares = dict(zip(_SPLITS, values, strict=False))
        return fraction_split(graph, random_state=seed, **shares)
    if kind == "kfold" and len(values) == 2 and all(value == int(value) for value in values):
        n_folds, number = int(values[0]), int(values[1])
        if not 0 <= number < n_folds:
            raise ValueError(f"--split kfold:K,I must have I from 0 to K-1, got {split!r}")
        folds = kfold_splits(graph, n_folds, random_state=seed, validation_fraction=0.1)
        return folds[number]
    raise ValueError(
        "--split must be public, random, fraction, fraction:TRAIN,VALIDATION,TEST or kfold:K,I, "
        f"got {split!r}"
    )


def run_training(
    data: DataRequest,
    wanted: ModelRequest,
    output: Path | None,
    screen: Screen,
    resume: bool = False,
    checkpoint_seconds: float = 10.0,
) -> None:
    """Load data, train, print the table, write the model folder and predictions.csv."""
    loaded = load_data(data, screen)
    for note in loaded.notes:
        screen.note(f"note: {note}")
    graph = apply_split(loaded.graph, data.split, wanted.seed)
    output = Path("runs") / graph.name.replace(":", "-") if output is None else output
    check_replaceable(output)
    _check_writable(output)
    screen.note(_describe(graph))
    missing = native_missing() if wanted.kernels == "auto" else None
    if missing:
        screen.note(f"note: {missing}; the slower reference kernels serve")

    started = time.perf_counter()
    preset, overrides = _resolve_model(graph, wanted)
    file = TrainingFile(_training_path(output), _identity(graph, wanted), checkpoint_seconds)
    state = file.read() if resume else None
    if resume:
        note = f"continuing after epoch {len(state['epochs'])}" if state else "starting anew"
        screen.note(f"note: {note} ({file.path})")
    with screen.training(f"training on {graph.name}") as on_epoch, _stopping_politely(file):
        fitted = fit_gcn(
            graph,
            preset=preset,
            overrides=overrides,
            seeds=range(wanted.seed, wanted.seed + wanted.runs),
            kernels=cast(Any, wanted.kernels),
            watch=Watch(on_epoch, state, file),
        )
    seconds = time.perf_counter() - started

    each = fitted.probabilities()
    results = _measure(fitted, each, seconds)
    _show_results(fitted, results, screen)
    saved = SavedModel(fitted, loaded.encoding, _storable(data.table_options), results)
    save_model(saved, output)
    _predictions(fitted, fitted.graph, each).write(output / "predictions.csv")
    file.remove()
    screen.note(f"model and predictions.csv written to {output}")
    screen.result({**results, "output": str(output)})


def run_prediction(
    folder: Path,
    name: str | None,
    edges: Path | None,
    nodes: Path | None,
    data_dir: Path | None,
    output: Path,
    screen: Screen,
) -> None:
    """Label the nodes of the training data, or of new data, and write the table."""
    saved, graph = _load_for_prediction(folder, name, edges, nodes, data_dir, screen)
    _predictions(saved.fitted, graph, saved.fitted.probabilities(graph)).write(output)
    screen.note(f"{graph.n_nodes:,} nodes labelled in {output}")
    screen.result({"n_nodes": graph.n_nodes, "output": str(output)})


def run_embedding(
    folder: Path,
    name: str | None,
    edges: Path | None,
    nodes: Path | None,
    data_dir: Path | None,
    output: Path,
    screen: Screen,
) -> None:
    """Write the hidden activations of the nodes, a row each."""
    import pandas as pd

    saved, graph = _load_for_prediction(folder, name, edges, nodes, data_dir, screen)
    values = saved.fitted.embedding(graph)
    columns = {f"h{number}": values[:, number] for number in range(values.shape[1])}
    write_table(pd.DataFrame({"id": graph.node_ids, **columns}), output)
    screen.note(f"{values.shape[1]} activations of {graph.n_nodes:,} nodes written to {output}")
    screen.result(
        {"n_nodes": graph.n_nodes, "n_columns": int(values.shape[1]), "output": str(output)}
    )


def _load_for_prediction(
    folder: Path,
    name: str | None,
    edges: Path | None,
    nodes: Path | None,
    data_dir: Path | None,
    screen: Screen,
) -> tuple[SavedModel, Graph]:
    saved = load_model(folder)
    if name is None and edges is None and nodes is None:
        return saved, saved.fitted.graph
    request = DataRequest(name, edges, nodes, saved.table_options, data_dir=data_dir)
    more = {"encoding": saved.encoding, "require_label": False}
    loaded = load_data(request, screen, **(more if saved.encoding is not None else {}))
    for note in loaded.notes:
        screen.note(f"note: {note}")
    return saved, loaded.graph


def _resolve_model(graph: Graph, wanted: ModelRequest) -> tuple[str, dict[str, Any]]:
    """The preset and the settings that differ from it."""
    overrides = dict(wanted.settings)
    if wanted.runs < 1:
        raise ValueError(f"--runs must be at least 1, got {wanted.runs}")
    if wanted.model == "mlp":
        overrides.setdefault("propagation", "none")
    elif wanted.model != "gcn":
        raise ValueError(f"--model must be 'gcn' or 'mlp', got {wanted.model!r}")
    preset = wanted.preset
    if preset is None:
        preset = "paper" if graph.name in PAPER_ACCURACY else "robust"
    if preset == "paper" and graph.name == "nell":
        preset = "paper-nell"
    return preset, overrides


def _identity(graph: Graph, wanted: ModelRequest) -> dict[str, Any]:
    # As JSON reads it back: tuples become lists.
    settings = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in wanted.settings.items()
    }
    return {
        "data": graph.fingerprint(),
        "model": wanted.model,
        "preset": wanted.preset,
        "settings": settings,
        "seed": wanted.seed,
        "runs": wanted.runs,
    }


def _training_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.training")


def _check_writable(output: Path) -> None:
    """Find out before the work, not after it, that nothing can be written."""
    folder = output
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"--output must be a folder that can be written, got {output}")


@contextmanager
def _stopping_politely(file: TrainingFile) -> Iterator[None]:
    """Ctrl-C lets the epoch end and saves the training; a second Ctrl-C stops at once."""

    def ask_to_stop(number: int, frame: object) -> None:
        if file.stop_requested:
            raise KeyboardInterrupt
        file.stop_requested = True

    try:
        before = signal.signal(signal.SIGINT, ask_to_stop)
    except ValueError:  # not the main thread: signals go elsewhere
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _describe(graph: Graph) -> str:
    features = "no features" if graph.features is None else f"{graph.n_features:,} features"
    sizes = [len(getattr(graph, f"{name}_index")) for name in _SPLITS]
    extras = [
        *(["weighted"] if graph.is_weighted else []),
        *(["directed"] if graph.directed else []),
        *([f"{graph.n_isolated:,} isolated nodes"] if graph.n_isolated else []),
    ]
    listed = "".join(f", {extra}" for extra in extras)
    return (
        f"{graph.name}: {graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {features}, "
        f"{graph.n_classes} classes{listed}; "
        f"{sizes[0]:,} training, {sizes[1]:,} validation, {sizes[2]:,} test nodes"
    )


def _measure(fitted: FittedGCN, each: FloatMatrix, seconds: float) -> dict[str, Any]:
    graph = fitted.graph  # with the validation nodes that were set aside, if any
    results: dict[str, Any] = {
        "dataset": graph.name,
        "seeds": list(fitted.model.seeds),
        "epochs": fitted.n_epochs,
        "seconds": seconds,
        "settings": fitted.settings.to_json(),
        "choice": fitted.choice,
        "self_loop_weight": fitted.self_loop_weight,
        "paper_accuracy": PAPER_ACCURACY.get(graph.name),
    }
    for name in _SPLITS:
        index = getattr(graph, f"{name}_index")
        labels = graph.labels[index]
        runs = [accuracy(labels, each[index, run]) for run in range(each.shape[1])]
        mean = accuracy(labels, each[index].mean(axis=1))
        results[f"{name}_accuracy"] = None if len(index) == 0 else float(np.mean(runs))
        if len(runs) > 1 and len(index):
            results[f"{name}_accuracy_std"] = float(np.std(runs))
            results[f"{name}_accuracy_ensemble"] = mean
    return results


def _show_results(fitted: FittedGCN, results: dict[str, Any], screen: Screen) -> None:
    if fitted.choice:
        screen.note(f"chosen: {fitted.choice}")
    if fitted.settings.self_loop_weight == "learn":
        screen.note(f"learned self-loop weight: {fitted.self_loop_weight:.4f}")
    n_runs = len(results["seeds"])
    rows = []
    for name in _SPLITS:
        value = results[f"{name}_accuracy"]
        if value is None:
            continue
        shown = f"{100 * value:.1f} %"
        if n_runs > 1:
            shown += f" ± {100 * results[f'{name}_accuracy_std']:.1f}"
        paper = results["paper_accuracy"] if name == "test" else None
        rows.append([f"{name} accuracy", shown, "" if paper is None else f"{paper:.1f} %"])
    if n_runs > 1 and results.get("test_accuracy_ensemble") is not None:
        averaged = f"{100 * results['test_accuracy_ensemble']:.1f} %"
        rows.append(["test accuracy, runs averaged", averaged, ""])
    rows.append(["epochs", str(results["epochs"]), ""])
    rows.append(["seconds", f"{results['seconds']:.2f}", ""])
    has_paper = results["paper_accuracy"] is not None
    title = f"{results['dataset']}, " + (f"{n_runs} runs" if n_runs > 1 else "1 run")
    columns = ["", "graphconv", "paper"]
    if not has_paper:
        columns, rows = columns[:2], [row[:2] for row in rows]
    screen.table(title, columns, rows)


def _predictions(fitted: FittedGCN, graph: Graph, each: FloatMatrix) -> Predictions:
    names = fitted.graph.class_names
    return Predictions(graph, each.mean(axis=1), names, fitted.graph.is_multilabel)


def _storable(options: dict[str, Any]) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in options.items()
    }
