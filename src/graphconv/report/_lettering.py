"""Lettering: text of any script in a picture, without the empty boxes of a font that lacks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

# Where matplotlib's own font ends: families that many machines have, for East Asian scripts first.
_MORE_FAMILIES = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Noto Sans KR",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "IPAGothic",
    "Hiragino Sans",
    "PingFang SC",
    "Apple SD Gothic Neo",
    "Yu Gothic",
    "Microsoft YaHei",
    "SimHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Sans",
)


@cache
def families() -> tuple[str, ...]:
    """Families to draw with: matplotlib's own, then those of this machine that know more."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in _MORE_FAMILIES if name in installed))


@cache
def _charmaps() -> tuple[frozenset[int], ...]:
    """Letters that each of the families has, as code points."""
    found = []
    for family in families():
        path = font_manager.findfont(font_manager.FontProperties(family=[family]))
        found.append(frozenset(FT2Font(path).get_charmap()))
    return tuple(found)


def drawable(text: object) -> str:
    """Text whose letters the fonts have; of others the code, which can be looked up.

    Examples
    --------
    >>> from graphconv.report._lettering import drawable
    >>> drawable("Ελένη"), drawable("\U000f0000!")
    ('Ελένη', 'U+F0000 !')
    """
    letters = []
    for letter in str(text):
        is_known = letter.isspace() or any(ord(letter) in known for known in _charmaps())
        letters.append(letter if is_known else f"U+{ord(letter):04X} ")
    return "".join(letters).strip() if text else ""


def shortened(text: object, width: int) -> str:
    """At most so many characters, without some of the middle: both ends tell names apart.

    Examples
    --------
    >>> from graphconv.report._lettering import shortened
    >>> shortened("customer-000017", 11), shortened("short", 11)
    ('custo…00017', 'short')
    """
    given = str(text)
    if len(given) <= width:
        return given
    n_end = (width - 1) // 2
    return f"{given[: width - 1 - n_end].rstrip()}…{given[-n_end:].lstrip()}"


def shortened_apart(names: Iterable[object], width: int) -> dict[object, str]:
    """Names of at most so many characters, without what all begin and end with if need be.

    Examples
    --------
    >>> from graphconv.report._lettering import shortened_apart
    >>> shortened_apart(["Customer no. 17 in Cologne", "Customer no. 9 in Cologne"], 14)
    {'Customer no. 17 in Cologne': '…17…', 'Customer no. 9 in Cologne': '…9…'}
    """
    short = {name: shortened(name, width) for name in names}
    if len(set(short.values())) == len(short):
        return short
    start = _n_alike([str(name) for name in short])
    rests = {name: str(name)[start:] for name in short}
    end = _n_alike([rest[::-1] for rest in rests.values()])
    before, after = "…" * bool(start), "…" * bool(end)
    return {
        name: f"{before}{shortened(rest[: len(rest) - end], width)}{after}"
        for name, rest in rests.items()
    }


def _n_alike(texts: Sequence[str]) -> int:
    """How many letters all of some texts begin with."""
    letters = zip(*texts, strict=False)  # up to the end of the shortest
    return sum(1 for _ in takewhile(lambda alike: len(set(alike)) == 1, letters))
