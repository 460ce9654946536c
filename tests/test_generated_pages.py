"""Pages that a command makes from committed figures are what that command makes."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from tests.scripts import ROOT, load_script

from graphconv import load_dataset
from graphconv.estimators.runs import RunLog
from graphconv.io.files import json_text
from graphconv.paper import depth, random_splits, self_loops, table2, table3
from graphconv.paper.section import Request

DOCS = ROOT / "docs"
MEASURED = ROOT / "measured"
PAGES = {
    "build_results": ["docs/results.md", "README.md"],
    "build_departures": ["docs/paper.md"],
    "build_performance": ["docs/performance.md"],
    "build_scaling": ["docs/scaling.md"],
    "build_strong": ["docs/strong.md"],
    "build_evidence": ["docs/evidence.md"],
    "build_labelling": ["docs/labelling.md"],
    "build_mutants": ["docs/mutants.md"],
}


def test_every_script_that_makes_a_page_is_held_to_it():
    elsewhere = {"build_settings", "build_cora"}  # tests/test_settings.py; data, not a page
    scripts = {path.stem for path in (ROOT / "scripts").glob("build_*.py")}
    assert scripts - elsewhere == set(PAGES)


@pytest.mark.parametrize("script", PAGES)
def test_pages_are_what_the_committed_figures_make(script):
    pages = load_script(script).pages()
    assert sorted(str(path.relative_to(ROOT)) for path in pages) == sorted(PAGES[script])
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, (
            f"make it again: python -m scripts.{script}"
        )


def test_readme_says_which_rows_are_not_the_papers():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (
        "NELL: GCN is the paper's recipe. Our recipe is not: rows of features have length 1" in text
    )
    assert "128 of these are official ones" in text
    assert "More than one point below the paper: " in text


def committed():
    return json.loads((MEASURED / "results.json").read_text(encoding="utf-8"))["sections"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    path.write_bytes(gzip.decompress((MEASURED / "runs.jsonl.gz").read_bytes()))
    with RunLog(path) as log:
        yield log


# What nothing but the log decides; depth and timing also draw.
@pytest.mark.parametrize("module", [table2, table3, random_splits, self_loops, depth])
def test_published_tables_are_those_of_the_committed_runs(module, log):
    made = module.section(Request(log.path.parent), log, {}).to_json()
    made = json.loads(json_text(made))
    assert made["tables"]
    assert made == committed()[module.NAME]


def test_published_karate_figures_are_those_of_the_committed_runs(log):
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    runs = [line for line in lines if line["experiment"] == "karate"]
    rows = committed()["karate"]["tables"][0]["rows"]
    for at, row in enumerate(rows):
        accuracy = [run["accuracy_after"][at] for run in runs]
        separable = [run["separable_after"][at] for run in runs]
        assert row[2] == f"{np.mean(accuracy):.1f}"
        assert row[4] == f"{100 * np.mean(separable):.0f}"


@pytest.mark.parametrize(
    ("module", "row"),
    [
        *((table2, row) for row in ("gcn", "gcn-consecutive", "ica", "mlp", "sgc")),
        *((table2, row) for row in ("label-propagation", "manifold", "manifold-inductive")),
        *((table3, row) for row in ("chebyshev-2", "first-order", "single-parameter", "none")),
    ],
)
def test_a_committed_run_comes_out_the_same_again(module, row, log):
    """The records are of the code as it is; another processor may round a node or two away."""
    wanted = Request(log.path.parent, datasets=("cora",), methods=(row,), times=False)
    (series,) = module.series(wanted)
    before = log.records(series)[0]
    (again,) = series.task(replace(series, seeds=(before["seed"],)), load_dataset("cora"))
    assert before["data"] == load_dataset("cora").fingerprint()[:16]
    assert again["test_accuracy"] == pytest.approx(before["test_accuracy"], abs=0.3)
    assert again["validation_accuracy"] == pytest.approx(before["validation_accuracy"], abs=0.5)


def test_figures_of_the_results_are_committed():
    results = json.loads((MEASURED / "results.json").read_text(encoding="utf-8"))
    names = [
        figure["file"] for section in results["sections"].values() for figure in section["figures"]
    ]
    assert names
    for name in names:
        assert (DOCS / f"{name}.png").is_file()
        assert (DOCS / f"{name}.svg").is_file()
