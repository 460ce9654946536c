"""Appendix A: embeddings of the karate club, untrained and while they learn from four labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.estimators.runs import RunLog
from graphconv.estimators.statistics import fixed
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset
from graphconv.models.gcn import GCN
from graphconv.models.propagation import Propagation
from graphconv.paper.section import Figure, Request, Section, Table
from graphconv.training.loop import single_torch_thread

NAME = "karate"
ITERATIONS = (25, 50, 75, 100, 200, 300)
HIDDEN = (4, 4)
LEARNING_RATE = 0.01
SHOWN_SEED = 0
N_SEEDS = 100
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Evolution:
    """What became of some models while they trained.

    Parameters
    ----------
    positions : array of shape (n_iterations + 1, n_models, n_nodes, 2)
        Embeddings before the first iteration and after each.
    accuracy : array of shape (n_iterations + 1, n_models)
        Percent of the unlabelled nodes that are right.
    """

    positions: Array
    accuracy: Array


class EmbeddingModel(torch.nn.Module):
    """Equation 12, three layers of tanh with a plane as output, and a softmax layer on top.

    Several models, one for each seed, side by side.
    """

    def __init__(self, graph: Graph, seeds: range) -> None:
        super().__init__()
        propagation = Propagation("renormalised", n_replicas=len(seeds), kernels=kernels.select())
        self.convolutions = GCN(
            graph.n_features,
            2,
            propagation,
            hidden=HIDDEN,
            seeds=seeds,
            dropout=0.0,
            activation="tanh",
        )
        self.batch = make_batch(graph, n_hops=self.convolutions.n_hops)
        limit = (6 / (2 + graph.n_classes)) ** 0.5  # Glorot and Bengio, as in the other layers
        weights = [
            2 * limit * torch.rand((2, graph.n_classes), generator=_generator(seed)) - limit
            for seed in seeds
        ]
        self.top = torch.nn.Parameter(torch.stack(weights))  # (n_models, 2, n_classes)

    def embed(self) -> Tensor:
        """Z, shape (n_nodes, n_models, 2)."""
        return torch.tanh(self.convolutions(self.batch))

    def forward(self) -> tuple[Tensor, Tensor]:
        """Embeddings and logits, (n_nodes, n_models, n_classes)."""
        embedding = self.embed()
        return embedding, torch.einsum("nmd,mdc->nmc", embedding, self.top)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def train_embeddings(graph: Graph, seeds: range, n_iterations: int) -> Evolution:
    """Train on the graph's training nodes, one model for each seed, keeping every step."""
    model = EmbeddingModel(graph, seeds)
    labels = torch.from_numpy(graph.labels.copy())
    train = torch.from_numpy(graph.train_index.copy())
    test = torch.from_numpy(graph.test_index.copy())
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    positions, accuracy = [], []
    with single_torch_thread():
        for iteration in range(n_iterations + 1):
            embedding, logits = model()
            positions.append(embedding.detach().permute(1, 0, 2).numpy().copy())
            right = logits.detach()[test].argmax(dim=2) == labels[test][:, None]
            accuracy.append(100 * right.double().mean(dim=0).numpy())
            if iteration == n_iterations:
                break
            # Adam treats every number by itself, so the sum trains each model as if alone.
            wanted = labels[train].repeat_interleave(len(seeds))
            flat = logits[train].reshape(-1, graph.n_classes)
            loss = torch.nn.functional.cross_entropy(flat, wanted, reduction="sum") / len(train)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
    return Evolution(np.array(positions), np.array(accuracy))


def edges_of(graph: Graph) -> Array:
    """Pairs of nodes, each edge once, shape (n_edges, 2)."""
    upper = graph.adjacency.tocoo()
    once = upper.row < upper.col
    return np.column_stack([upper.row[once], upper.col[once]])


def section(request: Request, log: RunLog) -> Section:
    """Train, draw, animate."""
    from graphconv.report import karate as report
    from graphconv.report.figures import save_figure

    graph = load_dataset("karate")
    n_seeds = request.n_runs(N_SEEDS)
    n_iterations = min(ITERATIONS[-1], request.max_epochs or ITERATIONS[-1])
    evolution = train_embeddings(graph, range(SHOWN_SEED, SHOWN_SEED + n_seeds), n_iterations)
    shown = report.Club(edges_of(graph), graph.labels, graph.train_index, evolution.positions[:, 0])
    folder = request.output / "figures"
    moments = [number for number in ITERATIONS if number <= n_iterations] or [n_iterations]
    save_figure(report.draw_untrained(shown), folder / "karate-untrained")
    save_figure(report.draw_evolution(shown, moments), folder / "karate-evolution")
    report.write_animation(shown, folder / "karate.gif")
    report.write_page(shown, evolution.accuracy[:, 0], folder / "karate.html")
    final = evolution.accuracy[-1]
    return Section(
        name=NAME,
        title="Appendix A: the karate club",
        text=_text(n_seeds),
        tables=(_table(evolution, moments),),
        figures=_FIGURES,
        data={"seed": SHOWN_SEED, "final_accuracy": final.tolist(), "n_iterations": n_iterations},
    )


def _table(evolution: Evolution, moments: list[int]) -> Table:
    rows = tuple(
        (
            str(number),
            fixed(float(evolution.accuracy[number, 0])),
            fixed(float(evolution.accuracy[number].mean())),
            fixed(100 * float((evolution.accuracy[number] == 100).mean()), 0),
        )
        for number in [0, *moments]
    )
    columns = ("iteration", "the start shown", "mean of all starts", "starts without a mistake, %")
    return Table("Unlabelled members put into the right community, percent", columns, rows)


def _text(n_seeds: int) -> tuple[str, ...]:
    return (
        "A GCN of three tanh layers (4, 4 and 2 units) on the 34 members of Zachary's karate club, "
        "without features, so that its output is a place in the plane. Colours are the four "
        "communities of greatest modularity. Untrained, with random weights, it tends to place "
        "members of a community near each other already.",
        "Then a softmax layer without bias goes on top, and the whole learns from one labelled "
        f"member of each community: Adam, learning rate 0.01. Shown is seed {SHOWN_SEED}, the "
        f"first of {n_seeds} random starts; it was not picked for its looks.",
    )


_FIGURES = (
    Figure(
        "figures/karate-untrained",
        "Left: the club, edges are friendships. Right: where an untrained GCN places its members.",
        "Two drawings of the karate club network: a usual layout and the untrained embedding",
    ),
    Figure(
        "figures/karate-evolution",
        "Embeddings while the model learns; labelled members are larger and ringed.",
        "Six panels: positions of the 34 members after 25, 50, 75, 100, 200 and 300 iterations",
        page="figures/karate.html",
    ),
)
