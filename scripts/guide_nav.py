"""A hook of mkdocs: pages that a command makes stand in the guide once they have been made.

The page of all commands is made of the commands themselves whenever the guide is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from graphconv.commands.reference_page import commands_page

COMMANDS_PAGE = "reference/commands.md"
GENERATED = ("performance.md", "scaling.md")


def on_config(config: Any) -> Any:
    """Take generated pages that are not there yet out of the navigation."""
    docs = Path(config["docs_dir"])
    missing = [name for name in GENERATED if not (docs / name).is_file()]
    config["nav"] = [
        entry for entry in config["nav"] if not any(v in missing for v in entry.values())
    ]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the page of all commands."""
    files.append(File.generated(config, COMMANDS_PAGE, content=commands_page()))
    return files
