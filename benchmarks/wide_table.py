"""How long a wide table of counts takes to read, and how much memory.

    python -m benchmarks.wide_table

Writes a CSV file of 18,333 rows and 6,805 columns, about 250 MB and mostly zeros, into a temporary
folder, and reads it in a process of its own. The aim: less than 15 s of CPU time and 1 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

AIM = {"cpu_seconds": 15.0, "peak_gb": 1.0}


def write_tables(folder: Path, n_rows: int, n_columns: int) -> None:
    """Nodes with a count for each of many words, and edges between them."""
    rng = np.random.default_rng(0)
    with (folder / "nodes.csv").open("w") as file:
        file.write("id,label," + ",".join(f"w{place}" for place in range(n_columns)) + "\n")
        for row in range(n_rows):
            counts = np.zeros(n_columns, dtype=np.int64)
            n_words = rng.integers(20, 50)
            counts[rng.integers(0, n_columns, n_words)] = rng.integers(1, 5, n_words)
            file.write(f"a{row},c{row % 15}," + ",".join(map(str, counts)) + "\n")
    ends = rng.integers(0, n_rows, (4 * n_rows, 2))
    lines = (f"a{source},a{target}\n" for source, target in ends)
    (folder / "edges.csv").write_text("source,target\n" + "".join(lines))


def measure(folder: Path) -> None:
    """Read the tables and print what it took, as JSON."""
    from graphconv import read_tables

    started, cpu = time.perf_counter(), time.process_time()
    graph = read_tables(folder / "edges.csv", folder / "nodes.csv").graph
    features = graph.features
    print(
        json.dumps(
            {
                "cpu_seconds": time.process_time() - cpu,
                "seconds": time.perf_counter() - started,
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
                "shape": list(features.shape),
                "entries": int(features.nnz),
            }
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=18_333)
    parser.add_argument("--columns", type=int, default=6_805)
    parser.add_argument("--folder", type=Path, help="measure the tables in this folder only")
    given = parser.parse_args()
    if given.folder is not None:
        measure(given.folder)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, given.rows, given.columns)
        size = (folder / "nodes.csv").stat().st_size
        child = [sys.executable, "-m", "benchmarks.wide_table", "--folder", str(folder)]
        found = json.loads(subprocess.run(child, check=True, capture_output=True).stdout)
    print(f"{size / 1e6:.0f} MB, {found['shape'][0]:,} x {found['shape'][1]:,}")
    print(f"{found['cpu_seconds']:.1f} s of CPU time (aim: {AIM['cpu_seconds']:.0f})")
    print(f"{found['peak_gb']:.2f} GB at most (aim: {AIM['peak_gb']:.0f})")
    return int(any(found[name] > aim for name, aim in AIM.items()))


if __name__ == "__main__":
    sys.exit(main())
