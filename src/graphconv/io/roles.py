"""Roles: what each column of a node table is taken for, where the user has not said it.

A column enters, a `ColumnRole` leaves: number, category, text, yes or no, amount, date, embedding,
sparse numbers, or ignored, with the reason. `train` and `inspect` take columns for the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphconv.io._amounts import amount_format
from graphconv.io.derived_columns import (
    DerivedColumn,
    are_weights,
    date_format,
    is_filled,
    vector_width,
    yes_and_no,
)
from graphconv.io.sniffing import LEADING_ZERO
from graphconv.io.table_columns import DERIVED, ROLES, TableOptions
from graphconv.io.table_files import Table, as_text
from graphconv.io.wording import count, shown

if TYPE_CHECKING:
    import pandas as pd

# Cells that are looked at to find out what a column is; all are checked when it is read.
_LOOKED_AT = 2000
_MAX_CATEGORIES = 1000
# More columns of one role are told in one line.
_TOLD_APART = 12
_ID_NAME = re.compile(r"(?:.*[\W_])?(?:id|nr|no|key|index|uuid|guid|number|rownum)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnRole:
    """What a column is taken for.

    Parameters
    ----------
    name : str
    role : str
        One of `ROLES`.
    words : str
        The role in words: "a category of 12 values".
    is_guess : bool
        Nobody has said so.
    derived : DerivedColumn or None
        How the column becomes numbers, if it does not hold them.
    """

    name: str
    role: str
    words: str
    is_guess: bool = True
    derived: DerivedColumn | None = None

    @property
    def note(self) -> str:
        verb = "" if self.role == "ignore" else "taken as "
        return f"column {self.name!r} {verb}{self.words}"


def settle_roles(nodes: Table, columns: Sequence[str], options: TableOptions) -> list[ColumnRole]:
    """What each of some columns is taken for: what the options say, else what it looks like."""
    declared = dict(options.declarations)
    return [
        _declared(nodes, name, declared[name], options.date_formats.get(name, ""))
        if name in declared
        else propose_role(nodes.frame[name])
        for name in columns
    ]


def lines_about(roles: Sequence[ColumnRole]) -> list[str]:
    """What to tell of the roles that nobody has given: a line each, or one for many alike."""
    said = []
    guessed = [role for role in roles if role.is_guess]
    for kind in ROLES:
        alike = [role for role in guessed if role.role == kind]
        if len(alike) <= _TOLD_APART:
            said += [role.note for role in alike]
            continue
        names = ", ".join(shown(role.name) for role in alike[:3])
        verb = "ignored" if kind == "ignore" else f"taken as {_PLURALS[kind]}"
        said.append(f"{count(len(alike), 'column')} {verb}: {names}, ...")
    return said


_PLURALS = {
    "number": "numbers",
    "category": "categories",
    "text": "text",
    "yes-no": "yes or no",
    "amount": "numbers with a unit",
    "date": "dates",
    "embedding": "embeddings",
    "sparse": "sparse numbers",
}


def _declared(nodes: Table, name: str, role: str, pattern: str) -> ColumnRole:
    column = nodes.frame[name]
    if role == "number" and column.dtype.kind == "O" and propose_role(column).role == "amount":
        role = "amount"
    if role not in DERIVED or (role == "yes-no" and column.dtype.kind == "b"):
        plain = "number" if role == "yes-no" else role
        return ColumnRole(name, plain, _PLURALS.get(role, "ignored"), is_guess=False)
    try:
        derived = DerivedColumn.fit(column, role, pattern)
    except ValueError as error:
        raise ValueError(f"{nodes.name}: {error}") from None
    return ColumnRole(name, role, derived.in_words(), is_guess=False, derived=derived)


def propose_role(column: pd.Series[Any]) -> ColumnRole:
    """What a column looks like.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.roles import propose_role
    >>> propose_role(pd.Series(["ja", "nein", ""], name="active")).words
    "yes or no ('ja' is yes)"
    >>> propose_role(pd.Series(["24.12.2023", "01.02.2024"], name="joined")).words
    'a date (day.month.year)'
    >>> propose_role(pd.Series(["red", "blue", "red", "red"], name="colour")).words
    'a category of 2 values'
    """
    import pandas as pd

    name, kind = str(column.name), column.dtype.kind
    if kind == "b":
        return ColumnRole(name, "number", "yes or no ('true' is yes)")
    if kind in "iufc" or isinstance(column.dtype, pd.SparseDtype):
        return _of_numbers(column)
    if kind in "Mm":
        return _derived(column, "date" if kind == "M" else "amount")
    cells = [cell for cell in column.tolist() if is_filled(cell)]
    if not cells:
        return ColumnRole(name, "ignore", "ignored: it is empty")
    looked_at = [cells[place] for place in np.linspace(0, len(cells) - 1, _LOOKED_AT, dtype=int)]
    if len(cells) <= _LOOKED_AT:
        looked_at = cells
    likely = _derived_kind(looked_at)
    if likely == "number" and any(
        isinstance(cell, str) and LEADING_ZERO.fullmatch(cell.strip()) for cell in looked_at
    ):
        return _of_words(name, as_text(column))  # codes, as those of places
    if likely == "number":
        return ColumnRole(name, "number", "a number")
    if likely:
        return _derived(column, likely)
    if not all(isinstance(cell, str | bytes | int | float) for cell in looked_at):
        return ColumnRole(name, "ignore", f"ignored: it holds {shown(looked_at[0])}")
    return _of_words(name, as_text(column))


def _derived_kind(cells: Sequence[object]) -> str:
    """What numbers cells can become: themselves, or those of a derived column; "" if none."""
    import pandas as pd

    if all(isinstance(cell, bool | np.bool_) for cell in cells):
        return "yes-no"
    if all(isinstance(cell, str) for cell in cells):
        words = {str(cell).strip().lower() for cell in cells}
        # A lone "x" or "no" says nothing of what stands beside it.
        if len(words) < 3 and yes_and_no(sorted(words)):
            return "yes-no"
    numbers = [
        _is_number(cell) for cell in cells if not isinstance(cell, list | tuple | dict | np.ndarray)
    ]
    # Where half are numbers and half are none, somebody must say what is meant.
    if numbers and len(numbers) == len(cells) and sum(numbers) >= 0.5 * len(cells):
        return "number"
    if amount_format(cells):
        return "amount"
    if vector_width(cells):
        return "embedding"
    if are_weights(cells):
        return "sparse"
    is_moment = all(hasattr(cell, "year") and hasattr(cell, "month") for cell in cells)
    if is_moment or (
        all(isinstance(cell, str) for cell in cells)
        and date_format([str(cell).strip() for cell in pd.unique(pd.Series(list(cells)))])
    ):
        return "date"
    return ""


def _is_number(cell: object) -> bool:
    try:  # mypy: whatever float does not take raises, and that is the answer
        return not isinstance(cell, bool) and np.isfinite(float(cell))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _derived(column: pd.Series[Any], kind: str) -> ColumnRole:
    try:
        derived = DerivedColumn.fit(column, kind)
    except ValueError:
        # It looked so where it was looked at, but not everywhere.
        return _of_words(str(column.name), as_text(column))
    return ColumnRole(str(column.name), kind, derived.in_words(), derived=derived)


def _of_numbers(column: pd.Series[Any]) -> ColumnRole:
    name = str(column.name)
    if column.dtype.kind in "iu" and len(column) > 2 and _ID_NAME.fullmatch(name):
        numbers = column.to_numpy()
        if len(np.unique(numbers)) == len(numbers):
            return ColumnRole(name, "ignore", "ignored: every number differs, as those of ids do")
    return ColumnRole(name, "number", "a number")


def _of_words(name: str, text: pd.Series[str]) -> ColumnRole:
    cells = text[text != ""]
    n_cells, n_different = len(cells), int(cells.nunique())
    n_words = float(np.mean([len(cell.split()) for cell in cells.head(_LOOKED_AT)]))
    if n_different == 1 and n_cells == len(text):
        return ColumnRole(name, "ignore", f"ignored: all of it is {shown(cells.iloc[0])}")
    if n_words >= 3 and n_different > min(50, 0.5 * n_cells):
        return ColumnRole(name, "text", "text")
    if n_different > 0.9 * n_cells and n_cells > 2:
        return ColumnRole(name, "ignore", "ignored: nearly every value differs, as names do")
    if n_different <= _MAX_CATEGORIES:
        return ColumnRole(name, "category", f"a category of {count(n_different, 'value')}")
    return ColumnRole(name, "text", f"text ({n_different:,} different values)")
