"""Replicas: the models of several seeds, of which a few train at a time.

All replicas of a network share its arrays: so it predicts, and so it is saved. A Team takes some of
them out to train; what they have learned is put back later. Each call of a kernel serves the whole
team, so the team should be large; but what an epoch comes back to must stay in a near cache, which
it does for few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.engine.adam import Adam
from graphconv.engine.network import Network, along
from graphconv.engine.objective import ExtraLoss, Group, Objective
from graphconv.models.settings import Settings

# Larger teams take longer for each replica than smaller ones; docs/log.md has the measurements.
# Both are for one thread of the kernels.
TEAM_SIZE = 4
TEAM_WEIGHT_BYTES = 1 << 19

MOMENTS = ("mean", "square")  # what Adam knows of a parameter

IntArray = npt.NDArray[np.int64]


def team_size(network: Network) -> int:
    """How many replicas should train side by side."""
    n_bytes: int = sum(parameter.nbytes for parameter in network.parameters.values())
    own = n_bytes // len(network.seeds)
    n_threads: int = network.kernels.get_threads()
    n_models = min(TEAM_SIZE, TEAM_WEIGHT_BYTES // max(1, own))
    return n_threads * max(1, n_models // network.model.n_copies)  # a copy is as much as a replica


@dataclass(frozen=True)
class Team:
    """Replicas that train side by side."""

    replicas: IntArray  # their places among all
    network: Network
    objective: Objective
    optimiser: Adam

    def weights_of(self, replica: int) -> dict[str, Any]:
        """A copy of the parameters of one, given its place among all."""
        return self.network.replica_weights(int(np.flatnonzero(self.replicas == replica)[0]))


class Replicas:
    """All replicas of a network, with what their optimisers know.

    Parameters
    ----------
    network : Network
    settings : Settings
    group : Group, optional
        The processes that train together.
    extra : ExtraLoss, optional
        A term to be added to the loss of every batch.
    """

    def __init__(
        self,
        network: Network,
        settings: Settings,
        group: Group | None = None,
        extra: ExtraLoss | None = None,
    ) -> None:
        self.network = network
        self._settings = settings
        self._group = group
        self._extra = extra
        self._everyone = self._team(np.arange(len(network.seeds)), network)
        self.optimiser = self._everyone.optimiser

    def take(self, replicas: IntArray, n_steps: int) -> Team:
        """Some replicas to train; `n_steps` of Adam have been taken with them."""
        if len(replicas) == len(self.network.seeds):
            team = self._everyone  # nothing need be copied
        else:
            team = self._team(replicas, self.network.some_replicas(replicas.tolist()))
            for own, home, axis in self._pairs(team, MOMENTS):
                own[...] = home[along(axis, replicas.tolist())]
        team.optimiser.n_steps = n_steps
        return team

    def put_back(self, team: Team) -> None:
        """Write what a team has learned to where all replicas live."""
        if team is self._everyone:
            return
        for own, home, axis in self._pairs(team, ("parameters", *MOMENTS)):
            home[along(axis, team.replicas.tolist())] = own

    def _pairs(self, team: Team, kinds: Sequence[str]) -> list[tuple[Any, Any, int]]:
        """A team's arrays of some kinds, each with that of all replicas and their axis."""
        both = [(getattr(team.optimiser, kind), getattr(self.optimiser, kind)) for kind in kinds]
        return [
            (own[name], home[name], self.network.replica_axis(name))
            for own, home in both
            for name in home
        ]

    def _team(self, replicas: IntArray, network: Network) -> Team:
        settings = self._settings
        objective = Objective(network, settings, self._group, self._extra)
        names = network.penalised(settings.weight_decay_layers)
        decay = dict.fromkeys(names, settings.weight_decay)
        optimiser = Adam(network.parameters, settings.learning_rate, network.kernels, decay)
        return Team(replicas, network, objective, optimiser)
