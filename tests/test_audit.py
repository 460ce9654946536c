"""Tests of scripts/audit.py: a look-up that did not take place is no clean bill."""

import pytest
from scripts.audit import judge

CLEAN = {"name": "numpy", "version": "2.0", "vulns": []}
MISSED = {"name": "scipy", "skip_reason": "not found"}
OURS = {"name": "graphconv", "skip_reason": "editable"}
KNOWN = {
    "name": "rich",
    "version": "13.0",
    "vulns": [{"id": "CVE-1", "fix_versions": ["13.1", "14.0"]}],
}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([CLEAN, OURS], 0, "audit: 1 packages looked up, nothing is known against them"),
        ([CLEAN, MISSED], 2, "audit: 1 packages could not be looked up: scipy"),
        ([MISSED, OURS], 2, "audit: none of 1 packages could be looked up: nothing is checked"),
        ([CLEAN, MISSED, KNOWN], 1, "rich 13.0: CVE-1, mended in 13.1, 14.0"),
    ],
)
def test_only_packages_that_were_looked_up_count(packages, code, said):
    assert judge(packages) == (code, [said])
