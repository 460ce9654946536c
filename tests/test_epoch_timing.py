"""Figure 2: what an epoch is, what of it is timed, and what happens where memory runs out."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphconv.engine import objective
from graphconv.estimators.runs import RunLog
from graphconv.paper import epoch_timing, timing
from graphconv.paper.section import Request

FREE = float("inf")  # memory without a limit


def test_seconds_are_the_mean_of_all_epochs_but_a_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    costs = iter([100.0, 1.0, 2.0, 6.0])

    def epoch() -> None:
        clock[0] += next(costs)

    monkeypatch.setattr(epoch_timing, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(epoch_timing, "_epoch", lambda graph, device: epoch)
    found = epoch_timing.measure_epochs("cuda", 1000, 3, FREE)
    assert found == {"seconds": 3.0, "epochs": 3, "n_edges": 1000}


# Any device but "cpu" itself is torch's: "cpu:0" stands for a graphics card.
@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_an_epoch_is_a_gradient_of_the_papers_network(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    before = objective.Objective

    class Watched(before):
        def __init__(self, network: Any, settings: Any) -> None:
            super().__init__(network, settings)
            seen.append((network, settings))

        def gradients(self, labelled: Any, epoch: int) -> Any:
            seen.append(labelled)
            return super().gradients(labelled, epoch)

    monkeypatch.setattr(objective, "Objective", Watched)
    found = epoch_timing.measure_epochs(device, 1000, 2, FREE)
    (network, settings), *epochs = seen
    assert len(epochs) == 3  # one more, that is not timed
    assert (network.device is None) == (device == "cpu")
    # Section 5.2: 32 hidden units, no regularisation; X = I; every node has a label.
    assert {name: tuple(own.shape[:1]) for name, own in network.parameters.items()} == {
        "layers.0.weight": (500,),
        "layers.1.weight": (32,),
    }
    assert network.parameters["layers.0.weight"].shape[-1] == 32
    assert (settings.hidden, settings.dropout, settings.bias) == ((32,), 0.0, False)
    assert (settings.propagation, settings.self_loop_weight) == ("renormalised", 1.0)
    assert all(len(labelled.labels) == 500 for labelled in epochs)
    assert found is not None
    assert (found["epochs"], found["n_edges"]) == (2, 1000)


def test_a_graphics_card_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: told.append(device))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: told.append("mps"))
    for device in ("cpu", "cuda:1", "mps"):
        epoch_timing._wait_for(device)
    assert told == ["cuda:1", "mps"]
    epoch_timing.measure_epochs("cpu", 1000, 2, FREE)
    assert told == ["cuda:1", "mps"]
    monkeypatch.setattr(epoch_timing, "_wait_for", told.append)
    epoch_timing.measure_epochs("cpu", 1000, 2, FREE)
    assert told[2:] == ["cpu"] * 3  # after every epoch, the one that is not timed among them


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_process_may_take_so_much_memory_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    limits: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *given: limits.append(given))
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    epoch_timing._limit_memory(1e9)
    ((what, (soft, hard)),) = limits
    assert (what, hard) == (resource.RLIMIT_AS, resource.RLIM_INFINITY)
    assert soft == pytest.approx(now + 1e9, abs=1e8)
    epoch_timing._limit_memory(FREE)
    assert len(limits) == 1


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("out of memory")])
def test_too_little_memory_is_no_measurement(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> Callable[[], None]:
        raise error

    monkeypatch.setattr(epoch_timing, "_epoch", fail)
    assert epoch_timing.measure_epochs("cuda", 1000, 3, FREE) is None


def test_any_other_error_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Callable[[], None]:
        raise RuntimeError("no such device")

    monkeypatch.setattr(epoch_timing, "_epoch", fail)
    with pytest.raises(RuntimeError, match="no such device"):
        epoch_timing.measure_epochs("cuda", 1000, 3, FREE)


@pytest.mark.parametrize("outcome", [{"seconds": 1.0}, None, ValueError("no such device")])
def test_the_process_that_measures_tells_what_came_of_it(
    outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def measured(*given: Any) -> Any:
        told.append(given)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(timing, "measure_epochs", measured)
    monkeypatch.setattr(signal, "signal", lambda *given: told.append(given))
    timing._measure(SimpleNamespace(send=told.append), "cpu", 1000, 3, FREE)  # type: ignore[arg-type]
    # Ctrl-C is for the process that waits for it.
    assert told == [(signal.SIGINT, signal.SIG_IGN), ("cpu", 1000, 3, FREE), outcome]


def test_an_error_of_the_process_that_measures_is_raised_here() -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        timing._in_process("nowhere", 1000, 3, FREE)


def test_a_process_is_ended_with_whoever_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    def said(*words: str) -> Any:
        return SimpleNamespace(
            **{word: lambda word=word: told.append(word) for word in words}, recv=interrupt
        )

    context = SimpleNamespace(
        Pipe=lambda **how: (said("close"), said("close")),
        Process=lambda **how: said("start", "terminate", "join"),
    )
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: context)
    with pytest.raises(KeyboardInterrupt):
        timing._in_process("cpu", 1000, 3, FREE)
    assert told == ["start", "close", "terminate", "join", "close"]


class Process:
    """Stands for the process that measures, and keeps what it was asked."""

    def __init__(self) -> None:
        self.is_killed = False
        self.asked: list[Any] = []

    def __call__(self, *given: Any) -> Any:
        self.asked.append(given)
        _, n_edges, n_epochs, _ = given
        if self.is_killed:
            raise EOFError
        return {"seconds": n_edges / 1e5, "epochs": n_epochs, "n_edges": n_edges}


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process()
    monkeypatch.setattr(timing, "_in_process", made)
    return made


def measure(folder: Path, **more: Any) -> Any:
    sizes = more.pop("sizes", (1000, 4000))
    with RunLog(folder / "runs.jsonl") as log:
        return timing.section(Request(folder, timing_edges=sizes, **more), log)


def test_a_process_may_take_most_of_the_free_memory(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "available_memory", lambda: 10e9)
    section = measure(tmp_path, timing_devices=("cpu", "cuda:0"))
    assert process.asked == [
        ("cpu", 1000, 100, 9e9),
        ("cpu", 4000, 100, 9e9),
        ("cuda:0", 1000, 100, FREE),
        ("cuda:0", 4000, 100, FREE),
    ]
    assert section.data["out"] is None
    assert section.notes == ()
    assert section.tables[0].rows[0] == ("1,000", "0.01", "100", "0.1")


def test_what_does_not_fit_is_a_star(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 450 bytes an edge and 500 MB: 2 million edges need 1.4 GB, of 1.5 GB nine tenths are 1.35.
    monkeypatch.setattr(timing, "available_memory", lambda: 1.5e9)
    section = measure(tmp_path, sizes=(1_000, 2_000_000, 3_000_000), runs=7)
    assert [asked[1:3] for asked in process.asked] == [(1000, 7)]
    assert section.data["out"] == 2_000_000
    assert section.tables[0].rows[-1] == ("2,000,000", "*", "-", "-")
    assert section.notes[0] == "* does not fit in the free memory: it would need about 1 GB."
    assert section.notes[-1] == "No GPU series: torch sees none."


def test_a_process_that_dies_with_memory_to_spare_is_an_error(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.is_killed = True
    # 1,000 edges need 0.5 GB.
    monkeypatch.setattr(timing, "available_memory", lambda: 2.3e9)
    with pytest.raises(ChildProcessError, match="process that measures the time of an epoch died"):
        measure(tmp_path)
    # With less than four times what it needs, it was for want of memory.
    monkeypatch.setattr(timing, "available_memory", lambda: 2e9)
    with pytest.raises(MemoryError, match="not even the smallest random graph fits in memory"):
        measure(tmp_path)


def test_a_quick_look_stops_at_a_million_edges(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "available_memory", lambda: 1e15)
    section = measure(tmp_path, sizes=(), runs=5)
    assert [asked[1] for asked in process.asked] == [
        1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000,
    ]  # fmt: skip
    assert "Fewer than 100 epochs, since fewer were asked for: a quick look." in section.notes
    process.asked = []
    measure(tmp_path / "full", sizes=())
    assert [asked[1] for asked in process.asked] == list(timing.EDGES)
    assert timing.EDGES[-2:] == (10_000_000, 100_000_000)


def test_the_line_is_fitted_to_the_larger_half() -> None:
    edges, seconds = [1e3, 1e4, 1e5, 1e6, 1e7], [5.0, 5.0, 1.0, 10.0, 100.0]
    assert timing.fit_line(edges, seconds) == (pytest.approx(1.0), pytest.approx(-5.0))
    # Up to three graphs count all; of one the slope is taken for 1.
    assert timing.fit_line([1e3, 1e5], [1.0, 10.0])[0] == pytest.approx(0.5)
    assert timing.fit_line([1e3, 1e4, 1e5], [1.0, 1.0, 100.0])[0] == pytest.approx(1.0)
    assert timing.fit_line([1e3], [10.0]) == (1.0, pytest.approx(-2.0))
