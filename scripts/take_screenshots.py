"""docs/images/report-*.png: the guide's pictures of a real report page, that of Cora.

    python -m scripts.take_screenshots

trains the paper's model, writes its report and photographs it in headless chromium.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from PIL import Image
from tests.browser import Browser, open_browser

from graphconv.commands.console import Screen
from graphconv.commands.data_source import DataRequest
from graphconv.commands.train import run_training
from graphconv.commands.training_job import ModelRequest

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDTH = 900
MAX_BYTES = 200_000
# Section that each picture shows, and at most how many pixels from its top.
SHOTS = {
    "short": ("#short", 900),
    "map": ("#find", 1600),
    "unsure": ("#unsure", 620),
    "good": ("#good", 1300),
    "drives": ("#drives", 640),
    "trust": ("#trust", 1200),
    "data": ("#data-card", 900),
    "learning": ("#learning", 700),
}


def photograph(browser: Browser, page: Path) -> Image.Image:
    """The whole page, once its charts are drawn, with the node shown that it is least sure of."""
    height = 1000
    for _ in range(2):
        browser.open(page, width=WIDTH, height=height)
        browser.wait("document.querySelectorAll('.chart .main-svg').length > 3", "charts")
        browser.run(
            "choose(Number(document.querySelector('#unsure [data-node]').dataset.node), false)"
        )
        browser.wait("document.querySelector('#node h4') !== null", "the node")
        height = browser.run("return document.documentElement.scrollHeight")
    return Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")


def crop(browser: Browser, picture: Image.Image, section: str, most: int) -> Image.Image:
    """A section, cut off below the last row, paragraph or figure that fits."""
    top, bottom = browser.run(_EXTENT, section, most)
    return picture.crop((0, int(top), WIDTH, int(bottom)))


_EXTENT = """
const [selector, most] = arguments;
const section = document.querySelector(selector);
const {top, bottom} = section.getBoundingClientRect();
if (bottom <= top + most) return [top, bottom];
const parts = [...section.querySelectorAll("tr, p, figure")];
const ends = parts.map(part => part.getBoundingClientRect().bottom);
return [top, Math.max(...ends.filter(end => end <= top + most))];
"""


def main() -> None:
    """Write the pictures, each below 200 kB."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "cora"
        wanted = ModelRequest("gcn", "paper", {}, 0, 1, "auto")
        run_training(DataRequest("cora"), wanted, folder, Screen(quiet=True), with_report=True)
        browser = open_browser()
        try:
            whole = photograph(browser, folder / "report.html")
            for shot, (section, most) in SHOTS.items():
                picture = crop(browser, whole, section, most)
                path = IMAGES / f"report-{shot}.png"
                picture.quantize(128).save(path, optimize=True)
                size = path.stat().st_size
                print(f"{path.name}: {picture.width} x {picture.height}, {size:,} bytes")
                if size > MAX_BYTES:
                    raise SystemExit(f"{path.name} must be below {MAX_BYTES:,} bytes, got {size:,}")
        finally:
            browser.driver.quit()


if __name__ == "__main__":
    main()
