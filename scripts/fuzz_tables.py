"""Fuzzing, the tables: edges, nodes, features and labels in every form in which they may come."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import scipy.io
import scipy.sparse as sp

from graphconv import Graph, inspect, load_dataset, read_tables
from graphconv.commands.reproduce import _read_results
from graphconv.estimators.runs import RunLog, Series
from graphconv.io.label_file import latest_labels, read_label_lines
from graphconv.paper.machine import describe_machine
from graphconv.paper.page import to_html, to_markdown
from graphconv.paper.section import Figure, Request, Section, Table
from graphconv.training.class_prior import check_prior, read_prior
from scripts import fuzz_inputs as inputs

Kind = tuple[bytes, tuple[inputs.Change, ...], Callable[[bytes], None]]
EDGES = b"source,target,weight\na,b,1\nb,c,2.5\nc,d,1\n"
NODES = b"id,label,age,town,split\na,x,1,Oslo,train\nb,y,2,Rome,\nc,,3,Oslo,\nd,x,4,Rome,test\n"
# Amounts, dates, yes and no, lists of numbers, words, and comments before it all.
COLUMNS = (
    b"# exported, today\nid;label;price;since;active;vector;note\n"
    b"a;x;1.200,50 EUR;01.02.2024;ja;[1, 2];some words of text\n"
    b"b;y;7,5 EUR;24.12.2023;nein;[3, 4];\n"
    b"c;;12 EUR;03.03.2024;ja;[5, 6];other words\nd;x;;;;;\n"
)
TOWNS = b"id,size,river\nOslo,0.7,no\nRome,2.8,yes\n"
TRIPLES = b"head,relation,tail\na,likes,b\nb,knows,c\nc,likes,d\n"
LONG = b"id,feature,value\na,height,1.5\nb,height,2\nc,weight,3\n"
PRIOR = b"class,share\ncommunity 0,0.5\ncommunity 1,0.2\ncommunity 2,0.2\ncommunity 3,0.1\n"
LABELS = b"time,node,label,who,how,action\n2026-01-01T12:00:00Z,a,x,me,asked,1\n,b,,me,undo,1\n"
SETTINGS = {"method": "sgc", "params": {"n_hops": 2}, "gcn": {"hidden": [16]}}
RUN = json.dumps(
    {"task": "table2", "dataset": "cora", "method": "gcn", "settings": SETTINGS, "seed": 3}
).encode()
SECTION = Section(
    "table1", "Data sets", ("Words.",), (Table("Sizes", ("data", "nodes"), (("Cora", "2,708"),)),),
    (Figure("times", "Times", "a picture"),), ("A note.",), {"cora": 2708}, "2026-01-01",
)  # fmt: skip
RESULTS = json.dumps({"date": "2026-01-01", "sections": {"table1": SECTION.to_json()}}).encode()
BYTES = inputs.change_bytes
TEXT = (inputs.change_text, inputs.change_text, BYTES)
JSON = (inputs.change_json, inputs.change_json, BYTES)
ARCHIVE = (inputs.change_npz, inputs.change_npz, BYTES)


def table_kinds(folder: Path, use: Callable[[Graph], None]) -> dict[str, Kind]:
    """For each kind of table a valid one, its changes, and what reads it."""
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    edges.write_bytes(EDGES)
    nodes.write_bytes(NODES)
    frame = pd.read_csv(nodes)

    def read_edges(path: Path) -> None:
        use(read_tables(path, nodes).graph)

    def read_nodes(path: Path) -> None:
        use(read_tables(edges, path, categorical=("town",)).graph)

    def read_features(path: Path) -> None:
        use(read_tables(edges, nodes, features=path).graph)

    def read_database(path: Path, scheme: str = "sqlite") -> None:
        use(read_tables(f"{scheme}:///{path}?table=edges", nodes).graph)

    def read_triples(path: Path) -> None:
        use(read_tables(path, nodes, relation="relation").graph)

    def read_columns(path: Path) -> None:
        use(read_tables(edges, path, missing_value="mean").graph)

    def read_types(path: Path) -> None:
        use(read_tables(edges, {"town": path, "person": nodes}).graph)

    def look_at(path: Path) -> None:
        found = inspect(path), inspect(edges, path, missing_value="mean")
        json.dumps([one.to_json() for one in found])
        repr(found)
        if found[1].problems:
            raise ValueError(found[1].problems[0])

    def packing(change: inputs.Change) -> inputs.Change:
        return lambda content, rng: gzip.compress(change(gzip.decompress(content), rng), 1, mtime=0)

    def kind(
        name: str, content: bytes, changes: tuple[inputs.Change, ...], read: Callable[[Path], Any]
    ) -> Kind:
        return content, changes, partial(_write_and_read, folder / f"changed-{name}", read)

    lines = b"".join(json.dumps(row).encode() + b"\n" for row in json.loads(_records(EDGES)))
    packed = gzip.compress(EDGES, 1, mtime=0)
    return {
        "edges.csv": kind("edges.csv", EDGES, TEXT, read_edges),
        "nodes.csv": kind("nodes.csv", NODES, TEXT, read_nodes),
        "edges.csv.gz": kind("e.csv.gz", packed, (BYTES, packing(TEXT[0])), read_edges),
        "edges.csv.bz2": kind("e.csv.bz2", bz2.compress(EDGES), (BYTES,), read_edges),
        "edges.csv.xz": kind("e.csv.xz", lzma.compress(EDGES), (BYTES,), read_edges),
        "edges.csv.zst": kind("e.csv.zst", _zstd(EDGES), (BYTES,), read_edges),
        "edges.csv.zip": kind(
            "e.csv.zip", inputs.zipped({"e.csv": EDGES}), (BYTES, inputs.change_zip), read_edges
        ),
        "edges.jsonl": kind("edges.jsonl", lines, TEXT, read_edges),
        "nodes.json": kind("nodes.json", _records(NODES), JSON, read_nodes),
        "nodes.parquet": kind(
            "nodes.parquet", frame.to_parquet(), (BYTES, inputs.change_words), read_nodes
        ),
        "nodes.xlsx": kind("nodes.xlsx", _sheet(), (inputs.change_zip, BYTES), read_nodes),
        "edges.db": kind("edges.db", _database(folder / "e.db"), (BYTES,), read_database),
        "edges.duckdb": kind(
            "edges.duckdb",
            _duckdb(folder / "e.duckdb"),
            (BYTES,),
            partial(read_database, scheme="duckdb"),
        ),
        "columns.csv": kind("columns.csv", COLUMNS, TEXT, read_columns),
        "triples.csv": kind("triples.csv", TRIPLES, TEXT, read_triples),
        "types.csv": kind("types.csv", TOWNS, TEXT, read_types),
        "inspect": kind("inspect.csv", COLUMNS, TEXT, look_at),
        "features.csv": kind("f.csv", LONG, TEXT, read_features),
        "prior.csv": kind("prior.csv", PRIOR, TEXT, _read_prior),
        "results.json": kind("results.json", RESULTS, JSON, _show_results),
        "features.mtx": kind("f.mtx", _matrix(folder / "f.mtx"), TEXT, read_features),
        "features.npz": kind("f.npz", _matrix(folder / "f.npz"), ARCHIVE, read_features),
        "labels.csv": kind(
            "labels.csv", LABELS, TEXT, lambda path: latest_labels(read_label_lines(path))
        ),
        "runs.jsonl": kind("runs.jsonl", RUN, JSON, _read_runs),
        "ingest": kind("ingest.csv", EDGES, TEXT, partial(_ingest, folder / "ingested")),
    }


def _write_and_read(path: Path, read: Callable[[Path], Any], content: bytes) -> None:
    path.write_bytes(content)
    read(path)


def _records(table: bytes) -> bytes:
    names, *rows = (line.split(",") for line in table.decode().splitlines())
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows]).encode()


def _matrix(path: Path) -> bytes:
    matrix = sp.csr_array([[0, 1.5], [2, 0], [0, 0], [1, 1]])
    if path.suffix == ".npz":
        sp.save_npz(path, matrix)
    else:
        scipy.io.mmwrite(path, sp.coo_array(matrix))
    return path.read_bytes()


def _database(path: Path) -> bytes:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE edges (source TEXT, target TEXT, weight REAL)")
        rows = [("a", "b", 1.0), ("b", "c", 2.5)]
        connection.executemany("INSERT INTO edges VALUES (?, ?, ?)", rows)
        connection.commit()
    return path.read_bytes()


def _sheet() -> bytes:
    """The least that is a spreadsheet: a workbook with one sheet of cells with their texts."""
    cells = [line.split(",") for line in NODES.decode().splitlines()]
    rows = "".join(
        f'<row r="{number}">'
        + "".join(
            f'<c r="{"ABCDE"[place]}{number}" t="inlineStr"><is><t>{cell}</t></is></c>'
            for place, cell in enumerate(row)
        )
        + "</row>"
        for number, row in enumerate(cells, start=1)
    )
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    return inputs.zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>'.encode(),
            "_rels/.rels": (
                f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
                f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
            ).encode(),
            "xl/workbook.xml": (
                f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
                '<sheet name="s" sheetId="1" r:id="s"/></sheets></workbook>'
            ).encode(),
            "xl/_rels/workbook.xml.rels": (
                f'<Relationships xmlns="{package}/relationships"><Relationship Id="s" '
                f'Type="{office}/worksheet" Target="worksheets/s.xml"/></Relationships>'
            ).encode(),
            "xl/worksheets/s.xml": (
                f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
            ).encode(),
        }
    )


def _zstd(content: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(content, asbytes=True)
    return packed


def _duckdb(path: Path) -> bytes:
    import duckdb

    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE edges AS SELECT 'a' AS source, 'b' AS target")
    return path.read_bytes()


def _read_prior(path: Path) -> None:
    check_prior(read_prior(path), load_dataset("karate"))


def _show_results(path: Path) -> None:
    folder = path.with_name("results")
    folder.mkdir(exist_ok=True)
    path.replace(folder / "results.json")
    results = _read_results(Request(folder)) | {"date": "", "machine": describe_machine()}
    to_markdown(results)
    to_html(results)


def _read_runs(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")
    with RunLog(path) as log:
        log.missing(Series("table2", "cora", "gcn", print, SETTINGS, seeds=(3, 4)))


def _ingest(output: Path, path: Path) -> None:
    from graphconv.storage.ingest import IngestRequest, ingest
    from graphconv.storage.stored_graph import open_graph

    try:
        ingest(IngestRequest((str(path),), (), output))
        open_graph(output)
    finally:
        for place in (output, output.with_name(f".{output.name}.ingest")):
            shutil.rmtree(place, ignore_errors=True)
