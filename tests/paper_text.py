"""Tables and settings as the paper prints them, copied from its text and from nothing else.

Kipf and Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017.
"""

# Section 5.1, table 1: nodes, edges, classes, features, label rate.
TABLE1 = """
Citeseer & Citation network & 3,327 & 4,732 & 6 & 3,703 & 0.036
Cora & Citation network & 2,708 & 5,429 & 7 & 1,433 & 0.052
Pubmed & Citation network & 19,717 & 44,338 & 3 & 500 & 0.003
NELL & Knowledge graph & 65,755 & 266,144 & 210 & 5,414 & 0.001
"""
# Section 6.1, table 2: Citeseer, Cora, Pubmed, NELL; seconds in brackets.
TABLE2 = """
ManiReg & 60.1 & 59.5 & 70.7 & 21.8
SemiEmb & 59.6 & 59.0 & 71.1 & 26.7
LP & 45.3 & 68.0 & 63.0 & 26.5
DeepWalk & 43.2 & 67.2 & 65.3 & 58.1
ICA & 69.1 & 75.1 & 73.9 & 23.1
Planetoid* & 64.7 (26s) & 75.7 (13s) & 77.2 (25s) & 61.9 (185s)
GCN & 70.3 (7s) & 81.5 (4s) & 79.0 (38s) & 66.0 (48s)
GCN, random splits & 67.9 +- 0.5 & 80.1 +- 0.5 & 78.9 +- 0.7 & 58.4 +- 1.7
"""
# Section 6.2, table 3: Citeseer, Cora, Pubmed.
TABLE3 = """
Chebyshev filter, K = 3 & 69.8 & 79.5 & 74.4
Chebyshev filter, K = 2 & 69.6 & 81.2 & 73.8
First-order model & 68.3 & 80.0 & 77.5
Single parameter & 69.3 & 79.2 & 77.4
Renormalisation trick & 70.3 & 81.5 & 79.0
First-order term only & 68.7 & 80.5 & 77.8
Multi-layer perceptron & 46.5 & 55.1 & 71.4
"""

# Sections 5.2 and 6.1: the two-layer GCN of the citation networks.
GCN = {
    "hidden": (16,),
    "dropout": 0.5,
    "weight_decay": 5e-4,
    "weight_decay_layers": "first",
    "learning_rate": 0.01,
    "max_epochs": 200,
    "patience": 10,
    "scaling": "row",
    "activation": "relu",
    "propagation": "renormalised",
    "self_loop_weight": 1.0,
    "residual": False,
    "bias": False,
    "batch_size": None,
    "fanout": "all",
    "class_weight": None,
}
# Section 6.1: NELL has the same but for these.
NELL = {"hidden": (64,), "dropout": 0.1, "weight_decay": 1e-5}
# Section 6.2: what differs from the GCN in each row of table 3.
ROWS = {
    "chebyshev-3": {"propagation": "chebyshev", "chebyshev_order": 3, "lambda_max": "true"},
    "chebyshev-2": {"propagation": "chebyshev", "chebyshev_order": 2, "lambda_max": "true"},
    "first-order": {"propagation": "first-order"},
    "single-parameter": {"propagation": "single-parameter"},
    "renormalised": {},
    "first-order-only": {"propagation": "first-order-only"},
    "none": {"propagation": "none"},
}
# Section 6.1 and table 2: 100 runs, 10 random splits; 20 labels a class, 500 and 1,000 nodes.
N_RUNS, N_SPLITS = 100, 10
SPLIT = {"n_per_class": 20, "n_validation": 500, "n_test": 1000}
# Section 5.1: one label a class; the test nodes are those of the published files.
NELL_SPLIT = {"n_per_class": 1, "n_validation": 500, "n_test": 969}
# Sections 5.1, 5.2 and 6.3: figure 2. N nodes have 2 N edges.
TIMING = {"n_hidden": 32, "n_epochs": 100, "fewest_edges": 1_000, "most_edges": 10_000_000}
# Appendix A.
KARATE = {
    "hidden": (4, 4),
    "activation": "tanh",
    "learning_rate": 0.01,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "bias": False,
    "propagation": "renormalised",
    "early_stopping": "none",
}
KARATE_ITERATIONS = (25, 50, 75, 100, 200, 300)
# Appendix B: dropout on the first and the last layer.
DEPTH = {"max_epochs": 400, "early_stopping": "none", "n_folds": 5, "most_layers": 10}


def rows_of(table: str) -> dict[str, list[str]]:
    """The cells of each row, by the row's name."""
    lines = [line.split("&") for line in table.strip().splitlines()]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}
