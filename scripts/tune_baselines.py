"""Choose the baselines' hyper-parameters on validation nodes: what src/.../settings.py holds.

    python scripts/tune_baselines.py --methods ica sgc --datasets cora --log tuning.jsonl

One question after the other is settled by the mean validation accuracy of a few seeds, starting
from the estimator's defaults. Labels of test nodes are removed before anything is fitted. Every
trial is appended to the log and is not repeated when the search is started again with it; at the
end the choices are printed as Python.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pprint
import time
from pathlib import Path
from typing import Any

import numpy as np

from graphconv import Graph, load_dataset
from graphconv.estimators.baselines import BASELINES, make_estimator
from graphconv.estimators.scoring import inductive_view
from graphconv.training.scores import accuracy

Answer = dict[str, Any]


def grid(**values: list[Any]) -> list[Answer]:
    """All combinations, one dict each."""
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


# As published: hidden layers joined, contexts from labels as well. The simpler variant, in which
# features and embedding each vote, is asked about separately.
PLANETOID = [grid(dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3]), grid(n_label_pairs=[20, 200])]
SIMPLE_PLANETOID = [
    grid(joined=[False], n_label_pairs=[0], dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3]),
    grid(window=[10, 3]),
]
QUESTIONS: dict[str, list[list[Answer]]] = {
    "label-propagation": [grid(class_mass=[True, False], n_steps=[None, 20, 100])],
    "manifold": [
        grid(smoothness=[0.1, 0.3, 1.0, 3.0, 10.0], weight_decay=[1e-4, 1e-3, 3e-3, 1e-2, 3e-2])
    ],
    "semi-embedding": [
        grid(layer=["output", "hidden"], smoothness=[0.3, 1.0]),
        grid(margin=[0.5, 1.0, 2.0, 4.0]),
        grid(dropout=[0.5, 0.8]),
    ],
    "deepwalk": [grid(n_negatives=[0], window=[5, 10]), grid(C=[0.03, 0.1, 0.3])],
    # The paper's own questions: the L2 parameter and the aggregation operator.
    "ica": [
        grid(
            aggregation=["proportion", "count"],
            scaling=["none"],
            C=[0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
        )
    ],
    "planetoid-t": PLANETOID,
    "planetoid-i": PLANETOID,
    "mlp": [grid(dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3])],
    "sgc": [grid(C=[1.0, 3.0, 10.0, 30.0, 100.0])],
}
# NELL is large: fewer answers, from a start that is quicker than the defaults or suits it better.
NELL_QUESTIONS: dict[str, list[list[Answer]]] = {
    "label-propagation": [grid(n_steps=[None, 20, 5])],
    "manifold": [grid(tol=[1e-4], smoothness=[0.01, 0.1, 1.0], weight_decay=[1e-3])],
    "semi-embedding": [
        grid(layer=["hidden"], dropout=[0.1], weight_decay=[3e-4, 1e-3, 2e-3]),
        grid(layer=["hidden", "output"], smoothness=[1.0, 3.0, 10.0]),
        grid(margin=[1.0, 4.0]),
        grid(dropout=[0.1, 0.5]),
    ],
    "deepwalk": [
        grid(n_walks=[4], walk_length=[10], n_negatives=[0], C=[100.0], learning_rate=[0.025, 0.1]),
    ],
    "ica": [grid(aggregation=["proportion", "count"], C=[1.0, 10.0, 100.0])],
    "planetoid-t": [
        [
            {"n_label_pairs": 0, **walks}
            for walks in (
                {"n_starts": 2000, "walk_length": 3, "window": 3},
                {"n_starts": 1000, "walk_length": 4, "window": 4, "n_graph_steps": 300},
                {"n_starts": 500, "window": 3, "n_graph_steps": 300},
            )
        ],
    ],
    "planetoid-i": [
        [
            {"n_label_pairs": 0, **walks}
            for walks in ({}, {"n_starts": 500, "walk_length": 4, "window": 4})
        ],
    ],
    "sgc": [grid(C=[1.0, 10.0, 100.0, 1000.0])],
}
# These give the same result for every seed; the others are run so often unless --runs says more.
DETERMINISTIC = ("label-propagation", "manifold", "sgc")
N_RUNS = {"ica": 5, "deepwalk": 1}


def without_test_labels(graph: Graph) -> Graph:
    """The graph as a search may see it: labels of training and validation nodes alone."""
    shown = np.concatenate([graph.train_index, graph.validation_index])
    labels = np.full(graph.n_nodes, -1)
    labels[shown] = graph.labels[shown]
    return Graph(
        graph.adjacency,
        graph.features,
        labels,
        class_names=graph.class_names,
        train_index=graph.train_index,
        validation_index=graph.validation_index,
        directed=graph.directed,
        name=graph.name,
    )


def shown_graph(name: str, protocol: str) -> Graph:
    """What a search may see: no label of a test node, and with "inductive" no test node at all."""
    graph = load_dataset(name)
    return inductive_view(graph) if protocol == "inductive" else without_test_labels(graph)


class Trials:
    """Validation accuracies of settings, kept in a log of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.is_file() else []
        self.known = {self._key(trial): trial for trial in map(json.loads, lines)}

    @staticmethod
    def _key(trial: dict[str, Any]) -> str:
        names = ("method", "dataset", "protocol", "settings", "n_runs")
        return json.dumps([trial[name] for name in names], sort_keys=True)

    def accuracy(
        self, method: str, graph: Graph, settings: Answer, n_runs: int, protocol: str
    ) -> float:
        trial: dict[str, Any] = {"method": method, "dataset": graph.name, "protocol": protocol}
        trial |= {"settings": changed(method, settings), "n_runs": n_runs}
        key = self._key(trial)
        if key not in self.known:
            started = time.perf_counter()
            nodes = graph.validation_index
            found = [
                accuracy(
                    graph.labels[nodes],
                    make_estimator(method, random_state=seed, **settings)
                    .fit(graph)
                    .predict_proba()[nodes],
                )
                for seed in range(n_runs)
            ]
            trial["validation_accuracy"] = float(np.mean(found))
            trial["spread"] = float(np.std(found, ddof=1)) if n_runs > 1 else None
            trial["seconds"] = round((time.perf_counter() - started) / n_runs, 2)
            with self.path.open("a") as log:
                log.write(json.dumps(trial) + "\n")
            print(json.dumps(trial), flush=True)
            self.known[key] = trial
        return float(self.known[key]["validation_accuracy"])


def choose(
    method: str, graph: Graph, trials: Trials, n_runs: int, protocol: str = "transductive"
) -> Answer:
    """Settings that differ from the defaults and did best on validation nodes.

    `graph` is what the protocol shows: see `shown_graph`.
    """
    best: Answer = {}
    questions = NELL_QUESTIONS if graph.name == "nell" else QUESTIONS
    for question in questions.get(method, []):
        candidates = [{**best, **answer} for answer in question]
        best = max(
            candidates, key=lambda tried: trials.accuracy(method, graph, tried, n_runs, protocol)
        )
    return changed(method, best)


def changed(method: str, settings: Answer) -> Answer:
    """The settings that are not the estimator's defaults."""
    defaults = make_estimator(method).get_params()
    return {name: value for name, value in settings.items() if value != defaults[name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=list(BASELINES), default=list(BASELINES))
    parser.add_argument("--datasets", nargs="+", default=["citeseer", "cora", "pubmed"])
    parser.add_argument("--log", type=Path, default=Path("tuning.jsonl"))
    parser.add_argument("--protocol", choices=["transductive", "inductive"], default="transductive")
    parser.add_argument("--runs", type=int, help="seeds of a method that is random")
    options = parser.parse_args()
    trials = Trials(options.log)
    chosen: dict[str, dict[str, Answer]] = {}
    for method in options.methods:
        for name in options.datasets:
            graph = shown_graph(name, options.protocol)
            n_runs = 1 if method in DETERMINISTIC else options.runs or N_RUNS.get(method, 2)
            chosen.setdefault(method, {})[name] = choose(
                method, graph, trials, n_runs, options.protocol
            )
    pprint.pprint(chosen, width=100)


if __name__ == "__main__":
    main()
