"""How long after an answer a labelling page can show what it changed. Run by `make latency`.

    python -m scripts.measure_latency [DATASET ...]

Starts `graphconv label` on a data set without its labels and answers its questions by the truth,
one as soon as the page shows the last. Measured is the time from sending an answer until the news
have come that the model knows it, and the nodes' new classes with them: what the browser waits for
but for drawing. Median and 95th percentile are kept in measured/latency.json, a data set at a time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
from tests.label_server import client, command

from graphconv import load_dataset

ROOT = Path(__file__).resolve().parent.parent
N_ANSWERS = 60


def measure(dataset: str, n_answers: int = N_ANSWERS) -> dict[str, float]:
    """Milliseconds until the page has the picture, over answers to a server of its own."""
    truth = load_dataset(dataset)
    names = [str(name) for name in truth.class_names]
    with (
        tempfile.TemporaryDirectory() as folder,
        command(dataset, "--no-labels", cwd=folder) as (_, address),
        client(address) as http,
        httpx.stream("GET", f"{address}api/events", timeout=60) as news,
    ):
        lines = news.iter_lines()
        until_picture(lines, 0)
        seconds, saved = [], []
        for number in range(n_answers):
            asked = http.get("api/question?page=one").json()["question"]
            label = names[int(truth.labels[asked["node"]])]
            sent = {"nodes": [asked["node"]], "label": label, "how": asked["how"], "page": "one"}
            began = time.perf_counter()
            http.post("api/answer", json=sent).raise_for_status()
            saved.append(time.perf_counter() - began)
            until_picture(lines, number + 1)
            http.get("api/nodes").raise_for_status()
            seconds.append(time.perf_counter() - began)
    return {
        "answers": n_answers,
        "median": round(1000 * float(np.median(seconds))),
        "95th percentile": round(1000 * float(np.percentile(seconds, 95))),
        "saved, median": round(1000 * float(np.median(saved))),
    }


def until_picture(lines: Iterator[str], n_answers: int) -> None:
    """Read news until the model knows so many answers."""
    for line in lines:
        known = (
            json.loads(line.removeprefix("data: "))["picture"] if line.startswith("data: ") else -1
        )
        if known >= n_answers:
            return


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="*", default=["cora", "pubmed"])
    parser.add_argument("--answers", type=int, default=N_ANSWERS)
    given = parser.parse_args()
    path = ROOT / "measured" / "latency.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for dataset in given.datasets:
        kept[dataset] = measure(dataset, given.answers)
        print(dataset, kept[dataset], flush=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
