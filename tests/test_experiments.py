"""Tiny versions of all experiments, and what must hold of the log of runs."""

from __future__ import annotations

import gzip
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.scripts import load_script

from graphconv import kernels, load_dataset
from graphconv.commands import reproduce as commands
from graphconv.commands.console import Screen
from graphconv.estimators.baselines import make_estimator
from graphconv.estimators.runs import Record, RunLog, Series, count_by_cost, record_of
from graphconv.estimators.statistics import summarise
from graphconv.graph import Graph
from graphconv.paper import depth, karate, random_splits, table2, table3, timing, workers
from graphconv.paper.comparison import Cell, details, overview, reasons
from graphconv.paper.machine import describe_machine
from graphconv.paper.page import to_html, to_markdown
from graphconv.paper.section import Request
from graphconv.paper.separability import is_separable
from graphconv.paper.workers import n_cores, run_all
from graphconv.report import figures


def reproduce(what: str, wanted: Request) -> dict[str, Any]:
    """Run an experiment; every picture that it names has to be there afterwards."""
    results = commands.reproduce(what, wanted, Screen(quiet=True))
    for section in results["sections"].values():
        for figure in section["figures"]:
            picture = (wanted.output / f"{figure['file']}.png").read_bytes()
            assert picture.startswith(b"\x89PNG")
            assert "</svg>" in (wanted.output / f"{figure['file']}.svg").read_text()
            if figure["page"]:
                assert "</html>" in (wanted.output / figure["page"]).read_text()
    return results


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures that are written, by their name."""
    found: dict[str, Any] = {}
    save = figures.save_figure

    def save_figure(figure: Any, path: Path) -> None:
        found[path.name] = figure
        save(figure, path)

    monkeypatch.setattr(figures, "save_figure", save_figure)
    return found


def request(folder: Path, **more: Any) -> Request:
    few: dict[str, Any] = {"runs": 1, "max_epochs": 3, "n_workers": 1}
    return Request(folder, **{**few, **more})


def count_seed(series: Series, graph: Graph) -> list[Record]:
    """A task that costs nothing."""
    return [{"seed": seed, "test_accuracy": 80.0 + seed, "seconds": 1.0} for seed in series.seeds]


def fail(series: Series, graph: Graph) -> list[Record]:
    raise RuntimeError("no luck")


def make_series(task: Any = count_seed, seeds: int = 5, **more: Any) -> Series:
    return Series("table2", "karate", "gcn", task, {"a": 1}, tuple(range(seeds)), **more)


def lines_of(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# The log


def test_log_cuts_off_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    series = make_series()
    with RunLog(path) as log:
        log.append(record_of(series, {"seed": seed, "test_accuracy": 1.0}) for seed in (0, 1))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    with RunLog(path) as log:
        assert log.missing(series) == [2, 3, 4]
        log.append([record_of(series, {"seed": 2, "test_accuracy": 1.0})])
    assert path.read_bytes().startswith(whole)
    assert [line["seed"] for line in lines_of(path)] == [0, 1, 2]


def test_log_names_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"seed": 0}\nrubbish\n')
    with pytest.raises(ValueError, match=r"runs\.jsonl, line 2: must be a run"):
        RunLog(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_log_is_held_by_one_process(tmp_path: Path) -> None:
    with RunLog(tmp_path / "runs.jsonl"), pytest.raises(ValueError, match="another is running"):
        RunLog(tmp_path / "runs.jsonl")


def test_fingerprint_tells_settings_apart_but_not_tables() -> None:
    one = make_series()
    assert make_series(seeds=2, chunk=2).fingerprint == one.fingerprint
    assert (
        Series("table3", "karate", "x", count_seed, {"a": 1}, (0,)).fingerprint == one.fingerprint
    )
    assert (
        Series("table2", "karate", "gcn", count_seed, {"a": 2}, (0,)).fingerprint != one.fingerprint
    )
    assert (
        Series("table2", "cora", "gcn", count_seed, {"a": 1}, (0,)).fingerprint != one.fingerprint
    )
    assert make_series(fail).fingerprint != one.fingerprint


def test_a_run_outlives_settings_that_did_not_exist_then(tmp_path: Path) -> None:
    gcn = Series("table2", "karate", "gcn", count_seed, {"gcn": {"hidden": (8,)}}, (0, 1))
    sgc = Series("x", "karate", "sgc", count_seed, {"method": "sgc", "params": {"C": 3.0}}, (0,))
    path = tmp_path / "runs.jsonl"
    with RunLog(path) as log:
        log.append([record_of(gcn, {"seed": 0}), record_of(sgc, {"seed": 0})])
    written = path.read_text()
    lines = lines_of(path)
    assert lines[0]["settings"]["gcn"]["dropout"] == 0.5  # all of them, not only those named
    assert lines[1]["settings"]["params"]["n_hops"] == 2

    def missing(change: Any) -> tuple[list[int], list[int]]:
        change(lines[0], lines[0]["settings"]["gcn"])
        change(lines[1], lines[1]["settings"])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        lines[:] = [json.loads(line) for line in written.splitlines()]
        with RunLog(path) as log:
            return log.missing(gcn), log.missing(sgc)

    def forget(line: Record, settings: dict[str, Any]) -> None:
        settings.get("params", settings).pop("n_hops", None)
        settings.pop("self_loop_weight", None)

    def change_default(line: Record, settings: dict[str, Any]) -> None:
        settings.get("params", settings)["n_hops" if "params" in settings else "dropout"] = 1

    def add_a_setting_that_is_gone(line: Record, settings: dict[str, Any]) -> None:
        settings.get("params", settings)["flux"] = 1

    assert missing(lambda line, settings: None) == ([1], [])
    assert missing(forget) == ([1], [])
    assert missing(change_default) == ([0, 1], [0])
    assert missing(add_a_setting_that_is_gone) == ([0, 1], [0])
    assert missing(lambda line, settings: line.pop("task")) == ([0, 1], [0])


def test_runs_on_other_data_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = make_series(seeds=2)
    club = load_dataset("karate")
    fewer = club.with_split(club.train_index[:3], [], club.test_index)
    with RunLog(tmp_path / "runs.jsonl") as log:
        for graph, n_lines in ((club, 2), (club, 2), (fewer, 4), (fewer, 4)):
            workers._graph.cache_clear()
            workers._data_digest.cache_clear()
            monkeypatch.setattr(workers, "load_dataset", lambda *a, graph=graph, **k: graph)
            run_all([series], log, n_workers=1)
            assert {run["data"] for run in log.records(series)} == {graph.fingerprint()[:16]}
            assert len(lines_of(tmp_path / "runs.jsonl")) == n_lines
    workers._graph.cache_clear()
    workers._data_digest.cache_clear()


def test_runs_are_done_once_and_failures_do_not_stop_the_rest(tmp_path: Path) -> None:
    good, bad = make_series(chunk=2), make_series(fail)
    with RunLog(tmp_path / "runs.jsonl") as log:
        failed = run_all([bad, good, good], log, n_workers=1)
        assert failed == {bad.fingerprint: "RuntimeError: no luck"}
        assert [run["seed"] for run in log.records(good)] == [0, 1, 2, 3, 4]
        assert run_all([make_series(seeds=7)], log, n_workers=1) == {}
    assert [line["seed"] for line in lines_of(tmp_path / "runs.jsonl")] == list(range(7))


def test_a_rerun_tells_what_came_out_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"datasets": ("cora",), "methods": ("gcn", "sgc"), "times": False}
    commands.reproduce("table2", request(tmp_path / "before", **wanted), Screen(quiet=True))
    lines = lines_of(tmp_path / "before" / "runs.jsonl")
    packed = tmp_path / "before.jsonl.gz"

    def pack() -> None:
        packed.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode()))

    def rerun() -> str:
        capsys.readouterr()
        again = request(tmp_path / "again", **wanted)
        commands.reproduce("table2", again, Screen(quiet=True), packed)
        return capsys.readouterr().out

    n_runs = len(lines)
    (gcn,) = (one for one in lines if one["method"] == "gcn")
    pack()
    text = rerun()
    assert f"run again: {n_runs} runs; {n_runs} came out the same, to the last digit\n" in text
    assert "otherwise" not in text
    was = gcn["test_accuracy"]
    gcn["test_accuracy"] = 12.5
    gcn["seconds"] = 1e6  # says nothing
    pack()
    text = rerun()
    assert f"run again: {n_runs} runs; {n_runs - 1} came out the same" in text
    row = next(line.split("  ") for line in text.splitlines() if "table2, cora, gcn" in line)
    assert [cell.strip() for cell in row if cell] == [
        "table2, cora, gcn", "1", "0", "12.50", f"{was:.2f}",
    ]  # fmt: skip
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"before\.jsonl\.gz cannot be unpacked"):
        rerun()


def test_progress_goes_by_cost() -> None:
    cheap, dear = make_series(cost=1.0), make_series(cost=9.0)
    told = []
    advance = count_by_cost(lambda what, done, total: told.append(done / total), [cheap, dear])
    advance(cheap)
    advance(dear)
    assert told == [0.1, 1.0]


# Interruptions


def reproduce_process(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "graphconv", "reproduce", "table3", "--dataset", "cora"]
    command += ["--runs", "3", "--max-epochs", "25", "--output", str(folder), *more]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )


def wait_for_lines(path: Path, n_lines: int, process: subprocess.Popen[bytes]) -> None:
    """Wait for lines for as long as the process that writes them is there, within reason."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= n_lines:
            return
        time.sleep(0.05)
    process.kill()  # it must not outlive its test
    pytest.fail(f"no {n_lines} lines in {path}")


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_killed_and_interrupted_runs_go_on_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first = reproduce_process(tmp_path, "--workers", "2")
    wait_for_lines(path, 3, first)
    first.kill()
    first.communicate()
    survived = path.read_bytes()
    second = reproduce_process(tmp_path, "--workers", "1")
    wait_for_lines(path, survived.count(b"\n") + 3, second)
    second.send_signal(signal.SIGINT)
    _, errors = second.communicate(timeout=600)
    assert second.returncode == 130
    assert errors.decode().splitlines()[-1] == (
        "graphconv: interrupted; the same command goes on from here"
    )
    before = path.read_bytes()
    assert before.startswith(survived[: survived.rfind(b"\n") + 1])
    third = reproduce_process(tmp_path, "--workers", "1", "--json")
    printed, errors = third.communicate(timeout=600)
    assert third.returncode == 0, errors.decode()
    runs = lines_of(path)
    assert path.read_bytes().startswith(before)
    assert len(runs) == 3 * len(table3.TITLES)
    assert len({(run["method"], run["seed"]) for run in runs}) == len(runs)
    assert json.loads(printed) == json.loads((tmp_path / "results.json").read_text())


# Arithmetic


def test_summary_of_a_hand_made_log() -> None:
    runs = [
        {"test_accuracy": value, "validation_accuracy": 50.0, "seconds": seconds}
        for value, seconds in ((80.0, 1.0), (81.0, 2.0), (82.0, 6.0))
    ]
    found = summarise(runs)
    assert (found.mean, found.spread, found.n_runs, found.seconds) == (81.0, 1.0, 3, 3.0)
    assert found.error == pytest.approx(1 / 3**0.5)
    cells = [
        Cell("cora", "gcn", "GCN", 81.5, found),
        Cell("cora", "sgc", "SGC", None, summarise(runs[:1])),
        Cell("cora", "ica", "ICA", 75.1, summarise([]), reason="RuntimeError: no luck"),
    ]
    (table,) = details(cells)
    assert table.rows == (
        ("GCN", "81.5", "81.0 ± 0.58", "-0.5", "81.0 (80.5 to 81.5)", "3", "3.0"),
        ("SGC", "-", "80.0", "-", "80.0", "1", "1.0"),
        ("ICA", "75.1", "failed", "-", "-", "0", "-"),
    )
    assert overview("both", cells).rows == (
        ("GCN", "81.0 (81.5)"), ("SGC", "80.0"), ("ICA", "- (75.1)"),
    )  # fmt: skip
    assert reasons(cells) == ("ICA on Cora: RuntimeError: no luck.",)


def test_baselines_run_until_their_mean_is_sure(tmp_path: Path) -> None:
    wanted = Request(tmp_path, datasets=("cora",), methods=("mlp", "sgc"))
    *timed, mlp, sgc = table2.series(wanted)
    assert (len(mlp.seeds), len(sgc.seeds)) == (10, 1)
    # Each is timed once by itself, before the runs that share the machine.
    assert [(one.method, one.is_alone, len(one.seeds)) for one in timed] == [
        ("mlp, alone", True, 1),
        ("sgc, alone", True, 1),
    ]
    with RunLog(tmp_path / "runs.jsonl") as log:
        values = [54.0, 56.0] * 5  # standard deviation 1.054, so 13 runs bring the error below 0.3
        for seed, value in enumerate(values):
            log.append([record_of(mlp, {"seed": seed, "test_accuracy": value, "seconds": 1.0})])
        log.append([record_of(sgc, {"seed": 0, "test_accuracy": 81.0, "seconds": 1.0})])
        (further,) = table2.further_series(wanted, log)
        assert further.method == "mlp"
        assert len(further.seeds) == 13


@pytest.mark.parametrize(
    ("values", "wanted_runs"),
    [
        ([], None),
        ([54.0], None),  # nobody knows how sure that is
        ([54.0, 54.1], None),  # standard error 0.05
        ([54.0, 56.0], 23),  # standard deviation 1.414: 22.2 runs bring the error to 0.3
        ([54.0, 54.6], 3),  # standard error 0.3: one run more
        ([40.0, 60.0] * 2, 100),  # 1,482 would, but no method has more than 100
        ([40.0, 60.0] * 49 + [50.0], 100),
        ([40.0, 60.0] * 50, None),  # these have been run
    ],
)
def test_how_many_runs_a_sure_mean_takes(
    tmp_path: Path, values: list[float], wanted_runs: int | None
) -> None:
    wanted = Request(tmp_path, datasets=("cora",), methods=("mlp", "gcn", "ica", "sgc"))
    with RunLog(tmp_path / "runs.jsonl") as log:
        for series in table2.series(wanted):
            runs = [{"seed": seed, "test_accuracy": value} for seed, value in enumerate(values)]
            log.append(record_of(series, run) for run in runs)
        # Rows with 100 runs from the start, those that always say the same, and runs that are
        # timed by themselves do not go on.
        further = {one.method: one.seeds for one in table2.further_series(wanted, log)}
        assert further == ({} if wanted_runs is None else {"mlp": tuple(range(wanted_runs))})
        assert not table2.further_series(replace(wanted, runs=2), log)


def test_runs_of_the_search_are_not_among_the_papers_hundred(tmp_path: Path) -> None:
    every = Request(tmp_path, datasets=("cora",))
    series = table2.gcn_series(every, "cora")
    runs = [{"seed": seed, "test_accuracy": 80.0} for seed in (0, 99)]
    runs += [{"seed": seed, "test_accuracy": 10.0} for seed in (100, 1000)]
    with RunLog(tmp_path / "runs.jsonl") as log:
        log.append(record_of(series, run) for run in runs)
        found = table2.cells(every, log, {})
        of_rules = table3.section(every, log, {})
    (gcn,) = (one.ours for one in found if one.method == "gcn")
    assert (gcn.n_runs, gcn.mean) == (2, 80.0)
    assert of_rules.tables[1].columns[-1] == "runs"  # no seconds: nothing was timed by itself
    row = next(row for row in of_rules.tables[1].rows if row[0] == "Renormalisation trick")
    assert (row[2], row[-1]) == ("80.0 ± 0.00", "2")


@pytest.mark.parametrize(
    ("runs", "chosen"),
    [
        ({"planetoid-t": (75.0, 70), "planetoid-i-inductive": (70.0, 72)}, "planetoid-i-inductive"),
        ({"planetoid-t": (70.0, 72), "planetoid-i-inductive": (75.0, 70)}, "planetoid-t"),
        ({"planetoid-i-inductive": (70.0, 72)}, "planetoid-i-inductive"),
        ({"planetoid-t": (70.0, 72), "planetoid-i": (90.0, 90)}, "planetoid-t"),  # another question
        ({}, None),
    ],
)
def test_planetoid_is_chosen_by_validation(
    tmp_path: Path, runs: dict[str, tuple[float, float]], chosen: str | None
) -> None:
    wanted = Request(tmp_path, datasets=("cora",))
    by_method = {one.method: one for one in table2.series(wanted)}
    with RunLog(tmp_path / "runs.jsonl") as log:
        for method, (test, validation) in runs.items():
            run = {"seed": 0, "test_accuracy": test, "validation_accuracy": validation}
            log.append([record_of(by_method[method], {**run, "seconds": 1.0})])
        section = table2.section(wanted, log, {})
        cells = table2.cells(wanted, log, {})
    (star,) = [cell for cell in cells if cell.method == "planetoid"]
    assert (star.title, star.paper, star.paper_text) == ("Planetoid*", 75.7, "75.7 (13 s)")
    notes = [note for note in section.notes if note.startswith("Planetoid*")]
    if chosen is None:
        assert star.ours.n_runs == 0
        assert not notes
    else:
        assert star.ours.mean == runs[chosen][0]
        assert notes == [
            "Planetoid* is the variant with the better validation accuracy: "
            f"{table2.METHODS[chosen]} on Cora."
        ]


def test_timing_fits_a_slope_and_knows_its_memory() -> None:
    slope, constant = timing.fit_line([1e3, 1e4, 1e5, 1e6], [5e-4, 1e-3, 1e-2, 1e-1])
    assert (slope, constant) == (pytest.approx(1), pytest.approx(-7))
    assert timing.bytes_needed(10**7) == pytest.approx(5e9)


def test_machine_counts_the_cores_that_may_be_used() -> None:
    found = describe_machine()
    assert found["cores"] == n_cores()
    assert found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__


# Every experiment, end to end


def test_tables_end_to_end(tmp_path: Path) -> None:
    methods = ("gcn", "label-propagation", "ica", "random-splits", "first-order", "renormalised")
    wanted = request(tmp_path, datasets=("cora",), methods=methods)
    reproduce("table2", wanted)
    results = reproduce("table3", wanted)
    assert list(results["sections"]) == ["table2", "table3"]
    cells = {cell["method"]: cell for cell in results["sections"]["table2"]["data"]["cells"]}
    assert cells["gcn"]["n_runs"] == cells["ica"]["n_runs"] == 1
    assert cells["random-splits"]["n_runs"] == 1
    cora = load_dataset("cora")
    labels = make_estimator("label-propagation", dataset="cora").fit(cora).predict()
    names = np.array(cora.class_names)[cora.labels[cora.test_index]]
    is_right = labels[cora.test_index] == names
    assert cells["label-propagation"]["mean"] == pytest.approx(100 * is_right.mean())
    assert cells["deepwalk"]["n_runs"] == 0
    runs = lines_of(tmp_path / "runs.jsonl")
    gcn = [run for run in runs if run["method"] == "gcn"]
    assert [run["epochs"] for run in gcn] == [3]
    # Table 3's renormalised row is table 2's GCN: not run again.
    assert [run["method"] for run in runs if run["experiment"] == "table3"] == ["first-order"]
    # The same tables come from the log alone.
    from_log = Request(tmp_path, datasets=("cora",), runs=0, max_epochs=3)
    for name in ("table2", "table3"):
        assert reproduce(name, from_log)["sections"][name] == results["sections"][name]
    assert lines_of(tmp_path / "runs.jsonl") == runs
    page = (tmp_path / "results.md").read_text()
    assert "| method | paper | ours | difference | median (quartiles) | runs | seconds |" in page
    assert page.count("Finished at 20") == 2
    assert "<table>" in (tmp_path / "results.html").read_text()


def test_random_splits_are_averaged_by_split(tmp_path: Path) -> None:
    wanted = request(tmp_path, datasets=("cora",), runs=2)
    every = random_splits.series(wanted)
    assert len(every) == 2
    with RunLog(tmp_path / "runs.jsonl") as log:
        for one, values in zip(every, ((80, 82), (84, 86)), strict=True):
            for seed, value in enumerate(values):
                run = {"seed": seed, "test_accuracy": value, "seconds": 1.0}
                log.append([record_of(one, run)])
        (cell,) = random_splits.cells(wanted, log, "cora", {})
    assert (cell.ours.mean, cell.ours.n_runs, cell.ours.error) == (83.0, 2, 2.0)


def test_depth_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: dict[str, Any]
) -> None:
    monkeypatch.setattr(depth, "MOST_LAYERS", 3)
    results = reproduce("depth", request(tmp_path, datasets=("cora",), runs=2, max_epochs=2))
    points = results["sections"]["depth"]["data"]["curves"]["cora"]
    assert len(points) == 3 * 2 * 2
    assert {point["n_folds"] for point in points} == {2}
    # One or two layers have no hidden layers to connect, so both variants share their runs.
    assert len(lines_of(tmp_path / "runs.jsonl")) == 2 * (1 + 1 + 2)
    runs = [
        run["train_accuracy"]
        for run in lines_of(tmp_path / "runs.jsonl")
        if run["method"] == "3 layers, residual"
    ]
    (deep,) = [p for p in points if (p["variant"], p["split"]) == ("residual", "train")
               and p["n_layers"] == 3]  # fmt: skip
    assert deep["mean"] == pytest.approx(np.mean(runs))
    assert deep["error"] == pytest.approx(abs(runs[0] - runs[1]) / 2)  # of the mean of two
    (panel,) = drawn["depth"].axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("number of layers", "accuracy (%)")
    assert panel.get_title() == "Cora"
    shown = [
        (f"{nodes} nodes, {words}", split, variant)
        for nodes, split in (("training", "train"), ("test", "test"))
        for words, variant in (("plain GCN", "plain"), ("residual connections", "residual"))
    ]
    assert [line.get_label() for line in panel.lines] == [label for label, _, _ in shown]
    for line, band, (_, split, variant) in zip(panel.lines, panel.collections, shown, strict=True):
        own = [p for p in points if (p["split"], p["variant"]) == (split, variant)]
        assert list(line.get_xdata()) == [1, 2, 3]
        assert line.get_ydata().tolist() == [point["mean"] for point in own]
        edge = {tuple(corner) for corner in band.get_paths()[0].vertices}
        for point in own:
            for side in (-1, 1):
                assert (point["n_layers"], point["mean"] + side * point["error"]) in edge


def test_a_fold_trains_for_all_its_epochs() -> None:
    series = Series(
        "depth", "karate", "x", depth.run_fold,
        {"gcn": Request(Path()).settings("paper", max_epochs=230, early_stopping="none"),
         "n_folds": 5}, (1,),
    )  # fmt: skip
    (record,) = depth.run_fold(series, load_dataset("karate"))
    assert record["epochs"] == 230
    assert record["validation_accuracy"] is None


def test_timing_end_to_end(tmp_path: Path) -> None:
    wanted = request(tmp_path, runs=3, timing_edges=(1000, 2000, 10**13))
    section = reproduce("timing", wanted)["sections"]["timing"]
    assert section["tables"][0]["rows"][-1] == ["10,000,000,000,000", "*", "-", "-"]
    assert [record["epochs"] for record in section["data"]["records"]] == [3, 3]
    before = (tmp_path / "runs.jsonl").read_bytes()
    reproduce("timing", wanted)
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def test_timing_has_a_series_for_every_device(tmp_path: Path) -> None:
    # Any device but "cpu" itself is measured as it trains: "cpu:0" stands for a graphics card.
    wanted = request(tmp_path, runs=3, timing_edges=(1000, 2000), timing_devices=("cpu", "cpu:0"))
    section = reproduce("timing", wanted)["sections"]["timing"]
    assert [table["title"] for table in section["tables"]] == [
        "Random graphs, our kernels, CPU",
        "Random graphs, torch, cpu:0",
    ]
    assert [len(table["rows"]) for table in section["tables"]] == [2, 2]
    assert not any("GPU" in note for note in section["notes"])
    kinds = {line["settings"]["kernels"] for line in lines_of(tmp_path / "runs.jsonl")}
    assert kinds == {kernels.select().__name__, "training on cpu:0"}


def test_timing_measures_the_graphics_card_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for cuda, mps in ((False, False), (True, False), (False, True)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        found.append(timing._devices(Request(Path("unused"))))
    assert found == [("cpu",), ("cpu", "cuda"), ("cpu", "mps")]


def test_karate_end_to_end(tmp_path: Path) -> None:
    from PIL import Image

    from graphconv.report._style import COLOURS

    section = reproduce("karate", request(tmp_path, runs=2, max_epochs=25))["sections"]["karate"]
    assert [row[0] for row in section["tables"][0]["rows"]] == ["0", "25"]
    folder = tmp_path / "figures"
    with Image.open(folder / "karate.gif") as moving:
        assert moving.n_frames == 10
        moving.seek(9)
        shades = {colour for _, colour in moving.convert("RGB").getcolors()}
    assert {tuple(bytes.fromhex(colour[1:])) for colour in COLOURS[:4]} < shades
    assert (255, 255, 255) in shades
    page = (folder / "karate.html").read_text()
    assert "/*DATA*/" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    with Image.open(folder / "karate-evolution.png") as picture:
        assert picture.width > 400


@pytest.mark.parametrize(
    ("points", "labels", "expected"),
    [
        ([[0, 0], [1, 0], [2, 0]], [0, 1, 2], True),  # three on a line, each a class
        ([[0, 0], [1, 0], [2, 0]], [0, 1, 0], False),  # the middle one is shut in
        ([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1], False),  # exclusive or
        ([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 1, 2, 3], True),  # the corners of a square
        ([[0, 0], [0, 0]], [0, 1], False),  # one place, two classes
        ([[1e-9, 0], [0, 1e-9], [0, 0]], [0, 1, 2], True),  # however small
        ([[3, 1], [2, 2]], [5, 5], True),
    ],
)
def test_linear_separability_by_hand(points: Any, labels: Any, expected: bool) -> None:
    assert is_separable(points, labels) is expected


def test_karate_counts_the_starts_that_lines_can_part(tmp_path: Path) -> None:
    club = load_dataset("karate")
    evolution = karate.train_embeddings(club, range(3), 100)
    shares = [
        np.mean([is_separable(places, club.labels) for places in evolution.positions[number]])
        for number in (0, 100)
    ]
    section = reproduce("karate", request(tmp_path, runs=3, max_epochs=100))["sections"]["karate"]
    table = section["tables"][0]
    assert table["columns"][-1] == "starts that are linearly separable, %"
    found = {row[0]: row[-1] for row in table["rows"]}
    assert (found["0"], found["100"]) == tuple(f"{100 * share:.0f}" for share in shares)


def test_karate_models_learn_side_by_side_as_they_would_alone() -> None:
    club = load_dataset("karate")
    both = karate.train_embeddings(club, range(2), 5)
    alone = karate.train_embeddings(club, range(1, 2), 5)
    np.testing.assert_allclose(both.positions[:, 1], alone.positions[:, 0], atol=1e-6)
    assert both.positions.shape == (6, 2, 34, 2)
    assert np.abs(both.positions).max() < 1


def test_tsne_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: dict[str, Any]
) -> None:
    from sklearn import manifold

    class Fast:
        def __init__(self, **options: Any) -> None:
            assert options["random_state"] == 0

        def fit_transform(self, hidden: Any) -> Any:
            places.append(hidden[:, :2])
            return hidden[:, :2]

    places: list[Any] = []
    monkeypatch.setattr(manifold, "TSNE", Fast)
    reproduce("tsne", request(tmp_path))
    cora = load_dataset("cora")
    (panel,) = drawn["tsne"].axes
    assert len(panel.collections) == cora.n_classes
    for number, dots in enumerate(panel.collections):
        is_own = cora.labels == number
        assert np.array_equal(dots.get_offsets(), places[0][is_own])
        name = cora.class_names[number].replace("_", " ")
        assert dots.get_label() == f"{name} ({is_own.sum()})"
    assert panel.get_title() == "Hidden activations of a two-layer GCN trained on Cora"
    assert panel.get_xlabel() == "t-SNE dimension 1"
    assert panel.get_ylabel() == "t-SNE dimension 2"


def test_tune_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    from graphconv.paper import tune

    monkeypatch.setattr(tune, "N_SEEDS", 2)
    reproduce("tune", request(tmp_path, runs=2, max_epochs=2))
    section = reproduce("tune", request(tmp_path, runs=3, max_epochs=2))["sections"]["tune"]
    trials = section["data"]["trials"]
    assert len(trials) == 3
    # Two runs of each trial and no more, and one with a fresh seed for each of the two rows.
    runs = lines_of(tmp_path / "runs.jsonl")
    assert sum(run["seed"] >= tune.FIRST_SEED for run in runs) == 3 * 2
    whole = reproduce("tune", request(tmp_path / "whole", runs=3, max_epochs=2))["sections"]["tune"]
    assert whole["data"] == section["data"]
    assert {name: trials[0][name] for name in ("dropout", "hidden")} == {
        "dropout": 0.5,
        "hidden": 16,
    }


def test_tune_without_optuna_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match="pip install optuna"):
        reproduce("tune", request(tmp_path))


@pytest.mark.parametrize(
    ("what", "more", "message"),
    [
        ("table9", {}, "experiment must be one of all, table1, table2"),
        ("table2", {"datasets": ("mnist",)}, "--dataset must be one of"),
        ("table2", {"methods": ("svm",)}, "--method must be one of"),
        ("table3", {"methods": ("gcn",)}, "--method must be one of chebyshev-3"),
        ("table2", {"runs": -1}, "--runs must be at least 0"),
        ("karate", {"runs": 0}, "--runs must be at least 1 for karate"),
        ("table2", {"n_workers": 0}, "--workers must be at least 1"),
    ],
)
def test_wrong_requests_are_refused(
    tmp_path: Path, what: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        reproduce(what, request(tmp_path, **more))


def test_a_missing_data_set_leaves_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    wanted = request(tmp_path, datasets=("nell",), methods=("gcn",))
    section = reproduce("table2", wanted)["sections"]["table2"]
    assert any("nell needs a folder" in note for note in section["notes"])


def test_results_become_documents(tmp_path: Path) -> None:
    build = load_script("build_results")
    results = reproduce("table2", request(tmp_path, datasets=("cora",), methods=("gcn",)))
    block = build.readme_block(results)
    text = build.replace_block("before\n<!-- results -->old<!-- /results -->\nafter\n", block)
    assert text.startswith("before\n<!-- results -->\n\n| method | Cora |")
    assert text.endswith("<!-- /results -->\nafter\n")
    assert "old" not in text
    assert to_markdown(results).startswith("# The paper, rerun")
    assert to_html(results).startswith("<!doctype html>")
