"""Amounts: numbers that are written with a unit, such as "12 %", "$1,200", "1.200 EUR", "1:30:00".

Cells of a column enter; the unit and the decimal mark leave, and with these the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphconv.io.sniffing import number_pattern

_CODES = (
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR",
    "JPY", "KRW", "MXN", "NOK", "NZD", "PLN", "RUB", "SEK", "SGD", "TRY", "TWD", "USD", "ZAR",
)  # fmt: skip
_SIGNS = ("%", "‰", "$", "€", "£", "¥", "₹", "₽", "₩", "₺", "₪", "kr", "zł", "Kč", "Fr.")
_PARTS = ("%", "‰")
_UNIT = "|".join(re.escape(unit) for unit in (*_CODES, *_SIGNS))
_AMOUNT = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<before>{_UNIT})?\s*(?P<number>[+-]?\d(?:[\d.,'\u2019\s]*\d)?)"
    rf"\s*(?P<after>{_UNIT})?"
)
# "1:30:00", "7:05" and, as pandas writes it, "2 days 01:30:00.5".
_DURATION = re.compile(
    r"(?:(?P<days>-?\d+) days? \+?|(?P<sign>-?))(?P<first>\d+):(?P<minutes>[0-5]\d)"
    r"(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?|(?P<only_days>-?\d+) days?",
    re.ASCII,
)
_CLOCK, _TIME = "h:m", "h:m:s"
_BLANKS = re.compile(r"['\u2019\s]")


def amount_format(cells: Sequence[object]) -> tuple[str, ...]:
    """The unit and the decimal mark of some cells; nothing where they are no amounts of one unit.

    Examples
    --------
    >>> from graphconv.io._amounts import amount_format
    >>> amount_format(["$1,200", "$ 15.50"]), amount_format(["1.200 EUR", "800 EUR"])
    (('$', '.'), ('EUR', ','))
    >>> amount_format(["12 %", "7,5 %"]), amount_format(["12 kg", "7 kg"])
    (('%', ','), ())
    >>> amount_format(["0:59:30", "26:00:00"])
    ('h:m:s', '.')
    """
    clocks = {unit for unit in (_CLOCK, _TIME) if _are_durations(cells, unit)}
    if clocks:
        return clocks.pop(), "."
    units, numbers = set(), []
    for cell in cells:
        found = _AMOUNT.fullmatch(cell.strip()) if isinstance(cell, str) else None
        if found is None or (found["before"] and found["after"]):
            return ()
        units.add(found["before"] or found["after"] or "")
        numbers.append(_BLANKS.sub("", found["sign"] + found["number"]))
    named = units - {""}
    if len(named) != 1:
        return ()
    unit = named.pop()
    for decimal in _decimal_marks(numbers, unit):
        if all(_pattern(decimal).fullmatch(number) for number in numbers):
            return unit, decimal
    return ()


def _decimal_marks(numbers: Sequence[str], unit: str) -> tuple[str, str]:
    """Both marks, the likelier one first."""
    marks = {mark for number in numbers for mark in ".," if mark in number}
    if len(marks) != 1:
        return ".", ","
    (mark,) = marks
    other = "," if mark == "." else "."
    grouped = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+")
    looks_grouped = all(grouped.fullmatch(number) for number in numbers if mark in number)
    # "1.200 EUR" is more likely 1200 than 1.2; of shares, it is the other way round.
    return (other, mark) if looks_grouped and unit not in _PARTS else (mark, other)


def _pattern(decimal: str) -> re.Pattern[str]:
    return number_pattern(decimal, "," if decimal == "." else ".")


def _are_durations(cells: Sequence[object], unit: str) -> bool:
    return bool(cells) and all(_hours(str(cell).strip(), unit) is not None for cell in cells)


def _hours(cell: str, unit: str) -> float | None:
    """The hours of "1:30:00", and of "1:30" where all cells of the column are written so."""
    found = _DURATION.fullmatch(cell)
    if found is None:
        return None
    if found["only_days"]:
        return 24.0 * int(found["only_days"]) if unit == _TIME else None
    if (found["seconds"] is None) != (unit == _CLOCK):
        return None
    hours = int(found["first"]) + int(found["minutes"]) / 60 + float(found["seconds"] or 0) / 3600
    return 24 * int(found["days"] or 0) + (-hours if found["sign"] else hours)


def amount(cell: str, unit: str, decimal: str) -> float | None:
    """The number of a cell; None where it is none of that unit.

    Examples
    --------
    >>> from graphconv.io._amounts import amount
    >>> amount("-1.200,50 EUR", "EUR", ","), amount("12 %", "EUR", ",")
    (-1200.5, None)
    >>> amount("1:30:00", "h:m:s", "."), amount("1:30", "h:m", ".")
    (1.5, 1.5)
    """
    if unit in (_CLOCK, _TIME):
        return _hours(cell.strip(), unit)
    found = _AMOUNT.fullmatch(cell.strip())
    if found is None or not {found["before"], found["after"]} <= {unit, None}:
        return None
    number = _BLANKS.sub("", found["sign"] + found["number"])
    if not _pattern(decimal).fullmatch(number):
        return None
    other = "," if decimal == "." else "."
    return float(number.replace(other, "").replace(decimal, "."))
