"""Pages that scripts make from committed figures: where they lie, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphconv.io.files import replacing_file

ROOT = Path(__file__).resolve().parent.parent
DOCS, MEASURED = ROOT / "docs", ROOT / "measured"


def measured(name: str) -> Any:
    """What measured/NAME.json holds."""
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def write_pages(pages: dict[Path, str]) -> None:
    """Write each page whole or not at all, and say so."""
    for path, text in pages.items():
        with replacing_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
