import networkx as nx
import numpy as np
import pytest

from graphconv import Graph, Settings
from graphconv.engine.batches import make_batch
from graphconv.graph.weisfeiler_lehman import wl_colours
from graphconv.training.fit import build_model

GRAPHS = {
    "path of 4": nx.path_graph(4),
    "path of 7": nx.path_graph(7),
    "star": nx.star_graph(4),
    "cycle": nx.cycle_graph(6),
    "two triangles": nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
    "paw": nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)]),
    "bull": nx.bull_graph(),
    "lollipop": nx.lollipop_graph(4, 3),
    "house": nx.house_graph(),
    "tree": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 6)]),
    "asymmetric": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (3, 5)]),
    "8 nodes": nx.gnm_random_graph(8, 11, seed=4),
}
each_graph = pytest.mark.parametrize("name", GRAPHS)


def adjacency_of(name):
    return nx.to_scipy_sparse_array(GRAPHS[name], dtype=np.float32, format="csr")


def same(values):
    """Matrix that says which pairs of nodes have the same value."""
    return np.asarray(values)[:, None] == np.asarray(values)[None, :]


def test_path_of_five_by_hand():
    path = adjacency_of("path of 7")[:5, :5]
    # Ends have one neighbour; then the middle is told from those that have an end beside them.
    assert wl_colours(path, max_iterations=1).tolist() == [0, 1, 1, 1, 0]
    assert wl_colours(path).tolist() == [0, 1, 2, 1, 0]


def test_no_rounds_leave_the_given_colours_apart_from_their_numbers():
    path = adjacency_of("path of 4")
    assert wl_colours(path, [7, 3, 3, 7], max_iterations=0).tolist() == [1, 0, 0, 1]


def test_given_colours_break_symmetry():
    cycle = adjacency_of("cycle")
    assert len(set(wl_colours(cycle).tolist())) == 1
    # The marked node, its two neighbours, the two at distance two, the one opposite.
    distance = np.array([0, 1, 2, 3, 2, 1])
    assert np.array_equal(same(wl_colours(cycle, distance == 0)), same(distance))


def test_wl_cannot_tell_a_hexagon_from_two_triangles():
    hexagon, triangles = adjacency_of("cycle"), adjacency_of("two triangles")
    assert np.array_equal(wl_colours(hexagon), wl_colours(triangles))


@each_graph
def test_colours_do_not_depend_on_the_order_of_nodes(name):
    adjacency = adjacency_of(name)
    order = np.random.default_rng(0).permutation(adjacency.shape[0])
    assert np.array_equal(wl_colours(adjacency[order][:, order]), wl_colours(adjacency)[order])


@each_graph
def test_nodes_of_one_colour_have_neighbours_of_the_same_colours(name):
    adjacency = adjacency_of(name)
    colours = wl_colours(adjacency)
    counts = adjacency @ np.eye(colours.max() + 1)[colours]
    for colour in range(colours.max() + 1):
        assert len(np.unique(counts[colours == colour], axis=0)) == 1


@each_graph
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_untrained_gcn_separates_what_wl_separates(name, seed):
    adjacency = adjacency_of(name)
    n_nodes = adjacency.shape[0]
    colours = wl_colours(adjacency)
    n_rounds = next(
        rounds
        for rounds in range(n_nodes + 1)
        if np.array_equal(wl_colours(adjacency, max_iterations=rounds), colours)
    )
    graph = Graph(adjacency, features=np.ones((n_nodes, 1)), labels=np.arange(n_nodes) % 2)
    settings = Settings(hidden=(32,) * (n_rounds + 1), activation="tanh", scaling="none", dropout=0)
    model = build_model(graph, settings, seeds=[seed])
    embedding = model.embed(make_batch(graph, n_hops=model.n_hops))[:, 0].astype(np.float64)
    apart = np.linalg.norm(embedding[:, None] - embedding[None], axis=2)
    apart /= np.linalg.norm(embedding, axis=1).mean()
    assert apart[same(colours)].max() < 1e-6
    assert (apart[~same(colours)] > 1e-4).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="square"):
        wl_colours(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="one entry per node"):
        wl_colours(np.zeros((2, 2)), [0])
