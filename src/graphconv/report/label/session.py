"""Labelling session: answers enter from any number of pages, what they should show leaves.

One thread learns: after every answer the model is fitted again, the next questions are chosen, and
the models that judge it follow while the person thinks. Nobody waits for it: an answer is saved and
done with; whoever listens is told when there is something new to see.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.graph import Graph, IntArray
from graphconv.graph.scaling import fit_scaler
from graphconv.io.wording import count
from graphconv.models.propagation import renormalised_adjacency
from graphconv.report.label.cards import Cards
from graphconv.report.layouts import embedding_map
from graphconv.results.answers import Action, Answers
from graphconv.results.labelling import N_GROUPS, RANDOM_EVERY, Learner
from graphconv.training.scores import wilson_interval

# Questions that are kept ready, and probability from which a node counts as certain.
N_READY, CERTAIN = 3, 0.9
# After so many answers a sentence says whether more of them change anything.
FEWEST_TO_JUDGE, HARDLY = 20, 0.005
NO_CLASS = 255
_MAP_WIDTH = 48


class Session:
    """What all pages share.

    Parameters
    ----------
    graph : Graph
    answers : Answers
    learner : Learner
    cards : Cards
        What is known of each node.
    """

    def __init__(self, graph: Graph, answers: Answers, learner: Learner, cards: Cards) -> None:
        self.graph, self.answers, self.learner, self.cards = graph, answers, learner, cards
        self.revision = 0
        self.listeners: list[Callable[[], None]] = []
        self.places: npt.NDArray[np.float32] | None = None
        self.map_version = 0
        self.trouble = ""
        self._ready: list[int] = []
        self._held: dict[str, tuple[int, str]] = {}  # the question that each page shows
        self._estimate: dict[str, Any] | None = None
        self._doubts: list[tuple[int, int, float]] = []
        self._found: IntArray = np.full(graph.n_entities, -1)
        self._confidence = np.zeros(graph.n_entities, dtype=np.float32)
        # Class of every node after each of the last answers.
        self._past: deque[tuple[int, IntArray]] = deque(maxlen=12)
        self._looks = 0  # changes when a node's class, confidence or label does
        self._n_changed = 0
        self._seen = -1  # version of the answers that the model knows
        self._n_groups_left = 0
        self._next_group = 0
        self._layout: threading.Thread | None = None
        self._waiting_since = time.monotonic()
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)

    def start(self) -> None:
        """Choose the first questions, then learn in the background."""
        self._learn()
        self._thread.start()
        self.lay_out(again=False)

    def close(self) -> None:
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=60)

    # What pages do.

    def give(self, nodes: Sequence[int], label: str, who: str, how: str) -> Action:
        """Save an answer; the model follows."""
        with self._news:
            action = self.answers.give(nodes, label, who, how)
            self._answered()
            return action

    def undo(self, who: str, page: str = "") -> Action | None:
        """Take somebody's last answer back; their page gets its question again."""
        with self._news:
            action = self.answers.undo(who)
            if action is not None and len(action.nodes) == 1 and action.how != "chosen":
                # A skipped question does not count, so the turn is still the one it was asked in.
                how = self._turn() if action.how == "skip" else action.how
                self._held[page] = action.nodes[0], how
            self._answered()
            return action

    def _turn(self) -> str:
        is_random = self.answers.n_questions % RANDOM_EVERY == RANDOM_EVERY - 1
        return "random" if is_random else "asked"

    def lay_out(self, again: bool = True) -> None:
        """Place the nodes in the background; again: by what the model makes of them now."""
        with self._lock:
            if self._layout is not None and self._layout.is_alive():
                return
            self._layout = threading.Thread(target=self._lay_out, args=[again], daemon=True)
            self._layout.start()

    def _answered(self) -> None:
        if self._seen == self.answers.version - 1:
            self._waiting_since = time.monotonic()
        self._news.notify_all()
        self._tell()

    def question(self, page: str) -> dict[str, Any] | None:
        """The question of a page: the one it has, or the next; None if all is labelled."""
        with self._lock:
            held = self._held.get(page)
            if held is None or not self._is_open(held[0]):
                held = self._next_question(page)
                if held is None:
                    self._held.pop(page, None)
                    return None
                # Pages that are gone hold their question until many others have come.
                while len(self._held) > 50:
                    self._held.pop(next(iter(self._held)))
                self._held[page] = held
            return {"node": held[0], "how": held[1]}

    def _is_open(self, node: int) -> bool:
        return bool(self.answers.labels[node] < 0) and node not in self.answers.skipped

    def _next_question(self, page: str) -> tuple[int, str] | None:
        others = {node for name, (node, _) in self._held.items() if name != page}
        avoided = self.answers.skipped | others
        number, turn = self.answers.n_questions, self._turn()
        if turn == "asked":
            for node in self._ready:
                if self._is_open(node) and node not in others:
                    return node, "asked"
        for taken in (avoided, self.answers.skipped):
            drawn = self.learner.random_question(self.answers.labels, number, taken)
            if drawn is not None:
                return drawn, turn
        return None

    # What pages show.

    def state(self) -> dict[str, Any]:
        """Everything that changes, but for the nodes themselves."""
        with self._lock:
            answers = self.answers
            labels = answers.labels[: self.graph.n_entities]
            certain = self._confidence >= CERTAIN
            classes = [
                {
                    "name": name,
                    "labelled": int((labels == number).sum()),
                    "nodes": int((self._found == number).sum()),
                    "certain": int(((self._found == number) & certain).sum()),
                }
                for number, name in enumerate(answers.class_names)
            ]
            is_old = self._seen != answers.version
            return {
                "revision": self.revision,
                "answers": answers.version,
                "picture": self._seen,
                "hasModel": self.learner.picture is not None,
                "age": round(time.monotonic() - self._waiting_since, 1) if is_old else 0,
                "classes": classes,
                "nNodes": self.graph.n_entities,
                "nLabelled": len(answers.labelled),
                "nAnswered": answers.n_answered,
                "nQuestions": answers.n_questions,
                "nSkipped": len(answers.skipped),
                "nRandom": len(answers.random),
                "estimate": self._estimate,
                "changed": self._n_changed,
                "changedByTen": self._changed_by_ten(),
                "enough": self._enough(),
                "doubts": len(self._doubts),
                "mapVersion": self.map_version,
                "looks": self._looks,
                "trouble": self.trouble,
                "last": self._last_action(),
            }

    def _last_action(self) -> dict[str, Any] | None:
        if not self.answers.actions:
            return None
        action = self.answers.actions[-1]
        ids = [self.answers.node_ids[node] for node in action.nodes[:3]]
        return {
            "ids": ids,
            "n": len(action.nodes),
            "label": action.label,
            "how": action.how,
            "who": action.who,
        }

    def _changed_by_ten(self) -> int | None:
        """Nodes whose class the last ten answers have changed."""
        n_now = self.answers.n_answered
        earlier = [found for n, found in self._past if n <= n_now - 10]
        if not earlier or not self._past:
            return None
        return int((earlier[-1] != self._past[-1][1]).sum())

    def _enough(self) -> str:
        n_changed = self._changed_by_ten()
        n_nodes = self.graph.n_entities
        if n_changed is None or self.answers.n_answered < FEWEST_TO_JUDGE:
            return ""
        if n_changed > HARDLY * n_nodes:
            return ""
        return (
            f"The last 10 answers changed the class of {n_changed:,} of {count(n_nodes, 'node')}: "
            "further labels hardly change anything."
        )

    def node_bytes(self) -> bytes:
        """Class, confidence (0 to 255) and whether it is labelled, a byte each for every node."""
        with self._lock:
            found = np.where(self._found < 0, NO_CLASS, self._found).astype(np.uint8)
            confidence = np.floor(255 * self._confidence).astype(np.uint8)
            is_labelled = (self.answers.labels[: self.graph.n_entities] >= 0).astype(np.uint8)
        return found.tobytes() + confidence.tobytes() + is_labelled.tobytes()

    def place_bytes(self) -> bytes:
        """X and y of every node, from -1 to 1, as float32; nothing before there is a map."""
        return b"" if self.places is None else self.places.tobytes()

    def card(self, node: int) -> dict[str, Any]:
        """All that a person needs to label a node, but for the reasons."""
        with self._lock:
            picture, answers = self.learner.picture, self.answers
            names = list(answers.class_names)
            label = int(answers.labels[node])
            probabilities = self._probabilities_of(node)
            doubt = next((one for one in self._doubts if one[0] == node), None)
            neighbours = self.cards.neighbours(node)
            shown = [
                {
                    "node": other,
                    "id": answers.node_ids[other],
                    "class": int(self._found[other]),
                    "labelled": bool(answers.labels[other] >= 0),
                    "confidence": float(self._confidence[other]),
                }
                for other in self.cards.most_telling(neighbours, answers.labels)
            ]
        return {
            "node": node,
            "id": answers.node_ids[node],
            "columns": self.cards.columns(node),
            "label": label,
            "probabilities": probabilities,
            "possible": self._possible(probabilities),
            "doubt": None if doubt is None else {"class": doubt[1], "share": doubt[2]},
            "neighbours": shown,
            "nNeighbours": len(neighbours),
            "hasModel": picture is not None,
            "classes": names,
        }

    def _probabilities_of(self, node: int) -> list[float]:
        """Calibrated probabilities of a node; what is judged must not be what was learned."""
        picture = self.learner.picture
        if picture is None:
            return []
        probabilities = self.learner.calibrated(
            picture.probabilities[node : node + 1], np.array([node])
        )[0]
        return [round(float(share), 4) for share in probabilities]

    def _possible(self, probabilities: list[float]) -> list[int] | None:
        """Classes that can't be excluded; None while nobody knows which these are."""
        threshold = self.learner.set_threshold
        if threshold is None or not probabilities:
            return None
        chosen = [number for number, share in enumerate(probabilities) if share >= threshold]
        return chosen or [int(np.argmax(probabilities))]

    def why(self, node: int, n: int = 3) -> list[str]:
        """The strongest reasons for what the model thinks of a node."""
        from graphconv.results.explain import explain

        picture = self.learner.picture
        if picture is None:
            return []
        why = explain(picture.fitted, self.graph.node_ids[node : node + 1].tolist()[0])
        parts = [("neighbour", part) for part in why.neighbours]
        parts += [("feature", part) for part in why.features]
        parts = [one for one in parts if abs(one[1].probability) >= 0.005]
        parts.sort(key=lambda one: -abs(one[1].probability))
        said = []
        for kind, part in parts[:n]:
            sign = "for" if part.probability > 0 else "against"
            points = 100 * abs(part.probability)
            about = f" ({part.detail})" if part.detail else ""
            said.append(f"{kind} {part.item}{about} speaks {sign} it: {points:.0f} points")
        return said or ["no single neighbour or feature decides it"]

    def table(
        self, kind: str, class_number: int | None, low: float, high: float, first: int, n: int
    ) -> dict[str, Any]:
        """Rows of the table of nodes, the least certain first."""
        with self._lock:
            labels = self.answers.labels[: self.graph.n_entities]
            if kind == "doubts":
                rows = [
                    {**self._row(node), "likelier": other, "share": share}
                    for node, other, share in self._doubts
                ]
                return {"n": len(rows), "rows": rows[first : first + n]}
            wanted = np.ones(len(labels), dtype=bool)
            if kind in ("labelled", "unlabelled"):
                wanted = (labels >= 0) == (kind == "labelled")
            if class_number is not None:
                wanted &= self._found == class_number
            is_within = (self._confidence >= low) & (self._confidence <= high)
            nodes = np.flatnonzero(wanted & is_within)
            nodes = nodes[np.argsort(self._confidence[nodes], kind="stable")]
            chosen = nodes[first : first + n].tolist()
            return {"n": len(nodes), "rows": [self._row(node) for node in chosen]}

    def _row(self, node: int) -> dict[str, Any]:
        return {
            "node": node,
            "id": self.answers.node_ids[node],
            "class": int(self._found[node]),
            "confidence": float(self._confidence[node]),
            "labelled": bool(self.answers.labels[node] >= 0),
            "text": self.cards.summary(node),
        }

    def search(self, text: str, n: int = 12) -> list[dict[str, Any]]:
        """Nodes whose id or text holds some words; ids that begin with them first."""
        return [{**self._row(node)} for node in self.cards.search(text, n)]

    # The learner's thread.

    def _work(self) -> None:
        while True:
            with self._news:
                while not (self._is_closed or self._has_work()):
                    self._news.wait()
                if self._is_closed:
                    return
            try:
                self._do_something()
                self.trouble = ""
            except (ValueError, MemoryError, RuntimeError) as error:
                # Answers are safe whatever happens here; the page says what does not work.
                self.trouble = f"the model could not be fitted: {error}"
                with self._lock:
                    self._seen, self._n_groups_left = self.answers.version, 0
                self._tell()

    def _has_work(self) -> bool:
        return self._seen != self.answers.version or self._n_groups_left > 0

    def _do_something(self) -> None:
        """What matters most to whoever looks at the page; never for long."""
        if self._seen != self.answers.version:
            self._learn()
        else:
            self._judge()

    def _learn(self) -> None:
        with self._lock:
            answers = self.answers
            labels, names, version = answers.labels.copy(), [*answers.class_names], answers.version
            skipped, n_answered = set(answers.skipped), answers.n_answered
        self.learner.fit(labels, names, version)
        self._show(labels, n_answered, version)
        ready = self.learner.questions(labels, N_READY, skipped)
        with self._lock:
            self._ready = ready
        self._tell()

    def _show(self, labels: IntArray, n_answered: int, version: int) -> None:
        """Put what was learned where pages find it."""
        n = self.graph.n_entities
        given = labels[:n]
        picture = self.learner.picture
        found = given.copy()
        confidence = (given >= 0).astype(np.float32)
        if picture is not None:
            probabilities = self.learner.calibrated(picture.probabilities[:n], slice(n))
            unknown = given < 0
            found[unknown] = probabilities[unknown].argmax(axis=1)
            confidence[unknown] = probabilities[unknown].max(axis=1)
        with self._lock:
            self._n_changed = int((found != self._found).sum())
            self._found, self._confidence = found, confidence
            self._looks += 1
            if self._past and self._past[-1][0] == n_answered:
                self._past.pop()
            self._past.append((n_answered, found))
            self._seen, self._n_groups_left = version, N_GROUPS
        self._tell()

    def _judge(self) -> None:
        """Let one more of the judging models follow; after the last, say what they found."""
        with self._lock:
            labels, names = self.answers.labels.copy(), list(self.answers.class_names)
            random = self.answers.random
            group, self._next_group = self._next_group, (self._next_group + 1) % N_GROUPS
        self.learner.fit_group(group, labels, names)
        if self._n_groups_left == 1:
            self._say_judgement(labels, random, names)
        with self._lock:
            self._n_groups_left -= 1

    def _say_judgement(self, labels: IntArray, random: IntArray, names: list[str]) -> None:
        self.learner.calibrate(labels, random, len(names))
        n_right, n_all = self.learner.estimate(labels, random, len(names))
        doubts = self.learner.doubts(labels, len(names))
        estimate = None
        if n_all:
            share, low, high = wilson_interval(n_right, n_all)
            estimate = {"share": share, "low": low, "high": high, "n": n_all, "right": n_right}
        with self._lock:
            self._estimate, self._doubts = estimate, doubts
            is_new = self._seen == self.answers.version
        if is_new:
            self._recalibrate()
        self._tell()

    def _recalibrate(self) -> None:
        picture = self.learner.picture
        if picture is None:
            return
        n = self.graph.n_entities
        probabilities = self.learner.calibrated(picture.probabilities[:n], slice(n))
        with self._lock:
            unknown = picture.labels[:n] < 0
            self._confidence[unknown] = probabilities[unknown].max(axis=1)
            self._looks += 1

    def _lay_out(self, again: bool) -> None:
        picture = self.learner.picture
        if again and picture is not None:
            rows = picture.fitted.embedding()
        else:
            rows = _spread_features(self.graph)
        places = embedding_map(rows[: self.graph.n_entities])
        if len(places):
            places = places - (places.max(axis=0) + places.min(axis=0)) / 2
        limit = max(float(np.abs(places).max(initial=0)), 1e-9)
        with self._lock:
            self.places = np.ascontiguousarray(places / limit, dtype=np.float32)
            self.map_version += 1
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            self.revision += 1
            listeners = list(self.listeners)
        for listener in listeners:
            listener()


def _spread_features(graph: Graph) -> npt.NDArray[np.float32]:
    """A-hat^2 X P: features as the graph spreads them, in a few random directions P.

    Distances stay about the same (Johnson and Lindenstrauss), and no wide matrix is ever made.
    """
    rng = np.random.default_rng(0)
    features = fit_scaler(graph.features, "auto").transform(graph.features)
    directions = rng.normal(size=(graph.n_features, _MAP_WIDTH)).astype(np.float32)
    rows = directions if features is None else np.asarray(features @ directions)
    step = renormalised_adjacency(graph)
    for _ in range(2):
        rows = step @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = (rows / np.maximum(length, 1e-12)).astype(np.float32)
    return unit
