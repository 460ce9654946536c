"""The command line where a process has few rights: no root, no home, no /dev/shm, little memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import PACKAGE_PLACE, PATIENCE, Done

from graphconv import Graph, adjacency_from_edges
from graphconv.io.graph_files import write_npz
from graphconv.storage import memory

_NOBODY = 65534
# Reading stays allowed, since the interpreter may be in a folder of root's own; writing does not.
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs"),
    *(f"--{which}=-all,+dac_read_search" for which in ("inh-caps", "ambient-caps", "bounding-set")),
)
_WITHOUT_SHM = (
    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
    'mount -t tmpfs -o ro,size=4k tmpfs /dev/shm && exec "$@"',
    "sh",
)
_TRAIN = ("train", "karate", "--max-epochs", "5")


def call(*command, cwd, environment=None):
    """Run a command, of which graphconv's own begin with sys.executable; what it left."""
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PLACE, **(environment or {})}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr.splitlines())


def graphconv(*arguments):
    return (sys.executable, "-m", "graphconv", *map(str, arguments))


@pytest.fixture
def needs_root(tmp_path):
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux to give rights up")
    for tool in (_AS_NOBODY, (*_WITHOUT_SHM, *_AS_NOBODY)):
        if shutil.which(tool[0]) is None or call(*tool, "true", cwd=tmp_path).code != 0:
            pytest.skip(f"{tool[0]} does not work here")


@pytest.fixture
def folder(needs_root, tmp_path):
    """A folder that the user nobody may write to, beside a home where that is forbidden."""
    (tmp_path / "home").mkdir(mode=0o555)
    (tmp_path / "mine").mkdir()
    os.chown(tmp_path / "mine", _NOBODY, _NOBODY)
    refused = call(*_AS_NOBODY, "touch", tmp_path / "home/x", cwd=tmp_path / "mine")
    assert refused.code != 0, "a home that can be written to proves nothing"
    return tmp_path / "mine"


def home_of(folder):
    """The environment with the read-only home, and the cache elsewhere."""
    unset = dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"), "")
    return {**unset, "HOME": str(folder.parent / "home"), "GRAPHCONV_CACHE": str(folder / "cache")}


def test_a_user_without_rights_and_without_a_home(folder):
    for command in (
        (*_TRAIN, "--report", "-o", "model"),
        ("predict", "model", "-o", "predictions.csv"),
        ("compare", "karate", "--methods", "gcn,label-propagation", "--splits", "2", "-o", "c"),
    ):
        done = call(*_AS_NOBODY, *graphconv(*command), cwd=folder, environment=home_of(folder))
        assert done.code == 0, done
        assert not any("Error" in line or "Traceback" in line for line in done.err), done.err
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_uid for path in written} == {_NOBODY}
    assert {"report.html", "compare.png", "predictions.csv"} <= {path.name for path in written}


def test_what_may_not_be_written_is_said_in_one_line(folder):
    command = graphconv(*_TRAIN, "-q", "-o", folder.parent / "home/model")
    done = call(*_AS_NOBODY, *command, cwd=folder, environment=home_of(folder))
    assert (done.code, len(done.err)) == (2, 1), done
    assert "Permission denied" in done.err[0]


@pytest.mark.parametrize(
    "command",
    [
        _TRAIN,
        ("compare", "karate", "--methods", "gcn", "--splits", "2"),
        ("reproduce", "random-splits", "--dataset", "cora", "--runs", "2", "--workers", "2"),
    ],
    ids=lambda command: command[0],
)
def test_without_shared_memory(folder, command):
    arguments = graphconv(*command, "-o", "out")
    hidden = call(*_WITHOUT_SHM, "touch", "/dev/shm/x", cwd=folder)
    assert hidden.code != 0, "/dev/shm is still there"
    done = call(*_WITHOUT_SHM, *arguments, cwd=folder)
    assert done.code == 0, done
    assert not any("Traceback" in line for line in done.err), done.err


def test_epochs_are_timed_without_shared_memory(folder):
    program = "from graphconv.paper.timing import _in_process\n"
    program += "print(_in_process('cpu', 1000, 1, float('inf'))['n_edges'])"
    done = call(*_WITHOUT_SHM, sys.executable, "-c", program, cwd=folder)
    assert (done.code, done.out) == (0, "1000\n"), done


def limited(n_bytes):
    """What comes before a command so that it gets no more addresses than this."""
    return ("sh", "-c", f'ulimit -v {n_bytes // 1024} && exec "$@"', "sh")


linux = pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux alone")


@linux
@pytest.mark.parametrize(("megabytes", "code"), [(300, 2), (700, 2), (2000, 0)])
def test_few_addresses(tmp_path, megabytes, code):
    if code == 0 and torch.version.cuda is not None:
        pytest.skip("the libraries of a torch for CUDA need more addresses than that")
    # Threads take addresses too, as many as there are cores.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GRAPHCONV_THREADS": "1"}
    done = call(
        *limited(megabytes * 1_000_000),
        *graphconv(*_TRAIN, "-q", "-o", "model"),
        cwd=tmp_path,
        environment=threads,
    )
    assert done.code == code, done
    assert (tmp_path / "model").exists() == (code == 0)
    if code:
        said = f"a process may have {megabytes} MB of addresses here (ulimit -v), 1.0 GB needed"
        assert done.err == [f"graphconv: {said}"]


def test_a_library_that_can_not_be_loaded(tmp_path):
    """As torch's for CUDA can't where there are too few addresses for it; other work goes on."""
    said = "libtorch_cuda.so: failed to map segment from shared object"
    (tmp_path / "torch.py").write_text(f"raise ImportError({said!r})")
    place = f"{tmp_path}{os.pathsep}{PACKAGE_PLACE}"
    train = graphconv(*_TRAIN, "--model", "planetoid-t")
    done = call(*train, cwd=tmp_path, environment={"PYTHONPATH": place})
    assert (done.code, done.err) == (2, [f"graphconv: a library can't be loaded: {said}"])
    done = call(*graphconv(*_TRAIN), cwd=tmp_path, environment={"PYTHONPATH": place})
    assert done.code == 0, done


@linux
def test_the_limit_on_addresses_counts_as_memory(tmp_path):
    code = "from graphconv.storage.memory import available_memory as a; print(a())"
    done = call(*limited(500_000_000), sys.executable, "-c", code, cwd=tmp_path)
    assert 0 < int(done.out) < 500_000_000
    assert memory.address_limit() == memory._NO_LIMIT


def test_a_control_group_with_little_memory(needs_root, tmp_path):
    """Its files are laid over the machine's own, in a view of the mounts that ends with the run."""
    values = {"limit_in_bytes": 300_000_000, "usage_in_bytes": 290_000_000, "stat": "cache 0"}
    group = tmp_path / "group/memory"
    group.mkdir(parents=True)
    for name, value in values.items():
        Path(group / f"memory.{name}").write_text(f"{value}\n")
    code = "from graphconv.storage.memory import available_memory as a; print(a())"
    bound = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'
    done = call(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", bound),
        *(tmp_path / "group", sys.executable, "-c", code),
        cwd=tmp_path,
    )
    assert done.out == "10000000\n", done


class MemoryGroup:
    """A control group of version 1 below the process's own; who enters it shares its memory."""

    def __init__(self, folder):
        self.folder = folder

    def limit(self, n_bytes):
        (self.folder / "memory.limit_in_bytes").write_text(str(n_bytes))
        (self.folder / "memory.max_usage_in_bytes").write_text("0")

    def peak(self):
        return int((self.folder / "memory.max_usage_in_bytes").read_text())

    @property
    def enter(self):
        """What comes before a command so that it enters."""
        return ("sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs" && exec "$@"', "sh")


@pytest.fixture
def group():
    parents = memory._groups(Path("/sys/fs/cgroup"))
    folder = parents[-1] / f"graphconv-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"a memory group can't be made here: {error.strerror}")
    try:
        if not (folder / "memory.limit_in_bytes").exists():
            pytest.skip("the control groups here are not those of version 1 with memory")
        yield MemoryGroup(folder)
    finally:
        folder.rmdir()


def test_a_real_control_group_decides_how_to_train(group, tmp_path):
    """Where the full batch fits, in mini-batches, and where nothing does: never a kill."""
    rng = np.random.default_rng(0)
    n_nodes = 60_000
    source, target = rng.integers(n_nodes, size=(2, 5 * n_nodes))
    labels = rng.integers(5, size=n_nodes)
    features = rng.random((n_nodes, 64), dtype=np.float32) + labels[:, None]
    adjacency = adjacency_from_edges(source, target, n_nodes=n_nodes)
    shuffled = rng.permutation(n_nodes)
    split = {"train_index": shuffled[:30_000], "validation_index": shuffled[30_000:30_500]}
    write_npz(Graph(adjacency, features, labels, **split), tmp_path / "many.npz")
    code = (
        "import graphconv.training.fit; from pathlib import Path;"
        "from graphconv.io.graph_files import read_npz;"
        "from graphconv.storage.memory import available_memory as a;"
        "g = read_npz(Path('many.npz')); print(a())"
    )
    group.limit(4_000_000_000)
    loaded = call(*group.enter, sys.executable, "-c", code, cwd=tmp_path)
    assert 0 < int(loaded.out) < 4_000_000_000
    base = group.peak()
    train = ("train", "many.npz", "--preset", "robust", "--hidden", "256", "--max-epochs", "1")
    for megabytes, code, said in (
        (1000, 0, "labels: 30,000 train"),
        (370, 0, "training in mini-batches instead (--batch-size 1024 --fanout 10)"),
        (100, 2, "training must fit the memory, but even in mini-batches it needs about"),
    ):
        limit = base + megabytes * 1_000_000
        group.limit(limit)
        command = graphconv(*train, "-o", f"model-{megabytes}")
        done = call(*group.enter, *command, cwd=tmp_path)
        assert done.code == code, done
        assert any(said in line for line in done.err), done.err
        assert ("mini-batches instead" in "".join(done.err)) == (megabytes == 370)
        assert group.peak() < limit
