"""The methods that the paper compares with, each an estimator with the contract of GCNClassifier.

A method is imported when it is first asked for. What was chosen for each data set is in
`graphconv.estimators.baselines.settings`.
"""

from __future__ import annotations

import importlib
from typing import Any

from graphconv.io.wording import did_you_mean

_HERE = "graphconv.estimators.baselines"
BASELINES: dict[str, str] = {
    "label-propagation": f"{_HERE}.label_propagation:LabelPropagationClassifier",
    "manifold": f"{_HERE}.manifold:ManifoldClassifier",
    "semi-embedding": f"{_HERE}.semi_embedding:SemiEmbeddingClassifier",
    "deepwalk": f"{_HERE}.deepwalk:DeepWalkClassifier",
    "ica": f"{_HERE}.ica:ICAClassifier",
    "planetoid-t": f"{_HERE}.planetoid:PlanetoidTClassifier",
    "planetoid-i": f"{_HERE}.planetoid:PlanetoidIClassifier",
    "mlp": f"{_HERE}.mlp:MLPClassifier",
    "sgc": f"{_HERE}.sgc:SGCClassifier",
    "boosted-trees": f"{_HERE}.boosted_trees:BoostedTreesClassifier",
    "committee": f"{_HERE}.committee:CommitteeClassifier",
}


def make_estimator(name: str, *, dataset: str | None = None, **params: Any) -> Any:
    """An unfitted estimator by its name.

    Parameters
    ----------
    name : str
        One of `BASELINES`.
    dataset : str, optional
        Start from the hyper-parameters that were chosen for this data set, where there are any.
    **params
        Parameters of the estimator; they take precedence.

    Examples
    --------
    >>> from graphconv.estimators.baselines import make_estimator
    >>> make_estimator("sgc", n_hops=3)
    SGCClassifier(n_hops=3)
    >>> make_estimator("label-propagation", dataset="cora", random_state=0).random_state
    0
    """
    if name not in BASELINES:
        hint = did_you_mean(name, BASELINES)
        raise ValueError(f"method must be one of {', '.join(BASELINES)}, got {name!r}{hint}")
    module, _, class_name = BASELINES[name].partition(":")
    estimator_class = getattr(importlib.import_module(module), class_name)
    if dataset is not None:
        from graphconv.estimators.baselines.settings import chosen_settings

        params = {**chosen_settings(name, dataset), **params}
    known = estimator_class().get_params()
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise ValueError(
            f"{name} must get parameters among {', '.join(known)}, got {', '.join(unknown)}"
        )
    return estimator_class(**params)
