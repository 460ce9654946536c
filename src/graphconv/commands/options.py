"""The command line's options: names, help texts and the group each is listed in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from graphconv.estimators.baselines import BASELINES
from graphconv.graph.names import DEVICES, METRICS
from graphconv.models.catalogue import MODELS
from graphconv.models.settings import SEARCHES


class GroupedCommand(TyperCommand):
    """A command whose help lists its options in groups; typer does so only in boxes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            group = getattr(parameter, "rich_help_panel", None)
            name = "Arguments" if is_argument else f"{group} options" if group else "Options"
            if record is not None:
                groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The epilog's lines are examples; click would fill them up to one paragraph."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def option(
    panel: str, names: str, metavar: str | None, help: str, choices: Sequence[str] = ()
) -> Any:
    """An option that the help lists in a panel; names are separated by blanks.

    `choices` are what the Tab key completes to.
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return typer.Option(
        *names.split(),
        metavar=metavar,
        help=help,
        rich_help_panel=panel,
        autocompletion=complete if choices else None,
    )


_data, _table, _model, _training, _output = (
    partial(option, panel) for panel in ("Data", "Table", "Model", "Training", "Output")
)
_FLAG = None  # the metavar of an option without a value

DataName = Annotated[
    str | None,
    typer.Argument(
        help="A data set (see 'graphconv datasets') or a GraphML, GEXF, npz or mtx file.",
        metavar="DATASET",
    ),
]
ModelFolder = Annotated[
    Path, typer.Argument(help="Folder that 'graphconv train' wrote.", metavar="MODEL_DIR")
]
NodeId = Annotated[str, typer.Argument(help="Id of the node.", metavar="NODE")]

Edges = Annotated[
    list[str] | None,
    _data(
        "--edges",
        "FILE",
        "Edges: CSV, TSV, Parquet, JSON, xlsx, '-' for standard input, or a database, such as "
        "'sqlite:///shop.db?table=edges' or 'postgresql://user@host/shop?table=edges'; may be "
        "repeated, or a pattern such as 'edges-*.csv'.",
    ),
]
Nodes = Annotated[
    list[str] | None,
    _data(
        "--nodes",
        "FILE",
        "Nodes with labels and features, files as for --edges. TYPE=FILE: nodes of several types.",
    ),
]
EdgesQuery = Annotated[
    str | None, _data("--edges-query", "SQL", "What to ask the database of --edges for.")
]
NodesQuery = Annotated[
    str | None, _data("--nodes-query", "SQL", "What to ask the database of --nodes for.")
]
FeatureFile = Annotated[
    str | None,
    _data(
        "--features",
        "FILE",
        "More features, mostly 0: .mtx or .npz with a row for each row of --nodes, or a table of "
        "three columns: id, name of a feature, value.",
    ),
]
Labels = Annotated[
    Path | None,
    _data("--labels", "FILE", "Labels beside those of the data: what 'graphconv label' wrote."),
]
Merge = Annotated[
    bool,
    _data(
        "--merge/--alone",
        None,
        "New tables are added to the graph of the training, or taken by themselves.",
    ),
]
DataDir = Annotated[
    Path | None, _data("--data-dir", "DIR", "Folder with data set files of your own.")
]
Split = Annotated[
    str | None,
    _data(
        "--split",
        "SPLIT",
        "public, random (20 per class, 500 validation, 1000 test), "
        "fraction:TRAIN,VALIDATION,TEST, kfold:K,I, time:COLUMN (the past trains) or group:COLUMN "
        "(no group in two parts). Default: the data's own, else fraction:0.6,0.2,0.2.",
    ),
]

Source = Annotated[str, _table("--source", "COLUMN", "Column of the edges' start.")]
Target = Annotated[str, _table("--target", "COLUMN", "Column of the edges' end.")]
SourceType = Annotated[
    str | None,
    _table("--source-type", "NAME", "Type of the edges' start: ids of other types are others."),
]
TargetType = Annotated[
    str | None, _table("--target-type", "NAME", "Type of the edges' end, as --source-type.")
]
Weight = Annotated[
    str | None,
    _table("--weight", "COLUMN", "Column of edge weights. Default: 'weight', if it is there."),
]
Relation = Annotated[
    str | None,
    _table(
        "--relation",
        "COLUMN",
        "Column of relations (triples). Default: 'relation', if it is there.",
    ),
]
EdgeFeatures = Annotated[
    list[str] | None,
    _table(
        "--edge-features",
        "COLUMN",
        "Column of the edges that becomes features: each edge is made a node. Several as A,B.",
    ),
]
Id = Annotated[str, _table("--id", "COLUMN", "Column of node ids.")]
Label = Annotated[
    str, _table("--label", "COLUMN", "Column of labels; empty cells are to be predicted.")
]
LabelSeparator = Annotated[
    str | None,
    _table("--label-separator", "TEXT", "What separates several labels of one node, such as ';'."),
]
UnlabelledValue = Annotated[
    str | None,
    _table("--unlabelled-value", "TEXT", "Label that means 'to be predicted', such as -1."),
]
Bins = Annotated[
    int | None,
    _table("--bins", "N", "Labels are numbers: make N classes of about equal size of them."),
]
Categorical = Annotated[
    list[str] | None,
    _table("--categorical", "COLUMN", "Column to turn into one-hot features; several as A,B."),
]
Text = Annotated[
    list[str] | None,
    _table("--text", "COLUMN", "Column of text to turn into TF-IDF features; several as A,B."),
]
Ignore = Annotated[
    list[str] | None, _table("--ignore", "COLUMN", "Column to leave out; several as A,B.")
]
Date = Annotated[
    list[str] | None,
    _table(
        "--date",
        "COLUMN",
        "Column of dates, perhaps with their format: joined=%d/%m/%Y; several as A,B.",
    ),
]
Roles = Annotated[
    list[str] | None,
    _table(
        "--roles",
        "COLUMN=ROLE",
        "What a column is: number, category, text, yes-no, amount (a number with a unit), date, "
        "embedding, sparse or ignore; several as A=ROLE,B=ROLE. Default: what it looks like "
        "('graphconv inspect' tells).",
    ),
]
SplitColumn = Annotated[
    str | None,
    _table(
        "--split-column",
        "COLUMN",
        "Column that says train, validation or test. Default: 'split', if it is there.",
    ),
]
Directed = Annotated[
    bool,
    _table(
        "--directed/--undirected",
        _FLAG,
        "Keep the direction of edges (D^-1 A), or make every edge go both ways.",
    ),
]
Duplicates = Annotated[
    str | None,
    _table(
        "--duplicates",
        "WAY",
        "Repeated edges: sum (default where there are weights) or collapse.",
    ),
]
SelfLoops = Annotated[
    str, _table("--self-loops", "WAY", "Edges from a node to itself: keep, drop.")
]
MissingValue = Annotated[
    str,
    _table(
        "--missing-value", "WAY", "Empty cells among numbers: refuse them, or take mean or zero."
    ),
]
Delimiter = Annotated[
    str | None,
    _table("--delimiter", "CHARACTER", "What separates columns of text. Default: found out."),
]
FileEncoding = Annotated[
    str | None,
    _table(
        "--file-encoding",
        "NAME",
        "How letters are written in text: cp1252, utf-16, ... Default: found out.",
    ),
]
Decimal = Annotated[
    str | None, _table("--decimal", "MARK", "The decimal mark: . or , Default: found out.")
]
Thousands = Annotated[
    str | None,
    _table("--thousands", "CHARACTER", "What groups the digits of numbers. Default: found out."),
]
Header = Annotated[
    bool | None,
    _table(
        "--header/--no-header",
        _FLAG,
        "The first line names the columns, or they are column_1, column_2, ... "
        "Default: not if it is all numbers.",
    ),
]
ClosedIds = Annotated[
    bool, _table("--closed-ids", _FLAG, "Refuse edges to nodes that the node table lacks.")
]

Model = Annotated[
    str | None,
    _model(
        "--model",
        "NAME",
        f"{', '.join(MODELS)}, mlp (leaves the graph out) or a baseline: "
        f"{', '.join(name for name in BASELINES if name != 'mlp')}.",
    ),
]
Preset = Annotated[
    str | None,
    _model(
        "--preset",
        "NAME",
        "quick tries methods of all kinds for seconds, auto longer, strong trains all of them in "
        "full, demanding ones too, for minutes; robust and paper are settings. "
        "Default: paper on its own data sets, robust with any --model or setting, else quick.",
    ),
]

Calibrate = Annotated[
    bool,
    _training(
        "--calibration/--no-calibration",
        _FLAG,
        "Scale probabilities by the validation nodes, so that 80 % sure means 80 % right.",
    ),
]
PositionFeatures = Annotated[
    bool,
    _model(
        "--position-features",
        _FLAG,
        "Add columns of where a node lies in the graph and how connected it is.",
    ),
]
Metric = Annotated[
    str | None,
    _training(
        "--metric",
        "NAME",
        f"What methods are chosen and judged by: {', '.join(METRICS)}. "
        "Default: what suits the balance of the classes.",
    ),
]
ClassPriorOption = Annotated[
    str | None,
    _training(
        "--class-prior",
        "NAME|FILE",
        "How common classes are in the graph: labels (as among the labels), estimate, or a CSV "
        "file with a class and a share in each line. Default: labels.",
    ),
]
Coverage = Annotated[
    float | None,
    _training(
        "--coverage",
        "SHARE",
        "Give every node a set of classes; in so many cases, such as 0.9, it holds the right one.",
    ),
]
Auto = Annotated[
    bool,
    _training(
        "--auto/--no-auto",
        _FLAG,
        "Train in mini-batches where the full batch would not fit the memory, or stop.",
    ),
]
Seed = Annotated[int, _training("--seed", "N", "Same seed, same result.")]
Runs = Annotated[
    int | None,
    _training(
        "--runs",
        "R",
        "Train so many seeds at once; their probabilities are averaged. "
        f"Default: up to {SEARCHES['quick']} with preset quick and {SEARCHES['auto']} with auto "
        "and strong, as time allows, else 1.",
    ),
]
Timeout = Annotated[
    float,
    _training(
        "--timeout",
        "SECONDS",
        "Under torchrun: how long a process may keep the others waiting before all stop.",
    ),
]
Kernels = Annotated[
    str, _training("--kernels", "NAME", "Sparse products: auto, native or reference.")
]
Device = Annotated[
    str, _training("--device", "NAME", "Where to train: cpu, cuda, mps or auto.", DEVICES)
]
PredictDevice = Annotated[
    str, _model("--device", "NAME", "Where to predict: cpu, cuda, mps or auto.", DEVICES)
]

OutputFolder = Annotated[
    Path | None,
    _output("--output -o", "DIR", "Folder for the model and predictions.csv. Default: runs/NAME."),
]
OutputFile = Annotated[Path, _output("--output -o", "FILE", "CSV, TSV or Parquet file to write.")]
SpreadsheetSafe = Annotated[
    bool,
    _output(
        "--spreadsheet-safe",
        _FLAG,
        "Put an apostrophe before text that a spreadsheet would run as a formula (= + - @).",
    ),
]
ReportFile = Annotated[
    Path | None,
    _output("--output -o", "FILE", "HTML file to write. Default: report.html in MODEL_DIR."),
]
ReportName = Annotated[
    str | None, _output("--name", "TEXT", "Title of the page. Default: the name of the data.")
]
Report = Annotated[
    bool, _output("--report", _FLAG, "Write report.html, a page about the result, as well.")
]
Resume = Annotated[bool, _output("--resume", _FLAG, "Continue a training that was interrupted.")]
CheckpointSeconds = Annotated[
    float,
    _output("--checkpoint-seconds", "SECONDS", "How often to save an unfinished training."),
]
Quiet = Annotated[bool, _output("--quiet -q", _FLAG, "No progress and no remarks.")]
AsJson = Annotated[
    bool, _output("--json", _FLAG, "Print one JSON object and nothing else on stdout.")
]

ClassName = Annotated[
    str | None,
    _output("--class", "NAME", "Explain this class instead of the likeliest."),
]
Listed = Annotated[int, _output("-n", "N", "How many of each kind to list.")]
Picture = Annotated[Path | None, _output("--output -o", "FILE", "Draw it: a PNG or SVG file.")]
HowManyDoubtful = Annotated[int, _output("-n", "N", "How many labels to list.")]
HowMany = Annotated[int, _output("-n", "N", "How many nodes to suggest.")]
TableFile = Annotated[
    Path | None, _output("--output -o", "FILE", "Write them to a CSV, TSV or Parquet file as well.")
]
Methods = Annotated[
    list[str] | None,
    _model(
        "--methods",
        "NAMES",
        "Methods to compare, separated by commas, or all. Default: those that are fast.",
    ),
]
Splits = Annotated[int, _training("--splits", "N", "How many random splits to compare on.")]
CompareSplit = Annotated[
    str | None,
    _data(
        "--split",
        "SPLIT",
        "fraction:TRAIN,VALIDATION,TEST, random (20 per class, 500 validation, 1000 test), "
        "time:COLUMN (the past trains) or group:COLUMN (no group in two parts). Default: "
        "fraction:0.6,0.2,0.2.",
    ),
]
CompareFolder = Annotated[
    Path | None,
    _output("--output -o", "DIR", "Folder for runs, numbers and plot. Default: runs/compare-NAME."),
]

_label = partial(option, "Page")
LabelsFile = Annotated[
    Path,
    _output("--output -o", "FILE", "CSV file that every answer is added to; it is gone on with."),
]
LabelResults = Annotated[
    Path | None,
    _output(
        "--results",
        "DIR",
        "Folder for model, predictions and report at the end. Default: FILE without .csv, -model.",
    ),
]
NoLabels = Annotated[
    bool, _label("--no-labels", _FLAG, "Leave the data's own labels aside and start with none.")
]
Host = Annotated[
    str,
    _label("--host", "ADDRESS", "Where colleagues reach the page; needs a password."),
]
Port = Annotated[int, _label("--port", "N", "Default: one that is free.")]
PasswordFile = Annotated[
    Path | None,
    _label(
        "--password-file",
        "FILE",
        "Its first line is what colleagues must know to sign in. Default: GRAPHCONV_PASSWORD of "
        "the environment, else it is asked for.",
    ),
]
OpenBrowser = Annotated[bool, _label("--open/--no-open", _FLAG, "Open the page in a browser.")]
