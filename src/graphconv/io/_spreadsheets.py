"""Spreadsheets: a sheet of an .xlsx, .xls or .ods file becomes a frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphconv.io.delimited import check_distinct

if TYPE_CHECKING:
    import pandas as pd

SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def read_sheet(path: Path, *, has_header: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """The first sheet of a file, and what to tell about it.

    Cells keep their types: whole numbers stay whole, dates are dates.
    """
    import pandas as pd

    try:
        import python_calamine
    except ImportError:
        raise ValueError(
            f"{path.name}: spreadsheets need python-calamine: pip install python-calamine"
        ) from None
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        name = book.sheet_names[0]
        rows: list[list[Any]] = book.get_sheet_by_name(name).to_python(skip_empty_area=True)
    except Exception as error:  # it has no class of errors of its own that all are of
        raise ValueError(f"{path.name} must be a spreadsheet: {error}") from None
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if not rows:
        raise ValueError(f"{path.name} is empty: its first row must name the columns")
    names = [f"column_{place + 1}" for place in range(len(rows[0]))]
    if has_header:
        names = [str(cell).strip() for cell in rows.pop(0)]
        check_distinct(path.name, [name for name in names if name])
    columns = {
        column: pd.Series([_plain(row[place]) for row in rows])
        for place, column in enumerate(names)
        if column
    }
    others = len(book.sheet_names) - 1
    notes = [f"{path.name}: of {others + 1} sheets the first, {name!r}, is read"] if others else []
    return pd.DataFrame(columns, index=pd.RangeIndex(len(rows))), notes


def _plain(cell: Any) -> Any:
    """A cell as a program would write it: sheets hold all numbers as fractions."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    return None if cell == "" else cell
