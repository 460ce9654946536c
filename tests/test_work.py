"""How much work an epoch is, counted: a change that makes training do more of it fails here.

Seconds depend on the machine and on who else uses it; calls, entries and multiply-adds do not.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphconv import load_dataset
from graphconv.engine.batches import make_batch
from graphconv.graph.scaling import fit_scaler
from graphconv.kernels import n_summed, reference
from graphconv.models.settings import resolve_settings
from graphconv.training.fit import build_model, full_batches
from graphconv.training.loop import train


class Counted(ModuleType):
    """The reference kernels, which count calls, and multiply-adds as the native ones do them."""

    def __init__(self) -> None:
        super().__init__("graphconv.kernels.reference")
        self.calls: Counter[str] = Counter()
        self.work: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(reference, name)
        if name in ("trim_memory", "get_threads"):
            return kernel

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            self.work[name] += work_of(name, arguments)
            return kernel(*arguments, **options)

        return counted


def work_of(name: str, arguments: tuple[Any, ...]) -> int:
    if name in ("propagate", "feature_product", "feature_product_transposed"):
        rows, dense = arguments[:2]
        return int((rows.end - rows.begin).sum()) * int(dense.shape[1])
    if name == "packed_product":
        return work_of("feature_product", (arguments[0].pieces, arguments[1]))
    if name == "pack_rows":
        return work_of("feature_product", (arguments[0], np.empty((0, 1))))
    if name == "propagate_sparse":
        return int(n_summed(arguments[0], arguments[1], arguments[5]).sum())
    if name in ("hidden_product", "hidden_product_backward"):
        backward = name == "hidden_product_backward"
        dense, weight = arguments[1:3] if backward else arguments[:2]
        return int(dense.shape[0] * weight.size) * (2 if backward else 1)
    return int(np.asarray(arguments[0]).size)


def counted_epochs(graph: Any, n_epochs: int, n_seeds: int = 1) -> Counted:
    settings = resolve_settings("paper", {"max_epochs": n_epochs})
    features = fit_scaler(graph.features, "row").transform(graph.features)
    model = build_model(graph, settings, range(n_seeds), "reference")
    model.kernels = model.processor_kernels = counted = Counted()
    training, validation = full_batches(graph, settings, model, features)
    train(model, [training], validation, settings)
    return counted


def test_an_epoch_on_cora_is_no_more_work_than_it_was() -> None:
    graph = load_dataset("cora")
    counted = counted_epochs(graph, 3)
    per_epoch = {name: n / 3 for name, n in counted.calls.items()}
    assert per_epoch == {
        "feature_product": 2,
        "propagate": 6,
        "hidden_product": 2,
        "loss": 2,
        "hidden_product_backward": 1,
        "feature_product_transposed": 1,
        "adam": 2,
    }
    # The training nodes reach 62 % of the entries of the features, as the whole graph's are 49,216.
    reached = counted.work["feature_product_transposed"] / 3 / 16
    assert reached == 30_691
    work = {name: n // 3 for name, n in counted.work.items()}
    assert work == {
        "feature_product": 1_174_848,
        "propagate": 259_336,
        "hidden_product": 238_336,
        "loss": 4_480,
        "hidden_product_backward": 144_256,
        "feature_product_transposed": 491_056,
        "adam": 23_040,
    }


def test_validation_on_pubmed_sums_features_over_neighbours_once() -> None:
    counted = counted_epochs(load_dataset("pubmed"), 3)
    assert counted.calls["propagate_sparse"] == 1
    assert counted.calls["propagate"] == 3 * 5
    # Training nodes reach 142,685 entries; the sums have 471,758, where validation nodes reach
    # 557,436 entries and 29,307 of the adjacency matrix.
    assert counted.work["feature_product"] == 3 * 16 * (142_685 + 471_758)


def test_sums_on_pubmed_are_packed_once_for_several_seeds() -> None:
    counted = counted_epochs(load_dataset("pubmed"), 3, n_seeds=4)
    assert counted.calls["propagate_sparse"] == counted.calls["pack_rows"] == 1
    assert counted.calls["packed_product"] == 3
    assert counted.work["packed_product"] == 3 * 4 * 16 * 471_758


def test_epochs_cost_the_same_whatever_their_number() -> None:
    graph = load_dataset("karate")
    graph = graph.with_split(graph.train_index, graph.test_index[:10])
    few, many = (counted_epochs(graph, n).calls for n in (2, 6))
    assert {name: 3 * n for name, n in few.items()} == dict(many)


def test_the_last_layer_is_computed_for_the_targets_alone() -> None:
    graph = load_dataset("cora")
    batch = make_batch(graph, graph.train_index, n_hops=2)
    assert batch.n_within[0] == len(graph.train_index) == 140
    assert len(batch.block(140, batch.n_within[1]).begin) == 140
    with pytest.raises(IndexError):
        _ = batch.n_within[3]
