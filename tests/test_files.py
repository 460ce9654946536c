"""Tests of graphconv.io.files: whole files and folders, or what was there before."""

import errno
import os
import sys

import pytest

from graphconv.io import files
from graphconv.io.files import (
    _process,
    check_replaceable,
    remove_leftovers,
    replacing_file,
    replacing_folder,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize("before", [None, "old"])
def test_file_appears_whole(tmp_path, before):
    path = tmp_path / "table.csv"
    if before:
        path.write_text(before)
    with replacing_file(path) as new:
        assert new.name == "table.csv"
        assert new.parent.parent == tmp_path
        new.write_text("half")
        # safetensors writes to a file with a name of its own before; a kill must not leave that.
        (new.parent / ".tmpX1y2Z3").write_text("half")
        # Nothing shows until the block is through.
        assert (path.read_text() if before else path.exists()) == (before or False)
        new.write_text("all of it")
    assert path.read_text() == "all of it"
    assert names(tmp_path) == ["table.csv"]


@pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyboardInterrupt(), OSError(errno.ENOSPC, "")]
)
@pytest.mark.parametrize("before", [None, "old"])
def test_failing_writer_leaves_the_old_file(tmp_path, before, error):
    path = tmp_path / "table.csv"
    if before:
        path.write_text(before)

    def write():
        with replacing_file(path) as new:
            new.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == (["table.csv"] if before else [])
    assert not before or path.read_text() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failure_of_the_last_step_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "table.csv"
    path.write_text("old")
    monkeypatch.setattr(os, call, fail_with(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left"), replacing_file(path) as new:
        new.write_text("new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["table.csv"]


def test_parents_are_made(tmp_path):
    with replacing_file(tmp_path / "a" / "b" / "c.txt") as new:
        new.write_text("x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"
    with replacing_folder(tmp_path / "d" / "e") as new:
        (new / "f").write_text("y")
    assert (tmp_path / "d" / "e" / "f").read_text() == "y"


@pytest.mark.parametrize("before", [False, True])
def test_folder_appears_whole(tmp_path, before):
    path = tmp_path / "model"
    if before:
        path.mkdir()
        (path / "old").write_text("old")
    with replacing_folder(path) as new:
        (new / "one").write_text("1")
        assert path.exists() == before
        (new / "two").write_text("2")
    assert names(path) == ["one", "two"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyboardInterrupt(), OSError(errno.ENOSPC, "")]
)
@pytest.mark.parametrize("before", [False, True])
def test_failing_writer_leaves_the_old_folder(tmp_path, before, error):
    path = tmp_path / "model"
    if before:
        path.mkdir()
        (path / "old").write_text("old")

    def write():
        with replacing_folder(path) as new:
            (new / "one").write_text("1")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == (["model"] if before else [])
    assert not before or (path / "old").read_text() == "old"


@pytest.fixture
def without_exchange(monkeypatch):
    """As on a system that can't exchange two names in one step."""
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)


@pytest.mark.usefixtures("without_exchange")
def test_failure_between_the_two_renames_puts_the_old_folder_back(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("old")
    replace, calls = os.replace, []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="Input/output"), replacing_folder(path) as new:
        (new / "one").write_text("1")
    assert len(calls) == 3
    assert names(tmp_path) == ["model"]
    assert names(path) == ["old"]


@pytest.mark.usefixtures("without_exchange")
def test_folder_is_replaced_without_an_exchange(tmp_path):
    for content in ("one", "two"):
        with replacing_folder(tmp_path / "model") as new:
            (new / content).write_text("")
    assert names(tmp_path / "model") == ["two"]
    assert names(tmp_path) == ["model"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges names")
def test_some_folder_has_the_name_at_every_moment(tmp_path, monkeypatch):
    """Replacing a folder that is there must not rename it away first."""
    path = tmp_path / "model"
    path.mkdir()
    monkeypatch.setattr(os, "replace", fail_with(AssertionError("two renames are one too many")))
    with replacing_folder(path) as new:
        (new / "one").write_text("1")
    assert names(path) == ["one"]
    assert names(tmp_path) == ["model"]


def test_folder_that_was_renamed_away_comes_back(tmp_path):
    """Killed between two renames: the old folder is all there is."""
    old = tmp_path / ".model.graphconv-999999999-1.old"
    old.mkdir()
    (old / "weights").write_text("old")
    (tmp_path / ".model.graphconv-999999999-1.new").mkdir()
    remove_leftovers(tmp_path / "model")
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["weights"]


def test_files_that_are_not_ours_stay(tmp_path):
    mine = [".model.2024.csv", ".model.2024-11.csv", ".model.17.new", ".other.graphconv-1-1.new"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    with replacing_file(tmp_path / "model.csv") as new:
        new.write_text("1")
    with replacing_folder(tmp_path / "model"):
        pass
    assert names(tmp_path) == sorted([*mine, "model", "model.csv"])


def test_what_a_kill_left_in_a_model_folder_does_not_block_it(tmp_path):
    left = [".report.graphconv-999999999-1.html", ".attempt.graphconv-999999999.new"]
    (tmp_path / left[0]).write_text("half")
    (tmp_path / left[1]).mkdir()
    check_replaceable(tmp_path)
    assert names(tmp_path) == []
    (tmp_path / ".report.2024.html").write_text("mine")
    with pytest.raises(FileExistsError, match=r"holds other files \(\.report\.2024\.html\)"):
        check_replaceable(tmp_path)


def test_leftovers_of_a_killed_process_do_not_disturb(tmp_path):
    path = tmp_path / "model"
    leftover = tmp_path / f".model.{_process(os.getpid())}.new"
    leftover.mkdir()
    (leftover / "half").write_text("half")
    with replacing_folder(path) as new:
        (new / "one").write_text("1")
    assert names(path) == ["one"]
    assert names(tmp_path) == ["model"]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="nobody tells when it began")
def test_a_number_that_is_used_again_is_another_process(tmp_path):
    """As after a kill, when the system has given the number to somebody else."""
    mine = _process(os.getpid())
    assert mine == _process(os.getpid())
    assert int(mine.rpartition("-")[2]) > 1
    for name in ("model", "model.training"):
        (tmp_path / f".{name}.graphconv-{os.getpid()}-1.new").mkdir()
    # Whoever is running and may be writing is left alone; so is what is nobody's.
    others = [f".model.training.{_process(os.getppid())}.new", ".model.2024-x.training"]
    for name in others:
        (tmp_path / name).write_text("half")
    with replacing_file(tmp_path / "model.training") as new:
        new.write_text("1")
    with replacing_folder(tmp_path / "model") as new:
        (new / "one").write_text("1")
    assert names(tmp_path) == sorted([*others, "model", "model.training"])
