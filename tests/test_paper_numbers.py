"""Every experiment's settings and every figure of the paper, against the paper's own text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import paper_text

from graphconv import Graph, load_dataset
from graphconv.commands.training_job import ModelRequest, resolve
from graphconv.estimators import scoring
from graphconv.estimators.runs import RunLog, Series, record_of
from graphconv.models.settings import PAPER_ACCURACY, Settings, resolve_settings
from graphconv.paper import (
    depth,
    epoch_timing,
    karate,
    published,
    random_splits,
    self_loops,
    table1,
    table2,
    table3,
    timing,
    tsne,
    tune,
)
from graphconv.paper.section import Request
from graphconv.training.fit import fit_gcn

CITATION = ("citeseer", "cora", "pubmed")
DATASETS = (*CITATION, "nell")
METHOD_NAMES = {
    "manifold": "ManiReg",
    "semi-embedding": "SemiEmb",
    "label-propagation": "LP",
    "deepwalk": "DeepWalk",
    "ica": "ICA",
    "planetoid": "Planetoid*",
    "gcn": "GCN",
    "random-splits": "GCN, random splits",
}


def full_request() -> Request:
    return Request(Path("unused"))


def gcn_settings(series: Series, names: dict[str, Any]) -> dict[str, Any]:
    return {name: series.settings["gcn"][name] for name in names}


# The paper's figures


def test_table_2_is_the_papers() -> None:
    printed = paper_text.rows_of(paper_text.TABLE2)
    assert {METHOD_NAMES[name] for name in published.TABLE2} == set(printed)
    for name, title in METHOD_NAMES.items():
        cells = printed[title]
        figures = [float(cell.split()[0]) for cell in cells]
        assert [published.TABLE2[name][dataset] for dataset in DATASETS] == figures
        in_brackets = [int(cell.split("(")[1].rstrip("s)")) for cell in cells if "(" in cell]
        seconds = published.TABLE2_SECONDS.get(name, {})
        assert [seconds[dataset] for dataset in DATASETS if dataset in seconds] == in_brackets
        errors = [float(cell.split("+-")[1]) for cell in cells if "+-" in cell]
        known = published.TABLE2_STANDARD_ERROR.get(name, {})
        assert [known[dataset] for dataset in DATASETS if dataset in known] == errors


def test_a_training_is_compared_with_the_papers_figure() -> None:
    assert published.TABLE2["gcn"] == PAPER_ACCURACY


def test_table_3_is_the_papers() -> None:
    printed = paper_text.rows_of(paper_text.TABLE3)
    assert list(table3.TITLES.values()) == list(printed)
    for name, title in table3.TITLES.items():
        figures = [float(cell) for cell in printed[title]]
        assert [published.TABLE3[name][dataset] for dataset in CITATION] == figures


# What is run


@pytest.mark.parametrize("dataset", CITATION)
def test_table_2_trains_the_papers_gcn(dataset: str) -> None:
    series = table2.gcn_series(full_request(), dataset)
    assert gcn_settings(series, paper_text.GCN) == paper_text.GCN
    assert series.settings["gcn"]["early_stopping"] == "window"
    assert series.seeds == tuple(range(paper_text.N_RUNS))
    assert series.task is scoring.run_gcn


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_texts_stopping_rule_is_a_row(dataset: str) -> None:
    wanted = Request(Path(), datasets=(dataset,), methods=("gcn", "gcn-consecutive"))
    by_method = {one.method: one.settings["gcn"] for one in table2.series(wanted)}
    recipe, other = by_method["gcn"], by_method["gcn-consecutive"]
    changed = {name: other[name] for name in other if other[name] != recipe[name]}
    assert changed == {"early_stopping": "consecutive"}


@pytest.mark.parametrize("dataset", CITATION)
@pytest.mark.parametrize("row", paper_text.ROWS)
def test_table_3_changes_the_propagation_alone(dataset: str, row: str) -> None:
    (series,) = [
        one for one in table3.series(full_request()) if (one.dataset, one.method) == (dataset, row)
    ]
    expected = {**paper_text.GCN, **paper_text.ROWS[row]}
    assert gcn_settings(series, expected) == expected
    assert series.seeds == tuple(range(paper_text.N_RUNS))
    assert series.task is scoring.run_gcn


def test_ica_runs_a_hundred_orders() -> None:
    alone, series = table2.series(Request(Path(), datasets=("cora",), methods=("ica",)))
    assert alone.is_alone
    assert series.seeds == tuple(range(paper_text.N_RUNS))


@pytest.mark.parametrize("dataset", DATASETS)
def test_random_splits_have_the_public_sizes(dataset: str) -> None:
    every = random_splits.series(Request(Path(), datasets=(dataset,), methods=("random-splits",)))
    sizes = paper_text.NELL_SPLIT if dataset == "nell" else paper_text.SPLIT
    assert [one.settings["split"] for one in every] == [
        {**sizes, "random_state": number} for number in range(paper_text.N_SPLITS)
    ]
    expected = {**paper_text.GCN, **(paper_text.NELL if dataset == "nell" else {})}
    for one in every:
        assert gcn_settings(one, expected) == expected
        assert one.task is scoring.run_gcn_on_random_split
        assert len(one.seeds) == (1 if dataset == "nell" else 10)


def test_our_recipe_for_nell_is_a_row_of_its_own() -> None:
    nell = Request(Path(), datasets=("nell",))
    by_method = {one.method: one for one in table2.series(nell) if one.experiment == "table2"}
    recipe, ours = by_method["gcn"].settings["gcn"], by_method["gcn-nell"].settings["gcn"]
    expected = {**paper_text.GCN, **paper_text.NELL}
    assert {name: recipe[name] for name in expected} == expected
    assert recipe["early_stopping"] == "window"
    changed = {name: ours[name] for name in ours if ours[name] != recipe[name]}
    assert changed == {"scaling": "l2", "early_stopping": "best", "patience": 50}
    for dataset in CITATION:
        others = table2.series(Request(Path(), datasets=(dataset,)))
        assert "gcn-nell" not in {one.method for one in others}


def test_preset_paper_is_the_papers_recipe_on_nell_too() -> None:
    preset, changes = resolve(ModelRequest(preset="paper"), "nell")
    recipe = resolve_settings(preset, changes)
    assert recipe.to_json() == table2.gcn_series(full_request(), "nell").settings["gcn"]
    preset, changes = resolve(ModelRequest(preset="paper", settings={"dropout": 0.3}), "nell")
    assert resolve_settings(preset, changes) == replace(recipe, dropout=0.3)
    assert resolve(ModelRequest(), "nell") == ("paper-nell", {"model": "gcn"})


def test_every_method_of_table_2_is_timed_by_itself() -> None:
    every = [one for one in table2.series(full_request()) if one.experiment == "table2"]
    alone = {(one.dataset, one.method) for one in every if one.is_alone}
    assert alone == {(one.dataset, f"{one.method}, alone") for one in every if not one.is_alone}
    assert [one.is_alone for one in every] == sorted((one.is_alone for one in every), reverse=True)
    # The paper's method three times, so that one slow moment does not decide; all others once.
    n_timed = {one.method: (len(one.seeds), one.chunk) for one in every if one.is_alone}
    assert n_timed == {method: (3 if method.startswith("gcn") else 1, 1) for method in n_timed}
    assert len(n_timed) == len(table2.METHODS)


def test_learned_self_loops_change_lambda_alone() -> None:
    every = self_loops.series(full_request())
    learned = [one for one in every if one.method == "lambda learned"]
    assert [one.dataset for one in learned] == list(CITATION)
    for one in learned:
        expected = {**paper_text.GCN, "self_loop_weight": "learn"}
        assert gcn_settings(one, expected) == expected
        assert one.seeds == tuple(range(paper_text.N_RUNS))


def test_learned_self_loops_are_noted(tmp_path: Path) -> None:
    request = Request(tmp_path, datasets=("cora",), runs=2, max_epochs=30)
    with RunLog(tmp_path / "runs.jsonl") as log:
        for one in self_loops.series(request):
            runs = one.task(one, load_dataset("cora"))
            log.append(record_of(one, run) for run in runs)
        section = self_loops.section(request, log, {})
        accuracy = [
            np.mean([run["test_accuracy"] for run in log.records(one)])
            for one in self_loops.series(request)
        ]
    found = section.data["cora"]["self_loop_weight"]
    assert len(found) == 2
    assert len({1.0, *found}) == 3  # learned, and apart
    ((name, usual, ours, _, weights, runs),) = section.tables[0].rows
    assert (name, runs) == ("Cora", "2")
    assert [ours.split(" ")[0], usual.split(" ")[0]] == [f"{mean:.1f}" for mean in accuracy]
    assert weights == f"{np.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"
    assert section.notes == ()  # what was not run is not noted, what failed is


def test_learned_self_loops_that_failed_are_noted(tmp_path: Path) -> None:
    request = Request(tmp_path)
    cora = next(one for one in self_loops.series(request) if one.dataset == "cora")
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = self_loops.section(request, log, {cora.fingerprint: "OSError: no file"})
    assert section.notes == ("Cora: OSError: no file.",)
    assert section.tables[0].rows == ()


def test_table_1_is_the_papers(tmp_path: Path) -> None:
    printed = paper_text.rows_of(paper_text.TABLE1)
    for dataset in DATASETS:
        _, nodes, edges, classes, features, rate = printed[published.TITLES[dataset]]
        whole = [int(cell.replace(",", "")) for cell in (nodes, edges, classes, features)]
        assert published.TABLE1[dataset] == (*whole, float(rate))
        assert table1.LISTED_NEIGHBOURS[dataset] == 2 * whole[1]
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = table1.section(Request(tmp_path, datasets=("cora",)), log)
    assert section.tables[0].rows == (
        ("Cora", "2,708", "5,429", "5,429", "5,278", "0", "7", "1,433", "0.052", "0.0517"),
    )


def test_table_1_counts_a_self_loop_as_an_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0 - 1, 1 - 2 and 2 with itself; one word more than NELL has stands for a relation node.
    few = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 1]], np.eye(3), [0, 1, 1], train_index=[0, 1])
    monkeypatch.setattr(table1, "load_dataset", lambda *given, **more: few)
    monkeypatch.setitem(table1.TABLE1, "nell", (3, 4, 2, 2, 0.001))
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = table1.section(Request(tmp_path, datasets=("nell",)), log)
    assert section.tables[0].rows == (
        ("NELL", "3", "4", "266,144", "3", "1", "2", "2 + 1", "0.001", "0.6667"),
    )
    assert section.data["nell"] == {
        "n_nodes": 3, "n_edges": 3, "n_self_loops": 1, "n_features": 3, "n_classes": 2,
        "n_train": 2,
    }  # fmt: skip


def test_table_1_says_which_data_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*given: Any, **more: Any) -> Any:
        raise OSError("no such file")

    monkeypatch.setattr(table1, "load_dataset", missing)
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = table1.section(Request(tmp_path, datasets=("nell",)), log)
    assert section.notes == ("NELL: no such file.",)
    assert section.tables[0].rows == ()


def test_a_series_trains_exactly_its_settings() -> None:
    cora = load_dataset("cora")
    settings = full_request().settings(
        "paper", propagation="chebyshev", chebyshev_order=3, hidden=(4,), max_epochs=2
    )
    fitted, epochs = scoring.fit_replicas(cora, settings, [3, 4])
    assert fitted.settings == Settings.from_json(settings)
    assert epochs.tolist() == [2, 2]
    alone = fit_gcn(
        cora, preset="paper", overrides=settings, seeds=[4], validation_fraction=0, calibrate=False
    )
    np.testing.assert_allclose(fitted.probabilities()[:, 1], alone.probabilities()[:, 0], atol=1e-6)


@pytest.mark.parametrize("variant", ["plain", "residual"])
@pytest.mark.parametrize("n_layers", range(1, paper_text.DEPTH["most_layers"] + 1))
def test_depth_is_appendix_b(n_layers: int, variant: str) -> None:
    (series,) = [
        one
        for one in depth.series(Request(Path(), datasets=("cora",)))
        if one.method == f"{n_layers} layers, {variant}"
    ]
    rates = [0.5 if layer in (0, n_layers - 1) else 0.0 for layer in range(n_layers)]
    expected = {
        **paper_text.GCN,
        "hidden": (16,) * (n_layers - 1),
        "dropout": tuple(rates),
        "max_epochs": paper_text.DEPTH["max_epochs"],
        "early_stopping": paper_text.DEPTH["early_stopping"],
        "residual": variant == "residual" and n_layers > 2,
    }
    assert gcn_settings(series, expected) == expected
    assert series.settings["n_folds"] == paper_text.DEPTH["n_folds"]
    assert series.seeds == tuple(range(paper_text.DEPTH["n_folds"]))


def test_depth_has_every_number_of_layers_on_every_citation_network() -> None:
    every = depth.series(full_request())
    assert len(every) == len({(one.dataset, one.method) for one in every})
    assert len(every) == 3 * 2 * paper_text.DEPTH["most_layers"]
    assert {one.dataset for one in every} == set(CITATION)


def test_figure_2_is_the_papers() -> None:
    edges = [n for n in timing.EDGES if n <= paper_text.TIMING["most_edges"]]
    assert (edges[0], edges[-1]) == (
        paper_text.TIMING["fewest_edges"],
        paper_text.TIMING["most_edges"],
    )
    assert edges == sorted(edges)
    assert paper_text.TIMING["n_epochs"] == timing.N_EPOCHS
    assert paper_text.TIMING["n_hidden"] == epoch_timing.N_HIDDEN
    assert (edges[0], edges[-1]) == published.TIMING_EDGES
    graph = load_dataset("random:500")
    assert graph.n_edges == 1000
    assert graph.features is None
    assert set(graph.labels.tolist()) == {0}


def test_karate_is_appendix_a() -> None:
    settings = {name: getattr(karate.SETTINGS, name) for name in paper_text.KARATE}
    assert settings == paper_text.KARATE
    assert karate.ITERATIONS == paper_text.KARATE_ITERATIONS
    club = load_dataset("karate")
    # The paper counts 154 edges; the club has 78 friendships, 156 when counted from both sides.
    assert (club.n_nodes, club.n_edges) == (34, 78)
    assert club.features is None
    assert sorted(club.labels[club.train_index].tolist()) == [0, 1, 2, 3]


# What t-SNE sees, and what the search maximises


def test_tsne_sees_the_hidden_activations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn import manifold

    from graphconv.report import plot

    seen: list[Any] = []
    drawn: list[Any] = []
    draw = plot.embedding

    def embedding(points: Any, labels: Any, **more: Any) -> Any:
        drawn.append((points, labels))
        return draw(points, labels, **more)

    class Fast:
        def __init__(self, **options: Any) -> None:
            seen.append(options)

        def fit_transform(self, hidden: Any) -> Any:
            seen.append(hidden)
            return hidden[:, :2]

    monkeypatch.setattr(manifold, "TSNE", Fast)
    monkeypatch.setattr(plot, "embedding", embedding)
    request = Request(tmp_path, max_epochs=5)
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = tsne.section(request, log)
    options, hidden = seen
    assert options == {"random_state": 0, "init": "pca", "perplexity": 30}
    cora = load_dataset("cora")
    fitted = fit_gcn(cora, preset="paper", overrides={"max_epochs": 5}, seeds=[0], calibrate=False)
    np.testing.assert_allclose(hidden, fitted.embedding(), atol=1e-6)
    assert hidden.shape == (2708, 16)
    ((points, colours),) = drawn
    assert np.array_equal(points, hidden[:, :2])
    assert np.array_equal(colours, cora.labels)  # the true classes, not those predicted
    labels = fitted.probabilities()[:, 0].argmax(axis=1)
    is_right = (labels == cora.labels)[cora.test_index]
    assert section.data["test_accuracy"] == pytest.approx(100 * is_right.mean())


def test_tune_maximises_validation_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.INFO)
    seeds_seen: list[list[int]] = []
    settings_seen: list[dict[str, Any]] = []

    def records(graph: Any, settings: dict[str, Any], seeds: Any) -> list[dict[str, Any]]:
        """Validation likes little dropout, test nodes like much of it."""
        seeds_seen.append(list(seeds))
        settings_seen.append(settings)
        rate = settings["dropout"]
        run = {"validation_accuracy": 90 - 10 * rate, "test_accuracy": 10 * rate, "seconds": 1.0}
        return [{"seed": seed, **run} for seed in seeds]

    monkeypatch.setattr(scoring, "gcn_records", records)
    request = Request(tmp_path, runs=12)
    with RunLog(tmp_path / "runs.jsonl") as log:
        section = tune.section(request, log)
    trials = section.data["trials"]
    assert len(trials) == 12
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING  # its words are not ours
    first = {name: trials[0][name] for name in ("dropout", "weight_decay", "hidden")}
    assert first == {"dropout": 0.5, "weight_decay": 5e-4, "hidden": 16}
    lowest = min(trial["dropout"] for trial in trials)
    assert lowest < 0.5 < max(trial["dropout"] for trial in trials)
    assert section.data["best"]["dropout"] == lowest
    assert section.data["best"]["validation_accuracy"] == pytest.approx(90 - 10 * lowest)
    # All else is the paper's recipe.
    for trial, settings in zip(trials, settings_seen, strict=False):
        chosen = {name: trial[name] for name in ("dropout", "weight_decay")}
        expected = {**paper_text.GCN, **chosen, "hidden": (trial["hidden"],)}
        assert {name: settings[name] for name in expected} == expected
    # Seeds of the search and of the final runs have nothing in common.
    assert seeds_seen[0] == list(range(1000, 1010))
    assert seeds_seen[-1] == list(range(12))
    assert {trial["hidden"] for trial in trials} <= {8, 16, 32, 64}
    assert all(0 <= trial["dropout"] <= 0.8 for trial in trials)
    assert all(1e-5 <= trial["weight_decay"] <= 1e-2 for trial in trials)
    # Each power of ten is as likely as the next: two in three are below a thousandth.
    assert 6 <= sum(trial["weight_decay"] < 1e-3 for trial in trials) <= 10
    assert (tune.N_TRIALS, tune.N_SEEDS, tune.N_FRESH) == (50, 10, 20)
