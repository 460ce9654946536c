"""The guide: every code block of every page runs and prints what the page shows; it builds.

RENEW_GUIDE=1 (`make guide`) writes what was printed into the pages instead of failing.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.browser import open_browser
from tests.command_line import ROOT
from tests.guide_blocks import Runner, matches, renewed, steps_of

import graphconv
from graphconv.estimators.baselines import BASELINES

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RENEW = bool(os.environ.get("RENEW_GUIDE"))
# Pages that show nothing but text and tables: the rest must have blocks to run.
WITHOUT_BLOCKS = {"index.md", "results.md", "log.md", "performance.md", "scaling.md"} | {
    "evidence.md",
    "model-format.md",
    "mutants.md",
    "strong.md",
    "trust.md",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    steps = steps_of(text)
    may_lack_blocks = page.name in WITHOUT_BLOCKS or page.parent.name == "reference"
    assert steps or may_lack_blocks, f"{page.name} has no block to run"
    runner = Runner(tmp_path)
    lines = text.splitlines()
    for step, printed in [(step, _run(runner, page, step)) for step in steps][::-1]:
        if printed is None or step.output is None:
            continue
        if RENEW:
            end = step.first_output + len(step.output)
            lines[step.first_output : end] = renewed(step.output, printed)
        else:
            assert matches(step.output, printed), (
                f"{page.name}, line {step.line}: {step.code}\n-- must print\n"
                + "\n".join(step.output)
                + f"\n-- and printed\n{printed}-- 'make guide' renews the pages"
            )
    if RENEW:
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run(runner, page, step):
    try:
        return runner.run(step)
    except Exception as error:
        raise AssertionError(f"{page.name}, line {step.line}: {step.code}") from error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("```console\n$ graphconv --version\ngraphconv 0\n```", "graphconv 0"),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```", "3"),
        ("    graphconv datasets \\\n        --json\n", None),
    ],
)
def test_blocks_are_found_run_and_compared(text, shown, tmp_path):
    (step,) = steps_of(text)
    printed = Runner(tmp_path).run(step)
    if shown is None:
        assert step.output is None
        assert "karate" in printed
    else:
        assert step.output == (shown,)
        assert text.splitlines()[step.first_output] == shown
        assert not matches(step.output, printed)
        assert matches(renewed(step.output, printed), printed)


def test_a_block_that_can_not_be_run_is_refused():
    with pytest.raises(ValueError, match="line 1: a block must be python"):
        steps_of("```yaml\na: 1\n```")


def test_a_command_that_fails_is_noticed(tmp_path):
    (step,) = steps_of("```console\n$ graphconv train nowhere\n```")
    with pytest.raises(AssertionError, match="nowhere"):
        Runner(tmp_path).run(step)


def test_reference_has_every_public_name():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*"))
    documented = set(re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))
    public = {f"graphconv.{name}" for name in graphconv.__all__}
    baselines = {f"graphconv.{path.partition(':')[2]}" for path in BASELINES.values()}
    shared = {"graphconv.report.plot", "graphconv.estimators.node_classifier.NodeClassifierMixin"}
    assert documented == public | baselines | shared


def _build(folder, site):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("building the guide needs the extra 'docs' (mkdocs, mkdocs-material)")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    return SimpleNamespace(built=_build(ROOT, site), site=site)


def test_guide_builds_in_strict_mode(guide):
    assert guide.built.returncode == 0, guide.built.stdout
    for page in guide.site.rglob("*.html"):
        loaded = r"""<(?:script|img|iframe|source)[^>]* src="?http|<link[^>]*stylesheet[^>]*http"""
        assert not re.findall(loaded, page.read_text(encoding="utf-8")), page


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*")), ids=lambda path: path.name)
def test_pictures_are_small_and_shown(picture):
    assert picture.stat().st_size < 200_000
    assert any(f"images/{picture.name}" in page.read_text(encoding="utf-8") for page in PAGES)


def test_strict_mode_refuses_what_leads_nowhere(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(DOCS, copy / "docs")
    for name in ("mkdocs.yml", "scripts", "src"):
        (copy / name).symlink_to(ROOT / name)
    page = copy / "docs" / "index.md"
    bad = ["[a](no-page.md)", "[a](own-data.md#no-heading)", "[a][graphconv.no_name]"]
    page.write_text("\n\n".join([page.read_text(encoding="utf-8"), *bad]), encoding="utf-8")
    done = _build(copy, tmp_path / "site")
    assert done.returncode == 1, done.stdout
    for name in ("no-page.md", "#no-heading", "graphconv.no_name"):
        assert re.search(f"^WARNING.*{name}", done.stdout, re.MULTILINE), done.stdout


def test_guide_asks_nothing_of_the_network_and_can_be_searched(guide):
    if guide.built.returncode:
        pytest.skip("the guide was not built")
    browser = open_browser()
    try:
        pages = [page for page in guide.site.rglob("*.html") if page.name != "404.html"]
        assert len(pages) > len(WITHOUT_BLOCKS)
        for page in pages:
            browser.open(page, width=390, dark=True)
            assert browser.errors() == [], page
            assert browser.outside_requests() == [], page
            assert browser.sideways() <= 0, page
        browser.open(guide.site / "index.html", width=1300)
        assert browser.sideways() <= 0
        browser.run("document.querySelector('[data-md-component=search-query]').focus()")
        browser.press(*"suggest")
        browser.wait("document.querySelector('.md-search-result__link') !== null", "search results")
        assert "suggest" in browser.text(".md-search-result__list").lower()
        assert browser.errors() == []
        assert browser.outside_requests() == []
    finally:
        browser.driver.quit()


@pytest.mark.parametrize("is_there", [True, False])
def test_generated_pages_are_in_the_navigation_once_they_exist(is_there, tmp_path):
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("guide_nav", ROOT / "scripts" / "guide_nav.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    if is_there:
        (tmp_path / "performance.md").touch()
    nav = [{"Home": "index.md"}, {"Performance": "performance.md"}, {"Parts": [{"A": "a.md"}]}]
    config = hook.on_config({"docs_dir": str(tmp_path), "nav": nav})
    assert len(config["nav"]) == 2 + is_there
