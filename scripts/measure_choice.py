"""How far the default and preset "auto" are from the best single method, on graphs of many kinds.

python -m scripts.measure_choice [FOLDER] [--splits N]

FOLDER, or else the environment's GRAPHCONV_GRAPHS, holds graphs as npz files: edges, labels,
features as CSR arrays (features_data, ..._indices, ..._indptr, ..._shape) and perhaps train_masks,
val_masks and test_masks, whose splits are then used (all of them, or N); else 20 training and 30
validation nodes of each class are drawn, 5 times or N times. Each is measured a second time with
its features taken away. Without a folder, generated graphs alone are measured.

The score is accuracy or, where one of two classes has at least three times as many nodes as the
other, ROC AUC. The best single method is the one with the highest mean: nobody can know it
beforehand. Splits come one after the other over all graphs, and finished runs are kept in
measured/choice.jsonl, so that the table is a fair one whenever it is printed;
`scripts/build_evidence.py` puts it into the guide.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scripts.measured_lines import add_missing, read
from tests.generated_graphs import KINDS as GENERATED
from tests.generated_graphs import generate, split

from graphconv.estimators.candidates import KINDS, Candidate, candidates_for
from graphconv.estimators.choice import Search
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.training.scores import accuracy, roc_auc

FIRST_SEED = 40  # lower ones were used to design the search
N_SPLITS = 5
WITHOUT = ", features taken away"
CHOSEN = {"default": "quick", "auto": "auto"}
Make = Callable[[int], Graph]


def read_graph(path: Path) -> tuple[Graph, Any]:
    arrays = np.load(path, allow_pickle=False)
    parts = (arrays[f"features_{name}"] for name in ("data", "indices", "indptr"))
    features = sp.csr_array(tuple(parts), shape=tuple(arrays["features_shape"]))
    source, target = arrays["edges"].T
    adjacency = adjacency_from_edges(source, target, n_nodes=len(arrays["labels"]))
    return Graph(adjacency, features, arrays["labels"], name=path.stem), arrays


def split_of(path: Path, number: int) -> Graph:
    graph, arrays = read_graph(path)
    if "train_masks" in arrays.files:
        masks = (arrays[f"{name}_masks"][number] for name in ("train", "val", "test"))
        return graph.with_split(*map(np.flatnonzero, masks))
    rng = np.random.default_rng(number)
    drawn = [rng.permutation(np.flatnonzero(graph.labels == c)) for c in range(graph.n_classes)]
    train = np.concatenate([nodes[:20] for nodes in drawn])
    validation = np.concatenate([nodes[20:50] for nodes in drawn])
    rest = np.setdiff1d(np.arange(graph.n_nodes), np.concatenate([train, validation]))
    return graph.with_split(np.sort(train), np.sort(validation), rest)


def n_splits_of(path: Path, wanted: int | None) -> int:
    with np.load(path, allow_pickle=False) as arrays:
        if "train_masks" not in arrays.files:
            return wanted or N_SPLITS
        n_published = len(arrays["train_masks"])
    return n_published if wanted is None else min(wanted, n_published)


def generated(kind: str, number: int) -> Graph:
    seed = FIRST_SEED + number
    return split(generate(kind, seed), seed, n_validation=100)


def score(graph: Graph, probabilities: np.ndarray) -> float:
    labels, found = graph.labels[graph.test_index], probabilities[graph.test_index]
    counts = np.bincount(graph.labels[graph.labels >= 0])
    if len(counts) == 2 and counts.max() >= 3 * counts.min():
        return 100 * roc_auc(labels, found)
    return 100 * accuracy(labels, found)


def methods_of(graph: Graph) -> dict[str, Candidate | str]:
    known: dict[str, Candidate | str] = {kind.name: kind for kind in candidates_for(graph)}
    if graph.features is None:  # gensim's walks, which are an extra and so no candidate
        known["DeepWalk"] = Candidate("DeepWalk", "deepwalk")
    return {**CHOSEN, **known}


def measure(graph: Graph, number: int, method: Candidate | str) -> dict[str, Any]:
    begin, choice = time.process_time(), ""
    if isinstance(method, Candidate):
        fitted = method.fit(graph, [number])
    else:
        search = Search(graph, method, seed=number)
        search.run()
        found = search.conclude()
        fitted, choice = found.fit([number]), found.candidate.words()
    seconds = time.process_time() - begin
    found_score = score(graph, fitted.ensemble_probabilities())
    return {"score": found_score, "seconds": seconds, "choice": choice}


def summary(rows: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """A graph's means over the splits that have all methods; None where there is none."""
    own = [row for row in rows if row["graph"] == name]
    methods = {row["method"] for row in own}
    of_split = {number: [row for row in own if row["split"] == number] for number in range(100)}
    done = [one for one in of_split.values() if {row["method"] for row in one} == methods]
    if not done or not {*CHOSEN, KINDS[-1].name} < methods:  # the last that is measured
        return None

    def mean(method: str, key: str = "score") -> float:
        found = [row[key] for one in done for row in one if row["method"] == method]
        return float(np.mean(found))

    best = max(sorted(methods - set(CHOSEN)), key=mean)
    return {
        "splits": len(done),
        "best": best,
        "best score": mean(best),
        **{chosen: mean(chosen) for chosen in CHOSEN},
        **{f"{chosen} seconds": mean(chosen, "seconds") for chosen in CHOSEN},
    }


def show(rows: list[dict[str, Any]], name: str) -> None:
    """One line of the table."""
    found = summary(rows, name)
    if found is None:
        return
    default, auto, best = (found[key] for key in ("default", "auto", "best score"))
    print(
        f"{name:28}{found['splits']:4}{default:9.1f}{auto:7.1f}{best:7.1f}"
        f"{best - default:9.1f}{best - auto:7.1f}"
        f"{found['default seconds']:9.1f}{found['auto seconds']:7.1f}  {found['best']}"
    )


def pieces(sources: dict[str, tuple[int, Make]]) -> Iterator[tuple[str, int, Make]]:
    """Split by split, so that all graphs have the same number of them, or nearly so."""
    for number in range(max(n_splits for n_splits, _ in sources.values())):
        for name, (n_splits, make) in sources.items():
            if number < n_splits:
                yield name, number, make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("GRAPHCONV_GRAPHS"))
    parser.add_argument("--splits", type=int)
    parser.add_argument("--only", action="append", help="a graph's name; may be repeated")
    parser.add_argument("--show", action="store_true", help="the table of what is there already")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = [] if given.folder is None else sorted(Path(given.folder).glob("*.npz"))
    sources: dict[str, tuple[int, Make]] = {}
    for path in paths:
        sources[path.stem] = (
            n_splits_of(path, given.splits),
            lambda k, path=path: split_of(path, k),
        )
    for path in paths:
        sources[f"{path.stem}{WITHOUT}"] = (
            n_splits_of(path, given.splits),
            lambda k, path=path: replace(split_of(path, k), features=None, feature_names=None),
        )
    for kind in GENERATED:
        sources[kind] = (given.splits or N_SPLITS, lambda k, kind=kind: generated(kind, k))
    if given.only:
        sources = {name: source for name, source in sources.items() if name in given.only}
    for name, number, make in () if given.show else pieces(sources):
        graph = make(number)
        for label, method in methods_of(graph).items():
            key = {"graph": name, "split": number, "method": label}
            add_missing("choice", key, partial(measure, graph, number, method))
    rows = read("choice")
    print(f"{'':28}{'':4}{'score':^23}{'behind best':^16}{'CPU seconds':^16}")
    print(
        f"{'':22}splits  {'default':>9}{'auto':>7}{'best':>7}{'default':>9}{'auto':>7}"
        f"{'default':>9}{'auto':>7}  best single method"
    )
    for name in sources:
        show(rows, name)


if __name__ == "__main__":
    main()
