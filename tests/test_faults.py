"""A few kills and disk errors at fixed places; `make faults` strikes at every one."""

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("the harness forks", allow_module_level=True)
pytest.importorskip("duckdb")

from scripts import faults


@pytest.mark.parametrize(
    ("name", "mode", "every"),
    [
        ("ingest over a graph", "kill", 20),
        ("predict", "kill", 4),
        ("predict", "read-only", 4),
    ],
)
def test_a_rerun_makes_all_whole(tmp_path, name, mode, every):
    found = list(faults.disturb(tmp_path, name, mode, every))
    assert len(found) > 1
    assert [outcome for outcome in found if outcome != "same"] == []
