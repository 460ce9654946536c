"""How much memory a training by several processes will take, before it begins.

`memory_estimate` has the model. Here is what a process must learn from the others for it: which of
its rows their batches reach, and whether one of them lacks memory.
"""

from __future__ import annotations

import numpy as np

from graphconv.engine.memory_estimate import Need, settle_batches
from graphconv.graph import IntArray
from graphconv.models.settings import Settings
from graphconv.storage.graph_part import GraphPart
from graphconv.training.part_batches import Members, ask
from graphconv.training.processes import Processes


def settle_part_batches(
    part: GraphPart,
    processes: Processes,
    members: dict[str, Members],
    settings: Settings,
    n_replicas: int,
    *,
    auto: bool,
) -> tuple[Settings, str]:
    """The settings that all processes train with, and what to tell about memory.

    As `settle_batches` for one process: if it lacks memory in one of them, all change.
    """
    graph = part.graph.with_split(members["train"].nodes, members["validation"].nodes)
    own = PartMemory(part, processes)
    return settle_batches(graph, settings, n_replicas, auto=auto, part=own)


class PartMemory:
    """What a process has of a graph in parts; see `memory_estimate.ProcessPart`."""

    def __init__(self, part: GraphPart, processes: Processes) -> None:
        self.n_own = part.n_own
        self.n_features = part.n_features
        self.n_collected = part.n_nodes if processes.is_first else 0
        self._part = part
        self._processes = processes

    def lent(self, halo: IntArray) -> IntArray:
        return ask(self._part, self._processes, halo).lent

    def add_up(self, number: int) -> int:
        return int(self._processes.table([number]).sum())

    def tightest(self, need: Need) -> Need:
        table = self._processes.table([need.total, need.more, need.free])
        rank = int(np.argmax(table[:, 1] - table[:, 2]))
        total, more, free = table[rank].tolist()
        where = f" in process {rank}, the tightest of {self._processes.count}"
        return Need(total, more, free, where)
