"""The command line: reads options, calls public functions, prints what they return.

Nothing heavy is imported before a command needs it, so that `graphconv --help` is instant.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from graphconv import __version__
from graphconv.commands import options as opt
from graphconv.commands import reproduce_options as reproduce_opt
from graphconv.commands import scale_commands
from graphconv.commands.console import Screen, show_warnings_as_lines
from graphconv.commands.errors import exit_code
from graphconv.commands.option_groups import (
    DataOptions,
    NewDataOptions,
    ScreenOptions,
    SettingsOptions,
    TableColumns,
    takes_groups,
)

app = typer.Typer(
    name="graphconv",
    help="Label every node of a graph from a few labelled ones.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"graphconv {__version__}")
        raise typer.Exit


@app.command(
    cls=opt.GroupedCommand,
    epilog="graphconv train cora\n"
    "graphconv train --edges edges.csv --nodes nodes.csv --text title --report",
)
@takes_groups()
def train(
    *,
    given: DataOptions,
    tables: TableColumns,
    labels: opt.Labels = None,
    split: opt.Split = None,
    model: opt.Model = None,
    preset: opt.Preset = None,
    settings: SettingsOptions,
    calibrate: opt.Calibrate = True,
    metric: opt.Metric = None,
    class_prior: opt.ClassPriorOption = None,
    coverage: opt.Coverage = None,
    position_features: opt.PositionFeatures = False,
    auto: opt.Auto = True,
    seed: opt.Seed = 0,
    runs: opt.Runs = None,
    kernels: opt.Kernels = "auto",
    device: opt.Device = "cpu",
    timeout: opt.Timeout = 300.0,
    output: opt.OutputFolder = None,
    report: opt.Report = False,
    name: opt.ReportName = None,
    resume: opt.Resume = False,
    checkpoint_seconds: opt.CheckpointSeconds = 10.0,
    screen: ScreenOptions,
) -> None:
    """Train a model and label every node."""
    from graphconv.commands.train import run_training
    from graphconv.commands.training_job import ModelRequest

    chosen = settings.chosen()
    wanted = ModelRequest(
        model or "gcn",
        preset,
        chosen,
        seed,
        runs,
        kernels,
        calibrate,
        auto,
        coverage,
        position_features,
        device,
        metric,
        class_prior,
        names_model=model is not None,
        chooses=model is None and not chosen,
    )
    request = given.request(tables, split, labels)
    run_training(request, wanted, output, screen, resume, checkpoint_seconds, report, timeout, name)


@app.command(
    cls=opt.GroupedCommand,
    short_help="Look at tables before training on them.",
    epilog="graphconv inspect --edges edges.csv --nodes nodes.csv",
)
@takes_groups()
def inspect(*, given: DataOptions, tables: TableColumns, screen: ScreenOptions) -> None:
    """Look at tables: what each column is taken for, what is wrong, and how to train on them."""
    from graphconv.commands.inspect import run_inspection

    run_inspection(given.request(tables), screen)


@app.command(cls=opt.GroupedCommand, short_help="Label nodes with a trained model.")
@takes_groups()
def predict(
    *,
    folder: opt.ModelFolder,
    given: NewDataOptions,
    output: opt.OutputFile = Path("predictions.csv"),
    spreadsheet_safe: opt.SpreadsheetSafe = False,
    device: opt.PredictDevice = "cpu",
    screen: ScreenOptions,
) -> None:
    """Label nodes with a trained model: its own, or those of new data.

    New tables are read with the column names and encodings of the training. Their rows are added to
    its graph by their ids; with --alone they must hold the whole graph.
    """
    from graphconv.commands.labelling import run_prediction

    run_prediction(
        folder, given.request(), output, screen, spreadsheet_safe=spreadsheet_safe, device=device
    )


@app.command(cls=opt.GroupedCommand)
@takes_groups()
def embed(
    *,
    folder: opt.ModelFolder,
    given: NewDataOptions,
    output: opt.OutputFile = Path("embedding.csv"),
    spreadsheet_safe: opt.SpreadsheetSafe = False,
    screen: ScreenOptions,
) -> None:
    """Write the hidden activations of every node, one row each."""
    from graphconv.commands.labelling import run_embedding

    run_embedding(folder, given.request(), output, screen, spreadsheet_safe=spreadsheet_safe)


@app.command(cls=opt.GroupedCommand, short_help="Say why a node has its label.")
@takes_groups()
def explain(
    *,
    folder: opt.ModelFolder,
    node: opt.NodeId,
    given: NewDataOptions,
    class_name: opt.ClassName = None,
    n: opt.Listed = 10,
    output: opt.Picture = None,
    screen: ScreenOptions,
) -> None:
    """Say why a node has its label: which edges, neighbours and features carried it.

    Each is taken away by itself and the prediction is computed again, so the numbers are exact:
    above 0 speaks for the label, below 0 against it. Data as for 'graphconv predict'.
    """
    from graphconv.commands.labelling import run_explanation

    run_explanation(folder, node, given.request(), screen, label=class_name, n=n, output=output)


@app.command(cls=opt.GroupedCommand, short_help="List the nodes to label next.")
@takes_groups()
def suggest(
    *,
    folder: opt.ModelFolder,
    given: NewDataOptions,
    n: opt.HowMany = 20,
    output: opt.TableFile = None,
    spreadsheet_safe: opt.SpreadsheetSafe = False,
    screen: ScreenOptions,
) -> None:
    """List the unlabelled nodes whose labels would teach the model most.

    Nodes that stand for many the model is unsure of come first, and no two for the same ones.
    Label them in the table of nodes and train again. Data as for 'graphconv predict'.
    """
    from graphconv.commands.labelling import run_suggestion

    request = given.request()
    run_suggestion(folder, request, n, screen, output, spreadsheet_safe=spreadsheet_safe)


@app.command(cls=opt.GroupedCommand, short_help="List given labels that look wrong.")
@takes_groups()
def doubt(
    *,
    folder: opt.ModelFolder,
    n: opt.HowManyDoubtful = 20,
    output: opt.TableFile = None,
    spreadsheet_safe: opt.SpreadsheetSafe = False,
    screen: ScreenOptions,
) -> None:
    """List the given labels that look wrong, the most suspicious first.

    Every label is judged by a model that has not seen it: five are trained, each without a fifth
    of the labels, unless the training kept them already.
    """
    from graphconv.commands.held_out import run_doubt

    run_doubt(folder, n, screen, output, spreadsheet_safe=spreadsheet_safe)


@app.command(
    cls=opt.GroupedCommand,
    short_help="Find out which method to use on your data.",
    epilog="graphconv compare --edges edges.csv --nodes nodes.csv --text title\n"
    "graphconv compare cora --split random --methods gcn,sgc",
)
@takes_groups()
def compare(
    *,
    given: DataOptions,
    tables: TableColumns,
    split: opt.CompareSplit = None,
    methods: opt.Methods = None,
    splits: opt.Splits = 10,
    seed: opt.Seed = 0,
    output: opt.CompareFolder = None,
    screen: ScreenOptions,
) -> None:
    """Find out which method to use on your data, by repeated random splits.

    GCNs with each propagation rule and the baselines run on the same splits. After an
    interruption the same command goes on from there.
    """
    from graphconv.commands.compare import run_comparison

    run_comparison(given.request(tables, split), methods, splits, seed, output, screen)


@app.command(
    cls=opt.GroupedCommand,
    short_help="Label a graph together with the model, on a page.",
    epilog="graphconv label --edges edges.csv --nodes nodes.csv --text title\n"
    "graphconv label cora --no-labels -o labels.csv",
)
@takes_groups()
def label(
    *,
    given: DataOptions,
    tables: TableColumns,
    no_labels: opt.NoLabels = False,
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 0,
    password_file: opt.PasswordFile = None,
    open_browser: opt.OpenBrowser = True,
    seed: opt.Seed = 0,
    output: opt.LabelsFile = Path("labels.csv"),
    results: opt.LabelResults = None,
    screen: ScreenOptions,
) -> None:
    """Label a graph on a page, together with a model that learns from every answer.

    The page asks about the nodes that teach most, shows what all others become, and says when it
    is good enough. DATASET may be a model's folder, too. Every answer is saved at once; Ctrl-C
    ends it and writes the model, and the same command goes on where it stopped.
    """
    from graphconv.commands.label import LabelRequest, run_labelling

    wanted = LabelRequest(
        given.request(tables),
        output,
        results,
        no_labels,
        host,
        port,
        password_file,
        open_browser,
        seed,
    )
    run_labelling(wanted, screen)


@app.command(cls=opt.GroupedCommand, short_help="Write a page about a trained model.")
@takes_groups()
def report(
    *,
    folder: opt.ModelFolder,
    output: opt.ReportFile = None,
    name: opt.ReportName = None,
    screen: ScreenOptions,
) -> None:
    """Write a page about a trained model: how good it is, and where it is unsure.

    One HTML file that holds everything, opens without a network and can be mailed.
    """
    from graphconv.commands.report import run_report

    run_report(folder, output, screen, name)


@app.command(cls=opt.GroupedCommand)
def datasets(data_dir: opt.DataDir = None, as_json: opt.AsJson = False) -> None:
    """List the data sets that can be named, and which are at hand."""
    from dataclasses import asdict

    from graphconv.io.datasets import list_datasets

    infos = list_datasets(data_dir)
    screen = Screen(as_json=as_json)
    screen.result({"datasets": [asdict(info) for info in infos]})
    here = {"embedded": "in the package", True: "yes", False: "no"}
    rows = [
        [
            info.name,
            *(_count(n) for n in (info.n_nodes, info.n_edges, info.n_features, info.n_classes)),
            here[info.cached],
            info.source,
        ]
        for info in infos
    ]
    columns = ["name", "nodes", "edges", "features", "classes", "at hand", "source"]
    screen.table("Data sets", columns, rows)


@app.command(cls=opt.GroupedCommand)
@takes_groups()
def demo(
    *,
    output: opt.OutputFolder = None,
    seed: opt.Seed = 0,
    screen: ScreenOptions,
) -> None:
    """Train the paper's GCN on Cora and show how it compares."""
    from graphconv.commands.data_source import DataRequest
    from graphconv.commands.train import run_training
    from graphconv.commands.training_job import ModelRequest

    wanted = ModelRequest("gcn", "paper", {}, seed, 1, "auto")
    run_training(DataRequest("cora"), wanted, output, screen)
    screen.note("next: graphconv train --edges edges.csv --nodes nodes.csv   (your own data)")


@app.command(
    cls=opt.GroupedCommand,
    short_help="Rerun the paper, or a part of it.",
    epilog="graphconv reproduce all\ngraphconv reproduce table3 --dataset cora --runs 10",
)
@takes_groups()
def reproduce(
    *,
    experiment: reproduce_opt.Experiment,
    dataset: reproduce_opt.Datasets = None,
    method: reproduce_opt.Methods = None,
    runs: reproduce_opt.Runs = None,
    times: reproduce_opt.Times = True,
    output: reproduce_opt.Output = Path("runs/paper"),
    workers: reproduce_opt.Workers = None,
    against: reproduce_opt.Against = None,
    max_epochs: reproduce_opt.MaxEpochs = None,
    data_dir: opt.DataDir = None,
    screen: ScreenOptions,
) -> None:
    """Rerun the paper, or a part of it; after an interruption, go on from there."""
    from graphconv.commands.reproduce import reproduce as run
    from graphconv.paper.section import Request

    request = Request(
        output=output,
        datasets=tuple(dataset or ()),
        methods=tuple(method or ()),
        runs=runs,
        times=times,
        data_dir=data_dir,
        n_workers=workers,
        max_epochs=max_epochs,
    )
    run(experiment, request, screen, against)


scale_commands.add_to(app)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def main() -> None:
    """Run a command; whatever goes wrong becomes one line and an exit code."""
    # The libraries make very many objects that stay to the end. By its own thresholds the collector
    # goes over them time and again: 0.2 of the 1.2 seconds that training on a small table takes.
    gc.set_threshold(1_000_000, 10, 1000)
    # Python has no object for a stream that was closed, as by `2>&-`.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - likewise
    show_warnings_as_lines()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter of somebody's label must not cost a training.
            stream.reconfigure(errors="backslashreplace")
    code = _run()
    # What is left goes with the process. Without this, Python looks for garbage among the objects
    # of every library before it ends, which takes a seventh of a second. DuckDB 2 counts that as
    # leaks, and tells of them in 47 lines.
    if "duckdb" not in sys.modules:
        gc.freeze()
    sys.exit(code)


def _run() -> int:
    return exit_code(app)


if __name__ == "__main__":
    main()
