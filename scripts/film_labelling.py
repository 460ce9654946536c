"""docs/images/label*.png and docs/figures/label.gif: the labelling page, photographed at work.

    python -m scripts.film_labelling

labels the papers of scripts/make_example.py, by keys and from no label at all, answering by the
truth. Every frame of the animation is a screenshot of the real page.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from tests.browser import Browser, open_browser
from tests.label_server import serving, until

from graphconv.graph import Graph
from graphconv.io.readers import read_tables

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SIZE = (1200, 820)
N_ANSWERS = 28
SECONDS_A_FRAME = 0.7


def read_example(folder: Path) -> tuple[Graph, dict[str, list[Any]], list[str]]:
    """The example's graph without a label, its readable columns, and the true topics."""
    made = [sys.executable, "scripts/make_example.py", str(folder), "--labelled", "1"]
    subprocess.run(made, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    nodes = pd.read_csv(folder / "nodes.csv", dtype=str)
    truth = nodes.pop("label").tolist()
    nodes.to_csv(folder / "unlabelled.csv", index=False)
    graph = read_tables(
        folder / "edges.csv",
        folder / "unlabelled.csv",
        text=["title"],
        categorical=["venue"],
        require_label=False,
    ).graph
    return graph, {name: nodes[name].tolist() for name in ("title", "venue", "year")}, truth


def photograph(browser: Browser) -> Image.Image:
    return Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")


def answer(browser: Browser, truth: list[str]) -> None:
    """The question that is shown, by the keyboard."""
    node = browser.run("return question.node")
    known = browser.run("return card.classes")
    if truth[node] in known:
        browser.press(str(known.index(truth[node]) + 1))
    else:
        browser.press("n")
        browser.wait("document.getElementById('naming').open", "the dialog")
        browser.press(truth[node], "\ue007")
    browser.wait(
        f"question.node !== {node} && state.picture === state.answers", "the next question", 60
    )


def film(browser: Browser, folder: Path) -> None:
    """Label, and write the pictures."""
    graph, table, truth = read_example(folder)
    with serving(graph, folder / "labels.csv", table, who="ann") as (session, access):
        browser.visit(access.address(), *SIZE)
        browser.wait("card !== null && state.mapVersion > 0", "the page", 60)
        frames = [photograph(browser)]
        for _ in range(N_ANSWERS):
            answer(browser, truth)
            browser.wait("document.querySelectorAll('#why li').length || !card.hasModel", "why", 60)
            frames.append(photograph(browser))
        until(lambda: session.is_settled, 60)
        right = np.mean([session.answers.class_names[k] == t
                         for k, t in zip(session.found, truth, strict=True)])  # fmt: skip
        print(f"{len(session.answers.labelled)} answers, {100 * right:.1f} % of all nodes right")
        _save(frames[1], "label-start")
        _save(photograph(browser), "label-later")
        browser.run("document.getElementById('progress').scrollIntoView()")
        _save(photograph(browser), "label-progress")
        browser.visit(access.address(), 390, 844, dark=True)
        browser.wait("card !== null && shown.looks === state.looks", "the page", 60)
        _save(photograph(browser), "label-phone")
    small = [frame.resize((800, 800 * SIZE[1] // SIZE[0])).quantize(64) for frame in frames]
    path = ROOT / "docs" / "figures" / "label.gif"
    small[0].save(
        path,
        save_all=True,
        append_images=small[1:],
        duration=round(1000 * SECONDS_A_FRAME),
        loop=0,
        optimize=True,
    )
    print(f"{path.name}: {len(frames) * SECONDS_A_FRAME:.0f} s, {path.stat().st_size:,} bytes")


def _save(picture: Image.Image, name: str) -> None:
    path = IMAGES / f"{name}.png"
    picture.quantize(128).save(path, optimize=True)
    print(f"{path.name}: {picture.width} x {picture.height}, {path.stat().st_size:,} bytes")


def main() -> None:
    """Write the pictures and the animation."""
    browser = open_browser()
    try:
        with tempfile.TemporaryDirectory() as name:
            film(browser, Path(name) / "papers")
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
