"""Splits that follow a column: the past trains, no group in two parts."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.command_line import make_runner
from tests.small_tables import read, write

from graphconv.graph import Graph
from graphconv.graph.column_splits import group_split, time_split
from graphconv.io.readers import from_frames
from graphconv.io.split_values import SplitValues

EDGES = "source,target,day\na,b,2024-01-05\nb,c,2024-01-02\nc,d,2024-02-01\n"


def parts(graph):
    return [
        index.tolist() for index in (graph.train_index, graph.validation_index, graph.test_index)
    ]


def labelled(n_nodes):
    return Graph(np.zeros((n_nodes, n_nodes)), labels=np.arange(n_nodes) % 2)


def test_the_past_trains():
    times = np.array(["2023-01-01", "2020-01-01", "NaT", "2021-01-01", "2022-01-01", "2024-06-01"])
    split = time_split(labelled(6), times.astype("datetime64[D]"))
    assert parts(split) == [[1, 3, 4], [0], [5]]


@given(st.lists(st.integers(0, 6), min_size=3, max_size=40))
def test_parts_are_in_order_and_none_is_empty(years):
    graph = labelled(len(years))
    if len(set(years)) < 3:
        with pytest.raises(ValueError, match="3 different times or more"):
            time_split(graph, years)
        return
    train, validation, test = (np.array(years)[part] for part in parts(time_split(graph, years)))
    assert len(train) + len(validation) + len(test) == len(years)
    assert train.max() < validation.min()
    assert validation.max() < test.min()


@given(st.lists(st.integers(0, 9) | st.none(), min_size=3, max_size=60), st.integers(0, 5))
def test_no_group_is_in_two_parts(groups, seed):
    n_groups = len(set(groups) - {None}) + groups.count(None)
    graph = labelled(len(groups))
    if n_groups < 3:
        with pytest.raises(ValueError, match="of 3 groups or more"):
            group_split(graph, groups, random_state=seed)
        return
    split = parts(group_split(graph, groups, random_state=seed))
    assert sorted(node for part in split for node in part) == list(range(len(groups)))
    assert all(split)
    named = [{groups[node] for node in part} - {None} for part in split]
    assert sum(map(len, named)) == len(set.union(*named))
    assert parts(group_split(graph, groups, random_state=seed)) == split


def test_many_groups_come_close_to_the_fractions():
    groups = [f"g{node // 5}" for node in range(500)]
    assert [len(part) for part in parts(group_split(labelled(500), groups))] == [300, 100, 100]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: time_split(g, [1, 2]), "times must be one number or date for each node"),
        (lambda g: time_split(g, list("abcd")), "times must be one number or date"),
        (lambda g: group_split(g, ["a"]), "groups must have one entry for each node"),
        (lambda g: time_split(g, range(4), train=0.5), "time_split: fractions must add up to 1"),
        (lambda g: group_split(g, "abcd", train=-1), "group_split: train must be above 0"),
    ],
)
def test_what_cannot_be_split(call, message):
    with pytest.raises(ValueError, match=message):
        call(labelled(4))


def test_without_validation_and_test():
    assert parts(time_split(labelled(3), [3, 1, 2], train=0.67, validation=0.33, test=0)) == [
        [1, 2], [0], []
    ]  # fmt: skip
    assert parts(time_split(labelled(3), [3, 1, 2], train=1, validation=0, test=0))[0] == [0, 1, 2]


def test_a_column_of_the_nodes(tmp_path):
    nodes = "id,label,age,joined\na,x,3,05.03.2021\nb,y,4,\nc,x,5,01.02.2020\n"
    loaded = read(tmp_path, "source,target\na,b\n", nodes, split_by="time:joined")
    assert loaded.graph.feature_names == ("age",)  # what is split by is no feature
    assert loaded.split_values.values.astype("datetime64[D]").astype(str).tolist() == [
        "2021-03-05", "NaT", "2020-02-01",
    ]  # fmt: skip


def test_a_column_of_the_edges(tmp_path):
    nodes = "id,label\na,x\nb,y\nc,x\nd,y\ne,x\n"
    loaded = read(tmp_path, EDGES, nodes, split_by="time:day")
    days = loaded.split_values.values.astype("datetime64[D]").astype(str).tolist()
    assert days == ["2024-01-05", "2024-01-02", "2024-01-02", "2024-02-01", "NaT"]
    assert not any("not used" in note for note in loaded.notes)


def test_numbers_of_frames():
    edges = pd.DataFrame({"source": [1], "target": [2]})
    nodes = pd.DataFrame({"id": [1, 2], "label": ["a", "b"], "year": [2020.0, np.nan]})
    loaded = from_frames(edges, nodes, split_by="time:year")
    np.testing.assert_array_equal(loaded.split_values.values, [2020, np.nan])


@pytest.mark.parametrize(
    ("split_by", "message"),
    [
        ("time:word", r"nodes.csv, line 2: column 'word' must hold dates or numbers .* 'one'"),
        ("time:joind", "has no column 'joind'"),
        ("group:day", "has no column 'day'"),
        ("year", "must be time:COLUMN or group:COLUMN, got 'year'"),
    ],
)
def test_columns_that_tell_no_time(tmp_path, split_by, message):
    with pytest.raises(ValueError, match=message):
        read(
            tmp_path,
            EDGES,
            "id,label,word\na,x,one\nb,y,1\n",
            split_by=split_by,
            ignore=[] if "word" in split_by else ["word"],
        )


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows = [f"n{i},{'xy'[i % 2]},{i % 5},{2000 + i // 4},r{i % 8}" for i in range(40)]
    write(tmp_path, "id,label,age,year,region\n" + "\n".join(rows) + "\n", "nodes.csv")
    edges = [f"n{i},n{(i * 7 + 1) % 40}" for i in range(40)]
    write(tmp_path, "source,target\n" + "\n".join(edges) + "\n", "edges.csv")
    return make_runner(monkeypatch, capsys)


def columns_of(path):
    with open(path, newline="") as file:
        return {row["id"]: row["split"] for row in csv.DictReader(file)}


TABLES = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--max-epochs", 3, "-o", "m")


def test_time_from_the_command_line(run):
    done = run("train", *TABLES, "--split", "time:year", "--ignore", "region")
    told = next(line for line in done.err if "split by time" in line)
    assert told.startswith(
        "note: labels split by time, column 'year': training until 2005, validation until 2007, "
        "test until 2009 (60 % training, 20 % validation, 20 % test)"
    )
    split = columns_of("m/predictions.csv")
    assert [split[f"n{number}"] for number in (0, 23, 24, 31, 32, 39)] == [
        "train", "train", "validation", "validation", "test", "test",
    ]  # fmt: skip


def test_groups_from_the_command_line(run):
    done = run("train", *TABLES, "--split", "group:region")
    assert any("labels split by 8 groups of column 'region' (" in line for line in done.err)
    split = columns_of("m/predictions.csv")
    for region in range(8):
        assert len({split[f"n{number}"] for number in range(region, 40, 8)}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("karate", "--split", "time:year"), "needs a table with such a column"),
        ((*TABLES, "--split", "time:yeer"), "nodes.csv has no column 'yeer'"),
        ((*TABLES, "--split", "time"), "time:COLUMN or group:COLUMN, got 'time'"),
    ],
)
def test_columns_that_are_not_there(run, arguments, message):
    assert message in run("train", *arguments, expect=2).err[-1]


def test_compare_divides_by_time_and_by_group(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = make_runner(monkeypatch, capsys)
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=120)
    rows = [f"n{n},{'ab'[kinds[n]]},{2000 + n % 11},g{n % 13}" for n in range(120)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,year,region", *rows]) + "\n")
    ends = rng.integers(120, size=(500, 2))
    alike = ends[kinds[ends[:, 0]] == kinds[ends[:, 1]]]
    lines = ["source,target", *(f"n{a},n{b}" for a, b in alike)]
    (tmp_path / "edges.csv").write_text("\n".join(lines) + "\n")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--ignore", "region")
    common = ("compare", *tables, "--methods", "label-propagation", "--splits", 3)
    found = run(*common, "--split", "time:year", "-o", "c", "--json").json
    assert found["command"].endswith("--split time:year --model label-propagation")
    # Each leaves a fifth of the labels out.
    sizes = [found[f"n_{name}"] for name in ("train", "validation", "test")]
    assert 80 < sum(sizes) < 112
    records = (tmp_path / "c" / "runs.jsonl").read_text().splitlines()
    assert len(records) == 3
    grouped = (*common[:5], "--methods", "label-propagation", "--splits", 3)
    out = run(*grouped, "--split", "group:region", "-o", "c").out
    assert "3 splits by group (column 'region') of" in out
    assert len((tmp_path / "c" / "runs.jsonl").read_text().splitlines()) == 6
    done = run(*common, "--split", "time:yaer", expect=2)
    assert "has no column 'yaer'" in done.err[-1]


def test_divisions_by_time_differ_and_keep_the_order():
    years = np.arange(50.0)
    values = SplitValues("time", "year", years)
    parts = [values.without_some(0.2, seed) for seed in (0, 1)]
    assert [np.isnan(part.values).sum() > 3 for part in parts] == [True, True]
    assert parts[0].digest() != parts[1].digest()
    assert parts[0].digest() == values.without_some(0.2, 0).digest()
    assert not np.isnan(years).any()
    names = SplitValues("group", "region", np.array(["a", "b"] * 25, dtype=object))
    assert None in names.without_some(0.5, 0).values.tolist()
