"""Array files: arrays by name in an npz file, the same bytes for the same arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphconv.io.files import replacing_file


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
