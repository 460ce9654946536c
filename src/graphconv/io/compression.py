"""Compression: a file is opened unpacked, by what its suffix says."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

# What unpacking a file may take, whatever it claims; `xz -9` asks for 65 MB.
XZ_BYTES = 256 << 20


class _XzFile(io.RawIOBase):
    """Streams of xz, one after the other. That of lzma takes as much memory as the file claims."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._stream = lzma.LZMADecompressor(memlimit=XZ_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        found = b""
        while not found:
            if self._stream.eof:
                packed = (self._stream.unused_data or self._file.read(1 << 16)).lstrip(b"\0")
                if not packed:
                    return 0
                self._stream = lzma.LZMADecompressor(memlimit=XZ_BYTES)
            else:
                packed = self._file.read(1 << 16) if self._stream.needs_input else b""
                if not packed and self._stream.needs_input:
                    raise EOFError("compressed file ended before the end-of-stream marker")
            found = self._stream.decompress(packed, len(into))
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_xz(path: Path, mode: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_XzFile(path)))


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
            if archive.getinfo(names[0]).compress_type == zipfile.ZIP_LZMA:
                # It would take as much memory as the file claims.
                raise ValueError(f"{path.name} must be packed as zip usually is, got LZMA in it")
            return cast(BinaryIO, archive.open(names[0]))
    except (zipfile.BadZipFile, RuntimeError) as error:  # encrypted, or packed in another way
        raise ValueError(f"{path.name} cannot be unpacked: {error}") from None


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": _open_xz,
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
