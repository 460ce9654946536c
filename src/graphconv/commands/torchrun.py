"""`graphconv train` by several processes that torchrun has started, each with its part of a graph.

What one process would do is done by all: every process computes the layers of its own nodes, and
weights and Adam's state are the same in all. The first process alone reads the whole graph's labels
(to split them) and ids, writes checkpoints and the model folder, and talks to the user.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import safetensors.numpy

from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest, load_outline
from graphconv.commands.process_table import show_costs
from graphconv.commands.train import about_earlier, about_kernels, finish, tell_if_finished
from graphconv.commands.training_job import Job, ModelRequest, identity_of, load_job, resolve
from graphconv.engine.blocks import Array, Space, n_stages, run_in_blocks
from graphconv.engine.devices import NO_MEMORY_FOR_BATCH, choose_device, out_of_memory_says
from graphconv.engine.memory_estimate import n_numbers_of
from graphconv.engine.network import Network
from graphconv.engine.objective import LabelledBatch
from graphconv.graph import Graph
from graphconv.graph.scaling import FeatureScaler, fit_stored_scaler
from graphconv.graph.splits import check_trainable
from graphconv.io.progress import counter
from graphconv.kernels import KernelName
from graphconv.models.settings import SEARCHES, Settings, resolve_settings
from graphconv.storage.graph_part import GraphPart, open_part
from graphconv.storage.memory import available_memory, n_processes_here
from graphconv.storage.partition import parts_folder
from graphconv.storage.stored_graph import StoredArray, is_stored_graph, read_manifest
from graphconv.training.checkpoint import TrainingFile
from graphconv.training.fit import (
    VALIDATION_FRACTION,
    build_model,
    calibrated,
    class_weights,
    history_of,
    hold_out,
)
from graphconv.training.fitted import FittedGCN, scaled_features
from graphconv.training.loop import MakeBatches, Saved, TrainingState, train
from graphconv.training.part_batches import Members, PartBatches
from graphconv.training.part_memory import settle_part_batches
from graphconv.training.process_costs import process_costs
from graphconv.training.processes import Processes, started_processes

if TYPE_CHECKING:
    import torch

# Rows of predictions that travel at a time.
BLOCK_ROWS = 1 << 16
_SPLITS = ("train", "validation")


@dataclass(frozen=True)
class ParallelRequest:
    """What every process was asked to do; see `workflow.run_training`."""

    data: DataRequest
    wanted: ModelRequest
    output: Path | None
    resume: bool
    checkpoint_seconds: float
    timeout: float

    def check(self) -> Path:
        """Refuse what several processes can't do; returns the graph's folder."""
        name = self.data.name
        if name is None or not is_stored_graph(name):
            raise ValueError(
                "several processes need a graph folder that graphconv partition has cut, got "
                f"{name or 'tables'}"
            )
        if self.wanted.is_baseline or self.wanted.preset in SEARCHES:
            what = (
                self.wanted.model if self.wanted.is_baseline else f"--preset {self.wanted.preset}"
            )
            raise ValueError(f"{what} can't be trained by several processes")
        if dict(self.wanted.settings).get("correct_and_smooth"):
            raise ValueError("--correct-and-smooth can't be had of several processes")
        if dict(self.wanted.settings).get("normalisation") == "batch":
            raise ValueError(
                "--normalisation batch needs all nodes of a step in one process: use layer"
            )
        return Path(name)


@dataclass(frozen=True)
class _Loaded:
    """What the first process has read: the job, and its graph with validation nodes."""

    job: Job
    graph: Graph


@dataclass(frozen=True)
class _Lead:
    """What only the first process has: the whole graph's outline, and where the result goes."""

    job: Job
    file: TrainingFile
    state: Saved | None


def train_in_parallel(request: ParallelRequest, screen: Screen) -> None:
    """Train as one of the processes that torchrun has started."""
    with started_processes(request.timeout) as processes:
        if not processes.is_first:
            screen = Screen(quiet=True)
        folder = processes.as_one(request.check)
        part = processes.as_one(lambda: open_part(folder, processes.rank, processes.count))
        _share_cores(request.wanted.kernels)
        loaded: list[_Loaded] = []
        sizes = processes.from_first(lambda: _load(request, folder, screen, loaded))
        members = _deal_splits(part, processes, loaded[0].graph if loaded else None, sizes)
        wanted, about_memory = processes.as_one(
            lambda: _settle_batches(request.wanted, part, processes, members)
        )
        request = replace(request, wanted=wanted)
        lead: list[_Lead] = []
        plan = processes.from_first(lambda: _prepare(request, loaded[0], about_memory, lead))
        if plan["is_finished"]:
            return
        started = time.perf_counter()
        trainer = _Trainer(request, part, processes, members, plan, lead[0] if lead else None)
        state = trainer.train(screen)
        each = trainer.predict(screen)
        about = trainer.about_processes(state)
        if lead:
            _finish(lead[0], trainer, state, each, started, about, screen)


def _share_cores(kernels: str) -> None:
    """Let the processes of a machine use its cores together, not each of them all."""
    from graphconv.kernels import select

    module = select(cast(KernelName, kernels))
    if hasattr(module, "set_threads"):
        module.set_threads(max(1, module.get_threads() // n_processes_here()))


def _load(
    request: ParallelRequest, folder: Path, screen: Screen, loaded: list[_Loaded]
) -> dict[str, int]:
    """Read every node's label and id, in the first process; how many nodes each split has."""
    outline = load_outline(folder, request.data)
    job = load_job(request.data, request.wanted, request.output, screen, loaded=outline)
    check_trainable(job.graph)
    graph = hold_out(job.graph, VALIDATION_FRACTION, request.wanted.seed)
    loaded.append(_Loaded(job, graph))
    return {name: len(getattr(graph, f"{name}_index")) for name in _SPLITS}


def _deal_splits(
    part: GraphPart, processes: Processes, graph: Graph | None, sizes: dict[str, int]
) -> dict[str, Members]:
    """Every process gets its nodes of each split and their places in it, from the first."""
    members = {}
    for name in _SPLITS:
        dealt = np.empty((0, 2), dtype=np.int64)  # node, place in the split
        to_each = [0] * processes.count
        if graph is not None:
            assignment = _assignment(graph, processes.count)
            index = getattr(graph, f"{name}_index")
            owner = assignment[index]
            order = np.argsort(owner, kind="stable")
            dealt = np.stack([index[order], order], axis=1)
            to_each = np.bincount(owner, minlength=processes.count).tolist()
        from_each = processes.exchange_counts(to_each)
        own = processes.exchange(dealt, to_each, from_each)
        nodes = np.searchsorted(part.nodes[: part.n_own], own[:, 0])
        members[name] = Members(nodes, own[:, 1], sizes[name])
    return members


def _settle_batches(
    wanted: ModelRequest, part: GraphPart, processes: Processes, members: dict[str, Members]
) -> tuple[ModelRequest, str]:
    """The request with mini-batches, if the full batch would not fit, and what to tell of it."""
    settings = _settings(wanted, part.graph.name)
    settled, note = settle_part_batches(
        part, processes, members, settings, wanted.n_runs, auto=wanted.auto
    )
    return wanted.with_batches_of(settled, settings), note


def _prepare(
    request: ParallelRequest, loaded: _Loaded, about_memory: str, lead: list[_Lead]
) -> dict[str, Any]:
    """The first process's preparations: all that has to do with what is on disk already."""
    job, graph = replace(loaded.job, wanted=request.wanted), loaded.graph
    file = TrainingFile(job.training_path, identity_of(job), request.checkpoint_seconds)
    # torchrun starts all processes again after one has died.
    resume = request.resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if resume and not file.path.exists() and tell_if_finished(job, file):
        return {"is_finished": True}
    state = file.read() if resume else None
    weights = class_weights(graph, _settings(request.wanted, graph.name))
    job.introduce()
    job.screen.remark(about_memory)
    job.screen.remark(about_kernels(request.wanted))
    job.screen.remark(about_earlier(file, resume, state))
    lead.append(_Lead(replace(job, graph=graph), file, state))
    return {
        "is_finished": False,
        "has_state": state is not None,
        "class_weight": None if weights is None else weights.tolist(),
    }


def _settings(wanted: ModelRequest, graph_name: str) -> Settings:
    return resolve_settings(*resolve(wanted, graph_name))


class _Trainer:
    """A process's share of the training."""

    def __init__(
        self,
        request: ParallelRequest,
        part: GraphPart,
        processes: Processes,
        members: dict[str, Members],
        plan: dict[str, Any],
        lead: _Lead | None,
    ) -> None:
        self.request = request
        self.part = part
        self.processes = processes
        self.lead = lead
        self.settings = _settings(request.wanted, part.graph.name)
        self.n_earlier = 0  # epochs before this process was started
        self.seconds = 0.0  # of training, without what comes before and after
        wanted = request.wanted
        self.network: Network = processes.as_one(
            lambda: build_model(
                part.graph,
                self.settings,
                wanted.seeds,
                cast(KernelName, wanted.kernels),
                part.n_features,
                self._device(),
            )
        )
        self.scaler = self._fit_scaler()
        weights = plan["class_weight"]
        self.batches = PartBatches(
            part,
            processes,
            self.settings,
            n_hops=self.network.n_hops,
            features=scaled_features(part.graph, self.scaler),
            members=members,
            class_weight=None if weights is None else np.array(weights),
            seed=wanted.seed,
            agrees=self.network.model.agrees,
        )
        self.has_state = plan["has_state"]

    def _device(self) -> torch.device | None:
        """That of this process: of several graphics cards of a machine each has its own."""
        process = int(os.environ.get("LOCAL_RANK", 0))
        return choose_device(self.request.wanted.device, n_numbers_of(self.part.graph), process)

    def _fit_scaler(self) -> FeatureScaler:
        if self.part.graph.features is None:
            return FeatureScaler("none")
        kind = self.settings.scaling
        return fit_stored_scaler(self.part.graph.features, kind, self.processes.combine)

    def train(self, screen: Screen) -> TrainingState:
        batches: list[LabelledBatch] | MakeBatches
        watched: LabelledBatch | MakeBatches | None = None
        has_validation = self.batches.members["validation"].n_all > 0
        if self.batches.is_full_batch:
            batches = [self.batches.whole("train")]
            if has_validation:
                watched = self.batches.whole("validation")
        else:
            batches = self.batches.training
            watched = self.batches.validation if has_validation else None
        resume_from = self._state()
        self.n_earlier = 0 if resume_from is None else len(resume_from["epochs"])
        started = time.perf_counter()
        with (
            screen.training(f"training on {self.part.graph.name}") as on_epoch,
            out_of_memory_says(NO_MEMORY_FOR_BATCH),
        ):
            state = train(
                self.network,
                batches,
                watched,
                self.settings,
                on_epoch=on_epoch,
                resume_from=resume_from,
                on_checkpoint=None if self.lead is None else self.lead.file,
                group=self.processes,
            )
        self.seconds = time.perf_counter() - started
        self.network = self.network.on(None)
        return state

    def _state(self) -> Saved | None:
        """The unfinished training that all processes go on with."""
        if not self.has_state:
            return None
        state = None if self.lead is None else self.lead.state
        content = self.processes.broadcast(b"" if state is None else safetensors.numpy.save(state))
        return safetensors.numpy.load(content)

    def predict(self, screen: Screen) -> Array | None:
        """Probabilities of all nodes and replicas, in the first process; None in the others."""
        graph = self.part.graph
        halo = _PartHalo(self.part, self.processes)
        n_rows = self.part.n_own * n_stages(self.network)
        scratch = None if self.lead is None else self.lead.job.folder.resolve().parent
        with screen.showing() as progress:
            advance = counter(progress, "predicting", n_rows)
            logits = run_in_blocks(
                self.network, graph, self.scaler, scratch=scratch, advance=advance, halo=halo
            )[: self.part.n_own]
        fitted = FittedGCN(graph, self.settings, self.scaler, self.network, 0)
        own = (
            fitted.from_logits(logits[first : first + BLOCK_ROWS])
            for first in range(0, len(logits), BLOCK_ROWS)
        )
        if self.lead is None:
            for block in own:
                self.processes.send(block, 0)
            return None
        whole = self.lead.job.graph
        assignment = _assignment(whole, self.processes.count)
        width = int(np.prod(logits.shape[1:]))
        each = Space(available_memory() // 2, scratch).new(whole.n_nodes, width)
        for process in range(self.processes.count):
            nodes = np.flatnonzero(assignment == process)
            for first in range(0, len(nodes), BLOCK_ROWS):
                rows = nodes[first : first + BLOCK_ROWS]
                if process == 0:
                    block = next(own)
                else:
                    block = np.empty((len(rows), *logits.shape[1:]), dtype=logits.dtype)
                    self.processes.receive(block, process)
                each[rows] = block.reshape(len(rows), width)
        return each.reshape(whole.n_nodes, *logits.shape[1:])

    def about_processes(self, state: TrainingState) -> list[dict[str, int]]:
        """Memory and bytes of every process."""
        n_epochs = max(1, len(state.epochs) - self.n_earlier)
        made = self.batches.sent_making
        return process_costs(self.part, self.processes, self.network, made, n_epochs, self.seconds)


class _PartHalo:
    """Rows of other parts, for `run_in_blocks`."""

    def __init__(self, part: GraphPart, processes: Processes) -> None:
        self.n_own = part.n_own
        self._lent = part.lent.astype(np.int64)
        self._to_each = np.diff(part.lent_bounds).tolist()
        self._from_each = np.diff(part.halo_bounds).tolist()
        self._processes = processes

    def fill(self, rows: Array) -> None:
        came = self._processes.exchange(
            rows[self._lent], self._to_each, self._from_each, "prediction"
        )
        rows[self.n_own :] = came


def _assignment(graph: Graph, n_parts: int) -> Array:
    """The part of each node."""
    assert graph.folder is not None
    place = parts_folder(graph.folder, n_parts)
    return StoredArray.from_json("assignment", read_manifest(place)["arrays"]["assignment"]).open(
        place
    )


def _finish(
    lead: _Lead,
    trainer: _Trainer,
    state: TrainingState,
    each: Array | None,
    started: float,
    about: list[dict[str, int]],
    screen: Screen,
) -> None:
    assert each is not None
    fitted = FittedGCN(
        lead.job.graph,
        trainer.settings,
        trainer.scaler,
        trainer.network,
        int(state.stopped_at.max()),
        history_of(state),
    )
    if lead.job.wanted.calibrate:
        fitted = calibrated(fitted, each)
    show_costs(about, screen)
    finish(lead.job, lead.file, fitted, each, started, {"processes": about})
