"""Appendix A: embeddings of the karate club, untrained and while they learn from four labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv import kernels
from graphconv.engine.batches import make_batch
from graphconv.engine.network import Network
from graphconv.engine.objective import LabelledBatch
from graphconv.estimators.runs import Record, RunLog, Series
from graphconv.estimators.statistics import fixed
from graphconv.graph import Graph, IntArray
from graphconv.io.datasets import load_dataset
from graphconv.models.gcn import GCN
from graphconv.models.operations import Value, activate
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings
from graphconv.paper.section import Figure, Request, Section, Table
from graphconv.paper.separability import is_separable
from graphconv.paper.workers import run_all
from graphconv.training.loop import train

NAME = "karate"
ITERATIONS = (25, 50, 75, 100, 200, 300)
SETTINGS = Settings(
    hidden=(4, 4),
    activation="tanh",
    dropout=0.0,
    bias=False,
    learning_rate=0.01,
    weight_decay=0.0,
    early_stopping="none",
    patience=100,  # nothing waits here, but the log knows its runs by it
)
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


class PlaneModel(GCN):
    """Equation 12, three layers of tanh with a plane as output, and a softmax layer on top."""

    def __init__(
        self, n_features: int, n_classes: int, settings: Settings, graph: Propagation
    ) -> None:
        super().__init__(n_features, 2, settings, graph)
        self.n_classes = n_classes
        # Paper: a softmax layer on top of the embedding; here: without a bias, because no other
        # layer of the model has one.
        self.top = self.weight("top", 2, n_classes)

    def logits(self, x: Value, graph: Propagation) -> Value:
        place = activate(super().logits(x, graph), "tanh")
        return place @ self.top


def train_embeddings(graph: Graph, seeds: Sequence[int], n_iterations: int) -> Evolution:
    """Train on the graph's training nodes, one model for each seed, keeping every step."""
    model = PlaneModel(graph.n_features, graph.n_classes, SETTINGS, Propagation())
    network = Network(model, seeds, kernels.select())
    everyone = make_batch(graph, n_hops=network.n_hops)
    positions = np.empty((n_iterations + 1, len(seeds), graph.n_nodes, 2))
    accuracy = np.empty((n_iterations + 1, len(seeds)))

    def look(iteration: int, models: Network, places: IntArray) -> None:
        positions[iteration, places] = models.embed(everyone).swapaxes(0, 1)
        chosen = models(everyone).argmax(axis=2)  # (n_nodes, n_models)
        right = chosen[graph.test_index] == graph.labels[graph.test_index, None]
        accuracy[iteration, places] = 100 * right.mean(axis=0)

    look(0, network, np.arange(len(seeds)))
    train(
        network,
        [LabelledBatch.make(make_batch(graph, graph.train_index, n_hops=3), graph.labels)],
        None,
        replace(SETTINGS, max_epochs=n_iterations),
        on_epoch=lambda told: look(told.epoch, told.network, told.replicas),
    )
    return Evolution(positions, accuracy)


def run_embeddings(series: Series, graph: Graph) -> list[Record]:
    """Train a model for each seed; what became of it after each of the iterations shown."""
    moments = series.settings["iterations"]
    found = train_embeddings(graph, series.seeds, moments[-1])
    return [
        {
            "seed": seed,
            "test_accuracy": float(found.accuracy[-1, place]),
            "accuracy_after": found.accuracy[moments, place].tolist(),
            "separable_after": [
                is_separable(found.positions[number, place], graph.labels) for number in moments
            ],
            "epochs": moments[-1],
        }
        for place, seed in enumerate(series.seeds)
    ]


def _series(request: Request) -> Series:
    last = min(ITERATIONS[-1], request.max_epochs or ITERATIONS[-1])
    moments = [number for number in ITERATIONS if number <= last] or [last]
    return Series(
        experiment=NAME,
        dataset="karate",
        method="embedding",
        task=run_embeddings,
        settings={"gcn": SETTINGS.to_json(), "iterations": [0, *moments]},
        seeds=tuple(range(SHOWN_SEED, SHOWN_SEED + request.n_runs(N_SEEDS))),
        chunk=N_SEEDS,
    )


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
    series = _series(request)
    run_all([series], log, request.progress)
    runs = [run for run in log.records(series) if run["seed"] in series.seeds]
    _, *moments = series.settings["iterations"]
    drawn = train_embeddings(graph, [SHOWN_SEED], moments[-1])
    shown = report.Club(edges_of(graph), graph.labels, graph.train_index, drawn.positions[:, 0])
    folder = request.output / "figures"
    save_figure(report.draw_untrained(shown), folder / "karate-untrained")
    save_figure(report.draw_evolution(shown, moments), folder / "karate-evolution")
    report.write_animation(shown, folder / "karate.gif")
    report.write_page(shown, drawn.accuracy[:, 0], folder / "karate.html")
    return Section(
        name=NAME,
        title="Appendix A: the karate club",
        text=_text(len(runs)),
        tables=(_table(runs, [0, *moments]),),
        figures=_FIGURES,
        data={
            "seed": SHOWN_SEED,
            "final_accuracy": [run["test_accuracy"] for run in runs],
            "n_iterations": moments[-1],
        },
        finished=log.newest([series]),
    )


def _table(runs: list[Record], moments: list[int]) -> Table:
    accuracy = np.array([run["accuracy_after"] for run in runs])  # (n_starts, n_moments)
    separable = np.array([run["separable_after"] for run in runs])
    rows = tuple(
        (
            str(number),
            fixed(float(accuracy[0, at])),
            fixed(float(accuracy[:, at].mean())),
            fixed(100 * float((accuracy[:, at] == 100).mean()), 0),
            fixed(100 * float(separable[:, at].mean()), 0),
        )
        for at, number in enumerate(moments)
    )
    columns = (
        "iteration", "the start shown", "mean of all starts", "starts without a mistake, %",
        "starts that are linearly separable, %",
    )  # fmt: skip
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
        "The paper says that the model succeeds in linearly separating the communities. The last "
        "column measures that: a linear programme decides for each start whether any linear "
        "classifier of the 34 places, trained or not, gives every member its community.",
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
