"""Mutation testing: small faults are put into the source one at a time, and the tests must notice.

    python scripts/mutants.py estimators/baselines paper --sample 40 --seed 0

For each folder of src/graphconv it runs the folder's tests once, noting which of them reach which
line. Then each fault is tried in a process of its own against the tests that reach its line. What
no test notices is printed, unless `scripts/mutants_known.json` gives a reason for it, and the
share of survivors at the end of each folder. Faults that were noticed are kept in a log and not
tried again while their file stays as it is, so that a long search can be taken in pieces.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "graphconv"
KNOWN = ROOT / "scripts" / "mutants_known.json"
LOG = ROOT / "build" / "mutants.txt"  # a line for each fault that was noticed
# The tests that a folder's faults are tried against.
TESTS = {
    "models": ["test_model", "test_propagation", "test_settings", "test_spectral_filter"],
    "training": [
        "test_training", "test_early_stopping", "test_fitting", "test_calibration",
        "test_preset_search", "test_resume", "test_checkpoint", "test_replicas",
    ],
    "estimators/baselines": [
        "test_baselines", "test_objectives_by_hand", "contract/test_estimators",
    ],
    "paper": ["test_experiments", "test_paper_numbers", "test_no_leaks", "test_departures"],
    "results": ["test_explain", "test_predictions", "test_suggest", "test_inference"],
}  # fmt: skip
MOST_TESTS = 25  # of those that reach a line, the quickest
QUICK_SECONDS = 0.5  # tests that faults in constants are tried against take no longer
FEWEST_SECONDS = 60.0  # what a fault may take before it counts as noticed, at least

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
# Words for people and hints for the interpreter: faults in them change no result.
_SKIPPED_KEYWORDS = {"stacklevel", "chunk", "cost", "markersize", "alpha", "dpi"}


@dataclass(frozen=True)
class Mutant:
    """One fault: what stands in a file between two offsets, and what is put there instead."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str
    runs_at_import: bool

    @property
    def name(self) -> str:
        place = self.path.relative_to(SOURCE).as_posix()
        return f"{place}:{self.line}: {_one_line(self.before)} -> {_one_line(self.after)}"

    @property
    def key(self) -> str:
        """The name without the line, which moves when the file is edited."""
        place = self.path.relative_to(SOURCE).as_posix()
        return f"{place}: {_one_line(self.before)} -> {_one_line(self.after)}"

    @property
    def tried(self) -> str:
        """What the log says of it: the fault, and a digest of the file it was put into."""
        return f"{self.name} [{hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]}]"

    def code(self) -> CodeType:
        source = self.path.read_bytes()
        changed = source[: self.start] + self.after.encode() + source[self.end :]
        return compile(changed, str(self.path), "exec")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# Making faults


def mutants_of(path: Path) -> list[Mutant]:
    """All faults that are known for a file, in the order of its lines."""
    source = path.read_bytes()
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    tree = ast.parse(source)
    # Lines of functions, without those of their signatures, which run at import.
    bodies = [
        (node.body[0].lineno - 1, node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    found = []
    for node, after in _changes(tree):
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        is_inside = any(low < node.lineno <= high for low, high in bodies)
        one = Mutant(path, node.lineno, start, end, before, after, not is_inside)
        try:
            one.code()
        except SyntaxError:
            continue
        found.append(one)
    return sorted(found, key=lambda one: (one.start, one.end))


def _changes(tree: ast.AST) -> Iterator[tuple[Any, str]]:
    """Pairs of a node and the text that is to stand in its place."""
    for node in _worth_changing(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            other = _COMPARISONS[type(node.ops[0])]()
            yield node, _text(ast.Compare(node.left, [other, *node.ops[1:]], node.comparators))
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            if not isinstance(node.left, ast.Constant | ast.JoinedStr) or not isinstance(
                getattr(node.left, "value", None), str
            ):
                yield node, _text(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))
        elif isinstance(node, ast.BoolOp):
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, _text(ast.BoolOp(other_op, node.values))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, _text(node.operand)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = node.value
            changed = (not value) if isinstance(value, bool) else value + 1
            yield node, repr(changed if not isinstance(value, float) else value * 2 or 1.0)
        elif isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Name | ast.Call):
            yield node.test, f"(not {ast.unparse(node.test)})"
        elif _is_left_out(node):
            yield node, "pass"


def _is_left_out(node: ast.AST) -> bool:
    """Whether a statement can be left out and the rest still runs: a call, a change in place."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    is_change = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    return is_call or is_change or isinstance(node, ast.AugAssign)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _worth_changing(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, without what no result depends on."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg in _SKIPPED_KEYWORDS:
                continue
            if isinstance(child, ast.AnnAssign) and child.value is None:
                continue
            yield child
            yield from _worth_changing(child)


# Running tests in a child process


class _OneFault(importlib.abc.MetaPathFinder):
    """Imports one module with a fault in it, and leaves all others alone."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(SOURCE.parent).with_suffix("").parts
        self.module = ".".join(parts).removesuffix(".__init__")
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.module:
            return None
        mutant = self.mutant

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return mutant.code()

        is_package = mutant.path.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            fullname,
            mutant.path,
            loader=Loader(fullname, str(mutant.path)),
            submodule_search_locations=[str(mutant.path.parent)] if is_package else None,
        )


class _Reach:
    """A pytest plug-in: which lines of some files each test runs, and how long it takes."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.lines: dict[str, dict[int, list[str]]] = {file: {} for file in files}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        self.test = item.nodeid
        self.started = time.perf_counter()
        sys.settrace(self._enter)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        sys.settrace(None)
        self.seconds[nodeid] = time.perf_counter() - self.started

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            reached = self.lines[frame.f_code.co_filename].setdefault(frame.f_lineno, [])
            if not reached or reached[-1] != self.test:
                reached.append(self.test)
        return self._line


def in_child(work: Any, seconds: float) -> int | None:
    """Exit status of some work done in a forked process; None if it took too long."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.setpgid(0, 0)
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            status = int(work())
        finally:
            os._exit(status)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run_pytest(tests: Sequence[str], plugins: Sequence[Any] = ()) -> int:
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
    folder = tempfile.mkdtemp(prefix="mutant-")
    return int(pytest.main([*options, f"--basetemp={folder}/t", *tests], plugins=list(plugins)))


def reach_of(folder: str, files: Sequence[Path]) -> dict[str, Any]:
    """Which tests reach which lines of a folder's files, and how long each takes."""
    tests = [f"tests/{name}.py" for name in TESTS[folder]]
    tests = [test for test in tests if (ROOT / test).is_file()]
    with tempfile.NamedTemporaryFile(suffix=".json") as note:

        def work() -> int:
            plugin = _Reach({str(file) for file in files})
            status = run_pytest(tests, [plugin])
            found = {"lines": plugin.lines, "seconds": plugin.seconds, "failed": plugin.failed}
            found["modules"] = sorted(sys.modules)
            Path(note.name).write_text(json.dumps(found))
            return status

        status = in_child(work, 3600)
        content = Path(note.name).read_text()
        found: dict[str, Any] = json.loads(content) if content else {"failed": []}
    if status != 0:
        raise SystemExit(f"{folder}: the tests must pass without a fault first: {found['failed']}")
    # Imported here once, so that no child has to: all that the tests import but graphconv itself.
    for name in found["modules"]:
        # pytest wants to import its own plug-ins.
        own = ("graphconv", "tests", "conftest", "__main__")
        if name.split(".")[0] not in own and not any(
            w in name for w in ("pytest", "hypothesis", "xdist", "anyio", "execnet")
        ):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    assert not any(name.split(".")[0] == "graphconv" for name in sys.modules)
    return found


def outcome(mutant: Mutant, reach: dict[str, Any]) -> str:
    """Whether a fault is noticed, survived, or is on a line that is not reached."""
    seconds = reach["seconds"]
    tests = reach["lines"][str(mutant.path)].get(str(mutant.line), [])
    if mutant.runs_at_import:
        # Defaults and constants: any test may look at them, so the quick ones all do.
        tests = [test for test in seconds if seconds[test] < QUICK_SECONDS]
    elif not tests:
        return "not reached"
    else:
        tests = sorted(tests, key=lambda test: seconds[test])[:MOST_TESTS]
    expected = sum(seconds[test] for test in tests)

    def work() -> int:
        sys.meta_path.insert(0, _OneFault(mutant))
        return run_pytest(tests)

    return "survived" if in_child(work, FEWEST_SECONDS + 5 * expected) == 0 else "noticed"


def sample(mutants: list[Mutant], number: int | None, seed: int) -> list[Mutant]:
    if number is None or number >= len(mutants):
        return mutants
    drawn = random.Random(seed).sample(range(len(mutants)), number)
    return [mutants[k] for k in sorted(drawn)]


def try_folder(folder: str, options: argparse.Namespace, known: dict[str, str]) -> None:
    base = SOURCE / folder
    files = sorted(
        path for path in base.rglob("*.py") if not options.file or path.name in options.file
    )
    mutants = sample(
        [one for path in files for one in mutants_of(path)], options.sample, options.seed
    )
    noticed = set(LOG.read_text(encoding="utf-8").splitlines()) if LOG.is_file() else set()
    left = [mutant for mutant in mutants if mutant.tried not in noticed]
    todo = f"{len(left)} of {len(mutants)} faults to try"
    print(f"{folder}: {todo}; seeing which tests reach which lines", flush=True)
    reach = reach_of(folder, files)
    n_survived = n_explained = 0
    for mutant in left:
        found = outcome(mutant, reach)
        if found == "noticed":
            LOG.parent.mkdir(exist_ok=True)
            with LOG.open("a", encoding="utf-8") as log:
                log.write(f"{mutant.tried}\n")
            continue
        n_survived += 1
        n_explained += mutant.key in known
        reason = known.get(mutant.key)
        print(f"{found}: {mutant.name}" + (f" ({reason})" if reason else ""), flush=True)
    share = 100 * n_survived / max(1, len(mutants))
    print(
        f"{folder}: {n_survived} of {len(mutants)} faults survived, {share:.1f} %; "
        f"{n_explained} of them with a reason",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=list(TESTS), help="of src/graphconv")
    parser.add_argument("--file", action="append", help="only files of this name")
    parser.add_argument("--sample", type=int, help="faults in each folder; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args()
    unknown = sorted(set(options.folders) - set(TESTS))
    if unknown:
        parser.error(f"folders must be among {', '.join(TESTS)}, got {', '.join(unknown)}")
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(SOURCE.parent)]
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.is_file() else {}
    for folder in options.folders:
        try_folder(folder, options, known)


if __name__ == "__main__":
    main()
