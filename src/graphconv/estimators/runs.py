"""Repeated runs: what is to be run enters, one line per run in a JSON-lines file leaves.

A line is on disk before the next run is taken up, so an interruption costs only what was under way:
the same command then goes on from there. A line carries all settings that decide its result and a
digest of its data, so that runs of other settings or data in the same file are never mixed in. A
setting that is newer than the line counts as the default it has: that is how it was before.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from graphconv import __version__
from graphconv.estimators.baselines import make_estimator
from graphconv.graph import Graph
from graphconv.io.compression import open_binary
from graphconv.io.files import json_text
from graphconv.io.progress import Progress, counter
from graphconv.models.settings import Settings

Record = dict[str, Any]
Runs = dict[str, dict[int, Record]]  # by fingerprint and seed
# A module-level function, since it is sent to other processes by its name.
Task = Callable[["Series", Graph], list[Record]]


@dataclass(frozen=True)
class Series:
    """Runs that differ in their seed only.

    Parameters
    ----------
    experiment, dataset, method : str
    task : callable
        Gets the series and the data set's graph, returns a record a seed: `seed`,
        `test_accuracy`, `validation_accuracy`, `epochs` and `seconds` of each.
    settings : dict
        All that decides the result besides data set and seed; plain values. "gcn" holds settings
        of a GCN, "params" those of the estimator that "method" names: each is completed with the
        defaults of what it leaves out.
    seeds : tuple of int
    chunk : int
        How many seeds to hand to the task at once: some tasks train several side by side.
    cost : float
        A guess at the seconds of one run, for the time that is left.
    is_alone : bool
        Run with nothing beside it and with all threads, to measure time.
    """

    experiment: str
    dataset: str
    method: str
    task: Task
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    chunk: int = 1
    cost: float = 1.0
    is_alone: bool = False

    @property
    def fingerprint(self) -> str:
        """Same for the same work, whichever table asks for it."""
        return _fingerprint(self.task.__qualname__, self.dataset, json_text(self.settings))

    @property
    def name(self) -> str:
        return f"{self.experiment}, {self.dataset}, {self.method}"

    def chunks(self, seeds: Sequence[int]) -> list[Series]:
        """The series cut into pieces of `chunk` seeds, of the seeds given."""
        starts = range(0, len(seeds), self.chunk)
        return [replace(self, seeds=tuple(seeds[at : at + self.chunk])) for at in starts]


def complete_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a series with all defaults written out.

    Examples
    --------
    >>> from graphconv.estimators.runs import complete_settings
    >>> complete_settings({"gcn": {"hidden": (8,)}})["gcn"]["dropout"]
    0.5
    >>> complete_settings({"method": "sgc", "params": {"C": 3.0}})["params"]["n_hops"]
    2
    """
    complete = dict(settings)
    if "gcn" in settings:
        complete["gcn"] = Settings.from_json(settings["gcn"]).to_json()
    if "params" in settings:
        params = {**make_estimator(settings["method"]).get_params(), **settings["params"]}
        params.pop("random_state")  # the seed
        if "ensemble" in params:  # None stands for one
            params["ensemble"] = params["ensemble"] or 1
        complete["params"] = params
    return complete


@functools.lru_cache(maxsize=4096)
def _fingerprint(task: str, dataset: str, settings_text: str) -> str:
    """Digest of completed settings, which are given as JSON."""
    what = [task, dataset, complete_settings(json.loads(settings_text))]
    text = json.dumps(json.loads(json_text(what)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _recorded_fingerprint(record: Record) -> str:
    """That of the series a line belongs to; empty where there is no such series any more."""
    try:
        return _fingerprint(record["task"], record["dataset"], json_text(record["settings"]))
    # A line of an earlier form, a setting that is gone, a method that is no text.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return ""


class RunLog:
    """The JSON-lines file of finished runs, held by one process at a time.

    Parameters
    ----------
    path : Path
        Made if it is not there. A last line that was torn by a crash is cut off.

    Attributes
    ----------
    runs : dict
        All runs, by the fingerprint of their series and by seed.

    Examples
    --------
    >>> import tempfile
    >>> from graphconv.estimators.runs import RunLog, Series, record_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "runs.jsonl"
    ...     series = Series("table2", "cora", "gcn", print, {"gcn": {}}, seeds=(0, 3))
    ...     with RunLog(path) as log:
    ...         log.append([record_of(series, {"seed": 3, "test_accuracy": 81.5})])
    ...     with RunLog(path) as log:
    ...         log.missing(series)
    [0]
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.runs: Runs = {}
        self._file = path.open("a+b")
        try:
            _lock(self._file.fileno(), path)
            self._load()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _load(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        self.runs = _runs_of(content[:whole], self.path)

    def append(self, records: Iterable[Record]) -> None:
        """Put finished runs on disk, before returning."""
        records = list(records)
        self._file.write("".join(json_text(record) + "\n" for record in records).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        for record in records:
            _keep(self.runs, record)

    def records(self, series: Series) -> list[Record]:
        """All finished runs of a series, by seed; may be more than the series asks for."""
        return [run for _, run in sorted(self.runs.get(series.fingerprint, {}).items())]

    def missing(self, series: Series, data: str | None = None) -> list[int]:
        """Seeds that are yet to be run, on data of this digest if one is given."""
        done = {
            run["seed"] for run in self.records(series) if data is None or run.get("data") == data
        }
        return [seed for seed in series.seeds if seed not in done]

    def newest(self, wanted: Iterable[Series]) -> str:
        """When the last run of some series was finished; empty if there is none."""
        return max(
            (run["finished"] for series in wanted for run in self.records(series)), default=""
        )


def _runs_of(content: bytes, path: Path) -> Runs:
    runs: Runs = {}
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            record: Record = json.loads(line)
            int(record["seed"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise ValueError(
                f"{path}, line {number}: must be a run as JSON, got {line[:60]!r}; "
                "remove the line to have the run repeated"
            ) from None
        _keep(runs, record)
    return runs


def _keep(runs: Runs, record: Record) -> None:
    known = runs.setdefault(_recorded_fingerprint(record), {})
    # The newest run says which data counts.
    if known and next(iter(known.values())).get("data") != record.get("data"):
        known.clear()
    known[int(record["seed"])] = record


def read_runs(path: Path) -> Runs:
    """The runs of a log that nothing is added to; it may be compressed."""
    try:
        with open_binary(path) as file:
            content = file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from None
    return _runs_of(content, path)


# What a line says besides the outcome of its run.
_CIRCUMSTANCES = {
    "experiment", "dataset", "method", "task", "settings", "version", "finished", "seconds",
}  # fmt: skip


@dataclass(frozen=True)
class Repeats:
    """Runs of one series that are in two logs.

    Parameters
    ----------
    name : str
        Experiment, data set and method.
    before, now : tuple of Record
        The same seeds in both.
    """

    name: str
    before: tuple[Record, ...]
    now: tuple[Record, ...]

    @property
    def n_same(self) -> int:
        """How many came out the same, to the last digit of all that both logs say."""
        return sum(map(_is_same, self.before, self.now))


def _is_same(before: Record, now: Record) -> bool:
    told = (before.keys() & now.keys()) - _CIRCUMSTANCES
    return all(before[key] == now[key] for key in told)


def repeats(now: RunLog, before: Runs) -> list[Repeats]:
    """What was run again: every series of which both logs have runs with the same seeds.

    Examples
    --------
    >>> import tempfile
    >>> from graphconv.estimators.runs import RunLog, Series, read_runs, record_of, repeats
    >>> series = Series("table2", "cora", "gcn", print, {"gcn": {}}, seeds=(0, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, figures in (("before", (81.0, 82.0)), ("now", (81.0, 82.1))):
    ...         runs = [{"seed": seed, "test_accuracy": x} for seed, x in enumerate(figures)]
    ...         with RunLog(Path(folder) / name) as log:
    ...             log.append(record_of(series, run) for run in runs)
    ...     with RunLog(Path(folder) / "now") as log:
    ...         (found,) = repeats(log, read_runs(Path(folder) / "before"))
    >>> found.name, len(found.now), found.n_same
    ('table2, cora, gcn', 2, 1)
    """
    found = []
    for fingerprint, runs in now.runs.items():
        seeds = sorted(runs.keys() & before.get(fingerprint, {}).keys()) if fingerprint else []
        if seeds:
            one = runs[seeds[0]]
            found.append(
                Repeats(
                    f"{one['experiment']}, {one['dataset']}, {one['method']}",
                    tuple(before[fingerprint][seed] for seed in seeds),
                    tuple(runs[seed] for seed in seeds),
                )
            )
    return found


def record_of(series: Series, run: Record) -> Record:
    """A line of the log: what was run, and what came out."""
    return {
        "experiment": series.experiment,
        "dataset": series.dataset,
        "method": series.method,
        **run,
        "task": series.task.__qualname__,
        "settings": complete_settings(series.settings),
        "version": __version__,
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _lock(descriptor: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"{path.parent} must be used by one run of graphconv at a time, "
            "but another is running: wait for it, or name another folder"
        ) from None
    except OSError:  # a file system without locks
        return


def count_by_cost(progress: Progress, pieces: Sequence[Series]) -> Callable[[Series], None]:
    """What to call with each piece that is done; tells the share of the whole cost that is."""

    def cost(piece: Series) -> int:
        return round(1000 * len(piece.seeds) * piece.cost)

    advance = counter(progress, "runs", sum(map(cost, pieces)))
    return lambda piece: advance(cost(piece))
