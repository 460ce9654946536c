"""Test labels decide nothing, validation labels nothing but when to stop, in any experiment.

Each experiment runs twice, the second time with the labels of its test nodes scrambled. Whatever
it works out before it looks at test accuracy must be the same to the last bit. With as few epochs
as leave nothing to choose, the same holds for validation labels: so none of them is trained on.
The estimators with their usual settings are in tests/contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tests.generated_graphs import generate, split
from tests.scripts import load_script

from graphconv import AutoClassifier, GCNClassifier, Graph, load_dataset
from graphconv.estimators import scoring
from graphconv.estimators.baselines import BASELINES, transductive
from graphconv.estimators.baselines.settings import VARIANTS
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.graph.position import with_position_features
from graphconv.graph.splits import kfold_splits, random_split
from graphconv.io.readers import from_frames
from graphconv.paper import depth, karate, self_loops, table2, table3, tsne, tune, workers
from graphconv.paper.section import Request
from graphconv.training.calibration import Calibration

# Small, and far too short to learn much: what leaks, leaks at once.
QUICK: dict[str, dict[str, Any]] = {
    "manifold": {"tol": 1e-2},
    "deepwalk": {"n_walks": 1, "walk_length": 5, "dimension": 4},
    "semi-embedding": {"max_epochs": 4},
    "planetoid-t": {"n_graph_steps": 2, "max_epochs": 4},
    "planetoid-i": {"n_graph_steps": 2, "max_epochs": 4},
    "mlp": {"max_epochs": 4},
}


def scrambled(graph: Graph, nodes: Any) -> Graph:
    """The graph with each of some nodes in another class."""
    labels = graph.labels.copy()
    labels[nodes] = (labels[nodes] + 1 + np.arange(len(nodes)) % 2) % graph.n_classes
    assert (labels != graph.labels).sum() == len(nodes) > 0
    return replace(graph, labels=labels)


def both() -> tuple[Graph, Graph]:
    cora = load_dataset("cora")
    return cora, scrambled(cora, cora.test_index)


def kept_shares(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All class probabilities that runs are judged by, in order."""
    kept: list[Any] = []
    before = scoring.run_record

    def record(graph: Graph, shares: Any, *more: Any) -> Record:
        kept.append(np.array(shares))
        return before(graph, shares, *more)

    monkeypatch.setattr(scoring, "run_record", record)
    return kept


def check_runs_alike(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Graph], list[Record]], part: str = "test"
) -> None:
    """Run with labels as they are, and with those of a part of the nodes scrambled."""
    kept = kept_shares(monkeypatch)
    cora = load_dataset("cora")
    plain, turned = run(cora), run(scrambled(cora, getattr(cora, f"{part}_index")))
    half = len(kept) // 2
    assert half > 0
    for first, second in zip(kept[:half], kept[half:], strict=True):
        assert np.array_equal(first, second)
    same = {"seed", "test_accuracy", "validation_accuracy", "train_accuracy", "epochs"}
    same -= {f"{part}_accuracy"}
    for one, other in zip(plain, turned, strict=True):
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
    if part == "test":  # accuracy is that of the labels as they now are
        assert all(
            one["test_accuracy"] != other["test_accuracy"]
            for one, other in zip(plain, turned, strict=True)
        )


def table_2_row(row: str, n_epochs: int) -> Series:
    """One short run of a row of table 2 on Cora."""
    if row.startswith("deepwalk"):
        pytest.importorskip("gensim")
    wanted = Request(Path(), datasets=("cora",), methods=(row,), times=False, max_epochs=n_epochs)
    (series,) = table2.series(wanted)
    if row not in table2.GCN_ROWS:
        quick = QUICK.get(series.settings["method"], {})
        quick = {**quick, **({"max_epochs": n_epochs} if "max_epochs" in quick else {})}
        params = {**series.settings["params"], **quick}
        series = replace(series, settings={**series.settings, "params": params})
    return replace(series, seeds=(0,))


ROWS = [row for row in table2.METHODS if row != "gcn-nell"]


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_table_2(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = table_2_row(row, n_epochs=4)
    check_runs_alike(monkeypatch, lambda graph: series.task(series, graph))


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_table_2_are_not_taught_validation_nodes(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Calibration goes by validation nodes, and changes no label.
    monkeypatch.setattr(transductive, "fit_calibration", lambda *given: Calibration())
    series = table_2_row(row, n_epochs=1)
    if row == "mlp":
        series.settings["params"]["calibrate"] = False
    check_runs_alike(monkeypatch, lambda graph: series.task(series, graph), "validation")


def test_every_baseline_of_the_paper_is_a_row() -> None:
    ours = {"boosted-trees", "committee"}  # not in the paper
    assert {*BASELINES, *VARIANTS} - ours - set(table2.METHODS) == set()


@pytest.mark.parametrize("row", [row for row in table2.METHODS if row.endswith("-inductive")])
def test_inductive_rows_do_not_meet_test_nodes(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cora = load_dataset("cora")
    _, series = table2.series(Request(Path(), datasets=("cora",), methods=(row,)))
    assert series.settings["protocol"] == "inductive"
    params = {**series.settings["params"], **QUICK.get(series.settings["method"], {})}
    series = replace(series, seeds=(0,), settings={**series.settings, "params": params})
    # Without the edges of test nodes, and with other edges of validation nodes, nothing changes.
    edges = cora.adjacency.tocoo()
    is_test = np.isin(np.arange(cora.n_nodes), cora.test_index)
    kept = ~(is_test[edges.row] | is_test[edges.col])
    cut = sp.lil_array((edges.shape), dtype=np.float32)
    cut[edges.row[kept], edges.col[kept]] = 1
    for one, other in zip(
        cora.validation_index[:3], (cora.validation_index[3], *cora.train_index[:2]), strict=True
    ):
        cut[one, other] = cut[other, one] = 1 - cut[one, other]
    shares = kept_shares(monkeypatch)
    series.task(series, cora)
    series.task(series, replace(cora, adjacency=sp.csr_array(cut)))
    assert np.array_equal(shares[0], shares[1])


@pytest.mark.parametrize("row", table3.TITLES)
def test_rows_of_table_3(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Request(Path(), datasets=("cora",), methods=(row,), runs=2, max_epochs=15)
    (series,) = table3.series(wanted)
    check_runs_alike(monkeypatch, lambda graph: series.task(series, graph))


def few_epochs(**more: Any) -> Request:
    """Fewer than the ten that the stopping rule looks back, so that it has no say."""
    return Request(Path(), datasets=("cora",), runs=2, max_epochs=9, **more)


@pytest.mark.parametrize("row", table3.TITLES)
def test_rows_of_table_3_are_not_taught_validation_nodes(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (series,) = table3.series(few_epochs(methods=(row,)))
    check_runs_alike(monkeypatch, lambda graph: series.task(series, graph), "validation")


@pytest.mark.parametrize("part", ["test", "validation"])
def test_learned_self_loops(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = self_loops.series(few_epochs())[0]
    assert series.settings["gcn"]["self_loop_weight"] == "learn"
    check_runs_alike(monkeypatch, lambda graph: series.task(series, graph), part)


@pytest.mark.parametrize("part", ["test", "validation"])
def test_random_splits(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The labels of all nodes decide who is drawn, so they change once the split is there.
    cora = load_dataset("cora")
    settings = Request(Path(), max_epochs=5).settings("paper")
    series = Series(
        "x", "cora", "x", scoring.run_gcn_on_random_split, {"gcn": settings, "split": {}}, (0,)
    )
    kept = kept_shares(monkeypatch)
    series.task(series, cora)

    def split_and_turn(graph: Graph, **sizes: Any) -> Graph:
        split = random_split(graph, **sizes)
        return scrambled(split, getattr(split, f"{part}_index"))

    monkeypatch.setattr(scoring, "random_split", split_and_turn)
    series.task(series, cora)
    assert np.array_equal(kept[0], kept[1])


def test_folds_of_the_depth_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    cora = load_dataset("cora")
    folds = kfold_splits(cora, 5, random_state=0)
    settings = Request(Path(), max_epochs=5).settings("paper", early_stopping="none")
    series = Series("x", "cora", "x", depth.run_fold, {"gcn": settings, "n_folds": 5}, (2,))
    kept = kept_shares(monkeypatch)
    monkeypatch.setattr(depth, "kfold_splits", lambda *given, **more: folds)
    (plain,) = depth.run_fold(series, cora)
    (turned,) = depth.run_fold(series, scrambled(cora, folds[2].test_index))
    assert np.array_equal(kept[0], kept[1])
    assert plain["train_accuracy"] == turned["train_accuracy"]
    assert plain["test_accuracy"] != turned["test_accuracy"]


def test_a_fold_is_judged_by_nodes_that_it_was_not_taught() -> None:
    seen: list[Graph] = []
    cora = load_dataset("cora")
    with pytest.MonkeyPatch.context() as patch:
        before = scoring.gcn_records

        def records(graph: Graph, *more: Any) -> list[Record]:
            seen.append(graph)
            return before(graph, *more)

        patch.setattr(scoring, "gcn_records", records)
        settings = Request(Path(), max_epochs=1).settings("paper", early_stopping="none")
        series = Series("x", "cora", "x", depth.run_fold, {"gcn": settings, "n_folds": 5}, (0, 3))
        depth.run_fold(series, cora)
    assert not set(seen[0].validation_index) & set(seen[1].validation_index)
    for graph in seen:
        assert not set(graph.train_index) & set(graph.validation_index)
        assert len(graph.train_index) + len(graph.validation_index) == cora.n_nodes


def test_the_search_chooses_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setattr(tune, "N_SEEDS", 2)
    found = []
    for number, graph in enumerate(both()):
        monkeypatch.setattr(workers, "_graph", lambda *given, graph=graph: graph)
        folder = tmp_path / str(number)
        with RunLog(folder / "runs.jsonl") as log:
            found.append(tune.section(Request(folder, runs=4, max_epochs=4), log))
    assert found[0].data == found[1].data
    assert found[0].tables != found[1].tables  # their last column is test accuracy


@pytest.mark.parametrize("part", ["test", "validation"])
def test_the_map_of_activations(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn import manifold

    seen: list[Any] = []

    class Fast:
        def __init__(self, **options: Any) -> None: ...

        def fit_transform(self, hidden: Any) -> Any:
            seen.append(np.array(hidden))
            return hidden[:, :2]

    monkeypatch.setattr(manifold, "TSNE", Fast)
    cora = load_dataset("cora")
    for graph in (cora, scrambled(cora, getattr(cora, f"{part}_index"))):
        monkeypatch.setattr(tsne, "load_dataset", lambda *given, graph=graph, **more: graph)
        with RunLog(tmp_path / "runs.jsonl") as log:
            tsne.section(Request(tmp_path, max_epochs=4), log)
    assert np.array_equal(seen[0], seen[1])


def test_the_karate_club_learns_from_four_members_alone() -> None:
    club = load_dataset("karate")
    plain, turned = (
        karate.train_embeddings(graph, range(2), 10)
        for graph in (club, scrambled(club, club.test_index))
    )
    assert np.array_equal(plain.positions, turned.positions)
    assert not np.array_equal(plain.accuracy, turned.accuracy)


# Ways to train that are not of the paper: those where validation nodes choose settings, and those
# where, with a fixed number of epochs, they choose nothing.
CHOOSING: dict[str, Callable[[], Any]] = {
    "auto": lambda: GCNClassifier("auto", max_epochs=3, random_state=0),
    "strong": lambda: GCNClassifier("strong", max_epochs=3, random_state=0),
    "AutoClassifier": lambda: AutoClassifier(random_state=0),
}
FIXED: dict[str, dict[str, Any]] = {
    "gcn": {},
    "appnp": {"model": "appnp"},
    "grand": {"model": "grand"},
    "correct and smooth": {"correct_and_smooth": True},
    "mini-batches": {"batch_size": 16, "fanout": (3, 3)},
    "ensemble": {"ensemble": 3},
    "class weights": {"class_weight": "balanced"},
    "prior of the labels": {"class_prior": "labels"},
    "estimated prior": {"class_prior": "estimate"},
    "position features": {},
    "edge features": {},
}


def graph_for(way: str) -> Graph:
    if way == "edge features":
        return graph_with_edge_features()
    graph = split(generate("binary features", n_nodes=200), n_per_class=8, n_validation=60)
    return with_position_features(graph) if way == "position features" else graph


def graph_with_edge_features() -> Graph:
    """150 people on a ring, every payment a node that carries its amount."""
    people = [f"p{number}" for number in range(150)]
    rng = np.random.default_rng(0)
    nodes = {"id": people, "label": ["x", "y", "z"] * 50, "age": rng.random(150)}
    edges = {"source": people, "target": people[1:] + people[:1], "amount": rng.random(150)}
    graph = from_frames(pd.DataFrame(edges), pd.DataFrame(nodes), edge_features=["amount"]).graph
    return graph.with_split(np.arange(50), np.arange(50, 100), np.arange(100, 150))


def check_fits_alike(graph: Graph, nodes: Any, make: Callable[[], Any]) -> None:
    first, second = (make().fit(one) for one in (graph, scrambled(graph, nodes)))
    assert np.array_equal(first.predict_proba(), second.predict_proba())
    assert np.array_equal(first.predict(), second.predict())
    assert getattr(first, "settings_", None) == getattr(second, "settings_", None)
    assert getattr(first, "choice_", None) == getattr(second, "choice_", None)


@pytest.mark.parametrize("way", CHOOSING)
def test_a_search_chooses_and_learns_the_same(way: str) -> None:
    graph = graph_for(way)
    check_fits_alike(graph, graph.test_index, CHOOSING[way])


@pytest.mark.filterwarnings("ignore:class_prior 'estimate' may be far off")
@pytest.mark.parametrize("way", FIXED)
def test_ways_to_train_do_not_look_at_test_labels(way: str) -> None:
    graph = graph_for(way)
    params: dict[str, Any] = {"max_epochs": 6, "random_state": 0, **FIXED[way]}
    check_fits_alike(graph, graph.test_index, lambda: GCNClassifier(**params))


@pytest.mark.filterwarnings("ignore:class_prior 'estimate' may be far off")
@pytest.mark.parametrize("way", FIXED)
def test_ways_to_train_do_not_teach_validation_nodes(way: str) -> None:
    graph = graph_for(way)
    params: dict[str, Any] = {
        "max_epochs": 6,
        "random_state": 0,
        "early_stopping": "none",
        "calibrate": False,
    }
    params |= FIXED[way]
    check_fits_alike(graph, graph.validation_index, lambda: GCNClassifier(**params))


def test_baselines_are_tuned_without_test_labels(tmp_path: Path) -> None:
    script = load_script("tune_baselines")
    cora = load_dataset("cora")
    hidden = script.without_test_labels(cora)
    shown = np.concatenate([cora.train_index, cora.validation_index])
    assert (np.delete(hidden.labels, shown) == -1).all()
    assert np.array_equal(hidden.labels[shown], cora.labels[shown])
    assert len(hidden.test_index) == 0
    chosen = [
        script.choose(
            "sgc",
            "cora",
            script.without_test_labels(graph),
            script.Trials(tmp_path / f"{n}.jsonl"),
        )
        for n, graph in enumerate(both())
    ]
    assert chosen[0] == chosen[1]
