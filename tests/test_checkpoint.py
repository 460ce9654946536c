"""Tests of graphconv.training.checkpoint: model folders and training files, whole or not at all."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from tests.generated_graphs import generate, split
from tests.small_disk import mounted

from graphconv.graph import Graph
from graphconv.models.settings import RULES, Settings
from graphconv.training import checkpoint
from graphconv.training._resumption import check_saved
from graphconv.training.checkpoint import (
    SavedModel,
    TrainingFile,
    load_model,
    read_identity,
    save_model,
)
from graphconv.training.early_stopping import EarlyStopping
from graphconv.training.fit import Watch, build_model, fit_gcn

FILES = ["graph.npz", "model.json", "model.safetensors"]


def make_graph(kind="unscaled measured columns"):
    return split(generate(kind, n_nodes=60), n_per_class=6, n_validation=12)


def fit(overrides=None, graph=None, seeds=(0,), **options):
    overrides = {"max_epochs": 5, "hidden": (4,), **(overrides or {})}
    return fit_gcn(graph or make_graph(), overrides=overrides, seeds=seeds, **options)


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.fixture
def folder(fitted, tmp_path):
    path = tmp_path / "model"
    save_model(SavedModel(fitted), path)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def edit_description(folder, **changes):
    path = folder / "model.json"
    description = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(description))


VARIANTS = {
    **{rule: {"propagation": rule} for rule in RULES},
    "learned": {"self_loop_weight": "learn"},
    "deep": {"hidden": (4, 4), "residual": True, "bias": True, "dropout": (0.1, 0.2, 0.3)},
    "linear": {"hidden": ()},
    "weights": {"class_weight": {0: 2.0, 1: 0.5}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_round_trip_of_every_rule(variant, tmp_path):
    fitted = fit(VARIANTS[variant], seeds=(3, 4))
    metrics = {"test_accuracy": 0.5}
    save_model(SavedModel(fitted, None, {"id": "name"}, metrics), tmp_path / "model")
    assert names(tmp_path / "model") == FILES
    saved = load_model(tmp_path / "model")
    again = saved.fitted
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())
    assert (saved.encoding, saved.table_options, saved.metrics) == (None, {"id": "name"}, metrics)
    assert again.settings == fitted.settings
    assert again.graph.fingerprint() == fitted.graph.fingerprint()
    assert again.network.seeds == (3, 4)
    assert again.n_epochs == fitted.n_epochs == 5
    assert again.history == fitted.history
    assert again.self_loop_weight == fitted.self_loop_weight
    assert again.network.model.graph.lambda_max == fitted.network.model.graph.lambda_max


@pytest.mark.parametrize("kind", ["binary features", "no features", "weighted"])
def test_round_trip_of_other_graphs(kind, tmp_path):
    fitted = fit(graph=make_graph(kind))
    save_model(SavedModel(fitted), tmp_path / "model")
    again = load_model(tmp_path / "model").fitted
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())
    np.testing.assert_array_equal(again.embedding(), fitted.embedding())


@pytest.mark.parametrize("directed", [False, True])
def test_round_trip_with_text_ids_and_several_labels(directed, tmp_path):
    graph = Graph(
        [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]],
        labels=[[1, 0], [0, 1], [1, 1], [-1, -1]],
        class_names=["ä", "b c"],
        node_ids=["ann", "bob", "cöl", "dan"],
        directed=directed,
    )
    fitted = fit(graph=graph, validation_fraction=0)
    save_model(SavedModel(fitted), tmp_path / "model")
    again = load_model(tmp_path / "model").fitted
    np.testing.assert_array_equal(again.probabilities(), fitted.probabilities())
    assert again.graph.class_names == ("ä", "b c")
    assert again.graph.node_ids.tolist() == ["ann", "bob", "cöl", "dan"]
    assert np.isnan(again.history["validation_loss"]).all()


def test_new_graph_is_scaled_by_what_training_learned(fitted, folder):
    other = generate("unscaled measured columns", seed=1, n_nodes=40)
    again = load_model(folder).fitted
    np.testing.assert_array_equal(again.probabilities(other), fitted.probabilities(other))
    np.testing.assert_array_equal(again.scaler.mean, fitted.scaler.mean)


def test_description_says_what_it_must(fitted, folder):
    description = json.loads((folder / "model.json").read_text())
    assert description["format"] == 1
    assert description["classes"] == [0, 1, 2, 3]
    assert description["settings"]["hidden"] == [4]
    assert description["data_fingerprint"] == fitted.graph.fingerprint()
    assert set(description["versions"]) == {"graphconv", "python", "numpy", "torch"}


def test_saving_again_replaces_the_model(fitted, folder):
    other = fit({"hidden": (3,)})
    save_model(SavedModel(other), folder)
    assert load_model(folder).fitted.settings.hidden == (3,)
    assert names(folder.parent) == ["model"]


def test_empty_folder_is_taken(fitted, tmp_path):
    (tmp_path / "model").mkdir()
    save_model(SavedModel(fitted), tmp_path / "model")
    assert names(tmp_path / "model") == FILES


def test_folder_with_other_files_is_left_alone(fitted, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"must be a new or empty folder.*holds other files"):
        save_model(SavedModel(fitted), tmp_path)
    assert names(tmp_path) == ["thesis.tex"]


def test_model_folder_with_other_files_is_left_alone(fitted, folder):
    """What the user put beside the model must not vanish with it."""
    (folder / "notes.txt").write_text("keep me")
    with pytest.raises(FileExistsError, match=r"holds other files \(notes\.txt\)"):
        save_model(SavedModel(fitted), folder)
    assert names(folder) == [*FILES, "notes.txt"]


def test_more_files_are_written_with_the_model(fitted, tmp_path):
    path = tmp_path / "model"
    save_model(SavedModel(fitted), path, lambda new: (new / "predictions.csv").write_text("id"))
    assert names(path) == sorted([*FILES, "predictions.csv"])

    def fail(new):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        save_model(SavedModel(fitted), path, fail)
    assert names(path) == sorted([*FILES, "predictions.csv"])


def test_file_in_the_way(fitted, tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(FileExistsError, match="must be a folder to write the model to"):
        save_model(SavedModel(fitted), tmp_path / "model")
    assert (tmp_path / "model").read_text() == "a file"


@pytest.mark.parametrize("name", [("a", 1), None])
def test_class_names_that_json_cannot_hold_are_refused(name, tmp_path):
    graph = Graph(np.zeros((2, 2)), labels=[0, 1], class_names=["x", name])
    fitted = fit(graph=graph, validation_fraction=0)
    with pytest.raises(ValueError, match="class names must be text or numbers to be saved"):
        save_model(SavedModel(fitted), tmp_path / "model")
    assert names(tmp_path) == []


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a graphconv model folder, but is not"):
        load_model(tmp_path / "nothing")


def test_wrong_folder(tmp_path):
    (tmp_path / "data.csv").write_text("a,b")
    with pytest.raises(FileNotFoundError, match=r"model folder, but has no model\.json"):
        load_model(tmp_path)


def test_path_of_a_file_instead_of_the_folder(folder):
    with pytest.raises((FileNotFoundError, NotADirectoryError), match="graphconv model folder"):
        load_model(folder / "model.json")


def _truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garbage(path):
    path.write_bytes(b"\x93\xff\x00" * 100)


@pytest.mark.parametrize("damage", [os.remove, _truncate, _garbage])
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_give_one_line(folder, name, damage):
    damage(folder / name)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value) or str(folder) in str(caught.value)


@pytest.mark.parametrize("version", [2, 0, "1", None, True, 1.0])
def test_other_formats_are_refused(folder, version):
    edit_description(folder, format=version)
    with pytest.raises(ValueError, match=f"must have model format 1, got {version!r}"):
        load_model(folder)


@pytest.mark.parametrize("content", ["[1, 2]", "null", '"model"', "{}"])
def test_json_that_is_no_model(folder, content):
    (folder / "model.json").write_text(content)
    with pytest.raises(ValueError, match=r"must have model format 1|must be a JSON object"):
        load_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"hidden": [4], "colour": "red"}},
        {"settings": {"hidden": [5]}},
        {"settings": None},
        {"seeds": [1, 2, 3]},
        {"seeds": None},
        {"lambda_max": "big"},
        {"encoding": {"columns": 3}},
    ],
    ids=str,
)
def test_descriptions_that_do_not_fit_give_one_line(folder, changes):
    edit_description(folder, **changes)
    with pytest.raises(ValueError, match=r"must be|not the") as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["settings", "seeds", "lambda_max", "n_epochs", "encoding"])
def test_descriptions_that_lack_something_give_one_line(folder, key):
    path = folder / "model.json"
    description = json.loads(path.read_text())
    del description[key]
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match="must be a complete graphconv model, but"):
        load_model(folder)


def test_other_tensors_are_refused(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["layers.0.weight"] = tensors["layers.0.weight"][:-1]
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError, match="must be a complete graphconv model, but"):
        load_model(folder)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("step", ["tensors", "graph"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_failure_between_writes_leaves_what_was_there(
    fitted, tmp_path, monkeypatch, before, step, error
):
    path = tmp_path / "model"
    if before:
        save_model(SavedModel(fitted), path)
    contents = {name: (path / name).read_bytes() for name in FILES} if before else {}

    def fail(*_, **__):
        raise error

    if step == "tensors":
        monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    else:
        monkeypatch.setattr(checkpoint, "write_npz", fail)
    with pytest.raises(type(error)):
        save_model(SavedModel(fit({"hidden": (3,)})), path)
    assert names(tmp_path) == (["model"] if before else [])
    for name, content in contents.items():
        assert (path / name).read_bytes() == content


KILLED = """
import os, signal, sys
from pathlib import Path
from graphconv.training import checkpoint
from tests.test_checkpoint import fit

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

checkpoint.write_npz = die
checkpoint.save_model(checkpoint.SavedModel(fit({"hidden": (3,)})), Path(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_kill_between_writes_leaves_the_old_model(fitted, folder):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [root, *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    np.testing.assert_array_equal(load_model(folder).fitted.probabilities(), fitted.probabilities())
    # And a later save goes through.
    save_model(SavedModel(fitted), folder)
    assert names(folder) == FILES


@pytest.fixture
def tiny_disk(tmp_path):
    with mounted(tmp_path / "disk", "size=32k") as path:
        yield path


def test_full_disk_leaves_the_old_model(tiny_disk):
    small = Graph([[0, 1], [1, 0]], labels=[0, 1])
    save_model(SavedModel(fit(graph=small, validation_fraction=0)), tiny_disk / "model")
    # An OSError, which the command line turns into one line.
    with pytest.raises(OSError, match="No space left on device"):
        save_model(SavedModel(fit({"hidden": (2000,)})), tiny_disk / "model")
    assert names(tiny_disk) == ["model"]
    assert load_model(tiny_disk / "model").fitted.graph.n_nodes == 2


def test_full_disk_leaves_the_old_training_file(tiny_disk):
    state = TrainingFile(tiny_disk / "state", IDENTITY, seconds=0)
    state(lambda: {"weight": np.ones(1)})
    with pytest.raises(OSError, match="No space left on device"):
        state(lambda: {"weight": np.zeros(50_000)})
    assert names(tiny_disk) == ["state"]
    assert state.read()["weight"].tolist() == [1]


IDENTITY = {"data": "abc", "seeds": [0], "settings": {"hidden": [4]}}


def test_training_file_round_trip(tmp_path):
    state = TrainingFile(tmp_path / "run.state", IDENTITY, seconds=0)
    assert state.read() is None
    state(lambda: {"weight": np.arange(6.0).reshape(2, 3), "step": np.zeros(())})
    read = TrainingFile(tmp_path / "run.state", IDENTITY).read()
    assert read["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["step"] == 0
    assert read_identity(tmp_path / "run.state") == IDENTITY
    state.remove()
    state.remove()
    assert names(tmp_path) == []


def test_training_file_is_written_only_when_it_is_time(tmp_path):
    state = TrainingFile(tmp_path / "run.state", IDENTITY, seconds=1000)

    def never():
        raise AssertionError("not yet")

    state(never)
    assert names(tmp_path) == []
    state.stop_requested = True
    with pytest.raises(KeyboardInterrupt):
        state(lambda: {"weight": np.ones(1)})
    assert state.read()["weight"].tolist() == [1]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("data", "xyz", "data"), ("seeds", [1], "seeds"), ("train_set", 5, "train set")],
)
def test_another_training_is_refused(tmp_path, key, value, words):
    TrainingFile(tmp_path / "s", IDENTITY, seconds=0)(lambda: {"weight": np.ones(1)})
    with pytest.raises(ValueError, match=f"must be from the same training.*its {words} differs?"):
        TrainingFile(tmp_path / "s", IDENTITY | {key: value}).read()


@pytest.mark.parametrize("damage", [_truncate, _garbage])
def test_damaged_training_file(tmp_path, damage):
    state = TrainingFile(tmp_path / "s", IDENTITY, seconds=0)
    state(lambda: {"weight": np.ones(100)})
    damage(tmp_path / "s")
    with pytest.raises(ValueError, match="must be a training to continue, but can't be read"):
        state.read()


def test_failing_write_leaves_the_earlier_state(tmp_path, monkeypatch):
    state = TrainingFile(tmp_path / "s", IDENTITY, seconds=0)
    state(lambda: {"weight": np.ones(1)})

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        state(lambda: {"weight": np.zeros(1)})
    assert state.read()["weight"].tolist() == [1]
    assert names(tmp_path) == ["s"]


@pytest.mark.parametrize("stop_after", [1, 7, 19])
def test_interrupted_training_continues_bit_for_bit(tmp_path, stop_after):
    graph = make_graph()
    overrides = {"max_epochs": 20, "hidden": (4,), "patience": 3}
    expected = fit_gcn(graph, overrides=overrides, seeds=[0, 1])
    state = TrainingFile(tmp_path / "s", IDENTITY, seconds=0)

    def stop(progress):
        state.stop_requested = progress.epoch == stop_after

    try:
        fit_gcn(
            graph,
            overrides=overrides,
            seeds=[0, 1],
            watch=Watch(on_epoch=stop, on_checkpoint=state),
        )
    except KeyboardInterrupt:
        assert stop_after < expected.n_epochs + 1
    watch = Watch(resume_from=TrainingFile(tmp_path / "s", IDENTITY).read())
    again = fit_gcn(graph, overrides=overrides, seeds=[0, 1], watch=watch)
    np.testing.assert_array_equal(again.probabilities(), expected.probabilities())
    assert again.history == expected.history
    assert again.n_epochs == expected.n_epochs


def test_files_have_the_permissions_that_the_umask_gives(fitted, folder):
    before = os.umask(0o027)
    try:
        save_model(SavedModel(fitted), folder)
    finally:
        os.umask(before)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}
    assert set(modes.values()) == {"0o640"}, modes
    assert folder.stat().st_mode & 0o777 == 0o750


def test_training_files_are_written_every_so_many_seconds(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(checkpoint, "monotonic", lambda: now[0])
    state = TrainingFile(tmp_path / "s", IDENTITY)
    written = []
    for moment in (105, 109.9, 110, 111, 119.9, 120.5):
        now[0] = moment
        state(lambda: written.append(now[0]) or {"weight": np.ones(1)})
    assert written == [110, 120.5]  # ten seconds from the beginning, and from the last time
    assert state.has_begun


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (1, 2, ": 1 there, 2 here"),
        (None, "x" * 29, f": None there, {'x' * 29} here"),
        ("x", "y" * 30, ""),
        ("x" * 30, "y", ""),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}, " in b, c"),
        ({"a": 1}, 5, ": {'a': 1} there, 5 here"),
    ],
)
def test_a_difference_is_shown_where_it_is_short(before, now, words):
    assert checkpoint._shown(before, now) == words


def test_a_model_of_a_newer_version_says_so(folder):
    edit_description(folder, format=checkpoint.FORMAT + 1)
    with pytest.raises(ValueError, match=r"got \d+: it was written by a newer graphconv$"):
        load_model(folder)
    for older in (checkpoint.FORMAT - 1, "new", None):
        edit_description(folder, format=older)
        with pytest.raises(ValueError, match=rf"must have model format \d+, got {older!r}$"):
            load_model(folder)


@pytest.mark.parametrize(
    ("kind", "tensors", "is_right"),
    [
        ("standard", {"scaler.mean": 3, "scaler.scale": 3}, True),
        ("standard", {"scaler.mean": 3}, False),
        ("standard", {}, False),
        ("standard", {"scaler.mean": 3, "scaler.scale": 2}, False),
        ("l2", {}, True),
        ("l2", {"scaler.mean": 3, "scaler.scale": 3}, False),
        ("auto", {}, False),
        ("best", {}, False),
    ],
)
def test_numbers_of_a_scaling_must_be_those_of_its_kind(kind, tensors, is_right):
    held = {name: np.arange(1.0, 1 + n) for name, n in tensors.items()}
    if is_right:
        found = checkpoint._scaler(kind, held, 3)
        assert found.kind == kind
        assert held == {}  # taken out, so that weights are left
        if tensors:
            assert found.scale.tolist() == found.mean.tolist() == [1, 2, 3]
    else:
        with pytest.raises(RuntimeError, match="is not one that it holds the numbers of"):
            checkpoint._scaler(kind, held, 3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder, value):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["layers.0.weight"].flat[3] = value
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError, match=r"layers.0.weight .* holds what is not a number"):
        load_model(folder)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("I/O error: No space left (os error 28)", 28),
        ("IoError(Os { code: 13, kind: PermissionDenied })", 13),
        ("header too large", None),
    ],
)
def test_what_the_system_said_is_told(words, number, tmp_path, monkeypatch):
    def fail(*_):
        raise safetensors.SafetensorError(words)

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    with pytest.raises(safetensors.SafetensorError if number is None else OSError) as caught:
        checkpoint._save_arrays({}, tmp_path / "t")
    if number is not None:
        assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / "t"))


def saved_training():
    """The tensors of a training of three epochs, and what it was of."""
    kept = []
    graph = make_graph()
    fit_gcn(
        graph,
        overrides={"max_epochs": 3, "hidden": (4,), "early_stopping": "best"},
        seeds=[0, 1],
        watch=Watch(on_checkpoint=lambda make: kept.append(make())),
    )
    settings = Settings(max_epochs=3, hidden=(4,), early_stopping="best")
    return kept[-1], build_model(graph, settings, [0, 1]), EarlyStopping("best", 50, 2)


def without(tensors, name):
    del tensors[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: None, None),
        (lambda t: without(t, "n_run"), "must be complete, but lacks n_run"),
        (lambda t: without(t, "epochs"), "must be complete, but lacks epochs"),
        (lambda t: without(t, "stopping.kept.1.layers.0.bias"), "but lacks stopping.kept.1.layers"),
        (lambda t: t.update(more=np.ones(1)), "must not hold more"),
        (lambda t: t.update(n_run=np.array([3])), r"n_run of shape \(2,\) and int64"),
        (lambda t: t.update(n_run=np.float32([3, 3])), r"n_run of shape \(2,\) .*float32"),
        (lambda t: t.update(n_run=np.array([3, 4])), "must have n_run from 0 to 3"),
        (lambda t: t.update(n_run=np.array([-1, 3])), "must have n_run from 0 to 3"),
        (lambda t: t.update({"adam.n_steps": np.array(-1)}), "not have fewer than 0 steps"),
        (lambda t: t.update({"adam.n_steps": np.array(0)}), None),
        (lambda t: t["model.layers.0.weight"].fill(np.inf), "nan or infinity in"),
        (lambda t: t.update(epochs=np.ones(())), r"must hold epochs of shape \(0, 4, 2\)"),
    ],
)
def test_which_saved_trainings_are_continued(change, message):
    tensors, network, stopping = saved_training()
    change(tensors)
    if message is None:
        check_saved(tensors, network, stopping)
    else:
        with pytest.raises(ValueError, match=message):
            check_saved(tensors, network, stopping)
