"""Seconds of an epoch on a random graph, measured in a process of its own.

On the CPU our kernels are measured. They don't run on a graphics card, so there the same network
is written in plain torch.
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
        "cpu" for our kernels; else what torch calls the device that plain torch is to run on.
    n_edges, n_epochs : int
    memory : float
        Bytes this process may take from the machine from now on.
    """
    _limit_memory(memory)
    try:
        graph = load_dataset(f"random:{n_edges // 2}")
        epoch = _kernel_epoch(graph) if device == OWN_KERNELS else torch_epoch(graph, device)
        seconds = _timed(epoch, n_epochs)
    except (MemoryError, RuntimeError) as error:  # torch's own OutOfMemoryError is of the latter
        if isinstance(error, MemoryError) or "memory" in str(error):
            return None
        raise
    return {"seconds": float(np.mean(seconds)), "epochs": len(seconds), "n_edges": graph.n_edges}


def _timed(epoch: Callable[[], None], n_epochs: int) -> list[float]:
    from graphconv.training.loop import single_torch_thread

    def seconds() -> float:
        started = perf_counter()
        epoch()
        return perf_counter() - started

    with single_torch_thread():
        seconds()  # the first touches all memory for the first time
        return [seconds() for _ in range(n_epochs)]


def _kernel_epoch(graph: Graph) -> Callable[[], None]:
    from graphconv.engine.batches import make_batch
    from graphconv.engine.network import Network
    from graphconv.engine.objective import LabelledBatch, Objective
    from graphconv.models.catalogue import make_model
    from graphconv.models.settings import Settings

    settings = Settings(hidden=(N_HIDDEN,), dropout=0.0, bias=False)
    network = Network(make_model(settings, graph.n_nodes, 1), [0], kernels.select())
    batch = make_batch(graph, n_hops=network.n_hops)
    objective, labelled = Objective(network, settings), LabelledBatch.make(batch, graph.labels)

    def epoch() -> None:
        objective.gradients(labelled, 0)

    return epoch


def torch_epoch(graph: Graph, device: str) -> Callable[[], None]:
    """Forward and backward pass of the same network in plain torch, on any device."""
    import torch

    size = (graph.n_nodes, graph.n_nodes)
    scale = torch.from_numpy((graph.degree + 1.0) ** -0.5).float().to(device)[:, None]
    adjacency = torch.sparse_csr_tensor(
        torch.from_numpy(graph.adjacency.indptr),
        torch.from_numpy(graph.adjacency.indices),
        torch.ones(graph.adjacency.nnz),
        size=size,
        device=device,
    )
    labels = torch.from_numpy(graph.labels).to(device)
    first = torch.empty(graph.n_nodes, N_HIDDEN, device=device)
    second = torch.empty(N_HIDDEN, max(1, graph.n_classes), device=device)
    for weight in (first, second):
        torch.nn.init.xavier_uniform_(weight).requires_grad_()

    def propagate(values: torch.Tensor) -> torch.Tensor:
        scaled = scale * values
        return scale * (adjacency @ scaled + scaled)

    def epoch() -> None:
        first.grad = second.grad = None
        logits = propagate(torch.relu(propagate(first)) @ second)
        torch.autograd.backward(torch.nn.functional.cross_entropy(logits, labels))
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)

    return epoch


def _limit_memory(memory: float) -> None:
    """Let this process fail, rather than the machine, when it takes more than that."""
    if sys.platform != "linux" or memory == float("inf"):
        return
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + int(memory), resource.RLIM_INFINITY))
