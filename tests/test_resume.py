"""A training that is killed or interrupted goes on with --resume and ends with the same bytes."""

import hashlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import safetensors.numpy
from tests.command_line import TABLES, finish, make_runner, start, write_papers

# No text column: scikit-learn would be most of each process's time.
TRAIN = ("train", *TABLES, "--categorical", "venue", "--ignore", "title", "-q")
# Long enough to be caught in the middle.
LONG = ("--max-epochs", 400, "--early-stopping", "none")
VARIANTS = {
    "runs": (*LONG, "--runs", 3),
    "auto": ("--preset", "auto", "--max-epochs", 120, "--hidden", 8, "--propagation", "none"),
    "paper": (*LONG, "--preset", "paper", "--self-loop-weight", "learn"),
}
UNFINISHED = Path("model.training")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_papers(tmp_path / "papers")
    return make_runner(monkeypatch, capsys)


def stop(signal_number, *options):
    """Start a training and stop it once it has saved a few epochs."""
    often = ("--checkpoint-seconds", 0)
    for _ in range(3):
        process = start(*TRAIN, *options, *often, "-o", "model", cwd=Path.cwd())
        while process.poll() is None and n_epochs() < 3:
            time.sleep(0.002)
        process.send_signal(signal_number)
        done = finish(process)
        if done.code != 0:
            return done
        # On a busy machine it may be through before we look.
        shutil.rmtree("model")
    raise AssertionError("the training is too short to be stopped")


def n_epochs():
    """How many epochs the unfinished training has saved."""
    if not UNFINISHED.exists():
        return 0
    return len(safetensors.numpy.load_file(UNFINISHED)["epochs"])


def sha256(folder):
    return hashlib.sha256(Path(folder, "model.safetensors").read_bytes()).hexdigest()


def same(one, other):
    assert sha256(one) == sha256(other)
    tables = [Path(folder, "predictions.csv").read_bytes() for folder in (one, other)]
    assert tables[0] == tables[1]


def leftovers():
    """What lies about besides the tables and the finished models."""
    expected = {"papers", "model", "whole"}
    return sorted(path.name for path in Path().iterdir() if path.name not in expected)


def test_kill_with_every_process_on_its_own(run, tmp_path):
    done = stop(signal.SIGKILL, *LONG)
    assert (done.code, done.out) == (-signal.SIGKILL, "")
    assert not Path("model").exists()
    saved = n_epochs()
    assert saved >= 3
    again = finish(start(*TRAIN[:-1], *LONG, "-o", "model", "--resume", cwd=tmp_path))
    assert again.code == 0
    note = f"note: continuing after epoch {saved} (model.training)"
    assert note in again.err
    whole = finish(start(*TRAIN, *LONG, "-o", "whole", cwd=tmp_path))
    assert whole.code == 0
    same("model", "whole")
    assert leftovers() == []


@pytest.mark.parametrize("variant", ["runs", "auto", "paper"])
def test_kill(run, variant):
    options = VARIANTS[variant]
    stop(signal.SIGKILL, *options)
    assert not Path("model").exists()
    run(*TRAIN, *options, "-o", "model", "--resume")
    run(*TRAIN, *options, "-o", "whole")
    same("model", "whole")
    assert leftovers() == []


def test_interrupt(run):
    # A named model: other settings could lead the choice elsewhere.
    train = (*TRAIN[:-1], "--model", "gcn")
    done = stop(signal.SIGINT, "--model", "gcn")
    assert done.code == 130
    assert done.out == ""
    assert done.err == [
        "graphconv: interrupted; the same command with --resume continues from model.training"
    ]
    assert leftovers() == ["model.training"]

    # Whatever else is asked for is another training, which must not continue this one.
    before = UNFINISHED.read_bytes()
    for options, reason in (
        (("--seed", 1), "its seed differs: 0 there, 1 here"),
        (("--hidden", 8), "its settings differ in hidden"),
        (("--runs", 2), "its runs differ: 1 there, 2 here"),
        (("--preset", "paper"), "its preset differs: robust there, paper here"),
        (("--directed",), "its data differs"),
        (("--split", "kfold:3,0"), "its data differs"),
    ):
        refused = run(*train, "-q", *options, "-o", "model", "--resume", expect=2)
        assert len(refused.err) == 1
        assert "model.training must be from the same training to continue it, but" in refused.err[0]
        assert reason in refused.err[0]
        assert UNFINISHED.read_bytes() == before
    assert not Path("model").exists()

    run(*train, "-q", "-o", "model", "--resume")
    # Without --resume it starts anew, and says what could have been.
    UNFINISHED.write_bytes(before)
    anew = run(*train, "-o", "whole")
    assert not any("starting anew" in line for line in anew.err)
    same("model", "whole")
    anew = run(*train, "-o", "model")
    assert "note: starting anew; --resume would have continued model.training" in anew.err
    same("model", "whole")
    assert leftovers() == []


def test_interrupted_in_this_process(run, monkeypatch):
    """A stop between two saves is saved, too; Ctrl-C before the first epoch just ends."""
    from graphconv.training import fit as fitting

    monkeypatch.setattr(
        fitting, "check_trainable", lambda graph: os.kill(os.getpid(), signal.SIGINT)
    )
    done = run("train", "karate", "-q", expect=130)
    assert done.err == ["graphconv: interrupted"]
    assert not Path("runs").exists()


def test_resume_of_a_training_that_had_finished(run):
    first = run(*TRAIN, "-o", "model", "--max-epochs", 5)
    before = Path("model", "model.json").stat().st_mtime_ns
    again = run(*TRAIN[:-1], "-o", "model", "--max-epochs", 5, "--resume")
    assert again.err[0] == "note: this training had finished; there is nothing left to do"
    assert again.out == first.out
    assert Path("model", "model.json").stat().st_mtime_ns == before
    # Another one has not even begun.
    other = run(*TRAIN[:-1], "-o", "model", "--max-epochs", 4, "--resume")
    assert "note: no unfinished training in model.training: starting anew" in other.err
    assert Path("model", "model.json").stat().st_mtime_ns != before


@pytest.mark.parametrize("content", [b"", b"not a training", b"\x08" + b"\0" * 7 + b"{}      "])
def test_damaged_training_file(run, content):
    UNFINISHED.write_bytes(content)
    done = run(*TRAIN, "-o", "model", "--resume", expect=2)
    assert done.err == [
        "graphconv: model.training must be a training to continue, but can't be read"
    ]
    assert UNFINISHED.read_bytes() == content
    assert not Path("model").exists()
