"""What is told about a trained model from labels that it, or a model like it, has not seen."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.commands.console import Screen
from graphconv.graph import Graph
from graphconv.io.files import check_writable
from graphconv.io.wording import count
from graphconv.models.settings import PAPER_ACCURACY
from graphconv.results.prediction_sets import SetRule, check_coverage, find_set_rule
from graphconv.results.predictions import check_table_path, write_table
from graphconv.training.measures import measure_for
from graphconv.training.out_of_fold import N_FOLDS, FitPredict, OutOfFold, fit_folds
from graphconv.training.scores import accuracy_interval, bootstrap_interval

if TYPE_CHECKING:
    from graphconv.commands.training_job import Job
    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.checkpoint import SavedModel

FloatMatrix = npt.NDArray[np.floating[Any]]
OUT_OF_FOLD_FILE = "out_of_fold.npz"
# A training that took longer is not repeated for every fold unless that was asked for.
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What the folds of a training's labels came to.

    Parameters
    ----------
    scores : dict
        For the results: "accuracy", with its interval and where it is from, and "prediction_sets".
    out_of_fold : OutOfFold, optional
    sets : array of bool of shape (n_nodes, n_classes), optional
    """

    scores: dict[str, Any]
    out_of_fold: OutOfFold | None = None
    sets: npt.NDArray[np.bool_] | None = None

    def write(self, folder: Path) -> None:
        """Keep the folds for later questions, if there are any."""
        if self.out_of_fold is not None:
            self.out_of_fold.write(folder / OUT_OF_FOLD_FILE)


def check_sets(graph: Graph, coverage: float | None) -> None:
    """Refuse a coverage that the labels can't give, before anything is trained."""
    if coverage is None:
        return
    if graph.folder is not None:
        raise ValueError("--coverage needs a graph in memory, got a folder")
    if graph.is_multilabel:
        raise ValueError("--coverage is for one label per node, got several labels")
    n_labels = len(graph.train_index) + len(graph.validation_index)
    check_coverage(coverage, n_labels)


def judge(
    job: Job,
    graph: Graph,
    probabilities: FloatMatrix,
    fit_predict: FitPredict,
    seconds: float,
) -> HeldOut:
    """How often the labels are right, and the classes each node may have.

    By test nodes where there are any; else by what nested choice said of labelled nodes; else, and
    for sets, by models of folds. `seconds` is what one training took.
    """
    coverage, screen = job.wanted.coverage, job.screen
    source, labels = "test nodes", graph.labels[graph.test_index]
    unseen, held_out = probabilities[graph.test_index], None
    if not len(labels) and job.chosen is not None and len(job.chosen.nodes):
        source, unseen = "nested cross-validation", job.chosen.nested
        labels = graph.labels[job.chosen.nodes]
    if coverage is not None or (not len(labels) and _is_worth_it(graph, seconds, screen)):
        with screen.showing() as progress:
            held_out = fit_folds(graph, fit_predict, progress=progress)
        if not len(labels):
            source, labels, unseen = "cross-validation", held_out.labels, held_out.probabilities
    scores = _scores(job, graph, labels, unseen, source)
    if coverage is None or held_out is None:
        return HeldOut(scores, held_out)
    rule = find_set_rule(held_out, coverage)
    sets = rule.apply(graph, probabilities)
    sizes = sets[: graph.n_entities].sum(axis=1)
    scores["prediction_sets"] = {
        **asdict(rule),
        "mean_size": float(sizes.mean()),
        "singletons": float((sizes == 1).mean()),
    }
    return HeldOut(scores, held_out, sets)


def _scores(
    job: Job, graph: Graph, labels: npt.NDArray[np.int64], unseen: FloatMatrix, source: str
) -> dict[str, Any]:
    """How right labels are that nobody has seen, with intervals: accuracy, and what suits better.

    "metric" is None where accuracy is the measure that suits the labels, or was asked for.
    """
    found = accuracy_interval(labels, unseen)
    if found is None:
        return {"accuracy": None, "metric": None}
    about = {"from": source, "n_nodes": len(labels)}
    measure, reason = measure_for(graph, job.wanted.metric)
    is_usual = measure.name in ("accuracy", "micro-f1") or graph.name in PAPER_ACCURACY
    metric = None
    if job.wanted.metric is not None or not is_usual:
        interval = bootstrap_interval(measure.score, labels, unseen)
        metric = {"name": measure.name, **interval._asdict(), **about, "reason": reason}
    return {"accuracy": {**found._asdict(), **about}, "metric": metric}


def _is_worth_it(graph: Graph, seconds: float, screen: Screen) -> bool:
    """Whether folds can be had in reasonable time; if not, says so."""
    n_labels = len(graph.train_index) + len(graph.validation_index)
    reason = ""
    if graph.folder is not None:
        reason = "a graph on disk is not cross-validated"
    elif n_labels < 2 * N_FOLDS:
        reason = f"{count(n_labels, 'label')} are too few for cross-validation"
    elif seconds > PATIENCE_SECONDS:
        minutes = math.ceil(N_FOLDS * seconds / 60)
        reason = f"cross-validation would take about {minutes} minutes"
    elif not graph.is_multilabel and _rarest_but_one(graph) < 2:
        reason = "too few labels of each class for cross-validation"
    if reason:
        screen.remark(f"there are no test nodes to tell how often labels are right, and {reason}")
    return not reason


def _rarest_but_one(graph: Graph) -> int:
    """Training nodes of the second most frequent class: two classes must survive every fold."""
    counts = np.bincount(graph.labels[graph.train_index], minlength=2)
    return int(np.sort(counts)[-2])


def folds_of(folder: Path, saved: SavedModel | SavedMethod, screen: Screen) -> OutOfFold:
    """The folds of a saved model's labels: as they were kept, or trained now and kept."""
    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.out_of_fold import same_training

    path, graph = folder / OUT_OF_FOLD_FILE, saved.fitted.graph
    if path.exists():
        return OutOfFold.read(path, graph)
    fit_predict = (
        saved.fitted.fit_predict()
        if isinstance(saved, SavedMethod)
        else same_training(saved.fitted)
    )
    screen.note(f"training {N_FOLDS} models, each without a fifth of the labels")
    with screen.showing() as progress:
        found = fit_folds(graph, fit_predict, progress=progress)
    try:
        found.write(path)
    except OSError:  # a folder that can't be written to: the answer is there all the same
        path.unlink(missing_ok=True)
    return found


def run_doubt(
    folder: Path,
    n: int,
    screen: Screen,
    output: Path | None = None,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """List the given labels that look wrong; write all of them to a table, if a file is given."""
    if n < 1:
        raise ValueError(f"-n must be at least 1, got {n}")
    if output is not None:
        check_table_path(output)
        check_writable(output)
    from graphconv.estimators.fitted_method import load_saved
    from graphconv.results.doubt import doubtful_labels

    saved = load_saved(folder)
    graph = saved.fitted.graph
    out_of_fold = folds_of(folder, saved, screen)
    found = doubtful_labels(graph, out_of_fold, saved.fitted.ensemble_probabilities())
    n_labels = len(out_of_fold.nodes) + len(graph.test_index)
    columns = {
        "rank": range(1, len(found) + 1),
        "id": [one.node for one in found],
        "given": [one.given for one in found],
        "likelier": [one.likelier for one in found],
        "p_given": [one.given_probability for one in found],
        "p_likelier": [one.likelier_probability for one in found],
    }
    if output is not None:
        write_table(columns, output, spreadsheet_safe=spreadsheet_safe)
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows = [
        [
            *(str(one[name]) for name in ("rank", "id", "given", "likelier")),
            *(f"{one[name]:.3f}" for name in ("p_given", "p_likelier")),
        ]
        for one in listed[:n]
    ]
    if rows:
        heads = ["", "id", "given", "looks like", "p of given", "p of that"]
        screen.table("Given labels that look wrong, the most suspicious first", heads, rows)
    screen.note(
        f"{len(found):,} of {n_labels:,} labels are contradicted by models that have not seen "
        "them; not all of these are wrong"
    )
    if output is not None:
        screen.note(f"{len(found):,} labels written to {output}")
    screen.result(
        {
            "n_labels": n_labels,
            "n_doubtful": len(found),
            "labels": listed[:n],
            "output": None if output is None else str(output),
        }
    )


def saved_rule(metrics: dict[str, Any]) -> SetRule | None:
    """The rule for prediction sets that a model was saved with, if it was trained with one."""
    values = metrics.get("prediction_sets")
    if not values:
        return None
    try:
        rule = SetRule(**{name: values[name] for name in SetRule.__dataclass_fields__})
        numbers = (rule.coverage, rule.threshold, rule.smoothing, rule.n_labels)
        if all(isinstance(one, int | float) and 0 <= one < math.inf for one in numbers):
            return rule
    except (LookupError, TypeError):
        pass
    raise ValueError("the model's rule for prediction sets must be four numbers, got others")
