"""JSON files: records, or lists by column, become a frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphconv.io.delimited import open_text
from graphconv.io.wording import shown

if TYPE_CHECKING:
    import pandas as pd

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")


def read_json(path: Path, suffix: str) -> tuple[pd.DataFrame, bool]:
    """The rows of a file, and whether each stands on a line of its own.

    A .json file holds a list of objects, or one object of lists, one for each column; but objects
    on lines of their own are taken as well. What a row lacks is missing.
    """
    with open_text(path) as handle:
        if suffix == ".json":
            try:
                return _frame(json.load(handle), path.name), False
            except RecursionError:
                raise ValueError(f"{path.name} must be a table, but is nested too deeply") from None
            except json.JSONDecodeError as error:
                # More after the first object: records on lines of their own.
                if error.msg != "Extra data":
                    raise ValueError(f"{path.name}, line {error.lineno}: {error.msg}") from None
                handle.seek(0)
        records = []
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            try:
                records.append(json.loads(line))
            except RecursionError:
                raise ValueError(f"{path.name}, line {number}: nested too deeply") from None
            except json.JSONDecodeError as error:
                raise ValueError(f"{path.name}, line {number}: {error.msg}") from None
            if not isinstance(records[-1], dict):
                raise ValueError(
                    f"{path.name}, line {number}: a row must be an object, got {shown(line)}"
                )
    return _frame(records, path.name), True


def _frame(content: Any, name: str) -> pd.DataFrame:
    import pandas as pd

    if isinstance(content, dict) and all(isinstance(cells, list) for cells in content.values()):
        lengths = {len(cells) for cells in content.values()}
        if len(lengths) > 1:
            raise ValueError(f"{name}: all columns must be equally long, got {sorted(lengths)}")
        return pd.DataFrame({key: pd.Series(cells) for key, cells in content.items()})
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        keys = dict.fromkeys(key for row in content for key in row)
        columns = {key: pd.Series([row.get(key) for row in content]) for key in keys}
        return pd.DataFrame(columns, index=pd.RangeIndex(len(content)))
    raise ValueError(
        f"{name} must hold a list of objects, or an object of lists, got {shown(content)}"
    )
