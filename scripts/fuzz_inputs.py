"""Fuzzing, the inputs: valid files of every kind that graphconv reads, and ways to change them.

Changes know the structure: an array of an npz gets a wrong element or type and the archive is
packed again with a right checksum, JSON is changed as a tree, safetensors keep their header's
length. Bytes are changed blindly as well.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Change = Callable[[bytes, random.Random], bytes]
NUMBERS = (
    0, 1, -1, 2, 7, 255, 256, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**62, 2**63 - 1,
    -(2**63), 0.5, -0.0, 1e-320, 1e38, 1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", "a", "..", "../../x", "/etc/passwd", "a/b", "\x00", "\x1b[2J", "é", "\ud800", "=1+1",
    "NaN", "1e999", "0x10", "a" * 300, "\u202e", "[/b]", "'", '"', "\r\n", "1_000", "\u00a01",
)  # fmt: skip


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change, insert, repeat, cut or remove some bytes."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        place = rng.randrange(len(made) + 1)
        kind = rng.randrange(7)
        if kind == 0 and place < len(made):
            made[place] = rng.randrange(256)
        elif kind == 1 and place < len(made):
            made[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            made[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif kind == 3:
            del made[place : place + rng.randrange(1, 17)]
        elif kind == 4:
            other = rng.randrange(len(made) + 1)
            made[place:place] = made[other : other + rng.randrange(1, 33)]
        elif kind == 5:
            whole = [number for number in NUMBERS if isinstance(number, int)]
            made[place : place + 8] = struct.pack("<q", rng.choice(whole))
        else:
            del made[place:]
    return bytes(made)


def change_json(content: bytes, rng: random.Random) -> bytes:
    """Replace, remove or repeat a value anywhere in a tree."""
    tree = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        tree = _changed_tree(tree, rng)
    if rng.random() < 0.02:
        return b"[" * 50_000
    # A lone surrogate is no UTF-8, so it is written as an escape.
    return json.dumps(tree, ensure_ascii=True).encode()


def _changed_tree(tree: Any, rng: random.Random) -> Any:
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = node if isinstance(node, dict) else range(len(node))
        for key in list(keys):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    if isinstance(tree, dict | list):
        walk(tree)
    if not places or rng.random() < 0.03:
        return _any_value(rng)
    node, key = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, node[key])
    elif kind == 2 and isinstance(node, dict):
        node[rng.choice(TEXTS)] = _any_value(rng)
    else:
        node[key] = _any_value(rng)
    return tree


def _any_value(rng: random.Random) -> Any:
    plain = (None, True, False, [], {}, [[]], {"a": 1}, [1, "a"])
    return rng.choice((*plain, rng.choice(NUMBERS), rng.choice(TEXTS)))


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """Change an array of an archive and pack it again."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays: dict[str, Any] = dict(archive)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    kind = rng.randrange(7)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array.reshape(-1)[: rng.randrange(array.size + 1)]
    elif kind == 2:
        arrays[name] = np.concatenate([array.reshape(-1)] * 2)
    elif kind == 3:
        wanted = rng.choice(("f8", "i1", "u8", "U3", "c8", "?", "S2", "f2"))
        if array.dtype.kind not in "US" or wanted in ("U3", "S2"):
            arrays[name] = array.astype(wanted)
    elif kind == 4:
        others = (np.array(0), np.zeros((1, 1)), np.array(["x"]), array[..., None])
        arrays[name] = rng.choice(others)
    elif kind == 5:
        arrays[rng.choice(sorted(arrays))] = array
    elif array.size:
        changed = array.copy().reshape(-1)
        for _ in range(rng.choice((1, 1, 3))):
            _set(changed, rng.randrange(changed.size), rng)
        arrays[name] = changed.reshape(array.shape)
    made = io.BytesIO()
    with np.errstate(all="ignore"):
        np.savez(made, **arrays)
    return made.getvalue()


def _set(array: Any, place: int, rng: random.Random) -> None:
    """Give an element a value that some code may not expect, if its type holds one."""
    value: Any = rng.choice(TEXTS) if array.dtype.kind in "US" else rng.choice(NUMBERS)
    try:
        with np.errstate(all="ignore"):
            array[place] = value
    except (ValueError, OverflowError, UnicodeError):
        array.view(np.uint8)[place] = rng.randrange(256)


def change_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change the header as a tree, or numbers of the tensors."""
    (length,) = struct.unpack("<Q", content[:8])
    header, body = content[8 : 8 + length], content[8 + length :]
    if rng.random() < 0.6:
        header = change_json(header, rng)
    else:
        values = np.frombuffer(body[: len(body) // 4 * 4], "<f4").copy()
        if len(values):
            _set(values, rng.randrange(len(values)), rng)
        body = values.tobytes() + body[len(body) // 4 * 4 :]
    claimed = len(header) if rng.random() < 0.95 else rng.choice((0, 2**31, 2**63 - 1, length + 1))
    return struct.pack("<Q", claimed) + header + body


def change_array(content: bytes, rng: random.Random, kind: str) -> bytes:
    """Change numbers of a raw array."""
    values = np.frombuffer(content, kind).copy()
    for _ in range(rng.choice((1, 1, 3))):
        if len(values):
            _set(values, rng.randrange(len(values)), rng)
    return values.tobytes()


def change_words(content: bytes, rng: random.Random) -> bytes:
    """Change whole numbers of four bytes where they would be, as lengths and offsets are."""
    values = np.frombuffer(content[: len(content) // 4 * 4], "<i4").copy()
    for _ in range(rng.choice((1, 1, 3))):
        place = rng.randrange(len(values))
        near = int(values[place]) + rng.choice((-1, 1, 4, 8))
        values[place] = rng.choice((near, 0, 1, -1, 2**31 - 1, -(2**31), 2**16)) & 0x7FFFFFFF
    return values.tobytes() + content[len(values) * 4 :]


def change_zip(content: bytes, rng: random.Random) -> bytes:
    """Change a member of an archive and pack it again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    kind = rng.randrange(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[rng.choice(TEXTS) or "x"] = members[name]
    elif kind == 2:
        members[name] = change_bytes(members[name], rng)
    else:
        members[name] = change_text(members[name], rng)
    return zipped(members)


def change_tar(content: bytes, rng: random.Random) -> bytes:
    """Change a member of an archive and pack it again, perhaps compressed and then changed."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {
            member.name: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    name = rng.choice(sorted(members))
    members[name] = change_bytes(members[name], rng)
    kind = rng.choice(("", "gz", "bz2", "xz"))
    packed = tarred(members, kind)
    return change_bytes(packed, rng) if kind and rng.random() < 0.5 else packed


def change_text(content: bytes, rng: random.Random) -> bytes:
    """Replace, repeat or remove words and lines."""
    text = content.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines = text.split("\n")
        place = rng.randrange(len(lines))
        kind = rng.randrange(5)
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines.insert(place, rng.choice(lines))
        else:
            marks = [mark for mark in (",", '"', "<", ">", " ", "=", "\t") if mark in lines[place]]
            cells = lines[place].split(mark := rng.choice(marks)) if marks else [lines[place]]
            cells[rng.randrange(len(cells))] = str(rng.choice((*TEXTS, *NUMBERS)))
            lines[place] = (mark if marks else "").join(cells)
        text = "\n".join(lines) or " "
    return text.encode("utf-8", "surrogatepass")


def change_pickle(content: bytes, rng: random.Random) -> bytes:
    """Change a pickle's values before it is packed, or its opcodes."""
    if rng.random() < 0.5:
        return change_bytes(content, rng)
    opcodes = b"()]}.0123acdeghijlopqrstuNIJKLMRSTUVX\x80\x81\x85\x87\x88\x8a\x8b\x8c\x94\x95\x96"
    made = bytearray(content)
    place = rng.randrange(len(made))
    made[place : place + rng.randrange(2)] = bytes([rng.choice(opcodes)])
    return bytes(made)


def pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=4)


def zipped(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


def tarred(members: dict[str, bytes], compression: str = "") -> bytes:
    made = io.BytesIO()
    mode: Any = f"w:{compression}"
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()
