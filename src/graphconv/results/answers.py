"""Answers: what people have said about the nodes of a graph, with undo, kept in a label file.

Every change is written first and holds afterwards: what could not be saved has not happened.
Reading the file again gives the same answers, those that can be taken back included.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.io.label_file import LabelFile, LabelLine, latest_labels
from graphconv.io.wording import did_you_mean, shown

MOST_CLASSES = 200
LONGEST_NAME = 200
# How a node got its label: given with the data, or one of KINDS in the order of this tuple.
HOW = ("", "given", "asked", "random", "chosen")


@dataclass(frozen=True)
class Action:
    """What somebody did in one go, and what it replaced."""

    number: int
    who: str
    how: str
    nodes: tuple[int, ...]
    label: str
    before: tuple[tuple[str, str], ...]  # label and how of each node; empty where it had none


class Answers:
    """Labels of a graph's nodes as people give them.

    Parameters
    ----------
    graph : Graph
        Labels of its training nodes count as given.
    file : LabelFile
        Its lines are read, and all that follows is written there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv import Graph
    >>> from graphconv.io.label_file import LabelFile
    >>> from graphconv.results.answers import Answers
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.csv"
    >>> answers = Answers(Graph([[0, 1], [1, 0]], node_ids=["a", "b"]), LabelFile(path))
    >>> _ = answers.give([0], "red", "me", "asked")
    >>> answers.class_names, answers.labels.tolist()
    (['red'], [0, -1])
    >>> _ = answers.undo("me")
    >>> answers.labels.tolist()
    [-1, -1]
    """

    def __init__(self, graph: Graph, file: LabelFile) -> None:
        if graph.is_multilabel:
            raise ValueError("nodes must have one label each to be labelled here, got several")
        self.node_ids = [str(node) for node in graph.node_ids[: graph.n_entities].tolist()]
        self.position = {node: place for place, node in enumerate(self.node_ids)}
        if len(self.position) < len(self.node_ids):
            raise ValueError("node ids must be distinct as text, but two are not")
        self.file = file
        self.class_names = [check_name(str(name)) for name in graph.class_names]
        self.labels: IntArray = np.full(graph.n_nodes, -1, dtype=np.int64)
        self.how: npt.NDArray[np.int8] = np.zeros(graph.n_nodes, dtype=np.int8)
        self.skipped: set[int] = set()
        self.actions: list[Action] = []
        self.version = 0
        self._last_number = 0
        self.labels[graph.train_index] = graph.labels[graph.train_index]
        self.how[graph.train_index] = HOW.index("given")
        for lines in _grouped(file.lines):
            self._replay(lines)

    @property
    def labelled(self) -> IntArray:
        """Positions of the nodes that have a label."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def random(self) -> IntArray:
        """Positions of the labelled nodes whose question was drawn at random."""
        return np.flatnonzero((self.how == HOW.index("random")) & (self.labels >= 0))

    @property
    def lessons(self) -> IntArray:
        """The labels that a model may learn from: all but those of random questions."""
        labels = self.labels.copy()
        labels[self.random] = -1
        return labels

    @property
    def n_questions(self) -> int:
        """Questions of the machine's choice that were answered."""
        return sum(action.how in ("asked", "random") for action in self.actions)

    @property
    def n_answered(self) -> int:
        """Nodes that a person has labelled."""
        return int(((self.how > HOW.index("given")) & (self.labels >= 0)).sum())

    def give(self, nodes: Sequence[int], label: str, who: str, how: str) -> Action:
        """Label nodes, or take their label away (""); saved when this returns."""
        label = check_name(label) if label else ""
        if how not in ("asked", "random", "chosen", "skip") or (not label and how == "asked"):
            raise ValueError(f"how must say how the node was met, got {how!r}")
        if label and label not in self.class_names and len(self.class_names) >= MOST_CLASSES:
            raise ValueError(f"there can be {MOST_CLASSES} classes at most")
        nodes = list(dict.fromkeys(nodes))
        if not nodes or not all(0 <= node < len(self.node_ids) for node in nodes):
            raise ValueError("an answer must be about nodes of the graph")
        if how == "skip":
            nodes = [node for node in nodes if self.labels[node] < 0]
            label = ""
            if not nodes:
                raise ValueError("a node that has a label can't be skipped")
        action = self._action(self._last_number + 1, who, how, nodes, label)
        self.file.append([self._line(node, label, who, how, action.number) for node in nodes])
        self._do(action)
        return action

    def undo(self, who: str) -> Action | None:
        """Take the last thing back that somebody did; None if there is nothing."""
        mine = [action for action in self.actions if action.who == who]
        if not mine:
            return None
        action = mine[-1]
        labels = [label for label, _ in action.before]
        if action.how == "skip":  # somebody else may have labelled the node since
            labels = [self._name(self.labels[node]) for node in action.nodes]
        self.file.append(
            [
                self._line(node, label, who, "undo", action.number)
                for node, label in zip(action.nodes, labels, strict=True)
            ]
        )
        self._undo(action)
        return action

    def _line(self, node: int, label: str, who: str, how: str, number: int) -> LabelLine:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return LabelLine(now, self.node_ids[node], label, who, how, number)

    def _action(self, number: int, who: str, how: str, nodes: Sequence[int], label: str) -> Action:
        before = tuple((self._name(self.labels[node]), HOW[self.how[node]]) for node in nodes)
        return Action(number, who, how, tuple(nodes), label, before)

    def _name(self, code: Any) -> str:
        return self.class_names[code] if code >= 0 else ""

    def _do(self, action: Action) -> None:
        if action.label and action.label not in self.class_names:
            self.class_names.append(action.label)
        code = self.class_names.index(action.label) if action.label else -1
        for node in action.nodes:
            if action.how == "skip":
                self.skipped.add(node)
                continue
            if self.labels[node] < 0:
                self.how[node] = HOW.index(action.how)
            self.labels[node] = code
            if code < 0:
                self.how[node] = 0
        self.actions.append(action)
        self._last_number = max(self._last_number, action.number)
        self.version += 1

    def _undo(self, action: Action) -> None:
        self.actions.remove(action)
        self.version += 1
        if action.how == "skip":  # somebody else may have passed a node over as well
            others = (other.nodes for other in self.actions if other.how == "skip")
            self.skipped -= set(action.nodes).difference(*others)
            return
        for node, (label, how) in zip(action.nodes, action.before, strict=True):
            self.labels[node] = self.class_names.index(label) if label else -1
            self.how[node] = HOW.index(how)

    def _replay(self, lines: list[LabelLine]) -> None:
        first = lines[0]
        name = self.file.path.name
        for line in lines:
            if line.node not in self.position:
                hint = did_you_mean(line.node, self.node_ids[:10_000])
                raise ValueError(f"{name} names a node that the graph lacks: {line.node!r}{hint}")
        if first.how != "undo":
            nodes = [self.position[line.node] for line in lines]
            label = check_name(first.label) if first.label else ""
            number = first.action or self._last_number + 1
            self._do(self._action(number, first.who, first.how, nodes, label))
            return
        for action in reversed(self.actions):
            if action.number == first.action:
                self._undo(action)
                return
        raise ValueError(f"{name} takes action {first.action} back, which it does not have")


def check_name(name: str) -> str:
    """A class's name without blanks around it; one that can't be one is refused."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(
            f"a class must have a name of 1 to {LONGEST_NAME} characters that can be printed, "
            f"got {shown(name)}"
        )
    return name


def _grouped(lines: Sequence[LabelLine]) -> list[list[LabelLine]]:
    """Lines that were given at once, together; those of another program are one each."""
    groups: list[list[LabelLine]] = []
    for line in lines:
        last = groups[-1][-1] if groups else None
        same = (
            last is not None
            and line.action
            and (line.action, line.how)
            == (
                last.action,
                last.how,
            )
        )
        if same:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def with_label_lines(graph: Graph, lines: Sequence[LabelLine], name: str) -> Graph:
    """The graph with the labels of a label file, which come before its own.

    Answers to random questions become test nodes, because only they say honestly how good the
    labels of all other nodes are; other answers are for training. Nodes that the data has for
    validation or testing stay so.

    Parameters
    ----------
    graph : Graph
    lines : sequence of LabelLine
    name : str
        What to call the file in an error.
    """
    if graph.is_multilabel:
        raise ValueError(f"{name} gives nodes one label each, but the data gives them several")
    position = {str(node): place for place, node in enumerate(graph.node_ids.tolist())}
    names: list[Hashable] = list(graph.class_names)
    number = {str(given): place for place, given in enumerate(names)}
    labels = graph.labels.copy()
    train, test = set(graph.train_index.tolist()), set(graph.test_index.tolist())
    validation = set(graph.validation_index.tolist())
    for line in latest_labels(lines).values():
        if line.node not in position:
            hint = did_you_mean(line.node, list(position)[:10_000])
            raise ValueError(f"{name} names a node that the data lacks: {line.node!r}{hint}")
        if line.label not in number:
            number[line.label] = len(names)
            names.append(line.label)
        node = position[line.node]
        labels[node] = number[line.label]
        if node not in validation and node not in test and node not in train:
            (test if line.how == "random" else train).add(node)
    changed = graph.with_labels(labels, names, train=(), test=())
    return changed.with_split(sorted(train), sorted(validation), sorted(test))
