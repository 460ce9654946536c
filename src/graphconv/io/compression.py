"""Compression: a file is opened unpacked, by what its suffix says."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast


def _open_zstd(path: Path, mode: str) -> BinaryIO:
    import pyarrow as pa

    return cast(BinaryIO, pa.input_stream(str(path), compression="zstd"))


def _open_zip(path: Path, mode: str) -> BinaryIO:
    """The only file of a zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"{path.name} must hold one file, got {len(names)}")
            return cast(BinaryIO, archive.open(names[0]))
    except (zipfile.BadZipFile, RuntimeError) as error:  # encrypted, or packed in another way
        raise ValueError(f"{path.name} cannot be unpacked: {error}") from None


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
    ".zip": _open_zip,
}


def open_binary(path: Path) -> BinaryIO:
    """Open a file, unpacking it if its suffix says that it is compressed."""
    opener = OPENERS.get(path.suffix.lower())
    return cast(BinaryIO, opener(path, "rb") if opener else path.open("rb"))


def plain_suffix(path: Path) -> str:
    """The suffix of a file in lower case, that of the packed file where it is compressed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from graphconv.io.compression import plain_suffix
    >>> plain_suffix(Path("nodes.CSV.gz"))
    '.csv'
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in OPENERS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
