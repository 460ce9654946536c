"""A little fuzzing with fixed seeds, and all files that once did harm; `make fuzz` goes on."""

import os
import random
import signal

import pytest

pytest.importorskip("resource")
pytest.importorskip("duckdb")

from scripts import fuzz, fuzz_targets

N_INPUTS = 120


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return fuzz_targets.all_targets(tmp_path_factory.mktemp("fuzz"))


def test_every_kind_of_file_is_listed(targets):
    assert {*targets} == {*fuzz.KINDS}
    folders = {folder.name for folder in fuzz_targets.CORPUS.iterdir()}
    assert folders <= {name.replace("/", "-") for name in targets}


@pytest.mark.parametrize("name", fuzz.KINDS)
def test_changed_files_are_refused_in_one_line_or_taken(targets, name):
    target = targets[name]
    n_inputs = len(target.corpus) + (N_INPUTS // 10 if name == "ingest" else N_INPUTS)
    outcomes = fuzz.run_inputs(target, name, seed=1, numbers=range(n_inputs))
    assert sum(outcomes.values()) == n_inputs
    # Changes that no reader ever notices, or that none survives, would test nothing.
    assert outcomes["refused"] > 0
    target.read(target.content)


def test_an_input_can_be_made_again(targets):
    def made(seed, number):
        return targets["own.npz"].made(random.Random(f"{seed} own.npz {number}"), number)

    assert made(1, 1000) == made(1, 1000)
    assert made(1, 1000) != made(2, 1000)


def crash(content):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(content):
    while True:
        pass


def grow(content):
    bytearray(b"x" * (1 << 26))


def say_much(content):
    raise ValueError("one\ntwo")


def end_in_a_traceback(content):
    raise KeyError("x")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the harness is for Linux")
@pytest.mark.parametrize(
    ("read", "finding"),
    [
        (crash, "exit -9"),
        (hang, "hangs"),
        (grow, "took 0.1 GB"),
        (say_much, "more than one line"),
        (end_in_a_traceback, "KeyError: 'x'"),
    ],
)
def test_what_must_not_happen_is_found(monkeypatch, read, finding):
    calls = []

    def read_fourth(content):
        calls.append(content)
        if len(calls) == 4:
            read(content)

    target = fuzz_targets.Target(b"abc", (fuzz_targets.inputs.change_bytes,), read_fourth)
    monkeypatch.setattr(fuzz_targets, "all_targets", lambda folder: {"x": target})
    monkeypatch.setattr(fuzz, "INPUT_SECONDS", 1)
    monkeypatch.setattr(fuzz, "INPUT_BYTES", 1 << 25)
    turn = fuzz.Turn("x", 0, 7, seconds=600)
    assert turn.run().startswith("x 10: ")
    assert turn.numbers()[:3] == (10, 3, 0)
    calls.clear()
    assert finding in turn.run()


def test_the_state_of_a_run_is_kept(monkeypatch, tmp_path):
    target = fuzz_targets.Target(b"abc", (fuzz_targets.inputs.change_bytes,), lambda content: None)
    monkeypatch.setattr(fuzz_targets, "all_targets", lambda folder: {"x": target, "y": target})
    monkeypatch.setattr(fuzz, "KINDS", ("x", "y"))
    monkeypatch.setattr(fuzz, "TURN_INPUTS", 10)
    for n_wanted in (10, 20):
        state = fuzz.State(tmp_path / "state.json", 3)
        assert list(fuzz.turns(state, 3, 600, n_wanted)) == []
    # The second run has gone on with the kind that the first one did not come to.
    assert [state.kind(name)["next"] for name in "xy"] == [10, 10]
    assert state.summary()["inputs"] == state.summary()["taken"] == 20
    with pytest.raises(SystemExit, match="must be of seed 4"):
        fuzz.State(tmp_path / "state.json", 4)
