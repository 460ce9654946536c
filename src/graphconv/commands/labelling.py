"""What `graphconv predict`, `embed`, `explain` and `suggest` do with a model folder and data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv import __version__
from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, align_to, ingested_options, load_data
from graphconv.commands.held_out import saved_rule
from graphconv.commands.summary import about_isolated
from graphconv.commands.training_job import NETWORKS_NAMED, check_device_name
from graphconv.graph import Graph
from graphconv.graph.position import (
    has_position_features,
    with_position_features,
    without_position_features,
)
from graphconv.io.files import check_writable
from graphconv.io.progress import counter
from graphconv.io.wording import count
from graphconv.results.predictions import (
    SPLITS,
    Predictions,
    check_table_path,
    row_blocks,
    write_table,
    write_table_blocks,
)
from graphconv.results.provenance import folder_fingerprint
from graphconv.storage.stored_graph import graph_in_memory
from graphconv.training.scores import mean_over_runs

PICTURE_SUFFIXES = (".png", ".svg")

if TYPE_CHECKING:
    from graphconv.estimators.fitted_method import SavedMethod
    from graphconv.training.checkpoint import SavedModel


def run_prediction(
    folder: Path,
    data: DataRequest,
    output: Path,
    screen: Screen,
    *,
    spreadsheet_safe: bool = False,
    device: str = "cpu",
) -> None:
    """Label the nodes of the training data, or of new data, and write the table."""
    _check_table(output)
    check_device_name(device)
    saved, graph, notes = load_with_data(folder, data, screen)
    from graphconv.training.fitted import FittedGCN

    fitted = saved.fitted
    if device != "cpu":
        if not isinstance(fitted, FittedGCN):
            raise ValueError(f"--device is for {NETWORKS_NAMED}, got another method's model")
        if graph.folder is not None and device != "auto":
            raise ValueError("a graph on disk is predicted on the cpu, in blocks, got --device")
        fitted = replace(fitted, device=device)
    known = fitted.graph
    n_passes = fitted.n_passes if isinstance(fitted, FittedGCN) else 1
    with screen.showing() as progress:
        advance = counter(progress, "predicting", graph.n_nodes * n_passes)
        each = fitted.probabilities(graph, scratch=output.resolve().parent, advance=advance)
    probabilities = fitted.calibrate(mean_over_runs(each), graph)
    rule = saved_rule(saved.metrics)
    predictions = Predictions(
        graph,
        probabilities,
        known.class_names,
        known.is_multilabel,
        trained_on=known,
        separator=saved.table_options.get("label_separator") or ";",
        sets=None if rule is None else rule.apply(graph, probabilities),
    )
    for note in notes:
        screen.remark(note)
    origin = {"model": folder_fingerprint(folder), "version": __version__}
    predictions.write(output, origin, spreadsheet_safe=spreadsheet_safe)
    results: dict[str, Any] = {"n_nodes": graph.n_entities, "output": str(output)}
    if graph is not known or known.folder is not None:
        results |= _compare(predictions, screen)
    screen.note(f"{graph.n_entities:,} nodes labelled in {output}")
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
    screen.note(
        f"{100 * share:.1f} % right on {count(len(nodes), 'labelled node')} unseen in training"
    )
    return {"n_labelled": len(nodes), "accuracy": share}


def run_embedding(
    folder: Path,
    data: DataRequest,
    output: Path,
    screen: Screen,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """Write the hidden activations of the nodes, one row each."""
    _check_table(output)
    saved, graph, notes = load_with_data(folder, data, screen)
    values = saved.fitted.embedding(graph, scratch=output.resolve().parent)
    for note in notes:
        screen.remark(note)

    def columns(rows: slice) -> dict[str, Any]:
        numbers = {f"h{place}": values[rows, place] for place in range(values.shape[1])}
        return {"id": graph.node_ids[rows], **numbers}

    blocks = map(columns, row_blocks(graph.n_entities))
    write_table_blocks(blocks, output, spreadsheet_safe=spreadsheet_safe)
    screen.note(f"{values.shape[1]} activations of {graph.n_entities:,} nodes written to {output}")
    screen.result(
        {"n_nodes": graph.n_entities, "n_columns": int(values.shape[1]), "output": str(output)}
    )


def run_explanation(
    folder: Path,
    node: str,
    data: DataRequest,
    screen: Screen,
    *,
    label: str | None = None,
    n: int = 10,
    output: Path | None = None,
) -> None:
    """Say why a node has its label, and draw it if a file for the picture is given."""
    if n < 1:
        raise ValueError(f"-n must be at least 1, got {n}")
    if output is not None:
        if output.suffix not in PICTURE_SUFFIXES:
            raise ValueError(f"--output must end in .png or .svg, got {output}")
        check_writable(output)
    saved, graph, notes = load_with_data(folder, data, screen)
    from graphconv.estimators.fitted_method import explain_fitted

    why = explain_fitted(saved.fitted, node, graph, label)
    for note in (*notes, *why.notes):
        screen.remark(note)
    if output is not None:
        from graphconv.report.explanation import draw_explanation
        from graphconv.report.figures import write_figure

        write_figure(draw_explanation(why, n), output)
    shown = why.top(n)
    screen.say(why.sentence)
    for title, columns, rows in why.tables(n):
        screen.table(f"\n{title}", columns, rows)
    if output is not None:
        screen.note(f"picture written to {output}")
    counts = {f"n_{kind}": len(getattr(why, kind)) for kind in ("edges", "neighbours", "features")}
    picture = None if output is None else str(output)
    # The sentence is about all contributions, not only those that are listed.
    screen.result({**shown.to_json(), "sentence": why.sentence, **counts, "output": picture})


def run_suggestion(
    folder: Path,
    data: DataRequest,
    n: int,
    screen: Screen,
    output: Path | None = None,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """List the nodes to label next, and write them to a table if a file for it is given."""
    if output is not None:
        _check_table(output)
    saved, graph, notes = load_with_data(folder, data, screen)
    from graphconv.results.suggest import MOST_NODES, suggest

    rule = saved_rule(saved.metrics)
    chosen = suggest(saved.fitted, n, graph, rule=rule)
    for note in notes:
        screen.remark(note)
    if graph.n_nodes > MOST_NODES:
        screen.remark(
            f"a random sample was looked at: {MOST_NODES:,} of {graph.n_nodes:,} nodes, and at "
            f"most {max(MOST_NODES, n):,} candidates"
        )
    columns = {
        "rank": range(1, n + 1),
        "id": [one.node for one in chosen],
        "label_now": [one.label for one in chosen],
        "confidence": [one.confidence for one in chosen],
        **({} if rule is None else {"set_size": [one.set_size for one in chosen]}),
        "gain": [one.gain for one in chosen],
    }
    if output is not None:
        write_table(columns, output, spreadsheet_safe=spreadsheet_safe)
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    rows = [
        [
            str(one["rank"]),
            str(one["id"]),
            str(one["label_now"]),
            f"{one['confidence']:.3f}",
            *([] if rule is None else [str(one["set_size"])]),
            f"{100 * one['gain']:.2f}",
        ]
        for one in listed
    ]
    sizes = [] if rule is None else ["classes in set"]
    heads = ["", "id", "label now", "confidence", *sizes, "gain (%)"]
    screen.table("Nodes to label next, the most instructive first", heads, rows)
    screen.note("gain: share of the model's uncertainty that the label would newly speak to")
    if output is not None:
        screen.note(f"{n} suggestions written to {output}")
    screen.result({"suggestions": listed, "output": None if output is None else str(output)})


def _check_table(output: Path) -> None:
    check_table_path(output)
    check_writable(output)


def load_with_data(
    folder: Path, data: DataRequest, screen: Screen
) -> tuple[SavedModel | SavedMethod, Graph, tuple[str, ...]]:
    """A model, the graph to apply it to, and remarks on how that was read."""
    from graphconv.estimators.fitted_method import load_saved

    saved = load_saved(folder, Path(data.name) if data.name else None)
    known = saved.fitted.graph
    has_positions = has_position_features(known)
    if data.name is None and data.edges is None and data.nodes is None:
        return saved, known, ()
    options = saved.table_options if known.folder is None else ingested_options(known.folder)
    request = DataRequest(data.name, data.edges, data.nodes, options, data_dir=data.data_dir)
    request = replace(request, features=data.features)
    more: dict[str, Any] = {"require_label": False}
    if saved.encoding is not None:
        more["encoding"] = saved.encoding
        if data.merge and data.name is None:
            whole = known if known.folder is None else graph_in_memory(known)
            more["merge_into"] = without_position_features(whole) if has_positions else whole
    loaded = load_data(request, screen, **more)
    if known.folder is not None and known.folder == loaded.graph.folder:
        return saved, known, ()
    graph = with_position_features(loaded.graph) if has_positions else loaded.graph
    if known.folder is not None and "merge_into" in more:
        same = {str(node): node for node in known.node_ids.tolist()}
        ids = [same.get(node, node) for node in graph.node_ids.tolist()]
        graph = replace(graph, node_ids=np.array(ids, dtype=object))
    graph = align_to(graph, known)
    return saved, graph, (*loaded.notes, about_isolated(graph))
