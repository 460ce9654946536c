"""Option groups: options that several commands take together, written down once.

A group is a dataclass whose fields are options, or the declared settings. A command names it as one
parameter, and `takes_groups` shows typer the options in its place.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from graphconv.commands import options as opt
from graphconv.commands.console import Screen
from graphconv.models.kinds import declaration
from graphconv.models.settings import PAPER, ROBUST, Settings

if TYPE_CHECKING:
    from graphconv.commands.data_source import DataRequest


@dataclass(frozen=True)
class ScreenOptions(Screen):
    """How much a command says."""

    quiet: opt.Quiet = False
    as_json: opt.AsJson = False


@dataclass(frozen=True)
class DataOptions:
    """Where the data comes from."""

    data: opt.DataName = None
    edges: opt.Edges = None
    nodes: opt.Nodes = None
    edges_query: opt.EdgesQuery = None
    nodes_query: opt.NodesQuery = None
    features: opt.FeatureFile = None
    data_dir: opt.DataDir = None

    def request(
        self,
        tables: TableColumns | None = None,
        split: str | None = None,
        labels: Path | None = None,
    ) -> DataRequest:
        from graphconv.commands.data_source import DataRequest

        options = {} if tables is None else tables.options()
        edges = asked(self.edges, self.edges_query)
        nodes = asked(self.nodes, self.nodes_query)
        request = DataRequest(self.data, edges, nodes, options, split, self.data_dir, labels)
        return replace(request, features=self.features)


def asked(sources: list[str] | None, query: str | None) -> tuple[str, ...] | None:
    """Sources of rows, a database with the query that it is to be asked."""
    if query is None:
        return tuple(sources) if sources else None
    from graphconv.io.databases import with_query

    if sources is None or len(sources) != 1:
        raise ValueError(f"a query needs one database, got {len(sources or ())}")
    return (with_query(sources[0], query),)


@dataclass(frozen=True)
class NewDataOptions(DataOptions):
    """Where the data comes from that a trained model is to be used on."""

    merge: opt.Merge = True

    def request(
        self,
        tables: TableColumns | None = None,
        split: str | None = None,
        labels: Path | None = None,
    ) -> DataRequest:
        return replace(super().request(tables, split, labels), merge=self.merge)


@dataclass(frozen=True)
class TableColumns:
    """How tables are read."""

    source: opt.Source = "source"
    target: opt.Target = "target"
    source_type: opt.SourceType = None
    target_type: opt.TargetType = None
    weight: opt.Weight = None
    relation: opt.Relation = None
    edge_features: opt.EdgeFeatures = None
    id: opt.Id = "id"
    label: opt.Label = "label"
    label_separator: opt.LabelSeparator = None
    unlabelled_value: opt.UnlabelledValue = None
    bins: opt.Bins = None
    categorical: opt.Categorical = None
    text: opt.Text = None
    ignore: opt.Ignore = None
    date: opt.Date = None
    roles: opt.Roles = None
    split_column: opt.SplitColumn = None
    directed: opt.Directed = False
    duplicates: opt.Duplicates = None
    self_loops: opt.SelfLoops = "keep"
    closed_ids: opt.ClosedIds = False
    missing_value: opt.MissingValue = "refuse"
    delimiter: opt.Delimiter = None
    file_encoding: opt.FileEncoding = None
    decimal: opt.Decimal = None
    thousands: opt.Thousands = None
    header: opt.Header = None

    def options(self) -> dict[str, Any]:
        """The fields of a `TableOptions`."""
        options = asdict(self)
        for name in ("categorical", "text", "ignore", "date", "roles", "edge_features"):
            options[name] = column_names(options[name])
        return options


def column_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of columns, several of them separated by commas.

    Examples
    --------
    >>> from graphconv.commands.option_groups import column_names
    >>> column_names(["town,job", '"last, first"'])
    ('town', 'job', 'last, first')
    """
    rows = csv.reader(given or (), skipinitialspace=True)
    return tuple(name.strip() for row in rows for name in row if name.strip())


class SettingsOptions:
    """One option for each field of `Settings`, as it is declared; None leaves it to the preset."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    def chosen(self) -> dict[str, Any]:
        """The settings that were given, as `Settings` wants them."""
        kinds = {field.name: declaration(field).kind for field in fields(Settings)}
        return {
            name: kinds[name].read(value) if isinstance(value, str) else value
            for name, value in self._given.items()
            if value is not None
        }

    @staticmethod
    def parameters() -> list[inspect.Parameter]:
        """What typer is shown."""
        shown = []
        for field in fields(Settings):
            if field.name == "model":
                continue  # an option of its own, which names baselines as well
            declared = declaration(field)
            kind, name = declared.kind, field.name.replace("_", "-")
            is_switch = kind.metavar is None
            flags = f"--{name}/--no-{name}" if is_switch else f"--{name}"
            about = f"{declared.help}{_defaults(field.name)}"
            option = opt.option(declared.group, flags, kind.metavar, about, kind.choices)
            shown.append(
                _parameter(field.name, Annotated[(bool if is_switch else str) | None, option], None)
            )
        return shown


def _defaults(name: str) -> str:
    """What a setting is by default: in the robust preset and, if it differs, in the paper's."""
    robust, paper = (_as_typed(getattr(preset, name)) for preset in (ROBUST, PAPER))
    if robust == paper:
        return f"  [default: {robust}]" if robust else ""
    return f"  [default: {robust or 'none'}; preset paper: {paper or 'none'}]"


def _as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "0"
    return "" if value is None else str(value)


def takes_groups(
    *, without: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command with groups among its parameters one with all their options.

    A parameter annotated with a group gets an instance made of that group's options.

    Parameters
    ----------
    without : tuple of str
        Options of the groups that this command does not take.
    """
    return partial(_with_options, without=without)


def _with_options(command: Callable[..., None], *, without: tuple[str, ...]) -> Callable[..., None]:
    shown: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    # Not get_type_hints, which until Python 3.10 hides an option's name where its default is None.
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and (is_dataclass(kind) or kind is SettingsOptions):
            options = [option for option in _options(kind) if option.name not in without]
            groups[parameter.name] = kind, [option.name for option in options]
            shown += options
        else:
            shown.append(parameter)

    def run(**given: Any) -> None:
        grouped = {
            name: kind(**{option: given.pop(option) for option in options})
            for name, (kind, options) in groups.items()
        }
        command(**given, **grouped)

    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__annotations__ = {}  # else typer would take `given` for an option
    # Typer asks inspect.signature, which looks here first; mypy does not know the attribute.
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


def _options(group: type) -> list[inspect.Parameter]:
    if group is SettingsOptions:
        return SettingsOptions.parameters()
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(field.name, hints[field.name], field.default) for field in fields(group)]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
