"""Table columns: which column of a table means what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphconv.graph import Duplicates, Graph, SelfLoops
from graphconv.io.number_columns import MissingValue
from graphconv.io.sniffing import TextFormatOptions
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import Table
from graphconv.io.wording import Message, did_you_mean, naming, shown

if TYPE_CHECKING:
    import pandas as pd

OTHER_NAMES = {
    "source": ("src", "from", "head", "subject", "fromnodeid"),
    "target": ("dst", "to", "tail", "object", "tonodeid"),
    "id": ("node", "node_id", "name"),
    "label": ("class", "y", "category"),
}
# The parameter that declares a role; for all others it is `roles`.
PARAMETER_OF = {"category": "categorical", "text": "text", "ignore": "ignore", "date": "date"}
DERIVED = ("yes-no", "amount", "date", "embedding", "sparse")
ROLES = ("number", "category", "text", *DERIVED, "ignore")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How tables are to be read; `readers.read_tables` says what each option means."""

    source: str = "source"
    target: str = "target"
    source_type: str | None = None
    target_type: str | None = None
    weight: str | None = None
    relation: str | None = None
    edge_features: Sequence[str] = ()
    id: str = "id"
    label: str = "label"
    split_column: str | None = None
    split_by: str | None = None
    categorical: Sequence[str] = ()
    text: Sequence[str] = ()
    ignore: Sequence[str] = ()
    date: Sequence[str] = ()
    roles: Mapping[str, str] | Sequence[str] = ()
    label_separator: str | None = None
    unlabelled_value: object = None
    bins: int | None = None
    directed: bool = False
    duplicates: Duplicates | None = None
    self_loops: SelfLoops = "keep"
    closed_ids: bool = False
    missing_value: MissingValue = "refuse"
    require_label: bool = True
    encoding: TableEncoding | None = None
    merge_into: Graph | None = None
    name: str | None = None
    delimiter: str | None = None
    file_encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.duplicates not in (None, "sum", "collapse"):
            message = "{duplicates} must be 'sum' or 'collapse', got {!r}"
            raise ValueError(naming(message, self.duplicates))
        if self.self_loops not in ("keep", "drop"):
            message = "{self_loops} must be 'keep' or 'drop', got {!r}"
            raise ValueError(naming(message, self.self_loops))
        if self.missing_value not in ("refuse", "mean", "zero"):
            message = "{missing_value} must be 'refuse', 'mean' or 'zero', got {!r}"
            raise ValueError(naming(message, self.missing_value))
        if self.merge_into is not None and self.encoding is None:
            raise ValueError(
                "merge_into needs the encoding that the graph's features were made with"
            )
        if self.split_by is not None and not re.fullmatch("(time|group):.+", self.split_by):
            message = "{split_by} must be time:COLUMN or group:COLUMN, got {!r}"
            raise ValueError(naming(message, self.split_by))
        if self.label_separator == "":
            raise ValueError(naming("{label_separator} must not be empty"))
        if self.bins is not None and self.bins < 2:
            raise ValueError(naming("{bins} must be at least 2, got {}", self.bins))
        if self.bins is not None and self.label_separator is not None:
            raise ValueError(naming("{bins} are of a number, got {label_separator} as well"))
        _ = self.text_format  # refuses what no file can be like
        # text="title" for text=["title"] is an easy slip, and would be read as five columns.
        if isinstance(self.roles, Mapping):
            object.__setattr__(self, "roles", [f"{c}={role}" for c, role in self.roles.items()])
        for field in ("categorical", "text", "ignore", "date", "roles", "edge_features"):
            value = getattr(self, field)
            is_one = isinstance(value, str) or not isinstance(value, Iterable)
            object.__setattr__(self, field, (value,) if is_one else tuple(value))
        self._check_names()
        for name, _, role in (pair.rpartition("=") for pair in self.roles):
            if not name or role not in ROLES:
                raise ValueError(
                    f"roles must be of {', '.join(ROLES)}, such as 'tags=sparse', "
                    f"got {f'{name}={role}'.lstrip('=')!r}"
                )

    def _check_names(self) -> None:
        """Names of columns are text; the options of a damaged model folder need not be."""
        singles = ("source", "target", "id", "label")
        optional = ("source_type", "target_type", "weight", "relation", "split_column")
        several = ("categorical", "text", "ignore", "date", "roles", "edge_features")
        named = [(field, getattr(self, field)) for field in singles]
        named += [(field, getattr(self, field) or "") for field in optional]
        named += [(field, name) for field in several for name in getattr(self, field)]
        for field, name in named:
            if not isinstance(name, str):
                raise ValueError(naming(f"{{{field}}} must be text, got {{!r}}", name))

    @property
    def declarations(self) -> list[tuple[str, str]]:
        """Columns that were said to have a role, and the role."""
        said = {"category": self.categorical, "text": self.text, "ignore": self.ignore}
        pairs = [(name, role) for role, names in said.items() for name in names]
        pairs += [(name, "date") for name in self.date_formats]
        for pair in self.roles:
            name, _, role = pair.rpartition("=")
            pairs.append((name, role))
        return pairs

    @property
    def date_formats(self) -> dict[str, str]:
        """Columns that were said to be dates, and their format, if it was said."""
        pairs = (entry.partition("=") if "=%" in entry else (entry, "", "") for entry in self.date)
        return {name: pattern for name, _, pattern in pairs}

    @property
    def text_format(self) -> TextFormatOptions:
        """What is said of how text files are written."""
        return TextFormatOptions(
            delimiter=self.delimiter,
            file_encoding=self.file_encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            header=self.header,
        )

    @property
    def edge_text_columns(self) -> set[str]:
        """Columns of an edge file that are text whatever they look like."""
        ends = {self.source, self.target, self.relation or "relation", "column_1", "column_2"}
        return ends.union(OTHER_NAMES["source"], OTHER_NAMES["target"])

    @property
    def node_text_columns(self) -> set[str]:
        """Columns of a node file that are text whatever they look like."""
        fitted = self.encoding or TableEncoding()
        parts = [fitted, *(encoding for _, encoding in fitted.types)]
        numeric = {name for part in parts for name in part.numeric}
        encoded = {name for part in parts for name in part.columns} - numeric
        declared = {name for name, role in self.declarations if role != "number"} - numeric
        named = {self.id, self.label, self.split_column or "split", "column_1"}
        return named.union(declared, encoded, OTHER_NAMES["id"], OTHER_NAMES["label"])


def column_of(table: Table, name: str, parameter: str) -> pd.Series[Any]:
    """The column of a table that a parameter names, or an error that says what there is."""
    columns = [str(column) for column in table.frame.columns]
    if name in columns:
        return table.frame[name]
    raise ValueError(no_such_column(table.name, name, columns, parameter))


def no_such_column(table: str, name: str, columns: Sequence[str], parameter: str) -> Message:
    """What to say of a column that a table lacks: which there are, and which may be meant."""
    known = [column for column in columns if column.lower() in OTHER_NAMES.get(name, ())]
    hint = did_you_mean(name, columns) or (f" (did you mean {known[0]!r}?)" if known else "")
    named = [column for column in columns if not column.startswith("\0")]  # not our own
    listed = ", ".join(shown(column) for column in named[:8]) + ", ..." * (len(named) > 8)
    there = f"its columns are {listed}" if named else "it has no columns"
    template = f"{{}} has no column {{!r}}; {{}}{{}}: choose one with {{{parameter}}}"
    return naming(template, table, name, there, hint)


def optional_column(
    table: Table, name: str | None, default: str, parameter: str = ""
) -> pd.Series[Any] | None:
    """A column by its name; by its usual name, if it is there, where none is given."""
    if name is None:
        return table.frame[default] if default in table.frame.columns else None
    return column_of(table, name, parameter or default) if name else None


def unused(place: str, what: str, names: Iterable[object]) -> list[str]:
    """One note that names what a file or a graph has and nothing is made of; none if all is used.

    Examples
    --------
    >>> from graphconv.io.table_columns import unused
    >>> unused("edges.csv", "columns", ["date", "amount"])
    ["edges.csv: columns not used: 'date', 'amount'"]
    """
    listed = [shown(str(name)) for name in names]
    if not listed:
        return []
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return [f"{place}: {what} not used: {', '.join(listed[:8])}{more}"]


def unused_edge_columns(edges: Table, options: TableOptions) -> list[str]:
    """A note on the columns of an edge table that have no use."""
    used = {options.source, options.target, options.weight or "weight"}
    used.update((options.relation or "relation", (options.split_by or "").partition(":")[2]))
    return unused(edges.name, "columns", [c for c in edges.frame.columns if str(c) not in used])
