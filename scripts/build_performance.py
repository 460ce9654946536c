"""docs/performance.md and its figure, made from measured/performance.json.

python -m scripts.build_performance              from what is committed
python -m scripts.build_performance runs/bench   take over the results of `make bench` first
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from scripts.generated_pages import DOCS, MEASURED, measured, write_pages

from graphconv.paper.page import machine_text

NAMES = {"cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed", "nell": "NELL"}
# Ratios that were set as goals: how many times as long as ours a peer's epoch should take.
GOALS = {
    "PyG": {"cora": 50, "citeseer": 50, "pubmed": 60},
    "PyG, tuned": {"cora": 5, "citeseer": 5, "pubmed": 15},
    "plain torch": {"cora": 2.5, "citeseer": 2.5, "pubmed": 6, "nell": 8},
}
KERNELS = {
    "propagate": "gathers the rows of neighbours; scaling on both sides is fused in",
    "feature_product": "sparse features times weights, dropout decided by a hash on the way",
    "feature_product_transposed": "its gradient: the same hashes again, a scattered sum",
    "packed_product": "features that are summed beforehand and lie in the order of use times the "
    "weights of four replicas, some columns at a time",
    "hidden_product": "ReLU, dropout and product with the next layer's weights in one",
    "hidden_product_backward": "both gradients of that in one pass over the rows",
    "wide_product": "the same for wide layers and dense features; multiply-adds are fused",
    "wide_product_backward": "its gradients, in parts of rows that are added up in order",
    "propagate_dropped": "sums dense features over neighbours and drops them out on the way",
}


def table(header: list[str], rows: list[list[Any]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def earlier(results: dict[str, Any]) -> str:
    """Which parts are of another day or version than the newest."""
    newest = {"date": results["date"], "version": results["machine"]["graphconv"]}
    others: dict[str, list[str]] = {}
    for name, when in results.get("when", {}).items():
        if when != newest:
            others.setdefault(f"{when['date']} with version {when['version']}", []).append(name)
    return "".join(
        f" Of {when} still are: {', '.join(names).replace('_', ' ')}."
        for when, names in others.items()
    )


def verdict(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def side_by_side(part: dict[str, Any], accuracies: dict[str, dict[str, float]]) -> str:
    data = part["data"]
    peers = list(dict.fromkeys(peer for row in data.values() for peer in row))
    times = [
        [peer, *(f"{data[d][peer]['milliseconds']:.2f}" if peer in data[d] else "" for d in data)]
        for peer in peers
    ]
    ratios = []
    for peer in peers[1:]:
        cells = []
        for name, row in data.items():
            goal = GOALS.get(peer, {}).get(name)
            text = f"{row[peer]['ratio']:.1f}x" if peer in row else ""
            cells.append(f"{text} (goal {goal}x)" if text and goal else text)
        ratios.append([peer, *cells])
    accuracy = [
        [
            peer,
            *(
                f"{own[peer]:.1f}" if peer in own else ""
                for own in (accuracies.get(d, {}) for d in data)
            ),
        ]
        for peer in peers
    ]
    header = [NAMES[name] for name in data]
    what = "\n".join(f"- {name}: {text}." for name, text in part["what"].items())
    missing = "\n".join(f"- {name} is not here: {why}." for name, why in part["missing"].items())
    return f"""## An epoch, side by side

Milliseconds of a training epoch with its validation pass: the paper's settings (hidden 16 and
dropout 0.5, on NELL 64 and 0.1; L2 on the first layer), public splits. Each library takes turns
with graphconv in one process; the figures are medians over the turns.

{table(["milliseconds", *header], times)}

How many times as long as graphconv in the same turn:

{table(["", *header], ratios)}

That the same work is compared shows in the accuracy after 200 epochs of one seed (percent of the
test nodes):

{table(["", *header], accuracy)}

{what}
{missing}

![Milliseconds of an epoch in each library](figures/performance.png)
"""


def starts(seconds: dict[str, float]) -> str:
    """What fresh processes take, beside imports that others cannot do without."""
    both = "import torch and scikit-learn"
    # For each process: what it is compared with, and how many times that it may take.
    goals = {
        "train cora": ("import torch", 1.3),
        "train on a table": ("import torch", 1.3),
        "train on a table, method chosen": ("import torch", None),
        "import GCNClassifier": (both, 1),
        "import GCNClassifier and what fit needs": (both, None),
    }
    rows = []
    for name, taken in seconds.items():
        beside, most = goals.get(name, (None, None))
        ratio = taken / seconds[beside] if beside else None
        rows.append(
            [
                name,
                f"{taken:.2f}",
                "" if beside is None else f"{ratio:.2f} times {beside}",
                "" if ratio is None or most is None else f"{most}, {verdict(ratio <= most)}",
            ]
        )
    return f"""Fresh processes, from the first import to the last file, taking turns; bytecode is
at hand, as after `pip install`. The table has 600 nodes with a text, a category and a number. With
`--preset robust` it is trained on at once; without, the method is chosen first, by some thirty
trainings, and scikit-learn is imported. Nothing here imports torch, which is needed for other
devices, for processes of torchrun, and for two of the paper's baselines:

{table(["", "seconds", "", "at most"], rows)}"""


def whole_runs(results: dict[str, Any]) -> str:
    inference, replicas = results["inference"], results["replicas"]
    rows = [
        [
            NAMES[name],
            settings,
            f"{row['singly_seconds']:.2f}",
            f"{row['together_seconds']:.2f}",
            f"{row['ratio']:.2f}",
            verdict(row["ratio"] <= 0.5) if key == "data" else "",
        ]
        for key, settings in (
            ("data", "paper, 100 epochs"),
            ("default", "default"),
            ("commands", "paper, as commands"),
        )
        for name, row in replicas[key].items()
    ]
    n = replicas["n_replicas"]
    return f"""## Whole runs

{starts(results["end_to_end"]["seconds"])}

Predicting all of Pubmed takes {inference["predict_milliseconds"]:.1f} ms, a bare forward pass
{inference["forward_milliseconds"]:.1f} ms: {inference["ratio"]:.2f} times (goal: at most 1.3,
{verdict(inference["ratio"] <= 1.3)}).

{n} seeds trained by one call, and by a call each, CPU seconds on one thread (goal: at most half).
With the default settings each model stops when its time has come. As commands, `graphconv train
--runs {n}` is compared with {n} times `graphconv train --seed`, each a process: most of what that
saves is starting Python {n - 1} times, so it says little about training and is not what
the goal is about:

{table(["", "settings", f"{n} single runs", "at once", "ratio", ""], rows)}
"""


def checks(results: dict[str, Any]) -> str:
    rows = [
        [
            NAMES[name],
            f"{row['epoch_microseconds']:.0f}",
            f"{row['looking_microseconds']:.0f}",
            f"{row['finding_nanoseconds']:.0f} x {row['calls']:.0f}",
            f"{100 * row['share']:.2f} %",
            verdict(row["share"] < 0.01),
        ]
        for name, row in results["checks"].items()
    ]
    header = ["", "an epoch, µs", "looking, once, µs", "finding, ns x calls", "share", "below 1 %"]
    return f"""## Checks

The kernels check every index before they follow it. Rows that nobody can write to, such as those of
a Graph, are looked through once in a training and found in a small table afterwards. "Finding" is
how much longer that takes than looking through a single row. The paper's model, 200 epochs:

{table(header, rows)}
"""


def large(results: dict[str, Any]) -> str:
    products = [
        [
            f"{row['edges']:,}",
            f"{row['bytes'] / 1e6:,.0f}",
            f"{row['least_bytes'] / 1e6:,.0f}",
            f"{row['milliseconds']:.2f}",
            f"{row['gigabytes_per_second']:.1f}",
            f"{row['copy_gigabytes_per_second']:.1f}",
            f"{100 * row['share']:.0f} %",
            f"{100 * row['least_share']:.0f} %",
            verdict(row["share"] >= 0.6),
        ]
        for row in results["propagation"]
    ]
    epochs = [
        [
            f"{row['edges']:,}",
            f"{1e3 * row['seconds']:,.1f}",
            f"{row['peak_bytes'] / 1e6:,.0f}",
            f"{row['least_bytes'] / 1e6:,.0f}",
            f"{row['ratio']:.1f}",
        ]
        for row in results["large_graphs"]["rows"]
    ]
    slope = results["large_graphs"]["slope"]
    return f"""## Large graphs

The propagation product on random graphs, hidden 32, beside the bandwidth of copying memory, both on
all cores (goal: 60 %). Bytes that must move: every neighbour's row and index, the node's own row
for its self-loop, both scales, and every row of the result. A table past the caches is fetched a
row at a time, from anywhere, so a row moves once for every neighbour. "At least" counts each row
once, as if a cache held them all.

{
        table(
            [
                "edges",
                "MB to move",
                "MB at least",
                "ms",
                "GB/s",
                "GB/s copying",
                "share",
                "share at least",
                "",
            ],
            products,
        )
    }

An epoch (forward, loss, backward, Adam) with all nodes labelled. The peak is that of the whole
process, Python and torch with their 300 MB included; the least is graph, weights and one set of
activations. Goal: three times the least, where the process itself no longer weighs.

{table(["edges", "ms an epoch", "peak MB", "least MB", "ratio"], epochs)}

Slope of the epoch's time in log-log: {slope:.2f} (goal: at most 1.05, {verdict(slope <= 1.05)}).
"""


def roofline(results: dict[str, Any]) -> str:
    part = results["roofline"]
    rows = [
        [
            f"{row['kernel']}, {NAMES.get(row['data'], row['data'])}",
            f"{row['microseconds']:.0f}",
            f"{row['attainable_microseconds']:.0f}",
            f"{100 * row['share']:.0f} %",
            row["limit"],
        ]
        for row in part["rows"]
    ]
    speeds = ", ".join(
        f"{speed:.0f} GB/s from {name}" for name, speed in part["gigabytes_per_second"].items()
    )
    what = "\n".join(f"- `{name}` {text}." for name, text in KERNELS.items())
    return f"""## Kernels against the machine

One thread, width 16 (on the random graph 32) unless said. Attainable is the larger of two times:
that of moving the bytes at the speed of copying from where they lie ({speeds}), and that of the
multiply-adds at the speed of dense products
({part["multiply_adds_per_nanosecond"]:.0f} a nanosecond).
Hashes, masks and index arithmetic count as nothing there, which holds down the share of kernels
with dropout. "Cache" is the second one; what a kernel finds in the nearest it reads faster, so it
may come to more than 100 %.

{table(["kernel", "µs", "attainable µs", "share", "limited by"], rows)}

{what}
"""


def where_time_goes(results: dict[str, Any]) -> str:
    part = results["profile"]
    names = list(dict.fromkeys(name for row in part.values() for name in row["parts"]))
    rows = [
        [name, *(f"{row['parts'].get(name, 0):.0f}" for row in part.values())] for name in names
    ]
    rows.append(["epoch", *(f"{row['microseconds']:.0f}" for row in part.values())])
    threads = [
        [NAMES[name], f"{row['one_thread']:.2f}", f"{row['two_threads']:.2f}", f"{row['gain']:.2f}"]
        for name, row in results["thread_gain"].items()
    ]
    busy = [
        [
            NAMES[name],
            f"{row['quiet']:.2f}",
            f"{row['busy']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_of_means']:.2f}",
            verdict(row["ratio"] <= 3),
        ]
        for name, row in results["busy_machine"].items()
    ]
    return f"""## Where the time of an epoch goes

Microseconds on one thread, training and validation together:

{table(["", *(NAMES[name] for name in part)], rows)}

Milliseconds of an epoch on one thread and on two:

{table(["", "one thread", "two threads", "gain"], threads)}

With a process that computes without pause on each core, the kernels on all their threads, beside a
quiet single thread (goal: at most three times):

{table(["", "quiet ms", "busy ms", "ratio of medians", "ratio of means", ""], busy)}
"""


def grid(rows: list[dict[str, Any]]) -> str:
    slower = [row for row in rows if row["ratio"] < 1]
    least = min(rows, key=lambda row: row["ratio"])
    widths = sorted({row["width"] for row in rows})
    by_key = {(row["data"], row["rule"], row["width"]): row["ratio"] for row in rows}
    lines = [
        [f"{NAMES[data]}, {rule}", *(f"{by_key[data, rule, width]:.1f}" for width in widths)]
        for data, rule in dict.fromkeys((row["data"], row["rule"]) for row in rows)
    ]
    return f"""## Native against reference kernels

How many times as long an epoch takes with the reference kernels (scipy and numpy), by width of the
hidden layer. Slower than the reference: {len(slower)} of {len(rows)}; the smallest gain is
{least["ratio"]:.1f} ({NAMES[least["data"]]}, {least["rule"]}, width {least["width"]}).

{table(["", *(f"width {width}" for width in widths)], lines)}
"""


SHAPES = {
    "large": "169,343 nodes, 1.17 million edges, 128 dense features, hidden 256,256",
    "embeddings": "20,000 nodes, 100,000 edges, 384 dense features, hidden 64",
    "third full": "7,650 nodes, 119,000 edges, 745 features a third full, hidden 64",
}


def users_data(part: dict[str, Any]) -> str:
    rows = part["rows"]
    peers = list(dict.fromkeys(peer for row in rows.values() for peer in row["peers"]))
    ours = [
        [
            SHAPES[name],
            f"{row['seconds']:.4f}",
            f"{row['ratio']:.1f}x (goal {row['goal']:.0f}x)",
            f"{row.get('alone', row['seconds']):.4f}",
            f"{row['attainable_seconds']:.4f}",
            f"{100 * row['share']:.0f} %",
            f"{row['fastest_peer']}, {row['peers'][row['fastest_peer']]['ratio']:.1f}x",
        ]
        for name, row in rows.items()
    ]
    theirs = [
        [
            peer,
            *(
                f"{row['peers'][peer]['seconds']:.3f}" if peer in row["peers"] else "failed"
                for row in rows.values()
            ),
        ]
        for peer in peers
    ]
    failed = "\n".join(
        f"- {peer}, {name}: {why}."
        for name, row in rows.items()
        for peer, why in row["missing"].items()
    )
    speed = part["speed"]
    return f"""## What users bring: dense features, wide layers, large graphs

Seconds of an epoch with its validation pass, full batch, dropout 0.5, against plain torch with a
CSR adjacency matrix at its better number of threads. Attainable is the time of the multiply-adds at
the fastest dense product here ({speed["flops"] / 1e9:.0f} GFlop/s on all cores; torch's own does
{speed["torch_flops"] / 1e9:.0f}) and, after it, of the bytes at the speed of copying
({speed["bytes"] / 1e9:.0f} GB/s); the share is that of an epoch without others in between, whose
threads stay awake for a while. The fastest of the others is named, with how many times as long it
takes.

{table(["", "in turns", "plain torch", "alone", "attainable", "share", "fastest other"], ours)}

{table(["seconds", *rows], theirs)}

{failed}
"""


def other_models(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    rows = [
        [
            name,
            f"{1e3 * row['seconds']:.2f}",
            f"{1e3 * row['attainable_seconds']:.2f}",
            f"{100 * row['share']:.0f} %",
        ]
        for name, row in part["rows"].items()
    ]
    return f"""
### Other models

Milliseconds of an epoch with its validation pass on a grid of {part["n_nodes"]:,} nodes with 7
dense features, half of the nodes labelled, and the same reckoning of what is attainable. A deep
block has the first-order rule, layer normalisation and residual connections.

{table(["", "milliseconds", "attainable", "share"], rows)}
"""


def growth(results: dict[str, Any]) -> str:
    slopes = [
        [
            f"{what}, {row['sizes'][0]:,} to {row['sizes'][-1]:,}",
            ", ".join(f"{1e3 * own:.1f}" for own in row["seconds"]),
            f"{row['slope']:.2f}",
            verdict(row["slope"] <= 1.05),
            f"{row['largest_step']:.2f}",
            verdict(row["largest_step"] <= 1.3),
            f"{row['largest_step_log']:.2f}" if "largest_step_log" in row else "",
        ]
        for what, row in results["growth"].items()
    ]
    cores = [
        [
            SHAPES[name],
            f"{row['one_thread']:.4f}",
            f"{row['two_threads']:.4f}",
            f"{row['gain']:.2f}",
            f"{row['machine_gain']:.2f}",
        ]
        for name, row in results["cores"].items()
    ]
    cuts = [
        [
            name,
            *(f"{own:.2f}" for own in row["imbalance"].values()),
        ]
        for name, row in results["schedule"].items()
    ]
    memory = results["memory"]
    return f"""## Growth, cores and memory

An epoch of 20,000 nodes with 100,000 edges, 128 dense features and hidden 64, half of the nodes
labelled; one size is varied at a time (layers: hidden 16). The slope is that in log-log (goal: at
most 1.05); the largest step is that of the time farthest above a line fitted to all, which has what
every epoch takes and what each node, edge, column or layer adds (goal: at most 1.3); the last
column is the same above the line in log-log, which knows no time that every epoch takes.

{table(["", "milliseconds", "slope", "", "largest step", "", "in log-log"], slopes)}

Seconds of an epoch on one thread and on two; beside it how much more two processes, each on one
thread, get done than one (goal: 1.7 times where they do):

{table(["", "one thread", "two threads", "gain", "two processes"], cores)}

How evenly a sum over neighbours, 64 wide, is cut for more threads than there are here, by a
simulated schedule: the largest share of a thread over the mean (goal: 1.1 on power-law graphs; the
two smaller shapes are a millisecond's work in all):

{table(["", "8 threads", "32 threads", "64 threads"], cuts)}

Training on the large shape takes {memory["peak_bytes"] / 1e9:.2f} GB at its peak, of which Python
and torch are {memory["process_bytes"] / 1e9:.2f}: {memory["ratio"]:.1f} times graph, features,
weights and one set of activations (goal: at most 3, {verdict(memory["ratio"] <= 3)}).
"""


def draw(part: dict[str, Any], path: Path) -> None:
    """A dot for each library and data set, on a logarithmic scale, which has no foot for bars."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    data = part["data"]
    peers = list(dict.fromkeys(peer for row in data.values() for peer in row))
    # Colours that colour-blind readers tell apart (Okabe and Ito).
    colours = ["#0072B2", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00"]
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    width = 0.8 / len(peers)
    for k, (peer, colour) in enumerate(zip(peers, colours, strict=False)):
        heights = {
            i: row[peer]["milliseconds"] for i, row in enumerate(data.values()) if peer in row
        }
        at = [i + (k - len(peers) / 2 + 0.5) * width for i in heights]
        axes.plot(at, list(heights.values()), "osD^vP"[k % 6], label=peer, color=colour)
        for x, height in zip(at, heights.values(), strict=True):
            axes.annotate(f"{height:.3g}", (x, height), (0, 6), textcoords="offset points",
                          ha="center", fontsize=7)  # fmt: skip
    axes.grid(axis="y", alpha=0.3)
    axes.margins(y=0.12)
    for edge in range(1, len(data)):
        axes.axvline(edge - 0.5, color="0.85", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(data)), [NAMES[name] for name in data])
    axes.set_ylabel("milliseconds an epoch (log scale)")
    axes.set_title("A training epoch with its validation pass")
    figure.legend(loc="outside lower center", ncols=len(peers))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def pages() -> dict[Path, str]:
    """The page that is made from measured/performance.json, with the text it should have."""
    results = measured("performance")
    parts = [
        "<!-- Made by `make performance` from performance.json: do not edit. -->",
        "# Performance",
        f"By `make bench`. {machine_text(results)}{earlier(results)} The machine is shared with "
        "others, so figures vary by some tens of percent; ratios come from runs that take turns.",
        side_by_side(results["side_by_side"], results["accuracies"]),
        whole_runs(results),
        checks(results),
        large(results),
        roofline(results),
        where_time_goes(results),
        grid(results["grid"]),
    ]
    if "shapes" in results:
        parts.insert(4, users_data(results["shapes"]) + other_models(results.get("models")))
    if {"growth", "cores", "schedule", "memory"} <= results.keys():
        parts.insert(5, growth(results))
    return {DOCS / "performance.md": "\n\n".join(part.strip() for part in parts) + "\n"}


def main() -> None:
    if len(sys.argv) > 1:
        shutil.copyfile(Path(sys.argv[1]) / "benchmark.json", MEASURED / "performance.json")
    results = measured("performance")
    draw(results["side_by_side"], DOCS / "figures" / "performance.png")
    write_pages(pages())


if __name__ == "__main__":
    main()
