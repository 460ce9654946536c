"""Training whose numbers are none any more ends with one line and leaves nothing behind."""

import json

import numpy as np
import pytest
import safetensors.numpy
from tests.command_line import names

from graphconv import GCNClassifier, load_dataset
from graphconv.training.calibration import Calibration
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import Watch, fit_gcn

DIVERGING = [
    ("--chebyshev-order", "8", "--propagation", "chebyshev", "--lambda-max", "0.01"),
    ("--learning-rate", "1e30"),
    ("--learning-rate", "1e30", "--max-epochs", "1"),
]


@pytest.mark.parametrize("options", DIVERGING)
def test_command_says_so_and_keeps_nothing(run, tmp_path, options):
    done = run("train", "karate", *options, "-o", "m", "--checkpoint-seconds", "0", expect=2)
    assert done.err[-1].startswith(("graphconv: training diverged: ", "graphconv: the model must"))
    assert done.out == ""
    assert names(tmp_path) == []


def test_estimator_says_so():
    with pytest.raises(ValueError, match="training diverged"):
        GCNClassifier(learning_rate=1e30).fit(load_dataset("karate"))


def test_it_ends_in_the_epoch_that_shows_it():
    seen = []
    watch = Watch(on_epoch=lambda progress: seen.append(progress.epoch))
    with pytest.raises(ValueError, match=r"the loss must be a number, got \w+ in epoch [23];"):
        fit_gcn(load_dataset("karate"), overrides={"learning_rate": 1e30}, watch=watch)
    assert len(seen) <= 2


@pytest.fixture
def folder(tmp_path):
    save_model(SavedModel(fit_gcn(load_dataset("karate"))), tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    name = sorted(tensors)[0]
    tensors[name].flat[0] = value
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError, match=f"{name} in model.safetensors holds what is not a num"):
        load_model(folder)


def test_weights_of_another_kind_are_refused(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({name: v.astype(np.int32) for name, v in tensors.items()}, path)
    with pytest.raises(ValueError, match="holds what is not a number"):
        load_model(folder)


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf"), "hot"])
def test_a_bad_temperature_is_refused(folder, temperature):
    path = folder / "model.json"
    description = json.loads(path.read_text())
    description["calibration"]["temperature"] = temperature
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"temperature must|must be a complete graphconv model"):
        load_model(folder)


def test_a_bad_doubt_is_refused():
    with pytest.raises(ValueError, match="doubt must be from 0 to 1, got -1"):
        Calibration(doubt=-1)
