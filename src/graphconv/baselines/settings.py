"""The hyper-parameters of the baselines."""

from __future__ import annotations

from typing import Any

CHOSEN: dict[str, dict[str, dict[str, Any]]] = {}


def chosen_settings(method: str, dataset: str) -> dict[str, Any]:
    return dict(CHOSEN.get(method, {}).get(dataset, {}))
