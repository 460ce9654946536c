"""Array files: arrays by name in an npz file, the same bytes for the same arrays.

What is read may be anybody's: it must not claim more memory than its size explains, and whatever is
wrong with it is a ValueError.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from graphconv.io.files import replacing_file
from graphconv.io.wording import one_line, shown

# A file may unpack to this many bytes, or to so many times its size.
_MOST_UNPACKED, _MOST_PACKING = 1 << 29, 50


def write_arrays(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], *, compressed: bool = True
) -> None:
    """Write an npz file, whole or not at all; nothing in it is a pickle.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrays(Path(folder) / "a.npz", {"x": np.arange(3)})
    ...     np.load(Path(folder) / "a.npz")["x"]
    array([0, 1, 2])
    """
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with replacing_file(path) as new, zipfile.ZipFile(new, "w", method) as archive:
        for name, array in arrays.items():
            # numpy's own writer would put the time of writing into the file.
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            info.create_system = 3  # the same byte on every platform
            with archive.open(info, "w", force_zip64=array.nbytes > 1 << 30) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def read_arrays(file: Path | IO[bytes]) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an npz file; none of them is a pickle.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrays(Path(folder) / "a.npz", {"x": np.arange(3)})
    ...     read_arrays(Path(folder) / "a.npz")
    {'x': array([0, 1, 2])}
    """
    if isinstance(file, Path):
        with file.open("rb") as handle:
            return read_arrays(handle)
    check_unpacked_size(file)
    try:
        with np.load(file, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(one_line(error) or type(error).__name__) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy hands out other files of the archive as bytes
            raise ValueError(f"{shown(name)} in it must be an array")
    return arrays


def check_unpacked_size(file: IO[bytes]) -> None:
    """Refuse an archive that would unpack to far more than its size explains."""
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no zip archive")
    packed = file.seek(0, io.SEEK_END)
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(one_line(error)) from None
    if claimed > max(_MOST_UNPACKED, _MOST_PACKING * packed):
        raise ValueError(
            f"it would unpack from {packed / 1e6:.1f} MB to {claimed / 1e9:.1f} GB, too much"
        )
    file.seek(0)
