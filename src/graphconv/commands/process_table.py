"""Process table: what each process of a training took and sent, for people."""

from __future__ import annotations

from collections.abc import Callable

from graphconv.commands.console import Screen
from graphconv.storage.memory import in_units


def show_costs(about: list[dict[str, int]], screen: Screen) -> None:
    """The table of the processes."""
    shown: dict[str, Callable[[dict[str, int]], str]] = {
        "peak memory": lambda row: in_units(row["peak_memory"]),
        "halo rows": lambda row: f"{row['n_halo']:,}",
        "sent for them": lambda row: _kilobytes(row["sent_training"]),
        "cut demands": lambda row: _kilobytes(row["cut_demands"]),
        "validation": lambda row: _kilobytes(row["sent_validation"]),
        "gradients": lambda row: _kilobytes(row["sent_gradients"]),
        "making batches": lambda row: _kilobytes(row["sent_batches"]),
    }
    rows = [[str(rank), *(show(row) for show in shown.values())] for rank, row in enumerate(about)]
    plural = "" if len(about) == 1 else "es"
    title = f"{len(about)} process{plural}, kB that each sends in an epoch"
    screen.table(title, ["rank", *shown], rows)


def _kilobytes(n_bytes: int) -> str:
    return f"{n_bytes / 1000:,.1f}"
