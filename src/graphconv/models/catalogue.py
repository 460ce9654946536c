"""The models that settings can name; a new one is one file and one line here."""

from __future__ import annotations

from graphconv.models.gcn import GCN
from graphconv.models.model import Model
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings

MODELS: dict[str, type[Model]] = {
    "gcn": GCN,
}


def make_model(
    settings: Settings,
    n_features: int,
    n_classes: int,
    *,
    directed: bool = False,
    lambda_max: float = 2.0,
) -> Model:
    """The model that settings name, for data of some shape.

    Examples
    --------
    >>> from graphconv import Settings
    >>> from graphconv.models.catalogue import make_model
    >>> make_model(Settings(hidden=(4, 4)), n_features=10, n_classes=2).program.n_hops
    3
    """
    graph = Propagation(
        settings.propagation,
        directed=directed,
        self_loop_weight=settings.self_loop_weight,
        chebyshev_order=settings.chebyshev_order,
        lambda_max=lambda_max,
    )
    return MODELS["gcn"](n_features, n_classes, settings, graph)
