"""How preset "strong" judges its candidates: who judges, and by which number."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.generated_graphs import generate, split

from graphconv import Graph
from graphconv.models.settings import ROBUST, STRONG
from graphconv.training import strong
from graphconv.training.calibration import fit_calibration
from graphconv.training.strong import choose_strong


@pytest.fixture(scope="module")
def graph():
    return split(generate("binary features", n_nodes=300), n_validation=60)


def test_candidates_train_as_grands_authors_publish():
    """Their settings for Citeseer and for Pubmed, with steps, rates and patience."""
    by_name = {name: replace(base, **changes) for name, base, changes in strong.CANDIDATES}
    citeseer = by_name["random propagation (GRAND), all features seen"]
    pubmed = by_name["random propagation (GRAND), normalised"]
    published = {
        "steps": (2, 5), "copies": (2, None), "sharpening": (0.3, 0.2), "agreement": (0.7, 1.0),
        "dropout": ((0.0, 0.2), (0.6, 0.8)), "learning_rate": (0.01, 0.2), "patience": (200, 100),
        "normalisation": ("none", "batch"), "agreement_warmup": (100, 0),
    }  # fmt: skip
    for name, (of_citeseer, of_pubmed) in published.items():
        assert (getattr(citeseer, name), getattr(pubmed, name)) == (of_citeseer, of_pubmed)


def uncertain(half, settings, seeds):
    return np.full((len(half.test_index), half.n_classes), 1 / half.n_classes)


@pytest.mark.parametrize(("n_more", "is_judged"), [(-1, False), (0, True)])
def test_enough_judges_are_asked(graph, n_more, is_judged):
    index = graph.validation_index[: strong.MIN_JUDGES + n_more]
    some = graph.with_split(graph.train_index, index)
    _, choice = choose_strong(some, {}, 0, uncertain)
    assert bool(choice) == is_judged
    assert f"on {len(index)} validation nodes" in choice or not is_judged


def test_halves_are_drawn_anew_for_every_seed(graph):
    drawn = []
    for seed in (0, 0, 1):
        first, second = strong._halves(graph, seed)
        assert np.array_equal(first.validation_index, second.test_index)
        assert np.array_equal(first.test_index, second.validation_index)
        assert len(first.test_index) == len(second.test_index) == 30
        assert np.array_equal(first.train_index, graph.train_index)
        both = np.union1d(first.test_index, second.test_index)
        assert np.array_equal(both, np.sort(graph.validation_index))
        drawn.append(first.test_index.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("is_multilabel", [False, True])
def test_the_score_is_what_the_right_classes_get_once_calibrated(is_multilabel):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=40)
    if is_multilabel:
        labels = np.eye(3, dtype=int)[labels] | rng.integers(2, size=(40, 3))
    graph = Graph(np.zeros((40, 40)), labels=labels)
    halves = [
        graph.with_split([], np.arange(20), np.arange(20, 40)),
        graph.with_split([], np.arange(20, 40), np.arange(20)),
    ]
    shares = rng.dirichlet([1, 1, 1], 40)
    asked = []

    def predict(half, settings, seeds):
        asked.append((settings, seeds))
        return shares[half.test_index]

    found = strong._score(ROBUST, halves, 7, predict)
    assert asked == [(ROBUST, [7])] * 2
    order = np.concatenate([np.arange(20, 40), np.arange(20)])
    said = fit_calibration(shares[order], labels[order]).apply(shares[order], is_multilabel)
    if is_multilabel:
        right = np.where(labels[order] == 1, said, 1 - said)
    else:
        right = said[np.arange(40), labels[order]]
    assert found == pytest.approx(right.mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("features", "scaling"),
    [("words", "row"), ("measured", "auto"), (None, "auto")],
)
def test_rows_of_counts_add_up_to_one(features, scaling):
    """Counts of words, which a graph convolution would take with length 1."""
    rng = np.random.default_rng(0)
    matrix = {
        "words": sp.csr_array((rng.random((60, 80)) < 0.1).astype(float)),
        "measured": rng.normal(5, 3, (60, 4)),
        None: None,
    }[features]
    graph = Graph(np.zeros((60, 60)), matrix, np.arange(60) % 2)
    few = graph.with_split(np.arange(50), np.arange(50, 53))
    settings, choice = choose_strong(few, {}, 0, uncertain)
    assert choice == ""
    assert settings == replace(STRONG, scaling=scaling)
    assert choose_strong(few, {"scaling": "l2"}, 0, uncertain)[0].scaling == "l2"
