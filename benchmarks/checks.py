"""What it costs that the kernels check every index before they follow it."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import numpy as np

from graphconv import load_dataset
from graphconv.graph import Graph
from graphconv.kernels import Csr, fixed, native
from graphconv.training.fit import fit_gcn

# Those whose first argument is sparse rows; packed ones begin with them.
TAKE_ROWS = ("propagate", "feature_product", "feature_product_transposed", "packed_product")
N_EPOCHS = 200


def checks(quick: bool) -> dict[str, dict[str, float]]:
    """Share of an epoch of the paper's model, validation included.

    Rows that nobody can write to are looked through when a training first uses them, and found in
    a small table at every further call. The two are timed apart: the same product on rows that
    can be written to, which are looked through at every call, beside rows that can't.
    """
    n = 200 if quick else 1000
    one = Csr(np.array([0]), np.array([1]), np.array([0]), None)
    # How much longer finding rows takes than looking through a single one, which is nothing much.
    finding = max(0.0, -_looking_seconds(one, n))
    results = {}
    for name in ("cora", "citeseer", "pubmed"):
        graph = load_dataset(name)
        few, more = _rows_used(graph, 2), _rows_used(graph, 4)
        calls = (len(more) - len(few)) / 2
        different = {id(rows.indices): rows for rows in few}.values()
        looking = sum(_looking_seconds(rows, n // 10) + finding for rows in different)
        _train(graph, 5)
        epoch = float(np.median([_train(graph, N_EPOCHS) for _ in range(3 if quick else 7)]))
        results[name] = {
            "epoch_microseconds": 1e6 * epoch,
            "calls": calls,
            "finding_nanoseconds": 1e9 * finding,
            "looking_microseconds": 1e6 * looking,
            "share": (calls * finding + looking / N_EPOCHS) / epoch,
        }
    return results


def _train(graph: Graph, n_epochs: int) -> float:
    """Seconds of an epoch."""
    begin = time.perf_counter()
    fit_gcn(graph, preset="paper", overrides={"max_epochs": n_epochs, "early_stopping": "none"})
    return (time.perf_counter() - begin) / n_epochs


def _rows_used(graph: Graph, n_epochs: int) -> list[Csr]:
    """The rows of each call of a kernel in a training."""
    used: list[Csr] = []

    def watched(kernel: Any) -> Any:
        def call(rows: Any, *rest: Any, **named: Any) -> Any:
            used.append(rows if isinstance(rows, Csr) else rows.pieces)
            return kernel(rows, *rest, **named)

        return call

    with patch.multiple(native, **{name: watched(getattr(native, name)) for name in TAKE_ROWS}):
        _train(graph, n_epochs)
    return used


def _looking_seconds(rows: Csr, n: int) -> float:
    """How much longer a product takes whose rows are looked through at each call."""
    open_rows = Csr(rows.begin.copy(), rows.end.copy(), rows.indices.copy(), rows.values)
    closed = fixed(Csr(rows.begin.copy(), rows.end.copy(), rows.indices.copy(), rows.values))
    dense = np.ones((int(rows.indices.max()) + 1, 1), np.float32)
    seconds: dict[str, list[float]] = {"open": [], "closed": []}
    for _ in range(n):
        for name, each in (("open", open_rows), ("closed", closed)):
            begin = time.perf_counter()
            native.propagate(each, dense)
            seconds[name].append(time.perf_counter() - begin)
    return float(np.median(seconds["open"]) - np.median(seconds["closed"]))
