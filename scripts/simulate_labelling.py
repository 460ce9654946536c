"""How good is a page that asks and learns? Simulated labelling, from no label at all.

    python scripts/simulate_labelling.py

A simulated person answers by the truth, one question after the other, as on the page of `graphconv
label`: first by graph and features alone, then by what the model is unsure of, one question in five
at random; the model goes on from its last weights after every answer. Beside it, with the same
model fitted from random weights: questions at random, and the best of `suggest` every time, with
random questions until there are two classes; they learn from every answer, the page from all but
those to its random questions. Questions come from all nodes that are not test nodes; accuracy is
that on the test nodes. The page's own estimate, from the answers to its random questions, is
compared with the truth.

Runs are kept in measured/labelling.jsonl (not in the repository) as they finish, so that an
interrupted simulation goes on from there: remove it to measure anew. The figures are written to
measured/labelling.json, the plot to docs/figures/labelling.png; scripts/build_labelling.py puts the
figures into the guide.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv import Graph, __version__, load_dataset
from graphconv.graph import adjacency_from_edges
from graphconv.io.files import json_text
from graphconv.results.labelling import RANDOM_EVERY, Learner, Picture
from graphconv.results.suggest import suggest
from graphconv.training.fit import fit_gcn
from graphconv.training.scores import wilson_interval

METHODS = ("page", "random", "suggest")
# Test accuracy of the paper's GCN, and answers to simulate: a third of the public split's labels
# and somewhat more.
PUBLIC = {"cora": 81.5, "citeseer": 70.3, "pubmed": 79.0}
N_ANSWERS = {"cora": 60, "citeseer": 60, "pubmed": 30, "communities": 40, "sparse links": 40}
A_THIRD = {"cora": 46, "citeseer": 40, "pubmed": 20}
TITLES = {"cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed"}
N_SEEDS = 10
ROOT = Path(__file__).resolve().parent.parent
IntArray = npt.NDArray[np.int64]


def planted(name: str, n_nodes: int, n_classes: int, n_links: float, clarity: float) -> Graph:
    """Classes whose nodes mostly link among themselves, with features that tell them apart a bit.

    `clarity` 0 means no features at all. The first 500 nodes are test nodes.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n_nodes)
    ends = rng.integers(0, n_nodes, (int(6 * n_links * n_nodes), 2))
    is_kept = (labels[ends[:, 0]] == labels[ends[:, 1]]) | (rng.random(len(ends)) < 0.05)
    ends = ends[is_kept][: int(n_links * n_nodes)]
    features = None
    if clarity:
        centres = rng.normal(size=(n_classes, 16))
        features = clarity * centres[labels] + rng.normal(size=(n_nodes, 16))
    return Graph(
        adjacency_from_edges(ends[:, 0], ends[:, 1], n_nodes=n_nodes),
        None if features is None else features.astype(np.float32),
        labels,
        test_index=np.arange(500),
        name=name,
    )


def load(name: str) -> Graph:
    """A citation data set, or one of the two generated graphs."""
    if name == "communities":
        return planted(name, 2000, 5, n_links=4.0, clarity=0)
    if name == "sparse links":
        return planted(name, 2000, 5, n_links=1.5, clarity=0.5)
    return load_dataset(name)


def simulate(graph: Graph, method: str, seed: int, n_answers: int) -> dict[str, Any]:
    """Accuracy on the test nodes after each answer, and the page's own estimate of it."""
    started = perf_counter()
    preset = "paper" if graph.name in PUBLIC else "robust"
    off_limits = {*graph.test_index.tolist(), *np.flatnonzero(~graph.is_labelled).tolist()}
    learner = Learner(graph, preset=preset, seed=seed)
    person = _Person(graph)
    accuracies: list[float] = []
    for number in range(n_answers):
        person.answer(_question(learner, person, method, number, off_limits), method, number)
        if method == "page":
            picture = learner.fit(person.lessons, person.met, number)
            probabilities = None if picture is None else picture.probabilities
        else:
            probabilities = _fit_anew(learner, person, preset, seed + number)
        accuracies.append(person.accuracy(probabilities))
    result = {"seed": seed, "accuracy": accuracies, "seconds": perf_counter() - started}
    if method == "page":
        exam = np.array(person.random, dtype=np.int64)
        result |= learner.examine(exam, person.labels)._asdict()
        # What the estimate is about: nodes without a label, the test nodes among them.
        nodes = np.flatnonzero((person.labels < 0) & graph.is_labelled)
        probabilities = None if learner.picture is None else learner.picture.probabilities
        result["truth"] = person.accuracy(probabilities, nodes)
        result["sets"] = _share_held(learner, person, nodes)
    return result


def _share_held(learner: Learner, person: _Person, nodes: IntArray) -> float | None:
    """In how many of a hundred sets of possible classes the true one is; None before there are."""
    if learner.possible is None:
        return None
    column = {code: place for place, code in enumerate(person.codes)}
    places = np.array([column.get(int(code), -1) for code in person.graph.labels[nodes]])
    # A class that nobody has met is in no set.
    held = learner.possible[nodes, places] & (places >= 0)
    return float(100 * held.mean())


class _Person:
    """Somebody who knows the truth and meets the classes one by one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.labels: IntArray = np.full(graph.n_nodes, -1)
        self.met: list[str] = []
        self.codes: list[int] = []
        self.random: list[int] = []

    def answer(self, node: int, method: str, number: int) -> None:
        code = int(self.graph.labels[node])
        if code not in self.codes:
            self.codes.append(code)
            self.met.append(str(self.graph.class_names[code]))
        self.labels[node] = self.codes.index(code)
        if method == "page" and number % RANDOM_EVERY == RANDOM_EVERY - 1:
            self.random.append(node)

    @property
    def lessons(self) -> IntArray:
        """What the page's model may learn from."""
        labels = self.labels.copy()
        labels[self.random] = -1
        return labels

    def accuracy(self, probabilities: Any, nodes: IntArray | None = None) -> float:
        nodes = self.graph.test_index if nodes is None else nodes
        if probabilities is None:  # of one class only: everything is taken for it
            found = np.full(len(nodes), self.codes[0])
        else:
            found = np.array(self.codes)[probabilities[nodes].argmax(axis=1)]
        return float(100 * (found == self.graph.labels[nodes]).mean())


def _question(
    learner: Learner, person: _Person, method: str, number: int, off_limits: set[int]
) -> int:
    has_model = len(person.met) > 1
    at_random = {
        "page": number % RANDOM_EVERY == RANDOM_EVERY - 1,
        "suggest": not has_model,
        "random": True,
    }[method]
    if at_random:
        drawn = learner.random_question(person.labels, number, off_limits)
        assert drawn is not None
        return drawn
    if method == "page":
        return learner.questions(person.lessons, 1, off_limits | set(person.random))[0]
    assert learner.picture is not None
    fitted = learner.picture.fitted
    is_free = person.labels < 0
    is_free[list(off_limits)] = False
    candidates = fitted.graph.node_ids[is_free].tolist()
    best = suggest(fitted, 1, candidates=candidates)[0].node
    return int(np.flatnonzero(fitted.graph.node_ids == best)[0])


def _fit_anew(learner: Learner, person: _Person, preset: str, seed: int) -> Any:
    """What somebody who trains again after every label has; kept for `suggest`."""
    if len(person.met) < 2:
        return None
    graph = person.graph.with_labels(person.labels, person.met)
    overrides = {"max_epochs": 200, "early_stopping": "none"}
    fitted = fit_gcn(graph, preset=preset, overrides=overrides, seeds=[seed], validation_fraction=0)
    probabilities = fitted.probabilities()[:, 0]
    learner.picture = Picture(0, fitted, probabilities, person.labels, 0, 0)
    return probabilities


def summarise(records: dict[tuple[str, str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Means and standard errors, and how far the estimates are from the truth."""
    result: dict[str, Any] = {"version": __version__, "seeds": N_SEEDS, "datasets": {}}
    for dataset in N_ANSWERS:
        entry: dict[str, Any] = {}
        for method in METHODS:
            runs = records[dataset, method]
            curves = np.array([run["accuracy"] for run in runs])
            entry[method] = {
                "mean": curves.mean(axis=0).round(2).tolist(),
                "error": (curves.std(axis=0, ddof=1) / np.sqrt(len(curves))).round(2).tolist(),
            }
        if dataset in PUBLIC:
            goal = 0.9 * PUBLIC[dataset]
            reached = entry["page"]["mean"][A_THIRD[dataset] - 1]
            entry["goal"] = {
                "answers": A_THIRD[dataset], "wanted": round(goal, 1), "reached": reached,
            }  # fmt: skip
        runs = records[dataset, "page"]
        gaps = np.array([100 * run["n_right"] / run["n_all"] - run["truth"] for run in runs])
        inside = [
            low <= run["truth"] / 100 <= high
            for run in runs
            for _, low, high in [wilson_interval(run["n_right"], run["n_all"])]
        ]
        entry["estimate"] = {
            "random_answers": runs[0]["n_all"],
            "mean_gap": round(float(gaps.mean()), 1),
            "gap_error": round(float(gaps.std(ddof=1) / np.sqrt(len(gaps))), 1),
            "mean_distance": round(float(np.abs(gaps).mean()), 1),
            "distance_by_chance": round(_distance_by_chance(runs), 1),
            "truth_in_interval": f"{sum(inside)} of {len(inside)}",
        }
        held = [run["sets"] for run in runs if run["sets"] is not None]
        entry["sets_hold"] = round(float(np.mean(held)), 1) if held else None
        result["datasets"][dataset] = entry
    return result


def _distance_by_chance(runs: list[dict[str, Any]]) -> float:
    """How far an estimate without any fault would be from the truth, by the draw of its nodes."""
    distances = []
    for run in runs:
        n, share = run["n_all"], run["truth"] / 100
        right = np.arange(n + 1)
        likelihood = [comb(n, k) * share**k * (1 - share) ** (n - k) for k in right]
        distances.append(100 * float(np.abs(right / n - share) @ likelihood))
    return float(np.mean(distances))


def draw(result: dict[str, Any], path: Path) -> None:
    """Accuracy against the number of answers, a panel for each graph."""
    from graphconv.report.figures import COLOURS, new_figure, write_figure

    looks = {
        "page": (COLOURS[0], "-", "the page"),
        "suggest": (COLOURS[2], "-.", "graphconv suggest, one at a time"),
        "random": (COLOURS[1], "--", "random questions"),
    }
    figure, axes = new_figure(1, len(result["datasets"]), (16, 4.4))
    for panel, (dataset, entry) in zip(axes[0], result["datasets"].items(), strict=True):
        for method, (colour, line, name) in looks.items():
            mean, error = (np.array(entry[method][key]) for key in ("mean", "error"))
            numbers = np.arange(1, len(mean) + 1)
            panel.plot(numbers, mean, line, color=colour, label=name)
            panel.fill_between(
                numbers, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0
            )
        if dataset in PUBLIC:
            panel.axhline(PUBLIC[dataset], color="0.4", linewidth=1)
            panel.axvline(A_THIRD[dataset], color="0.4", linewidth=1, linestyle=":")
        panel.set_title(TITLES.get(dataset, f"generated: {dataset}"))
        panel.set_xlabel("answers")
        panel.set_ylim(0, 100)
        panel.grid(alpha=0.3)
    axes[0][0].set_ylabel("test accuracy (%)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=3)
    figure.suptitle(
        f"Labelling from nothing, mean of {result['seeds']} runs, band = standard error; "
        "line: the paper's accuracy with all public labels, dots: a third of those"
    )
    write_figure(figure, path)


def run_missing(path: Path, say: Callable[[str], None]) -> dict[tuple[str, str], list[Any]]:
    """Simulate what the file lacks; a line is written after every run."""
    done: dict[tuple[str, str, int], dict[str, Any]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            done[record["dataset"], record["method"], record["seed"]] = record
    with path.open("a") as file:
        for method, dataset in product(METHODS, N_ANSWERS):
            graph = load(dataset)
            for seed in range(N_SEEDS):
                if (dataset, method, seed) in done:
                    continue
                found = simulate(graph, method, seed, N_ANSWERS[dataset])
                record = {"dataset": dataset, "method": method, **found}
                done[dataset, method, seed] = record
                file.write(json_text(record) + "\n")
                file.flush()
                say(f"{dataset}, {method}, seed {seed}: {found['accuracy'][-1]:.1f} %")
    return {
        (dataset, method): [done[dataset, method, seed] for seed in range(N_SEEDS)]
        for dataset in N_ANSWERS
        for method in METHODS
    }


def main() -> None:
    """Simulate what is missing, then write the figures and the plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=ROOT / "measured", help="folder to write to")
    output = parser.parse_args().output
    records = run_missing(output / "labelling.jsonl", lambda text: print(text, flush=True))
    result = summarise(records)
    (output / "labelling.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, ROOT / "docs" / "figures" / "labelling.png")
    for dataset, entry in result["datasets"].items():
        last = {method: entry[method]["mean"][-1] for method in METHODS}
        print(f"{dataset:13s} {last} {entry.get('goal', '')} {entry['estimate']}")


if __name__ == "__main__":
    main()
