"""Kill the labelling server again and again while somebody answers; is anything lost? `make kills`.

    python -m scripts.kill_labelling [N_KILLS] [--seed SEED]

A server is started as a command of its own. Labels, corrections of several nodes, skips and undos
are sent as fast as it takes them, until it is killed (kill -9) at a random moment: before the first
answer, between two, or in the middle of one. Then the file is read as the next start reads it. It
must hold what was confirmed, in the same order to be undone, and beside it at most the one action
that was under way. The next server goes on with that file.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from tests.label_server import client, command

from graphconv.graph import Graph
from graphconv.io.label_file import LabelFile, read_label_lines
from graphconv.io.readers import read_tables
from graphconv.results.answers import Answers

N_NODES = 40
# Seconds between the server's first word and its end, at most.
LONGEST_LIFE = 1.5


class Done(NamedTuple):
    """Something that was sent and confirmed; an undo has no nodes."""

    how: str
    nodes: tuple[int, ...] = ()
    label: str = ""


@dataclass
class Expected:
    """What the confirmed actions amount to: labels, skipped nodes, and what undo would restore."""

    labels: list[str] = field(default_factory=lambda: [""] * N_NODES)
    skipped: set[int] = field(default_factory=set)
    stack: list[list[tuple[int, str, bool]]] = field(default_factory=list)

    def do(self, action: Done) -> None:
        if action.how == "undo":
            for node, label, was_skipped in self.stack.pop() if self.stack else ():
                self.labels[node] = label
                (self.skipped.add if was_skipped else self.skipped.discard)(node)
            return
        nodes = action.nodes
        self.stack.append([(node, self.labels[node], node in self.skipped) for node in nodes])
        for node in nodes:
            if action.how == "skip":
                self.skipped.add(node)
            else:
                self.labels[node] = action.label

    def differences(self, answers: Answers) -> list[str]:
        """What a file's answers have otherwise."""
        names = answers.class_names
        labels = [names[code] if code >= 0 else "" for code in answers.labels]
        same = {
            "labels": labels == self.labels,
            "skipped nodes": answers.skipped == self.skipped,
            "what can be undone": len(answers.actions) == len(self.stack),
        }
        return [name for name, is_same in same.items() if not is_same]


def after(actions: list[Done]) -> Expected:
    """What some actions amount to."""
    expected = Expected()
    for action in actions:
        expected.do(action)
    return expected


def answer_until_killed(
    address: str,
    process: subprocess.Popen[str],
    actions: list[Done],
    rng: np.random.Generator,
) -> None:
    """Act as fast as it goes, keep what is confirmed, and kill the server while doing so."""
    timer = threading.Timer(float(rng.uniform(0, LONGEST_LIFE)), process.kill)
    timer.start()
    state = after(actions)
    try:
        with client(address) as http:
            while True:
                action = _draw(state, rng)
                if action.how == "undo":
                    http.post("api/undo", json={}).raise_for_status()
                else:
                    sent = {"nodes": list(action.nodes), "label": action.label, "how": action.how}
                    http.post("api/answer", json=sent).raise_for_status()
                actions.append(action)
                state.do(action)
    except httpx.TransportError:  # the server is gone
        pass
    timer.join()
    process.wait()


def _draw(state: Expected, rng: np.random.Generator) -> Done:
    kind = int(rng.integers(6))
    if kind == 0:
        return Done("undo")
    nodes = rng.permutation(N_NODES).tolist()
    unlabelled = [node for node in nodes if not state.labels[node]]
    if kind == 1 and unlabelled:
        return Done("skip", (unlabelled[0],))
    n_nodes = 3 if kind == 2 else 1
    return Done("chosen", tuple(nodes[:n_nodes]), f"class {rng.integers(3)}")


def check(graph: Graph, path: Path, actions: list[Done]) -> list[Done]:
    """The confirmed actions, with the one that was saved but not confirmed if there is one.

    Anything else that the file has otherwise is an AssertionError.
    """
    if not path.exists():  # killed before the first answer
        assert not actions, "the file is gone"
        return actions
    with LabelFile(path) as file:
        answers = Answers(graph, file)
    if not after(actions).differences(answers):
        return actions
    lines = read_label_lines(path)
    last = lines[-1]
    together = [line for line in lines if (line.action, line.how) == (last.action, last.how)]
    nodes = tuple(answers.position[line.node] for line in together)
    under_way = Done("undo") if last.how == "undo" else Done(last.how, nodes, last.label)
    extended = [*actions, under_way]
    wrong = after(extended).differences(answers)
    assert not wrong, f"after {len(actions)} confirmed actions the file has other {wrong}"
    return extended


def kill_again_and_again(folder: Path, n_kills: int, seed: int = 0) -> tuple[int, int]:
    """How many actions were confirmed, and how many were saved without having been confirmed."""
    edges = "".join(f"n{k},n{k + 1}\n" for k in range(N_NODES - 1))
    (folder / "edges.csv").write_text(f"source,target\n{edges}")
    graph = read_tables(folder / "edges.csv").graph
    rng = np.random.default_rng(seed)
    actions: list[Done] = []
    n_unconfirmed = 0
    for number in range(n_kills):
        with command("--edges", "edges.csv", "-o", "labels.csv", cwd=folder) as (process, address):
            answer_until_killed(address, process, actions, rng)
        n_confirmed = len(actions)
        actions = check(graph, folder / "labels.csv", actions)
        n_unconfirmed += len(actions) - n_confirmed
        if number % 20 == 19:
            print(f"{number + 1} kills, {len(actions):,} actions, nothing lost", flush=True)
    return len(actions) - n_unconfirmed, n_unconfirmed


def main() -> None:
    """Kill, and say what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("n_kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        confirmed, unconfirmed = kill_again_and_again(Path(folder), given.n_kills, given.seed)
    print(
        f"{given.n_kills} kills: {confirmed:,} confirmed actions, all there; "
        f"{unconfirmed} more were saved when the server died before it could say so"
    )


if __name__ == "__main__":
    main()
