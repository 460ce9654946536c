"""Training by several processes: the losses of one process, whatever happens to the processes."""

import contextlib
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.command_line import PACKAGE_PLACE, PATIENCE, ROOT, Done, finish, make_runner
from tests.generated_graphs import generate, split

from graphconv import load_dataset
from graphconv.models.catalogue import MODELS
from graphconv.storage.partition import partition_graph
from graphconv.storage.stored_graph import open_graph, store_graph

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")

DENSE = "dense embeddings"
# Long enough to be disturbed in the middle.
LONG = ("--max-epochs", 150, "--early-stopping", "none", "--checkpoint-seconds", 0)
# Name: graph, processes, options. Every one has dropout.
TRAININGS = {
    "cora": ("cora", 2, ("--max-epochs", 50, "--early-stopping", "none")),
    "chebyshev": (
        "cora", 2,
        ("--propagation", "chebyshev", "--lambda-max", 1.5, "--hidden", 8, "--max-epochs", 50,
         "--early-stopping", "none"),
    ),
    "dense": (
        "dense", 2,
        ("--hidden", "8,8", "--residual", "--runs", 2, "--max-epochs", 50, "--class-weight",
         "balanced", "--patience", 8),
    ),
    "featureless": ("free", 2, ("--self-loop-weight", "learn", "--max-epochs", 50)),
    "long": ("free", 2, LONG),
    "first-order": ("free", 2, ("--propagation", "first-order", "--max-epochs", 20)),
    "mlp": ("dense", 2, ("--model", "mlp", "--max-epochs", 20)),
    "mini-batches": ("dense", 2, ("--batch-size", 30, "--max-epochs", 8)),
    "sampled": ("dense", 2, ("--batch-size", 30, "--fanout", "3,3", "--max-epochs", 8)),
    "cora in four": ("cora", 4, ("--max-epochs", 50, "--early-stopping", "none")),
    # Of 34 nodes four parts hardly have a training node each.
    "karate in four": ("karate", 4, ("--max-epochs", 6, "--batch-size", 1)),
    "agreeing mini-batches": (
        "dense", 2, ("--model", "grand", "--steps", 3, "--batch-size", 30, "--max-epochs", 6)
    ),
    **{
        f"model {name}": (
            "dense", 2, ("--model", name, "--normalisation", "layer", "--max-epochs", 20)
        )
        for name in MODELS
    },
}  # fmt: skip


def environment():
    paths = [PACKAGE_PLACE, str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",  # or torchrun remarks that it sets it
    }


def launch(
    n_processes,
    *arguments,
    cwd,
    options=("--standalone",),
    program=("-m", "graphconv"),
    prefix=(),
    **variables,
):
    return subprocess.Popen(
        [
            *prefix, sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node",
            str(n_processes), *program, *map(str, arguments),
        ],
        cwd=cwd,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip


def end(process, seconds=PATIENCE):
    """Wait for torchrun to end; if it hangs, nothing of it may stay behind."""
    try:
        return finish(process, seconds)
    except subprocess.TimeoutExpired:
        for pid in workers(process).values():
            os.kill(pid, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        raise


def workers(process):
    """Process ids of what a torchrun has started, by rank."""
    ranks = {folder: rank_of(folder, process.pid) for folder in Path("/proc").glob("[0-9]*")}
    return {rank: int(folder.name) for folder, rank in ranks.items() if rank is not None}


def rank_of(folder, parent):
    """The rank of a process that has this parent; None for all others, and once it has ended."""
    try:
        state, its_parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
        if int(its_parent) != parent or state == "Z":
            return None
        pairs = folder.joinpath("environ").read_bytes().split(b"\0")
        return next((int(pair[5:]) for pair in pairs if pair.startswith(b"RANK=")), None)
    except (OSError, ValueError):
        return None


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with stored graphs in parts."""
    folder = tmp_path_factory.mktemp("parts")
    dense = split(generate(DENSE, n_nodes=300), n_validation=60)
    free = split(generate("no features", n_nodes=200), n_validation=40)
    for name, graph, parts in (
        ("cora", load_dataset("cora"), (2, 4)),
        ("karate", load_dataset("karate"), (4,)),
        ("dense", dense, (2,)),
        ("free", free, (2,)),
    ):
        store_graph(graph, folder / name)
        for n_parts in parts:
            partition_graph(folder / name, n_parts)
    return folder


@pytest.fixture(scope="module")
def trained(place):
    """All TRAININGS, by as many processes as they say; one start for each number of processes."""
    for n_processes in (2, 4):
        wanted = [
            ["train", graph, *map(str, options), "-o", f"several {name}", "-q"]
            for name, (graph, n, options) in TRAININGS.items()
            if n == n_processes
        ]
        program = (str(ROOT / "tests" / "several_trainings.py"),)
        done = end(launch(n_processes, json.dumps(wanted), cwd=place, program=program))
        assert done.code == 0, done
    return place


@pytest.fixture
def run(monkeypatch, capsys):
    return make_runner(monkeypatch, capsys)


@pytest.mark.parametrize("name", TRAININGS)
def test_losses_are_those_of_one_process(trained, monkeypatch, run, name):
    monkeypatch.chdir(trained)
    graph, n_processes, options = TRAININGS[name]
    run("train", graph, *options, "-o", f"one {name}", "-q")
    one, several = (
        json.loads(Path(f"{folder} {name}", "model.json").read_text())
        for folder in ("one", "several")
    )
    for kind in ("train_loss", "validation_loss"):
        theirs, ours = (model["history"][kind] for model in (one, several))
        assert len(ours) == len(theirs)  # early stopping decided alike
        if theirs[0] is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    tables = [pd.read_parquet(f"{f} {name}/predictions.parquet") for f in ("one", "several")]
    pd.testing.assert_frame_equal(tables[1], tables[0], atol=1e-4, rtol=1e-3)
    assert sorted(os.listdir(f"several {name}")) == sorted(os.listdir(f"one {name}"))
    assert one["identity"] == several["identity"]
    processes = several["metrics"]["processes"]
    assert len(processes) == n_processes
    for row in processes:
        if "mlp" not in options and "--batch-size" not in options:
            # All rows travel where all nodes are made to agree.
            assert 0 < row["sent_training"] <= row["cut_demands"]
            assert row["sent_training"] < row["cut_demands"] or "grand" in options
    # A model that several processes have trained is a model like any other.
    run("predict", f"several {name}", graph, "-o", f"{name}.parquet", "-q")
    pd.testing.assert_frame_equal(pd.read_parquet(f"{name}.parquet"), tables[1], atol=1e-5)


ON_A_DEVICE = ("dense", "featureless", "first-order", "sampled", "model appnp", "model grand")


def test_every_process_may_have_a_device(trained, tmp_path):
    """Rows of others travel by way of the processors; the losses are those of the kernels."""
    wanted = [
        ["train", graph, *map(str, options), "--device", "cuda", "-o", str(tmp_path / name), "-q"]
        for name, (graph, _, options) in TRAININGS.items()
        if name in ON_A_DEVICE
    ]
    program = (str(ROOT / "tests" / "on_a_device.py"),)
    done = end(launch(2, json.dumps(wanted), cwd=trained, program=program))
    assert done.code == 0, done
    for name in ON_A_DEVICE:
        by_torch, by_kernels = (
            json.loads((folder / "model.json").read_text())["history"]
            for folder in (tmp_path / name, trained / f"several {name}")
        )
        for kind in ("train_loss", "validation_loss"):
            first = [own[kind][:20] for own in (by_torch, by_kernels)]
            np.testing.assert_allclose(*first, rtol=1e-4, err_msg=f"{name}, {kind}")


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def begun(process, unfinished):
    """Wait until a training has saved something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, Done(process.returncode, *process.communicate())
        if unfinished.exists():
            return workers(process)
        time.sleep(0.01)
    raise AssertionError("the training does not begin")


def test_a_killed_process_does_not_change_the_result(trained, tmp_path):
    shutil.copytree(trained / "free", tmp_path / "free")
    train = ("train", "free", *LONG, "-o")
    process = launch(
        2, *train, "killed", cwd=tmp_path, options=("--standalone", "--max-restarts", "1")
    )
    before = begun(process, tmp_path / "killed.training")
    os.kill(before[1], signal.SIGKILL)
    done = end(process)
    assert done.code == 0, "\n".join(done.err)
    assert any("continuing after epoch" in line for line in done.err), done.err
    assert weights(tmp_path / "killed") == weights(trained / "several long")
    assert not (tmp_path / "killed.training").exists()


def test_a_process_that_hangs_is_noticed(place, tmp_path):
    shutil.copytree(place / "free", tmp_path / "free")
    process = launch(2, "train", "free", *LONG, "--timeout", 20, "-o", "model", cwd=tmp_path)
    before = begun(process, tmp_path / "model.training")
    os.kill(before[1], signal.SIGSTOP)
    started = time.monotonic()
    while 0 in workers(process):
        assert time.monotonic() - started < 120  # far less than the default of --timeout
        time.sleep(0.05)
    # Stopped processes can't end when torchrun asks them to; after 30 s it kills them, as here.
    os.kill(before[1], signal.SIGKILL)
    done = end(process)
    assert done.code != 0
    lines = [line for line in done.err if line.startswith("graphconv:")]
    assert len(lines) == 1
    assert "another process ended, or did not answer within 20 s" in lines[0]
    assert not (tmp_path / "model").exists()


def test_a_damaged_part_ends_all_processes_with_one_line(place, tmp_path):
    shutil.copytree(place / "free", tmp_path / "free")
    (tmp_path / "free" / "parts-2" / "part-1" / "lent.bin").unlink()
    done = end(launch(2, "train", "free", "-o", "model", cwd=tmp_path), 60)
    lines = [line for line in done.err if line.startswith("graphconv:")]
    assert lines == ["graphconv: free/parts-2/part-1/lent.bin: No such file or directory"]
    assert done.code != 0
    # Of some versions of torch gloo itself says on stdout that it is connected.
    assert [line for line in done.out.splitlines() if not line.startswith("[Gloo]")] == []


def test_edges_and_features_of_the_whole_are_not_needed(trained, tmp_path):
    """As on machines that were given their parts, and rank 0's the nodes' labels and ids."""
    shutil.copytree(trained / "dense", tmp_path / "dense")
    for pattern in ("adjacency.*", "features.*", "degree.*"):
        for path in (tmp_path / "dense").glob(pattern):
            path.unlink()
    _, n_processes, options = TRAININGS["sampled"]
    done = end(launch(n_processes, "train", "dense", *options, "-o", "model", cwd=tmp_path))
    assert done.code == 0, done
    for name in ("model.safetensors", "predictions.parquet", "splits.npz"):
        theirs = trained / "several sampled" / name
        assert (tmp_path / "model" / name).read_bytes() == theirs.read_bytes(), name
    whole = open_graph(trained / "dense")
    said = f"{DENSE}: 300 nodes, {whole.n_edges:,} edges, 32 features, "
    assert any(line.startswith(said) for line in done.err), done.err


def test_a_full_batch_that_does_not_fit_becomes_mini_batches(place, tmp_path):
    shutil.copytree(place / "dense", tmp_path / "dense")
    program = (str(ROOT / "tests" / "little_memory.py"),)
    train = ("train", "dense", "--max-epochs", 2, "-o", "model")
    done = end(launch(2, *train, "--no-auto", cwd=tmp_path, program=program))
    assert done.code != 0
    lines = [line for line in done.err if line.startswith("graphconv:")]
    assert len(lines) == 1
    assert "training must fit the memory, but about" in lines[0]
    assert re.search(
        r"1 MB available in process [01], the tightest of 2: use --batch-size", lines[0]
    )
    assert not (tmp_path / "model").exists()
    done = end(launch(2, *train, cwd=tmp_path, program=program))
    assert done.code == 0, done
    lines = [line for line in done.err if "training in mini-batches instead" in line]
    assert len(lines) == 1
    assert lines[0].startswith("note: the full batch does not fit, about ")
    settings = json.loads((tmp_path / "model" / "model.json").read_text())["settings"]
    assert settings["fanout"] == [10]


class Hosts:
    """Two network namespaces joined by a cable, as two machines would be."""

    names = tuple(f"gc{os.getpid()}{end}" for end in "ab")  # 15 letters at most
    addresses = ("10.213.7.1", "10.213.7.2")

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        first, second = self.names
        self.ip(
            "link", "add", first, "netns", first, "type", "veth", "peer", second, "netns", second
        )
        for name, address in zip(self.names, self.addresses, strict=True):
            self.ip("-n", name, "address", "add", f"{address}/24", "dev", name)
            self.ip("-n", name, "link", "set", name, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], capture_output=True, check=True, timeout=120)

    def launch(self, *arguments, cwd):
        """A torchrun on each of the hosts, which meet at the first one's address."""
        return [
            launch(
                1,
                *arguments,
                cwd=cwd,
                options=("--nnodes", "2", "--node-rank", str(number), "--master-addr",
                         self.addresses[0], "--master-port", "29400"),
                prefix=("ip", "netns", "exec", name),
                GLOO_SOCKET_IFNAME=name,
            )
            for number, name in enumerate(self.names)
        ]  # fmt: skip


@pytest.fixture
def hosts():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(Hosts())
        except subprocess.CalledProcessError as error:
            Hosts().__exit__()
            pytest.skip(f"network namespaces can't be made here: {error.stderr.decode().strip()}")


def test_two_hosts_train_together_and_notice_a_cut_cable(trained, tmp_path, hosts):
    shutil.copytree(trained / "free", tmp_path / "free")
    # Far more than a busy machine lets a process wait, far less than the default.
    train = ("train", "free", *LONG, "--timeout", 20, "-o")
    both = [end(process) for process in hosts.launch(*train, "whole", cwd=tmp_path)]
    assert [done.code for done in both] == [0, 0], both
    assert weights(tmp_path / "whole") == weights(trained / "several long")
    processes = hosts.launch(*train, "cut", cwd=tmp_path)
    begun(processes[0], tmp_path / "cut.training")
    hosts.ip("-n", hosts.names[0], "link", "set", hosts.names[0], "down")
    started = time.monotonic()
    both = [end(process) for process in processes]
    assert time.monotonic() - started < 200  # less than the default of --timeout
    assert 0 not in [done.code for done in both], both
    for done in both:
        said = [line for line in done.err if line.startswith("graphconv:")]
        assert len(said) == 1
        assert "did not answer within 20 s" in said[0]
    assert not (tmp_path / "cut").exists()
    # With the cable in place again, the training goes on and ends as the other did.
    hosts.ip("-n", hosts.names[0], "link", "set", hosts.names[0], "up")
    both = [end(process) for process in hosts.launch(*train, "cut", "--resume", cwd=tmp_path)]
    assert [done.code for done in both] == [0, 0], both
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cost_model_finds_what_runs_were_made_of():
    measure, build = script("measure_distributed"), script("build_scaling")
    crowding = {1: 1.0, 2: 1.25, 4: 2.5}
    runs = []
    for n_nodes, count in ((1000, 1), (4000, 1), (2000, 2), (9000, 2), (3000, 4), (6000, 4)):
        row = {
            "n_nodes": n_nodes, "n_entries": 20 * n_nodes, "n_halo": (count - 1) * n_nodes // 5,
            "sent_training": 10**6 * (count - 1), "sent_validation": 10**4 * n_nodes * (count > 1),
            "sent_gradients": 0, "cut_demands": 10**6, "messages": 8 * (count - 1),
        }  # fmt: skip
        row["peak_memory"] = 3 * 10**8 + 7000 * n_nodes + 500 * row["n_halo"]
        sent = row["sent_training"] + row["sent_validation"]
        work = measure.work_of(row["n_entries"], n_nodes) * crowding[count]
        seconds = 3e-9 * work + 2e-9 * sent + 1e-3 * row["messages"]
        run = {"n_edges": 10 * n_nodes, "processes": count, "epoch_seconds": seconds}
        runs.append({**run, "ranks": [row] * count})
    model = measure.fit_model(runs, crowding)
    assert model["seconds"]["factors"] == pytest.approx([3e-9, 2e-9, 1e-3], rel=1e-6)
    assert model["memory"]["factors"] == pytest.approx([3e8, 7000, 500], rel=1e-6)
    assert model["seconds"]["largest_error"] < 1e-9
    predicted = measure.predict(model, runs)
    assert [row["n_edges"] for row in predicted] == [10**8, 10**9, 10**10]
    assert all(row["memory"] <= measure.PROCESS_BYTES for row in predicted)
    # 10^10 edges: 10^9 nodes of 7,000 bytes and 0.6 halo rows of 500 each, 64 GB a process.
    assert predicted[-1]["processes"] == math.ceil(1e9 * 7300 / (64e9 - 3e8))
    results = {
        "date": "2026-01-01", "n_features": 1, "n_classes": 1, "hidden": 1, "edges_a_node": 10,
        "machine": {"processor": "x", "cores": 2, "memory_gb": 1, "system": "y", "python": "3"},
        "equality": [{"dataset": "cora", "rule": "z", "processes": 2, "n_epochs": 50,
                      "difference": 1e-8}],
        "strong": runs, "weak": runs, "model": model, "process_bytes": 64e9,
        "network_speed": 1.25e9, "predicted": predicted, "crowding": crowding, "rounds": 3,
    }  # fmt: skip
    page = "\n".join(build.several_processes(results))
    assert "| cora | z | 2 | 1.0e-08 |" in page
    assert "| 1e+10 | 115 |" in page
    assert "2.000 ns for each byte" in page
    assert "100 % for 1, 80 % for 2, 40 % for 4" in page
