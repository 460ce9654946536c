"""Measures graphs on disk from tables to predictions, each step in a process of its own.

python scripts/measure_scale.py [--nodes N] [--edges M] [--features F] [--cap BYTES] [--work DIR]

Writes measured/scaling.json: seconds, bytes and peak memory of generate, ingest, train and predict;
estimated against measured memory of full-batch training at four sizes; and what sampling costs in
accuracy. build_scaling.py makes docs/scaling.md of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from graphconv.io.files import json_text, replacing_file
from graphconv.paper.machine import describe_machine
from graphconv.storage.memory import parse_bytes

ROOT = Path(__file__).resolve().parent.parent
ESTIMATE = ROOT / "scripts" / "measure_estimate.py"
ESTIMATED_NODES = (50_000, 100_000, 200_000, 400_000)


def run(arguments: list[str], cwd: Path) -> dict[str, Any]:
    """Run a process that prints a JSON object; adds its seconds and its peak memory."""
    print("$", " ".join(" ".join(arguments[1:]).split())[:150], file=sys.stderr, flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(arguments, cwd=cwd, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise SystemExit(f"failed with code {process.returncode}: {' '.join(arguments)}")
    seconds = time.perf_counter() - started
    return {**json.loads(text), "wall_seconds": seconds, "peak_bytes": usage.ru_maxrss * 1024}


def measure_path(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Generate, ingest, train in mini-batches, predict all nodes."""
    command = [sys.executable, "-m", "graphconv"]
    tables, graph, model = (work / name for name in ("tables", "graph", "model"))
    steps = {
        "generate": [
            "generate", "planted-partition", "--nodes", str(options.nodes), "--edges",
            str(options.edges), "--features", str(options.features), "--labelled",
            str(options.labelled), "-o", str(tables),
        ],
        "ingest": [
            "ingest", "--edges", f"{tables}/edges*.parquet", "--nodes",
            f"{tables}/nodes*.parquet", "-o", str(graph), "--memory", options.cap,
        ],
        "train": [
            "train", str(graph), "--batch-size", str(options.batch_size), "--fanout", "10,10",
            "--max-epochs", str(options.epochs), "-o", str(model),
        ],
        "predict": ["predict", str(model), str(graph), "-o", str(work / "predictions.parquet")],
    }  # fmt: skip
    found = {name: run([*command, *step, "--json"], work) for name, step in steps.items()}
    size = sum(path.stat().st_size for path in graph.iterdir())
    train = found["train"]
    return {
        "n_nodes": options.nodes,
        "n_edges_drawn": options.edges,
        "n_edges": found["ingest"]["n_edges"],
        "n_features": options.features,
        "cap_bytes": parse_bytes(options.cap),
        "graph_bytes": size,
        "table_bytes": found["generate"]["bytes"],
        "n_train": train["n_train"],
        "epochs": train["epochs"],
        "batch_size": options.batch_size,
        "test_accuracy": train["test_accuracy"],
        "steps": {
            name: {"seconds": step["wall_seconds"], "peak_bytes": step["peak_bytes"]}
            for name, step in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--labelled", type=float, default=0.02)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--cap", default="6GiB")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "scale")
    parser.add_argument("--output", type=Path, default=ROOT / "measured" / "scaling.json")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "path": measure_path(options, options.work.resolve()),
        "estimates": [
            {"n_nodes": n, **run([sys.executable, str(ESTIMATE), str(n)], options.work)}
            for n in ESTIMATED_NODES
        ],
        "sampling": run(
            [sys.executable, str(ROOT / "scripts" / "measure_sampling.py"), "--json"], options.work
        )["sampling"],
    }
    with replacing_file(options.output) as new:
        new.write_text(json_text(results, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(options.work)
    peaks = {name: step["peak_bytes"] for name, step in results["path"]["steps"].items()}
    over = [name for name, peak in peaks.items() if peak > results["path"]["cap_bytes"]]
    if over:
        raise SystemExit(
            f"peak memory must stay under {options.cap}, but not so: {', '.join(over)}"
        )


if __name__ == "__main__":
    main()
