"""The command line: reads options, calls public functions, prints what they return.

Nothing heavy is imported before a command needs it, so that `graphconv --help` is instant.
"""

from __future__ import annotations

import errno
import gc
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.exceptions

from graphconv import __version__, scale_commands
from graphconv import cli_options as opt
from graphconv.console import Screen, TrainingStoppedError, one_line, show_warnings_as_lines
from graphconv.experiments import options as reproduce_opt

app = typer.Typer(
    name="graphconv",
    help="Label every node of a graph from a few labelled ones.",
    no_args_is_help=True,
    add_completion=False,
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
def train(
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    source: opt.Source = "source",
    target: opt.Target = "target",
    weight: opt.Weight = None,
    relation: opt.Relation = None,
    id: opt.Id = "id",
    label: opt.Label = "label",
    label_separator: opt.LabelSeparator = None,
    categorical: opt.Categorical = None,
    text: opt.Text = None,
    ignore: opt.Ignore = None,
    split_column: opt.SplitColumn = None,
    directed: opt.Directed = False,
    duplicates: opt.Duplicates = None,
    self_loops: opt.SelfLoops = "keep",
    closed_ids: opt.ClosedIds = False,
    data_dir: opt.DataDir = None,
    split: opt.Split = None,
    model: opt.Model = "gcn",
    preset: opt.Preset = None,
    propagation: opt.Propagation = None,
    self_loop_weight: opt.SelfLoopWeight = None,
    chebyshev_order: opt.ChebyshevOrder = None,
    lambda_max: opt.LambdaMax = None,
    hidden: opt.Hidden = None,
    activation: opt.Activation = None,
    residual: opt.Residual = None,
    bias: opt.Bias = None,
    scaling: opt.Scaling = None,
    dropout: opt.Dropout = None,
    learning_rate: opt.LearningRate = None,
    weight_decay: opt.WeightDecay = None,
    weight_decay_layers: opt.WeightDecayLayers = None,
    max_epochs: opt.MaxEpochs = None,
    early_stopping: opt.EarlyStopping = None,
    patience: opt.Patience = None,
    class_weight: opt.ClassWeight = None,
    calibrate: opt.Calibrate = True,
    batch_size: opt.BatchSize = None,
    fanout: opt.Fanout = None,
    auto: opt.Auto = True,
    seed: opt.Seed = 0,
    runs: opt.Runs = 1,
    kernels: opt.Kernels = "auto",
    timeout: opt.Timeout = 300.0,
    output: opt.OutputFolder = None,
    report: opt.Report = False,
    resume: opt.Resume = False,
    checkpoint_seconds: opt.CheckpointSeconds = 10.0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Train a model and label every node."""
    from graphconv.data_source import DataRequest
    from graphconv.settings import Settings
    from graphconv.workflow import ModelRequest, run_training

    screen = Screen(quiet=quiet, as_json=as_json)
    tables = _table_options(locals())
    request = DataRequest(data, edges, nodes, tables, split, data_dir)
    given = locals()
    settings = {name: given[name] for name in Settings.__dataclass_fields__}
    settings["self_loop_weight"] = _number_or(self_loop_weight, "learn", "--self-loop-weight")
    settings["lambda_max"] = _number_or(lambda_max, "true", "--lambda-max")
    settings["hidden"] = _numbers(hidden, int, "--hidden")
    settings["dropout"] = _rates(dropout)
    settings["class_weight"] = _class_weight(class_weight)
    settings["fanout"] = fanout if fanout in (None, "all") else _fanout(fanout)
    chosen = {name: value for name, value in settings.items() if value is not None}
    wanted = ModelRequest(model, preset, chosen, seed, runs, kernels, calibrate, auto)
    run_training(request, wanted, output, screen, resume, checkpoint_seconds, report, timeout)


@app.command(cls=opt.GroupedCommand, short_help="Label nodes with a trained model.")
def predict(
    folder: opt.ModelFolder,
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    output: opt.OutputFile = Path("predictions.csv"),
    data_dir: opt.DataDir = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Label nodes with a trained model: its own, or those of new data.

    New tables are read with the column names and encodings of the training. They must hold the
    whole graph, the old nodes and edges beside the new ones, where new nodes link to old ones.
    """
    from graphconv.data_source import DataRequest
    from graphconv.labelling import run_prediction

    screen = Screen(quiet=quiet, as_json=as_json)
    request = DataRequest(data, edges, nodes, data_dir=data_dir)
    run_prediction(folder, request, output, screen)


@app.command(cls=opt.GroupedCommand)
def embed(
    folder: opt.ModelFolder,
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    output: opt.OutputFile = Path("embedding.csv"),
    data_dir: opt.DataDir = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Write the hidden activations of every node, a row each."""
    from graphconv.data_source import DataRequest
    from graphconv.labelling import run_embedding

    screen = Screen(quiet=quiet, as_json=as_json)
    request = DataRequest(data, edges, nodes, data_dir=data_dir)
    run_embedding(folder, request, output, screen)


@app.command(cls=opt.GroupedCommand, short_help="Say why a node has its label.")
def explain(
    folder: opt.ModelFolder,
    node: opt.NodeId,
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    class_name: opt.ClassName = None,
    n: opt.Listed = 10,
    output: opt.Picture = None,
    data_dir: opt.DataDir = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Say why a node has its label: which edges, neighbours and features carried it.

    Each is taken away by itself and the prediction is computed again, so the figures are exact:
    above 0 speaks for the label, below 0 against it. Data as for 'graphconv predict'.
    """
    from graphconv.data_source import DataRequest
    from graphconv.labelling import run_explanation

    screen = Screen(quiet=quiet, as_json=as_json)
    request = DataRequest(data, edges, nodes, data_dir=data_dir)
    run_explanation(folder, node, request, screen, label=class_name, n=n, output=output)


@app.command(cls=opt.GroupedCommand, short_help="List the nodes to label next.")
def suggest(
    folder: opt.ModelFolder,
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    n: opt.HowMany = 20,
    output: opt.TableFile = None,
    data_dir: opt.DataDir = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """List the unlabelled nodes whose labels would teach the model most.

    Nodes that stand for many the model is unsure of come first, and no two for the same ones.
    Label them in the table of nodes and train again. Data as for 'graphconv predict'.
    """
    from graphconv.data_source import DataRequest
    from graphconv.labelling import run_suggestion

    screen = Screen(quiet=quiet, as_json=as_json)
    request = DataRequest(data, edges, nodes, data_dir=data_dir)
    run_suggestion(folder, request, n, screen, output)


@app.command(
    cls=opt.GroupedCommand,
    short_help="Find out which method to use on your data.",
    epilog="graphconv compare --edges edges.csv --nodes nodes.csv --text title\n"
    "graphconv compare cora --split random --methods gcn,sgc",
)
def compare(
    data: opt.DataName = None,
    edges: opt.Edges = None,
    nodes: opt.Nodes = None,
    source: opt.Source = "source",
    target: opt.Target = "target",
    weight: opt.Weight = None,
    relation: opt.Relation = None,
    id: opt.Id = "id",
    label: opt.Label = "label",
    label_separator: opt.LabelSeparator = None,
    categorical: opt.Categorical = None,
    text: opt.Text = None,
    ignore: opt.Ignore = None,
    split_column: opt.SplitColumn = None,
    directed: opt.Directed = False,
    duplicates: opt.Duplicates = None,
    self_loops: opt.SelfLoops = "keep",
    closed_ids: opt.ClosedIds = False,
    data_dir: opt.DataDir = None,
    split: opt.CompareSplit = None,
    methods: opt.Methods = None,
    splits: opt.Splits = 10,
    seed: opt.Seed = 0,
    output: opt.CompareFolder = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Find out which method to use on your data, by repeated random splits.

    GCNs with each propagation rule and the baselines run on the same splits. After an
    interruption the same command goes on from there.
    """
    from graphconv.compare import run_comparison
    from graphconv.data_source import DataRequest

    screen = Screen(quiet=quiet, as_json=as_json)
    tables = _table_options(locals())
    request = DataRequest(data, edges, nodes, tables, split, data_dir)
    run_comparison(request, methods, splits, seed, output, screen)


@app.command(cls=opt.GroupedCommand, short_help="Write a page about a trained model.")
def report(
    folder: opt.ModelFolder,
    output: opt.ReportFile = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Write a page about a trained model: how good it is, and where it is unsure.

    One HTML file that holds everything, opens without a network and can be mailed.
    """
    from graphconv.report.command import run_report

    run_report(folder, output, Screen(quiet=quiet, as_json=as_json))


@app.command(cls=opt.GroupedCommand)
def datasets(data_dir: opt.DataDir = None, as_json: opt.AsJson = False) -> None:
    """List the data sets that can be named, and which are at hand."""
    from dataclasses import asdict

    from graphconv.datasets import list_datasets

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
def demo(
    output: opt.OutputFolder = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Train the paper's GCN on Cora and show how it compares."""
    from graphconv.data_source import DataRequest
    from graphconv.workflow import ModelRequest, run_training

    screen = Screen(quiet=quiet, as_json=as_json)
    wanted = ModelRequest("gcn", "paper", {}, seed, 1, "auto")
    run_training(DataRequest("cora"), wanted, output, screen)
    screen.note("next: graphconv train --edges edges.csv --nodes nodes.csv   (your own data)")


@app.command(
    cls=opt.GroupedCommand,
    short_help="Rerun the paper, or a part of it.",
    epilog="graphconv reproduce all\ngraphconv reproduce table3 --dataset cora --runs 10",
)
def reproduce(
    experiment: reproduce_opt.Experiment,
    dataset: reproduce_opt.Datasets = None,
    method: reproduce_opt.Methods = None,
    runs: reproduce_opt.Runs = None,
    output: reproduce_opt.Output = Path("runs/paper"),
    workers: reproduce_opt.Workers = None,
    max_epochs: reproduce_opt.MaxEpochs = None,
    data_dir: opt.DataDir = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Rerun the paper, or a part of it; after an interruption, go on from there."""
    from graphconv.experiments.command import reproduce as run
    from graphconv.experiments.section import Request

    request = Request(
        output=output,
        datasets=tuple(dataset or ()),
        methods=tuple(method or ()),
        runs=runs,
        data_dir=data_dir,
        n_workers=workers,
        max_epochs=max_epochs,
        screen=Screen(quiet=quiet, as_json=as_json),
    )
    run(experiment, request)


scale_commands.add_to(app)


def _table_options(given: dict[str, Any]) -> dict[str, Any]:
    names = (
        "source", "target", "weight", "relation", "id", "label", "label_separator", "categorical",
        "text", "ignore", "directed", "duplicates", "self_loops", "closed_ids",
    )  # fmt: skip
    options = {name: given[name] for name in names}
    for name in ("categorical", "text", "ignore"):
        options[name] = tuple(options[name] or ())
    options["split"] = given["split_column"]
    return options


def _number_or(text: str | None, word: str, option: str) -> float | str | None:
    if text is None or text == word:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number or '{word}', got {text!r}") from None


def _numbers(text: str | None, kind: type, option: str) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}") from None
    return () if values == (0,) and kind is int else values


def _rates(text: str | None) -> float | tuple[float, ...] | None:
    values = _numbers(text, float, "--dropout")
    return values[0] if values is not None and len(values) == 1 else values


def _fanout(text: str) -> int | tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--fanout must be all, or numbers such as 10,10, got {text!r}") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _class_weight(text: str | None) -> str | dict[str, float] | None:
    if text is None or text == "balanced":
        return text
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        return {name: float(weight) for name, weight in pairs}
    except ValueError:
        raise ValueError(
            f"--class-weight must be 'balanced' or NAME=WEIGHT,..., got {text!r}"
        ) from None


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def main() -> None:
    """Run a command; whatever goes wrong becomes one line and an exit code."""
    # The libraries make very many objects that stay to the end. By its own thresholds the collector
    # goes over them time and again: 0.3 of the 3 seconds that `graphconv train cora` takes.
    gc.set_threshold(200_000, 10, 1000)
    show_warnings_as_lines()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter of somebody's label must not cost a training.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(prog_name="graphconv", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        return _usage_error(error)
    except TrainingStoppedError as stop:
        print(f"graphconv: interrupted; {stop}", file=sys.stderr)
        return 130
    except OSError as error:
        return _fail(_os_error(error))
    except (ValueError, TypeError) as error:
        return _fail(str(error) or type(error).__name__)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        return _fail("this needs more memory than there is")
    if code == 130:
        print("graphconv: interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _usage_error(error: typer.exceptions.TyperException) -> int:
    """One line; but who gives no command at all gets the help."""
    if len(sys.argv) < 2:
        print(error.format_message(), file=sys.stderr)
        return 2
    message = error.format_message()
    # Typer's own messages are sentences; ours go on after "graphconv: ".
    return _fail(message[:1].lower() + message[1:].rstrip("."))


def _os_error(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    reason = error.strerror or "can't be used"
    if error.errno == errno.ENOSPC:
        reason = "the disk is full"
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _fail(text: str) -> int:
    print(f"graphconv: {one_line(text)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
