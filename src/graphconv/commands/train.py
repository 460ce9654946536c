"""What `graphconv train` does, from files to files: load, train, save, tell.

Everything that can be wrong with the request or the data is found before torch is imported.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphconv.commands.console import Screen, TrainingStoppedError
from graphconv.commands.data_source import DataRequest, check_options_are_used
from graphconv.commands.held_out import OUT_OF_FOLD_FILE, HeldOut, check_sets, judge
from graphconv.commands.summary import measure_calibration
from graphconv.commands.training_job import (
    NETWORKS_NAMED,
    Job,
    ModelRequest,
    identity_of,
    load_job,
    resolve,
    settle_batches_of,
)
from graphconv.estimators.baselines import make_estimator
from graphconv.graph import Graph
from graphconv.io.files import REPORT_FILE
from graphconv.io.progress import counter
from graphconv.kernels import native_missing
from graphconv.models.settings import PAPER_ACCURACY, SEARCHES
from graphconv.results.predictions import Predictions
from graphconv.results.provenance import write_provenance
from graphconv.training.class_prior import with_class_prior
from graphconv.training.out_of_fold import OutOfFold
from graphconv.training.scores import mean_over_runs

if TYPE_CHECKING:
    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.checkpoint import SavedModel, TrainingFile
    from graphconv.training.fitted import FittedGCN


def run_training(
    data: DataRequest,
    wanted: ModelRequest,
    output: Path | None,
    screen: Screen,
    resume: bool = False,
    checkpoint_seconds: float = 10.0,
    with_report: bool = False,
    timeout: float = 300.0,
    report_name: str | None = None,
) -> None:
    """Load data, train, write the model folder with predictions.csv, print the table.

    Started by torchrun, this is one of several processes that do so together; each may keep the
    others waiting for `timeout` seconds.
    """
    wanted.check()
    check_options_are_used(data)
    if not checkpoint_seconds >= 0:
        raise ValueError(f"--checkpoint-seconds must be at least 0, got {checkpoint_seconds}")
    if report_name is not None and not with_report:
        raise ValueError("--name is the title of the report: it needs --report")
    if resume and wanted.is_baseline:
        raise ValueError(f"--resume is for {NETWORKS_NAMED}, got --model {wanted.model}")
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        from graphconv.commands.torchrun import ParallelRequest, train_in_parallel

        if wanted.coverage is not None:
            raise ValueError("--coverage is for one process, got several")
        if with_report:
            raise ValueError("--report is for one process: graphconv report writes it afterwards")
        wanted = replace(wanted, chooses=False)
        train_in_parallel(
            ParallelRequest(data, wanted, output, resume, checkpoint_seconds, timeout), screen
        )
        return
    job = replace(load_job(data, wanted, output, screen, with_report), report_name=report_name)
    graph = job.graph
    check_sets(graph, wanted.coverage)
    if graph.folder is not None and with_report:
        raise ValueError("--report needs a graph in memory, got a folder")
    preset, _ = resolve(wanted, graph.name)
    if preset in SEARCHES and graph.folder is None:
        from graphconv.commands.choosing import choose_method

        job = choose_method(job, resume)
    elif preset in SEARCHES:
        if wanted.preset is not None:
            raise ValueError(f"--preset {preset} needs a graph in memory, got a folder")
        job = replace(job, wanted=replace(wanted, chooses=False))
    if job.wanted.is_baseline:
        if graph.folder is not None:
            raise ValueError(f"--model {wanted.model} needs a graph in memory, got a folder")
        _train_baseline(job)
    else:
        train_gcn(job, resume, checkpoint_seconds)


def _train_baseline(job: Job) -> None:
    """Fit a baseline for every seed."""
    from graphconv.estimators.baselines.settings import chosen_settings
    from graphconv.estimators.fitted_method import SavedMethod, fit_method, save_method
    from graphconv.training.fit import Watch

    wanted, graph = job.wanted, job.graph
    known = chosen_settings(wanted.model, graph.name) if graph.name in PAPER_ACCURACY else {}
    params = {**known, **wanted.settings}
    make_estimator(wanted.model, **params)  # refuses parameters that it does not have
    job.introduce()
    started = time.perf_counter()
    with job.screen.training(f"training on {graph.name}") as on_epoch:
        watch = Watch(on_epoch=on_epoch)
        fitted = fit_method(graph, wanted.model, params, tuple(wanted.seeds), watch=watch)
    if job.chosen is not None:
        fitted = replace(fitted, choice=job.chosen.reason)
    fitted = with_class_prior(fitted, job.class_prior)
    graph = fitted.graph
    seconds = time.perf_counter() - started
    calibrated = fitted.ensemble_probabilities()
    fit_predict = fitted.fit_predict()
    held_out = judge(job, graph, calibrated, fit_predict, seconds)
    test = graph.test_index
    results = {
        **job.results(graph, fitted.calibration.reweighed(fitted.each), started),
        "settings": params,
        "choice": fitted.choice,
        "calibration": fitted.calibration.to_json(),
        **measure_calibration(graph, fitted.each[test].mean(axis=1), calibrated[test]),
        **held_out.scores,
    }
    saved = SavedMethod(fitted, job.loaded.encoding, job.data.table_options, results)
    predictions = job.predictions(graph, calibrated, held_out.sets)
    table = _predictions_name(graph)
    save_method(saved, job.folder, lambda new: _write_more(job, new, predictions, table, held_out))
    job.tell(results, _write_report(job, saved, table, held_out.out_of_fold))
    _tell_next(job, labels_new_nodes=fitted.labels_other_graphs)


def _write_more(
    job: Job, folder: Path, predictions: Predictions, table: str, held_out: HeldOut
) -> None:
    predictions.write(folder / table)
    held_out.write(folder)
    # Last: it holds the checksums of all else.
    write_provenance(folder, predictions.graph, job.asked_for(), job.sources)


def _tell_next(job: Job, labels_new_nodes: bool) -> None:
    if job.data.edges is None or job.graph.features is None:
        return
    if labels_new_nodes:
        options = "--edges FILE --nodes FILE"
        job.screen.note(f"next: graphconv predict {job.folder} {options}   (to label new nodes)")
    else:
        job.screen.note(f"{job.wanted.model} labels no new nodes: train it again with them")


def train_gcn(job: Job, resume: bool, checkpoint_seconds: float) -> None:
    """Train, save and tell; the report as well, if the job wants one."""
    from graphconv.training.checkpoint import TrainingFile

    job, about_memory = settle_batches_of(job)
    identity = identity_of(job)
    file = TrainingFile(job.training_path, identity, checkpoint_seconds)
    if resume and not file.path.exists() and tell_if_finished(job, file):
        return
    state = file.read() if resume else None
    job.introduce()
    job.screen.remark(about_memory)
    job.screen.remark(about_kernels(job.wanted))
    job.screen.remark(about_earlier(file, resume, state))

    started = time.perf_counter()
    with _keeping_no_diverged(file):
        fitted = _fit(job, file, state)
        n_rows = fitted.graph.n_nodes * fitted.n_passes
        with job.screen.showing() as progress:
            advance = counter(progress, "predicting", n_rows)
            each = fitted.probabilities(scratch=job.folder.resolve().parent, advance=advance)
    finish(job, file, fitted, each, started)


def finish(
    job: Job,
    file: TrainingFile,
    fitted: FittedGCN,
    each: Any,
    started: float,
    more_results: dict[str, Any] | None = None,
) -> None:
    """Write the model folder with all nodes' labels, and tell how good they are."""
    from graphconv.training.checkpoint import SavedModel, save_model
    from graphconv.training.out_of_fold import same_training

    if job.chosen is not None:
        fitted = replace(fitted, choice=job.chosen.reason)
    elif fitted.choice:
        job.screen.note(f"chosen: {fitted.choice}")
        job = replace(job, wanted=replace(job.wanted, model=fitted.settings.model))
    fitted = with_class_prior(fitted, job.class_prior)
    seconds = time.perf_counter() - started
    averaged = mean_over_runs(each)
    before = averaged[fitted.graph.test_index]
    calibrated = fitted.calibrate(averaged)
    held_out = judge(job, fitted.graph, calibrated, same_training(fitted), seconds)
    # The fitted graph has the validation nodes that were set aside, if the data had none.
    results = {
        **job.results(fitted.graph, fitted.calibration.reweighed(each), started),
        "epochs": fitted.n_epochs,
        "settings": fitted.settings.to_json(),
        "choice": fitted.choice,
        "self_loop_weight": fitted.self_loop_weight,
        "calibration": fitted.calibration.to_json(),
        "undescribed_calibration": (
            None
            if fitted.undescribed_calibration is None
            else fitted.undescribed_calibration.to_json()
        ),
        **measure_calibration(fitted.graph, before, calibrated[fitted.graph.test_index]),
        **held_out.scores,
        **(more_results or {}),
    }
    saved = SavedModel(fitted, job.loaded.encoding, job.data.table_options, results, file.identity)
    predictions = job.predictions(fitted.graph, calibrated, held_out.sets)
    # Saved before anything is printed: a closed pipe must not cost the training.
    table = _predictions_name(fitted.graph)
    save_model(saved, job.folder, lambda new: _write_more(job, new, predictions, table, held_out))
    file.remove()
    job.tell(results, _write_report(job, saved, table, held_out.out_of_fold))
    _tell_next(job, labels_new_nodes=True)


def _fit(job: Job, file: TrainingFile, state: dict[str, Any] | None) -> FittedGCN:
    from graphconv.training.fit import Watch, fit_gcn

    preset, overrides = resolve(job.wanted, job.graph.name)
    title = f"training on {job.graph.name}"
    with job.screen.training(title) as on_epoch, _stopping_politely(file):
        return fit_gcn(
            job.graph,
            preset=preset,
            overrides=overrides,
            seeds=job.wanted.seeds,
            calibrate=job.wanted.calibrate,
            kernels=cast(Any, job.wanted.kernels),
            watch=Watch(on_epoch, state, file),
            auto=job.wanted.auto,
            device=job.wanted.device,
        )


@contextmanager
def _keeping_no_diverged(file: TrainingFile) -> Iterator[None]:
    """What was saved of a training that diverged would diverge again."""
    from graphconv.training.loop import DivergedError

    try:
        yield
    except DivergedError:
        file.remove()
        raise


def _predictions_name(graph: Graph) -> str:
    # A row for each of millions of nodes is not for people to read.
    return "predictions.csv" if graph.folder is None else "predictions.parquet"


def _write_report(
    job: Job, saved: SavedModel | SavedMethod, table: str, out_of_fold: OutOfFold | None
) -> str:
    """Write the report, if it is wanted; what there is in the folder then, in words."""
    if not job.with_report:
        return f"model and {table}"
    from graphconv.commands.report import write_report_file

    files = [Path(one["name"]).name for one in job.sources]
    path = job.folder / REPORT_FILE
    write_report_file(
        saved, path, job.screen, out_of_fold, job.report_name, files, job.loaded.node_table
    )
    return f"model, {table} and {REPORT_FILE}"


def tell_if_finished(job: Job, file: TrainingFile) -> bool:
    """Whether the very training that is to be resumed has left its model already."""
    from graphconv.training.checkpoint import load_model, read_description

    if not (job.folder / "model.json").is_file():
        return False
    description = read_description(job.folder)
    if description.get("identity") != file.identity:
        return False
    job.screen.remark("this training had finished; there is nothing left to do")
    table = _predictions_name(job.graph)
    if job.with_report:
        path = job.folder / OUT_OF_FOLD_FILE
        kept = OutOfFold.read(path, job.graph) if path.exists() else None
        _write_report(job, load_model(job.folder), table, kept)
    job.tell(description["metrics"], f"model and {table} were")
    return True


def about_kernels(wanted: ModelRequest) -> str:
    missing = native_missing() if wanted.kernels == "auto" else None
    return "" if missing is None else f"{missing}; the slower reference kernels serve"


def about_earlier(file: TrainingFile, resume: bool, state: dict[str, Any] | None) -> str:
    if state is not None:
        epochs = state.get("epochs")  # the rest is looked at once there is a model to compare with
        n_run = 0 if epochs is None or not epochs.ndim else len(epochs)
        return f"continuing after epoch {n_run} ({file.path})"
    if resume:
        return f"no unfinished training in {file.path}: starting anew"
    if file.path.exists():
        return f"starting anew; --resume would have continued {file.path}"
    return ""


@contextmanager
def _stopping_politely(file: TrainingFile) -> Iterator[None]:
    """Ctrl-C lets the epoch end and saves the training; a second Ctrl-C stops at once."""

    def ask_to_stop(number: int, frame: object) -> None:
        if file.stop_requested or not file.has_begun:
            raise KeyboardInterrupt
        file.stop_requested = True

    try:
        before = signal.signal(signal.SIGINT, ask_to_stop)
    except ValueError:  # not the main thread: signals go elsewhere
        yield
        return
    try:
        yield
    except KeyboardInterrupt:
        if not file.path.exists():
            raise
        hint = f"the same command with --resume continues from {file.path}"
        raise TrainingStoppedError(hint) from None
    finally:
        signal.signal(signal.SIGINT, before)
