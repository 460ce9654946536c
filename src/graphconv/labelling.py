"""What `graphconv predict` and `graphconv embed` do: load a model and perhaps new data, write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.console import Screen
from graphconv.data_source import DataRequest, align_to, load_data
from graphconv.files import check_writable
from graphconv.graph import Graph
from graphconv.predictions import Predictions, check_table_path, write_table

if TYPE_CHECKING:
    from graphconv.checkpoint import SavedModel


def run_prediction(folder: Path, data: DataRequest, output: Path, screen: Screen) -> None:
    """Label the nodes of the training data, or of new data, and write the table."""
    saved, graph, notes = _load_for_prediction(folder, data, output, screen)
    fitted = saved.fitted
    known = fitted.graph
    predictions = Predictions(
        graph,
        fitted.ensemble_probabilities(graph),
        known.class_names,
        known.is_multilabel,
        trained_on=known,
        separator=saved.table_options.get("label_separator") or ";",
    )
    for note in notes:
        screen.remark(note)
    predictions.write(output)
    results: dict[str, Any] = {"n_nodes": graph.n_nodes, "output": str(output)}
    if graph is not known:
        results |= _compare(predictions, screen)
    screen.note(f"{graph.n_nodes:,} nodes labelled in {output}")
    screen.result(results)


def _compare(predictions: Predictions, screen: Screen) -> dict[str, Any]:
    """How often the model is right on nodes that have a label but were not used to train it."""
    graph = predictions.graph
    if predictions.is_multilabel or graph.is_multilabel:
        return {}
    is_new = graph.is_labelled & ~np.isin(predictions.split, ("train", "validation"))
    found = predictions.labels
    # By name: the new table may have other classes, or number them otherwise.
    agree = [
        graph.class_names[graph.labels[node]] == found[node] for node in np.flatnonzero(is_new)
    ]
    if not agree:
        return {}
    share = sum(agree) / len(agree)
    screen.note(f"{100 * share:.1f} % right on {len(agree):,} labelled nodes unseen in training")
    return {"n_labelled": len(agree), "accuracy": share}


def run_embedding(folder: Path, data: DataRequest, output: Path, screen: Screen) -> None:
    """Write the hidden activations of the nodes, a row each."""
    saved, graph, notes = _load_for_prediction(folder, data, output, screen)
    values = saved.fitted.embedding(graph)
    for note in notes:
        screen.remark(note)
    columns = {f"h{number}": values[:, number] for number in range(values.shape[1])}
    write_table({"id": graph.node_ids, **columns}, output)
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

    saved = load_model(folder)
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
    return saved, align_to(loaded.graph, known), loaded.notes
