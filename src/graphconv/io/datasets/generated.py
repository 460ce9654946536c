"""Data sets that are worked out on the spot: the karate club and the paper's random graphs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphconv.graph import Graph, IntArray, adjacency_from_edges

# The division of the karate club with the greatest modularity, 0.4198 (Brandes et al. 2008), one
# digit a member: what the test suite's best Louvain run finds, stored because one run may miss it.
_KARATE_CLASSES = "0000111022100022102020233323322322"
# Of each class the member with most neighbours in the class; the first of them where several tie.
_KARATE_TRAIN = (0, 5, 33, 24)


# Paper: the karate club has 154 edges; here: 78, each counted once, because networkx's club has as
# many; counted from both sides they are 156.
def karate() -> Graph:
    """Zachary's karate club, unweighted, with four classes and one training node of each.

    Training nodes are members 0, 5, 33 and 24: of each class the one with most neighbours in it.
    All other members are test nodes.
    """
    import networkx as nx

    club = nx.karate_club_graph()
    source, target = np.array(club.edges()).T
    labels = np.array([int(digit) for digit in _KARATE_CLASSES])
    return Graph(
        adjacency_from_edges(source, target, n_nodes=len(labels)),
        labels=labels,
        class_names=tuple(f"community {number}" for number in range(4)),
        train_index=np.array(_KARATE_TRAIN),
        test_index=np.setdiff1d(np.arange(len(labels)), _KARATE_TRAIN),
        name="karate",
    )


def random_graph(n_nodes: int, seed: int = 0) -> Graph:
    """The paper's random graph: 2 n_nodes edges uniformly at random, featureless, one class.

    Edges are distinct and join two different nodes; below five nodes, where that many do not
    exist, all pairs are joined. Every node has the dummy label 1 and is a training node.
    """
    source, target = _random_pairs(n_nodes, np.random.default_rng(seed))
    # scipy keeps the width of what it is given, and widens it where there are more entries.
    ends = source.astype(np.int32), target.astype(np.int32)
    both = np.concatenate(ends), np.concatenate(ends[::-1])
    values = np.ones(len(both[0]), dtype=np.float32)
    name = f"random:{n_nodes}" if seed == 0 else f"random:{n_nodes}:{seed}"
    return Graph(
        sp.csr_array(sp.coo_array((values, both), shape=(n_nodes, n_nodes))),
        labels=np.zeros(n_nodes, dtype=np.int64),
        class_names=("1",),
        name=name,
    )


def _random_pairs(n_nodes: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    n_edges = min(2 * n_nodes, n_nodes * (n_nodes - 1) // 2)
    codes = np.empty(0, dtype=np.int64)
    while len(codes) < n_edges:
        n_missing = n_edges - len(codes)
        ends = np.sort(rng.integers(n_nodes, size=(n_missing + n_missing // 8 + 8, 2)), axis=1)
        ends = ends[ends[:, 0] != ends[:, 1]]
        drawn = np.concatenate([codes, ends[:, 0] * n_nodes + ends[:, 1]])
        # Keep the first draw of each pair, in the order drawn: every set of pairs is as likely.
        _, first = np.unique(drawn, return_index=True)
        codes = drawn[np.sort(first)][:n_edges]
    return codes // n_nodes, codes % n_nodes
