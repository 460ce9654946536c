"""Sections of the report page as HTML: findings enter, escaped text leaves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphconv.io.wording import count, signed
from graphconv.report._findings import Findings, n_neighbours
from graphconv.report._words import FEW_HELD_OUT, data_card, percent
from graphconv.training.scores import Interval, wilson_interval

if TYPE_CHECKING:
    from graphconv.training.fitted_model import FittedModel

Array = npt.NDArray[Any]
_CERTAIN, _N_SUREST = 0.9, 3
# Of more classes than this the table shows the ones with most nodes.
_MAX_CLASS_ROWS = 30


def safe(text: str) -> str:
    """Text as HTML; a number stays on one line with its percent sign."""
    return escape(text).replace(" %", "&nbsp;%")


def paragraphs(texts: Sequence[str]) -> str:
    return "\n".join(f"<p>{safe(text)}</p>" for text in texts)


def warnings(texts: Sequence[str]) -> str:
    """A list of what to beware of; nothing if there is nothing."""
    if not texts:
        return ""
    items = "\n".join(f"<li>{safe(text)}</li>" for text in texts)
    return f'<h3>Before you rely on it</h3>\n<ul class="warnings">\n{items}\n</ul>'


def tiles(findings: Findings) -> str:
    """The numbers that matter most, large."""
    graph, accuracy, bins = findings.graph, findings.accuracy, findings.reliability
    shown = [("Nodes labelled", f"{graph.n_entities:,}", f"from {len(graph.train_index):,} labels")]
    if accuracy is not None:
        pairs = " of decisions" if graph.is_multilabel else ""
        where = f" on {findings.judged_by} nodes"
        if findings.is_cross_validated:
            where = ", by cross-validation"
        elif findings.judged_by == "validation":
            where += ", used to choose"
        about = f"between {percent(accuracy.low)} and {percent(accuracy.high)}, 95 % confidence"
        shown.append((f"Right{pairs}{where}", percent(accuracy.share), about))
    if bins is not None and len(findings.held_out) >= FEW_HELD_OUT:
        before = findings.error_before
        about = "mean gap between confidence and truth"
        if not findings.calibration.changes_nothing:
            about += f"; {percent(before)} uncalibrated"
        shown.append(("Calibration error", percent(bins.error), about))
    elif accuracy is not None and findings.commonest is not None:
        # Of few nodes a calibration error is mostly chance.
        guess, right = findings.commonest
        points = f"{signed(100 * (accuracy.share - right), 0)} points"
        about = f"always guessing {guess} would be right in {percent(right, 0)} of cases"
        shown.append(("Better than guessing by", points, about))
    sure = next(row for row in findings.threshold_rows() if row.threshold == 0.9)
    share = percent(sure.n_nodes / graph.n_entities, 0)
    shown.append(("At least 90 % sure", f"{sure.n_nodes:,}", f"{share} of all nodes"))
    cells = "\n".join(
        f'<div class="tile"><dt>{safe(name)}</dt><dd><div class="figure">{safe(figure)}</div>'
        f'<div class="soft">{safe(about)}</div></dd></div>'
        for name, figure, about in shown
    )
    return f'<dl class="tiles">\n{cells}\n</dl>'


def answer(findings: Findings) -> str:
    """How many nodes each class has, how many of these are certain, and the surest ones."""
    graph = findings.graph
    if graph.is_multilabel:
        return ""
    entities = slice(graph.n_entities)
    choice = findings.first_choice[entities]
    confidence = findings.predictions.confidence[entities]
    counts = np.bincount(choice, minlength=graph.n_classes)
    order = np.argsort(-counts, kind="stable")[:_MAX_CLASS_ROWS]
    rows = []
    for number in order.tolist():
        members = np.flatnonzero(choice == number)
        n_certain = int((confidence[members] >= _CERTAIN).sum())
        surest = findings.surest(number, _N_SUREST)
        tops = ", ".join(
            f'<button type="button" data-node="{node}">{safe(str(graph.node_ids[node]))}</button>'
            f" {safe(percent(float(confidence[node]), 0))}"
            for node in surest.tolist()
        )
        share = percent(len(members) / max(graph.n_entities, 1), 0)
        certain = percent(n_certain / len(members), 0) if len(members) else "-"
        name = _breakable(findings.class_names[number])
        rows.append([name, f"{len(members):,} ({share})", f"{n_certain:,} ({certain})", tops])
    caption = "Every class: its nodes, how many of them are at least 90 % sure, and the surest ones"
    if graph.n_classes > len(order):
        caption += f" (the {len(order)} largest of {graph.n_classes} classes)"
    table = html_table(
        caption, ["Class", "Nodes", "Sure", "Surest nodes"], rows, numbers={"Nodes", "Sure"}
    )
    download = '<button type="button" id="download">Download all labels (CSV)</button>'
    return f'{table}\n<p class="download">{download}</p>'


def notes(texts: Sequence[str]) -> str:
    """What was done with the data when it was read; nothing if there is nothing."""
    if not texts:
        return ""
    items = "\n".join(f"<li>{safe(text)}</li>" for text in texts)
    return f"<h3>What was done with the data</h3>\n<ul>\n{items}\n</ul>"


def unsure(findings: Findings) -> str:
    """The nodes to look at: least certain ones, and labels that the model contradicts."""
    nodes = findings.least_certain()
    has_unlabelled = not findings.graph.is_labelled[: findings.graph.n_entities].all()
    whom = "nodes without a label" if has_unlabelled else "nodes outside training"
    text = (
        f"Of all {whom}, the model is least sure of these. Labelling some of them yourself and "
        "training again teaches it more than labelling what it knows."
    )
    parts = [f"<p>{safe(text)}</p>", _node_table(findings, nodes, f"The least certain {whom}")]
    if findings.out_of_fold is not None:
        return "\n".join([*parts, _contradicted(findings)])
    doubtful = findings.doubtful_labels()
    if len(doubtful):
        text = (
            "The model is at least 80 % sure of another label than the one given. It may be wrong "
            "there; or the label is."
        )
        parts += ["<h3>Labels worth a second look</h3>", f"<p>{text}</p>"]
        parts.append(
            _node_table(findings, doubtful, "Given labels that the model contradicts", True)
        )
    return "\n".join(parts)


def _contradicted(findings: Findings) -> str:
    """Given labels that models which have not seen them contradict."""
    found = findings.contradicted_labels()
    if not found:
        return ""
    text = (
        "Models that have not seen these labels find another class likelier, the most suspicious "
        "label first. They may be wrong there; or the label is."
    )
    ids = findings.graph.node_ids
    rows = [
        [
            f'<button type="button" data-node="{one.node}">{safe(str(ids[one.node]))}</button>',
            _with_probability(one.given, one.given_probability),
            _with_probability(one.likelier, one.likelier_probability),
        ]
        for one in found
    ]
    table = html_table("Given labels that look wrong", ["Node", "Given", "Looks like"], rows)
    return f"<h3>Labels worth a second look</h3>\n<p>{safe(text)}</p>\n{table}"


def _node_table(findings: Findings, nodes: Array, caption: str, with_given: bool = False) -> str:
    graph, names = findings.graph, findings.class_names
    labels, confidence = findings.predictions.labels, findings.predictions.confidence
    order = np.argsort(-findings.probabilities[nodes], axis=1, kind="stable")
    degree = n_neighbours(graph)
    rows = []
    for place, node in enumerate(nodes.tolist()):
        button = (
            f'<button type="button" data-node="{node}">{safe(str(graph.node_ids[node]))}</button>'
        )
        more = ""
        if with_given:
            more = f"given: {names[graph.labels[node]]}"
        elif not graph.is_multilabel and graph.n_classes > 1:
            # Of several labels per node the runner-up says nothing.
            second = int(order[place, 1])
            share = percent(float(findings.probabilities[node, second]), 0)
            more = f"or {names[second]}, {share}"
        # With several labels per node there may be none.
        label = f"{_breakable(str(labels[node])) or 'none'}<small>{_breakable(more)}</small>"
        sure = safe(percent(float(confidence[node]), 0))
        rows.append([button, label, sure, f"{degree[node]:,}"])
    return html_table(caption, ["Node", "Predicted", "Sure", "Links"], rows, {"Sure", "Links"})


def _breakable(text: str) -> str:
    """Text as HTML that may go on in the next line after an underscore."""
    return safe(text).replace("_", "_<wbr>")


def _with_probability(label: str, probability: float) -> str:
    return f"{_breakable(label)}<small>{safe(percent(probability, 0))}</small>"


def good(findings: Findings) -> str:
    """Per-class scores, the confusion matrix and the commonest mistakes."""
    if not findings.judged_by:
        return "<p>Without test nodes nobody can tell.</p>"
    judged = f"{count(len(findings.held_out), f'{findings.judged_by} node')}"
    text = (
        "Precision: of the nodes given this label, how many have it. Recall: of the nodes that "
        f"have it, how many were found. F1 is the balance of both. Measured on {judged}."
    )
    parts = [f"<p>{safe(text)}</p>", _class_table(findings)]
    if findings.confusion is not None:
        wrong = findings.mix_ups()
        parts.append("<h3>Where it goes wrong</h3>")
        if wrong:
            items = "".join(
                f"<li>{safe(kind.true_class)} taken for {safe(kind.predicted_class)}: "
                f"{kind.n_nodes:,} of {count(kind.n_true, 'node')} "
                f"({percent(kind.n_nodes / kind.n_true, 0)})</li>"
                for kind in wrong
            )
            parts.append(f"<p>The commonest mistakes:</p>\n<ol>{items}</ol>")
        caption = (
            "Confusion matrix: each row is a true class and shows what its nodes were labelled. "
            "Right answers are on the diagonal."
        )
        parts.append(_chart("confusion", caption, "square"))
    return "\n".join(parts)


def _class_table(findings: Findings) -> str:
    rows = findings.class_rows()
    caption = "Each class: labels to learn from, nodes to judge by, and how well it is found"
    if len(rows) > _MAX_CLASS_ROWS:
        rows = sorted(rows, key=lambda row: -row.n_held_out)[:_MAX_CLASS_ROWS]
        caption += f" (the {_MAX_CLASS_ROWS} most frequent classes)"
    judged = "Test nodes" if findings.judged_by == "test" else "Validation nodes"
    columns = ["Class", "Precision", "Recall", "F1", judged, "Training nodes", "Nodes given it"]
    table = [
        [
            _breakable(row.name),
            *(percent(value, 0) for value in (row.precision, row.recall, row.f1)),
            *(f"{value:,}" for value in (row.n_held_out, row.n_train, row.n_predicted)),
        ]
        for row in rows
    ]
    return html_table(caption, columns, table, numbers=set(columns[1:]))


def trust(findings: Findings) -> str:
    """Whether confidence can be believed, and what relying on it gains."""
    parts = []
    if not findings.calibration.changes_nothing:
        before = findings.error_before
        gain = "" if before is None else f" The error was {percent(before)} before."
        text = (
            "A model's raw confidence is rarely to be believed. This one's was calibrated on "
            f"{count(len(findings.graph.validation_index), 'validation node')} (temperature "
            f"{findings.calibration.temperature:.2f}, doubt {findings.calibration.doubt:.2f}); no "
            f"label changed by that.{gain}"
        )
        parts.append(f"<p>{safe(text)}</p>")
    if findings.judged_by:
        parts.append(_threshold_table(findings))
    parts.append(_set_table(findings))
    caption = "How sure the model is of its labels, all nodes."
    charts = [_chart("confidence", caption)]
    if findings.judged_by:
        caption = (
            f"How often it is right, by how sure it says it is, on {findings.judged_by} nodes. "
            "Bars that reach the dashed line: confidence can be believed. Bars above it: too "
            "modest; below it: too sure. Bins with few nodes waver."
        )
        charts.append(_chart("reliability", caption))
    return "\n".join([*parts, f'<div class="pair">{"".join(charts)}</div>'])


def _set_table(findings: Findings) -> str:
    """How many nodes have one class in their set, how many two, and so on."""
    sizes = findings.set_sizes
    if sizes is None or findings.coverage is None:
        return ""
    index = findings.graph.test_index
    rows = []
    for size in range(1, findings.graph.n_classes + 1):
        n_nodes = int((sizes == size).sum())
        if n_nodes:
            share = percent(n_nodes / len(sizes), 0)
            rows.append([count(size, "class").replace("classs", "classes"), f"{n_nodes:,}", share])
    target = percent(findings.coverage, 0)
    text = (
        f"Each node has a set of classes it may have. In {target} of cases the set holds the right "
        "one; a set of one class needs no second look."
    )
    sets = findings.predictions.sets
    if len(index) and sets is not None:
        covered = wilson_interval(int(sets[index, findings.graph.labels[index]].sum()), len(index))
        text += f" On test nodes it was {_interval(covered)}."
    caption = f"Nodes by the number of classes in their set, for a coverage of {target}"
    table = html_table(caption, ["Set", "Nodes", "Share"], rows, numbers={"Nodes", "Share"})
    return f"<h3>Classes that a node may have</h3>\n<p>{safe(text)}</p>\n{table}"


def _threshold_table(findings: Findings) -> str:
    rows = []
    whole = " (all of a node's labels)" if findings.graph.is_multilabel else ""
    for row in findings.threshold_rows():
        name = "every label" if row.threshold == 0 else f"at least {percent(row.threshold, 0)} sure"
        share = percent(row.n_nodes / findings.graph.n_entities, 0)
        rows.append([name, f"{row.n_nodes:,} ({share})", _interval(row.right)])
    columns = ["If you use", "Nodes", f"Right{whole}"]
    caption = (
        "What you get if you use only labels that the model is sure of; in brackets where the true "
        "share lies with 95 % confidence"
    )
    return html_table(caption, columns, rows, numbers={columns[1], columns[2]})


def _interval(value: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{percent(value.share)} ({100 * value.low:.0f} to {100 * value.high:.0f})"


def data(findings: Findings) -> str:
    """The data card, and how many nodes have each label."""
    items = "\n".join(
        f'<tr><th scope="row">{safe(name)}</th><td>{safe(value)}</td></tr>'
        for name, value in data_card(findings)
    )
    caption = "The graph in numbers"
    card = (
        f'<div class="scroll"><table><caption>{caption}</caption><tbody>\n{items}\n</tbody></table>'
        "</div>"
    )
    rows = sorted(findings.class_rows(), key=lambda row: -row.n_labelled)
    about = "Labels in the data"
    if len(rows) > _MAX_CLASS_ROWS:
        rows, about = rows[:_MAX_CLASS_ROWS], f"{about} (the {_MAX_CLASS_ROWS} most frequent)"
    known = max(int(findings.graph.is_labelled.sum()), 1)
    table = [
        [_breakable(row.name), f"{row.n_labelled:,}", percent(row.n_labelled / known)]
        for row in rows
    ]
    counts = html_table(
        about, ["Class", "Labelled nodes", "Share"], table, {"Labelled nodes", "Share"}
    )
    return f'<div class="pair"><div>{card}</div><div>{counts}</div></div>'


def learning(fitted: FittedModel, has_history: bool) -> str:
    """Learning curves and settings."""
    from graphconv.training.fitted import FittedGCN

    if not isinstance(fitted, FittedGCN):
        settings = getattr(fitted, "params", {}) or {"settings": "the method's own"}
        rows = [
            [safe(name.replace("_", " ")), safe(_shown(value))] for name, value in settings.items()
        ]
        method = safe(str(getattr(fitted, "method", "This method")))
        table = html_table("What the method was given", ["Setting", "Value"], rows)
        return f"<p>{method} does not learn epoch by epoch, so there are no curves.</p>\n{table}"
    text = (
        f"Training took {count(fitted.n_epochs, 'epoch')}: so many times the model saw its labels. "
        "Loss is what it lowers (the penalty on its weights included); accuracy is the share of "
        "right labels. If validation nodes still gain at the end, more epochs may help."
    )
    parts = [f"<p>{safe(text)}</p>"]
    if has_history:
        charts = [
            _chart("loss", "Loss after each epoch."),
            _chart("accuracy", "Accuracy after each epoch."),
        ]
        parts.append(f'<div class="pair">{"".join(charts)}</div>')
    settings = {"seeds": list(fitted.network.seeds), **fitted.settings.to_json()}
    rows = [
        [safe(name.replace("_", " ")), safe(_shown(value))]
        for name, value in settings.items()
        if value is not None
    ]
    table = html_table("What the model was trained with", ["Setting", "Value"], rows)
    parts.append(f"<details><summary>Settings</summary>\n{table}\n</details>")
    if fitted.choice:
        parts.append(f"<p>Settings were chosen on held-out labels: {safe(fitted.choice)}.</p>")
    return "\n".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) if value else "none"
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def _chart(name: str, caption: str, kind: str = "") -> str:
    style = f"chart {kind}".strip()
    return (
        f'<figure><div class="{style}" id="{name}" role="img" aria-label="{safe(caption)}"></div>'
        f"<figcaption>{safe(caption)}</figcaption></figure>"
    )


def html_table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[str] = (),
) -> str:
    """A table; cells are HTML, everything else is text."""

    def cells(row: Sequence[str]) -> str:
        first, *rest = row
        made = [f'<th scope="row">{first}</th>']
        for name, cell in zip(columns[1:], rest, strict=True):
            style = ' class="number"' if name in numbers else ""
            made.append(f"<td{style}>{cell}</td>")
        return "".join(made)

    head = "".join(
        f'<th scope="col"{" class=number" if name in numbers else ""}>{safe(name)}</th>'
        for name in columns
    )
    body = "\n".join(f"<tr>{cells(row)}</tr>" for row in rows)
    # Wide tables scroll by themselves; a region that scrolls must be reachable by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(caption)}"><table>'
        f"<caption>{safe(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
