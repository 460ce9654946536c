"""Tasks: a series and a graph enter, a record of each seed's run leaves."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

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
        probabilities = fitted.probabilities()[:, 0]
        record = run_record(graph, probabilities, seed, int(epochs[0]), seconds)
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
    """Fit the estimator `series.settings["method"]` with its parameters, seed by seed.

    With the protocol "inductive" it is fitted to `inductive_view`, and labels the graph afterwards.
    """
    records = []
    is_inductive = series.settings.get("protocol") == "inductive"
    shown = inductive_view(graph) if is_inductive else graph
    for seed in series.seeds:
        estimator = make_estimator(
            series.settings["method"], random_state=seed, **series.settings["params"]
        )
        started = perf_counter()
        estimator.fit(shown)
        seconds = perf_counter() - started
        probabilities = estimator.predict_proba(graph)
        epochs = getattr(estimator, "n_iter_", None)
        records.append(run_record(graph, probabilities, seed, epochs, seconds))
    return records


def inductive_view(graph: Graph) -> Graph:
    """The graph as a method may see it that is to label nodes it has never met.

    Test nodes are left out with their edges. Validation nodes keep their features and lose their
    edges, so that they stand for test nodes wherever something is chosen by them.

    Examples
    --------
    >>> from graphconv import Graph
    >>> from graphconv.estimators.scoring import inductive_view
    >>> path = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    >>> splits = {"train_index": [3, 2], "validation_index": [1], "test_index": [0]}
    >>> view = inductive_view(Graph(path, labels=[0, 1, 1, 0], **splits))
    >>> view.adjacency.toarray().tolist(), view.labels, view.train_index
    ([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], array([1, 1, 0]), array([2, 1]))
    """
    kept = np.setdiff1d(np.arange(graph.n_nodes), graph.test_index)
    place = np.full(graph.n_nodes, -1)
    place[kept] = np.arange(len(kept))
    watched = np.isin(kept, graph.validation_index)
    edges = graph.adjacency[kept][:, kept].tocoo()
    is_shown = ~(watched[edges.row] | watched[edges.col])
    return Graph(
        sp.csr_array(
            (edges.data[is_shown], (edges.row[is_shown], edges.col[is_shown])), shape=edges.shape
        ),
        None if graph.features is None else graph.features[kept],
        graph.labels[kept],
        class_names=graph.class_names,
        train_index=place[graph.train_index],
        validation_index=place[graph.validation_index],
        directed=graph.directed,
        name=graph.name,
    )


def gcn_records(graph: Graph, settings: dict[str, Any], seeds: Sequence[int]) -> list[Record]:
    """Train replicas side by side; each is charged its share of the time."""
    started = perf_counter()
    fitted, epochs = fit_replicas(graph, settings, seeds)
    seconds = (perf_counter() - started) / len(seeds)
    probabilities = fitted.probabilities()
    return [
        run_record(graph, probabilities[:, replica], seed, int(epochs[replica]), seconds)
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


def run_record(
    graph: Graph, probabilities: Any, seed: int, epochs: int | None, seconds: float
) -> Record:
    """What a run comes to: accuracy in percent on each split's nodes, epochs and seconds."""

    def percent(index: IntArray) -> float:
        return 100 * accuracy(graph.labels[index], probabilities[index])

    return {
        "seed": seed,
        "test_accuracy": percent(graph.test_index),
        "validation_accuracy": percent(graph.validation_index),
        "train_accuracy": percent(graph.train_index),
        "epochs": epochs,
        "seconds": seconds,
    }
