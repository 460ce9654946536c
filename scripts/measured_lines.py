"""Lines of JSON in measured/: what a measurement has found so far, for it to go on from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "measured"


def read(name: str) -> list[dict[str, Any]]:
    """All lines of measured/NAME.jsonl; none where there is no such file."""
    path = MEASURED / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_missing(name: str, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
    """Measure what no line has the key of, and write it down at once."""
    if any(key.items() <= row.items() for row in read(name)):
        return
    row = {**key, **measure()}
    with (MEASURED / f"{name}.jsonl").open("a") as log:
        log.write(json.dumps(row) + "\n")
