"""Mutation testing: small faults are put into the source one at a time, and the tests must notice.

    python scripts/mutants.py estimators/baselines paper --sample 40 --seed 0

For each folder of src/graphconv it runs the folder's tests once, noting which of them reach which
line; that is kept until a test file, or a file of the folder, changes. Then each fault is tried
in a process of its own against the tests that reach its line. A test that failed has to pass again
without the fault, or it does not count. What no test notices is printed, with its reason where
`scripts/mutants_known.json` has one, and a table at the end. Faults that were noticed are kept in a
log and not tried again while their file stays as it is, so that a long search can be taken in
pieces. `--publish` keeps the table in measured/mutants.json, which docs/mutants.md is made from.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "graphconv"
KNOWN = ROOT / "scripts" / "mutants_known.json"
LOG = ROOT / "build" / "mutants.txt"  # a line for each fault that was noticed
REACH = ROOT / "build" / "mutants_reach"  # what each test file reaches, one file each
PUBLISHED = ROOT / "measured" / "mutants.json"
# The tests that a folder's faults are tried against, besides the examples in its docstrings: those
# that ask something of its results.
TESTS = {
    "models": [
        "test_model", "test_propagation", "test_settings", "test_spectral_filter", "test_appnp",
        "test_grand", "test_option_groups", "test_golden_models", "test_work", "test_memory",
        "test_summing", "contract/test_models", "test_normalisation", "test_jumping_knowledge",
        "test_paper_numbers",
    ],
    "training": [
        "test_training", "test_early_stopping", "test_fitting", "test_calibration", "test_resume",
        "test_checkpoint", "test_replicas", "test_class_prior", "test_correct_and_smooth",
        "test_strong", "test_objective", "test_diverged", "test_mini_batches",
        "test_golden_models", "test_settings", "test_hostile_files", "test_stored_training",
        "test_held_out", "test_predictions", "test_scores", "test_process_costs",
    ],
    "estimators/baselines": [
        "test_baselines", "test_objectives_by_hand", "test_paper_numbers", "test_no_leaks",
        "test_settings", "test_generated_pages", "contract/test_estimators", "test_position",
    ],
    "paper": [
        "test_experiments", "test_paper_numbers", "test_no_leaks", "test_generated_pages",
        "test_epoch_timing", "test_karate", "test_paper_page", "test_workers",
    ],
    "results": [
        "test_explain", "test_predictions", "test_suggest", "test_inference", "test_drivers",
        "test_labelling", "test_label_file", "test_provenance", "test_held_out",
        "test_methods_life", "test_golden_models", "test_hostile_files",
    ],
}  # fmt: skip
# Only torchrun's processes run these, and they import the files as they are.
ELSEWHERE = {"training/processes.py", "training/part_batches.py"}
# Smaller numbers only keep a division or a root away from zero, and twice as much does so too.
SMALLEST = 1e-9
MOST_SECONDS = 10.0  # that the tests chosen for a fault may take
MOST_SECONDS_EARLY = 30.0  # the same where any test may look at what is changed
QUICK_SECONDS = 0.02  # tests that take no longer need not wait for their turn
AT_ONCE = 20  # faults that are tried before the tests that noticed them run without a fault
FEWEST_SECONDS = 20.0  # of the processor: what takes longer, at least, does not end
PATIENCE = 10  # how much longer than that a busy machine may take

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
# Words for people, guesses of how long a run takes, hints for the interpreter, memory that is given
# back: faults in them change no result.
_SKIPPED_KEYWORDS = {
    "stacklevel", "chunk", "cost", "markersize", "alpha", "dpi", "figsize", "linewidth", "fontsize",
    "strict", "repr", "kw_only", "maxsize", "exist_ok", "parents", "indent", "squeeze", "zorder",
}  # fmt: skip
_SKIPPED_CONSTANTS = {"_COST", "_SECONDS"}
_SKIPPED_CALLS = {"progress", "advance", "tell", "cast", "TypeVar", "trim_memory", "release"}


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
    source: bytes = field(repr=False, compare=False)  # of the file; it may change meanwhile

    @property
    def place(self) -> str:
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def key(self) -> str:
        """The lines as they are and as they would be; their number changes with the file."""
        source = self.source
        begin = source.rfind(b"\n", 0, self.start) + 1
        stop = source.find(b"\n", self.end)
        stop = len(source) if stop < 0 else stop
        before = source[begin:stop].decode()
        after = source[begin : self.start].decode() + self.after + source[self.end : stop].decode()
        return f"{self.place}: {_one_line(before)} => {_one_line(after)}"

    @property
    def name(self) -> str:
        return f"{self.place}:{self.line}: {_one_line(self.before)} -> {_one_line(self.after)}"

    @property
    def tried(self) -> str:
        """What the log says of it: the fault, and a digest of the file it was put into."""
        return f"{self.name} [{hashlib.sha256(self.source).hexdigest()[:12]}]"

    def code(self) -> CodeType:
        changed = self.source[: self.start] + self.after.encode() + self.source[self.end :]
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
        one = Mutant(path, node.lineno, start, end, before, after, not is_inside, source)
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
            if isinstance(value, float) and 0 < value < SMALLEST:
                continue
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


def _called(node: ast.AST) -> str:
    """The last name of what is called; empty if it is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


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
            if isinstance(child, ast.Expr) and _called(child.value) in _SKIPPED_CALLS:
                continue
            if isinstance(child, ast.Assign) and _name_of(child.targets[0]) in _SKIPPED_CONSTANTS:
                continue
            if isinstance(child, ast.If) and _name_of(child.test) == "TYPE_CHECKING":
                continue
            yield child
            yield from _worth_changing(child)


# Running tests in a child process


@dataclass(frozen=True)
class Reach:
    """What tests of a folder reach: the tests by file and line, and the seconds of each test.

    Some functions run when a module is imported, before any test; `at_import` has their lines.
    """

    tests: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    at_import: set[tuple[str, int]] = field(default_factory=set)


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


class _Changed(importlib.abc.MetaPathFinder):
    """Imports some modules with other code than their files have, and leaves all others alone."""

    def __init__(self, code_by_file: dict[Path, Callable[[], CodeType]]) -> None:
        self.files = {}
        for path, code in code_by_file.items():
            self.files[_module_name(path)] = (path, code)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname not in self.files:
            return None
        file, code = self.files[fullname]

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return code()

        is_package = file.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            fullname,
            file,
            loader=Loader(fullname, str(file)),
            submodule_search_locations=[str(file.parent)] if is_package else None,
        )


class _Noting(ast.NodeTransformer):
    """Puts a note before each statement of a function that says which lines are about to run."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._note(node)
        return node

    def _note(self, node: ast.AST) -> None:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements = getattr(node, name, None)
            if not isinstance(statements, list):
                continue
            noted: list[ast.AST] = []
            for statement in statements:
                if isinstance(statement, ast.stmt) and not _is_docstring(statement):
                    noted.append(self._call(statement))
                noted.append(statement)
                self._note(statement)
            setattr(node, name, noted)

    def _call(self, statement: ast.stmt) -> ast.stmt:
        last = statement.end_lineno or statement.lineno
        inner = getattr(statement, "body", None)
        if inner:  # of a block only the head; what is inside has notes of its own
            last = max(statement.lineno, inner[0].lineno - 1)
        note = ast.parse(f"__reached__({self.path!r}, {statement.lineno}, {last})")
        return ast.copy_location(note.body[0], statement)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _noting_code(path: Path) -> CodeType:
    tree = _Noting(path).visit(ast.parse(path.read_bytes()))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


class _Notes:
    """A pytest plug-in: which lines each test runs, and how long it takes."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[int, list[str]]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.reached: set[tuple[str, int, int]] = set()
        self.at_import: list[tuple[str, int]] | None = None

    def reach(self, file: str, first: int, last: int) -> None:
        self.reached.add((file, first, last))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.at_import is None:
            self.at_import = sorted(self._lines())
        self.reached.clear()
        self.started = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.process_time() - self.started
        for file, line in self._lines():
            self.lines.setdefault(file, {}).setdefault(line, []).append(nodeid)

    def _lines(self) -> set[tuple[str, int]]:
        return {(file, n) for file, low, high in self.reached for n in range(low, high + 1)}


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


# Nothing that takes time and finds no fault: plug-ins, and words about assertions.
_PYTEST_OPTIONS = [
    "-x", "-q", "--no-header", "--tb=no", "--assert=plain", "-p", "no:cacheprovider",
    "-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:anyio",
    "-p", "no:unraisableexception", "-p", "no:threadexception",
]  # fmt: skip


def run_pytest(tests: Sequence[str], plugins: Sequence[Any] = ()) -> int:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        options = [*_PYTEST_OPTIONS, f"--basetemp={folder}/t"]
        return int(pytest.main([*options, *tests], plugins=list(plugins)))


def _digest(paths: Iterable[Path]) -> str:
    content = hashlib.sha256()
    for path in paths:
        content.update(path.read_bytes() if path.is_file() else b"")
    return content.hexdigest()[:16]


def _reach_of_file(test: Path, source: Path) -> dict[str, Any]:
    """Which lines each test of a file runs, and for how long.

    Kept until the test changes, or a file it reaches of the folder of the source that is asked
    about. Of a folder of the source itself it is the examples in its docstrings.
    """
    folder = test if test.is_dir() else test.parent
    helpers = sorted(path for path in folder.glob("*.py") if "test_" not in path.name)
    own = _digest([test, *helpers, *(ROOT / "tests").glob("conftest.py")])
    kept = REACH / f"{test.relative_to(ROOT).as_posix().replace('/', '-')}.json"
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        asked = [file for file in found["lines"] if Path(file).is_relative_to(source)]
        is_same = all(found["reached"].get(file) == _digest([Path(file)]) for file in asked)
        if found["own"] == own and is_same:
            return found
    print(f"  seeing which lines {test.relative_to(ROOT)} reaches", flush=True)
    kept.parent.mkdir(parents=True, exist_ok=True)

    def work() -> int:
        plugin = _Notes()
        vars(builtins)["__reached__"] = plugin.reach  # where code of any module finds it
        files = [file for folder in TESTS for file in files_of(folder)]
        sys.meta_path.insert(
            0, _Changed({file: functools.partial(_noting_code, file) for file in files})
        )
        status = run_pytest([str(test.relative_to(ROOT))], [plugin])
        lines = plugin.lines
        note: dict[str, Any] = {
            "own": own,
            "reached": {file: _digest([Path(file)]) for file in lines},
            "lines": lines,
        }
        note |= {"seconds": plugin.seconds, "at_import": plugin.at_import}
        note["modules"] = _modules_of_others()
        if status == 0:
            kept.write_text(json.dumps(note), encoding="utf-8")
        else:
            kept.with_suffix(".failed").write_text("\n".join(plugin.failed), encoding="utf-8")
        return status

    if in_child(work, 3600) != 0:
        failed = kept.with_suffix(".failed").read_text(encoding="utf-8")
        raise SystemExit(f"{test.name}: must pass without a fault first, failed: {failed}")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def _modules_of_others() -> list[str]:
    """What is imported but for files of this repository."""
    installed = Path(sys.prefix)
    names = []
    for name, module in sys.modules.items():
        file = Path(getattr(module, "__file__", None) or installed)
        is_ours = file.is_relative_to(ROOT) and not file.is_relative_to(installed)
        if not is_ours and not any(word in name for word in ("graphconv", "__main__")):
            names.append(name)
    return sorted(names)


def reach_of(folder: str) -> Reach:
    """Which tests reach which lines of a folder's files, and how long each takes."""
    reach = Reach()
    modules: set[str] = set()
    for test in [SOURCE / folder, *(ROOT / "tests" / f"{name}.py" for name in TESTS[folder])]:
        found = _reach_of_file(test, SOURCE / folder)
        reach.seconds.update(found["seconds"])
        reach.at_import.update((file, line) for file, line in found.get("at_import", ()))
        modules.update(found["modules"])
        for file, by_line in found["lines"].items():
            for line, tests in by_line.items():
                reach.tests.setdefault((file, int(line)), []).extend(tests)
    # Imported here once, so that no child has to.
    for name in sorted(modules):
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    assert not any(name.split(".")[0] == "graphconv" for name in sys.modules)
    return reach


def chosen_tests(mutant: Mutant, reach: Reach) -> list[str]:
    """The tests that a fault is tried against, quickest first; none if its line is not reached.

    Files of tests that import the module go first. Each test function has a turn before any has a
    second with other parameters, but for very quick tests. Of constants, which all tests reach,
    files of tests that share most words with the changed line go first, and they may take longer.
    """
    place = (str(mutant.path), mutant.line)
    near = set(reach.tests.get(place, ()))
    is_early = mutant.runs_at_import or (not near and place in reach.at_import)
    if is_early:
        # Defaults and constants: any test may look at them, one that runs some of the file rather.
        near = {test for (at, _), tests in reach.tests.items() if at == place[0] for test in tests}
    elif not near:
        return []
    turns: Counter[str] = Counter()
    order: list[tuple[bool, int, bool, int, int, str]] = []
    for test in sorted(reach.seconds, key=lambda test: (reach.seconds[test], test)):
        if test in near or is_early:
            function = test.partition("[")[0]
            file = test.partition("::")[0]
            n_shared = _n_shared(mutant, file) if is_early else 0
            is_of_others = not _imports(file, _module_name(mutant.path))
            turn = turns[function] if reach.seconds[test] > QUICK_SECONDS else 0
            order.append((is_of_others, -n_shared, test not in near, turn, len(order), test))
            turns[function] += 1
    chosen: list[str] = []
    left = MOST_SECONDS_EARLY if is_early else MOST_SECONDS
    for *_, test in sorted(order):
        left -= reach.seconds[test]
        if left < 0 and chosen:
            break
        chosen.append(test)
    return chosen


def _imports(test_file: str, module: str) -> bool:
    """Whether a file of tests names a module and the package it is in."""
    package, _, name = module.rpartition(".")
    return package in _text_of(test_file) and name in _words(test_file)


def _n_shared(mutant: Mutant, test_file: str) -> int:
    """How many words of the line that a fault changes are in a file of tests."""
    line = mutant.source.decode().splitlines()[mutant.line - 1]
    return len(set(re.findall(r"\w{3,}", line)) & _words(test_file))


@functools.cache
def _words(test_file: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w{3,}", _text_of(test_file)))


@functools.cache
def _text_of(test_file: str) -> str:
    path = ROOT / test_file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def outcome(mutant: Mutant, reach: Reach) -> tuple[str, str]:
    """Whether a fault is noticed, survived, took too long, or is on a line that is not reached.

    Tests that do not end have noticed it: they are stopped after some seconds of the processor.
    What took too long by the clock counts among the survivors: the machine may have been busy. So
    does what was killed from outside, and what pytest could not run. Beside it the test that
    failed, if one did before the process ended.
    """
    tests = chosen_tests(mutant, reach)
    if not tests:
        return "not reached", ""
    expected = sum(reach.seconds[test] for test in tests)
    seconds = FEWEST_SECONDS + 5 * expected
    status, failed = _try_tests(tests, seconds, {mutant.path: mutant.code})
    if status is None or status == -signal.SIGKILL:
        return "took too long", ""
    if status == pytest.ExitCode.INTERNAL_ERROR:  # also what `in_child` says of an exception
        return "not run", ""
    return ("noticed" if status else "survived"), failed


def fail_anyway(tests: Iterable[str]) -> set[str]:
    """Those of some tests that fail in such a process without any fault."""
    left = sorted(set(tests))
    failing: set[str] = set()
    while left:
        status, failed = _try_tests(left, 3600, {})
        if status == 0:
            break
        if failed not in left:
            raise SystemExit(f"tests cannot be run without a fault: pytest's status is {status}")
        failing.add(failed)
        left.remove(failed)
    return failing


def _try_tests(
    tests: list[str], seconds: float, changes: dict[Path, Callable[[], CodeType]]
) -> tuple[int | None, str]:
    """What pytest's process ends with, and the first test that fails; see `in_child`."""
    with tempfile.NamedTemporaryFile("r", prefix="mutant-", encoding="utf-8") as failed:

        def work() -> int:
            limit = int(time.process_time() + seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            sys.meta_path.insert(0, _Changed(changes))
            notes = _Notes()
            status = run_pytest(tests, [notes])
            Path(failed.name).write_text("".join(notes.failed[:1]), encoding="utf-8")
            return status

        return in_child(work, PATIENCE * seconds), failed.read()


def sample(mutants: list[Mutant], number: int | None, seed: int) -> list[Mutant]:
    if number is None or number >= len(mutants):
        return mutants
    drawn = random.Random(seed).sample(range(len(mutants)), number)
    return [mutants[k] for k in sorted(drawn)]


def files_of(folder: str) -> list[Path]:
    files = sorted((SOURCE / folder).rglob("*.py"))
    return [path for path in files if path.relative_to(SOURCE).as_posix() not in ELSEWHERE]


def try_folder(folder: str, options: argparse.Namespace, known: dict[str, str]) -> dict[str, Any]:
    """Try a folder's faults; its row of the table."""
    every = [
        one
        for path in files_of(folder)
        if not options.file or path.name in options.file
        for one in mutants_of(path)
    ]
    drawn = sample(every, options.sample, options.seed)
    noticed = set(LOG.read_text(encoding="utf-8").splitlines()) if LOG.is_file() else set()
    left = [mutant for mutant in drawn if mutant.tried not in noticed]
    print(f"{folder}: {len(left)} of {len(drawn)} faults to try", flush=True)
    reach = reach_of(folder) if left else Reach()
    survivors: list[dict[str, str]] = []
    for start in range(0, len(left), AT_ONCE):
        found = [(mutant, *outcome(mutant, reach)) for mutant in left[start : start + AT_ONCE]]
        failing = fail_anyway(test for _, _, test in found if test)
        LOG.parent.mkdir(exist_ok=True)
        with LOG.open("a", encoding="utf-8") as log:
            for mutant, result, test in found:
                if result == "noticed" and test not in failing:
                    log.write(f"{mutant.tried}\n")
                    continue
                if test in failing:
                    result = f"{test} fails without a fault too"
                reason = known.get(mutant.key, "")
                survivors.append({"fault": mutant.key, "result": result, "reason": reason})
                print(f"{result}: {mutant.name}" + (f" ({reason})" if reason else ""), flush=True)
                if not reason:
                    print(f"  {mutant.key}", flush=True)
    row = {"folder": folder, "faults": len(every), "drawn": len(drawn), "seed": options.seed}
    return {**row, "survivors": survivors}


def table_of(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each folder, as Markdown."""
    lines = [
        "| folder | faults known | drawn | survived | without a reason |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        without_reason = [one for one in row["survivors"] if not one["reason"]]
        counts = (len(row["survivors"]), len(without_reason))
        cells = [f"{n} ({100 * n / max(1, row['drawn']):.1f} %)" for n in counts]
        first = f"`{row['folder']}` | {row['faults']:,} | {row['drawn']} (seed {row['seed']})"
        lines.append(f"| {first} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=list(TESTS), help="of src/graphconv")
    parser.add_argument("--file", action="append", help="only files of this name")
    parser.add_argument("--sample", type=int, help="faults in each folder; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--publish", action="store_true", help=f"into measured/{PUBLISHED.name}")
    options = parser.parse_args()
    unknown = sorted(set(options.folders) - set(TESTS))
    if unknown:
        parser.error(f"folders must be among {', '.join(TESTS)}, got {', '.join(unknown)}")
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(SOURCE.parent)]
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.is_file() else {}
    rows = [try_folder(folder, options, known) for folder in options.folders]
    print(table_of(rows))
    makeable = {
        one.key for folder in TESTS for path in files_of(folder) for one in mutants_of(path)
    }
    for key in sorted(set(known) - makeable):
        print(f"{KNOWN.name} explains what is no longer there: {key}")
    if options.publish:
        kept = json.loads(PUBLISHED.read_text(encoding="utf-8")) if PUBLISHED.is_file() else []
        by_folder = {row["folder"]: row for row in [*kept, *rows]}
        found = [by_folder[folder] for folder in TESTS if folder in by_folder]
        PUBLISHED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
