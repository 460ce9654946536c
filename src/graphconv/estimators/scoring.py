"""Tasks: a series and a graph enter, a record of each seed's run leaves."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from graphconv.estimators.baselines import make_estimator
from graphconv.estimators.runs import Record, Series
from graphconv.graph import Graph, IntArray
from graphconv.graph.splits import random_split
from graphconv.io.datasets import load_dataset
from graphconv.models.settings import Settings
from graphconv.training.fit import Watch, fit_gcn
from graphconv.training.fitted import FittedGCN
from graphconv.training.loop import TrainingState
from graphconv.training.scores import accuracy

# A guess at the seconds of one run of the paper's GCN on one core, for the time left.
SECONDS = {"cora": 0.2, "citeseer": 0.2, "pubmed": 0.5, "nell": 8.0, "karate": 0.05}


def run_gcn(series: Series, graph: Graph) -> list[Record]:
    """Train the GCN of `series.settings["gcn"]` on the graph's own split, all seeds at once."""
    return gcn_records(graph, series.settings["gcn"], series.seeds)


def run_gcn_alone(series: Series, graph: Graph) -> list[Record]:
    """The same, to see how long one training takes that has the machine to itself."""
    # The first training of a process also pays for loading libraries: not what is measured here.
    fit_gcn(graph, preset="paper", overrides={**series.settings["gcn"], "max_epochs": 2})
    return gcn_records(graph, series.settings["gcn"], series.seeds)


def run_gcn_learning_self_loops(series: Series, graph: Graph) -> list[Record]:
    """Train with a learned weight of the self-loops, seed by seed, and note what it became."""
    records = []
    for seed in series.seeds:
        started = perf_counter()
        fitted, epochs = fit_replicas(graph, series.settings["gcn"], [seed])
        seconds = perf_counter() - started
        shares = fitted.probabilities()[:, 0]
        record = run_record(graph, shares, seed, int(epochs[0]), seconds)
        records.append({**record, "self_loop_weight": fitted.self_loop_weight})
    return records


def run_gcn_on_random_split(series: Series, graph: Graph) -> list[Record]:
    """Train on the random split that `series.settings["split"]` gives the sizes and the seed of."""
    split = random_split(graph, **series.settings["split"])
    return gcn_records(split, series.settings["gcn"], series.seeds)


def run_baseline_alone(series: Series, graph: Graph) -> list[Record]:
    """The same as `run_baseline`, to see how long one takes that has the machine to itself."""
    make_estimator(series.settings["method"], random_state=0).fit(load_dataset("karate"))  # warm up
    return run_baseline(series, graph)


def run_baseline(series: Series, graph: Graph) -> list[Record]:
    """Fit the estimator `series.settings["method"]` with its parameters, seed by seed."""
    records = []
    for seed in series.seeds:
        estimator = make_estimator(
            series.settings["method"], random_state=seed, **series.settings["params"]
        )
        started = perf_counter()
        estimator.fit(graph)
        seconds = perf_counter() - started
        shares = estimator.predict_proba()
        epochs = getattr(estimator, "n_iter_", None)
        records.append(run_record(graph, shares, seed, epochs, seconds))
    return records


def gcn_records(graph: Graph, settings: dict[str, Any], seeds: Sequence[int]) -> list[Record]:
    """Train replicas side by side; each is charged its share of the time."""
    started = perf_counter()
    fitted, epochs = fit_replicas(graph, settings, seeds)
    seconds = (perf_counter() - started) / len(seeds)
    shares = fitted.probabilities()
    return [
        run_record(graph, shares[:, replica], seed, int(epochs[replica]), seconds)
        for replica, seed in enumerate(seeds)
    ]


def fit_replicas(
    graph: Graph, settings: dict[str, Any], seeds: Sequence[int]
) -> tuple[FittedGCN, IntArray]:
    """A GCN for each seed, and how many epochs each of them ran."""
    states: list[TrainingState] = []
    overrides = Settings.from_json(settings).to_json()
    fitted = fit_gcn(
        graph,
        preset="paper",
        overrides=overrides,
        seeds=seeds,
        validation_fraction=0,
        calibrate=False,
        watch=Watch(on_end=states.append),
    )
    return fitted, states[0].stopped_at


def run_record(graph: Graph, shares: Any, seed: int, epochs: int | None, seconds: float) -> Record:
    """What a run comes to: accuracy in percent on each split's nodes, epochs and seconds."""

    def percent(index: IntArray) -> float:
        return 100 * accuracy(graph.labels[index], shares[index])

    return {
        "seed": seed,
        "test_accuracy": percent(graph.test_index),
        "validation_accuracy": percent(graph.validation_index),
        "train_accuracy": percent(graph.train_index),
        "epochs": epochs,
        "seconds": seconds,
    }
