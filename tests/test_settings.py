"""Tests of graphconv.models.settings."""

import inspect
import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from graphconv import GCNClassifier
from graphconv.models.kinds import declaration
from graphconv.models.settings import PAPER, PAPER_NELL, ROBUST, Settings, resolve_settings
from scripts import build_settings


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("propagation", "gat", "propagation must be one of 'renormalised', .*, got 'gat'"),
        ("activation", "gelu", "activation must be one of .*, got 'gelu'"),
        ("scaling", "minmax", "scaling must be one of .*, got 'minmax'"),
        ("early_stopping", "last", "early_stopping must be one of .*, got 'last'"),
        ("weight_decay_layers", "last", "weight_decay_layers must be one of .*, got 'last'"),
        ("class_weight", "even", "class_weight must be .*, got 'even'"),
        ("class_weight", {"a": -1}, "class_weight must be .* a weight of at least 0"),
        ("hidden", (16, 0), r"hidden must be whole widths of at least 1, got \(16, 0\)"),
        ("hidden", -3, "hidden must be whole widths of at least 1"),
        ("dropout", 1.0, "dropout must be at least 0 and below 1, got 1.0"),
        ("dropout", -0.1, "dropout must be at least 0 and below 1, got -0.1"),
        ("dropout", float("nan"), "dropout must be at least 0 and below 1, got nan"),
        ("dropout", (0.5,), "dropout must be one rate, or one for each of 2 layers, got 1"),
        ("weight_decay", -1e-3, "weight_decay must be at least 0, got -0.001"),
        ("weight_decay", float("inf"), "weight_decay must be at least 0, got inf"),
        ("weight_decay", float("nan"), "weight_decay must be at least 0, got nan"),
        ("chebyshev_order", -1, "chebyshev_order must be a whole number of at least 0, got -1"),
        ("lambda_max", 0.0, "lambda_max must be 'true' or above 0, got 0.0"),
        ("lambda_max", "two", "lambda_max must be 'true' or above 0, got 'two'"),
        ("self_loop_weight", -1.0, "self_loop_weight must be 'learn' or at least 0, got -1.0"),
        ("self_loop_weight", "fit", "self_loop_weight must be 'learn' or at least 0, got 'fit'"),
        ("learning_rate", 0, "learning_rate must be above 0, got 0"),
        ("learning_rate", float("nan"), "learning_rate must be above 0, got nan"),
        ("max_epochs", 0, "max_epochs must be a whole number above 0, got 0"),
        ("max_epochs", True, "max_epochs must be a whole number above 0, got True"),
        ("patience", -5, "patience must be a whole number above 0, got -5"),
    ],
)
def test_bad_values_are_refused_in_one_line(name, value, message):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        Settings(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", "16"),
        ("hidden", 16.5),
        ("hidden", (16.7,)),
        ("hidden", None),
        ("dropout", None),
        ("dropout", "0.5"),
        ("weight_decay", "x"),
        ("chebyshev_order", 2.5),
        ("chebyshev_order", "2"),
        ("max_epochs", 1.5),
        ("patience", 2.5),
        ("learning_rate", "0.1"),
        ("class_weight", 5),
        ("class_weight", {"a": "x"}),
    ],
)
def test_values_of_a_wrong_type_are_refused_in_one_line(name, value):
    with pytest.raises(ValueError, match=f"^{name} must ") as caught:
        Settings(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"hidden": (32, 16), "dropout": (0.1, 0.2, 0.3)},
        {"propagation": "chebyshev", "chebyshev_order": 5, "lambda_max": 2.0},
        {"self_loop_weight": "learn", "class_weight": "balanced"},
        {"class_weight": {"a": 2.0, "b": 1.0}},
        {"hidden": ()},
    ],
)
def test_json_round_trip(chosen):
    settings = Settings(**chosen)
    again = Settings.from_json(json.loads(json.dumps(settings.to_json())))
    assert again == settings
    assert hash(again) == hash(settings)


def test_unknown_names_in_json_are_refused():
    with pytest.raises(ValueError, match="settings must be known ones, got colour, size"):
        Settings.from_json({"size": 3, "colour": 1, "bias": True})


def test_widths_and_rates_take_any_sequence():
    assert Settings(hidden=8).hidden == (8,)
    assert Settings(hidden=[8, 4], dropout=[0, 0.5, 0.5]).dropout == (0.0, 0.5, 0.5)


def test_settings_do_not_change():
    with pytest.raises(FrozenInstanceError):
        ROBUST.bias = False


def test_presets_are_what_the_issue_says():
    assert (ROBUST.hidden, ROBUST.max_epochs, ROBUST.patience) == ((64,), 1000, 50)
    assert (ROBUST.early_stopping, ROBUST.scaling) == ("settled", "auto")
    assert (PAPER.hidden, PAPER.max_epochs, PAPER.patience) == ((16,), 200, 10)
    assert (PAPER.early_stopping, PAPER.scaling) == ("window", "row")
    assert (PAPER.dropout, PAPER.learning_rate, PAPER.weight_decay) == (0.5, 0.01, 5e-4)
    assert (PAPER.propagation, PAPER.bias) == ("renormalised", False)
    nell = {"hidden": (64,), "dropout": 0.1, "weight_decay": 1e-5}
    departures = {"scaling": "l2", "early_stopping": "best", "patience": 50}
    assert replace(PAPER, **nell, **departures) == PAPER_NELL


@pytest.mark.parametrize(
    ("preset", "expected"), [("robust", ROBUST), ("paper", PAPER), ("paper-nell", PAPER_NELL)]
)
def test_overrides_change_a_preset(preset, expected):
    assert resolve_settings(preset, {}) == expected
    assert resolve_settings(preset, {"bias": True, "hidden": 5}) == replace(
        expected, bias=True, hidden=(5,)
    )


def test_unknown_preset():
    with pytest.raises(ValueError, match=r"preset must be one of 'robust', .*'auto', got 'best'"):
        resolve_settings("best", {})


def test_a_slip_in_a_name_gets_a_hint():
    with pytest.raises(ValueError, match=r"got 'chebychev' \(did you mean 'chebyshev'\?\)"):
        Settings(propagation="chebychev")
    with pytest.raises(ValueError, match=r"got patiense \(did you mean 'patience'\?\)"):
        Settings.from_json({"patiense": 3})


def test_numbers_of_numpy_become_those_of_python():
    settings = Settings(
        hidden=np.array([8, 4]), dropout=np.float32(0.25), patience=np.int64(3), bias=np.bool_(True)
    )
    assert json.loads(json.dumps(settings.to_json()))["hidden"] == [8, 4]
    assert (settings.dropout, settings.patience, settings.bias) == (0.25, 3, True)


def test_the_estimator_takes_every_setting():
    parameters = inspect.signature(GCNClassifier).parameters
    names = [field.name for field in fields(Settings)]
    assert [name for name in parameters if name in names] == names
    assert all(parameters[name].default is None for name in names)


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (build_settings.ESTIMATOR, build_settings.with_docstring),
        (build_settings.PAGE, build_settings.with_table),
    ],
)
def test_the_documentation_follows_the_declarations(path, written):
    """`make settings` renews it."""
    text = path.read_text(encoding="utf-8")
    assert written(text) == text
    assert all(declaration(field).help.split()[0] in text.split() for field in fields(Settings))


def test_settings_import_nothing_heavy():
    code = "import sys, graphconv.models.settings; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_model_that_sees_no_neighbours_samples_none():
    settings = Settings(fanout=(3,))
    assert settings.fanouts(0) is None
    assert settings.fanouts(1) == (3,)
    assert settings.fanouts(2) == (3, 3)
