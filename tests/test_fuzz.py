"""A minute of fuzzing with fixed seeds; `make fuzz` goes on for hours."""

import pytest

pytest.importorskip("resource")

from scripts import fuzz

N_INPUTS = 100


def test_every_kind_of_file_is_listed(tmp_path):
    from scripts.fuzz_targets import all_targets

    assert {*all_targets(tmp_path)} == {*fuzz.TARGETS}


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_changed_files_are_refused_in_one_line_or_taken(name):
    outcomes = fuzz.run_inputs(name, seed=1, first=0, n_inputs=N_INPUTS)
    assert sum(outcomes.values()) == N_INPUTS
    # Changes that no reader ever notices, or that none survives, would test nothing.
    assert outcomes["refused"] > 0
