"""Saving: a fitted estimator becomes a folder, and a folder a fitted estimator.

The folder is the one that `graphconv train` writes; `graphconv.training.checkpoint` says what is
in it. No file of it is a pickle.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from graphconv.estimators.baselines import make_estimator
from graphconv.estimators.baselines.transductive import TransductiveClassifier
from graphconv.estimators.fitted_method import (
    FittedMethod,
    SavedMethod,
    load_saved,
    save_fitted,
)
from graphconv.estimators.gcn import GCNClassifier
from graphconv.models.settings import Settings
from graphconv.training.fitted import FittedGCN


def save_model(model: Any, folder: str | Path) -> None:
    """Write a model folder, whole or not at all, which says what the model was trained on.

    Parameters
    ----------
    model : estimator, FittedGCN or FittedMethod
        What `fit`, `fit_gcn` or `fit_method` returned.
    folder : path
        Made if need be. A model folder that is there is replaced; anything else is left alone.
    """
    if isinstance(model, FittedGCN | FittedMethod):
        save_fitted(model, Path(folder))
    else:
        model.save(folder)


def load_model(folder: str | Path) -> GCNClassifier | TransductiveClassifier:
    """Read the folder of a model, whether an estimator or `graphconv train` has written it.

    Returns
    -------
    GCNClassifier or TransductiveClassifier
        The fitted estimator of the method, with all settings as its parameters: fitted again, it
        trains in the same way.

    Examples
    --------
    >>> import tempfile
    >>> from graphconv import AutoClassifier, load_dataset, load_model
    >>> clf = AutoClassifier(random_state=0).fit(load_dataset("karate"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(f"{folder}/karate")
    ...     again = load_model(f"{folder}/karate")
    >>> type(again).__name__, bool((again.predict_proba() == clf.predict_proba()).all())
    ('GCNClassifier', True)
    """
    saved = load_saved(Path(folder))
    own: dict[str, Any] = dict(saved.identity.get("estimator", {}))
    joins_neighbours = bool(own.pop("joins_neighbours", False))
    if isinstance(saved, SavedMethod):
        return _restored(saved.fitted, joins_neighbours)
    fitted = saved.fitted
    settings = {field.name: getattr(fitted.settings, field.name) for field in fields(Settings)}
    if isinstance(settings["class_weight"], tuple):
        settings["class_weight"] = dict(settings["class_weight"])
    model = GCNClassifier(
        "robust",
        **settings,
        **{name: own[name] for name in GCNClassifier._saved_parameters if name in own},
        ensemble=len(fitted.network.seeds),
        random_state=int(fitted.network.seeds[0]),
    )
    model.joins_neighbours_ = joins_neighbours
    model.n_features_in_ = fitted.graph.n_features
    model._set_fitted(fitted)
    return model


def _restored(fitted: FittedMethod, joins_neighbours: bool) -> TransductiveClassifier:
    estimator: TransductiveClassifier = make_estimator(
        fitted.method, random_state=fitted.seeds[0], **fitted.params
    )
    return estimator.restore(fitted, joins_neighbours)
