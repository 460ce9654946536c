"""Settings of the GCN on a data set: the paper's recipe, and the variants shown beside it."""

from __future__ import annotations

from typing import Any, Literal

from graphconv.models.settings import ON_NELL
from graphconv.paper.section import Request

Recipe = Literal["paper", "consecutive", "nell"]


def gcn_settings(request: Request, dataset: str, recipe: Recipe = "paper") -> dict[str, Any]:
    """All settings as plain values.

    Parameters
    ----------
    request : Request
    dataset : str
    recipe : {"paper", "consecutive", "nell"}
        The paper's, with the stopping rule of the authors' code; the same with the rule of the
        paper's text; or the preset that does better on NELL.
    """
    if recipe == "nell":
        return request.settings("paper-nell")
    changes = dict(ON_NELL) if dataset == "nell" else {}
    if recipe == "consecutive":
        changes["early_stopping"] = "consecutive"
    return request.settings("paper", **changes)
