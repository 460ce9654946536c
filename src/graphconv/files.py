"""Writing files so that a reader never sees half of one, whatever happens in between."""

from __future__ import annotations

import errno
import glob
import json
import math
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place once the block is through.

    If the block fails, `path` is as it was and nothing is left behind. The suffix is kept, since
    writers go by it.
    """
    path = _place_for(path)
    _remove_leftovers(path, f".{path.stem}.", path.suffix)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
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
    _remove_leftovers(path, f".{path.name}.", ".new")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with _naming(path):
            temporary.mkdir()
            yield temporary
            for file in temporary.iterdir():
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


def check_replaceable(folder: Path, known: Collection[str]) -> None:
    """Refuse to write over something that is not an earlier result with the `known` files."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} must be a folder to write the model to, but is a file")
    others = sorted(file.name for file in folder.iterdir() if file.name not in known)
    if others:
        raise FileExistsError(
            f"{folder} must be a new or empty folder, or an earlier model, but holds other files "
            f"({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})"
        )


def json_text(values: Any, indent: int | None = None) -> str:
    """Values as JSON that every reader accepts: NaN and infinities are null.

    Examples
    --------
    >>> from graphconv.files import json_text
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


def _remove_leftovers(path: Path, prefix: str, suffix: str) -> None:
    """Remove what processes that were killed while writing to `path` have left behind."""
    for other in path.parent.glob(f"{glob.escape(prefix)}*{glob.escape(suffix)}"):
        number = other.name.removeprefix(prefix).removesuffix(suffix)
        if not number.isdecimal() or _is_running(int(number)):
            continue
        if other.is_dir():
            shutil.rmtree(other, ignore_errors=True)
        else:
            other.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere there is no way to ask without disturbing it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's, so there is one
        pass
    return True


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
