"""Figure 1b: the hidden activations of a GCN trained on Cora, laid out by t-SNE."""

from __future__ import annotations

import numpy as np

from graphconv.estimators.runs import RunLog
from graphconv.estimators.scoring import fit_replicas
from graphconv.io.datasets import load_dataset
from graphconv.paper.section import Figure, Request, Section
from graphconv.training.scores import accuracy

NAME = "tsne"
SEED = 0


def section(request: Request, log: RunLog) -> Section:
    """Train, lay out, draw."""
    from sklearn.manifold import TSNE

    from graphconv.report import plot
    from graphconv.report.figures import new_figure, save_figure

    graph = load_dataset("cora", data_dir=request.data_dir)
    fitted, _ = fit_replicas(graph, request.settings("paper"), [SEED])
    hidden = fitted.embedding()  # (n_nodes, 16)
    points = TSNE(random_state=SEED, init="pca", perplexity=30).fit_transform(hidden)
    probabilities = fitted.probabilities()[:, 0]
    test = 100 * accuracy(graph.labels[graph.test_index], probabilities[graph.test_index])
    names = [str(name).replace("_", " ") for name in graph.class_names]
    drawing, axes = new_figure(1, 1, (8, 5.6))
    panel = plot.embedding(np.asarray(points), graph.labels, class_names=names, ax=axes[0][0])
    panel.set_title("Hidden activations of a two-layer GCN trained on Cora")
    save_figure(drawing, request.output / "figures" / "tsne")
    figure = Figure(
        "figures/tsne",
        "Every dot is a document of Cora, placed by t-SNE so that documents with similar hidden "
        "activations lie close together; colours and shapes are the true classes.",
        "Scatter plot of Cora's 2,708 documents in seven clusters, coloured by class",
    )
    n_train = len(graph.train_index)
    return Section(
        name=NAME,
        title="Figure 1b: hidden activations on Cora",
        text=(
            f"The GCN of table 2, seed {SEED}, trained on {n_train} labelled documents "
            f"({100 * n_train / graph.n_nodes:.0f} % of all); its test accuracy is {test:.1f} %.",
        ),
        figures=(figure,),
        data={"test_accuracy": test, "seed": SEED},
    )
