"""Table 1: sizes of the data sets, counted as the paper counts them and as the model sees them."""

from __future__ import annotations

from graphconv.estimators.runs import RunLog
from graphconv.graph import Graph
from graphconv.io.datasets import load_dataset
from graphconv.paper.published import DATASETS, TABLE1, TITLES
from graphconv.paper.section import Request, Section, Table

NAME = "table1"
# Neighbours that the published files list, all nodes together; for Cora two for each of the 5,429
# citations in cora.cites. The files' own repetitions and self-loops are in it.
LISTED_NEIGHBOURS = {"citeseer": 9_464, "cora": 10_858, "pubmed": 88_676, "nell": 532_288}
_TEXT = (
    "The paper's number of edges is half of the neighbours that the files list. Some edges are "
    "listed more than once: because two papers cite each other, because a citation is in both "
    "lists as often as it was found, and on NELL because two entities share a relation more than "
    "once. The adjacency matrix is binary and symmetric, so it has each edge once, whatever its "
    "direction; that is the number of distinct edges, with self-loops among them.",
    "Label rate is the share of nodes that are labelled for training. On NELL 105 of the 210 "
    "classes have one training node each, which makes 0.0016; 0.001 is the rate in the names of "
    "the files. Its features are the entities' words; a column of its own for every relation node "
    "comes in addition.",
)
_COLUMNS = (
    "data set", "nodes", "edges, paper", "neighbours listed / 2", "distinct edges", "self-loops",
    "classes", "features", "label rate, paper", "label rate",
)  # fmt: skip


def section(request: Request, log: RunLog) -> Section:
    """Count, beside the paper's numbers."""
    rows, data, notes = [], {}, []
    for name in request.datasets_of(DATASETS):
        try:
            graph = load_dataset(name, data_dir=request.data_dir)
        except OSError as error:
            notes.append(f"{TITLES[name]}: {error}.")
            continue
        rows.append(_row(name, graph))
        data[name] = {
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
            "n_self_loops": graph.n_self_loops,
            "n_features": graph.n_features,
            "n_classes": graph.n_classes,
            "n_train": len(graph.train_index),
        }
    table = Table("Sizes, and in which way they are counted", _COLUMNS, tuple(rows))
    return Section(
        name=NAME,
        title="Table 1: data sets",
        text=_TEXT,
        tables=(table,),
        notes=tuple(notes),
        data=data,
    )


def _row(name: str, graph: Graph) -> tuple[str, ...]:
    _, edges, _, _, rate = TABLE1[name]
    n_relations = graph.n_features - TABLE1[name][3]
    features = f"{graph.n_features - n_relations:,}" + (
        f" + {n_relations:,}" if n_relations else ""
    )
    return (
        TITLES[name],
        f"{graph.n_nodes:,}",
        f"{edges:,}",
        f"{LISTED_NEIGHBOURS[name] // 2:,}",
        f"{graph.n_edges:,}",
        f"{graph.n_self_loops:,}",
        f"{graph.n_classes:,}",
        features,
        f"{rate:.3f}",
        f"{len(graph.train_index) / graph.n_nodes:.4f}",
    )
