"""Tests of graphconv.io.table_encoding."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from graphconv.io.table_encoding import TableEncoding

PAPERS = pd.DataFrame(
    {
        "year": [2016, 2017, 2017],
        "venue": ["ICLR", None, "NeurIPS"],
        "title": ["graph networks", "", "deep networks for networks"],
    }
)


def fit(frame=PAPERS, numeric=(), categorical=(), text=()):
    return TableEncoding.fit(
        frame, numeric=numeric, categorical=categorical, text=text, where="nodes.csv"
    )


def test_numbers_alone_are_dense():
    features, names = fit(numeric=["year"]).transform(PAPERS, "nodes.csv")
    assert isinstance(features, np.ndarray)
    assert features.dtype == np.float32
    assert features.tolist() == [[2016], [2017], [2017]]
    assert names == ("year",)


def test_booleans_and_numbers_as_text_are_numbers():
    frame = pd.DataFrame({"open": [True, False], "size": ["1e3", " 2 "]})
    features, _ = fit(frame, numeric=["open", "size"]).transform(frame)
    assert features.tolist() == [[1, 1000], [0, 2]]


def test_categories_are_one_hot_and_a_missing_one_is_zero():
    features, names = fit(categorical=["venue"]).transform(PAPERS)
    assert sp.issparse(features)
    assert features.dtype == np.float32
    assert features.toarray().tolist() == [[1, 0], [0, 0], [0, 1]]
    assert names == ("venue=ICLR", "venue=NeurIPS")


def test_an_unseen_category_is_zero():
    new = pd.DataFrame({"venue": ["KDD", "ICLR"]})
    features, _ = fit(categorical=["venue"]).transform(new)
    assert features.toarray().tolist() == [[0, 0], [1, 0]]


def test_categories_are_the_same_from_text_and_numbers():
    encoding = fit(pd.DataFrame({"floor": ["1", "2"]}), categorical=["floor"])
    for cells in ([1, 2], [1.0, 2.0], pd.Categorical([1, 2])):
        features, _ = encoding.transform(pd.DataFrame({"floor": cells}))
        assert features.toarray().tolist() == [[1, 0], [0, 1]]


def test_text_is_tf_idf_by_hand():
    # idf = ln((1 + n) / (1 + df)) + 1 with n = 2 documents, then each row has length 1.
    frame = pd.DataFrame({"title": ["graph node", "graph graph"]})
    features, names = fit(frame, text=["title"]).transform(frame)
    node = np.log(3 / 2) + 1
    length = np.hypot(1, node)
    assert names == ("title:graph", "title:node")
    np.testing.assert_allclose(features.toarray(), [[1 / length, node / length], [1, 0]], rtol=1e-6)


def test_blocks_stand_side_by_side():
    features, names = fit(numeric=["year"], categorical=["venue"], text=["title"]).transform(PAPERS)
    assert isinstance(features, sp.csr_array)
    assert features.shape == (3, 1 + 2 + 4)
    assert names[3:] == ("title:deep", "title:for", "title:graph", "title:networks")
    assert features.toarray()[1].tolist() == [2017, 0, 0, 0, 0, 0, 0]


def test_json_gives_back_an_equal_encoding():
    encoding = fit(numeric=["year"], categorical=["venue"], text=["title"])
    again = TableEncoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding


def test_text_has_the_very_bits_of_scikit_learn():
    rng = np.random.default_rng(0)
    letters = np.array([*"aAbß éß_7-' .\u0301\u4e2d"])
    cells = ["".join(rng.choice(letters, size=rng.integers(0, 60))) for _ in range(400)]
    expected = TfidfVectorizer(dtype=np.float32).fit(cells[:300])
    encoding = fit(pd.DataFrame({"title": cells[:300]}), text=["title"])
    assert encoding.text[0].vocabulary == tuple(expected.get_feature_names_out())
    np.testing.assert_array_equal(encoding.text[0].idf, expected.idf_)
    # The last hundred have words that are not known.
    features, _ = encoding.transform(pd.DataFrame({"title": cells}))
    np.testing.assert_array_equal(features.toarray(), expected.transform(cells).toarray())


def test_no_columns_mean_no_features():
    assert fit().transform(PAPERS) == (None, ())


def test_no_rows_keep_the_width():
    encoding = fit(numeric=["year"], categorical=["venue"], text=["title"])
    assert encoding.transform(PAPERS[:0])[0].shape == (0, 7)


FILL = ": train with missing_value='mean', or 'zero', to fill empty cells"


@pytest.mark.parametrize(
    ("cells", "got"),
    [
        ([1, "abc"], "'abc'"),
        ([1, None], f"an empty cell{FILL}"),
        ([1, ""], f"an empty cell{FILL}"),
        ([1, float("inf")], "inf"),
        ([1, "-inf"], "'-inf'"),
        ([1, float("nan")], f"an empty cell{FILL}"),
        ([1, "nan"], f"'nan'{FILL}"),
        ([1, [2]], r"\[2\]"),
        ([1, 2j], "2j"),
        (["1", "1,5"], "'1,5'"),
    ],
)
def test_a_cell_that_is_no_finite_number_is_named(cells, got):
    frame = pd.DataFrame({"age": pd.Series(cells, dtype=object)})
    message = rf"^nodes\.csv, line 3: column 'age' must be a finite number, got {got}$"
    with pytest.raises(ValueError, match=message):
        fit(frame, numeric=["age"])
    with pytest.raises(ValueError, match=message):
        TableEncoding(numeric=("age",)).transform(frame, "nodes.csv")


def test_a_number_beyond_float32_is_refused():
    message = r"^nodes\.csv, line 2: column 'age' must fit float32, got 1e\+300$"
    with pytest.raises(ValueError, match=message):
        fit(pd.DataFrame({"age": [1e300]}), numeric=["age"])


def test_a_column_of_words_comes_with_advice():
    frame = pd.DataFrame({"title": [None, "Deep learning on graphs and other odd structures"]})
    message = (
        r"^nodes\.csv, line 3: column 'title' must be a finite number, got "
        r"'Deep learning on graphs and other odd\.\.\.': "
        r"declare it with text or categorical, or drop it with ignore$"
    )
    with pytest.raises(ValueError, match=message):
        fit(frame, numeric=["title"])


def test_dates_are_no_numbers():
    frame = pd.DataFrame({"born": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(ValueError, match="column 'born' must be a finite number, got 2020-01-01"):
        fit(frame, numeric=["born"])


def test_a_missing_column_names_the_closest():
    with pytest.raises(
        ValueError,
        match=r"^new\.csv has no column 'year', which the model was trained with "
        r"\(did you mean 'Years'\?\)$",
    ):
        fit(numeric=["year"]).transform(pd.DataFrame({"Years": [1]}), "new.csv")
    with pytest.raises(
        ValueError, match=r"^nodes\.csv has no column 'venu' \(did you mean 'venue'"
    ):
        fit(categorical=["venu"])


def test_columns_without_content_are_refused():
    empty = pd.DataFrame({"a": [None, ""]})
    with pytest.raises(ValueError, match=r"nodes\.csv: categorical column 'a' must not be empty"):
        fit(empty, categorical=["a"])
    with pytest.raises(ValueError, match=r"nodes\.csv: text column 'a' must hold words"):
        fit(empty, text=["a"])


@pytest.mark.parametrize("content", [{}, {"numeric": 3}, {"numeric": [], "categorical": [7]}])
def test_other_json_is_refused(content):
    with pytest.raises(ValueError, match=r"^not the encoding of a table"):
        TableEncoding.from_json(content)


def test_json_with_a_weight_too_few_is_refused():
    content = fit(text=["title"]).to_json()
    content["text"][0]["idf"].pop()
    with pytest.raises(ValueError, match="one finite weight per word, got 3 weights for 4 words"):
        TableEncoding.from_json(content)
