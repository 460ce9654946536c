"""Progress: how work that takes long tells how far it is, the same way everywhere.

Whatever may take long has a parameter `progress` and calls progress(what, done, total) now and
then. `total` is None where nobody knows it; both numbers are None for a remark.
"""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int | None, int | None], None]


def silent(what: str, done: int | None, total: int | None) -> None:
    """The progress of who does not want to know."""


def counter(progress: Progress, what: str, total: int | None) -> Callable[[int], None]:
    """For work that knows how much more is done, not how much in all.

    Examples
    --------
    >>> from graphconv.io.progress import counter
    >>> advance = counter(print, "writing", 30)
    >>> advance(10)
    writing 10 30
    >>> advance(20)
    writing 30 30
    """
    done = 0

    def advance(n_more: int) -> None:
        nonlocal done
        done += n_more
        progress(what, done, total)

    return advance
