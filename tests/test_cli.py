"""Tests of the command line: what a user with data of their own does, and what they see."""

import csv
import json
import os
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from tests.command_line import COLUMNS, FILES, PATIENCE, TABLES, names, start, write_papers

from graphconv import load_dataset, read_tables
from graphconv.estimators.candidates import candidates_for
from graphconv.io.graph_files import write_npz

BRIEF = ("--max-epochs", 10)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_own_tables(run, papers):
    """String ids, text, categories, numbers, and labels for some."""
    done = run("train", *TABLES, *COLUMNS, "--max-epochs", 60)
    assert done.err[0] == (
        "note: 340 directed edges were made undirected (--directed keeps directions)"
    )
    assert done.err[1].startswith("note: labels split at random: 61 % training, 20 %")
    assert done.err[2].startswith("papers: 150 nodes, 340 edges, ")
    assert done.err[3].endswith("nodes to label")
    assert done.err[4] == "note: column 'year' taken as a number"
    assert done.err[5] == "model and predictions.csv written to runs/papers"
    assert done.err[6].startswith("next: graphconv predict runs/papers")
    title, head, rule, *table = done.out.splitlines()
    assert title == "gcn on papers, 1 run"
    assert head.split() == ["nodes"]
    assert set(rule) == {" ", "-"}
    assert [line.split()[0] for line in table] == [
        "test",
        "validation",
        "train",
        "test",
        "before",
        "epochs",
        "seconds",
    ]
    assert not any(line.endswith(" ") for line in done.out.splitlines())

    folder = papers.parent / "runs" / "papers"
    assert names(folder.parent) == ["papers"]
    assert names(folder) == FILES
    written, given = rows(folder / "predictions.csv"), rows(papers / "nodes.csv")
    assert [row["id"] for row in written] == [row["id"] for row in given]
    topics = sorted({row["label"] for row in given} - {""})
    assert list(written[0]) == [
        *("id", "label", "confidence"),
        *(f"p_{topic}" for topic in topics),
        "split",
    ]
    for row, paper in zip(written, given, strict=True):
        shares = [float(row[f"p_{topic}"]) for topic in topics]
        assert sum(shares) == pytest.approx(1, abs=1e-4)
        assert row["label"] == topics[int(np.argmax(shares))]
        assert bool(row["split"]) == bool(paper["label"])
    right = [w["label"] == g["label"] for w, g in zip(written, given, strict=True) if g["label"]]
    assert np.mean(right) > 0.95


def test_any_table_format_gives_the_same_predictions(run, papers, tmp_path):
    run("train", *TABLES, *COLUMNS, *BRIEF, "-o", "csv", "-q")
    expected = (tmp_path / "csv" / "predictions.csv").read_text()
    edges = pd.read_csv(papers / "edges.csv")
    nodes = pd.read_csv(papers / "nodes.csv", keep_default_na=False)
    edges.to_csv("e.tsv", sep="\t", index=False)
    nodes.to_csv("n.tsv.gz", sep="\t", index=False)
    edges.to_parquet("e.parquet")
    nodes.to_parquet("n.parquet")
    for edge_file, node_file in (("e.tsv", "n.tsv.gz"), ("e.parquet", "n.parquet")):
        files = ("--edges", edge_file, "--nodes", node_file)
        run("train", *files, *COLUMNS, *BRIEF, "-o", "other", "-q")
        assert (tmp_path / "other" / "predictions.csv").read_text() == expected

    columns = {"text": ["title"], "categorical": ["venue"]}
    graph = read_tables(papers / "edges.csv", papers / "nodes.csv", **columns).graph
    write_npz(graph, tmp_path / "graph.npz")
    run("train", "graph.npz", *BRIEF, "-o", "other", "-q")
    assert (tmp_path / "other" / "predictions.csv").read_text() == expected


def test_matrix_with_a_table_of_nodes(run, papers, tmp_path):
    columns = {"text": ["title"], "categorical": ["venue"]}
    graph = read_tables(papers / "edges.csv", papers / "nodes.csv", **columns).graph
    numbered = pd.read_csv(papers / "nodes.csv", keep_default_na=False)
    numbered.assign(id=range(len(numbered))).to_csv("numbered.csv", index=False)
    sp.save_npz("matrix.npz", graph.adjacency)
    scipy.io.mmwrite("matrix.mtx", sp.coo_matrix(graph.adjacency))
    run("train", *TABLES, *COLUMNS, *BRIEF, "-o", "csv", "-q")
    expected = [row["confidence"] for row in rows(tmp_path / "csv" / "predictions.csv")]
    for file in ("matrix.npz", "matrix.mtx"):
        run("train", file, "--nodes", "numbered.csv", *COLUMNS, *BRIEF, "-o", "other", "-q")
        written = rows(tmp_path / "other" / "predictions.csv")
        assert [row["confidence"] for row in written] == expected
        assert written[7]["id"] == "7"


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_graph_files(run, papers, tmp_path, suffix):
    graph = nx.from_pandas_edgelist(pd.read_csv(papers / "edges.csv"))
    for paper in rows(papers / "nodes.csv"):
        if paper["id"] in graph:
            known = {"topic": paper["label"]} if paper["label"] else {}
            kept = {key: paper[key] for key in ("title", "venue")}
            graph.nodes[paper["id"]].update(kept, year=int(paper["year"]), **known)
    getattr(nx, f"write_{suffix}")(graph, f"papers.{suffix}")
    done = run("train", f"papers.{suffix}", "--label", "topic", *COLUMNS, "--max-epochs", 60)
    assert done.err[1].startswith(f"papers: {len(graph)} nodes, 340 edges, ")
    written = rows(tmp_path / "runs" / "papers" / "predictions.csv")
    assert {row["id"] for row in written} == set(graph)


def test_weights_and_directions(run, papers):
    edges = pd.read_csv(papers / "edges.csv")
    edges.assign(weight=np.arange(len(edges)) % 3 + 0.5).to_csv("weighted.csv", index=False)
    edges.assign(strength=1.5).to_csv("strong.csv", index=False)
    nodes = ("--nodes", "papers/nodes.csv", *COLUMNS, *BRIEF)
    done = run("train", "--edges", "weighted.csv", *nodes)
    assert "weighted: 150 nodes, 340 edges" in done.err[2]
    assert done.err[2].endswith("5 classes, weighted")
    done = run("train", "--edges", "weighted.csv", *nodes, "--directed", "--weight", "")
    assert done.err[1].endswith("5 classes, directed")
    assert (
        run("train", "--edges", "strong.csv", *nodes, "--weight", "strength")
        .err[2]
        .endswith("weighted")
    )


def test_isolated_nodes_are_told_once(run, papers):
    edges = pd.read_csv(papers / "edges.csv")
    lonely = edges["source"][0]
    edges = edges[(edges["source"] != lonely) & (edges["target"] != lonely)]
    edges.to_csv("few.csv", index=False)
    n_lonely = 150 - len({*edges["source"], *edges["target"]})
    data = ("--edges", "few.csv", "--nodes", "papers/nodes.csv")
    about = ("isolated", "without an edge")
    for command in (
        ("train", *data, *COLUMNS, *BRIEF),
        ("predict", "runs/few", *data),
        ("compare", *data, *COLUMNS, "--methods", "label-propagation", "--splits", 1),
    ):
        lines = [line for line in run(*command).err if any(words in line for words in about)]
        assert len(lines) == 1, lines
        assert f"{n_lonely} isolated nodes" in lines[0] or f"{n_lonely} nodes without" in lines[0]


def test_triples(run, papers, tmp_path):
    edges = pd.read_csv(papers / "edges.csv")
    edges["relation"] = np.where(np.arange(len(edges)) % 2, "cites", "extends")
    edges.to_csv("triples.csv", index=False)
    nodes = ("--nodes", "papers/nodes.csv", *COLUMNS, *BRIEF)
    done = run("train", "--edges", "triples.csv", *nodes)
    assert done.err[0].endswith("340 triples made a graph with two nodes for each of 2 relations")
    # The relations' nodes are there, but nobody wants them labelled.
    n_free = int(pd.read_csv("papers/nodes.csv")["label"].isna().sum())
    assert any(line.startswith("triples: 154 nodes") for line in done.err)
    assert any(line.endswith(f"; {n_free} nodes to label") for line in done.err)
    table = pd.read_csv("runs/triples/predictions.csv")
    assert len(table) == 150
    assert not table["id"].str.contains(":").any()
    assert run("embed", "runs/triples", "--json").json["n_nodes"] == 150
    assert pd.read_csv("embedding.csv")["id"].tolist() == table["id"].tolist()
    listed = run("suggest", "runs/triples", "-n", n_free, "--json").json["suggestions"]
    assert {one["id"] for one in listed} <= set(table["id"])
    run("suggest", "runs/triples", "-n", n_free + 1, expect=2)
    done = run("predict", "runs/triples", "--edges", "triples.csv", "--nodes", "papers/nodes.csv")
    assert done.err[-1] == "150 nodes labelled in predictions.csv"
    again = [row["confidence"] for row in rows(tmp_path / "predictions.csv")]
    assert again == [row["confidence"] for row in rows(tmp_path / "runs/triples/predictions.csv")]


def test_several_labels_a_node(run, papers, tmp_path):
    nodes = pd.read_csv(papers / "nodes.csv", keep_default_na=False)
    is_survey = (nodes.index % 3 == 0) & (nodes.label != "")
    nodes.loc[is_survey, "label"] += "|survey"
    nodes.to_csv("several.csv", index=False)
    arguments = ("train", TABLES[0], TABLES[1], "--nodes", "several.csv", *COLUMNS)
    done = run(*arguments, "--label-separator", "|", "--max-epochs", 80)
    assert done.err[2].endswith("6 classes, several labels per node")
    assert "test micro F1" in done.out
    written = rows(tmp_path / "runs" / "papers" / "predictions.csv")
    parts = {part for row in written for part in row["label"].split("|")}
    assert parts - {""} <= {*nodes.label.str.split("|").explode()}
    assert any("|" in row["label"] for row in written)
    several = run(*arguments, "--label-separator", "|", "--max-epochs", 80, "--runs", 2)
    told = {line.split("  ")[1]: line for line in several.out.splitlines()[3:]}
    assert "±" in told["test micro F1 of a single run"]
    assert "±" not in told["test micro F1"]  # that of the averaged runs, as predictions are
    assert "(" in told["test nodes with all labels right"]  # the interval


def test_featureless(run, papers, tmp_path):
    nodes = pd.read_csv(papers / "nodes.csv", keep_default_na=False)
    nodes[["id", "label"]].to_csv("bare.csv", index=False)
    done = run("train", *TABLES[:2], "--nodes", "bare.csv", *BRIEF)
    assert "no features" in done.err[2]
    # Such a model knows nodes by their place alone: another order must not matter.
    edges = pd.read_csv(papers / "edges.csv")
    edges.iloc[::-1].to_csv("reversed.csv", index=False)
    nodes.iloc[::-1][["id", "label"]].to_csv("reversed_nodes.csv", index=False)
    run("predict", "runs/papers", "--edges", "reversed.csv", "--nodes", "reversed_nodes.csv")
    own = {row["id"]: row["confidence"] for row in rows(tmp_path / "runs/papers/predictions.csv")}
    again = {row["id"]: row["confidence"] for row in rows(tmp_path / "predictions.csv")}
    assert own.keys() == again.keys()
    for node, confidence in own.items():
        assert float(again[node]) == pytest.approx(float(confidence), rel=1e-4)


def test_splits(run, papers):
    nodes = pd.read_csv(papers / "nodes.csv", keep_default_na=False)
    marks = np.array(["train", "val", "Test"])[np.arange(len(nodes)) // 50]
    nodes.assign(part=np.where(nodes.label != "", marks, "")).to_csv("marked.csv", index=False)
    edges = ("train", *TABLES[:2])
    done = run(
        *edges, "--nodes", "marked.csv", "--split-column", "part", *COLUMNS, *BRIEF, "--json"
    )
    sizes = [done.json[f"n_{name}"] for name in ("train", "validation", "test")]
    n_labelled = int((nodes.label != "").sum())
    assert sum(sizes) == n_labelled
    assert min(sizes) > 10
    for split, shares in (
        ("fraction:0.5,0.1,0.4", (0.5, 0.1, 0.4)),
        ("kfold:4,3", (0.675, 0.075, 0.25)),
    ):
        done = run("train", *TABLES, *COLUMNS, *BRIEF, "--split", split, "--json")
        for name, share in zip(("train", "validation", "test"), shares, strict=True):
            assert done.json[f"n_{name}"] == pytest.approx(share * n_labelled, abs=3)
    done = run("train", "cora", "--split", "random", "--max-epochs", 2, "--json")
    assert [done.json[f"n_{name}"] for name in ("train", "validation", "test")] == [140, 500, 1000]
    assert done.json["paper_accuracy"] is None, "another split is not comparable"


def test_predicting_again_and_for_later_papers(run, papers, tmp_path):
    run("train", *TABLES, *COLUMNS, "--max-epochs", 60, "-q")
    done = run("predict", "runs/papers", "-o", "out/again.csv")
    assert done.err == ["150 nodes labelled in out/again.csv"]
    trained = tmp_path / "runs" / "papers" / "predictions.csv"
    assert (tmp_path / "out" / "again.csv").read_text() == trained.read_text()

    write_papers(tmp_path / "later", 200)
    later = ("--edges", "later/edges.csv", "--nodes", "later/nodes.csv")
    done = run("predict", "runs/papers", *later, "-o", "later.parquet", "--json")
    assert done.json["n_nodes"] == 200
    assert done.json["accuracy"] > 0.86
    written = pd.read_parquet("later.parquet")
    assert written["id"].tolist()[-1] == "p0199"
    # The split is that of training, whatever labels the new table has.
    assert written["split"].tolist() == [row["split"] for row in rows(trained)] + [""] * 50


def test_embedding(run, papers, tmp_path):
    run("train", *TABLES, *COLUMNS, *BRIEF, "-q", "--hidden", "8", "--runs", 2)
    done = run("embed", "runs/papers", "--json")
    assert done.json == {"n_nodes": 150, "n_columns": 16, "output": "embedding.csv"}
    written = rows(tmp_path / "embedding.csv")
    assert list(written[0]) == ["id", *(f"h{number}" for number in range(16))]
    assert written[3]["id"] == "p0003"
    done = run("embed", "runs/papers", *TABLES, "-o", "again.tsv")
    assert done.err[-1] == "16 activations of 150 nodes written to again.tsv"


@pytest.mark.parametrize(
    "rule",
    ["renormalised", "single-parameter", "first-order", "first-order-only", "chebyshev", "none"],
)
def test_every_rule(run, rule):
    done = run("train", "karate", "--propagation", rule, "--max-epochs", 2, "--json", "-q")
    assert done.json["settings"]["propagation"] == rule


def test_every_setting_arrives(run):
    given = {
        "hidden": [5, 6],
        "dropout": [0.1, 0.2, 0.3],
        "activation": "elu",
        "residual": True,
        "bias": False,
        "learning_rate": 0.02,
        "weight_decay": 0.001,
        "weight_decay_layers": "all",
        "early_stopping": "none",
        "patience": 7,
        "chebyshev_order": 3,
        "lambda_max": 2.0,
        "class_weight": [["community 0", 2.0]],
    }
    flags = {"residual": "--residual", "bias": "--no-bias"}
    arguments = []
    for name, value in given.items():
        if name in flags:
            arguments.append(flags[name])
        elif name == "class_weight":
            arguments += ["--class-weight", "community 0=2"]
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else value
            arguments += [f"--{name.replace('_', '-')}", text]
    settings = run("train", "karate", *arguments, "--max-epochs", 2, "--json", "-q").json[
        "settings"
    ]
    assert {name: settings[name] for name in given} == given


def test_learned_self_loop_weight_is_told_and_kept(run, tmp_path):
    done = run("train", "karate", "--self-loop-weight", "learn", "--max-epochs", 30)
    (line,) = (line for line in done.err if line.startswith("learned self-loop weight: "))
    assert float(line.split(": ")[1]) != 1
    run("predict", "runs/karate")
    assert rows(tmp_path / "predictions.csv") == rows(tmp_path / "runs/karate/predictions.csv")


def test_several_runs(run):
    done = run("train", "cora", "--runs", 3, "--seed", 5, "--max-epochs", 3)
    assert done.out.splitlines()[0] == "gcn on cora, 3 runs"
    assert "±" in done.out
    first, second = (line.split("  ") for line in done.out.splitlines()[3:5])
    assert first[1] == "test accuracy"  # what predictions.csv holds comes before single runs
    assert second[1] == "test accuracy of a single run"
    values = run("train", "cora", "--runs", 3, "--seed", 5, "--max-epochs", 3, "--json").json
    assert values["seeds"] == [5, 6, 7]
    alone = [
        run("train", "cora", "--seed", seed, "--max-epochs", 3, "--json").json["test_accuracy"]
        for seed in values["seeds"]
    ]
    mean, spread = np.mean(alone), np.std(alone)  # of the runs, not of their mean
    assert values["test_accuracy"] == pytest.approx(mean)
    assert values["test_accuracy_std"] == pytest.approx(spread)
    assert f" {100 * mean:.1f} % ± {100 * spread:.1f} " in done.out


def test_automatic_preset_says_what_it_chose(run, papers):
    done = run("train", *TABLES, *COLUMNS, "--preset", "auto", "--max-epochs", 5)
    (line,) = (line for line in done.err if line.startswith("chosen: "))
    assert "probability of the right class" in line
    assert "labels that each trial had not seen" in line
    assert any(line.startswith("note: best so far: ") for line in done.err)


def test_strong_preset_compares_kinds_unless_one_is_named(run):
    done = run("train", "cora", "--preset", "strong", "--max-epochs", 3)
    (line,) = (line for line in done.err if line.startswith("chosen: "))
    assert "labels that each trial had not seen" in line
    networks = candidates_for(load_dataset("cora"), {"max_epochs": 3}, demanding=True)
    (tried,) = (int(word) for word, then in pairwise(line.split()) if then == "tried")
    assert tried >= len(networks) == 10
    named = ("--preset", "strong", "--model", "appnp", "--max-epochs", 3, "--json")
    assert run("train", "cora", *named).json["model"] == "appnp"


def test_without_an_option_a_method_is_chosen(run, papers):
    found = run("train", *TABLES, *COLUMNS, "--json").json
    assert found["choice"].startswith(found["method"])
    named = run("train", *TABLES, *COLUMNS, "--model", "sgc", "--json").json
    assert (named["choice"], named["method"]) == ("", "sgc")


def test_demo_is_compared_with_the_paper(run, tmp_path):
    done = run("demo", "-o", "cora")
    assert done.out.splitlines()[1].split() == ["graphconv", "paper", "nodes"]
    (test,) = (line.split() for line in done.out.splitlines() if "test accuracy" in line)
    assert float(test[2]) == pytest.approx(81.5, abs=0.3)
    low, high = float(test[4].strip("(")), float(test[6].strip(")"))
    assert low < float(test[2]) < high
    assert test[7:] == ["81.5", "%", "1,000"]
    assert done.err[-1].startswith("next: graphconv train --edges")


def test_json_is_one_object_and_quiet_is_quiet(run, papers):
    # The karate club has no validation nodes: their accuracy is null, not NaN.
    done = run("train", "karate", *BRIEF, "--json", "--quiet")
    assert done.err == []
    assert done.json["validation_accuracy"] is None
    assert done.json["test_accuracy"] == pytest.approx(23 / 30)
    model = json.loads(
        (papers.parent / "runs/karate/model.json").read_text(), parse_constant=lambda word: 1 / 0
    )
    assert model["history"]["validation_loss"] == [None] * 10
    assert run("predict", "runs/karate", "-q").err == []


def test_closed_pipe_costs_no_training(tmp_path):
    process = start("train", "karate", *BRIEF, cwd=tmp_path)
    process.stdout.close()
    assert process.stderr.read().count("\n") == 2, "what is told before the table, no traceback"
    process.stderr.close()
    assert process.wait(PATIENCE) == 1
    assert names(tmp_path / "runs" / "karate") == FILES


def test_from_another_folder(run, papers, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    tables = ("--edges", "../papers/edges.csv", "--nodes", papers / "nodes.csv")
    done = run("train", *tables, *COLUMNS, *BRIEF, "--json", "-q")
    assert done.json["output"] == os.path.join("runs", "papers")
    assert names(tmp_path / "elsewhere" / "runs" / "papers") == FILES


def test_a_real_baseline(run):
    done = run("train", "karate", "--model", "label-propagation", "--json")
    assert done.json["model"] == "label-propagation"
    assert done.json["test_accuracy"] == pytest.approx(29 / 30)
