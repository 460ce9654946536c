"""Last row of table 2: the GCN on ten random splits of the public one's size."""

from __future__ import annotations

from collections.abc import Mapping

from graphconv.estimators import scoring
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.estimators.statistics import summarise
from graphconv.paper.comparison import Cell, details, first_reason, reasons
from graphconv.paper.paper_figures import (
    DATASETS,
    TABLE2,
    TABLE2_STANDARD_ERROR,
)
from graphconv.paper.section import Request, Section

NAME = "random-splits"
TITLE = "GCN, random splits"
N_SPLITS = 10
# Different starts on the same split, so that the split's own figure is not left to luck.
N_SEEDS = 10
TEXT = (
    f"Random splits, {N_SPLITS} in a full rerun, of the public split's size, with {N_SEEDS} random "
    "starts on each (on NELL one); the mean and its standard error are over the splits, and runs "
    "counts these.",
)
NELL_NOTE = (
    "NELL: splits are drawn from the 3,577 entities whose labels are known here (of 9,891): one of "
    "each of 105 classes for training, 500 for validation, 969 for testing."
)
_SIZES = {"nell": {"n_per_class": 1, "n_validation": 500, "n_test": 969}}
_PUBLIC_SIZES = {"n_per_class": 20, "n_validation": 500, "n_test": 1000}


def series(request: Request, datasets: tuple[str, ...] | None = None) -> list[Series]:
    """The runs that are wanted: a series for each split."""
    wanted = []
    for dataset in request.datasets_of(DATASETS) if datasets is None else datasets:
        is_nell = dataset == "nell"
        settings = request.settings("paper-nell" if is_nell else "paper")
        sizes = _SIZES.get(dataset, _PUBLIC_SIZES)
        wanted += [
            Series(
                experiment=NAME,
                dataset=dataset,
                method=f"split {number}",
                task=scoring.run_gcn_on_random_split,
                settings={"gcn": settings, "split": {**sizes, "random_state": number}},
                # One start is enough on NELL, where a run takes as long as a hundred on Cora.
                seeds=tuple(range(1 if is_nell else request.n_runs(N_SEEDS))),
                chunk=1 if is_nell else 5,
                cost=scoring.SECONDS[dataset],
            )
            for number in range(request.n_runs(N_SPLITS))
        ]
    return wanted


def cell(request: Request, log: RunLog, dataset: str, failed: Mapping[str, str]) -> Cell:
    """The row of table 2 on one data set."""
    every = series(Request(request.output, max_epochs=request.max_epochs), (dataset,))
    means: list[Record] = []
    for one in every:
        runs = log.records(one)
        if runs:
            split = summarise(runs)
            means.append(
                {
                    "test_accuracy": split.mean,
                    "validation_accuracy": split.validation,
                    "seconds": split.seconds,
                }
            )
    paper = TABLE2[NAME].get(dataset)
    error = TABLE2_STANDARD_ERROR[NAME].get(dataset)
    return Cell(
        dataset=dataset,
        method=NAME,
        title=TITLE,
        paper=paper,
        ours=summarise(means),
        reason=first_reason(failed, *(one.fingerprint for one in every)),
        paper_text="" if paper is None else f"{paper} ± {error}",
    )


def section(request: Request, log: RunLog, failed: Mapping[str, str]) -> Section:
    """The results."""
    cells = [cell(request, log, dataset, failed) for dataset in request.datasets_of(DATASETS)]
    notes = (NELL_NOTE,) if any(one.dataset == "nell" for one in cells) else ()
    return Section(
        name=NAME,
        title="GCN on random splits (last row of table 2)",
        text=TEXT,
        tables=details(cells),
        notes=(*notes, *reasons(cells)),
        data={"cells": [one.to_json() for one in cells]},
    )
