"""Do explanations name the edges that matter? Remove the top ones, and as many random ones.

    python scripts/measure_fidelity.py

prints, for nodes of Cora drawn at random, how much the probability of the predicted class changes
(in absolute value) when the edges with the largest contributions are removed together, and when as
many random edges of the same neighbourhood are. Random removals are repeated for every node.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from graphconv import load_dataset
from graphconv.results.explain import explain, position_of
from graphconv.results.neighbourhood import Edit, Neighbourhood
from graphconv.training.fit import fit_gcn
from graphconv.training.fitted import FittedGCN

N_NODES = 200
N_REMOVED = (1, 3, 5)
N_DRAWS = 20


def measure(n_nodes: int = N_NODES, n_removed: tuple[int, ...] = N_REMOVED) -> dict[str, Any]:
    """Mean changes over nodes whose neighbourhood has more edges than are removed."""
    graph = load_dataset("cora")
    fitted = fit_gcn(graph, preset="paper", seeds=[0])
    rng = np.random.default_rng(0)
    changes: dict[int, list[tuple[float, float]]] = {n: [] for n in n_removed}
    for node in rng.permutation(graph.n_nodes)[:n_nodes]:
        for n, pair in _changes(fitted, int(node), n_removed, rng).items():
            changes[n].append(pair)
    rows = []
    for n, pairs in changes.items():
        top, random = np.array(pairs).T
        rows.append(
            {
                "removed": n,
                "nodes": len(pairs),
                "mean_change_top": float(top.mean()),
                "mean_change_random": float(random.mean()),
                "nodes_where_top_is_larger": int((top > random).sum()),
            }
        )
    return {"dataset": "cora", "nodes_drawn": n_nodes, "draws_a_node": N_DRAWS, "rows": rows}


def _changes(
    fitted: FittedGCN, node: int, n_removed: tuple[int, ...], rng: np.random.Generator
) -> dict[int, tuple[float, float]]:
    """For each number of edges: change without the top ones, mean change without random ones."""
    graph = fitted.graph
    why = explain(fitted, graph.node_ids[node])
    around = Neighbourhood(fitted, graph, node)
    row_of = {int(position): row for row, position in enumerate(around.rows)}
    ends = [tuple(row_of[position_of(graph, end)] for end in part.item) for part in why.edges]
    by_ends: dict[tuple[int, int], list[int]] = {}
    for entry, pair in enumerate(zip(around.entry_row, around.entry_column, strict=True)):
        by_ends.setdefault((int(min(pair)), int(max(pair))), []).append(entry)
    entries = [by_ends[min(pair), max(pair)] for pair in ends]
    # By change of probability, which is what is measured; the list goes by log-odds.
    order = np.argsort([-abs(part.probability) for part in why.edges], kind="stable")
    found = {}
    for n in n_removed:
        if len(entries) <= n:
            continue
        draws = [rng.permutation(len(entries))[:n] for _ in range(N_DRAWS)]
        edits = [
            Edit(entries=tuple(entry for edge in edges for entry in entries[edge]))
            for edges in (order[:n], *draws)
        ]
        target = graph.class_names.index(why.label)
        after = around.calibrated(edits)[:, target]
        change = np.abs(after - why.probability)
        found[n] = (float(change[0]), float(change[1:].mean()))
    return found


def main() -> None:
    """Print the table; with an argument, write the figures there as JSON."""
    result = measure()
    print(f"Cora, {result['nodes_drawn']} nodes, {N_DRAWS} random draws each")
    print("edges removed   nodes   change, top edges   change, random edges   top is larger")
    for row in result["rows"]:
        share = 100 * row["nodes_where_top_is_larger"] / row["nodes"]
        print(
            f"{row['removed']:13d} {row['nodes']:7d} {row['mean_change_top']:19.4f} "
            f"{row['mean_change_random']:22.4f} {share:13.1f} %"
        )
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
