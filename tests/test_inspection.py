"""graphconv inspect: all columns, all problems at once, and a command that works."""

import json
import shlex

import pandas as pd
import pytest

import graphconv
from graphconv.commands.inspect import command_lines
from graphconv.io.readers import read_tables

EDGES = "Von;Nach;Am\n" + "".join(
    f"k{n:02d};k{(n * 7 + 1) % 40:02d};01.01.2024\n" for n in range(40)
)


def customers():
    rows = ["Kundennr;Ort;Umsatz;Seit;Aktiv;Segment;Name"]
    for n in range(40):
        town, active = ("Köln", "ja") if n % 2 else ("Bonn", "nein")
        sales = "" if n == 3 else f"1.{n:03d},50"
        segment = "" if n % 4 == 0 else "AB"[n % 2]
        rows.append(f"k{n:02d};{town};{sales};{n % 28 + 1:02d}.02.2024;{active};{segment};Anna{n}")
    return "\n".join(rows) + "\n"


@pytest.fixture
def export(tmp_path, monkeypatch):
    """A national export, as spreadsheets write it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kanten.csv").write_text(EDGES)
    (tmp_path / "kunden.csv").write_bytes(customers().encode("cp1252"))
    return tmp_path


def test_a_national_export(run, export):
    done = run("inspect", "--edges", "kanten.csv", "--nodes", "kunden.csv")
    lines = done.out.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("problem", "  graphconv"))) <= 80
    expected = {
        "Von": "source",
        "Nach": "target",
        "Am": "not used",
        "Kundennr": "id",
        "Ort": "a category of 2 values",
        "Umsatz": "a number",
        "Seit": "a date (day.month.year)",
        "Aktiv": "yes or no ('ja' is yes)",
        "Segment": "label",
        "Name": "ignored: nearly every value...",
    }
    for column, role in expected.items():
        assert any(line.split("   ")[0].strip() == column and role in line for line in lines), (
            column
        )
    assert "problem: kunden.csv: column 'Umsatz' has 1 empty cell: --missing-value mean" in done.out
    assert lines[-2] == "train with:"
    command = shlex.split(lines[-1])
    assert command[:2] == ["graphconv", "train"]
    trained = run(*command[1:], "--max-epochs", 3)
    assert "40 nodes" in "\n".join(trained.err)


def test_json_holds_it_all(run, export):
    done = run("inspect", "--edges", "kanten.csv", "--nodes", "kunden.csv", "--json")
    found = json.loads(done.out)
    assert found["is_answered"] is True
    assert found["options"]["label"] == "Segment"
    assert [column["name"] for column in found["tables"][1]["columns"]][:2] == ["Kundennr", "Ort"]
    assert found["tables"][1]["columns"][2]["missing"] == 1 / 40
    assert found["command"].startswith("graphconv train --edges kanten.csv")


def test_all_problems_at_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,heavy\nb,,1\n")
    (tmp_path / "nodes.csv").write_text(
        "id,label,age,vec,split\na,x,12,[1;2],train\na,y,old,[1;2;3],tset\n"
        + "".join(f"n{n},x,{n},[1;2],train\n" for n in range(8))
    )
    done = run(
        "inspect", "--edges", "edges.csv", "--nodes", "nodes.csv", "--roles", "vec=embedding"
    )
    problems = [line for line in done.out.splitlines() if line.startswith("problem: ")]
    for part in (
        "nodes.csv: column 'vec' can't be read as an embedding",
        "nodes.csv, line 3: column 'age' must be a finite number, got 'old'",
        "nodes.csv, line 3: column 'split' must be train, validation or test",
        "edges.csv, line 3: column 'target' must name a node",
        "edges.csv, line 2: column 'weight' must be a finite number, got 'heavy'",
    ):
        assert any(part in problem for problem in problems), part
    assert len(problems) == 5
    assert "once that is mended, train with:" in done.out


def test_a_file_that_is_not_there_does_not_hide_the_other(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,label\na,x\nb,y\n")
    done = run("inspect", "--edges", "edgse.csv", "--nodes", "nodes.csv")
    assert "problem: edgse.csv: no such file" in done.out
    assert "nodes: nodes.csv, 2 rows" in done.out
    refused = run("inspect", "cora", expect=2)
    assert refused.err == ["graphconv: inspect looks at tables: give --edges and, perhaps, --nodes"]


def test_train_takes_columns_for_the_same(export):
    found = graphconv.inspect("kanten.csv", "kunden.csv")
    loaded = read_tables("kanten.csv", "kunden.csv", **found.options)
    assert loaded.columns == ("column 'Umsatz' taken as a number",)
    guessed = read_tables("kanten.csv", "kunden.csv", label="Segment", missing_value="mean")
    assert guessed.graph.feature_names == loaded.graph.feature_names
    assert (guessed.graph.features != loaded.graph.features).nnz == 0


def test_a_frame_that_is_fine_needs_nothing():
    edges = pd.DataFrame({"source": [1, 2], "target": [2, 3]})
    nodes = pd.DataFrame({"id": [1, 2, 3], "label": ["x", "y", "x"], "age": [1, 2, 3]})
    found = graphconv.inspect(edges, nodes)
    assert found.problems == ()
    assert found.options == {}
    assert repr(found).endswith("options: none needed")


def test_two_columns_of_edges_are_its_ends_and_ids_are_found_by_them(export):
    pd.read_csv("kanten.csv", sep=";")[["Von", "Nach"]].to_csv("paare.csv", index=False)
    found = graphconv.inspect("paare.csv", "kunden.csv")
    assert {name: found.options[name] for name in ("source", "target", "id")} == {
        "source": "Von",
        "target": "Nach",
        "id": "Kundennr",
    }
    assert read_tables("paare.csv").graph.n_nodes == 40


def test_lists_of_numbers_are_shown(tmp_path):
    edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    nodes = pd.DataFrame({"id": list("abc"), "label": ["x", "y", "x"], "v": [[0.5, 1.0]] * 3})
    nodes.to_parquet(tmp_path / "nodes.parquet")
    found = graphconv.inspect(edges, tmp_path / "nodes.parquet")
    assert found.tables[1].columns[2].role == "an embedding of 2 numbers"
    assert found.tables[1].columns[2].examples == ("[0.5 1. ]",)
    assert found.options == {"roles": ["v=embedding"]}
    with pytest.raises(ValueError, match=r"has no column 'w'; .* choose one with roles"):
        read_tables(edges, tmp_path / "nodes.parquet", roles={"w": "embedding"})


@pytest.fixture
def purchases(tmp_path, monkeypatch):
    """Users and items with the same ids."""
    monkeypatch.chdir(tmp_path)
    users = "id,label,age\n" + "".join(f"{n},{'ab'[n % 2]},{20 + n}\n" for n in range(10))
    (tmp_path / "users.csv").write_text(users)
    items = "id,price,kind\n" + "".join(f"{n},${n}.50,{'xyz'[n % 3]}\n" for n in range(9))
    (tmp_path / "items.csv").write_text(items)
    bought = "source,target\n" + "".join(f"{n},{n * 7 % 9}\n" for n in range(10))
    (tmp_path / "bought.csv").write_text(bought)
    nodes = ("--nodes", "user=users.csv", "--nodes", "item=items.csv")
    return ("inspect", "--edges", "bought.csv", *nodes)


def test_nodes_of_several_types(run, purchases):
    types = ("--source-type", "user", "--target-type", "item")
    done = run(*purchases, *types)
    lines = done.out.splitlines()
    assert "nodes of type user: users.csv, 10 rows" in lines
    assert "nodes of type item: items.csv, 9 rows" in lines
    assert any(line.split()[:3] == ["price", "a", "number"] for line in lines)
    assert not any(line.startswith("problem") for line in lines)
    command = shlex.split(lines[-1])
    assert command[-4:] == ["--roles", "price=amount", "--categorical", "kind"]
    trained = run(*command[1:], "--max-epochs", 3)
    assert "10 user, 9 item; user is what is labelled" in "\n".join(trained.err)


def test_problems_of_several_types(run, purchases, tmp_path):
    done = run(*purchases)
    assert "source '0' must be in the table of one type, got users.csv and items.csv" in done.out
    (tmp_path / "items.csv").write_text("id,price\n" + "1,2\n2,\n3,4\n")
    done = run(*purchases, "--source-type", "user", "--target-type", "item")
    assert "problem: items.csv: column 'price' has 1 empty cell" in done.out
    assert "--missing-value mean" in done.out.splitlines()[-1]
    untyped = ("inspect", "--edges", "bought.csv", "--nodes", "users.csv", "--source-type", "user")
    assert "problem: tables of nodes must be given with their type" in run(*untyped).out


def test_the_command_is_cut_so_that_a_shell_takes_it_as_one():
    parts = ["graphconv train", *(f"--option{n} {'v' * n * 7}" for n in range(9))]
    lines = command_lines(parts, 80)
    assert max(len(line) for line in lines) <= 80
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert len(lines) > 2
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(" ".join(parts))
