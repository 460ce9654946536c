"""The script that puts faults into the source: which it makes, and which tests it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scripts import load_script

mutants = load_script("mutants")
SOURCE = '''"""A module."""

LIMIT = 3
_SECONDS = {"area": 5}


def area(width: int, height: float = 2.0) -> float:
    """Not looked at: 5."""
    if width < LIMIT and height:
        raise ValueError(f"{width} must be at least {LIMIT + 1}")
    progress("measuring", 1, 2)
    sizes[0] = -width
    return width * height
'''


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    file = tmp_path / "area.py"
    file.write_text(SOURCE)
    return file


def test_faults_of_a_small_file(path: Path) -> None:
    found = {one.name.partition("area.py:")[2]: one for one in mutants.mutants_of(path)}
    assert list(found) == [
        "3: 3 -> 4",
        "7: 2.0 -> 4.0",
        "9: width < LIMIT -> (width <= LIMIT)",
        "9: width < LIMIT and height -> (width < LIMIT or height)",
        "12: sizes[0] = -width -> pass",
        "12: 0 -> 1",
        "12: -width -> (width)",
        "13: width * height -> (width / height)",
    ]
    early = [name for name, one in found.items() if one.runs_at_import]
    assert early == ["3: 3 -> 4", "7: 2.0 -> 4.0"]
    last = found["13: width * height -> (width / height)"]
    assert last.key == "area.py: return width * height => return (width / height)"
    names = {"sizes": [0], "progress": lambda *given: None}
    exec(last.code(), names)
    assert names["area"](6, 2.0) == 3.0


def test_every_test_function_has_a_turn_before_any_has_a_second(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (last,) = [one for one in mutants.mutants_of(path) if one.line == 13]
    seconds = {"t::a[1]": 0.1, "t::a[2]": 0.2, "t::b": 3.0, "t::far": 0.0, "t::c": 99.0}
    near = ["t::a[1]", "t::a[2]", "t::b", "t::c"]
    reach = mutants.Reach({(str(path), 13): near}, seconds)
    # The slowest is beyond what may be spent on one fault.
    assert mutants.chosen_tests(last, reach) == ["t::a[1]", "t::b"]
    (first,) = [one for one in mutants.mutants_of(path) if one.line == 3]
    assert mutants.chosen_tests(first, reach) == ["t::a[1]", "t::b"]
    assert mutants.chosen_tests(last, mutants.Reach({}, seconds)) == []
    # A constant may be looked at by tests that run nothing else of its file.
    assert mutants.chosen_tests(first, mutants.Reach({}, seconds))[:2] == ["t::far", "t::a[1]"]
    early = mutants.Reach({}, seconds, {(str(path), 13)})
    assert mutants.chosen_tests(last, early)[0] == "t::far"
    # What is quick does not wait for its turn.
    quick = {**seconds, "t::a[1]": 0.01, "t::a[2]": 0.02, "t::b": 9.98}
    assert mutants.chosen_tests(last, mutants.Reach(reach.tests, quick)) == ["t::a[1]", "t::a[2]"]
    # Tests that import the module are asked before others, and what is slow is asked as well.
    texts = {"t": "area", "u": f"from {path.parent.name} import area"}
    monkeypatch.setattr(mutants, "_text_of", texts.get)
    named = mutants.Reach({}, {**seconds, "u::slow": 15.0})
    assert mutants.chosen_tests(first, named)[:2] == ["u::slow", "t::far"]


def test_the_table_has_both_shares() -> None:
    row = {"folder": "paper", "faults": 1650, "drawn": 40, "seed": 3}
    survivors = [{"fault": "a", "result": "survived", "reason": why} for why in ("", "why", "")]
    assert mutants.table_of([{**row, "survivors": survivors}]).splitlines()[-1] == (
        "| `paper` | 1,650 | 40 (seed 3) | 3 (7.5 %) | 2 (5.0 %) |"
    )


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((0, "survived"), (1, "noticed"), (2, "noticed"), (-11, "noticed"), (-24, "noticed")),
        *((None, "took too long"), (-9, "took too long"), (3, "not run")),
    ],
)
def test_only_a_test_that_fails_notices(
    path: Path, monkeypatch: pytest.MonkeyPatch, status: int | None, outcome: str
) -> None:
    reach = mutants.Reach(seconds={"test": 0.1})
    monkeypatch.setattr(mutants, "chosen_tests", lambda *_: ["test"])
    monkeypatch.setattr(mutants, "in_child", lambda *_: status)
    assert mutants.outcome(mutants.mutants_of(path)[0], reach) == (outcome, "")


def test_a_test_that_fails_anyway_notices_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def try_tests(tests: list[str], seconds: float, changes: object) -> tuple[int, str]:
        """Stops at the first that fails, as pytest does."""
        wrong = [test for test in tests if "wrong" in test]
        return (1, wrong[0]) if wrong else (0, "")

    monkeypatch.setattr(mutants, "_try_tests", try_tests)
    assert mutants.fail_anyway(["wrong a", "right", "wrong b", "right"]) == {"wrong a", "wrong b"}
    assert mutants.fail_anyway([]) == set()
    monkeypatch.setattr(mutants, "_try_tests", lambda *given: (4, ""))
    with pytest.raises(SystemExit, match="cannot be run without a fault: pytest's status is 4"):
        mutants.fail_anyway(["gone"])
