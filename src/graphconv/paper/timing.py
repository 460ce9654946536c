"""Figure 2: seconds per epoch on random graphs, from a thousand edges to the largest that fits."""

from __future__ import annotations

import multiprocessing
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from graphconv import kernels
from graphconv.estimators.runs import Record, RunLog, Series, record_of
from graphconv.graph import Graph
from graphconv.paper.epoch_timing import N_HIDDEN, OWN_KERNELS, measure_epochs
from graphconv.paper.published import TIMING_EDGES
from graphconv.paper.section import Figure, Request, Section, Table
from graphconv.storage.memory import available_memory

NAME = "timing"
# The paper's sizes, and ten times the largest.
EDGES = (
    1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 100_000_000,
)  # fmt: skip
QUICK_LOOK = 1_000_000
N_EPOCHS = 100
# The peak of measuring 4 million edges was 402 bytes per edge, of 1 million 432: the graph, and of
# 32 numbers per node each the first layer's weights, its activations and the gradients of both.
BYTES_PER_EDGE = 450
BYTES_AT_LEAST = 500e6  # the process itself
SPARE = 0.9  # of the free memory, the rest is left to others


def bytes_needed(n_edges: int) -> float:
    """An estimate, on the safe side, of the memory that measuring a graph takes."""
    return BYTES_AT_LEAST + BYTES_PER_EDGE * n_edges


@dataclass(frozen=True)
class Curve:
    """What was measured on one device, small graphs first."""

    title: str
    records: tuple[Record, ...]
    out_of_memory: int | None

    @property
    def edges(self) -> list[float]:
        return [record["n_edges"] for record in self.records]

    @property
    def seconds(self) -> list[float]:
        return [record["seconds"] for record in self.records]


def _series(device: str, n_edges: int, n_epochs: int) -> Series:
    code = kernels.select().__name__ if device == OWN_KERNELS else f"training on {device}"
    settings = {"n_hidden": N_HIDDEN, "n_epochs": n_epochs, "kernels": code}
    return Series(NAME, f"random:{n_edges // 2}", "epoch", _no_task, settings, (0,))


def _no_task(series: Series, graph: Graph) -> list[Record]:
    raise NotImplementedError("epochs are measured one graph after the other, not among the runs")


def _measured(request: Request, log: RunLog, device: str, n_edges: int) -> Record | None:
    """The record of a graph, from the log or measured now; None if it does not fit in memory."""
    series = _series(device, n_edges, request.n_runs(N_EPOCHS))
    known = log.records(series)
    if known:
        return known[0]
    memory = SPARE * available_memory()
    if bytes_needed(n_edges) > memory:
        return None
    # A graphics card's driver reserves far more addresses than it uses: no limit there.
    limit = memory if device == OWN_KERNELS else float("inf")
    try:
        run = _in_process(device, n_edges, series.settings["n_epochs"], limit)
    except EOFError:
        if bytes_needed(n_edges) < memory / 4:  # then it was not for want of memory
            raise ChildProcessError("the process that measures the time of an epoch died") from None
        return None  # killed by the system, which had less memory than it said
    if run is None:
        return None
    record = record_of(series, {"seed": 0, **run})
    log.append([record])
    return record


def _in_process(*arguments: Any) -> Record | None:
    """What `measure_epochs` returns in a process of its own; EOFError if that is killed.

    No pool: its locks lie in /dev/shm, which not every machine has.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sender, *arguments))
    process.start()
    sender.close()
    try:
        run: Record | Exception | None = receiver.recv()
    finally:
        process.terminate()
        process.join()
        receiver.close()
    if isinstance(run, Exception):
        raise run
    return run


def _measure(sender: Connection, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever waits for it ends it
    try:
        sender.send(measure_epochs(*arguments))
    except Exception as error:
        sender.send(error)


def _curve(request: Request, log: RunLog, device: str) -> Curve:
    title = "our kernels, CPU" if device == OWN_KERNELS else f"torch, {device}"
    records: list[Record] = []
    for n_edges in _sizes(request):
        record = _measured(request, log, device, n_edges)
        if record is None:
            if not records:
                raise MemoryError(f"{title}: not even the smallest random graph fits in memory")
            return Curve(title, tuple(records), n_edges)
        records.append(record)
        told = f"{n_edges:,} edges, {record['seconds']:.2g} s per epoch"
        request.progress(f"timing, {title}: {told}", None, None)
    return Curve(title, tuple(records), None)


def _devices(request: Request) -> tuple[str, ...]:
    if request.timing_devices:
        return request.timing_devices
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return (OWN_KERNELS, *(name for name, is_there in there.items() if is_there))


def section(request: Request, log: RunLog) -> Section:
    """Measure, fit, draw."""
    from graphconv.report.figures import draw_timing, save_figure

    curves = [_curve(request, log, device) for device in _devices(request)]
    slope, constant = fit_line(curves[0].edges, curves[0].seconds)
    save_figure(draw_timing(curves, slope, constant), request.output / "figures" / "timing")
    return Section(
        name=NAME,
        title="Figure 2: time of an epoch",
        text=_text(slope),
        tables=tuple(_table(curve) for curve in curves),
        figures=(_FIGURE,),
        notes=_notes(curves),
        data={
            "records": curves[0].records,
            "slope": slope,
            "constant": constant,
            "out": curves[0].out_of_memory,
            "others": {curve.title: curve.records for curve in curves[1:]},
        },
        finished=max(record["finished"] for curve in curves for record in curve.records),
    )


def _sizes(request: Request) -> tuple[int, ...]:
    if request.timing_edges:
        return request.timing_edges
    # A quick look stops at a million edges, before graphs that take minutes to make.
    return EDGES if request.runs is None else tuple(n for n in EDGES if n <= QUICK_LOOK)


def fit_line(edges: list[float], seconds: list[float]) -> tuple[float, float]:
    """Slope and constant of log seconds over log edges, for the larger half of the graphs.

    Small graphs take the time that calling the layers takes, whatever their size.

    Examples
    --------
    >>> from graphconv.paper.timing import fit_line
    >>> slope, constant = fit_line([1e3, 1e4, 1e5, 1e6], [1, 1, 2, 20])
    >>> round(slope, 3), round(constant, 3)
    (1.0, -4.699)
    """
    first = len(edges) // 2 if len(edges) > 3 else 0
    if len(edges) - first < 2:
        return 1.0, float(np.log10(seconds[-1] / edges[-1]))
    slope, constant = np.polyfit(np.log10(edges[first:]), np.log10(seconds[first:]), 1)
    return float(slope), float(constant)


def _text(slope: float) -> tuple[str, ...]:
    low, high = TIMING_EDGES
    return (
        "Mean wall-clock seconds of one epoch (forward pass, cross-entropy, backward pass, as in "
        "training) on "
        "random graphs with twice as many edges as nodes: hidden layer of 32 units, no features, "
        "no dropout, no L2 penalty.",
        f"The paper measures {low:,.0f} to {high:,.0f} edges on a 16-core Xeon E5-2640 v3 and on a "
        "GTX Titan X, and shows the times in a plot only, so they are not repeated here. The line "
        f"fitted to the larger half of our graphs has the slope {slope:.2f}: 1 would be time in "
        "proportion to the edges.",
    )


_FIGURE = Figure(
    "figures/timing",
    "Seconds of an epoch against the size of the graph, both logarithmic.",
    "Log-log line chart: seconds per epoch against edges, with a fitted straight line",
)


def _table(curve: Curve) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            f"{record['n_edges']:,}",
            f"{record['seconds']:.3g}",
            str(record["epochs"]),
            f"{record['n_edges'] / record['seconds'] / 1e6:.1f}",
        )
        for record in curve.records
    ]
    if curve.out_of_memory is not None:
        rows.append((f"{curve.out_of_memory:,}", "*", "-", "-"))
    columns = ("edges", "seconds per epoch", "epochs", "million edges per second")
    return Table(f"Random graphs, {curve.title}", columns, tuple(rows))


def _notes(curves: list[Curve]) -> tuple[str, ...]:
    notes: list[str] = []
    if curves[0].out_of_memory is not None:
        need = bytes_needed(curves[0].out_of_memory) / 1e9
        notes.append(f"* does not fit in the free memory: it would need about {need:.0f} GB.")
    if any(record["epochs"] < N_EPOCHS for curve in curves for record in curve.records):
        notes.append(f"Fewer than {N_EPOCHS} epochs, since fewer were asked for: a quick look.")
    if len(curves) == 1:
        notes.append("No GPU series: torch sees none.")
    return tuple(notes)
