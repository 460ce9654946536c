"""Kill commands wherever they change the disk; does a rerun make all whole? `make faults`.

    python -m scripts.faults [--every N] [--output FILE.json]

A command runs in a forked process that ends, as by kill -9, at its n-th call that opens a file for
writing, renames, removes, makes or empties something: no clean-up runs. Then the same command runs
again. It must end well, with the bytes of a run that nobody disturbed; until then, whatever had
been there must be whole, the old or the new. The same with a disk that is full, and one that can
only be read, from the n-th call on.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")
KILLED = 137
MODES = ("kill", "full", "read-only")
_ERRORS = {"full": errno.ENOSPC, "read-only": errno.EROFS}
TRAIN = ("train", "karate", "--max-epochs", "4", "--checkpoint-seconds", "0", "-o", "m")
INGEST = ("ingest", "--edges", "t/edges.csv", "--nodes", "t/nodes.csv", "-o", "g")


@dataclass(frozen=True)
class Scenario:
    """A command, what must be there before it, and the files whose bytes must be the same."""

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    again: tuple[str, ...] = ()  # what is added to the command when it runs again
    results: tuple[str, ...] = ()


SCENARIOS = {
    "train": Scenario(TRAIN, (), ("--resume",), ("m/model.safetensors", "m/predictions.csv")),
    "train over a model": Scenario(
        (*TRAIN, "--seed", "1"), (TRAIN,), ("--resume",), ("m/model.safetensors",)
    ),
    "baseline": Scenario(
        ("train", "karate", "--model", "label-propagation", "-o", "b"),
        results=("b/predictions.csv", "b/model.safetensors"),
    ),
    "ingest": Scenario(INGEST, results=("g/adjacency.indices.bin", "g/labels.bin", "g/ids.arrow")),
    "ingest over a graph": Scenario(
        (*INGEST, "--directed"), (INGEST,), results=("g/adjacency.indices.bin",)
    ),
    "partition": Scenario(
        ("partition", "g", "--parts", "2", "--method", "contiguous"),
        (INGEST,),
        results=("g/parts-2/assignment.bin", "g/parts-2/part-1/adjacency.indices.bin"),
    ),
    "predict": Scenario(("predict", "m", "-o", "p.csv"), (TRAIN,), results=("p.csv", "p.csv.json")),
    "report": Scenario(("report", "m"), (TRAIN,), results=("m/model.safetensors",)),
    "compare": Scenario(
        ("compare", "karate", "--methods", "label-propagation", "--splits", "2", "-o", "c"),
        results=(),
    ),
    "generate": Scenario(
        ("generate", "random", "--nodes", "20", "--edges", "40", "-o", "r"),
        results=("r/edges.parquet",),
    ),
}


class Disturbance:
    """An audit hook that counts changes of the disk and strikes at one of them, or from it on."""

    def __init__(self, folder: Path, mode: str, at: int | None) -> None:
        self.folder, self.mode, self.at = str(folder), mode, at
        self.n_changes = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._changes_the_disk(event, arguments):
            return
        self.n_changes += 1
        if self.at is None or self.n_changes < self.at:
            return
        if self.mode == "kill":
            os._exit(KILLED)
        number = _ERRORS[self.mode]
        # Removing is possible on a full disk.
        if not (self.mode == "full" and event in ("os.remove", "os.rmdir")):
            raise OSError(number, os.strerror(number), str(arguments[0]))

    def _changes_the_disk(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            return bool(writes) and self._is_here(path)
        return event in _CHANGES and self._is_here(arguments[0])

    def _is_here(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return isinstance(path, int)
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder)


def run_forked(
    folder: Path, command: tuple[str, ...], mode: str, at: int | None
) -> tuple[int, int]:
    """Exit code of a command in a process of its own, and how often it changed the disk."""
    tally, reader = folder.with_name("tally"), os.fork()
    if reader == 0:
        code = 1
        try:
            os.chdir(folder)
            out = os.open(folder.with_name("output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            from graphconv.commands import cli

            watch = Disturbance(folder, mode, at)
            sys.argv = ["graphconv", *command]
            sys.addaudithook(watch)
            code = cli._run()
            watch.at = None
            sys.stdout.flush()
            sys.stderr.flush()
            tally.write_text(str(watch.n_changes))
        finally:
            os._exit(code)
    _, status = os.waitpid(reader, 0)
    n_changes = int(tally.read_text()) if tally.exists() else 0
    tally.unlink(missing_ok=True)
    return os.waitstatus_to_exitcode(status), n_changes


def checksums(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in names
        if (folder / name).is_file()
    }


@contextmanager
def workplace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graphconv-faults-") as folder:
        yield Path(folder).resolve()


def prepare(root: Path, scenario: Scenario) -> Path:
    """A folder with all that must be there before the command."""
    start = root / "start"
    shutil.rmtree(start, ignore_errors=True)
    (start / "t").mkdir(parents=True)
    edges = "".join(f"n{i},n{(i * i + 1) % 9}\n" for i in range(9))
    (start / "t" / "edges.csv").write_text(f"source,target\n{edges}")
    nodes = "".join(f"n{i},{'ab'[i % 2]},{i / 2}\n" for i in range(9))
    (start / "t" / "nodes.csv").write_text(f"id,label,x\n{nodes}")
    for command in scenario.before:
        code, _ = run_forked(start, command, "kill", None)
        assert code == 0, (command, (root / "output").read_text())
    return start


def disturb(root: Path, name: str, mode: str, every: int) -> Iterator[str]:
    """Strike at every n-th change; yields "same", "refused" or what else came of it."""
    scenario = SCENARIOS[name]
    start = prepare(root, scenario)
    whole = root / "whole"
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(start, whole)
    code, n_changes = run_forked(whole, scenario.command, "kill", None)
    assert code == 0, (root / "output").read_text()
    old, new = (checksums(place, scenario.results) for place in (start, whole))
    for at in range(1, n_changes + 1, every):
        place = root / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(start, place)
        code, _ = run_forked(place, scenario.command, mode, at)
        said = (root / "output").read_text()
        found = checksums(place, scenario.results)
        if any(found.get(file, old.get(file)) not in (old.get(file), new[file]) for file in new):
            yield f"{name}, {mode} at {at}: half a file is in place"
        elif {*old} - {*found}:
            yield f"{name}, {mode} at {at}: {min({*old} - {*found})} is gone"
        elif "Traceback" in said:
            yield f"{name}, {mode} at {at}: {said.strip().splitlines()[-1]}"
        elif mode != "kill" and code not in (0, 2):
            yield f"{name}, {mode} at {at}: exit {code}"
        else:
            yield _after(root, place, scenario, new, f"{name}, {mode} at {at}")


def _after(root: Path, place: Path, scenario: Scenario, new: dict[str, str], what: str) -> str:
    code, _ = run_forked(place, (*scenario.command, *scenario.again), "kill", None)
    if code != 0:
        return f"{what}: the rerun says {(root / 'output').read_text().strip()[-200:]}"
    if checksums(place, scenario.results) != new:
        return f"{what}: the rerun gives other bytes"
    hidden = [path.name for path in place.iterdir() if path.name.startswith(".")]
    return f"{what}: {hidden[0]} is left" if hidden else "same"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    import graphconv.estimators.compare
    import graphconv.training.fit  # noqa: F401  # once, not in every process

    started, outcomes, findings = time.monotonic(), Counter[str](), []
    for name in SCENARIOS:
        for mode in given.modes:
            with workplace() as root:
                for found in disturb(root, name, mode, given.every):
                    outcomes[mode] += 1
                    if found != "same":
                        findings.append(found)
                        print(found, file=sys.stderr, flush=True)
        print(name, dict(outcomes), file=sys.stderr, flush=True)
    summary = {
        "points": sum(outcomes.values()),
        **outcomes,
        "findings": findings,
        "seconds": round(time.monotonic() - started),
    }
    print(json.dumps(summary, indent=1))
    if given.output is not None:
        given.output.write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
