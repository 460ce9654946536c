"""Summary: what a training came to, as numbers for JSON and as a table for the eye."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.commands.console import Screen
from graphconv.graph import Graph
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.wording import count
from graphconv.training.calibration import Calibration, expected_calibration_error
from graphconv.training.scores import accuracy, micro_f1

FloatMatrix = npt.NDArray[np.floating[Any]]


def describe(graph: Graph) -> list[str]:
    """Two lines about a graph: its size, and how many labels there are for what."""
    features = "no features" if graph.features is None else count(graph.n_features, "feature")
    extras = [
        *(["weighted"] if graph.is_weighted else []),
        *(["directed"] if graph.directed else []),
        *([count(graph.n_isolated, "isolated node")] if graph.n_isolated else []),
        *(["several labels a node"] if graph.is_multilabel else []),
    ]
    parts = [
        count(graph.n_nodes, "node"),
        count(graph.n_edges, "edge"),
        features,
        f"{graph.n_classes} {'class' if graph.n_classes == 1 else 'classes'}",
        *extras,
    ]
    sizes = _sizes(graph)
    used = [f"{sizes[f'n_{name}']:,} {name}" for name in SPLIT_NAMES]
    spare = (
        graph.n_entities - sizes["n_unlabelled"] - sum(sizes[f"n_{name}"] for name in SPLIT_NAMES)
    )
    used += [f"{spare:,} in no split"] if spare else []
    lack = sizes["n_unlabelled"]
    end = f"; {count(lack, 'node')} to label" if lack else ""
    return [f"{graph.name}: {', '.join(parts)}", f"labels: {', '.join(used)}{end}"]


def about_isolated(graph: Graph) -> str:
    """A remark on nodes without neighbours, for who does not `describe` the graph; or nothing."""
    if not graph.n_isolated or not graph.adjacency.nnz:  # readers remark on a graph without edges
        return ""
    return f"{count(graph.n_isolated, 'node')} without an edge to another node"


def measure(graph: Graph, each: FloatMatrix, paper: float | None) -> dict[str, Any]:
    """Accuracies on the three splits.

    Parameters
    ----------
    graph : Graph
    each : array of shape (n_nodes, n_runs, n_classes)
        Probabilities from every run.
    paper : float or None
        The paper's test accuracy in percent, where it can be compared.

    Returns
    -------
    dict
        Means over runs; with several runs also their standard deviation, and the accuracy of
        their averaged probabilities as an ensemble. None where a split is empty.
    """
    results: dict[str, Any] = {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_edges,
        "n_features": None if graph.features is None else graph.n_features,
        "classes": list(graph.class_names),
        **_sizes(graph),
        "paper_accuracy": None if paper is None else paper / 100,
    }
    measures = {"accuracy": accuracy}
    if graph.is_multilabel:
        measures["micro_f1"] = micro_f1
    for name in SPLIT_NAMES:
        index = getattr(graph, f"{name}_index")
        for what, function in measures.items():
            key, labels = f"{name}_{what}", graph.labels[index]
            if len(index) == 0:
                results[key] = None
                continue
            runs = [function(labels, each[index, run]) for run in range(each.shape[1])]
            results[key] = float(np.mean(runs))
            if len(runs) > 1:
                results[f"{key}_std"] = float(np.std(runs))
                results[f"{key}_ensemble"] = function(labels, each[index].mean(axis=1))
    return results


def measure_calibration(graph: Graph, before: FloatMatrix, after: FloatMatrix) -> dict[str, Any]:
    """Expected calibration error on test nodes, before and after calibration.

    Parameters
    ----------
    graph : Graph
    before, after : arrays of shape (n_test_nodes, n_classes)
        Probabilities of the test nodes, averaged over runs.

    Returns
    -------
    dict
        None where there are no test nodes.
    """
    labels = graph.labels[graph.test_index]
    shares = {"uncalibrated": before, "calibrated": after}
    return {
        f"test_calibration_error_{name}": expected_calibration_error(values, labels)
        if len(labels)
        else None
        for name, values in shares.items()
    }


def show_results(results: dict[str, Any], screen: Screen) -> None:
    """The table of a training, and what it found out by itself."""
    if results.get("choice"):
        screen.note(f"chosen: {results['choice']}")
    if results.get("settings", {}).get("self_loop_weight") == "learn":
        screen.note(f"learned self-loop weight: {results['self_loop_weight']:.4f}")
    n_runs = len(results["seeds"])
    # Of several labels a node each is right or wrong for itself; F1 does not count what is empty.
    is_multilabel = "train_micro_f1" in results
    measures = {"accuracy": "accuracy" + " of pairs" * is_multilabel, "micro_f1": "micro F1"}
    rows = []
    for name in SPLIT_NAMES:
        for what, shown in measures.items():
            if results.get(f"{name}_{what}") is not None:
                paper = results["paper_accuracy"] if (name, what) == ("test", "accuracy") else None
                rows.append(
                    [
                        f"{name} {shown}",
                        _percent(results, f"{name}_{what}"),
                        "" if paper is None else f"{100 * paper:.1f} %",
                        f"{results[f'n_{name}']:,}",
                    ]
                )
    if results.get("test_accuracy_ensemble") is not None:
        averaged = f"{100 * results['test_accuracy_ensemble']:.1f} %"
        rows.append(["test accuracy, runs averaged", averaged, "", f"{results['n_test']:,}"])
    rows += _calibration_rows(results)
    if results.get("epochs") is not None:
        rows.append(["epochs", str(results["epochs"]), "", ""])
    rows.append(["seconds", f"{results['seconds']:.1f}", "", ""])
    columns = ["", "graphconv", "paper", "nodes"]
    if results["paper_accuracy"] is None:
        columns, rows = ["", "", "nodes"], [[row[0], row[1], row[3]] for row in rows]
    title = f"{results['model']} on {results['dataset']}, {count(n_runs, 'run')}"
    screen.table(title, columns, rows)


def _calibration_rows(results: dict[str, Any]) -> list[list[str]]:
    before = results.get("test_calibration_error_uncalibrated")
    if before is None:
        return []
    nodes = f"{results['n_test']:,}"
    after = results["test_calibration_error_calibrated"]
    rows = [["test calibration error", f"{100 * after:.1f} %", "", nodes]]
    if not Calibration(**results["calibration"]).changes_nothing:
        rows.append(["before calibration", f"{100 * before:.1f} %", "", nodes])
    return rows


def _percent(results: dict[str, Any], key: str) -> str:
    shown = f"{100 * results[key]:.1f} %"
    spread = results.get(f"{key}_std")
    return shown if spread is None else f"{shown} ± {100 * spread:.1f}"


def _sizes(graph: Graph) -> dict[str, int]:
    sizes = {f"n_{name}": len(getattr(graph, f"{name}_index")) for name in SPLIT_NAMES}
    return {**sizes, "n_unlabelled": graph.n_entities - int(graph.is_labelled.sum())}
