"""Candidates: the methods that are tried where nobody says which one to use.

A graph enters, the candidates that can serve it leave, from the simplest to the most involved, each
with settings that are tried once it is among the best. A new kind of method is an entry here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphconv.estimators.baselines import BASELINES, make_estimator
from graphconv.estimators.fitted_method import FittedMethod, fit_method
from graphconv.graph import Graph
from graphconv.graph.position import N_COLUMNS, with_position_features
from graphconv.graph.scaling import fit_scaler
from graphconv.models.catalogue import MODELS
from graphconv.models.settings import ROBUST
from graphconv.training.fit import Watch, fit_gcn
from graphconv.training.fitted import FittedGCN
from graphconv.training.scores import mean_over_runs

# Epochs of a trial and those without gain after which it ends: enough to tell kinds apart. Where
# that would take too long, trials are narrower and shorter.
_EPOCHS, _PATIENCE = 100, 20
_NARROW, _NARROW_EPOCHS = 16, 60
# Trainings end by themselves before this; where there is no time for so many, one run less is made.
_EPOCHS_WORTH_A_RUN = 400
# Epochs of a training by itself, for a guess of how long it takes.
_EPOCHS_IN_FULL = 400
# Of 100 epochs, before a trial ends by itself: with few labels to learn from soon, with so many not
# at all. Narrow ones run all of theirs.
_SHARE_RUN, _MANY_LABELS = 0.45, 2000
_COMMITTEE = "committee"
_DESCRIPTION = {"model", "settings", "position_features", "runs"}


@dataclass(frozen=True)
class Candidate:
    """A method with its settings.

    Parameters
    ----------
    name : str
        In words.
    model : str
        A network of `graphconv.models.catalogue.MODELS`, or a baseline.
    settings : tuple of pairs
        What differs from the network's robust settings, or the baseline's parameters.
    position_features : bool
        Whether nodes are described by where they lie in the graph, beside their own features.
    cost : float
        How long an epoch takes, as a multiple of a graph convolution's.
    cost_per_node : float
        Seconds of an epoch for each node that come on top of that.
    needs_features : bool
        Whether it stays out where there are none: a node's own identity says nothing of another.
    runs : int
        Trainings of a network, which differ in their seed, whose mean is the answer.
    members : tuple of Candidate
        Of a committee, which has no settings of its own.
    """

    name: str
    model: str
    settings: tuple[tuple[str, Any], ...] = ()
    position_features: bool = False
    cost: float = 1.0
    cost_per_node: float = 0.0
    needs_features: bool = False
    runs: int = 1
    members: tuple[Candidate, ...] = ()

    @classmethod
    def from_json(cls, given: Any) -> Candidate:
        """A member of a committee: a method's name, or what `to_json` returned."""
        described = {"model": given} if isinstance(given, str) else given
        if not isinstance(described, dict) or not set(described) <= _DESCRIPTION:
            named = ", ".join(sorted(_DESCRIPTION))
            raise ValueError(f"a member must be a name or a dict with {named}, got {given!r}")
        model, settings = described.get("model"), described.get("settings", {})
        known = [name for name in (*MODELS, *BASELINES) if name != _COMMITTEE]
        if model not in known:
            raise ValueError(f"a member must be one of {', '.join(known)}, got {model!r}")
        if not isinstance(settings, dict):
            raise ValueError(f"a member's settings must be a dict, got {settings!r}")
        pairs = ((k, tuple(v) if isinstance(v, list) else v) for k, v in settings.items())
        is_placed, runs = bool(described.get("position_features", False)), described.get("runs", 1)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise ValueError(f"a member's runs must be a whole number, at least 1, got {runs!r}")
        return cls(model, model, tuple(pairs), position_features=is_placed, runs=runs)

    def to_json(self) -> dict[str, Any]:
        """What tells it apart, in words that JSON knows."""
        return {
            "model": self.model,
            "settings": {k: list(v) if isinstance(v, tuple) else v for k, v in self.settings},
            "position_features": self.position_features,
            "runs": self.runs,
        }

    @property
    def is_network(self) -> bool:
        return self.model in MODELS

    @property
    def labels_other_graphs(self) -> bool:
        return self.is_network or make_estimator(self.model, **self.params).labels_other_graphs

    @property
    def params(self) -> dict[str, Any]:
        """Settings of a network, parameters of a baseline."""
        if self.members:
            return {"members": [member.to_json() for member in self.members]}
        return dict(self.settings)

    def changed(self, **changes: Any) -> Candidate:
        """The same with other settings."""
        return replace(self, settings=tuple({**dict(self.settings), **changes}.items()))

    def words(self) -> str:
        """What it is called, and the settings that have been changed."""
        said = [self.name]
        name, _, variant = self.name.partition(", ")
        usual = next((dict(one.settings) for one in KINDS if one.name == name), {})
        usual |= {"max_epochs": _LONG, **_GRAND_VARIANTS.get(variant, {})}
        for name, value in self.settings:
            if value != usual.get(name):
                shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
                said.append(f"{name.replace('_', ' ')} {shown}")
        return ", ".join(said)

    def view(self, graph: Graph) -> Graph:
        """The graph as this method is given it."""
        return with_position_features(graph) if self.position_features else graph

    def try_on(self, fold: Graph, seeds: Sequence[int], is_narrow: bool = False) -> Any:
        """Uncalibrated probabilities of a fold's test nodes, after a brief training for each seed.

        The fold is one of the graph as `view` gives it.
        """
        settings = self.params
        if not self.is_network:
            fitted = fit_method(fold, self.model, settings, tuple(seeds), calibrate=False)
            return mean_over_runs(fitted.probabilities(nodes=fold.test_index))
        most = _NARROW_EPOCHS if is_narrow else _EPOCHS
        settings["max_epochs"] = min(settings.get("max_epochs", most), most)
        settings["patience"] = min(settings.get("patience", _PATIENCE), _PATIENCE)
        settings.setdefault("early_stopping", "best")  # so short a patience must count every gain
        if is_narrow:
            settings["hidden"] = tuple(_NARROW for _ in settings.get("hidden", (_NARROW,)))
        return self._trained_on(fold, settings, seeds)

    def try_in_full(self, fold: Graph, seeds: Sequence[int]) -> Any:
        """The same after a training as long as that of `fit`."""
        if not self.is_network:
            return self.try_on(fold, seeds)
        return self._trained_on(fold, self.params, seeds)

    def _trained_on(self, fold: Graph, settings: dict[str, Any], seeds: Sequence[int]) -> Any:
        trained = fit_gcn(
            fold,
            overrides={**settings, "model": self.model},
            seeds=seeds,
            calibrate=False,
            validation_fraction=0,
        )
        return mean_over_runs(trained.probabilities(nodes=fold.test_index))

    def fit(
        self, graph: Graph, seeds: Sequence[int], watch: Watch | None = None
    ) -> FittedGCN | FittedMethod:
        """Train it for good, on a graph with its validation nodes.

        A single seed stands for those of its runs: it and the ones that follow.
        """
        graph = self.view(graph)
        if len(seeds) == 1:
            seeds = range(seeds[0], seeds[0] + self.runs)
        if not self.is_network:
            return fit_method(graph, self.model, self.params, tuple(seeds))
        overrides = {**dict(self.settings), "model": self.model}
        return fit_gcn(graph, overrides=overrides, seeds=seeds, watch=watch, validation_fraction=0)


def _network(
    name: str,
    cost: float,
    model: str = "gcn",
    *,
    position_features: bool = False,
    cost_per_node: float = 0.0,
    needs_features: bool = False,
    **settings: Any,
) -> Candidate:
    return Candidate(
        name,
        model,
        tuple(settings.items()),
        position_features,
        cost,
        cost_per_node,
        needs_features,
    )


DEFAULT = _network("graph convolution", 1.0)
# GRAND with a larger step and less patience than its authors', for a third of the time.
_GRAND = _network(
    "random propagation (GRAND)",
    4.0,
    model="grand",
    cost_per_node=2e-6,
    hidden=(32,),
    steps=8,
    weight_decay_layers="all",
    learning_rate=0.03,
    early_stopping="lowest",
    patience=60,
)
_APPNP = "personalised PageRank of predictions (APPNP)"
# From the simplest to the most involved: of equals, the one that stands first is taken.
KINDS: tuple[Candidate, ...] = (
    Candidate("label propagation", "label-propagation", cost=0.1),
    Candidate("linear model of features two hops around (SGC)", "sgc", cost=0.1),
    _network("no graph (multi-layer perceptron)", 0.3, needs_features=True, propagation="none"),
    DEFAULT,
    _network(_APPNP, 3.6, model="appnp"),
    _network(
        "first-order rule (own and neighbours' features apart)", 2.4, propagation="first-order"
    ),
    Candidate("boosted trees on propagated features", "boosted-trees", cost=0.5),
    _network("graph convolution on position features", 1.0, position_features=True),
    _network(f"{_APPNP} on position features", 3.6, model="appnp", position_features=True),
    _GRAND,
    _network(
        "deep first-order rule with layer normalisation",
        2.4,
        cost_per_node=0.25e-6,
        propagation="first-order",
        normalisation="layer",
        residual=True,
        hidden=(32, 32, 32),
        dropout=0.2,
        learning_rate=0.02,
    ),
)
_ALL_SEEN: dict[str, Any] = {"copies": 2, "sharpening": 0.3, "dropout": (0.0, 0.2)}
# GRAND where minutes don't matter, which is worth more than one try: what its authors publish for
# Citeseer and for Pubmed, and in between.
_GRAND_VARIANTS: dict[str, dict[str, Any]] = {
    "all features seen": {
        **_ALL_SEEN,
        "steps": 2,
        "agreement": 0.7,
        "learning_rate": 0.01,
        "patience": 200,
    },
    "all features seen, scaled as usual": {**_ALL_SEEN, "scaling": "auto", "weight_decay": 1e-3},
    "normalised": {
        "steps": 5,
        "sharpening": 0.2,
        "dropout": (0.6, 0.8),
        "normalisation": "batch",
        "agreement_warmup": 0,
        "learning_rate": 0.2,
        "patience": 100,
    },
}
_LONG = 5000  # epochs that it may take then
# What may be changed in the best kinds.
_REGULARISATION = [
    {"dropout": 0.8, "weight_decay": 5e-3},
    {"dropout": 0.2, "weight_decay": 5e-5},
]
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "label-propagation": [{"class_mass": False}],
    "sgc": [{"C": 1.0}, {"C": 100.0}, {"n_hops": 3}],
    "boosted-trees": [{"max_iterations": 200, "learning_rate": 0.05}, {"n_hops": 3}],
    "appnp": [{"restart": 0.3}, *_REGULARISATION],
    "grand": [_ALL_SEEN, {"dropout": 0.2}],
    "gcn": [*_REGULARISATION, {"hidden": (64, 64)}],
}


def candidates_for(
    graph: Graph,
    fixed: dict[str, Any] | None = None,
    *,
    model: str | None = None,
    networks_only: bool = False,
    demanding: bool = False,
) -> list[Candidate]:
    """The kinds that can serve a graph, the simplest first.

    Parameters
    ----------
    graph : Graph
    fixed : dict, optional
        Settings that the user chose: kinds that change them, or have no such settings, are out.
    model : str, optional
        A network that the user chose.
    networks_only : bool
    demanding : bool
        With those that take minutes.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.candidates import candidates_for
    >>> [kind.model for kind in candidates_for(load_dataset("karate"))][:2]
    ['label-propagation', 'sgc']
    """
    fixed = fixed or {}
    start = DEFAULT if model in (None, "gcn") else Candidate(model, model)
    if {"model", "propagation", "self_loop_weight"} & set(fixed):  # the last only one rule has
        return [start.changed(**fixed)]
    found = []
    for kind in _demanding_kinds(graph) if demanding else KINDS:
        own = dict(kind.settings)
        is_baseline = not kind.is_network
        if is_baseline and (networks_only or fixed or model or graph.is_multilabel):
            continue
        if model is not None and kind.model != model:
            continue
        if set(own) & set(fixed) - {"propagation", "max_epochs"}:
            continue
        if graph.features is None and kind.needs_features:
            continue
        if kind.position_features and (networks_only or not _serves(kind, graph)):
            continue
        found.append(kind.changed(**fixed) if fixed else kind)
    return found or [start.changed(**fixed)]


def _demanding_kinds(graph: Graph) -> list[Candidate]:
    """The kinds as they are trained where minutes don't matter, from the simplest on."""
    # Counts of words, where rows of length 1 would serve a graph convolution: rows that add up to 1
    # are small, and so is what is learned from them.
    is_words = graph.features is not None and fit_scaler(graph.features, "auto").kind == "l2"
    start = _GRAND.changed(max_epochs=_LONG, **({"scaling": "row"} if is_words else {}))
    variants = [
        replace(start.changed(**changes), name=f"{start.name}, {what}")
        for what, changes in _GRAND_VARIANTS.items()
    ]
    at = KINDS.index(_GRAND)
    return [*KINDS[:at], start, *variants, *KINDS[at + 1 :]]


def _serves(kind: Candidate, graph: Graph) -> bool:
    """Beside features, which may be poor, one kind that knows of place is enough."""
    return graph.features is None or kind.model == "appnp"


def committee_of(members: Sequence[Candidate]) -> Candidate:
    """The mean of what several say."""
    name = f"mean of {' and '.join(member.words() for member in members)}"
    return Candidate(name, _COMMITTEE, members=tuple(members))


def variants_of(
    candidate: Candidate, graph: Graph, fixed: dict[str, Any], *, demanding: bool = False
) -> list[Candidate]:
    """The candidate with settings that may suit it better; none that the user chose is changed.

    Those of demanding kinds are kinds of their own: see `candidates_for`.
    """
    if demanding and candidate.model == _GRAND.model:
        return []
    changes = list(_VARIANTS.get(candidate.model, []))
    own = dict(candidate.settings)
    if candidate.is_network:
        hidden = own.get("hidden", ())
        if len(hidden) > 1:  # it was made for its depth: deeper still, and wider
            larger = [{"hidden": hidden + hidden}, {"hidden": tuple(2 * one for one in hidden)}]
            changes = [*larger, *(one for one in changes if "hidden" not in one)]
        if graph.features is not None:
            changes += [{"scaling": "l2"}, {"scaling": "standard"}]
    return [candidate.changed(**one) for one in changes if not set(one) & set(fixed)]


def seconds_of(candidate: Candidate, fold: Graph, is_narrow: bool = False) -> float:
    """A guess at the seconds of a trial; a rough one, but the same on every machine.

    From some epochs on three public graphs and three generated ones of 20,000 nodes, on one core.
    """
    n_train, n_classes = len(fold.train_index), int(fold.n_classes)
    if candidate.model == "boosted-trees":
        return 0.02 + (0.08 + 1.2e-5 * fold.n_nodes) * n_classes + 2e-5 * n_train
    if not candidate.is_network:
        seconds = 0.02 + 1e-7 * (_n_values(fold) + int(fold.adjacency.nnz))
        if candidate.model == "sgc":  # its regression sees what lies two hops around
            around = (1 + _mean_degree(fold)) ** 2 * _n_values(fold) / fold.n_nodes
            seconds += 2e-8 * n_train * n_classes * min(around, fold.n_features)
        return seconds
    if is_narrow:
        return _NARROW_EPOCHS * _seconds_of_epoch(candidate, fold, 0.6)
    share_run = _SHARE_RUN + (1 - _SHARE_RUN) * min(1, n_train / _MANY_LABELS)
    return share_run * _EPOCHS * _seconds_of_epoch(candidate, fold, 1.0)


def seconds_in_full(candidate: Candidate, fold: Graph) -> float:
    """A guess at the seconds of a trial that trains to the end."""
    if not candidate.is_network:
        return seconds_of(candidate, fold)
    return _EPOCHS_IN_FULL * _seconds_of_epoch(candidate, fold, 1.0)


def seconds_to_train(candidate: Candidate, graph: Graph) -> float:
    """A guess at the seconds of the shortest training that is worth it."""
    if candidate.members:
        return sum(seconds_to_train(member, graph) for member in candidate.members)
    if not candidate.is_network:
        return seconds_of(candidate, graph)
    return _EPOCHS * _seconds_of_epoch(candidate, graph, 1.0)


def suited_to(candidate: Candidate, graph: Graph, seconds: float, most_runs: int) -> Candidate:
    """The same with as many runs as there is time for, and then epochs, at least those of a trial.

    Runs come first, but only those that have time to end by themselves.
    """
    if candidate.members:
        networks = [member for member in candidate.members if member.is_network]
        rest = [member for member in candidate.members if not member.is_network]
        left = seconds - sum(seconds_of(member, graph) for member in rest)
        share = left / max(1, len(networks))
        members = (suited_to(member, graph, share, most_runs) for member in candidate.members)
        return replace(candidate, members=tuple(members))
    if not candidate.is_network:
        return candidate
    of_epoch = _seconds_of_epoch(candidate, graph, 1.0)
    runs = min(most_runs, max(1, int(seconds / (_EPOCHS_WORTH_A_RUN * of_epoch))))
    wanted = int(dict(candidate.settings).get("max_epochs", ROBUST.max_epochs))
    fitting = max(_EPOCHS, int(seconds / (runs * of_epoch)))
    candidate = replace(candidate, runs=runs)
    return candidate.changed(max_epochs=fitting) if fitting < wanted else candidate


def _seconds_of_epoch(candidate: Candidate, graph: Graph, width: float) -> float:
    of_features = 1e-9 * _n_values(graph)
    if candidate.position_features:
        of_features += 4e-9 * N_COLUMNS * graph.n_nodes
    of_graph = 2e-8 * int(graph.adjacency.nnz) + 1e-7 * graph.n_nodes
    per_node = candidate.cost_per_node
    hidden = dict(candidate.settings).get("hidden", ())
    if len(hidden) > 1:  # it grows with depth and width
        per_node *= sum(hidden) / 96
    of_graph = candidate.cost * of_graph + per_node * graph.n_nodes
    share = 1.0
    if candidate.model == "gcn":  # rows that no label is reached from are left out
        n_labels = len(graph.train_index) + len(graph.validation_index)
        share = 0.5 + 0.5 * min(1, n_labels * (1 + _mean_degree(graph)) / graph.n_nodes)
    return candidate.cost * 2.5e-4 + 1.3 * share * (of_features + width * of_graph)


def _mean_degree(graph: Graph) -> float:
    return int(graph.adjacency.nnz) / max(1, graph.n_nodes)


def _n_values(graph: Graph) -> int:
    """Entries of the features; the same whether they came sparse or dense."""
    features: Any = graph.features
    if features is None:
        return graph.n_nodes
    return int(features.nnz if sp.issparse(features) else np.count_nonzero(features))
