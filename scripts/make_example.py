"""Write an example of data of one's own: papers that cite each other, some with a known topic.

    python scripts/make_example.py papers

makes papers/edges.csv (source, target) and papers/nodes.csv (id, title, venue, year, label). Papers
mostly cite papers of their own topic; titles and venues hint at it. The label is empty for most.

Papers appear one after another, so `--papers 700` gives the 600 of the default and 100 later ones:
nodes that a model trained on the default has not seen. `--labelled 1` gives the same papers with
all their topics: the answers, for who wants to check.
"""

from __future__ import annotations

import argparse
import csv
import random
from dataclasses import astuple, dataclass, fields
from pathlib import Path

TOPICS = {
    "databases": (
        "query index transaction join storage schema relational column cache recovery",
        "VLDB SIGMOD",
    ),
    "language": (
        "parsing translation sentence grammar dialogue word corpus speech summary syntax",
        "ACL EMNLP",
    ),
    "networks": (
        "routing packet wireless congestion latency protocol switch topology spectrum traffic",
        "SIGCOMM INFOCOM",
    ),
    "theory": (
        "complexity approximation bound randomness proof hardness lattice automata matching cut",
        "STOC FOCS",
    ),
    "vision": (
        "image segmentation stereo texture pose camera detection shape tracking contour",
        "CVPR ICCV",
    ),
}
COMMON = (
    "a new fast method for on the with efficient towards learning large scale analysis of "
    "model systems revisited approach data structure search study simple robust"
)
ANYWHERE = ["arXiv", "PLOS ONE"]
SHARE_LABELLED = 0.3
SHARE_OWN_TOPIC = 0.8


@dataclass(frozen=True)
class Paper:
    """A row of nodes.csv."""

    id: str
    title: str
    venue: str
    year: int
    label: str


def make_papers(
    n_papers: int, labelled: float = SHARE_LABELLED, seed: int = 0
) -> tuple[list[Paper], list[tuple[str, str]]]:
    """Papers in the order in which they appeared, and (citing, cited) pairs of ids."""
    rng = random.Random(seed)
    papers: list[Paper] = []
    citations: list[tuple[str, str]] = []
    of_topic: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for number in range(n_papers):
        topic = rng.choice(list(TOPICS))
        paper = _write_paper(rng, number, topic, labelled)
        for _ in range(rng.randint(1, 4)):
            own = rng.random() < SHARE_OWN_TOPIC
            earlier = of_topic[topic] if own else [older.id for older in papers]
            if earlier:
                citations.append((paper.id, rng.choice(earlier)))
        papers.append(paper)
        of_topic[topic].append(paper.id)
    return papers, list(dict.fromkeys(citations))


def _write_paper(rng: random.Random, number: int, topic: str, labelled: float) -> Paper:
    words, venues = (text.split() for text in TOPICS[topic])
    title = rng.sample(COMMON.split(), rng.randint(3, 6)) + rng.sample(words, rng.randint(0, 2))
    rng.shuffle(title)
    venue = rng.choice(venues if rng.random() < 0.5 else ANYWHERE)
    label = topic if rng.random() < labelled else ""
    return Paper(f"p{number:04d}", " ".join(title).capitalize(), venue, 2001 + number // 30, label)


def write_example(folder: Path, n_papers: int = 600, labelled: float = SHARE_LABELLED) -> str:
    """Write edges.csv and nodes.csv to a folder, and say what is in them."""
    papers, citations = make_papers(n_papers, labelled)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "edges.csv": [("source", "target"), *citations],
        "nodes.csv": [[field.name for field in fields(Paper)], *map(astuple, papers)],
    }
    for name, rows in tables.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return f"{len(papers)} papers and {len(citations)} citations written to {folder}"


def main() -> None:
    """Write the two files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--papers", type=int, default=600)
    parser.add_argument("--labelled", type=float, default=SHARE_LABELLED, metavar="SHARE")
    arguments = parser.parse_args()
    print(write_example(arguments.folder, arguments.papers, arguments.labelled))


if __name__ == "__main__":
    main()
