"""Memory: how much there is, how much a training needs, and what happens where it is too much."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.command_line import PACKAGE_PLACE, ROOT

from graphconv.engine import memory_estimate
from graphconv.engine.memory_estimate import estimate_memory, settle_batches
from graphconv.graph import Graph, adjacency_from_edges
from graphconv.models.settings import Settings
from graphconv.storage import memory
from graphconv.storage.memory import available_memory, parse_bytes
from graphconv.training.fit import fit_gcn


@pytest.fixture
def little_memory(monkeypatch):
    """A machine on which nothing fits but what is there already."""
    monkeypatch.setattr(memory_estimate, "_SMALL", 0)
    monkeypatch.setattr(memory_estimate, "available_memory", lambda: 1 << 12)


def test_control_groups_of_both_versions_set_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_groups", lambda root: [root])
    assert memory._left_in_group(tmp_path) == memory._NO_LIMIT
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100\n")
    assert memory._left_in_group(tmp_path) == memory._NO_LIMIT
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._left_in_group(tmp_path) == 400  # the page cache makes way
    (tmp_path / "memory.max").unlink()
    (tmp_path / "memory.limit_in_bytes").write_text("500\n")
    (tmp_path / "memory.usage_in_bytes").write_text("450\n")
    assert memory._left_in_group(tmp_path) == 50
    assert 0 < available_memory() < 1 << 60


@pytest.mark.parametrize("text", ["", "6 apples", "-1GB", "GiB"])
def test_amounts_that_are_none(text):
    with pytest.raises(ValueError, match="an amount of memory must be like 6GiB"):
        parse_bytes(text)


def test_estimates_grow_with_what_is_trained():
    rng = np.random.default_rng(0)
    graph = Graph(
        adjacency_from_edges(*rng.integers(2000, size=(2, 9000)), n_nodes=2000),
        rng.random((2000, 30)),
        labels=np.arange(2000) % 3,
        train_index=np.arange(1000),
    )
    small = estimate_memory(graph, Settings(hidden=(16,))).training
    assert small < estimate_memory(graph, Settings(hidden=(64,))).training
    assert small < estimate_memory(graph, Settings(hidden=(16,)), n_replicas=3).training
    assert small > estimate_memory(graph, Settings(hidden=(16,), batch_size=9, fanout=2)).training


def test_processes_of_one_machine_share_its_memory(monkeypatch):
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 1000)
    assert available_memory() == 1000
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available_memory() == 250


class FirstHalf:
    """Nodes 0 and 1 of the path 0 - 1 - 2 - 3, node 2 the halo; the other half answers as told."""

    n_own, n_features, n_collected = 2, 7, 0

    def __init__(self, *lent):
        self.asked, self._lent = [], list(lent)

    def lent(self, halo):
        self.asked.append(halo.tolist())
        return np.array(self._lent.pop(0), dtype=np.int64)


@pytest.mark.parametrize(
    ("targets", "lent", "asked", "n_within", "n_entries", "n_halo"),
    [
        ([0], ([], []), [[], [2]], (1, 2, 2), 3, 1),
        # Node 3 trains in the other half, and reaches node 1 by two hops.
        ([], ([], [1]), [[], []], (0, 0, 1), 0, 0),
        ([1], ([1], [1]), [[2], [2]], (1, 2, 2), 3, 1),
    ],
)
def test_reach_of_a_part_by_hand(targets, lent, asked, n_within, n_entries, n_halo):
    rows = [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    part = Graph(rows, labels=[0, 1, -1], train_index=[0, 1], directed=True)
    share = FirstHalf(*lent)
    found = memory_estimate._reach(part, np.array(targets, dtype=np.int64), 2, None, share)
    assert share.asked == asked
    assert (found.n_within, found.n_entries, found.n_halo) == (n_within, n_entries, n_halo)


def test_full_batch_that_does_not_fit_becomes_mini_batches(little_memory):
    rng = np.random.default_rng(0)
    graph = Graph(
        adjacency_from_edges(*rng.integers(60, size=(2, 200)), n_nodes=60),
        rng.random((60, 3)),
        labels=np.arange(60) % 3,
    )
    settings, note = settle_batches(graph, Settings(), 1)
    assert (settings.batch_size, settings.fanout) == (1024, (10,))
    assert "the full batch does not fit, about" in note
    assert "batch_size=1024 fanout=10" in note
    kept, note = settle_batches(graph, Settings(batch_size=7), 1)
    assert kept == Settings(batch_size=7)
    cheb = Settings(propagation="chebyshev")
    assert settle_batches(graph, cheb, 1)[0].fanout == "all"
    with pytest.raises(ValueError, match="training must fit the memory, but about"):
        settle_batches(graph, Settings(), 1, auto=False)
    with pytest.warns(UserWarning, match="training in mini-batches instead"):
        fitted = fit_gcn(graph, overrides={"max_epochs": 2})
    assert fitted.settings.batch_size == 1024


def test_command_switches_or_stops(run, little_memory, tmp_path):
    arguments = ("train", "cora", "--max-epochs", "2")
    done = run(*arguments, "-o", "m", "--json")
    assert done.json["settings"]["batch_size"] == 1024
    assert any("training in mini-batches instead" in line for line in done.err)
    done = run(*arguments, "-o", "n", "--no-auto", expect=2)
    assert len(done.err) == 1
    assert "training must fit the memory" in done.err[0]
    assert not (tmp_path / "n").exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_estimate_is_near_the_measured_peak():
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "measure_estimate.py"), "60000"],
        env={**os.environ, "PYTHONPATH": PACKAGE_PLACE},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert 0.7 < found["estimated"] / found["measured"] < 1.3
