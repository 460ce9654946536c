"""Features in files of their own: Matrix Market, scipy's npz, and lists of entries."""

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from tests.generated_graphs import random_matrix

from graphconv.io.readers import read_tables

MATRIX = sp.csr_array(np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 7, 3]]))


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    (tmp_path / "nodes.csv").write_text("id,label,age\na,x,31\nb,y,47\nc,x,25\nd,,60\n")
    scipy.io.mmwrite(tmp_path / "words.mtx", MATRIX)
    sp.save_npz(tmp_path / "words.npz", MATRIX)
    entries = "id,word,times\na,blue,2.5\nb,any,1\nd,blue,7\nd,cat,3\n"
    (tmp_path / "words.csv").write_text(entries)
    return tmp_path


@pytest.mark.parametrize("file", ["words.mtx", "words.npz", "words.csv", "matrix"])
def test_features_come_after_the_columns(tables, file):
    features = MATRIX if file == "matrix" else file
    graph = read_tables("edges.csv", "nodes.csv", features=features).graph
    np.testing.assert_array_equal(graph.features[:, 0], [31, 47, 25, 60])
    np.testing.assert_array_equal(graph.features[:, 1:], MATRIX.toarray())
    names = (
        ("any", "blue", "cat") if file == "words.csv" else ("feature_0", "feature_1", "feature_2")
    )
    assert graph.feature_names == ("age", *names)


def test_many_features_stay_sparse(tables):
    wide = random_matrix((4, 5000), 0.01, np.random.default_rng(0))
    graph = read_tables("edges.csv", "nodes.csv", features=wide).graph
    assert graph.features.format == "csr"
    np.testing.assert_allclose(graph.features[:, 1:].toarray(), wide.toarray(), rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,word\na,b\n", r"^bad\.csv must have three columns, an id, .* got 2 columns$"),
        ("id,word,n\nzoe,b,1\n", r"^bad\.csv, line 2: 'zoe' is no id of nodes\.csv$"),
        ("id,word,n\na,b,many\n", r"^bad\.csv, line 2: column 'n' must be a finite number"),
        ("id,word,n\na,age,1\n", r"^nodes\.csv must not have two columns named 'age'$"),
    ],
)
def test_bad_entries_are_one_line(tables, content, message):
    (tables / "bad.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_tables("edges.csv", "nodes.csv", features="bad.csv")


def test_bad_matrices_are_one_line(tables):
    with pytest.raises(ValueError, match=r"^features must have a row for each row of nodes"):
        read_tables("edges.csv", "nodes.csv", features=MATRIX[:2])
    (tables / "bad.npz").write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match=r"^bad\.npz must be a matrix that scipy"):
        read_tables("edges.csv", "nodes.csv", features="bad.npz")
    (tables / "bad.mtx").write_text("no matrix")
    with pytest.raises(ValueError, match=r"^bad\.mtx must be a Matrix Market file"):
        read_tables("edges.csv", "nodes.csv", features="bad.mtx")
    with pytest.raises(ValueError, match=r"^features need a table of nodes"):
        read_tables("edges.csv", features=MATRIX)


def test_training_and_new_nodes(tables, run):
    given = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--features", "words.csv")
    done = run("train", *given, "--max-epochs", 2, "-o", "model")
    assert any("4 features" in line for line in done.err)
    (tables / "words.csv").write_text("id,word,times\na,blue,2.5\nb,new,1\n")
    run("predict", "model", *given, "--alone", "-o", "out.csv")
    assert len(pd.read_csv("out.csv")) == 4


def test_a_matrix_may_not_claim_columns_without_end(tables):
    sp.save_npz("f.npz", sp.csr_array(([1.0], ([0], [5])), shape=(4, 2**31 - 1)))
    with pytest.raises(ValueError, match=r"f.npz must have at most 1,048,576 columns for 1 number"):
        read_tables("edges.csv", "nodes.csv", features="f.npz")
