"""What a rerun of the paper writes: the page of its results, and the machine they are from."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphconv
from graphconv.estimators.statistics import summarise
from graphconv.paper import machine, page
from graphconv.paper.comparison import (
    Cell,
    details,
    first_reason,
    overview,
    reasons,
    short_of_paper,
)
from graphconv.paper.section import Figure, Request, Section, Table

TABLE = Table("Cora & co", ("method", "ours", "paper"), (("a|b", "1", "2"), ("<c>", "3", "-")))
SECTION = Section(
    name="table2",
    title="Table 2",
    text=("One.", "Two < three."),
    tables=(TABLE,),
    figures=(
        Figure("figures/plain", "A plain figure", "what it shows"),
        Figure("figures/club", "The club", "a drawing", page="figures/club.html"),
    ),
    notes=("first", "second & last"),
    data={"x": 1},
    finished="2026-01-02T03:04:05Z",
)
RESULTS: dict[str, Any] = {
    "date": "2026-01-02",
    "machine": {
        "processor": "Abacus",
        "cores": 2,
        "memory_gb": 16.4,
        "system": "Linux",
        "python": "3.11",
        "numpy": "2.0",
    },
    "sections": {"table2": SECTION.to_json()},
}


def test_a_section_survives_json() -> None:
    assert Section.from_json(SECTION.to_json()) == SECTION
    early = SECTION.to_json()
    early.pop("finished")  # results of before it was noted
    assert Section.from_json(early) == replace(SECTION, finished="")


def test_markdown() -> None:
    machine_line = (
        "Last measured on 2026-01-02: Abacus, 2 cores, 16 GB of memory; "
        + "Linux, Python 3.11, numpy 2.0."
    )
    expected = [
        "# The paper, rerun",
        page._PAPER,
        machine_line,
        "## Table 2",
        "One.",
        "Two < three.",
        "Finished at 2026-01-02T03:04:05Z.",
        "### Cora & co",
        "| method | ours | paper |\n| --- | ---: | ---: |\n| a\\|b | 1 | 2 |\n| <c> | 3 | - |",
        "![what it shows](figures/plain.png)",
        "*A plain figure*",
        "![a drawing](figures/club.png)",
        "*The club*",
        "![Animation: The club](figures/club.gif)",
        "A rerun also writes `figures/club.html`: the same, to play and to step through.",
        "- first\n- second & last",
    ]
    assert page.to_markdown(RESULTS) == "\n\n".join(expected) + "\n"


def test_markdown_without_what_is_not_known() -> None:
    bare = {**RESULTS, "machine": {**RESULTS["machine"], "memory_gb": None}}
    bare["sections"] = {"x": Section("x", "Nothing").to_json()}
    expected = ["# The paper, rerun", page._PAPER]
    expected += ["Last measured on 2026-01-02: Abacus, 2 cores; Linux, Python 3.11, numpy 2.0."]
    assert page.to_markdown(bare) == "\n\n".join([*expected, "## Nothing"]) + "\n"


def test_html_escapes_what_it_shows() -> None:
    made = page.to_html(RESULTS)
    for text in (
        '<h2 id="table2">Table 2</h2>',
        "<p>Two &lt; three.</p>",
        "<p>Finished at 2026-01-02T03:04:05Z.</p>",
        "<caption>Cora &amp; co</caption>",
        '<th scope="col">method</th><th scope="col">ours</th><th scope="col">paper</th>',
        '<tr><th scope="row">a|b</th><td>1</td><td>2</td></tr>',
        '<tr><th scope="row">&lt;c&gt;</th><td>3</td><td>-</td></tr>',
        '<img src="figures/plain.svg" alt="what it shows"><figcaption>A plain figure</figcaption>',
        'The club <a href="figures/club.html">The same, to play and to step through.</a>',
        "<ul><li>first</li><li>second &amp; last</li></ul>",
    ):
        assert text in made
    bare = {**RESULTS, "sections": {"x": Section("x", "Nothing").to_json()}}
    assert "<ul>" not in page.to_html(bare)


def test_a_request_takes_what_is_wanted() -> None:
    every = Request(Path())
    assert every.datasets_of(("cora", "nell")) == ("cora", "nell")
    assert every.wants_method("gcn")
    assert (every.n_runs(100), every.times) == (100, True)
    few = Request(Path(), datasets=("nell",), methods=("ica",), runs=7, max_epochs=30)
    assert few.datasets_of(("cora", "nell")) == ("nell",)
    assert (few.wants_method("ica"), few.wants_method("gcn")) == (True, False)
    assert (few.n_runs(100), few.n_runs(5)) == (7, 5)
    assert few.settings("paper")["max_epochs"] == 30
    assert few.settings("paper", max_epochs=4)["max_epochs"] == 4
    assert every.settings("paper", hidden=(8,))["hidden"] == (8,)


def cell(dataset: str, method: str, paper: float | None, *values: float, **more: Any) -> Cell:
    runs = [{"test_accuracy": value, "seconds": 2.0} for value in values]
    return Cell(dataset, method, method.upper(), paper, summarise(runs), **more)


def test_cells_side_by_side() -> None:
    cells = [
        cell("cora", "gcn", 81.5, 80.0, 82.0),
        cell("cora", "sgc", None),
        cell("nell", "gcn", 66.0, reason="OSError: no file", paper_text="66.0 (48 s)"),
    ]
    assert overview("x", cells) == Table(
        "x", ("method", "Cora", "NELL"), (("GCN", "81.0 (81.5)", "- (66.0)"), ("SGC", "-", "-"))
    )
    cora, nell = details(cells)
    assert (cora.title, nell.title) == ("Cora", "NELL")
    assert cora.rows[1] == ("SGC", "-", "not run", "-", "-", "0", "-")
    assert nell.rows == (("GCN", "66.0 (48 s)", "failed", "-", "-", "0", "-"),)
    assert reasons(cells) == ("GCN on NELL: OSError: no file.",)
    # Who has runs needs no reason; who shares one is named with the others.
    both = [cell("cora", "gcn", 81.5, 80.0, reason="x"), cell("nell", "a", None, reason="why")]
    assert reasons([*both, cell("nell", "b", None, reason="why")]) == (
        "A on NELL, B on NELL: why.",
    )


def test_what_is_more_than_a_point_below_the_paper_is_named() -> None:
    found = [
        cell("cora", "just", 81.0, 80.0),
        cell("cora", "below", 81.0, 79.5, 80.0),
        cell("nell", "far", 66.0, 60.0),
        cell("nell", "quoted", None, 60.0),
        cell("nell", "nothing", 66.0),
    ]
    assert short_of_paper(found) == [
        "More than one point below the paper: BELOW on Cora (-1.2), FAR on NELL (-6.0)."
    ]
    assert short_of_paper(found[:1]) == []


def test_the_first_reason_is_told() -> None:
    failed = {"b": "second", "c": "third"}
    assert first_reason(failed, "a", "b", "c") == "second"
    assert first_reason(failed, "a") == ""


# The machine


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose files are in a folder."""

    class Elsewhere:
        def __new__(cls, path: str) -> Path:
            return tmp_path / path.lstrip("/")

    monkeypatch.setattr(machine, "Path", Elsewhere)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "cgroup")
    (tmp_path / "proc").mkdir()
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)
    return tmp_path


def test_memory_and_processor_are_read(files: Path) -> None:
    (files / "proc/meminfo").write_text("MemFree: 5 kB\nMemTotal:     100000000 kB\n")
    (files / "proc/cpuinfo").write_text("processor : 0\nmodel name  : An   Abacus: 3 GHz\n")
    found = machine.describe_machine()
    assert found["memory_gb"] == 102.4  # 100,000,000 times 1,024 bytes
    assert found["processor"] == "An Abacus: 3 GHz"
    assert found["graphconv"] == graphconv.__version__
    assert found["scipy"] == importlib.metadata.version("scipy")
    (files / "cgroup/memory.max").write_text("max\n")
    (files / "cgroup/memory/memory.limit_in_bytes").write_text("4000000000\n")
    assert machine.describe_machine()["memory_gb"] == 4.0
    (files / "cgroup/memory.max").write_text("2000000000\n")
    assert machine.describe_machine()["memory_gb"] == 2.0


def test_a_machine_that_tells_nothing(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "abacus64")
    found = machine.describe_machine()
    assert (found["memory_gb"], found["processor"]) == (None, "abacus64")
    (files / "proc/meminfo").write_text("MemFree: 5 kB\n")
    (files / "proc/cpuinfo").write_text("processor : 0\n")
    found = machine.describe_machine()
    assert (found["memory_gb"], found["processor"]) == (None, "abacus64")


@pytest.mark.parametrize(("missing", "said"), [(None, "in C++"), ("no compiler", "in Python")])
def test_kernels_and_missing_packages_are_told(
    missing: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "native_missing", lambda: missing)

    def version(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = machine.describe_machine()
    assert (found["kernels"], found["torch"]) == (said, "missing")
