"""Ids of any type become node numbers: the table's nodes first, then those only edges name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.io.files import file_checksum
from graphconv.io.progress import counter
from graphconv.io.table_ids import about_other_spellings
from graphconv.io.wording import count, naming, shown
from graphconv.storage._duckdb_tables import BLANKS, TableFiles, identifier
from graphconv.storage.stored_graph import ArrayWriter

if TYPE_CHECKING:
    from graphconv.storage.ingest import Work

# Numbers are packed two to a key, see edge_merge.
MAX_NODES = 2**31 - 1
# The largest float64 that rounds to a finite float32.
_LARGEST = 3.4028235677973362e38
_BATCH_ROWS = 1 << 18


def read_ids(work: Work) -> None:
    """Number the node table's rows in order; refuse an id that is missing or there twice."""
    database = work.database
    kind = "BIGINT" if _ids_are_whole(work) else "VARCHAR"
    database.run(f"CREATE OR REPLACE TABLE ids (number BIGINT, id {kind})")
    work.found["ids_are_whole"] = kind == "BIGINT"
    work.found["n_table"] = 0
    if work.nodes is None:
        return
    nodes, column = work.nodes, work.nodes.require(work.options.id, "id")
    database.run(
        f"INSERT INTO ids SELECT row_number() OVER () - 1, {_id_of(work, nodes, column)} "
        f"FROM {nodes.scan()}",
        f"reading ids of {nodes.name}",
    )
    _refuse_empty(work, nodes, "ids", {"id": column})
    work.found["n_table"] = int(database.value("SELECT count(*) FROM ids"))
    twice = database.value("SELECT min(number) FROM ids GROUP BY id HAVING count(*) > 1 LIMIT 1")
    if twice is not None:
        same = f"SELECT number, id FROM ids WHERE id = (SELECT id FROM ids WHERE number = {twice})"
        (first, node_id), (second, _) = database.rows(f"{same} ORDER BY number LIMIT 2")
        raise ValueError(
            f"{nodes.at(database, second)}: id {_shown_id(node_id)} must be unique, but "
            f"{nodes.at(database, first)} has it too"
        )


def read_edges(work: Work) -> None:
    """Copy ends and weights of the edges into the database, and refuse what can't be an edge."""
    database, edges, options = work.database, work.edges, work.options
    source = edges.require(options.source, "source")
    target = edges.require(options.target, "target")
    weight = optional_column(edges, options.weight, "weight")
    work.found["has_weight"] = weight is not None
    number = "" if weight is None else f", {edges.number(weight)} AS weight"
    database.run(
        "CREATE OR REPLACE TABLE listed AS SELECT row_number() OVER () - 1 AS number, "
        f"{_id_of(work, edges, source)} AS source, {_id_of(work, edges, target)} AS target{number} "
        f"FROM {edges.scan()}",
        f"reading {edges.name}",
    )
    _refuse_empty(work, edges, "listed", {"source": source, "target": target})
    if weight is not None:
        _check_weights(work, weight)


def number_edges(work: Work) -> None:
    """Number the nodes that only edges name, then replace ids by numbers."""
    database, edges = work.database, work.edges
    n_table = work.found["n_table"]
    database.run(f"DELETE FROM ids WHERE number >= {n_table}")
    n_nodes = int(database.value("SELECT count(*) FROM ids"))
    n_edges = int(database.value("SELECT count(*) FROM listed"))
    # Generated and exported tables often have the ids 0, 1, ...: there is nothing to look up.
    is_numbered = work.found["ids_are_whole"] and database.value(
        f"SELECT (SELECT bool_and(id = number) FROM ids) AND (SELECT bool_and(least(source, target)"
        f" >= 0 AND greatest(source, target) < {n_nodes}) FROM listed)"
    )
    weight = ", weight" if work.found["has_weight"] else ""
    if is_numbered:
        query = f"SELECT source AS s, target AS t{weight} FROM listed"
    else:
        _add_new_ids(work, n_table, n_edges)
        query = (
            f"SELECT a.number AS s, b.number AS t{weight} FROM listed "
            "JOIN ids a ON listed.source = a.id JOIN ids b ON listed.target = b.id"
        )
    # Edges are sorted later on, so their order here is nobody's.
    database.run("SET preserve_insertion_order = false")
    database.run(f"CREATE OR REPLACE TABLE numbered AS {query}", "looking ids up")
    database.run("SET preserve_insertion_order = true")
    n_nodes = int(database.value("SELECT count(*) FROM ids"))
    if not n_nodes:
        raise ValueError(f"{edges.name} must have an edge, or the node table a node, got neither")
    if n_nodes > MAX_NODES:
        raise ValueError(f"a graph must have at most {MAX_NODES:,} nodes, got {n_nodes:,}")
    work.found["n_nodes"] = n_nodes


def _add_new_ids(work: Work, n_table: int, n_edges: int) -> None:
    """Nodes that the table lacks, in the order in which a reader of the edges meets them."""
    database, edges, nodes = work.database, work.edges, work.nodes
    database.run(
        f"INSERT INTO ids SELECT {n_table} + row_number() OVER (ORDER BY first) - 1, id FROM ("
        "SELECT id, min(place) AS first FROM ("
        "SELECT source AS id, 2 * number AS place FROM listed UNION ALL "
        "SELECT target, 2 * number + 1 FROM listed) ends "
        "WHERE NOT EXISTS (SELECT 1 FROM ids WHERE ids.id = ends.id) GROUP BY id)",
        "numbering nodes that only edges name",
    )
    n_new = int(database.value(f"SELECT count(*) FROM ids WHERE number >= {n_table}"))
    if nodes is None or not n_new:
        return
    unknown = f"(SELECT id FROM ids WHERE number >= {n_table})"
    if not work.found["ids_are_whole"]:
        _tell_other_spellings(work, nodes.name, n_new, n_edges)
    if work.options.closed_ids:
        row, source, target, is_source = database.rows(
            f"SELECT number, source, target, source IN {unknown} FROM listed "
            f"WHERE source IN {unknown} OR target IN {unknown} ORDER BY number LIMIT 1"
        )[0]
        side, node_id = ("source", source) if is_source else ("target", target)
        raise ValueError(
            f"{edges.at(database, row)}: {side} {_shown_id(node_id)} is not in {nodes.name}"
        )
    some_known = database.value(
        f"SELECT 1 FROM listed WHERE source NOT IN {unknown} OR target NOT IN {unknown} LIMIT 1"
    )
    if n_edges and n_table and some_known is None:
        ours = database.value("SELECT source FROM listed ORDER BY number LIMIT 1")
        theirs = database.value("SELECT id FROM ids WHERE number = 0")
        raise ValueError(
            f"{edges.name} and {nodes.name} must share ids, but no edge has one of the table's: "
            f"{_shown_id(ours)} is one of the edges', {_shown_id(theirs)} of the table's"
        )
    work.note(f"{count(n_new, 'node')} only in {edges.name}: no label, features unknown")


def _tell_other_spellings(work: Work, place: str, n_new: int, n_edges: int) -> None:
    """Say which new ids are probably ids of the table; see `table_ids`."""
    database, n_table = work.database, work.found["n_table"]
    bare = f"lower(translate(id, {BLANKS}, ''))"
    number = "regexp_extract(bare, '^0*([0-9]+)(\\.0*)?$', 1)"
    database.run(
        "CREATE OR REPLACE TEMP TABLE alike AS WITH spelled AS (SELECT number, id, "
        f"coalesce(nullif({number}, ''), bare) AS plain FROM (SELECT *, {bare} AS bare FROM ids)) "
        "SELECT new.number, any_value(new.id) AS id, max_by(known.id, known.number) AS meant "
        "FROM spelled new JOIN spelled known ON new.plain = known.plain "
        f"WHERE new.number >= {n_table} AND known.number < {n_table} GROUP BY new.number"
    )
    n_likely = int(database.value("SELECT count(*) FROM alike"))
    if n_likely:
        (pair,) = database.rows("SELECT id, meant FROM alike ORDER BY number LIMIT 1")
        n_missed = database.value(
            "SELECT count(*) FROM listed WHERE source IN (SELECT id FROM alike) "
            "OR target IN (SELECT id FROM alike)"
        )
        counts = (n_likely, n_new), (int(n_missed), n_edges)
        work.note(about_other_spellings(work.edges.name, place, pair, *counts))


def write_ids(work: Work) -> None:
    """Store the ids in the order of their numbers: as integers if all are, else as text."""
    import pyarrow as pa

    database = work.database
    is_whole = work.found["ids_are_whole"] or database.value(
        # What is no number is NULL, which bool_and would pass over.
        "SELECT bool_and(coalesce(id = CAST(TRY_CAST(id AS BIGINT) AS VARCHAR), false)) FROM ids"
    )
    n_nodes = work.found["n_nodes"]
    advance = counter(work.progress, "writing ids", n_nodes)
    if is_whole:
        writer = ArrayWriter(work.folder / "ids.bin", "<i8")
        query = "SELECT CAST(id AS BIGINT) FROM ids ORDER BY number"
        for batch in database.batches(query, _BATCH_ROWS):
            writer.append(batch.column(0).to_numpy())
            advance(len(batch))
        work.found["arrays"]["ids"] = writer.close().to_json()
        work.found["ids_file"] = None
        return
    path = work.folder / "ids.arrow"
    schema = pa.schema([("id", pa.large_string())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
        query = "SELECT id FROM ids ORDER BY number"
        for batch in database.batches(query, _BATCH_ROWS):
            column = batch.column(0).cast(pa.large_string())
            file.write_batch(pa.record_batch([column], schema=schema))
            advance(len(batch))
    work.found["ids_file"] = {"file": path.name, "blake2b": file_checksum(path)}


def optional_column(
    table: TableFiles, name: str | None, default: str, parameter: str = ""
) -> str | None:
    """A column by its name; by its usual name, if it is there, where none is given."""
    if name is None:
        return default if default in table.columns else None
    return table.require(name, parameter or default) if name else None


def refuse_row(work: Work, table: TableFiles, row: int, column: str, must: str) -> None:
    """Raise the error of a cell that is not as it must be, with its place and what it holds."""
    cell = work.database.value(
        f"SELECT cell FROM (SELECT row_number() OVER () - 1 AS number, {identifier(column)} "
        f"AS cell FROM {table.scan()}) WHERE number = {row}"
    )
    place = table.at(work.database, row)
    raise ValueError(naming("{}: column {!r} must {}, got {}", place, column, must, shown(cell)))


def _ids_are_whole(work: Work) -> bool:
    """Whether all ids are integers by their type, so that they need not be made text."""
    options = work.options
    tables: list[tuple[TableFiles, str]] = [
        (work.edges, work.edges.require(options.source, "source")),
        (work.edges, work.edges.require(options.target, "target")),
    ]
    if work.nodes is not None:
        tables.append((work.nodes, work.nodes.require(options.id, "id")))
    return all(table.is_whole(column) for table, column in tables)


def _id_of(work: Work, table: TableFiles, column: str) -> str:
    if work.found["ids_are_whole"]:
        return f"CAST({identifier(column)} AS BIGINT)"
    return table.text(column)


def _refuse_empty(work: Work, table: TableFiles, name: str, columns: dict[str, str]) -> None:
    for ours, theirs in columns.items():
        empty = f"{ours} IS NULL" + ("" if work.found["ids_are_whole"] else f" OR {ours} = ''")
        row = work.database.value(f"SELECT min(number) FROM {name} WHERE {empty}")
        if row is not None:
            place = table.at(work.database, row)
            raise ValueError(f"{place}: column {theirs!r} must name a node, got an empty cell")


def _check_weights(work: Work, column: str) -> None:
    smallest, wrong = work.database.rows(
        "SELECT min(number) FILTER (weight < 0), min(number) FILTER "
        f"(weight IS NULL OR isnan(weight) OR abs(weight) >= {_LARGEST}) FROM listed"
    )[0]
    if wrong is not None:
        refuse_row(work, work.edges, wrong, column, "be a finite number")
    if smallest is not None:
        refuse_row(work, work.edges, smallest, column, "not be negative")


def _shown_id(node_id: Any) -> str:
    return shown(str(node_id) if isinstance(node_id, int | np.integer) else node_id)
