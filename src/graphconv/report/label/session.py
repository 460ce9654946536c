"""Labelling session: answers enter from any number of pages, what they should show leaves.

One thread learns: after every answer the model is fitted again and examined, the next questions are
chosen, and the models that look for doubtful labels follow while the person thinks. Nobody waits
for it: an answer is saved and done with; whoever listens is told when there is something new to
see. `views` says what pages see of it, `questions` what they are asked.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from graphconv.graph import Graph, IntArray
from graphconv.report.cards import Cards
from graphconv.report.label._places import Places, place_nodes
from graphconv.report.label._questions import Questions
from graphconv.results.answers import Action, Answers
from graphconv.results.labelling import N_GROUPS, Estimate, Learner

# Questions that are kept ready.
N_READY = 3


class Session:
    """What all pages share.

    Parameters
    ----------
    graph : Graph
    answers : Answers
    learner : Learner
    cards : Cards
        What is known of each node.

    Attributes
    ----------
    lock : RLock
        Held by whoever reads several of the following, which belong together.
    revision : int
        Changes with everything that a page may show.
    looks : int
        Changes when a node's class, confidence or label does.
    seen : int
        Version of the answers that the model knows.
    found, confidence : arrays of shape (n_entities,)
        Class of every node, -1 where nothing is known, and how sure that is.
    past : deque of (int, array)
        Number of answers, and `found` after them, for the last of them.
    estimate : Estimate
    doubts : list of (node, class, probability)
        As `Learner.doubts` returns them.
    places : array of shape (n_entities, 2), or None
        The map, and `map_version` the number of times it was laid out.
    trouble : str
        Why the model could not be fitted.
    """

    def __init__(self, graph: Graph, answers: Answers, learner: Learner, cards: Cards) -> None:
        self.graph, self.answers, self.learner, self.cards = graph, answers, learner, cards
        self.questions = Questions(answers, learner.random_question)
        self.listeners: list[Callable[[], None]] = []
        self.revision = self.looks = self.map_version = 0
        self.places: Places | None = None
        self.trouble = ""
        self.estimate = Estimate(0, 0)
        self.doubts: list[tuple[int, int, float]] = []
        self.found: IntArray = np.full(graph.n_entities, -1)
        self.confidence = np.zeros(graph.n_entities, dtype=np.float32)
        self.past: deque[tuple[int, IntArray]] = deque(maxlen=12)
        self.n_changed = 0
        self.seen = -1
        self.lock = threading.RLock()
        self._news = threading.Condition(self.lock)
        self._waiting_since = time.monotonic()
        self._n_groups_left = 0
        self._next_group = 0
        self._layout: threading.Thread | None = None
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

    @property
    def age(self) -> float:
        """For how many seconds there have been answers that the model does not know."""
        return 0.0 if self.seen == self.answers.version else time.monotonic() - self._waiting_since

    @property
    def is_settled(self) -> bool:
        """Whether the model knows all answers, and all labels have been doubted."""
        return self.places is not None and not self._has_work()

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
            if action is not None:
                self.questions.give_back(page, action)
            self._answered()
            return action

    def question(self, page: str) -> tuple[int, str] | None:
        """Node and kind of the question that a page should show; None if all is labelled."""
        with self.lock:
            return self.questions.of_page(page)

    def lay_out(self, again: bool = True) -> None:
        """Place the nodes in the background; again: by what the model makes of them now."""
        with self.lock:
            if self._layout is not None and self._layout.is_alive():
                return
            self._layout = threading.Thread(target=self._lay_out, args=[again], daemon=True)
            self._layout.start()

    def _answered(self) -> None:
        if self.seen == self.answers.version - 1:
            self._waiting_since = time.monotonic()
        self._news.notify_all()
        self._tell()

    # The learner's thread.

    def _work(self) -> None:
        while True:
            with self._news:
                while not (self._is_closed or self._has_work()):
                    self._news.wait()
                if self._is_closed:
                    return
            try:
                # What matters most to whoever looks at the page comes first; never for long.
                if self.seen != self.answers.version:
                    self._learn()
                else:
                    self._look_for_doubts()
                self.trouble = ""
            except (ValueError, MemoryError, RuntimeError) as error:
                # Answers are safe whatever happens here; the page says what does not work.
                self.trouble = f"the model could not be fitted: {error}"
                with self.lock:
                    self.seen, self._n_groups_left = self.answers.version, 0
                self._tell()

    def _has_work(self) -> bool:
        return self.seen != self.answers.version or self._n_groups_left > 0

    def _learn(self) -> None:
        """Fit and examine the model, show what it thinks, and choose the next questions."""
        with self.lock:
            answers = self.answers
            labels, lessons, exam = answers.labels.copy(), answers.lessons, answers.random
            names, version = list(answers.class_names), answers.version
            skipped, n_answered = set(answers.skipped), answers.n_answered
        self.learner.fit(lessons, names, version)
        estimate = self.learner.examine(exam, labels)
        self._show(labels, n_answered, version, estimate)
        ready = self.learner.questions(lessons, N_READY, skipped | set(exam.tolist()))
        with self.lock:
            self.questions.ready = ready
        self._tell()

    def _show(self, labels: IntArray, n_answered: int, version: int, estimate: Estimate) -> None:
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
        with self.lock:
            self.n_changed = int((found != self.found).sum())
            self.found, self.confidence, self.estimate = found, confidence, estimate
            self.looks += 1
            if self.past and self.past[-1][0] == n_answered:
                self.past.pop()
            self.past.append((n_answered, found))
            self.seen, self._n_groups_left = version, N_GROUPS
        self._tell()

    def _look_for_doubts(self) -> None:
        """Let one more group's model follow; after the last, say which labels they doubt."""
        with self.lock:
            answers = self.answers
            labels, lessons, exam = answers.labels.copy(), answers.lessons, answers.random
            names = list(answers.class_names)
            group, self._next_group = self._next_group, (self._next_group + 1) % N_GROUPS
        self.learner.fit_group(group, lessons, names)
        with self.lock:
            is_last = self._n_groups_left == 1
        if is_last:
            doubts = self.learner.doubts(labels, exam, len(names))
            with self.lock:
                self.doubts = doubts
            self._tell()
        with self.lock:
            self._n_groups_left -= 1

    def _lay_out(self, again: bool) -> None:
        picture = self.learner.picture if again else None
        places = place_nodes(self.graph, None if picture is None else picture.fitted)
        with self.lock:
            self.places = places
            self.map_version += 1
        self._tell()

    def _tell(self) -> None:
        with self.lock:
            self.revision += 1
            listeners = list(self.listeners)
        for listener in listeners:
            listener()
