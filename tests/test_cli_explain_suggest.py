"""Tests of `graphconv explain` and `graphconv suggest`, as a user with a model folder runs them."""

from pathlib import Path

import pytest
from tests.command_line import COLUMNS, TABLES, make_runner, write_papers

from graphconv.results import suggest

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """A command line in a folder with papers/ and the model folder model/."""
    monkeypatch.chdir(tmp_path)
    write_papers(tmp_path / "papers")
    runner = make_runner(monkeypatch, capsys)
    runner("train", *TABLES, *COLUMNS, "--max-epochs", 20, "-o", "model", "-q")
    return runner


def refuse(run, *arguments, reason):
    """The command fails in one line and writes nothing."""
    before = sorted(Path().rglob("*"))
    done = run(*arguments, expect=2)
    assert done.out == ""
    assert len(done.err) == 1
    assert done.err[0].startswith("graphconv: ")
    assert reason in done.err[0]
    assert sorted(Path().rglob("*")) == before


def test_explain_prints_words_and_tables_and_draws(run):
    done = run("explain", "model", "p0042", "-n", 3, "-o", "why.png")
    lines = done.out.splitlines()
    assert lines[0].startswith("p0042 is labelled ")
    titles = ["Neighbours", "Features", "Edges farther away"]
    assert [line for line in lines if line in titles] == titles
    assert sum(line.startswith("  p0") for line in lines) <= 6
    assert Path("why.png").read_bytes().startswith(PNG)
    assert done.err[-1] == "picture written to why.png"


def test_explain_as_json_on_new_data(run):
    own = run("explain", "model", "p0042", "--json").json
    new = run("explain", "model", "p0042", *TABLES, "--json", "-o", "why.svg").json
    assert Path("why.svg").read_text().startswith("<?xml")
    assert new.pop("output") == "why.svg"
    assert own.pop("output") is None
    assert own == new
    assert own["node"] == "p0042"
    assert len(own["features"]) <= 10 <= own["n_features"]
    wanted = run("explain", "model", "p0042", "--class", "vision", "--json", "-n", 1).json
    assert wanted["label"] == "vision"
    assert len(wanted["edges"]) == 1


def test_explain_refuses_what_it_cannot_do(run):
    refuse(run, "explain", "model", "p042", reason="got 'p042' (did you mean 'p0")
    refuse(run, "explain", "modell", "p0042", reason="modell must be a graphconv model folder")
    refuse(run, "explain", "papers", "p0042", reason="papers must be a graphconv model folder")
    refuse(run, "explain", "model", "p0042", "-n", 0, reason="-n must be at least 1, got 0")
    refuse(run, "explain", "model", "p0042", "-o", "why.pdf", reason="must end in .png or .svg")
    refuse(run, "explain", "model", "p0042", "--class", "visio", reason="did you mean 'vision'?")
    refuse(run, "explain", "model", "p0042", "--edges", "no.csv", reason="no.csv: no such file")


def test_suggest_prints_and_writes_a_table(run):
    done = run("suggest", "model", "-n", 5, "-o", "next.csv")
    assert done.out.splitlines()[0] == "Nodes to label next, the most instructive first"
    lines = Path("next.csv").read_text().splitlines()
    assert lines[0] == "rank,id,label_now,confidence,gain"
    assert len(lines) == 6
    listed = run("suggest", "model", *TABLES, "-n", 5, "--json").json
    assert listed["output"] is None
    ids = [line.split(",")[1] for line in lines[1:]]
    assert [one["id"] for one in listed["suggestions"]] == ids
    labelled = [
        row.split(",")[0]
        for row in Path("papers/nodes.csv").read_text().splitlines()
        if not row.endswith(",")
    ]
    assert not set(ids) & set(labelled)


def test_suggest_refuses_what_it_cannot_do(run):
    refuse(run, "suggest", "model", "-n", 5000, reason="n must be from 1 to ")
    refuse(run, "suggest", "model", "-n", 0, reason="got 0")
    refuse(run, "suggest", "papers", reason="papers must be a graphconv model folder")
    refuse(run, "suggest", "model", "-o", "next.txt", reason="must end in .csv, .tsv or .parquet")


def test_suggest_says_that_it_looks_at_a_sample(run, monkeypatch):
    assert not any("random sample" in line for line in run("suggest", "model", "-n", 2).err)
    monkeypatch.setattr(suggest, "MOST_NODES", 40)
    assert run("suggest", "model", "-n", 2).err[0] == (
        "note: a random sample was looked at: 40 of 150 nodes, and at most 40 candidates"
    )
