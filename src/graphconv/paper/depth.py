"""Appendix B: accuracy against the number of layers, with and without residual connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphconv.estimators import scoring
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.estimators.statistics import fixed
from graphconv.graph import Graph
from graphconv.graph.splits import kfold_splits
from graphconv.paper.published import CITATION, TITLES
from graphconv.paper.section import Figure, Request, Section, Table

NAME = "depth"
MOST_LAYERS = 10
N_FOLDS = 5
N_EPOCHS = 400
VARIANTS = ("plain", "residual")
_TEXT = (
    f"Mean accuracy in percent over {N_FOLDS}-fold cross-validation with all labels, {N_EPOCHS} "
    "epochs without early stopping, 16 hidden units, dropout 0.5 on the first and the last layer, "
    "L2 penalty 5e-4 on the first layer.",
    "The paper shows these curves without figures. Its account: best with 2 or 3 layers; beyond 7 "
    "layers training without residual connections can become difficult.",
)


def _settings(request: Request, n_layers: int, variant: str) -> dict[str, Any]:
    dropout = [0.0] * n_layers
    dropout[0] = dropout[-1] = 0.5
    return request.settings(
        "paper",
        hidden=(16,) * (n_layers - 1),
        dropout=tuple(dropout),
        # With one hidden layer or none there is nothing to connect: the same runs serve both.
        residual=variant == "residual" and n_layers > 2,
        max_epochs=N_EPOCHS,
        early_stopping="none",
    )


def _series(request: Request, dataset: str, n_layers: int, variant: str) -> Series:
    return Series(
        experiment=NAME,
        dataset=dataset,
        method=f"{n_layers} layers, {variant}",
        task=run_fold,
        settings={"gcn": _settings(request, n_layers, variant), "n_folds": N_FOLDS},
        seeds=tuple(range(request.n_runs(N_FOLDS))),
        cost=scoring.SECONDS[dataset] * (10 + 5 * n_layers),
    )


def run_fold(series: Series, graph: Graph) -> list[Record]:
    """Train on all folds but one, for each fold that a seed names."""
    folds = kfold_splits(graph, series.settings["n_folds"], random_state=0)
    records = []
    for seed in series.seeds:
        fold = folds[seed]
        # Watched, never used: without early stopping validation nodes change nothing, but a
        # training without any would end after 200 epochs.
        watched = graph.with_split(fold.train_index, fold.test_index, [])
        (record,) = scoring.gcn_records(watched, series.settings["gcn"], [seed])
        record["test_accuracy"] = record["validation_accuracy"]
        records.append({**record, "validation_accuracy": None})
    return records


def series(request: Request) -> list[Series]:
    """The runs that are wanted."""
    return [
        _series(request, dataset, n_layers, variant)
        for dataset in request.datasets_of(CITATION)
        for n_layers in range(1, MOST_LAYERS + 1)
        for variant in VARIANTS
    ]


def _curves(request: Request, log: RunLog, dataset: str) -> list[dict[str, Any]]:
    points = []
    for variant in VARIANTS:
        for n_layers in range(1, MOST_LAYERS + 1):
            runs = log.records(_series(request, dataset, n_layers, variant))
            for split in ("train", "test"):
                values = np.array([run[f"{split}_accuracy"] for run in runs])
                if len(values):
                    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
                    points.append(
                        {
                            "variant": variant,
                            "split": split,
                            "n_layers": n_layers,
                            "mean": float(values.mean()),
                            "error": float(error),
                            "n_folds": len(values),
                        }
                    )
    return points


def _table(dataset: str, points: list[dict[str, Any]]) -> Table:
    value = {(p["n_layers"], p["variant"], p["split"]): p for p in points}
    columns = ("layers", "plain, train", "plain, test", "residual, train", "residual, test")
    rows = []
    for n_layers in range(1, MOST_LAYERS + 1):
        texts = []
        for variant in VARIANTS:
            for split in ("train", "test"):
                point = value.get((n_layers, variant, split))
                shown = "-" if point is None else f"{fixed(point['mean'])} ± {point['error']:.2f}"
                texts.append(shown)
        rows.append((str(n_layers), *texts))
    return Table(TITLES[dataset], columns, tuple(rows))


def _reasons(request: Request, failed: Mapping[str, str]) -> tuple[str, ...]:
    why = {
        f"{TITLES[one.dataset]}: {failed[one.fingerprint]}."
        for one in series(request)
        if one.fingerprint in failed
    }
    return tuple(sorted(why))


def section(request: Request, log: RunLog, failed: Mapping[str, str]) -> Section:
    """The curves as tables and as a figure."""
    from graphconv.report.figures import draw_depth, save_figure

    curves = {name: _curves(request, log, name) for name in CITATION}
    curves = {name: points for name, points in curves.items() if points}
    figures: tuple[Figure, ...] = ()
    if curves:
        titled = {TITLES[name]: points for name, points in curves.items()}
        save_figure(draw_depth(titled), request.output / "figures" / "depth")
        figure = Figure(
            "figures/depth",
            "Accuracy against the number of layers; bands are the standard error over the folds.",
            "Line charts, one for each data set: accuracy on training and test nodes against the "
            "number of layers, with and without residual connections",
        )
        figures = (figure,)
    return Section(
        name=NAME,
        title="Appendix B: number of layers",
        text=_TEXT,
        tables=tuple(_table(name, points) for name, points in curves.items()),
        figures=figures,
        notes=_reasons(request, failed),
        data={"curves": curves},
        finished=log.newest(series(Request(request.output, max_epochs=request.max_epochs))),
    )
