"""What processes that train together tell of their costs and their memory, without any process."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphconv import Settings
from graphconv.engine.memory_estimate import Need
from graphconv.models.catalogue import make_model
from graphconv.training import process_costs as module
from graphconv.training.part_memory import PartMemory
from graphconv.training.process_costs import process_costs


class Two:
    """Two processes, of which this is the first; the other has ten more of everything."""

    is_first, count = True, 2

    def __init__(self):
        self.sent = {"train": 3001, "validation": 2001, "gradients": 1001}
        self.messages = {"train": 30, "validation": 20, "gradients": 10, "other": 1000}

    def table(self, row):
        return np.array([row, [number + 10 for number in row]])


def part(**more):
    summary = SimpleNamespace(n_halo=7, n_entries=500)
    own = {"lent": np.arange(5), "n_own": 40, "summary": summary, "n_features": 3, "n_nodes": 90}
    return SimpleNamespace(**{**own, **more})


@pytest.mark.parametrize(("model", "n_copies"), [("gcn", 1), ("grand", 4)])
def test_costs_of_every_process(model, n_copies, monkeypatch):
    monkeypatch.setattr(module, "peak_memory", lambda: 12345)
    described = make_model(Settings(model=model, hidden=(8,), steps=2), 3, 6)
    network = SimpleNamespace(program=described.program, seeds=[0, 1], model=described)
    rows = process_costs(part(), Two(), network, sent_making=501, n_epochs=10, seconds=0.25)
    # Rows of 8 and of 6 columns are summed over neighbours, or twice 8 before the perceptron; of
    # 5 that are lent and 7 of the halo, 4 bytes a number, for two models and their copies.
    n_columns = {"gcn": 8 + 6, "grand": 8 + 8}[model]
    assert rows[0] == {
        "peak_memory": 12345, "n_nodes": 40, "n_halo": 7, "n_entries": 500,
        "cut_demands": 4 * (5 + 7) * n_columns * 2 * n_copies,
        "sent_training": 300, "sent_validation": 200, "sent_gradients": 100, "sent_batches": 50,
        "messages": 6, "epoch_microseconds": 25_000,
    }  # fmt: skip
    assert rows[1] == {name: value + 10 for name, value in rows[0].items()}


def test_the_process_that_lacks_most_decides():
    class Three(Two):
        count = 3

        def table(self, row):
            return np.array([row, [900, 50, 20], [100, 80, 60]])

    memory = PartMemory(part(), Three())
    # Missing are 40 - 15, 50 - 20 and 80 - 60 bytes.
    found = memory.tightest(Need(500, 40, 15, ""))
    assert (found.total, found.more, found.free) == (900, 50, 20)
    assert found.where == " in process 1, the tightest of 3"
    assert PartMemory(part(), Two()).add_up(4) == 4 + 14
    assert memory.n_collected == 90
    Three.is_first = False
    assert PartMemory(part(), Three()).n_collected == 0
