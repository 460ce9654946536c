"""docs/scaling.md, made from scaling.json and distributed.json in measured/ by `make scale`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.generated_pages import DOCS, measured, write_pages

from graphconv.io.wording import duration
from graphconv.paper.page import machine_text
from graphconv.storage.memory import in_units


def table(columns: list[str], rows: list[list[str]]) -> str:
    marks = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, marks, *rows))


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    path = results["path"]
    steps = [
        [name, duration(step["seconds"]), in_units(step["peak_bytes"])]
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


def several_processes(results: dict[str, Any]) -> list[str]:
    """The section on training by several processes."""
    equality = [
        [row["dataset"], row["rule"], str(row["processes"]), f"{row['difference']:.1e}"]
        for row in results["equality"]
    ]
    n_epochs = results["equality"][0]["n_epochs"]
    cores = results["machine"]["cores"]
    crowding = ", ".join(
        f"{100 / ratio:.0f} % for {count}" for count, ratio in results["crowding"].items()
    )
    return [
        "## Several processes",
        machine_text(results),
        "Each process has one thread and one part of the graph, and they talk over gloo on one "
        f"machine of {cores} cores. These share caches and memory, so the most that can be hoped "
        "for is what processes reach that train at once, each for itself and with nothing to say "
        f"to the others; of their speed alone that was {crowding}. What is missing below that "
        "is the price of working together. Bytes and memory are those that machines of a cluster "
        "would have. How fast a network carries the bytes can't be seen on one machine.",
        "### The same losses",
        f"The largest relative difference between the training loss of one process and that of "
        f"several, in {n_epochs} epochs with dropout.",
        table(["graph", "rule", "processes", "difference"], equality),
        "### The same graph, more processes",
        f"Planted partitions with {results['edges_a_node']} edges a node, {results['n_features']} "
        f"features and {results['n_classes']} classes, all nodes labelled, one hidden layer of "
        f"{results['hidden']}, full batch. An epoch includes validation. Memory and bytes are of "
        f"the process with most of each; of {results['rounds']} rounds, in which all take turns, "
        "the fastest counts. What the cut demands is the halo rows of a training step, forward and "
        "backward; what is sent for them is less where labels do not reach all rows.",
        _runs(results["strong"], "speed-up"),
        "### As many edges for each process",
        _runs(results["weak"], "efficiency"),
        "### What larger graphs would take",
        *_cost_model(results),
    ]


def _runs(runs: list[dict[str, Any]], ratio: str) -> str:
    rows = []
    for run in runs:

        def most(name: str, ranks: list[dict[str, int]] = run["ranks"]) -> int:
            return max(rank[name] for rank in ranks)

        rows.append(
            [
                str(run["processes"]),
                f"{run['n_edges']:,}",
                f"{run['epoch_seconds']:.2f} s",
                f"{runs[0]['epoch_seconds'] / run['epoch_seconds']:.2f}",
                in_units(most("peak_memory")),
                in_units(most("sent_training")),
                in_units(most("cut_demands")),
                in_units(most("sent_validation") + most("sent_gradients")),
            ]
        )
    columns = ["processes", "edges", "epoch", ratio, "memory", "sent for halo rows"]
    return table([*columns, "cut demands", "validation and gradients"], rows)


def _cost_model(results: dict[str, Any]) -> list[str]:
    seconds, memory = results["model"]["seconds"], results["model"]["memory"]
    by_work, by_byte, by_message = seconds["factors"]
    base, by_node, by_halo = memory["factors"]
    rows = [
        [
            f"{row['n_edges']:.0e}",
            f"{row['processes']:,}",
            duration(row["seconds"]),
            in_units(row["memory"]),
            in_units(row["sent"]),
        ]
        for row in results["predicted"]
    ]
    return [
        "A model with no negative terms, fitted to all runs above; work takes as much longer "
        "beside others as it did for processes that each train for themselves. For each process an "
        "epoch takes "
        f"{1e9 * by_work:.3f} ns for each multiply-add of a forward pass (entries of its rows x "
        "widths of the layers, and nodes x features x widths; training and validation included), "
        f"{1e9 * by_byte:.3f} ns for each byte sent and {1e6 * by_message:.0f} µs for a message; "
        f"the largest error is {100 * seconds['largest_error']:.0f} %. Its memory is "
        f"{in_units(base)}, {by_node:,.0f} bytes for each of its nodes with edges and features and "
        f"{by_halo:,.0f} for each halo row; the largest error is "
        f"{100 * memory['largest_error']:.0f} %.",
        "Assumed for larger graphs: the same kind of graph and model; a core and "
        f"{in_units(results['process_bytes'])} of memory for each process, as many processes as "
        "that needs; parts of equal size, with as many halo rows for each node as in the largest "
        "run above with most processes, though the share grows with the number of parts; "
        f"{in_units(results['network_speed'])} a second between machines, instead of the measured "
        "bytes, which never left the machine; messages as slow as measured. Nothing of the kind "
        "was run: these are extrapolations over several powers of ten.",
        table(["edges", "processes", "epoch", "memory of each", "sent by each"], rows),
    ]


def pages() -> dict[Path, str]:
    """The page that is made from measured/scaling.json, with the text it should have."""
    several = "\n\n".join(several_processes(measured("distributed")))
    return {DOCS / "scaling.md": f"{page(measured('scaling'))}\n{several}\n"}


if __name__ == "__main__":
    write_pages(pages())
