"""Feed changed files to every reader, for minutes or hours: `make fuzz`.

    python -m scripts.fuzz --seconds 600 [--inputs N] [--seed N] [--state FILE.json]

Every input follows from the seed, the kind of file and its number, so that each can be made again.
The kinds take turns, each in a forked process of its own: one that dies, hangs, grows beyond
`INPUT_BYTES` or raises anything but an error of one line is a finding, and the next input goes on
in another process. With a state file a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scripts.forked_imports import import_what

if TYPE_CHECKING:
    from scripts.fuzz_targets import Target

# When a turn is over; processor seconds and bytes that a single input may take.
TURN_SECONDS, TURN_INPUTS = 5.0, 20_000
INPUT_SECONDS, INPUT_BYTES = 20, 1 << 30
# What protects the machine from an input that takes far more.
ADDRESS_BYTES = 4 << 30
# A process that is silent for so long waits for something that never comes.
SILENT_SECONDS = 900
KINDS = (
    "own.npz", "scipy.npz", "g.graphml", "g.gexf", "g.mtx", "edges.csv", "nodes.csv",
    "edges.csv.gz", "edges.csv.bz2", "edges.csv.xz", "edges.csv.zst", "edges.csv.zip",
    "edges.duckdb", "columns.csv", "triples.csv", "types.csv", "inspect", "features.csv",
    "prior.csv", "results.json", "edges.jsonl", "nodes.json", "nodes.parquet", "nodes.xlsx",
    "edges.db",
    "features.mtx", "features.npz", "labels.csv", "runs.jsonl", "ingest",
    "stored/manifest.json", "stored/ids.arrow", "stored/adjacency.indptr.bin",
    "stored/adjacency.indices.bin", "stored/adjacency.data.bin", "stored/features.indptr.bin",
    "stored/features.indices.bin", "stored/features.data.bin", "stored/degree.bin",
    "stored/labels.bin", "stored/train_index.bin", "part/manifest.json", "part/adjacency.indices",
    "part/lent", "part/halo_bounds", "part/nodes", "model.json", "model.safetensors", "graph.npz",
    "training", "splits.npz", "out_of_fold.npz", "provenance.json", "cached.npz", "ind.x.graph",
    "ind.x.y", "ind.x.allx", "ind.x.test.index", "nell.tar", "baseline/model.json",
    "baseline/model.safetensors", "tables/model.json", "report", "answer", "query",
)  # fmt: skip
OUTCOMES = ("taken", "refused")
_TALLY = struct.Struct("<4q")  # the number of the input, taken, refused, most bytes


class FindingError(Exception):
    """An input that was neither taken nor refused as it should be."""


def run_input(target: Target, name: str, seed: int, number: int) -> tuple[str, int]:
    """Whether an input was taken or refused, and by how many bytes the process grew."""
    content = target.made(random.Random(f"{seed} {name} {number}"), number)
    before = _peak()
    found = _outcome(target.read, content)
    grown = _peak() - before
    if grown >= INPUT_BYTES:
        found = f"took {grown / 1e9:.1f} GB"
    if found not in OUTCOMES:
        raise FindingError(found)
    return found, grown


def run_inputs(target: Target, name: str, seed: int, numbers: range) -> Counter[str]:
    """Outcomes of some inputs in this process; raises FindingError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Counter(run_input(target, name, seed, number)[0] for number in numbers)


def _outcome(read: Callable[[bytes], None], content: bytes) -> str:
    try:
        read(content)
    except (ValueError, TypeError, OSError) as error:
        return f"more than one line: {error}" if "\n" in str(error) else "refused"
    except Exception:
        return traceback.format_exc()
    return "taken"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Turn:
    """A forked process that reads inputs of one kind until its time is up."""

    def __init__(self, name: str, seed: int, first: int, seconds: float) -> None:
        self.name, self.seed, self.first, self.seconds = name, seed, first, seconds
        self.tally = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the process
        _TALLY.pack_into(self.tally, 0, first, 0, 0, 0)

    def run(self) -> str:
        """What was found, or nothing; `tally` says how far it came."""
        with tempfile.TemporaryFile() as said:
            return self._run(said)

    def _run(self, said: IO[bytes]) -> str:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                self._read_inputs()
                code = 0
            except FindingError as finding:
                os.write(2, str(finding).encode())
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)
        code = self._wait(process)
        if code == 0:
            return ""
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()[-4:]
        how = "hangs" if code == -signal.SIGPROF else f"exit {code}"
        return f"{self.name} {self.numbers()[0]}: {how}: {' | '.join(lines)}"

    def numbers(self) -> tuple[int, int, int, int]:
        number, taken, refused, grown = _TALLY.unpack_from(self.tally)
        return number, taken, refused, grown

    def _read_inputs(self) -> None:
        from scripts.fuzz_targets import all_targets, temporary_folder

        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_BYTES,) * 2)
        counts, most = Counter[str](), 0
        with temporary_folder() as folder:
            warnings.simplefilter("ignore")
            target, number = all_targets(Path(folder))[self.name], self.first
            until = time.monotonic() + self.seconds
            while time.monotonic() < until and number < self.first + TURN_INPUTS:
                # Counts processor time, in C as well, and ends the process.
                signal.setitimer(signal.ITIMER_PROF, INPUT_SECONDS)
                found, grown = run_input(target, self.name, self.seed, number)
                counts[found] += 1
                most = max(most, grown)
                number += 1
                _TALLY.pack_into(self.tally, 0, number, counts["taken"], counts["refused"], most)
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _wait(self, process: int) -> int:
        last, since = -1, time.monotonic()
        while True:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if self.numbers()[0] != last:
                last, since = self.numbers()[0], time.monotonic()
            if time.monotonic() - since > SILENT_SECONDS:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.01)


class State:
    """How far each kind has come, kept in a file if there is one."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self.path = path
        self.values: dict[str, Any] = {"seed": seed, "kinds": {}, "findings": []}
        if path is not None and path.exists():
            self.values = json.loads(path.read_text())
            if self.values["seed"] != seed:
                raise SystemExit(f"{path} must be of seed {seed}, got {self.values['seed']}")

    def kind(self, name: str) -> dict[str, Any]:
        kinds: dict[str, dict[str, Any]] = self.values["kinds"]
        fresh = {"next": 0, "taken": 0, "refused": 0, "most_bytes": 0, "seconds": 0.0}
        return kinds.setdefault(name, fresh)

    def n_inputs(self) -> int:
        return sum(kind["next"] for kind in self.values["kinds"].values())

    def add(self, turn: Turn, finding: str, seconds: float) -> None:
        kind, (number, taken, refused, grown) = self.kind(turn.name), turn.numbers()
        kind["next"] = number + bool(finding)
        kind["taken"] += taken
        kind["refused"] += refused
        kind["most_bytes"] = max(kind["most_bytes"], grown)
        kind["seconds"] += seconds
        if finding:
            self.values["findings"].append(finding)
        if self.path is not None:
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.values, indent=1) + "\n")
            new.replace(self.path)

    def summary(self) -> dict[str, Any]:
        kinds = self.values["kinds"].values()
        return {
            "inputs": self.n_inputs(),
            **{outcome: sum(kind[outcome] for kind in kinds) for outcome in OUTCOMES},
            "kinds": sum(kind["next"] > 0 for kind in kinds),
            "most_bytes": max((kind["most_bytes"] for kind in kinds), default=0),
            "findings": self.values["findings"],
            "seconds": round(sum(kind["seconds"] for kind in kinds)),
        }


def turns(state: State, seed: int, seconds: float, n_wanted: int) -> Iterator[str]:
    """Let the kinds take turns until the time is up or enough inputs were read; yields findings."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and state.n_inputs() < n_wanted:
        # Who has had the least time; so all have their turns in a run that goes on, too.
        name = min(KINDS, key=lambda name: state.kind(name)["seconds"])
        before = time.monotonic()
        turn = Turn(name, seed, state.kind(name)["next"], min(TURN_SECONDS, until - before))
        finding = turn.run()
        state.add(turn, finding, time.monotonic() - before)
        if finding:
            yield finding


def _make_targets() -> None:
    from scripts.fuzz_targets import all_targets, temporary_folder

    with temporary_folder() as folder:
        all_targets(Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--inputs", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
    import_what(_make_targets)
    state = State(given.state, given.seed)
    for finding in turns(state, given.seed, given.seconds, given.inputs):
        print(finding, file=sys.stderr, flush=True)
    summary = state.summary()
    print(json.dumps(summary, indent=1))
    return 1 if summary["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
