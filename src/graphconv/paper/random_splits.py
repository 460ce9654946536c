"""Last row of table 2: the GCN on ten random splits of the public one's size."""

from __future__ import annotations

from collections.abc import Mapping

from graphconv.estimators import scoring
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.estimators.statistics import summarise
from graphconv.paper.comparison import Cell, details, first_reason, reasons
from graphconv.paper.published import (
    DATASETS,
    TABLE2,
    TABLE2_STANDARD_ERROR,
)
from graphconv.paper.recipes import gcn_settings
from graphconv.paper.section import Request, Section

NAME = "random-splits"
# Rows of table 2: the paper's recipe, and what does better on NELL.
TITLES = {
    NAME: "GCN, random splits",
    "random-splits-nell": "GCN, our recipe for NELL, random splits",
}
N_SPLITS = 10
# Paper: one run on each of 10 random splits; here: the mean of 10 starts on each, because a
# split's own figure should not be left to the luck of one start.
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
# Paper: random splits of all of NELL's labelled entities; here: of the 3,577 whose labels are at
# hand, with 105 of the 210 classes, because the files have no others without `ally`.
_SIZES = {"nell": {"n_per_class": 1, "n_validation": 500, "n_test": 969}}
_PUBLIC_SIZES = {"n_per_class": 20, "n_validation": 500, "n_test": 1000}


def _split_series(request: Request, dataset: str, row: str) -> list[Series]:
    is_nell = dataset == "nell"
    settings = gcn_settings(request, dataset, "paper" if row == NAME else "nell")
    sizes = _SIZES.get(dataset, _PUBLIC_SIZES)
    return [
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


def _rows_on(dataset: str) -> list[str]:
    return [row for row in TITLES if row == NAME or dataset == "nell"]


def series(request: Request) -> list[Series]:
    """The runs that are wanted: a series for each split."""
    return [
        one
        for dataset in request.datasets_of(DATASETS)
        for row in _rows_on(dataset)
        if request.wants_method(row)
        for one in _split_series(request, dataset, row)
    ]


def cells(request: Request, log: RunLog, dataset: str, failed: Mapping[str, str]) -> list[Cell]:
    """The rows of table 2 on one data set."""
    return [_cell(request, log, dataset, row, failed) for row in _rows_on(dataset)]


def _cell(request: Request, log: RunLog, dataset: str, row: str, failed: Mapping[str, str]) -> Cell:
    every = _split_series(Request(request.output, max_epochs=request.max_epochs), dataset, row)
    means: list[Record] = []
    for one in every:
        runs = log.records(one)
        if runs:
            split = summarise(runs)
            # Without seconds: others ran beside them.
            means.append({"test_accuracy": split.mean, "validation_accuracy": split.validation})
    paper = TABLE2[NAME][dataset]
    return Cell(
        dataset=dataset,
        method=row,
        title=TITLES[row],
        paper=paper,
        ours=summarise(means),
        reason=first_reason(failed, *(one.fingerprint for one in every)),
        paper_text=f"{paper} ± {TABLE2_STANDARD_ERROR[NAME][dataset]}",
    )


def section(request: Request, log: RunLog, failed: Mapping[str, str]) -> Section:
    """The results."""
    every = Request(request.output, max_epochs=request.max_epochs)
    found = []
    for dataset in DATASETS:
        rows = cells(every, log, dataset, failed)
        if dataset in request.datasets_of(DATASETS) or any(one.ours.n_runs for one in rows):
            found += rows
    notes = (NELL_NOTE,) if any(one.dataset == "nell" for one in found) else ()
    return Section(
        name=NAME,
        title="GCN on random splits (last row of table 2)",
        text=TEXT,
        tables=details(found),
        notes=(*notes, *reasons(found)),
        data={"cells": [one.to_json() for one in found]},
        finished=log.newest(series(every)),
    )
