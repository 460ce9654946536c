"""Class prior: how common the classes are in the graph, where its labels say otherwise.

Labels are often drawn equally from every class of a graph whose classes are not equally common. A
model trained on them gives rare classes too much. If nodes of a class look the same wherever they
are, the probability of class c is put right by the factor prior(c) / labels(c), then scaled to add
up to 1. The prior is given, or estimated from the model's own probabilities of nodes without labels
by expectation maximisation (Saerens, Latinne and Decaestecker, 2002).
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph
from graphconv.io.delimited import unreadable_as_value_error
from graphconv.io.sniffing import sniff_text_format
from graphconv.io.wording import did_you_mean, naming
from graphconv.training.fitted_model import FittedModel
from graphconv.training.scores import accuracy

Floats = npt.NDArray[np.float64]
Model = TypeVar("Model", bound=FittedModel)
ClassPrior = str | Mapping[Hashable, float] | None
_N_ROUNDS, _TOLERANCE = 500, 1e-6


def estimate_prior(probabilities: npt.NDArray[Any], of_labels: npt.NDArray[Any]) -> Floats:
    """How common classes are among nodes, by what a model says of them.

    Parameters
    ----------
    probabilities : array of shape (n_nodes, n_classes)
        Of nodes without labels, calibrated.
    of_labels : array of shape (n_classes,)
        How common classes are among the labels that the model was trained on.

    Examples
    --------
    Trained on equal numbers, met with nine of ten from the first class:

    >>> import numpy as np
    >>> from graphconv.training.class_prior import estimate_prior
    >>> given = np.repeat([[0.95, 0.05], [0.05, 0.95]], [86, 14], axis=0)
    >>> estimate_prior(given, np.array([0.5, 0.5])).round(2)
    array([0.9, 0.1])
    """
    given = np.asarray(probabilities, dtype=np.float64)
    start = np.asarray(of_labels, dtype=np.float64)
    prior = start.copy()
    for _ in range(_N_ROUNDS):
        factors = np.divide(prior, start, out=np.zeros_like(prior), where=start > 0)
        weighted = given * factors
        total = weighted.sum(axis=1, keepdims=True)
        before, prior = prior, (weighted / np.maximum(total, 1e-300)).mean(axis=0)
        if np.abs(prior - before).max() < _TOLERANCE:
            break
    return prior


def check_prior(prior: ClassPrior, graph: Graph) -> None:
    """Refuse a prior that is none, or not one of the graph's classes."""
    if prior is None or prior == "labels":
        return
    if graph.is_multilabel:
        raise ValueError(naming("{class_prior} is for one label per node, got several labels"))
    if not isinstance(prior, str):
        _given_prior(prior, graph)
    elif prior != "estimate":
        raise ValueError(
            naming("{class_prior} must be 'labels', 'estimate' or shares, got {!r}", prior)
        )


def with_class_prior(fitted: Model, prior: ClassPrior) -> Model:
    """The model with probabilities that suit a class prior.

    Parameters
    ----------
    fitted : FittedGCN or FittedMethod
        One label per node.
    prior : {"labels", "estimate"} or dict, optional
        "labels" and None leave the classes as common as the training labels make them, "estimate"
        finds out, a dict gives a share, or any number in proportion, for each class.
    """
    if prior is None or prior == "labels":
        return fitted
    graph = fitted.graph
    check_prior(prior, graph)
    counts = np.bincount(graph.labels[graph.train_index], minlength=graph.n_classes)
    of_labels = counts / counts.sum()
    if isinstance(prior, str):
        used = np.concatenate([graph.train_index, graph.validation_index])
        rest = np.setdiff1d(np.arange(graph.n_entities), used)
        given = fitted.ensemble_probabilities()
        _warn_if_uninformed(graph, given)
        wanted = estimate_prior(given[rest], of_labels)
    else:
        wanted = _given_prior(prior, graph)
    factors = np.divide(wanted, of_labels, out=np.ones_like(of_labels), where=of_labels > 0)
    weights = tuple(factors.tolist())
    known: Any = fitted
    changed = {"calibration": replace(fitted.calibration, class_factors=weights)}
    apart = getattr(fitted, "undescribed_calibration", None)
    if apart is not None:
        changed["undescribed_calibration"] = replace(apart, class_factors=weights)
    found: Model = replace(known, **changed)
    return found


def _warn_if_uninformed(graph: Graph, probabilities: npt.NDArray[Any]) -> None:
    """Say so where a model hardly tells classes apart: then nearly any prior explains the nodes."""
    index = graph.validation_index
    enough = (1 + 1 / graph.n_classes) / 2
    if len(index) and accuracy(graph.labels[index], probabilities[index]) < enough:
        warnings.warn(
            naming(
                "{class_prior} 'estimate' may be far off: on validation nodes the model is right "
                "in less than {:.0f} %",
                100 * enough,
            ),
            UserWarning,
            stacklevel=3,
        )


def _given_prior(prior: Mapping[Hashable, float], graph: Graph) -> Floats:
    number = {str(name): place for place, name in enumerate(graph.class_names)}
    shares = np.zeros(graph.n_classes)
    for name, share in prior.items():
        if str(name) not in number:
            hint = did_you_mean(str(name), number)
            raise ValueError(naming("{class_prior} must name classes, got {!r}{}", name, hint))
        if isinstance(share, bool) or not 0 <= share < np.inf:
            raise ValueError(
                naming("{class_prior} must be at least 0 for each class, got {!r}", share)
            )
        shares[number[str(name)]] = share
    missing = [name for name in number if name not in {str(one) for one in prior}]
    if missing or not shares.any():
        what = f"class {missing[0]!r} is missing" if missing else "all are 0"
        raise ValueError(naming("{class_prior} must give a share for each class, but {}", what))
    return np.asarray(shares / shares.sum())


def read_prior(path: Path) -> dict[Hashable, float]:
    """Shares of classes from a CSV file with a class and a number in each line.

    A first line whose second column is no number is taken for names of the columns.
    """
    with unreadable_as_value_error(str(path)):
        written = sniff_text_format(path)
        with path.open(newline="", encoding=written.encoding) as file:
            try:
                rows = [row for row in csv.reader(file, delimiter=written.delimiter) if row]
            except csv.Error as error:
                raise ValueError(f"{path} must be a CSV file: {error}") from None
    found: dict[Hashable, float] = {}
    for line, row in enumerate(rows, start=1):
        share = _number(row[1].replace(written.decimal, ".")) if len(row) == 2 else None
        if share is not None:
            found[row[0].strip()] = share
        elif line > 1 or len(row) != 2:
            raise ValueError(
                f"{path}, line {line}: must be a class and a number, got {','.join(row)!r}"
            )
    if not found:
        raise ValueError(f"{path} must hold a class and a number in each line, got none")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
