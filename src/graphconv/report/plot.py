"""Pictures of a fitted model, or of plain arrays, as matplotlib axes.

Each function takes a fitted estimator (`GCNClassifier` or a baseline) or the arrays it is about,
draws into `ax` or into a new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from graphconv.graph import Graph
from graphconv.report._layouts import embedding_map, graph_layout
from graphconv.report._style import COLOURS, MARKERS, OTHER, class_marks, shown_classes
from graphconv.report.figures import STYLE
from graphconv.results.predictions import confusion_table
from graphconv.training.calibration import N_BINS, reliability

Array = npt.NDArray[Any]
MAX_GRAPH_NODES = 2_000


class _Fitted(NamedTuple):
    graph: Graph
    probabilities: Array

    @property
    def labels(self) -> Array:
        labels: Array = self.probabilities.argmax(axis=1)
        return labels

    def held_out(self) -> tuple[Array, str]:
        """Labelled nodes to judge the model by: test nodes or, without any, validation nodes."""
        for name in ("test", "validation"):
            index = getattr(self.graph, f"{name}_index")
            if len(index):
                return index, name
        raise ValueError("the estimator must have test or validation nodes, got neither")


def embedding(
    source: Any,
    labels: npt.ArrayLike | None = None,
    *,
    class_names: Sequence[Any] | None = None,
    random_state: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Map of the nodes: those that the model finds alike lie close together.

    Parameters
    ----------
    source : fitted GCNClassifier, or array of shape (n_nodes, width)
        Its hidden activations are laid out in the plane by t-SNE; an array of two columns is
        drawn as it is.
    labels : array of shape (n_nodes,), optional
        Class numbers to colour by, -1 for none. Default: the estimator's predictions.
    class_names : sequence, optional
    random_state : int
        Of the layout.
    ax : Axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from graphconv import GCNClassifier, load_dataset, plot
    >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
    >>> plot.embedding(clf).get_title()
    'Map of 34 nodes, coloured by predicted class'
    """
    what = "class"
    if _is_estimator(source):
        fitted = _parts(source)
        rows = np.asarray(source.transform())
        class_names = fitted.graph.class_names if class_names is None else class_names
        if labels is None:
            labels, what = fitted.labels, "predicted class"
    else:
        rows = np.asarray(source)
    if rows.ndim != 2:
        raise ValueError(f"the embedding must have a row per node, got {rows.ndim} dimensions")
    is_laid_out = rows.shape[1] == 2 and not _is_estimator(source)
    places = rows if is_laid_out else embedding_map(rows, random_state)
    ax = _axes(ax, (8, 5.6))
    codes = np.zeros(len(places), int) if labels is None else np.asarray(labels)
    _check_length(codes, len(places), "labels")
    names = class_names if labels is not None else ["node"]
    _scatter_classes(ax, places, codes, names, size=12)
    ax.set_title(f"Map of {len(places):,} nodes" + f", coloured by {what}" * (labels is not None))
    ax.set_xlabel("t-SNE dimension 1")
    ax.set_ylabel("t-SNE dimension 2")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def confusion(
    source: Any,
    predicted: npt.ArrayLike | None = None,
    *,
    class_names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How often nodes of each class were given each label.

    Parameters
    ----------
    source : fitted estimator, or array of true labels
        An estimator is judged by its test nodes or, without any, its validation nodes.
    predicted : array, optional
        Predicted labels, where the first argument is true ones. Labels may be of any type.
    class_names : sequence, optional
        The order of classes. Default: sorted.
    ax : Axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from graphconv import plot
    >>> axes = plot.confusion(["cat", "cat", "dog"], ["cat", "dog", "dog"])
    >>> [text.get_text() for text in axes.texts]
    ['1', '1', '0', '1']
    """
    title = "Confusion matrix"
    if _is_estimator(source):
        fitted = _parts(source)
        if fitted.graph.is_multilabel:
            raise ValueError("confusion needs one label per node, got several")
        index, name = fitted.held_out()
        truth, found = fitted.graph.labels[index], fitted.labels[index]
        names = list(fitted.graph.class_names)
        title = f"{len(index):,} {name} nodes, {100 * (truth == found).mean():.1f} % right"
    else:
        if predicted is None:
            raise ValueError("confusion must get true and predicted labels, got one of them")
        given, told = np.asarray(source).tolist(), np.asarray(predicted).tolist()
        _check_length(told, len(given), "predicted labels")
        names = sorted({*given, *told}) if class_names is None else list(class_names)
        number = {label: place for place, label in enumerate(names)}
        truth, found = (np.array([number[x] for x in side], int) for side in (given, told))
    table = confusion_table(truth, found, len(names))
    ax = _axes(ax, (max(4.5, 0.7 * len(names) + 2.5), max(4, 0.6 * len(names) + 2)))
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(names) <= 20:
        for row, column in np.ndindex(*table.shape):
            colour = "white" if shares[row, column] > 0.5 else "black"
            ax.text(column, row, f"{table[row, column]:,}", ha="center", va="center", color=colour)
    ticks = np.arange(len(names))
    ax.set_xticks(ticks, [str(name) for name in names], rotation=45, ha="right")
    ax.set_yticks(ticks, [str(name) for name in names])
    ax.set_xlabel("predicted class")
    ax.set_ylabel("true class")
    ax.set_title(title)
    ax.figure.colorbar(image, ax=ax, label="share of the true class")
    return ax


def history(
    source: Any, quantity: Literal["loss", "accuracy"] = "loss", *, ax: Axes | None = None
) -> Axes:
    """Learning curves: loss or accuracy on training and validation nodes, epoch by epoch.

    Parameters
    ----------
    source : fitted GCNClassifier, or its `history_`
    quantity : {"loss", "accuracy"}
    ax : Axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from graphconv import GCNClassifier, load_dataset, plot
    >>> clf = GCNClassifier(random_state=0).fit(load_dataset("karate"))
    >>> plot.history(clf, "accuracy").get_ylabel()
    'accuracy (%)'
    """
    if quantity not in ("loss", "accuracy"):
        raise ValueError(f"quantity must be 'loss' or 'accuracy', got {quantity!r}")
    curves: Mapping[str, Sequence[float]] = getattr(source, "history_", source)
    if not isinstance(curves, Mapping) or f"train_{quantity}" not in curves:
        raise ValueError(f"history must be a fitted GCNClassifier or its history_, got {source!r}")
    ax = _axes(ax, (6.4, 4.2))
    factor = 100 if quantity == "accuracy" else 1
    looks = {"train": (COLOURS[0], "-"), "validation": (COLOURS[3], "--")}
    for name, (colour, line) in looks.items():
        values = factor * np.asarray(curves[f"{name}_{quantity}"], dtype=float)
        if np.isfinite(values).any():
            epochs = np.arange(1, len(values) + 1)
            label = f"{'training' if name == 'train' else name} nodes"
            ax.plot(epochs, values, line, color=colour, label=label)
    ax.set_title(f"Learning curves: {quantity}")
    ax.set_xlabel("epoch")
    ax.set_ylabel("accuracy (%)" if quantity == "accuracy" else "loss (nats, penalty included)")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    return ax


def graph(
    source: Any,
    labels: npt.ArrayLike | None = None,
    *,
    random_state: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """The graph itself: nodes coloured by class, training nodes ringed.

    Parameters
    ----------
    source : fitted estimator, or Graph
        Of at most 2,000 nodes.
    labels : array of shape (n_nodes,), optional
        Class numbers to colour by, -1 for none. Default: an estimator's predictions, a Graph's
        labels.
    random_state : int
        Of the layout.
    ax : Axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from graphconv import load_dataset, plot
    >>> plot.graph(load_dataset("karate")).get_title()
    'karate: 34 nodes, 78 edges'
    """
    if isinstance(source, Graph):
        drawn, codes = source, source.labels
        if drawn.is_multilabel:
            codes = np.where(drawn.is_labelled, codes.argmax(axis=1), -1)
    else:
        drawn, codes = _parts(source).graph, _parts(source).labels
    codes = codes if labels is None else np.asarray(labels)
    _check_length(codes, drawn.n_nodes, "labels")
    if drawn.n_nodes > MAX_GRAPH_NODES:
        raise ValueError(
            f"a graph to draw must have at most {MAX_GRAPH_NODES:,} nodes, got {drawn.n_nodes:,}"
        )
    places = graph_layout(drawn.adjacency, random_state)
    ax = _axes(ax, (8, 5.6))
    ends = drawn.adjacency.tocoo()
    pairs = np.column_stack([ends.row, ends.col])[
        ends.row <= ends.col if not drawn.directed else slice(None)
    ]
    ax.add_collection(LineCollection(list(places[pairs]), colors=OTHER, linewidths=0.5, zorder=0))
    size = float(np.clip(20_000 / max(drawn.n_nodes, 1), 8, 60))
    _scatter_classes(ax, places, codes, drawn.class_names, size=size)
    ringed = places[drawn.train_index]
    if len(ringed):
        ax.scatter(
            ringed[:, 0], ringed[:, 1], s=3 * size, facecolors="none", edgecolors="#444444",
            linewidths=1.2, label="training node",
        )  # fmt: skip
        _legend(ax)
    ax.set_title(f"{drawn.name}: {drawn.n_nodes:,} nodes, {drawn.n_edges:,} edges")
    ax.set_axis_off()
    return ax


def calibration(
    source: Any,
    labels: npt.ArrayLike | None = None,
    *,
    n_bins: int = N_BINS,
    ax: Axes | None = None,
) -> Axes:
    """Reliability diagram: how often the model is right, by how sure it says it is.

    Parameters
    ----------
    source : fitted estimator, or array of probabilities of shape (n_nodes, n_classes)
        An estimator is judged by its test nodes or, without any, its validation nodes.
    labels : array, optional
        True class numbers of the nodes, where the first argument is probabilities; 0 and 1 for
        each class where nodes have several labels.
    n_bins : int
        Bins of equal width.
    ax : Axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from graphconv import plot
    >>> probabilities = np.array([[0.8, 0.2]] * 5)
    >>> plot.calibration(probabilities, [0, 0, 0, 0, 1]).get_title()
    'Confidence of 5 nodes, calibration error 0.0 %'
    """
    where = "nodes"
    if _is_estimator(source):
        fitted = _parts(source)
        index, name = fitted.held_out()
        probabilities, truth = fitted.probabilities[index], fitted.graph.labels[index]
        where = f"{name} nodes"
    else:
        if labels is None:
            raise ValueError("calibration must get probabilities and labels, got one of them")
        probabilities, truth = np.asarray(source), np.asarray(labels)
    _check_length(truth, len(probabilities), "labels")
    bins = reliability(probabilities, truth, n_bins)
    ax = _axes(ax, (5.6, 5.0))
    width = 100 * np.diff(bins.edges)
    ax.bar(
        100 * bins.edges[:-1], 100 * np.nan_to_num(bins.accuracy), width, align="edge",
        color=COLOURS[0], edgecolor="white", label="share that is right",
    )  # fmt: skip
    filled = bins.n_decisions > 0
    ax.plot(
        100 * bins.confidence[filled], 100 * bins.accuracy[filled], "D", color=COLOURS[1],
        markeredgecolor="black", markersize=5, linestyle="none", label="mean confidence of the bin",
    )  # fmt: skip
    ax.plot([0, 100], [0, 100], "--", color="#444444", label="confidence = share right")
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    ax.set_xlabel("confidence (%)")
    ax.set_ylabel("right (%)")
    ax.set_title(
        f"Confidence of {len(probabilities):,} {where}, calibration error {100 * bins.error:.1f} %"
    )
    ax.legend(frameon=False, loc="upper left")
    return ax


def _is_estimator(source: Any) -> bool:
    return hasattr(source, "fit") and hasattr(source, "predict_proba")


def _parts(estimator: Any) -> _Fitted:
    """The graph an estimator was trained on and what it predicts there."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    known = estimator.fitted_.graph if hasattr(estimator, "fitted_") else estimator.graph_
    return _Fitted(known, estimator.predict_proba())


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    with mpl.rc_context(STYLE):
        return plt.subplots(figsize=size, layout="constrained")[1]


def _check_length(values: Any, n_nodes: int, what: str) -> None:
    if len(values) != n_nodes:
        raise ValueError(f"{what} must have one entry per node ({n_nodes}), got {len(values)}")


def _scatter_classes(
    ax: Axes, places: Array, codes: Array, names: Sequence[Any] | None, size: float
) -> None:
    """Dots in the colour and shape of their class, and a legend that counts them."""
    n_classes = max(int(codes.max(initial=-1)) + 1, len(names or ()))
    names = list(range(n_classes)) if names is None else names
    shown, marks = shown_classes(codes, n_classes), class_marks(n_classes)
    others = ~np.isin(codes, shown)
    if others.any():
        own = places[others]
        label = "no label" if len(shown) == n_classes else "other classes, or no label"
        ax.scatter(
            own[:, 0], own[:, 1], s=size, color=OTHER, marker=".", linewidths=0, alpha=0.6,
            label=f"{label} ({len(own):,})",
        )  # fmt: skip
    for number in shown:
        own, mark = places[codes == number], marks[number]
        ax.scatter(
            own[:, 0], own[:, 1], s=size, color=COLOURS[mark.colour], marker=MARKERS[mark.shape],
            linewidths=0, alpha=0.8, label=f"{names[number]} ({len(own):,})",
        )  # fmt: skip
    _legend(ax)


def _legend(ax: Axes) -> None:
    ax.legend(
        frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="class (nodes)",
        markerscale=1.5,
    )  # fmt: skip
