"""Pages that a command makes from committed figures are what that command makes."""

import json

import pytest
from tests.scripts import ROOT, load_script

DOCS = ROOT / "docs"
MEASURED = ROOT / "measured"
PAGES = {
    "build_results": ["docs/results.md", "README.md"],
    "build_departures": ["docs/paper.md"],
    "build_performance": ["docs/performance.md"],
    "build_scaling": ["docs/scaling.md"],
}


@pytest.mark.parametrize("script", PAGES)
def test_pages_are_what_the_committed_figures_make(script):
    pages = load_script(script).pages()
    assert sorted(str(path.relative_to(ROOT)) for path in pages) == sorted(PAGES[script])
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"make it again: scripts/{script}.py"


def test_figures_of_the_results_are_committed():
    results = json.loads((MEASURED / "results.json").read_text(encoding="utf-8"))
    names = [
        figure["file"] for section in results["sections"].values() for figure in section["figures"]
    ]
    assert names
    for name in names:
        assert (DOCS / f"{name}.png").is_file()
        assert (DOCS / f"{name}.svg").is_file()
