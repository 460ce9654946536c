"""Section 7.2: the weight lambda of self-connections, A + lambda I, learned by gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from graphconv.estimators import scoring
from graphconv.estimators.runs import RunLog, Series
from graphconv.estimators.statistics import difference, summarise, with_error
from graphconv.paper import table2
from graphconv.paper.comparison import first_reason
from graphconv.paper.published import CITATION, TITLES
from graphconv.paper.section import Request, Section, Table

NAME = "self-loops"
_TEXT = (
    "The paper suggests that a node's own features may deserve another weight than its "
    "neighbours', and that this lambda can be learned (equation 11); it shows no figures. Here "
    "lambda starts at 1 and is learned with the weights, one for each run, with all else as in "
    "table 2. Accuracy on test nodes in percent, with its standard error; behind the learned "
    "lambda the smallest and the largest of the runs.",
)
_COLUMNS = ("data set", "lambda = 1", "lambda learned", "difference", "lambda", "runs")


def _series(request: Request, dataset: str) -> Series:
    return replace(
        table2.gcn_series(request, dataset, experiment=NAME),
        method="lambda learned",
        task=scoring.run_gcn_learning_self_loops,
        settings={"gcn": request.settings("paper", self_loop_weight="learn")},
        chunk=5,
    )


def series(request: Request) -> list[Series]:
    """The runs that are wanted: lambda learned, and table 2's with lambda = 1."""
    datasets = request.datasets_of(CITATION)
    learned = [_series(request, dataset) for dataset in datasets]
    return learned + [table2.gcn_series(request, dataset) for dataset in datasets]


def section(request: Request, log: RunLog, failed: Mapping[str, str]) -> Section:
    """The table."""
    every = Request(request.output, max_epochs=request.max_epochs)
    rows, data, notes = [], {}, []
    for dataset in CITATION:
        learned, fixed = _series(every, dataset), table2.gcn_series(every, dataset)
        records = log.records(learned)
        if not records:
            reason = first_reason(failed, learned.fingerprint)
            notes += [f"{TITLES[dataset]}: {reason}."] if reason else []
            continue
        weights = np.array([record["self_loop_weight"] for record in records])
        ours, usual = summarise(records), summarise(table2.runs_of(log, fixed))
        rows.append(
            (
                TITLES[dataset],
                with_error(usual),
                with_error(ours),
                difference(ours.mean, round(usual.mean, 1) if usual.n_runs else None),
                f"{weights.mean():.2f} ({weights.min():.2f} to {weights.max():.2f})",
                str(ours.n_runs),
            )
        )
        data[dataset] = {"self_loop_weight": weights.tolist(), "test_accuracy": ours.mean}
    return Section(
        name=NAME,
        title="Section 7.2: a learned weight of self-connections",
        text=_TEXT,
        tables=(Table("Learned lambda beside lambda = 1", _COLUMNS, tuple(rows)),),
        notes=tuple(notes),
        data=data,
        finished=log.newest(series(every)),
    )
