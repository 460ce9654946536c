"""How far the default and preset "auto" are from the best single method, on graphs of many kinds.

python -m scripts.measure_choice [FOLDER] [--splits N]    5 splits by default

FOLDER holds graphs as npz files: edges, labels, features as CSR arrays (features_data, ..._indices,
..._indptr, ..._shape) and perhaps train_masks, val_masks and test_masks, whose splits are then
used; else 20 training and 30 validation nodes of each class are drawn. Without a folder, generated
graphs alone are measured. The score is accuracy or, where one of two classes has at least three
times as many nodes as the other, ROC AUC. The best single method is the one with the highest mean:
nobody can know it beforehand. Finished runs are kept in runs/choice.jsonl.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from tests.generated_graphs import KINDS as GENERATED
from tests.generated_graphs import generate, split

from graphconv.estimators.baselines import make_estimator
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import accuracy
from graphconv.training.search import KINDS

LOG = Path("runs/choice.jsonl")
FIRST_SEED = 40  # lower ones were used to design the search
Shares = np.ndarray


def of_settings(preset: str, changes: dict[str, Any]) -> Callable[[Graph, int], Shares]:
    def run(graph: Graph, seed: int) -> Shares:
        return fit_gcn(
            graph, preset=preset, overrides=changes, seeds=[seed]
        ).ensemble_probabilities()

    return run


def of_baseline(name: str) -> Callable[[Graph, int], Shares]:
    return lambda graph, seed: make_estimator(name, random_state=seed).fit(graph).predict_proba()


METHODS: dict[str, Callable[[Graph, int], Shares]] = {
    "default": of_settings("robust", {}),
    "auto": of_settings("auto", {}),
    **{name: of_settings("robust", changes) for name, changes in KINDS},
    **{name: of_baseline(name) for name in ("label-propagation", "sgc")},
}
NARROW = {"boosted-trees": of_baseline("boosted-trees")}


def read(path: Path) -> tuple[Graph, Any]:
    arrays = np.load(path, allow_pickle=False)
    parts = (arrays[f"features_{name}"] for name in ("data", "indices", "indptr"))
    features = sp.csr_array(tuple(parts), shape=tuple(arrays["features_shape"]))
    source, target = arrays["edges"].T
    adjacency = adjacency_from_edges(source, target, n_nodes=len(arrays["labels"]))
    return Graph(adjacency, features, arrays["labels"], name=path.stem), arrays


def splits_of(path: Path, n_splits: int) -> Iterator[Graph]:
    graph, arrays = read(path)
    for number in range(n_splits):
        if "train_masks" in arrays.files:
            masks = (arrays[f"{name}_masks"][number] for name in ("train", "val", "test"))
            yield graph.with_split(*map(np.flatnonzero, masks))
            continue
        rng = np.random.default_rng(number)
        drawn = [rng.permutation(np.flatnonzero(graph.labels == c)) for c in range(graph.n_classes)]
        train = np.concatenate([nodes[:20] for nodes in drawn])
        validation = np.concatenate([nodes[20:50] for nodes in drawn])
        rest = np.setdiff1d(np.arange(graph.n_nodes), np.concatenate([train, validation]))
        yield graph.with_split(np.sort(train), np.sort(validation), rest)


def generated(kind: str, n_splits: int) -> Iterator[Graph]:
    for seed in range(FIRST_SEED, FIRST_SEED + n_splits):
        yield split(generate(kind, seed), seed, n_validation=100)


def score(graph: Graph, shares: Shares) -> float:
    labels, found = graph.labels[graph.test_index], shares[graph.test_index]
    counts = np.bincount(graph.labels[graph.labels >= 0])
    if len(counts) == 2 and counts.max() >= 3 * counts.min():
        return 100 * float(roc_auc_score(labels, found[:, 1]))
    return 100 * accuracy(labels, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = [] if given.folder is None else sorted(given.folder.glob("*.npz"))
    sources = {path.stem: (lambda path=path: splits_of(path, given.splits)) for path in paths}
    sources |= {kind: (lambda kind=kind: generated(kind, given.splits)) for kind in GENERATED}
    LOG.parent.mkdir(exist_ok=True)
    lines = LOG.read_text().splitlines() if LOG.exists() else []
    known = {(row["graph"], row["split"], row["method"]): row for row in map(json.loads, lines)}
    print(
        f"{'':28}{'default':>9}{'auto':>7}{'best':>7}  {'behind':>7}  seconds  best single method"
    )
    for name, make_splits in sources.items():
        rows: dict[str, list[dict[str, Any]]] = {}
        for number, graph in enumerate(make_splits()):
            is_narrow = graph.features is not None and graph.n_features <= 64
            for method, run in {**METHODS, **(NARROW if is_narrow else {})}.items():
                if graph.features is None and "perceptron" in method:
                    continue
                key = (name, number, method)
                if key not in known:
                    begin = time.process_time()
                    found = score(graph, run(graph, number))
                    seconds = time.process_time() - begin
                    row = dict(zip(("graph", "split", "method"), key, strict=True))
                    known[key] = {**row, "score": found, "seconds": seconds}
                    with LOG.open("a") as log:
                        log.write(json.dumps(known[key]) + "\n")
                rows.setdefault(method, []).append(known[key])
        means = {method: np.mean([row["score"] for row in own]) for method, own in rows.items()}
        single = {method: mean for method, mean in means.items() if method != "auto"}
        best = max(single, key=lambda method: single[method])
        seconds = np.mean([row["seconds"] for row in rows["auto"]])
        print(
            f"{name:28}{means['default']:9.1f}{means['auto']:7.1f}{means[best]:7.1f}  "
            f"{means[best] - means['auto']:7.1f}  {seconds:7.1f}  {best}",
            flush=True,
        )


if __name__ == "__main__":
    main()
