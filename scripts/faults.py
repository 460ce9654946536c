"""Strike at every system call that changes the disk; does a rerun make all whole? `make faults`.

    python -m scripts.faults [--every N] [--modes kill torn full read-only] [--log FILE.jsonl]

A command runs in a forked process in which `faults.c` counts the calls that write, rename, remove,
make, cut or flush a file. At the n-th one the process ends as by kill -9 ("kill"), after half of
a write ("torn"), or the disk is full or can only be read from then on. Then the same command runs
again. It must end well with the bytes of a run that nobody disturbed, and with no other files, or
refuse in one line; until then whatever had been there must be whole, the old or the new.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.faults_scenarios import SCENARIOS, Scenario, make_tables, prepare
from scripts.forked_imports import import_what

MODES = ("kill", "torn", "full", "read-only")
NUMBERS = {"count": 0, "kill": 1, "torn": 2, "full": 3, "read-only": 4}
_REASONS = {
    "full": ("disk is full", "No space left on device"),
    "read-only": ("Read-only file system",),
}
# Seconds, folders' own names, and checksums of files that hold such.
PASSING = frozenset(("seconds", "finished", "date", "stored_graph", "fingerprint", "model.json"))
SOURCE = Path(__file__).with_name("faults.c")


def build_shim(folder: Path) -> Path:
    """Compile what counts the calls; OSError where that can't be done."""
    library = folder / "faults.so"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr)
    return library


@dataclass(frozen=True)
class Ended:
    """How a command ended, what it said, and how many of its calls changed files."""

    code: int
    said: str
    n_calls: int


class Workplace:
    """A folder for the runs of a scenario, and the shim."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.shim = ctypes.CDLL(str(build_shim(self.root)))
        self.output = self.root / "output"
        for name in ("home", "tmp"):
            (self.root / name).mkdir()

    def run(self, place: Path, command: tuple[str, ...], mode: str = "count", at: int = 0) -> Ended:
        """Run a command in a process of its own, in the folder `place`, and disturb it."""
        with mmap.mmap(-1, mmap.PAGESIZE) as tally:
            process = os.fork()
            if process == 0:
                code = 70
                try:
                    code = self._become(place, command, tally, mode, at)
                finally:
                    os._exit(code)
            _, status = os.waitpid(process, 0)
            n_calls = int.from_bytes(tally[:8], "little")
        said = self.output.read_text(errors="replace")
        return Ended(os.waitstatus_to_exitcode(status), said, n_calls)

    def _become(
        self, place: Path, command: tuple[str, ...], tally: mmap.mmap, mode: str, at: int
    ) -> int:
        out = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        self.move_in(place)
        from graphconv.commands import cli

        sys.argv = ["graphconv", *command]
        counter = ctypes.addressof(ctypes.c_char.from_buffer(tally))
        folder = os.fsencode(f"{place}/")
        error = self.shim.watch(ctypes.c_void_p(counter), ctypes.c_int64(at), NUMBERS[mode], folder)
        assert error == 0, os.strerror(error)
        code = cli._run()
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def move_in(self, place: Path) -> None:
        """Have this process keep everything in our folders, what it downloads among it."""
        os.chdir(place)
        os.environ |= {
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "GRAPHCONV_CACHE": str(place / "cache"),
        }
        tempfile.tempdir = None
        prepare(place)

    def fresh(self, name: str, like: Path | None = None) -> Path:
        place = self.root / name
        shutil.rmtree(place, ignore_errors=True)
        if like is None:
            place.mkdir()
        else:
            shutil.copytree(like, place, symlinks=True)
        return place


def checksums(folder: Path) -> dict[str, str]:
    """What a rerun must give again, of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(lasting(path)).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lasting(path: Path) -> bytes:
    """The content of a file without what differs from run to run: times, and what they enter."""
    content = path.read_bytes()
    with suppress(ValueError):
        if path.suffix == ".json":
            return json.dumps(_without_times(json.loads(content))).encode()
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in content.splitlines()]
            return json.dumps(_without_times(lines)).encode() + content[-1:]
    if content.startswith(b"time,") or path.suffix in (".md", ".html"):
        return re.sub(rb"\d{4}-\d\d-\d\d(T[\d:.+]+Z?)?", b"", content)
    return content


def _without_times(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_times(tree[key]) for key in tree if key not in PASSING}
    return [_without_times(branch) for branch in tree] if isinstance(tree, list) else tree


def ends_well(picture: Path) -> bool:
    endings = {".png": b"IEND\xaeB`\x82", ".svg": b"</svg>\n"}
    return picture.read_bytes().endswith(endings[picture.suffix])


class Trial:
    """A scenario made ready: what was there before, and what an undisturbed run makes of it."""

    def __init__(self, work: Workplace, name: str, scenario: Scenario) -> None:
        self.work, self.name, self.scenario = work, name, scenario
        self.start = work.fresh("start")
        make_tables(self.start)
        for command in scenario.before:
            self._must(self.start, command)
        self.old = checksums(self.start)
        self.n_calls = self._must(work.fresh("whole", self.start), scenario.command)
        self.new = checksums(work.root / "whole")
        # What two runs make differently no rerun can be asked for.
        again = work.fresh("again", self.start)
        self._must(again, scenario.command)
        other = checksums(again)
        differ = {file for file in self.new if other.get(file) != self.new[file]}
        assert differ <= {*scenario.with_times}, (name, differ)

    def _must(self, place: Path, command: tuple[str, ...]) -> int:
        ended = self.work.run(place, command)
        assert ended.code == 0, (command, ended)
        return ended.n_calls

    def strike(self, mode: str, at: int) -> str:
        """What came of it: "same", "refused: ...", or what is wrong."""
        place = self.work.fresh("place", self.start)
        ended = self.work.run(place, self.scenario.command, mode, at)
        found = checksums(place)
        for file in self.old.keys() & self.new.keys():
            if file not in found:
                return f"{file} is gone"
        for file in (self.new.keys() & found.keys()) - {*self.scenario.growing}:
            if not self._is_whole(place, file, found, self.old.get(file)):
                return f"half of {file} is in place"
        wrong = _wrong_words(ended, mode)
        return wrong or self._rerun(place)

    def _is_whole(
        self, place: Path, file: str, found: dict[str, str], old: str | None = None
    ) -> bool:
        if file in self.scenario.with_times:
            return ends_well(place / file)
        return found[file] in (old, self.new[file])

    def _rerun(self, place: Path) -> str:
        ended = self.work.run(place, (*self.scenario.command, *self.scenario.again))
        if ended.code == 2 and _is_one_line(ended.said):
            return f"refused: {ended.said.strip().splitlines()[-1]}"
        if ended.code != 0:
            return f"the rerun ends with {ended.code}: {ended.said.strip()[-300:]}"
        found = checksums(place)
        if {*found} != {*self.new}:
            strange = min({*found} ^ {*self.new})
            return f"after the rerun {strange} is {'left' if strange in found else 'missing'}"
        differ = [file for file in found if not self._is_whole(place, file, found)]
        return f"the rerun gives other bytes in {min(differ)}" if differ else "same"


def _is_one_line(said: str) -> bool:
    errors = [line for line in said.splitlines() if line.startswith("graphconv: ")]
    return len(errors) == 1 and "Traceback" not in said


def _wrong_words(ended: Ended, mode: str) -> str:
    """What is wrong with what a disturbed command said, if anything."""
    if "Traceback" in ended.said:
        return f"traceback: {ended.said.strip().splitlines()[-1]}"
    if mode in _REASONS and ended.code != 0:
        last = (ended.said.strip().splitlines() or [""])[-1]
        if ended.code != 2:
            return f"exit {ended.code}: {last}"
        if not (_is_one_line(ended.said) and any(reason in last for reason in _REASONS[mode])):
            return f"says: {last}"
    return ""


@contextmanager
def workplace() -> Iterator[Workplace]:
    in_memory = Path("/dev/shm")
    place = in_memory if os.access(in_memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="graphconv-faults-", dir=place) as folder:
        yield Workplace(Path(folder))


def warm_up(work: Workplace, names: Collection[str]) -> None:
    """Import what the commands import, once, instead of in every process."""

    def run_all() -> None:
        place = work.fresh("warm")
        make_tables(place)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.dup2(2, 1)
        work.move_in(place)
        from graphconv.commands import cli

        for name in names:
            for command in (*SCENARIOS[name].before, SCENARIOS[name].command):
                sys.argv = ["graphconv", *command]
                cli._run()

    import_what(run_all)


class Log:
    """Outcomes, kept in a file if there is one, so that a run can be interrupted."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.outcomes: dict[tuple[str, str, int], str] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                name, mode, at, outcome = json.loads(line)
                self.outcomes[name, mode, at] = outcome

    def add(self, name: str, mode: str, at: int, outcome: str) -> None:
        self.outcomes[name, mode, at] = outcome
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([name, mode, at, outcome]) + "\n")

    def summary(self) -> dict[str, Any]:
        table: dict[str, Counter[str]] = {mode: Counter() for mode in MODES}
        findings = []
        for (name, mode, at), outcome in self.outcomes.items():
            kind = outcome.partition(":")[0]
            if kind not in ("same", "refused"):
                findings.append(f"{name}, {mode} at {at}: {outcome}")
                kind = "found"
            table[mode][kind] += 1
        return {"points": len(self.outcomes), **table, "findings": findings}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--scenarios", nargs="+", choices=tuple(SCENARIOS), default=[*SCENARIOS])
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["GRAPHCONV_THREADS"] = "1"
    log, started = Log(given.log), time.monotonic()
    with workplace() as work:
        warm_up(work, given.scenarios)
        for name in given.scenarios:
            trial = Trial(work, name, SCENARIOS[name])
            print(f"{name}: {trial.n_calls} calls", file=sys.stderr, flush=True)
            for mode in given.modes:
                for at in range(1, trial.n_calls + 1, given.every):
                    if (name, mode, at) in log.outcomes:
                        continue
                    outcome = trial.strike(mode, at)
                    log.add(name, mode, at, outcome)
                    if outcome != "same":
                        print(f"{name}, {mode} at {at}: {outcome}", file=sys.stderr, flush=True)
    summary = {**log.summary(), "seconds": round(time.monotonic() - started)}
    print(json.dumps(summary, indent=1))
    return 1 if summary["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
