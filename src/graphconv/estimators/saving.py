"""Saving: a fitted GCNClassifier becomes a folder, and a folder a fitted GCNClassifier.

The folder is the one that `graphconv train` writes; `graphconv.training.checkpoint` says what is
in it. No file of it is a pickle.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from graphconv.estimators.gcn import GCNClassifier
from graphconv.models.settings import Settings
from graphconv.training import checkpoint
from graphconv.training.fitted import FittedGCN

# What an estimator needs beside the model it was fitted to.
_OWN = ("validation_fraction", "calibrate", "n_neighbors", "directed", "kernels")


def save_model(model: GCNClassifier | FittedGCN, folder: str | Path) -> None:
    """Write a model folder, whole or not at all.

    Parameters
    ----------
    model : GCNClassifier or FittedGCN
        What `fit` or `fit_gcn` returned.
    folder : path
        Made if need be. A model folder that is there is replaced; anything else is left alone.
    """
    if isinstance(model, FittedGCN):
        checkpoint.save_model(checkpoint.SavedModel(model), Path(folder))
        return
    check_is_fitted(model)
    own = {name: getattr(model, name) for name in _OWN}
    own["joins_neighbours"] = model.joins_neighbours_
    saved = checkpoint.SavedModel(model.fitted_, identity={"estimator": own})
    checkpoint.save_model(saved, Path(folder))


def load_model(folder: str | Path) -> GCNClassifier:
    """Read the folder of a model, whether `save_model` or `graphconv train` has written it.

    Returns
    -------
    GCNClassifier
        Fitted, and with all settings as its parameters: fitted again, it trains in the same way.
    """
    saved = checkpoint.load_model(Path(folder))
    fitted = saved.fitted
    own: dict[str, Any] = dict(saved.identity.get("estimator", {}))
    joins_neighbours = own.pop("joins_neighbours", False)
    settings = {field.name: getattr(fitted.settings, field.name) for field in fields(Settings)}
    if isinstance(settings["class_weight"], tuple):
        settings["class_weight"] = dict(settings["class_weight"])
    model = GCNClassifier(
        "robust",
        **settings,
        **{name: own[name] for name in _OWN if name in own},
        ensemble=len(fitted.network.seeds),
        random_state=int(fitted.network.seeds[0]),
    )
    model.joins_neighbours_ = bool(joins_neighbours)
    model.n_features_in_ = fitted.graph.n_features
    model._set_fitted(fitted)
    return model
