"""Where the files of named data sets are: the cache, the user's data folder, NELL in it."""

from __future__ import annotations

import os
from pathlib import Path

NELL_PREFIX = "ind.nell.0.001"
NELL_ARCHIVE = "nell_data.tar.gz"
_NELL_SUBFOLDERS = ("", "nell", "nell_data")


def cache_dir() -> Path:
    """The folder downloads are kept in: $GRAPHCONV_CACHE, or the user's cache folder."""
    chosen = os.environ.get("GRAPHCONV_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("graphconv", appauthor=False))


def data_folder(data_dir: str | Path | None) -> Path | None:
    """The folder of the user's own data: `data_dir`, else $GRAPHCONV_DATA, else None."""
    chosen, what = data_dir, "data_dir"
    if chosen is None:
        chosen, what = os.environ.get("GRAPHCONV_DATA") or None, "GRAPHCONV_DATA"
    if chosen is None:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{what} must name a folder, but there is none at {str(chosen)!r}")
    return folder


def find_nell(folder: Path) -> Path | None:
    """The folder or the archive that holds NELL in or below a data folder, or None."""
    for name in _NELL_SUBFOLDERS:
        if (folder / name / f"{NELL_PREFIX}.graph").is_file():
            return folder / name
    archives = (folder / name / NELL_ARCHIVE for name in _NELL_SUBFOLDERS)
    return next((archive for archive in archives if archive.is_file()), None)
