"""Feed changed files to every reader, for minutes or hours: `make fuzz`.

    python -m scripts.fuzz --seconds 600 [--seed N] [--output FILE.json]

Every input follows from the seed, the target's name and its number, so that each can be made
again. Batches run in processes of their own: one that dies, hangs or grows is a finding.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

TARGETS = (
    "own.npz", "scipy.npz", "g.graphml", "g.gexf", "g.mtx", "edges.csv", "nodes.csv",
    "stored/manifest.json", "stored/ids.arrow", "stored/adjacency.indptr.bin",
    "stored/adjacency.indices.bin", "stored/adjacency.data.bin", "stored/features.indptr.bin",
    "stored/features.indices.bin", "stored/features.data.bin", "stored/degree.bin",
    "stored/labels.bin", "stored/train_index.bin", "model.json", "model.safetensors", "training",
    "provenance.json", "cached.npz", "ind.x.graph", "ind.x.y",
)  # fmt: skip
BATCH = 4000
# Seconds that a batch may take; seconds and bytes of a single input.
BATCH_SECONDS, INPUT_SECONDS, INPUT_BYTES = 1800, 60, 1 << 30


class FindingError(Exception):
    """An input that was neither taken nor refused as it should be."""


def run_inputs(
    name: str, seed: int, first: int, n_inputs: int, note: Path | None = None
) -> Counter[str]:
    """Outcomes of some inputs; raises FindingError for one that is not refused in one line."""
    from scripts.fuzz_targets import all_targets, temporary_folder

    outcomes: Counter[str] = Counter()
    with temporary_folder() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = all_targets(Path(folder))[name]
        for number in range(first, first + n_inputs):
            if note is not None:
                note.write_text(str(number))
            content = target.made(random.Random(f"{seed} {name} {number}"))
            before, started = _peak(), time.monotonic()
            found = _outcome(target.read, content)
            seconds, grown = time.monotonic() - started, _peak() - before
            if seconds >= INPUT_SECONDS:
                found = f"took {seconds:.0f} seconds"
            elif grown >= INPUT_BYTES:
                found = f"took {grown / 1e9:.1f} GB"
            if found not in ("taken", "refused"):
                raise FindingError(f"{name} {number}: {found}")
            outcomes[found] += 1
    return outcomes


def _outcome(read: Callable[[bytes], None], content: bytes) -> str:
    """Whether an input was taken or refused, or what else happened."""
    try:
        read(content)
    except (ValueError, TypeError, OSError) as error:
        return f"more than one line: {error}" if "\n" in str(error) else "refused"
    except Exception:
        return traceback.format_exc()
    return "taken"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_batch(name: str, seed: int, first: int, note: Path) -> tuple[Counter[str], str]:
    """One batch in its own process: outcomes, and what was found."""
    command = [sys.executable, "-m", "scripts.fuzz", "--batch", name]
    command += [str(seed), str(first), str(note)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BATCH_SECONDS)
    except subprocess.TimeoutExpired:
        return Counter(), f"{name} {note.read_text()}: hangs"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()[-6:]
        where = f"{name} {note.read_text()}"
        return Counter(), f"{where}: exit {done.returncode}: {' | '.join(lines)}"
    return Counter(json.loads(done.stdout)), ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--batch", nargs=4)
    given = parser.parse_args()
    if given.batch:
        name, seed, first, note = given.batch
        print(json.dumps(run_inputs(name, int(seed), int(first), BATCH, Path(note))))
        return 0
    names, outcomes, findings = TARGETS, Counter[str](), []
    started, n_round = time.monotonic(), 0
    note = Path(tempfile.mkdtemp(prefix="graphconv-fuzz-"), "number")
    while time.monotonic() - started < given.seconds:
        for name in names:
            found, finding = run_batch(name, given.seed, n_round * BATCH, note)
            outcomes += found
            if finding:
                findings.append(finding)
                print(finding, file=sys.stderr, flush=True)
        n_round += 1
    shutil.rmtree(note.parent)
    summary = {
        "inputs": sum(outcomes.values()),
        **outcomes,
        "targets": len(names),
        "findings": findings,
        "seconds": round(time.monotonic() - started),
    }
    print(json.dumps(summary, indent=1))
    if given.output is not None:
        given.output.write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
