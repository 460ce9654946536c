"""Summary: what a training came to, as numbers for JSON and as a table for the eye."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.commands.console import Screen
from graphconv.graph import Graph
from graphconv.graph.names import SPLIT_NAMES
from graphconv.io.wording import count
from graphconv.training.calibration import Calibration, expected_calibration_error
from graphconv.training.measures import MEASURES
from graphconv.training.scores import accuracy, all_labels_right, macro_f1, micro_f1

FloatMatrix = npt.NDArray[np.floating[Any]]
# What several labels per node are measured by: a node's labels can be right in part.
MEASURES_OF_SEVERAL: dict[str, Callable[[npt.NDArray[np.int64], FloatMatrix], float]] = {
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "all_labels_right": all_labels_right,
    "pair_accuracy": accuracy,
}
_IN_WORDS = {
    "accuracy": "accuracy",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "all_labels_right": "nodes with all labels right",
    "pair_accuracy": "(node, class) pairs right",
}
# Figures that flatter: what decided, or taught.
_USED = {"validation": ", used in training", "train": ", learned from"}


def describe(graph: Graph) -> list[str]:
    """Two lines about a graph: its size, and how many labels there are for what."""
    features = "no features" if graph.features is None else count(graph.n_features, "feature")
    extras = [
        *(["weighted"] if graph.is_weighted else []),
        *(["directed"] if graph.directed else []),
        *([count(graph.n_isolated, "isolated node")] if graph.n_isolated else []),
        *(["several labels per node"] if graph.is_multilabel else []),
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
    """Accuracies on the three splits; of several labels per node what each is named for.

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
    measures = MEASURES_OF_SEVERAL if graph.is_multilabel else {"accuracy": accuracy}
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
    if results.get("settings", {}).get("self_loop_weight") == "learn":
        screen.note(f"learned self-loop weight: {results['self_loop_weight']:.4f}")
    n_runs = len(results["seeds"])
    # First what tells how good the labels are; last what was learned from.
    rows = _estimate_rows(results)
    for name in ("test", "validation", "train"):
        for what, shown in _IN_WORDS.items():
            is_detail = what in ("all_labels_right", "pair_accuracy") and name != "test"
            if results.get(f"{name}_{what}") is not None and not is_detail:
                key, n_nodes = f"{name}_{what}", f"{results[f'n_{name}']:,}"
                of_what = _USED.get(name, "")
                if name == "test" and n_runs > 1:  # predictions are those of the runs averaged
                    rows.append(
                        [f"test {shown}", _with_interval(results, key, "_ensemble"), "", n_nodes]
                    )
                    if what not in ("accuracy", "micro_f1"):
                        continue
                    of_what = " of a single run"
                paper = results["paper_accuracy"] if (name, what) == ("test", "accuracy") else None
                rows.append(
                    [
                        f"{name} {shown}{of_what}",
                        _percent(results, key),
                        "" if paper is None else f"{100 * paper:.1f} %",
                        n_nodes,
                    ]
                )
    rows += _calibration_rows(results)
    if results.get("epochs") is not None:
        rows.append(["epochs", str(results["epochs"]), "", ""])
    rows.append(["seconds", f"{results['seconds']:.1f}", "", ""])
    columns = ["", "graphconv", "paper", "nodes"]
    if results["paper_accuracy"] is None:
        columns, rows = ["", "", "nodes"], [[row[0], row[1], row[3]] for row in rows]
    title = f"{results['method']} on {results['dataset']}, {count(n_runs, 'run')}"
    screen.table(title, columns, rows)


def _estimate_rows(results: dict[str, Any]) -> list[list[str]]:
    """How often labels are right where no single row says so; and sets, where there are any."""
    rows = []
    found = results.get("accuracy")
    metric = results.get("metric")
    if metric is not None:
        what = MEASURES[metric["name"]].words
        shown = f"test {what}" if metric["from"] == "test nodes" else f"{what}, by {metric['from']}"
        value = f"{100 * metric['share']:.1f} %{_interval(metric)}"
        rows.append([shown, value, "", f"{metric['n_nodes']:,}"])
    if found is not None and found["from"] != "test nodes":
        what = "nodes with all labels right" if "train_micro_f1" in results else "accuracy"
        value = f"{100 * found['share']:.1f} %{_interval(found)}"
        rows.append([f"{what}, by {found['from']}", value, "", f"{found['n_nodes']:,}"])
    sets = results.get("prediction_sets")
    if sets is not None:
        name = f"classes in a set, {100 * sets['coverage']:g} % coverage"
        value = f"{sets['mean_size']:.2f} (one: {100 * sets['singletons']:.0f} %)"
        rows.append([name, value, "", f"{results['n_nodes']:,}"])
    return rows


def _interval(found: dict[str, Any]) -> str:
    return f" ({100 * found['low']:.1f} to {100 * found['high']:.1f})"


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
    spread = results.get(f"{key}_std")
    if spread is not None:
        return f"{100 * results[key]:.1f} % ± {100 * spread:.1f}"
    return _with_interval(results, key)


def _with_interval(results: dict[str, Any], key: str, of_runs: str = "") -> str:
    shown = f"{100 * results[f'{key}{of_runs}']:.1f} %"
    is_headline = key in ("test_accuracy", "test_all_labels_right")
    if is_headline and results.get("accuracy") is not None:
        return f"{shown}{_interval(results['accuracy'])}"
    return shown


def _sizes(graph: Graph) -> dict[str, int]:
    sizes = {f"n_{name}": len(getattr(graph, f"{name}_index")) for name in SPLIT_NAMES}
    return {**sizes, "n_unlabelled": graph.n_entities - int(graph.is_labelled.sum())}
