"""Process costs: what each process of a training took and sent."""

from __future__ import annotations

from graphconv.engine.network import Network
from graphconv.models.operations import Neighbours
from graphconv.storage.graph_part import GraphPart
from graphconv.storage.memory import peak_memory
from graphconv.training.processes import Processes


def process_costs(
    part: GraphPart,
    processes: Processes,
    network: Network,
    sent_making: int,
    n_epochs: int,
    seconds: float,
) -> list[dict[str, int]]:
    """Memory and bytes of every process, one row each; all processes call this together.

    Parameters
    ----------
    part : GraphPart
    processes : Processes
    network : Network
    sent_making : int
        Bytes that making the batches has sent.
    n_epochs : int
        Epochs that the bytes and the seconds are of.
    seconds : float
    """
    sent = processes.sent
    messages = [processes.messages[what] for what in ("train", "validation", "gradients")]
    sums = [v.width for v in network.program.values if isinstance(v, Neighbours)]
    # Forward the rows that others need, backward the gradients of the rows that it needed.
    n_rows = len(part.lent) + part.summary.n_halo
    n_passes = len(network.seeds) * network.model.n_copies
    costs = {
        "peak_memory": peak_memory(),
        "n_nodes": part.n_own,
        "n_halo": part.summary.n_halo,
        "n_entries": part.summary.n_entries,
        "cut_demands": 4 * n_rows * sum(sums) * n_passes,
        "sent_training": sent["train"] // n_epochs,
        "sent_validation": sent["validation"] // n_epochs,
        "sent_gradients": sent["gradients"] // n_epochs,
        "sent_batches": sent_making // n_epochs,
        "messages": sum(messages) // n_epochs,
        "epoch_microseconds": int(1e6 * seconds / n_epochs),
    }
    table = processes.table(list(costs.values()))
    return [dict(zip(costs, map(int, row), strict=True)) for row in table.tolist()]
