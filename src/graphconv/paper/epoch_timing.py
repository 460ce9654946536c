"""Seconds of an epoch on a random graph, measured in a process of its own.

On the CPU our kernels are measured, on a graphics card what trains there: the same network, by
torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

from graphconv import kernels
from graphconv.estimators.runs import Record
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset

N_HIDDEN = 32
OWN_KERNELS = "cpu"


def measure_epochs(device: str, n_edges: int, n_epochs: int, memory: float) -> Record | None:
    """Time epochs on a random graph; None if memory runs out.

    Parameters
    ----------
    device : str
        "cpu" for our kernels; else what torch calls the device that it is to compute on.
    n_edges, n_epochs : int
    memory : float
        Bytes this process may take from the machine from now on.
    """
    _limit_memory(memory)
    try:
        graph = load_dataset(f"random:{n_edges // 2}")
        seconds = _timed(_epoch(graph, device), n_epochs)
    except (MemoryError, RuntimeError) as error:  # torch's own OutOfMemoryError is of the latter
        if isinstance(error, MemoryError) or "memory" in str(error):
            return None
        raise
    return {"seconds": float(np.mean(seconds)), "epochs": len(seconds), "n_edges": graph.n_edges}


def _timed(epoch: Callable[[], None], n_epochs: int) -> list[float]:
    def seconds() -> float:
        started = perf_counter()
        epoch()
        return perf_counter() - started

    seconds()  # the first touches all memory for the first time
    return [seconds() for _ in range(n_epochs)]


def _epoch(graph: Graph, device: str) -> Callable[[], None]:
    from graphconv.engine.batches import make_batch
    from graphconv.engine.devices import single_torch_thread
    from graphconv.engine.network import Network
    from graphconv.engine.objective import LabelledBatch, Objective
    from graphconv.models.catalogue import make_model
    from graphconv.models.settings import Settings

    settings = Settings(hidden=(N_HIDDEN,), dropout=0.0, bias=False)
    place = None
    if device != OWN_KERNELS:
        import torch

        place = torch.device(device)
    network = Network(make_model(settings, graph.n_nodes, 1), [0], kernels.select(), place)
    batch = make_batch(graph, n_hops=network.n_hops)
    objective, labelled = Objective(network, settings), LabelledBatch.make(batch, graph.labels)

    def epoch() -> None:
        with single_torch_thread(place):
            objective.gradients(labelled, 0)
            _wait_for(device)

    return epoch


def _wait_for(device: str) -> None:
    """A graphics card is told what to do and goes on with it: until it is done, time counts."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize(device)
    elif device.startswith("mps"):
        import torch

        torch.mps.synchronize()


def _limit_memory(memory: float) -> None:
    """Let this process fail, rather than the machine, when it takes more than that."""
    if sys.platform != "linux" or memory == float("inf"):
        return
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + int(memory), resource.RLIM_INFINITY))
