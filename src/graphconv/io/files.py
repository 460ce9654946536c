"""Writing files so that a reader never sees half of one, whatever happens in between."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphconv.io.wording import naming

# All that the folder of a training may hold; one with anything else in it is not replaced.
REPORT_FILE = "report.html"
RESULT_FILES = (
    "model.json",
    "model.safetensors",
    "graph.npz",
    "splits.npz",
    "predictions.csv",
    "predictions.csv.json",
    "predictions.parquet",
    "results.json",  # of a baseline, before these were saved as models
    "out_of_fold.npz",
    "provenance.json",
    REPORT_FILE,
)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary path that takes the place of `path` once the block is through.

    If the block fails, `path` is as it was and nothing is left behind. The name is kept, since
    writers go by its suffix, in a folder of its own beside `path`, since some of them write to
    further files first.
    """
    path = _place_for(path)
    with _temporary_folder(path) as folder:
        yield folder / path.name
        _flush_to_disk(folder / path.name)
        os.replace(folder / path.name, path)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same for a folder: what is written into the temporary one appears at once, or never."""
    path = _place_for(path)
    with _temporary_folder(path) as folder:
        yield folder
        put_in_place(folder, path)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` that is gone after the block, or else when `path` is written again."""
    remove_leftovers(path)
    folder = path.with_name(f".{path.name}.{_process(os.getpid())}.new")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with _naming(path):
            folder.mkdir()
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(new: Path, path: Path) -> None:
    """Let a finished folder take the name `path`; what had that name is then called `new`.

    There is one folder or the other under `path` at every moment, where the system can exchange
    two names. Elsewhere there is none for an instant; `remove_leftovers` puts the old one back if
    the process dies just then.
    """
    for file in new.rglob("*"):
        if file.is_file():
            _flush_to_disk(file)
    if not path.exists():
        os.replace(new, path)
    elif not _exchange(new, path):
        old = path.with_name(f".{path.name}.{_process(os.getpid())}.old")
        os.replace(path, old)
        try:
            os.replace(new, path)
        except OSError:
            os.replace(old, path)
            raise
        os.replace(old, new)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or its disk can't."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # a C library without it
        return False
    here, is_exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(here, os.fsencode(one), here, os.fsencode(other), is_exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def check_replaceable(folder: Path) -> None:
    """Refuse to write over a folder that is not the result of an earlier training."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} must be a folder to write the model to, but is a file")
    for file in folder.iterdir():
        if _is_leftover(file):
            _remove(file)
    others = sorted(file.name for file in folder.iterdir() if file.name not in RESULT_FILES)
    if others:
        raise FileExistsError(
            f"{folder} must be a new or empty folder, or an earlier model, but holds other files "
            f"({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})"
        )


def check_writable(output: Path) -> None:
    """Find out before the work, not after it, that nothing can be written."""
    place = Path(os.path.realpath(output))
    if place.is_symlink():
        raise ValueError(f"{output} must lead to a folder, but is a link that leads to itself")
    if place.is_mount() or place == Path.cwd():
        kind = "a mount point" if place.is_mount() else "the current folder"
        message = "{output} must not be {} itself ({}): name a folder in it"
        raise ValueError(naming(message, kind, output))
    folder = place.parent
    while not folder.exists():
        folder = folder.parent
    try:
        # Permissions do not tell: root has them all, on a read-only file system too.
        remove_leftovers(folder / "attempt")
        attempt = folder / f".attempt.{_process(os.getpid())}.new"
        attempt.mkdir(exist_ok=True)
        attempt.rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            naming("{output} must be where files can be written, got {}: {}", output, reason)
        ) from None


def json_text(values: Any, indent: int | None = None) -> str:
    """Values as JSON that every reader accepts: NaN and infinities are null.

    Examples
    --------
    >>> from graphconv.io.files import json_text
    >>> json_text({"loss": float("nan"), "widths": (16, 7)})
    '{"loss": null, "widths": [16, 7]}'
    """
    return json.dumps(_plain(values), indent=indent, allow_nan=False)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a ValueError of one line that names the file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path} must be JSON, but is nested too deeply") from None
    except ValueError as error:  # of the text or its encoding
        raise ValueError(f"{path} must be JSON, but can't be read: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(values).__name__}")
    return values


def file_checksum(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """BLAKE2b of a file, read a block at a time; `advance` is told how many bytes were."""
    digest = hashlib.blake2b()
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            digest.update(block)
            if advance is not None:
                advance(len(block))
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def _place_for(path: Path) -> Path:
    """Where a link leads, or the link would be replaced instead; its folder is made."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def remove_leftovers(path: Path) -> None:
    """Tidy up after processes that were killed while writing to `path`.

    A folder that was to be replaced comes back, if the new one never came; all else goes.
    """
    path = Path(os.path.realpath(path))
    for end in (".old", ".new"):
        for other in path.parent.glob(f".{glob.escape(path.name)}.graphconv-*{end}"):
            if not _is_leftover(other):
                continue
            if end == ".old" and not path.exists():
                os.replace(other, path)
            else:
                _remove(other)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_leftover(path: Path) -> bool:
    """Whether a file is a temporary one of a process that is gone."""
    found = re.fullmatch(r"\..*\.graphconv-(\d+(?:-\d+)?)(?:\.[^.]*)?", path.name, re.DOTALL)
    return found is not None and not _is_running(found[1])


def _process(number: int) -> str:
    """A process, as temporary names have it: its number and, where the system tells, its beginning.

    Numbers are used again. The program's name keeps the files apart from anybody's own.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return f"graphconv-{number}"
    # Its name, in brackets, may hold anything; the 20th field after it counts from the boot.
    return f"graphconv-{number}-{stat.rpartition(')')[2].split()[19]}"


def _is_running(owner: str) -> bool:
    """Whether a process that `_process` has named is still there."""
    if os.name != "posix":  # elsewhere there is no way to ask without disturbing it
        return True
    number = int(owner.partition("-")[0])
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's, so there is one
        pass
    now = _process(number).removeprefix("graphconv-")
    # Without a beginning of both, the number must do.
    return now == owner or "-" not in now or "-" not in owner


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk is reported without a name, or with that of a temporary file: name `path`."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, "No space left on device", str(path)) from error


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
