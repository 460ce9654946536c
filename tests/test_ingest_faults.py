"""ingest: a kill at any moment leaves a whole graph or what a rerun makes whole."""

import json
import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("duckdb")

from tests.command_line import PACKAGE_PLACE, names

from graphconv.storage import ingest as ingest_module
from graphconv.storage.ingest import IngestRequest, ingest
from graphconv.storage.stored_graph import open_graph, verify_graph


class Killed(BaseException):
    """Stands for the end of the process."""


def request_of(folder, edges="source,target\na,b\nb,c\n"):
    (folder / "e.csv").write_text(edges)
    return IngestRequest((str(folder / "e.csv"),), (), folder / "g")


def die_at(monkeypatch, module, name, before=True):
    real = getattr(module, name)

    def die(*arguments, **options):
        if not before:
            real(*arguments, **options)
        raise Killed

    monkeypatch.setattr(module, name, die)


def outcome(request):
    ingest(request)
    verify_graph(request.output)
    return open_graph(request.output).node_ids.tolist()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("earlier", [False, True])
def test_rerun_after_a_kill_at_the_end_keeps_the_graph(tmp_path, monkeypatch, earlier, before):
    if earlier:
        assert outcome(request_of(tmp_path, "source,target\nx,y\n")) == ["x", "y"]
    request = request_of(tmp_path)
    with monkeypatch.context() as patch:
        die_at(patch, ingest_module, "put_in_place", before)
        with pytest.raises(Killed):
            ingest(request)
    if not before:
        verify_graph(tmp_path / "g")
    assert outcome(request) == ["a", "b", "c"]
    assert names(tmp_path) == ["e.csv", "g"]


def test_what_is_left_of_the_old_graph_is_not_taken_for_the_new(tmp_path, monkeypatch):
    """The old graph lies where the new one was made, and the new one was taken away."""
    ingest(request_of(tmp_path, "source,target\nx,y\ny,z\n"))
    request = request_of(tmp_path)
    die_at(monkeypatch, ingest_module, "put_in_place", before=False)
    with pytest.raises(Killed):
        ingest(request)
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "g")
    assert outcome(request) == ["a", "b", "c"]


def test_a_damaged_state_starts_anew(tmp_path, monkeypatch):
    request = request_of(tmp_path)
    die_at(monkeypatch, ingest_module, "put_in_place")
    with pytest.raises(Killed):
        ingest(request)
    monkeypatch.undo()
    state = tmp_path / ".g.ingest" / "state.json"
    values = json.loads(state.read_text())
    del values["found"]["n_nodes"]
    state.write_text(json.dumps(values))
    assert outcome(request) == ["a", "b", "c"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("when", [1, 2, 3])
def test_killed_at_a_removal(tmp_path, when):
    call = "unlink,unlinkat"
    request = request_of(tmp_path)
    command = [sys.executable, "-m", "graphconv", "ingest", "--edges", "e.csv", "-o", "g"]
    inject = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}"]
    inject += ["-e", f"inject={call}:signal=KILL:when={when}"]
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE}
    done = subprocess.run([*inject, *command], cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode != 0
    assert outcome(request) == ["a", "b", "c"]
    assert names(tmp_path) == ["e.csv", "g"]


@pytest.mark.parametrize("ids", [("1", "a"), ("a", "1"), ("1", "01"), ("-1", "1e3")])
def test_ids_may_mix_numbers_and_text(tmp_path, ids):
    assert outcome(request_of(tmp_path, "source,target\n" + ",".join(ids))) == list(ids)


def test_names_of_files_are_no_patterns(tmp_path):
    (tmp_path / "e1.csv").write_text("source,target\nx,y\n")
    (tmp_path / "e[1].csv").write_text("source,target\na,b\n")
    request = IngestRequest((str(tmp_path / "e[1].csv"),), (), tmp_path / "g")
    assert outcome(request) == ["a", "b"]
    folder = tmp_path / "[x]=1"
    folder.mkdir()
    (folder / "e*.csv").write_text("source,target\nc,d\n")
    request = IngestRequest((str(folder / "e*.csv"),), (), tmp_path / "h")
    assert outcome(request) == ["c", "d"]
