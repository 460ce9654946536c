"""All benchmarks, one after the other, as JSON; what is measured already is not measured again.

python benchmarks/run.py [-o runs/bench] [--quick] [--only side_by_side ...]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import checks
import growth
import kernels
import shapes
import start
import training
from graphconv.io.files import json_text, replacing_file
from graphconv.paper.machine import describe_machine

PARTS: dict[str, Any] = {
    "side_by_side": training.side_by_side,
    "accuracies": training.accuracies,
    "end_to_end": start.end_to_end,
    "propagation": kernels.propagation,
    "large_graphs": kernels.large_graphs,
    "replicas": training.replicas,
    "inference": training.inference,
    "checks": checks.checks,
    "grid": kernels.grid,
    "roofline": kernels.roofline,
    "profile": training.profile,
    "thread_gain": training.thread_gain,
    "busy_machine": training.busy_machine,
    "shapes": shapes.shapes,
    "models": shapes.models,
    "growth": growth.growth,
    "cores": growth.cores,
    "schedule": growth.schedule,
    "memory": growth.memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/bench"))
    parser.add_argument("--quick", action="store_true", help="few repetitions, small graphs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="measure these again")
    options = parser.parse_args()
    # torch calls its sparse CSR support a beta.
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "benchmark.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, measure in PARTS.items():
        if options.only is not None and name not in options.only:
            continue
        if options.only is None and name in results:
            print(f"{name}: measured before", flush=True)
            continue
        begin = time.perf_counter()
        print(f"{name} ...", flush=True)
        results[name] = measure(options.quick)
        results["machine"] = describe_machine()
        results["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        # Parts may be measured on their own: each says when, and with which version.
        when = {"date": results["date"], "version": results["machine"]["graphconv"]}
        results.setdefault("when", {})[name] = when
        with replacing_file(path) as temporary:
            temporary.write_text(json_text(results, indent=1), encoding="utf-8")
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
