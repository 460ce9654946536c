"""What `graphconv report` does: load a model folder, write the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from graphconv import __version__
from graphconv.commands.console import Screen
from graphconv.commands.held_out import OUT_OF_FOLD_FILE, saved_rule
from graphconv.io.files import REPORT_FILE, check_writable, read_json
from graphconv.io.readers import LoadedGraph
from graphconv.io.wording import one_line
from graphconv.results.provenance import PROVENANCE_FILE
from graphconv.training.out_of_fold import OutOfFold

if TYPE_CHECKING:
    import pandas as pd

    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.checkpoint import SavedModel


def run_report(folder: Path, output: Path | None, screen: Screen, name: str | None = None) -> None:
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
    files = names_of_data(folder)
    write_report_file(saved, path, screen, out_of_fold, name, files)
    screen.note(f"report written to {path}")
    results = {"n_nodes": saved.fitted.graph.n_entities, "bytes": path.stat().st_size}
    screen.result({**results, "output": str(path)})


def write_report_file(
    saved: SavedModel | SavedMethod,
    path: Path,
    screen: Screen,
    out_of_fold: OutOfFold | None,
    name: str | None = None,
    files: Sequence[str] = (),
    table: pd.DataFrame | None = None,
) -> None:
    """Write the report of a model, telling how far it is."""
    from graphconv.report.cards import Cards
    from graphconv.report.page import write_report

    loaded = LoadedGraph(saved.fitted.graph, saved.encoding, node_table=table)
    separator = saved.table_options.get("label_separator") or ";"
    with screen.showing() as progress:
        write_report(
            saved.fitted,
            path,
            name=name,
            about=[*files, f"{date.today():%d %B %Y}", f"graphconv {__version__}"],
            notes=saved.metrics.get("notes") or (),
            separator=separator,
            out_of_fold=out_of_fold,
            rule=saved_rule(saved.metrics),
            cards=Cards.of_loaded(loaded),
            progress=progress,
        )


def names_of_data(folder: Path) -> list[str]:
    """Names of the files that a model folder says it was trained on."""
    path = folder / PROVENANCE_FILE
    if not path.is_file():
        return []
    try:
        return [Path(one["name"]).name for one in read_json(path)["data"]]
    except (LookupError, TypeError) as error:
        raise ValueError(f"{path} must be complete, but lacks {one_line(error)}") from None
