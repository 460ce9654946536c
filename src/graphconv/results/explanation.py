"""Explanation: why a node has its label, as numbers, as words and as plain values.

What `explain` works out is kept here, put into a sentence and laid out as text. Only
Python's own types are inside, so that an explanation prints, compares and becomes JSON as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from graphconv.graph.notebook import html_block, html_paragraph, html_table
from graphconv.io.wording import n_cells, signed

# A change of probability that hardly shows in a figure with three digits.
NOTHING = 1e-3
# One that is worth a sentence of its own.
_WORTH_A_REASON = 5e-3


@dataclass(frozen=True)
class Contribution:
    """What one edge, neighbour or feature does for the label.

    Parameters
    ----------
    item : hashable
        Two node ids, the one nearer to the explained node first (in a directed graph: source and
        target); a node id; a feature's name, or its column where it has none.
    probability : float
        Probability of the label minus what it would be without this: above 0 speaks for the label.
    log_odds : float
        The same difference of log(p / (1 - p)), which tells changes near 0 and 1 apart.
    label_without : hashable
        What the model would call the node without this.
    detail : str
        What is worth knowing of the item.
    """

    item: Any
    probability: float
    log_odds: float
    label_without: Any
    detail: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why the model gives a node its label: each part's contribution, by recomputing without it.

    Contributions don't add up: two edges may each make up for the loss of the other.

    Parameters
    ----------
    node : hashable
        Id of the node.
    label : hashable
        The class that is explained: the likeliest one, unless another was asked for.
    probability : float
        Of that class.
    log_odds : float
        log(p / (1 - p)) of it.
    predicted : hashable
        The likeliest class.
    n_hops : int
        How far the model looks.
    edges, neighbours, features : tuple of Contribution
        The strongest first. Neighbours are all nodes the model looks at; to be without one is to be
        without its edges. To be without a feature is to have it nowhere near.
    labels : dict
        What the model calls each node of the neighbourhood, by id; the nearest thousand.
    distances : dict
        How many hops away each node of the neighbourhood is, by id.
    notes : tuple of str
        What was left out, and by which rule.
    directed : bool
        Whether an edge is read by its source only.
    """

    node: Any
    label: Any
    probability: float
    log_odds: float
    predicted: Any
    n_hops: int
    edges: tuple[Contribution, ...]
    neighbours: tuple[Contribution, ...]
    features: tuple[Contribution, ...]
    labels: dict[Any, Any] = field(default_factory=dict, repr=False)
    distances: dict[Any, int] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    directed: bool = False

    @property
    def sentence(self) -> str:
        """The decision in words."""
        parts = [self._decision]
        for_it, against = (self._strongest(sign) for sign in (1, -1))
        if for_it:
            parts.append(f"What speaks for it most: {_listed(for_it)}.")
        if against:
            parts.append(f"What speaks against it most: {_listed(against)}.")
        if not for_it and not against:
            parts.append("No single edge, neighbour or feature changes this by itself.")
        return " ".join(parts)

    def _strongest(self, sign: int) -> list[str]:
        """The strongest of each kind in one direction; an edge to that neighbour says no more."""
        found = {
            kind: max(items, key=lambda part: sign * part.probability)
            for kind, items in self._kinds
            if items
        }
        found = {kind: part for kind, part in found.items() if _shows(part, sign)}
        edge, neighbour = found.get("the edge"), found.get("the neighbour")
        if edge is not None and neighbour is not None and neighbour.item in edge.item:
            del found["the edge"]
        return [self._in_words(kind, part) for kind, part in found.items()]

    @property
    def _decision(self) -> str:
        if self.label == self.predicted:
            return f"{self.node} is labelled {self.label}, with probability {self.probability:.3f}."
        return (
            f"{self.node} is labelled {self.predicted}; the probability of {self.label} is "
            f"{self.probability:.3f}."
        )

    def reasons(self, n: int = 3) -> list[str]:
        """The strongest neighbours and features in a few words each, in points of probability."""
        parts = [("neighbour", part) for part in self.neighbours]
        if not self.neighbours:
            parts = [("edge", part) for part in self.edges]
        parts += [("feature", part) for part in self.features]
        parts = [one for one in parts if abs(one[1].probability) >= _WORTH_A_REASON]
        parts.sort(key=lambda one: -abs(one[1].probability))
        said = []
        for kind, part in parts[:n]:
            sign = "for" if part.probability >= _WORTH_A_REASON else "against"
            points = 100 * abs(part.probability)
            about = f" ({part.detail})" if part.detail else ""
            said.append(
                f"{kind} {self._name(kind, part)}{about} speaks {sign} it: {points:.0f} points"
            )
        return said or ["no single neighbour or feature decides it"]

    @property
    def farther_edges(self) -> tuple[Contribution, ...]:
        """Edges that no neighbour stands for: an edge of the node itself says what its end says."""
        known = {part.item for part in self.neighbours}
        return tuple(
            part
            for part in self.edges
            if self.node not in part.item or not known.intersection(part.item)
        )

    @property
    def _kinds(self) -> tuple[tuple[str, tuple[Contribution, ...]], ...]:
        return (
            ("the neighbour", self.neighbours),
            ("the feature", self.features),
            ("the edge", self.farther_edges),
        )

    def _in_words(self, kind: str, part: Contribution) -> str:
        without = f"without it {self.probability - part.probability:.3f}"
        if kind == "the feature" and part.detail.startswith("value"):
            without = f"{part.detail.partition(',')[0]}; {without}"
        if part.label_without != self.predicted:
            without += f", and the label would be {part.label_without}"
        return f"{kind} {self._name(kind, part)} ({without})"

    def _name(self, kind: str, part: Contribution) -> str:
        if not kind.endswith("edge"):
            return str(part.item)
        return (" -> " if self.directed else " - ").join(map(str, part.item))

    def top(self, n: int) -> Explanation:
        """The same with at most n contributions of each kind."""
        return replace(
            self,
            edges=self.edges[:n],
            neighbours=self.neighbours[:n],
            features=self.features[:n],
        )

    def tables(self, n: int = 10) -> list[tuple[str, list[str], list[list[str]]]]:
        """Title, column names and at most n rows of a table for each kind of contribution."""
        tables = []
        for kind, every in self._kinds:
            items = every[:n]
            if not items:
                continue
            name = kind.removeprefix("the ")
            columns = [name, "probability", "log-odds", "label without", ""]
            rows = [[self._name(kind, part), *self._numbers(part)] for part in items]
            # Most tables have nothing to say in one of the last two.
            used = [n for n in range(5) if n < 3 or any(row[n] for row in rows)]
            # Beside a table of neighbours, whose edges are the node's own, these are the others.
            is_farther = name == "edge" and bool(self.neighbours)
            tables.append(
                (
                    "Edges farther away" if is_farther else f"{name.capitalize()}s",
                    [columns[n] for n in used],
                    [[row[n] for n in used] for row in rows],
                )
            )
        return tables

    def _numbers(self, part: Contribution) -> list[str]:
        changed = "" if part.label_without == self.predicted else str(part.label_without)
        return [signed(part.probability, 3), signed(part.log_odds, 2), changed, part.detail]

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the map of the neighbourhood."""
        values = asdict(replace(self, labels={}, distances={}))
        del values["labels"], values["distances"]
        return {**values, "sentence": self.sentence}

    def __str__(self) -> str:
        lines = [self.sentence]
        for title, columns, rows in self.tables():
            table = [columns, *rows]
            widths = [max(n_cells(row[column]) for row in table) for column in range(len(columns))]
            lines += ["", title]
            lines += [
                "  " + "  ".join(map(_padded, row, widths)).rstrip() for row in [columns, *rows]
            ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentence, and the strongest contributions of each kind."""
        tables = [
            html_block(title, html_table(columns, rows)) for title, columns, rows in self.tables()
        ]
        notes = [html_paragraph(f"note: {note}") for note in self.notes]
        return html_block(f"Why {self.node}?", html_paragraph(self.sentence), *tables, *notes)

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{len(items)} {name}"
            for name, items in (
                ("edges", self.edges),
                ("neighbours", self.neighbours),
                ("features", self.features),
            )
        )
        return f"Explanation({self.node!r}: {self.label!r}, {self.probability:.3f}; {counts})"


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - n_cells(cell))


def _shows(part: Contribution, sign: int) -> bool:
    return sign * part.probability > NOTHING


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
