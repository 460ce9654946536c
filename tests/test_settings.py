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
        ("restart", 2, "restart must be at least 0 and at most 1, got 2"),
        ("sharpening", 0, "sharpening must be above 0 and at most 1, got 0"),
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
    with pytest.raises(ValueError, match=r"preset must be one of 'robust', .*'strong', got 'best'"):
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


# For each setting that is a number: what is just allowed, as it is kept, and what just is not.
NAN, INF = float("nan"), float("inf")
EDGES = {
    "self_loop_weight": ([0, 0.5, "learn"], [-1e-9, INF, NAN, True, "true", None]),
    "chebyshev_order": ([0, 1, 7], [-1, 0.0, True, None, "2"]),
    "lambda_max": ([1e-9, 2, "true"], [0, -1.0, INF, True, "learn", None]),
    "hidden": ([(), (1,), (8, 1)], [(0,), (8, 0), (8, True), False, 0.0, "8", (8.0,), None]),
    "steps": ([0, 1], [-1, 1.0, True]),
    "restart": ([0, 0.5, 1], [-1e-9, 1 + 1e-9, NAN, True]),
    "row_dropout": ([0, 0.99], [-1e-9, 0.991, True]),
    "dropout": ([0, 0.999, (0, 0.5)], [1, -1e-9, (0.5, 1), (True, 0), True, NAN, "0.5"]),
    "copies": ([None, 1, 3], [0, 1.0, True]),
    "agreement": ([0, 2.5], [-1e-9, INF, False]),
    "agreement_warmup": ([0, 1], [-1, 0.5, False]),
    "sharpening": ([1e-9, 1], [0, 1 + 1e-9, True]),
    "learning_rate": ([1e-9, 3], [0, -1, INF, True]),
    "weight_decay": ([0, 1.5], [-1e-9, INF, False]),
    "max_epochs": ([1, 2], [0, 1.0, True]),
    "patience": ([1, 2], [0, 1.0, True]),
    "batch_size": ([None, 1], [0, 1.0, True]),
    "fanout": (["all", (1,), (3, 5)], [(0,), (1, 0), "some", True, (1.0,), None]),
    "class_weight": (
        [None, "balanced", (("a", 0.0),), (("a", 1.0), (3, 2.5))],
        ["even", (("a", -1e-9),), (("a", NAN),), ("ab",), 3],
    ),
    "residual": ([True, False], [0, 1, None, "yes"]),
}


@pytest.mark.parametrize("name", EDGES)
def test_where_the_values_of_a_setting_end(name):
    allowed, refused = EDGES[name]
    for value in allowed:
        kept = getattr(Settings(**{name: value}), name)
        assert kept == value
        assert type(kept) is type(value)
    for value in refused:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            Settings(**{name: value})


def test_every_number_among_the_settings_has_its_edges():
    listed = {f.name for f in fields(Settings) if declaration(f).kind.choices}
    switches = {f.name for f in fields(Settings) if declaration(f).kind.metavar is None}
    assert {*EDGES, *listed, *switches} == {field.name for field in fields(Settings)}


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("hidden", 0, ()),
        ("hidden", 8, (8,)),
        ("hidden", [8, 4], (8, 4)),
        ("hidden", np.array([8, 4]), (8, 4)),
        ("fanout", 5, (5,)),
        ("fanout", [5, 3], (5, 3)),
        ("dropout", [0.1, 0], (0.1, 0)),
        ("class_weight", {"a": 2, "b": 0}, (("a", 2.0), ("b", 0.0))),
        ("class_weight", [["a", 2]], (("a", 2.0),)),
    ],
)
def test_how_several_values_are_kept(name, given, kept):
    assert getattr(Settings(**{name: given}), name) == kept


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden", "64", 64),
        ("hidden", "64,32", (64, 32)),
        ("dropout", "0.5,0,.25", (0.5, 0, 0.25)),
        ("learning_rate", "1e-3", 1e-3),
        ("lambda_max", "true", "true"),
        ("fanout", "10,x", "10,x"),  # for whoever checks it to refuse
        ("class_weight", "spam=2,ham=1.5", {"spam": 2.0, "ham": 1.5}),
        ("class_weight", "a=b=2", {"a=b": 2.0}),
        ("class_weight", "balanced", "balanced"),
        ("class_weight", "spam=2,ham", "spam=2,ham"),
    ],
)
def test_what_a_text_stands_for(name, text, value):
    (kind,) = (declaration(f).kind for f in fields(Settings) if f.name == name)
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"dropout": (0.1, 0.2)}, None),
        ({"hidden": (), "dropout": (0.1,)}, None),
        ({"hidden": (4, 4), "dropout": (0.1, 0.2)}, "one for each of 3 layers, got 2"),
        ({"self_loop_weight": 1, "propagation": "chebyshev"}, None),
        ({"self_loop_weight": 2, "propagation": "chebyshev"}, "got 2 with 'chebyshev'"),
        ({"fanout": (3,), "propagation": "first-order"}, None),
        ({"fanout": 3, "propagation": "chebyshev"}, "must be 'all' with the chebyshev rule"),
        ({"jumping_knowledge": True, "hidden": (8, 8)}, None),
        ({"jumping_knowledge": True, "hidden": (8, 4)}, "layers of one width with .*, got 8, 4"),
        ({"jumping_knowledge": True, "hidden": ()}, "layers of one width with .*, got none"),
    ],
)
def test_settings_that_go_together(chosen, message):
    if message is None:
        assert Settings(**chosen).to_json().items() >= chosen.items()
    else:
        with pytest.raises(ValueError, match=message):
            Settings(**chosen)


@pytest.mark.parametrize(
    ("fanout", "batch_size", "n_train", "is_full"),
    [
        *(("all", None, 9, True), ("all", 9, 9, True), ("all", 10, 9, True), ("all", 8, 9, False)),
        *((3, None, 9, False), (3, 9, 9, False)),
    ],
)
def test_when_one_batch_holds_everything(fanout, batch_size, n_train, is_full):
    assert Settings(fanout=fanout, batch_size=batch_size).is_full_batch(n_train) == is_full


def test_a_hop_each_or_one_for_all():
    assert Settings(fanout=(3, 5)).fanouts(2) == (3, 5)
    assert Settings().fanouts(2) is None
    with pytest.raises(ValueError, match="one for each of 3 hops, got 2"):
        Settings(fanout=(3, 5)).fanouts(3)
