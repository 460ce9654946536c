"""Measures training by several processes: that it is exact, what it takes, and what it would take.

python scripts/measure_distributed.py [--edges M] [--epochs N] [--rounds R] [--processes 1,2,4]

Writes measured/distributed.json: how far losses differ from those of one process; strong scaling
(the same graph, more processes) and weak scaling (as many edges for each process); and a cost model
that is fitted to these runs. build_scaling.py makes a section of docs/scaling.md of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from graphconv.io.files import json_text, replacing_file
from graphconv.paper.machine import describe_machine
from graphconv.storage.partition import parts_folder

ROOT = Path(__file__).resolve().parent.parent
EDGES_A_NODE, N_FEATURES, N_CLASSES, HIDDEN = 10, 64, 64, 64
# Equality: the rules that differ most in what travels.
RULES = {
    "renormalised": (),
    "chebyshev": ("--propagation", "chebyshev", "--chebyshev-order", "2", "--lambda-max", "2"),
}
PREDICTED_EDGES = (10**8, 10**9, 10**10)
# Assumed of a cluster: memory that a process may have, and bytes a second between two machines.
PROCESS_BYTES, NETWORK_SPEED = 64e9, 1.25e9
COMMAND = [sys.executable, "-m", "graphconv"]


def run(arguments: list[str], work: Path, processes: int = 0) -> dict[str, Any]:
    """Run a command, by several processes if asked; returns the JSON object that it prints."""
    command = [*COMMAND, *arguments]
    if processes:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        command = [sys.executable, *launcher, str(processes), *command[1:]]
    print("$", " ".join(command[1:])[:150], file=sys.stderr, flush=True)
    # A thread each: what is compared is processes, not threads.
    environment = {**os.environ, "GRAPHCONV_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--json", "-q"],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=3600,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def history(folder: Path) -> list[float]:
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return list(model["history"]["train_loss"])


def measure_equality(counts: list[int], work: Path) -> list[dict[str, Any]]:
    """Largest relative difference of a loss in 50 epochs with dropout."""
    rows = []
    for name in ("cora", "pubmed", "generated"):
        if name == "generated":
            make_graph(20_000, work / name, work)
        for count in counts:
            stored = ["-o", name] if count == counts[0] and name != "generated" else []
            run(["partition", name, "--parts", str(count), *stored], work)
        for rule, options in RULES.items():
            train = ["train", name, *options, "--max-epochs", "50", "--early-stopping", "none"]
            run([*train, "-o", "one"], work)
            alone = np.array(history(work / "one"))
            for count in counts:
                run([*train, "-o", "several"], work, count)
                difference = np.abs(np.array(history(work / "several")) / alone - 1).max()
                row = {"dataset": name, "rule": rule, "processes": count, "n_epochs": len(alone)}
                rows.append({**row, "difference": float(difference)})
    return rows


def make_graph(n_edges: int, folder: Path, work: Path) -> None:
    """A planted partition whose classes METIS can find; all nodes have labels."""
    tables = work / "tables"
    run(
        [
            "generate", "planted-partition", "--nodes", str(n_edges // EDGES_A_NODE), "--edges",
            str(n_edges), "--features", str(N_FEATURES), "--classes", str(N_CLASSES),
            "--homophily", "0.9", "--labelled", "1", "-o", str(tables),
        ],
        work,
    )  # fmt: skip
    files = ["--edges", f"{tables}/edges*", "--nodes", f"{tables}/nodes*"]
    run(["ingest", *files, "-o", str(folder)], work)
    shutil.rmtree(tables)


def measure_training(n_edges: int, count: int, epochs: int, work: Path) -> dict[str, Any]:
    """One training by so many processes."""
    graph = work / f"edges-{n_edges}"
    if not graph.is_dir():
        make_graph(n_edges, graph, work)
    if not parts_folder(graph, count).is_dir():
        run(["partition", str(graph), "--parts", str(count)], work)
    found = run(training(graph, epochs, "model"), work, count)
    return {
        "n_edges": found["n_edges"],
        "processes": count,
        "epoch_seconds": epoch_seconds(found),
        "ranks": found["processes"],
    }


def training(graph: Path, epochs: int, model: str) -> list[str]:
    return ["train", str(graph), "--hidden", str(HIDDEN), "--max-epochs", str(epochs),
            "--no-calibration", "--early-stopping", "none", "-o", model]  # fmt: skip


def epoch_seconds(found: dict[str, Any]) -> float:
    return max(row["epoch_microseconds"] for row in found["processes"]) / 1e6


def measure_crowd(n_edges: int, count: int, epochs: int, work: Path) -> float:
    """Seconds of an epoch where so many processes train at once, each for itself.

    Cores share caches and memory, and those of a virtual machine may be halves of one: what this
    costs is not the price of working together.
    """
    with ThreadPoolExecutor(count) as pool:
        graph = work / f"edges-{n_edges}"
        commands = [training(graph, epochs, f"model-{k}") for k in range(count)]
        found = list(pool.map(lambda command: run(command, work, 1), commands))
    return float(np.mean([epoch_seconds(one) for one in found]))


def measure_scaling(
    n_edges: int, counts: list[int], epochs: int, n_rounds: int, work: Path
) -> tuple[dict[tuple[int, int], dict[str, Any]], dict[int, float]]:
    """Trainings by (edges, processes), and how much longer an epoch takes in a crowd.

    The machine may be twice as slow a minute later. So all take turns, and of each the fastest
    round counts: others on the machine can only make it slower.
    """
    a_process = n_edges // max(counts)
    wanted = dict.fromkeys([(n_edges, n) for n in counts] + [(a_process * n, n) for n in counts])
    trainings: dict[tuple[int, int], list[dict[str, Any]]] = {key: [] for key in wanted}
    crowds: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(n_rounds):
        for key, rounds in trainings.items():
            rounds.append(measure_training(*key, epochs, work))
        for count, seconds in crowds.items():
            seconds.append(measure_crowd(a_process, count, epochs, work))
    alone = min(crowds[min(counts)])
    return (
        {
            key: min(rounds, key=lambda measured: measured["epoch_seconds"])
            for key, rounds in trainings.items()
        },
        {count: min(seconds) / alone for count, seconds in crowds.items()},
    )


def work_of(n_entries: float, n_nodes: float) -> float:
    """Multiply-adds of a forward pass: sums over neighbours, and products with weights."""
    return n_entries * (HIDDEN + N_CLASSES) + n_nodes * HIDDEN * (N_FEATURES + N_CLASSES)


def fit_model(runs: list[dict[str, Any]], crowding: dict[int, float]) -> dict[str, Any]:
    """Seconds by work, bytes and messages; memory by nodes and halo rows; no term is negative.

    Times are of the process that has most to do; its work takes as much longer as it would beside
    so many others that it has nothing to do with. Every run weighs alike.
    """
    times, memories = [], []
    for measured in runs:
        slowest = max(measured["ranks"], key=lambda row: row["n_entries"])
        crowd = crowding[measured["processes"]]
        sent = sum(slowest[f"sent_{what}"] for what in ("training", "validation", "gradients"))
        work = work_of(slowest["n_entries"], slowest["n_nodes"])
        times.append([crowd * work, sent, slowest["messages"], measured["epoch_seconds"]])
        memories += [
            [1, row["n_nodes"], row["n_halo"], row["peak_memory"]] for row in measured["ranks"]
        ]
    model = {}
    for name, rows in (("seconds", times), ("memory", memories)):
        table = np.array(rows, dtype=float)
        scaled = table[:, :-1] / table[:, -1:]  # relative errors count
        size = np.where(scaled.max(axis=0) > 0, scaled.max(axis=0), 1)
        factors = nnls(scaled / size, np.ones(len(table)))[0] / size
        errors = np.abs(table[:, :-1] @ factors / table[:, -1] - 1)
        model[name] = {"factors": factors.tolist(), "largest_error": float(errors.max())}
    return model


def predict(model: dict[str, Any], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What graphs that nobody here can hold would take, by the model."""
    most = max(runs, key=lambda measured: (measured["processes"], measured["n_edges"]))
    n_own = sum(row["n_nodes"] for row in most["ranks"])
    halo_share = sum(row["n_halo"] for row in most["ranks"]) / n_own
    a, _, c = model["seconds"]["factors"]
    base, by_node, by_halo = model["memory"]["factors"]
    a_pair = most["ranks"][0]["messages"] / max(1, most["processes"] - 1)
    n_weights = N_FEATURES * HIDDEN + HIDDEN * N_CLASSES
    rows = []
    for n_edges in PREDICTED_EDGES:
        n_nodes = n_edges / EDGES_A_NODE
        bytes_of_all = n_nodes * (by_node + by_halo * halo_share)
        count = int(max(1, np.ceil(bytes_of_all / (PROCESS_BYTES - base))))
        entries, nodes = 2 * n_edges / count, n_nodes / count
        halo = nodes * halo_share if count > 1 else 0.0
        # Training sends rows forward and gradients back, validation only rows.
        halo_bytes = 3 * halo * 4 * (HIDDEN + N_CLASSES)
        sent = halo_bytes + 2 * 4 * n_weights * (count - 1) / count
        messages = a_pair * (count - 1)
        seconds = a * work_of(entries, nodes) + sent / NETWORK_SPEED + c * messages
        rows.append(
            {
                "n_edges": n_edges,
                "processes": count,
                "seconds": float(seconds),
                "memory": float(base + by_node * nodes + by_halo * halo),
                "sent": float(sent),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "distributed")
    parser.add_argument("--output", type=Path, default=ROOT / "measured" / "distributed.json")
    options = parser.parse_args()
    counts = [int(number) for number in options.processes.split(",")]
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    work = options.work.resolve()
    machine = describe_machine()
    equality = measure_equality(counts, work)
    runs, crowding = measure_scaling(options.edges, counts, options.epochs, options.rounds, work)
    strong = [runs[options.edges, count] for count in counts]
    weak = [runs[options.edges // max(counts) * count, count] for count in counts]
    model = fit_model([*strong, *weak], crowding)
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": machine,
        "n_features": N_FEATURES,
        "n_classes": N_CLASSES,
        "hidden": HIDDEN,
        "edges_a_node": EDGES_A_NODE,
        "epochs": options.epochs,
        "rounds": options.rounds,
        "equality": equality,
        "strong": strong,
        "weak": weak,
        "crowding": crowding,
        "model": model,
        "process_bytes": PROCESS_BYTES,
        "network_speed": NETWORK_SPEED,
        "predicted": predict(model, [*strong, *weak]),
    }
    with replacing_file(options.output) as new:
        new.write_text(json_text(results, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(work)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
