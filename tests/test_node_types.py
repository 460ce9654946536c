"""Nodes of several types: user 5 and item 5 are two nodes."""

import csv

import numpy as np
import pandas as pd
import pytest
from tests.command_line import make_runner
from tests.small_tables import write

from graphconv.io.readers import from_frames, read_tables
from graphconv.io.table_encoding import TableEncoding

EDGES = "source,target\n5,5\n6,5\n6,7\n"
USERS = "id,label,age\n5,ok,30\n6,,50\n8,fraud,40\n"
ITEMS = "id,price,kind\n5,10,book\n7,30,toy\n"
TYPES = {"source_type": "user", "target_type": "item"}


@pytest.fixture
def folder(tmp_path):
    for text, name in ((EDGES, "edges.csv"), (USERS, "users.csv"), (ITEMS, "items.csv")):
        write(tmp_path, text, name)
    return tmp_path


def read_typed(folder, **options):
    nodes = {"item": folder / "items.csv", "user": folder / "users.csv"}
    options = {"categorical": ["kind"], **TYPES, **options}
    return read_tables(folder / "edges.csv", nodes, **options)


def test_ids_are_kept_apart_and_labels_belong_to_one_type(folder):
    loaded = read_typed(folder)
    graph = loaded.graph
    # Users first, though items were given first: they are what is labelled.
    assert graph.node_ids.tolist() == ["5", "6", "8", "item:5", "item:7"]
    assert graph.n_entities == 3
    assert graph.labels.tolist() == [1, -1, 0, -1, -1]
    ends = np.array([[0, 3], [1, 3], [1, 4]])
    expected = np.zeros((5, 5))
    expected[ends[:, 0], ends[:, 1]] = expected[ends[:, 1], ends[:, 0]] = 1
    assert graph.adjacency.toarray().tolist() == expected.tolist()
    assert "nodes of several types: 3 user, 2 item; user is what is labelled" in loaded.notes


def test_each_type_has_columns_of_its_own(folder):
    graph = read_typed(folder).graph
    assert graph.feature_names == (
        "user.age", "item.price", "item.kind=book", "item.kind=toy", "type=user", "type=item",
    )  # fmt: skip
    # What a type does not have is unknown for its nodes: the mean, and no category.
    assert graph.features.toarray().tolist() == [
        [30, 20, 0, 0, 1, 0],
        [50, 20, 0, 0, 1, 0],
        [40, 20, 0, 0, 1, 0],
        [40, 10, 1, 0, 0, 1],
        [40, 30, 0, 1, 0, 1],
    ]


def test_types_are_found_where_ids_are_in_one_table(folder):
    write(folder, "source,target\n6,7\n8,7\n", "edges.csv")
    graph = read_typed(folder, source_type=None, target_type=None).graph
    assert graph.node_ids[graph.adjacency.toarray().any(axis=1)].tolist() == ["6", "8", "item:7"]


def test_ids_of_two_tables_need_a_type(folder):
    message = (
        r"edges.csv, line 2: source '5' must be in the table of one type, got "
        r"(users|items).csv and (users|items).csv: say of which type it is with source_type"
    )
    with pytest.raises(ValueError, match=message):
        read_typed(folder, source_type=None)


def test_a_type_without_a_table(folder):
    nodes = {"user": folder / "users.csv"}
    graph = read_tables(folder / "edges.csv", nodes, **TYPES).graph
    assert graph.feature_names == ("user.age", "type=user", "type=item")
    assert graph.node_ids.tolist()[3:] == ["item:5", "item:7"]


def test_no_columns_at_all(folder):
    users = write(folder, "id,label\n5,a\n6,b\n", "users.csv")
    graph = read_tables(folder / "edges.csv", {"user": users}, **TYPES).graph
    assert graph.features is None
    assert graph.n_entities == 2


def test_frames():
    users = pd.DataFrame({"id": [1, 2], "label": ["a", "b"]})
    edges = pd.DataFrame({"source": [1], "target": [1]})
    graph = from_frames(edges, {"user": users}, **TYPES).graph
    assert graph.node_ids.tolist() == [1, 2, "item:1"]


def test_new_nodes_are_encoded_and_merged(folder):
    first = read_typed(folder)
    encoding = TableEncoding.from_json(first.encoding.to_json())
    assert encoding == first.encoding
    users = write(folder, "id,age\n9,60\n", "new_users.csv")
    edges = write(folder, "source,target\n9,7\n9,4\n", "new_edges.csv")
    graph = read_tables(
        edges,
        {"user": users},
        encoding=encoding,
        merge_into=first.graph,
        require_label=False,
        **TYPES,
    ).graph
    assert graph.node_ids.tolist() == ["5", "6", "8", "9", "item:5", "item:7", "item:4"]
    assert graph.n_entities == 4
    features = graph.features.toarray()
    assert features[3].tolist() == [60, 20, 0, 0, 1, 0]
    assert features[5].tolist() == [40, 30, 0, 1, 0, 1]  # a toy as it was
    assert features[6].tolist() == [40, 20, 0, 0, 0, 1]  # nothing is known of item 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": "id,label,kind\n5,x,toy\n"}, "labels must belong to one type of nodes, but"),
        ({"users": "id,label,age\nitem:5,a,3\n"}, "ids of type 'user' must differ"),
        ({"users": "id,label,age\n5,a,3\n5,b,3\n"}, "id '5' must be unique"),
        ({"users": "id,age\n5,3\n"}, "has no column 'label'"),
        ({"relation": "kind"}, "can't have relations"),
        ({"text": ["titel"]}, "has no column 'titel'"),
    ],
)
def test_what_is_refused(folder, change, message):
    for name in ("users", "items"):
        if name in change:
            write(folder, change.pop(name), f"{name}.csv")
    with pytest.raises(ValueError, match=message):
        read_typed(folder, **change)


def test_a_table_without_its_type(folder):
    message = "users.csv must be given with its type, as in user=users.csv"
    with pytest.raises(ValueError, match=message):
        read_tables(folder / "edges.csv", folder / "users.csv", **TYPES)


def test_types_a_model_does_not_know(folder):
    first = read_typed(folder)
    with pytest.raises(ValueError, match=r"trained with \(user, item\), got 'shop'"):
        read_typed(folder, encoding=first.encoding, target_type="shop")


def write_shop(folder, n_users=120, n_items=30):
    rng = np.random.default_rng(1)
    kinds = rng.integers(2, size=n_users)
    users = pd.DataFrame(
        {
            "id": np.arange(n_users),
            "age": rng.normal(40, 9, n_users).round(),
            "label": np.where(rng.random(n_users) < 0.6, np.array(["ok", "fraud"])[kinds], ""),
        }
    )
    prices = 10 + 20 * (np.arange(n_items) % 2) + rng.normal(0, 5, n_items)
    items = pd.DataFrame({"id": np.arange(n_items), "price": prices.round(2)})
    buyer = rng.integers(n_users, size=500)
    bought = 2 * rng.integers(n_items // 2, size=500) + kinds[buyer]
    edges = pd.DataFrame({"source": buyer, "target": bought})
    for name, frame in (("users", users), ("items", items), ("edges", edges)):
        frame.to_csv(folder / f"{name}.csv", index=False)
    return kinds


def test_only_the_labelled_type_is_predicted(tmp_path, monkeypatch, capsys):
    run = make_runner(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    kinds = write_shop(tmp_path)
    tables = ("--edges", "edges.csv", "--nodes", "user=users.csv", "--nodes", "item=items.csv")
    types = ("--source-type", "user", "--target-type", "item")
    run("train", *tables, *types, "--preset", "robust", "-o", "m", "--report")
    with open("m/predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [str(number) for number in range(120)]
    right = [
        row["label"] == ("fraud" if kind else "ok") for row, kind in zip(rows, kinds, strict=True)
    ]
    assert np.mean(right) > 0.9  # the price of what they bought tells, and nothing else
    assert run("predict", "m", *tables, "-o", "p.csv", "--json").json["n_nodes"] == 120
    suggested = run("suggest", "m", "-n", 4, "--json").json["suggestions"]
    assert all(not str(one["id"]).startswith("item:") for one in suggested)
    why = run("explain", "m", "3", "--json").json
    assert any("item:" in str(one) for one in why["neighbours"])
    done = run("train", *tables[:4], "--nodes", "items.csv", *types, expect=2)
    assert "TYPE=FILE for all files of nodes or for none" in done.err[-1]
