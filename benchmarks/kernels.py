"""Kernels against what the machine can do, and against the reference kernels."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from graphconv import kernels as kernel_choice
from graphconv import load_dataset
from graphconv.engine.batches import make_batch
from graphconv.engine.objective import LabelledBatch
from graphconv.kernels import Csr, Dropout, native, reference
from graphconv.models.settings import RULES, resolve_settings
from graphconv.training.fit import build_model, full_batches
from graphconv.training.loop import train
from training import CITATIONS, threads

WIDTHS = (8, 16, 32, 64)
N_HIDDEN = 32


def best(call: Callable[[], Any], n: int = 9) -> float:
    """Least seconds of some calls: the one that was disturbed least."""
    least = float("inf")
    for _ in range(n):
        begin = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begin)
    return least


def copy_bandwidth(n_bytes: int, n_threads: int) -> float:
    """Bytes read and written a second by copying an array of that size.

    Within the caches it is copied with its sign changed: as it is, the C library copies it ten
    times as slowly on some processors, if the target is 16 bytes off a cache line.
    """
    within_caches = n_bytes <= 2**22
    source = np.ones(n_bytes // 8)
    target = np.zeros_like(source)
    bounds = np.linspace(0, len(source), n_threads + 1).astype(int)
    repeats = max(1, 2**24 // n_bytes)

    def work(k: int) -> None:
        part = slice(bounds[k], bounds[k + 1])
        for _ in range(repeats):
            if within_caches:
                np.negative(source[part], out=target[part])
            else:
                np.copyto(target[part], source[part])

    def run() -> None:
        others = [threading.Thread(target=work, args=(k,)) for k in range(1, n_threads)]
        for other in others:
            other.start()
        work(0)
        for other in others:
            other.join()

    return repeats * 2 * n_bytes / best(run, 25 if within_caches else 9)


def multiply_adds() -> float:
    """Multiply-adds a second of one core, by the faster of torch's product of matrices and ours."""
    matrix = torch.ones((512, 512))
    weight = np.ones((512, 1, 1, 512), np.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    calls = (lambda: matrix @ matrix, lambda: native.wide_product(matrix.numpy(), weight))
    rate = 512**3 / min(best(call, 30) for call in calls)
    torch.set_num_threads(before)
    return rate


def propagation(quick: bool) -> list[dict[str, float]]:
    """The propagation product on random graphs, beside the bandwidth of copying."""
    rows = []
    n_threads = native.get_threads()
    for n_edges in (10**5, 10**6) if quick else (10**5, 10**6, 10**7):
        graph = load_dataset(f"random:{n_edges // 2}")
        batch = make_batch(graph, n_hops=1)
        n = graph.n_nodes
        block = batch.block(n, n)
        dense = native.dropout_dense(np.ones((n, N_HIDDEN), np.float32), None, None)
        scale = np.ones(n, np.float32)
        looked_up = scale[block.indices] if scale.nbytes > kernel_choice.NEAR_BYTES else None
        arguments = (block, dense, scale, scale, 1.0, looked_up)
        seconds, bandwidths = [], []
        for _ in range(3 if quick else 7):
            bandwidths.append(copy_bandwidth(2**28, n_threads))
            seconds.append(best(lambda a=arguments: native.propagate(*a), 3))
        # A table past the caches is fetched row by row, once for every neighbour: every neighbour's
        # row is read and, for its self-loop, the node's own; every index, both scales; every row is
        # written. That scales are looked up beforehand for each entry moves more, not counted.
        row = 4 * N_HIDDEN
        others = len(block.indices) * block.indices.itemsize
        others += n * (row + 2 * block.begin.itemsize + 2 * scale.itemsize)
        n_bytes = (len(block.indices) + n) * row + others
        reached, copied = n_bytes / float(np.median(seconds)), float(np.median(bandwidths))
        rows.append(
            {
                "edges": graph.n_edges,
                "bytes": n_bytes,
                # With a cache that holds everything each row would be read only once.
                "least_bytes": n * row + others,
                "least_share": (n * row + others) / float(np.median(seconds)) / copied,
                "milliseconds": 1e3 * float(np.median(seconds)),
                "gigabytes_per_second": reached / 1e9,
                "copy_gigabytes_per_second": copied / 1e9,
                "share": reached / copied,
            }
        )
    return rows


def large_graphs(quick: bool) -> dict[str, Any]:
    """Seconds of an epoch and peak memory on random graphs, each in a process of its own."""
    rows = []
    context = multiprocessing.get_context("spawn")
    for n_edges in (10**5, 10**6) if quick else (10**5, 10**6, 10**7):
        with context.Pool(1) as pool:
            rows.append(pool.apply(measure_large, (n_edges,)))
    sizes, seconds = ([row[key] for row in rows] for key in ("edges", "seconds"))
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return {"rows": rows, "slope": slope}


def measure_large(n_edges: int) -> dict[str, float]:
    """Forward, loss and backward of a two-layer model without features, all nodes labelled."""
    graph = load_dataset(f"random:{n_edges // 2}")
    settings = resolve_settings(
        "paper",
        {"hidden": (N_HIDDEN,), "dropout": 0.0, "max_epochs": 6, "early_stopping": "none"},
    )
    model = build_model(graph, settings, [0])
    everything = LabelledBatch.make(make_batch(graph, n_hops=model.n_hops), graph.labels)
    ends = [time.perf_counter()]
    train(model, [everything], None, settings, on_epoch=lambda _: ends.append(time.perf_counter()))
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    adjacency = graph.adjacency
    must = adjacency.data.nbytes + adjacency.indices.nbytes + adjacency.indptr.nbytes
    must += sum(parameter.nbytes for parameter in model.parameters.values())
    must += 4 * graph.n_nodes * (N_HIDDEN + graph.n_classes)
    return {
        "edges": graph.n_edges,
        "seconds": float(np.median(np.diff(ends)[1:])),
        "peak_bytes": 1024 * peak,
        "least_bytes": must,
        "ratio": 1024 * peak / must,
    }


def roofline(quick: bool) -> dict[str, Any]:
    """Each kernel's time on one thread beside the time that its arithmetic or its bytes take.

    A matrix of less than 256 KiB is taken to come from the second-level cache, one of less than
    16 MiB from the third, all else from memory.
    """
    with threads(1):
        speeds = {
            "cache": copy_bandwidth(2**17, 1),
            "far cache": copy_bandwidth(2**22, 1),
            "memory": copy_bandwidth(2**28, 1),
        }
        rate = multiply_adds()
        rows = [_attainable(*case, speeds, rate) for name in CITATIONS for case in _cases(name, 16)]
        if not quick:
            rows += [_attainable(*case, speeds, rate) for case in _cases("random:500000", 32)]
            rows += [_attainable(*case, speeds, rate) for case in _wide_cases()]
    return {
        "gigabytes_per_second": {name: speed / 1e9 for name, speed in speeds.items()},
        "multiply_adds_per_nanosecond": rate / 1e9,
        "rows": rows,
    }


Case = tuple[str, str, Callable[[], Any], float, float, float]


def _cases(name: str, width: int) -> list[Case]:
    """Data set, kernel, call, multiply-adds, bytes and the size of what is gathered from."""
    graph = load_dataset(name)
    rng = np.random.default_rng(0)
    batch = make_batch(graph, n_hops=1)
    n, n_classes = graph.n_nodes, max(graph.n_classes, 2)
    block = batch.block(n, n)
    dense = rng.standard_normal((n, width)).astype(np.float32)
    scale = np.ones(n, np.float32)
    ids, half = np.arange(n), Dropout((1,), 1 << 15)
    nnz = len(block.indices)
    cases: list[Case] = [
        (
            name,
            "propagate",
            lambda: native.propagate(block, dense, scale, scale, 1.0),
            nnz * width,
            nnz * (4 * width + 4) + 4 * n * width,
            4 * n * width,
        )
    ]
    layer = rng.standard_normal((width, 1, 1, n_classes)).astype(np.float32)
    slope = rng.standard_normal((n, n_classes)).astype(np.float32)
    product = n * width * n_classes
    cases += [
        (
            name,
            "hidden_product",
            lambda: native.hidden_product(dense, layer, half, ids, True),
            product,
            4 * n * (width + n_classes),
            4 * n * width,
        ),
        (
            name,
            "hidden_product_backward",
            lambda: native.hidden_product_backward(slope, dense, layer, half, ids, True),
            2 * product,
            4 * n * (2 * width + n_classes),
            4 * n * width,
        ),
    ]
    if not sp.issparse(graph.features):
        return cases
    features = batch.features
    assert isinstance(features, Csr)
    cases += _packed_case(graph, name, width)
    entries = len(features.indices)
    weight = rng.standard_normal((graph.n_features, width)).astype(np.float32)
    kept = 0.5 * entries
    return [
        *cases,
        (
            name,
            "feature_product",
            lambda: native.feature_product(features, weight, half, ids),
            kept * width,
            entries * 8 + kept * 4 * width + 4 * n * width,
            weight.nbytes,
        ),
        (
            name,
            "feature_product_transposed",
            lambda: native.feature_product_transposed(features, dense, len(weight), half, ids),
            kept * width,
            entries * 8 + kept * 8 * width + 4 * n * width,
            weight.nbytes,
        ),
    ]


def _wide_cases() -> list[Case]:
    """Kernels of dense features, and of sparse ones with wide weights, as `_cases` gives them."""
    rng = np.random.default_rng(0)
    half = Dropout((1,), 1 << 15)
    cases: list[Case] = []
    for n, n_in, n_out in ((20_000, 256, 256), (4_347, 384, 64), (5_419, 745, 64)):
        dense = rng.standard_normal((n, n_in)).astype(np.float32)
        slope = rng.standard_normal((n, n_out)).astype(np.float32)
        weight = rng.standard_normal((n_in, 1, 1, n_out)).astype(np.float32)
        ids, name, product = np.arange(n), f"{n:,} x {n_in} x {n_out}", n * n_in * n_out
        given = (dense, weight, half, ids, True)
        n_bytes = 4 * n * (n_in + n_out)
        cases += [
            (
                name,
                "wide_product",
                lambda given=given: native.wide_product(*given),
                product,
                n_bytes,
                dense.nbytes,
            ),
            (
                name,
                "wide_product_backward",
                lambda slope=slope, given=given: native.wide_product_backward(slope, *given),
                2 * product,
                n_bytes + dense.nbytes,
                dense.nbytes,
            ),
        ]
    width = 384
    graph = load_dataset("random:50000")
    n = graph.n_nodes
    block = make_batch(graph, n_hops=1).block(n, n)
    features = rng.standard_normal((n, width)).astype(np.float32)
    entries = len(block.indices)
    cases.append(
        (
            f"{n:,} x {width}",
            "propagate_dropped",
            lambda: native.propagate_dropped(block, features, half),
            entries * width,
            entries * (4 * width + 4) + features.nbytes,
            features.nbytes,
        )
    )
    for n_features, width in itertools.product((2_000, 12_047, 20_000), (16, 64, 512)):
        cases += _sparse_cases(rng, n_features, width)
    return cases


def _sparse_cases(rng: np.random.Generator, n_features: int, width: int) -> list[Case]:
    """4,000 rows of 100 entries; of wide weights 64 columns are gathered from at a time."""
    n, per_row, half = 4_000, 100, Dropout((1,), 1 << 15)
    columns = [np.sort(rng.choice(n_features, per_row, replace=False)) for _ in range(n)]
    ends = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = rng.standard_normal(n * per_row).astype(np.float32)
    rows = Csr(ends[:-1], ends[1:], np.concatenate(columns).astype(np.int32), values)
    weight = rng.standard_normal((n_features, width)).astype(np.float32)
    dense = rng.standard_normal((n, width)).astype(np.float32)
    kept, name = 0.5 * n * per_row, f"{n_features:,} features x {width}"
    gathered = 4 * n_features * min(width, 64)
    others = n * per_row * 8 + dense.nbytes
    return [
        (
            name,
            "feature_product",
            lambda: native.feature_product(rows, weight, half),
            kept * width,
            others + kept * 4 * width,
            gathered,
        ),
        (
            name,
            "feature_product_transposed",
            lambda: native.feature_product_transposed(rows, dense, n_features, half),
            kept * width,
            others + kept * 8 * width,
            gathered,
        ),
    ]


def _packed_case(graph: Any, name: str, width: int) -> list[Case]:
    """The product of features that are summed beforehand, for four replicas, where it is used."""
    settings = resolve_settings("paper", {"hidden": (width,)})
    model = build_model(graph, settings, range(4))
    batch = full_batches(graph, settings, model)[1].batch
    packed = batch.packed_features(native) if batch.is_summed else None
    if packed is None:
        return []
    weight = np.ones((graph.n_features, 4 * width), np.float32)
    n_entries, n_rows = len(packed.pieces.indices), len(packed.pieces.begin) // packed.n_ranges
    return [
        (
            name,
            "packed_product",
            lambda: native.packed_product(packed, weight),
            n_entries * 4 * width,
            # The weights of a range are in the nearest cache, as those of torch's product are.
            n_entries * 8 + 16 * n_rows * width,
            n_entries * 8,
        )
    ]


def _attainable(
    data: str,
    kernel: str,
    call: Callable[[], Any],
    operations: float,
    n_bytes: float,
    gathered: float,
    speeds: dict[str, float],
    rate: float,
) -> dict[str, Any]:
    level = "cache" if gathered < 2**18 else "far cache" if gathered < 2**24 else "memory"
    by_bytes, by_arithmetic = n_bytes / speeds[level], operations / rate
    seconds, least = best(call, 25), max(by_bytes, by_arithmetic)
    return {
        "data": data,
        "kernel": kernel,
        "microseconds": 1e6 * seconds,
        "attainable_microseconds": 1e6 * least,
        "share": least / seconds,
        "limit": f"bytes from {level}" if by_bytes > by_arithmetic else "arithmetic",
    }


def grid(quick: bool) -> list[dict[str, Any]]:
    """An epoch with native and with reference kernels: data sets by rules by widths."""
    rows = []
    for name in ("cora",) if quick else CITATIONS:
        graph = load_dataset(name)
        for rule in RULES:
            for width in (16,) if quick else WIDTHS:
                seconds: dict[str, list[float]] = {"native": [], "reference": []}
                runs = {kind: _epochs(graph, rule, width, kind) for kind in seconds}
                for _ in range(3):
                    for kind, own in seconds.items():
                        own += runs[kind](3)
                fast, slow = (1e3 * float(np.median(own)) for own in seconds.values())
                rows.append(
                    {
                        "data": name,
                        "rule": rule,
                        "width": width,
                        "native": fast,
                        "reference": slow,
                        "ratio": slow / fast,
                    }
                )
    return rows


def _epochs(graph: Any, rule: str, width: int, kind: Any) -> Callable[[int], list[float]]:
    settings = resolve_settings("paper", {"propagation": rule, "hidden": (width,)})
    model = build_model(graph, settings, [0], kind)
    assert model.kernels is {"native": native, "reference": reference}[kind]
    assert kernel_choice.native_missing() is None
    training, validation = full_batches(graph, settings, model)

    def run(n_epochs: int) -> list[float]:
        ends = [time.perf_counter()]
        limited = resolve_settings(
            "paper",
            {
                "propagation": rule,
                "hidden": (width,),
                "max_epochs": n_epochs,
                "early_stopping": "none",
            },
        )
        train(
            model,
            [training],
            validation,
            limited,
            on_epoch=lambda _: ends.append(time.perf_counter()),
        )
        return np.diff(ends).tolist()

    run(1)
    return run
