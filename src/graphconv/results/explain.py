"""explain(): a fitted model, a graph and a node enter; why the node has its label leaves.

Nothing is estimated. Every edge, neighbour and feature that the model looks at is taken away by
itself, and the prediction is computed again on what is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray
from graphconv.io.wording import did_you_mean
from graphconv.results.explanation import Contribution, Explanation
from graphconv.results.neighbourhood import Edit, Neighbourhood, scaled_batch
from graphconv.training.fitted import FittedGCN

Array = npt.NDArray[Any]
# Numbers to be computed for the edits of one kind: a second's worth.
WORK = 5e8
FEWEST_EDITS, MOST_EDITS = 100, 5000
# Nodes of a neighbourhood whose own labels are worked out, to be shown.
MOST_LABELS = 1000


def explain(
    fitted: FittedGCN, node: Hashable, graph: Graph | None = None, label: Hashable | None = None
) -> Explanation:
    """Why a node has its label: what each edge, neighbour and feature contributes, exactly.

    Each is taken away by itself and the prediction computed again, with the degrees that the graph
    then has and features scaled anew. Where a neighbourhood is so large that this would take
    long, only what the model uses most is tried, and the explanation's notes say so.

    Parameters
    ----------
    fitted : FittedGCN
    node : hashable
        Id of a node.
    graph : Graph, optional
        Where the node is. Default: the graph of the training.
    label : hashable, optional
        The class to explain. Default: the likeliest one.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.results.explain import explain
    >>> from graphconv.training.fit import fit_gcn
    >>> why = explain(fit_gcn(load_dataset("karate")), 11)
    >>> why.edges[0].item  # member 11 is linked with the instructor only
    (11, 0)
    """
    graph = fitted.graph if graph is None else graph
    if fitted.settings.correct_and_smooth:  # then all nodes have a say, not a neighbourhood alone
        from graphconv.results.removal import explain_by_removal

        names = fitted.graph.class_names
        return explain_by_removal(fitted.ensemble_probabilities, graph, node, names, label)
    position = position_of(graph, node)
    around = Neighbourhood(fitted, graph, position)
    probabilities = around.calibrated([Edit()])[0]
    predicted = int(probabilities.argmax())
    target = predicted if label is None else class_number(fitted.graph.class_names, label)
    probability, log_odds = _score(probabilities[None], target, fitted.graph.is_multilabel)
    question = _Question(around, target, float(probability[0]), float(log_odds[0]))
    names = fitted.graph.class_names
    labels = _labels_around(around)
    edges, about_edges = _edges(question)
    neighbours, about_neighbours = _neighbours(question, labels)
    features, about_features = _features(question)
    notes = (about_edges, about_neighbours, about_features)
    ids = graph.node_ids[around.rows].tolist()
    return Explanation(
        node=ids[0],
        label=names[target],
        probability=question.probability,
        log_odds=question.log_odds,
        predicted=names[predicted],
        n_hops=around.n_hops,
        edges=edges,
        neighbours=neighbours,
        features=features,
        labels=dict(zip(ids[: len(labels)], labels, strict=True)),
        distances=dict(zip(ids, around.distance.tolist(), strict=True)),
        notes=tuple(note for note in notes if note),
        directed=graph.directed,
    )


def position_of(graph: Graph, node: Hashable) -> int:
    """Where a node is in its graph; text may stand for an id that is a number."""
    ids = graph.node_ids.tolist()
    for same in (lambda known: known == node, lambda known: str(known) == node):
        for position, known in enumerate(ids):
            if same(known):
                return position
    hint = did_you_mean(str(node), map(str, ids))
    raise ValueError(
        f"node must be one of the graph's {graph.n_nodes:,} node ids, got {node!r}{hint}"
    )


def class_number(class_names: Sequence[Any], label: Hashable) -> int:
    """Which of some classes has a name; text may stand for a name that is a number."""
    names = [str(name) for name in class_names]
    if str(label) not in names:
        hint = did_you_mean(str(label), names)
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"class must be one of {shown}, got {str(label)!r}{hint}")
    return names.index(str(label))


@dataclass(frozen=True)
class _Question:
    """Which class of which node is to be explained, and where it stands."""

    around: Neighbourhood
    target: int
    probability: float
    log_odds: float

    def answer(
        self, items: list[Any], edits: list[Edit], details: list[str]
    ) -> tuple[Contribution, ...]:
        """What each item contributes, the strongest first."""
        known = self.around.fitted.graph
        probabilities = self.around.calibrated(edits)
        probability, log_odds = _score(probabilities, self.target, known.is_multilabel)
        found = [
            Contribution(
                item,
                self.probability - float(probability[number]),
                self.log_odds - float(log_odds[number]),
                known.class_names[int(probabilities[number].argmax())],
                details[number],
            )
            for number, item in enumerate(items)
        ]
        # Log-odds still tell contributions apart where the probability is all but 1.
        return tuple(sorted(found, key=lambda part: -abs(part.log_odds)))

    def limit(self, use: Array, what: str) -> tuple[IntArray, str]:
        """The most used of some things, in the order of their use, and a note if some are left."""
        most = int(np.clip(WORK // self.around.work, FEWEST_EDITS, MOST_EDITS))
        order = np.argsort(-use, kind="stable")
        if len(order) <= most:
            return order, ""
        return order[:most], (
            f"{most:,} of {len(order):,} {what} were tried, those that a random walk of "
            f"{self.around.n_hops} steps from the node meets most often"
        )


def _score(probabilities: Array, target: int, is_multilabel: bool) -> tuple[Array, Array]:
    """Probability and log-odds of a class, in double precision; probabilities (n, n_classes)."""
    exact = probabilities.astype(np.float64)
    yes = exact[:, target]
    # The others' sum keeps its digits where 1 - yes has lost them.
    no = 1 - yes if is_multilabel else np.delete(exact, target, axis=1).sum(axis=1)
    least = np.finfo(np.float32).tiny
    return yes, np.log(np.maximum(yes, least)) - np.log(np.maximum(no, least))


def _labels_around(around: Neighbourhood) -> list[Any]:
    """What the model calls the nearest nodes of a neighbourhood."""
    fitted = around.fitted
    batch = scaled_batch(fitted, around.graph, around.rows[:MOST_LABELS])
    probabilities = fitted.batch_probabilities(batch).mean(axis=1)
    return [fitted.graph.class_names[number] for number in probabilities.argmax(axis=1)]


def _walk(around: Neighbourhood) -> tuple[Array, Array, Array]:
    """A walk from the node that may stay: how often it crosses entries, visits rows, ends there."""
    weights = around.adjacency.data.astype(np.float64)
    step = 1 / (around.degree.astype(np.float64) + 1)
    at = np.zeros(len(around.rows))
    at[0] = 1
    crossed, visited = np.zeros(len(weights)), np.zeros(len(at))
    for _ in range(around.n_hops):
        crossing = (at * step)[around.entry_row] * weights
        crossed += crossing
        at = at * step + np.bincount(around.entry_column, crossing, minlength=len(at))
        visited += at
    return crossed, visited, at


def _edges(question: _Question) -> tuple[tuple[Contribution, ...], str]:
    around = question.around
    crossed = _walk(around)[0]
    rows, columns = around.entry_row, around.entry_column
    n_rows = len(around.rows)
    # Edges among the farthest nodes carry nothing to the node: they only count in degrees.
    reach = int((around.distance < around.n_hops).sum())
    carries = np.flatnonzero((rows < reach) | ((columns < reach) & (not around.graph.directed)))
    if around.graph.directed:
        key = rows * n_rows + columns
    else:
        key = np.minimum(rows, columns) * n_rows + np.maximum(rows, columns)
    keys, edge_of = np.unique(key[carries], return_inverse=True)
    use = np.bincount(edge_of, crossed[carries], minlength=len(keys))
    chosen, note = question.limit(use, "edges")
    by_edge = np.split(carries[np.argsort(edge_of, kind="stable")], np.cumsum(np.bincount(edge_of)))
    ids = around.graph.node_ids[around.rows].tolist()
    edits, items, details = [], [], []
    for number in chosen:
        near, far = divmod(int(keys[number]), n_rows)
        entries = by_edge[number].tolist()
        edits.append(Edit(entries=tuple(entries)))
        items.append((ids[near], ids[far]))
        weight = float(around.adjacency.data[entries[0]])
        details.append(f"weight {weight:g}" if around.graph.is_weighted else "")
    return question.answer(items, edits, details), note


def _neighbours(question: _Question, labels: list[Any]) -> tuple[tuple[Contribution, ...], str]:
    around = question.around
    chosen, note = question.limit(_walk(around)[1][1:], "neighbours")
    rows = chosen + 1  # all but the node itself
    trained_on = around.fitted.graph
    train_ids = set(trained_on.node_ids[trained_on.train_index].tolist())
    ids = around.graph.node_ids[around.rows].tolist()
    of_node = around.entry_row == 0
    weights = dict(
        zip(around.entry_column[of_node].tolist(), around.adjacency.data[of_node], strict=True)
    )
    details = []
    for row in rows.tolist():
        hops = int(around.distance[row])
        parts = ["linked" if hops == 1 else f"{hops} hops away"]
        if around.graph.is_weighted and row in weights:
            parts.append(f"weight {weights[row]:g}")
        if row < len(labels):
            parts.append(f"predicted {labels[row]}")
        if ids[row] in train_ids:
            parts.append("used in training")
        details.append(", ".join(parts))
    edits = [Edit(node=int(row)) for row in rows]
    return question.answer([ids[row] for row in rows], edits, details), note


def _features(question: _Question) -> tuple[tuple[Contribution, ...], str]:
    around = question.around
    features: Any = around.features
    if features is None:
        return (), ""
    # A column counts by its size in each row and by how much of the walk ends there.
    use = np.asarray(abs(features).T @ _walk(around)[2]).ravel()
    filled = _filled(features)
    columns = np.flatnonzero(filled)
    chosen, note = question.limit(use[columns], "features")
    columns = columns[chosen]
    names = around.graph.feature_names
    items = [column if names is None else names[column] for column in columns.tolist()]
    own = _filled(features[[0]])
    values = around.own_values
    n_others = filled - own
    details = []
    for column in columns:
        known = [f"value {values[column]:.4g}"] if own[column] else []
        if n_others[column]:
            whom = f"in {n_others[column]:,} of {len(around.rows) - 1:,} neighbours"
            known.append(whom if own[column] else f"{whom} only")
        details.append(", ".join(known))
    edits = [Edit(feature=int(column)) for column in columns]
    return question.answer(items, edits, details), note


def _filled(features: Any) -> IntArray:
    """How many rows have something in each column."""
    if sp.issparse(features):
        columns = features.indices[features.data != 0]
        counts: IntArray = np.bincount(columns, minlength=features.shape[1])
    else:
        counts = np.count_nonzero(features, axis=0)
    return counts
