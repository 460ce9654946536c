"""What each baseline minimises or iterates, worked out anew on graphs of a few nodes.

Expectations here use numpy, scipy and scikit-learn, and nothing of the estimators but their fitted
attributes.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from graphconv import Graph
from graphconv.engine.batches import make_batch
from graphconv.estimators.baselines import make_estimator, planetoid
from graphconv.estimators.baselines._planetoid_network import PlanetoidNetwork
from graphconv.estimators.baselines.semi_embedding import EmbeddingLoss

# A kite: a triangle 0 1 2, and a tail 2 - 3 - 4 - 5.
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]


def kite(weights=None, **more):
    adjacency = np.zeros((6, 6))
    for (i, j), weight in zip(EDGES, weights or [1.0] * 6, strict=True):
        adjacency[i, j] = adjacency[j, i] = weight
    features = np.array([[1, 0], [0.5, 0.2], [0.3, 0.3], [0, 0.4], [0.1, 1], [0, 0.7]])
    parts = {"features": features, "labels": [0, 0, 0, 1, 1, 1], "train_index": [0, 1, 4]}
    return Graph(adjacency, **{**parts, **more})


def slope(function, point, step=1e-5):
    """Central differences."""
    found = np.zeros_like(point)
    for place in np.ndindex(point.shape):
        ahead, behind = point.copy(), point.copy()
        ahead[place] += step
        behind[place] -= step
        found[place] = (function(ahead) - function(behind)) / (2 * step)
    return found


class TestManifold:
    SMOOTHNESS, DECAY = 0.7, 0.05

    def objective(self, graph, weights, smoothness, decay):
        """Equation 1 with the logistic loss, edge by edge."""

        def of(weight):
            outputs = graph.features @ weight
            loss = 0.0
            for node in graph.train_index:
                shares = np.exp(outputs[node]) / np.exp(outputs[node]).sum()
                loss -= np.log(shares[graph.labels[node]]) / len(graph.train_index)
            for (i, j), edge in zip(EDGES, weights, strict=True):
                gap = ((outputs[i] - outputs[j]) ** 2).sum()
                loss += smoothness / 2 * edge * gap / graph.n_nodes
            return loss + decay / 2 * (weight**2).sum()

        return of

    @pytest.mark.parametrize("weights", [[1.0] * 6, [1.0, 2.0, 0.5, 3.0, 1.0, 4.0]])
    def test_fitted_weights_are_where_the_objective_is_flat(self, weights):
        graph = kite(weights)
        found = make_estimator(
            "manifold",
            smoothness=self.SMOOTHNESS,
            weight_decay=self.DECAY,
            scaling="none",
            tol=1e-9,
        ).fit(graph)
        objective = self.objective(graph, weights, self.SMOOTHNESS, self.DECAY)
        weight = np.asarray(found.weight_, dtype=float)
        assert np.abs(weight).max() > 0.1
        np.testing.assert_allclose(slope(objective, weight), 0, atol=1e-6)
        other = self.objective(graph, weights, self.SMOOTHNESS * 1.2, self.DECAY)
        assert np.abs(slope(other, weight)).max() > 1e-3

    def test_it_stops_at_the_wanted_slope(self):
        graph = kite()
        objective = self.objective(graph, [1.0] * 6, self.SMOOTHNESS, self.DECAY)
        largest = []
        for tol in (3e-2, 1e-4):
            found = make_estimator(
                "manifold", smoothness=0.7, weight_decay=0.05, scaling="none", tol=tol
            ).fit(graph)
            slopes = slope(objective, np.asarray(found.weight_, dtype=float))
            assert np.abs(slopes).max() <= tol + 1e-7
            largest.append(np.abs(slopes).max())
        assert largest[1] < largest[0]

    def test_an_edge_of_a_directed_graph_pulls_at_both_ends(self):
        undirected = kite()
        upper = np.triu(undirected.adjacency.toarray())
        directed = Graph(
            upper, undirected.features, undirected.labels, train_index=[0, 1, 4], directed=True
        )
        first, second = (
            make_estimator("manifold", scaling="none", tol=1e-9).fit(graph).predict_proba()
            for graph in (undirected, directed)
        )
        np.testing.assert_allclose(first, second, atol=1e-6)


def ica_by_hand(graph, aggregation, C, local_C, n_iterations, seed):
    """The paragraph of the paper's section 5.3, node by node."""
    features, labels, train = graph.features, graph.labels, graph.train_index
    n_nodes, n_classes = graph.n_nodes, graph.n_classes
    neighbours = [np.flatnonzero(row) for row in graph.adjacency.toarray()]

    def votes(node, current):
        counts = np.zeros(n_classes)
        for other in neighbours[node]:
            counts[current[other]] += 1
        return counts if aggregation == "count" else counts / max(1, len(neighbours[node]))

    local = LogisticRegression(C=local_C, tol=1e-8, max_iter=5000)
    current = local.fit(features[train], labels[train]).predict(features)
    current[train] = labels[train]
    relational = LogisticRegression(C=C, tol=1e-8, max_iter=5000).fit(
        [np.concatenate([features[node], votes(node, current)]) for node in train], labels[train]
    )
    rng = np.random.default_rng(seed)
    shares = np.eye(n_classes)[current]
    for _ in range(n_iterations):
        for node in rng.permutation([node for node in range(n_nodes) if node not in train]):
            columns = np.concatenate([features[node], votes(node, current)])[None]
            shares[node] = relational.predict_proba(columns)
            current[node] = relational.predict(columns)[0]
    return shares


def chain(n_nodes=14):
    """A path with many cross-links: labels travel along it, one node at a time."""
    rng = np.random.default_rng(4)
    adjacency = np.diag(np.ones(n_nodes - 1), 1)
    adjacency[np.arange(n_nodes - 3), np.arange(3, n_nodes)] = 1
    adjacency = adjacency + adjacency.T
    features = rng.random((n_nodes, 3))
    labels = np.arange(n_nodes) * 3 // n_nodes
    return Graph(adjacency, features, labels, train_index=[0, 1, 5, 6, 12, 13])


class TestICA:
    @pytest.mark.parametrize("n_iterations", [1, 2, 10])
    @pytest.mark.parametrize("aggregation", ["count", "proportion"])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_paragraph_of_the_paper(self, aggregation, n_iterations, seed):
        graph = chain()
        found = make_estimator(
            "ica",
            aggregation=aggregation,
            C=5.0,
            n_iterations=n_iterations,
            scaling="none",
            random_state=seed,
        ).fit(graph)
        expected = ica_by_hand(graph, aggregation, 5.0, 5.0, n_iterations, seed)
        np.testing.assert_allclose(found.predict_proba(), expected, atol=2e-3)
        assert np.array_equal(found.predict(), expected.argmax(axis=1))

    def test_ten_iterations_unless_asked(self):
        graph = chain()
        asked, usual = (
            make_estimator("ica", scaling="none", random_state=0, **more).fit(graph)
            for more in ({"n_iterations": 10}, {})
        )
        assert usual.n_iterations == 10
        assert np.array_equal(asked.predict_proba(), usual.predict_proba())
        once = make_estimator("ica", scaling="none", random_state=0, n_iterations=1).fit(graph)
        assert not np.array_equal(once.predict_proba(), usual.predict_proba())

    def test_a_strength_of_its_own_for_the_local_classifier(self):
        graph = chain()
        found = make_estimator(
            "ica", aggregation="count", C=5.0, local_C=0.01, scaling="none", random_state=3
        ).fit(graph)
        expected = ica_by_hand(graph, "count", 5.0, 0.01, 10, 3)
        np.testing.assert_allclose(found.predict_proba(), expected, atol=2e-3)

    @pytest.mark.parametrize("number", [0, -1, 2.5, True])
    def test_iterations_must_be_a_number(self, number):
        with pytest.raises(ValueError, match="n_iterations must be a whole number"):
            make_estimator("ica", n_iterations=number).fit(chain())

    def test_another_graph_is_relabelled_from_the_local_classifier_on(self):
        graph = chain()
        fitted = make_estimator("ica", aggregation="count", scaling="none", random_state=0)
        fitted.fit(graph)
        lone = Graph(np.zeros((3, 3)), features=graph.features[:3])
        # Nodes without neighbours: what the relational classifier makes of features and no votes.
        train = graph.train_index
        local = LogisticRegression(tol=1e-8, max_iter=5000)
        current = local.fit(graph.features[train], graph.labels[train]).predict(graph.features)
        current[train] = graph.labels[train]
        counts = graph.adjacency.toarray() @ np.eye(3)[current]
        columns = np.hstack([graph.features, counts])
        relational = LogisticRegression(tol=1e-8, max_iter=5000)
        relational.fit(columns[train], graph.labels[train])
        expected = relational.predict_proba(np.hstack([graph.features[:3], np.zeros((3, 3))]))
        np.testing.assert_allclose(fitted.predict_proba(lone), expected, atol=2e-3)


def by_name(network):
    """Weights of a network with one hidden layer, as numbers in double precision."""
    parameters = network.parameters
    shapes = {name: tuple(own.shape) for name, own in parameters.items()}
    assert len(shapes) == 4, shapes  # two weights, two biases
    return {name: own.astype(np.float64) for name, own in parameters.items()}


class TestSemiEmbedding:
    """L = mean cross-entropy + smoothness (mean |f_i - f_j|^2 + mean max(0, m - |f_i - f_k|)^2)."""

    def fit(self, layer, smoothness=0.7, margin=1.5):
        graph = kite()
        method = make_estimator(
            "semi-embedding",
            hidden=3,
            layer=layer,
            smoothness=smoothness,
            margin=margin,
            n_pairs=40,
            dropout=0.0,
            scaling="none",
            max_epochs=1,
            random_state=0,
        ).fit(graph)
        return graph, method

    @pytest.mark.parametrize("layer", ["hidden", "output"])
    def test_gradient_of_the_embedding_term(self, layer):
        graph, method = self.fit(layer)
        network = method.network_
        drawn = (np.array([0, 3, 2]), np.array([1, 4, 3]), np.array([4, 0, 5]))
        pairs = type("Pairs", (), {"draw": lambda *given: drawn})()
        term = EmbeddingLoss(method, graph, pairs, np.random.default_rng(0))
        found = dict(zip(network.parameters, term.gradients(network, 0), strict=True))
        values = by_name(network)

        def loss(values):
            weights = [values[name].reshape(-1, values[name].shape[-1]) for name in values]
            (first,) = [w for w in weights if w.shape == (2, 3)]
            (second,) = [w for w in weights if w.shape == (3, 2)]
            (first_bias,) = [w for w in weights if w.shape == (1, 3)]
            (second_bias,) = [w for w in weights if w.shape == (1, 2)]
            f = np.maximum(graph.features @ first + first_bias, 0)
            if layer == "output":
                f = f @ second + second_bias
            total = 0.0
            for i, j, k in zip(*drawn, strict=True):
                total += ((f[i] - f[j]) ** 2).sum() / 3
                total += max(0.0, 1.5 - np.sqrt(((f[i] - f[k]) ** 2).sum())) ** 2 / 3
            return 0.7 * total

        for name in values:

            def of(point, name=name):
                return loss({**values, name: point})

            expected = slope(of, values[name])
            np.testing.assert_allclose(found[name], expected, atol=2e-3, err_msg=name)
        assert max(np.abs(own).max() for own in found.values()) > 0.05

    def test_nodes_at_one_place_are_not_pushed_apart(self):
        """A distance of 0 has no slope: what is left is the pull of the neighbours."""
        graph, method = self.fit("output")
        drawn = (np.array([0]), np.array([1]), np.array([0]))
        pairs = type("Pairs", (), {"draw": lambda *given: drawn})()
        term = EmbeddingLoss(method, graph, pairs, np.random.default_rng(0))
        found = term.gradients(method.network_, 0)
        method.margin = 0.0
        for own, pull in zip(found, term.gradients(method.network_, 0), strict=True):
            np.testing.assert_array_equal(own, pull)
        assert any(own.any() for own in found)

    def test_without_smoothness_edges_do_not_matter(self):
        _, plain = self.fit("output", smoothness=0.0)
        graph = kite()
        alone = Graph(np.zeros((6, 6)), graph.features, graph.labels, train_index=graph.train_index)
        other = make_estimator(**{"name": "semi-embedding", **plain.get_params()}).fit(alone)
        assert np.array_equal(plain.predict_proba(), other.predict_proba())


class TestPlanetoid:
    def network(self, joined, inductive=False):
        graph = kite()
        network = PlanetoidNetwork(graph, 3, inductive, 0.0, joined, seed=0)
        network.is_training = False
        return graph, network

    @pytest.mark.parametrize("inductive", [False, True])
    @pytest.mark.parametrize("joined", [False, True])
    def test_class_logits_by_hand(self, joined, inductive):
        graph, network = self.network(joined, inductive)
        batch = make_batch(graph, n_hops=0)
        weights = {
            name: own.detach().double().numpy() for name, own in network.class_parameters().items()
        }
        embedding = network.embed(batch).detach().double().numpy()
        (feature_weight,) = [
            w.reshape(-1, 2) for n, w in weights.items() if "features" in n and w.size == 4
        ]
        (bias,) = [w.reshape(-1) for n, w in weights.items() if "features" in n and w.size == 2]
        of_features = graph.features @ feature_weight + bias
        of_embedding = embedding @ weights["class_weight"]
        if joined:
            hidden = np.hstack([softmax(of_features, axis=1), softmax(of_embedding, axis=1)])
            expected = hidden @ weights["joined"]
        else:
            expected = of_features + of_embedding
        np.testing.assert_allclose(network(batch).detach().numpy(), expected, atol=1e-5)
        # Minus the log of the right class's share, of the joined layer and of both hidden ones.
        rows, classes = np.arange(6), np.array([0, 1, 0, 1, 1, 0])
        told = [expected, of_features, of_embedding] if joined else [expected]
        loss = -sum(np.log(softmax(one, axis=1))[rows, classes].mean() for one in told)
        found = network.class_loss(batch, torch.from_numpy(classes))
        assert found.item() == pytest.approx(loss, rel=1e-5)

    def test_slope_of_the_context_loss(self):
        graph, network = self.network(joined=True)
        rng = np.random.default_rng(1)
        with torch.no_grad():
            network.context.copy_(torch.from_numpy(rng.standard_normal((6, 3))))
        nodes, contexts, noise = np.array([0, 0, 2]), np.array([1, 2, 3]), np.array([4, 5])
        loss = network.context_loss(graph, nodes, contexts, noise, n_negatives=5)
        (embedding,) = network.embedding_parameters().values()
        found = torch.autograd.grad(loss, [embedding, network.context])
        own = embedding.detach().double().numpy().copy()
        context = network.context.detach().double().numpy().copy()

        def by_hand(own, context):
            total = 0.0
            for i, j in zip(nodes, contexts, strict=True):
                total -= np.log(1 / (1 + np.exp(-own[i] @ context[j])))
                for k in noise:
                    total -= 5 / 2 * np.log(1 / (1 + np.exp(own[i] @ context[k])))
            return total / 3

        assert loss.item() == pytest.approx(by_hand(own, context), rel=1e-5)
        expected = slope(lambda point: by_hand(point, context), own)
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)
        expected = slope(lambda point: by_hand(own, point), context)
        np.testing.assert_allclose(found[1].numpy(), expected, atol=1e-5)


class TestPlanetoidTraining:
    def fit(self, **params):
        usual = {"dimension": 3, "dropout": 0.0, "scaling": "none", "random_state": 0}
        usual |= {"n_starts": 10, "walk_length": 4, "window": 2, "n_label_pairs": 5}
        return make_estimator("planetoid-t", **{**usual, **params}).fit(kite())

    def embedding(self, fitted):
        (own,) = fitted.network_.embedding_parameters().values()
        return own.detach().numpy().copy()

    def test_classes_change_the_embedding_of_training_nodes_by_plain_descent(self):
        params = {"n_graph_steps": 0, "graph_share": 0.0, "max_epochs": 1}
        still = self.embedding(self.fit(**params, embedding_rate=0.0))
        once = self.embedding(self.fit(**params, embedding_rate=0.1))
        twice = self.embedding(self.fit(**params, embedding_rate=0.2))
        changed = np.flatnonzero(np.abs(once - still).max(axis=1))
        assert changed.tolist() == [0, 1, 4]  # the training nodes, and no others
        np.testing.assert_allclose(twice - still, 2 * (once - still), rtol=1e-3, atol=1e-9)

    def test_contexts_change_the_embedding_before_classes_do(self):
        params = {"graph_share": 0.0, "max_epochs": 1, "embedding_rate": 0.0}
        before = self.embedding(self.fit(**params, n_graph_steps=0))
        # The contexts start at zero: the first step moves them, the second the embedding.
        first = self.embedding(self.fit(**params, n_graph_steps=1))
        second = self.embedding(self.fit(**params, n_graph_steps=2))
        np.testing.assert_allclose(first, before, atol=1e-12)
        assert np.abs(second - before).max() > 1e-4

    def test_graph_steps_go_on_beside_the_classes(self):
        params = {"n_graph_steps": 2, "max_epochs": 5, "embedding_rate": 0.0}
        never, always = (self.embedding(self.fit(**params, graph_share=s)) for s in (0.0, 1.0))
        assert np.abs(always - never).max() > 1e-4

    def test_no_graph_steps_beside_the_classes_whatever_number_is_drawn(self, monkeypatch):
        class Lowest(np.random.Generator):
            def random(self):
                return 0.0

        params = {"n_graph_steps": 2, "max_epochs": 3, "embedding_rate": 0.0, "graph_share": 0.0}
        expected = self.embedding(self.fit(**params))
        monkeypatch.setattr(np.random, "default_rng", lambda seed: Lowest(np.random.PCG64(seed)))
        assert np.array_equal(self.embedding(self.fit(**params)), expected)

    def test_walks_have_the_wanted_number_length_and_window(self, monkeypatch):
        seen = []

        def walks(neighbours, starts, n_steps, rng):
            seen.append((len(starts), n_steps, int(max(starts)) < 6))
            return np.tile(np.arange(4), (len(starts), 1))

        def pairs(found, window):
            seen.append(window)
            return np.array([0, 1]), np.array([1, 0])

        monkeypatch.setattr(planetoid, "random_walks", walks)
        monkeypatch.setattr(planetoid, "context_pairs", pairs)
        self.fit(n_graph_steps=3, graph_share=0.0, max_epochs=1)
        assert seen == [(10, 4, True), 2] * 3

    def test_contexts_come_from_walks_and_from_labels(self, monkeypatch):
        seen = []
        loss = PlanetoidNetwork.context_loss

        def watched(network, graph, nodes, contexts, noise, n_negatives):
            seen.append(list(zip(nodes.tolist(), contexts.tolist(), strict=True)))
            assert (noise.shape, set(noise), n_negatives) == ((200,), set(range(6)), 5)
            return loss(network, graph, nodes, contexts, noise, n_negatives)

        monkeypatch.setattr(PlanetoidNetwork, "context_loss", watched)
        monkeypatch.setattr(
            planetoid, "context_pairs", lambda *given: (np.array([2]), np.array([3]))
        )
        for number in (0, 40):
            self.fit(n_graph_steps=1, graph_share=0.0, max_epochs=1, n_label_pairs=number)
        alone, both = seen
        assert alone == [(2, 3)]
        assert both[0] == (2, 3)
        # 0 and 1 share a class; 4 is alone in its own, and no node is a context of itself.
        assert set(both[1:]) == {(0, 1), (1, 0)}
        assert 5 < len(both) < 40

    def test_dropout_keeps_the_mean(self):
        _, network = TestPlanetoid().network(joined=False)
        network.dropout, network.is_training = 0.25, True
        network.generator.manual_seed(0)
        dropped = network._drop(torch.ones(4000, 2)).numpy()
        np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
        assert (dropped == 0).mean() == pytest.approx(0.25, abs=0.02)
        network.is_training = False
        assert np.array_equal(network._drop(torch.ones(3, 2)).numpy(), np.ones((3, 2)))

    def test_dropout_is_on_where_classes_are_learned_and_off_where_they_are_watched(
        self, monkeypatch
    ):
        seen = []
        votes = PlanetoidNetwork._votes

        def watched(network, batch):
            seen.append((batch.rows.tolist(), network.is_training))
            return votes(network, batch)

        monkeypatch.setattr(PlanetoidNetwork, "_votes", watched)
        graph = kite(validation_index=[2, 3])
        make_estimator("planetoid-t", n_graph_steps=0, max_epochs=3, random_state=0).fit(graph)
        assert seen[:-1] == [([0, 1, 4], True), ([2, 3], False)] * 3
        assert seen[-1] == ([0, 1, 2, 3, 4, 5], False)  # the labels that are given

    def test_dropout_is_off_where_labels_are_given(self):
        fitted = self.fit(dropout=0.8, max_epochs=3)
        assert fitted.network_.is_training is False
        again = fitted.predict_proba(kite())
        assert np.array_equal(again, fitted.predict_proba())


@pytest.mark.parametrize("name", ["semi-embedding", "planetoid-t", "planetoid-i"])
def test_the_weights_that_do_best_on_validation_nodes_are_kept(name):
    params = {"learning_rate": 0.2, "scaling": "none", "random_state": 0}
    if name == "semi-embedding":
        params |= {"hidden": 3, "n_pairs": 10, "dropout": 0.0}
    else:
        params |= {"dimension": 3, "n_graph_steps": 3, "dropout": 0.2}
    labels, watched = np.array([0, 0, 0, 0, 1, 1]), [2, 3, 5]

    def fit(n_epochs, **more):
        graph = kite(labels=labels, **more)
        fitted = make_estimator(name, max_epochs=n_epochs, patience=20, **params).fit(graph)
        return fitted.uncalibrated_

    # Without validation nodes the last weights are kept: what there was after each epoch.
    after = [fit(n_epochs) for n_epochs in range(1, 21)]
    scores = []
    for shares in after:
        is_right = shares[watched].argmax(axis=1) == labels[watched]
        scores.append((is_right.mean(), np.log(shares[watched, labels[watched]]).mean()))
    best = scores.index(max(scores))
    assert 0 < best < 19
    found = fit(20, validation_index=watched)
    np.testing.assert_allclose(found, after[best], atol=1e-6)
    assert np.abs(found - after[-1]).max() > 0.01


class SkipGram:
    """Stands for gensim's: keeps what it was given, and embeds node i as (i, i squared)."""

    def __init__(self, sentences, **options):
        SkipGram.walks = [list(walk) for walk in sentences]
        SkipGram.again = [list(walk) for walk in sentences]
        SkipGram.options = options
        nodes = sorted({node for walk in SkipGram.walks for node in walk}, reverse=True)
        self.wv = self
        self.key_to_index = {node: place for place, node in enumerate(nodes)}
        self.vectors = np.array([[node, node**2] for node in nodes], dtype=float)


class TestDeepWalk:
    def fit(self, monkeypatch, graph, **params):
        models = pytest.importorskip("gensim.models")
        monkeypatch.setattr(models, "Word2Vec", SkipGram)
        return make_estimator("deepwalk", random_state=0, **params).fit(graph)

    def test_number_and_length_of_walks(self, monkeypatch):
        graph = kite()
        self.fit(monkeypatch, graph, n_walks=3, walk_length=7)
        walks = SkipGram.walks
        assert SkipGram.again == walks  # a second pass reads the same
        assert len(walks) == 3 * 6
        assert {len(walk) for walk in walks} == {7}
        for first in (0, 6, 12):  # each round starts once at every node
            assert sorted(walk[0] for walk in walks[first : first + 6]) == list(range(6))
        assert [walk[0] for walk in walks[:6]] != [walk[0] for walk in walks[6:12]]
        dense = graph.adjacency.toarray()
        assert all(dense[i, j] > 0 for walk in walks for i, j in pairwise(walk))

    def test_published_numbers_are_the_usual_ones(self, monkeypatch):
        self.fit(monkeypatch, kite())
        assert len(SkipGram.walks) == 10 * 6
        assert {len(walk) for walk in SkipGram.walks} == {40}
        assert SkipGram.options["window"] == 5
        assert SkipGram.options["vector_size"] == 64
        assert SkipGram.options["sg"] == 1
        assert (SkipGram.options["min_count"], SkipGram.options["sample"]) == (0, 0)
        assert (SkipGram.options["epochs"], SkipGram.options["workers"]) == (1, 1)
        assert SkipGram.options["alpha"] == 0.025

    @pytest.mark.parametrize(("n_negatives", "hierarchical"), [(5, 0), (1, 0), (0, 1)])
    def test_noise_nodes_or_hierarchical_softmax(self, monkeypatch, n_negatives, hierarchical):
        self.fit(monkeypatch, kite(), n_negatives=n_negatives)
        assert SkipGram.options["negative"] == n_negatives
        assert SkipGram.options["hs"] == hierarchical

    def test_all_options_reach_skip_gram(self, monkeypatch):
        chosen = {"window": 2, "dimension": 3, "n_passes": 4, "learning_rate": 0.5}
        self.fit(monkeypatch, kite(), **chosen)
        names = {"window": "window", "dimension": "vector_size", "n_passes": "epochs"}
        names["learning_rate"] = "alpha"
        assert {name: SkipGram.options[names[name]] for name in chosen} == chosen
        assert SkipGram.options["seed"] == 0
        # Skip-gram takes seeds of 32 bits.
        make_estimator("deepwalk", random_state=2**32 + 5).fit(kite())
        assert SkipGram.options["seed"] == 5

    def test_classes_come_from_a_logistic_regression_on_the_embedding(self, monkeypatch):
        graph = kite()
        found = self.fit(monkeypatch, graph, C=0.5)
        embedding = np.array([[node, node**2] for node in range(6)], dtype=float)
        assert np.array_equal(found.embedding_, embedding)
        train = graph.train_index
        model = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000)
        model.fit(embedding[train], graph.labels[train])
        expected = model.predict_proba(embedding)
        np.testing.assert_allclose(found.predict_proba(), expected, atol=1e-3)
