"""FittedGCN: a trained model with all it needs to label a graph, the one it knows or another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.engine.batches import Batch, make_batch
from graphconv.engine.blocks import n_stages, run_in_blocks
from graphconv.engine.devices import choose_device, out_of_memory_says, single_torch_thread
from graphconv.engine.memory_estimate import n_numbers_of
from graphconv.engine.network import Network
from graphconv.graph import Graph, IntArray
from graphconv.graph.mapping import release
from graphconv.graph.scaling import FeatureScaler, StoredFeatures
from graphconv.graph.unknown_features import is_undescribed
from graphconv.models.settings import Settings
from graphconv.storage.memory import available_memory
from graphconv.training.calibration import Calibration, calibrate_apart
from graphconv.training.correct_and_smooth import correct_and_smooth, known_nodes
from graphconv.training.loop import DivergedError
from graphconv.training.scores import mean_over_runs

if TYPE_CHECKING:
    import torch

FloatMatrix = npt.NDArray[np.float32]
# Batches of more numbers than this are not kept for the next prediction.
MOST_KEPT = 10_000_000
# Rows whose logits become probabilities at a time.
BLOCK_ROWS = 1 << 16
# Below this nobody needs to ask how much memory there is.
MIN_BLOCKED_BYTES = 1 << 24
_WITHOUT_MEMORY = (
    "{device} must have memory for all nodes at once, but ran out: predict on the cpu, which works "
    "in blocks"
)


@dataclass(frozen=True, eq=False)
class FittedGCN:
    """A trained model with all it needs to label a graph.

    Parameters
    ----------
    graph : Graph
        What it was trained on, with the validation nodes that were set aside.
    settings : Settings
    scaler : FeatureScaler
    network : Network
    n_epochs : int
        Epochs run, by the longest-running replica.
    history : dict of lists
        Loss and accuracy of each epoch, a mean over replicas.
    choice : str
        Where the method was chosen by trying several, why it was.
    calibration : Calibration
        What makes its confidence believable, by the validation nodes.
    undescribed_calibration : Calibration, optional
        The same for nodes that nothing is known of, by validation nodes whose features were
        hidden. None: as for all others.
    device : {"cpu", "cuda", "mps", "auto"}
        Where all nodes of a graph in memory, or some of them, are predicted. The network itself
        stays on the processor, as do graphs on disk.
    """

    graph: Graph
    settings: Settings
    scaler: FeatureScaler
    network: Network
    n_epochs: int
    history: dict[str, list[float]] = field(default_factory=dict)
    choice: str = ""
    calibration: Calibration = field(default_factory=Calibration)
    undescribed_calibration: Calibration | None = None
    device: str = "cpu"
    # Scaling features and laying out a batch takes longer than predicting from it.
    _batches: WeakKeyDictionary[Graph, Batch] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )
    _on_devices: dict[torch.device, Network] = field(default_factory=dict, init=False, repr=False)

    def __repr__(self) -> str:
        return f"FittedGCN({self.graph!r}, {self.n_epochs} epochs, {self.settings!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Batches are kept by the identity of their graph: a copy begins without.
        kept = ("_batches", "_on_devices")
        return {name: value for name, value in self.__dict__.items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _batches=WeakKeyDictionary(), _on_devices={})

    @property
    def self_loop_weight(self) -> float:
        """lambda, learned or given; the mean over replicas."""
        return float(np.mean(self.network.self_loop_weight))

    @property
    def n_passes(self) -> int:
        """How often predicting in blocks goes over all nodes; see `probabilities`."""
        return n_stages(self.network)

    def probabilities(
        self,
        graph: Graph | None = None,
        nodes: IntArray | None = None,
        *,
        scratch: Path | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> FloatMatrix:
        """Probabilities of each replica, uncalibrated, shape (n_nodes, n_replicas, n_classes).

        Of the training graph's nodes, or those of another graph with the same features; of all of
        them, or of some. All nodes of a large graph are worked on in blocks, see `works_in_blocks`
        and `inference.run_in_blocks`, which says what `scratch` and `advance` are.
        """
        graph = self._checked(graph)
        if self.settings.correct_and_smooth:
            every = self._of_network(graph, None, scratch, advance)
            here, there = known_nodes(self.graph, graph)
            better = correct_and_smooth(graph, every, here, self.graph.labels[there])
            return better if nodes is None else better[nodes]
        return self._of_network(graph, nodes, scratch, advance)

    def _of_network(
        self,
        graph: Graph,
        nodes: IntArray | None,
        scratch: Path | None,
        advance: Callable[[int], None] | None,
    ) -> FloatMatrix:
        """The same, as the network gives them."""
        if nodes is not None or not works_in_blocks(graph, self.network):
            with out_of_memory_says(_WITHOUT_MEMORY):
                return self._probabilities(self._network_for(graph), self._batch(graph, nodes))
        values = run_in_blocks(self.network, graph, self.scaler, scratch=scratch, advance=advance)
        # In place, a piece at a time: the array may be larger than memory.
        for piece in _pieces(values):
            piece[...] = self.from_logits(piece)
        return values

    def batch_probabilities(self, batch: Batch) -> FloatMatrix:
        """Probabilities of a batch's targets, shape (n_targets, n_replicas, n_classes).

        As the network gives them, whatever is made of them later.
        The batch's features are taken as they are: they must have been through the scaler.
        """
        return self._probabilities(self.network, batch)

    def _probabilities(self, network: Network, batch: Batch) -> FloatMatrix:
        with single_torch_thread(network.device):
            logits = network(batch)
        network.kernels.trim_memory()
        return self.from_logits(logits)

    def _network_for(self, graph: Graph) -> Network:
        """The network where a graph is to be predicted."""
        place = choose_device(self.device, n_numbers_of(graph))
        if place is None:
            return self.network
        if place not in self._on_devices:
            self._on_devices[place] = self.network.on(place)
        return self._on_devices[place]

    def from_logits(self, logits: FloatMatrix) -> FloatMatrix:
        """Probabilities of logits of shape (n_nodes, n_replicas, n_classes)."""
        if not np.isfinite(logits).all():
            raise DivergedError(
                "the model must give numbers, got nan or infinity: its weights, those of edges or "
                "the features are too large"
            )
        if self.graph.is_multilabel:
            small = np.exp(-np.abs(logits))
            answers: FloatMatrix = np.where(logits < 0, small, 1) / (1 + small)
            return answers
        # Classes first: over a short last axis numpy takes as long as the rest of the model.
        shares = np.ascontiguousarray(np.moveaxis(logits, 2, 0))
        shares = np.exp(shares - shares.max(axis=0))
        shares /= shares.sum(axis=0)
        return np.ascontiguousarray(np.moveaxis(shares, 0, 2))

    def ensemble_probabilities(self, graph: Graph | None = None) -> FloatMatrix:
        """What predictions show: the replicas' mean, calibrated, shape (n_nodes, n_classes)."""
        return self.calibrate(mean_over_runs(self.probabilities(graph)), graph)

    def calibrate(
        self,
        probabilities: FloatMatrix,
        graph: Graph | None = None,
        nodes: IntArray | None = None,
    ) -> FloatMatrix:
        """Averaged probabilities made believable; labels stay as they are.

        Of all nodes of the training graph or of another one, or of some. An array on disk is
        changed in place.
        """
        apart = np.zeros(len(probabilities), dtype=bool)
        if self.undescribed_calibration is not None:
            apart = is_undescribed(self.graph if graph is None else graph, nodes)
        how = (self.calibration, self.undescribed_calibration)
        if not isinstance(probabilities, np.memmap):
            return calibrate_apart(probabilities, *how, apart, self.graph.is_multilabel)
        first = 0
        for piece in _pieces(probabilities):
            own = apart[first : first + len(piece)]
            piece[...] = calibrate_apart(piece, *how, own, self.graph.is_multilabel)
            first += len(piece)
        return probabilities

    def embedding(self, graph: Graph | None = None, *, scratch: Path | None = None) -> FloatMatrix:
        """Activations that enter the last layer, those of replicas side by side."""
        graph = self._checked(graph)
        if works_in_blocks(graph, self.network):
            hidden = run_in_blocks(self.network, graph, self.scaler, embed=True, scratch=scratch)
        else:
            network = self._network_for(graph)
            with out_of_memory_says(_WITHOUT_MEMORY), single_torch_thread(network.device):
                hidden = network.embed(self._batch(graph))
        n_nodes, n_replicas, width = hidden.shape
        return hidden.reshape(n_nodes, n_replicas * width)

    def _checked(self, graph: Graph | None) -> Graph:
        graph = self.graph if graph is None else graph
        self.check_fits(graph)
        return graph

    def check_fits(self, given: Graph) -> None:
        """Refuse a graph whose features are not of the kind the model was trained with."""
        known = self.graph
        if (known.features is None) != (given.features is None):
            had = "no features" if known.features is None else f"{known.n_features} features"
            has = "none" if given.features is None else str(given.n_features)
            raise ValueError(f"the model was trained with {had}, the graph to predict has {has}")
        if known.n_features != given.n_features:
            what = "nodes and no features" if known.features is None else "features"
            raise ValueError(
                f"the model was trained with {known.n_features} {what}, the graph to predict "
                f"has {given.n_features}"
            )

    def _batch(self, graph: Graph, nodes: IntArray | None = None) -> Batch:
        if nodes is None and graph in self._batches:
            return self._batches[graph]
        features = scaled_features(graph, self.scaler)
        batch = make_batch(graph, nodes, n_hops=self.network.n_hops, features=features)
        if nodes is None and n_numbers_of(graph) < MOST_KEPT:
            self._batches[graph] = batch
        return batch


def _pieces(array: FloatMatrix) -> Iterator[FloatMatrix]:
    """Parts of an array that may be larger than memory, one after the other."""
    for first in range(0, len(array), BLOCK_ROWS):
        yield array[first : first + BLOCK_ROWS]
        release(array)


def works_in_blocks(graph: Graph, network: Network) -> bool:
    """Whether a graph is too large to compute all its rows at once.

    That is: its arrays lie on disk, or a layer's input, output and the features would together take
    more than half of the memory that is available.
    """
    if graph.folder is not None:
        return True
    n_replicas = len(network.seeds)
    widths = [own.n_terms * own.width * n_replicas for own in network.program.products]
    n_dense = 0 if graph.features is None or sp.issparse(graph.features) else graph.n_features
    n_bytes = 4 * graph.n_nodes * (n_dense + 3 * max(widths))
    return n_bytes > MIN_BLOCKED_BYTES and n_bytes > available_memory() // 2


def scaled_features(graph: Graph, scaler: FeatureScaler) -> Any:
    """The features as a model sees them; stored ones are scaled when they are read."""
    if graph.reads_rows:
        return StoredFeatures(graph.features, scaler)
    return scaler.transform(graph.features)
