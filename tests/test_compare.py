"""Tests of compare: paired splits, intervals, resumption, methods that can't be used."""

import json
import math
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import COLUMNS, TABLES, finish, make_runner, start, write_papers
from tests.generated_graphs import generate

from graphconv import Graph, fraction_split, load_dataset
from graphconv.commands import compare as compare_command
from graphconv.estimators import baselines
from graphconv.estimators import compare as compare_module
from graphconv.estimators.compare import METHODS, choose_methods, compare
from graphconv.estimators.verdict import Comparison, MethodResult, rank_methods
from graphconv.graph.splits import random_split
from graphconv.report.comparison import draw_comparison

QUICK = ["label-propagation", "sgc"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_papers(tmp_path / "papers")
    return make_runner(monkeypatch, capsys)


def test_the_interval_by_hand():
    runs = {"a": np.array([90.0, 92, 94, 96]), "b": np.array([89.0, 92, 92, 95])}
    best, second = rank_methods(runs, {"a": 1.0, "b": 2.0}, test_ratio=0.25)
    # Differences 1, 0, 2, 1: mean 1, variance 2/3; t with 3 degrees of freedom is 3.182.
    half = 3.182446 * math.sqrt((1 / 4 + 0.25) * 2 / 3)
    assert (best.method, best.lead, best.seconds) == ("a", 0, 1.0)
    assert math.isnan(best.low)
    assert second.lead == pytest.approx(1)
    assert (second.low, second.high) == pytest.approx((1 - half, 1 + half), abs=1e-5)
    assert not second.is_worse
    # Differences 90, -10: half of the interval is 778 points, which no accuracies can differ by.
    runs = {"a": np.array([95.0, 45]), "b": np.array([5.0, 55])}
    second = rank_methods(runs, {"a": 1.0, "b": 1.0}, test_ratio=0.25)[1]
    assert (second.lead, second.low, second.high) == (40, -100, 100)
    # A single split has no interval, and shows nothing.
    one = rank_methods({"a": np.array([90.0]), "b": np.array([80.0])}, {"a": 1, "b": 1}, 0.25)
    assert math.isnan(one[1].low)
    assert not one[1].is_worse


def result(method, mean, lead, low):
    return MethodResult(method, (mean,), 1.0, lead, low, 2 * lead - low)


def verdict(*results, failed=None):
    order = ("simple", "middle", "involved")
    return Comparison("papers", 10, 60, 20, 40, results, order, failed or {})


def test_the_simplest_equal_is_recommended():
    best = result("involved", 90.0, 0.0, math.nan)
    found = verdict(best, result("middle", 89.0, 1.0, -0.5), result("simple", 70.0, 20.0, -1.0))
    # "simple" can't be told from the best either, but is 20 points behind.
    assert found.recommended.method == "middle"
    assert found.recommendation == (
        "Use middle: 89.0 % of the test nodes right, and it is the simplest of the 2 methods that "
        "lie within 2 points of the best (involved, 90.0 %) and that the splits can't tell from it."
    )
    found = verdict(best, result("middle", 89.0, 1.0, 0.5), result("simple", 80.0, 10.0, 8.0))
    assert found.recommendation.endswith("and the splits show it to be the best.")
    found = verdict(best, result("simple", 80.0, 10.0, -8.0))
    assert found.recommendation.endswith(
        "no simpler method that was tried lies within 2 points of it."
    )
    assert verdict(best).recommendation == "Only involved was run: 90.0 % of the test nodes right."


def test_every_baseline_is_among_the_methods():
    assert set(baselines.BASELINES) < set(METHODS)
    assert choose_methods(["all"]) == tuple(METHODS)
    assert choose_methods(["sgc,label-propagation", "gcn"]) == ("label-propagation", "sgc", "gcn")
    fast = choose_methods(None)
    assert {"gcn", "auto", "gcn-first-order", "sgc", "label-propagation", "mlp"} < set(fast)
    assert "deepwalk" not in fast


def test_methods_get_the_same_splits_and_their_accuracy_is_right():
    graph = generate("homophilous, bag of words", n_nodes=150)
    found = compare(graph, QUICK, n_splits=2, random_state=5)
    sgc = next(one for one in found.results if one.method == "sgc")
    for number, accuracy in enumerate(sgc.accuracies):
        part = fraction_split(graph, random_state=5 + number)
        labels = baselines.make_estimator("sgc", random_state=5 + number).fit(part).predict()
        test = part.test_index
        assert accuracy == pytest.approx(100 * (labels[test] == graph.labels[test]).mean())
    assert (found.n_train, found.n_validation, found.n_test) == (90, 30, 30)


def test_same_seed_same_result_and_other_splits():
    graph = generate("binary features", n_nodes=150)
    options = {"n_splits": 2, "split": "fraction:0.3,0.1,0.3"}
    first, again = (compare(graph, [*QUICK, "gcn"], **options) for _ in range(2))
    assert [one.accuracies for one in first.results] == [one.accuracies for one in again.results]
    assert first.n_test == 45
    cora = load_dataset("cora")
    found = compare(cora, ["sgc"], n_splits=1, split="random")
    split = random_split(cora, random_state=0)
    assert (found.n_train, found.n_test) == (len(split.train_index), len(split.test_index))


def test_a_method_that_fails_is_reported(monkeypatch):
    graph = generate("no features", n_nodes=100)
    real = compare_module.run_on_splits

    def fail_on_second(series, graph, values):
        if series.method == "sgc" and series.seeds == (1,):
            raise ValueError("this split is out of order")
        return real(series, graph, values)

    monkeypatch.setattr(compare_module, "run_on_splits", fail_on_second)
    found = compare(graph, QUICK, n_splits=3)
    assert found.failed == {"sgc": "this split is out of order"}
    assert [one.method for one in found.results] == ["label-propagation"]
    assert ["sgc", "failed", "", "", ""] in found.table()[1]
    assert found.to_json()["failed"] == found.failed

    def refuse(series, graph, values):
        raise ValueError(f"{series.method} is out of order")

    monkeypatch.setattr(compare_module, "run_on_splits", refuse)
    with pytest.raises(ValueError, match="none does: label-propagation: label-propagation is out"):
        compare(graph, QUICK, n_splits=2)


def test_several_labels_a_node_leave_the_gcn():
    graph = generate("binary features", n_nodes=100)
    indicator = np.eye(graph.n_classes, dtype=np.int64)[graph.labels]
    several = Graph(graph.adjacency, graph.features, indicator)
    found = compare(several, ["gcn", "sgc"], n_splits=1)
    assert [one.method for one in found.results] == ["gcn"]
    assert "one label per node" in found.failed["sgc"]
    assert found.caution == "one split tells nothing about chance: take more with n_splits"


def test_finished_runs_are_not_run_again(tmp_path, monkeypatch):
    graph = generate("binary features", n_nodes=100)
    log = tmp_path / "runs.jsonl"
    whole = compare(graph, QUICK, n_splits=3, log_path=log)
    lines = log.read_text().splitlines(keepends=True)
    # Split by split, so that methods have the same ones whenever it ends.
    assert [json.loads(line)["seed"] for line in lines] == [0, 0, 1, 1, 2, 2]
    log.write_text("".join(lines[:3]) + lines[3][:20])
    calls = []
    real = compare_module.run_on_splits

    def run_on_splits(series, graph, values):
        calls.append((series.method, series.seeds))
        return real(series, graph, values)

    run_on_splits.__qualname__ = real.__qualname__
    monkeypatch.setattr(compare_module, "run_on_splits", run_on_splits)
    again = compare(graph, QUICK, n_splits=3, log_path=log)
    assert len(calls) == 3
    assert [one.accuracies for one in again.results] == [one.accuracies for one in whole.results]
    # Other data in the same file is never mixed in.
    calls.clear()
    compare(generate("binary features", seed=1, n_nodes=100), QUICK, n_splits=1, log_path=log)
    assert len(calls) == 2


def test_few_labels():
    graph = generate("binary features", n_nodes=60)
    labels = np.where(np.arange(60) < 14, graph.labels, -1)
    methods = [name for name in choose_methods(None) if name != "auto"]  # it takes long
    found = compare(Graph(graph.adjacency, graph.features, labels), methods, n_splits=2)
    assert {one.method for one in found.results} == set(methods)
    assert "nodes only, so intervals are wide" in found.caution
    labels = np.full(60, -1)
    labels[:2] = [0, 1]
    with pytest.raises(ValueError, match="enough to set some aside for tests, got 2"):
        compare(Graph(graph.adjacency, graph.features, labels), QUICK)


def test_the_picture_names_all_methods():
    best = result("involved", 90.0, 0.0, math.nan)
    figure = draw_comparison(verdict(best, result("simple", 80.0, 10.0, 8.0)))
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["involved (use this)", "simple"]
    assert [panel.get_xlabel() for panel in figure.axes] == [
        "test accuracy (%)",
        "points of accuracy",
        "seconds of a training",
    ]


def test_command_line(run):
    command = ("compare", *TABLES, *COLUMNS, "--splits", 3, "--methods", "gcn,sgc")
    done = run(*command)
    lines = done.out.splitlines()
    assert lines[0].startswith("papers: 3 random splits of ")
    assert lines[-2].startswith("Use ")
    assert lines[-1].startswith("graphconv train ")
    folder = Path("runs/compare-papers")
    assert sorted(path.name for path in folder.iterdir()) == [
        "compare.json",
        "compare.png",
        "compare.svg",
        "runs.jsonl",
    ]
    again = run(*command, "--json").json
    assert again == json.loads((folder / "compare.json").read_text())
    assert [one["method"] for one in again["results"]] in (["gcn", "sgc"], ["sgc", "gcn"])


def test_command_line_refuses(run):
    for arguments, reason in {
        "karate --methods gcn-firs": "got 'gcn-firs' (did you mean 'gcn-first-order'?)",
        "karate --splits 0": "splits must be at least 1, got 0",
        "karate --split public": "--split must be fraction, fraction:TRAIN,..., random",
        "karate --seed -1": "--seed must be from 0",
        "karate -o papers/edges.csv": "--output must be a folder",
        "karate --text title": "--text is for tables",
        "": "name a data set or a graph file",
    }.items():
        done = run("compare", *arguments.split(), expect=2)
        assert len(done.err) == 1
        assert reason in done.err[0]
        assert done.out == ""
    assert not Path("runs").exists()


def test_ctrl_c_and_on_again(tmp_path):
    write_papers(tmp_path / "papers")
    command = ("compare", *TABLES, *COLUMNS, "--methods", "gcn,sgc", "--splits", 30)
    process = start(*command, cwd=tmp_path)
    log = tmp_path / "runs" / "compare-papers" / "runs.jsonl"
    while not (log.exists() and log.read_text().count("\n") > 1):
        assert process.poll() is None, finish(process)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 130
    n_done = log.read_text().count("\n")
    assert n_done >= 2
    assert done.err[-1] == (
        f"graphconv: interrupted; {n_done} runs kept; the same command goes on from "
        "runs/compare-papers/runs.jsonl"
    )
    again = finish(start(*command[:-1], 2, cwd=tmp_path))
    assert again.code == 0
    assert any("runs are in runs/compare-papers/runs.jsonl already" in line for line in again.err)


@pytest.mark.parametrize("step", ["load_data", "_load_libraries", "run_on_splits"])
def test_ctrl_c_before_the_first_run_has_finished(run, monkeypatch, step):
    module = compare_command if step == "load_data" else compare_module
    monkeypatch.setattr(module, step, lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    done = run("compare", "karate", "--methods", "sgc", "-q", expect=130)
    assert done.err == [
        "graphconv: interrupted; no run had finished, so none is kept; the same command starts anew"
    ]
    assert done.out == ""


def test_ctrl_c_in_the_python_function_is_an_interrupt(monkeypatch):
    def interrupt(series, graph, values):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_module, "run_on_splits", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compare(load_dataset("karate"), ["sgc"], n_splits=1)
