"""Models of every released version load, and predict what they predicted then."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from graphconv.results.predictions import Predictions
from graphconv.training.checkpoint import load_model
from graphconv.training.scores import mean_over_runs

GOLDEN = Path(__file__).parent / "golden"
FOLDERS = sorted(path.parent for path in GOLDEN.glob("*/*/model.json"))


def test_there_is_one_of_every_kind():
    assert {folder.parent.name for folder in FOLDERS} >= {"0.1.0"}
    assert {folder.name for folder in FOLDERS} == {"karate", "tables", "chebyshev"}


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_an_old_model_predicts_what_it_did(folder):
    saved = load_model(folder)
    fitted = saved.fitted
    assert json.loads((folder / "model.json").read_text())["format"] == 1
    shares = fitted.calibrate(mean_over_runs(fitted.probabilities()))
    found = Predictions(fitted.graph, shares, fitted.graph.class_names).columns()
    with (folder / "predictions.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    assert [row["id"] for row in expected] == [str(node) for node in found["id"]]
    assert [row["label"] for row in expected] == [str(label) for label in found["label"]]
    for name in (column for column in expected[0] if column.startswith("p_")):
        before = np.array([float(row[name]) for row in expected])
        assert np.allclose(found[name], before, rtol=2e-5, atol=1e-6), name
