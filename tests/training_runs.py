"""Short trainings on small graphs, and how their weights are compared."""

import numpy as np
from tests.generated_graphs import generate

from graphconv.engine.batches import make_batch
from graphconv.engine.objective import LabelledBatch
from graphconv.graph import Graph
from graphconv.models.settings import Settings
from graphconv.training.fit import build_model, class_weights
from graphconv.training.loop import train

SHORT = Settings(hidden=(8,), bias=False, scaling="none", max_epochs=12, early_stopping="none")


def small_graph(features="sparse", directed=False, multilabel=False, n_nodes=60):
    graph = generate("binary features", n_nodes=n_nodes)
    chosen = {
        "sparse": graph.features,
        "dense": graph.features.toarray()[:, :40],
        "none": None,
    }[features]
    labels = graph.labels
    if multilabel:
        labels = np.stack([labels % 2, labels // 2, (labels == 3)], axis=1).astype(np.int64)
    index = np.arange(n_nodes)
    return Graph(
        graph.adjacency,
        chosen,
        labels,
        train_index=index[: n_nodes // 3],
        validation_index=index[n_nodes // 3 : 2 * n_nodes // 3],
        test_index=index[2 * n_nodes // 3 :],
        directed=directed,
    )


def labelled(graph, index, model, settings=SHORT):
    batch = make_batch(graph, index, n_hops=model.n_hops)
    return LabelledBatch.make(batch, graph.labels, class_weights(graph, settings))


def run(graph, settings, seeds=(0,), kernel="auto", watched=True, device=None, **options):
    """Train, and give back the model and its record."""
    model = build_model(graph, settings, seeds, kernel, device=device)
    batch = labelled(graph, graph.train_index, model, settings)
    validation = labelled(graph, graph.validation_index, model, settings) if watched else None
    return model, train(model, [batch], validation, settings, **options)


def weights(model):
    return {name: own.copy() for name, own in model.parameters.items()}


def assert_same_bits(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype, name
        assert np.array_equal(value, second[name]), name
