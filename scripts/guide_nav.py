"""A hook of mkdocs: pages that a command makes stand in the guide once they have been made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GENERATED = ("performance.md", "scaling.md")


def on_config(config: Any) -> Any:
    """Take generated pages that are not there yet out of the navigation."""
    docs = Path(config["docs_dir"])
    missing = [name for name in GENERATED if not (docs / name).is_file()]
    config["nav"] = [
        entry for entry in config["nav"] if not any(v in missing for v in entry.values())
    ]
    return config
