"""Training, saving and predicting again and again in one process: memory and files stay."""

import os
from pathlib import Path

import pytest

from graphconv import load_dataset
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import fit_gcn

# SOAK=1000 for the whole of it.
N_TIMES = int(os.environ.get("SOAK", "40"))
N_BEFORE = 10


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nobody tells of open files")
def test_memory_and_open_files_stay(tmp_path):
    karate = load_dataset("karate")

    def once():
        save_model(SavedModel(fit_gcn(karate, overrides={"max_epochs": 3})), tmp_path / "m")
        load_model(tmp_path / "m").fitted.ensemble_probabilities()

    for _ in range(N_BEFORE):
        once()
    memory, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
    for _ in range(N_TIMES):
        once()
    assert len(os.listdir("/proc/self/fd")) == files
    # What the allocator keeps varies; a graph or a model kept each time would be far more.
    assert resident_bytes() - memory < 20_000_000
