"""Options of `graphconv reproduce`. Light: the command line imports it at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Experiment = Annotated[
    str,
    typer.Argument(
        help="all, table1, table2, table3, random-splits, self-loops, timing, tsne, karate, depth "
        "or tune.",
        metavar="EXPERIMENT",
    ),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME", help="Only this data set; may be repeated."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method", metavar="NAME", help="Only this row of table 2 or 3; may be repeated."
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(
        "--runs",
        metavar="N",
        help="At most N runs of everything: a quick look. 0: tables from the runs there are.",
    ),
]
Times = Annotated[
    bool,
    typer.Option(
        "--times/--no-times", help="Time single runs that have the machine to themselves."
    ),
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="Folder for results, figures and the log."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Runs at a time. Default: one for every core."),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="FILE",
        help="Log of an earlier rerun: say which runs came out as they did there.",
    ),
]
MaxEpochs = Annotated[int | None, typer.Option("--max-epochs", hidden=True)]
