"""What `graphconv report` does: load a model folder, write the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphconv.commands.console import Screen
from graphconv.io.files import REPORT_FILE, check_writable

if TYPE_CHECKING:
    from graphconv.training.checkpoint import SavedModel


def run_report(folder: Path, output: Path | None, screen: Screen) -> None:
    """Write the report of a model folder, into it if no other place is named."""
    path = folder / REPORT_FILE if output is None else output
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output must end in .html, got {path}")
    if path.is_dir():
        raise ValueError(f"output must be a file to write, got the folder {path}")
    from graphconv.training.checkpoint import load_model

    saved = load_model(folder)
    check_writable(path)
    write_report_file(saved, path, screen)
    screen.note(f"report written to {path}")
    results = {"n_nodes": saved.fitted.graph.n_entities, "bytes": path.stat().st_size}
    screen.result({**results, "output": str(path)})


def write_report_file(saved: SavedModel, path: Path, screen: Screen) -> None:
    """Write the report of a model, telling how far it is."""
    from graphconv.report.page import write_report

    separator = saved.table_options.get("label_separator") or ";"
    with screen.showing() as progress:
        write_report(saved.fitted, path, separator=separator, progress=progress)
