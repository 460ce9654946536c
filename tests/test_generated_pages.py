"""Pages that a command makes from committed figures are what that command makes."""

import gzip
import json

import numpy as np
import pytest
from tests.scripts import ROOT, load_script

from graphconv.paper import random_splits

DOCS = ROOT / "docs"
MEASURED = ROOT / "measured"
PAGES = {
    "build_results": ["docs/results.md", "README.md"],
    "build_departures": ["docs/paper.md"],
    "build_performance": ["docs/performance.md"],
    "build_scaling": ["docs/scaling.md"],
    "build_strong": ["docs/strong.md"],
}


@pytest.mark.parametrize("script", PAGES)
def test_pages_are_what_the_committed_figures_make(script):
    pages = load_script(script).pages()
    assert sorted(str(path.relative_to(ROOT)) for path in pages) == sorted(PAGES[script])
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"make it again: scripts/{script}.py"


def test_published_means_are_those_of_the_committed_runs():
    lines = gzip.decompress((MEASURED / "runs.jsonl.gz").read_bytes()).decode().splitlines()
    accuracy = {}
    for run in map(json.loads, lines):
        key = run["experiment"], run["dataset"], run["method"]
        accuracy.setdefault(key, []).append(run["test_accuracy"])
    results = json.loads((MEASURED / "results.json").read_text(encoding="utf-8"))
    cells = [
        cell
        for cell in results["sections"]["table2"]["data"]["cells"]
        if cell["n_runs"] and cell["method"] not in ("planetoid", *random_splits.TITLES)
    ]
    assert len(cells) > 40
    for cell in cells:
        runs = accuracy["table2", cell["dataset"], cell["method"]]
        assert len(runs) == cell["n_runs"]
        assert np.mean(runs) == pytest.approx(cell["mean"])
        assert np.median(runs) == pytest.approx(cell["quartiles"][1])
    for dataset, found in results["sections"]["self-loops"]["data"].items():
        runs = accuracy["self-loops", dataset, "lambda learned"]
        assert np.mean(runs) == pytest.approx(found["test_accuracy"])


def test_figures_of_the_results_are_committed():
    results = json.loads((MEASURED / "results.json").read_text(encoding="utf-8"))
    names = [
        figure["file"] for section in results["sections"].values() for figure in section["figures"]
    ]
    assert names
    for name in names:
        assert (DOCS / f"{name}.png").is_file()
        assert (DOCS / f"{name}.svg").is_file()
