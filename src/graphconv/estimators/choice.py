"""Choice: which method suits a graph, found out on labels that a trial has not seen.

A graph and a budget enter, a `Choice` leaves. The labels are dealt into folds; every candidate is
trained briefly without a fold and judged by it. Candidates are tried on some folds, as long as they
are not clearly beaten, the better half of them on all, and with a larger budget other settings of
the best ones too. Where that would take too long networks are tried narrow, and then the best of
all once more in full. What is compared is the measure's `steady` value after calibration, so that
bold and cautious methods are judged alike.

Preset "strong" has the time to train every candidate to its end, and demanding ones among them. The
folds are then the halves of the validation nodes, each of which stops what the other judges.

The answer is never below the default by this measure, and of those that chance may put behind the
best the simplest is taken. Where the mean of two of the first few is better still, both are trained
and their mean is the answer. How good the answer is, is told by nested choice: each fold is
labelled by the candidate that the other folds would have chosen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphconv.estimators.candidates import (
    DEFAULT,
    Candidate,
    candidates_for,
    committee_of,
    seconds_in_full,
    seconds_of,
    seconds_to_train,
    suited_to,
    variants_of,
)
from graphconv.estimators.fitted_method import FittedMethod
from graphconv.graph import Graph
from graphconv.graph.splits import check_trainable
from graphconv.io.progress import Progress, silent
from graphconv.models.settings import SEARCHES
from graphconv.training.calibration import Calibration, fit_calibration
from graphconv.training.fit import VALIDATION_FRACTION, Watch, hold_out
from graphconv.training.fitted import FittedGCN
from graphconv.training.measures import Measure, measure_for
from graphconv.training.out_of_fold import make_folds, make_halves

FloatMatrix = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Budget:
    """What a preset may spend; seconds are guesses, the same on every machine.

    Parameters
    ----------
    trials, training : float
        Seconds of all trials, and of the training that follows.
    runs : int
        Trainings that the answer averages, at most.
    trial_runs : int
        Trainings that a trial averages, where there is time for them.
    for_settings : float
        The share of the trials' seconds that is for other settings of the best kinds.
    in_full : bool
        Whether trials are trainings like the one that follows.
    luck : float
        How far a pair of single trainings must lead one, in standard errors of the difference: two
        trainings are ahead of one whatever they are, and in the end it will be several.
    """

    trials: float
    training: float
    runs: int
    trial_runs: int = 1
    for_settings: float = 0.0
    in_full: bool = False
    luck: float = 0.0


BUDGETS = {
    "quick": Budget(5.0, 8.0, runs=SEARCHES["quick"]),
    "auto": Budget(28.0, 16.0, runs=SEARCHES["auto"], trial_runs=4, for_settings=0.5, luck=0.5),
    # Twice as many runs gain nothing on validation nodes.
    "strong": Budget(
        1200.0, 1800.0, runs=SEARCHES["strong"], for_settings=0.5, in_full=True, luck=1.0
    ),
}
# Validation nodes that are enough to judge by without the training nodes.
_ENOUGH_TO_HALVE = 100
# Labels that are enough to tell kinds apart: more are not judged, nor trained on in a trial.
_ENOUGH_JUDGED, _ENOUGH_TRAINED = 3000, 2000
# How far behind the best, in standard errors of the difference, one may be and count as equal; and
# how far ahead other settings of a kind must be, of which there are many.
_EQUAL, _NOTABLE = 0.5, 1.5
# How far behind, in the same errors, the kinds that come after the best four are tried no more.
_BEATEN, _N_SAFE = 4.0, 4
# The best kinds of which any two may answer together; with other settings a kind errs alike.
_N_TO_JOIN = 4
_N_GROUPS = 20
# Kinds whose settings are looked into.
_N_LOOKED_INTO = 2
# Kinds that are tried in full where all were tried narrow, what of the budget this may take, and
# the labels to judge them by: fewer would put chance in the place of a rough comparison.
_N_IN_FULL, _SHARE_IN_FULL, _ENOUGH_IN_FULL = 3, 0.5, 500


@dataclass(frozen=True, eq=False)
class Choice:
    """A method that was chosen, and why.

    Parameters
    ----------
    candidate : Candidate
    graph : Graph
        What it was chosen for, with the validation nodes that were set aside.
    reason : str
        One line: what was chosen, by which measure, and how the default did.
    measure : Measure
    nodes : array of shape (n_judged,)
        Labelled nodes, each in one fold.
    nested : array of shape (n_judged, n_classes)
        What candidates said of them that neither were trained on nor chosen by them; calibrated.
    """

    candidate: Candidate
    graph: Graph
    reason: str
    measure: Measure
    nodes: npt.NDArray[np.int64]
    nested: FloatMatrix

    def fit(self, seeds: Sequence[int], watch: Watch | None = None) -> FittedGCN | FittedMethod:
        """Train the chosen method for good."""
        return replace(self.candidate.fit(self.graph, seeds, watch), choice=self.reason)


class Search:
    """The trials of a search; it may be interrupted, and knows the best so far.

    Parameters
    ----------
    graph : Graph
        With training nodes; some are set aside for validation if it has no validation nodes.
    preset : {"quick", "auto", "strong"}
        How long trials may take.
    fixed : dict, optional
        Settings of networks that the user chose.
    model : str, optional
        A network that the user chose.
    metric : str, optional
        A name of `graphconv.training.measures.MEASURES`; by default what suits the labels.
    seed : int
    networks_only : bool
        Leave the baselines out.
    validation_fraction : float
        As for `fit_gcn`.
    progress : callable, optional

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.choice import Search
    >>> search = Search(load_dataset("karate"))
    >>> search.run()
    >>> search.conclude().reason
    'graph convolution: 4 labels are too few to compare methods by'
    """

    def __init__(
        self,
        graph: Graph,
        preset: str = "quick",
        *,
        fixed: dict[str, Any] | None = None,
        model: str | None = None,
        metric: str | None = None,
        seed: int = 0,
        networks_only: bool = False,
        validation_fraction: float = VALIDATION_FRACTION,
        progress: Progress = silent,
    ) -> None:
        if graph.folder is not None:
            raise ValueError("a method can't be chosen for a graph on disk: name one")
        check_trainable(graph)
        self.graph = hold_out(graph, validation_fraction, seed)
        self.measure, self.why_measure = measure_for(self.graph, metric)
        self.budget, self.fixed, self.seed = BUDGETS[preset], fixed or {}, seed
        self.progress = progress
        self.n_labels = len(self.graph.train_index) + len(self.graph.validation_index)
        self.kinds = candidates_for(
            self.graph,
            fixed,
            model=model,
            networks_only=networks_only,
            demanding=self.budget.in_full,
        )
        self.default = next(
            (kind for kind in self.kinds if kind.name == DEFAULT.name), self.kinds[0]
        )
        # A mean of several methods is a method of its own, which nobody asked for by name.
        self.may_join = not (networks_only or fixed or model or self.graph.is_multilabel)
        self.folds = self._make_folds()
        self.said: dict[Candidate, list[FloatMatrix]] = {}  # of each fold's test nodes, so far
        self.failed: set[Candidate] = set()
        self.calibrations: dict[tuple[Candidate, tuple[int, ...], bool], Calibration] = {}
        self.placed: Graph | None = None  # the graph with position features, once they are needed
        self.n_trial_runs = 1
        self.is_narrow = False
        self.n_narrow = 0  # how many were tried narrow, where the best of them were then in full

    def _make_folds(self) -> list[Graph]:
        if self.budget.in_full and len(self.graph.validation_index) >= _ENOUGH_TO_HALVE:
            return make_halves(self.graph, self.seed)
        try:
            folds = make_folds(self.graph, self.seed)
        except ValueError:  # too few labels
            return []
        rng = np.random.default_rng(self.seed)
        return [_with_fewer_labels(fold, rng) for fold in folds]

    def run(self) -> None:
        """Try candidates, from the rough comparison to the fine one."""
        if not self.folds or len(self.kinds) == 1:
            return
        kinds, n_folds = self._plan()
        self.n_trial_runs = self._count_trial_runs(kinds, n_folds)
        n_first = math.ceil(n_folds / 2) if len(kinds) > 2 else n_folds
        for n_done in range(1, n_first + 1):
            self._try_all(kinds, n_done, "trying kinds of methods")
            kinds = self._without_beaten(kinds, n_done)
        if n_folds > n_first:
            ranking = self._ranking(n_first)
            kept = ranking[: math.ceil(len(ranking) / 2)]
            if self.default in ranking and self.default not in kept:
                kept.append(self.default)
            self._remark(kept[0])
            self._try_all(kept, n_folds, "trying the better half again")
        if self.is_narrow:
            n_folds = self._try_in_full(n_folds)
        if self.budget.for_settings:
            self._look_into_settings(n_folds)

    def _without_beaten(self, kinds: list[Candidate], n_folds: int) -> list[Candidate]:
        """Those that may still be among the best, and the default."""
        first, *others = self._ranking(n_folds)
        best = self._judged(first, range(n_folds))
        beaten = {
            one
            for one in others[_N_SAFE - 1 :]
            if one != self.default and best.leads(self._judged(one, range(n_folds)), _BEATEN)
        }
        return [one for one in kinds if one not in beaten | self.failed]

    def _try_in_full(self, n_folds: int) -> int:
        """Try the best of the narrow ones, and the default, as wide as they are, if time allows.

        A narrow network is less than itself, and baselines have no narrow form. Returns the number
        of folds that there is time for, or the one given.
        """
        best = self._ranking(n_folds)[:_N_IN_FULL]
        if self.default not in best:
            best.append(self.default)
        costs = {one: self._seconds_of(one) for one in best}
        n_full = min(n_folds, int(_SHARE_IN_FULL * self.budget.trials / sum(costs.values())))
        n_judged = sum(len(fold.test_index) for fold in self.folds[:n_full])
        if n_full < n_folds and n_judged < _ENOUGH_IN_FULL:
            return n_folds
        self._remark(best[0])
        self.n_narrow = len([one for one, said in self.said.items() if said])
        self.said, self.is_narrow = {}, False
        self._try_all([one for one in self.kinds if one in best], n_full, "trying the best in full")
        return n_full

    @property
    def _budget_of_kinds(self) -> float:
        """What of the budget may go into comparing kinds; the rest is for their settings."""
        return self.budget.trials * (1 - self.budget.for_settings)

    def _seconds_of(self, candidate: Candidate, is_narrow: bool = False) -> float:
        """A guess at the seconds of a trial."""
        if self.budget.in_full:
            return seconds_in_full(candidate, self.folds[0])
        return seconds_of(candidate, self.folds[0], is_narrow)

    def _plan(self) -> tuple[list[Candidate], int]:
        """Which kinds to try on how many folds, so that the budget is kept."""
        n_judged = len(self.folds[0].test_index)
        most = min(len(self.folds), max(1, math.ceil(_ENOUGH_JUDGED / max(n_judged, 1))))
        longest = 1.5 * self.budget.training
        kinds = [
            kind
            for kind in self.kinds
            if kind == self.default or seconds_to_train(kind, self.graph) <= longest
        ]
        budget = self._budget_of_kinds
        forms = (False,) if self.budget.in_full else (False, True)
        while True:
            for self.is_narrow in forms:
                cost = sum(self._seconds_of(kind, self.is_narrow) for kind in kinds)
                # The second half of the folds is for the better half of the kinds.
                costs = [cost * (n - 0.4 * (n // 2)) for n in range(1, most + 1)]
                n_folds = sum(one <= budget for one in costs)
                if n_folds >= min(most, 3):
                    return kinds, n_folds
            costly = max(kinds, key=lambda kind: self._seconds_of(kind, True))
            if n_folds >= 1 and self._seconds_of(costly, True) < budget / 3:
                return kinds, n_folds
            if costly == self.default or len(kinds) <= 2:
                return kinds, max(n_folds, 1)
            kinds.remove(costly)

    def _count_trial_runs(self, kinds: list[Candidate], n_folds: int) -> int:
        """How many trainings of a kind to average in a trial, within the budget."""
        if self.is_narrow:
            return 1
        cost = n_folds * sum(self._seconds_of(kind) for kind in kinds)
        return min(self.budget.trial_runs, max(1, int(self._budget_of_kinds / cost)))

    def _look_into_settings(self, n_folds: int) -> None:
        """Other settings of the best kinds, for as long as the budget lasts."""
        best = self._ranking(n_folds)[:_N_LOOKED_INTO]
        tried = []
        left = self.budget.trials * self.budget.for_settings
        for kind in best:
            demanding = self.budget.in_full
            for variant in variants_of(kind, self.graph, self.fixed, demanding=demanding):
                cost = n_folds * self._seconds_of(variant, self.is_narrow)
                cost *= self.n_trial_runs
                if cost <= left and variant not in self.said:
                    tried.append(variant)
                    left -= cost
        self._remark(best[0])
        n_first = math.ceil(n_folds / 2)
        self._try_all(tried, n_first, "trying other settings")
        if n_folds > n_first:
            ranking = [one for one in self._ranking(n_first) if one in tried]
            better = ranking[: math.ceil(len(ranking) / 2)]
            self._try_all(better, n_folds, "trying the better half of settings again")

    def _try_all(self, candidates: list[Candidate], n_folds: int, what: str) -> None:
        total = len(candidates) * n_folds
        for number, candidate in enumerate(candidates):
            done = self.said.setdefault(candidate, [])
            for fold in self.folds[len(done) : n_folds]:
                self.progress(what, number * n_folds + len(done), total)
                if candidate in self.failed:
                    break
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        seen = self._seen(candidate, fold)
                        seeds = range(self.seed, self.seed + self.n_trial_runs)
                        if self.budget.in_full:
                            said = candidate.try_in_full(seen, seeds)
                        else:
                            said = candidate.try_on(seen, seeds, self.is_narrow)
                except ValueError:  # it can't serve this graph, or diverged
                    self.failed.add(candidate)
                    break
                done.append(said)
        self.progress(what, total, total)

    def _seen(self, candidate: Candidate, fold: Graph) -> Graph:
        """A fold as the candidate is given it; where its nodes lie is worked out once."""
        if not candidate.position_features:
            return fold
        if self.placed is None:
            self.placed = candidate.view(self.graph)
        placed = self.placed
        return replace(fold, features=placed.features, feature_names=placed.feature_names)

    def _ranking(self, n_folds: int) -> list[Candidate]:
        """Candidates that were tried on so many folds, the best first."""
        scores = {
            one: self._judged(one, range(n_folds)).score
            for one, said in self.said.items()
            if len(said) >= n_folds and one not in self.failed
        }
        return sorted(scores, key=lambda one: -scores[one])

    def _remark(self, best: Candidate) -> None:
        score = self._judged(best, range(len(self.said[best]))).score
        self.progress(
            f"best so far: {best.words()} ({self.measure.steady_words} {100 * score:.1f} %)",
            None,
            None,
        )

    def _judged(self, candidate: Candidate, folds: Sequence[int]) -> _Judged:
        shown = self._shown(candidate, folds, folds)
        return _Judged(self._labels(folds), shown, self.measure)

    def _shown(
        self, candidate: Candidate, known: Sequence[int], folds: Sequence[int]
    ) -> FloatMatrix:
        """What a candidate says of some folds, calibrated by the labels of those that are known."""

        def said(folds: Sequence[int]) -> FloatMatrix:
            if candidate.members:
                each = [self._shown(member, known, folds) for member in candidate.members]
                return cast(FloatMatrix, np.mean(each, axis=0))
            return np.concatenate([self.said[candidate][number] for number in folds])

        key = (candidate, tuple(known), self.is_narrow)
        if key not in self.calibrations:
            self.calibrations[key] = fit_calibration(said(known), self._labels(known))
        return self.calibrations[key].apply(said(folds), self.graph.is_multilabel)

    def _labels(self, folds: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.concatenate([self.graph.labels[self.folds[k].test_index] for k in folds])

    def _best(self, folds: Sequence[int]) -> Candidate | None:
        """The simplest of those that some folds put first; None where nothing was tried."""
        whole = [
            one
            for one, said in self.said.items()
            if one not in self.failed and len(said) > max(folds, default=-1)
        ]
        if not whole or not folds:
            return None
        judged = {one: self._judged(one, folds) for one in whole}
        kinds = [one for one in self.kinds if one in judged]
        first = max(kinds or whole, key=lambda one: judged[one].score)
        floor = judged[self.default].score if self.default in judged else -math.inf
        for kind in kinds:
            is_equal = not judged[first].leads(judged[kind], _EQUAL)
            if is_equal and judged[kind].score >= floor:
                first = kind
                break
        others = [one for one in whole if one not in kinds]
        ahead = [one for one in others if judged[one].leads(judged[first], _NOTABLE)]
        best = max(ahead, key=lambda one: judged[one].score) if ahead else first
        return self._with_another(best, judged, folds)

    def _with_another(
        self, best: Candidate, judged: dict[Candidate, _Judged], folds: Sequence[int]
    ) -> Candidate:
        """The best or, where the mean of two is better, the best pair of the first few kinds."""
        if not self.may_join:
            return best
        of_kinds: dict[str, Candidate] = {}  # the best settings of each, the best kind first
        for one in sorted(judged, key=lambda one: -judged[one].score):
            of_kinds.setdefault(one.name, one)
        first = list(of_kinds.values())[:_N_TO_JOIN]
        pairs = [committee_of(pair) for pair in combinations(first, 2)]
        of_pairs = {
            pair: self._judged(pair, folds)
            for pair in pairs
            if seconds_to_train(pair, self.graph) <= self.budget.training
        }
        if not of_pairs:
            return best
        both = max(of_pairs, key=lambda pair: of_pairs[pair].score)
        # A committee is calibrated once more than its members, so one of one is what it must beat.
        alone = self._judged(committee_of([best]), folds)
        by_luck = self.budget.luck if self.n_trial_runs == 1 else 0.0
        return both if of_pairs[both].leads(alone, by_luck) else best

    def conclude(self) -> Choice:
        """The best of what was tried so far."""
        n_folds = self._n_folds_done()
        folds = range(n_folds)
        best = self._best(folds)
        nobody = np.empty(0, dtype=np.int64)
        if best is None:
            why = f"{self.n_labels} labels are too few to compare methods by"
            if len(self.kinds) == 1:
                why = "settings that were named leave no other method to try"
            elif self.folds:
                why = "nothing else was tried"
            reason = f"{self.default.words()}: {why}"
            none = np.empty((0, self.graph.n_classes))
            return Choice(self.default, self.graph, reason, self.measure, nobody, none)
        nodes, nested = nobody, np.empty((0, self.graph.n_classes))
        if n_folds == len(self.folds):
            nodes = np.concatenate([fold.test_index for fold in self.folds])
            nested = np.concatenate([self._nested(number, folds) for number in folds])
        reason = self._explain(best, folds)
        best = suited_to(best, self.graph, self.budget.training, self.budget.runs)
        if "max_epochs" in self.fixed:
            best = best.changed(max_epochs=self.fixed["max_epochs"])
        return Choice(best, self.graph, reason, self.measure, nodes, nested)

    def _n_folds_done(self) -> int:
        """The folds that the default, or else anybody, was tried on."""
        if self.said.get(self.default):
            return len(self.said[self.default])
        return max((len(said) for said in self.said.values()), default=0)

    def _nested(self, left_out: int, folds: Sequence[int]) -> FloatMatrix:
        """What the choice of all other folds says of one."""
        others = [number for number in folds if number != left_out]
        whole = {one: said for one, said in self.said.items() if len(said) > max(folds)}
        kept, self.said = self.said, whole
        try:
            chosen = self._best(others)
        finally:
            self.said = kept
        assert chosen is not None  # the default was tried on all folds
        return self._shown(chosen, others, [left_out])

    def _explain(self, best: Candidate, folds: Sequence[int]) -> str:
        after = 100 * self._judged(best, folds).score
        n_tried = max(self.n_narrow, len([one for one, said in self.said.items() if said]))
        text = f"{best.words()}: {self.measure.steady_words} {after:.1f} %"
        if self.default in self.said and best != self.default:
            before = 100 * self._judged(self.default, folds).score
            text += f", {self.default.words()} {before:.1f} %"
        n_nodes = sum(len(self.folds[number].test_index) for number in folds)
        text += f"; {n_tried} tried on {n_nodes:,} labels that each trial had not seen"
        if self.why_measure and self.measure.name != "accuracy":
            text += f"; by {self.measure.words}, as {self.why_measure}"
        return text


@dataclass(frozen=True, eq=False)
class _Judged:
    """What a candidate said of some nodes."""

    labels: npt.NDArray[np.int64]
    probabilities: FloatMatrix
    measure: Measure

    @property
    def score(self) -> float:
        return self.measure.steady(self.labels, self.probabilities)

    def leads(self, other: _Judged, n_errors: float) -> bool:
        """Whether it is ahead by more than so many standard errors of the difference."""
        return self.score - other.score > n_errors * self._error_of_difference(other)

    def _error_of_difference(self, other: _Judged) -> float:
        """By leaving out one group of nodes after the other (the jackknife)."""
        group = np.arange(len(self.labels)) % _N_GROUPS
        differences = []
        for number in range(_N_GROUPS):
            kept = group != number
            if kept.all():
                continue
            labels = self.labels[kept]
            own, theirs = self.probabilities[kept], other.probabilities[kept]
            differences.append(
                self.measure.steady(labels, own) - self.measure.steady(labels, theirs)
            )
        n = len(differences)
        return float(np.sqrt((n - 1) * np.var(differences))) if n > 1 else 0.0


def _with_fewer_labels(fold: Graph, rng: np.random.Generator) -> Graph:
    """The fold with no more labels than it takes to tell methods apart."""

    def some(index: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
        return index if len(index) <= most else np.sort(rng.choice(index, most, replace=False))

    train = some(fold.train_index, _ENOUGH_TRAINED)
    if len(train) < len(fold.train_index) and not fold.is_multilabel:
        # A class that lost its last label keeps one.
        present = np.unique(fold.labels[train])
        lost = np.setdiff1d(fold.labels[fold.train_index], present)
        first = [fold.train_index[fold.labels[fold.train_index] == one][0] for one in lost]
        train = np.union1d(train, np.array(first, dtype=np.int64))
    return fold.with_split(
        train,
        some(fold.validation_index, _ENOUGH_TRAINED),
        some(fold.test_index, _ENOUGH_JUDGED),
    )
