"""Commands for graphs too large to be read whole: generate, ingest, partition and verify."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from graphconv.commands import options as opt
from graphconv.commands.console import Screen
from graphconv.commands.option_groups import ScreenOptions, TableColumns, asked, takes_groups

_option = opt.option

Kind = Annotated[
    str, typer.Argument(help="random, power-law (R-MAT) or planted-partition.", metavar="KIND")
]
NewFolder = Annotated[
    Path, _option("Output", "--output -o", "DIR", "Folder to write; must be new or empty.")
]
TableFormat = Annotated[str, _option("Output", "--format", "NAME", "parquet or csv.")]
RowsPerFile = Annotated[
    int, _option("Output", "--rows-per-file", "N", "Cut longer tables into several files.")
]


@takes_groups()
def generate(
    *,
    kind: Kind,
    nodes: Annotated[int, _option("Graph", "--nodes", "N", "Number of nodes.")],
    edges: Annotated[int, _option("Graph", "--edges", "N", "Number of edges to draw.")],
    features: Annotated[int, _option("Graph", "--features", "N", "Features of a node.")] = 0,
    classes: Annotated[int, _option("Graph", "--classes", "N", "Of planted partitions.")] = 5,
    homophily: Annotated[
        float, _option("Graph", "--homophily", "CHANCE", "That an edge stays in its class.")
    ] = 0.7,
    signal: Annotated[
        float, _option("Graph", "--signal", "NUMBER", "Distance of class centres from 0.")
    ] = 1.0,
    labelled: Annotated[
        float, _option("Graph", "--labelled", "SHARE", "Share of nodes with a label.")
    ] = 0.1,
    ids: Annotated[str, _option("Graph", "--ids", "KIND", "integer or string.")] = "integer",
    seed: Annotated[int, _option("Graph", "--seed", "N", "Same seed, same graph.")] = 0,
    output: NewFolder = Path("generated"),
    format: TableFormat = "parquet",
    rows_per_file: RowsPerFile = 1 << 24,
    screen: ScreenOptions,
) -> None:
    """Write tables of a generated graph of any size, to try things with."""
    from graphconv.io.files import check_writable
    from graphconv.storage.generation import GraphRecipe, write_generated

    recipe = GraphRecipe(
        kind, nodes, edges, features, classes, homophily, signal, labelled, ids, seed
    )
    check_writable(output)
    started = time.perf_counter()
    with screen.showing() as progress:
        files = write_generated(
            recipe, output, format=format, rows_per_file=rows_per_file, progress=progress
        )
    seconds = time.perf_counter() - started
    n_bytes = sum(file.stat().st_size for file in files)
    names = f"{files[0]} to {files[-1].name}" if len(files) > 2 else ", ".join(map(str, files))
    screen.note(f"{n_bytes / 1e6:,.1f} MB in {seconds:.1f} s: {names}")
    screen.result({"files": [str(file) for file in files], "bytes": n_bytes, "seconds": seconds})


Files = Annotated[
    list[str] | None,
    _option(
        "Data",
        "--nodes",
        "FILES",
        "Nodes: files or patterns as for --edges; TYPE=FILES where nodes have types.",
    ),
]
EdgeFiles = Annotated[
    list[str],
    _option(
        "Data",
        "--edges",
        "FILES",
        "Edges: a file, a pattern such as 'edges-*.parquet', or a database, as for train. May be "
        "repeated. Best are Parquet, or CSV in UTF-8.",
    ),
]
Memory = Annotated[
    str | None,
    _option("Output", "--memory", "BYTES", "Stay within, such as 6GiB. Default: half of it."),
]
FeatureType = Annotated[
    str, _option("Output", "--feature-type", "NAME", "Dense features: float32 or float16.")
]
GraphFolder = Annotated[Path, _option("Output", "--output -o", "DIR", "Folder of the graph.")]


@takes_groups()
def ingest(
    *,
    edges: EdgeFiles,
    nodes: Files = None,
    edges_query: opt.EdgesQuery = None,
    nodes_query: opt.NodesQuery = None,
    features: opt.FeatureFile = None,
    tables: TableColumns,
    output: GraphFolder = Path("graph"),
    memory: Memory = None,
    feature_type: FeatureType = "float32",
    screen: ScreenOptions,
) -> None:
    """Make a graph folder of tables of any size, to train and predict on without loading it.

    Killed on the way, the same command goes on from the last finished stage. Node types, triples,
    several labels per node, --bins and --features are read whole into memory.
    """
    from graphconv.commands.data_source import by_type
    from graphconv.io.files import check_writable
    from graphconv.io.table_graph import TableOptions
    from graphconv.storage.ingest import IngestRequest, describe_manifest
    from graphconv.storage.ingest import ingest as run
    from graphconv.storage.memory import in_units, parse_bytes, peak_memory

    request = IngestRequest(
        asked(edges, edges_query) or (),
        by_type(asked(nodes, nodes_query)) or (),
        output,
        TableOptions(**tables.options()),
        None if memory is None else parse_bytes(memory),
        feature_type,
        features,
    )
    check_writable(output)
    started = time.perf_counter()
    with screen.showing() as progress:
        manifest = run(request, progress)
    seconds = time.perf_counter() - started
    for note in manifest["notes"]:
        screen.remark(note)
    screen.note(f"{output}: {describe_manifest(manifest)}")
    screen.note(f"{seconds:.1f} s, at most {in_units(peak_memory())} of memory")
    shown = ("name", "n_nodes", "n_edges", "n_self_loops", "n_isolated", "n_labelled", "notes")
    screen.result(
        {
            **{key: manifest[key] for key in shown},
            "output": str(output),
            "seconds": seconds,
            "peak_memory": peak_memory(),
        }
    )


@takes_groups()
def partition(
    *,
    data: Annotated[
        str,
        typer.Argument(
            help="Folder that 'graphconv ingest' wrote, or a data set to store in one first.",
            metavar="GRAPH_DIR",
        ),
    ],
    parts: Annotated[int, _option("Parts", "--parts", "P", "How many: one for each process.")],
    method: Annotated[
        str, _option("Parts", "--method", "NAME", "metis, contiguous, or auto: metis if it can.")
    ] = "auto",
    output: Annotated[
        Path | None, _option("Output", "--output -o", "DIR", "Folder to store a data set in.")
    ] = None,
    data_dir: opt.DataDir = None,
    screen: ScreenOptions,
) -> None:
    """Cut a graph folder into parts, for a training by several processes."""
    from dataclasses import asdict

    from graphconv.io.wording import count
    from graphconv.storage.partition import partition_graph
    from graphconv.storage.stored_graph import read_manifest

    folder = _stored(data, output, data_dir, screen)
    started = time.perf_counter()
    manifest = read_manifest(folder)
    with screen.showing() as progress:
        found = partition_graph(folder, parts, method=method, progress=progress)
    seconds = time.perf_counter() - started
    shown = {"n_nodes": "nodes", "n_edges": "edges", "n_halo": "halo rows", "n_cut": "cut edges"}
    sizes = {name: [asdict(part)[name] for part in found] for name in shown}
    # How much the largest part exceeds the mean: all others wait for it.
    balance = {name: max(each) * parts / max(1, sum(each)) for name, each in sizes.items()}
    # An edge that is cut counts in both its parts.
    n_cut = sum(sizes["n_cut"]) // (1 if manifest["directed"] else 2)
    totals = [manifest["n_nodes"], manifest["n_edges"], sum(sizes["n_halo"]), n_cut]
    rows = [
        *(
            [str(number), *map("{:,}".format, each)]
            for number, each in enumerate(zip(*sizes.values(), strict=True))
        ),
        ["all", *map("{:,}".format, totals)],
        ["largest / mean", *map("{:.2f}".format, balance.values())],
    ]
    columns = ["part", *shown.values()]
    screen.table(f"{folder} in {count(parts, 'part')}, {seconds:.1f} s", columns, rows)
    screen.result(
        {
            "output": str(folder),
            "parts": [asdict(part) for part in found],
            "n_cut": n_cut,
            "balance": balance,
            "seconds": seconds,
        }
    )


def _stored(data: str, output: Path | None, data_dir: Path | None, screen: Screen) -> Path:
    """The graph folder that is meant; a data set is stored in one first."""
    from graphconv.commands.data_source import DataRequest, load_data
    from graphconv.io.files import check_writable
    from graphconv.storage.stored_graph import is_stored_graph, store_graph

    if is_stored_graph(data):
        if output is not None:
            raise ValueError(f"--output is for data sets, {data} is a graph folder already")
        return Path(data)
    if output is None:
        raise ValueError(f"{data} must be a graph folder, or be stored in one: --output DIR")
    if output.exists() and not is_stored_graph(output) and any(output.iterdir()):
        raise FileExistsError(f"{output} must be a new or empty folder, or an earlier graph")
    check_writable(output)
    store_graph(load_data(DataRequest(data, data_dir=data_dir), screen).graph, output)
    return output


@takes_groups()
def verify(
    *,
    folder: Annotated[
        Path, typer.Argument(help="Folder of 'graphconv ingest' or 'train'.", metavar="FOLDER")
    ],
    screen: ScreenOptions,
) -> None:
    """Compare every file of a graph or model folder with its checksum.

    Of a model also the files it was trained on, where they are as they were named then.
    """
    if (folder / "model.json").is_file():
        _verify_model(folder, screen)
        return
    from graphconv.storage.memory import in_units
    from graphconv.storage.stored_graph import verify_graph

    with screen.showing() as progress:
        n_bytes = verify_graph(folder, progress)
    screen.note(f"{folder}: all files as they were written, {in_units(n_bytes)}")
    screen.result({"output": str(folder), "bytes": n_bytes})


def _verify_model(folder: Path, screen: Screen) -> None:
    from graphconv.estimators.fitted_method import load_saved
    from graphconv.io.wording import count
    from graphconv.results.provenance import check_parts, verify_provenance

    found = verify_provenance(folder)
    graph = load_saved(folder).fitted.graph  # refuses weights that are no numbers
    check_parts(found, graph, folder)
    changed = [name for name, state in found.data.items() if state == "changed"]
    if changed:
        raise ValueError(
            f"{folder} was trained on {changed[0]} as it was then, but that file has changed since"
        )
    for name, state in found.data.items():
        screen.note(f"data {name}: {state}")
    for name, checksum in found.parts.items():
        screen.note(f"data {name}: SHA-256 {checksum}")
    screen.note(f"{folder}: {count(found.n_files, 'file')} as they were written")
    screen.note(f"fingerprint {found.fingerprint}")
    screen.result(
        {
            "output": str(folder),
            "fingerprint": found.fingerprint,
            "data": found.data,
            "parts": found.parts,
        }
    )


def add_to(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command(
        cls=opt.GroupedCommand,
        epilog="graphconv generate planted-partition --nodes 1000000 --edges 10000000 -o tables",
    )(generate)
    app.command(
        cls=opt.GroupedCommand,
        epilog="graphconv ingest --edges 'edges-*.parquet' --nodes nodes.csv.gz -o graph\n"
        "graphconv train graph",
    )(ingest)
    app.command(
        cls=opt.GroupedCommand,
        epilog="graphconv partition graph --parts 4\n"
        "torchrun --nproc-per-node 4 -m graphconv train graph",
    )(partition)
    app.command(cls=opt.GroupedCommand)(verify)
