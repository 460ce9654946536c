"""What `graphconv report` does: load a model folder, write the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphconv.commands.console import Screen
from graphconv.commands.held_out import OUT_OF_FOLD_FILE, saved_rule
from graphconv.io.files import REPORT_FILE, check_writable
from graphconv.training.out_of_fold import OutOfFold

if TYPE_CHECKING:
    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.checkpoint import SavedModel


def run_report(folder: Path, output: Path | None, screen: Screen) -> None:
    """Write the report of a model folder, into it if no other place is named."""
    path = folder / REPORT_FILE if output is None else output
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output must end in .html, got {path}")
    if path.is_dir():
        raise ValueError(f"output must be a file to write, got the folder {path}")
    from graphconv.estimators.fitted_method import load_saved

    saved = load_saved(folder)
    check_writable(path)
    kept = folder / OUT_OF_FOLD_FILE
    out_of_fold = OutOfFold.read(kept, saved.fitted.graph) if kept.exists() else None
    write_report_file(saved, path, screen, out_of_fold)
    screen.note(f"report written to {path}")
    results = {"n_nodes": saved.fitted.graph.n_entities, "bytes": path.stat().st_size}
    screen.result({**results, "output": str(path)})


def write_report_file(
    saved: SavedModel | SavedMethod, path: Path, screen: Screen, out_of_fold: OutOfFold | None
) -> None:
    """Write the report of a model, telling how far it is."""
    from graphconv.report.page import write_report

    separator = saved.table_options.get("label_separator") or ";"
    with screen.showing() as progress:
        write_report(
            saved.fitted,
            path,
            separator=separator,
            out_of_fold=out_of_fold,
            rule=saved_rule(saved.metrics),
            progress=progress,
        )
