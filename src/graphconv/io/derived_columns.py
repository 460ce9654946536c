"""Derived columns: yes and no, dates, embeddings and sparse weights become columns of numbers.

A column of a table enters, one or more columns of numbers leave, NaN where a cell is empty. How a
column is read is found out once, saved with the model, and holds for all later tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.io._amounts import amount, amount_format
from graphconv.io.wording import MISSING_MARKS, is_missing, shown

if TYPE_CHECKING:
    import pandas as pd

At = Callable[[int], str]

YES_AND_NO = (
    ("true", "false"),
    ("yes", "no"),
    ("y", "n"),
    ("t", "f"),
    ("on", "off"),
    ("ja", "nein"),
    ("ja", "nee"),
    ("j", "n"),
    ("oui", "non"),
    ("si", "no"),
    ("sí", "no"),
    ("sim", "não"),
    ("tak", "nie"),
    ("vrai", "faux"),
    ("wahr", "falsch"),
    ("x", ""),
)
ISO = "ISO8601"
# In the order in which they are tried: where day and month can't be told apart, the day is first.
DATE_FORMATS = {
    ISO: "year-month-day",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%d-%m-%Y": "day-month-year",
    "%Y/%m/%d": "year/month/day",
    "%d.%m.%y": "day.month.year",
    "%d/%m/%y": "day/month/year",
    "%m/%d/%y": "month/day/year",
    "%Y-%m": "year-month",
}
_TIMES = ("", " %H:%M", " %H:%M:%S")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_VECTOR = re.compile(rf"[\[(]\s*{_NUMBER}(?:[\s,;]+{_NUMBER})*\s*,?\s*[\])]", re.ASCII)
_WEIGHTS = re.compile(rf"[^\s:,;]+:{_NUMBER}(?:[\s,;]+[^\s:,;]+:{_NUMBER})*[\s,;]*")
_SEPARATORS = re.compile(r"[\s,;]+")
# Rarer names are left out, as rarer words are.
MAX_NAMES = 20_000


@dataclass(frozen=True)
class DerivedColumn:
    """A column of a table that is read as numbers, and how.

    Parameters
    ----------
    name : str
    kind : {"yes-no", "amount", "date", "embedding", "sparse"}
    detail : tuple of str
        yes-no: the words for yes and no. amount: its unit, its decimal mark and an example.
        date: its format, and "time" if hours count. embedding: how many numbers a cell holds.
        sparse: the names that have weights.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.derived_columns import DerivedColumn
    >>> tags = DerivedColumn.fit(pd.Series(["a:1 b:3", "", "b:2"], name="tags"), "sparse")
    >>> tags.derive(pd.Series(["b:7 c:1"]), str).to_dict("list")
    {'tags:a': [0.0], 'tags:b': [7.0]}
    """

    name: str
    kind: str
    detail: tuple[str, ...]

    @classmethod
    def fit(cls, column: pd.Series[Any], kind: str, date_format: str = "") -> DerivedColumn:
        """Find out how a column is to be read; ValueError where it can't be."""
        detail = _FITS[kind](column, date_format)
        if not detail:
            must = "must have a format that is known" if kind == "date" else "must be known"
            example = next((cell for cell in column.tolist() if is_filled(cell)), None)
            raise ValueError(
                f"column {str(column.name)!r} can't be read as {_KINDS[kind]}: how it is written "
                f"{must}, got {shown(example)}"
            )
        return cls(str(column.name), kind, detail)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        if self.kind in ("yes-no", "amount"):
            return (self.name,)
        if self.kind == "embedding":
            return tuple(f"{self.name}[{place}]" for place in range(int(self.detail[0])))
        if self.kind == "sparse":
            return tuple(f"{self.name}:{name}" for name in self.detail)
        cycles = ("season", "weekday", "hour") if "time" in self.detail else ("season", "weekday")
        waves = (f"{self.name}.{cycle}_{wave}" for cycle in cycles for wave in ("sin", "cos"))
        return (f"{self.name}.year", *waves)

    def derive(self, column: pd.Series[Any], at: At) -> pd.DataFrame:
        """The columns of numbers of a column; `at` names the place of a row in errors."""
        import pandas as pd

        if self.kind == "sparse":
            accessor: Any = pd.DataFrame.sparse  # its stubs know no from_spmatrix
            matrix = _weight_matrix(column, self.detail, at)
            frame: pd.DataFrame = accessor.from_spmatrix(matrix, columns=pd.Index(self.numbers))
            return frame
        derived = _DERIVERS[self.kind](column, self.detail, at)
        return pd.DataFrame(derived, columns=pd.Index(self.numbers))

    def in_words(self) -> str:
        """How the column is read, for a note."""
        if self.kind == "yes-no":
            return f"yes or no ({shown(self.detail[0])} is yes)"
        if self.kind == "amount":
            unit, decimal, example = self.detail
            return f"a number ({shown(example)} is {amount(example, unit, decimal):.15g})"
        if self.kind == "date":
            plain = self.detail[0].split(" ")[0]
            return f"a date ({DATE_FORMATS.get(plain, self.detail[0])})"
        if self.kind == "embedding":
            return f"an embedding of {self.detail[0]} numbers"
        return f"sparse numbers, {len(self.detail):,} different"

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> DerivedColumn:
        column = cls(
            str(content["name"]), str(content["kind"]), tuple(str(d) for d in content["detail"])
        )
        if column.kind not in _FITS or not column.detail:
            raise ValueError(f"derived column {column.name!r} must be of a known kind")
        if column.kind == "amount" and (
            len(column.detail) != 3 or amount(column.detail[2], *column.detail[:2]) is None
        ):
            raise ValueError(f"amount {column.name!r} must have a unit, a mark and an example")
        if column.kind == "embedding" and not 0 < int(column.detail[0]) <= 1 << 20:
            raise ValueError(f"embedding {column.name!r} must have a width, got {column.detail[0]}")
        return column


def with_derived(frame: pd.DataFrame, derived: Sequence[DerivedColumn], at: At) -> pd.DataFrame:
    """The table with columns of numbers in place of those they are derived from."""
    import pandas as pd

    if not derived:
        return frame
    parts = [column.derive(frame[column.name], at) for column in derived]
    rest = frame.drop(columns=[column.name for column in derived]).reset_index(drop=True)
    return pd.concat([rest, *parts], axis=1)


def is_filled(cell: object) -> bool:
    """Whether a cell holds something."""
    if isinstance(cell, str):
        return cell.strip() not in MISSING_MARKS
    return not is_missing(cell)


def _refuse(column: pd.Series[Any], row: int, at: At, must: str) -> ValueError:
    return ValueError(
        f"{at(row)}: column {str(column.name)!r} must {must}, got {shown(column.iloc[row])}"
    )


# Yes and no


def yes_and_no(words: Sequence[str]) -> tuple[str, ...]:
    """The words for yes and no among some words in lower case; nothing if they are others."""
    found = set(words)
    for yes, no in YES_AND_NO:
        if found and found <= {yes, no} - {""}:
            return yes, no
    return ()


def _fit_yes_no(column: pd.Series[Any], _: str) -> tuple[str, ...]:
    cells = [cell for cell in column.tolist() if is_filled(cell)]
    words = sorted({str(cell).strip().lower() for cell in cells})
    found = yes_and_no(words)
    if found or len(words) != 2:
        return found
    # Declared by the user, with words of their own: numbers and the alphabet put no before yes.
    return words[1], words[0]


def _derive_yes_no(
    column: pd.Series[Any], detail: Sequence[str], at: At
) -> npt.NDArray[np.float32]:
    yes, no = detail
    numbers = np.full((len(column), 1), np.nan, dtype=np.float32)
    for row, cell in enumerate(column.tolist()):
        word = str(cell).strip().lower() if is_filled(cell) else ""
        if word == yes or (word == no and is_filled(cell)):
            numbers[row] = word == yes
        elif is_filled(cell):
            raise _refuse(column, row, at, f"be {yes!r} or {no!r}")
        elif no == "":
            numbers[row] = 0
    return numbers


# Amounts


def _fit_amount(column: pd.Series[Any], _: str) -> tuple[str, ...]:
    cells = [str(cell).strip() for cell in column.tolist() if is_filled(cell)]
    found = amount_format(cells)
    # The one that shows most of how they are written.
    return (*found, max(cells, key=len)) if found else ()


def _derive_amount(
    column: pd.Series[Any], detail: Sequence[str], at: At
) -> npt.NDArray[np.float64]:
    unit, decimal, example = detail
    numbers = np.full((len(column), 1), np.nan)
    for row, cell in enumerate(column.tolist()):
        if is_filled(cell):
            number = amount(str(cell), unit, decimal)
            if number is None:
                raise _refuse(column, row, at, f"be a number written as {shown(example)}")
            numbers[row] = number
    return numbers


# Dates


def date_format(cells: Sequence[str], wanted: str = "") -> str:
    """The format in which all of some cells are dates, or nothing."""
    import pandas as pd

    text = pd.Series(list(cells), dtype="str")
    if not len(text):
        return ""
    if wanted:
        return wanted
    if text.str.match(r"\d{4}-\d{2}-\d{2}").all() and _parsed_dates(text, ISO).notna().all():
        return ISO
    if not text.str.match(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}|\d{4}-\d{2}$").all():
        return ""
    for day in DATE_FORMATS:
        for time in _TIMES if day != ISO else ():
            if _parsed_dates(text, day + time).notna().all():
                return day + time
    return ""


def dates_of(column: pd.Series[Any]) -> npt.NDArray[np.datetime64] | None:
    """A column of dates, NaT where a cell is empty; None where the column does not hold dates."""
    cells = [str(cell).strip() for cell in column.tolist() if is_filled(cell)]
    is_dates = column.dtype.kind == "M" or hasattr(column.dtype, "tz")
    pattern = ISO if is_dates else date_format(cells)
    if not pattern:
        return None
    return _dates(column, pattern).to_numpy(dtype="datetime64[ns]")


def _parsed_dates(text: pd.Series[Any], pattern: str) -> pd.Series[Any]:
    import pandas as pd

    parsed = pd.to_datetime(text, format=pattern, errors="coerce", utc=True)
    return parsed.dt.tz_localize(None)


def _dates(column: pd.Series[Any], pattern: str) -> pd.Series[Any]:
    """A column as dates without a zone, NaT where a cell is none."""
    import pandas as pd

    if column.dtype.kind == "M" or hasattr(column.dtype, "tz"):
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    cells = [str(cell).strip() if is_filled(cell) else None for cell in column.tolist()]
    return _parsed_dates(pd.Series(cells, dtype="str"), pattern)


def _fit_date(column: pd.Series[Any], wanted: str) -> tuple[str, ...]:
    cells = [str(cell).strip() for cell in column.tolist() if is_filled(cell)]
    pattern = ISO if column.dtype.kind == "M" else date_format(cells, wanted)
    if not pattern or not cells:
        return ()
    dates = _dates(column, pattern)
    has_time = (dates.dt.hour.fillna(0) + dates.dt.minute.fillna(0)).any()
    return (pattern, "time") if has_time else (pattern,)


def _derive_date(column: pd.Series[Any], detail: Sequence[str], at: At) -> npt.NDArray[np.float64]:
    dates = _dates(column, detail[0])
    filled = np.array([is_filled(cell) for cell in column.tolist()], dtype=bool)
    wrong = dates.isna().to_numpy() & filled
    if wrong.any():
        how = DATE_FORMATS.get(detail[0].split(" ")[0], detail[0])
        raise _refuse(column, int(np.flatnonzero(wrong)[0]), at, f"be a date as {how}")
    day = dates.dt
    hours = day.hour + day.minute / 60
    season = (day.day_of_year - 1 + hours / 24) / 365.25
    turns = [season, (day.day_of_week + hours / 24) / 7]
    if "time" in detail:
        turns.append(hours / 24)
    waves = [wave(2 * np.pi * turn.to_numpy()) for turn in turns for wave in (np.sin, np.cos)]
    return np.column_stack([(day.year + season).to_numpy(), *waves])


# Embeddings


def vector_width(cells: Sequence[object]) -> int:
    """How many numbers each of some cells holds; 0 if they hold other things."""
    widths = {len(vector) if (vector := _vector(cell)) is not None else 0 for cell in cells}
    return widths.pop() if len(widths) == 1 else 0


def _vector(cell: object) -> npt.NDArray[np.float64] | None:
    """The numbers of a list, an array or "[0.1, 0.2]"; None for anything else."""
    if isinstance(cell, str):
        if not _VECTOR.fullmatch(cell.strip()):
            return None
        cell = [part for part in _SEPARATORS.split(cell.strip(" \t\r\n[]()")) if part]
    elif not isinstance(cell, list | tuple | np.ndarray) or any(
        isinstance(number, str | bytes | list | dict) for number in cell
    ):
        return None
    try:
        vector = np.asarray(cell, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return vector if vector.ndim == 1 and len(vector) else None


def _fit_embedding(column: pd.Series[Any], _: str) -> tuple[str, ...]:
    width = vector_width([cell for cell in column.tolist() if is_filled(cell)])
    return (str(width),) if width else ()


def _derive_embedding(
    column: pd.Series[Any], detail: Sequence[str], at: At
) -> npt.NDArray[np.float32]:
    width = int(detail[0])
    numbers = np.full((len(column), width), np.nan, dtype=np.float32)
    for row, cell in enumerate(column.tolist()):
        if not is_filled(cell):
            continue
        vector = _vector(cell)
        if vector is None or len(vector) != width:
            raise _refuse(column, row, at, f"hold {width} numbers, as other rows do")
        numbers[row] = vector
    return numbers


# Sparse weights: "a:1 b:3", ["a", "b"] or {"a": 1, "b": 3}


def are_weights(cells: Sequence[object]) -> bool:
    """Whether cells hold names with weights; in text some cell must hold two, as no time does."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if texts and not any(text.count(":") > 1 for text in texts):
        return False
    return bool(cells) and all(weights_of(cell) is not None for cell in cells)


def weights_of(cell: object) -> dict[str, float] | None:
    """The weight of each name in a cell; None if it holds something else."""
    if isinstance(cell, str):
        if not _WEIGHTS.fullmatch(cell.strip()):
            return None
        pairs = [part.rsplit(":", 1) for part in _SEPARATORS.split(cell.strip()) if part]
        return {name: float(weight) for name, weight in pairs}
    if isinstance(cell, dict):
        cell = list(cell.items())
    if not isinstance(cell, list | tuple | np.ndarray):
        return None
    if all(isinstance(name, str) for name in cell):
        return {name: float(list(cell).count(name)) for name in cell}
    try:
        return {str(name): float(weight) for name, weight in cell if weight is not None}
    except (TypeError, ValueError):
        return None


def _fit_weights(column: pd.Series[Any], _: str) -> tuple[str, ...]:
    return names_with_weights([column])


def names_with_weights(columns: Iterable[pd.Series[Any]]) -> tuple[str, ...]:
    """The names of a sparse column that comes in pieces."""
    counts = Counter[str]()
    for column in columns:
        for cell in column.tolist():
            counts.update(list((weights_of(cell) if is_filled(cell) else None) or ()))
    commonest = sorted(counts, key=lambda name: (-counts[name], name))[:MAX_NAMES]
    return tuple(sorted(commonest))


def _weight_matrix(column: pd.Series[Any], names: Sequence[str], at: At) -> sp.csc_array:
    places = {name: place for place, name in enumerate(names)}
    rows, columns, values = [], [], []
    for row, cell in enumerate(column.tolist()):
        if not is_filled(cell):
            continue
        weights = weights_of(cell)
        if weights is None:
            raise _refuse(column, row, at, "hold names with weights, such as 'a:1 b:3'")
        for name, weight in weights.items():
            if name in places:
                rows.append(row)
                columns.append(places[name])
                values.append(weight)
    shape = (len(column), len(names))
    return sp.coo_array((np.array(values, dtype=np.float64), (rows, columns)), shape).tocsc()


_KINDS = {
    "yes-no": "yes or no",
    "amount": "a number with a unit",
    "date": "a date",
    "embedding": "an embedding",
    "sparse": "sparse numbers",
}
_FITS: dict[str, Callable[[pd.Series[Any], str], tuple[str, ...]]] = {
    "yes-no": _fit_yes_no,
    "amount": _fit_amount,
    "date": _fit_date,
    "embedding": _fit_embedding,
    "sparse": _fit_weights,
}
_DERIVERS: dict[str, Callable[[pd.Series[Any], Sequence[str], At], npt.NDArray[Any]]] = {
    "yes-no": _derive_yes_no,
    "amount": _derive_amount,
    "date": _derive_date,
    "embedding": _derive_embedding,
}
