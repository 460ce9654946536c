"""Does `suggest` beat labelling at random? A simulation on the citation data sets.

    python scripts/simulate_suggest.py

A simulated user starts with two random labels of every class and asks, round after round, for as
many more as there are classes, until there are ten a class on average; either `suggest` names the
nodes or chance does. After each round a new GCN (preset "paper") is trained on all labels so far.
The user has no validation nodes: every label trains, for the fixed 200 epochs that graphconv takes
then. Labels come from the nodes that are neither validation nor test nodes of the public split;
accuracy is that on its 1,000 test nodes; the labels of its validation nodes are not used at all.

Runs are kept in measured/suggest.jsonl (not in the repository) as they finish, so that an
interrupted simulation goes on from there. The figures are written to measured/suggest.json, the
plot to docs/figures/suggest.png.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.commands.console import Screen
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.graph import Graph
from graphconv.paper.published import TITLES
from graphconv.paper.workers import run_all
from graphconv.results.suggest import suggest
from graphconv.training.fit import fit_gcn
from graphconv.training.fitted import FittedGCN
from graphconv.training.scores import accuracy

DATASETS = ("cora", "citeseer", "pubmed")
METHODS = ("suggest", "random")
N_SEEDS = 10
FIRST, LAST = 2, 10  # labels a class
ROOT = Path(__file__).resolve().parent.parent


def simulate(series: Series, graph: Graph) -> list[Record]:
    """A user's rounds for each seed: accuracy after each number of labels."""
    return [_rounds(graph, series.method, seed, series.settings) for seed in series.seeds]


def _rounds(graph: Graph, method: str, seed: int, settings: dict[str, Any]) -> Record:
    started = perf_counter()
    held_out = np.concatenate([graph.validation_index, graph.test_index])
    pool = np.setdiff1d(np.flatnonzero(graph.is_labelled), held_out)
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [
            rng.permutation(pool[graph.labels[pool] == number])[: settings["first"]]
            for number in range(graph.n_classes)
        ]
    )
    n_labels, accuracies = [], []
    while True:
        known = graph.with_split(np.sort(train), (), graph.test_index)
        fitted = fit_gcn(known, preset="paper", seeds=[seed], validation_fraction=0)
        shares = fitted.probabilities().mean(axis=1)[graph.test_index]
        n_labels.append(len(train))
        accuracies.append(100 * accuracy(graph.labels[graph.test_index], shares))
        if len(train) >= settings["last"] * graph.n_classes:
            break
        rest = np.setdiff1d(pool, train)
        train = np.concatenate([train, _next_labels(fitted, method, rest, rng)])
    return {
        "seed": seed,
        "n_labels": n_labels,
        "accuracy": accuracies,
        "seconds": perf_counter() - started,
    }


def _next_labels(
    fitted: FittedGCN, method: str, rest: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    graph = fitted.graph
    if method == "random":
        return rng.choice(rest, graph.n_classes, replace=False)
    chosen = suggest(fitted, graph.n_classes, candidates=graph.node_ids[rest].tolist())
    position = {node: place for place, node in enumerate(graph.node_ids.tolist())}
    return np.array([position[one.node] for one in chosen])


def summarise(log: RunLog, wanted: list[Series]) -> dict[str, Any]:
    """Means, standard errors and paired differences for each data set."""
    result: dict[str, Any] = {"seeds": N_SEEDS, "datasets": {}}
    curves = {
        (one.dataset, one.method): np.array([run["accuracy"] for run in log.records(one)])
        for one in wanted
    }
    for dataset in dict.fromkeys(one.dataset for one in wanted):
        runs = log.records(next(one for one in wanted if one.dataset == dataset))
        entry: dict[str, Any] = {"n_labels": runs[0]["n_labels"]}
        for method in METHODS:
            values = curves[dataset, method]
            entry[method] = {
                "mean": values.mean(axis=0).round(2).tolist(),
                "error": _error(values).round(2).tolist(),
            }
        # Over all rounds after the first, which both methods share.
        gain = (curves[dataset, "suggest"] - curves[dataset, "random"])[:, 1:].mean(axis=1)
        entry["gain"] = {
            "mean": round(float(gain.mean()), 2),
            "error": round(float(_error(gain)), 2),
        }
        result["datasets"][dataset] = entry
    return result


def _error(values: npt.NDArray[np.float64]) -> Any:
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def draw(result: dict[str, Any], path: Path) -> None:
    """Accuracy against the number of labels, a panel for each data set."""
    from graphconv.report.figures import COLOURS, new_figure, write_figure

    looks = {
        "suggest": (COLOURS[0], "o", "-", "labels that graphconv suggest asked for"),
        "random": (COLOURS[1], "s", "--", "random labels"),
    }
    figure, axes = new_figure(1, len(result["datasets"]), (13, 4.6))
    for panel, (dataset, entry) in zip(axes[0], result["datasets"].items(), strict=True):
        for method, (colour, marker, line, name) in looks.items():
            mean, error = (np.array(entry[method][key]) for key in ("mean", "error"))
            panel.plot(
                entry["n_labels"], mean, line, color=colour, marker=marker, markersize=5, label=name
            )
            panel.fill_between(
                entry["n_labels"], mean - error, mean + error, color=colour, alpha=0.2, linewidth=0
            )
        panel.set_title(TITLES.get(dataset, dataset))
        panel.set_xlabel("labelled nodes")
        panel.set_xticks(entry["n_labels"][::2])
        panel.grid(alpha=0.3)
    axes[0][0].set_ylabel("test accuracy (%)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(
        f"What to label next: from {FIRST} to {LAST} labels a class, mean of {result['seeds']} "
        "starts, band = standard error"
    )
    write_figure(figure, path)


def main() -> None:
    """Simulate what is missing, then write the figures and the plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=ROOT / "measured", help="folder to write to")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    wanted = [
        Series(
            experiment="suggest",
            dataset=dataset,
            method=method,
            task=simulate,
            settings={"method": method, "first": FIRST, "last": LAST},
            seeds=tuple(range(N_SEEDS)),
        )
        for dataset in DATASETS
        for method in METHODS
    ]
    with RunLog(arguments.output / "suggest.jsonl") as log:
        with Screen().showing() as progress:
            failed = run_all(wanted, log, progress, n_workers=arguments.workers)
        if failed:
            raise SystemExit(f"failed: {', '.join(failed.values())}")
        result = summarise(log, wanted)
    (arguments.output / "suggest.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, ROOT / "docs" / "figures" / "suggest.png")
    for dataset, entry in result["datasets"].items():
        gain = entry["gain"]
        print(f"{dataset:10s} suggest - random: {gain['mean']:+.2f} ± {gain['error']:.2f} points")


if __name__ == "__main__":
    main()
