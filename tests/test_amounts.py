"""Numbers that are written with a unit are numbers, for train, inspect and ingest alike."""

import pandas as pd
import pytest

import graphconv
from graphconv.io._amounts import amount, amount_format
from graphconv.io.readers import from_frames, read_tables
from graphconv.io.table_encoding import TableEncoding

EDGES = "source,target\na,b\nb,c\nc,a\n"
NODES = (
    "id,label,share,price,wage,size\n"
    'a,x,12 %,"$1,200",1.200 EUR,12 kg\n'
    'b,y,"7,5 %","$15.50",800 EUR,7 kg\n'
    "c,,0 %,$-3,2.500.000 EUR,12 kg\n"
)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "e.csv").write_text(EDGES)
    (tmp_path / "n.csv").write_text(NODES)
    return tmp_path / "e.csv", tmp_path / "n.csv"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12 %", "7"], ("%", ".")),
        (["1.200 %", "3.5 %"], ("%", ".")),
        (["€ 3,50", "€ 1.200"], ("€", ",")),
        (["1 200,50 kr", "3 kr"], ("kr", ",")),
        (["CHF 1'200.50", "CHF 3"], ("CHF", ".")),
        (["1:30:00", "0:00:30.5"], ("h:m:s", ".")),
        (["2 days 01:30:00", "-1 days +12:00:00", "3 days"], ("h:m:s", ".")),
        (["7:05", "26:30"], ("h:m", ".")),
        (["7:05", "7:05:00"], ()),  # hours or minutes?
        (["7:65", "8:00"], ()),
        (["12 %", "$5"], ()),  # two units
        (["12", "7"], ()),  # plain numbers
        (["$12$"], ()),
        (["1.2.3 EUR"], ()),
        ([7.0, "12 %"], ()),
    ],
)
def test_what_a_column_is_written_with(cells, expected):
    assert amount_format(cells) == expected


def test_a_cell_of_another_unit_is_no_amount():
    assert amount("5 EUR", "EUR", ".") == 5
    assert amount("5", "EUR", ".") == 5
    assert amount("5 USD", "EUR", ".") is None
    assert amount("1,2,3 EUR", "EUR", ".") is None


def test_amounts_are_numbers(tables):
    loaded = read_tables(*tables)
    assert loaded.columns == (
        "column 'size' taken as a category of 2 values",
        "column 'share' taken as a number ('7,5 %' is 7.5)",
        "column 'price' taken as a number ('$1,200' is 1200)",
        "column 'wage' taken as a number ('2.500.000 EUR' is 2500000)",
    )
    assert loaded.graph.feature_names[:3] == ("share", "price", "wage")
    numbers = loaded.graph.features.toarray()[:, :3]
    assert numbers.tolist() == [[12, 1200, 1200], [7.5, 15.5, 800], [0, -3, 2_500_000]]
    again = TableEncoding.from_json(loaded.encoding.to_json())
    assert again == loaded.encoding


def test_roles_say_otherwise(tables):
    said = {"share": "category", "price": "ignore", "wage": "number"}
    names = read_tables(*tables, roles=said, ignore=["size"]).graph.feature_names
    assert names == ("wage", "share=0 %", "share=12 %", "share=7,5 %")


def test_inspect_says_the_same(tables):
    found = graphconv.inspect(*map(str, tables))
    roles = {column.name: column.role for column in found.tables[1].columns}
    assert roles["price"] == "a number ('$1,200' is 1200)"
    assert found.options["roles"] == ["share=amount", "price=amount", "wage=amount"]
    assert read_tables(*tables, **found.options).graph.n_features == 5


def test_ingest_makes_the_same_features(tables, tmp_path):
    pytest.importorskip("duckdb")
    from graphconv.storage.ingest import IngestRequest, ingest
    from graphconv.storage.stored_graph import open_graph

    ingest(IngestRequest((str(tables[0]),), (str(tables[1]),), tmp_path / "g"))
    stored, read = open_graph(tmp_path / "g"), read_tables(*tables).graph
    assert stored.feature_names == read.feature_names
    assert stored.features.toarray().tolist() == read.features.toarray().tolist()


def test_a_later_cell_that_is_no_amount_is_named(tables):
    encoding = read_tables(*tables).encoding
    nodes = pd.DataFrame({"id": ["a"], "share": ["5 %"], "price": ["5 EUR"], "wage": ["1 EUR"]})
    edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    message = r"column 'price' must be a number written as '\$1,200', got '5 EUR'"
    with pytest.raises(ValueError, match=message):
        from_frames(edges, nodes.assign(size="7 kg"), encoding=encoding, require_label=False)


def test_an_encoding_without_its_parts_is_refused(tables):
    content = read_tables(*tables).encoding.to_json()
    content["derived"][0]["detail"] = ["%", "."]
    with pytest.raises(ValueError, match="amount 'share' must have a unit, a mark and an example"):
        TableEncoding.from_json(content)


def test_durations_are_hours():
    cells = ("2 days 01:30:00", "-1 days +12:00:00", "3 days", "-0:30:00", "1:60:00", "1:30")
    assert [amount(cell, "h:m:s", ".") for cell in cells] == [49.5, -12, 72, -0.5, None, None]
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 2]})
    waits = pd.to_timedelta(["1h", "36h", "90min"])
    nodes = pd.DataFrame({"id": [0, 1, 2], "label": ["a", "b", None], "wait": waits})
    loaded = from_frames(edges, nodes)
    assert loaded.graph.features.ravel().tolist() == [1, 36, 1.5]
    assert loaded.columns == ("column 'wait' taken as a number ('0 days 01:00:00' is 1)",)
