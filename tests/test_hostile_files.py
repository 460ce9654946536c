"""Files that claim too much, are not what they say, or come at a bad moment."""

import json
import lzma
import os
import pickle
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from tests.command_line import finish, names, start

from graphconv import GCNClassifier, Graph, kernels, load_dataset, read_tables
from graphconv.estimators.compare import compare
from graphconv.io import delimited
from graphconv.io.array_files import read_arrays, write_arrays
from graphconv.io.datasets.planetoid import PlanetoidFiles, _read_graph, read_pickle
from graphconv.io.graph_files import read_npz
from graphconv.results.predictions import write_table
from graphconv.training.calibration import fit_calibration
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import fit_gcn


def test_a_pickle_may_not_claim_more_places_than_it_has_bytes():
    claim = b"\x80\x02]r" + (2**27).to_bytes(4, "little") + b"."
    with pytest.raises(ValueError, match=r"x: must be a pickle.*puts something in place 134217728"):
        read_pickle(claim, "x")
    assert read_pickle(pickle.dumps([1, "a"], protocol=2), "x") == [1, "a"]


@pytest.mark.parametrize("lists", [{0: [1.5], 1: [0]}, {0: [1], 1.0: [0]}, {0: [True], 1: [0]}])
def test_nodes_of_planetoid_files_are_whole_numbers(lists):
    files = PlanetoidFiles("ind.x", {"graph": pickle.dumps(lists, protocol=2)}, "folder")
    with pytest.raises(ValueError, match="nodes must be whole numbers"):
        _read_graph(files)


def test_an_archive_may_not_claim_a_thousand_times_its_size(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "g.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("labels.npy", "w") as member,
    ):
        for _ in range(600):
            member.write(bytes(1 << 20))
    assert (tmp_path / "g.npz").stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"g\.npz must be .* would unpack from 0\.6 MB to 0\.6 GB"):
        read_npz(tmp_path / "g.npz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "g.npz")
    with pytest.raises(ValueError, match="must be a file, but is a pipe or a device"):
        read_npz(tmp_path / "g.npz")


def test_lack_of_memory_is_not_told_as_a_quote(tmp_path, monkeypatch):
    import pandas as pd

    def fail(*_, **__):
        raise pd.errors.ParserError("Error tokenizing data. C error: out of memory")

    monkeypatch.setattr(delimited, "_pieces", fail)
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    with pytest.raises(MemoryError):
        read_tables(tmp_path / "e.csv")


@pytest.fixture
def folder(tmp_path):
    save_model(SavedModel(fit_gcn(load_dataset("karate"))), tmp_path / "m")
    return tmp_path / "m"


def test_weights_can_be_read_by_whoever_reads_the_rest(folder):
    modes = {path.stat().st_mode for path in folder.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("name", ["settings", "table_options", "history", "metrics", "identity"])
def test_parts_of_a_description_are_objects(folder, name):
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: [1]}))
    with pytest.raises(ValueError, match=f"but its {name} is no JSON object"):
        load_model(folder)


def test_deeply_nested_json_is_one_line(folder):
    (folder / "model.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"model\.json must be JSON, but is nested too deeply"):
        load_model(folder)


def test_a_newer_model_is_refused_with_one_line(folder):
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ValueError, match=r"got 99: it was written by a newer graphconv"):
        load_model(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))
    with pytest.raises(ValueError, match=r"must have model format \d+, got 0$"):
        load_model(folder)


def test_damaged_trainings_are_refused(run, tmp_path, monkeypatch):
    """Every tensor of a checkpoint, taken away, cut, of another kind, or with NaN."""
    from graphconv.commands import train as train_command

    arguments = ("train", "karate", "-o", "m", "--checkpoint-seconds", "0", "--max-epochs", "3")
    with monkeypatch.context() as patch:
        patch.setattr(train_command, "finish", lambda *_: None)
        run(*arguments)
    path = tmp_path / "m.training"
    good = path.read_bytes()
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load(good)  # those of the file change with it, in older versions
    for name, tensor in tensors.items():
        changes = [None, tensor.reshape(-1)[:0].copy(), np.zeros(tensor.shape, np.int8)]
        if tensor.dtype == np.float32:
            changes.append(np.full_like(tensor, np.nan))
        for change in changes:
            others = {key: value for key, value in tensors.items() if key != name}
            if change is not None:
                others[name] = change
            safetensors.numpy.save_file(others, path, metadata)
            done = run(*arguments, "--resume", expect=2)
            assert done.err[-1].startswith("graphconv: a saved training must"), name
    path.write_bytes(good)
    run(*arguments, "--resume")


@pytest.mark.parametrize(
    "change", [{"runs": None}, {"runs": 0}, {"runs": True}, {"settings": [1]}, {"settings": None}]
)
def test_a_chosen_training_must_say_what_it_trains(run, papers, tmp_path, change):
    identity = {"model": "gcn", "settings": {}, "runs": 4, "chosen": {"name": "x"}, **change}
    path = tmp_path / "m.training"
    safetensors.numpy.save_file({"a": np.zeros(1)}, path, {"identity": json.dumps(identity)})
    tables = ("--edges", papers / "edges.csv", "--nodes", papers / "nodes.csv")
    done = run("train", *tables, "-o", "m", "--resume", expect=2)
    assert done.err[-1] == "graphconv: m.training must say what is trained, and how often"


def test_a_run_without_figures_is_named(tmp_path):
    log = tmp_path / "runs.jsonl"
    karate = load_dataset("karate")
    compare(karate, ["label-propagation"], n_splits=2, log_path=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    del lines[1]["test_accuracy"]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=r"must say test_accuracy of each run.* seed 1; remove"):
        compare(karate, ["label-propagation"], n_splits=2, log_path=log)


def test_cells_with_line_ends_are_quoted(tmp_path):
    write_table({"id": ["a\rb", "c\nd", "e"], "label": [1, 2, 3]}, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b'id,label\n"a\rb",1\n"c\nd",2\ne,3\n'


def test_weights_of_nothing_but_zeros_are_refused():
    karate = load_dataset("karate")
    zeros = dict.fromkeys(karate.class_names, 0.0)
    with pytest.raises(ValueError, match="class_weight must leave some training nodes to count"):
        GCNClassifier(class_weight=zeros).fit(karate)


def test_calibration_of_many_classes_takes_a_sample(monkeypatch):
    from graphconv.training import calibration

    seen = []
    from_logits = calibration._probabilities

    def watched(logits, *more):
        seen.append(logits.shape)
        return from_logits(logits, *more)

    monkeypatch.setattr(calibration, "_probabilities", watched)
    rng = np.random.default_rng(0)
    fit_calibration(rng.dirichlet(np.ones(2500), 2000), rng.integers(2500, size=2000))
    assert {*seen} == {(500, 2500)}


def test_a_wrong_choice_of_instructions_is_told_as_such(tmp_path):
    if kernels.native_missing():
        pytest.skip("no native kernels")
    environment = {"GRAPHCONV_SIMD": "mmx"}
    done = finish(start("train", "karate", "-o", "m", cwd=tmp_path, environment=environment))
    assert done.code == 2
    assert done.err[-1].startswith("graphconv: GRAPHCONV_SIMD must be one of ")


def test_an_output_that_leads_to_itself_is_one_line(run, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    done = run("train", "karate", "-o", "loop", "--max-epochs", "2", expect=2)
    assert len(done.err) == 1
    assert names(tmp_path) == ["loop"]


def two_groups(weight):
    """Two groups of four nodes, joined by one edge, with two labels each."""
    group = np.kron(np.eye(2), np.ones((4, 4))) - np.eye(8)
    group[0, 4] = group[4, 0] = 1
    labels = [0, 0, -1, -1, 1, 1, -1, -1]
    return Graph(weight * group, features=np.eye(8), labels=labels)


def test_weights_near_the_largest_number_give_the_answer_of_smaller_ones():
    # Beside weights this large a self-loop of 1 is nothing, so their size makes no difference.
    expected, found = (
        GCNClassifier(max_epochs=60, random_state=0).fit(two_groups(weight)).predict_proba()
        for weight in (2.0**60, 2.0**125)
    )
    assert found.argmax(axis=1).tolist() == [0] * 4 + [1] * 4
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_weights_whose_sum_is_too_large_are_refused():
    with pytest.raises(
        ValueError, match=r"must add up to 3\.4e\+38 at most, got 4\.0e\+38 at node 0"
    ):
        two_groups(1e38)


def test_every_file_of_an_archive_is_an_array(tmp_path):
    write_arrays(tmp_path / "a.npz", {"nodes": np.arange(3)})
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("labels", b"no array")
    with pytest.raises(ValueError, match=r"^'labels' in it must be an array$"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("option", "value"),
    [("id", None), ("source", True), ("weight", 3), ("text", None), ("date", [True])],
)
def test_names_of_columns_are_text(tmp_path, option, value):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\na,b\n")
    with pytest.raises(ValueError, match=f"{option} must be text, got"):
        read_tables(path, **{option: value})


def test_a_packed_table_may_not_claim_gigabytes(tmp_path):
    """An old .lzma header says how much memory to take: here 4 GB, for a table of a few bytes."""
    packed = lzma.compress(b"source,target\na,b\n", format=lzma.FORMAT_ALONE)
    greedy = packed[:1] + b"\xff\xff\xff\xff" + packed[5:]
    (tmp_path / "edges.csv.xz").write_bytes(greedy)
    with pytest.raises(ValueError, match=r"edges.csv.xz cannot be unpacked: Memory usage limit"):
        read_tables(tmp_path / "edges.csv.xz")
    with zipfile.ZipFile(tmp_path / "edges.csv.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("edges.csv", "source,target\na,b\n")
    with pytest.raises(ValueError, match="must be packed as zip usually is, got LZMA in it"):
        read_tables(tmp_path / "edges.csv.zip")


def test_xz_in_several_streams_is_read_whole(tmp_path):
    lines = [f"n{i},n{i * i % 977}\n".encode() for i in range(40_000)]
    streams = [b"source,target\n", b"".join(lines[:30_000]), b"".join(lines[30_000:])]
    packed = b"".join(lzma.compress(stream) for stream in streams)
    (tmp_path / "edges.csv.xz").write_bytes(packed + b"\0" * 8)
    (tmp_path / "plain.csv").write_bytes(b"".join(streams))
    read = [read_tables(tmp_path / name).graph for name in ("edges.csv.xz", "plain.csv")]
    assert read[0].n_nodes == 40_000
    assert read[0].fingerprint() == read[1].fingerprint()
    (tmp_path / "edges.csv.xz").write_bytes(packed[:-100])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_tables(tmp_path / "edges.csv.xz")


DAMAGED = {
    "its notes are no list of text": lambda told: told["metrics"].update(notes=[[1]]),
    "its choice is no text": lambda told: told.update(choice=[1]),
    "is not one that it holds the numbers of": lambda told: told.update(scaling="odd"),
    "its scaling 'standard' is not": lambda told: told.update(scaling="standard"),
    "its encoding makes 9 features, the graph has 1": lambda told: told["encoding"].update(
        numeric=list("abcdefghi"), fill=[0.0] * 9
    ),
    "rule for prediction sets must be four numbers": lambda told: told["metrics"].update(
        prediction_sets={"coverage": "all"}
    ),
}


@pytest.mark.parametrize("words", DAMAGED)
def test_a_report_of_a_damaged_model_is_one_line(run, tmp_path, words):
    edges, nodes = "source,target\na,b\nb,c\nc,d\n", "id,label,age\na,x,1\nb,y,2\nc,x,3\nd,y,9\n"
    (tmp_path / "e.csv").write_text(edges)
    (tmp_path / "n.csv").write_text(nodes)
    run("train", "--edges", "e.csv", "--nodes", "n.csv", "--preset", "paper",
        "--max-epochs", 2, "-o", "m", "--quiet")  # fmt: skip
    path = tmp_path / "m" / "model.json"
    told = json.loads(path.read_text())
    DAMAGED[words](told)
    path.write_text(json.dumps(told))
    (said,) = run("report", "m", expect=2).err
    assert words in said


def test_a_scaling_of_another_length_is_refused(tmp_path):
    """One mean for all columns would be taken for each of them."""
    graph = Graph(np.ones((4, 4)) - np.eye(4), np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    save_model(SavedModel(fit_gcn(graph, overrides={"scaling": "standard"})), tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({**tensors, "scaler.mean": tensors["scaler.mean"][:1]}, path)
    with pytest.raises(ValueError, match="its scaling 'standard' is not one that it holds"):
        load_model(tmp_path / "m")
