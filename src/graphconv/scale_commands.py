"""Commands for graphs too large to be read whole: generate, ingest and verify."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from graphconv import cli_options as opt
from graphconv.option_groups import ScreenOptions, TableColumns, takes_groups

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
    r"""Write tables of a generated graph of any size, to try things with.

    \b
    graphconv generate planted-partition --nodes 1000000 --edges 10000000 --features 64 -o tables
    """
    from graphconv.files import check_writable
    from graphconv.generation import GraphRecipe, write_generated

    recipe = GraphRecipe(
        kind, nodes, edges, features, classes, homophily, signal, labelled, ids, seed
    )
    check_writable(output)
    started = time.perf_counter()
    with screen.counting("generating", nodes + edges, "rows") as advance:
        files = write_generated(
            recipe, output, format=format, rows_per_file=rows_per_file, advance=advance
        )
    seconds = time.perf_counter() - started
    n_bytes = sum(file.stat().st_size for file in files)
    names = f"{files[0]} to {files[-1].name}" if len(files) > 2 else ", ".join(map(str, files))
    screen.note(f"{n_bytes / 1e6:,.1f} MB in {seconds:.1f} s: {names}")
    screen.result({"files": [str(file) for file in files], "bytes": n_bytes, "seconds": seconds})


Files = Annotated[
    list[str] | None,
    _option("Data", "--nodes", "FILES", "Nodes: files or patterns as for --edges."),
]
EdgeFiles = Annotated[
    list[str],
    _option(
        "Data",
        "--edges",
        "FILES",
        "Edges: CSV, TSV (also .gz, .zst) or Parquet; a file, or a pattern such as "
        "'edges-*.parquet'. May be repeated.",
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


# Not what would have to be looked at as a whole, which may exceed the memory.
@takes_groups(without=("text", "label_separator", "missing_value"))
def ingest(
    *,
    edges: EdgeFiles,
    nodes: Files = None,
    tables: TableColumns,
    output: GraphFolder = Path("graph"),
    memory: Memory = None,
    feature_type: FeatureType = "float32",
    screen: ScreenOptions,
) -> None:
    r"""Make a graph folder of tables of any size, to train and predict on without loading it.

    Killed on the way, the same command goes on from the last finished stage.

    \b
    graphconv ingest --edges 'edges-*.parquet' --nodes nodes.csv.gz -o graph
    graphconv train graph
    """
    from graphconv.files import check_writable
    from graphconv.ingest import IngestRequest, describe_manifest
    from graphconv.ingest import ingest as run
    from graphconv.memory import in_units, parse_bytes, peak_memory
    from graphconv.table_graph import TableOptions

    request = IngestRequest(
        tuple(edges),
        tuple(nodes or ()),
        output,
        TableOptions(**tables.options()),
        None if memory is None else parse_bytes(memory),
        feature_type,
    )
    check_writable(output)
    started = time.perf_counter()
    manifest = run(request, screen)
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
def verify(
    *,
    folder: Annotated[
        Path, typer.Argument(help="Folder that 'graphconv ingest' wrote.", metavar="GRAPH_DIR")
    ],
    screen: ScreenOptions,
) -> None:
    """Compare every file of a graph folder with its checksum."""
    from graphconv.memory import in_units
    from graphconv.stored_graph import verify_graph

    total = sum(file.stat().st_size for file in folder.glob("*")) if folder.is_dir() else None
    with screen.counting("verifying", total, "bytes") as advance:
        n_bytes = verify_graph(folder, advance)
    screen.note(f"{folder}: {in_units(n_bytes)} as they were written")
    screen.result({"output": str(folder), "bytes": n_bytes})


def add_to(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command(cls=opt.GroupedCommand)(generate)
    app.command(cls=opt.GroupedCommand)(ingest)
    app.command(cls=opt.GroupedCommand)(verify)
