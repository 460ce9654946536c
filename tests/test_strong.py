"""Tests of preset "strong": who is compared, how, and what is said."""

from dataclasses import replace

import numpy as np
import pytest
from tests.generated_graphs import generate, split

from graphconv import GCNClassifier, Graph, Settings
from graphconv.models.settings import ROBUST, STRONG
from graphconv.training.fit import fit_gcn
from graphconv.training.strong import CANDIDATES, choose_strong


@pytest.fixture(scope="module")
def graph():
    return split(generate("binary features", n_nodes=300), n_validation=60)


class Judge:
    """Gives the right class more the nearer settings are to a favourite, and remembers."""

    def __init__(self, favourite):
        self.favourite = favourite
        self.asked = []

    def __call__(self, half, settings, seeds):
        self.asked.append((half, settings))
        labels = half.labels[half.test_index]
        rng = np.random.default_rng(0)
        chance = 0.9 if self.favourite(settings) else 0.5
        said = np.where(rng.random(len(labels)) < chance, labels, rng.integers(half.n_classes))
        return 0.1 / half.n_classes + 0.9 * np.eye(half.n_classes)[said]


@pytest.mark.parametrize("number", range(len(CANDIDATES)))
def test_takes_what_judges_best(graph, number):
    name, base, changes = CANDIDATES[number]
    wanted = replace(base, **changes)

    def favourite(settings):
        return replace(settings, scaling="auto") == replace(wanted, scaling="auto")

    settings, choice = choose_strong(graph, {}, 0, Judge(favourite))
    assert favourite(settings)
    assert choice.startswith(f"{name}: ")
    assert f"{len(graph.validation_index)} validation nodes" in choice


def test_no_node_stops_a_training_that_it_judges(graph):
    judge = Judge(lambda settings: settings.model == "grand")
    choose_strong(graph, {}, 0, judge)
    for half, _ in judge.asked:
        assert not np.intersect1d(half.validation_index, half.test_index).size
        assert not np.intersect1d(half.train_index, half.test_index).size
        both = np.union1d(half.validation_index, half.test_index)
        np.testing.assert_array_equal(both, np.sort(graph.validation_index))


def test_leaves_alone_what_the_user_chose(graph):
    judge = Judge(lambda settings: True)
    settings, _ = choose_strong(graph, {"copies": 3, "dropout": 0.1}, 0, judge)
    assert (settings.copies, settings.dropout) == (3, 0.1)
    assert all(own.copies == 3 and own.dropout == 0.1 for _, own in judge.asked)
    assert choose_strong(graph, {"model": "appnp"}, 0, judge)[0].model == "appnp"
    settings, _ = choose_strong(graph, {"propagation": "chebyshev"}, 0, judge)
    assert (settings.model, settings.propagation) == ("gcn", "chebyshev")


def test_with_few_judges_the_first_is_taken(graph):
    few = graph.with_split(graph.train_index, graph.validation_index[:5])
    settings, choice = choose_strong(few, {}, 0, Judge(lambda settings: False))
    assert replace(settings, scaling="auto") == STRONG
    assert choice == ""


def test_trains_what_it_chose(graph):
    fitted = fit_gcn(graph, preset="strong", overrides={"max_epochs": 5})
    assert fitted.choice
    assert fitted.settings.max_epochs == 5
    clf = GCNClassifier("strong", max_epochs=5, random_state=0).fit(graph)
    assert isinstance(clf.settings_, Settings)


def test_averages_eight_trainings_unless_told_otherwise(graph):
    brief = {"preset": "strong", "max_epochs": 3, "random_state": 4, "model": "grand"}
    together = GCNClassifier(**brief).fit(graph)
    assert list(together.fitted_.network.seeds) == list(range(4, 12))
    alone = GCNClassifier(**brief, ensemble=1).fit(graph)
    each = together.fitted_.probabilities()
    np.testing.assert_array_equal(alone.fitted_.probabilities()[:, 0], each[:, 0])
    assert len(GCNClassifier(max_epochs=3).fit(graph).fitted_.network.seeds) == 1


def test_the_candidates():
    """All that is compared; of equals the first is taken, so that their order counts."""
    seen = {"copies": 2, "sharpening": 0.3, "dropout": (0.0, 0.2)}
    expected = [
        ("random propagation (GRAND)", STRONG, {}),
        (
            "random propagation (GRAND), all features seen",
            STRONG,
            {**seen, "steps": 2, "agreement": 0.7, "learning_rate": 0.01, "patience": 200},
        ),
        (
            "random propagation (GRAND), all features seen, scaled as usual",
            STRONG,
            {**seen, "scaling": "auto", "weight_decay": 0.001},
        ),
        (
            "random propagation (GRAND), normalised",
            STRONG,
            {
                "steps": 5, "sharpening": 0.2, "dropout": (0.6, 0.8), "normalisation": "batch",
                "agreement_warmup": 0, "learning_rate": 0.2, "patience": 100,
            },
        ),
        ("graph convolution", ROBUST, {}),
        ("no graph (multi-layer perceptron)", ROBUST, {"propagation": "none"}),
        (
            "deep first-order rule with layer normalisation",
            ROBUST,
            {
                "propagation": "first-order", "normalisation": "layer", "residual": True,
                "hidden": (64, 64, 64, 64), "dropout": 0.2,
            },
        ),
    ]  # fmt: skip
    assert list(CANDIDATES) == expected


def test_halves_are_those_of_the_published_runs():
    judge = Judge(lambda settings: False)
    many = Graph(np.zeros((30, 30)), labels=np.arange(30) % 2, train_index=[0, 1],
                 validation_index=range(2, 30))  # fmt: skip
    choose_strong(many, {}, 3, judge)
    assert judge.asked[0][0].test_index.tolist() == [
        4,
        5,
        6,
        8,
        9,
        11,
        12,
        14,
        15,
        18,
        22,
        25,
        27,
        29,
    ]


def test_two_candidates_are_compared_where_the_user_says_how_deep(graph):
    judge = Judge(lambda settings: settings.model == "gcn")
    settings, choice = choose_strong(graph, {"hidden": (7,)}, 0, judge)
    assert {own.model for _, own in judge.asked} == {"grand", "gcn"}
    assert len(judge.asked) == 2 * 2
    assert (settings.model, settings.hidden) == ("gcn", (7,))
    assert choice.startswith("graph convolution: ")
