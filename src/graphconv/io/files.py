"""Writing files so that a reader never sees half of one, whatever happens in between."""

from __future__ import annotations

import errno
import glob
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# All that the folder of a training may hold; one with anything else in it is not replaced.
REPORT_FILE = "report.html"
RESULT_FILES = (
    "model.json",
    "model.safetensors",
    "graph.npz",
    "splits.npz",
    "predictions.csv",
    "predictions.parquet",
    "results.json",
    REPORT_FILE,
)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place once the block is through.

    If the block fails, `path` is as it was and nothing is left behind. The suffix is kept, since
    writers go by it.
    """
    path = _place_for(path)
    remove_leftovers(path)
    temporary = path.with_name(f".{path.stem}.{_process(os.getpid())}{path.suffix}")
    try:
        with _naming(path):
            yield temporary
            _flush_to_disk(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same for a folder: what is written into the temporary one appears at once, or never."""
    path = _place_for(path)
    remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{_process(os.getpid())}.new")
    old = path.with_name(f".{path.name}.{_process(os.getpid())}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with _naming(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _flush_to_disk(file)
            if path.exists():
                os.replace(path, old)
            try:
                os.replace(temporary, path)
            except OSError:
                if old.exists():
                    os.replace(old, path)
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_replaceable(folder: Path) -> None:
    """Refuse to write over a folder that is not the result of an earlier training."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} must be a folder to write the model to, but is a file")
    others = sorted(file.name for file in folder.iterdir() if file.name not in RESULT_FILES)
    if others:
        raise FileExistsError(
            f"{folder} must be a new or empty folder, or an earlier model, but holds other files "
            f"({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})"
        )


def check_writable(output: Path) -> None:
    """Find out before the work, not after it, that nothing can be written."""
    place = Path(os.path.realpath(output))
    if place.is_mount() or place == Path.cwd():
        kind = "a mount point" if place.is_mount() else "the current folder"
        raise ValueError(f"--output must not be {kind} itself ({output}): name a folder in it")
    folder = place.parent
    while not folder.exists():
        folder = folder.parent
    try:
        # Permissions do not tell: root has them all, on a read-only file system too.
        os.rmdir(tempfile.mkdtemp(prefix=".graphconv-", dir=folder))
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            f"--output must be where files can be written, got {output}: {reason}"
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
    """Remove what processes that were killed while writing to `path` have left beside it."""
    path = Path(os.path.realpath(path))
    for start, end in ((path.stem, path.suffix), (path.name, ".new"), (path.name, ".old")):
        if end == ".old" and not path.exists():
            continue  # killed just when the new folder was to take its place: all there is
        for other in path.parent.glob(f".{glob.escape(start)}.*{glob.escape(end)}"):
            owner = other.name.removeprefix(f".{start}.").removesuffix(end)
            if not re.fullmatch(r"\d+(-\d+)?", owner) or _is_running(owner):
                continue
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)


def _process(number: int) -> str:
    """A process: its number and, where the system tells, when it began; numbers are used again."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return str(number)
    # Its name, in brackets, may hold anything; the 20th field after it counts from the boot.
    return f"{number}-{stat.rpartition(')')[2].split()[19]}"


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
    now = _process(number)
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
