"""Print the oldest versions that pyproject.toml admits, as constraints for pip."""

from __future__ import annotations

import re
from pathlib import Path


def lowest(pyproject: str) -> list[str]:
    """A line "name==version" for every dependency with a lower bound, also those of extras."""
    found = re.findall(r'"([a-z][a-z0-9-]*)(?:\[[a-z]+\])?>=([0-9.]+)[^"]*"', pyproject)
    return sorted({f"{name}=={version}" for name, version in found})


if __name__ == "__main__":
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = text[text.index("[project]") : text.index("[project.scripts]")]
    print("\n".join(lowest(dependencies)))
