"""Views: what a labelling session looks like to a page, as plain values and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphconv.io.wording import count
from graphconv.report.label.session import Session
from graphconv.results.labelling import COVERAGE, FEWEST_TO_CALIBRATE
from graphconv.training.scores import wilson_interval

# Probability from which a node counts as certain.
CERTAIN = 0.9
# After so many answers a sentence says whether more of them change anything.
FEWEST_TO_JUDGE, HARDLY = 20, 0.005
NO_CLASS = 255


@dataclass(frozen=True)
class Views:
    """What pages see of a session."""

    session: Session

    def state(self) -> dict[str, Any]:
        """Everything that changes, but for the nodes themselves."""
        session = self.session
        with session.lock:
            answers = session.answers
            return {
                "revision": session.revision,
                "answers": answers.version,
                "picture": session.seen,
                "hasModel": session.learner.picture is not None,
                "age": round(session.age, 1),
                "classes": self._classes(),
                "nNodes": session.graph.n_entities,
                "nLabelled": len(answers.labelled),
                "nAnswered": answers.n_answered,
                "nQuestions": answers.n_questions,
                "nSkipped": len(answers.skipped),
                "nRandom": len(answers.random),
                "estimate": self._estimate(),
                "changed": session.n_changed,
                "changedByTen": self._changed_by_ten(),
                "enough": self._enough(),
                "doubts": len(session.doubts),
                "mapVersion": session.map_version,
                "looks": session.looks,
                "trouble": session.trouble,
                "last": self._last_action(),
            }

    def _classes(self) -> list[dict[str, Any]]:
        session = self.session
        labels = session.answers.labels[: session.graph.n_entities]
        certain = session.confidence >= CERTAIN
        return [
            {
                "name": name,
                "labelled": int((labels == number).sum()),
                "nodes": int((session.found == number).sum()),
                "certain": int(((session.found == number) & certain).sum()),
            }
            for number, name in enumerate(session.answers.class_names)
        ]

    def _estimate(self) -> dict[str, Any] | None:
        n_right, n_all = self.session.estimate
        if not n_all:
            return None
        share, low, high = wilson_interval(n_right, n_all)
        return {"share": share, "low": low, "high": high, "n": n_all, "right": n_right}

    def _last_action(self) -> dict[str, Any] | None:
        answers = self.session.answers
        if not answers.actions:
            return None
        action = answers.actions[-1]
        return {
            "ids": [answers.node_ids[node] for node in action.nodes[:3]],
            "n": len(action.nodes),
            "label": action.label,
            "how": action.how,
            "who": action.who,
        }

    def _changed_by_ten(self) -> int | None:
        """Nodes whose class the last ten answers have changed."""
        past, n_now = self.session.past, self.session.answers.n_answered
        earlier = [found for n, found in past if n <= n_now - 10]
        return int((earlier[-1] != past[-1][1]).sum()) if earlier else None

    def _enough(self) -> str:
        n_changed = self._changed_by_ten()
        n_nodes = self.session.graph.n_entities
        if n_changed is None or self.session.answers.n_answered < FEWEST_TO_JUDGE:
            return ""
        if n_changed > HARDLY * n_nodes:
            return ""
        return (
            f"The last 10 answers changed the class of {n_changed:,} of {count(n_nodes, 'node')}: "
            "further labels hardly change anything."
        )

    def node_bytes(self) -> bytes:
        """Class, confidence (0 to 255) and whether it is labelled, a byte each for every node."""
        session = self.session
        with session.lock:
            found = np.where(session.found < 0, NO_CLASS, session.found).astype(np.uint8)
            confidence = np.floor(255 * session.confidence).astype(np.uint8)
            is_labelled = (session.answers.labels[: session.graph.n_entities] >= 0).astype(np.uint8)
        return found.tobytes() + confidence.tobytes() + is_labelled.tobytes()

    def place_bytes(self) -> bytes:
        """X and y of every node, from -1 to 1, as float32; nothing before there is a map."""
        places = self.session.places
        return b"" if places is None else places.tobytes()

    def question(self, page: str) -> dict[str, Any] | None:
        """Node and kind of the question that a page should show."""
        found = self.session.question(page)
        return None if found is None else {"node": found[0], "how": found[1]}

    def card(self, node: int) -> dict[str, Any]:
        """All that a person needs to label a node, but for the reasons."""
        session = self.session
        with session.lock:
            answers, cards = session.answers, session.cards
            probabilities = self._probabilities(node)
            doubt = next((one for one in session.doubts if one[0] == node), None)
            neighbours = cards.neighbours(node)
            shown = [
                {
                    "node": other,
                    "id": answers.node_ids[other],
                    "class": int(session.found[other]),
                    "labelled": bool(answers.labels[other] >= 0),
                    "confidence": float(session.confidence[other]),
                }
                for other in cards.most_telling(neighbours, answers.labels)
            ]
            return {
                "node": node,
                "id": answers.node_ids[node],
                "columns": cards.columns(node),
                "label": int(answers.labels[node]),
                "probabilities": probabilities,
                "possible": self._possible(node),
                "aboutPossible": self._about_possible(),
                "doubt": None if doubt is None else {"class": doubt[1], "share": doubt[2]},
                "neighbours": shown,
                "nNeighbours": len(neighbours),
                "hasModel": session.learner.picture is not None,
                "classes": list(answers.class_names),
            }

    def _probabilities(self, node: int) -> list[float]:
        learner = self.session.learner
        picture = learner.picture
        if picture is None:
            return []
        row = picture.probabilities[node : node + 1]
        calibrated = learner.calibrated(row, np.array([node]))[0]
        return [round(float(share), 4) for share in calibrated]

    def _possible(self, node: int) -> list[int] | None:
        """Classes that can't be excluded; None while nobody knows which these are."""
        possible = self.session.learner.possible
        return None if possible is None else np.flatnonzero(possible[node]).tolist()

    def _about_possible(self) -> str:
        """What is meant by a class that is excluded, or why none is yet."""
        learner, n_random = self.session.learner, len(self.session.answers.random)
        if learner.picture is None:
            return ""
        if learner.possible is not None:
            return (
                f"✕: can be excluded. The true class is among the others in {COVERAGE:.0%} of "
                f"cases, by {count(n_random, 'random answer')}."
            )
        return (
            f"Which classes can be excluded is not known before {FEWEST_TO_CALIBRATE} answers to "
            f"random questions; there are {n_random}."
        )

    def why(self, node: int, n: int = 3) -> list[str]:
        """The strongest reasons for what the model thinks of a node."""
        from graphconv.results.explain import explain

        picture = self.session.learner.picture
        if picture is None:
            return []
        node_id = self.session.graph.node_ids[node : node + 1].tolist()[0]
        return explain(picture.fitted, node_id).reasons(n)

    def table(
        self, kind: str, class_number: int | None, low: float, high: float, first: int, n: int
    ) -> dict[str, Any]:
        """Rows of the table of nodes, the least certain first."""
        session = self.session
        with session.lock:
            labels = session.answers.labels[: session.graph.n_entities]
            if kind == "doubts":
                rows = [
                    {**self._row(node), "likelier": other, "share": share}
                    for node, other, share in session.doubts
                ]
                return {"n": len(rows), "rows": rows[first : first + n]}
            wanted = np.ones(len(labels), dtype=bool)
            if kind in ("labelled", "unlabelled"):
                wanted = (labels >= 0) == (kind == "labelled")
            if class_number is not None:
                wanted &= session.found == class_number
            wanted &= (session.confidence >= low) & (session.confidence <= high)
            nodes = np.flatnonzero(wanted)
            nodes = nodes[np.argsort(session.confidence[nodes], kind="stable")]
            chosen = nodes[first : first + n].tolist()
            return {"n": len(nodes), "rows": [self._row(node) for node in chosen]}

    def _row(self, node: int) -> dict[str, Any]:
        session = self.session
        return {
            "node": node,
            "id": session.answers.node_ids[node],
            "class": int(session.found[node]),
            "confidence": float(session.confidence[node]),
            "labelled": bool(session.answers.labels[node] >= 0),
            "text": session.cards.summary(node),
        }

    def search(self, text: str, n: int = 12) -> list[dict[str, Any]]:
        """Nodes whose id or text holds some words; ids that begin with them first."""
        return [self._row(node) for node in self.session.cards.search(text, n)]
