"""What columns are taken for, how they become features, and that options override it."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest

from graphconv.io.derived_columns import DerivedColumn
from graphconv.io.readers import from_frames, read_tables
from graphconv.io.roles import lines_about, propose_role
from graphconv.io.table_encoding import TableEncoding

EDGES = pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})


def role_of(cells, name="column"):
    return propose_role(pd.Series(cells, name=name)).role


@pytest.mark.parametrize(
    ("cells", "role"),
    [
        ([1, 2, 3], "number"),
        ([1.5, None, 3], "number"),
        (["1", "2", "x"], "number"),  # dirty, and refused when it is read
        ([True, False, True], "number"),
        (["yes", "no", ""], "yes-no"),
        (["J", "N", "J"], "yes-no"),
        (["True", "", "False"], "yes-no"),
        (["red", "blue", "red", "blue"], "category"),
        (["2024-02-01", "2023-12-24", ""], "date"),
        (["2024-02-01 17:30:00", "2023-12-24 08:00:00"], "date"),
        (["01.02.2024", "24.12.2023"], "date"),
        (["02/28/2024", "12/24/2023"], "date"),
        ([pd.Timestamp("2024-02-01"), pd.NaT], "date"),
        ([datetime.date(2024, 2, 1), None], "date"),
        (["[0.1, 0.2]", "[0.3,-1e3]"], "embedding"),
        (["[0.1 0.2]", "[ 3.  4. ]"], "embedding"),
        ([[1, 2], [3, 4], None], "embedding"),
        ([np.array([0.5, 1]), np.array([2, 3])], "embedding"),
        (["a:1 b:3", "b:2"], "sparse"),
        ([["red", "green"], ["green"]], "sparse"),
        ([{"a": 1}, {"b": 0.5}], "sparse"),
        (["12:30", "08:15", "12:30", "12:30"], "amount"),  # a time is no weight
        (["01067", "80331", "01067", "01067"], "category"),  # a code is no number
        (["2024-01", "2024-02"], "date"),
        ([[1, 2], [3]], "ignore"),
        (["", None, "NA"], "ignore"),
        (["ann", "bob", "cy"], "ignore"),
        (["same", "same"], "ignore"),
        (["a nice long title", "another quite long one", "and the third of them"], "text"),
    ],
)
def test_proposed_roles(cells, role):
    assert role_of(cells) == role


def test_numbers_that_are_ids_are_left_out():
    assert role_of([101, 102, 103, 104], "customer_id") == "ignore"
    assert role_of([101, 102, 102, 104], "customer_id") == "number"
    assert role_of([101, 102, 103, 104], "paid") == "number"


def test_many_columns_of_a_role_are_told_in_one_line():
    roles = [propose_role(pd.Series([1, 2], name=f"w{n}")) for n in range(20)]
    assert lines_about(roles) == ["20 columns taken as numbers: 'w0', 'w1', 'w2', ..."]
    assert lines_about(roles[:2]) == [
        "column 'w0' taken as a number",
        "column 'w1' taken as a number",
    ]


def test_dates_become_a_year_and_waves():
    column = pd.Series(["01.01.2024", "", "01.07.2024"], name="joined")
    derived = DerivedColumn.fit(column, "date")
    frame = derived.derive(column, str)
    assert list(frame.columns) == [
        "joined.year",
        "joined.season_sin",
        "joined.season_cos",
        "joined.weekday_sin",
        "joined.weekday_cos",
    ]
    assert frame.iloc[0, :3].tolist() == [2024, 0, 1]
    assert frame.iloc[1].isna().all()
    assert frame["joined.year"].iloc[2] == pytest.approx(2024.5, abs=0.01)
    # Both are Mondays.
    assert frame.iloc[0, 3:].tolist() == frame.iloc[2, 3:].tolist() == [0, 1]


def test_an_hour_counts_where_there_is_one():
    column = pd.Series(["2024-01-01T06:00", "2024-01-01T12:00"], name="at")
    frame = DerivedColumn.fit(column, "date").derive(column, str)
    assert frame[["at.hour_sin", "at.hour_cos"]].round(6).to_numpy().tolist() == [[1, 0], [0, -1]]


def test_the_day_is_first_unless_a_cell_says_otherwise():
    assert DerivedColumn.fit(pd.Series(["01/02/2024"], name="d"), "date").detail[0] == "%d/%m/%Y"
    given = DerivedColumn.fit(pd.Series(["01/02/2024"], name="d"), "date", "%m/%d/%Y")
    assert given.derive(pd.Series(["01/02/2024"]), str).iloc[0, 0] < 2024.01


NODES = pd.DataFrame(
    {
        "id": list("abcd"),
        "label": ["x", "y", "x", None],
        "age": [31, 47, 25, 60],
        "active": ["ja", "nein", "ja", "ja"],
        "joined": ["24.12.2023", "01.02.2024", "03.03.2024", "04.04.2024"],
        "town": ["Oslo", "Rome", "Oslo", "Rome"],
        "vector": [[0.5, 1.0], [0.25, 2.0], [0.0, 0.0], [1.0, 1.0]],
        "tags": ["p:1 q:2", "", "q:4", "p:3"],
        "name": ["Ann", "Bob", "Cy", "Dan"],
    }
)


def test_one_frame_with_everything_and_the_same_from_csv(tmp_path):
    loaded = from_frames(EDGES, NODES)
    assert loaded.graph.feature_names == (
        "age",
        "active",
        *(f"joined.{part}" for part in ("year", "season_sin", "season_cos")),
        "joined.weekday_sin",
        "joined.weekday_cos",
        "vector[0]",
        "vector[1]",
        "tags:p",
        "tags:q",
        "town=Oslo",
        "town=Rome",
    )
    assert "column 'active' taken as yes or no ('ja' is yes)" in loaded.columns
    assert "column 'joined' taken as a date (day.month.year)" in loaded.columns
    assert "column 'vector' taken as an embedding of 2 numbers" in loaded.columns
    assert "column 'tags' taken as sparse numbers, 2 different" in loaded.columns
    assert "column 'name' ignored: nearly every value differs, as names do" in loaded.columns
    features = loaded.graph.features.toarray()
    assert features[:, 1].tolist() == [1, 0, 1, 1]
    assert features[:, 7:11].tolist() == [
        [0.5, 1, 1, 2],
        [0.25, 2, 0, 0],
        [0, 0, 0, 4],
        [1, 1, 3, 0],
    ]
    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    NODES.to_parquet(tmp_path / "nodes.parquet")
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    for suffix in ("csv", "parquet"):
        read = read_tables(tmp_path / "edges.csv", tmp_path / f"nodes.{suffix}")
        assert read.columns == loaded.columns
        np.testing.assert_array_equal(read.graph.features.toarray(), features)


def test_new_nodes_are_read_as_those_of_the_training():
    encoding = from_frames(EDGES, NODES).encoding
    same = TableEncoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert same == encoding
    new = NODES.iloc[[1]].assign(id="e", active="NEIN", tags="q:1 new:7", vector=[[3.0, 4.0]])
    features = same.transform(new)[0].toarray()[0]
    assert features[[1, 7, 8, 9, 10]].tolist() == [0, 3, 4, 0, 1]
    with pytest.raises(ValueError, match=r"column 'vector' must hold 2 numbers, as other rows do"):
        same.transform(new.assign(vector=[[1.0]]))
    with pytest.raises(ValueError, match=r"line 2: column 'joined' must be a date as day\.month"):
        same.transform(new.assign(joined="soon"))
    with pytest.raises(ValueError, match=r"column 'active' must be 'ja' or 'nein', got 'perhaps'"):
        same.transform(new.assign(active="perhaps"))


def test_options_override_what_columns_look_like():
    options = {"ignore": ["vector", "tags"], "categorical": ["age"], "text": ["name"]}
    loaded = from_frames(EDGES, NODES, **options, roles={"joined": "ignore", "active": "category"})
    assert loaded.columns == ("column 'town' taken as a category of 2 values",)
    names = loaded.graph.feature_names
    assert names[:4] == ("age=25", "age=31", "age=47", "age=60")
    assert "active=ja" in names
    assert "name:ann" in names
    with pytest.raises(ValueError, match=r"^roles must be of number, .* got 'age=digits'$"):
        from_frames(EDGES, NODES, roles={"age": "digits"})
    with pytest.raises(ValueError, match=r"^nodes: column 'town' can't be read as a date"):
        from_frames(EDGES, NODES, date=["town"])


def test_empty_cells_of_derived_columns_are_unknown_numbers():
    nodes = NODES.assign(joined=["24.12.2023", None, "03.03.2024", ""])
    with pytest.raises(
        ValueError, match=r"column 'joined\.year' must be a finite number, got an em"
    ):
        from_frames(EDGES, nodes)
    features = from_frames(EDGES, nodes, missing_value="mean").graph.features.toarray()
    assert features[1, 2] == pytest.approx(features[[0, 2], 2].mean())


def test_an_embedding_with_a_category_stays_dense():
    rng = np.random.default_rng(0)
    nodes = NODES[["id", "label", "town"]].assign(vector=list(rng.normal(size=(4, 80))))
    features = from_frames(EDGES, nodes).graph.features
    assert isinstance(features, np.ndarray)
    assert features.shape == (4, 82)


def test_a_wide_table_of_counts_is_a_sparse_matrix():
    counts = np.zeros((4, 300))
    counts[2, 7] = 5
    wide = pd.DataFrame(counts, columns=[f"w{n}" for n in range(300)])
    nodes = pd.concat([NODES[["id", "label"]], wide], axis=1)
    loaded = from_frames(EDGES, nodes)
    assert loaded.graph.features.format == "csr"
    assert loaded.graph.features.nnz == 1
    assert loaded.columns == ("300 columns taken as numbers: 'w0', 'w1', 'w2', ...",)
    full = from_frames(EDGES, nodes.assign(**{f"w{n}": np.arange(4) for n in range(300)}))
    assert isinstance(full.graph.features, np.ndarray)
