"""Models of every released version, and of the coming one, predict what they predicted then."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from graphconv.estimators.fitted_method import load_saved
from graphconv.results.predictions import Predictions
from graphconv.results.provenance import PROVENANCE_FILE, verify_provenance
from graphconv.training.scores import mean_over_runs

GOLDEN = Path(__file__).parent / "golden"
FOLDERS = sorted(path.parent for path in GOLDEN.glob("*/*/model.json"))


def test_there_is_one_of_every_kind():
    kinds = {
        version.name: {path.name for path in version.iterdir()} for version in GOLDEN.iterdir()
    }
    assert kinds == {
        "0.1.0": {"karate", "tables", "chebyshev"},
        "0.2.0.dev0": {"appnp", "chosen", "grand", "label-propagation", "sgc"},
    }


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_an_old_model_predicts_what_it_did(folder):
    fitted = load_saved(folder).fitted
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


def test_models_since_0_2_say_where_they_come_from():
    since = [folder for folder in FOLDERS if folder.parent.name != "0.1.0"]
    for folder in since:
        assert verify_provenance(folder).n_files == len(list(folder.iterdir())) - 1, folder
    assert not any((folder / PROVENANCE_FILE).exists() for folder in FOLDERS if folder not in since)
