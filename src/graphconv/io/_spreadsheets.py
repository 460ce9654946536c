"""Spreadsheets: a sheet of an .xlsx, .xls or .ods file becomes a frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphconv.io.delimited import check_distinct
from graphconv.io.wording import count

if TYPE_CHECKING:
    import pandas as pd

SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def read_sheet(
    path: Path, wanted: Collection[str] = (), *, has_header: bool = True
) -> tuple[pd.DataFrame, list[int], list[str]]:
    """A sheet of a file, the row of the sheet that each of its rows is, and what to tell about it.

    Of several sheets it is the first of those with the most columns named in `wanted`, in any
    case. Cells keep their types: whole numbers stay whole, dates are dates.
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
        sheets = [book.get_sheet_by_name(name) for name in book.sheet_names]
        if len(sheets) > 1 and has_header:
            usual = {name.lower() for name in wanted}
            sheets.sort(key=lambda sheet: -len(usual.intersection(_first_cells(sheet))))
        rows: list[list[Any]] = sheets[0].to_python(skip_empty_area=False)
    except Exception as error:  # it has no class of errors of its own that all are of
        raise ValueError(f"{path.name} must be a spreadsheet: {error}") from None
    places = [place for place, row in enumerate(rows) if any(cell != "" for cell in row)]
    if not places:
        raise ValueError(f"{path.name} is empty: its first row must name the columns")
    notes = []
    names = [f"column_{place + 1}" for place in range(len(rows[0]))]
    if has_header:
        n_title = _n_title_rows([rows[place] for place in places])
        if n_title:
            notes.append(f"{path.name}: {count(n_title, 'row')} of a title passed over")
            places = places[n_title:]
        names = [str(cell).strip() for cell in rows[places.pop(0)]]
        check_distinct(path.name, [name for name in names if name])
    columns = {
        column: pd.Series([_plain(rows[row][place]) for row in places])
        for place, column in enumerate(names)
        if column
    }
    if len(sheets) > 1:
        notes.append(f"{path.name}: of {len(sheets)} sheets {sheets[0].name!r} is read")
    return pd.DataFrame(columns, index=pd.RangeIndex(len(places))), places, notes


def _first_cells(sheet: Any) -> set[str]:
    """The cells of a sheet's first row that is not empty, in lower case."""
    rows = sheet.to_python(skip_empty_area=True, nrows=1)
    return {str(cell).strip().lower() for row in rows for cell in row}


def _n_title_rows(rows: Sequence[Sequence[Any]]) -> int:
    """How many rows stand above the names of the columns: those of one cell."""
    for number, row in enumerate(rows):
        if sum(cell != "" for cell in row) > 1:
            return number
    return 0  # a table of one column


def _plain(cell: Any) -> Any:
    """A cell as a program would write it: sheets hold all numbers as fractions."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    return None if cell == "" else cell
