"""The report page: one HTML file that holds a result in words, tables and pictures.

A fitted model enters, a file leaves that opens without a network: plotly's script, the data and the
page's own script are inside, and its content security policy lets no request out.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphconv import __version__
from graphconv.graph import Graph
from graphconv.io.files import json_text, replacing_file
from graphconv.io.progress import Progress, silent
from graphconv.io.wording import count
from graphconv.report import _sections as sections
from graphconv.report import _words as words
from graphconv.report._drives import drives
from graphconv.report._findings import Findings, n_neighbours
from graphconv.report._layouts import embedding_map, graph_layout
from graphconv.report._node_details import columns_of_nodes, neighbours_of_all, reasons_of_nodes
from graphconv.report._style import COLOURS, DARK_COLOURS, SYMBOLS, class_marks, shown_classes
from graphconv.report.cards import Cards
from graphconv.results.drivers import Drivers, find_drivers
from graphconv.results.predictions import Predictions

if TYPE_CHECKING:
    from graphconv.results.prediction_sets import SetRule
    from graphconv.training.fitted_model import FittedModel
    from graphconv.training.out_of_fold import OutOfFold

Array = npt.NDArray[Any]
# A stage's name, steps done, steps in all.
MAX_GRAPH_NODES = 2_000
MAX_DRAWN_EDGES = 20_000
# Marks on the map; of more nodes a sample is shown, but every one can be searched for.
MAX_MAP_NODES = 20_000
_N_TOP = 3
_NO_LABEL = 0xFFFFFFFF


def write_report(
    source: Any,
    path: Path | str,
    *,
    name: str | None = None,
    about: Sequence[str] = (),
    notes: Sequence[str] = (),
    separator: str = ";",
    out_of_fold: OutOfFold | None = None,
    rule: SetRule | None = None,
    cards: Cards | None = None,
    progress: Progress = silent,
) -> None:
    """Write the report of a fitted model as one HTML file.

    Parameters
    ----------
    source : GCNClassifier or FittedModel
    path : Path or str
    name : str, optional
        The title. Default: the name of the data.
    about : sequence of str
        What to say under the title: when and of what it was made.
    notes : sequence of str
        What was done with the data when it was read.
    separator : str
        What stands between several labels of one node.
    out_of_fold : OutOfFold, optional
        What models say of labels they have not seen. An estimator may have it already.
    rule : SetRule, optional
        For prediction sets.
    cards : Cards, optional
        The nodes' columns, to be shown with each node. Default: the names of its features.
    progress : callable, optional
        Told the name of a long stage, the steps done and the steps in all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphconv import GCNClassifier, load_dataset
    >>> from graphconv.report.page import write_report
    >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(clf, Path(folder) / "report.html")
    ...     (Path(folder) / "report.html").read_text()[:15]
    '<!doctype html>'
    """
    fitted: FittedModel = getattr(source, "fitted_", source)
    graph = fitted.graph
    averaged = fitted.probabilities().mean(axis=1)
    probabilities = fitted.calibrate(averaged)
    predictions = Predictions(
        graph,
        probabilities,
        graph.class_names,
        graph.is_multilabel,
        separator=separator,
        sets=None if rule is None else rule.apply(graph, probabilities),
    )
    findings = Findings(
        predictions,
        averaged,
        fitted.calibration,
        getattr(source, "out_of_fold_", out_of_fold),
        None if rule is None else rule.coverage,
    )
    heading = _Heading(name or f"Report: {graph.name}", tuple(about), tuple(notes))
    text = _fill(findings, fitted, heading, cards or Cards(graph), progress)
    with replacing_file(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


class _Heading(NamedTuple):
    """What is said of a report that its model does not know."""

    title: str
    about: tuple[str, ...]
    notes: tuple[str, ...]


def _fill(
    findings: Findings, fitted: FittedModel, heading: _Heading, cards: Cards, progress: Progress
) -> str:
    """The template with everything in its place."""
    from plotly.offline import get_plotlyjs

    from graphconv.report._charts import make_charts

    graph = findings.graph
    charts = make_charts(findings, fitted.history)
    places = _map_places(fitted, progress)
    drivers = _drivers(findings, fitted, cards)
    spoken_of = findings.spoken_of()
    data = {
        **_node_data(findings, places),
        "around": _around(cards, graph),
        "columns": columns_of_nodes(cards, spoken_of.tolist()),
        "why": reasons_of_nodes(fitted, spoken_of, progress),
        "charts": {
            # Plotly knows how to write its own figures; what it wrote is JSON.
            name: json.loads(chart.to_json())
            for name, chart in charts.items()
        },
        "graph": _graph_data(graph, progress),
    }
    parts = {
        "title": escape(heading.title),
        "subtitle": escape(" · ".join([_subtitle(graph), *heading.about])),
        "answer": sections.answer(findings),
        "notes": sections.notes(heading.notes),
        "tiles": sections.tiles(findings),
        "summary": sections.paragraphs(words.summary(findings)),
        "warnings": sections.warnings(words.warnings(findings)),
        "count": escape(count(graph.n_entities, "node")),
        "map-text": escape(_map_text(graph, places)),
        "unsure": sections.unsure(findings),
        "good": sections.good(findings),
        "drives": drives(drivers, findings.judged_by),
        "trust": sections.trust(findings),
        "data": sections.data(findings),
        "graph-text": escape(_graph_text(graph)),
        "learning": sections.learning(fitted, "loss" in charts),
        "footer": escape(f"Made by graphconv {__version__}."),
    }
    scripts = {
        "plotly": packed_text(get_plotlyjs()),
        "data": packed_text(json_text(data)),
        "unpack": _template("unpack.js"),
        "script": _template("page.js"),
    }
    return _replace_marks(_template("page.html"), parts, scripts)


def _drivers(findings: Findings, fitted: FittedModel, cards: Cards) -> Drivers | None:
    """What the labels rest on; None for a method that labels no other graph."""
    if not getattr(fitted, "labels_other_graphs", True):
        return None
    made = {} if cards.encoding is None else cards.encoding.features_of_columns
    return find_drivers(
        lambda changed: np.asarray(fitted.probabilities(changed)).mean(axis=1),
        findings.graph,
        findings.held_out,
        {name: np.array(places) for name, places in made.items()},
    )


def _around(cards: Cards, graph: Graph) -> dict[str, str] | None:
    """Neighbours of every node, packed; None of a graph with too many."""
    found = neighbours_of_all(cards, graph.labels)
    if found is None:
        return None
    return {"counts": _packed(found[0], np.uint8), "nodes": _packed(found[1], np.uint32)}


def _replace_marks(page: str, parts: Mapping[str, str], scripts: Mapping[str, str]) -> str:
    """Put parts and scripts in, in one pass: what is put in is not looked at again."""

    def put(match: re.Match[str]) -> str:
        return parts[match[1]] if match[1] else scripts[match[2]]

    return re.sub(r"<!--([\w-]+)-->|/\*(plotly|data|unpack|script)\*/", put, page)


def _template(name: str) -> str:
    return files("graphconv.report").joinpath(name).read_text(encoding="utf-8")


def _subtitle(graph: Graph) -> str:
    return (
        f"{count(graph.n_nodes, 'node')}, {count(graph.n_edges, 'edge')}, "
        f"{graph.n_classes} {'class' if graph.n_classes == 1 else 'classes'}, "
        f"{len(graph.train_index):,} labels to learn from"
    )


def _map_places(fitted: FittedModel, progress: Progress) -> Array:
    """Where each node lies on the map; relations have no place there."""
    from graphconv.training.fitted import FittedGCN

    if isinstance(fitted, FittedGCN) and fitted.settings.hidden:
        rows: Array = fitted.embedding()
    else:  # without hidden activations, as in a model of one layer, outputs are all there is
        probabilities = fitted.probabilities()
        rows = np.log(np.maximum(probabilities, 1e-9)).reshape(len(probabilities), -1)
    rows = rows[: fitted.graph.n_entities]
    stage = f"laying out the map of {count(len(rows), 'node')}"
    return embedding_map(rows, on_step=lambda done, total: progress(stage, done, total))


def _map_text(graph: Graph, places: Array) -> str:
    text = (
        "Nodes that the model finds alike lie close together (t-SNE of its hidden activations). "
        "Directions and distances between far groups mean nothing. Marks amid another class's are "
        "where to look for mistakes."
    )
    if len(places) > MAX_MAP_NODES:
        text += (
            f" A random sample of {MAX_MAP_NODES:,} of the {graph.n_entities:,} nodes is shown; a "
            "node that you search for is marked, sampled or not."
        )
    return text


def _node_data(findings: Findings, places: Array) -> dict[str, Any]:
    """What the page knows of each node, a column for each thing, packed.

    Nodes that stand for relations are left out: they come last, and nobody looks for their label.
    """
    graph, predictions = findings.graph, findings.predictions
    entities = slice(graph.n_entities)
    probabilities = np.asarray(findings.probabilities[entities], dtype=np.float64)
    n_top = min(_N_TOP, graph.n_classes)
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :n_top]
    names, label, truth = _label_texts(findings)
    choice = findings.first_choice[entities]
    confidence = predictions.confidence[entities]
    split = {"": 0, "train": 1, "validation": 2, "test": 3}
    limit = max(float(np.abs(places).max(initial=0)), 1e-9)
    x, y = (np.round(places[:, axis] / limit * 32_000) for axis in range(2))
    shown = None
    if graph.n_entities > MAX_MAP_NODES:
        rng = np.random.default_rng(0)
        shown = np.sort(rng.choice(graph.n_entities, MAX_MAP_NODES, replace=False))
    looks = [
        {"class": int(number), **class_marks(graph.n_classes)[number]._asdict()}
        for number in shown_classes(choice, graph.n_classes)
    ]
    return {
        "classes": findings.class_names,
        "labels": names,
        "looks": looks,
        "colours": {"light": COLOURS, "dark": DARK_COLOURS},
        "symbols": SYMBOLS,
        "nTop": n_top,
        "shown": None if shown is None else _packed(shown, np.uint32),
        "nodes": {
            "ids": [str(node) for node in graph.node_ids[entities].tolist()],
            "label": _packed(label[entities], np.uint32),
            "truth": _packed(truth[entities], np.uint32),
            "choice": _packed(choice, np.uint16),
            # Rounded down, so that what is not certain never looks it.
            "confidence": _packed(np.floor(10_000 * confidence + 1e-3), np.uint16),
            "split": _packed(
                [split[name] for name in predictions.split[entities].tolist()], np.uint8
            ),
            "links": _packed(n_neighbours(graph)[entities], np.uint32),
            "top": _packed(top, np.uint16),
            "topShare": _packed(
                np.floor(10_000 * np.take_along_axis(probabilities, top, axis=1) + 1e-3), np.uint16
            ),
            "x": _packed(x, np.int16),
            "y": _packed(y, np.int16),
        },
    }


def _label_texts(findings: Findings) -> tuple[list[str], Array, Array]:
    """All texts that stand for labels, and for each node the number of its own and the true one."""
    graph = findings.graph
    if not graph.is_multilabel:
        truth = np.where(graph.labels < 0, _NO_LABEL, graph.labels)
        return findings.class_names, findings.first_choice, truth
    names, separator = findings.class_names, f"{findings.predictions.separator} "

    def texts(table: Array) -> list[str]:
        return [
            separator.join(name for name, is_on in zip(names, row, strict=True) if is_on)
            for row in table
        ]

    found, given = texts(findings.probabilities > 0.5), texts(graph.labels > 0)
    distinct = sorted({*found, *given})
    number = {text: place for place, text in enumerate(distinct)}
    known = graph.is_labelled
    truth = np.array([number[text] for text in given])
    return distinct, np.array([number[text] for text in found]), np.where(known, truth, _NO_LABEL)


def _graph_data(graph: Graph, progress: Progress) -> dict[str, Any] | None:
    """Places and edges of a graph that is small enough to be drawn.

    Relations have places, or a knowledge graph would have no edges; the page puts no mark there.
    """
    if graph.n_nodes > MAX_GRAPH_NODES:
        return None
    stage = f"drawing the graph of {count(graph.n_nodes, 'node')}"
    places = graph_layout(graph.adjacency, on_step=lambda done, total: progress(stage, done, total))
    places = np.round(places / max(float(np.abs(places).max(initial=0)), 1e-9) * 32_000)
    edges = _edges(graph)
    return {
        "x": _packed(places[:, 0], np.int16),
        "y": _packed(places[:, 1], np.int16),
        "edges": _packed(edges, np.uint16),
    }


def _edges(graph: Graph) -> Array:
    ends = graph.adjacency.tocoo()
    pairs: Array = np.column_stack([ends.row, ends.col])
    pairs = pairs[(ends.row != ends.col) if graph.directed else (ends.row < ends.col)]
    if len(pairs) > MAX_DRAWN_EDGES:
        rng = np.random.default_rng(0)
        pairs = pairs[np.sort(rng.choice(len(pairs), MAX_DRAWN_EDGES, replace=False))]
    return pairs


def _graph_text(graph: Graph) -> str:
    text = (
        f"{count(graph.n_nodes, 'node')} and {count(graph.n_edges, 'edge')}; linked nodes attract."
    )
    if graph.n_entities < graph.n_nodes:
        text += " Where lines meet without a mark is a relation."
    if graph.n_nodes <= MAX_GRAPH_NODES and graph.n_edges > MAX_DRAWN_EDGES:
        text += f" A random sample of {MAX_DRAWN_EDGES:,} edges is drawn."
    return text


def packed_text(text: str) -> str:
    """Text as a third of its length, for unpack.js: compressed, in 85 letters.

    Of Python's 85 letters "<" is exchanged, so that nothing can end or open an element.
    """
    squeezed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    return base64.b85encode(squeezed).decode("ascii").replace("<", ",")


def _packed(values: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
    """Numbers as base64, little-endian as every browser's typed arrays are."""
    little = np.ascontiguousarray(np.asarray(values).astype(np.dtype(dtype).newbyteorder("<")))
    return base64.b64encode(little.tobytes()).decode("ascii")
