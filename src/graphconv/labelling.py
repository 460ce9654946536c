"""What `graphconv predict` and `graphconv embed` do: load a model and perhaps new data, write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.console import Screen
from graphconv.data_source import DataRequest, align_to, load_data
from graphconv.files import check_writable
from graphconv.graph import Graph
from graphconv.predictions import (
    SPLITS,
    Predictions,
    check_table_path,
    mean_over_runs,
    row_blocks,
    write_table_blocks,
)

if TYPE_CHECKING:
    from graphconv.checkpoint import SavedModel


def run_prediction(folder: Path, data: DataRequest, output: Path, screen: Screen) -> None:
    """Label the nodes of the training data, or of new data, and write the table."""
    saved, graph, notes = _load_for_prediction(folder, data, output, screen)
    fitted = saved.fitted
    known = fitted.graph
    n_rows = graph.n_nodes * len(fitted.model.layers)
    with screen.counting("predicting", n_rows, "rows") as advance:
        each = fitted.probabilities(graph, scratch=output.resolve().parent, advance=advance)
    shares = mean_over_runs(each)
    predictions = Predictions(
        graph,
        shares,
        known.class_names,
        known.is_multilabel,
        trained_on=known,
        separator=saved.table_options.get("label_separator") or ";",
    )
    for note in notes:
        screen.remark(note)
    predictions.write(output)
    results: dict[str, Any] = {"n_nodes": graph.n_nodes, "output": str(output)}
    if graph is not known or known.folder is not None:
        results |= _compare(predictions, screen)
    screen.note(f"{graph.n_nodes:,} nodes labelled in {output}")
    screen.result(results)


def _compare(predictions: Predictions, screen: Screen) -> dict[str, Any]:
    """How often the model is right on nodes that have a label but were not used to train it."""
    graph = predictions.graph
    if predictions.is_multilabel or graph.is_multilabel:
        return {}
    used = [SPLITS.index(name) for name in ("train", "validation")]
    nodes = np.flatnonzero(graph.is_labelled & ~np.isin(predictions.split_codes, used))
    if not len(nodes):
        return {}
    # By name: the new table may have other classes, or number them otherwise.
    number = {name: position for position, name in enumerate(predictions.class_names)}
    meant = np.array([number.get(name, -1) for name in graph.class_names])[graph.labels[nodes]]
    share = float((predictions.probabilities[nodes].argmax(axis=1) == meant).mean())
    screen.note(f"{100 * share:.1f} % right on {len(nodes):,} labelled nodes unseen in training")
    return {"n_labelled": len(nodes), "accuracy": share}


def run_embedding(folder: Path, data: DataRequest, output: Path, screen: Screen) -> None:
    """Write the hidden activations of the nodes, a row each."""
    saved, graph, notes = _load_for_prediction(folder, data, output, screen)
    values = saved.fitted.embedding(graph, scratch=output.resolve().parent)
    for note in notes:
        screen.remark(note)

    def columns(rows: slice) -> dict[str, Any]:
        numbers = {f"h{place}": values[rows, place] for place in range(values.shape[1])}
        return {"id": graph.node_ids[rows], **numbers}

    write_table_blocks(map(columns, row_blocks(graph.n_nodes)), output)
    screen.note(f"{values.shape[1]} activations of {graph.n_nodes:,} nodes written to {output}")
    screen.result(
        {"n_nodes": graph.n_nodes, "n_columns": int(values.shape[1]), "output": str(output)}
    )


def _load_for_prediction(
    folder: Path, data: DataRequest, output: Path, screen: Screen
) -> tuple[SavedModel, Graph, tuple[str, ...]]:
    """The model, the graph to apply it to, and remarks on how that was read."""
    check_table_path(output)
    check_writable(output)
    from graphconv.checkpoint import load_model

    saved = load_model(folder, Path(data.name) if data.name else None)
    known = saved.fitted.graph
    if data.name is None and data.edges is None and data.nodes is None:
        return saved, known, ()
    request = DataRequest(
        data.name, data.edges, data.nodes, saved.table_options, data_dir=data.data_dir
    )
    more: dict[str, Any] = {"require_label": False}
    if saved.encoding is not None:
        more["encoding"] = saved.encoding
    loaded = load_data(request, screen, **more)
    if known.folder is not None and known.folder == loaded.graph.folder:
        return saved, known, ()
    return saved, align_to(loaded.graph, known), loaded.notes
