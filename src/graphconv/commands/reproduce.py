"""`graphconv reproduce`: run experiments, put their sections together, write the pages."""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from graphconv.commands.console import Screen, TrainingStoppedError
from graphconv.estimators.runs import RunLog, Runs, read_runs, repeats
from graphconv.estimators.statistics import fixed, summarise
from graphconv.io.files import json_text, replacing_file
from graphconv.paper import depth, random_splits, self_loops, table2, table3
from graphconv.paper.machine import describe_machine
from graphconv.paper.page import to_html, to_markdown
from graphconv.paper.published import DATASETS
from graphconv.paper.section import Request, Section
from graphconv.paper.workers import run_all

# Made of repeated runs, which share the cores.
_TABLES: dict[str, ModuleType] = {
    "table2": table2,
    "table3": table3,
    "random-splits": random_splits,
    "self-loops": self_loops,
    "depth": depth,
}
# Worked out one after the other, with the machine to themselves.
_FIGURES = ("table1", "timing", "tsne", "karate", "tune")
EXPERIMENTS = (
    "table1", "table2", "table3", "random-splits", "self-loops", "timing", "tsne", "karate",
    "depth", "tune",
)  # fmt: skip


def reproduce(
    what: str, request: Request, screen: Screen, against: Path | None = None
) -> dict[str, Any]:
    """Run one experiment, or "all", and write results.json, results.md and results.html.

    Parameters
    ----------
    what : str
        One of EXPERIMENTS, or "all".
    request : Request
        Results of other experiments that are in its output folder already stay.
    screen : Screen
    against : Path, optional
        Log of an earlier rerun: it is told which runs of the folder came out as they did there.

    Returns
    -------
    dict
        What results.json holds.
    """
    _check(what, request)
    _read_results(request)  # refused now, not after hours
    before = None if against is None else read_runs(against)
    try:
        with RunLog(request.output / "runs.jsonl") as log:
            _run(what, request, log, screen)
            if before is not None:
                _tell_changes(log, before, screen)
    except KeyboardInterrupt:
        raise TrainingStoppedError("the same command goes on from here") from None
    results = _read_results(request)
    screen.result(results)
    screen.note(f"written to {request.output}: results.json, results.md, results.html")
    return results


def _run(what: str, request: Request, log: RunLog, screen: Screen) -> None:
    names = EXPERIMENTS if what == "all" else (what,)
    tables = [name for name in names if name in _TABLES]
    with screen.showing() as progress:
        failed = _run_tables(tables, replace(request, progress=progress), log)
    for name in tables:
        _finish(_TABLES[name].section(request, log, failed), request, screen)
    for name in names:
        if name in _FIGURES and request.runs != 0:
            _run_figure(name, request, log, screen, is_wanted=what != "all")


def _tell_changes(log: RunLog, before: Runs, screen: Screen) -> None:
    found = repeats(log, before)
    n_runs, n_same = sum(len(one.now) for one in found), sum(one.n_same for one in found)
    changed = [one for one in found if one.n_same < len(one.now)]
    if changed:
        columns = ["series", "runs", "the same", "mean before", "mean now"]
        rows = [
            [one.name, str(len(one.now)), str(one.n_same)]
            + [fixed(summarise(runs).mean, 2) for runs in (one.before, one.now)]
            for one in changed
        ]
        screen.table("What came out otherwise", columns, rows)
    screen.say(f"run again: {n_runs:,} runs; {n_same:,} came out the same, to the last digit")


def _check(what: str, request: Request) -> None:
    if what not in (*EXPERIMENTS, "all"):
        known = ", ".join(("all", *EXPERIMENTS))
        raise ValueError(f"experiment must be one of {known}, got {what!r}")
    for dataset in request.datasets:
        if dataset not in DATASETS:
            raise ValueError(f"--dataset must be one of {', '.join(DATASETS)}, got {dataset!r}")
    rows = {"table2": table2.ROWS, "table3": tuple(table3.TITLES)}
    known_rows = tuple(row for table in rows.values() for row in table)
    unknown = [method for method in request.methods if method not in known_rows]
    # With rows of the other table alone nothing would run.
    if what in rows and request.methods and not set(request.methods) & set(rows[what]):
        known_rows, unknown = rows[what], list(request.methods)
    if unknown:
        raise ValueError(f"--method must be one of {', '.join(known_rows)}, got {unknown[0]!r}")
    for name, number, least in (("--runs", request.runs, 0), ("--workers", request.n_workers, 1)):
        if number is not None and number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")
    if request.runs == 0 and what in _FIGURES:
        raise ValueError(f"--runs must be at least 1 for {what}, which is not made from known runs")


def _run_tables(names: Sequence[str], request: Request, log: RunLog) -> dict[str, str]:
    """Do the runs of some tables together; returns what failed."""
    wanted = [one for name in names for one in _TABLES[name].series(request)]
    failed: dict[str, str] = {}
    while wanted:
        failed |= run_all(wanted, log, request.progress, request.data_dir, request.n_workers)
        further = table2.further_series(request, log) if "table2" in names else []
        wanted = [one for one in further if one.fingerprint not in failed]
    return failed


def _run_figure(name: str, request: Request, log: RunLog, screen: Screen, is_wanted: bool) -> None:
    module = importlib.import_module(f"graphconv.paper.{name}")
    screen.note(f"{name} ...")
    try:
        with screen.showing() as progress:
            section = module.section(replace(request, progress=progress), log)
    except ImportError as error:  # an optional package
        if is_wanted:
            raise ValueError(str(error)) from None
        screen.note(f"{name}: {error}")
    else:
        _finish(section, request, screen)


def _finish(section: Section, request: Request, screen: Screen) -> None:
    """Print a section and put it among the results on disk."""
    for table in section.tables:
        screen.table(
            f"{section.title}: {table.title}", list(table.columns), [list(r) for r in table.rows]
        )
    for note in section.notes:
        screen.note(note)
    results = _read_results(request)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    section = replace(section, finished=section.finished or now)
    sections = {**results["sections"], section.name: section.to_json()}
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "sections": {name: sections[name] for name in EXPERIMENTS if name in sections},
    }
    texts = {
        "results.json": json_text(results, indent=1) + "\n",
        "results.md": to_markdown(json.loads(json_text(results))),
        "results.html": to_html(json.loads(json_text(results))),
    }
    for file_name, text in texts.items():
        with replacing_file(request.output / file_name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _read_results(request: Request) -> dict[str, Any]:
    path = request.output / "results.json"
    if not path.is_file():
        return {"sections": {}}
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        # Its sections are shown again with those that follow, so that must be possible.
        to_html({**results, "date": "", "machine": describe_machine()})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: must be JSON that an earlier run wrote; remove it") from None
    return results
