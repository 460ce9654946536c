"""The command line's options: names, help texts and the panel each is listed in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_DATA, _MODEL, _TRAINING, _OUTPUT = "Data", "Model", "Training", "Output"


def _option(*names: str, panel: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


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
Edges = Annotated[
    Path | None, _option("--edges", panel=_DATA, help="Edges: CSV, TSV or Parquet.", metavar="FILE")
]
Nodes = Annotated[
    Path | None,
    _option(
        "--nodes",
        panel=_DATA,
        help="Nodes with labels and features: CSV, TSV or Parquet.",
        metavar="FILE",
    ),
]
Source = Annotated[str, _option("--source", panel=_DATA, help="Column of the edges' start.")]
Target = Annotated[str, _option("--target", panel=_DATA, help="Column of the edges' end.")]
Weight = Annotated[
    str | None,
    _option("--weight", panel=_DATA, help="Column of edge weights; 'weight' if it is there."),
]
Relation = Annotated[
    str | None,
    _option(
        "--relation", panel=_DATA, help="Column of relations (triples); 'relation' if it is there."
    ),
]
Id = Annotated[str, _option("--id", panel=_DATA, help="Column of node ids.")]
Label = Annotated[
    str, _option("--label", panel=_DATA, help="Column of labels; empty cells are to be predicted.")
]
LabelSeparator = Annotated[
    str | None,
    _option(
        "--label-separator",
        panel=_DATA,
        help="What separates several labels of one node, such as ';'.",
    ),
]
Categorical = Annotated[
    list[str] | None,
    _option(
        "--categorical", panel=_DATA, help="Column to turn into one-hot features; may be repeated."
    ),
]
Text = Annotated[
    list[str] | None,
    _option(
        "--text", panel=_DATA, help="Column of text to turn into TF-IDF features; may be repeated."
    ),
]
Ignore = Annotated[
    list[str] | None, _option("--ignore", panel=_DATA, help="Column to leave out; may be repeated.")
]
SplitColumn = Annotated[
    str | None,
    _option("--split-column", panel=_DATA, help="Column that says train, validation or test."),
]
Directed = Annotated[
    bool,
    _option(
        "--directed/--undirected",
        panel=_DATA,
        help="Keep the direction of edges (D^-1 A), or make every edge go both ways.",
    ),
]
Duplicates = Annotated[
    str | None,
    _option(
        "--duplicates",
        panel=_DATA,
        help="Repeated edges: 'sum' weights (default where there are any) or 'collapse'.",
    ),
]
SelfLoops = Annotated[
    str, _option("--self-loops", panel=_DATA, help="'keep' or 'drop' edges from a node to itself.")
]
ClosedIds = Annotated[
    bool,
    _option("--closed-ids", panel=_DATA, help="Refuse edges to nodes that the node table lacks."),
]
DataDir = Annotated[
    Path | None,
    _option(
        "--data-dir", panel=_DATA, help="Folder with data set files of your own.", metavar="DIR"
    ),
]
Split = Annotated[
    str | None,
    _option(
        "--split",
        panel=_DATA,
        help=(
            "'public', 'random' (20 a class, 500 validation, 1000 test), "
            "'fraction:TRAIN,VALIDATION,TEST' or 'kfold:K,I'. Default: the data's "
            "own, else 0.6, 0.2, 0.2."
        ),
    ),
]
Model = Annotated[
    str, _option("--model", panel=_MODEL, help="'gcn', or 'mlp' to leave the graph out.")
]
Preset = Annotated[
    str | None,
    _option(
        "--preset",
        panel=_MODEL,
        help="'robust', 'paper' or 'auto'. Default: paper on its own data sets, else robust.",
    ),
]
Propagation = Annotated[
    str | None,
    _option(
        "--propagation",
        panel=_MODEL,
        help=("renormalised, single-parameter, first-order, first-order-only, chebyshev or none."),
    ),
]
SelfLoopWeight = Annotated[
    str | None,
    _option(
        "--self-loop-weight", panel=_MODEL, help="lambda in A + lambda I: a number, or 'learn'."
    ),
]
ChebyshevOrder = Annotated[
    int | None, _option("--chebyshev-order", panel=_MODEL, help="K of the Chebyshev rule.")
]
LambdaMax = Annotated[
    str | None,
    _option(
        "--lambda-max",
        panel=_MODEL,
        help="Largest eigenvalue in the Chebyshev rule: a number, or 'true'.",
    ),
]
Hidden = Annotated[
    str | None,
    _option(
        "--hidden",
        panel=_MODEL,
        help="Widths of the hidden layers, such as 64 or 64,64; 0 for none.",
    ),
]
Activation = Annotated[
    str | None, _option("--activation", panel=_MODEL, help="relu, tanh, elu or none.")
]
Residual = Annotated[
    bool | None,
    _option(
        "--residual/--no-residual", panel=_MODEL, help="Add a hidden layer's input to its output."
    ),
]
Bias = Annotated[bool | None, _option("--bias/--no-bias", panel=_MODEL, help="Give layers a bias.")]
Scaling = Annotated[
    str | None,
    _option("--scaling", panel=_MODEL, help="Features: auto, row, l2, standard or none."),
]
Dropout = Annotated[
    str | None,
    _option("--dropout", panel=_TRAINING, help="Rate, or one a layer such as 0.5,0,0.5."),
]
LearningRate = Annotated[float | None, _option("--learning-rate", panel=_TRAINING, help="Of Adam.")]
WeightDecay = Annotated[
    float | None, _option("--weight-decay", panel=_TRAINING, help="L2 penalty.")
]
WeightDecayLayers = Annotated[
    str | None, _option("--weight-decay-layers", panel=_TRAINING, help="'first' or 'all'.")
]
MaxEpochs = Annotated[
    int | None, _option("--max-epochs", panel=_TRAINING, help="Stop after so many epochs.")
]
EarlyStopping = Annotated[
    str | None, _option("--early-stopping", panel=_TRAINING, help="best, window or none.")
]
Patience = Annotated[
    int | None, _option("--patience", panel=_TRAINING, help="Epochs without gain before stopping.")
]
ClassWeight = Annotated[
    str | None,
    _option(
        "--class-weight",
        panel=_TRAINING,
        help="'balanced' gives rare classes the same say; or NAME=WEIGHT,...",
    ),
]
Seed = Annotated[int, _option("--seed", panel=_TRAINING, help="Same seed, same result.")]
Runs = Annotated[
    int,
    _option(
        "--runs",
        panel=_TRAINING,
        help="Train so many seeds at once; their probabilities are averaged.",
    ),
]
Kernels = Annotated[str, _option("--kernels", panel=_TRAINING, help="auto, native or reference.")]
OutputFolder = Annotated[
    Path | None,
    _option(
        "--output",
        "-o",
        panel=_OUTPUT,
        help="Folder for the model and predictions.csv. Default: runs/NAME.",
        metavar="DIR",
    ),
]
OutputFile = Annotated[
    Path,
    _option(
        "--output", "-o", panel=_OUTPUT, help="CSV, TSV or Parquet file to write.", metavar="FILE"
    ),
]
Resume = Annotated[
    bool, _option("--resume", panel=_OUTPUT, help="Continue a training that was interrupted.")
]
CheckpointSeconds = Annotated[
    float,
    _option(
        "--checkpoint-seconds", panel=_OUTPUT, help="How often to save an unfinished training."
    ),
]
Quiet = Annotated[bool, _option("--quiet", "-q", panel=_OUTPUT, help="No progress and no remarks.")]
AsJson = Annotated[
    bool, _option("--json", panel=_OUTPUT, help="Print one JSON object and nothing else on stdout.")
]
