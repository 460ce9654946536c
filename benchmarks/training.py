"""Epochs side by side with the peers, whole trainings, replicas, threads and a busy machine."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import peers
from graphconv import load_dataset
from graphconv.engine.objective import Objective
from graphconv.engine.plan import Plan
from graphconv.graph import Graph
from graphconv.kernels import native
from graphconv.training.fit import fit_gcn
from graphconv.training.fitted import FittedGCN

CITATIONS = ("cora", "citeseer", "pubmed")
KERNELS = (
    "feature_product",
    "packed_product",
    "propagate",
    "hidden_product",
    "loss",
    "hidden_product_backward",
    "feature_product_transposed",
    "adam",
    "dropout_dense",
    "dropout_dense_backward",
)


def data(name: str) -> Graph | None:
    """A data set; None if it is not to be had here, as NELL's files may be."""
    try:
        return load_dataset(name)
    except (OSError, ValueError):
        return None


def preset(name: str) -> str:
    return "paper-nell" if name == "nell" else "paper"


def side_by_side(quick: bool) -> dict[str, Any]:
    """Milliseconds of an epoch with its validation pass, each library taking turns with ours.

    The machine may be twice as slow a minute later, so a ratio is taken within a turn, and the
    median over the turns counts. Two epochs that don't count begin each half of a turn: caches are
    full of the other's data, and threads of the other may still wait by spinning.
    """
    found, missing = peers.available()
    results: dict[str, Any] = {"missing": missing, "what": {p.name: p.what for p in found}}
    results["data"] = {}
    for name, models in _models(found):
        ours, *others = models
        own, row = [], {}
        for model in others:
            model.run(3)
            seconds, ratios = [], []
            for _ in range(3 if quick else 9):
                before, theirs = (_timed(one, n) for one, n in ((ours, 30), (model, 6)))
                own.append(before)
                seconds.append(theirs)
                ratios.append(theirs / before)
            row[model.name] = {
                "milliseconds": 1e3 * float(np.median(seconds)),
                "ratio": float(np.median(ratios)),
            }
        first = {"milliseconds": 1e3 * float(np.median(own)), "ratio": 1.0}
        results["data"][name] = {ours.name: first, **row}
    return results


def accuracies(quick: bool) -> dict[str, dict[str, float]]:
    """Test accuracy of each library after 200 epochs, to see that the same work is compared."""
    found, _ = peers.available()
    return {
        name: {model.name: model.test_accuracy() for model in models}
        for name, models in _models(found)
        if not (quick and name == "nell")
    }


def _timed(model: peers.Peer, n_epochs: int) -> float:
    model.run(2)
    return float(np.median(model.run(n_epochs)))


def _models(found: list[type[peers.Peer]]) -> Iterator[tuple[str, list[peers.Peer]]]:
    """For each data set a model of each library, ours first."""
    for name in (*CITATIONS, "nell"):
        graph = data(name)
        if graph is None:
            continue
        # Dense features of NELL would take 16 GB, and the other peers have no sparse ones.
        on_nell = (peers.Graphconv, peers.PlainTorch)
        yield (
            name,
            [peer(graph, preset(name), 0) for peer in found if name != "nell" or peer in on_nell],
        )


def replicas(quick: bool, n_replicas: int = 16) -> dict[str, Any]:
    """CPU seconds of replicas at once and of single runs one after the other, on one thread.

    The paper's settings for a fixed number of epochs, and the default ones, which stop each replica
    when its time has come; as calls, and the paper's also as commands, each a process.
    """
    fixed = {"max_epochs": 40 if quick else 100, "early_stopping": "none"}
    stopping = {"max_epochs": 40} if quick else {}
    with threads(1):
        return {
            "n_replicas": n_replicas,
            "data": _replicas("paper", fixed, n_replicas, n_rounds=3 if quick else 7),
            "default": _replicas("robust", stopping, n_replicas, n_rounds=1),
            "commands": _replica_commands(CITATIONS[:1] if quick else CITATIONS, n_replicas),
        }


def _replicas(
    preset: str, overrides: dict[str, Any], n_replicas: int, n_rounds: int
) -> dict[str, dict[str, float]]:
    results = {}
    for name in CITATIONS:
        graph = load_dataset(name)
        together, singly = [], []
        fit_gcn(graph, preset=preset, overrides={"max_epochs": 5})
        for _ in range(n_rounds):
            begin = time.process_time()
            fit_gcn(graph, preset=preset, overrides=overrides, seeds=range(n_replicas))
            middle = time.process_time()
            for seed in range(n_replicas):
                fit_gcn(graph, preset=preset, overrides=overrides, seeds=[seed])
            together.append(middle - begin)
            singly.append(time.process_time() - middle)
        results[name] = _compared(together, singly)
    return results


def _replica_commands(names: Sequence[str], n_replicas: int) -> dict[str, dict[str, float]]:
    """The same of `graphconv train --runs` and of as many `graphconv train --seed`."""
    results = {}
    for name in names:
        runs = _command_seconds(name, "--runs", n_replicas)
        alone = [_command_seconds(name, "--seed", seed) for seed in range(n_replicas)]
        results[name] = _compared([runs], [sum(alone)])
    return results


def _command_seconds(name: str, option: str, value: int) -> float:
    """CPU seconds of `graphconv train` as a process, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "graphconv", "train", name, "--preset", "paper", "-q"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, option, str(value), "-o", f"{folder}/model"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "GRAPHCONV_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _compared(together: Sequence[float], singly: Sequence[float]) -> dict[str, float]:
    return {
        "together_seconds": float(np.median(together)),
        "singly_seconds": float(np.median(singly)),
        "ratio": float(np.median(np.divide(together, singly))),
    }


def inference(quick: bool) -> dict[str, float]:
    """predict_proba on Pubmed beside one forward pass over all nodes."""
    from graphconv.engine.batches import make_batch

    fitted = fit_gcn(load_dataset("pubmed"), preset="paper", overrides={"max_epochs": 5})
    features = fitted.scaler.transform(fitted.graph.features)
    batch = make_batch(fitted.graph, n_hops=fitted.network.n_hops, features=features)

    def forward() -> None:
        fitted.network(batch)

    return compare({"predict": lambda: predict(fitted), "forward": forward}, 5 if quick else 25)


def predict(fitted: FittedGCN) -> None:
    fitted.probabilities()


def compare(calls: dict[str, Any], n: int) -> dict[str, float]:
    """Median milliseconds of calls that take turns, and the ratio of the first to the second."""
    seconds = defaultdict(list)
    for _ in range(n + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    first, second = (float(np.median(seconds[name][1:])) for name in calls)
    names = list(calls)
    return {
        f"{names[0]}_milliseconds": 1e3 * first,
        f"{names[1]}_milliseconds": 1e3 * second,
        "ratio": first / second,
    }


def thread_gain(quick: bool) -> dict[str, Any]:
    """Median milliseconds of an epoch on one thread and on two."""
    results = {}
    for name in (*CITATIONS, "nell"):
        graph = data(name)
        if graph is None:
            continue
        model = peers.Graphconv(graph, preset(name), 0)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(3 if quick else 7):
            for n, own in seconds.items():
                with threads(n):
                    own += model.run(20)
        one, two = (1e3 * float(np.median(own)) for own in seconds.values())
        results[name] = {"one_thread": one, "two_threads": two, "gain": one / two}
    return results


def busy_machine(quick: bool) -> dict[str, Any]:
    """Milliseconds of an epoch with a busy process on every core, beside a quiet single thread."""
    results = {}
    for name in ("cora", "pubmed"):
        model = peers.Graphconv(load_dataset(name), "paper", 0)
        model.run(20)
        quiet, busy = [], []
        for _ in range(2 if quick else 4):
            with threads(1):
                quiet += model.run(150)
            with busy_cores():
                busy += model.run(150)
        alone, among = 1e3 * float(np.median(quiet)), 1e3 * float(np.median(busy))
        mean = float(np.mean(busy)) / float(np.mean(quiet))
        results[name] = {
            "quiet": alone,
            "busy": among,
            "ratio": among / alone,
            "ratio_of_means": mean,
        }
    return results


def profile(quick: bool) -> dict[str, Any]:
    """Where the time of an epoch goes: kernels and what is around them, in microseconds.

    Medians, part by part, which add up to an epoch that nothing interrupts.
    """
    results = {}
    for name in CITATIONS:
        model = peers.Graphconv(load_dataset(name), "paper", 0)
        n_epochs = 50 if quick else 200
        model.run(20)
        with threads(1), timed_parts() as seconds:
            rest = np.array(model.run(n_epochs))
        parts = {}
        for part, own in seconds.items():
            if own:
                each = np.array(own).reshape(n_epochs, -1)  # one column for each call in an epoch
                parts[part] = 1e6 * float(np.median(each, axis=0).sum())
                rest -= each.sum(axis=1)
        parts["the loop around all this"] = 1e6 * float(np.median(rest))
        results[name] = {"microseconds": sum(parts.values()), "parts": parts}
    return results


# Parts of an epoch that call kernels: what they are called, and where they are found. A part's time
# is its own, without that of the parts it calls.
PARTS: dict[str, tuple[Any, str]] = {
    **{name: (native, name) for name in KERNELS},
    "Python, forward": (Plan, "forward"),
    "Python, backward": (Plan, "gradients"),
    "Python, training": (Objective, "gradients"),
    "Python, validation": (Objective, "evaluate"),
    "L2 term of the validation loss": (Objective, "penalty"),
}


@contextmanager
def timed_parts() -> Iterator[dict[str, list[float]]]:
    """Record how long each call of a part takes, apart from the parts it calls."""
    seconds: dict[str, list[float]] = {name: [] for name in PARTS}
    originals = {name: getattr(*place) for name, place in PARTS.items()}
    inner = [0.0]  # for each call under way, the seconds of the calls inside it

    def timed(name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            inner.append(0.0)
            begin = time.perf_counter()
            result = originals[name](*arguments, **options)
            whole = time.perf_counter() - begin
            seconds[name].append(whole - inner.pop())
            inner[-1] += whole
            return result

        return call

    for name, (owner, attribute) in PARTS.items():
        setattr(owner, attribute, timed(name))
    try:
        yield seconds
    finally:
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, originals[name])


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = native.get_threads()
    native.set_threads(n)
    try:
        yield
    finally:
        native.set_threads(before)


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process that computes without pause on every core."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in processes:
        process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def spin() -> None:
    while True:
        pass
