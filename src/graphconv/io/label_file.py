"""Label file: labels that people give one after the other, none of which may be lost.

A CSV file that only grows. Each line says when, which node, which label, who and how; the last line
about a node holds. What was taken back is not erased: a line of kind "undo" says what holds again.
A line is on the disk before `append` returns, and a line that a crash cut short is removed when the
file is opened again: nobody was told that it was saved.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from graphconv.io.delimited import unreadable_as_value_error
from graphconv.io.sniffing import sniff_text_format
from graphconv.io.wording import one_line, shown

try:
    import fcntl
except ImportError:  # only where there is no such lock; two servers are then not told apart
    fcntl = None  # type: ignore[assignment]

COLUMNS = ("time", "node", "label", "who", "how", "action")
# asked: the question was chosen because it teaches most; random: drawn among all unlabelled nodes;
# chosen: the person picked the node.
KINDS = ("asked", "random", "chosen", "skip", "undo")


class LabelLine(NamedTuple):
    """One line of a label file.

    Parameters
    ----------
    time : str
        ISO 8601, in UTC.
    node : str
        The node's id as text.
    label : str
        The class's name; empty if the node has none from now on.
    who : str
    how : str
        One of `KINDS`.
    action : int
        Lines that were given at once share the number; that of an "undo" is what it takes back.
    """

    time: str
    node: str
    label: str
    who: str
    how: str
    action: int


class LabelFile:
    """A label file that is open for more lines; one process at a time.

    Parameters
    ----------
    path : Path
        Made if it is not there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from graphconv.io.label_file import LabelFile, LabelLine, read_label_lines
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with LabelFile(path) as file:
    ...     file.append([LabelLine("2026-01-01T12:00:00Z", "ann", "red", "me", "asked", 1)])
    >>> [(line.node, line.label) for line in read_label_lines(path)]
    [('ann', 'red')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            size = os.fstat(self._file).st_size
            whole = _end_of_whole_lines(path)
            if whole < size:
                os.ftruncate(self._file, whole)
            if whole == 0:
                self._write(_text([COLUMNS]))
            written = sniff_text_format(path)
            if written.delimiter != "," or written.encoding != "utf-8-sig":
                raise ValueError(
                    f"{path} must have columns separated by commas and text in UTF-8 to be added "
                    f"to, but has {' and '.join(written.surprises())}"
                )
            self.lines = read_label_lines(path)
        except BaseException:
            os.close(self._file)
            raise
        if is_new:
            _sync_folder(path.parent)

    def __enter__(self) -> LabelFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def append(self, lines: Sequence[LabelLine]) -> None:
        """Write lines, all or none; they are on the disk when this returns."""
        self._write(_text(lines))

    def _write(self, text: bytes) -> None:
        before = os.fstat(self._file).st_size
        try:
            # A disk that becomes full takes a part; asking for the rest names the reason.
            while text:
                text = text[os.write(self._file, text) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(
                f"{self.path} must be used by one process at a time, but another one has it open"
            ) from None


def read_label_lines(path: Path) -> list[LabelLine]:
    """All lines of a label file, the oldest first.

    Only the columns `node` (or `id`) and `label` are needed, so that a table of another program
    serves as well, with its own delimiter and encoding.
    """
    with unreadable_as_value_error(path.name):
        written = sniff_text_format(path)
        with path.open(encoding=written.encoding, newline="") as file:
            return _lines(csv.DictReader(file, delimiter=written.delimiter, strict=True), path.name)


def _lines(reader: csv.DictReader[str], where: str) -> list[LabelLine]:
    try:
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        key = "node" if "node" in names else "id"
        for needed in (key, "label"):
            if needed not in names:
                raise ValueError(
                    f"{where} must have the columns node (or id) and label, got "
                    f"{one_line(', '.join(names)) or 'none'}"
                )
        return [_line(row, key, f"{where}, line {reader.line_num}") for row in reader]
    except csv.Error as error:
        raise ValueError(f"{where} must be a CSV file: {error}") from None


def latest_labels(lines: Sequence[LabelLine]) -> dict[str, LabelLine]:
    """The line that holds for each node; nodes whose label was taken back are not in it.

    How the node was met stays that of the first answer: a random question that was answered
    again later is still a random one.
    """
    holding: dict[str, LabelLine] = {}
    for line in lines:
        if not line.label:
            holding.pop(line.node, None)
            continue
        first = holding.get(line.node)
        how = line.how if first is None else first.how
        holding[line.node] = line._replace(how=how)
    return holding


def _line(row: dict[str, str | None], key: str, where: str) -> LabelLine:
    node, label = row[key], row["label"]
    if not node or label is None or None in row:
        raise ValueError(f"{where}: a line must have a node and a label, got {shown(node)}")
    how = row.get("how") or "chosen"
    action = row.get("action") or "0"
    if how not in KINDS or not action.isdecimal():
        raise ValueError(
            f"{where}: how must be one of {', '.join(KINDS)} and action a number, got "
            f"{shown(how)} and {shown(action)}"
        )
    return LabelLine(
        row.get("time") or "", node, label.strip(), row.get("who") or "", how, int(action)
    )


def _text(rows: Sequence[Sequence[object]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    text = buffer.getvalue()
    if text.count("\n") != len(rows) or "\r" in text:
        raise ValueError("node ids, labels and names must be without line breaks")
    return text.encode()


def _end_of_whole_lines(path: Path) -> int:
    content = path.read_bytes()
    return content.rfind(b"\n") + 1


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder can't be opened
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
