"""When trainings should stop: epochs, time and accuracy of stopping rules, on graphs of many kinds.

python -m scripts.measure_stopping [FOLDER] [--only NAME] [--show]

FOLDER, or else the environment's GRAPHCONV_GRAPHS, holds graphs as npz files, as in
scripts.measure_choice. Every training runs all its epochs and leaves a trace: scores of each half
of the validation nodes and of the test nodes, epoch by epoch. Any rule can then be tried on the
traces, without training again. A rule is chosen by the half of the validation nodes that it did
not watch, and judged on test nodes with both halves watched.

There are 20 trainings of each graph: 20 seeds of a public split, or 4 seeds of each of 5 splits.
Finished traces are kept in runs/stopping, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import log_softmax
from scripts.measure_choice import generated, split_of

from graphconv import Graph, load_dataset
from graphconv.engine.batches import make_batch
from graphconv.graph.scaling import fit_scaler
from graphconv.io.files import replacing_file
from graphconv.models.settings import resolve_settings
from graphconv.training.early_stopping import EarlyStopping
from graphconv.training.fit import Watch, fit_gcn
from graphconv.training.loop import Progress

FOLDER = Path("runs/stopping")
N_SEEDS = 20
N_SPLITS = 5
PUBLIC = ("cora", "citeseer", "pubmed")
GENERATED = ("homophilous, bag of words", "heavy-tailed degrees", "dense embeddings", "no features")
# Other models than the default one, and slower steps, on a few graphs only.
SOME = ("cora", "chameleon_filtered", "dense embeddings")
VARIANTS: dict[str, dict[str, object]] = {
    "no graph": {"propagation": "none"},
    "appnp": {"model": "appnp"},
    "first-order": {"propagation": "first-order"},
    "rate 0.001": {"learning_rate": 0.001},
}
RULES = {"best, 100": ("best", 100), "best, 50": ("best", 50), "settled, 50": ("settled", 50)}
Make = Callable[[], Graph]
Scores = np.ndarray  # (n_epochs, 5, n_seeds): loss and accuracy of each half, test accuracy


def halves(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(0).permutation(graph.validation_index)
    return np.sort(drawn[::2]), np.sort(drawn[1::2])


def trace(graph: Graph, overrides: dict[str, object], seeds: list[int]) -> tuple[Scores, float]:
    """Scores of every epoch, and the CPU seconds of an epoch of one seed without looking on."""
    changes = {**overrides, "early_stopping": "none"}
    settings = resolve_settings("robust", changes)
    found = np.full((settings.max_epochs, 5, len(seeds)), np.nan)
    looking = 0.0
    scaler = fit_scaler(graph.features, settings.scaling)
    groups = (*halves(graph), graph.test_index)
    bounds = np.cumsum([0, *map(len, groups)])
    targets = np.concatenate(groups)
    wanted = graph.labels[targets]
    batch = None

    def look(progress: Progress) -> None:
        nonlocal looking, batch
        begin = time.process_time()
        network = progress.network
        if batch is None:
            features = scaler.transform(graph.features)
            batch = make_batch(graph, targets, n_hops=network.n_hops, features=features)
        logits = network(batch).astype(np.float64)  # (n_targets, n_replicas, n_classes)
        losses = -log_softmax(logits, axis=2)[np.arange(len(wanted)), :, wanted]
        right = logits.argmax(axis=2) == wanted[:, None]
        own = found[progress.epoch - 1]
        for part in range(3):
            rows = slice(bounds[part], bounds[part + 1])
            if part < 2:
                own[2 * part, progress.replicas] = losses[rows].mean(axis=0)
            own[min(2 * part + 1, 4), progress.replicas] = right[rows].mean(axis=0)
        looking += time.process_time() - begin

    begin = time.process_time()
    watch = Watch(on_epoch=look)
    fit_gcn(graph, overrides=changes, seeds=seeds, watch=watch, calibrate=False)
    seconds = time.process_time() - begin - looking
    return found, seconds / settings.max_epochs / len(seeds)


def stopped(rule: tuple[str, int], loss: np.ndarray, accuracy: np.ndarray) -> tuple[int, int]:
    """Epochs run, and the epoch whose weights are kept, by the scores of one training."""
    stopping = EarlyStopping(*rule, n_replicas=1)
    everyone = np.array([0])
    for epoch, (own_loss, own_accuracy) in enumerate(zip(loss, accuracy, strict=True), start=1):
        now = {"epoch": np.array(epoch)}
        stopping.check(everyone, own_loss[None], own_accuracy[None], lambda _, now=now: now)
        if stopping.stopped_at[0]:
            break
    assert stopping.kept[0] is not None
    return epoch, int(stopping.kept[0]["epoch"])


def judged(rule: tuple[str, int], traces: list[Scores]) -> tuple[list[int], float, float]:
    """Epochs of each training, accuracy on the other half and on test nodes, in percent."""
    epochs, other, test = [], [], []
    for scores in traces:
        for seed in range(scores.shape[2]):
            own = scores[:, :, seed]
            for watched in (0, 2):
                _, kept = stopped(rule, own[:, watched], own[:, watched + 1])
                other.append(own[kept - 1, 3 - watched])
            loss, accuracy = own[:, :4].reshape(-1, 2, 2).mean(axis=1).T
            n_run, kept = stopped(rule, loss, accuracy)
            epochs.append(n_run)
            test.append(own[kept - 1, 4])
    return epochs, 100 * float(np.mean(other)), 100 * float(np.mean(test))


def show(name: str, pieces: list[Path]) -> None:
    found = [np.load(path, allow_pickle=False) for path in pieces if path.exists()]
    if not found:
        return
    traces = [own["scores"] for own in found]
    milliseconds = 1000 * float(np.mean([own["seconds"] for own in found]))
    for label, rule in RULES.items():
        epochs, other, test = judged(rule, traces)
        print(
            f"{name:40}{len(epochs):4}  {label:12}{np.mean(epochs):6.0f}{np.max(epochs):6}"
            f"{np.mean(epochs) * milliseconds / 1000:8.2f}{other:8.2f}{test:8.2f}"
        )


def sources(folder: Path | None) -> dict[str, list[Make]]:
    """A function for each piece of a graph's trainings: a public graph has one, others five."""
    found: dict[str, list[Make]] = {name: [partial(load_dataset, name)] for name in PUBLIC}
    for path in [] if folder is None else sorted(folder.glob("*.npz")):
        found[path.stem] = [partial(split_of, path, number) for number in range(N_SPLITS)]
    for kind in GENERATED:
        found[kind] = [partial(generated, kind, number) for number in range(N_SPLITS)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("GRAPHCONV_GRAPHS"))
    parser.add_argument("--only", action="append", help="a graph's name; may be repeated")
    parser.add_argument("--show", action="store_true", help="the table of what is there already")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    FOLDER.mkdir(parents=True, exist_ok=True)
    graphs = sources(None if given.folder is None else Path(given.folder))
    jobs = {name: (makers, {}) for name, makers in graphs.items()}
    jobs |= {
        f"{name}, {variant}": (graphs[name], overrides)
        for variant, overrides in VARIANTS.items()
        for name in SOME
        if name in graphs
    }
    pieces = {
        name: [FOLDER / f"{name} {k}.npz" for k in range(len(jobs[name][0]))] for name in jobs
    }
    for k in () if given.show else range(N_SPLITS):
        for name, (makers, overrides) in jobs.items():
            if k >= len(makers) or pieces[name][k].exists() or name not in (given.only or jobs):
                continue
            n_seeds = N_SEEDS // len(makers)
            seeds = list(range(k * n_seeds, (k + 1) * n_seeds))
            scores, seconds = trace(makers[k](), overrides, seeds)
            with replacing_file(pieces[name][k]) as new:
                np.savez(new.open("wb"), scores=scores, seconds=seconds)
    print(f"{'':40}runs  {'rule':14}epochs, most seconds other half test")
    for name in jobs:
        show(name, pieces[name])


if __name__ == "__main__":
    main()
