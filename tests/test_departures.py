"""Where graphconv leaves the paper: every mark in the source, and the list made of them."""

import pytest
from tests.scripts import ROOT, load_script


def test_every_mark_says_what_the_paper_has_what_is_here_and_why():
    script = load_script("build_departures")
    found = script.departures()
    assert len(found) >= 12
    for one in found:
        assert one.paper
        assert one.here
        assert one.reason.endswith(".")
        assert (ROOT / one.file).is_file()
    # The parser misses none: each mark in the source is one departure.
    marks = sum(
        path.read_text(encoding="utf-8").count("# Paper:") for path in (ROOT / "src").rglob("*.py")
    )
    assert marks == len(found)


def test_a_mark_of_another_form_is_refused(tmp_path):
    script = load_script("build_departures")
    path = tmp_path / "a.py"
    path.write_text("x = 1\n# Paper: this; here: that, because\n# of the other.\ny = 2\n")
    (one,) = script.departures_of(path, tmp_path)
    assert (one.file, one.paper, one.here) == ("a.py", "this", "that")
    assert one.reason == "of the other."
    path.write_text("# Paper: this, and nothing else.\n")
    with pytest.raises(SystemExit, match=r"a.py, line 1: must read '# Paper: \.\.\.; here:"):
        script.departures_of(path, tmp_path)
