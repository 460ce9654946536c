"""Choose the baselines' hyper-parameters on validation nodes: what src/.../settings.py holds.

    python scripts/tune_baselines.py --rows ica sgc --datasets cora --log tuning.jsonl

A row is one of table 2: a method, or a variant of one. One question after the other is settled by
the mean validation accuracy of a few seeds, starting from the estimator's defaults. Labels of test
nodes are removed before anything is fitted, and for rows that end in "-inductive" the nodes
themselves. Every trial is appended to the log and is not repeated when the search is started again
with it; at the end the choices are printed as Python. measured/tuning.jsonl has all trials, and a
test holds that they lead to the settings.
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
from graphconv.estimators.baselines import make_estimator
from graphconv.estimators.baselines.settings import CHOSEN, VARIANTS
from graphconv.estimators.scoring import inductive_view
from graphconv.training.scores import accuracy

Answer = dict[str, Any]


def grid(**values: list[Any]) -> list[Answer]:
    """All combinations, one dict each."""
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


MANIFOLD = [
    grid(smoothness=[0.1, 0.3, 1.0, 3.0, 10.0], weight_decay=[1e-4, 1e-3, 3e-3, 1e-2, 3e-2])
]
SEMI_EMBEDDING = [
    grid(layer=["output", "hidden"], smoothness=[0.3, 1.0]),
    grid(margin=[0.5, 1.0, 2.0, 4.0]),
    grid(dropout=[0.5, 0.8]),
]
# As published: hidden layers joined, contexts from labels as well. The simpler variant, in which
# features and embedding each vote, is a row of its own.
PLANETOID = [grid(dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3]), grid(n_label_pairs=[20, 200])]
SIMPLE_PLANETOID = [
    grid(joined=[False], n_label_pairs=[0], dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3]),
    grid(window=[10, 3]),
]
QUESTIONS: dict[str, list[list[Answer]]] = {
    "label-propagation": [grid(class_mass=[True], n_steps=[None, 20, 100])],
    "label-propagation-plain": [grid(class_mass=[False], n_steps=[None, 20, 100])],
    "manifold": MANIFOLD,
    "manifold-inductive": MANIFOLD,
    "semi-embedding": SEMI_EMBEDDING,
    "semi-embedding-inductive": SEMI_EMBEDDING,
    "deepwalk": [grid(n_negatives=[0], window=[5, 10]), grid(C=[0.03, 0.1, 0.3])],
    "deepwalk-noise": [grid(window=[5, 10]), grid(C=[0.03, 0.1, 0.3])],
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
    "planetoid-i-inductive": PLANETOID,
    "planetoid-t-simple": SIMPLE_PLANETOID,
    "planetoid-i-simple": SIMPLE_PLANETOID,
    "mlp": [grid(dropout=[0.5, 0.8], weight_decay=[5e-4, 5e-3])],
    "sgc": [grid(C=[1.0, 3.0, 10.0, 30.0, 100.0])],
}
# NELL is large: fewer answers, from a start that is quicker than the defaults or suits it better.
NELL_MANIFOLD = [grid(tol=[1e-4], smoothness=[0.01, 0.1, 1.0], weight_decay=[1e-3])]
NELL_SEMI_EMBEDDING = [
    grid(layer=["hidden"], dropout=[0.1], weight_decay=[3e-4, 1e-3]),
    grid(layer=["hidden", "output"], smoothness=[1.0, 3.0]),
    grid(margin=[1.0, 4.0]),
]
NELL_WALKS_T = [
    {"n_starts": 1000, "walk_length": 4, "window": 4, "n_graph_steps": 300},
    {"n_starts": 500, "window": 3, "n_graph_steps": 300},
]
NELL_WALKS_I: list[Answer] = [{}, {"n_starts": 500, "walk_length": 4, "window": 4}]
SIMPLE: Answer = {"joined": False, "n_label_pairs": 0}
NELL_QUESTIONS: dict[str, list[list[Answer]]] = {
    "label-propagation": [grid(class_mass=[True], n_steps=[20, 5, 100])],
    "label-propagation-plain": [grid(class_mass=[False], n_steps=[20, 5, 100])],
    "manifold": NELL_MANIFOLD,
    "manifold-inductive": NELL_MANIFOLD,
    "semi-embedding": NELL_SEMI_EMBEDDING,
    "semi-embedding-inductive": NELL_SEMI_EMBEDDING,
    "deepwalk": [
        grid(n_walks=[4], walk_length=[10], n_negatives=[0], C=[100.0], learning_rate=[0.025, 0.1]),
    ],
    "deepwalk-noise": [
        grid(n_walks=[4], walk_length=[10], n_negatives=[1], C=[100.0], learning_rate=[0.1, 0.2]),
    ],
    "ica": [grid(aggregation=["proportion", "count"], C=[1.0, 10.0, 100.0])],
    # First the schedule of the authors' code: contexts, then classes alone.
    "planetoid-t": [
        [{"graph_share": 0.0, "max_epochs": 600, **walks} for walks in NELL_WALKS_T],
        grid(dropout=[0.2, 0.5]),
        grid(graph_share=[0.0, 0.2]),
    ],
    "planetoid-i": [NELL_WALKS_I, grid(max_epochs=[300, 600])],
    "planetoid-i-inductive": [NELL_WALKS_I, grid(max_epochs=[300, 600])],
    "planetoid-t-simple": [[{**SIMPLE, **walks} for walks in NELL_WALKS_T]],
    "planetoid-i-simple": [[{**SIMPLE, **walks} for walks in NELL_WALKS_I]],
    "mlp": [grid(dropout=[0.5, 0.8])],
    "sgc": [grid(C=[1.0, 10.0, 100.0, 1000.0])],
}
# Stopped after two of its four trials and 138 processor seconds; no run of it is published.
NOT_SEARCHED = {("deepwalk-noise", "pubmed")}
# These give the same result for every seed.
DETERMINISTIC = ("label-propagation", "manifold", "sgc")


def usual_runs(method: str, dataset: str) -> int:
    """Seeds of a trial: fewer where a run takes long."""
    if method in DETERMINISTIC or method == "deepwalk" or dataset == "nell":
        return 1
    if method == "ica":
        return 5
    return 1 if dataset == "pubmed" and method.startswith("planetoid") else 2


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


def choose(row: str, dataset: str, graph: Graph, trials: Trials) -> Answer:
    """Settings that differ from the defaults and did best on validation nodes.

    `graph` is what the row may see of the data set: see `shown_graph`.
    """
    method = method_of(row)
    best: Answer = {}
    for question in (NELL_QUESTIONS if dataset == "nell" else QUESTIONS)[row]:
        candidates = [{**best, **answer} for answer in question]
        best = max(
            candidates,
            key=lambda tried: trials.accuracy(
                method, graph, tried, usual_runs(method, dataset), protocol_of(row)
            ),
        )
    return changed(method, best)


def method_of(row: str) -> str:
    """The estimator that a row of table 2 is about."""
    return VARIANTS[row][0] if row in VARIANTS else row


def protocol_of(row: str) -> str:
    return "inductive" if row.endswith("-inductive") else "transductive"


def changed(method: str, settings: Answer) -> Answer:
    """The settings that are not the estimator's defaults."""
    defaults = make_estimator(method).get_params()
    return {name: value for name, value in settings.items() if value != defaults[name]}


def main() -> None:
    rows = [*CHOSEN, *VARIANTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=rows, default=rows)
    parser.add_argument("--datasets", nargs="+", default=["citeseer", "cora", "pubmed"])
    parser.add_argument("--log", type=Path, default=Path("tuning.jsonl"))
    options = parser.parse_args()
    trials = Trials(options.log)
    chosen: dict[str, dict[str, Answer]] = {}
    for row in options.rows:
        for dataset in options.datasets:
            graph = shown_graph(dataset, protocol_of(row))
            chosen.setdefault(row, {})[dataset] = choose(row, dataset, graph, trials)
    pprint.pprint(chosen, width=100)


if __name__ == "__main__":
    main()
