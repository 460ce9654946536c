"""docs/scaling.md, made from docs/scaling.json by `make scale`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphconv.experiments.page import machine_text
from graphconv.experiments.progress import in_words
from graphconv.files import replacing_file
from graphconv.memory import in_units

DOCS = Path(__file__).resolve().parent.parent / "docs"


def table(columns: list[str], rows: list[list[str]]) -> str:
    marks = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, marks, *rows))


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    path = results["path"]
    steps = [
        [name, in_words(step["seconds"]), in_units(step["peak_bytes"])]
        for name, step in path["steps"].items()
    ]
    estimates = [
        [
            f"{row['n_nodes']:,}",
            in_units(row["estimated"]),
            in_units(row["peak_bytes"]),
            f"{100 * (row['estimated'] / row['peak_bytes'] - 1):+.0f} %",
        ]
        for row in results["estimates"]
    ]
    sampling = [
        [
            row["dataset"],
            f"{row['full']:.1f} ± {row['full_std']:.1f}",
            f"{row['sampled']:.1f} ± {row['sampled_std']:.1f}",
            f"{row['sampled'] - row['full']:+.1f}",
        ]
        for row in results["sampling"]
    ]
    first = results["sampling"][0]
    parts = [
        "<!-- Made by `make scale` from scaling.json: do not edit. -->",
        "# Graphs larger than memory",
        machine_text(results),
        "## From tables to predictions",
        f"A planted partition of {path['n_nodes']:,} nodes, {path['n_edges']:,} undirected edges "
        f"and {path['n_features']} features: {in_units(path['table_bytes'])} of Parquet files, "
        f"{in_units(path['graph_bytes'])} as a graph folder. Each step is a process of its own; "
        f"its peak is the most memory it had resident, pages of mapped files included. Ingest was "
        f"told to stay within {in_units(path['cap_bytes'])}. Training: {path['epochs']} epochs "
        f"over {path['n_train']:,} nodes in batches of {path['batch_size']:,} with 10 neighbours a "
        f"hop, then prediction of all nodes. Test accuracy {100 * path['test_accuracy']:.1f} %.",
        table(["step", "time", "peak memory"], steps),
        "## Memory, estimated and measured",
        "Full-batch training with 64 features and 10 edges a node: what was estimated before it, "
        "and the peak of the process.",
        table(["nodes", "estimated", "measured", "difference"], estimates),
        "## What sampling costs",
        f"Test accuracy in percent, mean and deviation over {first['n_seeds']} seeds: full batch, "
        f"and batches of {first['batch_size']} nodes with {first['fanout']} neighbours a hop.",
        table(["data set", "full batch", "sampled", "difference"], sampling),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    results = json.loads((DOCS / "scaling.json").read_text(encoding="utf-8"))
    with replacing_file(DOCS / "scaling.md") as new:
        new.write_text(page(results), encoding="utf-8")
    print("wrote docs/scaling.md")


if __name__ == "__main__":
    main()
