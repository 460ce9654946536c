"""Add to the corpus of fuzzing a file for each refusal that none of its files leads to yet.

    python -m scripts.fuzz_corpus [--inputs N] [--seed N]

A refusal is told by its words without numbers and quotations. Small files only, and few of a kind:
the corpus is where changes begin, and each of its files is read by the tests.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import warnings
from pathlib import Path

from scripts.fuzz_targets import CORPUS, Target, all_targets, temporary_folder

from scripts import fuzz

MOST_FILES, MOST_BYTES = 6, 4096


def refusal(target: Target, content: bytes) -> str:
    """The words in which an input is refused, without what differs from input to input."""
    try:
        target.read(content)
    except (ValueError, TypeError, OSError) as error:
        words = re.sub(r"'[^']*'|\"[^\"]*\"|[^\s:,]*[\d/][^\s:,]*", "", str(error))
        return "-".join(re.findall(r"[a-z]+", words.lower()))
    return "taken"


def collect(name: str, target: Target, seed: int, n_inputs: int) -> int:
    """Write files for refusals that are new; returns how many."""
    known = {refusal(target, content) for content in (target.content, *target.corpus)}
    found: dict[str, bytes] = {}
    for number in range(len(target.corpus), n_inputs):
        content = target.made(random.Random(f"{seed} {name} {number}"), number)
        words = refusal(target, content)
        shortest = found.get(words)
        if words not in known and (shortest is None or len(content) < len(shortest)):
            found[words] = content
    small = [words for words in found if len(found[words]) <= MOST_BYTES]
    folder = CORPUS / name.replace("/", "-")
    kept = small[: max(0, MOST_FILES - len(target.corpus))]
    for words in kept:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "-".join(words.split("-")[-7:])).write_bytes(found[words])
    return len(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    with temporary_folder() as folder:
        targets = all_targets(Path(folder))
        for name in fuzz.KINDS:
            n_inputs = given.inputs // 20 if name == "ingest" else given.inputs
            print(name, collect(name, targets[name], given.seed, n_inputs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
