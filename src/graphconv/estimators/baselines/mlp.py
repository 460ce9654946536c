"""A multi-layer perceptron: the GCN without its graph."""

from __future__ import annotations

from typing import Any

from graphconv.estimators.gcn import GCNClassifier


class MLPClassifier(GCNClassifier):
    """Multi-layer perceptron on the features alone: GCNClassifier with propagation "none".

    Parameters and attributes are those of `graphconv.GCNClassifier`.

    Examples
    --------
    >>> from graphconv import load_dataset
    >>> from graphconv.estimators.baselines import make_estimator
    >>> cora = load_dataset("cora")
    >>> clf = make_estimator("mlp", preset="paper", max_epochs=20, random_state=0).fit(cora)
    >>> clf.settings_.propagation
    'none'
    """

    def _overrides(self) -> dict[str, Any]:
        if self.propagation not in (None, "none"):
            raise ValueError(f"propagation of an MLP must be 'none', got {self.propagation!r}")
        return {**super()._overrides(), "propagation": "none"}
