"""Choosing: a training that names no method enters, the same with the method that does best leaves.

From here on the training goes its usual way, as if its method and settings had been named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from graphconv.commands.training_job import ChosenMethod, Job, resolve
from graphconv.estimators.candidates import Candidate
from graphconv.estimators.choice import Search
from graphconv.training.checkpoint import read_identity


def choose_method(job: Job, resume: bool) -> Job:
    """The job with a method; Ctrl-C takes the best that was found so far."""
    job.introduce()
    if resume and job.training_path.exists():
        known = read_identity(job.training_path)
        if isinstance(known.get("chosen"), dict):
            return _chosen_before(job, known)
    preset, fixed = resolve(job.wanted, job.graph.name)
    model = fixed.pop("model", None)
    with job.screen.showing() as progress:
        search = Search(
            job.graph,
            preset,
            fixed=fixed,
            model=model if job.wanted.names_model else None,
            metric=job.wanted.metric,
            seed=job.wanted.seed,
            progress=progress,
        )
        try:
            search.run()
        except KeyboardInterrupt:
            progress("stopped trying: the best so far is trained", None, None)
    found = search.conclude()
    job.screen.note(f"chosen: {found.reason}")
    one = found.candidate
    told = ChosenMethod(one.name, found.reason, one.position_features, found.nodes, found.nested)
    return _with_method(replace(job, graph=found.graph), one, told)


def _chosen_before(job: Job, known: dict[str, Any]) -> Job:
    """The job as a training file says it was begun."""
    chosen, given, runs = known["chosen"], known.get("settings"), known.get("runs")
    if not isinstance(given, dict) or type(runs) is not int or runs < 1:
        raise ValueError(f"{job.training_path} must say what is trained, and how often")
    settings = {name: value for name, value in given.items() if name != "model"}
    reason, has_positions = str(chosen.get("reason")), bool(chosen.get("position_features"))
    name = str(chosen.get("name"))
    model = str(known.get("model"))
    candidate = Candidate(name, model, tuple(settings.items()), has_positions, runs=runs)
    nobody = np.empty(0, dtype=np.int64)
    told = ChosenMethod(name, reason, has_positions, nobody, np.empty((0, job.graph.n_classes)))
    return _with_method(job, candidate, told)


def _with_method(job: Job, candidate: Candidate, told: ChosenMethod) -> Job:
    runs = candidate.runs if job.wanted.runs is None else job.wanted.runs
    wanted = replace(
        job.wanted, model=candidate.model, preset="robust", settings=candidate.params, runs=runs
    )
    return replace(job, graph=candidate.view(job.graph), wanted=wanted, chosen=told)
