"""The models that settings can name; a new one is a file of its own and a line here.

Light, so that the command line knows their names before anything is computed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from graphconv.models.model import Model
    from graphconv.models.settings import Settings

MODELS = {
    "gcn": "gcn:GCN",
    "appnp": "appnp:APPNP",
    "grand": "grand:GRAND",
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
    from graphconv.models.propagation import Propagation

    module, _, name = MODELS[settings.model].partition(":")
    kind = cast("type[Model]", getattr(importlib.import_module(f"{__package__}.{module}"), name))
    graph = Propagation(
        settings.propagation,
        directed=directed,
        self_loop_weight=settings.self_loop_weight,
        chebyshev_order=settings.chebyshev_order,
        lambda_max=lambda_max,
    )
    return kind(n_features, n_classes, settings, graph)
