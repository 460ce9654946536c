"""Training, predicting and labelling again and again in one process: memory and files stay."""

import os
from pathlib import Path

import pytest
from tests.label_server import until

from graphconv import Graph, load_dataset
from graphconv.io.label_file import LabelFile
from graphconv.report.cards import Cards
from graphconv.report.label.session import Session
from graphconv.results.answers import Answers
from graphconv.results.labelling import Learner
from graphconv.training.checkpoint import SavedModel, load_model, save_model
from graphconv.training.fit import fit_gcn

# SOAK=1000 for the whole of it.
N_TIMES = int(os.environ.get("SOAK", "20"))
N_BEFORE = 10


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nobody tells of open files")
def test_memory_and_open_files_stay(tmp_path):
    karate = load_dataset("karate")
    unlabelled = Graph(karate.adjacency)

    def once():
        save_model(SavedModel(fit_gcn(karate, overrides={"max_epochs": 3})), tmp_path / "m")
        load_model(tmp_path / "m").fitted.ensemble_probabilities()
        with LabelFile(tmp_path / "labels.csv") as file:
            label(file)
        (tmp_path / "labels.csv").unlink()

    def label(file):
        answers = Answers(unlabelled, file)
        session = Session(unlabelled, answers, Learner(unlabelled), Cards(unlabelled, {}))
        session.start()
        try:
            for node, name in ((0, "red"), (33, "blue")):
                session.give([node], name, "me", "chosen")
            until(lambda: session.is_settled)
            assert session.undo("me") is not None
        finally:
            session.close()

    for _ in range(N_BEFORE):
        once()
    memory, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
    for _ in range(N_TIMES):
        once()
    assert len(os.listdir("/proc/self/fd")) == files
    # What the allocator keeps varies; a graph or a model kept each time would be far more.
    assert resident_bytes() - memory < 20_000_000
