"""Databases: a table or a query of SQLite, DuckDB or PostgreSQL becomes rows, batch by batch.

A connection string enters, batches of Arrow records leave. SQLite and PostgreSQL are read by their
ADBC drivers: one interface for both, which streams Arrow batches without going through Python
objects, from wheels that hold all they need. (DuckDB's scanners have to be downloaded at run time,
which many networks forbid.) DuckDB speaks Arrow itself.

Passwords are part of a connection string and of nothing else: no message, name or file holds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from graphconv.io.table_files import Table, existing_file, frame_of_arrow, table_of_frame
from graphconv.io.wording import did_you_mean, one_line, shown

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMES = {"sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql"}
_SCHEMES["postgres"] = "postgresql"
_DATABASE = re.compile(rf"({'|'.join(_SCHEMES)})://", re.ASCII)
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')",
    "duckdb": "SELECT table_name FROM information_schema.tables",
    "postgresql": "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
}
_BATCH_ROWS = 1 << 16


def is_database(source: object) -> bool:
    """Whether a source of rows is a connection string.

    Examples
    --------
    >>> from graphconv.io.databases import is_database
    >>> is_database("sqlite:///shop.db?table=edges"), is_database("edges.csv")
    (True, False)
    """
    return isinstance(source, str) and _DATABASE.match(source) is not None


def with_query(source: str, query: str) -> str:
    """A connection string that asks a query."""
    if not is_database(source):
        raise ValueError(f"a query needs a database, got {shown(source)}")
    return f"{source}{'&' if '?' in source else '?'}{urlencode({'query': query})}"


def without_password(source: str) -> str:
    """A connection string without its password, to be shown.

    Examples
    --------
    >>> from graphconv.io.databases import without_password
    >>> without_password("postgresql://ann:secret@db.example/shop?table=edges")
    'postgresql://ann@db.example/shop?table=edges'
    """
    parts = urlsplit(source)
    user, mark, host = parts.netloc.rpartition("@")
    pairs = [pair for pair in parse_qsl(parts.query) if "pass" not in pair[0].lower()]
    place = f"{user.partition(':')[0]}{mark}{host}"
    more = urlencode(pairs, quote_via=quote, safe=" *,'/")
    return f"{parts.scheme}://{place}{parts.path}{'?' if more else ''}{more}"


@dataclass(frozen=True)
class DatabaseTable:
    """A table or a query of a database.

    Parameters
    ----------
    kind : {"sqlite", "duckdb", "postgresql"}
    place : str
        The path of the file, or the connection string of PostgreSQL.
    table, query : str
        One of them, or none where the database has one table only.
    """

    kind: str
    place: str
    table: str
    query: str

    @classmethod
    def parse(cls, source: str) -> DatabaseTable:
        """The table that a connection string names by ?table=NAME or ?query=SELECT."""
        parts = urlsplit(source)
        kind = _SCHEMES[parts.scheme]
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        table, query = given.pop("table", ""), given.pop("query", "")
        if table and query:
            raise ValueError(f"{without_password(source)} must name a table or a query, not both")
        if kind == "postgresql":
            more = f"?{urlencode(given)}" if given else ""
            return cls(kind, f"{kind}://{parts.netloc}{parts.path}{more}", table, query)
        if given:
            raise ValueError(
                f"{without_password(source)}: only table and query are known, got {min(given)!r}"
            )
        # sqlite:///shop.db is a file here, sqlite:////data/shop.db one at the root.
        path = unquote(f"{parts.netloc}{parts.path}" if parts.netloc else parts.path[1:])
        return cls(kind, str(existing_file(path)), table, query)

    @property
    def name(self) -> str:
        """What messages call the table."""
        path = urlsplit(self.place).path if self.kind == "postgresql" else self.place
        return f"{Path(path).name or self.kind}:{self.table or 'query'}"

    @cached_property
    def _secrets(self) -> list[str]:
        parts = urlsplit(self.place) if self.kind == "postgresql" else urlsplit("")
        password = parts.password or ""
        given = [value for key, value in parse_qsl(parts.query) if "pass" in key.lower()]
        return [word for word in (password, unquote(password), *given) if word]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as batches of Arrow records that are read as they are asked for."""
        with self._plain_errors(), _connection(self.kind, self.place) as connection:
            query = self.query or self._select(connection)
            if self.kind == "duckdb":
                yield from connection.sql(query).to_arrow_reader(_BATCH_ROWS)
                return
            if self.kind == "sqlite":
                query = _with_one_type_each(connection, query)
            with _cursor(connection) as cursor:
                cursor.execute(query)
                yield from cursor.fetch_record_batch()

    def read(self) -> Table:
        """All rows as a table."""
        import pyarrow as pa

        batches = list(self.batches())
        if not batches:
            raise ValueError(f"{self.name} has no rows")
        frame = frame_of_arrow(pa.Table.from_batches(batches))
        name = self.name
        plain = table_of_frame(frame, name)
        return Table(plain.frame, name, lambda row: f"{name}, row {row + 1}", is_file=True)

    def _select(self, connection: Any) -> str:
        """The query for all of a table, which must be there."""
        with _cursor(connection) as cursor:
            cursor.execute(_TABLES[self.kind])
            known = sorted(str(row[0]) for row in cursor.fetchall())
        table = self.table
        if not table and len(known) == 1:
            table = known[0]
        if not table or (table not in known and "." not in table):
            listed = ", ".join(known[:8]) + ", ..." * (len(known) > 8)
            must = f"has no table {table!r}" if table else "must have ?table=NAME or a query"
            raise ValueError(
                f"{self.name.partition(':')[0]} {must}; its tables are {listed or 'none'}"
                f"{did_you_mean(table, known) if table else ''}"
            )
        parts = [table] if table in known else table.split(".")
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        return f"SELECT * FROM {quoted}"

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Turn what a driver raises into one line without a password."""
        try:
            yield
        except (ValueError, FileNotFoundError, GeneratorExit):
            raise
        except Exception as error:  # each driver has errors of its own
            # Drivers repeat the query below the reason.
            text = one_line(re.split(r"\n+query[: ]", str(error), flags=re.IGNORECASE)[0])
            text = re.sub(r"^[A-Z_]+: (\[\w+\] )?|^\[\w+\] ", "", text)
            for secret in self._secrets:
                text = text.replace(secret, "***")
            raise ValueError(f"{self.name}: {text}") from None


@contextmanager
def _connection(kind: str, place: str) -> Iterator[Any]:
    """A connection that can't change anything."""
    connection: Any
    try:
        if kind == "duckdb":
            import duckdb

            connection = duckdb.connect(place, read_only=True)
        elif kind == "sqlite":
            import adbc_driver_sqlite.dbapi as sqlite

            connection = sqlite.connect(f"file:{quote(str(Path(place).resolve()))}?mode=ro")
        else:
            import adbc_driver_postgresql.dbapi as postgresql

            connection = postgresql.connect(place)
            with _cursor(connection) as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
    except ImportError:
        raise ValueError(
            f"{kind} databases need drivers: pip install 'graphconv[databases]'"
        ) from None
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _cursor(connection: Any) -> Iterator[Any]:
    cursor = connection.cursor()
    try:
        yield cursor
    finally:
        try:
            cursor.close()
        except Exception:
            # Drivers before 1.13 would try it once more when the cursor is collected, and say so
            # on stderr.
            cursor._closed = True
            raise


def _with_one_type_each(connection: Any, query: str) -> str:
    """A query of SQLite whose columns have one type each; in SQLite every cell may have its own."""
    source = f"({query.rstrip('; ')})"
    with _cursor(connection) as cursor:
        cursor.execute(f"SELECT * FROM {source} LIMIT 0")
        columns = ['"' + str(field[0]).replace('"', '""') + '"' for field in cursor.description]
        kinds = ", ".join(f"group_concat(DISTINCT typeof({column}))" for column in columns)
        cursor.execute(f"SELECT {kinds} FROM {source}")
        found = [set((cell or "").split(",")) - {"", "null"} for cell in cursor.fetchone()]
    selected = []
    for column, types in zip(columns, found, strict=True):
        kind = "REAL" if types == {"integer", "real"} else "TEXT"
        selected.append(f"CAST({column} AS {kind}) AS {column}" if len(types) > 1 else column)
    return f"SELECT {', '.join(selected)} FROM {source}"
