"""Small tables as text, and how tests read them."""

from graphconv.io.readers import read_tables

EDGES = "source,target\nann,bob\nbob,cy\n"
NODES = "id,label,age\nann,red,31\nbob,,47\ncy,blue,25\n"


def write(folder, content, name):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder, edges=EDGES, nodes=None, **options):
    node_path = None if nodes is None else write(folder, nodes, "nodes.csv")
    return read_tables(write(folder, edges, "edges.csv"), node_path, **options)


def dense(graph):
    return graph.adjacency.toarray().tolist()
