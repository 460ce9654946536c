"""Words: findings as sentences that a newcomer understands.

A `Findings` enters, plain text leaves; whoever prints it escapes it.
"""

from __future__ import annotations

import math

import numpy as np

from graphconv.io.wording import count
from graphconv.report._findings import Findings, n_neighbours

# Training nodes of the largest class for one of the smallest, above which it is worth a word.
_IMBALANCE = 5
_FEW_TRAINING_NODES = 5
FEW_HELD_OUT = 100
_HARDLY_ALIKE = 0.2


def percent(share: float | None, digits: int = 1) -> str:
    """A share for the eye.

    Examples
    --------
    >>> from graphconv.report._words import percent
    >>> percent(0.8149), percent(0.9986, 0), percent(None)
    ('81.5 %', '99.8 %', '-')
    """
    if share is None:
        return "-"
    text = f"{100 * share:.{digits}f}"
    if share < 1 and float(text) == 100:  # nearly is not quite
        text = f"{math.floor(1000 * share) / 10:.1f}"
    return f"{text} %"


def summary(findings: Findings) -> list[str]:
    """The report in a few sentences: what was done, how good it is, where it is unsure."""
    graph = findings.graph
    n_train = len(graph.train_index)
    sentences = [
        f"The model was shown the labels of {count(n_train, 'node')} "
        f"({percent(n_train / graph.n_entities)}) and labelled all {graph.n_entities:,} nodes "
        "of the graph."
    ]
    sentences += _how_good(findings)
    sentences += _how_sure(findings)
    mistakes = findings.mix_ups(1)
    if mistakes:
        worst = mistakes[0]
        sentences.append(
            f"Its commonest mistake is to take {worst.true_class} for {worst.predicted_class}: "
            f"{worst.n_nodes} of {worst.n_true} such nodes."
        )
    return sentences


def _how_good(findings: Findings) -> list[str]:
    accuracy, n_judged = findings.accuracy, len(findings.held_out)
    if accuracy is None:
        return [
            "How good these labels are is not known: no labelled node was kept aside to find out. "
            "Keep some as test nodes."
        ]
    pairs = " decisions (node and class)" if findings.graph.is_multilabel else ""
    whom = f"On {count(n_judged, 'test node')}, whose labels it never saw,"
    if findings.is_cross_validated:
        n_labels = len(findings.graph.train_index) + len(findings.graph.validation_index)
        whom = f"Of {count(n_labels, 'labelled node')}, each shown to a model like this one without"
        whom += " its label,"
        return [
            f"{whom} {percent(accuracy.share)} were labelled right; with 95 % confidence the true "
            f"share lies between {percent(accuracy.low)} and {percent(accuracy.high)}."
        ]
    if findings.judged_by == "validation":
        whom = f"On {count(n_judged, 'validation node')}, which decided when training stops,"
    found = [
        f"{whom} {percent(accuracy.share)} of its {pairs or 'labels'} are right; with 95 % "
        f"confidence the true share lies between {percent(accuracy.low)} and "
        f"{percent(accuracy.high)}."
    ]
    common = findings.commonest
    if common is not None:
        found.append(
            f"Always guessing {common[0]} would be right in {percent(common[1])} of cases."
        )
    return found


def _how_sure(findings: Findings) -> list[str]:
    said = []
    bins = findings.reliability
    if bins is not None and len(findings.held_out) < FEW_HELD_OUT:
        said.append(
            f"Whether its confidence can be believed, {len(findings.held_out)} nodes are too few "
            "to tell."
        )
    elif bins is not None:
        verdict = (
            "Its confidence can be taken at its word"
            if bins.error <= 0.05
            else "Its confidence is a rough guide"
            if bins.error <= 0.1
            else "Its confidence should not be taken at its word"
        )
        said.append(
            f"{verdict}: what it says and how often it is right differ by "
            f"{percent(bins.error)} on average."
        )
    rows = {row.threshold: row for row in findings.threshold_rows()}
    sure = rows[0.9]
    if sure.right is not None and not findings.graph.is_multilabel:
        said.append(
            f"It is at least 90 % sure of {sure.n_nodes:,} nodes "
            f"({percent(sure.n_nodes / findings.graph.n_entities, 0)}); of such nodes that could "
            f"be checked, {percent(sure.right.share)} are right."
        )
    return said


def data_card(findings: Findings) -> list[tuple[str, str]]:
    """Facts about the graph, each with its name."""
    graph = findings.graph
    degree = n_neighbours(graph)
    kinds = [
        "directed" if graph.directed else "undirected",
        "weighted" if graph.is_weighted else "unweighted",
    ]
    features = "none" if graph.features is None else f"{graph.n_features:,}"
    card = [
        ("Nodes", f"{graph.n_nodes:,}"),
        ("Edges", f"{graph.n_edges:,} ({', '.join(kinds)})"),
        (
            "Links of a node",
            f"{degree.mean():.1f} on average, {np.median(degree):.0f} for the typical node, "
            f"{degree.max(initial=0):,} at most",
        ),
        ("Isolated nodes", f"{graph.n_isolated:,}"),
        ("Edges from a node to itself", f"{graph.n_self_loops:,}"),
        ("Features", features),
        ("Classes", f"{graph.n_classes:,}" + " (several per node)" * graph.is_multilabel),
        (
            "Labelled nodes",
            f"{int(graph.is_labelled.sum()):,}, of which {len(graph.train_index):,} to train, "
            f"{len(graph.validation_index):,} to validate and {len(graph.test_index):,} to test",
        ),
        ("Likeness of neighbours (homophily)", _about_homophily(findings)),
    ]
    return card


def _about_homophily(findings: Findings) -> str:
    found = findings.homophily()
    if found is None:
        return "unknown: too few edges join two labelled nodes"
    what = "share a label" if findings.graph.is_multilabel else "join nodes of the same class"
    chance = "" if found.by_chance is None else f", {percent(found.by_chance, 0)} by chance"
    edges = count(found.n_edges, "edge")
    return f"{percent(found.share, 0)} of {edges} between labelled nodes {what}{chance}"


def warnings(findings: Findings) -> list[str]:
    """What a careful reader should know before relying on the labels."""
    return [
        text
        for text in (
            *_about_labels(findings),
            _about_judging(findings),
            _about_calibration(findings),
            _about_structure(findings),
            _about_isolated(findings),
        )
        if text
    ]


def _about_labels(findings: Findings) -> list[str]:
    rows = findings.class_rows()
    trained = [row for row in rows if row.n_train]
    said = []
    largest, smallest = (pick(trained, key=lambda row: row.n_train) for pick in (max, min))
    if largest.n_train >= _IMBALANCE * smallest.n_train:
        said.append(
            f"Classes are unbalanced: {largest.name} has {largest.n_train:,} training nodes, "
            f"{smallest.name} has {smallest.n_train:,}. Rare classes may be overlooked; "
            "Balanced class weights give them the same say."
        )
    few = [row.name for row in trained if row.n_train < _FEW_TRAINING_NODES]
    if few and len(few) == len(trained):
        said.append(
            f"No class has {_FEW_TRAINING_NODES} training nodes or more: more labels would help."
        )
    elif few:
        said.append(
            f"{_listed(few)} {'has' if len(few) == 1 else 'have'} fewer than "
            f"{_FEW_TRAINING_NODES} training nodes: more labels would help most there."
        )
    unseen = [row.name for row in rows if not row.n_train and row.n_labelled]
    if unseen:
        said.append(f"No training node has class {_listed(unseen)}: it can't be predicted.")
    silent = [row.name for row in trained if not row.n_predicted]
    if silent:
        said.append(f"No node at all was labelled {_listed(silent)}.")
    return said


def _about_judging(findings: Findings) -> str:
    n_judged, accuracy = len(findings.held_out), findings.accuracy
    if accuracy is None:
        return "There are no test nodes, so nobody knows how good the labels are."
    if findings.is_cross_validated:
        return (
            "There are no test nodes. How often labels are right was found by cross-validation; "
            "figures by class and confidence are from validation nodes, which also decided when "
            "training stops, and flatter the model a little."
        )
    if findings.judged_by == "validation":
        return (
            "There are no test nodes. The figures are from validation nodes, which also decided "
            "when training stops, so they flatter the model a little."
        )
    common = findings.commonest
    if common is not None and accuracy.low <= common[1]:
        return (
            f"The model may be no better than always guessing {common[0]}, which would be right "
            f"in {percent(common[1])} of cases."
        )
    if n_judged < FEW_HELD_OUT:
        return (
            f"Only {count(n_judged, 'test node')}: the accuracy could as well be "
            f"{percent(accuracy.low, 0)} or {percent(accuracy.high, 0)}."
        )
    return ""


def _about_calibration(findings: Findings) -> str:
    bins = findings.reliability
    if findings.calibration.changes_nothing and not len(findings.graph.validation_index):
        return (
            "There are no validation nodes, so confidence could not be calibrated: take it as an "
            "order of certainty, not as a probability."
        )
    # A perfect model would show 3 % on 1,000 nodes by chance alone, and more on fewer.
    if bins is not None and bins.error > 0.1 and len(findings.held_out) >= FEW_HELD_OUT:
        return (
            f"Confidence and truth differ by {percent(bins.error)} on average: take confidence as "
            "an order of certainty, not as a probability."
        )
    return ""


def _about_structure(findings: Findings) -> str:
    found = findings.homophily()
    if found is None or found.by_chance is None or found.by_chance == 1:
        return ""
    # 0 is chance, 1 is neighbours that are always alike.
    if (found.share - found.by_chance) / (1 - found.by_chance) >= _HARDLY_ALIKE:
        return ""
    return (
        f"Neighbours are hardly alike: {percent(found.share, 0)} of the edges join nodes of the "
        f"same class, {percent(found.by_chance, 0)} would by chance. A model of the features alone "
        "(mlp) may do as well or better."
    )


def _about_isolated(findings: Findings) -> str:
    graph = findings.graph
    if graph.n_isolated <= 0.05 * graph.n_nodes:
        return ""
    means = "nothing but guessing" if graph.features is None else "their features alone"
    share = percent(graph.n_isolated / graph.n_nodes, 0)
    return f"{graph.n_isolated:,} nodes ({share}) have no neighbour: for them there is {means}."


def _listed(names: list[str], most: int = 5) -> str:
    """Names in a row: a, b and c; a, b and 7 more.

    Examples
    --------
    >>> from graphconv.report._words import _listed
    >>> _listed(["a"]), _listed(["a", "b", "c"]), _listed(list("abcdef"), most=2)
    ('a', 'a, b and c', 'a, b and 4 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
